//! What of a message can be found: one passage per kind of text, long ones in windows.

use serde::{Deserialize, Serialize};

use super::Calls;
use crate::model::{Block, Message, Origin};

/// A longer text is cut into windows of this size, so that a match in it keeps its weight.
const WINDOW: usize = 16 << 10;

/// Windows overlap by this much, so that no phrase falls between two.
const OVERLAP: usize = 512;

/// What kind of text a passage is, in the order of its worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// A session's title.
    Title,
    /// A longer text about a session: a checkpoint, a plan, a summary.
    Document,
    /// What a person asked.
    Prompt,
    /// What the model answered.
    Reply,
    /// What a tool was given.
    ToolInput,
    /// What a tool returned.
    ToolOutput,
    /// The model's reasoning.
    Thinking,
}

impl TextKind {
    /// All kinds, by their number in the index.
    pub(crate) const ALL: [Self; 7] = [
        Self::Title,
        Self::Document,
        Self::Prompt,
        Self::Reply,
        Self::ToolInput,
        Self::ToolOutput,
        Self::Thinking,
    ];

    /// The kind's name in queries and every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Document => "document",
            Self::Prompt => "prompt",
            Self::Reply => "reply",
            Self::ToolInput => "tool_input",
            Self::ToolOutput => "tool_output",
            Self::Thinking => "thinking",
        }
    }

    /// How much a match in this kind counts.
    pub(crate) fn boost(self) -> f32 {
        match self {
            Self::Title => 3.0,
            Self::Document => 2.5,
            Self::Prompt => 2.0,
            Self::Reply => 1.4,
            Self::ToolInput => 0.8,
            Self::ToolOutput => 0.5,
            Self::Thinking => 0.7,
        }
    }
}

/// A text to be found.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) kind: TextKind,
    pub(crate) text: &'a str,
    /// Whether it is part of a side conversation.
    pub(crate) is_side: bool,
    /// The tool it was given to or came from.
    pub(crate) tool: u16,
    /// Whether it says that something failed: a tool, or the agent itself.
    pub(crate) is_failed: bool,
}

impl<'a> Passage<'a> {
    /// A text that is about a session as a whole.
    pub(crate) fn whole(kind: TextKind, text: &'a str) -> Self {
        Self { kind, text, is_side: false, tool: 0, is_failed: false }
    }
}

/// Hands out the passages of a message; `calls` knows those made before. What this journal itself
/// was asked and answered is left out.
pub(crate) fn of_message(message: &Message, calls: &mut Calls, found: &mut dyn FnMut(Passage<'_>)) {
    calls.note(message);
    let mut scratch = String::new();
    for block in &message.blocks {
        let Some(kind) = kind(message, block) else { continue };
        let call = calls.of(block);
        if call.is_own {
            continue;
        }
        let is_failed =
            message.failed || matches!(block, Block::ToolResult { is_error: Some(true), .. });
        let passage =
            Passage { kind, text: "", is_side: message.sidechain, tool: call.tool, is_failed };
        let text = block_text(block, &mut scratch);
        // A failure is listed even when it says nothing.
        if text.is_empty() && is_failed {
            found(passage);
            continue;
        }
        for text in windows(text) {
            found(Passage { text, ..passage });
        }
    }
}

/// The text of one kind in a message, as its passages have it.
pub(crate) fn text_of(message: &Message, wanted: TextKind) -> String {
    let mut all = String::new();
    let mut scratch = String::new();
    for block in message.blocks.iter().filter(|block| kind(message, block) == Some(wanted)) {
        if !all.is_empty() {
            all.push('\n');
        }
        all.push_str(block_text(block, &mut scratch));
    }
    all
}

fn kind(message: &Message, block: &Block) -> Option<TextKind> {
    match block {
        Block::Text(_) => match message.origin {
            Origin::Human | Origin::Queued | Origin::Command => Some(TextKind::Prompt),
            Origin::Assistant => Some(TextKind::Reply),
            Origin::Summary => Some(TextKind::Document),
            // The program says that the agent failed.
            Origin::System if message.failed => Some(TextKind::Reply),
            Origin::Tool | Origin::Injected | Origin::System => None,
        },
        Block::ToolCall { .. } => Some(TextKind::ToolInput),
        Block::ToolResult { .. } => Some(TextKind::ToolOutput),
        Block::Thinking(_) => Some(TextKind::Thinking),
        // What is not understood is found by its words all the same.
        Block::Other(_) => match message.origin {
            Origin::Human | Origin::Queued | Origin::Command => Some(TextKind::Prompt),
            Origin::Assistant => Some(TextKind::Reply),
            Origin::System => Some(TextKind::ToolOutput),
            Origin::Summary | Origin::Tool | Origin::Injected => None,
        },
        Block::Image(_) => None,
    }
}

fn block_text<'a>(block: &'a Block, scratch: &'a mut String) -> &'a str {
    match block {
        Block::Text(text) | Block::Thinking(text) => text,
        Block::ToolResult { output, .. } => output,
        Block::ToolCall { name, input, .. } => {
            scratch.clear();
            scratch.push_str(name);
            input.strings(&mut |text| {
                scratch.push('\n');
                scratch.push_str(text);
            });
            scratch
        }
        Block::Other(json) => {
            scratch.clear();
            json.strings(&mut |text| {
                scratch.push_str(text);
                scratch.push('\n');
            });
            scratch
        }
        Block::Image(_) => "",
    }
}

/// Cuts a text into overlapping windows at character boundaries.
fn windows(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let end = text.floor_char_boundary(start + WINDOW);
        let window = &text[start..end];
        start = if end == text.len() { end } else { text.floor_char_boundary(end - OVERLAP) };
        Some(window)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_everything_and_overlap() {
        let text = "wörter ".repeat(10_000);
        let all: Vec<&str> = windows(&text).collect();
        assert!(all.len() > 4 && all.iter().all(|window| window.len() <= WINDOW));
        for pair in all.windows(2) {
            let tail = &pair[0][pair[0].ceil_char_boundary(pair[0].len() - OVERLAP)..];
            assert!(pair[1].starts_with(tail));
        }
        assert!(text.ends_with(all[all.len() - 1]));
        assert_eq!(windows("").count(), 0);
    }
}
