//! Settings of a journal that the caller chooses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::connectors::Machine;
use crate::connectors::formats::jsonl::MAX_LINE;
use crate::home_kind::HomeKind;
use crate::rate::Rate;

/// Settings of a journal. The program fills them from its settings file, the environment and flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the journal's database.
    pub journal_dir: PathBuf,
    /// Directory of the indexes, which can be rebuilt from the journal at any time.
    pub index_dir: PathBuf,
    /// Roots that replace the default roots of an agent, by agent id.
    pub sources: BTreeMap<String, Vec<PathBuf>>,
    /// Memory of the index writer in MiB.
    pub writer_memory_mb: usize,
    /// Maximum length of a line in a session file, in bytes; longer lines are skipped.
    pub max_line_bytes: usize,
    /// Whether the model's reasoning is indexed.
    pub include_thinking: bool,
    /// Prices that the user set, by model.
    pub prices: BTreeMap<String, Rate>,
    /// Additional home directories to read.
    pub homes: Vec<Home>,
    /// Time zone of agents that record local times.
    pub zone: TimeZone,
    /// Settings of search by meaning.
    pub meaning: Meaning,
    /// Redaction applied to everything that views read.
    pub redaction: ViewRedaction,
    /// Settings of the archive.
    pub archive: ArchiveSettings,
    /// Sessions that are never read.
    pub exclude: ExcludeRules,
}

/// Settings of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Whether the files of agents are archived.
    pub enabled: bool,
    /// Size above which nothing more is archived, in bytes.
    pub max_bytes: Option<u64>,
    /// Ids of agents whose files are not archived.
    pub agents_excluded: Vec<String>,
}

/// Redaction applied to sessions, messages and answers before a view receives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRedaction {
    /// No redaction.
    #[default]
    Off,
    /// Secrets are redacted.
    Secrets,
    /// Secrets, home directories and the owner's name are redacted.
    Personal,
}

/// The sessions that are never read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExcludeRules {
    /// Patterns of paths: of agents' files, and of directories in which sessions worked. `*`
    /// matches a part of one name, `**` any directories. Everything below a match is excluded too.
    pub paths: Vec<String>,
    /// Projects, by their name or their directory.
    pub projects: Vec<String>,
}

impl ExcludeRules {
    /// Returns whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.projects.is_empty()
    }

    /// Returns whether a pattern matches a path or a directory above it.
    pub(crate) fn excludes_path(&self, path: &str) -> bool {
        let parts: Vec<&str> = path_parts(path).collect();
        self.paths.iter().any(|pattern| {
            let pattern: Vec<&str> = path_parts(pattern).collect();
            !pattern.is_empty() && matches_start(&pattern, &parts)
        })
    }

    /// Returns whether a project is excluded, by its directory.
    pub(crate) fn excludes_project(&self, directory: &str) -> bool {
        let parts: Vec<&str> = path_parts(directory).collect();
        self.projects.iter().any(|project| {
            let wanted: Vec<&str> = path_parts(project).collect();
            match wanted.as_slice() {
                [] => false,
                [name] if !project.starts_with(['/', '\\']) => parts.last() == Some(name),
                _ => parts.starts_with(&wanted),
            }
        })
    }
}

/// Splits a path of any system into its names.
fn path_parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty())
}

/// Returns whether a pattern matches the first names of a path.
fn matches_start(pattern: &[&str], path: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return true };
    if *first == "**" {
        // At the end of a pattern, `**` matches everything inside the directory, and not itself.
        return match rest {
            [] => !path.is_empty(),
            _ => (0..path.len()).any(|from| matches_start(rest, &path[from..])),
        };
    }
    path.split_first().is_some_and(|(name, path)| {
        matches_name(first.as_bytes(), name.as_bytes()) && matches_start(rest, path)
    })
}

/// Returns whether a pattern with `*` matches a name.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|from| matches_name(rest, &name[from..])),
        Some((byte, rest)) => name
            .split_first()
            .is_some_and(|(first, name)| first == byte && matches_name(rest, name)),
    }
}

/// Settings of search by meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Whether search by meaning is off. Then no vectors are computed or stored.
    pub off: bool,
    /// Precision of the stored vectors.
    pub precision: Precision,
    /// Path of an embedding model that the user supplies.
    pub model_path: Option<PathBuf>,
    /// Behaviour when the user's model exists but cannot be used.
    pub fallback: Fallback,
}

/// Precision of the vectors that are stored for the final ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Two bytes per component.
    #[default]
    F16,
    /// Four bytes per component.
    F32,
}

/// Behaviour when the user's embedding model cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Compare texts by hashes of their words.
    #[default]
    Hash,
    /// Disable search by meaning.
    None,
}

/// An additional home directory: a mounted disk, the other side of WSL, a copy from a server.
#[derive(Clone, Debug)]
pub struct Home {
    /// The machine that the home belongs to.
    pub machine: Machine,
    /// The way this system reaches the home.
    pub kind: HomeKind,
    /// Name of the machine, if it is not this one.
    pub host: Option<String>,
}

impl Config {
    /// Creates the default settings for a journal in `journal_dir`.
    pub fn new(journal_dir: PathBuf) -> Self {
        Self {
            index_dir: journal_dir.join("index"),
            journal_dir,
            sources: BTreeMap::new(),
            writer_memory_mb: 64,
            max_line_bytes: MAX_LINE,
            include_thinking: false,
            homes: Vec::new(),
            zone: TimeZone::UTC,
            meaning: Meaning::default(),
            prices: BTreeMap::new(),
            redaction: ViewRedaction::Off,
            archive: ArchiveSettings::default(),
            exclude: ExcludeRules::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_exclude_what_they_match_and_everything_below() {
        let check = |pattern: &str, path: &str| {
            ExcludeRules { paths: vec![pattern.to_owned()], ..ExcludeRules::default() }
                .excludes_path(path)
        };
        assert!(check("/home/mara/secret", "/home/mara/secret"));
        assert!(check("/home/mara/secret/", "/home/mara/secret/src/main.rs"));
        assert!(!check("/home/mara/secret", "/home/mara/secrets"));
        assert!(check("/home/*/client-*", "/home/mara/client-a/web"));
        assert!(!check("/home/*/client-*", "/home/mara/work/client-a"));
        assert!(check("/home/**/client-*", "/home/mara/work/client-a/x"));
        assert!(check("**/*.jsonl", "/home/mara/.claude/x.jsonl"));
        assert!(check("/work/**", "/work/a") && !check("/work/**", "/work"));
        assert!(check("C:\\work", "C:\\work\\a"));
        assert!(!check("", "/home") && !check("/", "/home"));
    }

    #[test]
    fn a_project_is_excluded_by_its_name_or_its_directory() {
        let check = |project: &str, directory: &str| {
            ExcludeRules { projects: vec![project.to_owned()], ..ExcludeRules::default() }
                .excludes_project(directory)
        };
        assert!(check("web", "/home/mara/web") && !check("web", "/home/mara/web-2"));
        assert!(!check("web", "/home/web/api"));
        assert!(check("/home/mara/web", "/home/mara/web"));
        assert!(check("/home/mara", "/home/mara/web") && !check("/home/mara", "/home/marak"));
        assert!(!check("", "/home"));
    }
}
