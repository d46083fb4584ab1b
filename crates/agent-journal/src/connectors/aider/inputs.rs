//! The history of typed lines beside the log: it has the times that the log has not.
//!
//! Each entry is `# <local time>` and then its lines, each behind a `+`. Answers to questions
//! (`y`, `n`) are among them, so entries are found by their text, in order.

use std::path::{Path, PathBuf};

use super::line;
use super::turn::gist;
use crate::connectors::formats::jsonl::Lines;
use crate::model::Timestamp;

/// The typed lines, each with its time, in the order they were typed.
#[derive(Default)]
pub(super) struct Inputs {
    entries: Vec<Entry>,
    next: usize,
    until: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct Entry {
    at: Timestamp,
    gist: u64,
    /// Whether it may be the answer to a question.
    is_short: bool,
}

/// The file of typed lines that belongs to a log.
pub(super) fn beside(chat: &Path) -> Option<PathBuf> {
    let name = chat.file_name()?.to_str()?;
    let inputs = name.replace("chat.history.md", "input.history");
    (inputs != name).then(|| chat.with_file_name(inputs))
}

impl Inputs {
    /// Reads the typed lines that belong to a log; none when they are not there.
    pub(super) fn of(chat: &Path) -> Self {
        let mut inputs = Self::default();
        let Some(mut lines) =
            beside(chat).and_then(|path| Lines::open(&path, 0).ok()).map(Lines::with_all_values)
        else {
            return inputs;
        };
        let mut entry: Option<(Timestamp, String)> = None;
        while let Ok(Some(line)) = lines.next() {
            let line = String::from_utf8_lossy(line.bytes);
            if let Some(at) = line.strip_prefix("# ").and_then(line::instant) {
                inputs.push(entry.replace((at, String::new())));
            } else if let (Some((_, text)), Some(typed)) = (&mut entry, line.strip_prefix('+')) {
                text.push_str(typed);
            }
        }
        inputs.push(entry);
        inputs
    }

    fn push(&mut self, entry: Option<(Timestamp, String)>) {
        self.entries.extend(entry.map(|(at, text)| Entry {
            at,
            gist: gist(&text),
            is_short: text.trim().len() <= 3,
        }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Goes to a run: what was typed before its start, or after the next one's, is not its.
    pub(super) fn enter(&mut self, start: Option<Timestamp>, until: Option<Timestamp>) {
        let start = start.unwrap_or_default();
        self.next = self.entries.partition_point(|entry| entry.at < start);
        self.until = until;
    }

    /// Finds when a prompt was typed. The history does not keep what repeats its last entry.
    pub(super) fn time(&mut self, prompt: &str) -> Option<Timestamp> {
        let gist = gist(prompt);
        let rest = self.entries.get(self.next..)?;
        let last = self.next.checked_sub(1).map(|last| self.entries[last].gist);
        if last == Some(gist) && !rest.first()?.is_short {
            return None;
        }
        let within = |entry: &&Entry| self.until.is_none_or(|until| entry.at < until);
        let found = rest.iter().take_while(within).position(|entry| entry.gist == gist)?;
        self.next += found + 1;
        Some(rest[found].at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typed_lines_stand_beside_their_log() {
        let check = |chat: &str, expected: Option<&str>| {
            assert_eq!(beside(Path::new(chat)), expected.map(PathBuf::from));
        };
        check("p/.aider.chat.history.md", Some("p/.aider.input.history"));
        check("p/.aider-two.chat.history.md", Some("p/.aider-two.input.history"));
        check("p/log.md", None);
    }

    #[test]
    fn a_prompt_is_found_after_the_one_before_and_within_its_run() {
        let directory = tempfile::tempdir().unwrap();
        let chat = directory.path().join(".aider.chat.history.md");
        let typed = "\n# 2026-01-02 10:00:01.000001\n+go on\n\n# 2026-01-02 10:00:02.5\n+y\n\n\
                     # 2026-01-02 10:00:03\n+go on\n\n# 2026-01-02 11:00:00\n+two\n+lines\n\n\
                     # 2026-01-02 11:00:01\n+go on\n";
        let path = beside(&chat).unwrap();
        std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), typed.as_bytes())
            .unwrap();
        let mut inputs = Inputs::of(&chat);
        let mut check = |prompt: &str, expected: Option<&str>| {
            let time = inputs.time(prompt).map(|at| at.to_string());
            assert_eq!(time.as_deref(), expected, "{prompt}");
        };
        check("go on", Some("2026-01-02T10:00:01.000Z"));
        check("go on", Some("2026-01-02T10:00:03.000Z"));
        check("never typed", None);
        check("go on", None);
        check("two\nlines", Some("2026-01-02T11:00:00.000Z"));
        inputs.enter(line::instant("2026-01-02 10:00:02"), line::instant("2026-01-02 11:00:00"));
        assert_eq!(inputs.time("two\nlines"), None);
        assert!(inputs.time("go on").is_some());
    }
}
