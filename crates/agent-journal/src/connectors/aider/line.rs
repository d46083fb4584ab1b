//! What one line of the log is, and what Aider's own notices say.

use crate::model::{Timestamp, Tokens, Usage};

/// How prompts and notices are told from the text of a reply, which has headings and quotes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// By their prefix and two trailing spaces, as Aider writes them.
    Spaces,
    /// By their prefix alone: a formatter took the spaces away.
    Prefix,
}

/// Reads the line that opens a run, down to its time.
pub(super) fn header(line: &str) -> Option<&str> {
    let stamp = line.strip_prefix("# aider chat started at ")?.trim_end();
    let shape = stamp.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq(*b"0000-00-00 00:00:00").then_some(stamp)
}

/// Reads a local time. The log does not say which zone is meant, so it is taken as it stands.
pub(super) fn instant(stamp: &str) -> Option<Timestamp> {
    Timestamp::parse(&format!("{}Z", stamp.replacen(' ', "T", 1)))
}

/// Reads one line of a prompt.
pub(super) fn prompt(line: &str, marks: Marks) -> Option<&str> {
    marked(line.strip_prefix("####")?, marks)
}

/// Reads one line of a notice.
pub(super) fn notice(line: &str, marks: Marks) -> Option<&str> {
    marked(line.strip_prefix('>')?, marks)
}

/// Whether a prompt's line is an answer that was given once for several questions: Aider writes
/// the later ones itself.
pub(super) fn is_answer(text: &str) -> bool {
    text.contains(" (Y)es/(N)o") && (text.ends_with("]: all") || text.ends_with("]: skip"))
}

fn marked(rest: &str, marks: Marks) -> Option<&str> {
    let text = match marks {
        Marks::Spaces => rest.strip_suffix("  ")?,
        Marks::Prefix => rest.trim_end(),
    };
    if text.is_empty() { Some(text) } else { text.strip_prefix(' ') }
}

/// A fact in a notice.
#[derive(Debug, PartialEq)]
pub(super) enum Fact<'a> {
    /// What a call used.
    Usage(Usage),
    /// What a call cost, where that stands on a line of its own.
    Cost(u64),
    /// A file was changed.
    Edit(&'a str),
    /// A commit was made.
    Commit(&'a str),
    /// The agent's version.
    Version(&'a str),
    /// The model that answers.
    Model(&'a str),
    /// The model that turns an architect's plan into edits.
    Editor(&'a str),
    /// A call of the model failed.
    Failure,
}

/// Reads the fact a notice states, if it does.
pub(super) fn fact(text: &str) -> Option<Fact<'_>> {
    let word = |rest: &'static str| text.strip_prefix(rest)?.split_whitespace().next();
    if let Some(usage) = usage(text) {
        return Some(Fact::Usage(usage));
    }
    if let Some(cost) = cost(text) {
        return Some(Fact::Cost(cost));
    }
    if let Some(path) = text.strip_prefix("Applied edit to ") {
        return Some(Fact::Edit(path.trim()));
    }
    if let Some(commit) = word("Commit ").filter(|commit| is_hash(commit)) {
        return Some(Fact::Commit(commit));
    }
    if let Some(version) = word("Aider v") {
        return Some(Fact::Version(version));
    }
    if let Some(model) = ["Main model: ", "Model: ", "Models: "].into_iter().find_map(word) {
        return Some(Fact::Model(model));
    }
    if let Some(model) = word("Editor model: ") {
        return Some(Fact::Editor(model));
    }
    text.starts_with("litellm.").then_some(Fact::Failure)
}

fn is_hash(word: &str) -> bool {
    (7..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads `Tokens: 3.2k sent, 1.1k cache write, 12k cache hit, 222 received. Cost: $0.01 message, …`.
pub(super) fn usage(text: &str) -> Option<Usage> {
    let (counts, rest) = text.strip_prefix("Tokens: ")?.split_once(" received.")?;
    let (counts, received) = counts.rsplit_once(", ")?;
    let (mut sent, mut written, mut hit) = (None, 0, 0);
    for count in counts.split(", ") {
        let (count, what) = count.split_once(' ')?;
        let count = number(count)?;
        match what {
            "sent" => sent = Some(count),
            "cache write" => written = count,
            "cache hit" => hit = count,
            _ => return None,
        }
    }
    // Writes are always part of what was sent. Hits are for some providers: then they fit in it.
    let fresh = sent?.saturating_sub(written);
    let input = if hit <= fresh { fresh - hit } else { fresh };
    let tokens = Tokens {
        input,
        output: number(received)?,
        cache_read: hit,
        cache_creation: written,
        reasoning: None,
    };
    Some(Usage { tokens, cost_micros: cost(rest.trim_start()), ..Usage::default() })
}

/// Reads the message's part of `Cost: $0.01 message, $0.05 session.`, in millionths of a dollar.
fn cost(text: &str) -> Option<u64> {
    let (cost, rest) = text.strip_prefix("Cost: $")?.split_once(' ')?;
    let of_message = ["message", "request", "send"].iter().any(|word| rest.starts_with(word));
    of_message.then(|| scaled(cost, 1e6))?
}

/// Reads a figure Aider rounded: `587`, `4,484`, `3.2k`, `12k`, `1.1M`.
fn number(text: &str) -> Option<u64> {
    if let Some(thousands) = text.strip_suffix('k') {
        return scaled(thousands, 1e3);
    }
    match text.strip_suffix('M') {
        Some(millions) => scaled(millions, 1e6),
        None => scaled(text, 1.0),
    }
}

fn scaled(text: &str, factor: f64) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',')) {
        return None;
    }
    let value: f64 = text.replace(',', "").parse().ok()?;
    Some((value * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_with_a_time_opens_a_run() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(header(line), expected);
        check("# aider chat started at 2026-01-02 03:04:05", Some("2026-01-02 03:04:05"));
        check("# aider chat started at 2026-01-02 03:04:05 ", Some("2026-01-02 03:04:05"));
        check("# aider chat started at 2026-01-02", None);
        check("# aider chat started at 2026-01-02 03:04:05, it says", None);
        check("> # aider chat started at 2026-01-02 03:04:05", None);
    }

    #[test]
    fn two_trailing_spaces_tell_a_prompt_from_a_heading() {
        use Marks::{Prefix, Spaces};
        let check = |line: &str, marks: Marks, expected: Option<&str>| {
            assert_eq!(prompt(line, marks), expected, "{line:?} {marks:?}");
        };
        check("#### fix it  ", Spaces, Some("fix it"));
        check("#### Steps", Spaces, None);
        check("#### fix it", Prefix, Some("fix it"));
        check("####   indented  ", Spaces, Some("  indented"));
        check("####  ", Spaces, Some(""));
        check("####   ", Spaces, Some(""));
        check("####", Prefix, Some(""));
        check("##### smaller  ", Spaces, None);
        check("####tag", Prefix, None);
        assert_eq!(notice(">  ", Spaces), Some(""));
        assert_eq!(notice(">>>>>>> REPLACE  ", Spaces), None);
        assert_eq!(notice("> a quote", Spaces), None);
    }

    #[test]
    fn figures_are_as_exact_as_they_were_written() {
        let check = |text: &str, input, cache_read, cache_creation, output, cost| {
            let usage = usage(text).unwrap();
            let tokens = Tokens { input, output, cache_read, cache_creation, reasoning: None };
            assert_eq!((usage.tokens, usage.cost_micros), (tokens, cost), "{text}");
        };
        check("Tokens: 587 sent, 345 received.", 587, 0, 0, 345, None);
        check(
            "Tokens: 4,484 sent, 1.1M received. Cost: $0.02 message, $0.05 session.",
            4484,
            0,
            0,
            1_100_000,
            Some(20_000),
        );
        check(
            "Tokens: 3.2k sent, 1.1k cache write, 12k cache hit, 222 received.",
            2100,
            12_000,
            1100,
            222,
            None,
        );
        check(
            "Tokens: 9.2k sent, 8k cache hit, 1 received. Cost: $1.50 request, $2 session.",
            1200,
            8000,
            0,
            1,
            Some(1_500_000),
        );
    }

    #[test]
    fn what_only_looks_like_a_report_is_none() {
        for text in [
            "Tokens: many sent, 3 received.",
            "Tokens: 3 received.",
            "Tokens: 3 sent, 4 lost, 5 received.",
            "Tokens: -3 sent, 4 received.",
            "Tokens:",
        ] {
            assert_eq!(usage(text), None, "{text}");
        }
    }

    #[test]
    fn notices_state_facts() {
        let check = |text: &str, expected: Option<Fact<'_>>| assert_eq!(fact(text), expected);
        check("Aider v0.86.2", Some(Fact::Version("0.86.2")));
        check("Model: o3 with diff edit format", Some(Fact::Model("o3")));
        check("Models: a/b with ♾️ diff edit format, weak model c", Some(Fact::Model("a/b")));
        check("Editor model: d with editor-diff edit format", Some(Fact::Editor("d")));
        check("Weak model: c", None);
        check("Applied edit to src/a b.rs", Some(Fact::Edit("src/a b.rs")));
        check("Commit 69d75a2 fix: things", Some(Fact::Commit("69d75a2")));
        check("Commit message:", None);
        check("Cost: $0.01 message, $0.05 session.", Some(Fact::Cost(10_000)));
        check("litellm.RateLimitError: slow down", Some(Fact::Failure));
    }
}
