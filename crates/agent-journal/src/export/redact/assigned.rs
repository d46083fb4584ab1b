//! The value of a name: where it stands behind the name, how it is quoted, and whether it is a
//! secret. Quotes may be escaped, as in JSON inside of JSON, or written as in addresses.

use std::ops::Range;

use super::judge;
use super::likeness::randomness;
use super::names::{self, Name, Strength};

/// Where a value stands, which says how likely it is a value and no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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

/// A value behind a name.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) range: Range<usize>,
    pub(super) place: Place,
    /// Bits more that it has to have.
    pub(super) doubt: f64,
}

/// What a mix of letters with digits or signs counts in a password.
const MIXED: f64 = 20.0;

/// The longest value.
const LONGEST: usize = 4096;

/// A quote, with what escapes it.
#[derive(Clone, Copy)]
struct Quote {
    byte: u8,
    escapes: usize,
    /// Written in full, as `%22` in addresses.
    spelled: &'static str,
}

const SPELLED: &[&str] = &["%22", "%27", "&quot;", "&#34;", "&#39;", "\\u0022", "\\u0027"];

/// Returns whether a value is a secret, by its name, its place and its looks.
pub(super) fn is_secret(value: &str, strength: Strength, place: Place, doubt: f64) -> bool {
    let is_password = strength == Strength::Password;
    if value.len() < shortest(strength, place) || value.contains("://") {
        return false;
    }
    let is_other =
        [judge::is_stand_in, judge::is_reference, judge::is_code, judge::is_term, judge::is_file];
    if is_other.iter().any(|is_other| is_other(value)) {
        return false;
    }
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic() || byte >= 0x80);
    let is_written = matches!(
        place,
        Place::Environment | Place::CommandOption | Place::Element | Place::Quoted | Place::Pair
    );
    if !has_letter {
        return is_password && is_written && value.bytes().all(|byte| byte.is_ascii_digit());
    }
    let mixed = match place {
        _ if !is_password || doubt > 2.0 || !judge::is_mixed(value) => 0.0,
        // `Uint8Array` may be a type here.
        Place::Bare => MIXED / 2.0 - 1.0,
        _ => MIXED,
    };
    randomness(value) + mixed - doubt > least_bits(strength, place)
}

/// Returns whether the name of a field makes a secret of its value.
pub(super) fn is_field_secret(name: &str, value: &str) -> bool {
    if value.len() < 6 || value.len() > LONGEST || value.contains(char::is_whitespace) {
        return false;
    }
    let Some((strength, doubt)) = names::strength_of(name) else { return false };
    let is_login = name.eq_ignore_ascii_case("auth") && judge::is_encoded_login(value);
    is_login || is_secret(value, strength, Place::Quoted, doubt)
}

fn shortest(strength: Strength, place: Place) -> usize {
    match (strength, place) {
        (Strength::Password, Place::Environment | Place::Element | Place::Pair) => 4,
        (Strength::Password, _) => 6,
        (Strength::Key, Place::Prose | Place::Cell) => 10,
        (Strength::Key, _) => 8,
        (Strength::Weak, Place::AddressQuery) => 12,
        (Strength::Weak, _) => 16,
    }
}

/// Returns how many bits of chance a value needs.
fn least_bits(strength: Strength, place: Place) -> f64 {
    match strength {
        Strength::Password => match place {
            Place::Environment | Place::Element => -60.0,
            Place::Pair => -12.0,
            Place::Quoted | Place::CommandOption | Place::AddressQuery => 0.0,
            Place::Cell | Place::Prose | Place::Bare => 4.0,
        },
        Strength::Key => match place {
            Place::Environment | Place::Pair => -6.0,
            Place::Element | Place::AddressQuery => -2.0,
            Place::Quoted => 2.0,
            Place::CommandOption => 0.0,
            Place::Cell | Place::Bare | Place::Prose => 3.0,
        },
        Strength::Weak => match place {
            Place::Environment => 10.0,
            Place::AddressQuery => 3.0,
            _ => f64::INFINITY,
        },
    }
}

/// Finds the value of a name, if one stands behind it.
pub(super) fn value_after(text: &str, name: &Name) -> Option<Value> {
    let bytes = text.as_bytes();
    let (closed, is_quoted) = skip_closers(bytes, name.range.end);
    let at = skip_spaces(bytes, closed);
    let left = bytes.get(at..)?;
    match left {
        [b'=', ..] => {
            let more =
                left[1..].iter().take(2).take_while(|byte| matches!(byte, b'=' | b'>')).count();
            let from = at + 1 + more;
            let is_tight = at == name.range.end && more == 0 && !is_blank(bytes.get(from));
            let place = equals_place(bytes, name, is_tight);
            assigned(text, from, place)
        }
        [b':', b':', ..] => None,
        // `arn:aws:secretsmanager:…:secret:name`
        [b':', ..] if text[..name.range.start].ends_with(':') => None,
        [b':', rest @ ..] => {
            let from = at + 1 + usize::from(rest.first() == Some(&b'='));
            typed(text, from).or_else(|| assigned(text, from, Place::Bare))
        }
        [b'%', b'3', b'D' | b'd' | b'A' | b'a', ..] => encoded(text, at + 3),
        [b'>', ..] if at == closed => element(text, name, at + 1),
        [b'|', ..] => cell(text, name, at + 1),
        [b',', ..] if is_quoted => argument(text, at + 1).or_else(|| pair(text, name, closed)),
        // `WITH PASSWORD '…'`
        [b'\'' | b'"', ..] if at > closed && name.strength == Strength::Password => {
            assigned_here(text, at, Place::Quoted)
        }
        _ if name.is_option && at > closed => option(text, at),
        [b'i', b's' | b'n', b' ' | b':', ..] | [b'w', b'a', b's', b' ', ..] => said(text, at),
        _ => pair(text, name, closed),
    }
}

/// Where a value stands behind an equals sign.
fn equals_place(bytes: &[u8], name: &Name, is_tight: bool) -> Place {
    let before = name.range.start.checked_sub(1).and_then(|at| bytes.get(at));
    match before {
        Some(b'?' | b'&') if is_tight => Place::AddressQuery,
        _ if is_tight && name.is_option => Place::CommandOption,
        _ if is_tight && name.is_upper => Place::Environment,
        _ => Place::Bare,
    }
}

fn is_blank(byte: Option<&u8>) -> bool {
    byte.is_none_or(u8::is_ascii_whitespace)
}

fn skip_spaces(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Passes over what closes a name: quotes, brackets, emphasis, marks of optional fields.
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

/// Reads a quote, with the backslashes before it.
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

/// Finds the end of a quoted text.
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

/// Reads the value behind a separator.
fn assigned(text: &str, from: usize, place: Place) -> Option<Value> {
    let bytes = text.as_bytes();
    let mut at = skip_spaces(bytes, from);
    at += bytes[at..].iter().take(3).take_while(|byte| **byte == b'*').count();
    at = skip_spaces(bytes, at);
    if place == Place::Bare
        && let Some(next) = next_line(bytes, at)
    {
        let value = assigned_here(text, next, Place::Bare)?;
        let after = text.as_bytes().get(value.range.end);
        if value.place == Place::Bare && !after.is_none_or(|byte| matches!(byte, b'\n' | b'\r')) {
            return None;
        }
        // Over two lines only what nobody takes for something else.
        return Some(Value { doubt: value.doubt + 2.0, ..value });
    }
    assigned_here(text, at, place)
}

/// Returns where the value begins that YAML has on the line below.
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

fn assigned_here(text: &str, at: usize, place: Place) -> Option<Value> {
    let bytes = text.as_bytes();
    if let Some((quote, from)) = quote_at(bytes, at) {
        let end = end_of_quoted(bytes, from, quote)?;
        let place = if place == Place::Bare { Place::Quoted } else { place };
        return quoted(text, from..end, place);
    }
    // A letter that says how a string is meant, or a call around it.
    let is_marked = matches!(bytes.get(at), Some(b'b' | b'f' | b'r' | b'u' | b'@' | b'$'));
    if is_marked && let Some((quote, from)) = quote_at(bytes, at + 1) {
        return quoted(text, from..end_of_quoted(bytes, from, quote)?, Place::Quoted);
    }
    let is_callee =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'!');
    let callee = bytes[at..].iter().take(48).take_while(is_callee).count();
    if bytes.get(at + callee) == Some(&b'(') {
        let (quote, from) = quote_at(bytes, at + callee + 1)?;
        let value = quoted(text, from..end_of_quoted(bytes, from, quote)?, Place::Quoted)?;
        return tuple_or(text, &value, callee == 0);
    }
    bare(text, at, place)
}

/// Takes the second of two quoted texts in parentheses: `auth=('me', 'value')`.
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
    quoted(text, from..end_of_quoted(bytes, from, quote)?, Place::Element)
}

fn quoted(text: &str, range: Range<usize>, place: Place) -> Option<Value> {
    let value = text.get(range.clone())?;
    if value.contains(char::is_whitespace) && place != Place::Environment {
        return None;
    }
    Some(Value { range, place, doubt: 0.0 })
}

/// Reads a value without quotes.
fn bare(text: &str, from: usize, place: Place) -> Option<Value> {
    let bytes = text.as_bytes();
    let ends = |byte: u8| match place {
        Place::Environment | Place::CommandOption => matches!(byte, b'<' | b'>' | b'|' | b';'),
        Place::AddressQuery => {
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
    // What goes on as a call, an index or a type is code.
    if place == Place::Bare && matches!(bytes.get(end), Some(b'(' | b'[' | b'{' | b'<')) {
        return None;
    }
    let value = text.get(from..end)?;
    let trimmed = value.trim_end_matches(['.', ',', ':', ';', '*', ')', '}']);
    Some(Value { range: from..from + trimmed.len(), place, doubt: 0.0 })
}

/// Reads `: type = "value"`.
fn typed(text: &str, from: usize) -> Option<Value> {
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
    quoted(text, start..end_of_quoted(bytes, start, quote)?, Place::Quoted)
}

/// Reads a value that is written as in addresses.
fn encoded(text: &str, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let from = from + 3 * usize::from(bytes[from..].starts_with(b"%20"));
    if let Some((quote, start)) = quote_at(bytes, from) {
        let end = end_of_quoted(bytes, start, quote)?;
        return quoted(text, start..end, Place::Quoted);
    }
    let value = bare(text, from, Place::AddressQuery)?;
    let told = text.get(value.range.clone())?;
    let ends = ["%26", "%22", "%2C", "%2c", "%7D", "%7d", "%0A", "%0a", "%27"];
    let end = ends.iter().filter_map(|end| told.find(end)).min().unwrap_or(told.len());
    Some(Value { range: from..from + end, ..value })
}

/// Reads what an element holds: `<password>value</password>`.
fn element(text: &str, name: &Name, from: usize) -> Option<Value> {
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
    fits.then_some(Value { range: start..start + value.len(), place: Place::Element, doubt: 0.0 })
}

/// The longest line of a table.
const LONGEST_LINE: usize = 512;

/// Returns what stands on a line before a place, as far as it is near.
pub(super) fn line_before(text: &str, at: usize) -> &str {
    let mut from = at.saturating_sub(LONGEST_LINE);
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    let near = &text[from..at];
    near.rfind('\n').map_or(near, |end| &near[end + 1..])
}

/// Reads the next cell of a table.
fn cell(text: &str, name: &Name, from: usize) -> Option<Value> {
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
    fits.then_some(Value { range: start..start + value.len(), place: Place::Cell, doubt: 0.0 })
}

/// Finds the values below the heading of a column.
pub(super) fn column(text: &str, name: &Name) -> Vec<Value> {
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

/// The line below the head of a table: `|---|:-:|`.
fn is_rule(line: &str) -> bool {
    line.contains("--")
        && line.chars().all(|one| matches!(one, '|' | '-' | ':' | ' ' | '\r' | '\t'))
}

/// Reads the next argument, which must be quoted.
fn argument(text: &str, from: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let at = from + bytes[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (quote, start) = quote_at(bytes, at)?;
    let value = quoted(text, start..end_of_quoted(bytes, start, quote)?, Place::Quoted)?;
    if text.get(value.range.clone()) == Some("value") {
        return None;
    }
    Some(Value { doubt: 6.0, ..value })
}

/// Reads the word behind an option of a command.
fn option(text: &str, at: usize) -> Option<Value> {
    if let Some((quote, start)) = quote_at(text.as_bytes(), at) {
        return quoted(
            text,
            start..end_of_quoted(text.as_bytes(), start, quote)?,
            Place::CommandOption,
        );
    }
    bare(text, at, Place::CommandOption)
}

/// Reads what a sentence says: "the password is value".
fn said(text: &str, at: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let verb = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let from = at + verb + usize::from(bytes.get(at + verb) == Some(&b':'));
    let from = skip_spaces(bytes, from);
    if let Some((quote, start)) = quote_at(bytes, from)
        && let Some(end) = end_of_quoted(bytes, start, quote)
    {
        return quoted(text, start..end, Place::Prose);
    }
    bare(text, from, Place::Prose)
}

/// Reads the value of a pair whose name is a value itself: `name: DB_PASSWORD`, `value: …`.
fn pair(text: &str, name: &Name, closed: usize) -> Option<Value> {
    let bytes = text.as_bytes();
    let is_frame = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\');
    let framed = bytes[..name.range.start].iter().rev().take(24).take_while(is_frame).count();
    let before = (name.range.start - framed).checked_sub(1)?;
    if !matches!(bytes[before], b':' | b'=') {
        return None;
    }
    paired(text, closed)
}

/// Reads the value that follows as `value: …`.
pub(super) fn paired(text: &str, closed: usize) -> Option<Value> {
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
    let value = assigned_here(text, skip_spaces(bytes, at + 1), Place::Pair)?;
    Some(Value { place: Place::Pair, ..value })
}
