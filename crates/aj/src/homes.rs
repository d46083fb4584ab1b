//! Further homes: those in the configuration, and Windows homes seen from WSL.

use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::connectors::Machine;
use agent_journal::{Home, HomeKind};
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use toml::Value;

/// Folders in `C:\Users` that do not belong to a user.
const NOBODY: [&str; 5] = ["All Users", "Default", "Default User", "Public", "desktop.ini"];

/// An entry of `[[homes]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeEntry {
    path: String,
    #[serde(rename = "type", default = "local_kind")]
    kind: String,
    host: Option<String>,
}

fn local_kind() -> String {
    HomeKind::Local.home_kind_name().to_owned()
}

/// Parses `[[homes]]`. A home that does not exist is accepted, because it may be mounted later.
pub(crate) fn parse_homes(value: Value, file: &Path) -> Result<Vec<Home>> {
    let wrong =
        || format!("{}: `[[homes]]` needs `path`; `type` and `host` are optional", file.display());
    let entries: Vec<HomeEntry> = value.try_into().with_context(wrong)?;
    entries.into_iter().map(|entry| parse_home(entry, file)).collect()
}

fn parse_home(entry: HomeEntry, file: &Path) -> Result<Home> {
    let kind = HomeKind::ALL
        .into_iter()
        .find(|kind| kind.home_kind_name() == entry.kind)
        .ok_or_else(|| {
            let names: Vec<&str> = HomeKind::ALL.iter().map(|kind| kind.home_kind_name()).collect();
            anyhow!(
                "{}: a home's `type` must be {}, not `{}`",
                file.display(),
                names.join(", "),
                entry.kind
            )
        })?;
    let own = Machine { home: std::env::home_dir().unwrap_or_default(), ..Machine::default() };
    Ok(Home { machine: Machine::of_home(own.expand_home(&entry.path)), kind, host: entry.host })
}

/// Finds Windows homes below the mounts of WSL, without starting a program.
pub(crate) fn of_windows(mounts: &Path) -> Vec<Home> {
    let drives = fs::read_dir(mounts).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_drive = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 1);
    let users =
        drives.filter(is_drive).flat_map(|drive| fs::read_dir(drive.join("Users"))).flatten();
    let homes = users.flatten().filter(|entry| {
        let name = entry.file_name();
        !NOBODY.iter().any(|nobody| name.to_string_lossy() == *nobody)
            && entry.path().join("AppData").is_dir()
    });
    let home = |path| {
        let machine = Machine::of_home(path);
        Home { machine, kind: HomeKind::Windows, host: None }
    };
    homes.map(|entry| home(entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use agent_journal::connectors::Os;

    use super::*;

    #[test]
    fn homes_of_windows_are_found_under_the_mounts() {
        let mounts = tempfile::tempdir().unwrap();
        for path in [
            "c/Users/mara/AppData",
            "c/Users/Public/AppData",
            "c/Users/empty",
            "wsl/Users/x/AppData",
        ] {
            fs::create_dir_all(mounts.path().join(path)).unwrap();
        }
        let homes = of_windows(mounts.path());
        assert_eq!(homes.len(), 1);
        assert_eq!(homes[0].machine.home, mounts.path().join("c/Users/mara"));
        assert_eq!((homes[0].kind, homes[0].machine.os), (HomeKind::Windows, Os::Windows));
    }

    #[test]
    fn mistakes_in_homes_are_told_with_the_file() {
        let check = |text: &str, expected: &str| {
            let mut table: toml::Table = text.parse().unwrap();
            let error =
                parse_homes(table.remove("homes").unwrap(), Path::new("c.toml")).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            "[[homes]]\nhost = 'x'",
            "c.toml: `[[homes]]` needs `path`; `type` and `host` are optional",
        );
        let kinds = "c.toml: a home's `type` must be local, wsl, windows, remote, not `cloud`";
        check("[[homes]]\npath = '/x'\ntype = 'cloud'", kinds);
    }
}
