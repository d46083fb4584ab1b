//! `aj doctor`, completions and manual pages.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Run, Test, Transcript, text, two_agents};

/// The state and finding of a check.
fn check(run: &Run, name: &str) -> (String, String) {
    let document = run.json();
    let checks = document["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no check `{name}` in {document}"));
    (text(&check["state"]), text(&check["finding"]))
}

#[test]
fn a_journal_in_order_is_said_to_be() {
    let test = two_agents();
    test.aj("index").found();
    let run = test.aj("doctor").found();
    let run = run.shows([
        " ok    configuration",
        " ok    claude-code",
        "3 sessions",
        " ok    journal",
        " ok    index",
    ]);
    run.hides(["fix"]);
    assert_eq!(test.aj("doctor --json").found().json()["well"], true);
}

#[test]
fn nothing_recorded_is_no_fault() {
    let run = Test::new().aj("doctor --json").found();
    assert_eq!(check(&run, "sources").0, "note");
    assert_eq!(check(&run, "journal").0, "note");
}

#[test]
fn what_is_not_read_yet_is_told_and_left_alone() {
    let test = two_agents();
    let run = test.aj("doctor --json").found();
    assert_eq!(check(&run, "news").0, "note");
    assert!(!test.journal("journal.db").exists(), "a look must not write");
}

#[test]
fn a_broken_configuration_is_a_finding() {
    let test = two_agents().config("[storage\n");
    let run = test.aj("doctor --json").code(1);
    assert_eq!(check(&run, "configuration").0, "bad");
    assert!(check(&run, "configuration").1.contains("config.toml"));
}

#[test]
fn a_configured_place_that_is_missing_is_a_finding() {
    let test = two_agents().config("[storage.sources]\ncodex = \"/nowhere/at/all\"\n");
    let run = test.aj("doctor --json").code(0);
    assert_eq!(check(&run, "codex"), ("note".into(), "/nowhere/at/all does not exist".into()));
}

#[test]
fn a_further_home_that_is_missing_is_a_finding() {
    let test = two_agents()
        .config("[[homes]]\npath = \"/nowhere/at/all\"\ntype = \"remote\"\nhost = \"buildbox\"\n");
    let run = test.aj("doctor --json").code(0);
    assert_eq!(check(&run, "homes"), ("note".into(), "/nowhere/at/all does not exist".into()));
    test.aj("config show").found().shows(["[[homes]]", "/nowhere/at/all", "buildbox", "remote"]);
    let shown = test.aj("config show --json").found().json();
    assert_eq!(shown["homes"][0]["host"], "buildbox");
}

#[test]
fn a_configured_pattern_is_there_when_its_beginning_is() {
    let test = Test::new();
    let pattern =
        format!("[storage.sources]\naider = \"{}/src/**/*.md\"\n", test.path("").display());
    let test = test.config(&pattern);
    assert_eq!(check(&test.aj("doctor --json").code(0), "aider").0, "note");
    fs::create_dir(test.path("src")).unwrap();
    test.aj("doctor").found();
}

#[test]
fn a_damaged_journal_is_a_finding_with_what_to_do() {
    let test = two_agents();
    test.aj("index").found();
    let file = test.journal("journal.db");
    let mut bytes = fs::read(&file).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    fs::write(&file, &bytes).unwrap();
    let run = test.aj("doctor").code(1);
    run.shows([" fix   journal", "aj index"]);
    fs::write(&file, "not a database at all, but long enough to be looked at".repeat(40)).unwrap();
    let run = test.aj("doctor --json").code(1);
    assert_eq!(check(&run, "journal").0, "bad");
}

#[test]
fn a_missing_index_is_a_finding_and_indexing_mends_it() {
    let test = two_agents();
    test.aj("index").found();
    fs::remove_dir_all(test.journal("index")).unwrap();
    let run = test.aj("doctor --json").code(1);
    assert_eq!(check(&run, "index").0, "bad");
    test.aj("index").found();
    test.aj("doctor").found();
}

#[cfg(unix)]
#[test]
fn a_journal_that_others_may_read_is_a_finding() {
    use std::os::unix::fs::PermissionsExt;
    let test = two_agents();
    test.aj("index").found();
    fs::set_permissions(test.journal("journal.db"), fs::Permissions::from_mode(0o644)).unwrap();
    test.aj("doctor").code(1).shows(["other users can read", "chmod go="]);
}

#[test]
fn what_agents_recorded_is_found_again() {
    let test = two_agents();
    test.aj("index").found();
    let run = test.aj("doctor --reach 300 --json").found();
    let document = run.json();
    let rows = document["reach"]["rows"].as_array().unwrap();
    let kinds: Vec<&Value> = rows.iter().map(|row| &row["kind"]).collect();
    for kind in ["prompt", "reply", "tool_input", "tool_output", "title"] {
        assert!(kinds.contains(&&Value::from(kind)), "no {kind} in {rows:?}");
    }
    assert_eq!(document["reach"]["missed"].as_array().unwrap().len(), 0, "{document}");
    // Of what nothing was drawn, nothing is said.
    test.aj("doctor --reach 2").found().shows(["  –\n"]).hides(["0 of 0"]);
    // The same seed draws the same pieces.
    assert_eq!(test.aj("doctor --reach 300 --json").found().stdout, run.stdout);
}

#[test]
fn what_the_index_lacks_is_missed() {
    let test = two_agents();
    test.aj("index").found();
    let session = Transcript::new(5)
        .you("the walrus and the carpenter were walking close at hand")
        .agent("so they were");
    test.write(session.path(), session.lines);
    let run = test.aj("doctor --reach --no-sync").code(1);
    run.shows(["missed claude-code:00000005", " fix   reach", "the goal is 99.5 %"]);
}

#[test]
fn every_shell_gets_a_script_that_it_can_read() {
    let test = Test::new();
    for shell in ["bash", "zsh", "fish", "powershell", "nushell"] {
        let script = test.args(["completions", shell]).found().stdout;
        assert!(script.contains("handoff") && script.contains("print-config"), "{shell}: {script}");
        // Those that are installed here have a look at it.
        let file = test.beside("script");
        fs::write(&file, &script).unwrap();
        let reader = match shell {
            "bash" | "zsh" => vec![shell, "-n"],
            "fish" => vec![shell, "--no-execute"],
            _ => continue,
        };
        let Ok(output) = Command::new(reader[0]).args(&reader[1..]).arg(&file).output() else {
            continue;
        };
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
    test.aj("completions tcsh").code(2);
}

#[test]
fn every_command_has_a_manual_page() {
    let test = Test::new();
    let page = test.aj("man search").found().stdout;
    assert!(page.contains(".TH aj-search 1") && page.contains("aj search"), "{page}");
    let directory = test.beside("man");
    test.args(["man", "--dir", directory.to_str().unwrap()]).found();
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .flatten()
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in ["aj.1", "aj-search.1", "aj-config-show.1", "aj-help-config-show.1", "aj-mcp.1"] {
        assert!(names.iter().any(|known| known == name), "no {name} in {names:?}");
    }
    test.aj("man frobnicate").fails(["unknown command `frobnicate`"]);
}

/// A session of one version of an agent: understood records, and others.
fn versioned(number: u8, version: &str, understood: usize, unknown: usize) -> (String, String) {
    let id = format!("5e000000-0000-4000-8000-0000000000{number:02}");
    let record = |at: usize, kind: &str| {
        serde_json::json!({
            "type": kind, "uuid": format!("{number}-{at}"), "sessionId": id, "version": version,
            "timestamp": format!("2026-05-{number:02}T09:{:02}:{:02}Z", at / 60, at % 60),
            "cwd": "/home/mara/web", "message": { "role": "user", "content": format!("prompt {at}") },
        })
        .to_string()
    };
    let kinds = (0..understood).map(|_| "user").chain((0..unknown).map(|_| "hologram"));
    let lines: Vec<String> = kinds.enumerate().map(|(at, kind)| record(at, kind)).collect();
    (format!(".claude/projects/-home-mara-web/{id}.jsonl"), lines.join("\n") + "\n")
}

#[test]
fn a_new_version_that_is_understood_less_is_a_finding_before_the_total_is() {
    let test = Test::new();
    let (path, lines) = versioned(1, "2.1.40", 300, 0);
    test.write(path, lines);
    test.aj("index").found();
    test.aj("doctor").found().shows([" ok    claude-code"]);
    let (path, lines) = versioned(2, "2.2.0", 28, 2);
    test.write(&path, lines);
    test.aj("index").found();
    // The total is 99.4 %: what dropped is the share of the new version.
    test.aj("doctor").code(1).shows([
        " fix   claude-code",
        "only 93.3 % of 30 records of version 2.2.0 parsed",
        "100.0 % in earlier versions",
        "2 × hologram",
        "5e000000-0000-4000-8000-000000000002.jsonl",
        "update aj, or report these record types",
    ]);
    // A version that nobody has used for long is no news.
    let (path, lines) = versioned(3, "2.2.1", 40, 0);
    test.write(path, lines.replace("2026-05-", "2026-09-"));
    test.aj("index").found();
    test.aj("doctor").found().shows([" ok    claude-code"]);
}
