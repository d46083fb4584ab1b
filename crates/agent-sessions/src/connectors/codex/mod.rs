//! Codex CLI: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, one JSON record a
//! line, append-only; cold files as `.jsonl.zst`, archived ones flat in `archived_sessions`.
//!
//! Versions 0.1 (2025-08) to 0.146 were seen. Peculiarities: everything visible is stored twice, as
//! the model's item and as the interface's event; only the first `session_meta` describes the file;
//! forks begin with a replay of their parent, with new time stamps; token totals repeat.
//! `docs/formats/codex.md` has the evidence.

mod about;
mod answer;
mod branch;
mod content;
mod events;
mod history;
mod items;
mod line;
mod prompt;
mod reader;
mod usage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::formats::json::{self, BorrowedText, lenient};
use super::formats::{files, jsonl};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Record, Resume, Sink, Source,
};
use crate::error::Result;
use crate::model::{Session, Timestamp, TitleRank};

/// The Codex CLI connector.
pub(super) struct Codex;

const AGENT: Agent = Agent {
    id: "codex",
    name: "Codex CLI",
    badge: "codex",
    aliases: &["codex-cli"],
    color: (13, 148, 136),
    key: "codex",
    variable: "AJ_CODEX_PATH",
    shell_variables: &[
        "CODEX_THREAD_ID",
        "CODEX_CI",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
    ],
    mcp: Some(McpClient {
        file: "~/.codex/config.toml",
        add: Some("codex mcp add NAME -- COMMAND"),
        introduces: "codex",
        skills: Some(".agents/skills"),
        shape: McpConfigFormat::Toml,
    }),
};

const INDEX: &str = "session_index.jsonl";

/// Directories of rollouts below the home.
const FOLDERS: [&str; 2] = ["sessions", "archived_sessions"];

impl Connector for Codex {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        vec![machine.env_path("CODEX_HOME").unwrap_or_else(|| machine.home.join(".codex"))]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let mut folders: Vec<PathBuf> = FOLDERS
            .iter()
            .map(|name| root.join(name))
            .filter(|folder| files::is_dir(folder))
            .collect();
        let mut home = root;
        if folders.is_empty() {
            // The root is itself such a directory: the index of names is beside it.
            folders.push(root.to_owned());
            if FOLDERS.iter().any(|name| root.ends_with(name)) {
                home = root.parent().unwrap_or(root);
            }
        }
        let mut sources = Vec::from_iter(files::source_from_file(home.join(INDEX)));
        for folder in folders {
            sources.extend(without_twins(files::walk_files(&folder, &is_rollout)?));
        }
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        let mut inside = changed.strip_prefix(root).ok()?.iter();
        let is_inside = inside.next().is_some_and(|first| FOLDERS.iter().any(|one| first == *one));
        if changed == root.join(INDEX) {
            return Some(Vec::from_iter(files::source_from_file(changed.to_owned())));
        }
        // Compressed rollouts have uncompressed twins; a root may itself be such a directory.
        if !is_inside || name.ends_with(".zst") {
            return None;
        }
        let source = files::source_from_file(changed.to_owned()).filter(|_| is_rollout(&name));
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let path = &source.path;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == INDEX {
            read_thread_name_index(path, sink)?;
            return Ok(Checkpoint::default());
        }
        match name.rsplit('.').next() {
            Some("zst") => reader::read_compressed(path, sink),
            Some("json") => reader::read_first_generation_document(path, sink),
            _ => reader::read_rollout(path, &start, sink),
        }
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("codex", ["resume", &session.id.native]))
    }
}

fn is_rollout(name: &str) -> bool {
    let endings = [".jsonl", ".jsonl.zst", ".json"];
    name.starts_with("rollout-") && endings.iter().any(|ending| name.ends_with(ending))
}

/// Removes compressed rollouts that follow their uncompressed form, which is the newer one.
fn without_twins(mut sources: Vec<Source>) -> Vec<Source> {
    sources.dedup_by(|later, earlier| {
        later.path.extension().is_some_and(|ending| ending == "zst")
            && later.path.with_extension("") == earlier.path
    });
    sources
}

/// Reads the names of threads. The last entry of a thread applies; a blank one removes its name.
fn read_thread_name_index(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    lenient! {
        struct ThreadNameEntry<'a> {
            "id" id: Option<BorrowedText<'a>>,
            "thread_name" name: Option<BorrowedText<'a>>,
        }
    }
    let mut names = BTreeMap::new();
    let mut lines = jsonl::LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
        if jsonl::is_blank_line(line.bytes) {
            continue;
        }
        let mended = String::from_utf8(jsonl::mend_line(line.bytes)).unwrap_or_default();
        match json::parse_json(&mended) {
            Some(ThreadNameEntry { id: Some(id), name }) => {
                let name = name.map(BorrowedText::into_owned).unwrap_or_default();
                names.insert(id.into_owned(), name);
            }
            _ if line.end == jsonl::End::File => {}
            _ => sink.accept_record(Record::unreadable_record(
                line.offset,
                "not an entry of the index",
            ))?,
        }
    }
    for (id, name) in names {
        let mut session = Session::new(AGENT.id, id);
        session.add_title(TitleRank::Named, name);
        sink.accept_record(Record::Session(Box::new(session)))?;
    }
    Ok(())
}

/// The parts of a rollout's file name: `rollout-<local time>-<thread>[_<rollout>].jsonl`.
#[derive(Debug, PartialEq)]
struct RolloutFileName {
    /// The thread's id, or the whole stem when there is none.
    thread: String,
    /// The time in the name, without a time zone.
    time: Option<Timestamp>,
}

impl RolloutFileName {
    fn parse_rollout_name(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.split('.').next().unwrap_or_default();
        let parts = stem
            .strip_prefix("rollout-")
            .and_then(|rest| rest.split_at_checked("2025-08-26T20-20-25".len()));
        let Some((time, thread)) = parts else {
            return Self { thread: stem.to_owned(), time: None };
        };
        let thread = thread.strip_prefix('-').unwrap_or(thread);
        let thread = thread.split('_').next().unwrap_or_default();
        let time = time.split_once('T').and_then(|(date, clock)| {
            Timestamp::parse_iso_time(&format!("{date}T{}Z", clock.replace('-', ":")))
        });
        let thread = if thread.is_empty() || time.is_none() { stem } else { thread };
        Self { thread: thread.to_owned(), time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_and_a_folder_in_it_are_both_roots() {
        let home = tempfile::tempdir().unwrap();
        let touch = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::File::create(path).unwrap();
        };
        let day = "sessions/2026/05/01";
        for name in ["rollout-1.jsonl", "rollout-1.jsonl.zst", "rollout-2.jsonl.zst", "x.jsonl"] {
            touch(&format!("{day}/{name}"));
        }
        touch("archived_sessions/rollout-3.jsonl");
        touch("archived_sessions/rollout-4.jsonl.zst.tmp");
        touch("history.jsonl");
        touch(INDEX);
        let check = |root: &Path, expected: &[&str]| {
            let found = Codex.discover_sources(root).unwrap();
            let names = found.iter().map(|source| source.path.file_name().unwrap().to_owned());
            assert_eq!(names.collect::<Vec<_>>(), expected);
        };
        let recent = [INDEX, "rollout-1.jsonl", "rollout-2.jsonl.zst"];
        check(home.path(), &[&recent[..], &["rollout-3.jsonl"]].concat());
        check(&home.path().join("sessions"), &recent);
        check(&home.path().join(day), &recent[1..]);
    }

    #[test]
    fn a_name_tells_time_and_thread() {
        let check = |name: &str, thread: &str, time: Option<&str>| {
            let expected = RolloutFileName {
                thread: thread.to_owned(),
                time: time.and_then(Timestamp::parse_iso_time),
            };
            assert_eq!(RolloutFileName::parse_rollout_name(Path::new(name)), expected, "{name}");
        };
        let id = "0198e0aa-0001-7000-8000-000000000001";
        let time = Some("2025-08-26T20:20:25Z");
        check(&format!("a/rollout-2025-08-26T20-20-25-{id}.jsonl"), id, time);
        check(&format!("rollout-2025-08-26T20-20-25-{id}.jsonl.zst"), id, time);
        check(&format!("rollout-2025-08-26T20-20-25-{id}_{id}.jsonl"), id, time);
        check("rollout-notes-of-the-summer.jsonl", "rollout-notes-of-the-summer", None);
        check("full.jsonl", "full", None);
    }
}
