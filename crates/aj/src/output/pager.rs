//! Sends long output through a pager when standard output is a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// The destination of an answer: a pager on a terminal, else standard output.
pub(crate) enum Pager {
    /// The pager process and its input, from which colours are removed if they are unwanted.
    Program(Child, anstream::AutoStream<Box<dyn Write>>),
    Direct(anstream::AutoStream<io::StdoutLock<'static>>),
}

impl Pager {
    /// Starts the user's pager (`AJ_PAGER`, `PAGER`, `less`); falls back to standard output.
    pub(crate) fn open_pager(wanted: bool) -> Self {
        let direct = || Self::Direct(anstream::AutoStream::auto(io::stdout().lock()));
        if !wanted || !io::stdout().is_terminal() {
            return direct();
        }
        let command = std::env::var("AJ_PAGER").or_else(|_| std::env::var("PAGER"));
        let command = command.unwrap_or_else(|_| "less".to_owned());
        let mut words = command.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else {
            return direct();
        };
        let child = Command::new(program)
            .args(words)
            .env("LESS", std::env::var("LESS").unwrap_or_else(|_| "-FRX".to_owned()))
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return direct() };
        let Some(pipe) = child.stdin.take() else { return direct() };
        // The pipe is no terminal; the one behind the pager decides about colours.
        let choice = match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => anstream::ColorChoice::Never,
            _ => anstream::ColorChoice::AlwaysAnsi,
        };
        Self::Program(child, anstream::AutoStream::new(Box::new(pipe), choice))
    }

    /// Flushes the output and waits until the pager exits.
    pub(crate) fn close_pager(self) -> io::Result<()> {
        match self {
            Self::Program(mut child, mut pipe) => {
                // The user may have quit the pager before the end of the output.
                let _ = pipe.flush();
                drop(pipe);
                child.wait().map(|_| ())
            }
            Self::Direct(mut out) => out.flush(),
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Program(_, pipe) => pipe.write(bytes),
            Self::Direct(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Program(_, pipe) => pipe.flush(),
            Self::Direct(out) => out.flush(),
        }
    }
}
