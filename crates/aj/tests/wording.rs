//! One wording: a tool call, an author and a kind of match read the same in every view. The terminal
//! UI has the same checks in its own tests.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Test, Transcript};
use serde_json::json;

const CALL: &str = "Show staged diff · git diff --staged";

/// A session with a described call, and one that has a part of its words.
fn described() -> Test {
    let test = Test::new();
    let mut session = Transcript::new(1).you("review the marmalade of the orchard");
    let call = json!({ "type": "assistant", "uuid": "call-1", "sessionId": session.id,
        "cwd": "/home/mara/web", "timestamp": "2026-11-01T10:00:30.000Z",
        "message": { "role": "assistant", "id": "msg_call", "model": "claude-sonnet-4-5",
            "content": [{ "type": "tool_use", "id": "toolu_call", "name": "Bash", "input":
                { "command": "git diff\n  --staged", "description": "Show staged diff" } }] } });
    session.lines.push_str(&format!("{call}\n"));
    let session = session.agent("reviewed");
    test.write(session.path(), &session.lines);
    test
}

#[test]
fn a_tool_call_reads_the_same_in_every_view() {
    let test = described();
    test.aj("show 00000001").found().shows([&format!("▸ Bash {CALL}")]);
    test.aj("show 00000001 --tools").found().shows([&format!("▾ Bash {CALL}")]);
    let markdown = ["export", "00000001", "--format", "markdown", "-o", "-"];
    test.args(markdown).code(0).shows([&format!("- **Bash** `{CALL}`")]);
    let summary = format!("<b>Bash</b><span class=\"gist\">{CALL}</span>");
    test.args(["export", "00000001", "--format", "html", "-o", "-"]).code(0).shows([&summary]);
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("show", &json!({ "id": "00000001" }));
    assert!(said.contains(&format!("[Bash] {CALL}")), "{said}");
    client.end();
    let server = Server::start(test, &[]);
    let page = server.page("/session/00000001");
    assert!(page.contains(&summary), "{page}");
}

#[test]
fn an_author_reads_the_same_in_every_view() {
    let test = described();
    test.aj("show 00000001").found().shows(["1 you\n"]);
    test.aj("search marmalade").found().shows(["1 you "]);
    let markdown = ["export", "00000001", "--format", "markdown", "-o", "-"];
    test.args(markdown).code(0).shows(["## 1 · You"]);
    test.args(["export", "00000001", "--format", "html", "-o", "-"]).code(0).shows(["<b>You</b>"]);
    let server = Server::start(test, &[]);
    assert!(server.page("/session/00000001").contains("<b>You</b>"));
    let page = server.page("/search?q=marmalade");
    assert!(page.contains("class=\"kind you\">you</span>"), "{page}");
}

#[test]
fn a_kind_of_match_reads_the_same_in_every_view() {
    let test = described();
    let query = "review marmalade orchard zeppelin";
    test.args(["search", query]).found().shows(["not all words"]);
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("search", &json!({ "query": query }));
    assert!(said.contains("not all words"), "{said}");
    client.end();
    let server = Server::start(test, &[]);
    let page = server.page("/search?q=review+marmalade+orchard+zeppelin");
    assert!(page.contains("<span class=\"tier partial\">not all words</span>"), "{page}");
    let page = server.page("/search?q=marmalade");
    assert!(page.contains("<span class=\"tier\">all words</span>"), "{page}");
}

/// A line as a compiler prints it, and a session that contains it.
const LINE: &str =
    r#"src/store.rs:12:9: error: expected `)`, found "quill" (see log[3]) => exit=101"#;

fn printed() -> Test {
    let test = described();
    let other = Transcript::new(2).you("store the log of the quill").agent("an error was expected");
    test.write(other.path(), &other.lines);
    let session =
        Transcript::new(3).you("what is that?").agent(&format!("It printed\n{LINE}\nat last."));
    test.write(session.path(), &session.lines);
    test
}

#[test]
fn a_copied_line_is_found_first_in_every_view() {
    let test = printed();
    let shown = test.args(["search", LINE]).code(0).stdout;
    assert!(shown.trim_start().starts_with("claude  what is that?"), "{shown}");
    assert_eq!(test.args(["search", "--json", LINE]).ids()[0], Transcript::new(3).id);
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("search", &json!({ "query": LINE }));
    let first = said.lines().find(|line| line.contains("-0000-")).unwrap_or_default();
    assert!(first.contains("00000003-"), "{said}");
    client.end();
    let server = Server::start(test, &[]);
    let escaped: Vec<String> = LINE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let typed = escaped.concat();
    let found = server.get(&format!("/api/v1/search?q={typed}")).text();
    let at = |id: &str| found.find(id).unwrap_or(usize::MAX);
    assert!(at("00000003-") < at("00000002-"), "{found}");
    let page = server.page(&format!("/search?q={typed}"));
    assert!(page.contains("exact words") && page.contains("/session/"), "{page}");
}

#[test]
fn what_only_shares_some_words_is_counted_and_not_shown() {
    let test = printed();
    let query = "which tram leaves the airport when the review of zeppelin engines ends";
    let line = "nothing close; 1 session shares some words";
    let run = test.args(["search", query]).code(1);
    assert!(run.stderr.contains(line) && run.stdout.is_empty(), "{} {}", run.stdout, run.stderr);
    let json = test.args(["search", "--json", query]).code(1).json();
    assert_eq!((&json["total"], &json["distant"]), (&json!(0), &json!(1)));
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("search", &json!({ "query": query }));
    assert!(said.contains(line), "{said}");
    client.end();
    let server = Server::start(test, &[]);
    let typed = query.replace(' ', "+");
    assert!(server.page(&format!("/search?q={typed}")).contains(line));
    let found = server.get(&format!("/api/v1/search?q={typed}")).text();
    assert!(found.contains("\"distant\":1"), "{found}");
}
