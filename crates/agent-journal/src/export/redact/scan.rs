//! Looks through a text once for the words that secrets come with, and around each of them for the
//! secret. A text without such a word costs one pass.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use super::likeness::randomness;
use super::names::{self, Strength};
use super::rules::{Body, Check, PATTERNS, TOKENS, Token};
use super::{assigned, commands, judge, pem};

/// A secret in a text: its kind, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) rule: &'static str,
    pub(super) range: Range<usize>,
}

/// What a word leads to.
#[derive(Clone, Copy)]
enum Lead {
    Token(usize),
    Pattern(usize),
    Name,
    Command,
    Key,
    EncodedKey,
    Jwt,
    Cookie,
    Address,
    Basic,
}

struct Scanner {
    words: AhoCorasick,
    leads: Vec<Lead>,
    /// Made when they are first tried: that takes longer than most texts.
    patterns: Vec<OnceLock<Regex>>,
    address: OnceLock<Regex>,
}

/// What `-----BEGIN` is in base64.
const ENCODED_BEGIN: &str = "LS0tLS1CRUdJTi";

/// The longest text that a pattern is tried on, behind its word.
const AHEAD: usize = 600;

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let mut words: Vec<(&str, Lead)> = Vec::new();
    words.extend(TOKENS.iter().enumerate().map(|(at, token)| (token.prefix, Lead::Token(at))));
    words.extend(PATTERNS.iter().enumerate().map(|(at, one)| (one.word, Lead::Pattern(at))));
    words.extend(names::WORDS.iter().map(|word| (*word, Lead::Name)));
    words.extend(commands::words().map(|word| (word, Lead::Command)));
    words.extend([
        (pem::WORD, Lead::Key),
        (ENCODED_BEGIN, Lead::EncodedKey),
        ("eyJ", Lead::Jwt),
        ("cookie", Lead::Cookie),
        ("://", Lead::Address),
        ("basic", Lead::Basic),
    ]);
    Scanner {
        words: AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words.iter().map(|(word, _)| word))
            .expect("the words are few"),
        leads: words.iter().map(|(_, lead)| *lead).collect(),
        patterns: PATTERNS.iter().map(|_| OnceLock::new()).collect(),
        address: OnceLock::new(),
    }
});

/// `://user:value@host`
const ADDRESS: &str =
    r#"^://[^ \t\r\n:/@"'<>`\\]{0,80}:([^ \t\r\n/"'<>`\\]{3,120})@[0-9A-Za-z_\[]"#;

fn compiled<'r>(place: &'r OnceLock<Regex>, pattern: &str) -> &'r Regex {
    place.get_or_init(|| Regex::new(pattern).expect("the patterns are constants"))
}

/// Whether a text has a word that secrets come with.
pub(super) fn has_word(text: &str) -> bool {
    SCANNER.words.is_match(text)
}

/// Finds the secrets in a text, in order; those that overlap are one.
pub(super) fn matches(text: &str) -> Vec<Match> {
    let mut search = Search { text, scanner: &SCANNER, found: Vec::new(), named: 0 };
    for word in search.scanner.words.find_overlapping_iter(text) {
        let lead = search.scanner.leads[word.pattern().as_usize()];
        search.follow(lead, word.start()..word.end());
    }
    united(search.found)
}

/// Sorts matches, and makes one of those that overlap: the earlier and longer gives its name.
fn united(mut found: Vec<Match>) -> Vec<Match> {
    found.sort_by_key(|one| (one.range.start, usize::MAX - one.range.len(), one.rule == "secret"));
    let mut kept: Vec<Match> = Vec::with_capacity(found.len());
    for one in found {
        match kept.last_mut() {
            Some(last) if one.range.start < last.range.end => {
                last.range.end = last.range.end.max(one.range.end);
            }
            _ => kept.push(one),
        }
    }
    kept
}

struct Search<'t> {
    text: &'t str,
    scanner: &'static Scanner,
    found: Vec<Match>,
    /// Where the name ends that was looked at last.
    named: usize,
}

impl Search<'_> {
    fn follow(&mut self, lead: Lead, word: Range<usize>) {
        match lead {
            Lead::Token(at) => self.token(&TOKENS[at], word.start),
            Lead::Pattern(at) => self.pattern(at, word),
            Lead::Name => self.name(word),
            Lead::Command => {
                let found = &mut self.found;
                commands::passwords_at(self.text, word, &mut |range| {
                    found.push(Match { rule: "password", range });
                });
            }
            Lead::Key => {
                let key = pem::key_at(self.text, word);
                self.add("private-key", key);
            }
            Lead::EncodedKey => self.encoded_key(word.start),
            Lead::Jwt => self.jwt(word.start),
            Lead::Cookie => self.cookies(word),
            Lead::Address => self.address(word.start),
            Lead::Basic => self.basic(word.end),
        }
    }

    fn add(&mut self, rule: &'static str, range: Option<Range<usize>>) {
        self.found.extend(range.map(|range| Match { rule, range }));
    }

    /// Whether a token may begin at a place: not inside of a word.
    fn begins(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        match at.checked_sub(1).map(|before| bytes[before]) {
            None => true,
            // `\n` before a token in a string is no letter of a word.
            Some(b'n' | b't' | b'r') => at >= 2 && bytes[at - 2] == b'\\',
            // `%3D` before a token in an address.
            Some(byte) if byte.is_ascii_hexdigit() => {
                at >= 3 && bytes[at - 3] == b'%' && bytes[at - 2].is_ascii_digit()
            }
            Some(byte) => !byte.is_ascii_alphanumeric() && byte != b'_',
        }
    }

    fn token(&mut self, token: &Token, at: usize) {
        let text = self.text;
        if !text[at..].starts_with(token.prefix) || !self.begins(at) {
            return;
        }
        let from = at + token.prefix.len();
        let length = body_length(text.as_bytes(), from, token.body, token.max + 1);
        let mut end = from + length;
        let is_long_enough = length >= token.min;
        if length < token.max
            && let Some(wrapped) = wrapped_end(text, at, end, token, is_long_enough)
        {
            end = wrapped;
        } else if !is_long_enough || length > token.max && token.min == token.max {
            return;
        }
        // A sentence ends after a token, a token does not end in a dot.
        while matches!(text.as_bytes()[end - 1], b'.' | b'-' | b'_') && end > from {
            end -= 1;
        }
        let body = text.get(from..end).unwrap_or_default();
        let is_one = match token.check {
            Check::Form | Check::Value => !judge::is_blank(body),
            Check::Random => !judge::is_stand_in(body) && randomness(body) > 0.0,
        };
        if is_one {
            self.found.push(Match { rule: token.name, range: at..end });
        }
    }

    fn pattern(&mut self, at: usize, word: Range<usize>) {
        let rule = &PATTERNS[at];
        let mut start = word.start.saturating_sub(rule.back);
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = self.text.len().min(word.end + AHEAD);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let Some(captures) =
            compiled(&self.scanner.patterns[at], rule.regex).captures(&self.text[start..end])
        else {
            return;
        };
        let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else { return };
        let value = secret.as_str().trim_end_matches('.');
        let is_one = match rule.check {
            Check::Form => !judge::is_blank(value),
            Check::Value => !judge::is_stand_in(value) && !judge::is_reference(value),
            Check::Random => {
                !judge::is_stand_in(value) && !judge::is_code(value) && is_random(value)
            }
        };
        if is_one {
            let from = start + secret.start();
            self.found.push(Match { rule: rule.name, range: from..from + value.len() });
        }
    }

    fn name(&mut self, word: Range<usize>) {
        // `aws_secret_access_key` has several words and is one name.
        if word.start < self.named {
            return;
        }
        let Some(name) = names::name_at(self.text, word.clone()) else { return };
        self.named = name.range.end;
        let is_login = name.strength == Strength::Weak
            && self.text[name.range.clone()].eq_ignore_ascii_case("auth");
        if let Some(value) = assigned::value_after(self.text, &name)
            && let Some(text) = self.text.get(value.range.clone())
        {
            let is_one =
                assigned::is_secret(text, name.strength, value.place, name.doubt + value.doubt)
                    || is_login
                        && (judge::is_encoded_login(text) || is_second(self.text, &value, text));
            if is_one {
                let range = self.unwrapped(value.range);
                self.found.push(Match { rule: "secret", range });
            }
        }
        if name.strength > Strength::Weak {
            self.column(&name);
        }
    }

    fn column(&mut self, name: &names::Name) {
        for value in assigned::column(self.text, name) {
            let Some(text) = self.text.get(value.range.clone()) else { continue };
            if assigned::is_secret(text, name.strength, value.place, name.doubt) {
                self.found.push(Match { rule: "secret", range: value.range });
            }
        }
    }

    /// Adds what a terminal or an editor moved to the next line.
    fn unwrapped(&self, range: Range<usize>) -> Range<usize> {
        let before = assigned::line_before(self.text, range.start).len();
        let is_full = before + range.len() >= 76 && range.len() >= 24;
        let next = continuation(self.text, range.end).filter(|_| is_full);
        let Some(next) = next else { return range };
        let length = body_length(self.text.as_bytes(), next, Body::Base64, 200);
        let is_rest = length >= 4 && ends_line(self.text, next + length);
        let is_more = is_rest && randomness(&self.text[next..next + length]) > 4.0;
        if is_more { range.start..next + length } else { range }
    }

    fn jwt(&mut self, at: usize) {
        let bytes = self.text.as_bytes();
        if !self.text[at..].starts_with("eyJ") || !self.begins(at) {
            return;
        }
        let head = body_length(bytes, at, Body::Word, 4096);
        let mut end = at + head;
        let mut parts = 1;
        while bytes.get(end) == Some(&b'.') && parts < 5 {
            let part = body_length(bytes, end + 1, Body::Word, 16 << 10);
            if part == 0 {
                break;
            }
            end += 1 + part;
            parts += 1;
        }
        let token = &self.text[at..end];
        let is_whole = head >= 12 && parts >= 2 && token[head..].starts_with(".eyJ");
        let names = ["\"alg\"", "\"typ\"", "\"enc\"", "\"kid\"", "\"auths\"", "\"private_key\""];
        let is_one = is_whole || head >= 16 && judge::is_encoded_json(&token[..head], &names);
        if !is_one {
            return;
        }
        // A line may end anywhere in it.
        let mut next = continuation(self.text, end);
        while let Some(from) = next {
            let length = body_length(bytes, from, Body::Dotted, 4096);
            if length < 8
                || !ends_line(self.text, from + length)
                || randomness(&self.text[from..from + length]) < 8.0
            {
                break;
            }
            end = from + length;
            next = continuation(self.text, end);
        }
        self.found.push(Match { rule: "jwt", range: at..end });
    }

    fn encoded_key(&mut self, at: usize) {
        use base64::Engine;
        let bytes = self.text.as_bytes();
        if !self.text[at..].starts_with(ENCODED_BEGIN) || !self.begins(at) {
            return;
        }
        let length = body_length(bytes, at, Body::Base64, 64 << 10);
        let begin = &self.text[at..at + length.min(64) / 4 * 4];
        let plain = base64::engine::general_purpose::STANDARD.decode(begin).unwrap_or_default();
        if memchr::memmem::find(&plain, b"PRIVATE KEY").is_some() {
            self.found.push(Match { rule: "private-key", range: at..at + length });
        }
    }

    /// `Cookie: session=value; theme=dark`
    fn cookies(&mut self, word: Range<usize>) {
        let bytes = self.text.as_bytes();
        let mut at = word.end;
        let is_mark =
            |byte: &u8| matches!(byte, b'"' | b'\'' | b'\\' | b' ' | b':' | b'=' | b',' | b'`');
        at += usize::from(matches!(bytes.get(at), Some(b's' | b'S')));
        at += bytes[at..].iter().take(8).take_while(|byte| is_mark(byte)).count();
        for _ in 0..40 {
            let is_name =
                |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            let name = bytes[at..].iter().take(64).take_while(is_name).count();
            if name == 0 || bytes.get(at + name) != Some(&b'=') {
                return;
            }
            let from = at + name + 1;
            let is_value = |byte: &&u8| {
                !byte.is_ascii_whitespace()
                    && !matches!(byte, b';' | b'"' | b'\'' | b'`' | b'\\' | b',')
            };
            let length = bytes[from..].iter().take(4096).take_while(is_value).count();
            let value = self.text.get(from..from + length).unwrap_or_default();
            if is_cookie(&self.text[at..at + name], value) {
                self.found.push(Match { rule: "cookie", range: from..from + length });
            }
            at = from + length;
            let gap =
                bytes[at..].iter().take(4).take_while(|byte| matches!(byte, b';' | b' ')).count();
            if gap == 0 {
                return;
            }
            at += gap;
            // `Path=/; HttpOnly`
            while let Some(flag) = ["Secure; ", "HttpOnly; ", "Partitioned; "]
                .iter()
                .find(|flag| self.text[at..].starts_with(**flag))
            {
                at += flag.len();
            }
        }
    }

    /// `postgres://user:value@host`
    fn address(&mut self, at: usize) {
        let before = at.checked_sub(1).map(|before| self.text.as_bytes()[before]);
        if !before.is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return;
        }
        let mut end = self.text.len().min(at + 260);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let Some(captures) = compiled(&self.scanner.address, ADDRESS).captures(&self.text[at..end])
        else {
            return;
        };
        let Some(secret) = captures.get(1) else { return };
        let value = secret.as_str();
        let is_other = judge::is_stand_in(value)
            || judge::is_reference(value)
            || value.starts_with(['{', '$', '<']);
        if !is_other && (judge::is_mixed(value) || randomness(value) > -2.0) {
            self.found.push(Match {
                rule: "url-password",
                range: at + secret.start()..at + secret.end(),
            });
        }
    }

    /// `Authorization: Basic dXNlcjp2YWx1ZQ==`
    fn basic(&mut self, end: usize) {
        let bytes = self.text.as_bytes();
        let gap = bytes[end..].iter().take(3).take_while(|byte| **byte == b' ').count();
        let from = end + gap;
        let length = body_length(bytes, from, Body::Base64, 400);
        if gap > 0 && length >= 8 && judge::is_encoded_login(&self.text[from..from + length]) {
            self.found.push(Match { rule: "authorization", range: from..from + length });
        }
    }
}

/// Whether the value of `auth` is the second of a pair.
fn is_second(text: &str, value: &assigned::Value, password: &str) -> bool {
    let before = text[..value.range.start].trim_end_matches(['"', '\'', '\\', ' ']);
    value.place == assigned::Place::Element
        && before.ends_with(',')
        && assigned::is_secret(password, Strength::Password, value.place, 0.0)
}

/// Whether the value of a cookie lets somebody in.
fn is_cookie(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_telling = ["sess", "sid", "auth", "token", "jwt", "login", "csrf", "xsrf"]
        .iter()
        .any(|word| lower.contains(word));
    let bits = randomness(value);
    if judge::is_stand_in(value) || judge::is_reference(value) {
        return false;
    }
    is_telling && value.len() >= 8 && bits > 2.0 || value.len() >= 16 && bits > 12.0
}

/// Whether a value of at least 20 characters or so looks random.
fn is_random(value: &str) -> bool {
    randomness(value) > 4.0
}

fn body_length(bytes: &[u8], from: usize, body: Body, most: usize) -> usize {
    bytes
        .get(from..)
        .unwrap_or_default()
        .iter()
        .take(most)
        .take_while(|byte| body.has(**byte))
        .count()
}

/// Returns where a line goes on that ends at a place.
fn continuation(text: &str, end: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = end + usize::from(bytes.get(end) == Some(&b'\\'));
    at += usize::from(bytes.get(at) == Some(&b'\r'));
    if bytes.get(at) != Some(&b'\n') {
        return None;
    }
    at += 1;
    Some(at + bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count())
}

fn ends_line(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_none_or(|byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\' | b'`' | b',' | b';')
    })
}

/// Returns the end of a token that goes on in the next line.
fn wrapped_end(
    text: &str,
    start: usize,
    end: usize,
    token: &Token,
    is_whole: bool,
) -> Option<usize> {
    let next = continuation(text, end)?;
    let so_far = end - start - token.prefix.len();
    let length = body_length(text.as_bytes(), next, token.body, token.max - so_far.min(token.max));
    if length < 2 || !ends_line(text, next + length) || so_far < 4 {
        return None;
    }
    let rest = &text[next..next + length];
    let joined = format!("{}{rest}", &text[start + token.prefix.len()..end]);
    let column = end - start + assigned::line_before(text, start).len();
    let fits = if is_whole {
        column >= 60 && length >= 8 && randomness(rest) > 8.0
    } else {
        joined.len() >= token.min
            && randomness(&joined) > 12.0
            && (length < 6 || randomness(rest) > 0.0)
    };
    fits.then_some(next + length)
}
