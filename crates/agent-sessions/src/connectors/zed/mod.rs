//! Zed: the threads of its own agent, in the database `threads/threads.db` of its data directory.
//! Agents that Zed runs for a person keep their sessions in files of their own.
//!
//! Described versions: threads without a version to version 0.3.0, source code of 2026-08.
//! Peculiarities: a thread is one compressed document that is rewritten; messages have no times; of
//! the model calls of a turn only the last one is recorded, beside the sum of all.
//! `docs/formats/zed.md` has the evidence.

mod content;
mod database;
mod legacy;
mod thread;

use std::path::{Path, PathBuf};

use super::formats::{files, sqlite};
use super::{Agent, Checkpoint, Connector, Machine, Os, Sink, Source};
use crate::error::{Error, Result};

/// The connector for Zed.
pub(super) struct Zed;

const AGENT: Agent = Agent {
    id: "zed",
    name: "Zed",
    badge: "zed",
    aliases: &["zed-agent"],
    color: (8, 76, 207),
    key: "zed",
    variable: "AJ_ZED_PATH",
    shell_variables: &[],
    mcp: None,
};

const DATABASE: &str = "threads.db";

impl Connector for Zed {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = &machine.home;
        let data = match machine.os {
            Os::Linux => {
                let data = ["FLATPAK_XDG_DATA_HOME", "XDG_DATA_HOME"];
                let data = data.iter().find_map(|name| machine.env_path(name));
                data.unwrap_or_else(|| home.join(".local/share")).join("zed")
            }
            Os::MacOs => home.join("Library/Application Support/Zed"),
            Os::Windows => {
                let data = machine.env_path("LOCALAPPDATA");
                data.unwrap_or_else(|| home.join("AppData/Local")).join("Zed")
            }
        };
        vec![data.join("threads")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(sqlite::database_source(root.to_owned()).into_iter().collect());
        }
        files::observed_listing(root).map_err(Error::read(root))?;
        // The root is the directory of the database, or the data directory around it.
        let places = [root.join(DATABASE), root.join("threads").join(DATABASE)];
        Ok(places.into_iter().filter_map(sqlite::database_source).collect())
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        database::read_threads(&source.path, sink)?;
        Ok(Checkpoint::default())
    }
}
