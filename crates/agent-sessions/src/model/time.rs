//! Times with the millisecond precision that agents record.

use std::fmt;

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time in milliseconds since 1970, written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The years 1 to 9999 in milliseconds since 1970: the range of RFC 3339, and of plausible dates.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

impl Timestamp {
    /// Converts milliseconds since 1970; `None` outside the years 1 to 9999.
    pub fn from_millis(millis: i64) -> Option<Self> {
        RANGE.contains(&millis).then_some(Self(millis))
    }

    /// Parses an ISO 8601 time with any offset.
    pub fn parse_iso_time(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.parse().ok()?;
        Self::from_millis(instant.as_millisecond())
    }

    /// Returns the time at which a clock in the zone shows what this time shows in UTC.
    #[must_use]
    pub fn as_local_in(self, zone: &TimeZone) -> Self {
        let clock = jiff::Timestamp::from_millisecond(self.0)
            .map(|instant| instant.to_zoned(TimeZone::UTC).datetime());
        let instant = clock.and_then(|clock| clock.to_zoned(zone.clone()));
        let millis = instant.ok().map(|instant| instant.timestamp().as_millisecond());
        millis.and_then(Self::from_millis).unwrap_or(self)
    }

    /// Returns milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.0)
            .expect("the constructor admits only years that can be written");
        write!(formatter, "{instant:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse_iso_time(&text).ok_or_else(|| de::Error::custom("not an ISO 8601 instant"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_keep_their_milliseconds_and_lose_their_offset() {
        let at = Timestamp::parse_iso_time("2026-01-02T03:04:05.678+02:00").unwrap();
        assert_eq!(at.to_string(), "2026-01-02T01:04:05.678Z");
        assert_eq!(Timestamp::parse_iso_time(&at.to_string()), Some(at));
    }

    #[test]
    fn clock_times_belong_to_a_zone() {
        let zone = TimeZone::get("Europe/Paris").unwrap();
        let at = Timestamp::parse_iso_time("2026-07-01T12:00:00Z").unwrap().as_local_in(&zone);
        assert_eq!(at.to_string(), "2026-07-01T10:00:00.000Z");
    }

    #[test]
    fn instants_no_calendar_can_write_are_refused() {
        assert_eq!(Timestamp::from_millis(i64::MAX), None);
        assert_eq!(Timestamp::parse_iso_time("yesterday"), None);
    }
}
