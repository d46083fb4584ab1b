//! Markdown that keeps its meaning in any context: fences that no content can break, and replies
//! that cannot swallow the text after them.

use pulldown_cmark::{Event, Options as Extensions, Parser, Tag, TagEnd};

/// Returns a text in a fence that is longer than any run of backticks in it.
pub(super) fn fenced_code(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let is_name = |one: char| one.is_ascii_alphanumeric() || "+-_#".contains(one);
    let language: String = language.chars().filter(|one| is_name(*one)).collect();
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Returns a text as inline code.
pub(super) fn inline_code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let text = text.replace(['\n', '\r'], " ");
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|one| one != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Returns a text as a block quote.
pub(super) fn block_quote(text: &str) -> String {
    let lines = text.trim().lines().map(|line| match line {
        "" => ">".to_owned(),
        _ => format!("> {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Indents a text, so that it belongs to the list item above it.
pub(super) fn indent_for_list(text: &str) -> String {
    let lines = text.lines().map(|line| match line {
        "" => String::new(),
        _ => format!("  {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Escapes a text for Markdown and HTML.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if "\\`*_[]<>#|&~".contains(one) {
            escaped.push('\\');
        }
        escaped.push(if one.is_control() { ' ' } else { one });
    }
    escaped
}

/// Converts a text to a part of an anchor.
pub(super) fn anchor_part(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_ascii_alphanumeric() || one == '-' { one } else { '-' })
        .collect()
}

/// Returns a reply as it was written, unless the text after it would become part of it. Then its
/// open block is closed, or the whole reply is put into a fence.
pub(super) fn self_contained_reply(text: &str) -> String {
    let text = text.trim_end();
    if is_closed(text) {
        return text.to_owned();
    }
    let fence = ["```", "~~~", "````"].iter().map(|fence| format!("{text}\n{fence}"));
    fence.into_iter().find(|text| is_closed(text)).unwrap_or_else(|| fenced_code(text, "markdown"))
}

/// Returns whether a paragraph after the text is a paragraph of its own.
fn is_closed(text: &str) -> bool {
    const PROBE: &str = "agent-journal-probe";
    if text.contains(PROBE) {
        return false;
    }
    let probed = format!("{text}\n\n{PROBE}");
    let mut depth = 0_usize;
    let mut is_paragraph = false;
    for event in Parser::new_ext(&probed, Extensions::ENABLE_TABLES) {
        match event {
            Event::Start(tag) => {
                is_paragraph = depth == 0 && tag == Tag::Paragraph;
                depth += 1;
            }
            Event::End(TagEnd::Paragraph) => {
                depth -= 1;
                is_paragraph = false;
            }
            Event::End(_) => depth -= 1,
            Event::Text(text) if is_paragraph && &*text == PROBE => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_content_breaks_a_fence() {
        assert_eq!(fenced_code("a ``` b ````` c", "rust"), "``````rust\na ``` b ````` c\n``````");
        assert_eq!(fenced_code("plain\n", "a b\n```"), "```ab\nplain\n```");
        assert_eq!(inline_code("a `b` c"), "``a `b` c``");
        assert_eq!(inline_code("`b"), "`` `b ``");
    }

    #[test]
    fn an_answer_cannot_swallow_what_follows_it() {
        let check = |text: &str, expected: &str| assert_eq!(self_contained_reply(text), expected);
        check("Done.\n\n```rust\nfn a() {}\n```", "Done.\n\n```rust\nfn a() {}\n```");
        check("Look:\n```rust\nfn a() {}", "Look:\n```rust\nfn a() {}\n```");
        check("Look:\n~~~\ncut", "Look:\n~~~\ncut\n~~~");
        check("<!-- never closed", "```markdown\n<!-- never closed\n```");
        check("> a quote", "> a quote");
    }
}
