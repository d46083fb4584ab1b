//! Derives sessions and sub-agents from the paths of their files.

use std::path::{Path, PathBuf};

/// File with the events of a session or a sub-agent.
const WIRE: &str = "wire.jsonl";

/// File with the messages that the model gets. It is a source only where there are no events.
const CONTEXT: &str = "context.jsonl";

/// The agent that a person talks to, where sub-agents have directories beside it.
const MAIN_AGENT: &str = "main";

/// Facts about a session that the path of its file shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KimiPlace {
    /// Directory of the session that a person started.
    pub(super) session_dir: PathBuf,
    /// Id of the session that a person started.
    pub(super) session: String,
    /// Id of the sub-agent, unique in its session.
    pub(super) agent: Option<String>,
}

impl KimiPlace {
    /// Derives the facts about the session in a file.
    pub(super) fn from_record_path(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_flat = !matches!(file_name(path).as_str(), WIRE | CONTEXT);
        let around = folder.parent().unwrap_or(Path::new(""));
        let (session_dir, agent) = match file_name(around).as_str() {
            _ if is_flat => (path.with_extension(""), None),
            "agents" => (above(around), Some(file_name(folder)).filter(|id| id != MAIN_AGENT)),
            "subagents" => (above(around), Some(file_name(folder))),
            _ => (folder.to_owned(), None),
        };
        Self { session: file_name(&session_dir), session_dir, agent }
    }

    /// Returns whether a file is a source. `has_records` tells whether another file has content.
    pub(super) fn is_source(path: &Path, has_records: impl Fn(&Path) -> bool) -> bool {
        match file_name(path).as_str() {
            WIRE => true,
            CONTEXT => !has_records(&path.with_file_name(WIRE)),
            // Sessions of 2025 are files in the directory of a project.
            _ => {
                let project = file_name(path.parent().unwrap_or(Path::new("")));
                let session_dir = path.with_extension("");
                is_project_hash(&project)
                    && ![WIRE, CONTEXT].iter().any(|name| has_records(&session_dir.join(name)))
            }
        }
    }

    /// Returns the id of the session in the file.
    pub(super) fn native_id(&self) -> String {
        match &self.agent {
            Some(agent) => agent_session_id(agent, &self.session),
            None => self.session.clone(),
        }
    }

    /// Returns the id of a session that another agent of the same conversation has.
    pub(super) fn id_of_agent(&self, agent: &str) -> String {
        if agent == MAIN_AGENT {
            self.session.clone()
        } else {
            agent_session_id(agent, &self.session)
        }
    }

    /// Returns the id under which the same agent is known in another session.
    pub(super) fn id_in_session(&self, session: &str) -> String {
        Self { session: session.to_owned(), ..self.clone() }.native_id()
    }

    /// Returns the file with the session's metadata.
    pub(super) fn state_file(&self) -> PathBuf {
        self.session_dir.join("state.json")
    }

    /// Returns the file in which Kimi CLI lists its working directories.
    pub(super) fn directories_file(&self) -> PathBuf {
        above(&above(&above(&self.session_dir))).join("kimi.json")
    }

    /// Returns the name of the directory that holds the sessions of one project.
    pub(super) fn project_folder(&self) -> String {
        file_name(&above(&self.session_dir))
    }
}

/// Returns whether a file name is one of those that hold records.
pub(super) fn is_record_name(name: &str) -> bool {
    let stem = name.strip_suffix(".jsonl");
    stem.is_some_and(|stem| matches!(stem, "wire" | "context") || is_uuid(stem))
}

fn agent_session_id(agent: &str, session: &str) -> String {
    format!("{agent}@{session}")
}

/// Returns whether a name is that of a project directory of Kimi CLI: the MD5 of the working
/// directory, after the name of the machine if it is a remote one.
fn is_project_hash(name: &str) -> bool {
    let hash = name.rsplit_once('_').map_or(name, |(_, hash)| hash);
    hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    let shape = |one: char| if one.is_ascii_hexdigit() { '0' } else { one };
    text.chars().map(shape).eq("00000000-0000-0000-0000-000000000000".chars())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn above(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6b0c1b8e-1111-4222-8333-0123456789ab";
    const HASH: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_path_names_the_session_and_the_agent() {
        let check = |path: &str, native: &str, folder: &str| {
            let place = KimiPlace::from_record_path(Path::new(path));
            assert_eq!((&*place.native_id(), &*place.project_folder()), (native, folder), "{path}");
        };
        let code = format!(".kimi-code/sessions/wd_kiln_0/session_{ID}/agents");
        check(&format!("{code}/main/wire.jsonl"), &format!("session_{ID}"), "wd_kiln_0");
        check(&format!("{code}/agent-0/wire.jsonl"), &format!("agent-0@session_{ID}"), "wd_kiln_0");
        let cli = format!(".kimi/sessions/{HASH}/{ID}");
        check(&format!("{cli}/wire.jsonl"), ID, HASH);
        check(&format!("{cli}/subagents/a1/wire.jsonl"), &format!("a1@{ID}"), HASH);
        check(&format!("{cli}.jsonl"), ID, HASH);
    }

    #[test]
    fn a_file_that_repeats_the_events_of_another_is_no_source() {
        let wire = format!("s/{HASH}/{ID}/wire.jsonl");
        let is_source = |path: &str, known: &str| {
            KimiPlace::is_source(Path::new(path), |other| other == Path::new(known))
        };
        let (context, flat) =
            (format!("s/{HASH}/{ID}/context.jsonl"), format!("s/{HASH}/{ID}.jsonl"));
        assert!(is_source(&wire, "") && is_source(&context, "") && is_source(&flat, ""));
        assert!(!is_source(&context, &wire) && !is_source(&flat, &wire));
        assert!(!is_source(&flat, &context) && !is_source(&format!("s/notes/{ID}.jsonl"), ""));
    }
}
