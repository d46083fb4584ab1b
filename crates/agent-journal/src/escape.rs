//! Sequences that steer a terminal: colours, titles, links, moves of the cursor. Tools print them
//! between words; they are no part of any.

use std::borrow::Cow;

/// What every sequence begins with.
const ESCAPE: u8 = 0x1b;

/// What is longer than this is no title and no link.
const LONGEST: usize = 4096;

/// How many bytes the sequence has that a text begins with; one when it is no whole sequence, none
/// when there is none.
#[inline]
pub(crate) fn length(bytes: &[u8]) -> usize {
    let [ESCAPE, rest @ ..] = bytes else { return 0 };
    let more = match rest {
        [b'[', rest @ ..] => command(rest),
        [b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => string(rest),
        // A set of characters.
        [b'(' | b')' | b'*' | b'+', b'0'..=b'~', ..] => Some(1),
        [b'0'..=b'?', ..] => Some(0),
        _ => None,
    };
    more.map_or(1, |more| 2 + more)
}

/// A text with something else in the place of every sequence.
pub(crate) fn replaced<'t>(text: &'t str, with: &str) -> Cow<'t, str> {
    let Some(first) = text.find(char::from(ESCAPE)) else { return text.into() };
    let mut kept = text[..first].to_owned();
    let mut left = &text[first..];
    while !left.is_empty() {
        left = &left[length(left.as_bytes())..];
        let next = left.find(char::from(ESCAPE)).unwrap_or(left.len());
        kept.push_str(with);
        kept.push_str(&left[..next]);
        left = &left[next..];
    }
    kept.into()
}

/// A text without the sequences that steer a terminal.
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    replaced(text, "")
}

/// The length of numbers and the letter that says what to do with them.
fn command(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| !matches!(byte, b' '..=b'?'))?;
    matches!(bytes[end], b'@'..=b'~').then_some(end + 1)
}

/// The length of a text in one line and the sign that ends it.
fn string(bytes: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| matches!(*byte, 0x07 | ESCAPE | b'\n');
    let end = bytes.iter().take(LONGEST).position(is_end)?;
    match bytes[end..] {
        [0x07, ..] => Some(end + 1),
        [ESCAPE, b'\\', ..] => Some(end + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(replaced(text, "|"), expected, "{text:?}");
    }

    #[test]
    fn whole_sequences_are_taken_out() {
        check("a \x1b[1;31mred\x1b[0m b", "a |red| b");
        check("\x1b[38;5;12mx\x1b[K\x1b[?25l", "|x||");
        check("\x1b]0;a title\x07text", "|text");
        check("\x1b]8;;https://a.b/ä\x1b\\link\x1b]8;;\x1b\\", "|link|");
        check("\x1b(Bx\x1b7y\x1b=", "|x|y|");
    }

    #[test]
    fn of_half_a_sequence_only_the_escape_goes() {
        check("a\x1b", "a|");
        check("a\x1b[3", "a|[3");
        check("\x1b[3ä", "|[3ä");
        check("\x1b]0;no end\nnext\x07", "|]0;no end\nnext\x07");
        check("\x1b]0;no end \x1b[1mx", "|]0;no end |x");
        check("\x1bword", "|word");
        check(&format!("\x1b]{}\x07", "x".repeat(5000)), &format!("|]{}\x07", "x".repeat(5000)));
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        assert!(matches!(without_escapes("a[31m ä\n"), Cow::Borrowed("a[31m ä\n")));
    }
}
