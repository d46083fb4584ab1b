//! Derives a chat's parent, kind and project from its path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::connectors::formats::{files, sha256};
use crate::model::SessionKind;

/// Size limit of the project registry, which lists directories. A larger file of that name has
/// another format.
const MAX_REGISTRY: u64 = 16 << 20;

/// Name prefix of the program's background agent, which runs without a request.
const BACKGROUND: &str = "skill-extraction-";

/// The facts that a chat's path gives.
pub(super) struct ChatLocation {
    /// File name without extension.
    pub(super) stem: String,
    /// Id of the session that started this one.
    pub(super) parent: Option<String>,
    pub(super) kind: SessionKind,
    folder: PathBuf,
    /// `tmp/<project>`, when the chat is in the agent's own directory.
    project: Option<PathBuf>,
}

impl ChatLocation {
    pub(super) fn from_chat_path(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let chats = folder.ancestors().find(|one| project_directory_name(one) == "chats");
        let parent =
            chats.filter(|chats| **chats != folder).map(|_| project_directory_name(&folder));
        let kind = match &parent {
            Some(name) if name.starts_with(BACKGROUND) => SessionKind::Copy,
            Some(_) => SessionKind::Agent,
            None => SessionKind::Root,
        };
        let project = chats.and_then(Path::parent).map(Path::to_owned);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { stem, parent, kind, folder, project }
    }

    /// Makes a session id unique. A restarted process, or a server that gives all sessions the same
    /// id, writes several chats under one id. The first chat keeps the id; later chats append the
    /// minute from their file name. Ids that are not UUIDs always get the minute. New files have
    /// later minutes, so an assigned id never changes.
    pub(super) fn unique_session_id(&self, id: &str) -> String {
        let Some((minute, tail)) = split_session_stem(&self.stem) else { return id.to_owned() };
        if is_chat_uuid(id) && !self.has_earlier(minute, tail) {
            return id.to_owned();
        }
        format!("{id}@{minute}")
    }

    /// Returns the name of the project's directory below `tmp`.
    pub(super) fn folder_name(&self) -> Option<String> {
        self.project.as_deref().map(project_directory_name).filter(|name| !name.is_empty())
    }

    fn has_earlier(&self, minute: &str, tail: &str) -> bool {
        let entries = files::directory_entries(&self.folder).unwrap_or_default();
        entries.iter().any(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"));
            stem.and_then(split_session_stem)
                .is_some_and(|(other, end)| end == tail && other < minute)
        })
    }

    /// Returns the directory of the project. Older versions name `tmp/<project>` after a hash of
    /// that path; newer ones after its last component, and write the path to a file in it.
    pub(super) fn project_root(&self, hash: Option<&str>) -> Option<String> {
        let project = self.project.as_ref()?;
        let base = project.parent()?.parent()?;
        let name = project_directory_name(project);
        let registry = read_project_registry(base);
        read_written_root(project)
            .or_else(|| read_written_root(&base.join("history").join(&name)))
            .or_else(|| registry.iter().find(|(_, id)| **id == name).map(|(root, _)| root.clone()))
            .or_else(|| {
                let hash = hash.unwrap_or(&name);
                let known = registry.into_keys().chain(recorded_project_roots(&base.join("tmp")));
                known
                    .chain(recorded_project_roots(&base.join("history")))
                    .find(|root| sha256::sha256_hex(root) == hash)
            })
    }
}

/// Reads `projects.json`: `{"projects": {"<path>": "<directory name>"}}`.
fn read_project_registry(base: &Path) -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct ProjectRegistry {
        projects: BTreeMap<String, String>,
    }
    let text = files::small_text(&base.join("projects.json"), MAX_REGISTRY);
    let registry = text.and_then(|text| serde_json::from_str::<ProjectRegistry>(&text).ok());
    registry.map(|registry| registry.projects).unwrap_or_default()
}

fn read_written_root(project: &Path) -> Option<String> {
    let text = files::small_text(&project.join(".project_root"), 1 << 16)?;
    Some(text.trim().to_owned()).filter(|root| !root.is_empty())
}

/// Lists the project paths recorded in all project directories below `directory`.
fn recorded_project_roots(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = files::directory_entries(directory).unwrap_or_default().into_iter();
    entries.filter_map(|path| read_written_root(&path))
}

/// Splits `session-<minute>-<start of the id>` into minute and start of the id.
fn split_session_stem(stem: &str) -> Option<(&str, &str)> {
    let (minute, tail) =
        stem.strip_prefix("session-")?.split_at_checked("2026-01-02T03-04".len())?;
    let is_minute = minute.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'T'));
    Some((minute, tail.strip_prefix('-')?)).filter(|_| is_minute)
}

fn project_directory_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn is_chat_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "1a2b3c4d-0000-4000-8000-000000000001";

    #[test]
    fn later_chats_of_one_id_add_their_minute_and_the_first_keeps_the_id() {
        let directory = tempfile::tempdir().unwrap();
        let chats = directory.path().join("chats");
        fs::create_dir(&chats).unwrap();
        let path = |stem: &str| chats.join(format!("{stem}.json"));
        let check = |stem: &str, id: &str, expected: &str| {
            assert_eq!(
                ChatLocation::from_chat_path(&path(stem)).unique_session_id(id),
                expected,
                "{stem}"
            );
        };
        for stem in ["session-2026-01-02T03-04-1a2b3c4d", "session-2026-01-02T03-09-1a2b3c4d"] {
            fs::File::create(path(stem)).unwrap();
        }
        check("session-2026-01-02T03-04-1a2b3c4d", ID, ID);
        check("session-2026-01-02T03-09-1a2b3c4d", ID, &format!("{ID}@2026-01-02T03-09"));
        check("session-2026-01-02T03-09-ffffffff", ID, ID);
        check("session-2026-01-02T03-04-a2a-serv", "a2a-server", "a2a-server@2026-01-02T03-04");
        check("t1l2m3", "t1l2m3", "t1l2m3");
        check("session-of-mine", "x", "x");
    }

    #[test]
    fn chats_in_a_directory_of_their_own_were_started_by_the_session_it_names() {
        let check = |path: &str, parent: Option<&str>, kind: SessionKind| {
            let place = ChatLocation::from_chat_path(Path::new(path));
            assert_eq!((place.parent.as_deref(), place.kind), (parent, kind), "{path}");
        };
        check("tmp/p/chats/session-2026-01-02T03-04-1a2b3c4d.json", None, SessionKind::Root);
        check(&format!("tmp/p/chats/{ID}/t1.jsonl"), Some(ID), SessionKind::Agent);
        check(
            "tmp/p/chats/skill-extraction-1a/t1.json",
            Some("skill-extraction-1a"),
            SessionKind::Copy,
        );
        check("elsewhere/full.jsonl", None, SessionKind::Root);
    }
}
