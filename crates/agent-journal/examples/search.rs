//! Searches the sessions of this machine, or of another home directory:
//!
//! ```sh
//! cargo run -p agent-journal --example search QUERY [HOME]
//! ```
//!
//! The journal is made in a temporary directory. A program keeps its journal, so that the next
//! search reads only what is new.

use std::error::Error;
use std::io::{self, Write};

use agent_journal::connectors::Machine;
use agent_journal::search::{Query, SearchOptions};
use agent_journal::{Config, Journal, SyncOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let query = arguments.next().ok_or("usage: search QUERY [HOME]")?;
    let machine = match arguments.next() {
        Some(home) => Machine::of_home(home),
        None => Machine::current()?,
    };
    search(&query, machine, &mut io::stdout().lock())
}

/// Prints the sessions that match a query, each with its best passage.
pub(crate) fn search(
    query: &str,
    machine: Machine,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let config = Config::new(directory.path().join("journal"));
    let mut journal = Journal::open(config, machine)?;
    journal.sync(SyncOptions::default(), &mut |_| {})?;

    let query = Query::parse(query, &jiff::Zoned::now())?;
    let answer = journal.search(&query, &SearchOptions::default())?;
    for found in &answer.sessions {
        writeln!(out, "{}  {}", found.entry.agent, found.entry.title)?;
        if let Some(hit) = found.hits.first() {
            writeln!(out, "    {}", hit.snippet.text)?;
        }
    }
    writeln!(out, "{} sessions", answer.total)?;
    Ok(())
}
