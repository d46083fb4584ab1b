//! Writes the latest session of this machine, or of another home directory, as Markdown:
//!
//! ```sh
//! cargo run -p agent-journal --example export [HOME]
//! ```

use std::error::Error;
use std::io::{self, Write};

use agent_journal::connectors::Machine;
use agent_journal::export::{ExportOptions, SingleFileOutput, find_format};
use agent_journal::search::Filter;
use agent_journal::{Config, Journal, SyncOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let machine = match std::env::args_os().nth(1) {
        Some(home) => Machine::of_home(home),
        None => Machine::current()?,
    };
    export_latest(machine, &mut io::stdout().lock())
}

/// Writes the latest session with its secrets removed.
pub(crate) fn export_latest(machine: Machine, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let config = Config::new(directory.path().join("journal"));
    let mut journal = Journal::open(config, machine)?;
    journal.sync(SyncOptions::default(), &mut |_| {})?;

    let latest = journal.list_entries(&Filter::default(), Some(1))?;
    let entry = latest.first().ok_or("there is no session")?;
    let markdown = find_format("markdown").ok_or("this build has no Markdown")?;
    let options =
        ExportOptions { redactor: Some(journal.owner_redactor()), ..ExportOptions::default() };
    journal.start_export(markdown, options).write_session(entry, &mut SingleFileOutput(out))?;
    Ok(())
}
