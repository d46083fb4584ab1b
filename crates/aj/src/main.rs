//! `aj`: the history of all your coding agents.

mod args;
mod commands;
mod context;
mod error;
mod homes;
mod mcp;
#[cfg(target_os = "linux")]
mod memory;
mod output;
mod settings;
mod tui;
mod web;
mod zone;

use std::process::ExitCode;

fn main() -> ExitCode {
    tell_panics();
    let args = args::Args::of_process();
    args.color.write_global();
    let code = match commands::run(args) {
        Ok(code) => code,
        Err(failure) => error::report(&failure),
    };
    #[cfg(target_os = "linux")]
    memory::leave();
    code
}

/// A damaged index is made anew: that its reader panicked is nothing a user has to know. Its
/// writer cannot go on, and the next command mends it.
fn tell_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if agent_journal::is_guarded() {
            return;
        }
        if let Some(damage) = agent_journal::fatal_damage() {
            error::report(&damage.into());
            std::process::exit(2);
        }
        tell(panic);
    }));
}
