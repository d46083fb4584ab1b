//! Tokens and cost of one model call.

use std::ops::AddAssign;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::Timestamp;

/// The usage of one model call, with the identity under which it is counted once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Identity that is the same for every record of one call, in any file. Without it the message
    /// itself is the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The token counts.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// The part of `cache_creation` with a lifetime of one hour.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation_1h: u64,
    /// Cost as the agent recorded it, in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Speed of the call, if it is not the standard one and has a price of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
    /// Set on a sum over the calls since this time, for figures that their messages do not carry.
    /// The sum stands in for those calls: where the session's calls of that time are recorded one
    /// by one with their input, they count and the sum does not. When it equals the message's own
    /// time, the usage is one call recorded at second hand: it counts where the session records no
    /// call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether this is a sum over calls that no message records, taken from the agent's own bill.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
}

/// Upper limit of a plausible figure. No model call reaches it, and sums of such figures do not
/// overflow.
const ABSURD: u64 = 1 << 40;

impl Usage {
    /// Limits figures that can only be corrupt.
    #[must_use]
    pub fn within_reason(mut self) -> Self {
        let Tokens { input, output, cache_read, cache_creation, reasoning } = &mut self.tokens;
        let figures = [input, output, cache_read, cache_creation, &mut self.cache_creation_1h];
        for figure in figures.into_iter().chain(reasoning).chain(&mut self.cost_micros) {
            *figure = (*figure).min(ABSURD);
        }
        self
    }
}

/// Separator between a model's name and the speed that determines its price.
const MARK: &str = " +";

impl Usage {
    /// Returns the name under which the call is priced: the model's, with a suffix for a
    /// non-standard speed.
    pub fn priced_as(&self, model: String) -> String {
        match &self.speed {
            Some(speed) => format!("{model}{MARK}{speed}"),
            None => model,
        }
    }
}

/// Splits the name under which a call is priced into the model and the speed.
pub fn split_speed_mark(priced_as: &str) -> (&str, Option<&str>) {
    match priced_as.split_once(MARK) {
        Some((model, speed)) => (model, Some(speed)),
        None => (priced_as, None),
    }
}

/// A model call by itself, apart from any message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelCall {
    /// Key under which the call is counted, the same in every journal; its usage has no identity.
    pub key: String,
    /// Time of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens and cost of the call.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Token counts in classes that never overlap: `input` was neither read from nor written to a
/// cache. `reasoning` is a part of `output` that is shown but not added again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input tokens neither read from nor written to a cache.
    #[serde(default)]
    pub input: u64,
    /// All tokens that the model wrote.
    #[serde(default)]
    pub output: u64,
    /// Input tokens read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to a cache.
    #[serde(default)]
    pub cache_creation: u64,
    /// The part of `output` that was reasoning, where the format records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Tokens {
    /// Sums the four classes.
    pub fn total_tokens(&self) -> u64 {
        let classes = [self.output, self.cache_read, self.cache_creation];
        classes.into_iter().fold(self.input, u64::saturating_add)
    }
}

impl Tokens {
    /// Returns whether any tokens were recorded.
    pub fn is_known(&self) -> bool {
        self.total_tokens() > 0
    }

    /// Serialises every class, or `null` for all of them when none were recorded.
    pub fn serialize_known<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = |number: u64| self.is_known().then_some(number);
        let mut all = serializer.serialize_struct("Tokens", 5)?;
        all.serialize_field("input", &known(self.input))?;
        all.serialize_field("output", &known(self.output))?;
        all.serialize_field("cache_read", &known(self.cache_read))?;
        all.serialize_field("cache_creation", &known(self.cache_creation))?;
        all.serialize_field("reasoning", &self.reasoning.filter(|_| self.is_known()))?;
        all.end()
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
        if let Some(reasoning) = other.reasoning {
            let sum = self.reasoning.get_or_insert(0);
            *sum = sum.saturating_add(reasoning);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
