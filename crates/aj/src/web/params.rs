//! URL parameters of the pages and the API: filters, order and offset, under the same names
//! everywhere.

use agent_journal::model::Timestamp;
use agent_journal::search::{
    DayEdge, Filter, MAX_QUERY_WORDS, Scope, SessionState, agent_name, date,
};
use agent_journal::{Browse, Order};
use anyhow::Result;
use jiff::Zoned;
use serde::Deserialize;

use crate::session_filter::{filter_of_fields, query_error, require_session_fields};

/// Parameters that select sessions; links keep them from page to page.
pub(super) const FILTERS: [&str; 8] =
    ["agent", "project", "branch", "model", "status", "since", "until", "where"];

/// The value of `agent` or `source` that means every agent.
pub(super) const EVERY: &str = "all";

/// The orders of the list: URL value, order, label.
pub(super) const ORDERS: [(&str, Order, &str); 7] = [
    ("latest", Order::Latest, "Latest"),
    ("oldest", Order::Oldest, "Oldest"),
    ("active", Order::Active, "Longest"),
    ("prompts", Order::Prompts, "Most prompts"),
    ("tools", Order::Tools, "Most tools"),
    ("tokens", Order::Tokens, "Most tokens"),
    ("cost", Order::Cost, "Most expensive"),
];

/// The query parameters of a URL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Returns the value of a parameter; an empty one counts as absent.
    pub(super) fn get_param(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, value)| is_meant(given, value, name)).map(|(_, value)| &**value)
    }

    /// Returns every value of a parameter. `source` is another name of `agent`, and `all` means
    /// every agent.
    pub(super) fn all_values<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p str> {
        let meant = self.0.iter().filter(move |(given, value)| is_meant(given, value, name));
        meant.map(|(_, value)| value.as_str())
    }

    /// Returns every parameter with its value, in their order.
    pub(super) fn param_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a parameter as a number, if it is one.
    pub(super) fn number_param(&self, name: &str) -> Option<u64> {
        self.get_param(name)?.parse().ok()
    }

    /// Refuses numeric parameters that are not numbers.
    pub(super) fn check_numbers(&self) -> Result<()> {
        for name in ["limit", "offset", "from", "count"] {
            if let Some(text) = self.get_param(name).filter(|text| text.parse::<u64>().is_err()) {
                return Err(query_error(format!("`{name}={text}` is not a number")));
            }
        }
        Ok(())
    }

    /// Refuses invalid numbers, orders and statuses of a list.
    pub(super) fn check_list(&self, now: &Zoned) -> Result<()> {
        self.check_numbers()?;
        if let Some(status) = self.get_param("status") {
            with_status(&mut Filter::default(), status, now)?;
        }
        let known = ORDERS.map(|(name, ..)| name);
        match self.get_param("sort") {
            Some(sort) if !known.contains(&sort) => {
                let known = known.join(", ");
                Err(query_error(format!("unknown order `{sort}` — expected one of {known}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether any parameter selects sessions.
    pub(super) fn is_filtered(&self) -> bool {
        FILTERS.iter().any(|name| self.get_param(name).is_some())
    }

    /// Builds the filter from every parameter that selects sessions.
    pub(super) fn session_filter(&self, now: &Zoned) -> Result<Filter> {
        let mut filter = self.list_filter(now)?;
        require_session_fields(&filter)?;
        filter.models.extend(self.all_values("model").map(|name| format!("={name}")));
        if let Some(status) = self.get_param("status") {
            with_status(&mut filter, status, now)?;
        }
        Ok(filter)
    }

    /// Builds the filter without model and status, by which the list also counts sessions.
    fn list_filter(&self, now: &Zoned) -> Result<Filter> {
        if self.0.len() > MAX_QUERY_WORDS {
            let message = format!("the URL has more than {MAX_QUERY_WORDS} values: use fewer");
            return Err(query_error(message));
        }
        let mut filter = match self.get_param("where") {
            Some(fields) => filter_of_fields(fields, Scope::default(), now)?,
            None => Filter::default(),
        };
        for name in self.all_values("agent") {
            filter.agents.push(agent_name(name)?);
        }
        filter.projects.extend(self.all_values("project").map(str::to_owned));
        filter.branches.extend(self.all_values("branch").map(str::to_owned));
        if let Some(text) = self.get_param("since") {
            filter.since = Some(date(text, now, DayEdge::Start)?);
        }
        if let Some(text) = self.get_param("until") {
            filter.until = Some(date(text, now, DayEdge::End)?);
        }
        if self.get_param("all").is_some() {
            filter.scope = Scope::All;
        }
        Ok(filter)
    }

    /// Builds the query of the list: filter, order and window.
    pub(super) fn browse_query(&self, now: &Zoned, limit: usize) -> Result<Browse> {
        let order = ORDERS.iter().find(|(name, ..)| Some(*name) == self.get_param("sort"));
        let limit =
            self.number_param("limit").map_or(limit, |asked| (asked as usize).clamp(1, 500));
        Ok(Browse {
            filter: self.list_filter(now)?,
            model: self.get_param("model").map(str::to_owned),
            status: self.get_param("status").map(str::to_owned),
            under: None,
            order: order.map_or(Order::Latest, |(_, order, _)| *order),
            offset: self.number_param("offset").unwrap_or(0).min(10_000_000) as usize,
            limit,
        })
    }

    /// Returns a URL with these parameters and some other values; an empty value removes a
    /// parameter.
    pub(super) fn url_with(&self, path: &str, changes: &[(&str, &str)]) -> String {
        let is_kept = |name: &str| !changes.iter().any(|(changed, _)| *changed == name);
        let kept = self.0.iter().filter(|(name, value)| is_kept(name) && !value.is_empty());
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = kept.chain(changes.iter().copied()).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{}={}", percent_encode(name), percent_encode(value)))
            .collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// Restricts a filter to one status. A session has only one: a running session has not failed.
fn with_status(filter: &mut Filter, status: &str, now: &Zoned) -> Result<()> {
    let now = Timestamp::from_millis(now.timestamp().as_millisecond()).unwrap_or_default();
    let mut left_out = Vec::new();
    match status {
        "running" => filter.states.push(SessionState::Running(now)),
        "error" => {
            filter.states.push(SessionState::Error);
            left_out.push(SessionState::Running(now));
        }
        "completed" => left_out.extend([SessionState::Running(now), SessionState::Error]),
        other => {
            let known = "expected one of running, completed, error";
            return Err(query_error(format!("unknown status `{other}` — {known}")));
        }
    }
    if !left_out.is_empty() {
        filter.not.get_or_insert_default().states.extend(left_out);
    }
    Ok(())
}

/// Returns whether a given parameter is the named one and its value selects something.
fn is_meant(given: &str, value: &str, name: &str) -> bool {
    let is_every = name == "agent" && value == EVERY;
    let is_named = given == name || name == "agent" && given == "source";
    is_named && !is_every && !value.is_empty()
}

/// Returns the URL of a session.
pub(super) fn session_url(id: &str) -> String {
    format!("/session/{}", percent_encode(id))
}

/// Returns the URL of a message in its session.
pub(super) fn message_url(id: &str, index: u64) -> String {
    // Some messages before it are shown as well.
    format!("{}?from={}#m{index}", session_url(id), index.saturating_sub(4).max(1))
}

/// Percent-encodes a text for a URL.
pub(super) fn percent_encode(text: &str) -> String {
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
        let next = params.url_with("/", &[("offset", "200")]);
        assert_eq!(next, "/?agent=codex&offset=200");
        assert_eq!(params.url_with("/", &[("agent", ""), ("offset", "")]), "/");
        assert_eq!(
            params.url_with("/", &[("project", "a b&c")]),
            "/?agent=codex&offset=100&project=a%20b%26c"
        );
    }

    #[test]
    fn source_is_another_name_of_agent() {
        let now = Zoned::now();
        let one = params(&[("source", "cli")]).session_filter(&now).unwrap();
        let other = params(&[("agent", "copilot-cli")]).session_filter(&now).unwrap();
        assert_eq!(one, other);
        let every = params(&[("source", "all")]);
        assert!(every.session_filter(&now).unwrap().agents.is_empty() && !every.is_filtered());
    }
}
