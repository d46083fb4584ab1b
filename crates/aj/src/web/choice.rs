//! Which sessions a page of sums is about, as its address says it. Every field of the query
//! language is a name in the address, so that what the filter learns the pages know.

use agent_journal::search::Filter;
use anyhow::Result;
use jiff::Zoned;

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
    pub(super) fn read(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value).trim().to_owned())
        };
        Self(pairs.map(pair).filter(|(_, value)| !value.is_empty()).collect())
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

    /// Where the sessions of a part are listed: the list, or the search where the list has no
    /// such filter.
    pub(super) fn sessions(&self, part: &[(&str, &str)]) -> String {
        let is_listed = |name: &str| LISTED.contains(&name);
        let mut names = self.0.iter().map(|(name, _)| name.as_str());
        if names.all(is_listed) && part.iter().all(|(name, _)| is_listed(name)) {
            return self.link("/", part);
        }
        let fields = self.pairs(part).into_iter().map(|(name, value)| match name {
            "q" => value.to_owned(),
            _ => format!("{name}:\"{}\"", value.replace('"', " ")),
        });
        format!("/search?q={}", encode(&fields.collect::<Vec<_>>().join(" ")))
    }

    /// A page with the same choice, but for some values; an empty one takes a name away.
    pub(super) fn link(&self, page: &str, part: &[(&str, &str)]) -> String {
        let encoded = |(name, value): (&str, &str)| format!("{}={}", encode(name), encode(value));
        let pairs: Vec<String> = self.pairs(part).into_iter().map(encoded).collect();
        if pairs.is_empty() { page.to_owned() } else { format!("{page}?{}", pairs.join("&")) }
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

/// Undoes what an address does to a text; what makes no sense stays.
fn decode(text: &str) -> String {
    let (all, mut bytes, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = all.get(at) {
        let pair = all.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let code = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let (decoded, length) = match (byte, code) {
            (b'%', Some(code)) => (code, 3),
            (b'+', _) => (b' ', 1),
            _ => (*byte, 1),
        };
        bytes.push(decoded);
        at += length;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Makes a text fit for an address.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
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

    fn now() -> Zoned {
        "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()
    }

    #[test]
    fn an_address_says_a_filter() {
        let choice =
            Choice::read(Some("project=my+app%2Fweb&agent=claude-code&branch=&q=branch:x"));
        let filter = choice.filter(&now()).unwrap();
        assert_eq!(filter.projects, ["my app/web"]);
        assert_eq!(filter.agents, ["claude-code"]);
        assert_eq!(filter.branches, ["x"]);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for query in ["colour=red", "since=someday", "agent=nobody", "q=words"] {
            assert!(Choice::read(Some(query)).filter(&now()).is_err(), "{query}");
        }
    }

    #[test]
    fn all_time_is_no_limit() {
        let choice = Choice::read(Some("since=all")).or_since("30d");
        assert_eq!(choice.filter(&now()).unwrap().since, None);
        assert!(Choice::read(None).or_since("30d").filter(&now()).unwrap().since.is_some());
        assert_eq!(Choice::read(Some("until=2026-01-01")).or_since("30d").get("since"), None);
    }

    #[test]
    fn a_part_of_a_choice_keeps_the_rest_of_it() {
        let choice = Choice::read(Some("project=a%26b&since=30d"));
        let link = choice.sessions(&[("since", "2026-11-03"), ("until", "2026-11-03")]);
        assert_eq!(link, "/?project=a%26b&since=2026-11-03&until=2026-11-03");
        assert_eq!(choice.link("/analytics", &[("project", ""), ("since", EVER)]), "/analytics");
        let search = choice.sessions(&[("tool", "bash")]);
        assert_eq!(decode(&search), "/search?q=project:\"a&b\" since:\"30d\" tool:\"bash\"");
    }

    #[test]
    fn every_text_survives_an_address() {
        for text in ["a b&c=d", "100 %", "ü/漢", "+"] {
            assert_eq!(decode(&encode(text)), text);
        }
        assert_eq!(decode("%zz%4"), "%zz%4");
    }
}
