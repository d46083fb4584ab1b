//! What a line is, given the lines before it.

use super::line::{self, Marks};

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Kind<'l> {
    Blank,
    /// A line of a prompt.
    Prompt(&'l str),
    /// A line of a notice, and what the next line comes after.
    Notice(&'l str, Place),
    /// A line of a reply.
    Text,
}

/// What the line before was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The header.
    Start,
    Prompt,
    /// A blank line after a prompt, which a formatter may have put into it.
    AfterPrompt,
    Notice,
    /// A line of a notice that goes on.
    OpenNotice,
    /// A blank line after a notice.
    AfterNotice,
    Reply,
}

/// Tells what a line is; `fenced` says that the reply is in a code block.
pub(super) fn of(line: &str, marks: Marks, place: Place, fenced: bool) -> Kind<'_> {
    if line.trim().is_empty() {
        return Kind::Blank;
    }
    let notice = line::notice(line, marks);
    if marks == Marks::Prefix && place == Place::Reply {
        return in_reply(notice, fenced);
    }
    match (line::prompt(line, marks), notice) {
        (Some(text), _) if line::is_answer(text) => Kind::Notice(text, Place::Notice),
        (Some(text), _) => Kind::Prompt(text),
        (_, Some(text)) => Kind::Notice(text, Place::Notice),
        _ => unmarked(line, place),
    }
}

/// A reply whose marks are gone: its headings are no prompts, because the notice of what it used
/// comes first, and quotes in its code are no notices.
fn in_reply(notice: Option<&str>, fenced: bool) -> Kind<'_> {
    match notice {
        Some(text) if line::usage(text).is_some() || !(fenced || text.starts_with('>')) => {
            Kind::Notice(text, Place::Notice)
        }
        _ => Kind::Text,
    }
}

/// A line that has not both marks: mostly a reply's, or one of a notice of several lines, of
/// which only the last has the two spaces.
fn unmarked(line: &str, place: Place) -> Kind<'_> {
    use Place::{AfterNotice, AfterPrompt, Notice, OpenNotice, Reply};
    let is_near = !matches!(place, Reply | AfterNotice | AfterPrompt);
    if let Some(text) = line.strip_prefix("> ")
        && (is_near || line::usage(text).is_some())
    {
        return Kind::Notice(text, OpenNotice);
    }
    match place {
        // A reply begins after a blank line: this is still the notice.
        Notice | OpenNotice if line.ends_with("  ") => Kind::Notice(line.trim_end(), Notice),
        Notice | OpenNotice => Kind::Notice(line.trim_end(), place),
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_a_notice_only_where_no_reply_can_be() {
        let check = |line, place, expected| {
            assert_eq!(of(line, Marks::Spaces, place, false), expected, "{line} {place:?}");
        };
        let open = |text| Kind::Notice(text, Place::OpenNotice);
        check("> a quote", Place::Reply, Kind::Text);
        check("> a quote", Place::AfterPrompt, Kind::Text);
        check("> first of two", Place::Prompt, open("first of two"));
        check("> first of two", Place::Notice, open("first of two"));
        check("second of two  ", Place::OpenNotice, Kind::Notice("second of two", Place::Notice));
        check("second of three", Place::OpenNotice, open("second of three"));
        check("a reply", Place::AfterNotice, Kind::Text);
        let report = "Tokens: 1 sent, 1 received.";
        check("> Tokens: 1 sent, 1 received.", Place::Reply, open(report));
    }

    #[test]
    fn without_marks_a_reply_ends_with_a_notice() {
        let check = |line, fenced, expected| {
            assert_eq!(of(line, Marks::Prefix, Place::Reply, fenced), expected, "{line}");
        };
        check("#### A heading", false, Kind::Text);
        check("> > > > > > > REPLACE", false, Kind::Text);
        check("> Applied edit to a", true, Kind::Text);
        check("> Applied edit to a", false, Kind::Notice("Applied edit to a", Place::Notice));
        let report = "Tokens: 1 sent, 1 received.";
        check("> Tokens: 1 sent, 1 received.", true, Kind::Notice(report, Place::Notice));
    }

    #[test]
    fn answers_that_aider_repeats_are_no_prompts() {
        let line = "#### Create new file? (Y)es/(N)o/(A)ll [Yes]: all  ";
        let kind = of(line, Marks::Spaces, Place::Notice, false);
        assert!(matches!(kind, Kind::Notice(_, Place::Notice)));
        let line = "#### what does (Y)es/(N)o mean?  ";
        assert!(matches!(of(line, Marks::Spaces, Place::Notice, false), Kind::Prompt(_)));
    }
}
