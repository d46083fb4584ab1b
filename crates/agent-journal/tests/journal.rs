//! The journal as a whole: whatever the order in which files appear and grow, there is one
//! journal, and its answers are those of a plain look through everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use agent_journal::Journal;
use agent_journal::connectors::ALL;
use agent_journal::model::{Block, Message, Origin};
use agent_journal::search::{Found, Mode, SearchOptions, Tier};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::support::place::{Place, Script, all, by_words, found, query};
use crate::support::{Home, directories, each_file, fixtures};

/// The sessions with a text that can be compared with a word, however far.
fn near(journal: &Journal, text: &str) -> BTreeSet<String> {
    let (mode, min_similarity) = (Mode::Semantic, 0.0);
    let options = SearchOptions { limit: 1000, mode, min_similarity, ..SearchOptions::default() };
    let answer = journal.search(&query(text), &options).unwrap();
    answer.sessions.into_iter().map(|session| session.entry.id).collect()
}

/// Everything a journal can say of its sessions, and whom it finds by the words in them.
fn everything(place: &Place, journal: &Journal) -> Value {
    let mut sessions = BTreeMap::new();
    let mut words = BTreeSet::new();
    for entry in journal.list_entries(&all(), None).unwrap() {
        let messages = journal.read_messages(&entry, 0..u64::MAX).unwrap();
        for (_, message) in &messages {
            let text = message.joined_text();
            let plain = text.split(|one: char| !one.is_ascii_lowercase()).map(str::to_owned);
            words.extend(plain.filter(|word| word.len() > 3).take(4));
        }
        let account = journal.session_metadata(&entry).unwrap();
        let told = json!({ "entry": entry, "messages": messages, "account": account });
        sessions.insert(entry.id, told);
    }
    let words: Vec<String> = words.into_iter().take(60).collect();
    let answers: BTreeMap<&String, Vec<String>> =
        words.iter().map(|word| (word, found(journal, word).into_keys().collect())).collect();
    let near: BTreeMap<&String, BTreeSet<String>> =
        words.iter().take(10).map(|word| (word, near(journal, word))).collect();
    let counted = place.counted();
    json!({ "sessions": sessions, "answers": answers, "near": near, "counted": counted })
}

#[track_caller]
fn same(kept: &Value, expected: &Value, what: &str) {
    if let Some((path, kept, expected)) = first_difference(kept, expected) {
        panic!("{what}: {path} is {kept}, expected {expected}");
    }
}

/// Returns the path of the first difference between two documents, with both values.
fn first_difference(one: &Value, other: &Value) -> Option<(String, String, String)> {
    let below = |name: String, one: Option<&Value>, other: Option<&Value>| match (one, other) {
        (Some(one), Some(other)) => first_difference(one, other)
            .map(|(path, one, other)| (format!("/{name}{path}"), one, other)),
        (one, other) => {
            let text = |value: Option<&Value>| value.map_or("absent".into(), Value::to_string);
            Some((format!("/{name}"), text(one), text(other)))
        }
    };
    match (one, other) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            names.into_iter().find_map(|name| below(name.clone(), ours.get(name), theirs.get(name)))
        }
        (Value::Array(ours), Value::Array(theirs)) => (0..ours.len().max(theirs.len()))
            .find_map(|at| below(at.to_string(), ours.get(at), theirs.get(at))),
        _ if one == other => None,
        _ => Some((String::new(), one.to_string(), other.to_string())),
    }
}

/// Runs `check` on the home of every fixture of every agent, and fails with all its failures.
fn each_fixture(mut check: impl FnMut(&Path, &Home)) {
    let mut failures = 0;
    for connector in ALL {
        for case in directories(&fixtures().join(connector.agent().id)) {
            let checked = catch_unwind(AssertUnwindSafe(|| check(&case, &Home::of(&case))));
            failures += usize::from(checked.is_err());
        }
    }
    assert_eq!(failures, 0, "the output above has each failure");
}

/// The files of a home, relative to it.
fn files(home: &Home) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    each_file(home.path(), &mut |path| {
        let name = path.strip_prefix(home.path()).unwrap().to_string_lossy().into_owned();
        all.push((name, fs::read(path).unwrap()));
    });
    all
}

fn random(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &bytes)
}

#[test]
fn an_index_that_was_dropped_and_made_anew_gives_the_same_answers() {
    each_fixture(|case, home| {
        let place = Place::new();
        place.files(&files(home));
        let before = everything(&place, &place.sync());
        fs::remove_dir_all(place.directory.path().join("journal/index")).unwrap();
        same(&everything(&place, &place.sync()), &before, &case.display().to_string());
    });
}

#[test]
fn every_order_in_which_files_appear_gives_one_journal() {
    let mut seed = 0;
    each_fixture(|case, home| {
        let files = files(home);
        let whole = Place::new();
        whole.files(&files);
        let expected = relative(&whole, &everything(&whole, &whole.sync()));
        let sources = sources(home);
        for _ in 0..2 {
            seed += 1;
            let place = Place::new();
            // What a source refers to is written before it.
            let (mut order, there): (Vec<_>, Vec<_>) =
                files.iter().partition(|(path, _)| sources.contains(path));
            // A lesser form of a session is read only while there is no better one; what it told
            // then is kept, so that it must not come first here.
            let (lesser, there): (Vec<_>, Vec<_>) =
                there.into_iter().partition(|(path, _)| path.contains("/transcripts/"));
            place.files(there);
            shuffle(&mut order, &mut random(seed));
            in_turn(&mut order);
            for (path, content) in order.into_iter().chain(lesser) {
                place.file(path, content);
                place.sync();
            }
            let kept = relative(&place, &everything(&place, &place.sync()));
            same(&kept, &expected, &format!("{} in order {seed}", case.display()));
        }
    });
}

#[test]
fn every_way_in_which_files_grow_gives_one_journal() {
    let mut seed = 1000;
    each_fixture(|case, home| {
        let files = files(home);
        let whole = Place::new();
        whole.files(&files);
        let expected = relative(&whole, &everything(&whole, &whole.sync()));
        seed += 1;
        let mut random = random(seed);
        let place = Place::new();
        // What is not written line by line is there from the beginning.
        let (growing, there): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|(path, _)| Path::new(path).extension().is_some_and(|end| end == "jsonl"));
        place.files(there);
        let mut lengths = vec![0; growing.len()];
        while lengths.iter().zip(&growing).any(|(length, (_, content))| *length < content.len()) {
            for (length, (path, content)) in lengths.iter_mut().zip(&growing) {
                let rest = content.len() - *length;
                *length += (random.random_range(0..=rest + rest / 3)).min(rest);
                place.file(path, &content[..*length]);
            }
            place.sync();
        }
        let kept = relative(&place, &everything(&place, &place.sync()));
        same(&kept, &expected, &format!("{} seed {seed}", case.display()));
    });
}

/// Leaves out where a home lies.
fn relative(place: &Place, document: &Value) -> Value {
    let home = place.home().to_string_lossy().into_owned();
    serde_json::from_str(&document.to_string().replace(&home, "~")).unwrap()
}

/// The files that a connector reads as such, relative to their home.
fn sources(home: &Home) -> BTreeSet<String> {
    let found = ALL.iter().flat_map(|connector| home.sources(*connector));
    let relative = |path: &Path| path.strip_prefix(home.path()).map(Path::to_owned);
    found.filter_map(|source| Some(relative(&source.path).ok()?.to_str()?.to_owned())).collect()
}

/// Puts the files of each directory into the order of their names: of two in one directory the
/// earlier was written first, and some agents give both the same id.
fn in_turn(order: &mut [&(String, Vec<u8>)]) {
    let folder = |file: &(String, Vec<u8>)| Path::new(&file.0).parent().map(Path::to_owned);
    for at in 0..order.len() {
        let next = (at..order.len())
            .filter(|other| folder(order[*other]) == folder(order[at]))
            .min_by_key(|other| &order[*other].0);
        order.swap(at, next.unwrap_or(at));
    }
}

fn shuffle<T>(order: &mut [T], random: &mut TestRng) {
    for at in (1..order.len()).rev() {
        order.swap(at, random.random_range(0..=at));
    }
}

// What words find

/// Words that begin like each other, and that stand in each other.
const WORDS: [&str; 10] =
    ["apple", "apply", "app", "banana", "band", "cherry", "chart", "date", "dates", "elder"];

/// What is looked for: words next to each other (one word is such a phrase too), the last of
/// which may be a beginning; wanted or not.
#[derive(Clone, Debug)]
struct Wanted {
    words: Vec<&'static str>,
    is_prefix: bool,
    is_negated: bool,
}

impl Wanted {
    fn text(&self) -> String {
        let sign = if self.is_negated { "-" } else { "" };
        match (self.is_prefix, self.words.as_slice()) {
            (true, words) => format!("{sign}{}*", words[0]),
            (false, [word]) => format!("{sign}{word}"),
            (false, words) => format!("{sign}\"{}\"", words.join(" ")),
        }
    }

    fn fits(&self, passage: &str) -> bool {
        let there: Vec<&str> = passage.split(' ').collect();
        if self.is_prefix {
            return there.iter().any(|word| word.starts_with(self.words[0]));
        }
        there.windows(self.words.len()).any(|run| run == self.words)
    }
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let word = prop::sample::select(&WORDS[..]);
    (prop::collection::vec(word, 1..3), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(words, prefix, is_negated)| {
            let is_prefix = prefix && words.len() == 1;
            Wanted { words, is_prefix, is_negated }
        },
    )
}

fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(&WORDS[..]);
    prop::collection::vec(word, 1..8).prop_map(|words| words.join(" "))
}

/// What a plain look through the journal finds: sessions with a passage in which everything
/// wanted stands, and nothing unwanted.
fn look_through(journal: &Journal, query: &[Wanted]) -> BTreeMap<String, BTreeSet<Option<u64>>> {
    let fits = |passage: &str| query.iter().all(|one| one.fits(passage) != one.is_negated);
    let mut all_found: BTreeMap<String, BTreeSet<Option<u64>>> = BTreeMap::new();
    for entry in journal.list_entries(&all(), None).unwrap() {
        let mut places = BTreeSet::new();
        if fits(&entry.title) {
            places.insert(None);
        }
        for (position, message) in journal.read_messages(&entry, 0..u64::MAX).unwrap() {
            if passages(&message).any(fits) {
                places.insert(Some(position));
            }
        }
        if !places.is_empty() {
            all_found.insert(entry.id, places);
        }
    }
    all_found
}

fn passages(message: &Message) -> impl Iterator<Item = &str> {
    let is_said = matches!(message.origin, Origin::Human | Origin::Assistant);
    message.blocks.iter().filter_map(move |block| match block {
        Block::Text(text) if is_said => Some(text.as_str()),
        _ => None,
    })
}

#[test]
fn words_find_what_a_plain_look_through_everything_finds() {
    let session = prop::collection::vec(text(), 1..6);
    let strategy = (
        prop::collection::vec(session, 1..6),
        prop::collection::vec(prop::collection::vec(wanted(), 1..4), 12),
    );
    let config = Cases { cases: 24, failure_persistence: None, ..Cases::default() };
    let run = TestRunner::new_with_rng(config, random(7)).run(&strategy, |(sessions, queries)| {
        let place = Place::new();
        for (number, texts) in sessions.iter().enumerate() {
            let session =
                texts.iter().enumerate().fold(Script::new(number), |script, (at, text)| {
                    if at % 2 == 0 { script.you(text) } else { script.agent(text) }
                });
            place.file(&session.path(), session.lines);
        }
        let journal = place.sync();
        for wanted in queries.iter().filter(|query| query.iter().any(|one| !one.is_negated)) {
            let text: Vec<String> = wanted.iter().map(Wanted::text).collect();
            let text = text.join(" ");
            let expected = look_through(&journal, wanted);
            let answer = journal.search(&query(&text), &by_words(1000)).unwrap();
            if expected.is_empty() {
                let is_honest = answer.sessions.is_empty() || answer.tier > Tier::AllWords;
                prop_assert!(is_honest, "{} finds what is not there", text);
                continue;
            }
            prop_assert!(answer.tier <= Tier::AllWords, "{}", &text);
            // Below what has the words themselves, other forms of them may be found.
            prop_assert!(answer.sessions.len() >= expected.len(), "{}", &text);
            let (exact, others) = answer.sessions.split_at(expected.len());
            let is_other = |found: &Found| found.tier == Tier::WordForms;
            prop_assert!(others.iter().all(is_other), "{}", &text);
            for session in exact {
                let places = expected.get(&session.entry.id);
                prop_assert!(places.is_some(), "{}: {} does not fit", text, session.entry.id);
                let is_there = |at: &Option<u64>| places.is_some_and(|all| all.contains(at));
                prop_assert!(session.hits.iter().all(|hit| is_there(&hit.position)), "{}", text);
                prop_assert!(!session.hits.is_empty());
            }
        }
        Ok(())
    });
    run.unwrap();
}

// What is written is read

/// Any text that says something: of all scripts, with line ends, quotes and what else there is.
/// Space around a text does not count.
fn anything() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{1,20}",
        prop::sample::select(
            &["\n", "\"", "\\", "\t", "\u{1b}[1m", "\u{202e}", "é", "界", "🦀"][..]
        )
        .prop_map(str::to_owned),
        text(),
    ];
    prop::collection::vec(piece, 1..12).prop_map(|pieces| format!("said {} so", pieces.concat()))
}

#[test]
fn what_was_written_bit_by_bit_is_read_as_it_was_and_found_again_when_the_index_is_dropped() {
    let session = prop::collection::vec(anything(), 1..8);
    // How much of each file is there at each sync, in hundredths.
    let cuts = prop::collection::vec(prop::collection::vec(0..100_usize, 4), 0..4);
    let strategy = (prop::collection::vec(session, 1..5), cuts);
    let config = Cases { cases: 24, failure_persistence: None, ..Cases::default() };
    let run = TestRunner::new_with_rng(config, random(11)).run(&strategy, |(sessions, cuts)| {
        let scripts: Vec<Script> = sessions.iter().enumerate().map(told).collect();
        let place = Place::new();
        let mut lengths = [0; 4];
        for cut in &cuts {
            for (at, script) in scripts.iter().enumerate() {
                // Files grow: the end of a character may be yet to come.
                let length = script.lines.len() * cut[at] / 100;
                lengths[at] = length.max(lengths[at]);
                place.file(&script.path(), &script.lines.as_bytes()[..lengths[at]]);
            }
            place.sync();
        }
        for script in &scripts {
            place.file(&script.path(), &script.lines);
        }
        let journal = place.sync();
        for (script, texts) in scripts.iter().zip(&sessions) {
            let entry = journal.find_session(&script.id).unwrap();
            let messages = journal.read_messages(&entry, 0..u64::MAX).unwrap();
            let read: Vec<String> =
                messages.iter().map(|(_, message)| message.joined_text()).collect();
            prop_assert_eq!(&read, texts);
            let positions: Vec<u64> = messages.iter().map(|(position, _)| *position).collect();
            prop_assert_eq!(positions, (0..texts.len() as u64).collect::<Vec<_>>());
        }
        let before = everything(&place, &journal);
        drop(journal);
        fs::remove_dir_all(place.directory.path().join("journal/index")).unwrap();
        same(&everything(&place, &place.sync()), &before, "made anew");
        Ok(())
    });
    run.unwrap();
}

/// A session in which people and agent take turns.
fn told((number, texts): (usize, &Vec<String>)) -> Script {
    let say = |script: Script, (at, text): (usize, &String)| {
        if at % 2 == 0 { script.you(text) } else { script.agent(text) }
    };
    texts.iter().enumerate().fold(Script::new(number), say)
}
