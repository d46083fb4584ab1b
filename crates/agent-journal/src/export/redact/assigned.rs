//! Finds the value of a name: its position after the name, its quotes, and whether it is a secret.
//! Quotes may be escaped, as in JSON inside JSON, or percent-encoded, as in URLs.

use std::ops::Range;

use super::judge;
use super::likeness::randomness_bits;
use super::names::{self, SecretName, Strength};

/// The syntax around a value. It determines how likely the text is a value and not code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSyntax {
    /// `DB_PASSWORD=value`
    Environment,
    /// `--password value`
    CommandOption,
    /// `<password>value</password>`
    Element,
    /// `name: DB_PASSWORD`, `value: value`
    Pair,
    /// `password = "value"`
    Quoted,
    /// `?key=value`
    AddressQuery,
    /// `| password | value |`
    Cell,
    /// `the password is value`
    Prose,
    /// `password: value`
    Bare,
}

/// A value that is assigned to a name.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) range: Range<usize>,
    pub(super) place: ValueSyntax,
    /// The bits of randomness that the value needs in addition.
    pub(super) doubt: f64,
}

/// The bits that a password gains by mixing letters with digits or signs.
const MIXED: f64 = 20.0;

/// The longest value, in bytes.
const LONGEST: usize = 4096;

/// A quotation mark, with its escapes.
#[derive(Clone, Copy)]
struct Quote {
    byte: u8,
    escapes: usize,
    /// The encoded form of the quote, such as `%22` in URLs; empty if it is a plain character.
    spelled: &'static str,
}

const SPELLED: &[&str] = &["%22", "%27", "&quot;", "&#34;", "&#39;", "\\u0022", "\\u0027"];

/// Returns whether a value is a secret, judged by its name, its context and its characters.
pub(super) fn is_secret(value: &str, strength: Strength, place: ValueSyntax, doubt: f64) -> bool {
    let is_password = strength == Strength::Password;
    if value.len() < shortest_value(strength, place) || value.contains("://") {
        return false;
    }
    let is_other = [
        judge::is_stand_in,
        judge::is_reference,
        judge::is_code,
        judge::is_term,
        judge::is_file_name,
    ];
    if is_other.iter().any(|is_other| is_other(value)) {
        return false;
    }
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic() || byte >= 0x80);
    let is_written = matches!(
        place,
        ValueSyntax::Environment
            | ValueSyntax::CommandOption
            | ValueSyntax::Element
            | ValueSyntax::Quoted
            | ValueSyntax::Pair
    );
    if !has_letter {
        return is_password && is_written && value.bytes().all(|byte| byte.is_ascii_digit());
    }
    let mixed = match place {
        _ if !is_password || doubt > 2.0 || !judge::is_mixed(value) => 0.0,
        // Without quotes, a word such as `Uint8Array` may be a type.
        ValueSyntax::Bare => MIXED / 2.0 - 1.0,
        _ => MIXED,
    };
    randomness_bits(value) + mixed - doubt > least_bits(strength, place)
}

/// Returns whether the name of a field makes its value a secret.
pub(super) fn is_field_secret(name: &str, value: &str) -> bool {
    if value.len() < 6 || value.len() > LONGEST || value.contains(char::is_whitespace) {
        return false;
    }
    let Some((strength, doubt)) = names::strength_of(name) else { return false };
    let is_login = name.eq_ignore_ascii_case("auth") && judge::is_encoded_login(value);
    is_login || is_secret(value, strength, ValueSyntax::Quoted, doubt)
}

fn shortest_value(strength: Strength, place: ValueSyntax) -> usize {
    match (strength, place) {
        (
            Strength::Password,
            ValueSyntax::Environment | ValueSyntax::Element | ValueSyntax::Pair,
        ) => 4,
        (Strength::Password, _) => 6,
        (Strength::Key, ValueSyntax::Prose | ValueSyntax::Cell) => 10,
        (Strength::Key, _) => 8,
        (Strength::Weak, ValueSyntax::AddressQuery) => 12,
        (Strength::Weak, _) => 16,
    }
}

/// Returns the bits of randomness that a value must exceed.
fn least_bits(strength: Strength, place: ValueSyntax) -> f64 {
    match strength {
        Strength::Password => match place {
            ValueSyntax::Environment | ValueSyntax::Element => -60.0,
            ValueSyntax::Pair => -12.0,
            ValueSyntax::Quoted | ValueSyntax::CommandOption | ValueSyntax::AddressQuery => 0.0,
            ValueSyntax::Cell | ValueSyntax::Prose | ValueSyntax::Bare => 4.0,
        },
        Strength::Key => match place {
            ValueSyntax::Environment | ValueSyntax::Pair => -6.0,
            ValueSyntax::Element | ValueSyntax::AddressQuery => -2.0,
            ValueSyntax::Quoted => 2.0,
            ValueSyntax::CommandOption => 0.0,
            ValueSyntax::Cell | ValueSyntax::Bare | ValueSyntax::Prose => 3.0,
        },
        Strength::Weak => match place {
            ValueSyntax::Environment => 10.0,
            ValueSyntax::AddressQuery => 3.0,
            _ => f64::INFINITY,
        },
    }
}

/// Finds the value that is assigned to a name, if there is one.
pub(super) fn value_after(text: &str, name: &SecretName) -> Option<Value> {
    let bytes = text.as_bytes();
    let (closed, is_quoted) = skip_closers(bytes, name.range.end);
    let at = skip_spaces(bytes, closed);
    let left = bytes.get(at..)?;
    match left {
        [b'=', ..] => {
            let more =
                left[1..].iter().take(2).take_while(|byte| matches!(byte, b'=' | b'>')).count();
            let from = at + 1 + more;
            let is_tight = at == name.range.end && more == 0 && !is_blank_byte(bytes.get(from));
            let place = equals_place(bytes, name, is_tight);
            value_after_separator(text, from, place)
        }
        [b':', b':', ..] => None,
        // `arn:aws:secretsmanager:…:secret:name`
        [b':', ..] if text[..name.range.start].ends_with(':') => None,
        [b':', rest @ ..] => {
            let from = at + 1 + usize::from(rest.first() == Some(&b'='));
            typed_value(text, from).or_else(|| value_after_separator(text, from, ValueSyntax::Bare))
        }
        [b'%', b'3', b'D' | b'd' | b'A' | b'a', ..] => percent_encoded_value(text, at + 3),
        [b'>', ..] if at == closed => element_content(text, name, at + 1),
        [b'|', ..] => next_table_cell(text, name, at + 1),
        [b',', ..] if is_quoted => {
            quoted_argument(text, at + 1).or_else(|| value_of_named_pair(text, name, closed))
        }
        // `WITH PASSWORD '…'`
        [b'\'' | b'"', ..] if at > closed && name.strength == Strength::Password => {
            assigned_here(text, at, ValueSyntax::Quoted)
        }
        _ if name.is_option && at > closed => option_value(text, at),
        [b'i', b's' | b'n', b' ' | b':', ..] | [b'w', b'a', b's', b' ', ..] => {
            value_in_sentence(text, at)
        }
        _ => value_of_named_pair(text, name, closed),
    }
}

/// Returns the context of a value after an equals sign.
fn equals_place(bytes: &[u8], name: &SecretName, is_tight: bool) -> ValueSyntax {
    let before = name.range.start.checked_sub(1).and_then(|at| bytes.get(at));
    match before {
        Some(b'?' | b'&') if is_tight => ValueSyntax::AddressQuery,
        _ if is_tight && name.is_option => ValueSyntax::CommandOption,
        _ if is_tight && name.is_upper => ValueSyntax::Environment,
        _ => ValueSyntax::Bare,
    }
}

fn is_blank_byte(byte: Option<&u8>) -> bool {
    byte.is_none_or(u8::is_ascii_whitespace)
}

fn skip_spaces(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Skips the characters that close a name: quotes, brackets, emphasis, marks of optional fields.
/// Returns the position after them, and whether there was a quote.
fn skip_closers(bytes: &[u8], from: usize) -> (usize, bool) {
    let (mut at, mut is_quoted) = (from, false);
    for _ in 0..4 {
        if let Some((_, after)) = quote_at(bytes, at) {
            (at, is_quoted) = (after, true);
            continue;
        }
        match bytes.get(at) {
            Some(b']' | b'*' | b'?' | b'!') => at += 1,
            _ => break,
        }
    }
    (at, is_quoted)
}

/// Reads a quotation mark, with the backslashes before it. Returns it and the position after it.
fn quote_at(bytes: &[u8], at: usize) -> Option<(Quote, usize)> {
    let left = bytes.get(at..)?;
    if matches!(left.first(), Some(b'%' | b'&' | b'\\'))
        && let Some(spelled) = SPELLED.iter().find(|spelled| left.starts_with(spelled.as_bytes()))
    {
        return Some((Quote { byte: 0, escapes: 0, spelled }, at + spelled.len()));
    }
    let escapes = left.iter().take(16).take_while(|byte| **byte == b'\\').count();
    let byte = *left.get(escapes)?;
    let is_quote = matches!(byte, b'"' | b'\'' | b'`');
    is_quote.then_some((Quote { byte, escapes, spelled: "" }, at + escapes + 1))
}

/// Returns the end of a quoted text.
fn end_of_quoted(bytes: &[u8], from: usize, quote: Quote) -> Option<usize> {
    let most = bytes.len().min(from + LONGEST);
    if !quote.spelled.is_empty() {
        let left = &bytes[from..most];
        return memchr::memmem::find(left, quote.spelled.as_bytes()).map(|at| from + at);
    }
    let mut at = from;
    while at < most {
        at += memchr::memchr3(quote.byte, b'\\', b'\n', &bytes[at..most])?;
        match bytes[at] {
            b'\n' => return None,
            b'\\' => {
                let escapes = bytes[at..most].iter().take_while(|byte| **byte == b'\\').count();
                let is_end =
                    bytes.get(at + escapes) == Some(&quote.byte) && escapes <= quote.escapes;
                if is_end && escapes > 0 {
                    return Some(at);
                }
                at += escapes + usize::from(escapes % 2 == 1 || quote.escapes > 0);
            }
            _ => return Some(at),
        }
    }
    None
}

/// Reads the value after a separator.
fn value_after_separator(text: &str, from: usize, place: ValueSyntax) -> Option<Value> {
    let bytes = text.as_bytes();
    let mut at = skip_spaces(bytes, from);
    at += bytes[at..].iter().take(3).take_while(|byte| **byte == b'*').count();
    at = skip_spaces(bytes, at);
    if place == ValueSyntax::Bare
        && let Some(next) = next_line(bytes, at)
    {
        let value = assigned_here(text, next, ValueSyntax::Bare)?;
        let after = text.as_bytes().get(value.range.end);
        if value.place == ValueSyntax::Bare
            && !after.is_none_or(|byte| matches!(byte, b'\n' | b'\r'))
        {
            return None;
        }
        // A value on the next line needs more evidence.
        return Some(Value { doubt: value.doubt + 2.0, ..value });
    }
    assigned_here(text, at, place)
}

/// Returns the start of a YAML value that begins on the next line.
fn next_line(bytes: &[u8], at: usize) -> Option<usize> {
    let marks =
        bytes[at..].iter().take(2).take_while(|byte| matches!(byte, b'|' | b'>' | b'-')).count();
    let end = skip_spaces(bytes, at + marks);
    let end = end + usize::from(bytes.get(end) == Some(&b'\r'));
    if bytes.get(end) != Some(&b'\n') {
        return None;
    }
    let next = skip_spaces(bytes, end + 1);
    (next > end + 1).then_some(next)
}

fn assigned_here(text: &str, at: usize, place: ValueSyntax) -> Option<Value> {
    let bytes = text.as_bytes();
    if let Some((quote, from)) = quote_at(bytes, at) {
        let end = end_of_quoted(bytes, from, quote)?;
        let place = if place == ValueSyntax::Bare { ValueSyntax::Quoted } else { place };
        return quoted_value(text, from..end, place);
    }
    // A string prefix, or a call around the string.
    let is_marked = matches!(bytes.get(at), Some(b'b' | b'f' | b'r' | b'u' | b'@' | b'$'));
    if is_marked && let Some((quote, from)) = quote_at(bytes, at + 1) {
        return quoted_value(text, from..end_of_quoted(bytes, from, quote)?, ValueSyntax::Quoted);
    }
    let is_callee =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'!');
    let callee = bytes[at..].iter().take(48).take_while(is_callee).count();
    if bytes.get(at + callee) == Some(&b'(') {
        let (quote, from) = quote_at(bytes, at + callee + 1)?;
        let value =
            quoted_value(text, from..end_of_quoted(bytes, from, quote)?, ValueSyntax::Quoted)?;
        return tuple_or(text, &value, callee == 0);
    }
    bare_value(text, at, place)
}

/// Returns the second of two quoted texts in parentheses, as in `auth=('me', 'value')`, or the
/// first if there is no second.
fn tuple_or(text: &str, first: &Value, is_tuple: bool) -> Option<Value> {
    let bytes = text.as_bytes();
    if !is_tuple {
        return Some(Value { doubt: 6.0, ..first.clone() });
    }
    let after = quote_at(bytes, first.range.end).map_or(first.range.end, |(_, after)| after);
    let comma = skip_spaces(bytes, after);
    if bytes.get(comma) != Some(&b',') {
        return Some(first.clone());
    }
    let (quote, from) = quote_at(bytes, skip_spaces(bytes, comma + 1))?;
    quoted_value(text, from..end_of_quoted(bytes, from, quote)?, ValueSyntax::Element)
}

fn quoted_value(text: &str, range: Range<usize>, place: ValueSyntax) -> Option<Value> {
    let value = text.get(range.clone())?;
    if value.contains(char::is_whitespace) && place != ValueSyntax::Environment {
        return None;
    }
    Some(Value { range, place, doubt: 0.0 })
}

/// Reads a value without quotes.
fn bare_value(text: &str, from: usize, place: ValueSyntax) -> Option<Value> {
    let bytes = text.as_bytes();
    let ends = |byte: u8| match place {
        ValueSyntax::Environment | ValueSyntax::CommandOption => {
            matches!(byte, b'<' | b'>' | b'|' | b';')
        }
        ValueSyntax::AddressQuery => {
            matches!(byte, b'&' | b'#' | b'<' | b'>' | b')' | b']' | b',' | b'|' | b';')
        }
        _ => matches!(
            byte,
            b',' | b';' | b'<' | b'>' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'|' | b'&'
        ),
    };
    let mut end = from;
    while let Some(byte) = bytes.get(end).copied() {
        let is_escape = byte == b'\\'
            && matches!(bytes.get(end + 1), Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\'));
        let is_over = byte.is_ascii_whitespace()
            || matches!(byte, b'"' | b'\'' | b'`')
            || is_escape
            || ends(byte);
        if is_over || end - from > LONGEST {
            break;
        }
        end += 1;
    }
    // A value followed by a call, an index or a type is code.
    if place == ValueSyntax::Bare && matches!(bytes.get(end), Some(b'(' | b'[' | b'{' | b'<')) {
        return None;
    }
    let value = text.get(from..end)?;
    let trimmed = value.trim_end_matches(['.', ',', ':', ';', '*', ')', '}']);
    Some(Value { range: from..from + trimmed.len(), place, doubt: 0.0 })
}

/// Reads `: type = "value"`.
fn typed_value(text: &str, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let is_type = |byte: &&u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'&' | b'<' | b'>' | b'[' | b']' | b'|' | b'\'' | b'.' | b' ' | b'?' | b':'
            )
    };
    let length = bytes[from..].iter().take(60).take_while(is_type).count();
    if length < 3 || bytes.get(from + length) != Some(&b'=') {
        return None;
    }
    let at = skip_spaces(bytes, from + length + 1);
    let at = at + usize::from(matches!(bytes.get(at), Some(b'b' | b'r' | b'f' | b'u')));
    let (quote, start) = quote_at(bytes, at)?;
    quoted_value(text, start..end_of_quoted(bytes, start, quote)?, ValueSyntax::Quoted)
}

/// Reads a percent-encoded value.
fn percent_encoded_value(text: &str, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let from = from + 3 * usize::from(bytes[from..].starts_with(b"%20"));
    if let Some((quote, start)) = quote_at(bytes, from) {
        let end = end_of_quoted(bytes, start, quote)?;
        return quoted_value(text, start..end, ValueSyntax::Quoted);
    }
    let value = bare_value(text, from, ValueSyntax::AddressQuery)?;
    let written = text.get(value.range.clone())?;
    let ends = ["%26", "%22", "%2C", "%2c", "%7D", "%7d", "%0A", "%0a", "%27"];
    let end = ends.iter().filter_map(|end| written.find(end)).min().unwrap_or(written.len());
    Some(Value { range: from..from + end, ..value })
}

/// Reads the content of an element: `<password>value</password>`.
fn element_content(text: &str, name: &SecretName, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let before = text[..name.range.start].bytes().next_back();
    if !matches!(before, Some(b'<' | b':' | b'"' | b'\'' | b'.')) {
        return None;
    }
    let length = memchr::memchr2(b'<', b'\n', bytes.get(from..bytes.len().min(from + LONGEST))?)?;
    let held = text.get(from..from + length)?;
    let is_closed = bytes[from + length..].starts_with(b"</");
    let value = held.trim();
    let start = from + held.len() - held.trim_start().len();
    let fits = is_closed && !value.is_empty() && !value.contains(char::is_whitespace);
    fits.then_some(Value {
        range: start..start + value.len(),
        place: ValueSyntax::Element,
        doubt: 0.0,
    })
}

/// The longest line of a table, in bytes.
const LONGEST_LINE: usize = 512;

/// Returns the part of a line before a position, limited to `MAX_TABLE_LINE_BYTES`.
pub(super) fn line_before(text: &str, at: usize) -> &str {
    let mut from = at.saturating_sub(LONGEST_LINE);
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let near = &text[from..at];
    near.rfind('\n').map_or(near, |end| &near[end + 1..])
}

/// Reads the next cell of a table row.
fn next_table_cell(text: &str, name: &SecretName, from: usize) -> Option<Value> {
    if !line_before(text, name.range.start).contains('|') {
        return None;
    }
    let line = text.get(from..)?.split('\n').next()?;
    cell_value(text, from..from + line.split('|').next()?.len())
}

fn cell_value(text: &str, range: Range<usize>) -> Option<Value> {
    let held = text.get(range.clone())?;
    let is_frame = |one: char| one.is_whitespace() || matches!(one, '`' | '*' | '"');
    let value = held.trim_matches(is_frame);
    let start = range.start + held.len() - held.trim_start_matches(is_frame).len();
    let fits = !value.is_empty() && !value.contains(char::is_whitespace);
    fits.then_some(Value {
        range: start..start + value.len(),
        place: ValueSyntax::Cell,
        doubt: 0.0,
    })
}

/// Finds the values in the column below a heading.
pub(super) fn values_below_heading(text: &str, name: &SecretName) -> Vec<Value> {
    let number = line_before(text, name.range.start).matches('|').count();
    if number == 0 {
        return Vec::new();
    }
    let ahead = &text.as_bytes()[name.range.end..text.len().min(name.range.end + LONGEST_LINE)];
    let Some(end) = memchr::memchr(b'\n', ahead) else { return Vec::new() };
    let mut at = name.range.end + end + 1;
    if !is_rule(text[at..].split('\n').next().unwrap_or_default()) {
        return Vec::new();
    }
    let mut values = Vec::new();
    for line in text[at..].split('\n').take(200) {
        if !line.contains('|') {
            break;
        }
        let before: usize = line.split('|').take(number).map(|cell| cell.len() + 1).sum();
        if let Some(held) = line.split('|').nth(number) {
            values.extend(cell_value(text, at + before..at + before + held.len()));
        }
        at += line.len() + 1;
    }
    values
}

/// Returns whether a line is the rule below the header of a table: `|---|:-:|`.
fn is_rule(line: &str) -> bool {
    line.contains("--")
        && line.chars().all(|one| matches!(one, '|' | '-' | ':' | ' ' | '\r' | '\t'))
}

/// Reads the next argument, which must be quoted.
fn quoted_argument(text: &str, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let at = from + bytes[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (quote, start) = quote_at(bytes, at)?;
    let value =
        quoted_value(text, start..end_of_quoted(bytes, start, quote)?, ValueSyntax::Quoted)?;
    if text.get(value.range.clone()) == Some("value") {
        return None;
    }
    Some(Value { doubt: 6.0, ..value })
}

/// Reads the word after an option of a command.
fn option_value(text: &str, at: usize) -> Option<Value> {
    if let Some((quote, start)) = quote_at(text.as_bytes(), at) {
        return quoted_value(
            text,
            start..end_of_quoted(text.as_bytes(), start, quote)?,
            ValueSyntax::CommandOption,
        );
    }
    bare_value(text, at, ValueSyntax::CommandOption)
}

/// Reads the value in a sentence: "the password is value".
fn value_in_sentence(text: &str, at: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let verb = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let from = at + verb + usize::from(bytes.get(at + verb) == Some(&b':'));
    let from = skip_spaces(bytes, from);
    if let Some((quote, start)) = quote_at(bytes, from)
        && let Some(end) = end_of_quoted(bytes, start, quote)
    {
        return quoted_value(text, start..end, ValueSyntax::Prose);
    }
    bare_value(text, from, ValueSyntax::Prose)
}

/// Reads the value of a pair whose name is a value itself: `name: DB_PASSWORD`, `value: …`.
fn value_of_named_pair(text: &str, name: &SecretName, closed: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let is_frame = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\');
    let framed = bytes[..name.range.start].iter().rev().take(24).take_while(is_frame).count();
    let before = (name.range.start - framed).checked_sub(1)?;
    if !matches!(bytes[before], b':' | b'=') {
        return None;
    }
    following_pair_value(text, closed)
}

/// Reads a value that follows as `value: …`.
pub(super) fn following_pair_value(text: &str, closed: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let is_between = |byte: &&u8| {
        byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b'"' | b'\'' | b'\\' | b'n')
    };
    let mut at = closed + bytes[closed..].iter().take(64).take_while(is_between).count();
    let word = bytes.get(at..at + 5)?;
    if !word.eq_ignore_ascii_case(b"value") {
        return None;
    }
    (at, _) = skip_closers(bytes, at + 5);
    at = skip_spaces(bytes, at);
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return None;
    }
    let value = assigned_here(text, skip_spaces(bytes, at + 1), ValueSyntax::Pair)?;
    Some(Value { place: ValueSyntax::Pair, ..value })
}
