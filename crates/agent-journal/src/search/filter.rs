//! Which sessions and messages are meant. One filter serves lists, searches, sums and exports;
//! it knows how to say itself to the store.

use std::fmt;

use jiff::tz::TimeZone;
use rusqlite::types::Value;

use super::field::kinds_of;
use crate::index::TextKind;
use crate::maps::Set;
use crate::model::Timestamp;

/// A session whose last sign of life is this recent is running, in milliseconds.
const RUNNING: i64 = 10 * 60 * 1000;

/// A choice of sessions and messages. Empty lists choose everything; several values of one field
/// mean any of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Agents, by id.
    pub agents: Vec<String>,
    /// Parts of project names or paths.
    pub projects: Vec<String>,
    /// Parts of the directories worked in.
    pub paths: Vec<String>,
    /// Parts of the paths of files that were touched: viewed, changed or created.
    pub files: Vec<String>,
    /// Parts of the paths of files that were changed or created.
    pub edited: Vec<String>,
    /// Names of branches.
    pub branches: Vec<String>,
    /// Parts of models' names, or `=` with a whole one.
    pub models: Vec<String>,
    /// Tools that were used, by their normal names.
    pub tools: Vec<String>,
    /// Beginnings of sessions' ids; what those started belongs to them.
    pub sessions: Vec<String>,
    /// What must be true of a session: all of these.
    pub states: Vec<State>,
    /// What a session must have in it: all of these.
    pub features: Vec<Feature>,
    /// How large a session must be: all of these.
    pub sizes: Vec<Size>,
    /// Hours of the day at which something was said.
    pub hours: Option<Hours>,
    /// Nothing that ended before.
    pub since: Option<Timestamp>,
    /// Nothing that began after.
    pub until: Option<Timestamp>,
    /// Roles whose text is searched.
    pub roles: Vec<String>,
    /// Kinds of text to search.
    pub kinds: Vec<TextKind>,
    /// Whether side conversations are searched too.
    pub side_chains: bool,
    /// Whose sessions.
    pub scope: Scope,
    /// What is left out: whatever fits any of it.
    pub not: Option<Box<Filter>>,
    /// Only sessions that a look at their messages chose.
    pub chosen: Option<ChosenSessions>,
}

/// Sessions that a look at their messages chose or left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenSessions {
    /// Those with a message that is wanted; all when nothing is asked of messages.
    pub(crate) with: Option<Set<u64>>,
    /// Those with a message that is not wanted.
    pub(crate) without: Set<u64>,
}

/// Whose sessions are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those a person started.
    #[default]
    Roots,
    /// Those of sub-agents too.
    All,
}

/// What may be true of a session or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Another session's agent ran it.
    SubAgent,
    /// The message is part of a side conversation.
    SideChain,
    /// It ended in a failure.
    Error,
    /// The message says that a tool or the agent failed.
    Failed,
    /// It was running at this time.
    Running(Timestamp),
    /// Its file is gone.
    Gone,
}

/// What a session may have in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// A picture.
    Image,
    /// A changed file.
    Edit,
    /// A failure, of a tool or of the agent.
    Error,
    /// A pull request.
    PullRequest,
}

/// How large a session must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// What is measured.
    pub of: Measure,
    /// The least.
    pub from: u64,
    /// The most, if there is one.
    pub to: Option<u64>,
}

/// What is measured of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// Its prompts.
    Prompts,
    /// The seconds it was worked on.
    Active,
}

/// Hours of the day, any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    /// From 0 to 23.
    pub wanted: Vec<i8>,
    /// Whose hours.
    pub zone: TimeZone,
}

/// What only packed rows of the store tell of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packed<'f> {
    /// It touched a file with one of these in its path.
    Touched(&'f [String]),
    /// It changed a file with one of these in its path; any file, if there are none.
    Edited(&'f [String]),
    /// It used one of these tools.
    Tools(&'f [String]),
    /// It has a picture.
    Image,
    /// Something was said in it at one of these hours.
    Hours(&'f Hours),
}

impl Filter {
    /// Adds what another filter asks for; the values of a field, of either, mean any of them.
    pub fn join(&mut self, other: Self) {
        self.since = self.since.max(other.since);
        self.until = [self.until, other.until].into_iter().flatten().min();
        self.add(other);
    }

    /// Adds everything but the times.
    fn add(&mut self, other: Self) {
        // Taken apart as a whole, so that no field is forgotten.
        let Self {
            agents,
            projects,
            paths,
            files,
            edited,
            branches,
            models,
            tools,
            sessions,
            states,
            features,
            sizes,
            hours,
            since: _,
            until: _,
            roles,
            kinds,
            side_chains,
            scope,
            not,
            chosen,
        } = other;
        self.chosen = self.chosen.take().or(chosen);
        for (all, more) in [
            (&mut self.agents, agents),
            (&mut self.projects, projects),
            (&mut self.paths, paths),
            (&mut self.files, files),
            (&mut self.edited, edited),
            (&mut self.branches, branches),
            (&mut self.models, models),
            (&mut self.tools, tools),
            (&mut self.sessions, sessions),
            (&mut self.roles, roles),
        ] {
            all.extend(more);
        }
        self.states.extend(states);
        self.features.extend(features);
        self.sizes.extend(sizes);
        self.kinds.extend(kinds);
        self.side_chains |= side_chains;
        if let Some(hours) = hours {
            let empty = Hours { wanted: Vec::new(), zone: hours.zone };
            self.hours.get_or_insert(empty).wanted.extend(hours.wanted);
        }
        if scope == Scope::All {
            self.scope = Scope::All;
        }
        if let Some(not) = not {
            self.not.get_or_insert_default().leave_out(*not);
        }
    }

    /// Adds what is left out as well: of two times the one that leaves out more.
    fn leave_out(&mut self, other: Self) {
        self.since = [self.since, other.since].into_iter().flatten().min();
        self.until = self.until.max(other.until);
        self.add(other);
    }

    /// Whether it chooses by anything that is a fact of whole sessions.
    pub(crate) fn limits_sessions(&self) -> bool {
        let lists =
            [&self.agents, &self.projects, &self.paths, &self.files, &self.branches, &self.models];
        lists.iter().any(|list| !list.is_empty())
            || !self.edited.is_empty()
            || !self.tools.is_empty()
            || !self.sessions.is_empty()
            || !self.features.is_empty()
            || !self.sizes.is_empty()
            || self.hours.is_some()
            || self.chosen.is_some()
            || self.states.iter().any(|state| !state.is_of_messages())
            || self.not.as_ref().is_some_and(|not| not.limits_sessions())
    }

    /// The field by which it chooses messages, if any: sessions as a whole have none of it.
    pub fn message_field(&self) -> Option<&'static str> {
        let own = if !self.roles.is_empty() {
            Some("role:")
        } else if !self.kinds.is_empty() {
            Some("kind:")
        } else if self.states.contains(&State::SideChain) {
            Some("is:sidechain")
        } else if self.states.contains(&State::Failed) {
            Some("is:failed")
        } else if self.side_chains {
            Some("include:")
        } else {
            None
        };
        own.or_else(|| self.not.as_ref()?.message_field())
    }

    /// Whether a query of nothing but these fields is answered by messages: one of them is about
    /// messages, and not about sessions as a whole.
    pub fn lists_messages(&self) -> bool {
        self.message_field().is_some()
            || !self.tools.is_empty()
            || self.not.as_ref().is_some_and(|not| !not.tools.is_empty())
    }

    /// Says the filter as an SQL condition on `sessions`, with its values. What packed rows tell
    /// is not in it.
    pub(crate) fn sql(&self) -> (String, Vec<Value>) {
        let mut conditions = Conditions::default();
        conditions.all.push("sessions.shown = 1".to_owned());
        if self.scope == Scope::Roots && !self.states.contains(&State::SubAgent) {
            conditions.all.push("sessions.kind = 0".to_owned());
        }
        self.about(&mut conditions);
        conditions.time("sessions.ended_at >= ?", self.since);
        conditions.time("sessions.started_at <= ?", self.until);
        if let Some(not) = &self.not {
            not.none(&mut conditions);
        }
        if let Some(chosen) = &self.chosen {
            conditions.all.extend(chosen.sql());
        }
        (conditions.all.join(" AND "), conditions.values)
    }

    /// Says what the filter asks of a session whatever its time: whether it is of the right
    /// agent, project and branch.
    pub(crate) fn about_sql(&self) -> (String, Vec<Value>) {
        let mut conditions = Conditions::default();
        conditions.all.push("1".to_owned());
        self.about(&mut conditions);
        if let Some(not) = &self.not {
            not.none(&mut conditions);
        }
        (conditions.all.join(" AND "), conditions.values)
    }

    /// What packed rows must tell of a session.
    pub(crate) fn packed(&self) -> Vec<Packed<'_>> {
        let mut all = Vec::new();
        if !self.files.is_empty() {
            all.push(Packed::Touched(&self.files));
        }
        if !self.edited.is_empty() {
            all.push(Packed::Edited(&self.edited));
        }
        if !self.tools.is_empty() {
            all.push(Packed::Tools(&self.tools));
        }
        for feature in &self.features {
            match feature {
                Feature::Image => all.push(Packed::Image),
                Feature::Edit => all.push(Packed::Edited(&[])),
                Feature::Error | Feature::PullRequest => {}
            }
        }
        all.extend(self.hours.iter().map(Packed::Hours));
        all
    }

    /// The kinds of text to search; none means all.
    pub(super) fn text_kinds(&self) -> Vec<TextKind> {
        let of_roles = self.roles.iter().flat_map(|role| kinds_of(role)).copied();
        let of_roles: Vec<TextKind> = of_roles.collect();
        let fits = |kind: &TextKind| {
            (self.roles.is_empty() || of_roles.contains(kind))
                && (self.kinds.is_empty() || self.kinds.contains(kind))
        };
        let is_left_out = |kind: &TextKind| {
            self.not.as_ref().is_some_and(|not| {
                not.kinds.contains(kind)
                    || not.roles.iter().any(|role| kinds_of(role).contains(kind))
            })
        };
        TextKind::ALL.into_iter().filter(|kind| fits(kind) && !is_left_out(kind)).collect()
    }

    fn about(&self, conditions: &mut Conditions) {
        let part = |text: &str| format!("%{}%", escape(text));
        let begins = |text: &str| format!("{}%", escape(text));
        let project = "sessions.project LIKE ? ESCAPE '\\' \
            OR sessions.project_path LIKE ? ESCAPE '\\' OR sessions.cwd LIKE ? ESCAPE '\\' \
            OR sessions.repository LIKE ? ESCAPE '\\'";
        let path = format!(
            "sessions.project_path LIKE ? ESCAPE '\\' OR sessions.cwd LIKE ? ESCAPE '\\' OR {}",
            one_of_several("directories")
        );
        let branch =
            format!("sessions.branch LIKE ? ESCAPE '\\' OR {}", one_of_several("branches"));
        let session = "sessions.native LIKE ? ESCAPE '\\' \
            OR sessions.agent || ':' || sessions.native LIKE ? ESCAPE '\\' \
            OR sessions.parent_native LIKE ? ESCAPE '\\'";
        conditions.any("sessions.agent = ?", &self.agents, str::to_owned);
        conditions.any(project, &self.projects, |text| {
            text.strip_prefix('=').map_or_else(|| part(text), escape)
        });
        conditions.any(&path, &self.paths, part);
        conditions.any(&branch, &self.branches, escape);
        conditions.any("sessions.models LIKE ? ESCAPE '\\'", &self.models, |text| {
            // In the list a name stands as JSON.
            let whole = text.strip_prefix('=').map(|name| serde_json::json!(name).to_string());
            part(whole.as_deref().unwrap_or(text))
        });
        conditions.any(session, &self.sessions, begins);
        conditions.all.extend(self.states.iter().filter_map(|it| it.sql()));
        conditions.all.extend(self.features.iter().filter_map(|it| it.sql()));
        conditions.all.extend(self.sizes.iter().map(|size| size.sql()));
    }

    /// Adds "fits none of it".
    fn none(&self, conditions: &mut Conditions) {
        let mut left_out =
            Conditions { values: std::mem::take(&mut conditions.values), ..Conditions::default() };
        self.about(&mut left_out);
        left_out.time("sessions.ended_at >= ?", self.since);
        left_out.time("sessions.started_at <= ?", self.until);
        conditions.values = left_out.values;
        let without = left_out.all.into_iter().map(|one| format!("NOT coalesce({one}, 0)"));
        conditions.all.extend(without);
    }
}

impl fmt::Display for Filter {
    /// Writes the filter as a query would say it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.terms();
        if let Some(not) = &self.not {
            all.extend(not.terms().into_iter().map(|term| format!("-{term}")));
        }
        formatter.write_str(&all.join(" "))
    }
}

impl Filter {
    fn terms(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |name: &str, values: &[String]| {
            let quote = |value: &String| {
                if value.contains(char::is_whitespace) {
                    format!("\"{value}\"")
                } else {
                    value.clone()
                }
            };
            let values: Vec<String> =
                values.iter().map(|value| format!("{name}:{}", quote(value))).collect();
            if !values.is_empty() {
                all.push(values.join(" OR "));
            }
        };
        add("agent", &self.agents);
        add("project", &self.projects);
        add("path", &self.paths);
        add("file", &self.files);
        add("edited", &self.edited);
        add("branch", &self.branches);
        add("model", &self.models);
        add("tool", &self.tools);
        add("session", &self.sessions);
        add("role", &self.roles);
        let kinds = self.kinds.iter().map(|kind| kind.name().to_owned());
        add("kind", &kinds.collect::<Vec<_>>());
        all.extend(self.side_chains.then(|| "include:sidechains".to_owned()));
        all.extend(self.states.iter().map(|state| format!("is:{}", state.name())));
        all.extend(self.features.iter().map(|feature| format!("has:{}", feature.name())));
        all.extend(self.sizes.iter().map(|size| size.term()));
        let hours = self.hours.iter().flat_map(|hours| &hours.wanted);
        let hours: Vec<String> = hours.map(|hour| format!("hour:{hour}")).collect();
        all.extend((!hours.is_empty()).then(|| hours.join(" OR ")));
        all.extend(self.since.map(|at| format!("since:{at}")));
        all.extend(self.until.map(|at| format!("until:{at}")));
        all
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::SubAgent => "subagent",
            Self::SideChain => "sidechain",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Running(_) => "running",
            Self::Gone => "gone",
        }
    }

    /// Whether it is true of messages, not of sessions.
    fn is_of_messages(self) -> bool {
        matches!(self, Self::SideChain | Self::Failed)
    }

    fn sql(self) -> Option<String> {
        Some(match self {
            Self::SideChain | Self::Failed => return None,
            Self::SubAgent => "sessions.kind = 1".to_owned(),
            Self::Error => "sessions.failed = 1".to_owned(),
            Self::Gone => source("(NOT sources.present OR tellings.gone)"),
            // A file that was copied or restored is new, but what it tells is not.
            Self::Running(now) => source(&format!(
                "sources.present AND NOT tellings.gone \
                 AND (sessions.ended_at IS NOT NULL OR sessions.prompts > 0) \
                 AND min(coalesce(sessions.ended_at, sources.modified / 1000000), \
                 sources.modified / 1000000) > {}",
                now.as_millis() - RUNNING
            )),
        })
    }
}

impl ChosenSessions {
    fn sql(&self) -> Vec<String> {
        // The keys are numbers of our own making: nothing to escape.
        let among = |keys: &Set<u64>| {
            let keys: Vec<String> = keys.iter().map(|key| (*key as i64).to_string()).collect();
            format!("sessions.telling IN ({})", keys.join(","))
        };
        let mut all: Vec<String> = self.with.iter().map(among).collect();
        all.extend((!self.without.is_empty()).then(|| format!("NOT {}", among(&self.without))));
        all
    }
}

/// Says something about the source a session was read from.
fn source(condition: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM tellings JOIN sources ON sources.id = tellings.source \
         WHERE tellings.key = sessions.telling AND {condition})"
    )
}

impl Feature {
    fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Edit => "edit",
            Self::Error => "error",
            Self::PullRequest => "pr",
        }
    }

    fn sql(self) -> Option<String> {
        match self {
            Self::Image | Self::Edit => None,
            Self::Error => Some("(sessions.tool_errors > 0 OR sessions.failed = 1)".to_owned()),
            Self::PullRequest => Some("sessions.refs LIKE '%\"kind\":\"pr\"%'".to_owned()),
        }
    }
}

impl Size {
    fn sql(self) -> String {
        let column = match self.of {
            Measure::Prompts => "sessions.prompts",
            Measure::Active => "sessions.active_s",
        };
        // Numbers of our own reading: nothing to escape.
        match self.to {
            Some(to) => format!("({column} BETWEEN {} AND {to})", self.from),
            None => format!("{column} >= {}", self.from),
        }
    }

    fn term(self) -> String {
        match (self.of, self.to) {
            (Measure::Prompts, Some(to)) => format!("prompts:{}..{to}", self.from),
            (Measure::Prompts, None) => format!("prompts:{}..", self.from),
            (Measure::Active, Some(to)) => format!("active:{}s..{}s", self.from, to + 1),
            (Measure::Active, None) => format!("active:{}s..", self.from),
        }
    }
}

/// Conditions that must all hold, with their values.
#[derive(Default)]
struct Conditions {
    all: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds "one of these fits"; every `?` of a condition stands for the same value.
    fn any(&mut self, condition: &str, wanted: &[String], value: impl Fn(&str) -> String) {
        if wanted.is_empty() {
            return;
        }
        let mut alternatives = Vec::new();
        for one in wanted {
            self.values.push(Value::from(value(one)));
            alternatives.push(condition.replace('?', &format!("?{}", self.values.len())));
        }
        // SQLite bounds the depth of an expression, and a chain of alternatives is as deep as it
        // is long: those of one value are taken together.
        self.all.push(match alternatives.len() {
            1 => format!("({})", alternatives[0]),
            _ => format!("(({}))", alternatives.join(") OR (")),
        });
    }

    fn time(&mut self, condition: &str, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.values.push(Value::from(at.as_millis()));
            self.all.push(condition.replace('?', &format!("?{}", self.values.len())));
        }
    }
}

/// Says that one value of a list fits. Most sessions have one branch and one directory, and no
/// list of them.
fn one_of_several(column: &str) -> String {
    format!(
        "(sessions.{column} != '[]' AND EXISTS (SELECT 1 FROM json_each(sessions.{column}) \
         WHERE value LIKE ? ESCAPE '\\'))"
    )
}

/// Takes their meaning from the wildcards of `LIKE`.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: &Filter, sql: &str, count: usize) {
        let (condition, values) = filter.sql();
        assert_eq!(condition, sql);
        assert_eq!(values.len(), count);
    }

    #[test]
    fn an_empty_filter_asks_for_every_root_session() {
        check(&Filter::default(), "sessions.shown = 1 AND sessions.kind = 0", 0);
        let all = Filter { scope: Scope::All, ..Filter::default() };
        check(&all, "sessions.shown = 1", 0);
    }

    #[test]
    fn a_project_is_meant_by_a_part_of_its_name_or_by_all_of_it() {
        let check = |project: &str, expected: &str| {
            let filter = Filter { projects: vec![project.into()], ..Filter::default() };
            assert_eq!(filter.sql().1, [Value::from(expected.to_owned())], "{project}");
        };
        check("my_web", "%my\\_web%");
        check("=my_web", "my\\_web");
    }

    #[test]
    fn every_value_is_a_parameter() {
        let filter = Filter {
            agents: vec!["a".into(), "b".into()],
            projects: vec!["100%".into()],
            since: Timestamp::from_millis(1),
            scope: Scope::All,
            ..Filter::default()
        };
        let sql = "sessions.shown = 1 AND ((sessions.agent = ?1) OR (sessions.agent = ?2)) \
            AND (sessions.project LIKE ?3 ESCAPE '\\' OR sessions.project_path LIKE ?3 ESCAPE '\\' \
            OR sessions.cwd LIKE ?3 ESCAPE '\\' OR sessions.repository LIKE ?3 ESCAPE '\\') \
            AND sessions.ended_at >= ?4";
        check(&filter, sql, 4);
    }

    #[test]
    fn what_is_left_out_may_be_unknown() {
        let not = Filter { branches: vec!["main".into()], ..Filter::default() };
        let filter = Filter { scope: Scope::All, not: Some(Box::new(not)), ..Filter::default() };
        let sql = "sessions.shown = 1 AND NOT coalesce((sessions.branch LIKE ?1 ESCAPE '\\' \
            OR (sessions.branches != '[]' AND EXISTS (SELECT 1 FROM json_each(sessions.branches) \
            WHERE value LIKE ?1 ESCAPE '\\'))), 0)";
        check(&filter, sql, 1);
    }

    #[test]
    fn a_filter_says_itself_as_a_query_would() {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let text = "project:web OR project:\"my api\" kind:prompt has:pr prompts:2..3 \
                    active:60s..300s active:0s.. hour:7 OR hour:22 -branch:main -is:gone";
        let query = super::super::Query::parse(text, &now).unwrap();
        assert_eq!(query.filter.to_string(), text);
    }

    #[test]
    fn two_filters_ask_for_everything_that_either_asks_for() {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let filter = |text: &str| super::super::Query::parse(text, &now).unwrap().filter;
        let mut one = filter("agent:codex hour:7 since:2026-11-01 until:2026-11-09 -branch:main");
        one.join(filter(
            "model:gpt include:sidechains is:gone hour:8 since:2026-11-03 until:2026-11-10 -file:x",
        ));
        let both = "agent:codex model:gpt include:sidechains is:gone hour:7 hour:8 since:2026-11-03 \
                    until:2026-11-09 -branch:main -file:x";
        assert_eq!(one, filter(both));
        let mut less = filter("-since:2026-11-03 -until:2026-11-04");
        less.join(filter("-since:2026-11-05 -until:2026-11-01"));
        assert_eq!(less, filter("-since:2026-11-03 -until:2026-11-04"));
    }

    #[test]
    fn roles_and_kinds_narrow_each_other() {
        let filter = |roles: &[&str], kinds: &[TextKind]| Filter {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            kinds: kinds.to_vec(),
            ..Filter::default()
        };
        assert_eq!(filter(&[], &[]).text_kinds(), TextKind::ALL);
        let tool = filter(&["tool"], &[TextKind::ToolOutput, TextKind::Reply]);
        assert_eq!(tool.text_kinds(), [TextKind::ToolOutput]);
        let without = Filter { not: Some(Box::new(filter(&["tool"], &[]))), ..Filter::default() };
        assert!(!without.text_kinds().contains(&TextKind::ToolInput));
        assert_eq!(without.text_kinds().len(), 5);
    }
}
