//! Resuming a session: the agent's command, the directory to run it in, and the obstacles.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::connectors::{self, Machine, Os, Resume};
use crate::error::Result;
use crate::home_kind::HomeKind;
use crate::journal::Journal;
use crate::store::{Entry, Store};

/// The maximum number of suggested directories if a directory is gone.
const GUESSES: usize = 5;

/// The largest git configuration that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The plan to resume a session.
#[derive(Clone, Debug, Serialize)]
pub struct Resumption {
    /// The command of the agent; `None` if it has none for this session.
    pub command: Option<Resume>,
    /// The directory to run the command in.
    pub directory: Option<PathBuf>,
    /// The obstacles; empty if the command can be run now.
    pub obstacles: Vec<Obstacle>,
}

/// A reason why a session cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Obstacle {
    /// The agent has no command that resumes this session.
    NoCommand {
        /// The name of the agent.
        agent: String,
    },
    /// The session is a sub-agent of another session.
    SubAgent {
        /// The session that started it.
        parent: Option<String>,
    },
    /// The id is unsafe as an argument of a command.
    OddId {
        /// The id of the session.
        id: String,
    },
    /// The session was recorded on another machine or system.
    Elsewhere {
        /// The machine, as far as it is known.
        host: String,
    },
    /// The agent's program is not in `PATH`.
    NoProgram {
        /// The name of the program.
        program: String,
    },
    /// The agent's own file is gone. Only the journal still has the session.
    NoFile {
        /// The former path of the file.
        path: String,
    },
    /// The directory of the session is not recorded.
    NoDirectory,
    /// The directory does not exist any more.
    DirectoryGone {
        /// The former path of the directory.
        path: String,
        /// Directories that may be its new location, the likeliest first.
        guesses: Vec<Guess>,
    },
}

/// A directory that may be the new location of one that is gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Guess {
    /// The path of the directory.
    pub path: PathBuf,
    /// The reason for the suggestion.
    pub why: &'static str,
}

impl Journal {
    /// Plans how to resume a session. `directory` replaces the recorded one.
    pub fn plan_resume(&self, entry: &Entry, directory: Option<&Path>) -> Result<Resumption> {
        // The entry may be redacted for a view, but the command needs the real directory.
        let stored = self.view_redactor().map(|_| self.stored_session(&entry.id)).transpose()?;
        let entry = stored.as_ref().unwrap_or(entry);
        let connector = connectors::find_connector(&entry.agent);
        let account = self.session_metadata(entry)?.unwrap_or_default();
        let session = crate::model::Session { id: session_id(entry), ..account };
        let source = Path::new(&entry.source.path);
        let command = connector
            .filter(|_| !entry.is_agent_session && is_safe_argument(&entry.native_id))
            .and_then(|connector| connector.resume_command(&session, source));
        let directory =
            directory.map(Path::to_owned).or_else(|| entry.cwd.as_deref().map(PathBuf::from));
        let mut obstacles = Vec::new();
        obstacles.extend(no_command(entry, command.as_ref()));
        if entry.source.kind != HomeKind::Local.home_kind_name() {
            let host = entry.source.host.clone().unwrap_or_else(|| entry.source.kind.clone());
            obstacles.push(Obstacle::Elsewhere { host });
        }
        if let Some(command) = &command
            && find_program(command.program, &self.machine).is_none()
        {
            obstacles.push(Obstacle::NoProgram { program: command.program.to_owned() });
        }
        if !source.exists() {
            obstacles.push(Obstacle::NoFile { path: entry.source.path.clone() });
        }
        match &directory {
            None => obstacles.push(Obstacle::NoDirectory),
            Some(path) if !path.is_dir() => obstacles.push(Obstacle::DirectoryGone {
                path: path.display().to_string(),
                guesses: self.guess_new_locations(entry, path, session.repository.as_deref())?,
            }),
            Some(_) => {}
        }
        Ok(Resumption { command, directory, obstacles })
    }

    /// Suggests new locations of a directory: among the projects of the journal, and near the old
    /// path.
    fn guess_new_locations(
        &self,
        entry: &Entry,
        gone: &Path,
        repository: Option<&str>,
    ) -> Result<Vec<Guess>> {
        let known = self.store.as_ref().map(Store::projects).transpose()?;
        let mut places: BTreeSet<PathBuf> = known.into_iter().flatten().collect();
        places.extend(neighbouring_directories(gone));
        let mut guesses = Vec::new();
        if let Some(project) = entry.project_path.as_deref().map(PathBuf::from)
            && project != gone
            && project.is_dir()
        {
            guesses.push((0, Guess { path: project, why: "project of the session" }));
        }
        for path in places.into_iter().filter(|path| path.as_path() != gone && path.is_dir()) {
            let is_same = repository.is_some_and(|wanted| has_remote(&path, wanted));
            if is_same {
                guesses.push((1, Guess { path, why: "same git remote" }));
            } else if path.file_name() == gone.file_name() {
                guesses.push((2, Guess { path, why: "same name" }));
            }
        }
        guesses.sort();
        let mut seen = BTreeSet::new();
        guesses.retain(|(_, guess)| seen.insert(guess.path.clone()));
        Ok(guesses.into_iter().take(GUESSES).map(|(_, guess)| guess).collect())
    }
}

impl Resumption {
    /// Returns whether the command can be run as it is.
    pub fn is_ready(&self) -> bool {
        self.command.is_some() && self.obstacles.is_empty()
    }
}

/// Returns the reason why there is no command, if there is none.
fn no_command(entry: &Entry, command: Option<&Resume>) -> Option<Obstacle> {
    if entry.is_agent_session {
        return Some(Obstacle::SubAgent { parent: entry.parent_id.clone() });
    }
    if command.is_some() {
        return None;
    }
    if !is_safe_argument(&entry.native_id) {
        return Some(Obstacle::OddId { id: entry.native_id.clone() });
    }
    let agent = Journal::supported_agents().find(|agent| agent.id == entry.agent);
    let agent = agent.map_or(entry.agent.as_str(), |agent| agent.name).to_owned();
    Some(Obstacle::NoCommand { agent })
}

fn session_id(entry: &Entry) -> crate::model::SessionId {
    crate::model::SessionId { agent: entry.agent.clone(), native: entry.native_id.clone() }
}

/// Returns whether an id is safe as an argument: not an option, not a path, and nothing that a
/// shell would interpret.
fn is_safe_argument(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|one| one.is_ascii_alphanumeric() || "-_.:@".contains(one))
}

/// Finds a program in the directories of `PATH`.
fn find_program(name: &str, machine: &Machine) -> Option<PathBuf> {
    let (separator, endings) = match machine.os {
        Os::Windows => (';', machine.env_var("PATHEXT").unwrap_or(".COM;.EXE;.BAT;.CMD")),
        _ => (':', ""),
    };
    let directories = machine.env_var("PATH").unwrap_or_default().split(separator);
    let endings: Vec<&str> = endings.split(';').collect();
    directories
        .filter(|directory| !directory.is_empty())
        .flat_map(|directory| {
            endings.iter().map(move |end| Path::new(directory).join(format!("{name}{end}")))
        })
        .find(|file| is_executable_file(file))
}

#[cfg(unix)]
fn is_executable_file(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable_file(file: &Path) -> bool {
    file.is_file()
}

/// Returns the directories near an old path: those in its nearest existing ancestor, and one level
/// below.
fn neighbouring_directories(gone: &Path) -> Vec<PathBuf> {
    let Some(left) = gone.ancestors().skip(1).find(|one| one.is_dir()) else { return Vec::new() };
    // Below the root of a disk everything would be near.
    if left.parent().is_none() {
        return Vec::new();
    }
    let beside = subdirectories(left);
    let below = beside.iter().flat_map(|one| subdirectories(one)).collect::<Vec<_>>();
    beside.into_iter().chain(below).collect()
}

fn subdirectories(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_directory).map(|entry| entry.path()).collect()
}

/// Returns whether a repository has a remote that ends with `owner/name`.
fn has_remote(directory: &Path, wanted: &str) -> bool {
    let file = directory.join(".git/config");
    let is_small = fs::metadata(&file).is_ok_and(|about| about.len() <= LARGEST);
    let Some(text) = is_small.then(|| fs::read_to_string(&file).ok()).flatten() else {
        return false;
    };
    let urls = text.lines().filter_map(|line| line.trim().strip_prefix("url"));
    let mut urls = urls.filter_map(|rest| rest.trim_start().strip_prefix('='));
    let wanted = wanted.trim_end_matches(".git");
    urls.any(|url| {
        let url = url.trim().trim_end_matches('/').trim_end_matches(".git");
        let rest = url.strip_suffix(wanted);
        rest.is_some_and(|before| before.is_empty() || before.ends_with(['/', ':']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_an_option_or_a_path_is_never_handed_on() {
        let check = |id: &str, expected: bool| assert_eq!(is_safe_argument(id), expected, "{id}");
        check("3f1c0001-0000-4000-8000-000000000001", true);
        check("a2a-server@2026-01-02T03-04", true);
        check("--dangerously-skip-permissions", false);
        check("../x", false);
        check("a b", false);
        check("a;b", false);
        check("", false);
    }

    #[test]
    fn a_remote_fits_by_owner_and_name_however_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let check = |url: &str, expected: bool| {
            let git = directory.path().join(".git");
            fs::create_dir_all(&git).unwrap();
            let text = format!("[remote \"origin\"]\n\turl = {url}\n");
            std::io::Write::write_all(
                &mut fs::File::create(git.join("config")).unwrap(),
                text.as_bytes(),
            )
            .unwrap();
            assert_eq!(has_remote(directory.path(), "mara/web"), expected, "{url}");
        };
        check("git@github.com:mara/web.git", true);
        check("https://github.com/mara/web", true);
        check("https://github.com/tamara/web", false);
        check("https://github.com/mara/web2", false);
    }
}
