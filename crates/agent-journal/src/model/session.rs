//! One session of one agent, as its files tell it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::bill::{Bill, add_state};
use super::{Extensions, FOUND_DIR, Json, PROJECT_DIR, Timestamp};

/// Minutes of activity that are kept of one session, nearly three days of work.
const MAX_ACTIVITY: usize = 4096;

/// What the files say about a session as a whole. A connector may tell it in pieces: later
/// pieces are merged into earlier ones. What can be worked out from the messages (counts,
/// durations, the title when none is recorded) is not here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Which agent, and its id there.
    pub id: SessionId,
    /// The session that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The session whose messages this one begins with, where the format says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// Whether the file shows that its first messages were copied from another session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begins_with_copy: bool,
    /// Whether a person, an agent or the machine started it.
    pub kind: Kind,
    /// Every title on record, each with its rank.
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
    /// A model the format names for the session as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The earliest recorded instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The latest recorded instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Commits, pull requests and issues named in the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Ref>,
    /// Files the format itself lists as touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// When the files record something that became no message, at most once a minute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Timestamp>,
    /// States of the bill that the agent keeps of the session, in the order they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bills: Vec<Bill>,
    /// What the format records beyond this.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
    /// What only the journal knew that this telling was exported from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
}

/// What only the journal knew that a session was exported from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The kind of machine the agent's file was read on.
    pub kind: String,
    /// That machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The agent's file there.
    pub path: String,
    /// The project's directory there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// Sessions that this one started there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
}

/// How a session continues another one: a fork, or a sub-agent that was given its parent's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The agent's own id for the other session.
    pub session: String,
    /// How many of the first messages are the other session's.
    #[serde(default)]
    pub messages: u64,
}

/// A session's name everywhere: the agent's id and the id the agent gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The agent's id, such as `codex`.
    pub agent: String,
    /// The agent's own id for the session.
    pub native: String,
}

/// Who started a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A person.
    #[default]
    Root,
    /// Another session's agent.
    Agent,
    /// The program, as a working copy of another session: never listed, never searched.
    Copy,
}

/// A title on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// Where it comes from, best first.
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
    /// The program around the agent named it.
    Named,
    /// The agent made it up from the conversation.
    Generated,
    /// A summary of this session.
    Summary,
    /// A cache of the agent names it.
    Listed,
    /// The first prompt.
    Prompt,
    /// The first command.
    Command,
    /// A nickname the agent drew.
    Slug,
    /// The working directory.
    Path,
    /// Nothing better than the id.
    Id,
}

/// A summary that says which message it ends at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Uuid of the last message it covers.
    pub leaf: String,
    /// The summary.
    pub text: String,
}

/// Something outside that a session refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    /// `commit`, `pr` or `issue`.
    pub kind: String,
    /// A hash, a number or an address.
    pub value: String,
}

impl Session {
    /// Starts the account of a session.
    pub fn new(agent: &str, native: impl Into<String>) -> Self {
        let id = SessionId { agent: agent.to_owned(), native: native.into() };
        Self { id, ..Self::default() }
    }

    /// Adds a title; of one rank the last one holds.
    pub fn title(&mut self, rank: TitleRank, text: impl Into<String>) {
        let text = text.into();
        if text.trim().is_empty() {
            return;
        }
        self.titles.retain(|title| title.rank != rank);
        let at = self.titles.partition_point(|title| title.rank < rank);
        self.titles.insert(at, Title { rank, text });
    }

    /// Notes that something was done, unless something was in the same minute.
    pub fn note_activity(&mut self, at: Timestamp) {
        let minute = |at: Timestamp| at.as_millis().div_euclid(60_000);
        let place = self.activity.partition_point(|known| minute(*known) < minute(at));
        let is_known = self.activity.get(place).is_some_and(|known| minute(*known) == minute(at));
        if !is_known && self.activity.len() < MAX_ACTIVITY {
            self.activity.insert(place, at);
        }
    }

    /// Adds a state of the agent's own bill, unless it says nothing new.
    pub fn add_bill(&mut self, state: Bill) {
        add_state(&mut self.bills, state);
    }

    /// The name of the folder that the project's sessions lie in, where the agent has such.
    pub fn project_dir(&self) -> Option<String> {
        self.extensions.get(PROJECT_DIR)?.parse()
    }

    /// The directory that this folder stands for, where the disk told.
    pub fn found_dir(&self) -> Option<String> {
        self.extensions.get(FOUND_DIR)?.parse()
    }

    /// Notes the name of the folder that the project's sessions lie in.
    pub fn lies_in(&mut self, project_dir: &str) {
        self.extensions.insert(PROJECT_DIR.to_owned(), Json::from_value(&project_dir));
    }

    /// Widens the recorded time span.
    pub fn seen(&mut self, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        self.started_at = Some(self.started_at.map_or(at, |start| start.min(at)));
        self.ended_at = Some(self.ended_at.map_or(at, |end| end.max(at)));
    }

    /// Takes in what a later record of the same session says: first directory, latest branch
    /// and version, widest time span, every list united.
    pub fn merge(&mut self, later: Session) {
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
        self.seen(later.started_at);
        self.seen(later.ended_at);
        for title in later.titles {
            self.title(title.rank, title.text);
        }
        for (name, text) in later.documents {
            match self.documents.iter().position(|(known, _)| *known == name) {
                Some(at) => self.documents[at].1 = text,
                None if self.has_document(&text) => {}
                None => self.documents.push((name, text)),
            }
        }
        unite(&mut self.summaries, later.summaries);
        unite(&mut self.refs, later.refs);
        unite(&mut self.files, later.files);
        later.activity.into_iter().for_each(|at| self.note_activity(at));
        later.bills.into_iter().for_each(|state| self.add_bill(state));
        self.extensions.extend(later.extensions);
    }
}

impl Session {
    /// Takes in what a lesser source says about the same session: it fills gaps and adds to
    /// lists, and changes nothing that is known.
    pub fn complete(&mut self, lesser: Session) {
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
                self.title(title.rank, title.text);
            }
        }
        for document in lesser.documents {
            let is_known = self.documents.iter().any(|(name, _)| *name == document.0);
            if !is_known && !self.has_document(&document.1) {
                self.documents.push(document);
            }
        }
        unite(&mut self.summaries, lesser.summaries);
        unite(&mut self.refs, lesser.refs);
        unite(&mut self.files, lesser.files);
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

/// Appends what is new, in order.
fn unite<T: PartialEq>(known: &mut Vec<T>, later: Vec<T>) {
    for item in later {
        if !known.contains(&item) {
            known.push(item);
        }
    }
}

impl Session {
    /// Whether a document has this text, under whatever name.
    fn has_document(&self, text: &str) -> bool {
        self.documents.iter().any(|(_, known)| known.trim() == text.trim())
    }
}

impl SessionId {
    /// A number for the id that is the same on every machine: the key in store and index.
    pub fn key(&self) -> u64 {
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
    /// The rank's name in every output.
    pub fn name(self) -> &'static str {
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
        session.title(TitleRank::Generated, "first");
        session.title(TitleRank::Renamed, "mine");
        session.title(TitleRank::Generated, "second");
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
        session.merge(piece("/b", "fix"));
        assert_eq!((session.cwd.as_deref(), session.branch.as_deref()), (Some("/a"), Some("fix")));
    }
}
