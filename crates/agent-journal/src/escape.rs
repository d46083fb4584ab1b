//! Terminal escape sequences: colours, titles, links, cursor movement. Tools print them between
//! words; they are not part of the text.

use std::borrow::Cow;

/// The first byte of every escape sequence.
const ESCAPE: u8 = 0x1b;

/// Maximum length of a string sequence such as a title or a link, in bytes.
const LONGEST: usize = 4096;

/// Returns the length of the escape sequence at the start of `bytes`: 1 for an incomplete sequence,
/// 0 if there is none.
#[inline]
pub(crate) fn escape_sequence_length(bytes: &[u8]) -> usize {
    let [ESCAPE, rest @ ..] = bytes else { return 0 };
    let more = match rest {
        [b'[', rest @ ..] => control_sequence_length(rest),
        [b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => string_sequence_length(rest),
        // Character set selection.
        [b'(' | b')' | b'*' | b'+', b'0'..=b'~', ..] => Some(1),
        [b'0'..=b'?', ..] => Some(0),
        _ => None,
    };
    more.map_or(1, |more| 2 + more)
}

/// Replaces every escape sequence in `text` by `with`.
pub(crate) fn replace_escape_sequences<'t>(text: &'t str, with: &str) -> Cow<'t, str> {
    let Some(first) = text.find(char::from(ESCAPE)) else { return text.into() };
    let mut kept = text[..first].to_owned();
    let mut left = &text[first..];
    while !left.is_empty() {
        left = &left[escape_sequence_length(left.as_bytes())..];
        let next = left.find(char::from(ESCAPE)).unwrap_or(left.len());
        kept.push_str(with);
        kept.push_str(&left[..next]);
        left = &left[next..];
    }
    kept.into()
}

/// Removes the terminal escape sequences from `text`.
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    replace_escape_sequences(text, "")
}

/// Returns the length of a control sequence: its parameters and the final letter.
fn control_sequence_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| !matches!(byte, b' '..=b'?'))?;
    matches!(bytes[end], b'@'..=b'~').then_some(end + 1)
}

/// Returns the length of a string sequence: one line of text and its terminator.
fn string_sequence_length(bytes: &[u8]) -> Option<usize> {
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
        assert_eq!(replace_escape_sequences(text, "|"), expected, "{text:?}");
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
