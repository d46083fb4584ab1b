//! Replaces home directories and user names: `/home/sam/web` becomes `~/web`, and `sam` becomes
//! `user`.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::RedactionCounts;

/// User names that identify nobody.
const COMMON: &[&str] = &[
    "admin",
    "agent",
    "app",
    "build",
    "debian",
    "dev",
    "developer",
    "docker",
    "git",
    "guest",
    "home",
    "jenkins",
    "linuxbrew",
    "node",
    "public",
    "root",
    "runner",
    "runneradmin",
    "shared",
    "test",
    "ubuntu",
    "user",
    "username",
    "users",
    "vagrant",
    "vscode",
    "work",
    "workspace",
];

/// The shortest replaced name, in bytes. Shorter names occur inside too many words.
const SHORTEST: usize = 4;

static HOMES: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?P<before>[\w.~\-]?)(?:/(?:home|Users)/|[A-Za-z]:(?:\\{1,4}|/)Users(?:\\{1,4}|/))(?P<name>[^\s/\\:;"'`<>|()\[\]{},*?$&=#!]+)"#;
    Regex::new(pattern).expect("the pattern is a constant")
});

static ENCODED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?P<before>^|[^\w])(?P<root>-(?:home|Users)-|[A-Za-z]--Users-)(?P<name>[A-Za-z0-9]+)";
    Regex::new(pattern).expect("the pattern is a constant")
});

/// The users whose names are replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct People {
    names: Vec<String>,
}

impl People {
    /// Adds the owner of the home directory that a path is in.
    pub(super) fn add_home_directory(&mut self, path: &str) {
        let Some(found) = HOMES.captures(path).filter(|found| found["before"].is_empty()) else {
            return;
        };
        let name = &found["name"];
        let is_common = COMMON.contains(&name.to_ascii_lowercase().as_str());
        if name.len() >= SHORTEST && !is_common && !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Replaces home directories and user names in a text.
    pub(super) fn redact_people<'t>(
        &self,
        text: &'t str,
        counts: &mut RedactionCounts,
    ) -> Cow<'t, str> {
        let mut clean = redact_homes(text, counts);
        for name in &self.names {
            if memchr::memmem::find(clean.as_bytes(), name.as_bytes()).is_some() {
                clean = Cow::Owned(self::redact_name(&clean, name, counts));
            }
        }
        clean
    }
}

fn redact_homes<'t>(text: &'t str, counts: &mut RedactionCounts) -> Cow<'t, str> {
    let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    let mut clean = Cow::Borrowed(text);
    if has("/home/") || has("Users") {
        clean = HOMES.replace_all(text, |found: &Captures<'_>| {
            // `example.com/home/page` is not a home directory.
            if !found["before"].is_empty() {
                return found[0].to_owned();
            }
            *counts.entry("home").or_default() += 1;
            "~".to_owned()
        });
    }
    if has("-home-") || has("-Users-") {
        let replaced = ENCODED.replace_all(&clean, |found: &Captures<'_>| {
            *counts.entry("home").or_default() += 1;
            format!("{}{}user", &found["before"], &found["root"])
        });
        if let Cow::Owned(replaced) = replaced {
            clean = Cow::Owned(replaced);
        }
    }
    clean
}

/// Replaces a name where it is a separate word.
fn redact_name(text: &str, name: &str, counts: &mut RedactionCounts) -> String {
    let is_part = |one: char| one.is_alphanumeric();
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for (start, found) in text.match_indices(name) {
        let before = text[..start].chars().next_back().is_some_and(is_part);
        let after = text[start + found.len()..].chars().next().is_some_and(is_part);
        if !before && !after {
            clean.push_str(&text[at..start]);
            clean.push_str("user");
            at = start + found.len();
            *counts.entry("user-name").or_default() += 1;
        }
    }
    clean.push_str(&text[at..]);
    clean
}
