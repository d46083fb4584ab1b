//! One side's part of a turn, put together from its lines.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Block, Json, Message, Origin, Role, Timestamp, Usage};

/// How the prompt begins that Aider makes of `/help`, with pages of its manual.
pub(super) const QUESTION: &str = "# Question: ";

/// The lines of a prompt.
pub(super) struct Prompt {
    /// Where it stands.
    pub(super) at: u64,
    pub(super) lines: Vec<String>,
}

/// What a person typed, and when.
pub(super) struct Typed {
    pub(super) text: String,
    pub(super) at: Option<Timestamp>,
}

/// A reply, with what the notices after it say about it.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) lines: String,
    pub(super) usage: Option<Usage>,
    pub(super) edits: Vec<String>,
}

/// How many calls of a run have been told: they have no ids of their own.
#[derive(Default)]
pub(super) struct Counted {
    reports: usize,
    edits: usize,
}

impl Prompt {
    /// Whether a line belongs to this prompt although a blank line, perhaps a formatter's, stands
    /// between them.
    pub(super) fn takes(&self, line: &str) -> bool {
        let first = self.lines.first().map_or("", String::as_str);
        let is_bare_command = first.starts_with('/') && !first.contains(' ');
        let begins = line.starts_with('/') || line.starts_with(QUESTION);
        first.starts_with(QUESTION) || !(is_bare_command || begins)
    }
}

impl Reply {
    /// What the model wrote.
    pub(super) fn text(&self) -> &str {
        self.lines.trim_matches('\n').trim_end()
    }

    /// Makes the answer and the results of its edits.
    pub(super) fn messages(self, native: &str, counted: &mut Counted) -> [Message; 2] {
        let mut blocks = Vec::new();
        if !self.text().is_empty() {
            blocks.push(Block::Text(self.text().to_owned()));
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

/// Makes a message of the user's side.
pub(super) fn typed(origin: Origin, text: String, at: Option<Timestamp>) -> Message {
    let blocks = vec![Block::Text(text)];
    Message { role: Role::User, origin, at, blocks, ..Message::default() }
}

/// What a command was given.
pub(super) fn argument(command: &str) -> Option<&str> {
    let (word, rest) = command.split_once(char::is_whitespace)?;
    word.starts_with('/').then(|| rest.trim())
}

/// Splits a command from the prompt that repeats it, where a formatter ran both together.
pub(super) fn doubled(lines: &[String]) -> Option<(String, String)> {
    let (first, second) = lines.split_at_checked(lines.len() / 2)?;
    let command = first.join("\n");
    let prompt = second.join("\n").trim().to_owned();
    let word = command.split_whitespace().next().unwrap_or_default().to_owned();
    (argument(&command) == Some(&prompt)).then_some((word, prompt))
}

/// Identifies a text whatever a formatter did to its blanks and marks.
pub(super) fn gist(text: &str) -> u64 {
    xxh3_64(words(text).as_bytes())
}

/// The letters and digits of a text.
pub(super) fn words(text: &str) -> String {
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
            let found = doubled(&lines(text));
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
            let prompt = Prompt { at: 0, lines: lines(prompt) };
            assert_eq!(prompt.takes(line), expected, "{line}");
        };
        check("please read", "and do it", true);
        check("please read", "/clear", false);
        check("/clear", "please read", false);
        check("/ask why", "twice", true);
        check("/help how", "# Question: how", false);
        check("# Question: how", "/ask is a command", true);
    }
}
