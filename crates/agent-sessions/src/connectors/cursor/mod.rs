//! Cursor: the editor's `state.vscdb` databases below `Cursor/User`, the agent's transcripts in
//! `~/.cursor/projects/<slug>/agent-transcripts`, the terminal program's
//! `~/.cursor/chats/<hash>/<id>/store.db`, and `~/.cursor/conversations`.
//!
//! Observed builds: 2024 to 2026. Peculiarities: one conversation can be in three of these
//! files under one id; the editor has moved its chats four times inside the same file; deleted
//! chats leave NULL rows, edited prompts leave unreferenced bubbles; transcripts have no times.
//! `docs/formats/cursor.md` has the evidence.

mod bubble;
mod chat;
mod composer;
mod conversation;
mod entry;
mod place;
mod prompt;
mod state;
mod text;
mod tool;
mod transcript;
mod value;

use std::path::{Path, PathBuf};

use super::formats::{files, sqlite, vscode};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Resume, Sink, Source,
};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for Cursor.
pub(super) struct CursorConnector;

const AGENT: Agent = Agent {
    id: "cursor",
    name: "Cursor",
    badge: "cursor",
    aliases: &[],
    color: (100, 116, 139),
    key: "cursor",
    variable: "AJ_CURSOR_PATH",
    shell_variables: &["CURSOR_AGENT"],
    mcp: Some(McpClient {
        file: "~/.cursor/mcp.json",
        add: None,
        introduces: "cursor",
        skills: Some(".cursor/skills"),
        shape: McpConfigFormat::McpServers,
    }),
};

/// The database of one terminal chat.
const CHAT: &str = "store.db";

/// The metadata file that the terminal program writes beside the database.
const CHAT_META: &str = "meta.json";

impl Connector for CursorConnector {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots = vscode::product_user_directories(machine, &["Cursor", "Cursor Nightly"]);
        roots.extend([".cursor", ".cursor-server"].map(|name| machine.home.join(name)));
        let xdg =
            machine.env_path("XDG_CONFIG_HOME").unwrap_or_else(|| machine.home.join(".config"));
        roots.push(xdg.join("cursor"));
        roots
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(source_with_companions(root.to_owned()).into_iter().collect());
        }
        files::observed_listing(root).map_err(Error::read(root))?;
        let mut sources = list_state_databases(root);
        sources.extend(list_files_in_home(root, "projects", &is_transcript)?);
        sources.extend(list_files_in_home(root, "chats", &|name| name == CHAT)?);
        sources.extend(list_files_in_home(root, "conversations", &is_transcript)?);
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let path = &source.path;
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        match &*extension {
            "jsonl" => return transcript::read_lines(path, &start, sink),
            "json" => transcript::read_transcript_document(path, sink)?,
            "txt" => text::read_text_transcript(path, sink)?,
            "db" => chat::read_chat_database(path, sink)?,
            _ => state::read_state_database(path, sink)?,
        }
        Ok(Checkpoint::default())
    }

    /// Returns a command for chats that have a database of the terminal program, the only one of
    /// Cursor's programs that accepts the id of a chat.
    fn resume_command(&self, session: &Session, source: &Path) -> Option<Resume> {
        let native = &session.id.native;
        let home = source.ancestors().find(|one| one.join("chats").is_dir())?;
        let mut workspaces = std::fs::read_dir(home.join("chats")).ok()?.flatten();
        workspaces
            .any(|workspace| workspace.path().join(native).join(CHAT).is_file())
            .then(|| Resume::new("cursor-agent", [&format!("--resume={native}")]))
    }
}

/// Returns the editor's state databases below a user directory.
fn list_state_databases(root: &Path) -> Vec<Source> {
    let user = vscode::user_directory(root);
    let mut places = vec![user.join("globalStorage"), user.clone()];
    places.extend(vscode::workspace_storages(&user));
    places
        .into_iter()
        .filter_map(|place| source_with_companions(place.join(vscode::STATE)))
        .collect()
}

/// Returns the wanted files in the directory `name` of a home. The root may also be that directory
/// itself, or one project in it.
fn list_files_in_home(
    root: &Path,
    name: &str,
    wanted: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<Source>> {
    let child = root.join(name);
    let is_project = || in_transcripts(root) || files::is_dir(&root.join(place::TRANSCRIPTS));
    let place = if files::is_dir(&child) {
        child
    } else if root.file_name().is_some_and(|own| own == name)
        || (name == "projects" && is_project())
    {
        root.to_owned()
    } else {
        return Ok(Vec::new());
    };
    let found = files::walk_files(&place, wanted)?;
    // Besides transcripts, a project has terminal captures and tool outputs.
    let is_session = |source: &Source| name != "projects" || in_transcripts(&source.path);
    Ok(found
        .into_iter()
        .filter(is_session)
        .filter_map(|one| source_with_companions(one.path))
        .collect())
}

fn in_transcripts(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == place::TRANSCRIPTS)
}

fn is_transcript(name: &str) -> bool {
    [".jsonl", ".json", ".txt"].iter().any(|end| name.ends_with(end))
}

/// Returns a file as a source whose stamp includes its companion files.
fn source_with_companions(path: PathBuf) -> Option<Source> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let folder = path.parent()?.to_owned();
    let mut source = match &*name {
        CHAT | vscode::STATE => sqlite::database_source(path)?,
        _ => files::source_from_file(path)?,
    };
    match &*name {
        CHAT => source.stamp = source.stamp.with_companion(&folder.join(CHAT_META)),
        vscode::STATE => {
            source.stamp = source.stamp.with_companion(&vscode::workspace_file(&folder));
        }
        _ => {}
    }
    Some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_may_be_the_home_or_any_place_of_sessions_in_it() {
        let home = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::File::create(path).unwrap();
        };
        make("projects/p/agent-transcripts/a/a.jsonl");
        make("projects/p/terminals/1.txt");
        make("chats/h/c/store.db");
        make("conversations/x.json");
        make("extensions/e/package.json");
        make("data/User/globalStorage/state.vscdb");
        make("data/User/workspaceStorage/w/state.vscdb");
        let check = |root: &str, expected: usize| {
            let found = CursorConnector.discover_sources(&home.path().join(root)).unwrap();
            assert_eq!(found.len(), expected, "{root}: {found:?}");
        };
        check("", 5);
        check("projects", 1);
        check("projects/p", 1);
        check("projects/p/agent-transcripts", 1);
        check("projects/p/terminals", 0);
        check("chats", 1);
        check("conversations", 1);
        check("data", 2);
        check("data/User", 2);
        check("data/User/workspaceStorage", 2);
        check("data/User/globalStorage/state.vscdb", 1);
        check("extensions", 0);
    }
}
