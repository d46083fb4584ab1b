//! Which project a session belongs to, and which sessions are scored as one.

use serde_json::{Value, json};

use crate::support::place::{Place, Script};
use crate::support::shelf::of_all;

/// Writes a session that says where it worked.
fn worked(place: &Place, number: u8, context: &Value) -> String {
    let id = format!("0000000{number}-0000-4000-8000-000000000000");
    let event = |kind: &str, data: Value, second: u8| {
        let at = format!("2026-07-0{number}T09:00:{second:02}.000Z");
        json!({ "type": kind, "data": data, "id": format!("e{second}"), "timestamp": at })
    };
    let start = event("session.start", json!({ "sessionId": id, "context": context }), 1);
    let prompt = event("user.message", json!({ "content": "why is it slow" }), 2);
    let path = format!(".copilot/session-state/{id}/events.jsonl");
    place.file(&path, format!("{start}\n{prompt}\n"));
    id
}

#[test]
fn the_recorded_root_around_the_directory_is_the_project() {
    let place = Place::new();
    let contexts = [
        (json!({ "cwd": "/gone/web/api", "gitRoot": "/gone/web" }), "/gone/web"),
        (
            json!({ "cwd": "/gone/web/api", "gitRoot": "/gone/web", "repository": "acme/web" }),
            "/gone/web",
        ),
        (json!({ "cwd": "/gone/website", "gitRoot": "/gone/web" }), "/gone/website"),
        (json!({ "cwd": "/gone/web/api", "repository": "acme/web" }), "/gone/web/api"),
    ];
    for (number, (context, project)) in (1..).zip(&contexts) {
        let id = worked(&place, number, context);
        let entry = place.sync().find_session(&id).unwrap();
        assert_eq!(entry.project_path.as_deref(), Some(*project), "{context}");
        assert_eq!(entry.cwd.as_deref(), context["cwd"].as_str());
    }
}

#[test]
fn sessions_of_one_repository_are_scored_as_one() {
    let place = Place::new();
    for (number, cwd) in (1..).zip(["/gone/web", "/gone/second", "/gone/third"]) {
        worked(&place, number, &json!({ "cwd": cwd, "repository": "acme/web" }));
    }
    worked(&place, 4, &json!({ "cwd": "/gone/other", "repository": "acme/other" }));
    let journal = place.sync();
    let scores = || {
        let all = journal.score(&of_all()).unwrap().repositories.into_iter();
        all.map(|score| (score.name, score.sessions, score.total.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(scores(), [("acme/web".into(), 3, true), ("other".into(), 1, false)]);

    // Whoever works in one of its directories and names no repository works on it, too.
    let session = Script::new(9).you("look around").agent("done");
    place.file(&session.path(), session.lines.replace("/home/mara/web", "/gone/third"));
    place.sync();
    assert_eq!(scores(), [("acme/web".into(), 4, true), ("other".into(), 1, false)]);
}
