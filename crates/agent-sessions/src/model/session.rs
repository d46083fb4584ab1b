//! The metadata of one session of one agent, as its files record it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::bill::{Bill, add_state};
use super::{Extensions, FOUND_DIR, Json, PROJECT_DIR, Timestamp};

/// Maximum number of active minutes kept for one session, nearly three days of work.
const MAX_ACTIVITY: usize = 4096;

/// The metadata of a session. A connector may emit it in several pieces; later pieces are merged
/// into earlier ones. Anything that follows from the messages (counts, durations, the title when
/// none is recorded) is not here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// The agent, and the agent's own id for the session.
    pub id: SessionId,
    /// The session that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The session whose messages this one begins with, where the format records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// Whether the file shows that its first messages were copied from another session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begins_with_copy: bool,
    /// The initiator of the session: a person, an agent or the program.
    pub kind: SessionKind,
    /// All recorded titles, each with its rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<Title>,
    /// Summaries that name the message they end at, which may be in another session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// Longer texts about the session, by name: checkpoints, a plan, an overview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<(String, String)>,
    /// The first working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The repository, where the format names one (`owner/name` or its root directory).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The root directory of the repository worked in, where the format records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The latest git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The latest version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// A model that the format names for the session as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The earliest recorded time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The latest recorded time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Commits, pull requests and issues named in the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Ref>,
    /// Files that the format itself lists as changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Times of records that became no message, at most one per minute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Timestamp>,
    /// States of the bill that the agent keeps of the session, in the order they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bills: Vec<Bill>,
    /// Further fields of the format.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
    /// Facts that only the exporting journal had, if this recording was imported from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
}

/// Facts about an exported session that only the exporting journal had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// Kind of the machine on which the agent's file was read.
    pub kind: String,
    /// Name of that machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Path of the agent's file on that machine.
    pub path: String,
    /// Directory of the project on that machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// Sessions that this one started on that machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
}

/// A reference to the session that this one continues, as a fork or as a sub-agent that was given
/// its parent's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The agent's own id for the other session.
    pub session: String,
    /// Number of messages at the beginning that belong to the other session.
    #[serde(default)]
    pub messages: u64,
}

/// The identity of a session: the agent's id, and the id that the agent gave the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The agent's id, such as `codex`.
    pub agent: String,
    /// The agent's own id for the session.
    pub native: String,
}

/// The initiator of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// A person.
    #[default]
    Root,
    /// An agent, in another session.
    Agent,
    /// The agent program, as a working copy of another session: never listed, never searched.
    Copy,
}

/// A recorded title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Title {
    /// Source of the title.
    pub rank: TitleRank,
    /// The title.
    pub text: String,
}

/// Sources of titles, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleRank {
    /// The user renamed the session.
    Renamed,
    /// The program around the agent named the session.
    Named,
    /// The agent generated it from the conversation.
    Generated,
    /// A summary of this session.
    Summary,
    /// A cache of the agent contains it.
    Listed,
    /// The first prompt.
    Prompt,
    /// The first command.
    Command,
    /// A nickname that the agent chose.
    Slug,
    /// The working directory.
    Path,
    /// The session's id, because there is nothing better.
    Id,
}

/// A summary with the message at which it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Uuid of the last message that the summary covers.
    pub leaf: String,
    /// Text of the summary.
    pub text: String,
}

/// An external object that a session refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ref {
    /// `commit`, `pr` or `issue`.
    pub kind: String,
    /// A hash, a number or a URL.
    pub value: String,
}

impl Session {
    /// Creates empty metadata for a session.
    pub fn new(agent: &str, native: impl Into<String>) -> Self {
        let id = SessionId { agent: agent.to_owned(), native: native.into() };
        Self { id, ..Self::default() }
    }

    /// Adds a title; it replaces an earlier one of the same rank.
    pub fn add_title(&mut self, rank: TitleRank, text: impl Into<String>) {
        let text = text.into();
        if text.trim().is_empty() {
            return;
        }
        self.titles.retain(|title| title.rank != rank);
        let at = self.titles.partition_point(|title| title.rank < rank);
        self.titles.insert(at, Title { rank, text });
    }

    /// Adds a time of activity, unless the same minute already has one.
    pub fn note_activity(&mut self, at: Timestamp) {
        let minute = |at: Timestamp| at.as_millis().div_euclid(60_000);
        let place = self.activity.partition_point(|known| minute(*known) < minute(at));
        let is_known = self.activity.get(place).is_some_and(|known| minute(*known) == minute(at));
        if !is_known && self.activity.len() < MAX_ACTIVITY {
            self.activity.insert(place, at);
        }
    }

    /// Adds a state of the agent's own bill, unless it contains nothing new.
    pub fn add_bill(&mut self, state: Bill) {
        add_state(&mut self.bills, state);
    }

    /// Returns the name of the directory that holds the project's sessions, if the agent has one.
    pub fn project_dir(&self) -> Option<String> {
        self.extensions.get(PROJECT_DIR)?.parse_as()
    }

    /// Returns the directory that `project_dir` stands for, if it was found on disk.
    pub fn found_dir(&self) -> Option<String> {
        self.extensions.get(FOUND_DIR)?.parse_as()
    }

    /// Stores the name of the directory that holds the project's sessions.
    pub fn lies_in(&mut self, project_dir: &str) {
        self.extensions.insert(PROJECT_DIR.to_owned(), Json::from_value(&project_dir));
    }

    /// Extends the recorded time span to include a time.
    pub fn extend_time_span(&mut self, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        self.started_at = Some(self.started_at.map_or(at, |start| start.min(at)));
        self.ended_at = Some(self.ended_at.map_or(at, |end| end.max(at)));
    }

    /// Merges a later piece of the same session's metadata: first directory, latest branch and
    /// version, widest time span, union of every list.
    pub fn merge_later(&mut self, later: Session) {
        self.parent = self.parent.take().or(later.parent);
        self.continues = later.continues.or(self.continues.take());
        self.begins_with_copy |= later.begins_with_copy;
        self.kind = self.kind.max(later.kind);
        self.cwd = self.cwd.take().or(later.cwd);
        self.repository = self.repository.take().or(later.repository);
        self.root = self.root.take().or(later.root);
        self.model = self.model.take().or(later.model);
        self.branch = later.branch.or(self.branch.take());
        self.agent_version = later.agent_version.or(self.agent_version.take());
        self.extend_time_span(later.started_at);
        self.extend_time_span(later.ended_at);
        for title in later.titles {
            self.add_title(title.rank, title.text);
        }
        for (name, text) in later.documents {
            match self.documents.iter().position(|(known, _)| *known == name) {
                Some(at) => self.documents[at].1 = text,
                None if self.has_document(&text) => {}
                None => self.documents.push((name, text)),
            }
        }
        append_missing(&mut self.summaries, later.summaries);
        append_missing(&mut self.refs, later.refs);
        append_missing(&mut self.files, later.files);
        later.activity.into_iter().for_each(|at| self.note_activity(at));
        later.bills.into_iter().for_each(|state| self.add_bill(state));
        self.extensions.extend(later.extensions);
    }
}

impl Session {
    /// Adds the metadata of the same session from a less reliable source. It fills gaps and extends
    /// lists, and changes no known value.
    pub fn complete_from(&mut self, lesser: Session) {
        let fill = |known: &mut Option<String>, lesser: Option<String>| {
            if known.is_none() {
                *known = lesser;
            }
        };
        fill(&mut self.parent, lesser.parent);
        fill(&mut self.cwd, lesser.cwd);
        fill(&mut self.repository, lesser.repository);
        fill(&mut self.root, lesser.root);
        fill(&mut self.branch, lesser.branch);
        fill(&mut self.agent_version, lesser.agent_version);
        fill(&mut self.model, lesser.model);
        self.started_at = self.started_at.or(lesser.started_at);
        self.ended_at = self.ended_at.or(lesser.ended_at);
        for title in lesser.titles {
            if self.titles.iter().all(|known| known.rank != title.rank) {
                self.add_title(title.rank, title.text);
            }
        }
        for document in lesser.documents {
            let is_known = self.documents.iter().any(|(name, _)| *name == document.0);
            if !is_known && !self.has_document(&document.1) {
                self.documents.push(document);
            }
        }
        append_missing(&mut self.summaries, lesser.summaries);
        append_missing(&mut self.refs, lesser.refs);
        append_missing(&mut self.files, lesser.files);
        self.begins_with_copy |= lesser.begins_with_copy;
        lesser.activity.into_iter().for_each(|at| self.note_activity(at));
        if !lesser.bills.is_empty() {
            lesser.bills.into_iter().for_each(|state| self.add_bill(state));
            self.bills.sort_by_key(|state| state.at);
        }
        for (key, value) in lesser.extensions {
            self.extensions.entry(key).or_insert(value);
        }
    }
}

/// Appends the items that are not in the list yet, in order.
fn append_missing<T: PartialEq>(known: &mut Vec<T>, later: Vec<T>) {
    for item in later {
        if !known.contains(&item) {
            known.push(item);
        }
    }
}

impl Session {
    /// Returns whether a document has this text, under any name.
    fn has_document(&self, text: &str) -> bool {
        self.documents.iter().any(|(_, known)| known.trim() == text.trim())
    }
}

impl SessionId {
    /// Returns a number for the id that is the same on every machine: the key in store and index.
    pub fn session_key(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        hasher.update(self.agent.as_bytes());
        hasher.update(b":");
        hasher.update(self.native.as_bytes());
        // One bit less, so that the key is a positive number in SQLite too.
        hasher.digest() >> 1
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.agent, self.native)
    }
}

impl TitleRank {
    /// Returns the rank's name, as used in every output.
    pub fn rank_name(self) -> &'static str {
        match self {
            Self::Renamed => "renamed",
            Self::Named => "named",
            Self::Generated => "generated",
            Self::Summary => "summary",
            Self::Listed => "listed",
            Self::Prompt => "prompt",
            Self::Command => "command",
            Self::Slug => "slug",
            Self::Path => "path",
            Self::Id => "id",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_title_of_a_rank_holds_and_ranks_stay_in_order() {
        let mut session = Session::new("x", "1");
        session.add_title(TitleRank::Generated, "first");
        session.add_title(TitleRank::Renamed, "mine");
        session.add_title(TitleRank::Generated, "second");
        let texts: Vec<&str> = session.titles.iter().map(|title| &*title.text).collect();
        assert_eq!(texts, ["mine", "second"]);
    }

    #[test]
    fn merging_keeps_the_first_directory_and_the_latest_branch() {
        let piece = |cwd: &str, branch: &str| Session {
            cwd: Some(cwd.into()),
            branch: Some(branch.into()),
            ..Session::new("x", "1")
        };
        let mut session = piece("/a", "main");
        session.merge_later(piece("/b", "fix"));
        assert_eq!((session.cwd.as_deref(), session.branch.as_deref()), (Some("/a"), Some("fix")));
    }
}
