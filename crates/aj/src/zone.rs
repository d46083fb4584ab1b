//! The user's time zone, read from its own file. The usual way first lists all time zones, which
//! takes longer than most answers.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

const LOCAL: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// Returns the user's time zone.
pub(crate) fn local_zone() -> TimeZone {
    read_zone_file(std::env::var("TZ").ok().as_deref(), Path::new(LOCAL))
        .unwrap_or_else(TimeZone::system)
}

/// Reads the file of a time zone. Returns `None` for an unusual name or path.
fn read_zone_file(named: Option<&str>, local: &Path) -> Option<TimeZone> {
    let file = match named {
        Some(name) if is_plain_zone_name(name) => Path::new(ZONES).join(name),
        Some(_) => return None,
        None => local.to_owned(),
    };
    let target = std::fs::read_link(&file).unwrap_or_else(|_| PathBuf::from(&file));
    let (_, name) = target.to_str()?.split_once("zoneinfo/")?;
    TimeZone::tzif(name, &std::fs::read(&file).ok()?).ok()
}

/// Returns whether a text is a name such as `Europe/Paris`, not a rule or a path.
fn is_plain_zone_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_uppercase())
            && part.chars().all(|one| one.is_ascii_alphanumeric() || "_-+".contains(one))
    };
    name.contains('/') && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_zones_are_looked_up_by_name() {
        for name in ["Europe/Paris", "America/Argentina/Ushuaia", "Etc/GMT+3"] {
            assert!(is_plain_zone_name(name), "{name}");
        }
        for name in ["", ":Europe/Paris", "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "/etc/x", "a/../b"]
        {
            assert!(!is_plain_zone_name(name), "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_zone_is_the_same_as_when_all_are_listed() {
        let Some(zone) = read_zone_file(Some("Asia/Kathmandu"), Path::new(LOCAL)) else {
            println!("skipped: no time zones on this machine");
            return;
        };
        assert_eq!(zone.iana_name(), Some("Asia/Kathmandu"));
        let noon = jiff::civil::date(2026, 11, 15).at(12, 0, 0, 0);
        let expected = TimeZone::get("Asia/Kathmandu").unwrap().to_timestamp(noon).unwrap();
        assert_eq!(zone.to_timestamp(noon).unwrap(), expected);
    }
}
