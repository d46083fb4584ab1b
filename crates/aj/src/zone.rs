//! The user's time zone, read from the one file that says it. The usual way lists every zone
//! there is first, which takes longer than most answers.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

const LOCAL: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// The zone of the user's clock.
pub(crate) fn local() -> TimeZone {
    quick(std::env::var("TZ").ok().as_deref(), Path::new(LOCAL)).unwrap_or_else(TimeZone::system)
}

/// Reads the zone's file; `None` when its name or its place is an unusual one.
fn quick(named: Option<&str>, local: &Path) -> Option<TimeZone> {
    let file = match named {
        Some(name) if is_plain(name) => Path::new(ZONES).join(name),
        Some(_) => return None,
        None => local.to_owned(),
    };
    let target = std::fs::read_link(&file).unwrap_or_else(|_| PathBuf::from(&file));
    let (_, name) = target.to_str()?.split_once("zoneinfo/")?;
    TimeZone::tzif(name, &std::fs::read(&file).ok()?).ok()
}

/// Whether a zone is called as in `Europe/Paris`, not by a rule or a path.
fn is_plain(name: &str) -> bool {
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
            assert!(is_plain(name), "{name}");
        }
        for name in ["", ":Europe/Paris", "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "/etc/x", "a/../b"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_zone_is_the_same_as_when_all_are_listed() {
        let Some(zone) = quick(Some("Asia/Kathmandu"), Path::new(LOCAL)) else {
            println!("skipped: no time zones on this machine");
            return;
        };
        assert_eq!(zone.iana_name(), Some("Asia/Kathmandu"));
        let noon = jiff::civil::date(2026, 11, 15).at(12, 0, 0, 0);
        let expected = TimeZone::get("Asia/Kathmandu").unwrap().to_timestamp(noon).unwrap();
        assert_eq!(zone.to_timestamp(noon).unwrap(), expected);
    }
}
