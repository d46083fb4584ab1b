//! Prints every session that agents left on this machine, or in another home directory:
//!
//! ```sh
//! cargo run -p agent-sessions --example read_sessions [HOME]
//! ```

use std::io::{self, Write};

use agent_sessions::{Machine, read_sessions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = match std::env::args_os().nth(1) {
        Some(home) => Machine::of_home(home),
        None => Machine::current()?,
    };
    Ok(print_sessions(&machine, &mut io::stdout().lock())?)
}

/// Prints one line for each session, and one for each source that cannot be read.
pub(crate) fn print_sessions(machine: &Machine, out: &mut dyn Write) -> io::Result<()> {
    for recording in read_sessions(machine) {
        match recording {
            Ok(recording) => {
                let (agent, messages) = (recording.agent.name, recording.messages.len());
                writeln!(out, "{agent:<12} {messages:>6} messages  {}", recording.title())?;
            }
            Err(error) => writeln!(out, "{error}")?,
        }
    }
    Ok(())
}
