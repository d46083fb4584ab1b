//! The time after which Claude Code deletes its transcripts: thirty days after the last activity,
//! unless `cleanupPeriodDays` in `settings.json` sets another value.

use serde::Deserialize;

use crate::connectors::formats::source_file::read_file;
use crate::connectors::{Machine, Retention};

const SETTING: &str = "cleanupPeriodDays";

/// Retention in days without the setting.
const DEFAULT: u64 = 30;

/// Size limit of the settings. They are small; a larger file of that name is something else.
const LARGEST: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetentionSettings {
    cleanup_period_days: Option<u64>,
}

/// Reads the retention setting; `None` when Claude Code is not installed.
pub(super) fn read_retention_setting(machine: &Machine) -> Option<Retention> {
    let home =
        machine.env_path("CLAUDE_CONFIG_DIR").unwrap_or_else(|| machine.home.join(".claude"));
    if !home.is_dir() {
        return None;
    }
    let file = home.join("settings.json");
    let is_small = file.metadata().is_ok_and(|about| about.len() <= LARGEST);
    let text = is_small.then(|| read_file(&file).ok()).flatten().unwrap_or_default();
    let settings: Option<RetentionSettings> = serde_json::from_slice(&text).ok();
    let days = settings.and_then(|settings| settings.cleanup_period_days).unwrap_or(DEFAULT);
    Some(Retention { days, setting: SETTING, file: file.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: Option<&str>, days: u64) {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".claude");
        std::fs::create_dir(&directory).unwrap();
        if let Some(settings) = settings {
            let mut file = std::fs::File::create(directory.join("settings.json")).unwrap();
            std::io::Write::write_all(&mut file, settings.as_bytes()).unwrap();
        }
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        assert_eq!(
            read_retention_setting(&machine).map(|retention| retention.days),
            Some(days),
            "{settings:?}"
        );
    }

    #[test]
    fn the_setting_counts_and_thirty_days_without_it() {
        check(None, 30);
        check(Some("{}"), 30);
        check(Some("half a {"), 30);
        check(Some("{\"cleanupPeriodDays\": 365}"), 365);
    }

    #[test]
    fn an_agent_that_is_not_there_deletes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        assert_eq!(read_retention_setting(&machine), None);
    }
}
