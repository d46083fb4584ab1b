//! What the address of a page says: filters, order, place. The same names everywhere.

use agent_journal::model::Timestamp;
use agent_journal::search::{Edge, Filter, MAX_QUERY_WORDS, Scope, State, agent_name, date};
use agent_journal::{Browse, Error, Order};
use anyhow::Result;
use jiff::Zoned;
use serde::Deserialize;

use crate::commands::of_sessions;
use crate::commands::stats::chosen;

/// Names that choose sessions; links keep them from page to page.
pub(super) const FILTERS: [&str; 8] =
    ["agent", "project", "branch", "model", "status", "since", "until", "where"];

/// The value of `agent` or `source` that means every agent.
pub(super) const EVERY: &str = "all";

/// The orders of the list, by their name in the address.
pub(super) const ORDERS: [(&str, Order, &str); 7] = [
    ("latest", Order::Latest, "Latest"),
    ("oldest", Order::Oldest, "Oldest"),
    ("active", Order::Active, "Longest"),
    ("prompts", Order::Prompts, "Most prompts"),
    ("tools", Order::Tools, "Most tools"),
    ("tokens", Order::Tokens, "Most tokens"),
    ("cost", Order::Cost, "Most expensive"),
];

/// What stands after the `?` of an address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// The value of a name; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, value)| is_meant(given, value, name)).map(|(_, value)| &**value)
    }

    /// Every value of a name. `source` is another name of `agent`, and `all` means every agent.
    pub(super) fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p str> {
        let meant = self.0.iter().filter(move |(given, value)| is_meant(given, value, name));
        meant.map(|(_, value)| value.as_str())
    }

    /// Every name and its value, in their order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A number, if there is one.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Refuses what must be a number and is none.
    pub(super) fn check_numbers(&self) -> Result<()> {
        for name in ["limit", "offset", "from", "count"] {
            if let Some(text) = self.get(name).filter(|text| text.parse::<u64>().is_err()) {
                return Err(wrong(format!("`{name}={text}` is not a number")));
            }
        }
        Ok(())
    }

    /// Refuses numbers, orders and states of a list that are none.
    pub(super) fn check_list(&self, now: &Zoned) -> Result<()> {
        self.check_numbers()?;
        if let Some(status) = self.get("status") {
            with_status(&mut Filter::default(), status, now)?;
        }
        let known = ORDERS.map(|(name, ..)| name);
        match self.get("sort") {
            Some(sort) if !known.contains(&sort) => {
                let known = known.join(", ");
                Err(wrong(format!("unknown order `{sort}` — known are {known}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether anything is chosen.
    pub(super) fn is_filtered(&self) -> bool {
        FILTERS.iter().any(|name| self.get(name).is_some())
    }

    /// Which sessions are meant, by every name that chooses some.
    pub(super) fn filter(&self, now: &Zoned) -> Result<Filter> {
        let mut filter = self.listed(now)?;
        of_sessions(&filter)?;
        filter.models.extend(self.all("model").map(|name| format!("={name}")));
        if let Some(status) = self.get("status") {
            with_status(&mut filter, status, now)?;
        }
        Ok(filter)
    }

    /// The same without model and status: the list counts sessions by them as well.
    fn listed(&self, now: &Zoned) -> Result<Filter> {
        if self.0.len() > MAX_QUERY_WORDS {
            let message =
                format!("the address has more than {MAX_QUERY_WORDS} values: choose fewer");
            return Err(wrong(message));
        }
        let mut filter = match self.get("where") {
            Some(fields) => Filter { scope: Scope::default(), ..chosen(fields, now)? },
            None => Filter::default(),
        };
        for name in self.all("agent") {
            filter.agents.push(agent_name(name)?);
        }
        filter.projects.extend(self.all("project").map(str::to_owned));
        filter.branches.extend(self.all("branch").map(str::to_owned));
        if let Some(text) = self.get("since") {
            filter.since = Some(date(text, now, Edge::Start)?);
        }
        if let Some(text) = self.get("until") {
            filter.until = Some(date(text, now, Edge::End)?);
        }
        if self.get("all").is_some() {
            filter.scope = Scope::All;
        }
        Ok(filter)
    }

    /// Which window of which sessions is meant, in which order.
    pub(super) fn browse(&self, now: &Zoned, limit: usize) -> Result<Browse> {
        let order = ORDERS.iter().find(|(name, ..)| Some(*name) == self.get("sort"));
        let limit = self.number("limit").map_or(limit, |asked| (asked as usize).clamp(1, 500));
        Ok(Browse {
            filter: self.listed(now)?,
            model: self.get("model").map(str::to_owned),
            status: self.get("status").map(str::to_owned),
            under: None,
            order: order.map_or(Order::Latest, |(_, order, _)| *order),
            offset: self.number("offset").unwrap_or(0).min(10_000_000) as usize,
            limit,
        })
    }

    /// The same address with other values; an empty value takes a name out.
    pub(super) fn with(&self, path: &str, changes: &[(&str, &str)]) -> String {
        let is_kept = |name: &str| !changes.iter().any(|(changed, _)| *changed == name);
        let kept = self.0.iter().filter(|(name, value)| is_kept(name) && !value.is_empty());
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = kept.chain(changes.iter().copied()).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// Adds a status, of which a session has one: while it runs, it has not failed.
fn with_status(filter: &mut Filter, status: &str, now: &Zoned) -> Result<()> {
    let now = Timestamp::from_millis(now.timestamp().as_millisecond()).unwrap_or_default();
    let mut left_out = Vec::new();
    match status {
        "running" => filter.states.push(State::Running(now)),
        "error" => {
            filter.states.push(State::Error);
            left_out.push(State::Running(now));
        }
        "completed" => left_out.extend([State::Running(now), State::Error]),
        other => {
            let known = "known are running, completed, error";
            return Err(wrong(format!("unknown status `{other}` — {known}")));
        }
    }
    if !left_out.is_empty() {
        filter.not.get_or_insert_default().states.extend(left_out);
    }
    Ok(())
}

/// Whether a name in an address is the one that is meant, with a value that says something.
fn is_meant(given: &str, value: &str, name: &str) -> bool {
    let is_every = name == "agent" && value == EVERY;
    let is_named = given == name || name == "agent" && given == "source";
    is_named && !is_every && !value.is_empty()
}

fn wrong(message: String) -> anyhow::Error {
    Error::Query { message }.into()
}

/// The address of a session.
pub(super) fn session(id: &str) -> String {
    format!("/session/{}", encode(id))
}

/// The address of a message in its session.
pub(super) fn message(id: &str, index: u64) -> String {
    // A little of what went before is shown as well.
    format!("{}?from={}#m{index}", session(id), index.saturating_sub(4).max(1))
}

/// Writes a text as a part of an address.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(pairs: &[(&str, &str)]) -> Params {
        Params(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn an_address_keeps_what_is_not_changed() {
        let params = params(&[("agent", "codex"), ("offset", "100"), ("sort", "")]);
        let next = params.with("/", &[("offset", "200")]);
        assert_eq!(next, "/?agent=codex&offset=200");
        assert_eq!(params.with("/", &[("agent", ""), ("offset", "")]), "/");
        assert_eq!(
            params.with("/", &[("project", "a b&c")]),
            "/?agent=codex&offset=100&project=a%20b%26c"
        );
    }

    #[test]
    fn source_is_another_name_of_agent() {
        let now = Zoned::now();
        let one = params(&[("source", "cli")]).filter(&now).unwrap();
        let other = params(&[("agent", "copilot-cli")]).filter(&now).unwrap();
        assert_eq!(one, other);
        let every = params(&[("source", "all")]);
        assert!(every.filter(&now).unwrap().agents.is_empty() && !every.is_filtered());
    }
}
