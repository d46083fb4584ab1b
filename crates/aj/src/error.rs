//! Prints errors: the failed action, the reason, a hint. Exit codes: 0 found, 1 nothing found, 2
//! error.

use std::io::{self, Write};
use std::process::ExitCode;

use agent_journal::Error;
use anstyle::{AnsiColor, Style};

use crate::output::plain_text;

/// Exit code of a command that found or did something.
pub(crate) const FOUND: ExitCode = ExitCode::SUCCESS;

/// Returns the exit code of a command that may find nothing.
pub(crate) fn found_exit_code(any: bool) -> ExitCode {
    if any { FOUND } else { ExitCode::from(1) }
}

/// Prints an error and returns the exit code.
pub(crate) fn report_error(failure: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(failure) {
        return FOUND;
    }
    let red = AnsiColor::Red.on_default();
    let mut stderr = anstream::stderr().lock();
    // Failures are ignored: if stderr is closed, nothing can be reported.
    let _ = writeln!(stderr, "{red}aj:{red:#} {}", plain_text(&causes_on_one_line(failure)));
    for line in hints_for(failure) {
        let _ = writeln!(stderr, "    {}", plain_text(&line));
    }
    let is_unknown = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(Error::UnknownSession { .. }))
    };
    if failure.chain().any(is_unknown) { found_exit_code(false) } else { ExitCode::from(2) }
}

/// Returns an error with its causes in one line.
pub(crate) fn causes_on_one_line(failure: &anyhow::Error) -> String {
    let mut message = failure.to_string();
    for cause in failure.chain().skip(1) {
        let cause = cause.to_string().replace('\n', " ");
        if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Prints why an answer is empty, also without a terminal: otherwise an agent or a script could not
/// distinguish it from a failure.
pub(crate) fn print_nothing_found(message: &str) -> ExitCode {
    let _ = writeln!(anstream::stderr(), "{}", plain_text(message));
    found_exit_code(false)
}

/// Prints a warning.
pub(crate) fn print_warning(message: &str) {
    let yellow = AnsiColor::Yellow.on_default();
    let _ = writeln!(anstream::stderr(), "{yellow}aj:{yellow:#} {}", plain_text(message));
}

/// Prints a dimmed remark, only on a terminal.
pub(crate) fn print_remark(message: &str) {
    use std::io::IsTerminal;
    if io::stderr().is_terminal() {
        let dim = Style::new().dimmed();
        let _ = writeln!(anstream::stderr(), "{dim}{}{dim:#}", plain_text(message));
    }
}

/// Prints a dimmed notice, also without a terminal.
pub(crate) fn print_notice(message: &str) {
    let dim = Style::new().dimmed();
    let _ = writeln!(anstream::stderr(), "{dim}aj: {}{dim:#}", plain_text(message));
}

fn is_closed_pipe(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Returns hints on how to fix an error.
pub(crate) fn hints_for(failure: &anyhow::Error) -> Vec<String> {
    let Some(error) = failure.chain().find_map(|cause| cause.downcast_ref::<Error>()) else {
        return Vec::new();
    };
    match error {
        Error::Damaged { path, .. } => vec![format!(
            "move {} away and run `aj index`, which reads all existing session files again",
            path.display()
        )],
        Error::Newer { .. } => vec!["update aj, or set AJ_HOME to another directory".to_owned()],
        Error::Busy { .. } => vec!["wait until that process ends, or stop it".to_owned()],
        Error::Full { .. } => {
            vec!["free some space and run the command again; no data is lost".to_owned()]
        }
        Error::Read { source, .. } | Error::Write { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => vec!["check that the path exists".to_owned()],
            io::ErrorKind::PermissionDenied => {
                vec!["grant yourself permission to use it".to_owned()]
            }
            _ => Vec::new(),
        },
        Error::Store { .. } => {
            vec!["check that the file exists and that you have permission to use it".to_owned()]
        }
        Error::Index { path, .. } => {
            let path = path.display();
            vec![format!("run `aj index` to rebuild {path} from the journal")]
        }
        Error::UnknownSession { .. } => {
            vec!["`aj list --all` lists all sessions with their ids".to_owned()]
        }
        Error::AmbiguousSession { candidates, .. } => {
            candidates.iter().map(|(id, title)| format!("{id}  {title}")).collect()
        }
        _ => Vec::new(),
    }
}
