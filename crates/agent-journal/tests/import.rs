//! Sessions come back: what left one journal is the same in another, is kept, and counts once.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use agent_journal::analyze::Stats;
use agent_journal::connectors::Machine;
use agent_journal::export::schema::UnifiedDocument;
use agent_journal::export::{DetailLevel, ExportOptions, Pick, Placement};
use agent_journal::search::{Filter, Scope, SearchOptions};
use agent_journal::{ImportReport, ImportSource, SyncOptions};

use crate::support::fixtures;
use crate::support::shelf::{Shelf, every_fixture, of_all, samples};

const EXAMPLE: &str = include_str!("export/example.json");

/// A file for journals to take in.
struct Parcel {
    directory: tempfile::TempDir,
}

impl Parcel {
    fn of(content: &str) -> Self {
        let parcel = Self { directory: tempfile::tempdir().unwrap() };
        parcel.hold(content);
        parcel
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("parcel.ndjson")
    }

    fn hold(&self, content: &str) {
        fs::write(self.path(), content).unwrap();
    }

    fn enter(&self, journal: &mut Shelf) -> Result<ImportReport, String> {
        let path = self.path();
        let open = || Ok(Box::new(fs::File::open(&path)?) as Box<dyn Read>);
        let arriving = ImportSource { path: &path, open: &open };
        let arrival = journal.journal.import_file(&arriving, Duration::from_secs(9), &mut |_| {});
        let prefix = format!("could not import {}: ", path.display());
        arrival.map_err(|error| error.to_string().replace(&prefix, ""))
    }
}

/// An empty journal of a machine on which no agent was ever used.
fn elsewhere() -> Shelf {
    Shelf::empty(Machine { home: PathBuf::from("/nowhere"), ..Machine::default() })
}

fn everything(shelf: &Shelf, placement: Placement) -> String {
    let options = ExportOptions { pictures: Pick::With, placement, ..ExportOptions::default() };
    let entries = shelf.entries();
    entries.iter().map(|entry| shelf.written(entry, "ndjson", options.clone())).collect()
}

/// Takes the instants at which the documents were made out of them.
fn timeless(lines: &str) -> Vec<String> {
    let cut = |line: &str| -> String {
        let (before, after) = line.split_once("\"export_timestamp\":\"").unwrap();
        format!("{before}{}", after.split_once('"').unwrap().1)
    };
    lines.lines().map(cut).collect()
}

fn stats(shelf: &Shelf) -> serde_json::Value {
    let stats: Stats = shelf.journal.stats(&of_all()).unwrap();
    serde_json::to_value(stats).unwrap()
}

fn check_return(name: &str, shelf: &Shelf) -> usize {
    let mut found = 0;
    for placement in [Placement::Separate, Placement::Grouped] {
        let left = everything(shelf, placement);
        let mut other = elsewhere();
        let sessions = left.lines().count() as u64;
        if sessions == 0 {
            return 0;
        }
        let arrival = Parcel::of(&left).enter(&mut other).unwrap();
        assert_eq!((arrival.sessions, arrival.new), (sessions, sessions), "{name}");
        let again = everything(&other, placement);
        for (one, two) in timeless(&left).iter().zip(timeless(&again)) {
            let differs = one.bytes().zip(two.bytes()).position(|(one, two)| one != two);
            let around = differs.map(|at| {
                let cut = |text: &str| {
                    let text = text.as_bytes();
                    let (start, end) = (at.saturating_sub(200), (at + 200).min(text.len()));
                    String::from_utf8_lossy(&text[start..end]).into_owned()
                };
                (cut(one), cut(&two))
            });
            assert!(*one == two, "{name}: {around:#?}");
        }
        assert_eq!(left.lines().count(), again.lines().count(), "{name}");
        found = left.lines().count();
        for entry in shelf.entries() {
            let options =
                ExportOptions { detail: DetailLevel::Everything, ..ExportOptions::default() };
            let direct = shelf.written(&entry, "markdown", options.clone());
            let back = other.journal.find_session(&entry.id).unwrap();
            assert_eq!(entry.counts, back.counts, "{name}");
            if placement == Placement::Separate {
                assert_eq!(direct, other.written(&back, "markdown", options), "{name}");
            }
        }
    }
    found
}

#[test]
fn every_fixture_comes_back_as_it_left() {
    let found: usize = every_fixture()
        .iter()
        .map(|fixture| check_return(&fixture.display().to_string(), &Shelf::of(fixture)))
        .sum();
    assert!(found > 20, "{found}");
}

#[test]
fn every_sample_history_comes_back_as_it_left() {
    let samples = samples();
    let found: usize = samples
        .iter()
        .map(|(name, machine, _home)| check_return(name, &Shelf::new(machine.clone())))
        .sum();
    println!("{found} sessions came back");
    assert!(samples.is_empty() || found > 0);
}

#[test]
fn what_was_spent_counts_once_and_the_own_recording_is_shown() {
    let fixture = fixtures().join("claude-code/whole-session");
    let home = crate::support::Home::of(&fixture);
    let mut shelf = Shelf::new(home.machine());
    let before = stats(&shelf);
    let left = everything(&shelf, Placement::Separate);
    let sources: Vec<String> = shelf.entries().into_iter().map(|one| one.source.path).collect();
    let parcel = Parcel::of(&left.replace("\"role\":\"user\"", "\"role\":\"user\" "));
    let arrival = parcel.enter(&mut shelf).unwrap();
    assert_eq!((arrival.new, arrival.sessions), (0, sources.len() as u64));
    assert_eq!(before, stats(&shelf));
    let shown: Vec<String> = shelf.entries().into_iter().map(|one| one.source.path).collect();
    assert_eq!(shown, sources);
}

#[test]
fn a_fuller_import_is_shown_and_stays_when_its_file_is_gone() {
    let shelf = Shelf::of(&fixtures().join("claude-code/whole-session"));
    let left = everything(&shelf, Placement::Separate);
    let line = left.lines().max_by_key(|line| line.len()).unwrap();
    let mut document: UnifiedDocument = serde_json::from_str(line).unwrap();
    let whole = document.messages.len() as u64;
    document.messages.truncate(2);
    let short = serde_json::to_string(&document).unwrap();

    let mut other = elsewhere();
    let (first, second) = (Parcel::of(&short), Parcel::of(line));
    first.enter(&mut other).unwrap();
    assert_eq!(other.entries()[0].counts.messages, 2);
    second.enter(&mut other).unwrap();
    drop(second);
    other.journal.sync(SyncOptions { full: true, ..<_>::default() }, &mut |_| {}).unwrap();
    assert_eq!(other.entries().len(), 1);
    assert_eq!(other.entries()[0].counts.messages, whole);

    // The same file again with less in it: what it told before is not lost.
    first.hold(line);
    first.enter(&mut other).unwrap();
    first.hold(&short);
    assert_eq!(first.enter(&mut other).unwrap().kept, 1);
    assert_eq!(other.entries()[0].counts.messages, whole);
}

#[test]
fn the_example_of_the_description_can_be_imported_found_and_read() {
    let mut shelf = elsewhere();
    let arrival = Parcel::of(EXAMPLE).enter(&mut shelf).unwrap();
    assert_eq!((arrival.sessions, arrival.messages), (1, 3));
    let entry = shelf.entries().remove(0);
    let text = shelf.journal.read_messages(&entry, 0..1).unwrap()[0].1.joined_text();
    let word = text.split_whitespace().find(|word| word.len() > 4).unwrap();
    let now = jiff::Zoned::now();
    let query = agent_journal::search::Query::parse(word, &now).unwrap();
    assert_eq!(shelf.journal.search(&query, &SearchOptions::default()).unwrap().total, 1);
}

#[test]
fn what_a_document_does_not_say_of_its_session_its_messages_say() {
    let mut document: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
    document["session"]["started_at"] = "2025-12-27T09:00:03Z".into();
    document["session"]["ended_at"] = "2025-12-27T09:00:04Z".into();
    let mut shelf = elsewhere();
    Parcel::of(&document.to_string()).enter(&mut shelf).unwrap();
    let entry = shelf.entries().remove(0);
    assert_eq!(entry.project_path.as_deref(), Some("/home/user/myproject"));
    assert_eq!(
        (entry.project.as_deref(), entry.branch.as_deref()),
        (Some("myproject"), Some("main"))
    );
    let messages = shelf.journal.read_messages(&entry, 0..99).unwrap();
    let times: Vec<_> = messages.iter().filter_map(|(_, message)| message.at).collect();
    assert_eq!(entry.started_at.as_ref(), times.iter().min());
    assert_eq!(entry.ended_at.as_ref(), times.iter().max());
}

#[test]
fn names_may_stand_in_any_order_and_documents_over_several_lines() {
    let value: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
    // A value writes its names in alphabetical order: messages before the session.
    let sorted = serde_json::to_string_pretty(&value).unwrap();
    assert!(sorted.find("\"messages\"").unwrap() < sorted.find("\"session\"").unwrap());
    let (mut one, mut two) = (elsewhere(), elsewhere());
    Parcel::of(EXAMPLE).enter(&mut one).unwrap();
    Parcel::of(&sorted).enter(&mut two).unwrap();
    let lines = |shelf: &Shelf| timeless(&everything(shelf, Placement::Separate));
    assert_eq!(lines(&one), lines(&two));
}

#[test]
fn a_wrong_file_says_so_in_one_line_and_leaves_nothing() {
    let change = |from: &str, to: &str| {
        assert!(EXAMPLE.contains(from), "{from}");
        EXAMPLE.replacen(from, to, 1)
    };
    let line = serde_json::from_str::<serde_json::Value>(EXAMPLE).unwrap().to_string();
    let version = "\"schema_version\": \"1.0\"";
    let agent = {
        let document: UnifiedDocument = serde_json::from_str(EXAMPLE).unwrap();
        format!("\"agent\": \"{}\"", document.agent)
    };
    let cases = [
        (String::new(), "the file contains no session"),
        ("# A title\n".to_owned(), "not a JSON or ndjson export"),
        ("[]".to_owned(), "the file contains no session"),
        ("{}".to_owned(), "missing field `messages`"),
        (
            format!("{line}\n{}", &line[..line.len() / 2]),
            "the file ends in the middle of session 2",
        ),
        (format!("{line}\nand more"), "session 2"),
        (change(version, "\"schema_version\": \"2.0\""), "schema version 2.0"),
        (change(version, "\"schema_version\": \"new\""), "is not a schema version"),
        (change(version, "\"version\": \"1.0\""), "missing field `schema_version`"),
        (change(&agent, "\"agent\": \"../x\""), "`agent` is not a valid agent name"),
        (change("\"role\": \"user\"", "\"role\": \"cook\""), "unknown variant `cook`"),
        (format!("{line}\n{}", line.replace("\"role\":\"assistant\"", "\"role\":7")), "session 2"),
    ];
    for (content, expected) in cases {
        let mut shelf = elsewhere();
        let message = Parcel::of(&content).enter(&mut shelf).unwrap_err();
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(!message.contains('\n'), "{message}");
        assert!(shelf.entries().is_empty(), "{expected}");
    }
}

#[test]
fn a_later_minor_version_is_taken_with_what_it_adds() {
    let later = EXAMPLE
        .replace("\"schema_version\": \"1.0\"", "\"schema_version\": \"1.9\", \"mood\": {\"a\":1}")
        .replacen("\"content\": [", "\"content\": [{\"type\": \"smell\", \"of\": \"tea\"},", 1);
    let mut shelf = elsewhere();
    Parcel::of(&later).enter(&mut shelf).unwrap();
    let left = everything(&shelf, Placement::Separate);
    assert!(left.contains(r#"{"type":"other","raw":{"type": "smell", "of": "tea"}}"#), "{left}");
}

#[test]
fn what_a_later_minor_version_adds_survives_at_every_level() {
    let mut later: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
    later["schema_version"] = "1.7".into();
    later["new_in_document"] = serde_json::json!({ "a": [1, 2] });
    later["session"]["new_in_session"] = "s".into();
    later["session"]["source"]["new_in_source"] = "o".into();
    let answer = &mut later["messages"][1];
    answer["new_in_message"] = 1.into();
    answer["metadata"]["new_in_metadata"] = 2.into();
    answer["metadata"]["model"]["new_in_model"] = 3.into();
    answer["metadata"]["token_usage"]["new_in_usage"] = 4.into();
    answer["content"][0]["new_in_text"] = 5.into();
    later["messages"][2]["content"][0]["new_in_result"] = 6.into();
    let mut shelf = elsewhere();
    Parcel::of(&later.to_string()).enter(&mut shelf).unwrap();
    let once = everything(&shelf, Placement::Separate);
    let document: serde_json::Value = serde_json::from_str(&once).unwrap();
    let of = |value: &serde_json::Value| value["extensions"]["claude-code"]["additional"].clone();
    let expected = serde_json::json!({
        "document": { "new_in_document": { "a": [1, 2] } },
        "session": { "new_in_session": "s" }, "source": { "new_in_source": "o" },
    });
    assert_eq!(of(&document["session"]), expected);
    let expected = serde_json::json!({
        "message": { "new_in_message": 1 }, "metadata": { "new_in_metadata": 2 },
        "model": { "new_in_model": 3 }, "token_usage": { "new_in_usage": 4 },
        "content": { "0": { "new_in_text": 5 } },
    });
    assert_eq!(of(&document["messages"][1]), expected);
    let expected = serde_json::json!({ "content": { "0": { "new_in_result": 6 } } });
    assert_eq!(of(&document["messages"][2]), expected);
    assert!(of(&document["messages"][0]).is_null());
    // And once more.
    let mut other = elsewhere();
    Parcel::of(&once).enter(&mut other).unwrap();
    assert_eq!(timeless(&once), timeless(&everything(&other, Placement::Separate)));
}

#[test]
fn agents_that_cannot_be_read_here_can_be_imported() {
    let document: UnifiedDocument = serde_json::from_str(EXAMPLE).unwrap();
    let foreign = EXAMPLE.replace(&format!("\"{}\"", document.agent), "\"some-other-agent\"");
    let mut shelf = elsewhere();
    Parcel::of(&foreign).enter(&mut shelf).unwrap();
    let entry = shelf.entries().remove(0);
    assert_eq!(entry.agent, "some-other-agent");
    assert_eq!(shelf.journal.find_session(&entry.id).unwrap().id, entry.id);
    let page = shelf.written(&entry, "html", ExportOptions::default());
    assert!(page.contains("some-other-agent"));
}

#[test]
fn a_picture_cannot_pass_for_another() {
    let picture =
        r#"{"type":"image","bytes":3,"hash":"00000000000000000000000000000000","data":"AQID"},"#;
    let content = EXAMPLE.replacen("\"content\": [", &format!("\"content\": [{picture}"), 1);
    let mut shelf = elsewhere();
    Parcel::of(&content).enter(&mut shelf).unwrap();
    let left = everything(&shelf, Placement::Separate);
    assert!(left.contains("\"data\":\"AQID\"") && !left.contains("\"hash\":\"00000000"), "{left}");
}

/// Every session, and what those that are not shown spent.
fn whole(shelf: &Shelf) -> String {
    let mut whole = everything(shelf, Placement::Separate);
    let all = Filter { scope: Scope::All, ..Filter::default() };
    for entry in shelf.journal.sessions_with_detached_usage(&all).unwrap() {
        let line = shelf.written(&entry, "ndjson", ExportOptions::default());
        assert!(line.contains("\"messages\":[]"), "{line}");
        whole.push_str(&line);
    }
    whole
}

/// What was done and spent, in all and by agent, model, project, branch and day.
fn spent(shelf: &Shelf) -> Vec<String> {
    let stats = stats(shelf);
    let mut all = Vec::new();
    for part in ["agents", "models", "projects", "branches", "days"] {
        for group in stats[part].as_array().unwrap() {
            let (name, figures) = match group.as_array() {
                Some(day) => (&day[0], &day[1]),
                None => (&group["key"], group),
            };
            all.push(format!("{part} {name}: {figures}"));
        }
    }
    for part in ["totals", "hours", "turns", "durations", "tools", "errors", "files", "refs"] {
        all.push(format!("{part}: {}", stats[part]));
    }
    all
}

/// What was spent is the same in a journal of what left another one, and in one that took in what
/// left itself.
fn check_spent(name: &str, shelf: &mut Shelf) -> Vec<String> {
    let before = spent(shelf);
    let mut wrong = Vec::new();
    let mut compare = |how: &str, after: Vec<String>| {
        let differ = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        if before != after {
            let (lost, new) = (differ(&before, &after), differ(&after, &before));
            wrong.push(format!("{name}, {how}: {lost:#?} became {new:#?}"));
        }
    };
    let left = whole(shelf);
    if left.is_empty() {
        return Vec::new();
    }
    let parcel = Parcel::of(&left);
    let mut other = elsewhere();
    parcel.enter(&mut other).unwrap();
    compare("elsewhere", spent(&other));
    let again = whole(&other);
    let mut third = elsewhere();
    Parcel::of(&again).enter(&mut third).unwrap();
    compare("twice", spent(&third));
    parcel.enter(shelf).unwrap();
    compare("at home", spent(shelf));
    wrong
}

#[test]
fn what_every_fixture_spent_comes_back() {
    let wrong: Vec<String> = every_fixture()
        .iter()
        .flat_map(|fixture| {
            let home = crate::support::Home::of(fixture);
            let projects = crate::support::directories(home.path());
            let mut shelf = Shelf::new(Machine { projects, ..home.machine() });
            check_spent(&fixture.display().to_string(), &mut shelf)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_every_sample_history_spent_comes_back() {
    let wrong: Vec<String> = samples()
        .into_iter()
        .flat_map(|(name, machine, _home)| check_spent(&name, &mut Shelf::new(machine)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sessions are found again by their ids.
#[test]
fn sub_agents_stay_with_their_parents() {
    for fixture in every_fixture() {
        let shelf = Shelf::of(&fixture);
        let all = Filter { scope: Scope::All, ..Filter::default() };
        if shelf.journal.list_entries(&all, None).unwrap().iter().all(|one| one.children.is_empty())
        {
            continue;
        }
        let mut other = elsewhere();
        Parcel::of(&everything(&shelf, Placement::Separate)).enter(&mut other).unwrap();
        for (one, two) in shelf.entries().iter().zip(other.entries()) {
            assert_eq!((&one.children, &one.parent_id), (&two.children, &two.parent_id));
        }
        return;
    }
    panic!("no fixture has a sub-agent");
}

#[test]
fn importing_twice_changes_nothing() {
    let shelf = Shelf::of(&fixtures().join("claude-code/whole-session"));
    let parcel = Parcel::of(&everything(&shelf, Placement::Separate));
    let mut other = elsewhere();
    parcel.enter(&mut other).unwrap();
    let once = timeless(&everything(&other, Placement::Separate));
    let arrival = parcel.enter(&mut other).unwrap();
    assert_eq!((arrival.new, arrival.kept), (0, 0));
    assert_eq!(once, timeless(&everything(&other, Placement::Separate)));
}
