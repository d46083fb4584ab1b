//! Runs the real program in a private home: nothing of the tester's own environment, history or
//! journal is in reach.
#![allow(missing_docs, unreachable_pub, reason = "test support")]

pub mod browser;
pub mod client;
pub mod compare;
pub mod history;
pub mod power_loss;
pub mod preload;
pub mod server;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The sessions of `two_agents`.
pub const FLAKY: &str = "3f1c0001-0000-4000-8000-000000000001";
pub const RETRY: &str = "3f1c0002-0000-4000-8000-000000000002";
pub const PORT: &str = "0199aaaa-0000-7000-8000-000000000003";

/// A home with a few sessions of two agents.
pub fn two_agents() -> Test {
    Test::new().home("two-agents")
}

/// A private home with a journal of its own, in which the program is run.
pub struct Test {
    directory: std::sync::Arc<tempfile::TempDir>,
    env: BTreeMap<OsString, OsString>,
}

/// What one run of the program came to.
pub struct Run {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
    command: String,
}

impl Test {
    /// An empty home.
    pub fn new() -> Self {
        let directory = std::sync::Arc::new(tempfile::tempdir().unwrap());
        fs::create_dir(directory.path().join("home")).unwrap();
        let test = Self { directory, env: BTreeMap::new() };
        let (home, journal) = (test.path(""), test.journal(""));
        test.env("HOME", home).env("AJ_HOME", journal).env("TZ", "UTC")
    }

    /// The same home with another journal.
    pub fn again(&self, journal: &Path) -> Self {
        let other = Self { directory: self.directory.clone(), env: self.env.clone() };
        other.env("AJ_HOME", journal)
    }

    /// Lays out the files of `tests/homes/<name>`.
    pub fn home(self, name: &str) -> Self {
        let homes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes");
        copy(&homes.join(name), &self.path(""));
        self
    }

    /// Lays out the home of a fixture of the library, such as `codex/forks`.
    pub fn fixture(self, case: &str) -> Self {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-sessions/tests/fixtures");
        copy(&fixtures.join(case).join("home"), &self.path(""));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.into(), value.as_ref().to_owned());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// A place in the home.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join("home").join(relative)
    }

    /// A place in the journal's own directory.
    pub fn journal(&self, relative: &str) -> PathBuf {
        self.directory.path().join("journal").join(relative)
    }

    /// A place beside home and journal.
    pub fn beside(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes a file of the home (or, by its full path, any other), with the directories around it.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path("").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn append(&self, path: impl AsRef<Path>, content: &str) {
        let path = self.path("").join(path);
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    /// The configuration file of this test.
    pub fn config(self, content: &str) -> Self {
        self.write(self.journal("config.toml"), content);
        self
    }

    /// The program, ready to be run in this home.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aj"));
        command.args(args).env_clear().envs(&self.env).current_dir(self.directory.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub fn args<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        Run::of(&mut self.command(args))
    }

    /// Runs the program with words separated by spaces.
    pub fn aj(&self, words: &str) -> Run {
        self.args(words.split(' '))
    }
}

/// Makes the databases of a directory that are written as text: `x.db.sql` becomes `x.db`, together
/// with `x.db.wal.sql`, the contents of its log.
pub fn build_databases(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            build_databases(&path);
        } else if let Some(database) = name.strip_suffix(".sql")
            && !name.ends_with(".wal.sql")
        {
            let connection = rusqlite::Connection::open(database).unwrap();
            let log = PathBuf::from(format!("{database}.wal.sql"));
            for part in [path, log].iter().filter(|part| part.exists()) {
                connection.execute_batch(&fs::read_to_string(part).unwrap()).unwrap();
                fs::remove_file(part).unwrap();
            }
        }
    }
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let run = Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
            command: format!("{:?}", command.get_args().collect::<Vec<_>>()),
        };
        assert!(!run.stderr.contains("panicked"), "{run}");
        run
    }

    /// Something was found or done, and nothing had to be said about it.
    #[track_caller]
    pub fn found(self) -> Self {
        self.code(0).stderr("")
    }

    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    #[track_caller]
    pub fn stdout(self, expected: &str) -> Self {
        assert_eq!(self.stdout, expected, "{self}");
        self
    }

    #[track_caller]
    pub fn stderr(self, expected: &str) -> Self {
        assert_eq!(self.stderr, expected, "{self}");
        self
    }

    /// Standard output has all of these in it.
    #[track_caller]
    pub fn shows<const N: usize>(self, parts: [&str; N]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "no `{part}` in\n{self}");
        }
        self
    }

    #[track_caller]
    pub fn hides<const N: usize>(self, parts: [&str; N]) -> Self {
        for part in parts {
            assert!(!self.stdout.contains(part), "`{part}` in\n{self}");
        }
        self
    }

    /// Standard error has all of these in it.
    #[track_caller]
    pub fn says<const N: usize>(self, parts: [&str; N]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in\n{self}");
        }
        self
    }

    /// An error: exit code 2, nothing on standard output, and all of these on standard error.
    #[track_caller]
    pub fn fails<const N: usize>(self, parts: [&str; N]) -> Self {
        self.code(2).stdout("").says(parts)
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The ids of the sessions in a JSON answer.
    #[track_caller]
    pub fn ids(&self) -> Vec<String> {
        let sessions = self.json()["sessions"].as_array().cloned().unwrap_or_default();
        sessions.iter().map(|session| text(&session["native_id"])).collect()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stdout, stderr, code, command } = self;
        write!(formatter, "aj {command}: {code:?}\n{stdout}--- stderr\n{stderr}")
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// The keys of a JSON object.
pub fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    object.keys().map(String::as_str).collect()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap_or_else(|_| panic!("no {}", from.display())).flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // Contents only: a read-only original must not make a read-only copy.
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// A session of one agent, written line by line.
pub struct Transcript {
    pub id: String,
    pub lines: String,
    count: usize,
}

impl Transcript {
    pub fn new(number: u64) -> Self {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        Self { id, lines: String::new(), count: 0 }
    }

    /// Where it lies in a home.
    pub fn path(&self) -> String {
        format!(".claude/projects/-home-mara-web/{}.jsonl", self.id)
    }

    pub fn you(self, text: &str) -> Self {
        let message = serde_json::json!({ "role": "user", "content": text });
        self.line("user", &message)
    }

    pub fn agent(self, text: &str) -> Self {
        let message = serde_json::json!({
            "model": "claude-sonnet-4-5", "id": format!("msg_{}_{}", self.id, self.count),
            "type": "message", "role": "assistant",
            "content": [{ "type": "text", "text": text }],
            "usage": { "input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7 },
        });
        self.line("assistant", &message)
    }

    /// A command that the agent ran, and how it ended.
    pub fn tool(self, command: &str, failed: bool) -> Self {
        let id = format!("toolu_{}_{}", self.id, self.count);
        let call = serde_json::json!({
            "model": "claude-sonnet-4-5", "id": format!("msg_{}_{}", self.id, self.count),
            "type": "message", "role": "assistant",
            "content": [{ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } }],
        });
        let result = serde_json::json!({ "role": "user", "content": [{
            "type": "tool_result", "tool_use_id": id, "content": format!("outcome of {command}"), "is_error": failed,
        }] });
        self.line("assistant", &call).line("user", &result)
    }

    /// A file that the agent wrote.
    pub fn write_file(self, path: &Path, content: &str) -> Self {
        let input = serde_json::json!({ "file_path": path, "content": content });
        let message = serde_json::json!({
            "model": "claude-sonnet-4-5", "id": format!("msg_{}_{}", self.id, self.count),
            "type": "message", "role": "assistant",
            "content": [{ "type": "tool_use", "id": "toolu_w", "name": "Write", "input": input }],
        });
        let result = serde_json::json!({ "role": "user", "content": [{
            "type": "tool_result", "tool_use_id": "toolu_w", "content": "written",
        }] });
        self.line("assistant", &message).line("user", &result)
    }

    fn line(mut self, kind: &str, message: &Value) -> Self {
        let at = self.count;
        let line = serde_json::json!({
            "type": kind, "message": message, "uuid": format!("{}-{at}", self.id),
            "sessionId": self.id, "cwd": "/home/mara/web", "gitBranch": "main", "version": "2.1.40",
            "timestamp": format!("2026-03-02T{:02}:{:02}:{:02}.000Z", at / 3600, at / 60 % 60, at % 60),
        });
        self.lines.push_str(&format!("{line}\n"));
        self.count += 1;
        self
    }
}

/// Random numbers, the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}
