//! Derives session ids from the paths of session files.

use std::path::{Path, PathBuf};

use super::line::PiEntry;
use crate::connectors::formats::files;
use crate::connectors::formats::json::BorrowedText;
use crate::connectors::formats::jsonl::LineReader;

/// Extension of session files.
const EXTENSION: &str = ".jsonl";

/// Name of a directory that holds sessions of all projects, or all sessions of an agent.
const SESSIONS: &str = "sessions";

/// Number of lines in which the header of a session is looked for.
const HEADER_LINES: usize = 4;

/// Facts about a session that the path of its file shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionFile {
    /// The session's id, unless its header has another one.
    pub(super) native: String,
    /// Whether the name is that of a session file.
    pub(super) is_named_as_session: bool,
    /// The session that started this one.
    pub(super) parent: Option<String>,
    /// Whether the folder is that of a sub-agent. Its header names the session that started it.
    pub(super) is_in_sub_agent_folder: bool,
    /// The directory in which ids that people choose are unique.
    scope: String,
}

impl SessionFile {
    /// Derives the facts about the session in a file.
    pub(super) fn from_session_path(path: &Path) -> Self {
        let text = path.to_string_lossy();
        let (folder, name) = text.rsplit_once(['/', '\\']).unwrap_or(("", &text));
        let (id, is_stamped) = id_in_file_name(name);
        let scope = scope_of_folder(folder).to_owned();
        Self {
            native: qualified_id(id, &scope),
            is_named_as_session: is_stamped || is_uuid(id),
            parent: parent_of_folder(path.parent().unwrap_or(Path::new(""))),
            is_in_sub_agent_folder: is_sub_agent_folder(path.parent().unwrap_or(Path::new(""))),
            scope,
        }
    }

    /// Describes the session `id` in the database of one of OpenClaw's agents.
    pub(super) fn in_database(id: &str, agent_directory: &str) -> Self {
        Self {
            native: qualified_id(id, agent_directory),
            is_named_as_session: true,
            parent: None,
            is_in_sub_agent_folder: false,
            scope: agent_directory.to_owned(),
        }
    }

    /// Returns the id of the session that is named `id` in its header.
    pub(super) fn native_id(&self, id: &str) -> String {
        qualified_id(id, &self.scope)
    }

    /// Returns the id of a session that a header names: by the path of its file, or by its id.
    pub(super) fn named_session(&self, reference: &str) -> String {
        if let Some((agent, id)) = split_database_reference(reference) {
            return qualified_id(id, agent);
        }
        match reference.rsplit_once(['/', '\\']) {
            Some((folder, name)) => qualified_id(id_in_file_name(name).0, scope_of_folder(folder)),
            None => qualified_id(id_in_file_name(reference).0, &self.scope),
        }
    }
}

/// Returns the id under which the agent itself knows a session.
pub(super) fn agents_own_id(native: &str) -> &str {
    native.split_once('@').map_or(native, |(id, _)| id)
}

/// Returns a globally unique id. Agents generate UUIDs; any other id was chosen by a person and is
/// unique only in one directory.
fn qualified_id(id: &str, scope: &str) -> String {
    if is_uuid(id) || scope.is_empty() { id.to_owned() } else { format!("{id}@{scope}") }
}

/// Splits a reference to a session in a database, `sqlite:<agent>:<id>:<path>`, into the agent's
/// directory and the id.
fn split_database_reference(reference: &str) -> Option<(&str, &str)> {
    let (agent, rest) = reference.strip_prefix("sqlite:")?.split_once(':')?;
    Some((agent, rest.split_once(':')?.0))
}

/// Returns whether the folder is one that Prime made for a session of its own sub-agents.
pub(super) fn is_sub_agent_folder(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let id = name.strip_prefix("sub-").unwrap_or_default();
    id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of the directory whose sessions have ids of their own: that of the project, or
/// of the agent.
fn scope_of_folder(folder: &str) -> &str {
    let mut names = folder.rsplit(['/', '\\']);
    let name = names.next().unwrap_or_default();
    if name == SESSIONS { names.next().unwrap_or_default() } else { name }
}

/// Returns the id in the name of a session file, `<time>_<id>.jsonl` or `<id>.jsonl`, and whether
/// the name has a time.
fn id_in_file_name(name: &str) -> (&str, bool) {
    // The program appends the reason to the name of a file that it put aside.
    let stem = name.find(EXTENSION).map_or(name, |end| &name[..end]);
    match stem.split_once('_') {
        Some((time, id)) if is_file_time(time) && !id.is_empty() => (id, true),
        _ => (stem, false),
    }
}

/// Returns whether a text is a time as in file names: `2026-01-02T03-04-05-678Z`.
fn is_file_time(text: &str) -> bool {
    let shape = |one: char| if one.is_ascii_digit() { '0' } else { one };
    text.chars().map(shape).eq("0000-00-00T00-00-00-000Z".chars())
}

fn is_uuid(text: &str) -> bool {
    let shape = |one: char| if one.is_ascii_hexdigit() { '0' } else { one };
    text.chars().map(shape).eq("00000000-0000-0000-0000-000000000000".chars())
}

/// Returns the session whose sub-agents are in a folder: the folder has the name of its file. A
/// name with a time contains the id, so that the file need not exist yet.
fn parent_of_folder(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_string_lossy();
    let (id, is_stamped) = id_in_file_name(&name);
    if is_stamped {
        let around = folder.parent().unwrap_or(Path::new("")).to_string_lossy();
        return Some(qualified_id(id, scope_of_folder(&around)));
    }
    let mut file = PathBuf::from(folder).into_os_string();
    file.push(EXTENSION);
    let file = PathBuf::from(file);
    if !files::is_regular_file(&file) {
        return None;
    }
    let parent = SessionFile::from_session_path(&file);
    Some(header_id(&file).map_or(parent.native.clone(), |id| parent.native_id(&id)))
}

/// Reads the id in the header of a session file.
fn header_id(file: &Path) -> Option<String> {
    let mut lines = LineReader::open_at(file, 0).ok()?;
    for _ in 0..HEADER_LINES {
        let line = lines.next_line().ok()??;
        let Ok(entry) = serde_json::from_slice::<PiEntry<'_>>(line.bytes) else { continue };
        if entry.kind.is_some_and(|kind| kind.as_borrowed_str() == "session") {
            return entry.id.map(BorrowedText::into_owned);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1e931-7acf-73b8-ac6e-1b71dfbf5305";

    #[test]
    fn a_file_is_named_after_its_session() {
        let check = |path: &str, native: &str, is_named: bool| {
            let file = SessionFile::from_session_path(Path::new(path));
            assert_eq!((&*file.native, file.is_named_as_session), (native, is_named), "{path}");
        };
        let stamp = "2026-11-17T11-08-16-464Z";
        check(&format!("s/sessions/--home-mara--/{stamp}_{ID}.jsonl"), ID, true);
        check(&format!("s/sessions/--home-mara--/{stamp}_kiln.jsonl"), "kiln@--home-mara--", true);
        check(&format!("s/sessions/{ID}.jsonl"), ID, true);
        check(&format!("s/sessions/{ID}.jsonl.deleted.{stamp}"), ID, true);
        check("agents/main/sessions/s1.jsonl", "s1@main", false);
        assert_eq!(agents_own_id("s1@main"), "s1");
    }

    #[test]
    fn a_header_names_another_session_by_its_file_or_its_id() {
        let file = SessionFile { scope: "main".to_owned(), ..SessionFile::default() };
        let check = |reference: &str, native: &str| {
            assert_eq!(file.named_session(reference), native, "{reference}");
        };
        check(&format!("/s/--p--/2026-11-17T11-08-16-464Z_{ID}.jsonl"), ID);
        check("C:\\s\\--p--\\2026-11-17T11-08-16-464Z_a.jsonl", "a@--p--");
        check(ID, ID);
        check("s1", "s1@main");
        check("sqlite:ops:s2:/home/mara/.openclaw/agents/ops/agent/x.sqlite", "s2@ops");
    }
}
