//! Marks of sessions, as plain data: stars, tags, notes and titles that a person set. The journal
//! keeps them apart from everything that is derived from agents' files.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::Timestamp;

/// Maximum length of a tag, in characters.
const MAX_TAG_CHARS: usize = 64;

/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 300;

/// Maximum counter of a mark that another journal made. A larger one is an error, and would leave
/// no room for later changes.
const MAX_COUNTER: i64 = 1 << 52;

/// Maximum length of a note, in bytes.
const MAX_NOTE_BYTES: usize = 64 << 10;

/// The marks of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Whether the session is starred.
    pub starred: bool,
    /// The tags, in alphabetical order.
    pub tags: Vec<String>,
    /// The note.
    pub note: Option<String>,
    /// The title that replaces the recorded one.
    pub title: Option<String>,
}

/// A change of the marks of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkChange {
    /// Stars the session.
    Star,
    /// Removes the star.
    Unstar,
    /// Adds a tag.
    AddTag(String),
    /// Removes a tag.
    RemoveTag(String),
    /// Removes all tags.
    RemoveAllTags,
    /// Sets the note; an empty one removes it.
    SetNote(String),
    /// Sets the title; an empty one restores the recorded title.
    SetTitle(String),
}

/// The kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A star.
    Star,
    /// A tag.
    Tag,
    /// A note.
    Note,
    /// A title.
    Title,
}

/// One mark with the clock by which two journals agree on its last change: the one with the higher
/// counter, or of two equal counters the one with the higher device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRecord {
    /// The kind of the mark.
    pub kind: MarkKind,
    /// The text of the tag, note or title; empty for a star.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The device that made the last change.
    pub device: i64,
    /// The number of changes that the device knew of.
    pub counter: i64,
    /// The time of the last change.
    pub at: Timestamp,
}

impl Marks {
    /// Returns the marks that records describe.
    pub(crate) fn from_records(records: Vec<MarkRecord>) -> Self {
        let mut marks = Self::default();
        for record in records {
            match record.kind {
                MarkKind::Star => marks.starred = true,
                MarkKind::Tag => marks.tags.push(record.text),
                MarkKind::Note => marks.note = Some(record.text),
                MarkKind::Title => marks.title = Some(record.text),
            }
        }
        marks
    }

    /// Returns whether the session has no marks.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the star and the tags in one line, as views show them: `★ #release`.
    pub fn star_and_tags(&self) -> String {
        let star = self.starred.then(|| "★".to_owned());
        let tags = self.tags.iter().map(|tag| format!("#{tag}"));
        star.into_iter().chain(tags).collect::<Vec<_>>().join(" ")
    }
}

impl MarkRecord {
    /// Returns whether a journal can have written the record.
    pub(crate) fn is_valid(&self) -> bool {
        let text = self.text.clone();
        let change = match self.kind {
            MarkKind::Star => return text.is_empty() && self.has_valid_clock(),
            MarkKind::Tag => MarkChange::AddTag(text),
            MarkKind::Note => MarkChange::SetNote(text),
            MarkKind::Title => MarkChange::SetTitle(text),
        };
        let is_filled = !self.text.is_empty();
        is_filled
            && self.has_valid_clock()
            && change.clone().normalized().is_ok_and(|it| it == change)
    }

    fn has_valid_clock(&self) -> bool {
        (1..MAX_COUNTER).contains(&self.counter) && self.device >= 0
    }
}

impl MarkKind {
    /// Returns the name of the kind in the journal.
    pub(crate) fn kind_name(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::Tag => "tag",
            Self::Note => "note",
            Self::Title => "title",
        }
    }

    /// Returns the kind with a name.
    pub(crate) fn from_kind_name(name: &str) -> Option<Self> {
        let all = [Self::Star, Self::Tag, Self::Note, Self::Title];
        all.into_iter().find(|kind| kind.kind_name() == name)
    }
}

impl MarkChange {
    /// Returns the change with its text in the form in which it is stored: tags in lower case
    /// without `#`, titles in one line.
    pub fn normalized(self) -> Result<Self> {
        Ok(match self {
            Self::AddTag(tag) => Self::AddTag(normalize_tag(&tag)?),
            Self::RemoveTag(tag) => Self::RemoveTag(normalize_tag(&tag)?),
            Self::SetTitle(title) => Self::SetTitle(normalize_title(&title)?),
            Self::SetNote(note) => Self::SetNote(normalize_note(&note)?),
            other => other,
        })
    }
}

fn normalize_tag(typed: &str) -> Result<String> {
    let tag = typed.trim().trim_start_matches('#').to_lowercase();
    let is_plain =
        |one: char| !one.is_whitespace() && !one.is_control() && !"\",#*()".contains(one);
    if tag.is_empty() || !tag.chars().all(is_plain) || tag.starts_with(['+', '-']) {
        return Err(invalid(format!("`{typed}` is not a tag: use one word, such as `release`")));
    }
    if tag.chars().count() > MAX_TAG_CHARS {
        return Err(invalid(format!("a tag has at most {MAX_TAG_CHARS} characters")));
    }
    Ok(tag)
}

fn normalize_title(typed: &str) -> Result<String> {
    let title = typed.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.chars().count() > MAX_TITLE_CHARS {
        return Err(invalid(format!("a title has at most {MAX_TITLE_CHARS} characters")));
    }
    if title.contains(char::is_control) {
        return Err(invalid("a title must not contain control characters".to_owned()));
    }
    Ok(title)
}

fn normalize_note(typed: &str) -> Result<String> {
    let note = typed.replace("\r\n", "\n").trim().to_owned();
    if note.len() > MAX_NOTE_BYTES {
        return Err(invalid(format!("a note has at most {} KiB", MAX_NOTE_BYTES >> 10)));
    }
    if note.contains(|one: char| one.is_control() && !"\n\t".contains(one)) {
        return Err(invalid("a note must not contain control characters".to_owned()));
    }
    Ok(note)
}

fn invalid(message: String) -> Error {
    Error::Query { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_single_words_in_lower_case() {
        let tag = |typed: &str| match MarkChange::AddTag(typed.to_owned()).normalized() {
            Ok(MarkChange::AddTag(tag)) => Some(tag),
            _ => None,
        };
        assert_eq!(tag(" #Release "), Some("release".to_owned()));
        assert_eq!(tag("v1.2/ü"), Some("v1.2/ü".to_owned()));
        for wrong in ["", "#", "two words", "a,b", "+x", "a\u{7}", &"x".repeat(65)] {
            assert_eq!(tag(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn titles_are_one_line_and_notes_may_have_several() {
        let title = MarkChange::SetTitle(" two\n  lines ".to_owned()).normalized().unwrap();
        assert_eq!(title, MarkChange::SetTitle("two lines".to_owned()));
        let note = MarkChange::SetNote("one\r\ntwo\n".to_owned()).normalized().unwrap();
        assert_eq!(note, MarkChange::SetNote("one\ntwo".to_owned()));
        assert!(MarkChange::SetNote("\u{1b}[2J".to_owned()).normalized().is_err());
    }
}
