//! Agents that a user declares in the configuration.

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::Server;

const SCRIBE: &str = r#"
[[agents]]
id = "scribe"
name = "Scribe"
files = "~/.scribe/**/*.jsonl"
session = { cwd = "/cwd" }
message = { role = "/role", text = "/text", time = "/time", model = "/model" }
tokens = { input = "/in", output = "/out" }
resume = ["scribe", "--continue", "{id}"]
"#;

fn line(role: &str, text: &str, second: u32) -> String {
    let time = format!("2026-03-02T09:00:{second:02}Z");
    let mut line = json!({ "role": role, "text": text, "time": time, "cwd": "/home/mara/web" });
    if role == "assistant" {
        line["model"] = json!("quill-2");
        line["in"] = json!(1200);
        line["out"] = json!(34);
    }
    line["draft"] = json!(format!("draft of {text}"));
    format!("{line}\n")
}

fn scribe() -> Test {
    let test = Test::new().config(SCRIBE);
    let lines = line("user", "polish the copper", 1) + &line("assistant", "It shines.", 2);
    test.write(".scribe/2026/s1.jsonl", lines);
    test
}

#[test]
fn a_declared_agent_appears_at_every_door() {
    let test = scribe();
    test.aj("sources").found().shows(["scribe", "1 session (1 started by you)", "100.0 % of"]);
    test.aj("list").found().shows(["polish the copper"]);
    test.aj("search copper agent:scribe").found().shows(["polish the copper"]);
    test.aj("show s1").found().shows(["polish the copper", "It shines.", "quill-2"]);
    let stats = test.aj("stats --agent scribe --json").found().json();
    assert_eq!(stats["totals"]["tokens"]["input"], 1200, "{stats}");
    test.aj("resume s1 --print").shows(["scribe --continue s1"]);
    test.append(".scribe/2026/s1.jsonl", &line("user", "and the brass", 9));
    test.aj("search brass --agent scribe").found().shows(["and the brass"]);
    let server = Server::start(test, &[]);
    assert!(server.page("/sources").contains("Scribe"));
    assert!(server.page("/?agent=scribe").contains("polish the copper"));
    let sources = server.json("/api/v1/sources");
    let agents = sources["agents"].as_array().unwrap();
    assert!(agents.iter().any(|agent| agent["id"] == "scribe" && agent["sessions"] == 1));
}

#[test]
fn a_changed_declaration_reads_the_files_again() {
    let test = scribe();
    test.aj("index").found();
    let test = test.config(&SCRIBE.replace("/text", "/draft"));
    test.aj("search draft").found().shows(["draft of polish the copper"]);
    test.aj("list").found().hides(["\u{2014}polish"]);
    let test = test.config("");
    // Without the declaration the sessions stay, as those of an agent that is not known.
    test.aj("list --all").found().shows(["copper"]);
}

#[test]
fn configured_directories_replace_those_of_a_declared_agent() {
    let test = scribe();
    let other = format!("{SCRIBE}\n[storage.sources]\nscribe = \"~/moved\"\n");
    let test = test.config(&other);
    test.write("moved/s2.jsonl", line("user", "sweep the floor", 1));
    test.write("moved/notes.txt", line("user", "not a session", 1));
    test.aj("list").found().shows(["sweep the floor"]).hides(["copper", "not a session"]);
}

#[test]
fn a_wrong_declaration_is_an_error_that_says_why() {
    let check = |from: &str, to: &str, expected: &str| {
        let test = Test::new().config(&SCRIBE.replace(from, to));
        let run = test.aj("list").code(2);
        assert!(run.stderr.contains(expected), "{to}: {}", run.stderr);
    };
    check("\"scribe\"", "\"codex\"", "agent `codex`: the id belongs to another agent");
    check("\"scribe\"", "\"Scribe 1\"", "`id` must have 1 to 32 lower-case letters");
    check("\"/text\"", "\"text\"", "the path `text` must begin with `/`");
    check("\"~/.scribe", "\"scribe", "`files` must begin with `~` or be absolute");
    check("role = ", "roll = ", "unknown field `roll`");
    check("[[agents]]", "[agents]", "`agents` must be a list");
    check("files = ", "format = \"sqlite\"\nfiles = ", "a database needs `message.table`");
}

#[test]
fn a_database_and_a_document_can_be_declared() {
    let test = Test::new().config(
        r#"
[[agents]]
id = "ledger"
files = "~/ledger.db"
session = { table = "chats", id = "/id", title = "/title" }
message = { table = "entries", order = "number", session = "/chat", role = "/author", text = "/text" }

[[agents]]
id = "folio"
files = ["~/folio/*.json"]
message = { each = "/messages/*", role = "/role", text = "/content" }
"#,
    );
    let database = rusqlite::Connection::open(test.path("ledger.db")).unwrap();
    let sql = "CREATE TABLE chats (id TEXT, title TEXT);
        CREATE TABLE entries (chat TEXT, number INTEGER, author TEXT, text TEXT);
        INSERT INTO chats VALUES ('c1', 'Tin and zinc'), ('c2', 'Lead');
        INSERT INTO entries VALUES ('c1', 2, 'agent', 'Both melt.'), ('c1', 1, 'user', 'melt tin'),
            ('c2', 1, 'user', 'melt lead');";
    database.execute_batch(sql).unwrap();
    let messages = json!([{ "role": "user", "content": "cast a bell" }]);
    test.write("folio/7.json", json!({ "messages": messages }).to_string());
    test.aj("list").found().shows(["Tin and zinc", "Lead", "cast a bell"]);
    test.aj("search melt agent:ledger").found().shows(["melt tin", "melt lead"]);
    let sessions = |test: &Test| {
        let listed = test.aj("list --json").found().json();
        listed["sessions"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(sessions(&test), 3);
    database.execute("INSERT INTO entries VALUES ('c2', 2, 'agent', 'It is hot.')", []).unwrap();
    test.aj("search hot").found().shows(["It is hot."]);
    let shown: Value = test.aj("sources --json").found().json();
    let ids = shown["agents"].as_array().unwrap().iter().map(|agent| agent["id"].clone());
    assert_eq!(ids.rev().take(2).collect::<Vec<_>>(), ["folio", "ledger"]);
}
