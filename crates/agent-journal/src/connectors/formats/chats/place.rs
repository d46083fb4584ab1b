//! What a chat's path says about it, and which project it belongs to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::connectors::formats::{files, sha256};
use crate::model::Kind;

/// The registry is a list of directories; a larger file of that name is something else.
const MAX_REGISTRY: u64 = 16 << 20;

/// The program's own helper, which nobody asked for.
const BACKGROUND: &str = "skill-extraction-";

/// Where a chat lies.
pub(super) struct Place {
    /// The file's name without its extension.
    pub(super) stem: String,
    /// The session that started this one.
    pub(super) parent: Option<String>,
    pub(super) kind: Kind,
    folder: PathBuf,
    /// `tmp/<project>`, when the chat lies where the agent put it.
    project: Option<PathBuf>,
}

impl Place {
    pub(super) fn of(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let chats = folder.ancestors().find(|one| name(one) == "chats");
        let parent = chats.filter(|chats| **chats != folder).map(|_| name(&folder));
        let kind = match &parent {
            Some(name) if name.starts_with(BACKGROUND) => Kind::Copy,
            Some(_) => Kind::Agent,
            None => Kind::Root,
        };
        let project = chats.and_then(Path::parent).map(Path::to_owned);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { stem, parent, kind, folder, project }
    }

    /// Makes a session's id unique. One process that starts over, and servers that call every
    /// session the same, write several chats under one id: the first of them keeps it, later
    /// ones add the minute in their file's name, and ids that are no uuids always do. New files
    /// have later minutes, so an id once given stays.
    pub(super) fn native(&self, id: &str) -> String {
        let Some((minute, tail)) = started(&self.stem) else { return id.to_owned() };
        if is_uuid(id) && !self.has_earlier(minute, tail) {
            return id.to_owned();
        }
        format!("{id}@{minute}")
    }

    /// The name of the project's folder.
    pub(super) fn folder_name(&self) -> Option<String> {
        self.project.as_deref().map(name).filter(|name| !name.is_empty())
    }

    fn has_earlier(&self, minute: &str, tail: &str) -> bool {
        let Ok(entries) = fs::read_dir(&self.folder) else { return false };
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"));
            stem.and_then(started).is_some_and(|(other, end)| end == tail && other < minute)
        })
    }

    /// Finds the directory the project lies in. Directories of projects were named after a hash
    /// of that path, later after its last name; beside the latter the path is written down.
    pub(super) fn root(&self, hash: Option<&str>) -> Option<String> {
        let project = self.project.as_ref()?;
        let base = project.parent()?.parent()?;
        let name = name(project);
        let registry = registry(base);
        written(project)
            .or_else(|| written(&base.join("history").join(&name)))
            .or_else(|| registry.iter().find(|(_, id)| **id == name).map(|(root, _)| root.clone()))
            .or_else(|| {
                let hash = hash.unwrap_or(&name);
                let known = registry.into_keys().chain(roots(&base.join("tmp")));
                known.chain(roots(&base.join("history"))).find(|root| sha256::hex(root) == hash)
            })
    }
}

/// Reads `{"projects": {"<path>": "<name of its directory>"}}`.
fn registry(base: &Path) -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Registry {
        projects: BTreeMap<String, String>,
    }
    let text = files::small_text(&base.join("projects.json"), MAX_REGISTRY);
    let registry = text.and_then(|text| serde_json::from_str::<Registry>(&text).ok());
    registry.map(|registry| registry.projects).unwrap_or_default()
}

fn written(project: &Path) -> Option<String> {
    let text = files::small_text(&project.join(".project_root"), 1 << 16)?;
    Some(text.trim().to_owned()).filter(|root| !root.is_empty())
}

/// The paths written down in the directories of other projects.
fn roots(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| written(&entry.path()))
}

/// Splits `session-<minute>-<beginning of the id>`.
fn started(stem: &str) -> Option<(&str, &str)> {
    let (minute, tail) =
        stem.strip_prefix("session-")?.split_at_checked("2026-01-02T03-04".len())?;
    let is_minute = minute.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'T'));
    Some((minute, tail.strip_prefix('-')?)).filter(|_| is_minute)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1a2b3c4d-0000-4000-8000-000000000001";

    #[test]
    fn later_chats_of_one_id_add_their_minute_and_the_first_keeps_the_id() {
        let directory = tempfile::tempdir().unwrap();
        let chats = directory.path().join("chats");
        fs::create_dir(&chats).unwrap();
        let path = |stem: &str| chats.join(format!("{stem}.json"));
        let check = |stem: &str, id: &str, expected: &str| {
            assert_eq!(Place::of(&path(stem)).native(id), expected, "{stem}");
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
        let check = |path: &str, parent: Option<&str>, kind: Kind| {
            let place = Place::of(Path::new(path));
            assert_eq!((place.parent.as_deref(), place.kind), (parent, kind), "{path}");
        };
        check("tmp/p/chats/session-2026-01-02T03-04-1a2b3c4d.json", None, Kind::Root);
        check(&format!("tmp/p/chats/{ID}/t1.jsonl"), Some(ID), Kind::Agent);
        check("tmp/p/chats/skill-extraction-1a/t1.json", Some("skill-extraction-1a"), Kind::Copy);
        check("elsewhere/full.jsonl", None, Kind::Root);
    }
}
