//! The Cline family: Cline, and the extensions that began as copies of it.
//!
//! Two formats. A *task* is a directory `tasks/<id>` in the storage of a VS Code extension, whose
//! `ui_messages.json` lists everything that the panel shows. A *session* of the newer SDK, which
//! Cline's terminal program and its newest extension use, is a document
//! `<id>/<id>.messages.json`. Both are rewritten as a whole.
//!
//! Observed versions: Cline tasks of 2025-10, Cline CLI 3.0.65. Peculiarities: a tool's call and
//! its result are in different requests of a task; a sub-agent of a session is a document beside
//! it. `docs/formats/cline.md` and `docs/formats/roo-code.md` have the evidence.

mod session;
mod session_message;
mod task;
mod task_about;
mod task_entry;
mod task_results;
mod task_turn;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::formats::{files, vscode};
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::{Session, SessionKind};

/// The connector for one agent of the family.
pub(super) struct ClineFamily {
    agent: &'static Agent,
    /// Directories in the storage of VS Code's extensions.
    extensions: &'static [&'static str],
    /// Returns the directories of the agent's terminal program.
    homes: fn(&Machine) -> Vec<PathBuf>,
    /// Name of the terminal program that continues sessions.
    program: Option<&'static str>,
}

/// The connector for Cline.
pub(super) const CLINE: ClineFamily = ClineFamily {
    agent: &Agent {
        id: "cline",
        name: "Cline",
        badge: "cline",
        aliases: &["claude-dev"],
        color: (124, 58, 237),
        key: "cline",
        variable: "AJ_CLINE_PATH",
        shell_variables: &["CLINE_ACTIVE"],
        mcp: None,
    },
    extensions: &["saoudrizwan.claude-dev", "saoudrizwan.cline-nightly"],
    homes: cline_homes,
    program: Some("cline"),
};

/// The connector for Roo Code, and for Zoo Code, which continues it and copies its tasks with their
/// ids.
pub(super) const ROO_CODE: ClineFamily = ClineFamily {
    agent: &Agent {
        id: "roo-code",
        name: "Roo Code",
        badge: "roo",
        aliases: &["roo", "roo-cline", "zoo-code"],
        color: (22, 101, 52),
        key: "roo_code",
        variable: "AJ_ROO_CODE_PATH",
        shell_variables: &["ROO_ACTIVE"],
        mcp: None,
    },
    extensions: &[
        "rooveterinaryinc.roo-cline",
        "rooveterinaryinc.roo-code-nightly",
        "zoocodeorganization.zoo-code",
    ],
    homes: no_homes,
    program: None,
};

/// The connector for the tasks of Kilo Code, until its extension and terminal program changed to
/// another store.
pub(super) const KILO_CODE: ClineFamily = ClineFamily {
    agent: &Agent {
        id: "kilo-code",
        name: "Kilo Code (tasks)",
        badge: "kilotask",
        aliases: &["kilo-tasks"],
        color: (202, 138, 4),
        key: "kilo_code",
        variable: "AJ_KILO_CODE_PATH",
        shell_variables: &[],
        mcp: None,
    },
    extensions: &["kilocode.kilo-code"],
    homes: kilo_homes,
    program: None,
};

/// Directory that holds one directory for each task.
const TASKS: &str = "tasks";

/// Directory that holds one directory for each session of the SDK.
const SESSIONS: &str = "sessions";

/// End of the name of a session's document.
const MESSAGES: &str = ".messages.json";

/// The list of what the panel shows, under its names of all versions.
const PANELS: &[&str] = &["ui_messages.json", "claude_messages.json"];

/// The conversation as the model received it.
const HISTORY: &str = "api_conversation_history.json";

/// Facts about a task.
const METADATA: &str = "task_metadata.json";

/// The entry of a task in the agent's list of tasks.
const HISTORY_ITEM: &str = "history_item.json";

impl Connector for ClineFamily {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let extensions = self.extensions.iter();
        let mut roots: Vec<PathBuf> = extensions
            .flat_map(|extension| vscode::extension_directories(machine, extension))
            .collect();
        roots.extend((self.homes)(machine));
        roots
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for place in self.storage_places(root) {
            let tasks = place_named(&place, TASKS);
            let entries = files::directory_entries(&tasks).unwrap_or_default();
            sources.extend(entries.iter().filter_map(|task| task_source(task)));
            let sessions = place_named(&place, SESSIONS);
            if files::is_dir(&sessions) {
                let found = files::walk_files(&sessions, &is_session_document)?;
                sources.extend(found.into_iter().map(session_source));
            }
        }
        Ok(sources)
    }

    fn affected_sources(&self, _root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let folder = changed.parent()?;
        let name = changed.file_name()?.to_string_lossy();
        let is_in = |place: &str| has_ancestor(folder, place);
        if is_in(SESSIONS) && name.ends_with(".json") {
            let found = files::walk_files(folder, &is_session_document).unwrap_or_default();
            return Some(found.into_iter().map(session_source).collect());
        }
        let is_part =
            PANELS.contains(&&*name) || [HISTORY, METADATA, HISTORY_ITEM].contains(&&*name);
        let is_task =
            is_part && folder.parent().and_then(Path::file_name) == Some(OsStr::new(TASKS));
        Some(Vec::from_iter(is_task.then(|| task_source(folder)).flatten()))
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let name = source.path.file_name().unwrap_or_default().to_string_lossy();
        if is_session_document(&name) {
            session::read_session(self.agent.id, &source.path, sink)?;
        } else {
            task::read_task(self.agent.id, &source.path, sink)?;
        }
        Ok(Checkpoint::default())
    }

    /// Returns a command for sessions of the SDK. Nothing but the panel can continue a task.
    fn resume_command(&self, session: &Session, source: &Path) -> Option<Resume> {
        let name = source.file_name()?.to_string_lossy();
        let can_continue = is_session_document(&name) && session.kind == SessionKind::Root;
        let program = self.program.filter(|_| can_continue)?;
        Some(Resume::new(program, ["--id", &session.id.native]))
    }
}

impl ClineFamily {
    /// Returns the directories with tasks and sessions at or below a root, which may also be the
    /// agent's home, a user directory of VS Code, or the directory of tasks or sessions itself.
    fn storage_places(&self, root: &Path) -> Vec<PathBuf> {
        let mut places = vec![root.to_owned(), root.join("data")];
        let storage = vscode::user_directory(root).join("globalStorage");
        places.extend(self.extensions.iter().map(|extension| storage.join(extension)));
        places.extend(self.extensions.iter().map(|extension| root.join(extension)));
        places.retain(|place| files::is_dir(place));
        places.dedup();
        places
    }
}

/// Returns the directory of a name in a place, which may be that directory itself.
fn place_named(place: &Path, name: &str) -> PathBuf {
    if place.file_name() == Some(OsStr::new(name)) { place.to_owned() } else { place.join(name) }
}

fn has_ancestor(folder: &Path, name: &str) -> bool {
    folder.ancestors().any(|one| one.file_name() == Some(OsStr::new(name)))
}

/// Returns the source of a task's directory.
fn task_source(task: &Path) -> Option<Source> {
    let mut source = PANELS.iter().find_map(|name| files::source_from_file(task.join(name)))?;
    for companion in [HISTORY, METADATA, HISTORY_ITEM] {
        source.stamp = source.stamp.with_companion(&task.join(companion));
    }
    Some(source)
}

/// Returns a session's document as a source whose stamp includes its companions.
fn session_source(mut source: Source) -> Source {
    let companions = [session::manifest_path(&source.path), session::compaction_path(&source.path)];
    for companion in companions {
        source.stamp = source.stamp.with_companion(&companion);
    }
    source
}

fn is_session_document(name: &str) -> bool {
    name.ends_with(MESSAGES)
}

fn cline_homes(machine: &Machine) -> Vec<PathBuf> {
    let home = machine.env_path("CLINE_DIR").unwrap_or_else(|| machine.home.join(".cline"));
    let data = machine.env_path("CLINE_DATA_DIR").unwrap_or_else(|| home.join("data"));
    let sessions = machine.env_path("CLINE_SESSION_DATA_DIR");
    [Some(data), sessions].into_iter().flatten().collect()
}

fn kilo_homes(machine: &Machine) -> Vec<PathBuf> {
    vec![machine.home.join(".kilocode/cli/global")]
}

fn no_homes(_: &Machine) -> Vec<PathBuf> {
    Vec::new()
}
