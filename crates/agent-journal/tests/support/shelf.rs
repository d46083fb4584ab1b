//! Journals of fixtures and of the sample histories beside the project.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::connectors::Machine;
use agent_journal::export::{ExportOptions, SingleFileOutput, find_format};
use agent_journal::search::{Filter, Scope};
use agent_journal::{Config, Entry, Journal, SyncOptions};

use super::{Home, copy, corpus, directories, fixtures};

/// A journal of some home, and the directory it lives in.
pub struct Shelf {
    pub journal: Journal,
    _directory: tempfile::TempDir,
}

impl Shelf {
    pub fn new(machine: Machine) -> Self {
        let mut shelf = Self::empty(machine);
        shelf.journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        shelf
    }

    /// A journal in which nothing is yet.
    pub fn empty(machine: Machine) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new(directory.path().join("journal"));
        let journal = Journal::open(config, machine).unwrap();
        Self { journal, _directory: directory }
    }

    pub fn of(fixture: &Path) -> Self {
        let home = Home::of(fixture);
        Self::new(home.machine())
    }

    /// Every session, in an order that does not depend on the journal.
    pub fn entries(&self) -> Vec<Entry> {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let mut entries = self.journal.list_entries(&all, None).unwrap();
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        entries
    }

    pub fn written(&self, entry: &Entry, name: &str, options: ExportOptions) -> String {
        let mut bytes = Vec::new();
        let mut export = self.journal.start_export(find_format(name).unwrap(), options);
        export.write_session(entry, &mut SingleFileOutput(&mut bytes)).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

/// Asks what all sessions spent.
pub fn of_all() -> StatsQuery {
    StatsQuery {
        filter: Filter { scope: Scope::All, ..Filter::default() },
        by: None,
        extent: Extent::Tasks,
        now: "2026-11-15T12:00:00[UTC]".parse().unwrap(),
        explain: false,
    }
}

pub fn every_fixture() -> Vec<PathBuf> {
    directories(&fixtures()).iter().flat_map(|agent| directories(agent)).collect()
}

/// The homes of the sample histories, each with its name; none where there are no samples.
pub fn samples() -> Vec<(String, Machine, Option<tempfile::TempDir>)> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let name = |path: &Path| path.strip_prefix(&corpus).unwrap().display().to_string();
    let machine = |home: PathBuf| Machine { home, ..Machine::default() };
    let mut samples = Vec::new();
    for case in directories(&corpus.join("scrubbed")).iter().flat_map(|agent| directories(agent)) {
        samples.push((name(&case), machine(case.join("home")), None));
    }
    for original in directories(&corpus.join("real")).iter().flat_map(|agent| directories(agent)) {
        let home = laid_out(&original);
        samples.push((name(&original), machine(home.path().to_owned()), Some(home)));
    }
    samples
}

/// Originals that stand under other names and in other folders, put where their agents do.
fn laid_out(original: &Path) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    copy(original, home.path());
    let agent = original.parent().unwrap();
    let oracle = fs::read_to_string(agent.join("oracle.jsonl")).unwrap_or_default();
    for (number, row) in oracle.lines().enumerate() {
        let row: BTreeMap<String, serde_json::Value> = serde_json::from_str(row).unwrap();
        let Some(path) = row.get("path").and_then(|path| path.as_str()) else { continue };
        let file = agent.join(path);
        if !file.starts_with(original) || !file.is_file() {
            continue;
        }
        let place = match agent.file_name().and_then(|name| name.to_str()).unwrap() {
            "claude" => format!(".claude/projects/-work/{number}.jsonl"),
            "codex" => format!(".codex/sessions/2025/01/01/rollout-{number}.jsonl"),
            "gemini" => format!(".gemini/tmp/work/chats/session-{number}.json"),
            "cursor" => ".config/Cursor/User/globalStorage/state.vscdb".to_owned(),
            _ => continue,
        };
        let place = home.path().join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, fs::read(file).unwrap()).unwrap();
    }
    home
}
