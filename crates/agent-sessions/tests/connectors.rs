//! Every connector, held to the same laws on its own fixtures. Nothing here names an agent: a
//! new connector is tested by adding `fixtures/<agent>/<case>/home`.
//!
//! `BLESS=1` rewrites the golden files, `BLESS=<agent>` those of one; read them before committing.

#[path = "connectors/drift.rs"]
mod drift;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use agent_sessions::Error;
use agent_sessions::connectors::formats::jsonl::{self, MAX_LINE};
use agent_sessions::connectors::{
    ALL, Checkpoint, Connector, DeclaredConnector, Record, Sink, Source,
};
use agent_sessions::model::Block;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{Home, RecordedSessions, Records, directories, fixtures, fold, read};

/// Places at which a source's tail is replaced, at most.
const MAX_CUTS: usize = 8;

/// Runs `check` on every case of every connector.
fn each_case(mut check: impl FnMut(&dyn Connector, &Path, &Home)) {
    for connector in ALL {
        let cases = directories(&fixtures().join(connector.agent().id));
        assert!(!cases.is_empty(), "{} has no fixture", connector.agent().id);
        for case in cases {
            check(*connector, &case, &Home::of(&case));
        }
    }
    for directory in directories(&declared()) {
        let connector = declared_connector(&directory);
        for case in directories(&directory) {
            check(&connector, &case, &Home::of(&case));
        }
    }
}

/// The declared agents: `declared/<agent>/agent.toml` with cases beside it.
fn declared() -> PathBuf {
    fixtures().with_file_name("declared")
}

fn declared_connector(directory: &Path) -> DeclaredConnector {
    let text = fs::read_to_string(directory.join("agent.toml")).unwrap();
    DeclaredConnector::new(toml::from_str(&text).unwrap()).unwrap()
}

#[test]
fn records_equal_their_golden_files() {
    let mut wrong = Vec::new();
    each_case(|connector, case, home| {
        let mut golden = String::new();
        for source in home.sources(connector) {
            let path = source.path.strip_prefix(home.path()).unwrap();
            writeln!(golden, "{}", serde_json::json!({ "source": path })).unwrap();
            for record in read(connector, &source).0 {
                writeln!(golden, "{}", serde_json::to_string(&record).unwrap()).unwrap();
            }
        }
        // Absolute paths of the private home would differ in every run.
        let golden = golden.replace(&*home.path().to_string_lossy(), "~");
        let file = case.join("records.jsonl");
        let id = connector.agent().id;
        if std::env::var("BLESS").is_ok_and(|agent| agent == "1" || agent == id) {
            fs::write(&file, &golden).unwrap();
        }
        if fs::read_to_string(&file).unwrap_or_default() != golden {
            wrong.push(file);
        }
    });
    assert!(wrong.is_empty(), "differ from their golden files (BLESS=1 rewrites): {wrong:#?}");
}

#[test]
fn messages_come_after_their_session() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let (records, _) = read(connector, &source);
            let told = records.iter().find(|record| !matches!(record, Record::Skipped(_)));
            if let Some(first) = told {
                assert!(matches!(first, Record::Session(_)), "{case:?} {first:?}");
            }
        }
    });
}

#[test]
fn reading_twice_tells_the_same() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            assert_eq!(read(connector, &source), read(connector, &source), "{case:?}");
        }
    });
}

#[test]
fn a_result_comes_after_the_call_it_answers() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let (records, start) = (read(connector, &source).0, Checkpoint::default());
            for told in fold(RecordedSessions::new(), &start, records).into_values() {
                let mut answered = HashSet::new();
                for block in told.messages.iter().flat_map(|message| &message.blocks) {
                    match block {
                        Block::ToolResult { call_id, .. } => drop(answered.insert(call_id)),
                        Block::ToolCall { id, .. } => {
                            assert!(!answered.contains(id), "{case:?}: {id} answered before asked");
                        }
                        _ => {}
                    }
                }
            }
        }
    });
}

#[test]
fn reading_in_two_parts_equals_reading_at_once() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let whole = fs::read(&source.path).unwrap();
            let at_once =
                fold(RecordedSessions::new(), &Checkpoint::default(), read(connector, &source).0);
            for cut in line_ends(&whole) {
                let told = read_in_parts(connector, &source, &whole, cut);
                assert_eq!(told, at_once, "{case:?}: {:?} cut at byte {cut}", source.path);
            }
        }
    });
}

/// Has time for a few lines or sessions only.
struct Impatient {
    records: Records,
    patience: usize,
}

impl Sink for Impatient {
    fn accept_record(&mut self, record: Record) -> agent_sessions::Result<()> {
        self.records.accept_record(record)
    }

    fn is_due(&mut self) -> bool {
        self.patience = self.patience.saturating_sub(1);
        self.patience == 0
    }
}

#[test]
fn reading_that_stops_when_it_is_due_goes_on_where_it_stopped() {
    let mut parts = 0;
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let at_once =
                fold(RecordedSessions::new(), &Checkpoint::default(), read(connector, &source).0);
            for patience in [1, 2, 5] {
                let (mut told, mut start) = (RecordedSessions::new(), Checkpoint::default());
                loop {
                    let mut part = Impatient { records: Records::default(), patience };
                    let end = connector.read_source(&source, start.clone(), &mut part);
                    let is_over = part.patience > 0;
                    match end {
                        Ok(end) if is_over || end.offset > start.offset => {
                            told = fold(told, &start, part.records.0);
                            start = end;
                        }
                        // Nowhere to go on from: the rest is read at once.
                        _ => {
                            told = read_on(connector, &source, told, &start);
                            break;
                        }
                    }
                    if is_over {
                        break;
                    }
                    parts += 1;
                }
                assert_eq!(told, at_once, "{case:?}: {:?} {patience} at a time", source.path);
            }
        }
    });
    assert!(parts > 100, "{parts}");
}

#[test]
fn a_tail_that_was_replaced_is_read_like_a_new_source() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let whole = fs::read(&source.path).unwrap();
            let (first, end) = read(connector, &source);
            let end = jsonl::seal_checkpoint(&source.path, end);
            if end.offset == 0 {
                continue;
            }
            let before = fold(RecordedSessions::new(), &Checkpoint::default(), first);
            let ends = line_ends(&whole);
            for cut in ends.iter().copied().step_by(1 + ends.len() / MAX_CUTS) {
                let replaced = with_another_tail(&whole, cut);
                fs::write(&source.path, &replaced).unwrap();
                let goes_on = jsonl::is_unchanged_around(&source.path, &end);
                let start = if goes_on { end.clone() } else { Checkpoint::default() };
                let known = if goes_on { before.clone() } else { RecordedSessions::new() };
                let told = read_on(connector, &source, known, &start);
                let anew = fold(
                    RecordedSessions::new(),
                    &Checkpoint::default(),
                    read(connector, &source).0,
                );
                assert_eq!(told, anew, "{case:?}: {:?} replaced from {cut}", source.path);
            }
            fs::write(&source.path, &whole).unwrap();
        }
    });
}

/// Replaces everything behind a line end by the lines of the file in reverse order, which is at
/// least as long.
fn with_another_tail(whole: &[u8], cut: usize) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    lines.retain(|line| line.ends_with(b"\n"));
    lines.reverse();
    let mut replaced = whole[..cut].to_vec();
    replaced.extend(lines.concat());
    while replaced.len() < whole.len() {
        replaced.push(b'\n');
    }
    replaced
}

#[test]
fn a_source_cut_at_a_line_end_loses_nothing_before_the_cut() {
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let whole = fs::read(&source.path).unwrap();
            let full =
                fold(RecordedSessions::new(), &Checkpoint::default(), read(connector, &source).0);
            for cut in line_ends(&whole) {
                fs::write(&source.path, &whole[..cut]).unwrap();
                let mut records = Records::default();
                let Ok(end) = connector.read_source(&source, Checkpoint::default(), &mut records)
                else {
                    continue;
                };
                fs::write(&source.path, &whole).unwrap();
                let next = connector.read_source(&source, end.clone(), &mut Records::default());
                if matches!(next, Err(Error::StartOver)) {
                    continue;
                }
                let settled = end.messages as usize;
                for (id, told) in fold(RecordedSessions::new(), &Checkpoint::default(), records.0) {
                    let kept = told.messages.len().min(settled);
                    assert!(told.messages.len() >= settled, "{case:?} {cut}");
                    assert_eq!(told.messages[..kept], full[&id].messages[..kept], "{case:?} {cut}");
                }
            }
            fs::write(&source.path, &whole).unwrap();
        }
    });
}

#[test]
fn a_source_cut_or_scribbled_anywhere_never_panics() {
    each_case(|connector, _, home| {
        for source in home.sources(connector) {
            let whole = fs::read(&source.path).unwrap();
            if whole.is_empty() {
                continue;
            }
            let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
            let strategy = (0..whole.len(), 0..whole.len(), proptest::num::u8::ANY);
            TestRunner::new_with_rng(config, rng())
                .run(&strategy, |(cut, place, byte)| {
                    let mut bytes = whole[..cut].to_vec();
                    if let Some(target) = bytes.get_mut(place) {
                        *target = byte;
                    }
                    fs::write(&source.path, bytes).unwrap();
                    // Refusing the source is a fine answer; what was told must still be in order.
                    let mut records = Records::default();
                    let _ = connector.read_source(&source, Checkpoint::default(), &mut records);
                    fold(RecordedSessions::new(), &Checkpoint::default(), records.0);
                    Ok(())
                })
                .unwrap();
            fs::write(&source.path, &whole).unwrap();
        }
    });
}

#[test]
fn a_last_line_too_long_to_hold_is_passed_once() {
    let long = [vec![b'x'; MAX_LINE + 1], b"\n".to_vec()].concat();
    for connector in ALL {
        let cases = directories(&fixtures().join(connector.agent().id));
        let homes: Vec<Home> = cases.iter().map(|case| Home::of(case)).collect();
        let mut sources = homes.iter().flat_map(|home| home.sources(*connector));
        // Where the end is not settled a later read goes back anyway.
        let is_settled = |source: &Source| {
            let end = read(*connector, source).1.offset;
            end > 0 && end == fs::metadata(&source.path).unwrap().len()
        };
        let Some(source) = sources.find(is_settled) else { continue };
        fs::OpenOptions::new().append(true).open(&source.path).unwrap().write_all(&long).unwrap();
        assert!(is_settled(&source), "{:?}", source.path);
    }
}

#[test]
fn sources_stay_as_they_are_and_nothing_appears_beside_them() {
    each_case(|connector, case, home| {
        let before = home.snapshot();
        for source in home.sources(connector) {
            read(connector, &source);
        }
        assert!(home.snapshot() == before, "{case:?} changed");
    });
}

#[test]
fn agents_differ_in_every_name_they_answer_to() {
    let mut names = HashSet::new();
    for agent in ALL.iter().map(|connector| connector.agent()) {
        for name in agent.aliases.iter().chain([&agent.id, &agent.key, &agent.variable]) {
            assert!(names.insert(*name) || *name == agent.id, "{name} names two agents");
        }
    }
}

fn read_in_parts(
    connector: &dyn Connector,
    source: &Source,
    whole: &[u8],
    cut: usize,
) -> RecordedSessions {
    fs::write(&source.path, &whole[..cut]).unwrap();
    let mut first = Records::default();
    let middle = connector.read_source(source, Checkpoint::default(), &mut first);
    fs::write(&source.path, whole).unwrap();
    // What cannot be read in part, or cannot be continued, is read again from the start.
    let (told, start) = match middle {
        Ok(middle) if middle.offset > 0 => {
            (fold(RecordedSessions::new(), &Checkpoint::default(), first.0), middle)
        }
        _ => (RecordedSessions::new(), Checkpoint::default()),
    };
    read_on(connector, source, told, &start)
}

/// Goes on with what was told from a checkpoint on, or begins anew where the connector must.
fn read_on(
    connector: &dyn Connector,
    source: &Source,
    told: RecordedSessions,
    start: &Checkpoint,
) -> RecordedSessions {
    let mut records = Records::default();
    match connector.read_source(source, start.clone(), &mut records) {
        Err(Error::StartOver) => {
            fold(RecordedSessions::new(), &Checkpoint::default(), read(connector, source).0)
        }
        end => end.map(|_| fold(told, start, records.0)).unwrap(),
    }
}

fn line_ends(bytes: &[u8]) -> Vec<usize> {
    memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).filter(|end| *end < bytes.len()).collect()
}

/// The same cuts in every run: a failure can be looked at again.
fn rng() -> proptest::test_runner::TestRng {
    let algorithm = proptest::test_runner::RngAlgorithm::ChaCha;
    proptest::test_runner::TestRng::deterministic_rng(algorithm)
}
