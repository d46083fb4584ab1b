//! `aj blame` and `aj files` on the real program, with a real repository.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Test, keys, text};

const ID: &str = "0b1a0001-0000-4000-8000-000000000001";

/// A session that wrote one file and changed it, at ten o'clock on the second of March.
fn session(test: &Test) {
    let file = test.path("web/src/login.rs");
    let call = |at: u64, name: &str, input: Value| {
        json!({
            "type": "assistant", "uuid": format!("u{at}"), "sessionId": ID,
            "cwd": test.path("web"), "gitBranch": "main",
            "timestamp": format!("2026-03-02T10:00:{at:02}.000Z"),
            "message": {
                "role": "assistant", "id": format!("m{at}"), "model": "claude-sonnet-4-5",
                "content": [{ "type": "tool_use", "id": format!("t{at}"), "name": name, "input": input }],
            },
        })
    };
    let prompt = json!({
        "type": "user", "uuid": "u0", "sessionId": ID, "cwd": test.path("web"),
        "timestamp": "2026-03-02T10:00:00.000Z",
        "message": { "role": "user", "content": "make the login wait" },
    });
    let write = json!({ "file_path": file, "content": "fn login() {\n    send_request();\n}\n" });
    let edit = json!({
        "file_path": file, "old_string": "    send_request();",
        "new_string": "    send_request();\n    wait_for_session();",
    });
    let lines = [prompt, call(1, "Write", write), call(2, "Edit", edit)];
    let lines = lines.map(|line| line.to_string()).join("\n") + "\n";
    test.write(format!(".claude/projects/-web/{ID}.jsonl"), lines);
}

/// Runs git in the project, as somebody, at a time.
fn git(test: &Test, args: &[&str], (name, time): (&str, &str)) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(test.path("web")).args(args).env("HOME", test.path(""));
    // Nothing of a repository that these tests may be run from.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"] {
        git.env_remove(name);
    }
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    let email = format!("{name}@users.noreply.example.org");
    for (field, value) in [("NAME", name), ("EMAIL", &email), ("DATE", time)] {
        git.env(format!("GIT_AUTHOR_{field}"), value);
        git.env(format!("GIT_COMMITTER_{field}"), value);
    }
    let output = git.output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Commits files as they are to stand, and tells the commit.
fn commit_as(test: &Test, files: &[(&str, &str)], who: (&str, &str)) -> String {
    for (file, content) in files {
        test.write(format!("web/{file}"), content);
    }
    git(test, &["init", "--quiet"], who);
    git(test, &["add", "."], who);
    git(test, &["commit", "--quiet", "-m", "work"], who);
    git(test, &["rev-parse", "HEAD"], who)
}

/// Commits the file as it stands, at a time of that day.
fn commit(test: &Test, content: &str, time: &str) {
    commit_as(test, &[("src/login.rs", content)], ("mara", time));
}

const WRITTEN: &str = "fn login() {\n    send_request();\n    wait_for_session();\n}\n";

#[test]
fn lines_lead_to_the_message_that_wrote_them() {
    let test = Test::new();
    session(&test);
    commit(&test, "fn by_hand_before() {}\n", "2026-03-01T10:00:00Z");
    let content = format!("fn by_hand_before() {{}}\n{WRITTEN}");
    commit(&test, &content, "2026-03-02T11:00:00Z");
    let content = format!("{content}fn by_hand_after() {{}}\n");
    commit(&test, &content, "2026-03-03T10:00:00Z");
    let file = test.path("web/src/login.rs");
    let run = test.args(["blame", file.to_str().unwrap()]).code(0);
    run.shows([
        "0b1a0001#3",
        "0b1a0001#2",
        "exact",
        "partial",
        "make the login wait",
        "no recorded edit",
    ]);
    let answer = test.args(["blame", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(answer["schema"], "aj.blame/1");
    assert_eq!(keys(&answer), ["candidates", "file", "lines", "repository", "schema", "spans"]);
    let told = |span: &Value| {
        let author = &span["author"];
        let message = author["message"].as_u64();
        (span["first"].as_u64().unwrap(), span["last"].as_u64().unwrap(), message)
    };
    let spans: Vec<_> = answer["spans"].as_array().unwrap().iter().map(told).collect();
    let expected = [(1, 1, None), (2, 3, Some(2)), (4, 4, Some(3)), (5, 5, Some(2)), (6, 6, None)];
    assert_eq!(spans, expected);
    assert_eq!(text(&answer["spans"][1]["author"]["session"]), format!("claude-code:{ID}"));
    // One line alone.
    let place = format!("{}:4", file.display());
    test.args(["blame", &place]).code(0).shows(["0b1a0001#3", "exact"]).hides(["0b1a0001#2"]);
    test.aj("show 0b1a0001#3 -C 0").code(0).shows(["wait_for_session"]);
}

#[test]
fn a_place_is_told_in_full_however_long_its_id_is() {
    let test = Test::new();
    session(&test);
    // Another session whose id begins alike.
    let other = ID.replace("0001-0000-4000", "0001-0000-4111");
    let lines = std::fs::read_to_string(test.path(&format!(".claude/projects/-web/{ID}.jsonl")));
    let lines = lines.unwrap().replace(ID, &other).replace("wait_for_session", "go_on");
    test.write(format!(".claude/projects/-web/{other}.jsonl"), lines);
    test.write("web/src/login.rs", WRITTEN);
    let file = test.path("web/src/login.rs");
    let told = test.args(["blame", file.to_str().unwrap()]).code(0).stdout;
    let place = told.split_whitespace().find(|word| word.ends_with("#3"));
    let place = place.unwrap_or_else(|| panic!("{told}"));
    assert!(place.len() > 14, "{told}");
    test.args(["show", place]).code(0).shows(["wait_for_session"]);
}

/// Who wrote each line, by `aj blame`: the commit, and the message that a session made it with.
fn told(test: &Test, file: &str) -> Vec<(String, Option<u64>)> {
    let path = test.path(&format!("web/{file}"));
    let answer: Value =
        serde_json::from_str(&test.args(["blame", path.to_str().unwrap(), "--json"]).stdout)
            .unwrap();
    let spans = answer["spans"].as_array().unwrap().iter();
    spans
        .flat_map(|span| {
            let (first, last) = (span["first"].as_u64().unwrap(), span["last"].as_u64().unwrap());
            let line = (text(&span["commit"]), span["author"]["message"].as_u64());
            (first..=last).map(move |_| line.clone())
        })
        .collect()
}

const MANIFEST: &str = "[package]\nname = \"login-page\"\n\n[dependencies]\nserde = \"1.0.1\"\n";

#[test]
fn commits_of_bots_and_hands_are_nobodys_and_a_sessions_lines_are_all_its_own() {
    let test = Test::new();
    session(&test);
    let (hand, bot) = ("mara", "dependabot[bot]");
    let by_hand = "fn by_hand_before() {\n    prepare_everything();\n}\n\n";
    let first = [("src/login.rs", by_hand), ("Cargo.toml", MANIFEST), ("src/app.rs", by_hand)];
    let before = commit_as(&test, &first, (hand, "2026-03-01T10:00:00Z"));
    let login = format!("{by_hand}{WRITTEN}");
    let agents = commit_as(&test, &[("src/login.rs", &login)], (hand, "2026-03-02T11:00:00Z"));
    let bumped = MANIFEST.replace("1.0.1", "1.0.2");
    let bump = commit_as(&test, &[("Cargo.toml", &bumped)], (bot, "2026-03-03T10:00:00Z"));
    // Typed anew in other words, with a gap, and more of it below.
    let retyped = login.replace("    wait_for_session();\n", "    wait_for(session);\n\n")
        + "\nconst BY_HAND_AFTER: u8 = 1;\n";
    let after = commit_as(&test, &[("src/login.rs", &retyped)], (hand, "2026-03-04T10:00:00Z"));
    let pinned = retyped.replace("prepare_everything", "prepare_all");
    let tidy = [("src/login.rs", pinned.as_str()), ("src/app.rs", "fn generated_by_bot() {}\n")];
    let tidied = commit_as(&test, &tidy, ("tidy[bot]", "2026-03-05T10:00:00Z"));

    let nobody = |commit: &str, count: usize| vec![(commit.to_owned(), None); count];
    let written = |count: usize| vec![(agents.clone(), Some(2)); count];
    let expected = [
        nobody(&before, 1),
        nobody(&tidied, 1),
        nobody(&before, 2),
        written(2),
        nobody(&after, 2),
        written(1),
        nobody(&after, 2),
    ];
    assert_eq!(told(&test, "src/login.rs"), expected.concat());
    assert_eq!(told(&test, "src/app.rs"), nobody(&tidied, 1));
    assert_eq!(told(&test, "Cargo.toml"), [nobody(&before, 4), nobody(&bump, 1)].concat());
    // The commits are those of git's own blame.
    for file in ["src/login.rs", "src/app.rs", "Cargo.toml"] {
        let blamed = git(&test, &["blame", "-l", "--root", "-s", file], (hand, ""));
        let commits: Vec<&str> = blamed.lines().map(|line| &line[..40]).collect();
        let told: Vec<String> = told(&test, file).into_iter().map(|(commit, _)| commit).collect();
        assert_eq!(told, commits, "{file}");
    }
    let file = test.path("web/src/login.rs");
    test.args(["blame", file.to_str().unwrap()]).code(0).shows(["no recorded edit", &agents[..8]]);
}

#[test]
fn a_bump_in_a_file_that_a_session_wrote_is_the_bots() {
    let test = Test::new();
    session(&test);
    let version = "    pin_version(\"1.0.1\");\n";
    let login = WRITTEN.replace("    wait_for_session();\n", version);
    let agents = commit_as(&test, &[("src/login.rs", WRITTEN)], ("mara", "2026-03-02T11:00:00Z"));
    let by_hand = commit_as(&test, &[("src/login.rs", &login)], ("mara", "2026-03-03T11:00:00Z"));
    let bumped = login.replace("1.0.1", "1.0.2");
    let bot = ("renovate[bot]", "2026-03-04T11:00:00Z");
    let bump = commit_as(&test, &[("src/login.rs", &bumped)], bot);
    assert_ne!(by_hand, bump);
    let own = (agents, Some(2));
    assert_eq!(told(&test, "src/login.rs"), [own.clone(), own.clone(), (bump, None), own]);
}

#[test]
fn what_was_committed_before_the_session_is_not_its_own() {
    let test = Test::new();
    session(&test);
    commit(&test, WRITTEN, "2026-03-01T10:00:00Z");
    let file = test.path("web/src/login.rs");
    test.args(["blame", file.to_str().unwrap()]).code(1).hides(["0b1a0001"]);
}

#[test]
fn a_file_nobody_recorded_is_nobodys() {
    let test = Test::new();
    session(&test);
    test.write("web/src/other.rs", WRITTEN);
    let file = test.path("web/src/other.rs");
    test.args(["blame", file.to_str().unwrap()]).code(1).shows(["no recorded edit"]);
    test.args(["blame", "nowhere.rs"]).fails(["could not read nowhere.rs"]);
    let place = format!("{}:9", file.display());
    test.args(["blame", &place]).fails(["has 4 lines"]);
}

#[test]
fn changed_files_are_listed_with_their_sessions() {
    let test = Test::new();
    session(&test);
    test.aj("files").code(0).shows([
        "web/src/login.rs",
        "1 edit, created 1×",
        "make the login wait",
    ]);
    test.aj("files LOGIN.rs --agent claude").code(0).shows(["login.rs"]);
    test.aj("files nothing-like-it").code(1).stdout("");
    let answer = test.aj("files --json").json();
    assert_eq!(answer["schema"], "aj.files/1");
    assert_eq!((&answer["total"], &answer["files"][0]["edits"]), (&1.into(), &2.into()));
    assert_eq!(text(&answer["files"][0]["sessions"][0]["id"]), format!("claude-code:{ID}"));
}
