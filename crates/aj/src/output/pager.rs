//! Long answers go through a pager when somebody is there to turn the pages.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// Where an answer is written: to a pager on a terminal, else straight out.
pub(crate) enum Pager {
    /// The pager, and the way to it, on which colours are left out if they are unwanted.
    Program(Child, anstream::AutoStream<Box<dyn Write>>),
    Direct(anstream::AutoStream<io::StdoutLock<'static>>),
}

impl Pager {
    /// Opens the pager of the user's choice; none is fine.
    pub(crate) fn open(wanted: bool) -> Self {
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
        // A pipe is no terminal; what counts is the one behind the pager.
        let choice = match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => anstream::ColorChoice::Never,
            _ => anstream::ColorChoice::AlwaysAnsi,
        };
        Self::Program(child, anstream::AutoStream::new(Box::new(pipe), choice))
    }

    /// Waits until the reader is done.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Program(mut child, mut pipe) => {
                // Whoever closed the pager has read enough.
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
