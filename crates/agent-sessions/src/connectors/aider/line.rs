//! Parsers for single lines of the log and for the facts in Aider's own notices.

use crate::model::{Timestamp, Tokens, Usage};

/// The marks that distinguish prompts and notices from a reply, which contains headings and quotes
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineMarks {
    /// Prefix and two trailing spaces, as Aider writes them.
    Spaces,
    /// Prefix only: a formatter removed the spaces.
    Prefix,
}

/// Parses the line that opens a run, and returns its time stamp.
pub(super) fn parse_run_header(line: &str) -> Option<&str> {
    let stamp = line.strip_prefix("# aider chat started at ")?.trim_end();
    let shape = stamp.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq(*b"0000-00-00 00:00:00").then_some(stamp)
}

/// Parses a local time. The log does not record the zone, so the time is read as UTC.
pub(super) fn parse_local_time(stamp: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(&format!("{}Z", stamp.replacen(' ', "T", 1)))
}

/// Parses a line of a prompt and returns its text.
pub(super) fn parse_prompt_line(line: &str, marks: LineMarks) -> Option<&str> {
    strip_line_mark(line.strip_prefix("####")?, marks)
}

/// Parses a line of a notice and returns its text.
pub(super) fn parse_notice_line(line: &str, marks: LineMarks) -> Option<&str> {
    strip_line_mark(line.strip_prefix('>')?, marks)
}

/// Returns whether a prompt line is an answer given once for several questions: Aider itself writes
/// the later ones.
pub(super) fn is_answer(text: &str) -> bool {
    text.contains(" (Y)es/(N)o") && (text.ends_with("]: all") || text.ends_with("]: skip"))
}

fn strip_line_mark(rest: &str, marks: LineMarks) -> Option<&str> {
    let text = match marks {
        LineMarks::Spaces => rest.strip_suffix("  ")?,
        LineMarks::Prefix => rest.trim_end(),
    };
    if text.is_empty() { Some(text) } else { text.strip_prefix(' ') }
}

/// A fact stated in a notice.
#[derive(Debug, PartialEq)]
pub(super) enum NoticeFact<'a> {
    /// Tokens and cost of a model call.
    Usage(Usage),
    /// Cost of a model call in millionths of a dollar, where it is on a line of its own.
    Cost(u64),
    /// Path of a file that was changed.
    Edit(&'a str),
    /// Hash of a commit that was made.
    Commit(&'a str),
    /// Version of the agent.
    Version(&'a str),
    /// The model that answers.
    Model(&'a str),
    /// The model that turns an architect's plan into edits.
    Editor(&'a str),
    /// A failed model call.
    Failure,
}

/// Parses the fact that a notice states, if any.
pub(super) fn parse_notice_fact(text: &str) -> Option<NoticeFact<'_>> {
    let word = |rest: &'static str| text.strip_prefix(rest)?.split_whitespace().next();
    if let Some(usage) = parse_token_report(text) {
        return Some(NoticeFact::Usage(usage));
    }
    if let Some(cost) = parse_message_cost(text) {
        return Some(NoticeFact::Cost(cost));
    }
    if let Some(path) = text.strip_prefix("Applied edit to ") {
        return Some(NoticeFact::Edit(path.trim()));
    }
    if let Some(commit) = word("Commit ").filter(|commit| is_commit_hash(commit)) {
        return Some(NoticeFact::Commit(commit));
    }
    if let Some(version) = word("Aider v") {
        return Some(NoticeFact::Version(version));
    }
    if let Some(model) = ["Main model: ", "Model: ", "Models: "].into_iter().find_map(word) {
        return Some(NoticeFact::Model(model));
    }
    if let Some(model) = word("Editor model: ") {
        return Some(NoticeFact::Editor(model));
    }
    text.starts_with("litellm.").then_some(NoticeFact::Failure)
}

fn is_commit_hash(word: &str) -> bool {
    (7..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses `Tokens: 3.2k sent, 1.1k cache write, 12k cache hit, 222 received. Cost: $0.01 message,
/// …`.
pub(super) fn parse_token_report(text: &str) -> Option<Usage> {
    let (counts, rest) = text.strip_prefix("Tokens: ")?.split_once(" received.")?;
    let (counts, received) = counts.rsplit_once(", ")?;
    let (mut sent, mut written, mut hit) = (None, 0, 0);
    for count in counts.split(", ") {
        let (count, what) = count.split_once(' ')?;
        let count = parse_rounded_count(count)?;
        match what {
            "sent" => sent = Some(count),
            "cache write" => written = count,
            "cache hit" => hit = count,
            _ => return None,
        }
    }
    // Cache writes are always part of the sent tokens. Hits are so for some providers: then they do
    // not exceed the remaining sent tokens.
    let fresh = sent?.saturating_sub(written);
    let input = if hit <= fresh { fresh - hit } else { fresh };
    let tokens = Tokens {
        input,
        output: parse_rounded_count(received)?,
        cache_read: hit,
        cache_creation: written,
        reasoning: None,
    };
    Some(Usage { tokens, cost_micros: parse_message_cost(rest.trim_start()), ..Usage::default() })
}

/// Parses the message part of `Cost: $0.01 message, $0.05 session.`, in millionths of a dollar.
fn parse_message_cost(text: &str) -> Option<u64> {
    let (cost, rest) = text.strip_prefix("Cost: $")?.split_once(' ')?;
    let of_message = ["message", "request", "send"].iter().any(|word| rest.starts_with(word));
    of_message.then(|| parse_scaled_number(cost, 1e6))?
}

/// Parses a count as Aider rounds it: `587`, `4,484`, `3.2k`, `12k`, `1.1M`.
fn parse_rounded_count(text: &str) -> Option<u64> {
    if let Some(thousands) = text.strip_suffix('k') {
        return parse_scaled_number(thousands, 1e3);
    }
    match text.strip_suffix('M') {
        Some(millions) => parse_scaled_number(millions, 1e6),
        None => parse_scaled_number(text, 1.0),
    }
}

fn parse_scaled_number(text: &str, factor: f64) -> Option<u64> {
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
        let check =
            |line: &str, expected: Option<&str>| assert_eq!(parse_run_header(line), expected);
        check("# aider chat started at 2026-01-02 03:04:05", Some("2026-01-02 03:04:05"));
        check("# aider chat started at 2026-01-02 03:04:05 ", Some("2026-01-02 03:04:05"));
        check("# aider chat started at 2026-01-02", None);
        check("# aider chat started at 2026-01-02 03:04:05, it says", None);
        check("> # aider chat started at 2026-01-02 03:04:05", None);
    }

    #[test]
    fn two_trailing_spaces_tell_a_prompt_from_a_heading() {
        use LineMarks::{Prefix, Spaces};
        let check = |line: &str, marks: LineMarks, expected: Option<&str>| {
            assert_eq!(parse_prompt_line(line, marks), expected, "{line:?} {marks:?}");
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
        assert_eq!(parse_notice_line(">  ", Spaces), Some(""));
        assert_eq!(parse_notice_line(">>>>>>> REPLACE  ", Spaces), None);
        assert_eq!(parse_notice_line("> a quote", Spaces), None);
    }

    #[test]
    fn figures_are_as_exact_as_they_were_written() {
        let check = |text: &str, input, cache_read, cache_creation, output, cost| {
            let usage = parse_token_report(text).unwrap();
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
            assert_eq!(parse_token_report(text), None, "{text}");
        }
    }

    #[test]
    fn notices_state_facts() {
        let check = |text: &str, expected: Option<NoticeFact<'_>>| {
            assert_eq!(parse_notice_fact(text), expected);
        };
        check("Aider v0.86.2", Some(NoticeFact::Version("0.86.2")));
        check("Model: o3 with diff edit format", Some(NoticeFact::Model("o3")));
        check("Models: a/b with ♾️ diff edit format, weak model c", Some(NoticeFact::Model("a/b")));
        check("Editor model: d with editor-diff edit format", Some(NoticeFact::Editor("d")));
        check("Weak model: c", None);
        check("Applied edit to src/a b.rs", Some(NoticeFact::Edit("src/a b.rs")));
        check("Commit 69d75a2 fix: things", Some(NoticeFact::Commit("69d75a2")));
        check("Commit message:", None);
        check("Cost: $0.01 message, $0.05 session.", Some(NoticeFact::Cost(10_000)));
        check("litellm.RateLimitError: slow down", Some(NoticeFact::Failure));
    }
}
