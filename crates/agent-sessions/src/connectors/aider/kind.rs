//! Classification of a line by its marks and by the lines before it.

use super::line::{self, LineMarks};

/// The class of a line.
#[derive(Debug, PartialEq)]
pub(super) enum LineKind<'l> {
    Blank,
    /// A line of a prompt.
    Prompt(&'l str),
    /// A line of a notice, and the context for the next line.
    Notice(&'l str, PreviousLine),
    /// A line of a reply.
    Text,
}

/// The class of the previous line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviousLine {
    /// The header of the run.
    Start,
    Prompt,
    /// A blank line after a prompt. A formatter may have inserted it into the prompt.
    AfterPrompt,
    Notice,
    /// A line of a notice that continues on the next line.
    OpenNotice,
    /// A blank line after a notice.
    AfterNotice,
    Reply,
}

/// Classifies a line; `fenced` is whether the reply is inside a code block.
pub(super) fn classify_line(
    line: &str,
    marks: LineMarks,
    place: PreviousLine,
    fenced: bool,
) -> LineKind<'_> {
    if line.trim().is_empty() {
        return LineKind::Blank;
    }
    let notice = line::parse_notice_line(line, marks);
    if marks == LineMarks::Prefix && place == PreviousLine::Reply {
        return in_reply(notice, fenced);
    }
    match (line::parse_prompt_line(line, marks), notice) {
        (Some(text), _) if line::is_answer(text) => LineKind::Notice(text, PreviousLine::Notice),
        (Some(text), _) => LineKind::Prompt(text),
        (_, Some(text)) => LineKind::Notice(text, PreviousLine::Notice),
        _ => classify_unmarked_line(line, place),
    }
}

/// Classifies a line of a reply in a log without trailing spaces. Headings are not prompts, because
/// the token notice precedes the next prompt; quotes in code are not notices.
fn in_reply(notice: Option<&str>, fenced: bool) -> LineKind<'_> {
    match notice {
        Some(text)
            if line::parse_token_report(text).is_some() || !(fenced || text.starts_with('>')) =>
        {
            LineKind::Notice(text, PreviousLine::Notice)
        }
        _ => LineKind::Text,
    }
}

/// Classifies a line without both marks: usually a line of a reply, or of a notice of several
/// lines, of which only the last has the two spaces.
fn classify_unmarked_line(line: &str, place: PreviousLine) -> LineKind<'_> {
    use PreviousLine::{AfterNotice, AfterPrompt, Notice, OpenNotice, Reply};
    let is_near = !matches!(place, Reply | AfterNotice | AfterPrompt);
    if let Some(text) = line.strip_prefix("> ")
        && (is_near || line::parse_token_report(text).is_some())
    {
        return LineKind::Notice(text, OpenNotice);
    }
    match place {
        // A reply begins after a blank line, so this line still belongs to the notice.
        Notice | OpenNotice if line.ends_with("  ") => LineKind::Notice(line.trim_end(), Notice),
        Notice | OpenNotice => LineKind::Notice(line.trim_end(), place),
        _ => LineKind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_a_notice_only_where_no_reply_can_be() {
        let check = |line, place, expected| {
            assert_eq!(
                classify_line(line, LineMarks::Spaces, place, false),
                expected,
                "{line} {place:?}"
            );
        };
        let open = |text| LineKind::Notice(text, PreviousLine::OpenNotice);
        check("> a quote", PreviousLine::Reply, LineKind::Text);
        check("> a quote", PreviousLine::AfterPrompt, LineKind::Text);
        check("> first of two", PreviousLine::Prompt, open("first of two"));
        check("> first of two", PreviousLine::Notice, open("first of two"));
        check(
            "second of two  ",
            PreviousLine::OpenNotice,
            LineKind::Notice("second of two", PreviousLine::Notice),
        );
        check("second of three", PreviousLine::OpenNotice, open("second of three"));
        check("a reply", PreviousLine::AfterNotice, LineKind::Text);
        let report = "Tokens: 1 sent, 1 received.";
        check("> Tokens: 1 sent, 1 received.", PreviousLine::Reply, open(report));
    }

    #[test]
    fn without_marks_a_reply_ends_with_a_notice() {
        let check = |line, fenced, expected| {
            assert_eq!(
                classify_line(line, LineMarks::Prefix, PreviousLine::Reply, fenced),
                expected,
                "{line}"
            );
        };
        check("#### A heading", false, LineKind::Text);
        check("> > > > > > > REPLACE", false, LineKind::Text);
        check("> Applied edit to a", true, LineKind::Text);
        check(
            "> Applied edit to a",
            false,
            LineKind::Notice("Applied edit to a", PreviousLine::Notice),
        );
        let report = "Tokens: 1 sent, 1 received.";
        check(
            "> Tokens: 1 sent, 1 received.",
            true,
            LineKind::Notice(report, PreviousLine::Notice),
        );
    }

    #[test]
    fn answers_that_aider_repeats_are_no_prompts() {
        let line = "#### Create new file? (Y)es/(N)o/(A)ll [Yes]: all  ";
        let kind = classify_line(line, LineMarks::Spaces, PreviousLine::Notice, false);
        assert!(matches!(kind, LineKind::Notice(_, PreviousLine::Notice)));
        let line = "#### what does (Y)es/(N)o mean?  ";
        assert!(matches!(
            classify_line(line, LineMarks::Spaces, PreviousLine::Notice, false),
            LineKind::Prompt(_)
        ));
    }
}
