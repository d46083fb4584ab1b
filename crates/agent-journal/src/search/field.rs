//! The fields of the query language: what each is called, and what its values mean. A table, and
//! the names its values may have.

use jiff::Zoned;

use super::parse::wrong;
use super::{Edge, Feature, Filter, Hours, Measure, Size, State, date};
use crate::connectors;
use crate::error::{Error, Result};
use crate::index::TextKind;
use crate::model::{Timestamp, tool_name};

/// A field of the language.
pub struct Field {
    /// What stands before the colon.
    pub name: &'static str,
    /// What it is about, for people.
    pub about: &'static str,
    /// The values it may have, or those that are often meant; none where the history has them.
    pub values: &'static [&'static str],
    /// Whether several values mean any of them.
    pub(super) is_choice: bool,
    pub(super) is_time: bool,
    set: Set,
}

/// What a field's value is put into.
enum Set {
    /// A list of texts.
    Texts(fn(&mut Filter) -> &mut Vec<String>),
    /// Something that has to be understood.
    Value(Value),
}

/// Every field.
const FIELDS: &[Field] = &[
    choice("agent", "whose session", |value, _, filter| {
        filter.agents.push(agent_name(value)?);
        Ok(())
    }),
    text(
        "project",
        "a project, by a part of its name, path or repository, or by =NAME",
        |filter| &mut filter.projects,
    ),
    text("path", "a directory it worked in, any of them", |filter| &mut filter.paths),
    text("file", "a file it touched: viewed, changed or created", |filter| &mut filter.files),
    text("edited", "a file it changed or created", |filter| &mut filter.edited),
    text("branch", "a git branch it was on, any of them", |filter| &mut filter.branches),
    text("model", "a model, by a part of its name, or by =NAME", |filter| &mut filter.models),
    choice("role", "who said it", |value, _, filter| {
        filter.roles.push(role(value)?);
        Ok(())
    })
    .of(&ROLES),
    choice("tool", "a tool that was called", |value, _, filter| {
        filter.tools.push(tool_name(value).into_owned());
        Ok(())
    }),
    choice("kind", "a kind of text", |value, _, filter| {
        filter.kinds.push(kind(value)?);
        Ok(())
    })
    .of(&KINDS),
    text("session", "one session, by the beginning of its id", |filter| &mut filter.sessions),
    both("is", "what a session is, or a message: sidechain, failed", |value, now, filter| {
        filter.states.push(state(value, now)?);
        Ok(())
    })
    .of(&STATES),
    both("include", "what is left out otherwise: side conversations", |value, _, filter| {
        choose("include", value, &INCLUDED)?;
        filter.side_chains = true;
        Ok(())
    })
    .of(&INCLUDED),
    both("has", "what a session has in it", |value, _, filter| {
        filter.features.push(feature(value)?);
        Ok(())
    })
    .of(&FEATURES),
    both("prompts", "how many prompts: 4, 2..7, 8..", |value, _, filter| {
        filter.sizes.push(size(Measure::Prompts, value)?);
        Ok(())
    }),
    both("active", "how long it was worked on: 5m..1h, 2h..", |value, _, filter| {
        filter.sizes.push(size(Measure::Active, value)?);
        Ok(())
    }),
    choice(
        "hour",
        "an hour of the day at which something was said: 0 to 23",
        |value, now, filter| {
            let hour = hour(value)?;
            let zone = now.time_zone().clone();
            filter.hours.get_or_insert(Hours { wanted: Vec::new(), zone }).wanted.push(hour);
            Ok(())
        },
    ),
    time("since", "not before: a date, 7d, last week", |value, now, filter| {
        filter.since = Some(date(value, now, Edge::Start)?);
        Ok(())
    }),
    time("until", "not after", |value, now, filter| {
        filter.until = Some(date(value, now, Edge::End)?);
        Ok(())
    }),
];

/// Other names of fields.
const ALIASES: [(&str, &str); 1] = [("source", "agent")];

/// Times that are often meant.
const TIMES: [&str; 6] = ["today", "yesterday", "7d", "30d", "90d", "1y"];

type Value = fn(&str, &Zoned, &mut Filter) -> Result<()>;

const fn field(name: &'static str, about: &'static str, set: Set) -> Field {
    Field { name, about, values: &[], is_choice: false, is_time: false, set }
}

const fn text(
    name: &'static str,
    about: &'static str,
    list: fn(&mut Filter) -> &mut Vec<String>,
) -> Field {
    Field { is_choice: true, ..field(name, about, Set::Texts(list)) }
}

const fn choice(name: &'static str, about: &'static str, set: Value) -> Field {
    Field { is_choice: true, ..field(name, about, Set::Value(set)) }
}

const fn both(name: &'static str, about: &'static str, set: Value) -> Field {
    field(name, about, Set::Value(set))
}

const fn time(name: &'static str, about: &'static str, set: Value) -> Field {
    Field { is_time: true, values: &TIMES, ..field(name, about, Set::Value(set)) }
}

impl Field {
    const fn of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// Adds a value to a filter.
    pub(super) fn set(&self, value: &str, now: &Zoned, filter: &mut Filter) -> Result<()> {
        match self.set {
            Set::Texts(list) => {
                list(filter).push(value.to_owned());
                Ok(())
            }
            Set::Value(set) => set(value, now, filter),
        }
    }
}

/// The fields a query may name, in the order they are told.
pub fn fields() -> &'static [Field] {
    FIELDS
}

/// Finds a field by its name, or by another name it has.
pub fn field_called(name: &str) -> Option<&'static Field> {
    let meant = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = meant.map_or(name, |(_, name)| name);
    FIELDS.iter().find(|field| field.name == name)
}

/// Reads `name:` at the front of a word, and the length of that. `after` is what follows the word:
/// a value in quotes. Other words with a colon (`std::mem`, `http://…`, `error:`) are words; a
/// name that is nearly a field's is a mistake worth telling.
pub(super) fn recognise(word: &str, after: &str) -> Result<Option<(&'static Field, usize)>> {
    let Some((name, value)) = word.split_once(':') else { return Ok(None) };
    let is_empty = value.is_empty() && !after.starts_with('"');
    if is_empty || value.starts_with([':', '\\']) || value.starts_with("//") {
        return Ok(None);
    }
    let lower = name.to_ascii_lowercase();
    if let Some(field) = field_called(&lower) {
        return Ok(Some((field, name.len() + 1)));
    }
    // A short name is near to too many words that are no mistake.
    let near = |field: &&Field| {
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

/// Finds the name that was probably meant.
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let distance = |other: &&&str| strsim::damerau_levenshtein(name, other);
    let near = known.iter().min_by_key(distance)?;
    (distance(&near) <= 1 + name.chars().count() / 4).then_some(near)
}

/// Finds an agent's id by any of its names.
pub fn agent(name: &str) -> Result<String> {
    let known = connectors::find(name).map(|connector| connector.agent().id.to_owned());
    known.ok_or_else(|| unknown_agent(name, &[]))
}

/// Returns the id that a filter's name of an agent means. A name that is not built in may be the
/// name of an imported agent: the journal decides when the filter is used.
pub fn agent_name(name: &str) -> Result<String> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(agent(name).unwrap_or_else(|_| name.to_owned()));
    }
    agent(name)
}

/// The error about a name that is neither built in nor among the agents of a journal.
pub(crate) fn unknown_agent(name: &str, imported: &[String]) -> Error {
    let built_in = connectors::ALL.iter().map(|connector| connector.agent());
    let known: Vec<&str> = built_in
        .clone()
        .flat_map(|agent| agent.aliases.iter().copied().chain([agent.id]))
        .chain(imported.iter().map(String::as_str))
        .collect();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut ids: Vec<&str> = built_in.map(|agent| agent.id).collect();
            for name in imported {
                if !ids.contains(&name.as_str()) {
                    ids.push(name);
                }
            }
            format!("known are {}", ids.join(", "))
        }
    };
    wrong(format!("unknown agent `{name}` — {hint}"))
}

const ROLES: [&str; 7] = ["user", "assistant", "tool", "title", "document", "input", "output"];

/// The kinds of text each role means.
const MEANT: [&[TextKind]; 7] = [
    &[TextKind::Prompt],
    &[TextKind::Reply, TextKind::Thinking, TextKind::ToolInput],
    &[TextKind::ToolInput, TextKind::ToolOutput],
    &[TextKind::Title],
    &[TextKind::Document],
    &[TextKind::ToolInput],
    &[TextKind::ToolOutput],
];

/// Checks a role.
pub fn role(name: &str) -> Result<String> {
    // Answers call the person who asks so.
    let name = if name.eq_ignore_ascii_case("you") { "user" } else { name };
    choose("role", name, &ROLES).map(|at| ROLES[at].to_owned())
}

/// The kinds of text a role means.
pub(super) fn kinds_of(role: &str) -> &'static [TextKind] {
    ROLES.iter().zip(MEANT).find(|(name, _)| **name == role).map_or(&[], |(_, kinds)| kinds)
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

fn state(name: &str, now: &Zoned) -> Result<State> {
    let at = choose("is", name, &STATES)?;
    let now = Timestamp::from_millis(now.timestamp().as_millisecond()).unwrap_or_default();
    let states = [
        State::SubAgent,
        State::SideChain,
        State::Error,
        State::Failed,
        State::Running(now),
        State::Gone,
    ];
    Ok(states[at])
}

const INCLUDED: [&str; 1] = ["sidechains"];

const FEATURES: [&str; 4] = ["image", "edit", "error", "pr"];

fn feature(name: &str) -> Result<Feature> {
    let at = choose("has", name, &FEATURES)?;
    Ok([Feature::Image, Feature::Edit, Feature::Error, Feature::PullRequest][at])
}

fn hour(value: &str) -> Result<i8> {
    let hour = value.parse().ok().filter(|hour| (0..24).contains(hour));
    hour.ok_or_else(|| wrong(format!("`hour:{value}` is no hour — hours are 0 to 23")))
}

/// Reads `4`, `2..7`, `8..` or `..3`; the end of a time is no longer part of it.
fn size(of: Measure, value: &str) -> Result<Size> {
    let (name, example, read): (_, _, fn(&str) -> Option<u64>) = match of {
        Measure::Prompts => ("prompts", "prompts:2..7", |text| text.parse().ok()),
        Measure::Active => ("active", "active:5m..1h", seconds),
    };
    let ends = match value.split_once("..") {
        Some(("", "")) => None,
        Some((from, "")) => read(from).map(|from| (from, None)),
        Some(("", to)) => read(to).map(|to| (0, Some(to))),
        Some((from, to)) => read(from).zip(read(to)).map(|(from, to)| (from, Some(to))),
        None if of == Measure::Prompts => read(value).map(|exact| (exact, Some(exact))),
        None => None,
    };
    let ends = match (of, ends) {
        (Measure::Active, Some((from, Some(to)))) => to.checked_sub(1).map(|to| (from, Some(to))),
        (_, ends) => ends,
    };
    let ends = ends.filter(|(from, to)| to.is_none_or(|to| *from <= to));
    let (from, to) = ends.ok_or_else(|| {
        wrong(format!("`{name}:{value}` is no range — write it like `{example}`"))
    })?;
    Ok(Size { of, from, to })
}

/// Reads `90s`, `5m`, `2h`; a number alone is minutes.
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

/// Finds a value among those a field may have.
fn choose(field: &str, name: &str, known: &[&str]) -> Result<usize> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let found = known.iter().position(|one| plain(one) == plain(name));
    found.ok_or_else(|| match (field, nearest(name, known)) {
        ("is" | "has" | "include", Some(near)) => {
            wrong(format!("unknown `{field}:{name}` — did you mean `{field}:{near}`?"))
        }
        ("is" | "has" | "include", None) => {
            wrong(format!("unknown `{field}:{name}` — known are {}", known.join(", ")))
        }
        _ => wrong(format!("unknown {field} `{name}` — known are {}", known.join(", "))),
    })
}
