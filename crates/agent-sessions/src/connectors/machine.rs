//! The machine whose sessions are read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ALL;
use super::formats::project_search::{self, FoundProjects, SearchLimits};
use crate::error::{Error, Result};

/// The machine whose home directories are read. It is a connector's only access to its environment,
/// so that no test can touch the real home directory.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Home directory.
    pub home: PathBuf,
    /// Operating system that wrote the home directory.
    pub os: Os,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Project directories in which agents may have written, for agents that write beside the code.
    /// [`Machine::search_projects`] finds some.
    pub projects: Vec<PathBuf>,
}

/// An operating system, as far as paths differ between systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Os {
    /// Linux and other Unixes.
    #[default]
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Machine {
    /// Describes the machine and the user that run this program: the home directory, the operating
    /// system and the environment. Fails when the user has no home directory.
    ///
    /// This is the only function of the library that reads the environment.
    #[expect(clippy::disallowed_methods, reason = "the caller asks for this very environment")]
    pub fn current() -> Result<Self> {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        // No agent uses a variable that is not UTF-8.
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let os = if cfg!(windows) {
            Os::Windows
        } else if cfg!(target_os = "macos") {
            Os::MacOs
        } else {
            Os::Linux
        };
        Ok(Self { home: home.ok_or(Error::NoHome)?, os, env, ..Self::default() })
    }

    /// Describes the machine that a home directory comes from, such as a backup or a mounted disk.
    /// Its directories show the operating system; the environment of this process does not apply.
    pub fn of_home(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        let os = if home.join("Library/Application Support").is_dir() {
            Os::MacOs
        } else if home.join("AppData").is_dir() {
            Os::Windows
        } else {
            Os::Linux
        };
        Self { home, os, ..Self::default() }
    }

    /// Finds the projects below the home directory in which agents wrote that keep no list of their
    /// projects. The search is bounded: it does not enter directories in which nobody works.
    #[must_use]
    pub fn search_projects(&self, limits: SearchLimits) -> FoundProjects {
        let names = ALL.iter().flat_map(|connector| connector.project_files());
        let names: Vec<&str> = names.copied().collect();
        project_search::search_projects(&self.home, &names, limits)
    }

    /// Returns an environment variable; an empty one counts as absent.
    pub fn env_var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns an environment variable that holds a path, with `~` expanded.
    pub fn env_path(&self, name: &str) -> Option<PathBuf> {
        self.env_var(name).map(|text| self.expand_home(text))
    }

    /// Lists the environment variables, with their values, that change at least one connector's
    /// roots.
    pub fn decisive_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let roots = |machine: &Self| {
            ALL.iter().map(|connector| connector.roots(machine)).collect::<Vec<_>>()
        };
        let decides = move |name: &str| {
            let mut without = self.clone();
            without.env.remove(name);
            roots(&without) != roots(self)
        };
        let all = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(move |(name, _)| decides(name))
    }

    /// Expands a leading `~` to the home directory.
    pub fn expand_home(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with(['/', '\\']) => self.home.join(&rest[1..]),
            _ => PathBuf::from(text),
        }
    }
}
