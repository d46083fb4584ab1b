//! Redaction: replaces secrets, home directories and user names in exported text. The placeholder
//! of a secret is the same wherever the secret occurs, and reveals nothing about it.

mod assigned;
mod commands;
mod judge;
mod likeness;
mod names;
mod pem;
mod piece;
mod place;
mod rules;
mod scan;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

pub use self::piece::find_in_piece;
use self::place::People;
use super::schema::{DocumentBlock, DocumentMessage, DocumentSession};
use crate::model::{self, Json};

/// The number of replacements by kind.
pub type RedactionCounts = BTreeMap<&'static str, u64>;

/// Replaces secrets, home directories and user names in texts.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// The users whose names are replaced; `None` keeps home directories and names.
    people: Option<People>,
    counts: RedactionCounts,
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the secret.
    pub rule: &'static str,
    /// The text that replaces the secret in exports. It is the same for every occurrence of a
    /// secret.
    pub placeholder: String,
    /// The length of the secret and, if it is long, its first characters, by which its owner can
    /// recognize it.
    pub hint: String,
    /// The byte range of the secret in the text.
    #[serde(skip)]
    pub range: Range<usize>,
}

/// A text that an excerpt may come from, with its field name in the message.
#[derive(Clone, Debug, Default)]
pub struct NamedText {
    /// The name of the field; empty if it has none.
    pub name: String,
    /// The content of the field.
    pub text: String,
}

impl From<String> for NamedText {
    fn from(text: String) -> Self {
        Self { name: String::new(), text }
    }
}

/// Finds the secrets in a text, in order.
pub fn find_secrets(text: &str) -> Vec<Finding> {
    let found = scan::scan_text(text).into_iter();
    found.map(|one| new_finding(one.rule, &text[one.range.clone()], one.range)).collect()
}

/// Finds the secrets in the value of a named field. A name such as `password` makes a secret of a
/// value that would be none by itself.
pub fn find_value(name: &str, value: &str) -> Vec<Finding> {
    let found = find_secrets(value);
    let is_whole = found.first().is_some_and(|one| one.range == (0..value.len()));
    if !is_whole && assigned::is_field_secret(name, value) {
        return vec![new_finding("secret", value, 0..value.len())];
    }
    found
}

fn new_finding(rule: &'static str, secret: &str, range: Range<usize>) -> Finding {
    let hash = xxh3_64(secret.as_bytes());
    // Few bits of the hash: enough to distinguish two keys, too few to test guessed passwords.
    let placeholder = match rule {
        "secret" | "password" | "url-password" | "netrc" => format!("[redacted:{rule}]"),
        _ => format!("[redacted:{rule}:{:03x}]", hash & 0xfff),
    };
    let shown = if secret.len() >= 16 { secret.chars().take(4).collect() } else { String::new() };
    let hint = format!("{shown}… ({} characters)", secret.chars().count());
    Finding { rule, placeholder, hint, range }
}

impl Default for Redactor {
    fn default() -> Self {
        Self { people: Some(People::default()), counts: RedactionCounts::new() }
    }
}

impl Redactor {
    /// Creates a redactor for secrets only. Home directories and names stay.
    pub fn of_secrets() -> Self {
        Self { people: None, counts: RedactionCounts::new() }
    }

    /// Creates a redactor for secrets, and for the owner of a home directory.
    pub fn new(home: &Path) -> Self {
        let mut people = People::default();
        people.add_home_directory(&home.to_string_lossy());
        Self { people: Some(people), counts: RedactionCounts::new() }
    }

    /// Returns the number of replacements by kind.
    pub fn replacement_counts(&self) -> &RedactionCounts {
        &self.counts
    }

    /// Returns the number of replaced secrets, without names and home directories.
    pub fn secret_count(&self) -> u64 {
        let are_secrets = |rule: &str| !matches!(rule, "home" | "user-name");
        self.counts.iter().filter(|(rule, _)| are_secrets(rule)).map(|(_, times)| times).sum()
    }

    /// Redacts a text.
    pub fn redact_text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let found = find_secrets(text);
        self.replace_findings(text, found)
    }

    /// Redacts an excerpt of one of these texts, and moves the given ranges of the excerpt
    /// accordingly. Ranges that overlap a replaced secret are removed.
    pub fn redact_excerpt(
        &mut self,
        piece: &str,
        texts: &[NamedText],
        places: &mut Vec<Range<usize>>,
    ) -> String {
        let found = find_in_piece(piece, texts);
        if !found.is_empty() {
            move_places(places, &found);
        }
        let clean = self.replace_findings(piece, found).into_owned();
        // Replaced home directories and names are not tracked, so only ranges that are still valid
        // are kept.
        places.retain(|range| clean.get(range.clone()).is_some());
        clean
    }

    /// Redacts a recorded message.
    pub fn redact_recorded_message(&mut self, message: &mut model::Message) {
        for block in &mut message.blocks {
            match block {
                model::Block::Text(text) | model::Block::Thinking(text) => {
                    self.redact_in_place(text);
                }
                model::Block::ToolCall { input, .. } => self.redact_json(input),
                model::Block::ToolResult { output, .. } => self.redact_in_place(output),
                model::Block::Image(image) => {
                    if let Some(location) = &mut image.location {
                        self.redact_in_place(location);
                    }
                }
                model::Block::Other(raw) => self.redact_json(raw),
            }
        }
        for text in message.cwd.iter_mut().chain(&mut message.branch) {
            self.redact_in_place(text);
        }
        for value in message.extensions.values_mut() {
            self.redact_json(value);
        }
    }

    /// Redacts the titles, summaries and documents of a session's metadata.
    pub fn redact_metadata(&mut self, account: &mut model::Session) {
        for title in &mut account.titles {
            title.text = self.redact_excerpt(&title.text, &[], &mut Vec::new());
        }
        for summary in &mut account.summaries {
            self.redact_in_place(&mut summary.text);
        }
        for (_, text) in &mut account.documents {
            self.redact_in_place(text);
        }
    }

    fn redact_named_value<'t>(&mut self, name: &str, value: &'t str) -> Cow<'t, str> {
        let found = find_value(name, value);
        self.replace_findings(value, found)
    }

    fn replace_findings<'t>(&mut self, text: &'t str, found: Vec<Finding>) -> Cow<'t, str> {
        if found.is_empty() {
            return self.without_people(text.into());
        }
        let mut clean = String::with_capacity(text.len());
        let mut at = 0;
        for one in found {
            clean.push_str(&text[at..one.range.start]);
            clean.push_str(&one.placeholder);
            at = one.range.end;
            *self.counts.entry(one.rule).or_default() += 1;
        }
        clean.push_str(&text[at..]);
        self.without_people(clean.into())
    }

    fn without_people<'t>(&mut self, text: Cow<'t, str>) -> Cow<'t, str> {
        let Some(people) = &self.people else { return text };
        match text {
            Cow::Borrowed(text) => people.redact_people(text, &mut self.counts),
            Cow::Owned(text) => people.redact_people(&text, &mut self.counts).into_owned().into(),
        }
    }

    /// Adds the owner of the home directory that a path is in to the names to replace.
    pub fn add_home_owner(&mut self, path: &str) {
        if let Some(people) = &mut self.people {
            people.add_home_directory(path);
        }
    }

    /// Redacts the head of a document. Its directories determine whose name is replaced.
    pub(crate) fn redact_session(&mut self, session: &mut DocumentSession) {
        self.add_home_owner(&session.workspace);
        self.add_home_owner(&session.source.path);
        self.redact_in_place(&mut session.workspace);
        self.redact_in_place(&mut session.workspace_encoded);
        self.redact_in_place(&mut session.source.path);
        for value in session.extensions.values_mut() {
            self.redact_json(value);
        }
    }

    /// Redacts a message of a document.
    pub(crate) fn redact_message(&mut self, message: &mut DocumentMessage) {
        for block in &mut message.content {
            match block {
                DocumentBlock::Text { text } => self.redact_in_place(text),
                DocumentBlock::Thinking { thinking } => self.redact_in_place(thinking),
                DocumentBlock::ToolUse { input, .. } => self.redact_json(input),
                DocumentBlock::ToolResult { output, .. } => self.redact_in_place(output),
                DocumentBlock::Image { location, .. } => {
                    if let Some(location) = location {
                        self.redact_in_place(location);
                    }
                }
                DocumentBlock::Other { raw } => self.redact_json(raw),
            }
        }
        if let Some(metadata) = &mut message.metadata {
            for text in metadata.cwd.iter_mut().chain(&mut metadata.git_branch) {
                self.redact_in_place(text);
            }
        }
        for value in message.extensions.values_mut() {
            self.redact_json(value);
        }
    }

    /// Redacts a text in place.
    pub fn redact_in_place(&mut self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact_text(text) {
            *text = clean;
        }
    }

    /// Redacts the strings of a JSON text. Everything else stays as it was written.
    pub fn redact_json(&mut self, json: &mut Json) {
        let text = json.as_json_str();
        let mut clean = String::new();
        let mut kept = 0;
        walk_json_strings(text, &mut |range, name, value| {
            if let Cow::Owned(cleaned) = self.redact_named_value(name, value) {
                clean.push_str(&text[kept..range.start]);
                clean.push_str(&serde_json::Value::String(cleaned).to_string());
                kept = range.end;
            }
        });
        if kept > 0 {
            clean.push_str(&text[kept..]);
            if let Ok(cleaned) = serde_json::from_str(&clean) {
                *json = cleaned;
            }
        }
    }
}

/// Moves ranges in a text to their positions after its secrets are replaced.
fn move_places(places: &mut Vec<Range<usize>>, found: &[Finding]) {
    places.retain(|range| {
        found.iter().all(|one| range.end <= one.range.start || range.start >= one.range.end)
    });
    for range in places {
        let before = found.iter().filter(|one| one.range.end <= range.start);
        let (gone, come) = before.fold((0, 0), |(gone, come), one| {
            (gone + one.range.len(), come + one.placeholder.len())
        });
        *range = range.start + come - gone..range.end + come - gone;
    }
}

/// Calls the callback with the field name and the value of every string of a JSON text.
pub(crate) fn each_string(json: &str, visit: &mut dyn FnMut(&str, &str)) {
    walk_json_strings(json, &mut |_, name, value| visit(name, value));
}

/// Visits the strings of a JSON text with their range, field name and value. The value of a pair,
/// `"name": "DB_PASSWORD", "value": "…"`, gets the name from the pair.
fn walk_json_strings(text: &str, visit: &mut dyn FnMut(Range<usize>, &str, &str)) {
    let mut name = Cow::Borrowed("");
    let mut pair = Cow::Borrowed("");
    for range in json_string_ranges(text) {
        let Some(value) = unescaped(&text[range.clone()]) else { continue };
        if text[range.end..].trim_start().starts_with(':') {
            visit(range, "", &value);
            name = value;
            continue;
        }
        let is_value = name.eq_ignore_ascii_case("value");
        visit(range, if is_value && !pair.is_empty() { &pair } else { &name }, &value);
        let is_name =
            ["name", "key", "id", "variable"].iter().any(|one| name.eq_ignore_ascii_case(one));
        pair = if is_name { value } else { Cow::Borrowed("") };
    }
}

/// Returns the content of a JSON string, copied only if it contains escapes.
fn unescaped(string: &str) -> Option<Cow<'_, str>> {
    let content = &string[1..string.len() - 1];
    if memchr::memchr(b'\\', content.as_bytes()).is_none() {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str(string).ok().map(Cow::Owned)
}

/// Iterates over the ranges of the strings of a JSON text, quotes included.
fn json_string_ranges(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let mut end = start + 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        Some(start..at)
    })
}
