//! The input history beside the log: it has the prompt times that the log lacks.
//!
//! Each entry is `# <local time>` followed by its lines, each behind a `+`. Answers to questions
//! (`y`, `n`) are among them, so prompts are matched by their text, in order.

use std::path::{Path, PathBuf};

use super::line;
use super::turn::normalized_text_hash;
use crate::connectors::formats::jsonl::LineReader;
use crate::model::Timestamp;

/// The typed inputs with their times, in the order they were typed.
#[derive(Default)]
pub(super) struct Inputs {
    entries: Vec<InputHistoryEntry>,
    next: usize,
    until: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct InputHistoryEntry {
    at: Timestamp,
    gist: u64,
    /// Whether the entry may be the answer to a question.
    is_short: bool,
}

/// Returns the path of the input history that belongs to a log.
pub(super) fn input_history_path(chat: &Path) -> Option<PathBuf> {
    let name = chat.file_name()?.to_str()?;
    let inputs = name.replace("chat.history.md", "input.history");
    (inputs != name).then(|| chat.with_file_name(inputs))
}

impl Inputs {
    /// Reads the input history that belongs to a log; empty when there is none.
    pub(super) fn read_for_chat(chat: &Path) -> Self {
        let mut inputs = Self::default();
        let Some(mut lines) = input_history_path(chat)
            .and_then(|path| LineReader::open_at(&path, 0).ok())
            .map(LineReader::with_all_values)
        else {
            return inputs;
        };
        let mut entry: Option<(Timestamp, String)> = None;
        while let Ok(Some(line)) = lines.next_line() {
            let line = String::from_utf8_lossy(line.bytes);
            if let Some(at) = line.strip_prefix("# ").and_then(line::parse_local_time) {
                inputs.push_input(entry.replace((at, String::new())));
            } else if let (Some((_, text)), Some(typed)) = (&mut entry, line.strip_prefix('+')) {
                text.push_str(typed);
            }
        }
        inputs.push_input(entry);
        inputs
    }

    fn push_input(&mut self, entry: Option<(Timestamp, String)>) {
        self.entries.extend(entry.map(|(at, text)| InputHistoryEntry {
            at,
            gist: normalized_text_hash(&text),
            is_short: text.trim().len() <= 3,
        }));
    }

    pub(super) fn has_no_inputs(&self) -> bool {
        self.entries.is_empty()
    }

    /// Moves to a run: entries typed before its start, or after the start of the next run, do not
    /// belong to it.
    pub(super) fn enter_run(&mut self, start: Option<Timestamp>, until: Option<Timestamp>) {
        let start = start.unwrap_or_default();
        self.next = self.entries.partition_point(|entry| entry.at < start);
        self.until = until;
    }

    /// Finds the time at which a prompt was typed. The history omits an input that repeats its last
    /// entry.
    pub(super) fn take_input_time(&mut self, prompt: &str) -> Option<Timestamp> {
        let gist = normalized_text_hash(prompt);
        let rest = self.entries.get(self.next..)?;
        let last = self.next.checked_sub(1).map(|last| self.entries[last].gist);
        if last == Some(gist) && !rest.first()?.is_short {
            return None;
        }
        let within = |entry: &&InputHistoryEntry| self.until.is_none_or(|until| entry.at < until);
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
            assert_eq!(input_history_path(Path::new(chat)), expected.map(PathBuf::from));
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
        let path = input_history_path(&chat).unwrap();
        std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), typed.as_bytes())
            .unwrap();
        let mut inputs = Inputs::read_for_chat(&chat);
        let mut check = |prompt: &str, expected: Option<&str>| {
            let time = inputs.take_input_time(prompt).map(|at| at.to_string());
            assert_eq!(time.as_deref(), expected, "{prompt}");
        };
        check("go on", Some("2026-01-02T10:00:01.000Z"));
        check("go on", Some("2026-01-02T10:00:03.000Z"));
        check("never typed", None);
        check("go on", None);
        check("two\nlines", Some("2026-01-02T11:00:00.000Z"));
        inputs.enter_run(
            line::parse_local_time("2026-01-02 10:00:02"),
            line::parse_local_time("2026-01-02 11:00:00"),
        );
        assert_eq!(inputs.take_input_time("two\nlines"), None);
        assert!(inputs.take_input_time("go on").is_some());
    }
}
