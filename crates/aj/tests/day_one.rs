//! The first day, and every day off a terminal: empty answers that say so, odd files that are
//! named, settings that name what is not there.

use crate::support::{FLAKY, Test, two_agents};

const NO_HISTORY: &str =
    "no agent history found; `aj sources --all` lists the scanned directories\n";

const PROJECT: &str = ".claude/projects/-home-mara-web";

fn transcript(number: u8) -> String {
    format!("{PROJECT}/5e000000-0000-4000-8000-0000000000{number:02}.jsonl")
}

#[test]
fn an_empty_home_says_that_there_is_no_history() {
    let test = Test::new();
    for words in ["list", "search login", "stats", "score", "files", "secrets", "export --all -o x"]
    {
        test.aj(words).code(1).stdout("").stderr(NO_HISTORY);
    }
    test.aj("index").found().stdout(NO_HISTORY);
}

#[test]
fn an_empty_answer_says_so_off_a_terminal() {
    let test = two_agents();
    test.aj("index").found();
    test.aj("list project:nowhere").code(1).stdout("").stderr("no sessions match\n");
    test.aj("stats --since 2030-01-01").code(1).stdout("").stderr("no sessions match\n");
    test.aj("files nowhere.rs").code(1).stdout("").stderr("no files match\n");
    test.aj("score nowhere").code(1).says(["no sessions match"]);
    test.aj("search zyzzyva").code(1).stdout("").says(["nothing found; try fewer words"]);
    let secrets = test.aj("secrets --since 2030-01-01").code(1);
    assert_eq!(secrets.stderr, "no secrets found in 0 sessions\n");
}

#[test]
fn an_unknown_session_is_nothing_found() {
    let test = two_agents();
    test.aj("show nope").code(1).stdout("").says(["nope"]);
}

#[test]
fn list_tells_programs_what_is_still_to_be_read() {
    let list = two_agents().aj("list --json").found().json();
    assert_eq!(list["pending"]["sources"], 0);
    assert_eq!(list["pending"]["bytes"], 0);
}

#[test]
fn doctor_counts_what_is_there_before_the_first_index() {
    let doctor = two_agents().aj("doctor").code(0);
    doctor.shows(["claude-code", "not read yet", "codex"]).hides(["no agent history found"]);
    Test::new().aj("doctor").code(0).shows(["no agent history found"]);
}

#[test]
#[cfg(unix)]
fn doctor_notices_a_place_where_no_journal_can_be_made() {
    use std::os::unix::fs::PermissionsExt;
    let test = two_agents();
    let closed = test.beside("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Nothing is closed to the superuser.
    let is_open = std::fs::create_dir(closed.join("probe")).is_ok();
    let doctor = test.env("AJ_HOME", closed.join("journal")).aj("doctor");
    assert_eq!(doctor.stdout.contains("cannot be created"), !is_open, "{doctor}");
    doctor.code(i32::from(!is_open));
}

#[test]
fn one_field_of_another_type_in_every_record_loses_nothing() {
    let test = Test::new();
    let line = |kind: &str, uuid: u8, said: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":{uuid},"sessionId":7,"timestamp":"2026-03-02T09:00:0{uuid}Z","cwd":"/home/mara/web","version":3,"isSidechain":"no","message":{{"role":"{kind}","content":"{said} driftneedle"}}}}"#
        ) + "\n"
    };
    test.write(transcript(1), line("user", 1, "prompt") + &line("assistant", 2, "answer"));
    let list = test.aj("list --json").found().json();
    assert_eq!(list["sessions"][0]["counts"]["user_prompts"], 1);
    assert_eq!(list["sessions"][0]["counts"]["assistant_messages"], 1);
    assert_eq!(test.aj("search driftneedle --json").found().json()["total"], 1);
}

#[test]
fn a_session_of_unknown_records_is_listed_found_and_reported() {
    let test = Test::new();
    let unknown: String = (0..20)
        .map(|number| {
            format!(r#"{{"kindOfRecord":"v9","body":{{"said":"hologram {number}"}}}}"#) + "\n"
        })
        .collect();
    test.write(transcript(2), unknown);
    let list = test.aj("list --json").found().json();
    assert_eq!(list["total"], 1);
    assert_eq!(list["sessions"][0]["status"], "completed");
    assert_eq!(test.aj("search hologram --json").found().json()["total"], 1);
    test.aj("doctor").code(1).shows(["only 0.0 % of 20 records parsed", "000000000002.jsonl"]);
    test.aj("sources").found().shows(["no record parsed in", "000000000002.jsonl (20 records)"]);
}

#[test]
fn a_file_that_is_all_garbage_is_named() {
    let test = two_agents();
    test.write(transcript(3), "these are\nno records\n");
    test.aj("sources").found().shows(["no record parsed in", "000000000003.jsonl (2 records)"]);
    let list = test.aj("list --json").found().json();
    let garbage = list["sessions"].as_array().unwrap().iter();
    let garbage = garbage.filter(|one| one["native_id"] == "5e000000-0000-4000-8000-000000000003");
    let states: Vec<_> = garbage.map(|one| one["status"].clone()).collect();
    assert_eq!(states, ["completed"]);
}

#[test]
fn a_named_source_that_is_not_there_is_a_warning() {
    let test = two_agents().config("[storage.sources]\ncursor = \"~/.cursor/conversations\"\n");
    let index = test.aj("index").code(0);
    assert_eq!(index.stderr.lines().count(), 1, "{index}");
    index.says([".cursor/conversations does not exist"]);
    test.aj("list").found();
    test.aj("doctor").code(0).shows([".cursor/conversations does not exist"]);
}

#[test]
fn without_a_fallback_a_search_by_meaning_says_why_it_finds_nothing() {
    let test = two_agents().config("[index.vector]\nmodel_path = \"~/m\"\nfallback = \"none\"\n");
    let search = ["search", "--mode", "semantic", "flaky test"];
    test.aj("index").code(0);
    test.args(search).fails(["search by meaning is not available", "no model in"]);
    test.aj("doctor").code(1).shows(["meaning", "no model in"]);
    test.aj("search login").found();
    test.write("m/model.onnx", "x");
    test.write("m/tokenizer.json", "{}");
    test.args(search).fails(["search by meaning is not available", "could not use the model in"]);
}

#[test]
fn the_configured_context_reaches_a_plain_search() {
    let lines = |test: &Test| test.aj("search login").found().stdout.lines().count();
    let plain = lines(&two_agents());
    let with_context = lines(&two_agents().config("[search]\ndefault_context = 2\n"));
    assert!(with_context > plain, "{with_context} {plain}");
}

#[test]
fn a_status_bar_without_a_session_shows_today_alone() {
    let test = two_agents();
    test.aj("index").found();
    for input in ["xx", "{}", r#"{"session_id":""}"#] {
        let mut command = test.command(["statusline", "--stdin"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let shown = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert!(shown.starts_with("today "), "{input}: {shown}");
    }
    assert!(test.aj(&format!("statusline --session {FLAKY}")).found().stdout.contains("claude"));
}

#[test]
fn an_error_of_a_file_that_is_gone_is_forgotten() {
    let test = two_agents();
    let path = ".copilot/session-store.db";
    test.write(path, [b"SQLite format 3\0".as_slice(), &[0xff; 4096]].concat());
    test.aj("index").code(2);
    let sources = test.aj("sources").stdout;
    let told = sources.lines().find(|line| line.contains("could not read")).unwrap();
    assert_eq!(told.matches("session-store.db").count(), 1, "{told}");
    std::fs::remove_file(test.path(path)).unwrap();
    test.aj("sources").hides(["could not read"]);
}

#[test]
fn why_says_whether_a_session_is_listed_and_where_it_was_read() {
    let test = two_agents();
    test.aj("index").found();
    test.aj("why 3f1c0001")
        .found()
        .shows(["is listed", "3f1c0001-0000-4000-8000-000000000001.jsonl"]);
    test.aj("why a7b8c9").found().shows(["is a sub-agent"]);
    test.write(transcript(4), "no record\n");
    test.aj("why 5e000000").found().shows(["not read yet"]);
    test.aj("index").found();
    test.aj("why 5e000000").found().shows(["0 of 1 record parsed", "skipped 1 × "]);
    test.aj("why ffffffff").code(1).stdout("").says(["no session or session file `ffffffff`"]);
    std::fs::remove_file(test.path(&transcript(4))).unwrap();
    test.aj("index").found();
    test.aj("why 5e000000").found().shows(["deleted"]);
}

#[test]
fn why_says_what_became_of_a_path() {
    let test = two_agents();
    test.write(format!("{PROJECT}/notes.txt"), "a note");
    test.write("elsewhere/chat.jsonl", "{}");
    let why = |path: &str| test.args(["why".as_ref(), test.path(path).as_os_str()]);
    why(&format!("{PROJECT}/notes.txt"))
        .code(1)
        .says(["a directory of claude-code, but aj reads no session"]);
    why("elsewhere/chat.jsonl").code(1).says(["is not in a scanned directory"]);
    why("elsewhere/gone.jsonl").code(1).says(["does not exist"]);
    let known = test.args(["why", "--json", test.path(PROJECT).to_str().unwrap()]).found().json();
    assert_eq!(known["schema"], "aj.why/1");
    assert_eq!(known["sources"][0]["state"], "unread");
    assert_eq!(known["sources"][0]["agent"], "claude-code");
}

#[test]
fn sources_says_that_some_agents_are_looked_for_in_few_places() {
    let test = Test::new();
    test.aj("sources --all")
        .found()
        .shows(["only these directories and known projects", "[storage.sources] aider"]);
}
