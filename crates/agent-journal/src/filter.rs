//! The filter that selects sessions and messages, as plain data that knows only the model. Lists,
//! searches, statistics and exports share it. `search` parses it, `store` translates it into SQL.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::maps::Set;
use crate::model::Timestamp;

/// A selection of sessions and messages. Empty lists select everything; several values of one list
/// of texts are alternatives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Ids of agents.
    pub agents: Vec<String>,
    /// Parts of project names or paths, or `=` and a complete one.
    pub projects: Vec<String>,
    /// Parts of working directories.
    pub paths: Vec<String>,
    /// Parts of the paths of files that were touched: viewed, changed or created.
    pub files: Vec<String>,
    /// Parts of the paths of files that were changed or created.
    pub edited: Vec<String>,
    /// Names of branches.
    pub branches: Vec<String>,
    /// Parts of model names, or `=` and a complete one.
    pub models: Vec<String>,
    /// Normalized names of tools that were used.
    pub tools: Vec<String>,
    /// Prefixes of session ids; sub-agents of these sessions are included.
    pub sessions: Vec<String>,
    /// States of a session or message. All of them must hold.
    pub states: Vec<SessionState>,
    /// Features that a session must have. All of them must be present.
    pub features: Vec<SessionFeature>,
    /// Ranges for the numbers of a session. All of them must hold.
    pub ranges: Vec<NumberRange>,
    /// Hours of the day with at least one message.
    pub hours: Option<HoursOfDay>,
    /// The time before which sessions must not have ended.
    pub since: Option<Timestamp>,
    /// The time after which sessions must not have begun.
    pub until: Option<Timestamp>,
    /// Roles whose text is searched.
    pub roles: Vec<TextRole>,
    /// Kinds of text to search.
    pub kinds: Vec<TextKind>,
    /// Whether side conversations are searched too.
    pub side_chains: bool,
    /// Whether sessions of sub-agents are included.
    pub scope: Scope,
    /// Excluded sessions and messages: everything that fits any field of this filter.
    pub not: Option<Box<Filter>>,
    /// The sessions that were selected by their messages, if such a selection was made.
    pub chosen: Option<ChosenSessions>,
}

/// Sessions that were selected or excluded by their messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenSessions {
    /// Sessions with a wanted message; `None` if the filter has no condition on messages.
    pub(crate) with: Option<Set<u64>>,
    /// Sessions with an excluded message.
    pub(crate) without: Set<u64>,
}

/// The sessions that a filter covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Sessions that a person started.
    #[default]
    Roots,
    /// Sessions of sub-agents too.
    All,
}

/// A text of a session that a filter compares with a list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionText {
    /// The id of its agent.
    Agent,
    /// The name, path or repository of its project.
    Project,
    /// A directory it worked in.
    Path,
    /// The path of a file it touched.
    TouchedFile,
    /// The path of a file it changed or created.
    EditedFile,
    /// A branch it was on.
    Branch,
    /// A model that answered.
    Model,
    /// A tool it used.
    Tool,
    /// Its id or the id of its parent.
    Id,
}

/// A state of a session or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// The session was run by a sub-agent.
    SubAgent,
    /// The message is part of a side conversation.
    SideChain,
    /// The session ended with a failure.
    Error,
    /// The message reports that a tool or the agent failed.
    Failed,
    /// The session was running at this time.
    Running(Timestamp),
    /// The file of the session is gone.
    Gone,
}

/// A feature that a session may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionFeature {
    /// An image.
    Image,
    /// A changed file.
    Edit,
    /// A failure of a tool or of the agent.
    Error,
    /// A pull request.
    PullRequest,
}

/// A number that is known of every session. Filters compare it, listings are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionNumber {
    /// The number of prompts.
    Prompts,
    /// The active time in seconds.
    ActiveSeconds,
    /// The number of tool calls.
    ToolCalls,
    /// The number of tokens: input, output, cache read and cache write.
    Tokens,
}

/// A range for a number of a session. Both ends are part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The compared number.
    pub of: SessionNumber,
    /// The minimum.
    pub min: u64,
    /// The maximum, if there is one.
    pub max: Option<u64>,
}

/// Hours of the day, any of which may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoursOfDay {
    /// The hours, from 0 to 23.
    pub wanted: Vec<i8>,
    /// The time zone of the hours.
    pub zone: TimeZone,
}

/// The role of a text in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextRole {
    /// Text of the user.
    User,
    /// Text of the model, with its reasoning and its tool calls.
    Assistant,
    /// Inputs and outputs of tools.
    Tool,
    /// Titles.
    Title,
    /// Documents about a session.
    Document,
    /// Inputs of tools.
    Input,
    /// Outputs of tools.
    Output,
}

/// The kind of a searchable text, in the order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// The title of a session.
    Title,
    /// A longer text about a session: a checkpoint, a plan, a summary.
    Document,
    /// A prompt of the user.
    Prompt,
    /// A reply of the model.
    Reply,
    /// The input of a tool.
    ToolInput,
    /// The output of a tool.
    ToolOutput,
    /// The model's reasoning.
    Thinking,
}

impl TextKind {
    /// All kinds, by their number in the index.
    pub(crate) const ALL: [Self; 7] = [
        Self::Title,
        Self::Document,
        Self::Prompt,
        Self::Reply,
        Self::ToolInput,
        Self::ToolOutput,
        Self::Thinking,
    ];

    /// Returns the name of the kind in queries and all output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Document => "document",
            Self::Prompt => "prompt",
            Self::Reply => "reply",
            Self::ToolInput => "tool_input",
            Self::ToolOutput => "tool_output",
            Self::Thinking => "thinking",
        }
    }
}

impl TextRole {
    /// All roles.
    pub(crate) const ALL: [Self; 7] = [
        Self::User,
        Self::Assistant,
        Self::Tool,
        Self::Title,
        Self::Document,
        Self::Input,
        Self::Output,
    ];

    /// Returns the name of the role in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Title => "title",
            Self::Document => "document",
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    /// Returns the kinds of text that the role stands for.
    pub fn kinds(self) -> &'static [TextKind] {
        match self {
            Self::User => &[TextKind::Prompt],
            Self::Assistant => &[TextKind::Reply, TextKind::Thinking, TextKind::ToolInput],
            Self::Tool => &[TextKind::ToolInput, TextKind::ToolOutput],
            Self::Title => &[TextKind::Title],
            Self::Document => &[TextKind::Document],
            Self::Input => &[TextKind::ToolInput],
            Self::Output => &[TextKind::ToolOutput],
        }
    }
}

impl SessionText {
    /// All texts.
    pub(crate) const ALL: [Self; 9] = [
        Self::Agent,
        Self::Project,
        Self::Path,
        Self::TouchedFile,
        Self::EditedFile,
        Self::Branch,
        Self::Model,
        Self::Tool,
        Self::Id,
    ];
}

impl SessionState {
    /// Returns whether the state is one of messages, not of sessions.
    pub(crate) fn is_of_messages(self) -> bool {
        matches!(self, Self::SideChain | Self::Failed)
    }
}

impl Filter {
    /// Returns the wanted values of a text.
    pub fn texts(&self, of: SessionText) -> &[String] {
        match of {
            SessionText::Agent => &self.agents,
            SessionText::Project => &self.projects,
            SessionText::Path => &self.paths,
            SessionText::TouchedFile => &self.files,
            SessionText::EditedFile => &self.edited,
            SessionText::Branch => &self.branches,
            SessionText::Model => &self.models,
            SessionText::Tool => &self.tools,
            SessionText::Id => &self.sessions,
        }
    }

    /// Returns the wanted values of a text, to add further ones.
    pub fn texts_mut(&mut self, of: SessionText) -> &mut Vec<String> {
        match of {
            SessionText::Agent => &mut self.agents,
            SessionText::Project => &mut self.projects,
            SessionText::Path => &mut self.paths,
            SessionText::TouchedFile => &mut self.files,
            SessionText::EditedFile => &mut self.edited,
            SessionText::Branch => &mut self.branches,
            SessionText::Model => &mut self.models,
            SessionText::Tool => &mut self.tools,
            SessionText::Id => &mut self.sessions,
        }
    }

    /// Adds the conditions of another filter; the values of one text, from either filter, are
    /// alternatives.
    pub fn join(&mut self, other: Self) {
        self.since = self.since.max(other.since);
        self.until = [self.until, other.until].into_iter().flatten().min();
        self.add_conditions(other);
    }

    /// Adds further exclusions: of two times, the one that excludes more is kept.
    fn join_exclusions(&mut self, other: Self) {
        self.since = [self.since, other.since].into_iter().flatten().min();
        self.until = self.until.max(other.until);
        self.add_conditions(other);
    }

    /// Adds every condition but the times.
    fn add_conditions(&mut self, mut other: Self) {
        for text in SessionText::ALL {
            self.texts_mut(text).append(other.texts_mut(text));
        }
        self.states.append(&mut other.states);
        self.features.append(&mut other.features);
        self.ranges.append(&mut other.ranges);
        self.roles.append(&mut other.roles);
        self.kinds.append(&mut other.kinds);
        self.side_chains |= other.side_chains;
        if let Some(hours) = other.hours {
            let empty = HoursOfDay { wanted: Vec::new(), zone: hours.zone };
            self.hours.get_or_insert(empty).wanted.extend(hours.wanted);
        }
        if other.scope == Scope::All {
            self.scope = Scope::All;
        }
        if let Some(not) = other.not {
            self.not.get_or_insert_default().join_exclusions(*not);
        }
        self.chosen = self.chosen.take().or(other.chosen);
    }

    /// Returns whether the filter has a condition on whole sessions.
    pub(crate) fn limits_sessions(&self) -> bool {
        SessionText::ALL.into_iter().any(|text| !self.texts(text).is_empty())
            || !self.features.is_empty()
            || !self.ranges.is_empty()
            || self.hours.is_some()
            || self.chosen.is_some()
            || self.states.iter().any(|state| !state.is_of_messages())
            || self.not.as_ref().is_some_and(|not| not.limits_sessions())
    }

    /// Returns whether the filter has a condition on messages.
    pub fn selects_messages(&self) -> bool {
        !self.roles.is_empty()
            || !self.kinds.is_empty()
            || self.side_chains
            || self.states.iter().any(|state| state.is_of_messages())
            || self.not.as_ref().is_some_and(|not| not.selects_messages())
    }

    /// Returns whether a query that consists only of these fields lists messages: one of the fields
    /// is about messages and not about whole sessions.
    pub fn lists_messages(&self) -> bool {
        self.selects_messages()
            || !self.tools.is_empty()
            || self.not.as_ref().is_some_and(|not| !not.tools.is_empty())
    }

    /// Returns the kinds of text to search.
    pub(crate) fn text_kinds(&self) -> Vec<TextKind> {
        let of_roles: Vec<TextKind> =
            self.roles.iter().flat_map(|role| role.kinds()).copied().collect();
        let fits = |kind: &TextKind| {
            (self.roles.is_empty() || of_roles.contains(kind))
                && (self.kinds.is_empty() || self.kinds.contains(kind))
        };
        let is_excluded = |kind: &TextKind| {
            self.not.as_ref().is_some_and(|not| {
                not.kinds.contains(kind) || not.roles.iter().any(|role| role.kinds().contains(kind))
            })
        };
        TextKind::ALL.into_iter().filter(|kind| fits(kind) && !is_excluded(kind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_kinds_narrow_each_other() {
        let filter = |roles: &[TextRole], kinds: &[TextKind]| Filter {
            roles: roles.to_vec(),
            kinds: kinds.to_vec(),
            ..Filter::default()
        };
        assert_eq!(filter(&[], &[]).text_kinds(), TextKind::ALL);
        let tool = filter(&[TextRole::Tool], &[TextKind::ToolOutput, TextKind::Reply]);
        assert_eq!(tool.text_kinds(), [TextKind::ToolOutput]);
        let not = Some(Box::new(filter(&[TextRole::Tool], &[])));
        let without = Filter { not, ..Filter::default() };
        assert!(!without.text_kinds().contains(&TextKind::ToolInput));
        assert_eq!(without.text_kinds().len(), 5);
    }

    #[test]
    fn every_list_of_texts_is_joined_and_limits_sessions() {
        for text in SessionText::ALL {
            let mut other = Filter::default();
            other.texts_mut(text).push("x".to_owned());
            assert!(other.limits_sessions(), "{text:?}");
            let mut filter = Filter::default();
            filter.join(other);
            assert_eq!(filter.texts(text), ["x"], "{text:?}");
        }
    }
}
