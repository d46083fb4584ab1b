//! Finds names whose values are secrets: `DB_PASSWORD`, `apiKey`, `--token`, "the API key".

use std::ops::Range;

/// The strength of a name as evidence for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// A key of some kind. Only a random value is a secret.
    Weak,
    /// A token, a secret, a key to something.
    Key,
    /// A password. People choose words, so the value need not be random.
    Password,
}

/// A name in a text whose value may be a secret.
#[derive(Clone, Debug)]
pub(super) struct SecretName {
    pub(super) range: Range<usize>,
    pub(super) strength: Strength,
    /// The bits of randomness that a value needs in addition, because the name has further words.
    pub(super) doubt: f64,
    /// Whether the name is written like an environment variable.
    pub(super) is_upper: bool,
    /// Whether dashes precede the name, as for an option of a command.
    pub(super) is_option: bool,
}

/// Words that the scanner searches for to find names.
pub(super) const WORDS: &[&str] =
    &["pass", "pwd", "secret", "token", "key", "credential", "auth", "sig"];

const PASSWORDS: &[&str] = &["password", "passwd", "passphrase", "pwd", "passwort", "passcode"];

const SECRETS: &[&str] = &[
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "accountkey",
    "masterkey",
];

/// Words before `key` that make it a secret.
const KEYS_TO: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "auth",
    "account",
    "master",
    "license",
    "admin",
    "deploy",
    "storage",
    "shared",
    "subscription",
    "client",
    "webhook",
    "hmac",
    "jwt",
    "service",
    "app",
    "application",
    "integration",
    "ingest",
    "server",
];

/// Words after a secret's name that make it a fact about the secret, such as its length.
const ABOUT: &[&str] = &[
    "name",
    "names",
    "type",
    "types",
    "id",
    "ids",
    "count",
    "counts",
    "length",
    "len",
    "size",
    "path",
    "paths",
    "file",
    "files",
    "dir",
    "url",
    "uri",
    "urls",
    "ref",
    "refs",
    "field",
    "fields",
    "limit",
    "limits",
    "expires",
    "expiry",
    "expiration",
    "expire",
    "ttl",
    "kind",
    "kinds",
    "index",
    "idx",
    "prefix",
    "suffix",
    "header",
    "headers",
    "label",
    "hash",
    "hashes",
    "digest",
    "hint",
    "policy",
    "rules",
    "regex",
    "pattern",
    "format",
    "input",
    "output",
    "usage",
    "endpoint",
    "provider",
    "store",
    "manager",
    "service",
    "generator",
    "validator",
    "vault",
    "arn",
    "scope",
    "scopes",
    "algorithm",
    "alg",
    "method",
    "mode",
    "status",
    "state",
    "error",
    "errors",
    "message",
    "title",
    "placeholder",
    "description",
    "min",
    "max",
    "required",
    "enabled",
    "version",
    "created",
    "updated",
    "at",
    "age",
    "days",
    "source",
    "class",
    "stdin",
    "prompt",
    "address",
    "budget",
    "counter",
    "stream",
    "tree",
    "list",
    "set",
    "map",
    "range",
    "position",
    "offset",
    "start",
    "end",
    "span",
    "event",
    "handler",
    "callback",
    "fn",
    "func",
    "function",
    "rotation",
    "fingerprint",
    "usages",
    "ops",
    "schema",
    "table",
    "column",
    "encoding",
    "parameter",
    "params",
    "info",
    "entry",
    "pair",
    "pairs",
    "bits",
    "bytes",
    "of",
    "for",
    "from",
];

/// Words after a secret's name that do not change its meaning.
const STILL: &[&str] = &[
    "value",
    "prod",
    "production",
    "dev",
    "staging",
    "test",
    "live",
    "base",
    "default",
    "primary",
    "secondary",
    "old",
    "new",
    "current",
    "data",
    "plain",
    "text",
    "string",
    "main",
    "local",
    "backup",
];

/// The maximum length of a name before and after the word, in bytes.
const LONGEST: usize = 48;

/// Returns the name around a word in a text, if its value may be a secret.
pub(super) fn name_at(text: &str, word: Range<usize>) -> Option<SecretName> {
    let bytes = text.as_bytes();
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let left = bytes[..word.start].iter().rev().take(LONGEST).take_while(is_part).count();
    let right = bytes[word.end..].iter().take(LONGEST).take_while(is_part).count();
    if left == LONGEST || right == LONGEST {
        return None;
    }
    let mut range = word.start - left..word.end + right;
    let dashes = bytes[range.clone()].iter().take_while(|byte| **byte == b'-').count();
    range.start += dashes;
    while range.end > word.end && matches!(bytes[range.end - 1], b'-' | b'_') {
        range.end -= 1;
    }
    let name = text.get(range.clone())?;
    // `AWS::IAM::AccessKey` is a type.
    if text[..range.start].ends_with("::") {
        return None;
    }
    let (strength, doubt) = name_strength(name, preceding_word(text, range.start))?;
    Some(SecretName {
        strength,
        doubt,
        is_upper: !name.bytes().any(|byte| byte.is_ascii_lowercase()) && name.len() >= 3,
        is_option: dashes > 0,
        range,
    })
}

/// Returns the strength of a field name, and the bits of randomness that its value needs in
/// addition.
pub(super) fn strength_of(name: &str) -> Option<(Strength, f64)> {
    if name.len() > 2 * LONGEST {
        return None;
    }
    name_strength(name, "")
}

/// Returns the word before a position, if only a single space is between them.
fn preceding_word(text: &str, at: usize) -> &str {
    let Some(head) = text[..at].strip_suffix(' ') else { return "" };
    let word = head.bytes().rev().take(16).take_while(u8::is_ascii_alphabetic).count();
    &head[head.len() - word..]
}

fn name_strength(name: &str, before: &str) -> Option<(Strength, f64)> {
    let mut parts: [&str; 12] = [""; 12];
    let count = split_name(name, &mut parts);
    let parts = &parts[..count];
    if parts.iter().any(|part| is_any(part, &["public", "publishable", "pub"])) {
        return None;
    }
    let (at, strength) = parts.iter().enumerate().rev().find_map(|(at, part)| {
        let ends = |words: &[&str]| words.iter().any(|word| ends_with(part, word));
        let is_key = part.eq_ignore_ascii_case("key") || part.eq_ignore_ascii_case("keys");
        let owner = if at > 0 { parts[at - 1] } else { before };
        if ends(PASSWORDS) || is_any(part, &["pass", "pw"]) {
            Some((at, Strength::Password))
        } else if is_key && is_any(owner, KEYS_TO) || ends(SECRETS) {
            Some((at, Strength::Key))
        } else if is_key
            || is_any(part, &["sig", "signature"])
            || is_any(part, &["authorization", "auth"]) && count == at + 1
        {
            Some((at, Strength::Weak))
        } else {
            None
        }
    })?;
    let rest = &parts[at + 1..];
    if rest.iter().any(|part| is_any(part, ABOUT)) {
        return None;
    }
    let is_plain = |part: &&str| is_any(part, STILL) || part.len() <= 3;
    Some((strength, if rest.iter().all(is_plain) { 0.0 } else { 6.0 }))
}

fn is_any(part: &str, words: &[&str]) -> bool {
    words.iter().any(|word| part.eq_ignore_ascii_case(word))
}

fn ends_with(part: &str, word: &str) -> bool {
    let at = part.len().checked_sub(word.len());
    at.and_then(|at| part.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

/// Splits a name at separators, between a lower-case and an upper-case letter, and around digits.
fn split_name<'n>(name: &'n str, parts: &mut [&'n str; 12]) -> usize {
    let bytes = name.as_bytes();
    let (mut start, mut count) = (0, 0);
    for at in 0..=bytes.len() {
        let is_sign = at < bytes.len() && !bytes[at].is_ascii_alphanumeric();
        let is_edge = at == bytes.len()
            || is_sign
            || at > start && bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase()
            || at > start && bytes[at - 1].is_ascii_digit() != bytes[at].is_ascii_digit()
            || at > start
                && bytes[at].is_ascii_uppercase()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)
                && bytes[at - 1].is_ascii_uppercase();
        if !is_edge {
            continue;
        }
        if at > start && count < parts.len() {
            parts[count] = name.get(start..at).unwrap_or_default();
            count += 1;
        }
        start = if is_sign { at + 1 } else { at };
    }
    count
}
