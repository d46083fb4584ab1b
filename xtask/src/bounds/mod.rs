//! `bounds`: reads histories of unusual size within 512 MiB. Each history is generated once, indexed
//! or imported from nothing in a cgroup with that limit (if this user may create one), and searched
//! once. Prints time and memory, and checks the limits.

mod fence;
mod homes;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::bench::process::{Used, measure};
use crate::bench::report::{machine, memory, time};
use crate::cargo::{self, aj};
use fence::Fence;

const MIB: u64 = 1 << 20;

/// Memory limit for reading any history, in bytes.
const LIMIT: u64 = 512 * MIB;

/// Time limit of a search that first reads a change.
const NEWS_LIMIT: Duration = Duration::from_millis(500);

/// A history of unusual size.
struct Case {
    name: &'static str,
    what: &'static str,
    make: fn(&Path) -> Result<()>,
    /// A word that occurs in one message, or in none if its record is skipped.
    word: &'static str,
    is_found: bool,
    /// A change between indexing and searching. The search reads it, within `SYNC_TIME_LIMIT`.
    change: Option<fn(&Path) -> Result<()>>,
}

const CASES: [Case; 10] = [
    Case {
        name: "large",
        what: "5 GB in 2,500 sessions",
        make: |home| homes::sessions(home, 2_500, 2_000_000),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "long",
        what: "one session of 2 GB",
        make: |home| homes::sessions(home, 1, 2_000_000_000),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "many",
        what: "100,000 sessions of 4 KB",
        make: |home| homes::sessions(home, 100_000, 4_000),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "line",
        what: "one line of 1 GB among others",
        make: |home| homes::long_line(home, 1_000_000_000),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "blocks",
        what: "four lines of 48 MiB of small blocks",
        make: |home| homes::small_blocks(home, 4, 48 * MIB),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "text",
        what: "four lines of 62 MiB of text",
        make: |home| homes::full_lines(home, 4, 62 * MIB),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "parts",
        what: "a chat with 48 MiB of small parts",
        make: |home| homes::small_parts(home, 48 * MIB),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "empty",
        what: "an import of 200,000 sessions without messages",
        make: |home| homes::empty_sessions(home, 200_000),
        word: homes::NEEDLE,
        is_found: false,
        change: None,
    },
    Case {
        name: "database",
        what: "1,000,000 messages in one database",
        make: |home| homes::database(home, 1_000_000),
        word: homes::NEEDLE,
        is_found: true,
        change: None,
    },
    Case {
        name: "live",
        what: "a live database of 3 GB, one row written",
        make: |home| homes::large_database(home, 3_000),
        word: homes::NEEDLE,
        is_found: true,
        change: Some(homes::write_row),
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|case| arguments.is_empty() || arguments.iter().any(|name| name == case.name))
        .collect();
    if chosen.len() < arguments.len() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("`bounds` takes names of cases: {}", names.join(", "));
    }
    let program = cargo::build("dist")?;
    let place = cargo::target()?.join("bounds");
    let fence = Fence::new(LIMIT);
    let held = if fence.is_some() { "held by the system" } else { "measured only" };
    println!("{} · {} · memory {held}\n", jiff::Zoned::now().date(), machine());
    println!("| history | size | read in | CPU | peak memory | search | search memory |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for case in chosen {
        let line = case.run(&program, &place, fence.as_ref());
        println!("{}", line.with_context(|| format!("the case `{}` failed", case.name))?);
    }
    Ok(())
}

impl Case {
    fn run(&self, program: &Path, place: &Path, fence: Option<&Fence>) -> Result<String> {
        let home = place.join(self.name);
        if !home.is_dir() {
            let unfinished = home.with_extension("unfinished");
            fs::create_dir_all(&unfinished).context("could not make the history")?;
            (self.make)(&unfinished)?;
            fs::rename(&unfinished, &home).context("could not keep the history")?;
        }
        let journal = place.join(format!("{}-journal", self.name));
        if journal.exists() {
            fs::remove_dir_all(&journal).context("could not remove the last journal")?;
        }
        let ask = |words: &[&str]| {
            let mut command = aj(program, &home, &journal);
            command.args(words);
            fence.map_or(command_as_it_is(&command), |fence| fence.around(&command))
        };
        let export = home.join(homes::EXPORT);
        let read = match export.to_str().filter(|_| export.exists()) {
            Some(export) => measure(&ask(&["import", export]), 0)?,
            None => measure(&ask(&["index"]), 0)?,
        };
        if let Some(change) = self.change {
            change(&home)?;
        }
        let found = i32::from(!self.is_found);
        let search: Used = measure(&ask(&["search", self.word]), found)?;
        let size = crate::bench::corpus::size(&home)?;
        fs::remove_dir_all(&journal).context("could not remove the journal")?;
        ensure!(read.memory < LIMIT, "reading took {}", memory(read.memory));
        ensure!(search.memory < LIMIT, "searching took {}", memory(search.memory));
        let is_late = self.change.is_some() && search.wall > NEWS_LIMIT;
        ensure!(!is_late, "reading one row took {}", time(search.wall));
        Ok(format!(
            "| {} | {:.1} GB | {} | {} | {} | {} | {} |",
            self.what,
            size as f64 / 1e9,
            time(read.wall),
            time(read.cpu),
            memory(read.memory),
            time(search.wall),
            memory(search.memory),
        ))
    }
}

fn command_as_it_is(command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    same.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => same.env(name, value),
            None => same.env_remove(name),
        };
    }
    same
}
