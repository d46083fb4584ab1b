//! Which sessions a page of sums is about, as its address says it. Every field of the query
//! language is a name in the address, so that what the filter learns the pages know.

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::search::Filter;
use anyhow::Result;
use jiff::Zoned;

use super::params::{EVERY, Params, encode};
use crate::commands::stats;

/// Names in an address that are no fields.
const OTHERS: [&str; 3] = ["q", "of", "token"];

/// Names that the list of sessions knows.
const LISTED: [&str; 7] = ["agent", "project", "branch", "model", "status", "since", "until"];

/// The value of `since` that means all time.
pub(super) const EVER: &str = "all";

/// What the address of a page says, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Choice(Vec<(String, String)>);

impl Choice {
    /// Reads what follows the `?` of an address.
    pub(super) fn read(params: &Params) -> Self {
        let pairs = params.pairs().map(|(name, value)| (name, value.trim()));
        // `source` is another name of `agent`.
        let pairs =
            pairs.map(|(name, value)| (if name == "source" { "agent" } else { name }, value));
        let is_said =
            |(name, value): &(&str, &str)| !value.is_empty() && (*name, *value) != ("agent", EVERY);
        let given = pairs.filter(is_said);
        Self(given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The same, from this time on unless another was named.
    pub(super) fn or_since(mut self, since: &str) -> Self {
        if self.get("since").is_none() && self.get("until").is_none() {
            self.0.push(("since".to_owned(), since.to_owned()));
        }
        self
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The filter it describes.
    pub(super) fn filter(&self, now: &Zoned) -> Result<Filter> {
        let mut words = vec![self.get("q").unwrap_or_default().to_owned()];
        let is_field = |(name, value): &&(String, String)| {
            !OTHERS.contains(&name.as_str()) && (name != "since" || value != EVER)
        };
        for (name, value) in self.0.iter().filter(is_field) {
            words.push(format!("{name}:\"{}\"", value.replace('"', " ")));
        }
        stats::chosen(&words.join(" "), now)
    }

    /// The sums it asks for.
    pub(super) fn query(&self, now: &Zoned) -> Result<StatsQuery> {
        let filter = self.filter(now)?;
        let (extent, now) = (Extent::Tasks, now.clone());
        Ok(StatsQuery { filter, by: None, extent, explain: false, now })
    }

    /// Where the sessions of a part are listed. What the list has no name for is said in fields.
    pub(super) fn sessions(&self, part: &[(&str, &str)]) -> String {
        let (listed, others): (Vec<_>, Vec<_>) =
            self.pairs(part).into_iter().partition(|(name, _)| LISTED.contains(name));
        let fields = others.into_iter().map(|(name, value)| match name {
            "q" => value.to_owned(),
            _ => format!("{name}:\"{}\"", value.replace('"', " ")),
        });
        let fields = fields.collect::<Vec<_>>().join(" ");
        let all = listed.into_iter().chain([("where", fields.as_str())]);
        address("/", all.filter(|(_, value)| !value.is_empty()))
    }

    /// A page with the same choice, but for some values; an empty one takes a name away.
    pub(super) fn link(&self, page: &str, part: &[(&str, &str)]) -> String {
        address(page, self.pairs(part))
    }

    fn pairs<'c>(&'c self, part: &[(&'c str, &'c str)]) -> Vec<(&'c str, &'c str)> {
        let kept = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = kept.filter(|(name, _)| !part.iter().any(|(other, _)| other == name));
        let all = kept.chain(part.iter().copied());
        all.filter(|(name, value)| {
            !value.is_empty() && *name != "token" && (*name, *value) != ("since", EVER)
        })
        .collect()
    }
}

fn address<'p>(page: &str, pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let encoded = |(name, value)| format!("{}={}", encode(name), encode(value));
    let pairs: Vec<String> = pairs.into_iter().map(encoded).collect();
    if pairs.is_empty() { page.to_owned() } else { format!("{page}?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()
    }

    fn choice(pairs: &[(&str, &str)]) -> Choice {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Choice(pairs.iter().map(owned).collect())
    }

    #[test]
    fn an_address_says_a_filter() {
        let choice =
            choice(&[("project", "my app/web"), ("agent", "claude-code"), ("q", "branch:x")]);
        let filter = choice.filter(&now()).unwrap();
        assert_eq!(filter.projects, ["my app/web"]);
        assert_eq!(filter.agents, ["claude-code"]);
        assert_eq!(filter.branches, ["x"]);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for pair in [("colour", "red"), ("since", "someday"), ("q", "words")] {
            assert!(choice(&[pair]).filter(&now()).is_err(), "{pair:?}");
        }
    }

    #[test]
    fn all_time_is_no_limit() {
        let ever = choice(&[("since", EVER)]).or_since("30d");
        assert_eq!(ever.filter(&now()).unwrap().since, None);
        assert!(choice(&[]).or_since("30d").filter(&now()).unwrap().since.is_some());
        assert_eq!(choice(&[("until", "2026-01-01")]).or_since("30d").get("since"), None);
    }

    #[test]
    fn a_part_of_a_choice_keeps_the_rest_of_it() {
        let choice = choice(&[("project", "a&b"), ("since", "30d")]);
        let link = choice.sessions(&[("since", "2026-11-03"), ("until", "2026-11-03")]);
        assert_eq!(link, "/?project=a%26b&since=2026-11-03&until=2026-11-03");
        assert_eq!(choice.link("/analytics", &[("project", ""), ("since", EVER)]), "/analytics");
        let tools = choice.sessions(&[("tool", "bash")]);
        assert_eq!(tools, "/?project=a%26b&since=30d&where=tool:%22bash%22");
    }
}
