//! Agents that leave traces on a machine but whose sessions cannot be read, each with the reason.
//! Without this list, a user of such an agent sees only that no sessions were found.
//!
//! `docs/formats/unread.md` has the evidence. An agent leaves the list when it gets a connector. An
//! agent may have both if only its older sessions can be read.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::formats::{files, vscode};
use super::{Machine, Os};

/// An agent that was found on a machine and whose sessions are not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnreadAgent {
    /// Permanent id. A connector for the agent would have the same one.
    pub id: &'static str,
    /// Display name.
    pub name: &'static str,
    /// The file or directory by which the agent was found.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    /// The reason why its sessions are not read.
    pub reason: UnreadReason,
}

/// The reason why the sessions of an agent are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnreadReason {
    /// The files are encrypted, and only the agent has the key.
    Encrypted,
    /// The sessions are kept on servers of the vendor, not on the machine.
    OnServers,
    /// The sessions are on the machine, and there is no connector for them.
    NoConnector,
}

impl fmt::Display for UnreadReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Encrypted => "its vendor encrypts the sessions",
            Self::OnServers => "its vendor keeps the sessions on servers",
            Self::NoConnector => "its format is not supported yet",
        })
    }
}

/// An entry of the list: an agent, and the paths of which at least one exists if it was used.
struct UnreadEntry {
    id: &'static str,
    name: &'static str,
    reason: UnreadReason,
    traces: &'static [AgentTrace],
}

/// A path that an agent creates. One component may be `*`, which matches any name.
enum AgentTrace {
    /// Below the home directory.
    Home(&'static str),
    /// Below the directory of desktop programs' settings.
    Settings(&'static str),
    /// Below the directory of programs' data.
    Data(&'static str),
}

use AgentTrace::{Data, Home, Settings};

const ENTRIES: &[UnreadEntry] = &[
    UnreadEntry {
        id: "windsurf",
        name: "Windsurf",
        reason: UnreadReason::Encrypted,
        traces: &[
            Home(".codeium/windsurf/cascade"),
            Home(".codeium/windsurf-next/cascade"),
            Home(".codeium/windsurf-insiders/cascade"),
        ],
    },
    UnreadEntry {
        id: "trae",
        name: "Trae",
        reason: UnreadReason::Encrypted,
        traces: &[
            Settings("Trae/ModularData/ai-agent/database.db"),
            Settings("Trae CN/ModularData/ai-agent/database.db"),
            Settings("TRAE SOLO/ModularData/ai-agent/database.db"),
            Settings("TRAE SOLO CN/ModularData/ai-agent/database.db"),
        ],
    },
    UnreadEntry {
        id: "amp",
        name: "Amp",
        reason: UnreadReason::OnServers,
        traces: &[Home(".local/share/amp/device-id.json"), Home(".cache/amp/logs/threads")],
    },
    UnreadEntry {
        id: "warp",
        name: "Warp",
        reason: UnreadReason::NoConnector,
        traces: &[
            Home(".local/state/warp-terminal/warp.sqlite"),
            Home(
                "Library/Group Containers/2BBY89MBSN.dev.warp/Library/Application Support/\
                 dev.warp.Warp-Stable/warp.sqlite",
            ),
            Home("AppData/Local/warp/Warp/data/warp.sqlite"),
        ],
    },
    UnreadEntry {
        id: "junie",
        name: "Junie",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".junie/sessions")],
    },
    UnreadEntry {
        id: "jetbrains-ai",
        name: "JetBrains AI Assistant",
        reason: UnreadReason::NoConnector,
        traces: &[Settings("JetBrains/*/aia-task-history")],
    },
    UnreadEntry {
        id: "jetbrains-copilot",
        name: "GitHub Copilot for JetBrains",
        reason: UnreadReason::NoConnector,
        traces: &[
            Home(".config/github-copilot/*/chat-agent-sessions"),
            Home(".config/github-copilot/*/chat-sessions"),
            Settings("github-copilot/*/chat-agent-sessions"),
            Settings("github-copilot/*/chat-sessions"),
        ],
    },
    UnreadEntry {
        id: "qoder",
        name: "Qoder",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".qoder/projects"), Home(".qoderwork/projects")],
    },
    UnreadEntry {
        id: "codebuff",
        name: "Codebuff",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".config/manicode/projects")],
    },
    UnreadEntry {
        id: "devin",
        name: "Devin CLI",
        reason: UnreadReason::NoConnector,
        traces: &[Data("devin/cli/sessions.db")],
    },
    UnreadEntry {
        id: "rovo-dev",
        name: "Rovo Dev",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".rovodev/sessions")],
    },
    UnreadEntry {
        id: "forge",
        name: "Forge",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".forge/.forge.db"), Home("forge/.forge.db")],
    },
    UnreadEntry {
        id: "zcode",
        name: "ZCode",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".zcode/cli/db/db.sqlite")],
    },
    UnreadEntry {
        id: "vibe",
        name: "Mistral Vibe",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".vibe/logs/session")],
    },
    UnreadEntry {
        id: "gptme",
        name: "gptme",
        reason: UnreadReason::NoConnector,
        traces: &[Data("gptme/logs")],
    },
    UnreadEntry {
        id: "auggie",
        name: "Auggie",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".augment/sessions")],
    },
    UnreadEntry {
        id: "iflow",
        name: "iFlow",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".iflow/projects")],
    },
    UnreadEntry {
        id: "codebuddy",
        name: "CodeBuddy Code",
        reason: UnreadReason::NoConnector,
        traces: &[Home(".codebuddy/projects")],
    },
];

/// Lists the agents that were used on a machine and whose sessions are not read.
pub fn find_unread_agents(machine: &Machine) -> Vec<UnreadAgent> {
    let found = |entry: &UnreadEntry| {
        let path = entry.traces.iter().find_map(|trace| trace.existing_path(machine))?;
        Some(UnreadAgent { id: entry.id, name: entry.name, path, reason: entry.reason })
    };
    ENTRIES.iter().filter_map(found).collect()
}

/// Lists the names of all agents in the list, for the test that only connectors name an agent.
#[doc(hidden)]
pub fn unread_agent_names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().flat_map(|entry| [entry.id, entry.name])
}

impl AgentTrace {
    fn existing_path(&self, machine: &Machine) -> Option<PathBuf> {
        let (base, path) = match self {
            Self::Home(path) => (machine.home.clone(), path),
            Self::Settings(path) => (vscode::settings_directory(machine), path),
            Self::Data(path) => (data_directory(machine), path),
        };
        match path.split_once("/*/") {
            None => Some(base.join(path)).filter(|path| files::path_exists(path)),
            Some((above, below)) => first_below_any(&base.join(above), below),
        }
    }
}

/// Returns the first existing path `below` any entry of a directory.
fn first_below_any(directory: &Path, below: &str) -> Option<PathBuf> {
    let entries = files::directory_entries(directory).ok()?;
    entries.iter().map(|entry| entry.join(below)).find(|path| files::path_exists(path))
}

/// Returns the directory in which programs keep their data on this machine.
fn data_directory(machine: &Machine) -> PathBuf {
    if machine.os == Os::Windows {
        return vscode::settings_directory(machine);
    }
    machine.env_path("XDG_DATA_HOME").unwrap_or_else(|| machine.home.join(".local/share"))
}

/// Serializes a path; invalid UTF-8 is replaced.
fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::connectors::ALL;

    fn found_after_creating(path: &str) -> Vec<&'static str> {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(path)).unwrap();
        let found = find_unread_agents(&Machine::of_home(home.path()));
        assert!(found.iter().all(|agent| agent.path.exists()), "{found:?}");
        found.iter().map(|agent| agent.id).collect()
    }

    #[test]
    fn agents_are_found_by_the_paths_they_create() {
        let check = |path: &str, expected: &[&str]| {
            assert_eq!(found_after_creating(path), expected, "{path}");
        };
        check(".config", &[]);
        check(".codeium/windsurf/cascade", &["windsurf"]);
        check(".config/JetBrains", &[]);
        check(".config/JetBrains/Idea2026.2/aia-task-history", &["jetbrains-ai"]);
        check(".local/share/devin/cli/sessions.db", &["devin"]);
        check(".vibe/logs/session", &["vibe"]);
        check(".local/share/gptme/logs", &["gptme"]);
        check("Library/Application Support/Trae/ModularData/ai-agent/database.db", &["trae"]);
        check("AppData/Roaming/devin/cli/sessions.db", &["devin"]);
    }

    #[test]
    fn an_agent_whose_format_is_supported_is_not_listed() {
        for entry in ENTRIES.iter().filter(|entry| entry.reason == UnreadReason::NoConnector) {
            let has_connector = ALL.iter().any(|connector| connector.agent().id == entry.id);
            assert!(!has_connector, "remove {} from the list", entry.id);
        }
    }
}
