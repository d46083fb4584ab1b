//! Runs a command again when the search engine meets a damaged index file while it writes. The
//! panic of an engine's thread cannot be caught, but a new process finds the marker of the
//! interrupted writer and rebuilds the index.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::AjCommand;

/// The environment variable of a process that was restarted. It is not restarted again.
const RESTARTED: &str = "AJ_RESTARTED";

/// Whether the command has printed nothing yet and reads nothing from standard input.
static IS_RESTARTABLE: AtomicBool = AtomicBool::new(false);

/// Allows a restart of commands that read new sessions, then print one answer.
pub(crate) fn allow_restart_of(command: &AjCommand) {
    let is_restartable = match command {
        AjCommand::Search(_)
        | AjCommand::List(_)
        | AjCommand::Show(_)
        | AjCommand::Handoff(_)
        | AjCommand::Blame(_)
        | AjCommand::Files(_)
        | AjCommand::Stats(_)
        | AjCommand::Score(_)
        | AjCommand::Export(_)
        | AjCommand::Sources(_) => true,
        AjCommand::Index(args) => !args.is_endless(),
        _ => false,
    };
    IS_RESTARTABLE.store(is_restartable, Ordering::Relaxed);
}

/// Forbids a restart, because the answer is printed now.
pub(crate) fn forbid_restart() {
    IS_RESTARTABLE.store(false, Ordering::Relaxed);
}

/// Replaces this process by a new one with the same arguments. Returns if that is not possible.
pub(crate) fn restart_if_possible() {
    #[cfg(unix)]
    if IS_RESTARTABLE.load(Ordering::Relaxed)
        && std::env::var_os(RESTARTED).is_none()
        && let Ok(program) = std::env::current_exe()
    {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new(program);
        // Only returns if it fails; the caller then reports the damage.
        let _ = command.args(std::env::args_os().skip(1)).env(RESTARTED, "1").exec();
    }
}
