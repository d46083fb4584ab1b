//! Document 002: session directories, the global store and VS Code's workspace storage.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::copilot_log::{event, start, write_log};
use super::{assert_found, export, lines, only_session};
use crate::support::Test;

const ID: &str = "d0000001-0000-4000-8000-000000000001";
const OTHER: &str = "d0000002-0000-4000-8000-000000000002";

/// The tables of the store, as document 002 describes them.
const TABLES: &str = "
    CREATE TABLE sessions(id TEXT PRIMARY KEY, cwd TEXT, repository TEXT, branch TEXT, summary TEXT,
        created_at TEXT, updated_at TEXT, host_type TEXT);
    CREATE TABLE turns(id INTEGER PRIMARY KEY, session_id TEXT, turn_index INTEGER,
        user_message TEXT, assistant_response TEXT, timestamp TEXT);
    CREATE TABLE checkpoints(id INTEGER PRIMARY KEY, session_id TEXT, checkpoint_number INTEGER,
        title TEXT, overview TEXT, history TEXT, work_done TEXT, technical_details TEXT,
        important_files TEXT, next_steps TEXT, created_at TEXT);
    CREATE TABLE session_files(session_id TEXT, file_path TEXT, tool_name TEXT, turn_index INTEGER,
        first_seen_at TEXT);
    CREATE TABLE session_refs(session_id TEXT, ref_type TEXT, ref_value TEXT, turn_index INTEGER,
        created_at TEXT);
    CREATE VIRTUAL TABLE search_index USING fts5(content, session_id UNINDEXED, source_type UNINDEXED);";

/// Writes the store with these rows beyond its tables.
fn write_store(test: &Test, rows: &str) {
    test.write(".copilot/.keep", "");
    let database = Connection::open(test.path(".copilot/session-store.db")).unwrap();
    database.execute_batch(TABLES).unwrap();
    database.execute_batch(rows).unwrap();
}

fn session_row(id: &str, summary: &str) -> String {
    format!(
        "INSERT INTO sessions VALUES('{id}','/srv/p','octo/repo','main','{summary}',
             '2026-06-01T10:00:00Z','2026-06-01T11:00:00Z','cli');"
    )
}

fn turn_row(id: &str, number: u32, prompt: &str, answer: &str) -> String {
    format!(
        "INSERT INTO turns(session_id,turn_index,user_message,assistant_response,timestamp)
             VALUES('{id}',{number},'{prompt}','{answer}','2026-06-01T10:0{number}:00Z');"
    )
}

fn write_prompt(test: &Test, id: &str, words: &str) {
    let prompt = json!({ "content": words, "attachments": [] });
    write_log(
        test,
        id,
        &[start(id, "/srv/p"), event("user.message", "u", Some("e0"), "10:01:00", prompt)],
    );
}

#[test]
fn a_session_directory_tells_more_than_its_log() {
    let test = Test::new();
    write_prompt(&test, ID, "a prompt");
    let place = format!(".copilot/session-state/{ID}");
    test.write(format!("{place}/workspace.yaml"), format!(
        "id: {ID}\ncwd: /srv/p\nname: A name\nsummary: Yaml emusummary\nsummary_count: 1\ncreated_at: 2026-01-16T09:59:00Z\nupdated_at: 2026-01-16T10:30:00Z\n"));
    test.write(format!("{place}/vscode.metadata.json"), json!({
        "workspaceFolder": { "folderPath": "/srv/p", "timestamp": 1_768_557_600_000_i64 },
        "repositoryProperties": { "repositoryPath": "/srv/p", "branchName": "feature/meta", "baseBranchName": "main" },
        "customTitle": "Custom pangolin title", "writtenToDisc": true }).to_string());
    test.write(format!("{place}/checkpoints/0001.json"), json!({
        "title": "Auth", "overview": "overviewhoatzin", "history": "historyibis", "work_done": "donekea",
        "technical_details": "detailskiwi", "important_files": "fileslory", "next_steps": "wire the dugong" }).to_string());
    test.write(format!("{place}/index.md"), "The indexmacaw paragraph of the whole session.\n");
    test.write(format!("{place}/files/design.md"), "artifact designcoot\n");
    test.write(format!("{place}/research/notes.md"), "research noteskite\n");
    let session = only_session(&test);
    assert_eq!(session["title"], "Custom pangolin title", "R117");
    assert_eq!(session["cwd"], "/srv/p", "R113 R115 R119");
    let document = export(&test, ID).to_string();
    for fact in
        ["writtenToDisc", "feature/meta", "baseBranchName", "1768557600000", "summary_count"]
    {
        assert!(document.contains(fact), "R113 R114 R115 R116: {fact}");
    }
    for word in [
        "overviewhoatzin",
        "historyibis",
        "donekea",
        "detailskiwi",
        "fileslory",
        "dugong",
        "indexmacaw",
        "emusummary",
        "designcoot",
        "noteskite",
    ] {
        assert_found(&test, word); // R132 R134 R136 R40
    }
    let shown = test.args(["show", ID, "--all"]).code(0);
    let (overview, prompt) = (shown.stdout.find("overviewhoatzin"), shown.stdout.find("a prompt"));
    assert!(overview.unwrap() < prompt.unwrap(), "R133: the checkpoint comes first\n{shown}");
    test.args(["handoff", ID]).code(0).shows(["dugong"]); // R133
}

#[test]
fn a_session_directory_may_be_bare_or_broken() {
    let test = Test::new();
    write_prompt(&test, ID, "zero checkpoints");
    let place = format!(".copilot/session-state/{ID}");
    test.write(format!("{place}/workspace.yaml"), format!("id: {ID}\nsummary_count: 0\n"));
    test.write(format!("{place}/vscode.metadata.json"), "{broken");
    test.write(format!("{place}/checkpoints/x.json"), "{broken");
    let session = only_session(&test);
    assert_eq!(session["title"], "zero checkpoints", "R114 R118");
    let sources = test.aj("sources --json").code(0).json().to_string();
    assert!(sources.contains("checkpoint"), "a broken file is counted: {sources}");
}

#[test]
fn windows_paths_survive_on_every_system() {
    let test = Test::new();
    let directory = "C:\\Users\\name\\git\\my-project";
    let call = json!({ "messageId": "m", "content": "", "toolRequests": [{ "toolCallId": "c", "name": "view",
        "arguments": { "path": "C:\\Users\\name\\git\\my-project\\src\\a.cs" } }] });
    write_log(
        &test,
        ID,
        &[
            start(ID, directory),
            event("user.message", "u", Some("e0"), "10:01:00", json!({ "content": "look" })),
            event("assistant.message", "a", Some("u"), "10:01:01", call),
        ],
    );
    let session = only_session(&test);
    assert_eq!(
        (&session["cwd"], &session["project"]),
        (&json!(directory), &json!("my-project")),
        "R120 R238"
    );
    test.args(["show", ID]).code(0).shows(["C:\\Users\\name\\git\\my-project\\src\\a.cs"]); // R120
    test.args(["list", "file:a.cs"]).code(0); // R130
}

#[test]
fn the_store_alone_tells_sessions() {
    let test = Test::new();
    write_store(&test, &[
        session_row(ID, "Store kiwisummary"),
        turn_row(ID, 0, "first questionnumbat", "first answer"),
        turn_row(ID, 1, "second question", "second okapi answer"),
        format!("INSERT INTO checkpoints VALUES(1,'{ID}',1,'Title','overviewquoll','h','w','t','i','n','2026-06-01T10:05:00Z');
            INSERT INTO session_files VALUES('{ID}','/srv/p/shared.rs','edit',0,'2026-06-01T10:01:00Z'),
                                            ('{ID}','/srv/p/shared.rs','edit',1,'2026-06-01T10:01:30Z');
            INSERT INTO session_refs VALUES('{ID}','commit','deadbeefcafe1234',0,'2026-06-01T10:01:00Z'),
                ('{ID}','pr','4711',0,'2026-06-01T10:01:00Z'),('{ID}','issue','99',0,'2026-06-01T10:01:00Z');
            INSERT INTO search_index VALUES('artifact text artifactwombat','{ID}','workspace_artifact'),
                                           ('first questionnumbat','{ID}','turn');"),
    ].concat());
    let session = only_session(&test);
    assert_eq!(session["counts"]["user_prompts"], 2, "R138 R139");
    assert_eq!((&session["cwd"], &session["branch"]), (&json!("/srv/p"), &json!("main")), "R136");
    for word in [
        "kiwisummary",
        "questionnumbat",
        "okapi",
        "overviewquoll",
        "artifactwombat",
        "deadbeefcafe1234",
    ] {
        assert_found(&test, word); // R135 R136 R138 R140 R144 R145 R146
    }
    assert_eq!(
        export(&test, ID)["session"]["extensions"]["agent-journal"]["repository"],
        "octo/repo",
        "R136"
    );
    assert_eq!(test.args(["list", "project:octo/repo", "--json"]).code(0).ids(), [ID], "R136");
    test.args(["show", ID]).code(0).shows(["deadbeefcafe1234", "4711", "99"]); // R144
    assert_eq!(test.args(["list", "file:shared.rs", "--json"]).code(0).ids(), [ID], "R141");
}

#[test]
fn files_are_ranked_by_the_sessions_that_touched_them() {
    let test = Test::new();
    let file = |id: &str, path: &str, tool: &str| {
        format!(
            "INSERT INTO session_files VALUES('{id}','{path}','{tool}',0,'2026-06-01T10:01:00Z');"
        )
    };
    write_store(
        &test,
        &[
            session_row(ID, "One"),
            turn_row(ID, 0, "one", "ok"),
            session_row(OTHER, "Two"),
            turn_row(OTHER, 0, "two", "ok"),
            file(ID, "/srv/p/shared.rs", "edit"),
            file(OTHER, "/srv/p/shared.rs", "view"),
            file(ID, "/srv/p/alone.rs", "create"),
        ]
        .concat(),
    );
    let ranked = test.aj("files").code(0);
    let (shared, alone) =
        (ranked.stdout.find("shared.rs").unwrap(), ranked.stdout.find("alone.rs").unwrap());
    assert!(shared < alone, "R130 R142 R143\n{ranked}");
}

#[test]
fn a_changed_row_of_the_store_is_read_by_the_next_command() {
    let test = Test::new();
    write_store(&test, &[session_row(ID, "One"), turn_row(ID, 0, "before", "ok")].concat());
    assert_found(&test, "before");
    let database = Connection::open(test.path(".copilot/session-store.db")).unwrap();
    database.execute_batch(&turn_row(ID, 1, "afterwards", "ok")).unwrap();
    assert_found(&test, "afterwards"); // R137
}

#[test]
fn an_absent_or_broken_store_costs_nothing_else() {
    let test = Test::new();
    write_prompt(&test, ID, "still here");
    test.write(
        ".copilot/session-store.db",
        "this is no database at all, but long enough to be read as one",
    );
    assert_found(&test, "still"); // R147
}

#[test]
fn log_and_store_complete_each_other() {
    let test = Test::new();
    let answer = json!({ "messageId": "m", "content": "working",
        "toolRequests": [{ "toolCallId": "c1", "name": "bash", "arguments": { "command": "echo logtooljabiru" } }] });
    write_log(
        &test,
        ID,
        &[
            start(ID, "/srv/p"),
            event("user.message", "u1", Some("e0"), "10:01:00", json!({ "content": "turn zero" })),
            event("assistant.message", "a1", Some("u1"), "10:01:30", answer),
        ],
    );
    write_store(
        &test,
        &[
            session_row(ID, "Store summary"),
            turn_row(ID, 0, "turn zero", "working"),
            turn_row(ID, 1, "turn one walia", "ok"),
            turn_row(ID, 2, "turn two", "ok"),
        ]
        .concat(),
    );
    let session = only_session(&test);
    assert_eq!(session["counts"]["user_prompts"], 3, "R155 R156, C29");
    assert_eq!(session["counts"]["tool_calls"], 1, "R155, C29");
    assert_found(&test, "logtooljabiru"); // C29: nothing is dropped
    assert_found(&test, "walia");
    let document = export(&test, ID).to_string();
    assert!(document.contains("logtooljabiru") && document.contains("walia"), "R155");
    assert_eq!(document.matches("\"working\"").count(), 1, "R156: told twice is one\n{document}");
}

/// The workspace storage of VS Code below a directory of settings.
fn storage(settings: &str) -> String {
    format!("{settings}/Code/User/workspaceStorage/h1/GitHub.copilot-chat")
}

fn transcript(id: &str, words: &str) -> String {
    lines(&[
        start(id, "/srv/vsproj"),
        event("user.message", "u", Some("e0"), "10:01:00", json!({ "content": words })),
    ])
}

#[test]
fn transcripts_of_vs_code_are_found_on_every_system() {
    for settings in [".config", "Library/Application Support", "AppData/Roaming"] {
        let test = Test::new();
        test.write(
            format!("{}/transcripts/{ID}.jsonl", storage(settings)),
            transcript(ID, "transcriptcoati"),
        );
        let home = test.path("").to_string_lossy().into_owned();
        let answer = test.args(["--home", &home, "list", "--json"]).code(0).json();
        let session = &answer["sessions"][0];
        assert_eq!(session["agent"], "vscode-copilot", "R148 R149 R150 R152: {settings}");
        assert_eq!(session["project"], "vsproj", "R151");
        assert_eq!(session["title"], "transcriptcoati", "R152");
    }
}

#[test]
fn a_transcript_is_read_whatever_else_has_its_id() {
    let test = Test::new();
    let chats = ".config/Code/User/workspaceStorage/h1/chatSessions";
    let empty = json!({ "version": 3, "sessionId": ID, "creationDate": 1_780_000_000_000_i64, "requests": [] });
    test.write(format!("{chats}/{ID}.json"), empty.to_string());
    test.write(format!("{}/transcripts/{ID}.jsonl", storage(".config")), transcript(ID, "finfoot"));
    write_log(&test, OTHER, &[start(OTHER, "/srv/p")]);
    test.write(
        format!("{}/transcripts/{OTHER}.jsonl", storage(".config")),
        transcript(OTHER, "sungrebe"),
    );
    assert_found(&test, "finfoot"); // R152 R156, C28
    assert_found(&test, "sungrebe"); // R156, C28
    assert_eq!(test.aj("list --json").code(0).ids().len(), 2, "R156");
}

#[test]
fn memories_belong_to_their_session() {
    let test = Test::new();
    write_prompt(&test, ID, "a real session");
    test.write(
        format!("{}/transcripts/{OTHER}.jsonl", storage(".config")),
        transcript(OTHER, "an editor session"),
    );
    // The session ids in base64, without padding.
    let name = |id: &str| match id {
        ID => "ZDAwMDAwMDEtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx",
        _ => "ZDAwMDAwMDItMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAy",
    };
    for (id, word) in [(ID, "nyala"), (OTHER, "okapi")] {
        let place = format!("{}/memory-tool/memories/{}/plan.md", storage(".config"), name(id));
        test.write(place, format!("saved note {word}\n"));
    }
    assert_eq!(test.aj("list --json --all").code(0).ids().len(), 2, "R154 R156");
    for (id, word) in [(ID, "nyala"), (OTHER, "okapi")] {
        let found: Value = test.args(["search", word, "--json"]).code(0).json();
        let session = found["hits"][0]["session"].as_str().unwrap();
        assert!(session.ends_with(id), "R153 R154\n{found:#}");
        test.args(["show", &id[..8]]).code(0).shows([word]); // R153
    }
}
