//! The sessions that a page of statistics covers, as its URL describes them. Every field of the
//! query language is a URL parameter, so that new fields work on the pages without further code.

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::search::{Filter, Scope};
use anyhow::Result;
use jiff::Zoned;

use super::params::{EVERY, Params, percent_encode};
use crate::session_filter::filter_of_fields;

/// URL parameters that are no fields.
const OTHERS: [&str; 3] = ["q", "of", "token"];

/// URL parameters that the list of sessions supports.
const LISTED: [&str; 7] = ["agent", "project", "branch", "model", "status", "since", "until"];

/// The value of `since` that means all time.
pub(super) const EVER: &str = "all";

/// The URL parameters of a page of statistics, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct StatsSelection(Vec<(String, String)>);

impl StatsSelection {
    /// Reads the selection from URL parameters.
    pub(super) fn from_params(params: &Params) -> Self {
        let pairs = params.param_pairs().map(|(name, value)| (name, value.trim()));
        // `source` is another name of `agent`.
        let pairs =
            pairs.map(|(name, value)| (if name == "source" { "agent" } else { name }, value));
        let is_said =
            |(name, value): &(&str, &str)| !value.is_empty() && (*name, *value) != ("agent", EVERY);
        let given = pairs.filter(is_said);
        Self(given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Adds a start time, unless a start or an end is given.
    pub(super) fn or_since(mut self, since: &str) -> Self {
        if self.param_value("since").is_none() && self.param_value("until").is_none() {
            self.0.push(("since".to_owned(), since.to_owned()));
        }
        self
    }

    /// Returns the value of a parameter.
    pub(super) fn param_value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Converts the selection to a filter.
    pub(super) fn to_filter(&self, now: &Zoned) -> Result<Filter> {
        let mut words = vec![self.param_value("q").unwrap_or_default().to_owned()];
        let is_field = |(name, value): &&(String, String)| {
            !OTHERS.contains(&name.as_str()) && (name != "since" || value != EVER)
        };
        for (name, value) in self.0.iter().filter(is_field) {
            words.push(format!("{name}:\"{}\"", value.replace('"', " ")));
        }
        filter_of_fields(&words.join(" "), Scope::All, now)
    }

    /// Converts the selection to a statistics query.
    pub(super) fn to_stats_query(&self, now: &Zoned) -> Result<StatsQuery> {
        let filter = self.to_filter(now)?;
        let (extent, now) = (Extent::Tasks, now.clone());
        Ok(StatsQuery { filter, by: None, extent, explain: false, now })
    }

    /// Returns the URL that lists the sessions of a part of the selection. Parameters that the list
    /// does not support are passed as fields.
    pub(super) fn sessions_url(&self, part: &[(&str, &str)]) -> String {
        let (listed, others): (Vec<_>, Vec<_>) =
            self.changed_pairs(part).into_iter().partition(|(name, _)| LISTED.contains(name));
        let fields = others.into_iter().map(|(name, value)| match name {
            "q" => value.to_owned(),
            _ => format!("{name}:\"{}\"", value.replace('"', " ")),
        });
        let fields = fields.collect::<Vec<_>>().join(" ");
        let all = listed.into_iter().chain([("where", fields.as_str())]);
        url_with_pairs("/", all.filter(|(_, value)| !value.is_empty()))
    }

    /// Returns the URL of a page with this selection and some other values; an empty value removes
    /// a parameter.
    pub(super) fn url_with_changes(&self, page: &str, part: &[(&str, &str)]) -> String {
        url_with_pairs(page, self.changed_pairs(part))
    }

    fn changed_pairs<'c>(&'c self, part: &[(&'c str, &'c str)]) -> Vec<(&'c str, &'c str)> {
        let kept = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = kept.filter(|(name, _)| !part.iter().any(|(other, _)| other == name));
        let all = kept.chain(part.iter().copied());
        all.filter(|(name, value)| {
            !value.is_empty() && *name != "token" && (*name, *value) != ("since", EVER)
        })
        .collect()
    }
}

fn url_with_pairs<'p>(page: &str, pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let encoded = |(name, value)| format!("{}={}", percent_encode(name), percent_encode(value));
    let pairs: Vec<String> = pairs.into_iter().map(encoded).collect();
    if pairs.is_empty() { page.to_owned() } else { format!("{page}?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()
    }

    fn choice(pairs: &[(&str, &str)]) -> StatsSelection {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        StatsSelection(pairs.iter().map(owned).collect())
    }

    #[test]
    fn an_address_says_a_filter() {
        let choice =
            choice(&[("project", "my app/web"), ("agent", "claude-code"), ("q", "branch:x")]);
        let filter = choice.to_filter(&now()).unwrap();
        assert_eq!(filter.projects, ["my app/web"]);
        assert_eq!(filter.agents, ["claude-code"]);
        assert_eq!(filter.branches, ["x"]);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for pair in [("colour", "red"), ("since", "someday"), ("q", "words")] {
            assert!(choice(&[pair]).to_filter(&now()).is_err(), "{pair:?}");
        }
    }

    #[test]
    fn all_time_is_no_limit() {
        let ever = choice(&[("since", EVER)]).or_since("30d");
        assert_eq!(ever.to_filter(&now()).unwrap().since, None);
        assert!(choice(&[]).or_since("30d").to_filter(&now()).unwrap().since.is_some());
        assert_eq!(choice(&[("until", "2026-01-01")]).or_since("30d").param_value("since"), None);
    }

    #[test]
    fn a_part_of_a_choice_keeps_the_rest_of_it() {
        let choice = choice(&[("project", "a&b"), ("since", "30d")]);
        let link = choice.sessions_url(&[("since", "2026-11-03"), ("until", "2026-11-03")]);
        assert_eq!(link, "/?project=a%26b&since=2026-11-03&until=2026-11-03");
        assert_eq!(
            choice.url_with_changes("/analytics", &[("project", ""), ("since", EVER)]),
            "/analytics"
        );
        let tools = choice.sessions_url(&[("tool", "bash")]);
        assert_eq!(tools, "/?project=a%26b&since=30d&where=tool:%22bash%22");
    }
}
