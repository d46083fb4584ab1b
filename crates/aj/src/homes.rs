//! Further home trees: those the configuration names, and the other side of WSL.

use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::connectors::{Machine, Os};
use agent_journal::{Home, HomeKind};
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use toml::Value;

/// Folders beside the users' homes on Windows.
const NOBODY: [&str; 5] = ["All Users", "Default", "Default User", "Public", "desktop.ini"];

/// One entry of `[[homes]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    #[serde(rename = "type", default = "local")]
    kind: String,
    host: Option<String>,
}

fn local() -> String {
    HomeKind::Local.name().to_owned()
}

/// Reads `[[homes]]`. A home that is not there now may be there later: nothing is said of it.
pub(crate) fn read(value: Value, file: &Path) -> Result<Vec<Home>> {
    let wrong =
        || format!("{}: `[[homes]]` needs `path`, and takes `type` and `host`", file.display());
    let entries: Vec<Entry> = value.try_into().with_context(wrong)?;
    entries.into_iter().map(|entry| home(entry, file)).collect()
}

fn home(entry: Entry, file: &Path) -> Result<Home> {
    let kind =
        HomeKind::ALL.into_iter().find(|kind| kind.name() == entry.kind).ok_or_else(|| {
            let names: Vec<&str> = HomeKind::ALL.iter().map(|kind| kind.name()).collect();
            anyhow!(
                "{}: a home's `type` must be {}, not `{}`",
                file.display(),
                names.join(", "),
                entry.kind
            )
        })?;
    let own = Machine { home: std::env::home_dir().unwrap_or_default(), ..Machine::default() };
    Ok(Home { machine: machine(own.expand(&entry.path)), kind, host: entry.host })
}

/// A home tree of another system: this process's environment says nothing about it.
pub(crate) fn machine(home: PathBuf) -> Machine {
    let os = if home.join("Library/Application Support").is_dir() {
        Os::MacOs
    } else if home.join("AppData").is_dir() {
        Os::Windows
    } else {
        Os::Linux
    };
    Machine { home, os, ..Machine::default() }
}

/// Finds the homes of Windows under the mounts of WSL, without starting anything.
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
    homes
        .map(|entry| Home { machine: machine(entry.path()), kind: HomeKind::Windows, host: None })
        .collect()
}

#[cfg(test)]
mod tests {
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
            let error = read(table.remove("homes").unwrap(), Path::new("c.toml")).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            "[[homes]]\nhost = 'x'",
            "c.toml: `[[homes]]` needs `path`, and takes `type` and `host`",
        );
        let kinds = "c.toml: a home's `type` must be local, wsl, windows, remote, not `cloud`";
        check("[[homes]]\npath = '/x'\ntype = 'cloud'", kinds);
    }
}
