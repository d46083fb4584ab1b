//! A home that is written step by step, and the journal of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use agent_journal::connectors::Machine;
use agent_journal::search::{Filter, Mode, Query, Scope, SearchOptions};
use agent_journal::{Config, Journal, SyncOptions};
use serde_json::{Value, json};

/// A home that files are put into bit by bit, and its journal.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn files<'f>(&self, files: impl IntoIterator<Item = &'f (String, Vec<u8>)>) {
        for (path, content) in files {
            self.file(path, content);
        }
    }

    pub fn config(&self) -> Config {
        Config::new(self.directory.path().join("journal"))
    }

    /// Opens the journal and folds in what is there.
    pub fn sync(&self) -> Journal {
        let machine = Machine {
            home: self.home(),
            projects: vec![self.home().join("project")],
            ..Machine::default()
        };
        let mut journal = Journal::open(self.config(), machine).unwrap();
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        journal
    }

    pub fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.directory.path().join("journal/journal.db")).unwrap()
    }

    /// How many calls are counted, and the tokens of those.
    pub fn counted(&self) -> (i64, i64, i64) {
        let sql = "SELECT count(*), coalesce(sum(input), 0), coalesce(sum(output), 0) FROM usage WHERE counted";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        self.database().query_row(sql, [], row).unwrap()
    }
}

/// A session written line by line.
pub struct Script {
    pub id: String,
    pub lines: String,
    pub count: usize,
}

impl Script {
    pub fn new(number: usize) -> Self {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        Self { id, lines: String::new(), count: 0 }
    }

    pub fn path(&self) -> String {
        format!(".claude/projects/-home-mara-web/{}.jsonl", self.id)
    }

    pub fn you(self, text: &str) -> Self {
        self.line("user", &json!({ "role": "user", "content": text }))
    }

    pub fn agent(self, text: &str) -> Self {
        let id = format!("msg_{}_{}", self.id, self.count);
        let message = json!({
            "model": "claude-sonnet-4-5", "id": id, "type": "message", "role": "assistant",
            "content": [{ "type": "text", "text": text }],
            "usage": { "input_tokens": 3, "output_tokens": 5 },
        });
        self.line("assistant", &message)
    }

    pub fn line(mut self, kind: &str, message: &Value) -> Self {
        let at = self.count;
        let line = json!({
            "type": kind, "message": message, "uuid": self.uuid(at), "sessionId": self.id,
            "cwd": "/home/mara/web", "version": "2.1.40", "requestId": format!("req_{}_{at}", self.id),
            "timestamp": format!("2026-03-02T09:00:{at:02}.000Z"),
        });
        self.lines.push_str(&format!("{line}\n"));
        self.count += 1;
        self
    }

    pub fn uuid(&self, at: usize) -> String {
        format!("{}-{at}", self.id)
    }
}

pub fn all() -> Filter {
    Filter { scope: Scope::All, ..Filter::default() }
}

pub fn query(text: &str) -> Query {
    Query::parse(text, &"2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()).unwrap()
}

/// The options of a search by words alone.
pub fn by_words(limit: usize) -> SearchOptions {
    SearchOptions { limit, mode: Mode::Lexical, ..SearchOptions::default() }
}

/// The sessions a query finds, each with the positions of its matches.
pub fn found(journal: &Journal, text: &str) -> BTreeMap<String, Vec<Option<u64>>> {
    let answer = journal.search(&query(text), &by_words(1000)).unwrap();
    let hits = answer.sessions.into_iter().map(|session| {
        let positions = session.hits.iter().map(|hit| hit.position).collect();
        (session.entry.id, positions)
    });
    hits.collect()
}
