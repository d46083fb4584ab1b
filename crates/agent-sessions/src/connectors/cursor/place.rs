//! Derives session metadata from the path of a transcript.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::AGENT;
use crate::connectors::formats::files;
use crate::model::{Session, SessionKind};

/// The directory of a project that holds its transcripts.
pub(super) const TRANSCRIPTS: &str = "agent-transcripts";

/// The file Cursor writes when the user trusts a folder. It has the folder's full path.
const TRUSTED: &str = ".workspace-trusted";

/// Creates the session of a transcript with the metadata in its path.
pub(super) fn session_from_path(path: &Path) -> Session {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, &*stem);
    let folder = path.parent().unwrap_or(Path::new(""));
    if folder.file_name().is_some_and(|name| name == "subagents") {
        session.kind = SessionKind::Agent;
        let parent = folder.parent().and_then(Path::file_name);
        session.parent = parent.map(|name| name.to_string_lossy().into_owned());
    }
    session.cwd = project_directory_of(path).and_then(trusted_folder);
    session
}

/// Returns the project directory of a transcript.
fn project_directory_of(path: &Path) -> Option<&Path> {
    let is_ours = |one: &&Path| one.file_name().is_some_and(|name| name == TRANSCRIPTS);
    path.ancestors().find(is_ours).and_then(Path::parent)
}

/// Returns the folder path recorded in a project's trust file.
fn trusted_folder(project: &Path) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Trusted {
        workspace_path: String,
    }
    let text = files::small_text(&project.join(TRUSTED), 1 << 16)?;
    Some(serde_json::from_str::<Trusted>(&text).ok()?.workspace_path)
}

/// Returns the directory on this machine whose path has the slug of the transcript's project.
pub(super) fn folder_by_slug(path: &Path) -> Option<String> {
    let slug = project_directory_of(path)?.file_name()?.to_str()?;
    let (root, rest) = match slug.split_once('-') {
        Some((drive, rest)) if cfg!(windows) && drive.len() == 1 => {
            (PathBuf::from(format!("{drive}:\\")), rest)
        }
        _ => (PathBuf::from("/"), slug),
    };
    resolve_slug_below(&root, rest).map(|path| path.to_string_lossy().into_owned())
}

/// Finds the directory below `root` whose path has a slug. At each level, only directories whose
/// own slug is a prefix of the remaining slug are searched.
fn resolve_slug_below(root: &Path, slug: &str) -> Option<PathBuf> {
    if slug.is_empty() {
        return Some(root.to_owned());
    }
    let mut entries: Vec<(String, PathBuf)> = fs::read_dir(root)
        .ok()?
        .flatten()
        .map(|entry| (slugify_path(&entry.file_name().to_string_lossy()), entry.path()))
        .filter(|(own, _)| !own.is_empty() && slug.starts_with(own.as_str()))
        .collect();
    // Longest name first: `my-app` before `my`.
    entries.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.1.cmp(&b.1)));
    entries.into_iter().find_map(|(own, path)| {
        let rest = &slug[own.len()..];
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix('-')? };
        if path.is_dir() { resolve_slug_below(&path, rest) } else { None }
    })
}

/// Returns Cursor's project name for a path: each run of characters other than ASCII letters and
/// digits becomes one dash.
fn slugify_path(path: &str) -> String {
    let words: Vec<&str> = path
        .split(|one: char| !one.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_resolved_to_the_directory_that_exists() {
        let home = tempfile::tempdir().unwrap();
        for path in ["a/my-app/src", "a/my/other", "a/.hidden.d"] {
            fs::create_dir_all(home.path().join(path)).unwrap();
        }
        let check = |slug: &str, expected: Option<&str>| {
            let expected = expected.map(|path| home.path().join(path));
            assert_eq!(resolve_slug_below(home.path(), slug), expected, "{slug}");
        };
        check("a-my-app", Some("a/my-app"));
        check("a-my-app-src", Some("a/my-app/src"));
        check("a-my-other", Some("a/my/other"));
        check("a-hidden-d", Some("a/.hidden.d"));
        check("a-gone", None);
        check("1765550873491", None);
    }

    #[test]
    fn a_sub_agent_names_its_parent() {
        let session = session_from_path(Path::new("p/agent-transcripts/u1/subagents/c1.jsonl"));
        assert_eq!(session.id.native, "c1");
        assert_eq!((session.parent.as_deref(), session.kind), (Some("u1"), SessionKind::Agent));
    }
}
