//! `aj`: the history of all your coding agents.

mod args;
mod blame;
mod commands;
mod context;
mod documents;
mod error;
mod homes;
mod mcp;
mod output;
mod query_fields;
mod restart;
mod resume;
mod session_filter;
mod settings;
mod tui;
mod web;
mod zone;

use std::process::ExitCode;

/// The allocator of musl makes threads wait for each other, and with that of glibc a history takes a
/// twentieth longer to read.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    install_panic_hook();
    let args = args::GlobalArgs::of_process();
    args.color.write_global();
    match commands::run_command(args) {
        Ok(code) => code,
        Err(failure) => error::report_error(&failure),
    }
}

/// Installs a panic hook. A panic while reading a damaged index is not shown, because the index is
/// rebuilt. After a panic of the index writer, a new process repairs the index and runs the command;
/// if the command has begun to print, it ends with an error, and the next command repairs the index.
fn install_panic_hook() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if agent_journal::is_guarded() {
            return;
        }
        if let Some(damage) = agent_journal::fatal_damage() {
            restart::restart_if_possible();
            error::report_error(&damage.into());
            std::process::exit(2);
        }
        default_hook(panic);
    }));
}
