//! Finds private keys in text: complete, cut at either end, with line numbers, quoted, indented, on
//! one line.

use std::ops::Range;

/// The word that every key has in its head and tail, in lower case.
pub(super) const WORD: &str = "private key";

/// The largest key, in bytes, including line numbers and similar decoration.
const LARGEST: usize = 32 << 10;

/// The number of Base64 characters from which on a word is a line of a key.
const LINE: usize = 16;

/// Finds the key whose head or tail contains a word.
pub(super) fn key_at(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let head = text.get(floor_char_boundary(text, word.start.saturating_sub(48))..word.start)?;
    let dashes = ["-----BEGIN ", "---- BEGIN "].iter().filter_map(|begin| head.rfind(begin)).max();
    if let Some(at) = dashes.filter(|at| is_kind(&head[*at + 11..])) {
        return with_head(text, word.start - head.len() + at, word.end);
    }
    let at = ["-----END ", "---- END "].iter().filter_map(|end| head.rfind(end)).max()?;
    without_head(text, word.start - head.len() + at, word.end)
}

/// Returns whether a text can occur between `BEGIN` and `PRIVATE KEY`.
fn is_kind(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ')
}

fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the range of a key with a head. It ends at its tail, or at the last line of Base64.
fn with_head(text: &str, start: usize, after: usize) -> Option<Range<usize>> {
    let limit = floor_char_boundary(text, text.len().min(after + LARGEST));
    let body = &text[after..limit];
    let body = &body[..body.find("-BEGIN ").unwrap_or(body.len())];
    let tail = body
        .find("PRIVATE KEY")
        .filter(|at| body[..*at].rfind("END ").is_some_and(|end| is_kind(&body[end + 4..*at])));
    if let Some(tail) = tail {
        let rest = &body[tail + 11..];
        let rest = rest.strip_prefix(" BLOCK").unwrap_or(rest);
        let dashes = rest.bytes().take_while(|byte| *byte == b'-').count();
        let end = after + body.len() - rest.len() + dashes;
        let inside = &body[..tail];
        return is_mostly_base64(inside).then_some(start..end);
    }
    let end = words_end(body)?;
    Some(start..after + end)
}

/// Returns the range of a key with a tail only. It begins at the first line of Base64.
fn without_head(text: &str, tail: usize, word_end: usize) -> Option<Range<usize>> {
    let from = floor_char_boundary(text, tail.saturating_sub(LARGEST));
    let body = &text[from..tail];
    let mut start = None;
    let mut is_last = true;
    for (at, word) in pem_words(body).into_iter().rev() {
        let is_line = word.len() >= LINE && is_base64(word);
        // The last line may be short. Line numbers are not part of the key.
        let is_short_end = is_last && is_base64(word) && !is_number(word);
        if is_line || is_short_end {
            start = Some(at).filter(|_| is_line || start.is_some()).or(start).or(Some(at));
            is_last &= !is_line;
            if is_short_end {
                is_last = false;
            }
        } else if !is_decoration(word) {
            break;
        }
    }
    let start = from + start?;
    let has_line =
        pem_words(&text[start..tail]).iter().any(|(_, word)| word.len() >= LINE && is_base64(word));
    let dashes = text[word_end..].bytes().take_while(|byte| *byte == b'-').count();
    has_line.then_some(start..word_end + dashes)
}

/// Splits a text at white space, escaped line ends and line decoration.
fn pem_words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at <= bytes.len() {
        let escape = at + 1 < bytes.len()
            && bytes[at] == b'\\'
            && matches!(bytes[at + 1], b'n' | b'r' | b't' | b'\\' | b'"');
        let is_edge = at == bytes.len()
            || escape
            || !(bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'+' | b'/' | b'='));
        if is_edge {
            if at > start {
                words.push((start, &text[start..at]));
            }
            at += usize::from(escape);
            start = at + 1;
        }
        at += 1;
    }
    words
}

fn is_base64(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a word decorates a line: `12`, `+`, the dash of a list.
fn is_decoration(word: &str) -> bool {
    is_number(word) && word.len() <= 6 || word.len() == 1
}

fn is_mostly_base64(text: &str) -> bool {
    let words = pem_words(text);
    let all: usize =
        words.iter().filter(|(_, word)| !is_decoration(word)).map(|(_, word)| word.len()).sum();
    let lines: usize =
        words.iter().map(|(_, word)| word.len()).filter(|length| *length >= LINE).sum();
    lines >= LINE && lines * 10 >= all * 6
}

/// Returns the end of the Base64 lines that a text begins with.
fn words_end(text: &str) -> Option<usize> {
    let mut end = None;
    let mut shorts = 0;
    for (at, word) in pem_words(text) {
        if word.len() >= LINE && is_base64(word) {
            end = Some(at + word.len());
            shorts = 0;
        } else if end.is_some() && shorts == 0 && word.ends_with('=') {
            end = Some(at + word.len());
            break;
        } else if is_decoration(word) || end.is_none() && shorts < 12 {
            // The rest of the head before the first line, such as `Proc-Type: 4,ENCRYPTED`.
            shorts += usize::from(!is_decoration(word));
        } else {
            break;
        }
    }
    end
}
