//! Whether something that is shaped like a secret is one.

use super::rules::Check;

/// Beginnings and parts of values that stand for a secret instead of being one.
const STAND_INS: &[&str] = &[
    "example",
    "changeme",
    "change-me",
    "change_me",
    "your_",
    "your-",
    "yourkey",
    "placeholder",
    "redacted",
    "dummy",
    "sample",
    "xxxx",
    "****",
    "....",
    "…",
    "12345678",
    "abcdef",
    "process.env",
    "os.environ",
    "getenv",
    "env.",
    "secrets.",
    "undefined",
    "null",
    "fixme",
];

/// Parts of values that nobody could take for a secret, however they begin.
const BLANKS: &[&str] = &["example", "xxxx", "****", "....", "…", "your-", "your_", "redacted"];

/// Decides.
pub(super) fn is_secret(text: &str, check: Check) -> bool {
    match check {
        Check::Any => !is_blank(text),
        Check::Mixed => !is_stand_in(text) && entropy(text) >= 3.2 && has_digit(text),
        Check::Assigned => is_value(text),
    }
}

/// Whether the value of a telling name is more than code or a word.
fn is_value(text: &str) -> bool {
    let starts_odd = text.starts_with(['$', '%', '@', '/', '.', '#', '-', '=', '\\', '~', '*']);
    if starts_odd || is_stand_in(text) || text.contains("://") || is_path(text) {
        return false;
    }
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_sign = text.bytes().any(|byte| b"!@#$%^&*+~?".contains(&byte));
    let looks_random = has_digit(text) || has_sign;
    has_letter && looks_random && entropy(text) >= 2.7 && !is_code(text)
}

/// A member, a call or an identifier: `config.token1`, `self.key`, `sha256_hash`.
fn is_code(text: &str) -> bool {
    let is_name = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && digits <= 2
    };
    if is_type(text) {
        return true;
    }
    let dotted = text.contains('.') || text.contains("::");
    if dotted && text.split(['.', ':']).filter(|part| !part.is_empty()).all(is_name) {
        return true;
    }
    // Words joined by dashes or underscores, with a number somewhere.
    let mut words = text.split(['_', '-']);
    text.contains(['_', '-'])
        && words.all(|word| {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            digits == word.len() && word.len() <= 4 || digits <= 1 && word.len() <= 12
        })
}

/// The name of a type with a number in it: `Uint8Array`.
fn is_type(text: &str) -> bool {
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let Some(at) = text.find(|one: char| one.is_ascii_digit()) else { return false };
    let after = text.get(at + digits..).unwrap_or_default();
    is_word
        && digits <= 3
        && text.starts_with(|one: char| one.is_ascii_uppercase())
        && after.starts_with(|one: char| one.is_ascii_uppercase())
}

fn is_path(text: &str) -> bool {
    let slashes = text.matches(['/', '\\']).count();
    slashes >= 2 && text.split(['/', '\\']).all(|part| part.len() <= 24 && !part.contains('='))
}

fn is_stand_in(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    STAND_INS.iter().any(|word| lower.contains(word))
}

fn is_blank(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    BLANKS.iter().any(|word| lower.contains(word))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let total = text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    shares.map(|share| -share * share.log2()).sum()
}
