//! What others on the machine and on the network get to know: nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::compare::snapshot;
use crate::support::{Run, Test, two_agents};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Every file and directory below a path, with it.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            all.extend(tree(&entry.path()));
        }
    }
    all
}

/// Runs a command under a mask.
fn masked(test: &Test, mask: &str, words: &str) -> Run {
    let inner = test.command(words.split(' '));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\"")]);
    Run::of(inside(&mut command, &inner))
}

/// Has a command run another one.
fn inside<'c>(command: &'c mut Command, inner: &Command) -> &'c mut Command {
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.current_dir(inner.get_current_dir().unwrap()).stdin(Stdio::null())
}

#[test]
fn the_journal_is_private_whatever_the_mask() {
    for mask in ["000", "022", "077"] {
        let test = two_agents();
        // The look that is remembered needs files that are not from this very moment.
        for path in tree(&test.path("")) {
            let past = std::time::SystemTime::UNIX_EPOCH;
            fs::File::open(path).unwrap().set_modified(past).unwrap();
        }
        for words in ["index", "list", "search copper", "search --json what failed"] {
            masked(&test, mask, words).code(0);
        }
        assert_eq!(mode(&test.journal("")), 0o700, "{mask}");
        assert_eq!(mode(&test.journal("index")), 0o700, "{mask}");
        for name in ["journal.db", "lock", "scan_cache", "found_projects"] {
            assert_eq!(mode(&test.journal(name)), 0o600, "{mask} {name}");
        }
    }
}

#[test]
fn a_journal_in_a_directory_that_others_may_enter_is_still_private() {
    let test = two_agents();
    fs::create_dir(test.journal("")).unwrap();
    fs::set_permissions(test.journal(""), fs::Permissions::from_mode(0o755)).unwrap();
    // Somebody who reads keeps the log of the journal there, to be looked at.
    masked(&test, "000", "index").code(0);
    let reader = rusqlite::Connection::open(test.journal("journal.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions;").unwrap();
    let session = crate::support::Transcript::new(1).you("another one");
    test.write(session.path(), &session.lines);
    masked(&test, "000", "index").code(0);
    for path in tree(&test.journal("")).into_iter().skip(1) {
        let folders = path.ancestors().take_while(|one| *one != test.journal(""));
        let is_private = folders.map(mode).any(|mode| mode.trailing_zeros() >= 6);
        assert!(is_private, "{} {:o}", path.display(), mode(&path));
    }
    assert!(test.journal("journal.db-wal").exists());
}

/// Every command, as it runs without a terminal.
const COMMANDS: &[&str] = &[
    "index",
    "index --full",
    "search copper",
    "search --json what went wrong",
    "list",
    "show 3f1c0001",
    "resume 3f1c0001 --print",
    "handoff 3f1c0001",
    "blame Cargo.toml",
    "files",
    "stats",
    "score",
    "statusline",
    "export 3f1c0001 -o -",
    "export 3f1c0001 --format json -o session.json",
    "import session.json",
    "secrets",
    "restore 3f1c0001 -o restored",
    "why 3f1c0001",
    "sources",
    "mcp",
    "skill",
    "config show",
    "doctor",
    "completions bash",
    "man",
    "demo",
    "tui",
];

/// What a network namespace without an interface is made with; `None` where that is not allowed.
fn unshare() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["-n"], &["-rn"]];
    ways.into_iter().find(|way| {
        let mut probe = Command::new("unshare");
        let probe = probe.args(*way).arg("true").stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

#[test]
fn every_command_works_without_a_network_as_it_does_with_one() {
    let Some(way) = unshare() else {
        println!("skipped: this process may not make a network namespace");
        return;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (test, with) = (two_agents().env("PATH", &path), two_agents().env("PATH", &path));
    let sources = snapshot(&test.path(""));
    for words in COMMANDS {
        let expected = with.aj(words);
        let mut command = Command::new("unshare");
        command.args(way);
        let run = Run::of(inside(&mut command, &test.command(words.split(' '))));
        assert_eq!((run.code, &run.stderr), (expected.code, &expected.stderr), "{run}");
    }
    // The server needs no more than its own machine.
    let mut command = Command::new("unshare");
    command.args(way);
    let serve = inside(&mut command, &test.command(["serve", "--port", "0"]));
    let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut url).unwrap();
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    println!("{} command lines ran without a network", COMMANDS.len());
    assert!(snapshot(&test.path("")) == sources);
    let help = test.aj("--help").stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in commands.take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().unwrap();
        let is_tried = COMMANDS.iter().any(|words| words.split(' ').next() == Some(name));
        assert!(is_tried || ["serve", "help"].contains(&name), "{name} is not tried");
    }
}

#[test]
fn copies_of_databases_that_a_kill_left_are_gone_after_the_next_run() {
    let test = two_agents();
    let temporary = test.beside("temporary");
    fs::create_dir(&temporary).unwrap();
    let test = test.env("TMPDIR", &temporary);
    let left = temporary.join("aj-copy-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("lock"), "").unwrap();
    fs::write(left.join("copy.db"), "secrets of a session").unwrap();
    test.aj("index").found();
    assert_eq!(tree(&temporary), [temporary]);
}

/// Characters and sequences that steer a terminal, or turn text around.
const STEERING: &str =
    "\x1b]52;c;YQ==\x07\x1b]8;;http://x.example\x1b\\\x1b[31m\u{9b}31m\u{202e}\u{2066}\x08\r";

/// A home in which every recorded text tries to steer the terminal.
fn steering_home() -> Test {
    let test = Test::new();
    let said = format!("copper {STEERING} lattice");
    let mut session = crate::support::Transcript::new(1)
        .you(&said)
        .agent(&format!("We decided {said}"))
        .tool(&said, true)
        .write_file(Path::new(&format!("/home/mara/web/{STEERING}.rs")), &said);
    let inside = |text: &str| {
        let json = serde_json::to_string(text).unwrap();
        json[1..json.len() - 1].to_owned()
    };
    let lines = session.lines.replace("/home/mara/web", &inside(&format!("/home/mara/{STEERING}")));
    session.lines = lines.replace("\"main\"", &format!("\"{}\"", inside(STEERING)));
    test.write(session.path(), &session.lines);
    test.aj("index").code(0);
    test
}

#[test]
fn no_command_prints_what_steers_a_terminal() {
    let test = steering_home();
    let commands = [
        "list",
        "list --all --redact",
        "show 0000",
        "show 0000 --all --tools --thinking",
        "show 0000 --redact",
        "show 0000#3 -C 2",
        "search copper",
        "search copper -C 2 --explain",
        "search copper --facets project,agent",
        "files",
        "files --redact",
        "stats",
        "stats --by session",
        "stats --by project",
        "stats --by branch",
        "stats --by tool",
        "score",
        "statusline",
        "handoff 0000",
        "resume 0000",
        "resume 0000 --print",
        "resume 0000 --print --shell sh",
        "resume 0000 --print --shell fish",
        "resume 0000 --print --shell powershell",
        "secrets",
        "sources",
        "sources --all",
        "why 0000",
        "doctor",
        "config show",
        "index",
        "show 9999",
    ];
    for words in commands {
        let run = test.aj(words);
        let steers = |one: char| {
            one.is_control() && !"\n\t".contains(one)
                || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!run.stdout.contains(steers), "{words}: {:?}", run.stdout);
        assert!(!run.stderr.contains(steers), "{words}: {:?}", run.stderr);
    }
}
