//! Checkpoints, plans and overviews: texts about a session as a whole, wherever they are told.

use agent_journal::export::{SingleFileOutput, find_format};
use agent_journal::search::{Filter, Mode, SearchOptions};
use agent_journal::{Entry, Journal, TranscriptWindow};
use serde_json::json;

use crate::support::place::{Place, query};

const ID: &str = "aaaaaaa1-0000-4000-8000-000000000001";

/// A session whose log has one question, with documents beside the log and in a second place.
fn told_twice(beside: &[(&str, &str)], elsewhere: &[(&str, &str)]) -> Place {
    let place = Place::new();
    let event = |kind: &str, data: serde_json::Value, second: u8| {
        let at = format!("2026-07-01T09:00:{second:02}.000Z");
        json!({ "type": kind, "data": data, "id": format!("e{second}"), "timestamp": at })
    };
    let start = event("session.start", json!({ "sessionId": ID, "version": 1 }), 1);
    let prompt = event("user.message", json!({ "content": "why is it slow" }), 2);
    let first = format!(".copilot/session-state/{ID}");
    let second = format!(".copilot-cli/sessions/{ID}");
    place.file(&format!("{first}/events.jsonl"), format!("{start}\n{prompt}\n"));
    place.file(&format!("{second}/workspace.yaml"), format!("id: {ID}\n"));
    for (folder, documents) in [(first, beside), (second, elsewhere)] {
        for (name, text) in documents {
            place.file(&format!("{folder}/{name}"), text);
        }
    }
    place
}

fn session(journal: &Journal) -> Entry {
    journal.find_session(ID).unwrap()
}

/// The snippets of a query's hits.
fn snippets(journal: &Journal, text: &str, mode: Mode) -> Vec<String> {
    let options = SearchOptions { mode, limit: 10, ..SearchOptions::default() };
    let answer = journal.search(&query(text), &options).unwrap();
    let hits = answer.sessions.into_iter().flat_map(|session| session.hits);
    hits.map(|hit| hit.snippet.text).collect()
}

#[test]
fn a_document_of_a_second_recording_is_there_and_quoted_where_it_is_found() {
    let place = told_twice(&[], &[("index.md", "The cache was never filled.")]);
    let journal = place.sync();
    let account = journal.session_metadata(&session(&journal)).unwrap().unwrap();
    assert_eq!(account.documents, [("index".into(), "The cache was never filled.".into())]);
    assert_eq!(snippets(&journal, "filled", Mode::Lexical), ["The cache was never filled."]);
    assert_eq!(snippets(&journal, "/nev.r f/", Mode::Lexical), ["The cache was never filled."]);
}

#[test]
fn the_document_that_has_all_words_is_quoted() {
    let far = format!("cache {} filled", "and then ".repeat(60));
    let place = told_twice(&[("plan.md", "Look at the cache.")], &[("index.md", &far)]);
    let journal = place.sync();
    let quoted = snippets(&journal, "cache filled", Mode::Lexical);
    assert!(quoted[0].starts_with("cache and then"), "{quoted:?}");
}

#[test]
fn of_two_texts_of_one_name_the_shown_one_is_found() {
    let place = told_twice(&[("plan.md", "Fill the cache.")], &[("plan.md", "Buy a zebra.")]);
    let journal = place.sync();
    assert!(snippets(&journal, "zebra", Mode::Lexical).is_empty());
    assert_eq!(snippets(&journal, "fill", Mode::Lexical), ["Fill the cache."]);
}

#[test]
fn a_document_found_by_meaning_is_the_one_that_is_quoted() {
    let plan = "Paint the garden fence green before the guests arrive on Sunday.";
    let index = "The database connection pool was exhausted by slow queries.";
    let place = told_twice(&[("plan.md", plan)], &[("index.md", index)]);
    let journal = place.sync();
    let asked = "database connections run out because queries are slow";
    assert_eq!(snippets(&journal, asked, Mode::Semantic)[0], index);
}

#[test]
fn documents_leave_above_the_conversation() {
    let plan = "# Plan\n\n1. Fill the <cache>.";
    let place = told_twice(&[("plan.md", plan)], &[("index.md", "It was never filled.")]);
    let journal = place.sync();
    let written = |name: &str| {
        let mut bytes = Vec::new();
        let mut export = journal.start_export(find_format(name).unwrap(), <_>::default());
        export.write_session(&session(&journal), &mut SingleFileOutput(&mut bytes)).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let markdown = written("markdown");
    let (above, conversation) = markdown.split_once("<a id=\"m1\">").unwrap();
    let documents =
        "\n## plan\n\n> # Plan\n>\n> 1. Fill the <cache>.\n\n## index\n\n> It was never filled.\n";
    assert!(above.ends_with(&format!("{documents}\n")), "{above}");
    assert!(conversation.contains("> why is it slow"), "{conversation}");

    let page = written("html");
    let main = page.split_once("<main").unwrap().1;
    let (above, conversation) = main.split_once("<section class=\"turn\"").unwrap();
    let fold = "<details class=\"notice\"><summary><b>plan</b><span class=\"gist\"># Plan</span></summary>";
    assert!(above.contains(fold), "{above}");
    assert!(above.contains("<li>Fill the &lt;cache&gt;.</li>"), "{above}");
    assert!(above.contains("It was never filled."), "{above}");
    assert!(conversation.contains("why is it slow"));
}

#[test]
fn a_session_of_which_only_a_document_is_left_is_listed_and_found() {
    let place = Place::new();
    let folder = format!(".copilot/session-state/{ID}");
    place.file(&format!("{folder}/workspace.yaml"), format!("id: {ID}\ncwd: /home/mara/web\n"));
    assert!(place.sync().list_entries(&Filter::default(), None).unwrap().is_empty());
    place.file(&format!("{folder}/plan.md"), " \n");
    assert!(place.sync().list_entries(&Filter::default(), None).unwrap().is_empty());
    place.file(&format!("{folder}/plan.md"), "Find the leak in the cache.");
    let journal = place.sync();
    let listed = journal.list_entries(&Filter::default(), None).unwrap();
    assert_eq!(listed.iter().map(|entry| &*entry.native_id).collect::<Vec<_>>(), [ID]);
    assert_eq!(snippets(&journal, "leak", Mode::Lexical), ["Find the leak in the cache."]);
    let shown = journal.render_window(&listed[0], &window()).unwrap();
    assert_eq!((shown.html.as_str(), shown.next), ("", None));
    assert!(journal.plan_resume(&listed[0], None).is_ok());
}

fn window() -> TranscriptWindow {
    let (from, until, count, keep) = (1, None, 60, <_>::default());
    let (pictures, prefix) = (String::new(), String::new());
    TranscriptWindow { from, until, count, keep, left: <_>::default(), pictures, prefix }
}
