//! Decides whether a value in the position of a secret is one, and not an example, code or words.

use super::likeness::randomness_bits;

/// Words that people write in place of a secret.
const STAND_INS: &[&str] = &[
    "placeholder",
    "undefined",
    "changeme",
    "redacted",
    "password",
    "replace",
    "example",
    "default",
    "removed",
    "passwd",
    "sample",
    "hidden",
    "masked",
    "change",
    "insert",
    "secret",
    "string",
    "access",
    "apikey",
    "foobar",
    "value",
    "token",
    "dummy",
    "fixme",
    "paste",
    "false",
    "bogus",
    "guest",
    "admin",
    "your",
    "here",
    "none",
    "null",
    "todo",
    "fake",
    "some",
    "true",
    "test",
    "pass",
    "user",
    "name",
    "with",
    "this",
    "goes",
    "auth",
    "bearer",
    "client",
    "the",
    "key",
    "api",
    "foo",
    "bar",
    "baz",
    "abc",
    "tbd",
    "and",
    "my",
    "me",
    "in",
    "is",
    "or",
    "of",
    "to",
    "it",
    "a",
];

/// Rows of characters that people type in place of a secret.
const ROWS: &[&str] =
    &["abcdefghijklmnopqrstuvwxyz", "01234567890123456789", "qwertyuiop", "9876543210"];

/// Words that people write in place of a token, even after its prefix: `ghp_your_token_here`.
const BLANKS: &[&str] = &[
    "placeholder",
    "redacted",
    "example",
    "sample",
    "insert",
    "secret",
    "token",
    "dummy",
    "fake",
    "your",
    "here",
    "key",
    "api",
    "my",
];

/// The number of characters outside of placeholder words from which on a value is a secret.
const REST: usize = 6;

/// Returns whether a value is a placeholder: words such as `your_api_key_here`, dots, stars, one
/// repeated character, a row of the keyboard.
pub(super) fn is_stand_in(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    count_informative_characters(&lower, STAND_INS, ROWS) < REST.min(text.len().div_ceil(2))
}

/// Returns whether a text with the form of a token is an example.
pub(super) fn is_example(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.ends_with("EXAMPLE")
        || text.ends_with("EXAMPLEKEY")
        || count_informative_characters(&lower, BLANKS, &[]) < 8.min(text.len().div_ceil(2))
}

/// Counts the letters and digits of a text that belong to no placeholder word, repetition or row.
fn count_informative_characters(lower: &str, words: &[&str], rows: &[&str]) -> usize {
    let bytes = lower.as_bytes();
    let mut rest = 0;
    let mut at = 0;
    while at < bytes.len() {
        let left = &bytes[at..];
        let same = left.iter().take_while(|byte| **byte == left[0]).count();
        let word = if left[0].is_ascii_lowercase() {
            let found = words.iter().find(|word| left.starts_with(word.as_bytes()));
            // A short word only counts if it stands alone.
            found
                .filter(|word| word.len() > 3 || is_alone(bytes, at, word.len()))
                .map_or(0, |word| word.len())
        } else {
            0
        };
        let row = rows.iter().map(|row| row_length(left, row)).max().unwrap_or(0);
        let known = if same >= 3 { same } else { word.max(if row >= 4 { row } else { 0 }) };
        if known == 0 && left[0].is_ascii_alphanumeric() {
            rest += 1;
        }
        at += known.max(1);
    }
    rest
}

fn is_alone(bytes: &[u8], at: usize, length: usize) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    !is_letter(at.checked_sub(1).and_then(|before| bytes.get(before)))
        && !is_letter(bytes.get(at + length))
}

/// Returns the length of the part of a row, beginning anywhere in it, that a text begins with.
fn row_length(left: &[u8], row: &str) -> usize {
    let Some(start) = row.bytes().position(|byte| byte == left[0]) else { return 0 };
    row.as_bytes()[start..].iter().zip(left).take_while(|(one, other)| one == other).count()
}

/// Returns whether a value only refers to the secret: `$TOKEN`, `process.env.TOKEN`, `{{ token }}`.
pub(super) fn is_reference(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && (name.len() <= 2 || randomness_bits(name) < 2.0 || is_spelled_name(name))
    };
    match bytes {
        []
        | [b'$', b'{' | b'(' | b'[', ..]
        | [b'{', b'{' | b'%', ..]
        | [b'#', b'{', ..]
        | [b'<' | b'[', ..]
        | [b'{', .., b'}'] => true,
        [b'$', ..] => {
            let name = text[1..]
                .trim_start_matches("env:")
                .trim_start_matches("this->")
                .trim_start_matches('$');
            is_name(name) || name.starts_with(['{', '('])
        }
        [b'%', .., b'%'] => is_name(&text[1..text.len() - 1]),
        [b'%', one, ..] if bytes.len() <= 3 => one.is_ascii_alphabetic(),
        [b'@' | b':' | b'&' | b'*' | b'!', ..] => {
            let rest = text[1..].trim_start_matches([':', '@', '&', '*', '{', '/']);
            rest.split(['/', '.', ':', '-']).all(is_name)
        }
        [b'.' | b'~' | b'/' | b'-' | b'\\' | b'#' | b'=', ..] => {
            let rest = text.trim_start_matches(['.', '~', '/', '-', '\\', '#', '=']);
            rest.len() < 8 || randomness_bits(rest) < 8.0
        }
        _ => begins_as_code(text),
    }
}

/// Returns whether a name is written like a constant: `DB_PASS_2`.
fn is_spelled_name(name: &str) -> bool {
    name.contains('_')
        && name.split('_').all(|part| {
            part.len() <= 2
                || part.bytes().all(|byte| byte.is_ascii_uppercase()) && randomness_bits(part) < 8.0
        })
}

fn begins_as_code(text: &str) -> bool {
    const CODE: &[&str] = &[
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "env[",
        "ENV[",
        "secrets.",
        "vars.",
        "var.",
        "self.",
        "this.",
        "config.",
        "import.meta",
        "std::env",
        "getenv",
        "data.",
        "local.",
        "module.",
        "function",
        "http://",
        "https://",
        "file://",
        "vault:",
        "op://",
        "arn:aws",
    ];
    CODE.iter().any(|begin| text.starts_with(begin))
}

/// Returns whether a value is a member, a call or a module path: `config.token1`, `Tokens::next`,
/// `user?.token`.
pub(super) fn is_code(text: &str) -> bool {
    let text = text.trim_end_matches(['!', '?', ')', '(', '.', '*']);
    let dotted = text.contains(['.', '>']) || text.contains("::");
    if !dotted {
        return false;
    }
    let mut parts =
        text.split(['.', ':', '?', '!', '>', '-', '&', '*']).filter(|part| !part.is_empty());
    parts.all(|part| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !part.starts_with(|one: char| one.is_ascii_digit())
            && randomness_bits(part) < 4.0
    })
}

/// Returns whether a value is a file name: `server.pem`.
pub(super) fn is_file_name(text: &str) -> bool {
    let Some((stem, suffix)) = text.rsplit_once('.') else { return false };
    (2..=5).contains(&suffix.len())
        && suffix.bytes().all(|byte| byte.is_ascii_lowercase())
        && !stem.is_empty()
        && randomness_bits(stem) < 12.0
}

/// Returns whether a value is a technical term with a number, such as `sha256`. Texts about
/// passwords often contain them.
pub(super) fn is_term(text: &str) -> bool {
    const TERMS: &[&str] = &[
        "base64", "base32", "base58", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3",
        "md4", "md5", "utf8", "utf16", "oauth2", "x509", "ed25519", "rsa2048", "rsa4096", "argon2",
        "argon2id", "argon2i", "ipv4", "ipv6", "http2", "pkcs8", "pkcs12", "pbkdf2", "aes128",
        "aes256", "i18n", "k8s", "uuid4", "bcrypt2", "iso8859", "latin1", "v1", "v2", "v3",
    ];
    let mut words =
        text.split(|one: char| !one.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let has_term = text
        .split(|one: char| !one.is_ascii_alphanumeric())
        .any(|word| TERMS.iter().any(|term| word.eq_ignore_ascii_case(term)));
    has_term && words.all(|word| randomness_bits(word) < 12.0)
}

/// Returns whether a value mixes letters with digits or signs, as passwords do and words do not.
pub(super) fn is_mixed(text: &str) -> bool {
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let has_sign = text.bytes().any(|byte| b"!@#$%^&*+~?".contains(&byte));
    has_letter && (has_digit || has_sign)
}

/// Returns whether a text is Base64 of `user:password`, as Docker and HTTP write it.
pub(super) fn is_encoded_login(text: &str) -> bool {
    use base64::Engine;
    let text = text.trim_end_matches('=');
    let Ok(plain) = base64::engine::general_purpose::STANDARD_NO_PAD.decode(text) else {
        return false;
    };
    let Ok(plain) = std::str::from_utf8(&plain) else { return false };
    let is_plain = plain.chars().all(|one| !one.is_control());
    is_plain && plain.split_once(':').is_some_and(|(_, password)| password.len() >= 3)
}

/// Returns whether a text is Base64 of JSON with one of these names near its beginning.
pub(super) fn is_encoded_json(text: &str, names: &[&str]) -> bool {
    use base64::Engine;
    let length = text.len().min(120) / 4 * 4;
    let Some(begin) = text.get(..length) else { return false };
    let Ok(plain) = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(begin) else {
        return false;
    };
    let plain = String::from_utf8_lossy(&plain);
    names.iter().any(|name| plain.contains(name))
}
