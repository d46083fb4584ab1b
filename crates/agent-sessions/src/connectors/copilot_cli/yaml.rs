//! Parses the subset of YAML that `workspace.yaml` uses: one flat mapping of keys to plain, quoted
//! or block scalars. Nested values are skipped.

use std::iter::Peekable;
use std::str::Lines;

/// Parses a flat mapping and returns its entries in order.
pub(super) fn parse_flat_mapping(text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().peekable();
    let mut entries = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((key, rest)) = split_mapping_key(line) {
            entries.push((key.to_owned(), parse_scalar(rest, &mut lines)));
        }
    }
    entries
}

/// Splits `key: rest`. Returns `None` for lines that do not start an entry of the outer mapping.
fn split_mapping_key(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([' ', '\t', '#', '-']) {
        return None;
    }
    let (key, rest) = line.split_once(':')?;
    let spaced = rest.is_empty() || rest.starts_with([' ', '\t']);
    spaced.then(|| (key.trim().trim_matches(['"', '\'']), rest.trim()))
}

fn parse_scalar(first: &str, lines: &mut Peekable<Lines<'_>>) -> String {
    match first.chars().next() {
        Some('|') => parse_block_scalar(first, lines, "\n"),
        Some('>') => parse_block_scalar(first, lines, " "),
        Some('"') => unescape_scalar(&parse_quoted_scalar(first, '"', lines)),
        Some('\'') => parse_quoted_scalar(first, '\'', lines).replace("''", "'"),
        _ => parse_plain_scalar(first, lines),
    }
}

fn is_indented_line(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with([' ', '\t'])
}

/// Parses a block scalar: the indented lines that follow. The first one sets the indentation.
fn parse_block_scalar(header: &str, lines: &mut Peekable<Lines<'_>>, join: &str) -> String {
    let mut raw = Vec::new();
    while let Some(line) = lines.next_if(|line| is_indented_line(line)) {
        raw.push(line);
    }
    let digit = header.chars().find_map(|char| char.to_digit(10));
    let width = |line: &&&str| line.len() - line.trim_start_matches(' ').len();
    let first = raw.iter().find(|line| !line.trim().is_empty());
    let indent = digit.map_or_else(|| first.as_ref().map_or(0, width), |digit| digit as usize);
    let texts: Vec<&str> = raw.iter().map(|line| line.get(indent..).unwrap_or("")).collect();
    let mut text = String::new();
    for (at, line) in texts.iter().enumerate() {
        // In a folded block, an empty line stands for exactly one line break.
        let breaks = join == "\n" || line.is_empty();
        if at > 0 && (breaks || !texts[at - 1].is_empty()) {
            text.push_str(if breaks { "\n" } else { join });
        }
        text.push_str(line);
    }
    let body = text.trim_end_matches('\n').len();
    match header.chars().find(|char| matches!(char, '-' | '+')) {
        Some('+') => {}
        _ => text.truncate(body),
    }
    text
}

/// Returns the text between the quotes of a quoted scalar, with its lines folded.
fn parse_quoted_scalar(first: &str, quote: char, lines: &mut Peekable<Lines<'_>>) -> String {
    let mut text = first[1..].to_owned();
    loop {
        if let Some(end) = closing_quote_position(&text, quote) {
            text.truncate(end);
            return text;
        }
        let Some(line) = lines.next_if(|line| is_indented_line(line)) else { return text };
        text.push_str(if line.trim().is_empty() { "\n" } else { " " });
        text.push_str(line.trim());
    }
}

/// Returns the position of the quote that ends a quoted scalar.
fn closing_quote_position(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        if quote == '"' && char == '\\' {
            chars.next();
        } else if char == quote {
            // Inside single quotes, a doubled quote stands for one.
            if quote == '"' || chars.next_if(|(_, next)| *next == quote).is_none() {
                return Some(at);
            }
        }
    }
    None
}

fn unescape_scalar(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut half = None;
    while let Some(char) = chars.next() {
        let plain =
            if char == '\\' { parse_escape_sequence(&mut chars, &mut half) } else { Some(char) };
        out.extend(plain);
    }
    out
}

/// Parses the escape after a backslash. JSON writes characters beyond the basic plane as two
/// surrogates; `half` holds the first of them.
fn parse_escape_sequence(chars: &mut std::str::Chars<'_>, half: &mut Option<u32>) -> Option<char> {
    let digits = match chars.next()? {
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        '0' => return Some('\0'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let text: String = chars.by_ref().take(digits).collect();
    let unit = u32::from_str_radix(&text, 16).ok()?;
    match (unit, half.take()) {
        (0xd800..=0xdbff, _) => {
            *half = Some(unit);
            None
        }
        (0xdc00..=0xdfff, Some(high)) => {
            char::from_u32(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00))
        }
        _ => char::from_u32(unit),
    }
}

/// Parses a plain scalar. Indented lines continue it.
fn parse_plain_scalar(first: &str, lines: &mut Peekable<Lines<'_>>) -> String {
    let mut text = strip_yaml_comment(first).to_owned();
    while let Some(line) = lines.next_if(|line| line.starts_with([' ', '\t'])) {
        text.push(' ');
        text.push_str(strip_yaml_comment(line.trim()));
    }
    match text.trim() {
        "null" | "~" => String::new(),
        text => text.to_owned(),
    }
}

fn strip_yaml_comment(text: &str) -> &str {
    if text.starts_with('#') {
        return "";
    }
    text.split_once(" #").map_or(text, |(text, _)| text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let read = parse_flat_mapping(text);
        let read: Vec<(&str, &str)> = read.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn plain_scalars_keep_colons_and_backslashes_and_lose_comments() {
        check("cwd: C:\\work\\a: b\r\nn: 0 # none\r\n", &[("cwd", "C:\\work\\a: b"), ("n", "0")]);
        check("at: 2026-04-06T08:41:14.789Z\n", &[("at", "2026-04-06T08:41:14.789Z")]);
        check("a: one\n  two\nb:\nc: ~\n", &[("a", "one two"), ("b", ""), ("c", "")]);
        check("tag: a#b\n# note\n---\nx: 1", &[("tag", "a#b"), ("x", "1")]);
    }

    #[test]
    fn quoted_scalars_are_unescaped() {
        check(r#"a: "x\r\ny \"q\" \\ \u00e9 \ud83d\ude00""#, &[("a", "x\r\ny \"q\" \\ é 😀")]);
        check("a: 'it''s: # fine'\n", &[("a", "it's: # fine")]);
        check("a: \"one\n  two\"\nb: 1\n", &[("a", "one two"), ("b", "1")]);
        check("a: \"never closed\nb: 1\n", &[("a", "never closed"), ("b", "1")]);
    }

    #[test]
    fn blocks_keep_their_lines_and_folded_ones_do_not() {
        check("a: |-\n  one\n\n    two\nb: 1\n", &[("a", "one\n\n  two"), ("b", "1")]);
        check("a: |\n  one\n\nb: 1\n", &[("a", "one"), ("b", "1")]);
        check("a: |+\n  one\n\nb: 1\n", &[("a", "one\n"), ("b", "1")]);
        check("a: >-\n  one\n  two\n\n  three\nb: 1\n", &[("a", "one two\nthree"), ("b", "1")]);
        check("a: |2-\n   one\n", &[("a", " one")]);
        check("a: |-\n  key: not one\n", &[("a", "key: not one")]);
    }

    #[test]
    fn what_is_nested_is_passed_over() {
        check("list:\n- a\n- b\nx: 1\n", &[("list", ""), ("x", "1")]);
        check("map:\n  inner: 1\nx: 1\n", &[("map", "inner: 1"), ("x", "1")]);
    }
}
