//! Search by meaning, from files to answers: vectors follow the journal whatever happens to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_journal::connectors::Machine;
use agent_journal::search::{Answer, Mode, Query, SearchOptions, Tier};
use agent_journal::{Config, Coverage, Fallback, Journal, Meaning, Precision, SyncOptions};
use serde_json::json;

/// A home, its journal and how meanings are kept there.
struct Place {
    directory: tempfile::TempDir,
    meaning: Meaning,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), meaning: Meaning::default() }
    }

    /// Writes a session: texts of a person and of a model in turn.
    fn session(&self, number: usize, texts: &[&str]) {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let mut lines = String::new();
        for (at, text) in texts.iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            let content = json!([{ "type": "text", "text": text }]);
            let mut message = json!({ "role": role, "content": content });
            if role == "assistant" {
                message["id"] = format!("msg_{number}_{at}").into();
                message["model"] = "some-model".into();
            }
            let line = json!({
                "type": role, "message": message, "sessionId": id, "cwd": "/home/mara/web",
                "uuid": format!("{number:08x}-0000-4000-8000-{at:012x}"), "version": "2.1.40",
                "timestamp": format!("2026-03-02T09:{:02}:{:02}.000Z", at / 60, at % 60),
            });
            lines.push_str(&format!("{line}\n"));
        }
        let path = format!("home/.claude/projects/-home-mara-web/{id}.jsonl");
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines).unwrap();
    }

    fn open(&self) -> Journal {
        let machine = Machine { home: self.directory.path().join("home"), ..Machine::default() };
        let config = Config {
            meaning: self.meaning.clone(),
            ..Config::new(self.directory.path().join("journal"))
        };
        Journal::open(config, machine).unwrap()
    }

    fn sync(&self) -> Journal {
        self.sync_with(SyncOptions::default())
    }

    fn sync_with(&self, options: SyncOptions) -> Journal {
        let mut journal = self.open();
        journal.sync(options, &mut |_| {}).unwrap();
        journal
    }

    /// Syncs as a command does that has to answer soon.
    fn glance(&self) -> Journal {
        self.sync_with(SyncOptions { budget: Some(Duration::from_mins(1)), ..Default::default() })
    }

    /// The files of vectors.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("journal/index")).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| name(path).starts_with("vectors-"));
        files.sort();
        files
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn coverage(journal: &Journal) -> Coverage {
    journal.semantic_coverage().unwrap()
}

/// Two sessions: each with a title, which is its first prompt, and two messages.
fn two_sessions() -> Place {
    let place = Place::new();
    place.session(1, &["the login test is flaky", "it waits for the clock now"]);
    place.session(2, &["draw the chart in blue", "the chart is blue"]);
    place
}

#[test]
fn prompts_replies_and_titles_have_vectors() {
    let coverage = coverage(&two_sessions().sync());
    assert_eq!((coverage.vectors, coverage.covered, coverage.sessions), (6, 2, 2));
    assert!(coverage.embedder.unwrap().starts_with("embed-v1-"));
}

#[test]
fn a_long_message_has_a_vector_for_each_window() {
    let place = Place::new();
    let long = "the chart is drawn in blue and its legend in grey ".repeat(100);
    place.session(1, &["colours", &long]);
    assert_eq!(coverage(&place.sync()).vectors, 2 + 4);
}

#[test]
fn nothing_is_made_when_meanings_are_off() {
    let mut place = two_sessions();
    place.meaning.off = true;
    let journal = place.sync();
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    assert_eq!(coverage(&journal), Coverage { sessions: 2, ..Coverage::default() });
}

#[test]
fn vectors_follow_a_session_that_grows_and_one_that_is_rewritten() {
    let place = two_sessions();
    place.sync();
    place.session(1, &["the login test is flaky", "it waits for the clock now", "thank you"]);
    assert_eq!(coverage(&place.glance()).vectors, 7);
    place.session(1, &["the login test is flaky", "it was the network"]);
    assert_eq!(coverage(&place.glance()).vectors, 6);
}

#[test]
fn a_lost_or_damaged_file_is_made_anew_when_there_is_time_for_it() {
    let place = two_sessions();
    let whole = coverage(&place.sync());
    let file = &place.files()[0];
    for damage in [&b""[..], b"something else"] {
        fs::write(file, damage).unwrap();
        assert_eq!(coverage(&place.glance()).covered, 0);
        assert_eq!(coverage(&place.sync()), whole);
    }
    fs::remove_file(file).unwrap();
    place.session(3, &["one more"]);
    let glanced = coverage(&place.glance());
    assert_eq!((glanced.vectors, glanced.covered, glanced.sessions), (0, 0, 3));
    assert_eq!(coverage(&place.sync()).vectors, 8);
}

#[test]
fn vectors_that_fell_behind_catch_up() {
    let mut place = two_sessions();
    place.sync();
    place.meaning.off = true;
    place.session(3, &["one more"]);
    place.sync();
    place.meaning.off = false;
    let behind = coverage(&place.open());
    assert_eq!((behind.vectors, behind.covered, behind.sessions), (6, 2, 3));
    let caught_up = coverage(&place.sync());
    assert_eq!((caught_up.vectors, caught_up.covered), (8, 3));
}

#[test]
fn old_vectors_serve_until_the_new_ones_are_made() {
    let mut place = two_sessions();
    let before = coverage(&place.sync());
    place.meaning.precision = Precision::F32;
    assert_eq!(coverage(&place.glance()), before);
    assert!(name(&place.files()[0]).ends_with("-f16"));
    assert_eq!(coverage(&place.sync()), before);
    let names: Vec<String> = place.files().iter().map(|path| name(path)).collect();
    assert_eq!(names.len(), 1);
    assert!(names[0].ends_with("-f32"));
}

#[test]
fn a_model_that_cannot_be_used_is_replaced_by_hashes_or_by_nothing() {
    let mut place = two_sessions();
    let models = place.directory.path().join("models");
    fs::create_dir_all(&models).unwrap();
    place.meaning.model_path = Some(models.clone());
    let builtin = coverage(&place.sync());
    assert_eq!(builtin.problem, None);

    fs::write(models.join("model.onnx"), "no model").unwrap();
    fs::write(models.join("tokenizer.json"), "{}").unwrap();
    let hashed = coverage(&place.sync());
    assert_eq!(hashed.embedder.as_deref(), Some("hash-v1-1024"));
    assert_eq!(hashed.vectors, builtin.vectors);
    assert!(hashed.problem.unwrap().contains(models.to_str().unwrap()));

    place.meaning.fallback = Fallback::None;
    let none = coverage(&place.sync());
    assert_eq!((none.embedder, none.vectors), (None, 0));
}

#[test]
fn reading_everything_again_leaves_each_vector_once() {
    let place = two_sessions();
    let before = coverage(&place.sync());
    let again = place.sync_with(SyncOptions { full: true, ..SyncOptions::default() });
    assert_eq!(coverage(&again), before);
}

/// A session about waiting between attempts, one about colours, one about a database.
fn three_topics() -> Place {
    let place = Place::new();
    place.session(
        1,
        &[
            "the upload should try again with exponential backoff when the server is busy",
            "The client now sleeps between attempts and doubles the pause each time.",
        ],
    );
    place.session(
        2,
        &[
            "make the chart's legend blue and the background grey",
            "The stylesheet has the new colours, and the legend stands below the chart.",
        ],
    );
    place.session(
        3,
        &[
            "add a migration for the orders table with an index on the customer",
            "The migration creates the index; the query planner uses it.",
        ],
    );
    place
}

fn ask(journal: &Journal, text: &str, mode: Mode) -> Answer {
    let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
    let query = Query::parse(text, &now).unwrap();
    journal.search(&query, &SearchOptions { mode, ..SearchOptions::default() }).unwrap()
}

/// The numbers of the sessions of an answer.
fn sessions(answer: &Answer) -> Vec<usize> {
    let number = |id: &str| usize::from_str_radix(&id[..8], 16).unwrap();
    answer.sessions.iter().map(|found| number(&found.entry.native_id)).collect()
}

#[test]
fn what_is_about_the_same_is_found_without_its_words_and_says_so() {
    let place = three_topics();
    let journal = place.sync();
    let text = "retry failed requests with increasing delay";
    assert!(ask(&journal, text, Mode::Lexical).sessions.is_empty());
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let answer = ask(&journal, text, mode);
        assert_eq!(answer.mode, mode);
        assert_eq!(sessions(&answer)[0], 1, "{mode:?}");
        let hits = &answer.sessions[0].hits;
        assert!(hits.iter().any(|hit| hit.tier == Tier::Meaning), "{mode:?}");
    }
    let semantic = ask(&journal, "colour of the diagram", Mode::Semantic);
    assert_eq!((sessions(&semantic)[0], semantic.tier), (2, Tier::Meaning));
}

#[test]
fn what_is_about_something_else_is_not_shown() {
    let place = three_topics();
    let journal = place.sync();
    for text in [
        "how long does sourdough have to rise in a cold kitchen",
        "who painted the ceiling of the old theatre",
        "qxzvjkwpfh",
    ] {
        for mode in [Mode::Semantic, Mode::Hybrid] {
            let answer = ask(&journal, text, mode);
            let near = answer.sessions.iter().filter(|found| found.tier == Tier::Meaning).count();
            assert_eq!(near, 0, "{text}");
        }
    }
}

#[test]
fn everything_asked_for_stays_before_what_is_near() {
    let place = three_topics();
    let journal = place.sync();
    let answer = ask(&journal, "chart legend", Mode::Hybrid);
    assert_eq!((sessions(&answer)[0], answer.tier), (2, Tier::AllWords));
}

#[test]
fn phrases_exclusions_and_filters_hold_for_what_is_near() {
    let place = three_topics();
    let journal = place.sync();
    for (text, expected) in [
        ("\"exponential delay\" retry upload", &[][..]),
        ("\"exponential backoff\" retry upload", &[1]),
        ("upload again exponential backoff server -backoff -attempts", &[]),
        ("upload again exponential backoff server until:2026-03-01", &[]),
        ("upload again exponential backoff server agent:codex", &[]),
        ("upload again exponential backoff server since:2026-03-01", &[1]),
    ] {
        for mode in [Mode::Semantic, Mode::Hybrid] {
            let found = sessions(&ask(&journal, text, mode));
            assert!(found.iter().all(|one| expected.contains(one)), "{text}: {found:?}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{mode:?} {text}");
        }
    }
}

#[test]
fn a_piece_of_a_long_message_that_is_near_is_the_one_shown() {
    let place = Place::new();
    let filler = "The chart is drawn in blue and the legend below it in grey. ".repeat(18);
    let piece = "The client sleeps between attempts of the upload. ".repeat(20);
    place.session(1, &["two things", &format!("{filler}\n\n{piece}\n\n{filler}")]);
    let answer = ask(&place.sync(), "pause before retrying an upload", Mode::Semantic);
    let hit = &answer.sessions[0].hits[0];
    assert_eq!(hit.position, Some(1));
    assert!(hit.snippet.text.starts_with("The client sleeps"), "{}", hit.snippet.text);
}

#[test]
fn without_vectors_both_is_words_alone() {
    let mut place = three_topics();
    place.meaning.off = true;
    let journal = place.sync();
    let answer = ask(&journal, "chart legend", Mode::Hybrid);
    assert_eq!((answer.mode, sessions(&answer)), (Mode::Lexical, vec![2]));
    assert!(ask(&journal, "chart legend", Mode::Semantic).sessions.is_empty());
}

#[test]
fn an_answer_says_how_many_sessions_it_could_not_compare() {
    let mut place = three_topics();
    place.sync();
    place.meaning.off = true;
    place.session(4, &["one more"]);
    place.sync();
    place.meaning.off = false;
    let journal = place.open();
    assert_eq!(ask(&journal, "chart legend", Mode::Hybrid).uncovered, 1);
    // A word alone is not compared by meaning.
    assert_eq!(ask(&journal, "chart", Mode::Hybrid).uncovered, 0);
    assert_eq!(ask(&journal, "chart legend", Mode::Lexical).uncovered, 0);
    assert_eq!(ask(&place.sync(), "chart legend", Mode::Hybrid).uncovered, 0);
}

#[test]
fn a_search_without_options_finds_by_meaning_too() {
    let home = three_topics();
    let journal = home.sync();
    let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
    let query = Query::parse("retry failed requests with increasing delay", &now).unwrap();
    let answer = journal.search(&query, &SearchOptions::default()).unwrap();
    assert_eq!((sessions(&answer)[0], answer.tier), (1, Tier::Meaning));
}
