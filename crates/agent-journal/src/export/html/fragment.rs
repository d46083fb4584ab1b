//! Messages as markup without a page around them, for pages that are built elsewhere. The markup is
//! that of the exported page, but long texts are shortened and pictures are linked.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;

use super::{HtmlPage, HtmlPageState};
use crate::export::schema::{DocumentBlock, DocumentMessage};
use crate::export::{DetailLevel, SessionWriter, SingleFileOutput, Theme};
use crate::model::{Json, Origin};

/// The longest text of one block, in bytes. The rest is on the page of the message.
const LONGEST: usize = 10_000;

/// The longest text of a message that is shown alone, in bytes.
const LONGEST_ALONE: usize = 2_000_000;

/// The messages that a fragment shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All messages, with injected text folded.
    #[default]
    All,
    /// The conversation: prompts and replies.
    Talk,
    /// Prompts only.
    Prompts,
    /// Replies of the agent only.
    Answers,
    /// Tool calls with their results.
    Tools,
    /// Failed tool calls and other failures.
    Errors,
}

/// Writes a picture that the browser fetches by its hash.
pub(super) fn write_picture_reference(
    out: &mut dyn io::Write,
    place: &str,
    hash: &str,
) -> io::Result<()> {
    writeln!(out, "<img src=\"{place}{hash}\" alt=\"Image in the session\" loading=\"lazy\">")
}

/// Renders messages as markup.
pub(crate) struct Fragment {
    /// The display name of the agent.
    pub(crate) agent: String,
    /// The address before the hash of a picture.
    pub(crate) pictures: String,
    /// The numbers of the messages on abandoned branches.
    pub(crate) left: HashSet<u64>,
    /// The prefix of every id.
    pub(crate) prefix: String,
    /// The numbers of the messages whose results were moved to their calls, by call id.
    pub(crate) answers: HashMap<String, u64>,
    /// The messages that are shown.
    pub(crate) keep: Keep,
    /// Whether the fragment shows a single message, which is shortened less.
    pub(crate) alone: bool,
}

impl Fragment {
    /// Renders messages whose results have been grouped.
    pub(crate) fn render_messages(&self, messages: Vec<DocumentMessage>) -> io::Result<String> {
        let mut out = SingleFileOutput(Vec::new());
        let detail = match self.keep {
            Keep::Talk | Keep::Prompts | Keep::Answers => DetailLevel::Answers,
            Keep::All | Keep::Tools | Keep::Errors => DetailLevel::Everything,
        };
        let state = HtmlPageState {
            agent: self.agent.clone(),
            prefix: self.prefix.clone(),
            left: self.left.clone(),
            answers: self.answers.clone(),
            ..HtmlPageState::default()
        };
        let (sessions, contents) = (vec![state], Vec::new());
        let pictures = Some(self.pictures.as_str());
        let mut page =
            HtmlPage { out: &mut out, detail, theme: Theme::Auto, sessions, contents, pictures };
        for mut message in messages.into_iter().filter(|message| self.is_kept(message)) {
            if self.keep == Keep::Tools {
                message.content.retain(is_tool_block);
            }
            self.shorten_message(&mut message);
            page.write_message(&message)?;
        }
        page.close_turn()?;
        Ok(String::from_utf8_lossy(&out.0).into_owned())
    }

    fn is_kept(&self, message: &DocumentMessage) -> bool {
        let origin = message.recorded_origin();
        let failed = |block: &DocumentBlock| {
            matches!(block, DocumentBlock::ToolResult { is_error: true, .. })
        };
        match self.keep {
            Keep::All => true,
            Keep::Talk => {
                origin.is_human_prompt() || matches!(origin, Origin::Assistant | Origin::Summary)
            }
            Keep::Prompts => origin.is_human_prompt() || origin == Origin::Command,
            Keep::Answers => matches!(origin, Origin::Assistant | Origin::Summary),
            Keep::Tools => message.content.iter().any(is_tool_block),
            Keep::Errors => {
                message.parse_message_notes().failed || message.content.iter().any(failed)
            }
        }
    }

    /// Shortens texts that would fill thousands of lines, and adds a note that says where the rest
    /// is.
    fn shorten_message(&self, message: &mut DocumentMessage) {
        let longest = if self.alone { LONGEST_ALONE } else { LONGEST };
        for block in &mut message.content {
            match block {
                DocumentBlock::Text { text } => shorten_text(text, longest),
                DocumentBlock::Thinking { thinking } => shorten_text(thinking, longest),
                DocumentBlock::ToolResult { output, .. } => shorten_text(output, longest),
                DocumentBlock::ToolUse { input, .. } if input.as_json_str().len() > longest => {
                    *input = shorten_values(input, longest);
                }
                _ => {}
            }
        }
    }
}

fn is_tool_block(block: &DocumentBlock) -> bool {
    matches!(block, DocumentBlock::ToolUse { .. } | DocumentBlock::ToolResult { .. })
}

fn shorten_text(text: &mut String, longest: usize) {
    if text.len() <= longest {
        return;
    }
    let left = text.len() - longest;
    text.truncate(text.floor_char_boundary(longest));
    let _ = write!(text, "\n… {left} more bytes: open the message by its number");
}

/// Shortens the texts among the arguments of a call.
fn shorten_values(input: &Json, longest: usize) -> Json {
    let Some(mut fields) = input.parse_as::<serde_json::Map<String, serde_json::Value>>() else {
        return input.clone();
    };
    for value in fields.values_mut() {
        match value {
            serde_json::Value::String(text) => shorten_text(text, longest),
            other if other.to_string().len() > longest => {
                *other = serde_json::Value::from("… too long to show here");
            }
            _ => {}
        }
    }
    Json::from_value(&fields)
}
