//! `aj export` and `aj secrets`, run as a person runs them, on the demo's home; and the page in a
//! real browser where there is one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(missing_docs, reason = "a test")]

#[path = "support/browser.rs"]
mod browser;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A place to run in: nothing outside it is read or written.
struct Place {
    directory: TempDir,
    home: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/home");
        Self { directory: tempfile::tempdir().unwrap(), home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn aj(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_aj"))
            .current_dir(self.directory.path())
            .env_clear()
            .env("HOME", self.path("nobody"))
            .env("AJ_HOME", self.path("journal"))
            .arg("--home")
            .arg(&self.home)
            .args(words)
            .output()
            .unwrap()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.aj(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.aj(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn one_session_becomes_a_page_with_a_name_people_know() {
    let place = Place::new();
    let name = place.done(&["export", "5e1fb0a2"]);
    assert_eq!(name, "fix-flaky-login-e2e-test-5e1fb0a2.html\n");
    let page = fs::read_to_string(place.path(name.trim())).unwrap();
    assert!(page.contains("<h1>Fix flaky login e2e test</h1>"));
    assert!(!page.contains("/home/sam"), "whose home it was is nobody's business");
}

#[test]
fn nothing_is_replaced_unless_asked() {
    let place = Place::new();
    fs::write(place.path("a.md"), "mine").unwrap();
    let error = place.refused(&["export", "5e1fb0a2", "-o", "a.md"]);
    assert_eq!(error, "aj: a.md is there already; `--force` replaces it\n");
    assert_eq!(fs::read_to_string(place.path("a.md")).unwrap(), "mine");
    place.done(&["export", "5e1fb0a2", "-o", "a.md", "--force"]);
    assert!(fs::read_to_string(place.path("a.md")).unwrap().starts_with("---\ntitle: "));
}

#[test]
fn json_goes_to_standard_output_and_is_complete() {
    let place = Place::new();
    let text = place.done(&["export", "5e1f", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema_version"], "1.0");
    assert_eq!(document["agent"], "claude-code");
    assert_eq!(document["session"]["workspace_encoded"], "-home-sam-web");
    assert_eq!(document["messages"].as_array().unwrap().len(), 12);
    assert_eq!(document["graph"]["is_linear"], true);
}

#[test]
fn names_say_how_a_file_is_packed() {
    let place = Place::new();
    place.done(&["export", "--all", "-o", "all.ndjson.gz"]);
    let mut text = String::new();
    let file = fs::File::open(place.path("all.ndjson.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    // Four sessions and the sub-agent of one.
    assert_eq!(text.lines().count(), 5);
    place.done(&["export", "--all", "--format", "ndjson.zst"]);
    let packed = fs::read(place.path("aj-export.ndjson.zst")).unwrap();
    let unpacked = zstd::decode_all(&*packed).unwrap();
    let sessions = |text: &str| -> Vec<String> {
        let id = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        text.lines().map(|line| id(line)["session"]["id"].to_string()).collect()
    };
    assert_eq!(sessions(&String::from_utf8(unpacked).unwrap()), sessions(&text));
}

#[test]
fn a_query_chooses_and_many_pages_have_an_index() {
    let place = Place::new();
    assert_eq!(place.done(&["export", "--all", "-o", "site"]), "site/index.html\n");
    let index = fs::read_to_string(place.path("site/index.html")).unwrap();
    let pages: Vec<_> = fs::read_dir(place.path("site")).unwrap().collect();
    assert_eq!(pages.len(), 5);
    assert!(index.contains("href=\"fix-flaky-login-e2e-test-5e1fb0a2.html\""));
    let name = place.done(&["export", "project:web", "-f", "md"]);
    assert_eq!(name, "fix-flaky-login-e2e-test-5e1fb0a2.md\n");
    let nothing = place.aj(&["export", "nothing-has-this-word"]);
    assert_eq!(nothing.status.code(), Some(1));
}

#[test]
fn several_sessions_do_not_fit_one_document() {
    let place = Place::new();
    let error = place.refused(&["export", "--all", "-o", "all.json"]);
    assert_eq!(error, "aj: 4 sessions do not fit one json file; name it .ndjson\n");
    let error = place.refused(&["export", "5e1f", "-f", "htlm"]);
    assert_eq!(error, "aj: unknown format `htlm` — did you mean `html`?\n");
}

#[test]
fn markdown_is_split_at_prompts() {
    let place = Place::new();
    let name = place.done(&["export", "5e1f", "-o", "a.md", "--split", "1"]);
    assert_eq!(name, "a-1.md\n");
    let second = fs::read_to_string(place.path("a-2.md")).unwrap();
    assert!(second.starts_with("# Fix flaky login e2e test (continued)\n"), "{second}");
    assert!(second.contains("## 9 · You"));
}

#[test]
fn sub_agents_stand_behind_their_call() {
    let place = Place::new();
    let check = |words: &[&str], call: &str, child: &str, next: &str| {
        let text = place.done(&[&["export", "7a9d", "-o", "-"], words].concat());
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at(call) < at(child) && at(child) < at(next), "{text}");
    };
    let page = ["id=\"m2\"", "<details class=\"sub\"", "id=\"m4\""];
    check(&[], page[0], page[1], page[2]);
    let words = ["--format", "md", "--sub-agents"];
    check(&words, "**Agent**", "<summary>Sub-agent: List every", "Four combinators");
}

#[test]
fn a_history_without_secrets_says_so() {
    let place = Place::new();
    assert_eq!(place.aj(&["secrets"]).status.code(), Some(1));
}

/// What the clicks say with: each line that fails is told on the console. What takes frames is
/// waited for, since how many there are in a second of the browser's time depends on the machine.
const WORDS: &str = r#"
const is = (what, holds) => { if (!holds) { console.error("FAULT " + what); } };
const until = async (what, holds) => {
  for (let left = 400; left > 0 && !holds(); left -= 1) {
    await new Promise((done) => setTimeout(() => requestAnimationFrame(done), 50));
  }
  is(what, holds());
};
"#;

/// What a reader does with the page.
const CLICKS: &str = r#"
addEventListener("load", async () => {
  const root = document.documentElement;
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  is("the prompts are listed", document.querySelectorAll(".toc a").length === 2);
  const boxes = () => Array.from(document.querySelectorAll("main details"));
  is("tools are folded", boxes().length === 5 && boxes().every((box) => !box.open));
  document.getElementById("fold").click();
  is("tools unfold", boxes().every((box) => box.open));
  press("e");
  is("tools fold again", boxes().every((box) => !box.open));
  const theme = root.dataset.theme;
  document.getElementById("theme").click();
  is("the theme changes", root.dataset.theme !== theme);
  const color = () => getComputedStyle(document.body).backgroundColor;
  root.dataset.theme = "dark";
  const dark = color();
  root.dataset.theme = "light";
  is("light is not dark", color() !== dark);
  const find = document.getElementById("find");
  find.value = "ERR_CONNECTION_RESET";
  find.dispatchEvent(new Event("input"));
  const found = (answer) => () => document.getElementById("found").textContent === answer;
  await until("a match in a folded tool is found", found("1 of 1"));
  is("and unfolded", boxes().filter((box) => box.open).length === 1);
  find.value = "nowhere to be found";
  find.dispatchEvent(new Event("input"));
  await until("no match is told", found("nothing found"));
  press("?");
  is("the keys are told", document.getElementById("help").open);
  console.log("CLICKED");
});
"#;

/// Opens a page and tells what it wrote to the console.
fn console(browser: &Path, page: &Path, place: &Place) -> Vec<String> {
    let output = browser::quiet(browser)
        .args(["--enable-logging=stderr", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", place.path("browser").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    errors.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser::chromium() else { return };
    let place = Place::new();
    for theme in ["dark", "light", "auto"] {
        let name = format!("{theme}.html");
        place.done(&["export", "5e1f", "-o", &name, "--theme", theme]);
        let told = console(&browser, &place.path(&name), &place);
        assert!(told.is_empty(), "{theme}: {told:#?}");
    }
    let page = fs::read_to_string(place.path("dark.html")).unwrap();
    fs::write(place.path("driven.html"), driven(&page, CLICKS)).unwrap();
    let told = console(&browser, &place.path("driven.html"), &place);
    assert!(told.len() == 1 && told[0].contains("CLICKED"), "{told:#?}");
}

/// What a reader does with a page whose later parts wait.
const LONG_CLICKS: &str = r#"
addEventListener("load", async () => {
  const waiting = () => document.querySelectorAll(".chunk:not(.there)").length;
  const all = document.querySelectorAll(".chunk").length;
  is("much of the page waits", all > 20 && waiting() > all - 10);
  is("every prompt is there", document.querySelectorAll("main > .turn").length === 4 && document.querySelectorAll(".toc a").length === 4);
  location.hash = "m2002";
  const top = (element) => element ? element.getBoundingClientRect().top : Infinity;
  await until("a permalink fetches its message", () => Math.abs(top(document.getElementById("m2002"))) < 200);
  is("and not all the others", waiting() > all / 2);
  const find = document.getElementById("find");
  const search = async (words, answer) => {
    find.value = words;
    find.dispatchEvent(new Event("input"));
    await until(words + " is found", () => document.getElementById("found").textContent === answer);
  };
  await search("needle number 2600", "1 of 1");
  const here = document.querySelector(".m.here");
  is("what waits is shown", here?.textContent.includes("needle number 2600"));
  await until("on the screen", () => top(here) > 0 && top(here) < innerHeight);
  const height = (chunk) => parseFloat(chunk.style.minHeight);
  const left = [...document.querySelectorAll(".chunk:not(.there)")];
  is("what waits takes about the room that it will need", left.every((chunk) => height(chunk) < 5000));
  find.blur();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
  const last = [...document.querySelectorAll(".chunk")].at(-1);
  const end = () => Math.abs(document.querySelector("footer").getBoundingClientRect().bottom - innerHeight);
  await until("the end is reached", () => last.classList.contains("there") && end() < 2);
  await search("output of step", "1 of 1500");
  is("nothing ran", !window.RAN && !document.querySelector("main script:not([type])"));
  document.getElementById("fold").click();
  is("unfolding holds for what comes", Array.from(document.querySelectorAll(".chunk.there details")).every((box) => box.open));
  dispatchEvent(new Event("beforeprint"));
  is("all of it can be printed", waiting() === 0 && document.querySelectorAll("main .m").length === 1504);
  is("and is unfolded", Array.from(document.querySelectorAll("main details")).every((box) => box.open));
  console.log("CLICKED");
});
"#;

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
    let Some(browser) = browser::chromium() else { return };
    let mut place = Place::new();
    place.home = place.path("home");
    let file = place.home.join(".claude/projects/-work/10000000-0000-4000-8000-000000000000.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, long_session()).unwrap();
    place.done(&["index"]);
    place.done(&["export", "10000000", "-o", "long.html"]);
    let page = fs::read_to_string(place.path("long.html")).unwrap();
    assert!(page.len() > 4 << 20 && page.contains("<noscript>"), "{}", page.len());
    let told = console(&browser, &place.path("long.html"), &place);
    assert!(told.is_empty(), "{told:#?}");
    fs::write(place.path("driven.html"), driven(&page, LONG_CLICKS)).unwrap();
    let told = console(&browser, &place.path("driven.html"), &place);
    assert!(told.len() == 1 && told[0].contains("CLICKED"), "{told:#?}");
}

/// A page with clicks. They are no part of it: for them the policy is put aside.
fn driven(page: &str, clicks: &str) -> String {
    let start = page.find("<meta http-equiv=").unwrap();
    let end = start + page[start..].find('\n').unwrap();
    let body = page.rfind("</body>").unwrap();
    format!("{}{}<script>{WORDS}{clicks}</script>{}", &page[..start], &page[end..body], &page[body..])
}

#[test]
fn the_policy_of_the_page_stops_a_script_that_is_not_its_own() {
    let Some(browser) = browser::chromium() else { return };
    let place = Place::new();
    place.done(&["export", "5e1f", "-o", "a.html"]);
    let page = fs::read_to_string(place.path("a.html")).unwrap();
    let evil = page.replace("</body>", "<script>console.log('RAN')</script></body>");
    fs::write(place.path("evil.html"), evil).unwrap();
    let told = console(&browser, &place.path("evil.html"), &place).join("\n");
    assert!(told.contains("Content Security Policy") && !told.contains("RAN"), "{told}");
}
