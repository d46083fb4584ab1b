//! Secrets and names taken out of what leaves: each becomes a placeholder that is the same
//! wherever the same secret stands, and says nothing of it.

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
use super::schema::{Block, Message, Session};
use crate::model::{self, Json};

/// How often each kind of thing was taken out.
pub type Redactions = BTreeMap<&'static str, u64>;

/// Takes secrets, home directories and user names out of texts.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Who must not be named; none when homes and names stay.
    people: Option<People>,
    counts: Redactions,
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of secret.
    pub rule: &'static str,
    /// What stands for it in exports: the same for every place of the same secret.
    pub placeholder: String,
    /// As much of it as helps its owner to know it again.
    pub hint: String,
    /// Where it stands in the text, in bytes.
    #[serde(skip)]
    pub range: Range<usize>,
}

/// A text that a piece may be cut out of, with the name that it has in its message.
#[derive(Clone, Debug, Default)]
pub struct NamedText {
    /// The name of the field; empty when it has none.
    pub name: String,
    /// The text.
    pub text: String,
}

impl From<String> for NamedText {
    fn from(text: String) -> Self {
        Self { name: String::new(), text }
    }
}

/// Finds the secrets in a text, in order.
pub fn find(text: &str) -> Vec<Finding> {
    let found = scan::matches(text).into_iter();
    found.map(|one| finding(one.rule, &text[one.range.clone()], one.range)).collect()
}

/// Judges the value of a named field: a name such as `password` makes a secret of what would be
/// none by itself.
pub fn find_value(name: &str, value: &str) -> Vec<Finding> {
    let found = find(value);
    let is_whole = found.first().is_some_and(|one| one.range == (0..value.len()));
    if !is_whole && assigned::is_field_secret(name, value) {
        return vec![finding("secret", value, 0..value.len())];
    }
    found
}

fn finding(rule: &'static str, secret: &str, range: Range<usize>) -> Finding {
    let hash = xxh3_64(secret.as_bytes());
    // Few bits: enough to tell one key from another, too few to try passwords against.
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
        Self { people: Some(People::default()), counts: Redactions::new() }
    }
}

impl Redactor {
    /// Takes out secrets alone: homes and names stay.
    pub fn of_secrets() -> Self {
        Self { people: None, counts: Redactions::new() }
    }

    /// Takes out secrets, and the owner of a home directory.
    pub fn new(home: &Path) -> Self {
        let mut people = People::default();
        people.add_home(&home.to_string_lossy());
        Self { people: Some(people), counts: Redactions::new() }
    }

    /// How often each kind of thing was taken out so far.
    pub fn counts(&self) -> &Redactions {
        &self.counts
    }

    /// Returns how many secrets were taken out so far: names and homes are none.
    pub fn secrets(&self) -> u64 {
        let are_secrets = |rule: &str| !matches!(rule, "home" | "user-name");
        self.counts.iter().filter(|(rule, _)| are_secrets(rule)).map(|(_, times)| times).sum()
    }

    /// Cleans a text.
    pub fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let found = find(text);
        self.replace(text, found)
    }

    /// Cleans a piece that was cut out of one of these texts, and moves places in it along; those
    /// inside of what is taken out are left out.
    pub fn piece(
        &mut self,
        piece: &str,
        texts: &[NamedText],
        places: &mut Vec<Range<usize>>,
    ) -> String {
        let found = find_in_piece(piece, texts);
        if !found.is_empty() {
            move_places(places, &found);
        }
        let clean = self.replace(piece, found).into_owned();
        // Homes and names have no places of their own: without them only what fits is kept.
        places.retain(|range| clean.get(range.clone()).is_some());
        clean
    }

    /// Cleans a recorded message.
    pub fn recorded(&mut self, message: &mut model::Message) {
        for block in &mut message.blocks {
            match block {
                model::Block::Text(text) | model::Block::Thinking(text) => self.own(text),
                model::Block::ToolCall { input, .. } => self.json(input),
                model::Block::ToolResult { output, .. } => self.own(output),
                model::Block::Image(image) => {
                    if let Some(location) = &mut image.location {
                        self.own(location);
                    }
                }
                model::Block::Other(raw) => self.json(raw),
            }
        }
        for text in message.cwd.iter_mut().chain(&mut message.branch) {
            self.own(text);
        }
        for value in message.extensions.values_mut() {
            self.json(value);
        }
    }

    /// Cleans what is recorded about a session as a whole.
    pub fn account(&mut self, account: &mut model::Session) {
        for title in &mut account.titles {
            title.text = self.piece(&title.text, &[], &mut Vec::new());
        }
        for summary in &mut account.summaries {
            self.own(&mut summary.text);
        }
        for (_, text) in &mut account.documents {
            self.own(text);
        }
    }

    fn value<'t>(&mut self, name: &str, value: &'t str) -> Cow<'t, str> {
        let found = find_value(name, value);
        self.replace(value, found)
    }

    fn replace<'t>(&mut self, text: &'t str, found: Vec<Finding>) -> Cow<'t, str> {
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
            Cow::Borrowed(text) => people.clean(text, &mut self.counts),
            Cow::Owned(text) => people.clean(&text, &mut self.counts).into_owned().into(),
        }
    }

    /// Remembers the owner of a home directory that a path leads into, so as not to name him.
    pub fn add_home(&mut self, path: &str) {
        if let Some(people) = &mut self.people {
            people.add_home(path);
        }
    }

    /// Cleans what is known of a session; its directory tells whose home to look for.
    pub(crate) fn session(&mut self, session: &mut Session) {
        self.add_home(&session.workspace);
        self.add_home(&session.source.path);
        self.own(&mut session.workspace);
        self.own(&mut session.workspace_encoded);
        self.own(&mut session.source.path);
        for value in session.extensions.values_mut() {
            self.json(value);
        }
    }

    /// Cleans a message.
    pub(crate) fn message(&mut self, message: &mut Message) {
        for block in &mut message.content {
            match block {
                Block::Text { text } => self.own(text),
                Block::Thinking { thinking } => self.own(thinking),
                Block::ToolUse { input, .. } => self.json(input),
                Block::ToolResult { output, .. } => self.own(output),
                Block::Image { location, .. } => {
                    if let Some(location) = location {
                        self.own(location);
                    }
                }
                Block::Other { raw } => self.json(raw),
            }
        }
        if let Some(metadata) = &mut message.metadata {
            for text in metadata.cwd.iter_mut().chain(&mut metadata.git_branch) {
                self.own(text);
            }
        }
        for value in message.extensions.values_mut() {
            self.json(value);
        }
    }

    /// Cleans a text in its place.
    pub fn own(&mut self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Cleans the strings of a JSON text; everything else stays as it was written.
    pub fn json(&mut self, json: &mut Json) {
        let text = json.as_str();
        let mut clean = String::new();
        let mut kept = 0;
        walk(text, &mut |range, name, value| {
            if let Cow::Owned(cleaned) = self.value(name, value) {
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

/// Moves places in a text to where they are once its secrets are replaced.
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

/// Tells every string of a JSON text with the name it stands under.
pub(crate) fn each_string(json: &str, tell: &mut dyn FnMut(&str, &str)) {
    walk(json, &mut |_, name, value| tell(name, value));
}

/// Visits the strings of a JSON text: where each stands, its name, and what it says. The value of
/// a pair, `"name": "DB_PASSWORD", "value": "…"`, has the name that the pair gives it.
fn walk(text: &str, visit: &mut dyn FnMut(Range<usize>, &str, &str)) {
    let mut name = String::new();
    let mut pair = String::new();
    for range in strings(text) {
        let Ok(value) = serde_json::from_str::<String>(&text[range.clone()]) else { continue };
        if text[range.end..].trim_start().starts_with(':') {
            visit(range, "", &value);
            name = value;
            continue;
        }
        let is_value = name.eq_ignore_ascii_case("value");
        visit(range, if is_value && !pair.is_empty() { &pair } else { &name }, &value);
        let is_name =
            ["name", "key", "id", "variable"].iter().any(|one| name.eq_ignore_ascii_case(one));
        pair = if is_name { value } else { String::new() };
    }
}

/// Where the strings of a JSON text stand, quotes included.
fn strings(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
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
