//! `aj`: the history of all your coding agents.

mod args;
mod commands;
mod context;
mod error;
mod homes;
mod output;
mod settings;
mod tui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::of_process();
    args.color.write_global();
    match commands::run(args) {
        Ok(code) => code,
        Err(failure) => error::report(&failure),
    }
}
