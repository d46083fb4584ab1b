//! Marks and forgetting at every door: commands, exports, the dashboard, MCP.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{FLAKY, PORT, RETRY, Run, Test, two_agents};

#[test]
fn marks_are_set_shown_and_searched() {
    let test = two_agents();
    test.aj("star 3f1c0001 0199").found().shows(["★", "3f1c0001", "0199aaaa"]);
    test.aj("tag 3f1c0001 +Release").found().shows(["★ #release"]);
    test.aj("tag 3f1c0001 later --json").found();
    test.aj("untag 3f1c0001 later").found().hides(["later"]);
    test.args(["note", "3f1c0001", "ask Noor", "about it"]).found().shows(["ask Noor about it"]);
    test.args(["rename", "3f1c0001", "the", "marmalade"]).found().shows(["the marmalade"]);
    assert_eq!(test.aj("list --json is:starred").found().ids(), [PORT, FLAKY]);
    for words in ["list --json tag:release", "list --json has:note", "search --json marmalade"] {
        assert_eq!(test.aj(words).code(0).ids(), [FLAKY], "{words}");
    }
    assert_eq!(test.aj("list --json -is:starred").found().ids(), [RETRY]);
    test.aj("tag").found().shows(["#release", "1 session"]);
    test.aj("list").found().shows(["★ #release the marmalade"]);
    test.aj("show 3f1c0001").found().shows(["marks ★ #release", "note ask Noor about it"]);
    let entry = test.aj("list --json tag:release").found().json()["sessions"][0].clone();
    assert_eq!(
        entry["marks"],
        json!({ "starred": true, "tags": ["release"], "note": "ask Noor about it", "title": "the marmalade" })
    );
    test.aj("rename 3f1c0001").found().shows(["Fix flaky login test"]);
    test.aj("unstar 3f1c0001").found().hides(["★"]);
    test.aj("note 3f1c0001 --remove").found().hides(["Noor"]);
    test.aj("index --full").code(0);
    assert_eq!(test.aj("list --json tag:release").found().ids(), [FLAKY]);
    test.aj("star nothing").code(1).says(["no session `nothing`"]);
    test.args(["tag", "3f1c0001", "two words"]).code(2).says(["is not a tag"]);
    test.aj("note 3f1c0001").code(2).says(["the note is empty"]);
}

#[test]
fn a_note_is_read_from_standard_input() {
    let test = two_agents();
    let mut command = test.command(["note", "3f1c0001"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all("one\ntwo\n".as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let note =
        test.aj("list --json has:note").found().json()["sessions"][0]["marks"]["note"].clone();
    assert_eq!(note, "one\ntwo");
}

#[test]
fn marks_leave_with_exports_and_come_back_with_imports() {
    let test = two_agents();
    test.aj("star 3f1c0001").found();
    test.aj("tag 3f1c0001 release").found();
    test.args(["note", "3f1c0001", "ask Noor"]).found();
    test.args(["rename", "3f1c0001", "the marmalade"]).found();
    for (name, format) in [("one.json", "json"), ("all.ndjson", "ndjson")] {
        let other = Test::new();
        let file = other.beside(name);
        Run::of(test.command(["export", "3f1c0001", "-f", format, "-o"]).arg(&file)).code(0);
        Run::of(other.command(["import"]).arg(&file)).code(0);
        let entry = other.aj("list --json is:starred").found().json()["sessions"][0].clone();
        assert_eq!(entry["title"], "the marmalade", "{format}");
        assert_eq!(entry["marks"]["tags"], json!(["release"]), "{format}");
        // A later change on this machine is not undone by importing the file again.
        other.aj("unstar 3f1c0001").found();
        Run::of(other.command(["import"]).arg(&file)).code(0);
        assert_eq!(other.aj("list --json tag:release").found().ids(), [FLAKY]);
        assert_eq!(other.aj("list --json is:starred").code(1).ids(), [""; 0], "{format}");
    }
    let html = test.args(["export", "3f1c0001", "-f", "html", "-o", "-"]).code(0);
    html.shows(["★ #release", "ask Noor"]);
    let markdown = test.args(["export", "3f1c0001", "-f", "markdown", "-o", "-"]).code(0);
    markdown.shows(["marks: \"★ #release\"", "note: \"ask Noor\""]);
}

#[test]
fn forgetting_asks_and_refuses_without_a_terminal() {
    let test = two_agents();
    let refused = test.aj("forget 3f1c0001").code(2);
    let refused = refused.shows(["1 session · 1 sub-agent", "own files are not touched"]);
    refused.says(["pass `--yes`"]);
    assert_eq!(test.aj("list --json").found().ids().len(), 3);
    test.aj("forget 3f1c0001 --yes").found().shows(["2 sessions forgotten", "are unchanged"]);
    assert_eq!(test.aj("list --json --all").found().ids(), [PORT, RETRY]);
    test.aj("search flaky").code(1);
    assert!(test.path(".claude/projects/-home-mara-web").join(format!("{FLAKY}.jsonl")).exists());
    test.aj("forget --list").found().shows([FLAKY, "was forgotten"]);
    test.aj("sources").found().shows(["2 sessions forgotten"]);
    test.aj("why 3f1c0001").found().shows(["was forgotten"]);
    test.aj("forget 3f1c0001 --yes").code(1).says(["no session"]);
    test.aj("forget --undo 3f1c0001").found().shows([FLAKY]);
    assert_eq!(test.aj("list --json").found().ids(), [PORT, RETRY, FLAKY]);
    test.aj("forget project:web --yes --json").found();
    assert_eq!(test.aj("list --json").found().ids(), [PORT, RETRY]);
    test.aj("forget project:absent --yes").code(1).says(["no sessions match"]);
    test.aj("forget kind:prompt --yes").code(2).says(["selects messages"]);
}

#[test]
fn the_configuration_excludes_sessions() {
    let test = two_agents().config("[exclude]\nprojects = \"web\"\npaths = [\"~/.codex\"]\n");
    assert_eq!(test.aj("list --json").found().ids(), [RETRY]);
    test.aj("forget --list").found().shows([FLAKY, "is excluded by [exclude]"]);
    let rollout = test.path(".codex/sessions");
    test.args(["why", rollout.to_str().unwrap()]).found().shows(["is excluded by [exclude]"]);
    let test = test.config("[exclude]\npaths = 7\n");
    test.aj("list").code(2).says(["`exclude.paths` must be a text or a list of texts"]);
    let test = test.config("");
    assert_eq!(test.aj("list --json").found().ids(), [PORT, RETRY, FLAKY]);
    let test = test.config("[exclude]\nprojects = [\"web\"]\n");
    assert_eq!(test.aj("list --json").found().ids(), [PORT, RETRY, FLAKY]);
    test.aj("forget --excluded --yes").found().shows(["2 sessions forgotten"]);
    assert_eq!(test.aj("list --json --all").found().ids(), [PORT, RETRY]);
}

/// Sends a form to the dashboard.
fn send(server: &Server, path: &str, lines: &str, body: &str) -> (u16, String) {
    let answer = server.send(&format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{lines}content-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    ));
    (answer.status, answer.text())
}

const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

/// The token in a page of the dashboard.
fn token_of(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn the_dashboard_changes_marks_by_forms() {
    let server = Server::of_two_agents();
    let path = format!("/session/claude-code:{FLAKY}");
    let token = token_of(&server.page(&path));
    let own = format!("{FORM}origin: http://{}\r\nsec-fetch-site: same-origin\r\n", server.address);
    let change = |what: &str| {
        let body = format!("token={token}&change={what}");
        let (status, text) = send(&server, &format!("{path}/marks"), &own, &body);
        assert_eq!(status, 303, "{what}: {text}");
    };
    for what in [
        "star",
        "tag&text=Release",
        "note&text=ask+Noor%0D%0Aabout+it",
        "rename&text=the+marmalade",
    ] {
        change(what);
    }
    let page = server.page(&path);
    for part in ["★ Starred", "#release", "ask Noor\nabout it", "<h1>the marmalade</h1>"] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let list = server.page("/?tag=release");
    assert!(list.contains("the marmalade") && list.contains("#release (1)"), "{list}");
    assert!(!list.contains("Port the tokenizer"), "{list}");
    let api = server.json("/api/v1/sessions?tag=release");
    assert_eq!(api["sessions"][0]["marks"]["starred"], true);
    change("unstar");
    change("untag&text=release");
    change("note&text=");
    change("rename&text=");
    let page = server.page(&path);
    assert!(page.contains("☆ Star") && page.contains("<h1>Fix flaky login test</h1>"), "{page}");
}

#[test]
fn forms_of_other_sites_and_without_the_token_are_refused() {
    let server = Server::of_two_agents();
    let path = format!("/session/claude-code:{FLAKY}");
    let token = token_of(&server.page(&path));
    let marks = format!("{path}/marks");
    let body = format!("token={token}&change=star");
    let origin = format!("origin: http://{}\r\n", server.address);
    let own = format!("{FORM}{origin}");
    let refused = |lines: &str, body: &str, status: u16| {
        let (found, text) = send(&server, &marks, lines, body);
        assert_eq!(found, status, "{lines}{body}: {text}");
    };
    refused(&format!("{FORM}origin: http://evil.example\r\n"), &body, 403);
    refused(&format!("{FORM}origin: null\r\n"), &body, 403);
    refused(&format!("{own}sec-fetch-site: cross-site\r\n"), &body, 403);
    refused(&format!("{own}sec-fetch-site: same-site\r\n"), &body, 403);
    refused(FORM, &body, 403);
    refused(&own, "change=star", 403);
    refused(&own, &format!("token={}&change=star", "0".repeat(64)), 403);
    refused(&own, &format!("token={token}&change=delete"), 400);
    refused(&format!("content-type: text/plain\r\n{origin}"), &body, 415);
    refused(&own, &"x".repeat(300_000), 413);
    assert_eq!(server.get(&format!("{marks}?{body}")).status, 405, "GET changes nothing");
    let (status, _) = send(&server, &path, &own, &body);
    assert_eq!(status, 405, "only the forms' own paths accept POST");
    assert!(server.page(&path).contains("☆ Star"), "nothing was changed");
    let (status, _) = send(&server, &marks, &own, &body);
    assert_eq!(status, 303);
}

#[test]
fn a_dashboard_for_other_machines_asks_for_its_secret_before_a_form() {
    let test = two_agents();
    test.aj("index");
    let server = Server::start(test, &["--bind", "0.0.0.0"]);
    let secret = server.url.split_once("token=").unwrap().1.to_owned();
    let cookie = format!("cookie: aj_token={secret}\r\n");
    let path = format!("/session/claude-code:{FLAKY}");
    let page = server.ask(&path, &cookie).text();
    let body = format!("token={}&change=star", token_of(&page));
    let own = format!("{FORM}origin: http://{}\r\n", server.address);
    assert_eq!(send(&server, &format!("{path}/marks"), &own, &body).0, 401);
    assert_eq!(send(&server, &format!("{path}/marks"), &format!("{own}{cookie}"), &body).0, 303);
}

#[test]
fn a_dashboard_that_redacts_changes_no_marks() {
    let test = two_agents();
    test.aj("index");
    test.aj("star 3f1c0001").found();
    let server = Server::start(test, &["--redact"]);
    let path = format!("/session/claude-code:{FLAKY}");
    let page = server.page(&path);
    assert!(page.contains("★ Starred") && !page.contains("name=\"token\""), "{page}");
    let own = format!("{FORM}origin: http://{}\r\n", server.address);
    assert_eq!(send(&server, &format!("{path}/marks"), &own, "token=&change=star").0, 403);
}

#[test]
fn agents_read_marks_and_cannot_change_them() {
    let test = two_agents();
    test.aj("star 3f1c0001").found();
    test.args(["note", "3f1c0001", "ask Noor"]).found();
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("show", &json!({ "id": "3f1c0001" }));
    assert!(said.contains("| marks ★") && said.contains("| note ask Noor"), "{said}");
    client.end();
}
