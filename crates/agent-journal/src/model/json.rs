//! JSON kept as it was written.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A piece of JSON as its agent wrote it, in one line.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Turns any serialisable value into JSON text.
    pub fn from_value(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        Self(raw.expect("values built in memory always serialise"))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the text as any type that fits it.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        // Messages are kept as lines. Inside strings a line end is always escaped, so one that
        // stands bare is white space.
        if raw.get().contains(['\n', '\r']) {
            let line = raw.get().replace(['\n', '\r'], " ");
            return Self(RawValue::from_string(line).expect("white space does not matter"));
        }
        Self(raw.to_owned())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}
