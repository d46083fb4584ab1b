//! What somebody needs who takes a session over: the goal, what was decided, which files changed,
//! what is still open, what failed last and how it stood. Everything is taken from messages as
//! they were recorded and says from which; nothing is made up, and the same session gives the
//! same brief every time.

mod decisions;
mod todos;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use self::decisions::Decisions;
use self::todos::Todos;
use crate::model::{Block, Json, Message, changed_files, tool_name};

pub use self::todos::Todo;

/// As much of a text as anybody would hand over, in characters.
const LONGEST: usize = 20_000;

/// What somebody needs who takes a session over.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Brief {
    /// The first prompt.
    pub goal: Option<Cited>,
    /// The prompts after it, in order.
    pub prompts: Vec<Cited>,
    /// Sentences that say what was decided and why, the weightiest first.
    pub decisions: Vec<Cited>,
    /// Files that tools changed, the latest first.
    pub files: Vec<ChangedFile>,
    /// What was written down beside the conversation: the last checkpoint, then the plan.
    pub documents: Vec<Noted>,
    /// What the agent's last list of things to do has left.
    pub todos: Vec<Todo>,
    /// The last call of a tool that failed.
    pub failure: Option<FailedCall>,
    /// The last answer.
    pub last_reply: Option<Cited>,
    /// Whether the session ends with a prompt that nobody answered.
    pub is_unanswered: bool,
}

/// A text, and the number of the message it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cited {
    /// The number.
    pub message: u64,
    /// The text.
    pub text: String,
}

/// A text that stands beside the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// Its name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The file, as the tools named it.
    pub path: String,
    /// How many calls changed it.
    pub changes: u64,
    /// The message of the last change.
    pub message: u64,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedCall {
    /// The tool.
    pub tool: String,
    /// What it was asked to do.
    pub input: Json,
    /// What it returned.
    pub output: String,
    /// The message of the failure.
    pub message: u64,
    /// The message in which the same call went well later.
    pub passed_later: Option<u64>,
}

/// Makes a brief of messages, one after the other.
#[derive(Default)]
pub(crate) struct BriefMaker {
    brief: Brief,
    decisions: Decisions,
    todos: Todos,
    files: BTreeMap<String, (u64, u64)>,
    /// Tool and input of calls that wait for their result.
    calls: HashMap<String, (String, Json)>,
}

impl BriefMaker {
    /// Adds the texts beside the conversation that say how it stood.
    pub(crate) fn note(&mut self, documents: Vec<(String, String)>) {
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
    pub(crate) fn add(&mut self, position: u64, message: &Message) {
        if message.sidechain {
            return;
        }
        let number = position + 1;
        if message.origin.is_prompt() {
            self.prompt(number, &message.text());
        }
        if message.origin == crate::model::Origin::Assistant {
            self.reply(number, &message.text());
        }
        for block in &message.blocks {
            match block {
                Block::ToolCall { id, name, input } => self.call(number, (id, name), input),
                Block::ToolResult { call_id, output, is_error } => {
                    self.result(number, call_id, (output, *is_error == Some(true)));
                }
                _ => {}
            }
        }
    }

    fn prompt(&mut self, number: u64, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.brief.is_unanswered = true;
        self.decisions.prompt(number, text);
        let cited = cited(number, text);
        match self.brief.goal {
            None => self.brief.goal = Some(cited),
            Some(_) => self.brief.prompts.push(cited),
        }
    }

    fn reply(&mut self, number: u64, text: &str) {
        self.brief.is_unanswered = false;
        if !text.trim().is_empty() {
            self.decisions.reply(number, text);
            self.brief.last_reply = Some(cited(number, text));
        }
    }

    fn call(&mut self, number: u64, (id, name): (&str, &str), input: &Json) {
        let tool = tool_name(name);
        for file in changed_files(&tool, input) {
            let known = self.files.entry(file).or_default();
            *known = (known.0 + 1, number);
        }
        self.todos.call(number, (id, name), input);
        self.calls.insert(id.to_owned(), (tool.into_owned(), input.clone()));
    }

    fn result(&mut self, number: u64, call: &str, (output, failed): (&str, bool)) {
        self.todos.result(call, output);
        let Some((tool, input)) = self.calls.remove(call) else { return };
        if failed {
            let output = beginning(output).to_owned();
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

    /// Ends the brief.
    pub(crate) fn finish(self) -> Brief {
        let files = self.files.into_iter();
        let mut files: Vec<ChangedFile> = files
            .map(|(path, (changes, message))| ChangedFile { path, changes, message })
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.message));
        let decisions = self.decisions.finish();
        Brief { files, decisions, todos: self.todos.finish(), ..self.brief }
    }
}

fn cited(message: u64, text: &str) -> Cited {
    Cited { message, text: beginning(text.trim()).to_owned() }
}

/// Returns the beginning of a text, cut between words: half a secret no longer looks like one.
fn beginning(text: &str) -> &str {
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
            maker.add(position as u64, message);
        }
        maker.finish()
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
        assert_eq!(brief.last_reply.unwrap(), cited(6, "One test still fails."));
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
