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
    let query = "marmalade zeppelin harbour quarrel";
    test.args(["search", query]).found().shows(["not all words"]);
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("search", &json!({ "query": query }));
    assert!(said.contains("not all words"), "{said}");
    client.end();
    let server = Server::start(test, &[]);
    let page = server.page("/search?q=marmalade+zeppelin+harbour+quarrel");
    assert!(page.contains("<span class=\"tier partial\">not all words</span>"), "{page}");
    let page = server.page("/search?q=marmalade");
    assert!(page.contains("<span class=\"tier\">all words</span>"), "{page}");
}
