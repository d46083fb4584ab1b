//! What is fuzzed, and what must hold. The targets of `cargo fuzz` and the smoke run in the
//! library's tests (`tests/fuzz.rs`) share these bodies; they may refuse their input, never panic.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use agent_journal::connectors::{ALL, Checkpoint, Connector, Machine};
use agent_journal::export::schema::{
    DocumentBlock, DocumentMessage, DocumentRole, DocumentSession, DocumentSource, SourceKind,
    UnifiedDocument,
};
use agent_journal::export::{
    AgentLook, DetailLevel, ExportOptions, SingleFileOutput, find_format, replay_document,
};
use agent_journal::model::{Json, Timestamp};
use agent_journal::search::{Filter, Mode, Query, Scope, SearchOptions};
use agent_journal::{Config, Entry, ImportSource, Journal, SyncOptions};

use crate::support::{
    Home, RecordedSessions, Records, copy, directories, each_file, fixtures, fold,
};

/// Something to be fuzzed: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("connectors", connectors),
    ("query", query),
    ("import", import),
    ("writers", writers),
    ("files", files),
    ("model", model),
];

/// A file of a fixture's home, which takes the bytes.
pub struct Spot {
    home: usize,
    path: PathBuf,
    original: Vec<u8>,
}

/// The homes of all fixtures, and the files in them by connector.
pub struct Homes {
    homes: Vec<Home>,
    spots: Vec<Vec<Spot>>,
}

impl Homes {
    fn lay_out() -> Self {
        let mut all = Self { homes: Vec::new(), spots: Vec::new() };
        for connector in ALL {
            let mut spots = Vec::new();
            for case in directories(&fixtures().join(connector.agent().id)) {
                let home = Home::of(&case);
                each_file(home.path(), &mut |path| {
                    let (path, original) = (path.to_owned(), fs::read(path).unwrap());
                    spots.push(Spot { home: all.homes.len(), path, original });
                });
                all.homes.push(home);
            }
            all.spots.push(spots);
        }
        all
    }

    /// Inputs that put every file of every fixture where it was.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let numbered = |(connector, spots): (usize, &Vec<Spot>)| -> Vec<Vec<u8>> {
            let seed = |(at, spot): (usize, &Spot)| {
                [&[connector as u8, at as u8][..], &spot.original].concat()
            };
            spots.iter().take(256).enumerate().map(seed).collect()
        };
        self.spots.iter().enumerate().flat_map(numbered).collect()
    }
}

/// The homes that `connectors` writes to, one run at a time.
pub static HOMES: LazyLock<Mutex<Homes>> = LazyLock::new(|| Mutex::new(Homes::lay_out()));

/// Two bytes pick a connector and a file of its fixtures; the rest becomes that file's content.
pub fn connectors(data: &[u8]) {
    let [connector, spot, content @ ..] = data else { return };
    let homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
    let connector = usize::from(*connector) % ALL.len();
    let spots = &homes.spots[connector];
    let spot = &spots[usize::from(*spot) % spots.len()];
    fs::write(&spot.path, content).unwrap();
    read_twice(ALL[connector], &homes.homes[spot.home]);
    assert!(fs::read(&spot.path).unwrap() == content, "{} was changed", spot.path.display());
    fs::write(&spot.path, &spot.original).unwrap();
}

/// Reads every source of a home, and goes on where that ended.
fn read_twice(connector: &dyn Connector, home: &Home) {
    let machine = Machine { projects: vec![home.path().join("project")], ..home.machine() };
    let roots = connector.roots(&machine).into_iter().filter(|root| root.exists());
    for source in roots.flat_map(|root| connector.discover_sources(&root).unwrap_or_default()) {
        let mut records = Records::default();
        let end = connector.read_source(&source, Checkpoint::default(), &mut records);
        fold(RecordedSessions::new(), &Checkpoint::default(), records.0);
        if let Ok(end) = end {
            let _ = connector.read_source(&source, end, &mut Records::default());
        }
    }
}

/// A small journal of some fixtures' sessions.
pub struct Small {
    directory: tempfile::TempDir,
    journal: Journal,
    /// How many sessions it knows.
    known: usize,
    /// The files of the journal's directory that `files` scribbles on: vectors, and what was seen.
    own: [(PathBuf, Vec<u8>); 2],
}

impl Small {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for agent in directories(&fixtures()) {
            let case = directories(&agent).into_iter().next().unwrap();
            copy(Home::of(&case).path(), &directory.path().join("home"));
        }
        age(&directory.path().join("home"));
        let mut journal = open(directory.path());
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        assert!(journal.pending_changes().unwrap().is_nothing());
        let mut vectors = Vec::new();
        each_file(&directory.path().join("journal/index"), &mut |path| {
            if path.file_name().unwrap().to_string_lossy().starts_with("vectors-") {
                vectors.push(path.to_owned());
            }
        });
        let [vectors] = vectors.try_into().expect("there is one file of vectors");
        let own = [vectors, directory.path().join("journal/scan_cache")];
        let own = own.map(|path| (path.clone(), fs::read(path).unwrap()));
        let known = entries(&journal).len();
        Self { directory, journal, known, own }
    }
}

/// Makes everything in a home old enough for a look at it to be remembered.
fn age(path: &Path) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().flatten().for_each(|entry| age(&entry.path()));
    }
    let file = fs::File::open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
}

fn open(directory: &Path) -> Journal {
    let machine = Machine { home: directory.join("home"), ..Machine::default() };
    Journal::open(Config::new(directory.join("journal")), machine).unwrap()
}

static SMALL: LazyLock<Mutex<Small>> = LazyLock::new(|| Mutex::new(Small::new()));

pub fn parse(text: &str) -> Option<Query> {
    Query::parse(text, &"2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()).ok()
}

/// The bytes are a query, which is parsed and asked.
pub fn query(data: &[u8]) {
    let Some(query) = parse(&String::from_utf8_lossy(data)) else { return };
    let small = SMALL.lock().unwrap_or_else(PoisonError::into_inner);
    for mode in [Mode::Lexical, Mode::Semantic, Mode::Hybrid] {
        let options = SearchOptions { limit: 10, mode, ..SearchOptions::default() };
        let _ = small.journal.search(&query, &options);
    }
    // An agent that nobody knows is a mistake of the query.
    if let Err(error) = small.journal.list_entries(&query.filter, Some(10)) {
        assert!(matches!(error, agent_journal::Error::Query { .. }), "{error}");
    }
}

/// The bytes are a file to be imported. A journal that took it in can show it.
pub fn import(data: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path());
    let path = directory.path().join("parcel");
    let open = || Ok(Box::new(Cursor::new(data.to_vec())) as Box<dyn Read>);
    let file = ImportSource { path: &path, open: &open };
    if let Ok(arrival) = journal.import_file(&file, Duration::ZERO, &mut |_| {}) {
        let entries = entries(&journal);
        assert!(entries.len() as u64 <= arrival.sessions);
        let told: u64 = entries.iter().map(|entry| entry.counts.messages).sum();
        assert!(told <= arrival.messages, "{told} of {}", arrival.messages);
    }
}

fn entries(journal: &Journal) -> Vec<Entry> {
    let all = Filter { scope: Scope::All, ..Filter::default() };
    journal.list_entries(&all, None).unwrap()
}

/// The bytes become a session, which leaves as a page and as Markdown.
pub fn writers(data: &[u8]) {
    let document = document(data);
    for name in ["html", "markdown"] {
        for detail in [DetailLevel::Answers, DetailLevel::Everything] {
            let mut bytes = Vec::new();
            let options = ExportOptions { detail, ..ExportOptions::default() };
            let format = find_format(name).unwrap();
            let look = AgentLook { name: "An agent".into(), color: (1, 2, 3) };
            replay_document(&document, look, format, &options, &mut SingleFileOutput(&mut bytes))
                .unwrap();
            String::from_utf8(bytes).unwrap();
        }
    }
}

/// A session of the pieces between zero bytes, each a block of the kind its first byte picks.
fn document(data: &[u8]) -> UnifiedDocument {
    let mut pieces = data.split(|byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(pieces.next().unwrap_or_default()).into_owned();
    let (agent, id, workspace) = (text(), text(), text());
    let roles = [DocumentRole::User, DocumentRole::Assistant, DocumentRole::System];
    let messages = pieces.enumerate().map(|(at, piece)| DocumentMessage {
        index: at as u64 + 1,
        uuid: None,
        parent_uuid: None,
        role: roles[at % roles.len()],
        timestamp: Timestamp::from_millis(1_700_000_000_000),
        content: piece.split_first().map(|(kind, rest)| block(*kind, rest)).into_iter().collect(),
        metadata: None,
        extensions: Default::default(),
    });
    UnifiedDocument {
        schema_version: "1.1".into(),
        export_timestamp: Timestamp::default(),
        agent,
        session: DocumentSession {
            id,
            workspace: workspace.clone(),
            workspace_encoded: workspace.clone(),
            started_at: None,
            ended_at: None,
            source: DocumentSource { kind: SourceKind::Local, host: None, path: workspace },
            is_agent_session: false,
            parent_session_id: None,
            agent_id: None,
            extensions: Default::default(),
        },
        messages: messages.collect(),
        graph: None,
    }
}

fn block(kind: u8, rest: &[u8]) -> DocumentBlock {
    let text = String::from_utf8_lossy(rest).into_owned();
    let (name, value) = text.split_once('\n').unwrap_or(("Bash", &text));
    match kind % 5 {
        0 | 1 => DocumentBlock::Text { text },
        2 => DocumentBlock::Thinking { thinking: text },
        3 => {
            let input: Option<Json> = serde_json::from_str(value).ok();
            let input = input.unwrap_or_else(|| Json::from_value(&value));
            DocumentBlock::ToolUse { tool_id: "call".into(), tool_name: name.into(), input }
        }
        _ => DocumentBlock::ToolResult {
            tool_id: "call".into(),
            tool_name: name.into(),
            output: value.into(),
            is_error: rest.len().is_multiple_of(2),
        },
    }
}

/// The bytes are damages to a file of the journal: the first picks the file and how it ends,
/// then come five for each damage, four for the place and one that is put there. Whatever
/// happened to it, those who read it answer, and the journal knows what it knew.
pub fn files(data: &[u8]) {
    let [pick, damages @ ..] = data else { return };
    let small = SMALL.lock().unwrap_or_else(PoisonError::into_inner);
    let file = usize::from(*pick) % small.own.len();
    let (path, original) = &small.own[file];
    // A file that is mapped must not change below its reader: it is replaced.
    let put = |bytes: &[u8]| {
        let draft = path.with_extension("draft");
        fs::write(&draft, bytes).unwrap();
        fs::rename(&draft, path).unwrap();
    };
    put(&damaged(original, damages, pick & 0x80 != 0));
    let mut journal = open(small.directory.path());
    if file == 0 {
        let options = SearchOptions { limit: 10, mode: Mode::Semantic, ..SearchOptions::default() };
        journal.search(&parse("fix the parser").unwrap(), &options).unwrap();
    } else {
        journal.pending_changes().unwrap();
    }
    // A look that trusts the file does not see that there is nothing new; it must not see more.
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(entries(&journal).len(), small.known);
    put(original);
}

fn damaged(original: &[u8], damages: &[u8], is_cut: bool) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let (damages, _) = damages.as_chunks::<5>();
    for (count, [a, b, c, d, byte]) in damages.iter().enumerate() {
        let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % original.len();
        if is_cut && count == 0 {
            bytes.truncate(at);
        } else if let Some(place) = bytes.get_mut(at) {
            *place = *byte;
        }
    }
    bytes
}

/// The bytes are a table of token vectors, and the text that it is to embed.
pub fn model(data: &[u8]) {
    let text = String::from_utf8_lossy(&data[..data.len().min(200)]).into_owned();
    agent_journal::embed_by(data, &text);
}
