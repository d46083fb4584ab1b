//! The exported page in a real browser, driven as a person would drive it. Without Chromium and
//! Node the tests say that they were skipped.

use std::fs;

use serde_json::json;

use crate::support::{Test, browser};

/// Exports a session of the demo as `page.html`.
fn demo(theme: &str) -> Test {
    let test = Test::new();
    let home = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/home");
    test.args(["--home", home, "export", "5e1f", "-o", "page.html", "--theme", theme]).code(0);
    test
}

/// Has a browser go through a scenario of `browser/page.mjs` on `page.html`.
#[track_caller]
fn drive(scenario: &str, test: &Test) {
    let url = format!("file://{}", test.beside("page.html").display());
    browser::drive("page.mjs", scenario, json!({ "url": url, "profile": test.beside("profiles") }));
}

#[test]
fn the_page_works_in_every_theme() {
    for theme in ["dark", "light", "auto"] {
        drive("whole", &demo(theme));
    }
}

/// A session of some megabytes: four prompts, and long work after each.
fn long_session() -> String {
    let mut lines = String::new();
    let mut parent = String::from("null");
    for at in 0..3004 {
        let (turn, step) = (at / 751, at % 751);
        let id = format!("\"u{at}\"");
        let time = format!("2026-03-0{}T{:02}:{:02}:{:02}.000Z", turn + 1, step / 60, step % 60, 0);
        let message = match step {
            0 => format!(r#"{{"role":"user","content":"Prompt {turn}"}}"#),
            _ if step % 2 == 1 => format!(
                r#"{{"role":"assistant","id":"a{at}","model":"m","content":[{{"type":"text","text":"Now step {at}, needle number {at}"}},{{"type":"tool_use","id":"t{at}","name":"Bash","input":{{"command":"step {at}"}}}}]}}"#
            ),
            _ => {
                let output = format!(
                    "output of step {at} </script><script>RAN=1</script> {}",
                    "x ".repeat(1500)
                );
                let answer = serde_json::json!([{ "type": "tool_result", "tool_use_id": format!("t{}", at - 1), "content": output }]);
                format!(r#"{{"role":"user","content":{answer}}}"#)
            }
        };
        let kind = if message.starts_with(r#"{"role":"user"#) { "user" } else { "assistant" };
        lines.push_str(&format!(
            r#"{{"type":"{kind}","uuid":{id},"parentUuid":{parent},"sessionId":"10000000-0000-4000-8000-000000000000","cwd":"/work","timestamp":"{time}","message":{message}}}"#
        ));
        lines.push('\n');
        parent = id;
    }
    lines
}

#[test]
fn a_long_page_is_there_when_its_reader_comes_near() {
    let test = Test::new();
    test.write(".claude/projects/-work/10000000-0000-4000-8000-000000000000.jsonl", long_session());
    test.aj("index").code(0);
    test.aj("export 10000000 -o page.html").code(0);
    let page = fs::read_to_string(test.beside("page.html")).unwrap();
    assert!(page.len() > 4 << 20 && page.contains("<noscript>"), "{}", page.len());
    drive("long", &test);
}

#[test]
fn the_policy_of_the_page_stops_a_script_that_is_not_its_own() {
    let test = demo("dark");
    let page = fs::read_to_string(test.beside("page.html")).unwrap();
    let evil = page.replace("</body>", "<script>window.RAN = 1</script></body>");
    test.write(test.beside("page.html"), evil);
    drive("evil", &test);
}
