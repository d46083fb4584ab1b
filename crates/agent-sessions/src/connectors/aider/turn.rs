//! Prompts and replies, assembled from their lines.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Block, Json, Message, Origin, Role, Timestamp, Usage};

/// Beginning of the prompt that Aider builds from `/help`, with pages of its manual.
pub(super) const QUESTION: &str = "# Question: ";

/// The lines of a prompt.
pub(super) struct PromptLines {
    /// Offset of the first line in the log.
    pub(super) at: u64,
    pub(super) lines: Vec<String>,
}

/// A command that a person typed, and its time.
pub(super) struct TypedCommand {
    pub(super) text: String,
    pub(super) at: Option<Timestamp>,
}

/// A reply, with the facts that the notices after it state about it.
#[derive(Default)]
pub(super) struct ReplyLines {
    pub(super) lines: String,
    pub(super) usage: Option<Usage>,
    pub(super) edits: Vec<String>,
}

/// Number of model calls and edits emitted for a run, from which their ids are made.
#[derive(Default)]
pub(super) struct EmittedCounts {
    reports: usize,
    edits: usize,
}

impl PromptLines {
    /// Returns whether a line belongs to this prompt although a blank line, possibly a formatter's,
    /// separates them.
    pub(super) fn continues_with(&self, line: &str) -> bool {
        let first = self.lines.first().map_or("", String::as_str);
        let is_bare_command = first.starts_with('/') && !first.contains(' ');
        let begins = line.starts_with('/') || line.starts_with(QUESTION);
        first.starts_with(QUESTION) || !(is_bare_command || begins)
    }
}

impl ReplyLines {
    /// Returns the text that the model wrote.
    pub(super) fn written_text(&self) -> &str {
        self.lines.trim_matches('\n').trim_end()
    }

    /// Builds the answer and the message with the results of its edits.
    pub(super) fn into_messages(self, native: &str, counted: &mut EmittedCounts) -> [Message; 2] {
        let mut blocks = Vec::new();
        if !self.written_text().is_empty() {
            blocks.push(Block::Text(self.written_text().to_owned()));
        }
        let mut results = Vec::new();
        for path in self.edits {
            counted.edits += 1;
            let id = format!("{native}#edit-{}", counted.edits);
            let input = Json::from_value(&BTreeMap::from([("path", &path)]));
            blocks.push(Block::ToolCall { id: id.clone(), name: "edit_file".to_owned(), input });
            let output = format!("Applied edit to {path}");
            results.push(Block::ToolResult { call_id: id, output, is_error: Some(false) });
        }
        let usage = self.usage.map(|usage| {
            counted.reports += 1;
            Usage { identity: Some(format!("{native}#{}", counted.reports)), ..usage }
        });
        let (role, origin) = (Role::Assistant, Origin::Assistant);
        let answer = Message { role, origin, usage, blocks, ..Message::default() };
        let (role, origin) = (Role::Tool, Origin::Tool);
        [answer, Message { role, origin, blocks: results, ..Message::default() }]
    }
}

/// Builds a message of the user's side.
pub(super) fn typed_message(origin: Origin, text: String, at: Option<Timestamp>) -> Message {
    let blocks = vec![Block::Text(text)];
    Message { role: Role::User, origin, at, blocks, ..Message::default() }
}

/// Returns the argument of a slash command.
pub(super) fn command_argument(command: &str) -> Option<&str> {
    let (word, rest) = command.split_once(char::is_whitespace)?;
    word.starts_with('/').then(|| rest.trim())
}

/// Splits a command from the prompt that repeats it, where a formatter joined them.
pub(super) fn split_repeated_command(lines: &[String]) -> Option<(String, String)> {
    let (first, second) = lines.split_at_checked(lines.len() / 2)?;
    let command = first.join("\n");
    let prompt = second.join("\n").trim().to_owned();
    let word = command.split_whitespace().next().unwrap_or_default().to_owned();
    (command_argument(&command) == Some(&prompt)).then_some((word, prompt))
}

/// Hashes a text independently of the blanks and marks that a formatter may have changed.
pub(super) fn normalized_text_hash(text: &str) -> u64 {
    xxh3_64(letters_and_digits(text).as_bytes())
}

/// Returns only the letters and digits of a text.
pub(super) fn letters_and_digits(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_command_and_its_repetition_are_one_prompt() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = split_repeated_command(&lines(text));
            let found = found.as_ref().map(|(command, prompt)| (&**command, &**prompt));
            assert_eq!(found, expected, "{text}");
        };
        check("/ask why\nwhy", Some(("/ask", "why")));
        check("/ask why\ntwice\nwhy\ntwice", Some(("/ask", "why\ntwice")));
        check("/ask why\nnot", None);
        check("/clear", None);
        check("why\nwhy", None);
    }

    #[test]
    fn blanks_that_a_formatter_put_in_do_not_end_a_prompt() {
        let check = |prompt: &str, line: &str, expected: bool| {
            let prompt = PromptLines { at: 0, lines: lines(prompt) };
            assert_eq!(prompt.continues_with(line), expected, "{line}");
        };
        check("please read", "and do it", true);
        check("please read", "/clear", false);
        check("/clear", "please read", false);
        check("/ask why", "twice", true);
        check("/help how", "# Question: how", false);
        check("# Question: how", "/ask is a command", true);
    }
}
