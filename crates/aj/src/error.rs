//! Errors as people read them: what was attempted, why it failed, what to do. Exit codes: 0 found,
//! 1 nothing found, 2 error.

use std::io::{self, Write};
use std::process::ExitCode;

use agent_journal::Error;
use anstyle::{AnsiColor, Style};

use crate::output::plain;

/// Something was found or done.
pub(crate) const FOUND: ExitCode = ExitCode::SUCCESS;

/// The exit code of an answer.
pub(crate) fn found(any: bool) -> ExitCode {
    if any { FOUND } else { ExitCode::from(1) }
}

/// Tells an error and chooses the exit code.
pub(crate) fn report(failure: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(failure) {
        return FOUND;
    }
    let red = AnsiColor::Red.on_default();
    let mut stderr = anstream::stderr().lock();
    // With stderr closed there is nobody left to tell.
    let _ = writeln!(stderr, "{red}aj:{red:#} {}", plain(&one_line(failure)));
    for line in hints(failure) {
        let _ = writeln!(stderr, "    {}", plain(&line));
    }
    let is_unknown = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(Error::UnknownSession { .. }))
    };
    if failure.chain().any(is_unknown) { found(false) } else { ExitCode::from(2) }
}

/// Returns an error with its causes, in one line.
pub(crate) fn one_line(failure: &anyhow::Error) -> String {
    let mut message = failure.to_string();
    for cause in failure.chain().skip(1) {
        let cause = cause.to_string().replace('\n', " ");
        if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Says that an answer is empty, and why, also where nobody looks at a terminal: an agent or a
/// script could not tell it from a failure otherwise.
pub(crate) fn nothing_found(message: &str) -> ExitCode {
    let _ = writeln!(anstream::stderr(), "{}", plain(message));
    found(false)
}

/// Tells something that does not stop the command.
pub(crate) fn warn(message: &str) {
    let yellow = AnsiColor::Yellow.on_default();
    let _ = writeln!(anstream::stderr(), "{yellow}aj:{yellow:#} {}", plain(message));
}

/// Tells something small, on a terminal only.
pub(crate) fn remark(message: &str) {
    use std::io::IsTerminal;
    if io::stderr().is_terminal() {
        let dim = Style::new().dimmed();
        let _ = writeln!(anstream::stderr(), "{dim}{}{dim:#}", plain(message));
    }
}

/// Says something small, wherever standard error goes.
pub(crate) fn notice(message: &str) {
    let dim = Style::new().dimmed();
    let _ = writeln!(anstream::stderr(), "{dim}aj: {}{dim:#}", plain(message));
}

fn is_closed_pipe(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// What helps against an error, as far as that is known.
pub(crate) fn hints(failure: &anyhow::Error) -> Vec<String> {
    let Some(error) = failure.chain().find_map(|cause| cause.downcast_ref::<Error>()) else {
        return Vec::new();
    };
    match error {
        Error::Damaged { path, .. } => vec![format!(
            "move {} away and run `aj index`: sessions whose files are still there are read again",
            path.display()
        )],
        Error::Newer { .. } => vec!["update aj, or set AJ_HOME to another directory".to_owned()],
        Error::Busy { .. } => vec!["wait until it is done, or end it".to_owned()],
        Error::Full { .. } => {
            vec!["free some space and run the command again: nothing is lost".to_owned()]
        }
        Error::Read { .. } | Error::Write { .. } | Error::Store { .. } => {
            vec!["check that it exists and that you may use it".to_owned()]
        }
        Error::Index { path, .. } => {
            let path = path.display();
            vec![format!("run `aj index`: what is damaged in {path} is made anew from the journal")]
        }
        Error::UnknownSession { .. } => {
            vec!["`aj list --all` shows every conversation with its id".to_owned()]
        }
        Error::AmbiguousSession { candidates, .. } => {
            candidates.iter().map(|(id, title)| format!("{id}  {title}")).collect()
        }
        _ => Vec::new(),
    }
}
