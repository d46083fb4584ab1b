//! The query language: words, `"phrases"`, `prefix*`, `-not`, and fields such as `agent:codex`.

use jiff::civil::Date;
use jiff::{ToSpan, Zoned};

use super::Filter;
use crate::connectors;
use crate::error::{Error, Result};
use crate::model::Timestamp;

/// The fields a query may name.
pub const FIELDS: [&str; 6] = ["agent", "branch", "project", "role", "since", "until"];

/// The roles a query may name.
pub const ROLES: [&str; 7] = ["user", "assistant", "tool", "title", "document", "input", "output"];

/// A query, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// As it was typed.
    pub text: String,
    /// What to look for.
    pub clauses: Vec<Clause>,
    /// Where to look.
    pub filter: Filter,
}

/// One thing to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// What.
    pub pattern: Pattern,
    /// Whether it must not be there.
    pub negated: bool,
}

/// What a clause looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A word, or an identifier with its parts in order.
    Word(String),
    /// Words next to each other.
    Phrase(String),
    /// A word that begins like this.
    Prefix(String),
}

impl Query {
    /// Understands what was typed; relative dates count from `now`.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self> {
        let mut query = Self { text: text.trim().to_owned(), ..Self::default() };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            rest = query.clause(rest, now)?.trim_start();
        }
        Ok(query)
    }

    /// Takes one clause off the front.
    fn clause<'t>(&mut self, text: &'t str, now: &Zoned) -> Result<&'t str> {
        let (negated, text) = match text.strip_prefix('-') {
            Some(rest) if rest.starts_with(|c: char| c == '"' || c.is_alphanumeric()) => {
                (true, rest)
            }
            _ => (false, text),
        };
        if let Some(inside) = text.strip_prefix('"') {
            let Some((phrase, rest)) = inside.split_once('"') else {
                return Err(wrong(format!("a quote is not closed: \"{inside}")));
            };
            self.clauses.push(Clause { pattern: Pattern::Phrase(phrase.to_owned()), negated });
            return Ok(rest);
        }
        let (word, rest) = word(text);
        if let Some((name, value)) = field(word)? {
            if negated {
                return Err(wrong(format!(
                    "`-{name}:` is not understood: a field cannot be negated"
                )));
            }
            self.field(name, value, now)?;
            return Ok(rest);
        }
        let pattern = match word.strip_suffix('*') {
            Some(beginning) if !beginning.is_empty() => Pattern::Prefix(beginning.to_owned()),
            _ => Pattern::Word(word.to_owned()),
        };
        self.clauses.push(Clause { pattern, negated });
        Ok(rest)
    }

    fn field(&mut self, name: &str, value: &str, now: &Zoned) -> Result<()> {
        let value = value.trim_matches('"');
        match name {
            "agent" => self.filter.agents.push(agent(value)?),
            "project" => self.filter.projects.push(value.to_owned()),
            "branch" => self.filter.branches.push(value.to_owned()),
            "since" => self.filter.since = Some(date(value, now, Edge::Start)?),
            "until" => self.filter.until = Some(date(value, now, Edge::End)?),
            _ => self.filter.roles.push(role(value)?),
        }
        Ok(())
    }
}

/// Splits off a word; a quoted value of a field belongs to it.
fn word(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|character: char| {
        quoted ^= character == '"';
        character.is_whitespace() && !quoted
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// Reads `name:value`. Other words with a colon (`std::mem`, `http://…`, `error:`) are words; a
/// name that is nearly a field's is a mistake worth telling.
fn field(word: &str) -> Result<Option<(&str, &str)>> {
    let Some((name, value)) = word.split_once(':') else { return Ok(None) };
    if value.is_empty() || value.starts_with([':', '/', '\\']) {
        return Ok(None);
    }
    if FIELDS.contains(&name) {
        return Ok(Some((name, value)));
    }
    match nearest(name, &FIELDS) {
        Some(near) => Err(wrong(format!("unknown field `{name}:` — did you mean `{near}:`?"))),
        None => Ok(None),
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
    if let Some(connector) = connectors::find(name) {
        return Ok(connector.agent().id.to_owned());
    }
    let known: Vec<&str> = connectors::ALL
        .iter()
        .flat_map(|connector| {
            let agent = connector.agent();
            agent.aliases.iter().copied().chain([agent.id])
        })
        .collect();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let ids: Vec<&str> = connectors::ALL.iter().map(|one| one.agent().id).collect();
            format!("known are {}", ids.join(", "))
        }
    };
    Err(wrong(format!("unknown agent `{name}` — {hint}")))
}

/// Checks a role.
pub fn role(name: &str) -> Result<String> {
    if ROLES.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(wrong(format!("unknown role `{name}` — known are {}", ROLES.join(", "))))
}

/// Which end of a day or period a date means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Its beginning.
    Start,
    /// Its end.
    End,
}

/// Reads a date: `2026-11-03`, an instant, `7d`, `12h`, `2w`, `3m`, `1y`, `today`, `yesterday`.
pub fn date(text: &str, now: &Zoned, edge: Edge) -> Result<Timestamp> {
    let found = calendar_day(text, now)
        .and_then(|day| {
            let day = if edge == Edge::End { day.checked_add(1.day()).ok()? } else { day };
            let start = day.to_zoned(now.time_zone().clone()).ok()?.timestamp();
            let shift = i64::from(edge == Edge::End);
            Timestamp::from_millis(start.as_millisecond() - shift)
        })
        .or_else(|| ago(text, now))
        .or_else(|| Timestamp::parse(text));
    found.ok_or_else(|| {
        wrong(format!("`{text}` is no date — try 2026-11-03, 7d, 12h, 2w, today or yesterday"))
    })
}

fn calendar_day(text: &str, now: &Zoned) -> Option<Date> {
    match text {
        "today" => Some(now.date()),
        "yesterday" => now.date().checked_sub(1.day()).ok(),
        _ if text.len() == 10 => text.parse().ok(),
        _ => None,
    }
}

fn ago(text: &str, now: &Zoned) -> Option<Timestamp> {
    let split = text.find(|character: char| !character.is_ascii_digit())?;
    let (count, unit) = text.split_at(split);
    let count: i64 = count.parse().ok().filter(|count| *count <= 100_000)?;
    let span = match unit {
        "h" => count.hours(),
        "d" => count.days(),
        "w" => count.weeks(),
        "m" | "mo" => count.months(),
        "y" => count.years(),
        _ => return None,
    };
    let then = now.checked_sub(span).ok()?;
    Timestamp::from_millis(then.timestamp().as_millisecond())
}

fn wrong(message: String) -> Error {
    Error::Query { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-15T12:00:00+01:00[Europe/Paris]".parse().unwrap()
    }

    fn check(text: &str, expected: &str) {
        let shown = match Query::parse(text, &now()) {
            Ok(query) => {
                let clause = |clause: &Clause| {
                    let sign = if clause.negated { "-" } else { "" };
                    match &clause.pattern {
                        Pattern::Word(text) => format!("{sign}word({text})"),
                        Pattern::Phrase(text) => format!("{sign}phrase({text})"),
                        Pattern::Prefix(text) => format!("{sign}prefix({text})"),
                    }
                };
                query.clauses.iter().map(clause).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn words_phrases_prefixes_and_what_must_not_be_there() {
        check("flaky login", "word(flaky) word(login)");
        check(r#""a b" c"#, "phrase(a b) word(c)");
        check(r#"-x -"y z" token*"#, "-word(x) -phrase(y z) prefix(token)");
        check("a - b --flag", "word(a) word(-) word(b) word(--flag)");
        check("", "");
    }

    #[test]
    fn colons_are_ordinary_in_code() {
        check(
            "std::mem error: http://x foo:bar",
            "word(std::mem) word(error:) word(http://x) word(foo:bar)",
        );
    }

    #[test]
    fn mistakes_are_told_with_the_nearest_name() {
        check("prjoect:web login", "unknown field `prjoect:` — did you mean `project:`?");
        check("agent:claud x", "unknown agent `claud` — did you mean `claude`?");
        check(r#"login "never closed"#, "a quote is not closed: \"never closed");
        check(
            "since:tomorow",
            "`tomorow` is no date — try 2026-11-03, 7d, 12h, 2w, today or yesterday",
        );
    }

    #[test]
    fn fields_choose_where_to_look() {
        let query = Query::parse(r#"x agent:claude project:"my web" role:user"#, &now()).unwrap();
        assert_eq!(query.filter.agents, ["claude-code"]);
        assert_eq!(query.filter.projects, ["my web"]);
        assert_eq!(query.filter.roles, ["user"]);
        assert_eq!(query.clauses.len(), 1);
    }

    #[test]
    fn dates_are_days_of_the_users_zone() {
        let check = |text: &str, edge: Edge, expected: &str| {
            assert_eq!(date(text, &now(), edge).unwrap().to_string(), expected, "{text}");
        };
        check("2026-11-03", Edge::Start, "2026-11-02T23:00:00.000Z");
        check("2026-11-03", Edge::End, "2026-11-03T22:59:59.999Z");
        check("yesterday", Edge::Start, "2026-11-13T23:00:00.000Z");
        check("7d", Edge::Start, "2026-11-08T11:00:00.000Z");
        check("12h", Edge::End, "2026-11-14T23:00:00.000Z");
        check("2026-11-03T10:00:00Z", Edge::Start, "2026-11-03T10:00:00.000Z");
    }
}
