//! Builds a brief for taking over a session: the goal, decisions, changed files, open items, the
//! last failure and the state at the end. Everything is quoted from recorded messages with their
//! numbers; nothing is generated, and the same session always gives the same brief.

mod decisions;
mod todos;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use self::decisions::Decisions;
use self::todos::Todos;
use crate::model::{Block, Json, Message, files_changed_by_call, tool_name};

pub use self::todos::Todo;

/// The maximum length of a quoted text in characters.
const LONGEST: usize = 20_000;

/// A brief for taking over a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Brief {
    /// The first prompt.
    pub goal: Option<Cited>,
    /// The prompts after it, in order.
    pub prompts: Vec<Cited>,
    /// Sentences that state a decision and its reason, the most important first.
    pub decisions: Vec<Cited>,
    /// Files that tools changed, the latest first.
    pub files: Vec<ChangedFile>,
    /// Documents kept beside the conversation: the last checkpoint, then the plan.
    pub documents: Vec<Noted>,
    /// The open items of the agent's last to-do list.
    pub todos: Vec<Todo>,
    /// The last tool call that failed.
    pub failure: Option<FailedCall>,
    /// The last reply.
    pub last_reply: Option<Cited>,
    /// Whether the session ends with a prompt without a reply.
    pub is_unanswered: bool,
}

/// A text, and the number of the message it is quoted from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cited {
    /// The number of the message, counted from 1.
    pub message: u64,
    /// The quoted text.
    pub text: String,
}

/// A document that the agent kept beside the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Noted {
    /// The name of the document.
    pub name: String,
    /// The text of the document.
    pub text: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChangedFile {
    /// The path of the file, as the tools named it.
    pub path: String,
    /// The number of calls that changed it.
    pub changes: u64,
    /// The number of the message with the last change.
    pub message: u64,
}

/// A tool call that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailedCall {
    /// The name of the tool.
    pub tool: String,
    /// The input of the call.
    pub input: Json,
    /// The output of the call.
    pub output: String,
    /// The number of the message with the failure.
    pub message: u64,
    /// The number of the message in which the same call succeeded later.
    pub passed_later: Option<u64>,
}

/// Builds a brief from the messages of a session, in order.
#[derive(Default)]
pub(crate) struct BriefMaker {
    brief: Brief,
    decisions: Decisions,
    todos: Todos,
    files: BTreeMap<String, (u64, u64)>,
    /// The tool and input of calls without a result yet.
    calls: HashMap<String, (String, Json)>,
}

impl BriefMaker {
    /// Adds the last checkpoint and the last plan.
    pub(crate) fn add_documents(&mut self, documents: Vec<(String, String)>) {
        let mut documents: Vec<Noted> =
            documents.into_iter().map(|(name, text)| Noted { name, text }).collect();
        let mut take = |kind: &str| {
            let at = documents.iter().rposition(|one| one.name.starts_with(kind))?;
            Some(documents.remove(at))
        };
        self.brief.documents.extend(take("checkpoint"));
        self.brief.documents.extend(take("plan"));
    }

    /// Adds the message at a position.
    pub(crate) fn add_message(&mut self, position: u64, message: &Message) {
        if message.sidechain {
            return;
        }
        let number = position + 1;
        if message.origin.is_human_prompt() {
            self.add_prompt(number, &message.joined_text());
        }
        if message.origin == crate::model::Origin::Assistant {
            self.add_reply(number, &message.joined_text());
        }
        for block in &message.blocks {
            match block {
                Block::ToolCall { id, name, input } => self.add_call(number, id, name, input),
                Block::ToolResult { call_id, output, is_error } => {
                    self.add_result(number, call_id, output, *is_error == Some(true));
                }
                _ => {}
            }
        }
    }

    fn add_prompt(&mut self, number: u64, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.brief.is_unanswered = true;
        self.decisions.scan_prompt(number, text);
        let cited = cite_text(number, text);
        match self.brief.goal {
            None => self.brief.goal = Some(cited),
            Some(_) => self.brief.prompts.push(cited),
        }
    }

    fn add_reply(&mut self, number: u64, text: &str) {
        self.brief.is_unanswered = false;
        if !text.trim().is_empty() {
            self.decisions.scan_reply(number, text);
            self.brief.last_reply = Some(cite_text(number, text));
        }
    }

    fn add_call(&mut self, number: u64, id: &str, name: &str, input: &Json) {
        let tool = tool_name(name);
        for file in files_changed_by_call(&tool, input) {
            let known = self.files.entry(file).or_default();
            *known = (known.0 + 1, number);
        }
        self.todos.apply_call(number, id, name, input);
        self.calls.insert(id.to_owned(), (tool.into_owned(), input.clone()));
    }

    fn add_result(&mut self, number: u64, call: &str, output: &str, failed: bool) {
        self.todos.read_created_number(call, output);
        let Some((tool, input)) = self.calls.remove(call) else { return };
        if failed {
            let output = beginning_of_text(output).to_owned();
            let passed_later = None;
            self.brief.failure =
                Some(FailedCall { tool, input, output, message: number, passed_later });
        } else if let Some(failure) = &mut self.brief.failure
            && failure.tool == tool
            && failure.input == input
        {
            failure.passed_later = Some(number);
        }
    }

    /// Returns the finished brief.
    pub(crate) fn into_brief(self) -> Brief {
        let files = self.files.into_iter();
        let mut files: Vec<ChangedFile> = files
            .map(|(path, (changes, message))| ChangedFile { path, changes, message })
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.message));
        let decisions = self.decisions.into_cited();
        Brief { files, decisions, todos: self.todos.into_open_items(), ..self.brief }
    }
}

fn cite_text(message: u64, text: &str) -> Cited {
    Cited { message, text: beginning_of_text(text.trim()).to_owned() }
}

/// Returns the beginning of a text, cut between words: half a secret would not be recognized by
/// redaction.
fn beginning_of_text(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(LONGEST) else { return text };
    text[..end].rfind(char::is_whitespace).map_or("", |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Origin, Role};

    fn say(origin: Origin, text: &str) -> Message {
        let role = if origin == Origin::Human { Role::User } else { Role::Assistant };
        Message { role, origin, blocks: vec![Block::Text(text.into())], ..Message::default() }
    }

    fn call(id: &str, name: &str, input: &str) -> Message {
        let input = serde_json::from_str(input).unwrap();
        let block = Block::ToolCall { id: id.into(), name: name.into(), input };
        Message { origin: Origin::Assistant, blocks: vec![block], ..Message::default() }
    }

    fn result(id: &str, output: &str, is_error: bool) -> Message {
        let is_error = Some(is_error);
        let block = Block::ToolResult { call_id: id.into(), output: output.into(), is_error };
        Message { origin: Origin::Tool, blocks: vec![block], ..Message::default() }
    }

    fn brief(messages: &[Message]) -> Brief {
        let mut maker = BriefMaker::default();
        for (position, message) in messages.iter().enumerate() {
            maker.add_message(position as u64, message);
        }
        maker.into_brief()
    }

    #[test]
    fn a_brief_names_goal_files_failure_and_where_it_stood() {
        let brief = brief(&[
            say(Origin::Human, "make the parser faster"),
            call("1", "Edit", r#"{"file_path":"src/a.rs"}"#),
            result("1", "done", false),
            call("2", "Bash", r#"{"command":"cargo test"}"#),
            result("2", "1 failed", true),
            say(Origin::Assistant, "One test still fails."),
        ]);
        assert_eq!(brief.goal.unwrap().text, "make the parser faster");
        assert_eq!((brief.files[0].path.as_str(), brief.files[0].message), ("src/a.rs", 2));
        let failure = brief.failure.unwrap();
        assert_eq!((failure.tool.as_str(), failure.message), ("bash", 5));
        assert_eq!(failure.passed_later, None);
        assert_eq!(brief.last_reply.unwrap(), cite_text(6, "One test still fails."));
        assert!(!brief.is_unanswered);
    }

    #[test]
    fn a_command_that_passed_later_says_so() {
        let run = |id| call(id, "Bash", r#"{"command":"cargo test"}"#);
        let brief = brief(&[
            run("1"),
            result("1", "1 failed", true),
            run("2"),
            result("2", "ok", false),
            say(Origin::Human, "and now?"),
        ]);
        assert_eq!(brief.failure.unwrap().passed_later, Some(4));
        assert!(brief.is_unanswered);
    }
}
