//! `aj export` and `aj secrets`, run as a person runs them, on the demo's home.

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
    assert_eq!(error, "aj: a.md already exists; use `--force` to replace it\n");
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
    assert_eq!(error, "aj: 4 sessions do not fit into one json file; use the suffix .ndjson\n");
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
