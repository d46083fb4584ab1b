//! The examples, run on the home of a fixture.

#[path = "../examples/read_sessions.rs"]
#[allow(dead_code, reason = "the test calls what `main` calls")]
mod read_sessions;

use agent_sessions::connectors::Checkpoint;
use agent_sessions::{Error, find_sources, read_sessions as read};

use crate::support::{Home, RecordedSessions, fixtures};

#[test]
fn the_example_prints_agent_messages_and_title_of_each_session() {
    let home = Home::of(&fixtures().join("claude-code/whole-session"));
    let mut out = Vec::new();
    read_sessions::print_sessions(&home.machine(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let recordings: Vec<_> = read(&home.machine()).map(Result::unwrap).collect();
    assert!(!recordings.is_empty() && out.lines().count() == recordings.len(), "{out}");
    for (line, recording) in out.lines().zip(&recordings) {
        assert!(line.starts_with("Claude Code"), "{line}");
        assert!(line.contains(&format!(" {} messages ", recording.messages.len())), "{line}");
        assert!(line.ends_with(recording.title()), "{line}");
    }
}

#[test]
fn a_source_that_fails_does_not_hide_the_others() {
    let home = Home::of(&fixtures().join("claude-code/whole-session"));
    let whole = read(&home.machine()).count();
    let database = home.path().join(".copilot/session-store.db");
    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    std::fs::write(database, "not a database").unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = read(&home.machine()).partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (whole, 1), "{bad:?}");
    let error = bad.into_iter().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Database { .. }), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn every_session_of_every_fixture_is_read() {
    let agents = crate::support::directories(&fixtures());
    for case in agents.iter().flat_map(|agent| crate::support::directories(agent)) {
        let home = Home::of(&case);
        let machine = agent_sessions::Machine {
            projects: vec![home.path().join("project")],
            ..home.machine()
        };
        for source in find_sources(&machine) {
            let source = source.unwrap();
            let content = source.read_sessions();
            let (records, _) = crate::support::read(source.connector, &source.source);
            let start = Checkpoint::default();
            let told = crate::support::fold(RecordedSessions::new(), &start, records);
            assert_eq!(content.recordings.len(), told.len(), "{}", source.path().display());
            for recording in &content.recordings {
                let same = &told[&recording.session.id];
                assert_eq!(recording.session, same.session);
                assert_eq!(recording.messages, same.messages);
                assert!(!recording.title().trim().is_empty());
            }
        }
    }
}
