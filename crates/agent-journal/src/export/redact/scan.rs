//! Scans a text once for trigger words, and searches around each of them for the secret. A text
//! without a trigger word costs one pass.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use super::likeness::randomness_bits;
use super::names::{self, Strength};
use super::rules::{PATTERNS, TOKENS, TokenAlphabet, TokenCheck, TokenKind};
use super::{assigned, commands, judge, pem};

/// A secret in a text: its kind and its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretMatch {
    pub(super) rule: &'static str,
    pub(super) range: Range<usize>,
}

/// The search that a trigger word starts.
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
    /// Compiled at their first use, because compiling takes longer than scanning most texts.
    patterns: Vec<OnceLock<Regex>>,
    address: OnceLock<Regex>,
}

/// The beginning of `-----BEGIN` in Base64.
const ENCODED_BEGIN: &str = "LS0tLS1CRUdJTi";

/// The number of bytes after its trigger word that a pattern is applied to.
const AHEAD: usize = 600;

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let mut words: Vec<(&str, Lead)> = Vec::new();
    words.extend(TOKENS.iter().enumerate().map(|(at, token)| (token.prefix, Lead::Token(at))));
    words.extend(PATTERNS.iter().enumerate().map(|(at, one)| (one.word, Lead::Pattern(at))));
    words.extend(names::WORDS.iter().map(|word| (*word, Lead::Name)));
    words.extend(commands::command_words().map(|word| (word, Lead::Command)));
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

/// Matches the password in `://user:value@host`.
const ADDRESS: &str =
    r#"^://[^ \t\r\n:/@"'<>`\\]{0,80}:([^ \t\r\n/"'<>`\\]{3,120})@[0-9A-Za-z_\[]"#;

fn compiled_regex<'r>(place: &'r OnceLock<Regex>, pattern: &str) -> &'r Regex {
    place.get_or_init(|| Regex::new(pattern).expect("the patterns are constants"))
}

/// Returns whether a text contains a trigger word.
pub(super) fn has_word(text: &str) -> bool {
    SCANNER.words.is_match(text)
}

/// Finds the secrets in a text, in order. Overlapping ones are merged.
pub(super) fn scan_text(text: &str) -> Vec<SecretMatch> {
    let mut search = SecretScan { text, scanner: &SCANNER, found: Vec::new(), named: 0 };
    for word in search.scanner.words.find_overlapping_iter(text) {
        let lead = search.scanner.leads[word.pattern().as_usize()];
        search.follow_lead(lead, word.start()..word.end());
    }
    merge_matches(search.found)
}

/// Sorts matches and merges overlapping ones. The kind of the earlier and longer one is kept.
fn merge_matches(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_by_key(|one| (one.range.start, usize::MAX - one.range.len(), one.rule == "secret"));
    let mut kept: Vec<SecretMatch> = Vec::with_capacity(found.len());
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

struct SecretScan<'t> {
    text: &'t str,
    scanner: &'static Scanner,
    found: Vec<SecretMatch>,
    /// The end of the last name that was examined.
    named: usize,
}

impl SecretScan<'_> {
    fn follow_lead(&mut self, lead: Lead, word: Range<usize>) {
        match lead {
            Lead::Token(at) => self.match_token(&TOKENS[at], word.start),
            Lead::Pattern(at) => self.match_pattern(at, word),
            Lead::Name => self.match_name(word),
            Lead::Command => {
                let found = &mut self.found;
                commands::passwords_at(self.text, word, &mut |range| {
                    found.push(SecretMatch { rule: "password", range });
                });
            }
            Lead::Key => {
                let key = pem::key_at(self.text, word);
                self.add_match("private-key", key);
            }
            Lead::EncodedKey => self.encoded_key(word.start),
            Lead::Jwt => self.match_jwt(word.start),
            Lead::Cookie => self.match_cookies(word),
            Lead::Address => self.match_address(word.start),
            Lead::Basic => self.match_basic_login(word.end),
        }
    }

    fn add_match(&mut self, rule: &'static str, range: Option<Range<usize>>) {
        self.found.extend(range.map(|range| SecretMatch { rule, range }));
    }

    /// Returns whether a token may begin at a position: not inside a word.
    fn may_begin_token(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        match at.checked_sub(1).map(|before| bytes[before]) {
            None => true,
            // The letter of an escape such as `\n` before a token is not part of a word.
            Some(b'n' | b't' | b'r') => at >= 2 && bytes[at - 2] == b'\\',
            // `%3D` before a token in a URL.
            Some(byte) if byte.is_ascii_hexdigit() => {
                at >= 3 && bytes[at - 3] == b'%' && bytes[at - 2].is_ascii_digit()
            }
            Some(byte) => !byte.is_ascii_alphanumeric() && byte != b'_',
        }
    }

    fn match_token(&mut self, token: &TokenKind, at: usize) {
        let text = self.text;
        if !text[at..].starts_with(token.prefix) || !self.may_begin_token(at) {
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
        // A dot after a token ends the sentence and is not part of the token.
        while matches!(text.as_bytes()[end - 1], b'.' | b'-' | b'_') && end > from {
            end -= 1;
        }
        let body = text.get(from..end).unwrap_or_default();
        let is_one = match token.check {
            TokenCheck::Form | TokenCheck::Value => !judge::is_example(body),
            TokenCheck::Random => !judge::is_stand_in(body) && randomness_bits(body) > 0.0,
        };
        if is_one {
            self.found.push(SecretMatch { rule: token.name, range: at..end });
        }
    }

    fn match_pattern(&mut self, at: usize, word: Range<usize>) {
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
            compiled_regex(&self.scanner.patterns[at], rule.regex).captures(&self.text[start..end])
        else {
            return;
        };
        let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else { return };
        let value = secret.as_str().trim_end_matches('.');
        let is_one = match rule.check {
            TokenCheck::Form => !judge::is_example(value),
            TokenCheck::Value => !judge::is_stand_in(value) && !judge::is_reference(value),
            TokenCheck::Random => {
                !judge::is_stand_in(value) && !judge::is_code(value) && is_random(value)
            }
        };
        if is_one {
            let from = start + secret.start();
            self.found.push(SecretMatch { rule: rule.name, range: from..from + value.len() });
        }
    }

    fn match_name(&mut self, word: Range<usize>) {
        // `aws_secret_access_key` contains several trigger words, but is one name.
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
                let range = self.extend_over_wrap(value.range);
                self.found.push(SecretMatch { rule: "secret", range });
            }
        }
        if name.strength > Strength::Weak {
            self.match_column(&name);
        }
    }

    fn match_column(&mut self, name: &names::SecretName) {
        for value in assigned::values_below_heading(self.text, name) {
            let Some(text) = self.text.get(value.range.clone()) else { continue };
            if assigned::is_secret(text, name.strength, value.place, name.doubt) {
                self.found.push(SecretMatch { rule: "secret", range: value.range });
            }
        }
    }

    /// Extends a range by the part of a value that a terminal or an editor wrapped to the next
    /// line.
    fn extend_over_wrap(&self, range: Range<usize>) -> Range<usize> {
        let before = assigned::line_before(self.text, range.start).len();
        let is_full = before + range.len() >= 76 && range.len() >= 24;
        let next = continuation_start(self.text, range.end).filter(|_| is_full);
        let Some(next) = next else { return range };
        let length = body_length(self.text.as_bytes(), next, TokenAlphabet::Base64, 200);
        let is_rest = length >= 4 && ends_line(self.text, next + length);
        let is_more = is_rest && randomness_bits(&self.text[next..next + length]) > 4.0;
        if is_more { range.start..next + length } else { range }
    }

    fn match_jwt(&mut self, at: usize) {
        let bytes = self.text.as_bytes();
        if !self.text[at..].starts_with("eyJ") || !self.may_begin_token(at) {
            return;
        }
        let head = body_length(bytes, at, TokenAlphabet::Word, 4096);
        let mut end = at + head;
        let mut parts = 1;
        while bytes.get(end) == Some(&b'.') && parts < 5 {
            let part = body_length(bytes, end + 1, TokenAlphabet::Word, 16 << 10);
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
        // The token may be wrapped at any position.
        let mut next = continuation_start(self.text, end);
        while let Some(from) = next {
            let length = body_length(bytes, from, TokenAlphabet::Dotted, 4096);
            if length < 8
                || !ends_line(self.text, from + length)
                || randomness_bits(&self.text[from..from + length]) < 8.0
            {
                break;
            }
            end = from + length;
            next = continuation_start(self.text, end);
        }
        self.found.push(SecretMatch { rule: "jwt", range: at..end });
    }

    fn encoded_key(&mut self, at: usize) {
        use base64::Engine;
        let bytes = self.text.as_bytes();
        if !self.text[at..].starts_with(ENCODED_BEGIN) || !self.may_begin_token(at) {
            return;
        }
        let length = body_length(bytes, at, TokenAlphabet::Base64, 64 << 10);
        let begin = &self.text[at..at + length.min(64) / 4 * 4];
        let plain = base64::engine::general_purpose::STANDARD.decode(begin).unwrap_or_default();
        if memchr::memmem::find(&plain, b"PRIVATE KEY").is_some() {
            self.found.push(SecretMatch { rule: "private-key", range: at..at + length });
        }
    }

    /// Finds secrets in `Cookie: session=value; theme=dark`.
    fn match_cookies(&mut self, word: Range<usize>) {
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
                self.found.push(SecretMatch { rule: "cookie", range: from..from + length });
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

    /// Finds the password in `postgres://user:value@host`.
    fn match_address(&mut self, at: usize) {
        let before = at.checked_sub(1).map(|before| self.text.as_bytes()[before]);
        if !before.is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return;
        }
        let mut end = self.text.len().min(at + 260);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let Some(captures) =
            compiled_regex(&self.scanner.address, ADDRESS).captures(&self.text[at..end])
        else {
            return;
        };
        let Some(secret) = captures.get(1) else { return };
        let value = secret.as_str();
        let is_other = judge::is_stand_in(value)
            || judge::is_reference(value)
            || value.starts_with(['{', '$', '<']);
        if !is_other && (judge::is_mixed(value) || randomness_bits(value) > -2.0) {
            self.found.push(SecretMatch {
                rule: "url-password",
                range: at + secret.start()..at + secret.end(),
            });
        }
    }

    /// Finds the login in `Authorization: Basic dXNlcjp2YWx1ZQ==`.
    fn match_basic_login(&mut self, end: usize) {
        let bytes = self.text.as_bytes();
        let gap = bytes[end..].iter().take(3).take_while(|byte| **byte == b' ').count();
        let from = end + gap;
        let length = body_length(bytes, from, TokenAlphabet::Base64, 400);
        if gap > 0 && length >= 8 && judge::is_encoded_login(&self.text[from..from + length]) {
            self.found.push(SecretMatch { rule: "authorization", range: from..from + length });
        }
    }
}

/// Returns whether the value of `auth` is the second of a pair.
fn is_second(text: &str, value: &assigned::Value, password: &str) -> bool {
    let before = text[..value.range.start].trim_end_matches(['"', '\'', '\\', ' ']);
    value.place == assigned::ValueSyntax::Element
        && before.ends_with(',')
        && assigned::is_secret(password, Strength::Password, value.place, 0.0)
}

/// Returns whether the value of a cookie grants access.
fn is_cookie(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let names_access = ["sess", "sid", "auth", "token", "jwt", "login", "csrf", "xsrf"]
        .iter()
        .any(|word| lower.contains(word));
    let bits = randomness_bits(value);
    if judge::is_stand_in(value) || judge::is_reference(value) {
        return false;
    }
    names_access && value.len() >= 8 && bits > 2.0 || value.len() >= 16 && bits > 12.0
}

/// Returns whether a value of about 20 characters or more looks random.
fn is_random(value: &str) -> bool {
    randomness_bits(value) > 4.0
}

fn body_length(bytes: &[u8], from: usize, body: TokenAlphabet, most: usize) -> usize {
    bytes
        .get(from..)
        .unwrap_or_default()
        .iter()
        .take(most)
        .take_while(|byte| body.contains_byte(**byte))
        .count()
}

/// Returns the start of the text on the next line, if a line ends at this position.
fn continuation_start(text: &str, end: usize) -> Option<usize> {
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

/// Returns the end of a token that continues on the next line.
fn wrapped_end(
    text: &str,
    start: usize,
    end: usize,
    token: &TokenKind,
    is_whole: bool,
) -> Option<usize> {
    let next = continuation_start(text, end)?;
    let so_far = end - start - token.prefix.len();
    let length = body_length(text.as_bytes(), next, token.body, token.max - so_far.min(token.max));
    if length < 2 || !ends_line(text, next + length) || so_far < 4 {
        return None;
    }
    let rest = &text[next..next + length];
    let joined = format!("{}{rest}", &text[start + token.prefix.len()..end]);
    let column = end - start + assigned::line_before(text, start).len();
    let fits = if is_whole {
        column >= 60 && length >= 8 && randomness_bits(rest) > 8.0
    } else {
        joined.len() >= token.min
            && randomness_bits(&joined) > 12.0
            && (length < 6 || randomness_bits(rest) > 0.0)
    };
    fits.then_some(next + length)
}
