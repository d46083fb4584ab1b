//! One session told in several places: copies, summaries, resumed and moved files.

use std::fs;

use agent_journal::connectors::Machine;
use agent_journal::{Entry, Journal, SyncOptions};
use serde_json::json;

use crate::support::place::{Place, Script, all, by_words, found, query};

fn listed(journal: &Journal) -> Vec<Entry> {
    journal.list_entries(&all(), None).unwrap()
}

#[test]
fn working_copies_are_neither_listed_nor_found_and_their_calls_count_once() {
    let session = Script::new(1).you("map the repository").agent("three packages");
    let copy =
        Script::new(1).you("map the repository").agent("three packages").agent("summary zebra");
    let calls = |lines: &str| lines.matches("output_tokens").count() as i64;
    for copy_first in [true, false] {
        let place = Place::new();
        let copy_path = format!(
            ".claude/projects/-home-mara-web/{}/subagents/agent-acompact-28136244.jsonl",
            session.id
        );
        let mut files = vec![(session.path(), &session.lines), (copy_path, &copy.lines)];
        if copy_first {
            files.reverse();
        }
        for (path, lines) in files {
            place.file(&path, lines);
            place.sync();
        }
        let journal = place.sync();
        let ids: Vec<String> = listed(&journal).into_iter().map(|entry| entry.native_id).collect();
        assert_eq!(ids, [session.id.as_str()]);
        assert!(listed(&journal)[0].children.is_empty());
        assert!(found(&journal, "zebra").is_empty());
        assert_eq!(found(&journal, "packages").len(), 1);
        // The copied call once, and the copy's own.
        assert_eq!(place.counted(), (calls(&copy.lines), 6, 10));
        let sql = "SELECT count(*) FROM usage WHERE counted AND owner = (SELECT key FROM sessions WHERE kind = 0)";
        let owned: i64 = place.database().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(owned, calls(&session.lines), "the original owns the call it made");
    }
}

#[test]
fn a_summary_names_the_session_it_ends_in_whichever_is_read_first() {
    let session = Script::new(1).you("port the parser").agent("ported").you("and the printer");
    let summary =
        json!({ "type": "summary", "summary": "Port everything", "leafUuid": session.uuid(2) });
    let other = Script::new(2).you("something else").agent("done");
    let lines = format!("{summary}\n{}", other.lines);
    for order in [[0, 1], [1, 0]] {
        let place = Place::new();
        for at in order {
            match at {
                0 => place.file(&session.path(), &session.lines),
                _ => place.file(&other.path(), &lines),
            }
            place.sync();
        }
        let journal = place.sync();
        let title = |id: &str| {
            journal.find_session(id).map(|entry| (entry.title, entry.title_source)).unwrap()
        };
        assert_eq!(title(&session.id), ("Port everything".into(), "summary".into()));
        assert_eq!(title(&other.id), ("something else".into(), "prompt".into()));
        assert_eq!(
            found(&journal, "everything").into_keys().collect::<Vec<_>>(),
            [format!("claude-code:{}", session.id)]
        );
    }
}

#[test]
fn a_summary_is_found_whatever_the_title_is() {
    let session = Script::new(1).you("port the parser").agent("ported").you("and the printer");
    let title = json!({ "type": "ai-title", "aiTitle": "Parser work", "sessionId": session.id });
    let summary = |text: &str, at| json!({ "type": "summary", "summary": text, "leafUuid": session.uuid(at) });
    let other = Script::new(2).you("something else").agent("done");
    let lines = format!("{}\n{}\n{}", summary("Zebra", 0), summary("Okapi", 2), other.lines);
    let place = Place::new();
    place.file(&session.path(), format!("{}{title}\n", session.lines));
    place.sync();
    place.file(&other.path(), &lines);
    let journal = place.sync();
    let id = format!("claude-code:{}", session.id);
    assert_eq!(journal.find_session(&id).unwrap().title, "Parser work");
    for word in ["zebra", "okapi"] {
        let answer = journal.search(&query(word), &by_words(5)).unwrap();
        assert_eq!(answer.sessions.len(), 1, "{word}");
        assert_eq!(answer.sessions[0].entry.id, id);
        assert_eq!(answer.sessions[0].hits[0].snippet.text.to_lowercase(), word);
    }
}

#[test]
fn a_session_in_two_places_is_one_session_and_the_fullest_is_shown() {
    let short = Script::new(1).you("apple").agent("banana");
    let long = Script::new(1).you("apple").agent("banana").you("cherry").agent("date");
    let elsewhere = short.path().replace(".claude/", ".config/claude/");
    for order in [[0, 1], [1, 0]] {
        let place = Place::new();
        for at in order {
            match at {
                0 => place.file(&short.path(), &short.lines),
                _ => place.file(&elsewhere, &long.lines),
            }
            place.sync();
        }
        let journal = place.sync();
        let entries = listed(&journal);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].counts.messages, 4);
        assert!(entries[0].source.path.contains(".config/claude"));
        assert_eq!(found(&journal, "apple").len(), 1);
        assert_eq!(found(&journal, "cherry").len(), 1);
        assert_eq!(place.counted().0, 2, "calls recorded in both places count once");

        // The fuller one is gone: what it told is kept.
        fs::remove_file(place.home().join(&elsewhere)).unwrap();
        let entries = listed(&place.sync());
        assert_eq!((entries[0].counts.messages, entries[0].source.present), (4, false));

        // The other one overtakes it.
        let longest =
            Script::new(1).you("apple").agent("banana").you("cherry").agent("date").you("elder");
        place.file(&short.path(), &longest.lines);
        let journal = place.sync();
        assert_eq!(listed(&journal)[0].counts.messages, 5);
        assert!(listed(&journal)[0].source.present);
        assert_eq!(found(&journal, "cherry").len(), 1);
        assert_eq!(found(&journal, "elder").len(), 1);
    }
}

#[test]
fn a_resumed_session_that_repeats_its_history_counts_it_once() {
    let first = Script::new(1).you("apple").agent("banana");
    let mut resumed = Script::new(2);
    // The same records under another session's name, then its own.
    resumed.lines = first.lines.replace(
        &format!("\"sessionId\":\"{}\"", first.id),
        &format!("\"sessionId\":\"{}\"", resumed.id),
    );
    resumed.count = first.count;
    let resumed = resumed.you("cherry").agent("date");
    for order in [[0, 1], [1, 0]] {
        let place = Place::new();
        for at in order {
            let script = if at == 0 { &first } else { &resumed };
            place.file(&script.path(), &script.lines);
            place.sync();
        }
        let journal = place.sync();
        assert_eq!(listed(&journal).len(), 2);
        assert_eq!(place.counted(), (2, 6, 10));
    }
}

#[test]
fn what_is_told_of_a_session_after_it_was_listed_counts_as_if_it_came_before() {
    let short = Script::new(0).you("apple").agent("banana");
    let long = Script::new(0).you("apple").agent("banana").you("cherry").agent("date");
    let named = Script::new(1).you("port the parser").agent("ported");
    let leaf = named.uuid(1);
    let summary = json!({ "type": "summary", "summary": "Port everything", "leafUuid": leaf });
    let called = Script::new(2).you("elder").agent("fig");
    let elsewhere = |script: &Script| script.path().replace(".claude/", ".config/claude/");
    // More sessions than are kept waiting until they are listed.
    let more = (3..70).map(|number| Script::new(number).you("grape").agent("hazel"));
    let first: Vec<(String, String)> = [&short, &named, &called]
        .map(|script| (script.path(), script.lines.clone()))
        .into_iter()
        .chain(more.map(|script| (script.path(), script.lines)))
        .collect();
    let last = [
        (elsewhere(&long), long.lines.clone()),
        (elsewhere(&Script::new(99)), format!("{summary}\n")),
        // The same call, recorded more fully by another session.
        (
            elsewhere(&Script::new(100)),
            called
                .lines
                .replace(&format!("\"sessionId\":\"{}\"", called.id), "\"sessionId\":\"resumed\"")
                .replace("\"output_tokens\":5", "\"output_tokens\":8"),
        ),
    ];
    let table = |place: &Place, sql: &str| -> Vec<String> {
        let database = place.database();
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let write = |place: &Place, files: &[(String, String)], seconds: u64| {
        for (path, lines) in files {
            place.file(path, lines);
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            let file = fs::File::options().append(true).open(place.home().join(path));
            file.unwrap().set_modified(time).unwrap();
        }
    };
    let told = |place: &Place| {
        let journal = place.sync();
        let entry = journal.find_session(&short.id).unwrap();
        assert_eq!((entry.counts.messages, entry.title.as_str()), (4, "apple"));
        assert_eq!(journal.find_session(&named.id).unwrap().title, "Port everything");
        let sessions = "SELECT json_array(native, title, sessions.messages, input, \
                        output, prompts, active_s, hidden) FROM sessions JOIN recordings ON recordings.key = recording \
                        ORDER BY native";
        let spent = "SELECT json_array(native, hex(calls)) FROM spending \
                     JOIN sessions ON sessions.key = spending.session ORDER BY native";
        (table(place, sessions), table(place, spent), place.counted())
    };
    // The newest files are read first.
    let at_once = Place::new();
    write(&at_once, &first, 1_800_000_002);
    write(&at_once, &last, 1_800_000_001);
    let together = told(&at_once);
    let in_turn = Place::new();
    write(&in_turn, &last, 1_800_000_001);
    in_turn.sync();
    write(&in_turn, &first, 1_800_000_002);
    assert_eq!(together, told(&in_turn));
    assert_eq!(together.2, (71, 3 * 71, 5 * 71 + 3));
}

#[test]
fn a_budget_of_nothing_leaves_everything_for_later_and_says_so() {
    let place = Place::new();
    for number in 0..20 {
        let session = Script::new(number).you("apple").agent("banana");
        place.file(&session.path(), &session.lines);
    }
    let machine = Machine { home: place.home(), ..Machine::default() };
    let mut journal = Journal::open(place.config(), machine).unwrap();
    let options = SyncOptions { budget: Some(std::time::Duration::ZERO), ..SyncOptions::default() };
    let report = journal.sync(options, &mut |_| {}).unwrap();
    assert_eq!(report.sources + report.pending_sources, 20);
    assert!(report.pending_sources > 0);
    let report = journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.pending_sources, 0);
    assert_eq!(listed(&journal).len(), 20);
    assert_eq!(found(&journal, "banana").len(), 20);
}
