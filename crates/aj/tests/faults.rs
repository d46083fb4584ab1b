//! What goes wrong on real machines: crowds, full disks, odd files, files that change. Nothing here
//! depends on how fast anything is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::compare::{answers, long_session, undisturbed};
use crate::support::{FLAKY, Run, Test, Transcript, two_agents};

#[test]
fn two_that_write_at_once_both_succeed() {
    let test = two_agents();
    for number in 0..8 {
        let session = long_session(number, 100);
        test.write(session.path(), session.lines);
    }
    let spawn = || test.command(["index"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let all: Vec<Child> = (0..4).map(|_| spawn().unwrap()).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(answers(&test) == undisturbed(&test));
}

#[test]
fn ten_searches_during_an_index_all_succeed() {
    for full in [false, true] {
        let test = two_agents();
        test.aj("index").found();
        for number in 0..12 {
            let session = long_session(number, 120);
            test.write(session.path(), session.lines);
        }
        let words: &[&str] = if full { &["index", "--full"] } else { &["index"] };
        let mut index = test.command(words).stdout(Stdio::null()).spawn().unwrap();
        let search = || {
            let mut command = test.command(["search", "--json", "copper"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut rounds = 0;
        while rounds < 1 || index.try_wait().unwrap().is_none() {
            let all: Vec<Child> = (0..10).map(|_| search()).collect();
            for child in all {
                let output = child.wait_with_output().unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{words:?} {stderr}");
                let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(answer["sessions"][0]["native_id"], FLAKY, "{words:?}");
            }
            rounds += 1;
        }
        assert!(index.wait().unwrap().success());
        assert!(answers(&test) == undisturbed(&test));
    }
}

#[test]
fn searches_during_the_very_first_index_wait_or_say_what_is_missing() {
    let test = two_agents();
    for number in 0..12 {
        let session = long_session(number, 120);
        test.write(session.path(), session.lines);
    }
    let mut index = test.command(["index"]).stdout(Stdio::null()).spawn().unwrap();
    while index.try_wait().unwrap().is_none() {
        let run = test.aj("search --json copper");
        assert!(matches!(run.code, Some(0 | 1)), "{run}");
        assert!(run.code == Some(0) || run.stderr.contains("not read yet"), "{run}");
    }
    assert!(index.wait().unwrap().success());
    test.aj("search copper").found();
}

// Disks

/// A small disk, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this process may not mount one.
    fn mount(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then_some(Self(path))
    }

    fn resize(&self, size: &str) {
        self.remount(&format!("size={size}"));
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    for size in ["32k", "64k", "160k", "320k", "640k", "1m"] {
        let test = two_agents();
        let Some(disk) = Disk::mount(test.beside("disk"), size) else {
            println!("skipped: this process may not mount a file system");
            return;
        };
        for number in 0..12 {
            let session = long_session(number, 300);
            test.write(session.path(), session.lines);
        }
        let test = test.env("AJ_HOME", disk.0.join("journal"));
        let path = disk.0.to_str().unwrap().to_owned();
        let parts = ["no space left", &path, "free some space"];
        let run = test.aj("index");
        assert_eq!(run.code, Some(2), "{size}: {run}");
        run.fails(parts);
        disk.resize("64m");
        test.aj("index").code(0);
        assert!(answers(&test) == undisturbed(&test), "{size}");
    }
}

#[test]
fn a_journal_on_a_read_only_file_system_answers() {
    let test = two_agents();
    let Some(disk) = Disk::mount(test.beside("disk"), "16m") else {
        println!("SKIPPED: this process may not mount a file system");
        return;
    };
    let test = test.env("AJ_HOME", disk.0.join("journal"));
    test.aj("index").found();
    let session = Transcript::new(7).you("the latest about copper").agent("noted");
    test.write(session.path(), session.lines);
    // What this leaves in the log is found as well, with the shared memory beside it or without.
    test.aj("list").found();
    for is_shared in [true, false] {
        if !is_shared {
            let _ = fs::remove_file(disk.0.join("journal/journal.db-shm"));
        }
        let session = Transcript::new(8).you("something new about copper").agent("noted");
        test.write(session.path(), session.lines);
        disk.remount("ro");
        for words in ["list --json", "search --json copper"] {
            let run = test.aj(words).code(0).says(["could not record", "Read-only file system"]);
            assert_eq!(run.stderr.lines().count(), 1, "{run}");
            assert!(run.ids().contains(&Transcript::new(7).id), "{run}");
            assert!(!test.aj(&format!("--no-sync {words}")).found().ids().is_empty());
        }
        test.aj("index").fails(["Read-only file system"]);
        disk.remount("rw");
    }
    test.aj("index").code(0);
    assert!(answers(&test) == undisturbed(&test));
}

#[test]
fn a_lock_of_another_user_costs_no_answer() {
    let test = two_agents();
    if !is_root() {
        println!("SKIPPED: only the superuser can give a file to another user");
        return;
    }
    give(&test.beside(""));
    as_nobody(&test, &["index"]).found();
    std::os::unix::fs::chown(test.journal("lock"), Some(0), Some(0)).unwrap();
    mode(&test.journal("lock"), 0o600);
    let session = Transcript::new(7).you("something new about copper").agent("noted");
    test.write(session.path(), session.lines);
    let lock = test.journal("lock").to_str().unwrap().to_owned();
    for words in [["list", "--json"], ["search", "copper"], ["show", "3f1c0001"]] {
        let run = as_nobody(&test, &words).code(0);
        let run = run.says(["could not record new sessions", &lock, "Permission denied"]);
        assert_eq!(run.stderr.lines().count(), 1, "{run}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_appended_line_is_found_for_little_writing() {
    let test = Test::new();
    let session = long_session(1, 18_000);
    assert!(session.lines.len() > 10 << 20, "{}", session.lines.len());
    let path = session.path();
    test.write(&path, &session.lines);
    test.aj("index").found();
    let mut most = 0;
    for round in 0..10 {
        let line = Transcript::new(1).agent(&format!("zanzibar{round} at last")).lines;
        let line = line
            .replace("-0\"", &format!("-tail{round}\""))
            .replace("_0\"", &format!("_tail{round}\""));
        test.append(&path, &line);
        // A shell's account has what the program wrote that it waited for.
        let search = test.command(["search", "--json", &format!("zanzibar{round}")]);
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$0\" \"$@\" && cat /proc/$$/io >&2"]);
        shell.arg(search.get_program()).args(search.get_args());
        let given = search.get_envs().filter_map(|(name, value)| Some((name, value?)));
        shell.env_clear().envs(given).env("PATH", "/usr/bin:/bin");
        let run = Run::of(&mut shell).code(0);
        assert_eq!(run.json()["total"], 1);
        let written = run.stderr.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
        most = most.max(written.parse::<u64>().unwrap());
    }
    println!("at most {most} bytes written");
    assert!(most > 0 && most < 2 << 20, "{most} bytes written");
}

// Odd files and directories

/// Runs a command as somebody whom permissions mean something to.
fn as_nobody(test: &Test, words: &[&str]) -> Run {
    let mut command = test.command(words);
    if is_root() {
        let program = test.beside("aj");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_aj"), &program).unwrap();
        }
        let mut other = Command::new(&program);
        other
            .args(words)
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        other.current_dir(test.beside("")).uid(65534).gid(65534);
        command = other;
    }
    Run::of(&mut command)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Hands everything below a directory to the user of `as_nobody`.
fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        if path.is_dir() && !path.is_symlink() {
            fs::read_dir(path).unwrap().flatten().for_each(|entry| give(&entry.path()));
        }
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_unreadable_directory_is_told_and_hides_nothing_else() {
    let test = two_agents();
    give(&test.beside(""));
    let root = test.path(".claude/projects");
    mode(&root, 0);
    let message = format!("could not read {}: Permission denied", root.display());
    as_nobody(&test, &["index"]).code(2).says([&message]);
    let list = as_nobody(&test, &["list", "--json"]).code(0).says([&message]);
    assert_eq!(list.ids().len(), 1);
    mode(&root, 0o755);
    as_nobody(&test, &["index"]).found();
    assert_eq!(as_nobody(&test, &["list", "--json"]).found().ids().len(), 3);
    // Sessions in a directory that cannot be read any more are not gone.
    let inner = test.path(".claude/projects/-home-mara-web");
    mode(&inner, 0);
    let list = as_nobody(&test, &["list", "--json"]).code(0);
    assert!(
        list.json()["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["source"]["present"] == true)
    );
    mode(&inner, 0o755);
}

#[test]
fn an_unreadable_file_is_told_and_read_once_it_can_be() {
    let test = two_agents();
    give(&test.beside(""));
    let file = test.path(&format!(".claude/projects/-home-mara-web/{FLAKY}.jsonl"));
    mode(&file, 0);
    as_nobody(&test, &["index"]).code(2).says([
        "could not read",
        file.to_str().unwrap(),
        "Permission denied",
    ]);
    let list = as_nobody(&test, &["list", "--json"]);
    assert_eq!((list.code, list.ids().len()), (Some(0), 2), "{list}");
    as_nobody(&test, &["sources"]).code(0).shows([file.to_str().unwrap(), "Permission denied"]);
    mode(&file, 0o644);
    as_nobody(&test, &["index"]).found();
    assert_eq!(as_nobody(&test, &["list", "--json"]).found().ids().len(), 3);
}

#[test]
fn a_journal_that_may_not_be_written_is_told_with_its_path() {
    let test = two_agents();
    give(&test.beside(""));
    fs::create_dir(test.journal("")).unwrap();
    mode(&test.journal(""), 0o555);
    let directory = test.journal("").to_str().unwrap().to_owned();
    for command in ["index", "list", "search copper"] {
        let words: Vec<&str> = command.split(' ').collect();
        as_nobody(&test, &words).fails([&directory, "Permission denied", "permission to use it"]);
    }
    mode(&test.journal(""), 0o755);
    give(&test.beside(""));
    as_nobody(&test, &["index"]).found();
    mode(&test.journal("journal.db"), 0);
    as_nobody(&test, &["list"])
        .fails([test.journal("journal.db").to_str().unwrap(), "permission to use it"]);
}

/// Takes the right to write from everything below a directory, or gives it back.
fn forbid_writing(path: &Path, is_forbidden: bool) {
    let bits = if is_forbidden { 0o555 } else { 0o755 };
    if path.is_dir() {
        mode(path, 0o755);
        fs::read_dir(path)
            .unwrap()
            .flatten()
            .for_each(|one| forbid_writing(&one.path(), is_forbidden));
        mode(path, bits);
    } else {
        mode(path, bits & 0o666);
    }
}

#[test]
fn a_journal_that_may_only_be_read_answers() {
    let test = two_agents();
    give(&test.beside(""));
    as_nobody(&test, &["index"]).found();
    forbid_writing(&test.journal(""), true);
    for command in ["list --json", "search copper --json", "search copper --json --no-sync"] {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(!as_nobody(&test, &words).found().ids().is_empty(), "{command}");
    }
    let session = Transcript::new(7).you("something new about copper").agent("noted");
    test.write(session.path(), session.lines);
    for command in ["list --json", "search copper --json"] {
        let words: Vec<&str> = command.split(' ').collect();
        let run = as_nobody(&test, &words).code(0).says(["could not record new sessions"]);
        assert!(!run.ids().is_empty(), "{command}");
    }
    let run = as_nobody(&test, &["doctor"]).code(1);
    run.shows(["journal.db is not writable"]).hides(["cannot be used"]);
    as_nobody(&test, &["index"]).fails(["Permission denied"]);
    forbid_writing(&test.journal(""), false);
}

#[test]
fn a_configured_root_that_is_no_directory_is_told() {
    let variables = [
        "AJ_CLAUDE_PATH",
        "AJ_COPILOT_PATH",
        "AJ_VSCODE_PATH",
        "AJ_CODEX_PATH",
        "AJ_GEMINI_PATH",
        "AJ_QWEN_PATH",
        "AJ_CURSOR_PATH",
    ];
    for variable in variables {
        let test = two_agents();
        let (file, dangling, pipe) =
            (test.beside("file"), test.beside("dangling"), test.beside("pipe"));
        fs::write(&file, "plain text").unwrap();
        symlink("/nowhere/at/all", &dangling).unwrap();
        fifo(&pipe);
        let test = two_agents().env(variable, &dangling);
        test.aj("index").code(0).says([dangling.to_str().unwrap(), "does not exist"]);
        for root in [file, pipe] {
            let test = two_agents().env(variable, &root);
            let name = root.to_str().unwrap();
            let run = test.aj("index");
            assert_eq!(run.code, Some(2), "{variable} {run}");
            run.says(["could not read", name]);
            // Roots are told by every command, files that were looked into by `aj sources`.
            let sources = test.aj("sources").code(0);
            let told = format!("{}{}", sources.stdout, sources.stderr);
            assert!(told.contains(&format!("could not read {name}")), "{variable} {sources}");
            assert!(!test.aj("list --json").code(0).ids().is_empty());
        }
    }
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_sockets_loops_and_dangling_links_are_passed_by() {
    let test = two_agents();
    let root = test.path(".claude/projects");
    fifo(&root.join("pipe.jsonl"));
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket.jsonl")).unwrap();
    symlink("/nowhere/at/all.jsonl", root.join("dangling.jsonl")).unwrap();
    symlink(&root, root.join("loop")).unwrap();
    symlink("..", root.join("-home-mara-web/up")).unwrap();
    symlink("endless.jsonl", root.join("endless.jsonl")).unwrap();
    symlink("/dev/zero", root.join("zero.jsonl")).unwrap();
    fs::create_dir(root.join("folder.jsonl")).unwrap();
    test.aj("index").found();
    assert_eq!(test.aj("list --all --json").found().ids().len(), 4);
    assert_eq!(test.aj("search --json copper").found().ids(), [FLAKY]);
    test.aj("index").found().stdout("up to date\n");
}

#[test]
fn names_that_are_not_utf_8_are_read_and_told() {
    let test = two_agents();
    let odd = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
    let session = Transcript::new(9).you("a peculiar place").agent("indeed");
    let folder = test.path(".claude/projects").join(odd(b"caf\xe9-\xff"));
    test.write(folder.join(format!("{}.jsonl", session.id)), &session.lines);
    let broken = Transcript::new(10).you("a peculiar name").agent("indeed");
    test.write(folder.join(odd(b"na\xefve.jsonl")), &broken.lines);
    test.aj("index").found();
    assert_eq!(test.aj("list --json").found().ids().len(), 5);
    assert_eq!(test.aj("search --json peculiar").found().ids().len(), 2);
    test.aj("index").found().stdout("up to date\n");
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        test.aj("search --json peculiar").found().json()["sessions"][0]["source"]["present"],
        false
    );

    // The home, the journal and the index may be called anything.
    let home = test.beside("").join(odd(b"h\xf6me"));
    fs::rename(test.path(""), &home).unwrap();
    let test = test.env("HOME", &home).env("AJ_HOME", home.join(odd(b"j\xf6urnal")));
    for command in
        ["index", "list", "search copper", "show 3f1c0001", "sources", "config show", "config path"]
    {
        test.aj(command).found();
        test.aj(&format!("{command} --json")).found().json();
    }
    assert!(home.join(odd(b"j\xf6urnal")).join("journal.db").exists());
    let test = test.without("AJ_HOME");
    for command in ["list", "sources", "config show", "config path"] {
        test.aj(command).found();
        test.aj(&format!("{command} --json")).found().json();
    }
    let mut command = test.command([OsStr::new("--home"), home.as_os_str(), OsStr::new("list")]);
    Run::of(&mut command).found();
}

#[test]
fn a_source_that_cannot_be_understood_costs_its_neighbours_nothing() {
    let test = two_agents();
    test.write(
        ".claude/projects/-x/00000001-0000-4000-8000-000000000000.jsonl",
        b"\0\0\0\xff\xfe not json\n".repeat(50),
    );
    test.write(".claude/projects/-x/00000002-0000-4000-8000-000000000000.jsonl", "");
    test.write(".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-0199bbbb-0000-7000-8000-000000000003.jsonl", "[1,2,3");
    test.aj("index").found();
    let ids = test.aj("list --json").found().ids();
    assert_eq!((ids.len(), ids.iter().filter(|id| id.starts_with("00000001")).count()), (4, 1));
    test.aj("sources").found().shows(["skipped 50 × ", "no record parsed in"]);
}

#[test]
fn an_export_never_takes_the_place_of_a_device_or_a_pipe() {
    use std::os::unix::fs::FileTypeExt;
    let test = two_agents();
    let path = test.beside("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let run = test.args(["export", FLAKY, "-o", path.to_str().unwrap(), "--force"]).code(2);
    assert!(run.stderr.contains("is not a regular file"), "{}", run.stderr);
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
}
