//! Separates typed prompts and model text from the wrapping that Cursor adds.

use crate::model::{Block, Image, Json, Message, Origin};

/// Tags that Cursor puts around its own additions to a prompt.
const ENVELOPES: [&str; 21] = [
    "additional_data",
    "agent_skills",
    "agent_transcripts",
    "always_applied_workspace_rules",
    "attached_files",
    "current_file",
    "cursor_commands",
    "external_links",
    "git_status",
    "image_files",
    "manually_attached_skills",
    "mcp_file_system",
    "open_and_recently_viewed_files",
    "project_layout",
    "rules",
    "system-reminder",
    "system_notification",
    "system_reminder",
    "task_notification",
    "timestamp",
    "user_info",
];

/// The placeholder in a transcript for omitted reasoning.
const REDACTED: &str = "[REDACTED]";

/// Reduces a user message to the text and images from the user, and returns its origin.
pub(super) fn unwrap_user_message(message: &mut Message) -> Origin {
    let mut envelopes: Vec<String> = Vec::new();
    message.blocks.retain_mut(|block| {
        let Block::Text(text) = block else { return true };
        let (envelope, typed) = split_additions(text);
        *text = typed;
        if !envelope.is_empty() {
            envelopes.push(envelope);
        }
        !text.is_empty()
    });
    let envelope = envelopes.join("\n");
    message.blocks.extend(attached_images(&envelope).map(Block::Image));
    if message.blocks.is_empty() {
        message.blocks.push(Block::Text(envelope));
        return Origin::Injected;
    }
    if !envelope.is_empty() {
        message.extensions.insert("envelope".into(), Json::from_value(&envelope));
    }
    Origin::Human
}

/// Returns the images that the user attached, which Cursor lists as `1. path`.
fn attached_images(envelope: &str) -> impl Iterator<Item = Image> {
    let list = envelope.split_once("<image_files>").map_or("", |(_, list)| list);
    let list = list.split("</image_files>").next().unwrap_or_default();
    list.lines().filter_map(|line| {
        let (number, path) = line.trim().split_once(". ")?;
        number.parse::<u32>().ok()?;
        Some(Image { location: Some(path.to_owned()), ..Image::default() })
    })
}

/// Splits a text into Cursor's additions and the typed text.
fn split_additions(text: &str) -> (String, String) {
    let (open, close) = ("<user_query>", "</user_query>");
    if !text.contains(open) {
        let mut rest = text.trim_start();
        while let Some(after) = ENVELOPES.iter().find_map(|tag| after_cursor_envelope(rest, tag)) {
            rest = after.trim_start();
        }
        let envelope = text[..text.len() - rest.len()].trim();
        return (envelope.to_owned(), rest.trim_end().to_owned());
    }
    let (mut outside, mut typed, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once(open) {
        let (query, behind) = after.split_once(close).unwrap_or((after, ""));
        outside.push(before.trim());
        typed.push(query.trim());
        rest = behind;
    }
    outside.push(rest.trim());
    let join = |pieces: Vec<&str>, between: &str| {
        let pieces: Vec<&str> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        pieces.join(between)
    };
    (join(outside, "\n"), join(typed, "\n\n"))
}

fn after_cursor_envelope<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let inside = text.strip_prefix('<')?.strip_prefix(tag)?;
    if !inside.starts_with(['>', ' ']) {
        return None;
    }
    let close = inside.find(&format!("</{tag}>"))?;
    Some(&inside[close + tag.len() + 3..])
}

/// Splits a model's text into reasoning and reply, and pushes both as blocks.
pub(super) fn push_answer_blocks(text: &str, blocks: &mut Vec<Block>) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<think>") {
        push_trimmed_text(before, blocks);
        let (thought, behind) = after.split_once("</think>").unwrap_or((after, ""));
        if !thought.trim().is_empty() {
            blocks.push(Block::Thinking(thought.trim().to_owned()));
        }
        rest = behind;
    }
    push_trimmed_text(rest, blocks);
}

fn push_trimmed_text(text: &str, blocks: &mut Vec<Block>) {
    let text = text.trim().trim_start_matches(REDACTED).trim_end_matches(REDACTED).trim();
    if !text.is_empty() {
        blocks.push(Block::Text(text.to_owned()));
    }
}

/// Returns the workspace path in the machine description that Cursor adds to a prompt.
pub(super) fn find_described_workspace(text: &str) -> Option<String> {
    let info = text.split_once("<user_info>")?.1;
    let line = info.lines().find_map(|line| line.trim().strip_prefix("Workspace Path:"))?;
    Some(line.trim().to_owned()).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_query_is_what_was_typed() {
        let check = |text: &str, envelope: &str, typed: &str| {
            assert_eq!(split_additions(text), (envelope.to_owned(), typed.to_owned()), "{text}");
        };
        check("<user_query>\nfix it\n</user_query>", "", "fix it");
        check("plain <b>words</b>", "", "plain <b>words</b>");
        check("<rules>\nr\n</rules>\n<user_query>a</user_query>", "<rules>\nr\n</rules>", "a");
        check("<user_query>a</user_query> x <user_query>b</user_query>", "x", "a\n\nb");
        check("<user_query>half", "", "half");
        check("<user_info>\nOS: x\n</user_info>", "<user_info>\nOS: x\n</user_info>", "");
        check("<rulesets>mine</rulesets>", "", "<rulesets>mine</rulesets>");
    }

    #[test]
    fn pictures_without_words_are_a_prompt_too() {
        let text = "[Image]\n<image_files>\nSaved for later:\n1. /a/b c.png\n\nUse them.\n</image_files>\n<user_query>\n\n</user_query>";
        let mut message = Message { blocks: vec![Block::Text(text.into())], ..Message::default() };
        assert_eq!(unwrap_user_message(&mut message), Origin::Human);
        let picture = Image { location: Some("/a/b c.png".into()), ..Image::default() };
        assert_eq!(message.blocks, [Block::Image(picture)]);
    }

    #[test]
    fn reasoning_is_told_apart_and_its_place_holder_is_dropped() {
        let check = |text: &str, expected: &[Block]| {
            let mut blocks = Vec::new();
            push_answer_blocks(text, &mut blocks);
            assert_eq!(blocks, expected, "{text}");
        };
        let text = |text: &str| Block::Text(text.to_owned());
        let thought = |text: &str| Block::Thinking(text.to_owned());
        check("<think>\nhm\n</think>\nDone.\n", &[thought("hm"), text("Done.")]);
        check("Done.\n\n[REDACTED]", &[text("Done.")]);
        check("[REDACTED]", &[]);
        check("a<think>b", &[text("a"), thought("b")]);
    }
}
