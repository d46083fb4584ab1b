//! The search fields: one table with the name, aliases, values, help, example and rule of every
//! field. Help texts, completion, the skill, the descriptions of MCP and of the API, and the guide
//! are made from it; a new field is one entry.

use std::fmt;

use jiff::Zoned;

use super::parse::wrong;
use super::{DayEdge, date};
use crate::connectors;
use crate::error::{Error, Result};
use crate::filter::{
    Filter, HoursOfDay, NumberRange, SessionFeature, SessionNumber, SessionState, SessionText,
    TextKind, TextRole,
};
use crate::model::{Timestamp, tool_name};

/// A field of the query language.
pub struct SearchField {
    /// The name before the colon.
    pub name: &'static str,
    /// Other names before the colon.
    pub aliases: &'static [&'static str],
    /// The sessions or messages that it selects, as a noun phrase for the user.
    pub help: &'static str,
    /// An example of its use.
    pub example: &'static str,
    /// The allowed or common values. Empty for values that come from the history, such as projects.
    pub values: &'static [&'static str],
    /// The kind of results that it selects.
    pub target: FieldTarget,
    rule: FieldRule,
}

/// The kind of results that a field selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTarget {
    /// Whole sessions.
    Sessions,
    /// Messages, or sessions that contain such a message.
    Messages,
    /// Sessions or messages, depending on the value.
    Both,
}

/// The way in which the value of a field is parsed, and the condition that it adds to a filter.
enum FieldRule {
    /// A text of the session, as it was typed.
    Text(SessionText),
    /// A text of the session by its canonical name.
    Named(SessionText, fn(&str) -> Result<String>),
    /// A number of the session.
    Number(SessionNumber, NumberUnit),
    Role,
    Kind,
    State,
    Feature,
    Included,
    Hour,
    Since,
    Until,
}

/// The unit in which a number is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberUnit {
    /// A count, such as `7`, `10k` or `2m`.
    Count,
    /// Seconds, typed as `90s`, `5m` or `2h`. The typed upper end is exclusive.
    Duration,
}

/// All fields, in the order in which they are listed.
const FIELDS: &[SearchField] = &[
    SearchField {
        aliases: &["source"],
        ..field(
            "agent",
            FieldRule::Named(SessionText::Agent, agent_name),
            "sessions of an agent, by its id or alias",
            "agent:ID",
        )
    },
    field(
        "project",
        FieldRule::Text(SessionText::Project),
        "sessions of a project, by a part of its name, path or repository; `=NAME` for exactly that",
        "project:web",
    ),
    field(
        "path",
        FieldRule::Text(SessionText::Path),
        "sessions that worked in a directory, by a part of its path",
        "path:src/web",
    ),
    field(
        "file",
        FieldRule::Text(SessionText::TouchedFile),
        "sessions that viewed, changed or created a file",
        "file:auth.rs",
    ),
    field(
        "edited",
        FieldRule::Text(SessionText::EditedFile),
        "sessions that changed or created a file",
        "edited:auth.rs",
    ),
    field(
        "branch",
        FieldRule::Text(SessionText::Branch),
        "sessions on a git branch",
        "branch:feat/retry",
    ),
    field(
        "model",
        FieldRule::Text(SessionText::Model),
        "sessions with a model, by a part of its name; `=NAME` for exactly that",
        "model:opus",
    ),
    SearchField {
        values: &ROLES,
        target: FieldTarget::Messages,
        ..field("role", FieldRule::Role, "texts by their speaker or role", "role:user")
    },
    SearchField {
        target: FieldTarget::Both,
        ..field(
            "tool",
            FieldRule::Named(SessionText::Tool, |name| Ok(tool_name(name).into_owned())),
            "calls of a tool, or sessions that called it",
            "tool:bash",
        )
    },
    SearchField {
        values: &KINDS,
        target: FieldTarget::Messages,
        ..field("kind", FieldRule::Kind, "texts of a kind", "kind:prompt")
    },
    field(
        "session",
        FieldRule::Text(SessionText::Id),
        "a session and its sub-agents, by id or prefix",
        "session:3f1c",
    ),
    SearchField {
        values: &STATES,
        target: FieldTarget::Both,
        ..field(
            "is",
            FieldRule::State,
            "sessions in a state; `sidechain` and `failed` select messages",
            "is:failed",
        )
    },
    SearchField {
        values: &INCLUDED,
        target: FieldTarget::Messages,
        ..field(
            "include",
            FieldRule::Included,
            "side conversations too, which are excluded by default",
            "include:sidechains",
        )
    },
    SearchField {
        values: &FEATURES,
        ..field("has", FieldRule::Feature, "sessions with a feature", "has:pr")
    },
    field(
        "prompts",
        FieldRule::Number(SessionNumber::Prompts, NumberUnit::Count),
        "sessions by their number of prompts: `4`, `2..7`, `8..`",
        "prompts:2..7",
    ),
    field(
        "active",
        FieldRule::Number(SessionNumber::ActiveSeconds, NumberUnit::Duration),
        "sessions by their active time: `5m..1h`, `2h..`",
        "active:5m..1h",
    ),
    field(
        "tokens",
        FieldRule::Number(SessionNumber::Tokens, NumberUnit::Count),
        "sessions by their number of tokens: `..50k`, `1m..`",
        "tokens:1m..",
    ),
    field(
        "hour",
        FieldRule::Hour,
        "sessions with a message at an hour of the day, 0 to 23",
        "hour:23",
    ),
    SearchField {
        values: &TIMES,
        ..field(
            "since",
            FieldRule::Since,
            "results since a time: a date, `7d`, `last week`",
            "since:7d",
        )
    },
    SearchField {
        values: &TIMES,
        ..field("until", FieldRule::Until, "results until a time", "until:2026-11-03")
    },
];

/// Common values of time fields.
const TIMES: [&str; 6] = ["today", "yesterday", "7d", "30d", "90d", "1y"];

const fn field(
    name: &'static str,
    rule: FieldRule,
    help: &'static str,
    example: &'static str,
) -> SearchField {
    let target = FieldTarget::Sessions;
    SearchField { name, aliases: &[], help, example, values: &[], target, rule }
}

impl SearchField {
    /// Returns whether several values are alternatives. Otherwise all of them must hold.
    pub(super) fn is_choice(&self) -> bool {
        matches!(
            self.rule,
            FieldRule::Text(_)
                | FieldRule::Named(..)
                | FieldRule::Role
                | FieldRule::Kind
                | FieldRule::Hour
        )
    }

    /// Returns whether the value is a time, which may consist of two words.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.rule, FieldRule::Since | FieldRule::Until)
    }

    /// Parses a value and adds its condition to a filter.
    pub(super) fn add_to(&self, filter: &mut Filter, value: &str, now: &Zoned) -> Result<()> {
        match self.rule {
            FieldRule::Text(of) => filter.texts_mut(of).push(value.to_owned()),
            FieldRule::Named(of, name) => filter.texts_mut(of).push(name(value)?),
            FieldRule::Number(of, unit) => filter.ranges.push(self.range(of, unit, value)?),
            FieldRule::Role => filter.roles.push(role(value)?),
            FieldRule::Kind => filter.kinds.push(kind(value)?),
            FieldRule::State => filter.states.push(state(value, now)?),
            FieldRule::Feature => filter.features.push(feature(value)?),
            FieldRule::Included => {
                choose("include", value, &INCLUDED)?;
                filter.side_chains = true;
            }
            FieldRule::Hour => {
                let (hour, zone) = (hour(value)?, now.time_zone().clone());
                let empty = HoursOfDay { wanted: Vec::new(), zone };
                filter.hours.get_or_insert(empty).wanted.push(hour);
            }
            FieldRule::Since => filter.since = Some(date(value, now, DayEdge::Start)?),
            FieldRule::Until => filter.until = Some(date(value, now, DayEdge::End)?),
        }
        Ok(())
    }

    /// Returns the values of this field in a filter, as a query has them.
    fn values_in(&self, filter: &Filter) -> Vec<String> {
        match self.rule {
            FieldRule::Text(of) | FieldRule::Named(of, _) => filter.texts(of).to_vec(),
            FieldRule::Number(of, unit) => {
                let ranges = filter.ranges.iter().filter(|range| range.of == of);
                ranges.map(|range| range_text(*range, unit)).collect()
            }
            FieldRule::Role => filter.roles.iter().map(|it| it.name().to_owned()).collect(),
            FieldRule::Kind => filter.kinds.iter().map(|it| it.name().to_owned()).collect(),
            FieldRule::State => filter.states.iter().map(|it| state_name(*it).to_owned()).collect(),
            FieldRule::Feature => {
                filter.features.iter().map(|it| feature_name(*it).to_owned()).collect()
            }
            FieldRule::Included => {
                filter.side_chains.then(|| INCLUDED[0].to_owned()).into_iter().collect()
            }
            FieldRule::Hour => {
                let hours = filter.hours.iter().flat_map(|hours| &hours.wanted);
                hours.map(ToString::to_string).collect()
            }
            FieldRule::Since => filter.since.iter().map(ToString::to_string).collect(),
            FieldRule::Until => filter.until.iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns this field's conditions in a filter, in query syntax.
    fn terms_in(&self, filter: &Filter) -> Vec<String> {
        let quote = |value: String| {
            if value.contains(char::is_whitespace) {
                format!("{}:\"{value}\"", self.name)
            } else {
                format!("{}:{value}", self.name)
            }
        };
        let terms: Vec<String> = self.values_in(filter).into_iter().map(quote).collect();
        if terms.is_empty() || !self.is_choice() { terms } else { vec![terms.join(" OR ")] }
    }

    /// Parses `4`, `2..7`, `8..` or `..3`.
    fn range(&self, of: SessionNumber, unit: NumberUnit, value: &str) -> Result<NumberRange> {
        let read = |text: &str| match unit {
            NumberUnit::Count => count(text),
            NumberUnit::Duration => seconds(text),
        };
        let ends = match value.split_once("..") {
            Some(("", "")) => None,
            Some((min, "")) => read(min).map(|min| (min, None)),
            Some(("", max)) => read(max).map(|max| (0, Some(max))),
            Some((min, max)) => read(min).zip(read(max)).map(|(min, max)| (min, Some(max))),
            None if unit == NumberUnit::Count => read(value).map(|exact| (exact, Some(exact))),
            None => None,
        };
        let ends = match (unit, ends) {
            (NumberUnit::Duration, Some((min, Some(max)))) => {
                max.checked_sub(1).map(|max| (min, Some(max)))
            }
            (_, ends) => ends,
        };
        let ends = ends.filter(|(min, max)| max.is_none_or(|max| *min <= max));
        let (min, max) = ends.ok_or_else(|| {
            let Self { name, example, .. } = self;
            wrong(format!("`{name}:{value}` is not a range — write it like `{example}`"))
        })?;
        Ok(NumberRange { of, min, max })
    }
}

impl fmt::Display for Filter {
    /// Writes the filter in query syntax.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<String> = FIELDS.iter().flat_map(|field| field.terms_in(self)).collect();
        if let Some(not) = &self.not {
            let excluded = FIELDS.iter().flat_map(|field| field.terms_in(not));
            all.extend(excluded.map(|term| format!("-{term}")));
        }
        formatter.write_str(&all.join(" "))
    }
}

/// Returns all search fields, in the order in which they are listed.
pub fn search_fields() -> &'static [SearchField] {
    FIELDS
}

/// Finds a field by its name or by an alias.
pub fn search_field(name: &str) -> Option<&'static SearchField> {
    FIELDS.iter().find(|field| field.name == name || field.aliases.contains(&name))
}

/// Describes the query language in one paragraph, with the values or the help of every field.
pub fn describe_query_language() -> String {
    let mut text = "Words, \"a phrase\", prefix*, -exclude, a OR b, /regex/, and fields such as \
        file:login.rs since:7d; fields alone list all matches, latest first. Fields:"
        .to_owned();
    for field in FIELDS {
        let values = if field.values.is_empty() {
            field.help.replace('`', "")
        } else {
            field.values.join("|")
        };
        text.push_str(&format!(" {}: ({values})", field.name));
    }
    text
}

/// Returns the first field by which a filter selects messages, as it is typed; `None` if it selects
/// whole sessions.
pub fn message_field(filter: &Filter) -> Option<String> {
    let only_messages = Filter {
        states: filter.states.iter().copied().filter(|state| state.is_of_messages()).collect(),
        ..filter.clone()
    };
    let term = |field: &SearchField| match field.target {
        FieldTarget::Sessions => None,
        FieldTarget::Messages => {
            (!field.values_in(filter).is_empty()).then(|| format!("{}:", field.name))
        }
        FieldTarget::Both => match field.rule {
            FieldRule::State => field.terms_in(&only_messages).into_iter().next(),
            _ => None,
        },
    };
    let own = FIELDS.iter().find_map(term);
    own.or_else(|| filter.not.as_ref().and_then(|not| message_field(not)))
}

/// Parses `name:` at the start of a word; returns the field and the length of that prefix. `after`
/// is the text behind the word, which may begin with a quoted value. Other words with a colon
/// (`std::mem`, `http://…`, `error:`) are plain words; a name that nearly matches a field is an
/// error.
pub(super) fn field_prefix(
    word: &str,
    after: &str,
) -> Result<Option<(&'static SearchField, usize)>> {
    let Some((name, value)) = word.split_once(':') else { return Ok(None) };
    let is_empty = value.is_empty() && !after.starts_with('"');
    if is_empty || value.starts_with([':', '\\']) || value.starts_with("//") {
        return Ok(None);
    }
    let lower = name.to_ascii_lowercase();
    if let Some(field) = search_field(&lower) {
        return Ok(Some((field, name.len() + 1)));
    }
    // A short name is similar to too many ordinary words.
    let near = |field: &&SearchField| {
        let distance = strsim::damerau_levenshtein(&lower, field.name);
        distance == 1 && lower.len() >= 4 || distance == 2 && lower.len() >= 6
    };
    match FIELDS.iter().find(near) {
        Some(field) if !value.starts_with('/') => {
            Err(wrong(format!("unknown field `{name}:` — did you mean `{}:`?", field.name)))
        }
        _ => Ok(None),
    }
}

/// Returns the known name that is most similar to `name`, if one is similar enough.
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let distance = |other: &&&str| strsim::damerau_levenshtein(name, other);
    let near = known.iter().min_by_key(distance)?;
    (distance(&near) <= 1 + name.chars().count() / 4).then_some(near)
}

/// Returns the id of a built-in agent by any of its names.
pub fn agent(name: &str) -> Result<String> {
    let known = connectors::find_connector(name).map(|connector| connector.agent().id.to_owned());
    known.ok_or_else(|| unknown_agent(name, &[]))
}

/// Returns the id of the agent that a filter names. A name that is not built in may be that of an
/// imported agent: the journal checks it when the filter is used.
pub fn agent_name(name: &str) -> Result<String> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(agent(name).unwrap_or_else(|_| name.to_owned()));
    }
    agent(name)
}

/// Returns the error for a name that is neither built in nor an agent of the journal.
pub(crate) fn unknown_agent(name: &str, imported: &[String]) -> Error {
    let built_in: Vec<&connectors::Agent> =
        connectors::all_connectors().map(connectors::Connector::agent).collect();
    let known: Vec<&str> = built_in
        .iter()
        .flat_map(|agent| agent.aliases.iter().copied().chain([agent.id]))
        .chain(imported.iter().map(String::as_str))
        .collect();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut ids: Vec<&str> = built_in.iter().map(|agent| agent.id).collect();
            for name in imported {
                if !ids.contains(&name.as_str()) {
                    ids.push(name);
                }
            }
            format!("expected one of {}", ids.join(", "))
        }
    };
    wrong(format!("unknown agent `{name}` — {hint}"))
}

const ROLES: [&str; 7] = ["user", "assistant", "tool", "title", "document", "input", "output"];

fn role(name: &str) -> Result<TextRole> {
    // Answers show the user as "you".
    let name = if name.eq_ignore_ascii_case("you") { "user" } else { name };
    choose("role", name, &ROLES).map(|at| TextRole::ALL[at])
}

const KINDS: [&str; 11] = [
    "title",
    "document",
    "checkpoint",
    "summary",
    "prompt",
    "reply",
    "input",
    "tool_input",
    "output",
    "tool_output",
    "thinking",
];

fn kind(name: &str) -> Result<TextKind> {
    Ok(match KINDS[choose("kind", name, &KINDS)?] {
        "title" => TextKind::Title,
        "prompt" => TextKind::Prompt,
        "reply" => TextKind::Reply,
        "input" | "tool_input" => TextKind::ToolInput,
        "output" | "tool_output" => TextKind::ToolOutput,
        "thinking" => TextKind::Thinking,
        _ => TextKind::Document,
    })
}

const STATES: [&str; 6] = ["subagent", "sidechain", "error", "failed", "running", "gone"];

fn state(name: &str, now: &Zoned) -> Result<SessionState> {
    let at = choose("is", name, &STATES)?;
    let now = Timestamp::from_millis(now.timestamp().as_millisecond()).unwrap_or_default();
    let states = [
        SessionState::SubAgent,
        SessionState::SideChain,
        SessionState::Error,
        SessionState::Failed,
        SessionState::Running(now),
        SessionState::Gone,
    ];
    Ok(states[at])
}

fn state_name(state: SessionState) -> &'static str {
    match state {
        SessionState::SubAgent => "subagent",
        SessionState::SideChain => "sidechain",
        SessionState::Error => "error",
        SessionState::Failed => "failed",
        SessionState::Running(_) => "running",
        SessionState::Gone => "gone",
    }
}

const INCLUDED: [&str; 1] = ["sidechains"];

const FEATURES: [&str; 4] = ["image", "edit", "error", "pr"];

fn feature(name: &str) -> Result<SessionFeature> {
    let features = [
        SessionFeature::Image,
        SessionFeature::Edit,
        SessionFeature::Error,
        SessionFeature::PullRequest,
    ];
    Ok(features[choose("has", name, &FEATURES)?])
}

fn feature_name(feature: SessionFeature) -> &'static str {
    match feature {
        SessionFeature::Image => "image",
        SessionFeature::Edit => "edit",
        SessionFeature::Error => "error",
        SessionFeature::PullRequest => "pr",
    }
}

fn hour(value: &str) -> Result<i8> {
    let hour = value.parse().ok().filter(|hour| (0..24).contains(hour));
    hour.ok_or_else(|| wrong(format!("`hour:{value}` is not an hour — use 0 to 23")))
}

/// Returns a range in query syntax.
fn range_text(range: NumberRange, unit: NumberUnit) -> String {
    let NumberRange { min, max, .. } = range;
    match (unit, max) {
        (NumberUnit::Count, Some(max)) => format!("{min}..{max}"),
        (NumberUnit::Count, None) => format!("{min}.."),
        (NumberUnit::Duration, Some(max)) => format!("{min}s..{}s", max + 1),
        (NumberUnit::Duration, None) => format!("{min}s.."),
    }
}

/// Parses `7`, `10k` or `2m`.
fn count(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(number) => (number, 1_000_000),
            None => (text, 1),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses `90s`, `5m` or `2h`; a number without a unit is minutes.
fn seconds(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|one: char| one.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "s" => 1,
        "" | "m" | "min" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the index of a value among the allowed values of a field.
fn choose(field: &str, name: &str, known: &[&str]) -> Result<usize> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let found = known.iter().position(|one| plain(one) == plain(name));
    found.ok_or_else(|| match (field, nearest(name, known)) {
        ("is" | "has" | "include", Some(near)) => {
            wrong(format!("unknown `{field}:{name}` — did you mean `{field}:{near}`?"))
        }
        ("is" | "has" | "include", None) => {
            wrong(format!("unknown `{field}:{name}` — expected one of {}", known.join(", ")))
        }
        _ => wrong(format!("unknown {field} `{name}` — expected one of {}", known.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Query;

    fn parse(text: &str) -> Result<Filter> {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        Query::parse(text, &now).map(|query| query.filter)
    }

    #[test]
    fn every_field_is_described_and_its_values_are_understood() {
        for field in FIELDS {
            let SearchField { name, help, example, .. } = field;
            assert!(help.starts_with(char::is_lowercase) && !help.ends_with('.'), "{name}");
            assert!(example.starts_with(&format!("{name}:")), "{name}");
            let values = field.values.iter().map(|value| format!("{name}:{value}"));
            for typed in values.chain([(*example).to_owned()]) {
                let filter = parse(&typed).unwrap();
                assert!(!field.values_in(&filter).is_empty(), "{typed}");
                assert_eq!(parse(&filter.to_string()).unwrap(), filter, "{typed}");
            }
        }
    }

    #[test]
    fn no_two_fields_have_the_same_name() {
        let names = FIELDS.iter().flat_map(|field| field.aliases.iter().chain([&field.name]));
        let mut names: Vec<&&str> = names.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(search_field("source").map(|field| field.name), Some("agent"));
    }

    #[test]
    fn a_filter_is_written_as_a_query() {
        let text = "project:web OR project:\"my api\" kind:prompt has:pr prompts:2..3 \
                    active:60s..300s active:0s.. hour:7 OR hour:22 -branch:main -is:gone";
        assert_eq!(parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn two_filters_ask_for_everything_that_either_asks_for() {
        let filter = |text: &str| parse(text).unwrap();
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
    fn numbers_are_ranges() {
        let range = |text: &str| {
            let [range] = parse(text).unwrap().ranges[..] else { panic!("{text}") };
            (range.min, range.max)
        };
        assert_eq!(range("prompts:4"), (4, Some(4)));
        assert_eq!(range("prompts:..3"), (0, Some(3)));
        assert_eq!(range("prompts:2k..1m"), (2_000, Some(1_000_000)));
        assert_eq!(range("active:5m..1h"), (300, Some(3599)));
        for wrong in ["prompts:7..2", "prompts:..", "prompts:many", "active:5m"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("is not a range — write it like `"), "{error}");
        }
    }

    #[test]
    fn fields_that_select_messages_are_named() {
        let named = |text: &str| message_field(&parse(text).unwrap());
        assert_eq!(named("agent:codex tool:bash is:error has:edit"), None);
        assert_eq!(named("role:user").as_deref(), Some("role:"));
        assert_eq!(named("is:gone is:failed").as_deref(), Some("is:failed"));
        assert_eq!(named("-kind:prompt").as_deref(), Some("kind:"));
        assert_eq!(named("include:sidechains").as_deref(), Some("include:"));
        for text in ["role:user", "is:failed", "-kind:prompt", "include:sidechains", "agent:codex"]
        {
            let filter = parse(text).unwrap();
            assert_eq!(filter.selects_messages(), message_field(&filter).is_some(), "{text}");
        }
    }
}
