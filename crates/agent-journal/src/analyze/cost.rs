//! The cost of tokens: as recorded by the agent, otherwise by the list prices of `prices.toml`,
//! otherwise unknown. A model is found by an exact name, a declared alias or a declared prefix,
//! never by similarity. A speed other than the usual one (`model +fast`) has a price only under
//! that name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::LazyLock;

use jiff::civil::Date;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::maps::Map;
use crate::model::{QUARTER, split_speed_mark};
use crate::rate::Rate;
use crate::store::{PROMPT_TOKEN_LIMITS, UsageBucket};

/// The prices that come with the program.
static LIST: LazyLock<PriceList> = LazyLock::new(|| {
    toml::from_str(include_str!("prices.toml")).expect("a test reads the embedded prices")
});

/// An amount of money, with the share of it that is known and its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The cost recorded by agents, in millionths of a dollar.
    recorded: u64,
    /// The cost of the rest by list prices, in millionths of millionths of a dollar: sums stay
    /// exact.
    estimated: u128,
    /// The number of tokens with a recorded cost.
    recorded_tokens: u64,
    /// The number of tokens with an estimated cost.
    estimated_tokens: u64,
    /// The number of tokens of models without a known price.
    unpriced_tokens: u64,
}

/// The origin of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Recorded by the agent.
    Recorded,
    /// Estimated from list prices.
    Estimated,
    /// Partly recorded and partly estimated.
    Mixed,
}

/// The prices in force.
pub(crate) struct Prices {
    /// The prices of every model, to which the maps below refer by index.
    models: Vec<Vec<Price>>,
    names: Map<String, usize>,
    prefixes: Vec<(&'static str, usize)>,
    /// Earlier lookups: histories name few models, many times.
    found: RefCell<Map<String, Option<usize>>>,
}

/// The embedded file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceList {
    /// Prefixes that resellers put before a model's name.
    vendors: Vec<String>,
    model: Vec<PricedModel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(test), expect(dead_code, reason = "source and date are for the reader of the file"))]
struct PricedModel {
    /// The origin of the figures.
    source: String,
    /// The day they were seen there; absent when they were written down from general knowledge.
    checked: Option<Date>,
    names: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    price: Vec<Rate>,
}

/// A rate in millionths of a dollar per million tokens.
#[derive(Clone, Copy)]
struct Price {
    from: i64,
    normal: [u64; 5],
    long: Option<(u8, [u64; 5])>,
}

impl Prices {
    /// Builds the table from the embedded prices and the user's own, which take precedence.
    pub(crate) fn new(own: &BTreeMap<String, Rate>) -> Self {
        let (mut models, mut names, mut prefixes) = (Vec::new(), Map::default(), Vec::new());
        for model in &LIST.model {
            let place = models.len();
            models.push(model.price.iter().map(Price::from_rate).collect());
            names.extend(model.names.iter().map(|name| (name.clone(), place)));
            prefixes.extend(model.prefixes.iter().map(|prefix| (prefix.as_str(), place)));
        }
        // The longest prefix is the most specific.
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let mut found = Map::default();
        for (name, rate) in own {
            found.insert(name.clone(), Some(models.len()));
            models.push(vec![Price::from_rate(rate)]);
        }
        Self { models, names, prefixes, found: RefCell::new(found) }
    }

    /// Computes the cost of the calls in a usage bucket.
    pub(crate) fn cost_of_usage(&self, spent: &UsageBucket) -> Cost {
        let tokens = spent.tokens.total_tokens();
        if let Some(recorded) = spent.recorded {
            return Cost { recorded, recorded_tokens: tokens, ..Cost::default() };
        }
        let prices = spent.model.as_deref().and_then(|model| self.prices_of_model(model));
        let Some(price) = prices.and_then(|prices| price_at(prices, spent.quarter)) else {
            return Cost { unpriced_tokens: tokens, ..Cost::default() };
        };
        let rates = match price.long {
            Some((size, long)) if spent.size >= size => long,
            _ => price.normal,
        };
        let hour = spent.cache_creation_1h.min(spent.tokens.cache_creation);
        let classes = [
            spent.tokens.input,
            spent.tokens.output,
            spent.tokens.cache_read,
            spent.tokens.cache_creation - hour,
            hour,
        ];
        let parts = classes.iter().zip(rates).map(|(n, rate)| u128::from(*n) * u128::from(rate));
        Cost { estimated: parts.sum(), estimated_tokens: tokens, ..Cost::default() }
    }

    fn prices_of_model(&self, model: &str) -> Option<&[Price]> {
        let known = self.found.borrow().get(model).copied();
        let place = known.unwrap_or_else(|| {
            let place = self.look_up(model);
            self.found.borrow_mut().insert(model.to_owned(), place);
            place
        });
        place.map(|place| self.models[place].as_slice())
    }

    fn look_up(&self, model: &str) -> Option<usize> {
        let bare = LIST.vendors.iter().find_map(|vendor| model.strip_prefix(vendor.as_str()));
        let bare = bare.unwrap_or(model);
        let is_marked = split_speed_mark(bare).1.is_some();
        let fits = |prefix: &str| !is_marked && bare.starts_with(prefix);
        let prefix = || self.prefixes.iter().find(|(prefix, _)| fits(prefix));
        self.names.get(bare).copied().or_else(|| prefix().map(|(_, place)| *place))
    }
}

/// Returns the latest price that was valid at a quarter hour; before the first one, the first one.
fn price_at(prices: &[Price], quarter: i64) -> Option<&Price> {
    // A call without a time is priced as of today.
    let at = if quarter == 0 { i64::MAX } else { quarter };
    let held = prices.iter().filter(|price| price.from <= at).max_by_key(|price| price.from);
    held.or_else(|| prices.iter().min_by_key(|price| price.from))
}

impl Price {
    fn from_rate(rate: &Rate) -> Self {
        let from = rate.from.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let classes = |input: f64, output: f64, read: Option<f64>, write: [Option<f64>; 2]| {
            let written = write[0].unwrap_or(input);
            [input, output, read.unwrap_or(input), written, write[1].unwrap_or(written)]
                .map(|dollars| (dollars * 1e6).round() as u64)
        };
        let long = rate.long.as_ref().map(|long| {
            let size = PROMPT_TOKEN_LIMITS.iter().filter(|size| **size <= long.above).count() as u8;
            let write = [long.cache_write, long.cache_write_1h];
            (size, classes(long.input, long.output, long.cache_read, write))
        });
        Self {
            from: from.map_or(i64::MIN, |day| day.timestamp().as_millisecond() / QUARTER),
            normal: classes(
                rate.input,
                rate.output,
                rate.cache_read,
                [rate.cache_write, rate.cache_write_1h],
            ),
            long,
        }
    }
}

impl Cost {
    /// Returns the amount in millionths of a dollar; `None` when none of it is known.
    pub fn known_micros(&self) -> Option<u64> {
        self.cost_basis().map(|_| self.recorded + ((self.estimated + 500_000) / 1_000_000) as u64)
    }

    /// Returns the amount in dollars; `None` when none of it is known.
    pub fn known_dollars(&self) -> Option<f64> {
        self.known_micros().map(|micros| micros as f64 / 1e6)
    }

    /// Returns the origin of the amount; `None` when none of it is known.
    pub fn cost_basis(&self) -> Option<Basis> {
        let recorded = self.recorded > 0 || self.recorded_tokens > 0;
        match (recorded, self.estimated_tokens > 0) {
            (true, true) => Some(Basis::Mixed),
            (true, false) => Some(Basis::Recorded),
            (false, true) => Some(Basis::Estimated),
            (false, false) => None,
        }
    }

    /// Returns the share of the tokens whose cost is known; `None` without tokens.
    pub fn priced_share(&self) -> Option<f64> {
        let priced = self.recorded_tokens + self.estimated_tokens;
        let all = priced + self.unpriced_tokens;
        (all > 0).then(|| priced as f64 / all as f64)
    }

    /// Returns the number of tokens whose cost is not known.
    pub fn unpriced_tokens(&self) -> u64 {
        self.unpriced_tokens
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.recorded += other.recorded;
        self.estimated += other.estimated;
        self.recorded_tokens += other.recorded_tokens;
        self.estimated_tokens += other.estimated_tokens;
        self.unpriced_tokens += other.unpriced_tokens;
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("usd", &self.known_dollars())?;
        map.serialize_entry("micros", &self.known_micros())?;
        map.serialize_entry("basis", &self.cost_basis())?;
        map.serialize_entry("priced_share", &self.priced_share())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Tokens, Usage};

    fn spent(model: &str, tokens: [u64; 4]) -> UsageBucket {
        let [input, output, cache_read, cache_creation] = tokens;
        let tokens = Tokens { input, output, cache_read, cache_creation, reasoning: None };
        UsageBucket { model: Some(model.into()), tokens, calls: 1, ..UsageBucket::default() }
    }

    fn micros(spent: &UsageBucket) -> Option<u64> {
        Prices::new(&BTreeMap::new()).cost_of_usage(spent).known_micros()
    }

    #[test]
    fn every_class_of_tokens_has_its_own_price() {
        let call = spent("claude-opus-4-5-20251101", [1_000_000, 100_000, 2_000_000, 400_000]);
        // 5 + 2.5 + 1 + 2.5 dollars.
        assert_eq!(micros(&call), Some(11_000_000));
        // A quarter of the written tokens lives for an hour: 300k at 6.25, 100k at 10.
        let call = UsageBucket { cache_creation_1h: 100_000, ..call };
        assert_eq!(micros(&call), Some(11_375_000));
    }

    #[test]
    fn models_are_found_by_name_alias_and_declared_prefix_only() {
        let prices = Prices::new(&BTreeMap::new());
        for known in [
            "claude-opus-4-5",
            "claude-opus-4-5-20251101",
            "claude-opus-4.5",
            "anthropic/claude-opus-4.5",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "gpt-5-codex",
            "gpt-5-2025-08-07",
            "gemini-2.5-pro",
        ] {
            assert!(prices.prices_of_model(known).is_some(), "{known}");
        }
        for unknown in
            ["claude-opus-9", "my-claude-opus-4-5", "gpt-5-codex-fantasy", "glm-5", "sonnet", ""]
        {
            assert!(prices.prices_of_model(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn an_unknown_model_is_unpriced_and_never_free() {
        let mut cost = Prices::new(&BTreeMap::new()).cost_of_usage(&spent("glm-5", [10, 0, 0, 0]));
        assert_eq!((cost.known_micros(), cost.priced_share()), (None, Some(0.0)));
        cost += Prices::new(&BTreeMap::new()).cost_of_usage(&spent("gpt-5", [30, 0, 0, 0]));
        assert_eq!(cost.priced_share(), Some(0.75));
        assert_eq!(serde_json::to_value(cost).unwrap()["basis"], "estimated");
    }

    #[test]
    fn another_speed_is_never_priced_like_the_usual_one() {
        let usage = Usage { speed: Some("fast".into()), ..Usage::default() };
        for model in ["claude-opus-4-6", "claude-opus-4-6-20260205", "anthropic/claude-opus-4.6"] {
            let call = spent(&usage.priced_as(model.into()), [1_000_000, 0, 0, 0]);
            let cost = Prices::new(&BTreeMap::new()).cost_of_usage(&call);
            assert_eq!((cost.known_micros(), cost.priced_share()), (None, Some(0.0)), "{model}");
            assert!(micros(&spent(model, [1_000_000, 0, 0, 0])).is_some(), "{model}");
        }
        let rate: Rate = toml::from_str("input = 30\noutput = 150").unwrap();
        let prices = Prices::new(&BTreeMap::from([("claude-opus-4-6 +fast".to_owned(), rate)]));
        let call = spent("claude-opus-4-6 +fast", [1_000_000, 0, 0, 0]);
        assert_eq!(prices.cost_of_usage(&call).known_micros(), Some(30_000_000));
    }

    #[test]
    fn recorded_cost_goes_before_any_price() {
        let call = UsageBucket { recorded: Some(42), ..spent("gpt-5", [1_000_000, 0, 0, 0]) };
        assert_eq!(micros(&call), Some(42));
    }

    #[test]
    fn old_months_keep_old_prices_and_long_prompts_have_their_own() {
        let quarter = |day: &str| {
            let at: jiff::Timestamp = format!("{day}T12:00:00Z").parse().unwrap();
            at.as_millisecond() / QUARTER
        };
        let at =
            |day: &str| UsageBucket { quarter: quarter(day), ..spent("o3", [1_000_000, 0, 0, 0]) };
        assert_eq!(micros(&at("2025-05-01")), Some(10_000_000));
        assert_eq!(micros(&at("2025-07-01")), Some(2_000_000));
        let long = UsageBucket { size: 2, ..spent("gemini-2.5-pro", [1_000_000, 0, 0, 0]) };
        assert_eq!(micros(&long), Some(2_500_000));
        let short = UsageBucket { size: 1, ..long };
        assert_eq!(micros(&short), Some(1_250_000));
    }

    #[test]
    fn the_users_own_prices_hold() {
        let rate: Rate = toml::from_str("input = 1\noutput = 2.5").unwrap();
        let prices = Prices::new(&BTreeMap::from([("glm-5".to_owned(), rate)]));
        let cost = prices.cost_of_usage(&spent("glm-5", [1_000_000, 1_000_000, 1_000_000, 0]));
        assert_eq!(cost.known_micros(), Some(4_500_000));
    }

    #[test]
    fn the_embedded_prices_are_distinct_plausible_and_say_where_they_come_from() {
        let mut seen = std::collections::HashSet::new();
        for model in &LIST.model {
            let is_unchecked = model.source.contains("general knowledge");
            assert!(model.checked.is_some() || is_unchecked, "{:?}", model.names);
            for name in model.names.iter().chain(&model.prefixes) {
                assert!(seen.insert(name.clone()), "{name} stands there twice");
            }
            // The first row is valid for all time before the next, which therefore has a day.
            assert!(!model.price.is_empty());
            assert!(
                model.price.iter().skip(1).all(|rate| rate.from.is_some()),
                "{:?}",
                model.names
            );
            for rate in &model.price {
                assert!(rate.input <= rate.output, "{:?}", model.names);
                assert!(rate.cache_read.is_none_or(|read| read <= rate.input));
                // Calls are stored by these sizes, so no other threshold can be priced.
                assert!(
                    rate.long.as_ref().is_none_or(|long| PROMPT_TOKEN_LIMITS.contains(&long.above))
                );
            }
        }
    }
}
