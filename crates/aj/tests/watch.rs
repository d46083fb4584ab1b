//! `aj index --watch` and its service, on the real program.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Test, Transcript};

#[test]
fn what_agents_write_is_read_until_a_signal_ends_it() {
    for signal in ["INT", "TERM"] {
        let test = Test::new();
        let first = Transcript::new(1).you("begin the copper lattice");
        test.write(first.path(), &first.lines);
        let mut watch = test.command(["index", "--watch", "--json"]);
        let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut read =
            || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        let report = read();
        assert_eq!((&report["schema"], &report["sources"]), (&"aj.watch/1".into(), &1.into()));
        let second = Transcript::new(2).you("and the silver thread");
        // As a whole: a file that is seen while it is written is news twice.
        test.write(test.beside("draft"), &second.lines);
        std::fs::rename(test.beside("draft"), test.path(&second.path())).unwrap();
        assert_eq!(read()["sources"], 1);
        test.aj("--no-sync search silver").found().shows(["silver"]);

        let id = watch.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let output = watch.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{signal}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_service_is_printed_and_installed_on_request() {
    let test = Test::new();
    let unit = ".config/systemd/user/agent-journal.service";
    let printed = test.aj("index --install-service").found();
    let printed = printed.shows(["[Service]", "aj\" index --watch", "WantedBy=default.target"]);
    assert!(!test.path(unit).exists());
    let run = test.aj("index --install-service=write").found();
    run.shows(["agent-journal.service", "systemctl --user enable --now"]);
    assert_eq!(std::fs::read_to_string(test.path(unit)).unwrap(), printed.stdout);
    assert!(!printed.stdout.contains("--home"));
    test.aj("index --install-service=now").code(2).says(["print", "write"]);
    test.aj("index --watch --full").code(2).says(["cannot be used with"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_service_knows_every_variable_that_has_a_say() {
    let test = Test::new()
        .env("CODEX_HOME", "/data/codex")
        .env("CLAUDE_CONFIG_DIR", "/data/claude")
        .env("AJ_CURSOR_PATH", "/data/cursor")
        .env("EDITOR", "vi");
    let unit = test.aj("index --install-service").found();
    let unit = unit.shows([
        "Environment=\"AJ_CURSOR_PATH=/data/cursor\"\n",
        "Environment=\"AJ_HOME=",
        "Environment=\"CLAUDE_CONFIG_DIR=/data/claude\"\n",
        "Environment=\"CODEX_HOME=/data/codex\"\n",
        "Environment=\"TZ=UTC\"\n",
    ]);
    assert!(!unit.stdout.contains("EDITOR"), "{unit}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_service_for_another_home_is_one_of_its_own() {
    let (test, other) = (Test::new().env("CODEX_HOME", "/data/codex"), Test::new());
    let home = other.path("").display().to_string();
    let run = test.args(["--home", &home, "--json", "index", "--install-service"]).found().json();
    let (path, unit) = (run["path"].as_str().unwrap(), run["text"].as_str().unwrap());
    let folder = test.path(".config/systemd/user");
    assert!(path.starts_with(&*folder.to_string_lossy()), "{path}");
    assert!(!path.ends_with("/agent-journal.service"), "{path}");
    assert!(unit.contains(&format!("--home \"{home}\" index --watch\n")), "{unit}");
    assert!(!unit.contains("CODEX_HOME"), "another home does not go by it: {unit}");
}
