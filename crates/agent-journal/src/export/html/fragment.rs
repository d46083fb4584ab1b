//! A run of messages without a page around it, for a page that is made elsewhere: the same
//! markup as in the exported page, with overlong texts cut and pictures left where they are.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;

use super::{Page, State};
use crate::export::schema::{Block, Message};
use crate::export::{Detail, Theme, Whole, Writer};
use crate::model::{Json, Origin};

/// Longest text of one block, in bytes; the rest is a message of its own page.
const LONGEST: usize = 10_000;

/// Longest text of a message that is shown alone.
const LONGEST_ALONE: usize = 2_000_000;

/// Which messages of a run are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Everything, with what the program put in folded away.
    #[default]
    All,
    /// What was said: prompts and answers.
    Talk,
    /// Prompts only.
    Prompts,
    /// What the agent answered.
    Answers,
    /// Calls of tools, with their results.
    Tools,
    /// Calls of tools that failed, and other failures.
    Errors,
}

/// Writes a picture that is fetched by its hash.
pub(super) fn picture(out: &mut dyn io::Write, place: &str, hash: &str) -> io::Result<()> {
    writeln!(out, "<img src=\"{place}{hash}\" alt=\"A picture of the session\" loading=\"lazy\">")
}

/// Writes a run of messages.
pub(crate) struct Fragment {
    /// The agent's name.
    pub(crate) agent: String,
    /// The address before a picture's hash.
    pub(crate) pictures: String,
    /// Messages on branches that were left.
    pub(crate) left: HashSet<u64>,
    /// Before every id.
    pub(crate) prefix: String,
    /// Messages that went into the calls they answer, by call.
    pub(crate) answers: HashMap<String, u64>,
    /// What is shown.
    pub(crate) keep: Keep,
    /// Whether this is about one message, which is shown at length.
    pub(crate) alone: bool,
}

impl Fragment {
    /// Writes messages that have been grouped.
    pub(crate) fn write(&self, messages: Vec<Message>) -> io::Result<String> {
        let mut out = Whole(Vec::new());
        let detail = match self.keep {
            Keep::Talk | Keep::Prompts | Keep::Answers => Detail::Answers,
            Keep::All | Keep::Tools | Keep::Errors => Detail::Everything,
        };
        let state = State {
            agent: self.agent.clone(),
            prefix: self.prefix.clone(),
            left: self.left.clone(),
            answers: self.answers.clone(),
            ..State::default()
        };
        let (sessions, contents) = (vec![state], Vec::new());
        let pictures = Some(self.pictures.as_str());
        let mut page =
            Page { out: &mut out, detail, theme: Theme::Auto, sessions, contents, pictures };
        for mut message in messages.into_iter().filter(|message| self.keeps(message)) {
            if self.keep == Keep::Tools {
                message.content.retain(is_tool);
            }
            self.cut(&mut message);
            page.message(&message)?;
        }
        page.close_turn()?;
        Ok(String::from_utf8_lossy(&out.0).into_owned())
    }

    fn keeps(&self, message: &Message) -> bool {
        let origin = message.origin();
        let failed = |block: &Block| matches!(block, Block::ToolResult { is_error: true, .. });
        match self.keep {
            Keep::All => true,
            Keep::Talk => {
                origin.is_prompt() || matches!(origin, Origin::Assistant | Origin::Summary)
            }
            Keep::Prompts => origin.is_prompt() || origin == Origin::Command,
            Keep::Answers => matches!(origin, Origin::Assistant | Origin::Summary),
            Keep::Tools => message.content.iter().any(is_tool),
            Keep::Errors => message.notes().failed || message.content.iter().any(failed),
        }
    }

    /// Cuts what would make a page of thousands of lines, and says where the rest is.
    fn cut(&self, message: &mut Message) {
        let longest = if self.alone { LONGEST_ALONE } else { LONGEST };
        for block in &mut message.content {
            match block {
                Block::Text { text } => shorten(text, longest),
                Block::Thinking { thinking } => shorten(thinking, longest),
                Block::ToolResult { output, .. } => shorten(output, longest),
                Block::ToolUse { input, .. } if input.as_str().len() > longest => {
                    *input = shorten_values(input, longest);
                }
                _ => {}
            }
        }
    }
}

fn is_tool(block: &Block) -> bool {
    matches!(block, Block::ToolUse { .. } | Block::ToolResult { .. })
}

fn shorten(text: &mut String, longest: usize) {
    if text.len() <= longest {
        return;
    }
    let left = text.len() - longest;
    text.truncate(text.floor_char_boundary(longest));
    let _ = write!(text, "\n… {left} more bytes: open the message by its number");
}

/// Cuts the texts among the arguments of a call.
fn shorten_values(input: &Json, longest: usize) -> Json {
    let Some(mut fields) = input.parse::<serde_json::Map<String, serde_json::Value>>() else {
        return input.clone();
    };
    for value in fields.values_mut() {
        match value {
            serde_json::Value::String(text) => shorten(text, longest),
            other if other.to_string().len() > longest => {
                *other = serde_json::Value::from("… too long to be shown here");
            }
            _ => {}
        }
    }
    Json::from_value(&fields)
}
