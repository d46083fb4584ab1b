//! Prices of tokens, as the price list and the settings have them.

use jiff::civil::Date;
use serde::Deserialize;

/// Prices in dollars per million tokens, valid from a day on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// The first day on which they are valid.
    #[serde(default)]
    pub from: Option<Date>,
    /// The price of fresh input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input read from a cache; that of fresh input when absent.
    pub cache_read: Option<f64>,
    /// The price of input written to a cache; that of fresh input when absent.
    pub cache_write: Option<f64>,
    /// The price of input written to a cache for an hour; that of any cache write when absent.
    pub cache_write_1h: Option<f64>,
    /// The prices for calls with a long prompt.
    pub long: Option<LongPromptRate>,
}

/// Prices of calls with long prompts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPromptRate {
    /// The number of tokens above which a prompt is long.
    pub above: u64,
    /// The price of fresh input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input read from a cache.
    pub cache_read: Option<f64>,
    /// The price of input written to a cache.
    pub cache_write: Option<f64>,
    /// The price of input written to a cache for an hour.
    pub cache_write_1h: Option<f64>,
}
