//! `aj resume`, with agents that are small scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Test, Transcript, text};

/// A home with one session in a directory that is there, and an agent that tells how it was run.
fn ready() -> (Test, Transcript) {
    let test = Test::new();
    let session = session_in(&test.beside("work/my web"), 1);
    test.write(session.path(), &session.lines);
    fs::create_dir_all(test.beside("work/my web")).unwrap();
    let test = with_program(test, "claude");
    (test, session)
}

fn session_in(directory: &std::path::Path, number: u64) -> Transcript {
    let mut session = Transcript::new(number).you("mend the fence").agent("mended");
    session.lines = session.lines.replace("/home/mara/web", directory.to_str().unwrap());
    session
}

fn with_program(test: Test, name: &str) -> Test {
    let file = test.beside(&format!("bin/{name}"));
    test.write(&file, "#!/bin/sh\npwd\nprintf '<%s>' \"$@\"\nexit 7\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", test.beside("bin").display());
    test.env("PATH", path)
}

#[test]
fn resume_becomes_the_agent_in_the_sessions_directory() {
    let (test, session) = ready();
    let run = test.args(["resume", &session.id[..8]]);
    let place = test.beside("work/my web").canonicalize().unwrap();
    let expected = format!("{}\n<--resume><{}>", place.display(), session.id);
    // The exit code is the agent's own.
    run.code(7).stdout(&expected).stderr("");
}

#[test]
fn what_is_printed_does_the_same_in_a_shell() {
    let (test, session) = ready();
    let printed = test.args(["resume", &session.id, "--print"]).found().stdout;
    assert!(printed.starts_with("cd -- '/"), "{printed}");
    let path = format!("{}:/usr/bin:/bin", test.beside("bin").display());
    let output = std::process::Command::new("sh")
        .args(["-c", &printed])
        .env_clear()
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with(&format!("my web\n<--resume><{}>", session.id)), "{said}");
}

#[test]
fn a_directory_that_would_steer_the_terminal_is_spelled_out() {
    let odd = "work/a\x1b]52;c;YQ==\x07b\u{9b}31m\u{202e}it's";
    let test = Test::new();
    fs::create_dir_all(test.beside(odd)).unwrap();
    let mut session = Transcript::new(1).you("mend the fence").agent("mended");
    let path = serde_json::to_string(test.beside(odd).to_str().unwrap()).unwrap();
    session.lines = session.lines.replace("\"/home/mara/web\"", &path);
    test.write(session.path(), &session.lines);
    let test = with_program(test, "claude");
    for shell in ["sh", "fish", "powershell"] {
        let run = test.args(["resume", &session.id, "--print", "--shell", shell]).code(0);
        let steers = |one: char| one.is_control() && one != '\n' || one == '\u{202e}';
        assert!(!run.stdout.contains(steers) && !run.stderr.contains(steers), "{run}");
    }
    let printed = test.args(["resume", &session.id, "--print", "--shell", "sh"]).found().stdout;
    let path = format!("{}:/usr/bin:/bin", test.beside("bin").display());
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &printed]).env_clear().env("PATH", path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with(test.beside(odd).canonicalize().unwrap().to_str().unwrap()),
        "{said:?}"
    );
}

#[test]
fn other_shells_get_their_own_quotes() {
    let (test, session) = ready();
    let print = |shell: &str| {
        test.args(["resume", &session.id, "--print", "--shell", shell]).found().stdout
    };
    assert!(print("fish").starts_with("cd '/"));
    let powershell = print("powershell");
    assert!(powershell.starts_with("Set-Location -LiteralPath '/"), "{powershell}");
    assert!(powershell.contains("'; if ($?) { claude --resume "), "{powershell}");
    test.args(["resume", &session.id, "--shell", "fish"]).code(2);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let (test, session) = ready();
    let test = test.env("PATH", "/nowhere");
    test.args(["resume", &session.id]).fails(["could not resume: `claude` is not on PATH"]);
    // To look at the command, nothing has to be installed.
    let run = test.args(["resume", &session.id, "--print"]).code(0);
    run.says(["`claude` is not on PATH"]).shows(["claude --resume"]);
}

#[test]
fn a_directory_that_moved_is_found_by_its_name() {
    let (test, session) = ready();
    fs::create_dir_all(test.beside("work/archive")).unwrap();
    fs::rename(test.beside("work/my web"), test.beside("work/archive/my web")).unwrap();
    let moved = test.beside("work/archive/my web");
    let run = test.args(["resume", &session.id]);
    run.fails([
        "its directory no longer exists",
        &format!("--dir {} (same name)", moved.display()),
    ]);
    let run = test.args(["resume", &session.id, "--dir", moved.to_str().unwrap()]);
    assert!(run.stdout.contains("archive/my web\n<--resume>"), "{run}");
}

#[test]
fn a_directory_that_was_renamed_is_found_by_its_git_remote() {
    let test = with_program(Test::new(), "codex");
    let gone = test.beside("work/old-name");
    let meta = json!({
        "timestamp": "2026-03-02T10:00:00.000Z", "type": "session_meta", "payload": {
            "id": "0199bbbb-0000-7000-8000-000000000001", "timestamp": "2026-03-02T10:00:00.000Z",
            "cwd": gone, "originator": "codex_cli_rs", "cli_version": "0.146.0",
            "git": { "repository_url": "git@example.org:mara/fence.git", "branch": "main" },
        },
    });
    let prompt = json!({
        "timestamp": "2026-03-02T10:00:01.000Z", "type": "event_msg",
        "payload": { "type": "user_message", "message": "paint the fence" },
    });
    let path = ".codex/sessions/2026/03/02/rollout-2026-03-02T10-00-00-0199bbbb-0000-7000-8000-000000000001.jsonl";
    test.write(path, format!("{meta}\n{prompt}\n"));
    let config = "[remote \"origin\"]\n\turl = https://example.org/mara/fence\n";
    test.write(test.beside("work/new-name/.git/config"), config);
    let run = test.aj("resume 0199bbbb");
    run.fails(["new-name (same git remote)"]);
}

#[test]
fn a_session_whose_file_is_gone_lives_on_but_cannot_be_resumed() {
    let (test, session) = ready();
    test.aj("index").found();
    fs::remove_file(test.path(&session.path())).unwrap();
    test.args(["resume", &session.id]).fails(["its session file no longer exists"]);
}

#[test]
fn a_session_of_another_home_is_not_looked_for_in_ones_own() {
    let (test, session) = ready();
    let other = Test::new().env("PATH", format!("{}:/usr/bin:/bin", test.beside("bin").display()));
    let home = test.path("");
    let run = other.args(["--home", home.to_str().unwrap(), "resume", &session.id]);
    run.fails(["the session was recorded in another home"]);
}

#[test]
fn a_sub_agents_session_points_to_the_one_that_started_it() {
    let test = Test::new().home("two-agents");
    let parent = "claude-code:3f1c0001-0000-4000-8000-000000000001";
    test.aj("resume a7b8c9").fails(["it is a sub-agent", parent]);
}

#[test]
fn programs_learn_what_stands_in_the_way() {
    let test = Test::new().home("two-agents").env("PATH", "/nowhere");
    let document = test.aj("resume 3f1c0001 --json").found().json();
    assert_eq!(document["schema"], "aj.resume/1");
    assert_eq!(document["ready"], false);
    assert_eq!(document["command"]["program"], "claude");
    let obstacles = document["obstacles"].as_array().unwrap();
    let kinds: Vec<String> = obstacles.iter().map(|one| text(&one["kind"])).collect();
    assert_eq!(kinds, ["no_program", "directory_gone"]);
}
