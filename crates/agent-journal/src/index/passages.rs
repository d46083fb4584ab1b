//! Splits messages into searchable passages: one per block of text, and several for long texts.

use super::KnownCalls;
use crate::filter::TextKind;
use crate::model::{Block, Message, Origin};

/// The maximum length of a passage in bytes. Longer texts are split, so that a match in them keeps
/// its score.
const WINDOW: usize = 16 << 10;

/// The overlap of adjacent passages in bytes, so that no phrase falls between two.
const OVERLAP: usize = 512;

impl TextKind {
    /// Returns the score factor of a match in this kind of text. With larger differences, a prompt
    /// with one of the words outranks a reply with most of them.
    pub(crate) fn boost(self) -> f32 {
        match self {
            Self::Document | Self::Prompt => 1.3,
            Self::Reply => 1.1,
            Self::Title => 1.0,
            Self::ToolInput | Self::ToolOutput => 0.8,
            Self::Thinking => 0.7,
        }
    }
}

/// A searchable text.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) kind: TextKind,
    pub(crate) text: &'a str,
    /// Whether it is part of a side conversation.
    pub(crate) is_side: bool,
    /// The tool whose input or output it is, by `tool_number`.
    pub(crate) tool: u16,
    /// Whether it reports a failure of a tool or of the agent.
    pub(crate) is_failed: bool,
}

impl<'a> Passage<'a> {
    /// Returns a passage about a whole session.
    pub(crate) fn whole(kind: TextKind, text: &'a str) -> Self {
        Self { kind, text, is_side: false, tool: 0, is_failed: false }
    }
}

/// Calls `found` with every passage of a message; `calls` holds the earlier tool calls. Queries to
/// this journal and their results are excluded.
pub(crate) fn of_message(
    message: &Message,
    calls: &mut KnownCalls,
    found: &mut dyn FnMut(Passage<'_>),
) {
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
        // A failure is listed even without a text.
        if text.is_empty() && is_failed {
            found(passage);
            continue;
        }
        for text in windows(text) {
            found(Passage { text, ..passage });
        }
    }
}

/// Returns the text of one kind in a message, as its passages contain it.
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
            // A system message that the agent failed.
            Origin::System if message.failed => Some(TextKind::Reply),
            Origin::Tool | Origin::Injected | Origin::System => None,
        },
        Block::ToolCall { .. } => Some(TextKind::ToolInput),
        Block::ToolResult { .. } => Some(TextKind::ToolOutput),
        Block::Thinking(_) => Some(TextKind::Thinking),
        // Unknown blocks are searchable by their words, too.
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
            input.visit_strings(&mut |text| {
                scratch.push('\n');
                scratch.push_str(text);
            });
            scratch
        }
        Block::Other(json) => {
            scratch.clear();
            json.visit_strings(&mut |text| {
                scratch.push_str(text);
                scratch.push('\n');
            });
            scratch
        }
        Block::Image(_) => "",
    }
}

/// Splits a text into overlapping passages at character boundaries.
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
