//! Generates histories of unusual size, line by line.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{root, run};

/// A word that occurs once in every history.
pub(crate) const NEEDLE: &str = "zyxquorble";

/// Name of an export below a home. It is imported.
pub(crate) const EXPORT: &str = "sessions.ndjson";

/// Number of different words. A few of them make up most of the text, as in real text.
const WORDS: u64 = 40_000;

/// Generates sessions of the given size in bytes.
pub(crate) fn sessions(home: &Path, count: u64, size: u64) -> Result<()> {
    let mut random = Random(0x9e37_79b9);
    for number in 0..count {
        let mut file = Session::create(home, number)?;
        file.say("user", &format!("begin session {number}"))?;
        if number == count / 2 {
            file.say("assistant", NEEDLE)?;
        }
        while file.written < size {
            let length = 40 + random.below(600.min(size / 4));
            let text = words(&mut random, length);
            file.say(if random.below(4) == 0 { "user" } else { "assistant" }, &text)?;
        }
        file.finish()?;
    }
    Ok(())
}

/// Generates a session with one line of the given size among ordinary ones.
pub(crate) fn long_line(home: &Path, size: u64) -> Result<()> {
    let mut file = Session::create(home, 0)?;
    file.say("user", "before the long line")?;
    let piece = "all work and no play makes a dull line ".repeat(1000);
    file.raw(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"")?;
    for _ in 0..size / piece.len() as u64 {
        file.raw(piece.as_bytes())?;
    }
    file.raw(b"\"}}\n")?;
    file.say("assistant", &format!("after it {NEEDLE}"))?;
    file.finish()
}

/// Generates sessions with one line each that consists of small blocks.
pub(crate) fn small_blocks(home: &Path, count: u64, size: u64) -> Result<()> {
    for number in 0..count {
        let mut file = Session::create(home, number)?;
        file.say("user", "before the blocks")?;
        let piece = "{\"type\":\"text\",\"text\":\"word\"},".repeat(1000);
        file.raw(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[")?;
        for _ in 0..size / piece.len() as u64 {
            file.raw(piece.as_bytes())?;
        }
        let last = if number == 0 { NEEDLE } else { "last" };
        file.raw(format!("{{\"type\":\"text\",\"text\":\"{last}\"}}]}}}}\n").as_bytes())?;
        file.finish()?;
    }
    Ok(())
}

/// Generates sessions with one line each whose size is below the limit for lines.
pub(crate) fn full_lines(home: &Path, count: u64, size: u64) -> Result<()> {
    let mut random = Random(0x9e37_79b9);
    for number in 0..count {
        let mut file = Session::create(home, number)?;
        file.say("user", "before the long line")?;
        file.raw(b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"")?;
        let begin = file.written;
        while file.written - begin < size {
            file.raw(words(&mut random, 10_000).as_bytes())?;
        }
        let last = if number == 0 { NEEDLE } else { "last" };
        file.raw(format!("{last}\"}}}}\n").as_bytes())?;
        file.finish()?;
    }
    Ok(())
}

/// Generates a chat with one request that consists of small parts.
pub(crate) fn small_parts(home: &Path, size: u64) -> Result<()> {
    let folder = home.join(".config/Code/User/workspaceStorage/aj/chatSessions");
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let path = folder.join("10000000-0000-4000-8000-000000000001.json");
    let file = File::create(&path).with_context(|| format!("could not make {}", path.display()))?;
    let mut file = BufWriter::new(file);
    let piece = "{\"value\":\"w \"},".repeat(1000);
    let mut write = |text: &str| file.write_all(text.as_bytes());
    let mut write_all = || {
        write("{\"version\":3,\"sessionId\":\"10000000-0000-4000-8000-000000000001\",")?;
        write(
            "\"requests\":[{\"requestId\":\"r\",\"message\":{\"text\":\"begin\"},\"response\":[",
        )?;
        for _ in 0..size / piece.len() as u64 {
            write(&piece)?;
        }
        write(&format!("{{\"value\":\"{NEEDLE}\"}}]}}]}}\n"))
    };
    write_all().and_then(|()| file.flush()).context("could not write the history")
}

/// Generates an export of sessions without messages.
pub(crate) fn empty_sessions(home: &Path, count: u64) -> Result<()> {
    fs::create_dir_all(home).with_context(|| format!("could not make {}", home.display()))?;
    let path = home.join(EXPORT);
    let file = File::create(&path).with_context(|| format!("could not make {}", path.display()))?;
    let mut file = BufWriter::new(file);
    for number in 0..count {
        let document = serde_json::json!({
            "schema_version": "1.0", "export_timestamp": "2026-01-01T00:00:00Z",
            "agent": "claude-code", "messages": [],
            "session": {
                "id": format!("{number:08x}-0000-4000-8000-000000000000"), "workspace": "/home/mara/p",
                "workspace_encoded": "-home-mara-p", "started_at": null, "ended_at": null,
                "source": { "type": "local", "host": null, "path": "" },
                "is_agent_session": false, "parent_session_id": null, "agent_id": null,
            },
            "graph": { "is_linear": true, "fork_points": [], "active_path": [] },
        });
        writeln!(file, "{document}").context("could not write the history")?;
    }
    file.flush().context("could not write the history")
}

/// Generates a database of another program with many messages.
pub(crate) fn database(home: &Path, messages: u64) -> Result<()> {
    let mut maker = Command::new("python3");
    maker.arg(root().join("benches/make_vscdb.py"));
    maker.args(["--messages", &messages.to_string(), "--needle", NEEDLE]);
    run(maker.arg("--out").arg(home))
}

/// Generates a large database of another program.
pub(crate) fn large_database(home: &Path, megabytes: u64) -> Result<()> {
    let mut maker = Command::new("python3");
    maker.arg(root().join("benches/make_vscdb.py"));
    run(maker.args(["--mb", &megabytes.to_string(), "--out"]).arg(home))
}

/// Writes one row into a database, like a program that keeps it open.
pub(crate) fn write_row(home: &Path) -> Result<()> {
    let mut maker = Command::new("python3");
    maker.arg(root().join("benches/make_vscdb.py"));
    run(maker.args(["--write", "--needle", NEEDLE, "--out"]).arg(home))
}

fn words(random: &mut Random, count: u64) -> String {
    let mut text = String::with_capacity(count as usize * 8);
    for _ in 0..count {
        // The smallest of three numbers makes the first words the most frequent.
        let word = random.below(WORDS).min(random.below(WORDS)).min(random.below(WORDS));
        text.push('w');
        text.push_str(&format!("{word:x}"));
        text.push(' ');
    }
    text
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

/// A session file that is being written.
struct Session {
    file: BufWriter<File>,
    id: String,
    written: u64,
    lines: u64,
}

impl Session {
    fn create(home: &Path, number: u64) -> Result<Self> {
        let folder = home.join(format!(".claude/projects/-home-mara-p{}", number % 50));
        fs::create_dir_all(&folder)
            .with_context(|| format!("could not make {}", folder.display()))?;
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let path = folder.join(format!("{id}.jsonl"));
        let file =
            File::create(&path).with_context(|| format!("could not make {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), id, written: 0, lines: 0 })
    }

    fn say(&mut self, role: &str, text: &str) -> Result<()> {
        let at = jiff::Timestamp::from_second(1_760_000_000 + self.lines as i64)?;
        let message = if role == "user" {
            serde_json::json!({ "role": role, "content": text })
        } else {
            serde_json::json!({
                "role": role, "type": "message", "id": format!("msg_{}_{}", self.id, self.lines),
                "model": "claude-sonnet-4-5", "content": [{ "type": "text", "text": text }],
                "usage": { "input_tokens": 10, "output_tokens": 20 },
            })
        };
        let line = serde_json::json!({
            "type": role, "message": message, "uuid": format!("{}-{}", self.id, self.lines),
            "sessionId": self.id, "cwd": "/home/mara/p", "version": "2.1.40",
            "timestamp": at.to_string(),
        });
        self.lines += 1;
        self.raw(format!("{line}\n").as_bytes())
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.file.write_all(bytes).context("could not write the history")
    }

    fn finish(mut self) -> Result<()> {
        self.file.flush().context("could not write the history")
    }
}
