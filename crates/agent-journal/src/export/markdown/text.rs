//! Text that stays what it is, wherever it stands: fences that no content can break, answers
//! that cannot swallow what follows them.

use pulldown_cmark::{Event, Options as Extensions, Parser, Tag, TagEnd};

/// A fence longer than any run of backticks inside it.
pub(super) fn fenced(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let is_name = |one: char| one.is_ascii_alphanumeric() || "+-_#".contains(one);
    let language: String = language.chars().filter(|one| is_name(*one)).collect();
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Code inside a line.
pub(super) fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let text = text.replace(['\n', '\r'], " ");
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|one| one != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Quotes a text.
pub(super) fn quote(text: &str) -> String {
    let lines = text.trim().lines().map(|line| match line {
        "" => ">".to_owned(),
        _ => format!("> {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Moves a text into the list item above it.
pub(super) fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| match line {
        "" => String::new(),
        _ => format!("  {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Takes their meaning from the signs of Markdown and HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if "\\`*_[]<>#|&~".contains(one) {
            escaped.push('\\');
        }
        escaped.push(if one.is_control() { ' ' } else { one });
    }
    escaped
}

/// A text as a part of an anchor.
pub(super) fn attribute(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_ascii_alphanumeric() || one == '-' { one } else { '-' })
        .collect()
}

/// An answer as it was written, unless what follows it would become a part of it: then what is
/// open is closed, or the whole stands in a fence.
pub(super) fn closed(text: &str) -> String {
    let text = text.trim_end();
    if is_closed(text) {
        return text.to_owned();
    }
    let fence = ["```", "~~~", "````"].iter().map(|fence| format!("{text}\n{fence}"));
    fence.into_iter().find(|text| is_closed(text)).unwrap_or_else(|| fenced(text, "markdown"))
}

/// Whether a paragraph written after a text is a paragraph of its own.
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
        assert_eq!(fenced("a ``` b ````` c", "rust"), "``````rust\na ``` b ````` c\n``````");
        assert_eq!(fenced("plain\n", "a b\n```"), "```ab\nplain\n```");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("`b"), "`` `b ``");
    }

    #[test]
    fn an_answer_cannot_swallow_what_follows_it() {
        let check = |text: &str, expected: &str| assert_eq!(closed(text), expected);
        check("Done.\n\n```rust\nfn a() {}\n```", "Done.\n\n```rust\nfn a() {}\n```");
        check("Look:\n```rust\nfn a() {}", "Look:\n```rust\nfn a() {}\n```");
        check("Look:\n~~~\ncut", "Look:\n~~~\ncut\n~~~");
        check("<!-- never closed", "```markdown\n<!-- never closed\n```");
        check("> a quote", "> a quote");
    }
}
