//! Homes for tests: fixtures laid out in a private directory, read by connectors. The tests of
//! `agent-journal` and the fuzz targets use them too.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make their own files")]
#![allow(missing_docs, unreachable_pub, reason = "test support")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent_sessions::connectors::{Checkpoint, Connector, Machine, Record, Sink, Source};
use agent_sessions::model::{Message, Session, SessionId};

/// A fixture's home in a private directory. Databases and archives, which nobody could review,
/// are written as text and made here: `x.db.sql` becomes `x.db`; `x.db.wal.sql` runs after it and
/// stays in `x.db-wal`; `x.zst.plain` becomes `x.zst`.
pub struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub fn of(fixture: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        copy(&fixture.join("home"), directory.path());
        build(directory.path());
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn machine(&self) -> Machine {
        Machine { home: self.path().to_owned(), ..Machine::default() }
    }

    /// Every source a connector finds, in a stable order.
    pub fn sources(&self, connector: &dyn Connector) -> Vec<Source> {
        let machine = Machine { projects: vec![self.path().join("project")], ..self.machine() };
        sources(connector, &machine)
    }

    /// Every file with its content.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        each_file(self.path(), &mut |path| {
            files.insert(path.to_owned(), fs::read(path).unwrap());
        });
        files
    }
}

pub fn sources(connector: &dyn Connector, machine: &Machine) -> Vec<Source> {
    let mut all: Vec<Source> = Vec::new();
    for root in connector.roots(machine) {
        if agent_sessions::connectors::formats::glob::pattern_base(&root).exists() {
            for source in connector.discover_sources(&root).unwrap() {
                if !all.iter().any(|known| known.path == source.path) {
                    all.push(source);
                }
            }
        }
    }
    all
}

#[derive(Default)]
pub struct Records(pub Vec<Record>);

impl Sink for Records {
    fn accept_record(&mut self, record: Record) -> agent_sessions::Result<()> {
        self.0.push(record);
        Ok(())
    }
}

pub fn read(connector: &dyn Connector, source: &Source) -> (Vec<Record>, Checkpoint) {
    let mut records = Records::default();
    let end = connector.read_source(source, Checkpoint::default(), &mut records).unwrap();
    (records.0, end)
}

/// What a source tells of one session: records folded the way the journal folds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub session: Session,
    pub messages: Vec<Message>,
}

pub type RecordedSessions = BTreeMap<SessionId, Told>;

/// Folds the records of a read that started at `start` into what was told before. The session
/// told first is the one that goes on.
pub fn fold(
    mut tellings: RecordedSessions,
    start: &Checkpoint,
    records: Vec<Record>,
) -> RecordedSessions {
    let mut current = None;
    for record in records {
        match record {
            Record::Session(session) => {
                if current.is_none()
                    && let Some(told) = tellings.get_mut(&session.id)
                {
                    told.messages.truncate(start.messages as usize);
                }
                current = Some(session.id.clone());
                match tellings.get_mut(&session.id) {
                    Some(told) => told.session.merge_later(*session),
                    None => drop(tellings.insert(
                        session.id.clone(),
                        Told { session: *session, messages: Vec::new() },
                    )),
                }
            }
            Record::Message(message) => {
                let id = current.as_ref().expect("messages come after their session");
                tellings.get_mut(id).unwrap().messages.push(*message);
            }
            Record::Skipped(_) => {}
        }
    }
    tellings
}

/// The fixtures, seen from this crate, from the others and from the fuzz targets.
pub fn fixtures() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = ["", "../agent-sessions", "../crates/agent-sessions"];
    let mut places = crates.iter().map(|place| package.join(place).join("tests/fixtures"));
    places.find(|place| place.is_dir()).unwrap()
}

/// The directories below `path`, in order.
pub fn directories(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut all: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    all.sort();
    all
}

pub fn each_file(path: &Path, found: &mut dyn FnMut(&Path)) {
    let mut entries: Vec<_> = fs::read_dir(path).unwrap().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.path().is_dir() { each_file(&entry.path(), found) } else { found(&entry.path()) }
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // Contents only: a read-only original must not make a read-only copy.
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

fn build(home: &Path) {
    let mut files = Vec::new();
    each_file(home, &mut |path| files.push(path.to_owned()));
    for path in files {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".wal.sql") {
            continue;
        }
        if let Some(database) = name.strip_suffix(".sql") {
            let wal = PathBuf::from(format!("{database}.wal.sql"));
            build_database(&path, &wal, Path::new(database));
        } else if let Some(archive) = name.strip_suffix(".plain") {
            let plain = fs::read(&path).unwrap();
            fs::write(archive, zstd::encode_all(&*plain, 3).unwrap()).unwrap();
            fs::remove_file(&path).unwrap();
        }
    }
}

fn build_database(sql: &Path, wal: &Path, target: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let made = scratch.path().join("made.db");
    let connection = rusqlite::Connection::open(&made).unwrap();
    connection.execute_batch(&fs::read_to_string(sql).unwrap()).unwrap();
    if wal.exists() {
        connection.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;").unwrap();
        connection.execute_batch(&fs::read_to_string(wal).unwrap()).unwrap();
        let beside = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
        fs::copy(beside(&made), beside(target)).unwrap();
        fs::remove_file(wal).unwrap();
    }
    fs::copy(&made, target).unwrap();
    fs::remove_file(sql).unwrap();
}
