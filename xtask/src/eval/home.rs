//! The histories to evaluate on: a given home, or the sample histories next to the project, laid
//! out like the files of the agents.

use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::connectors::Machine;
use anyhow::{Context, Result};

use crate::cargo;

/// A history to evaluate on.
pub(super) struct History {
    pub(super) name: String,
    pub(super) machines: Vec<Machine>,
    /// Whether weights are chosen on it. Then one half of its questions is not reported.
    pub(super) chooses: bool,
}

impl History {
    /// Returns the history of a home.
    pub(super) fn of(home: &Path) -> Self {
        let machine = Machine { home: home.to_owned(), ..Machine::default() };
        Self { name: home.display().to_string(), machines: vec![machine], chooses: false }
    }

    /// Returns the sample histories in `AJ_CORPUS` or next to the project, if they exist:
    /// originals, and homes in which every identifying word was replaced by a made-up one.
    pub(super) fn samples(place: &Path) -> Result<Vec<Self>> {
        let named = std::env::var_os("AJ_CORPUS").map(PathBuf::from);
        let corpus = named.unwrap_or_else(|| cargo::root().join("../shared/corpus"));
        if !corpus.is_dir() {
            return Ok(Vec::new());
        }
        let home = place.join("layout");
        if home.exists() {
            fs::remove_dir_all(&home).context("could not remove the last layout")?;
        }
        let projects = lay_out(&corpus.join("real"), &home)?;
        let originals = Machine { home, projects, ..Machine::default() };
        let mut scrubbed = Vec::new();
        for agent in folders(&corpus.join("scrubbed"))? {
            for case in folders(&agent)? {
                let home = case.join("home");
                let projects = vec![home.join("project")];
                scrubbed.push(Machine { home, projects, ..Machine::default() });
            }
        }
        Ok(vec![
            Self { name: "originals".to_owned(), machines: vec![originals], chooses: true },
            Self { name: "scrubbed".to_owned(), machines: scrubbed, chooses: false },
        ])
    }
}

/// Copies originals, kept as `<agent>/<repository>/<path>`, to the directories of their agents.
/// Returns the project directories.
fn lay_out(originals: &Path, home: &Path) -> Result<Vec<PathBuf>> {
    let mut projects = Vec::new();
    for agent in folders(originals)? {
        for repository in folders(&agent)? {
            let (agent, name) = (file_name(&agent), file_name(&repository));
            let mut files = Vec::new();
            list(&repository, &mut files)?;
            for file in files {
                let inner = file.strip_prefix(&repository)?.to_string_lossy().into_owned();
                let Some(target) = target(&agent, &name, &inner) else { continue };
                let target = home.join(target);
                let folder = target.parent().unwrap_or(home);
                fs::create_dir_all(folder)?;
                fs::write(&target, fs::read(&file)?)?;
                if agent == "aider" && !projects.contains(&folder.to_owned()) {
                    projects.push(folder.to_owned());
                }
            }
        }
    }
    Ok(projects)
}

/// Returns the path of a file below a home.
fn target(agent: &str, repository: &str, inner: &str) -> Option<String> {
    let slug = inner.trim_end_matches(".jsonl").replace(['/', '.'], "-");
    let is_lines = Path::new(inner).extension().is_some_and(|ending| ending == "jsonl");
    let from = |root: &str| inner.find(root).map(|at| inner[at..].to_owned());
    match agent {
        "claude" if is_lines => Some(format!(".claude/projects/{repository}/{slug}.jsonl")),
        "codex" if is_lines && !inner.ends_with("history.jsonl") => {
            let slug = format!("rollout-2026-01-01T00-00-00-{repository}-{slug}");
            Some(format!(".codex/sessions/2026/01/01/{slug}.jsonl"))
        }
        "gemini" => Some(format!(".gemini/tmp/{repository}/chats/session-{slug}.json")),
        "copilot-cli" => from(".copilot/"),
        "vscode-copilot-chat" => from(".config/"),
        "aider" => Some(format!("project/{repository}/{inner}")),
        _ => None,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(path).with_context(|| format!("could not read {}", path.display()))?;
    let mut all: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    all.sort();
    Ok(all)
}

fn list(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() { list(&entry, files)? } else { files.push(entry) }
    }
    Ok(())
}
