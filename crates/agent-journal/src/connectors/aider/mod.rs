//! Aider: `.aider.chat.history.md` in the project it worked on, one Markdown log for all runs,
//! append-only.
//!
//! Versions 0.48 to 0.86 were seen. Odd: what is prompt, notice or reply stands only in the
//! line's prefix and its two trailing spaces, which Markdown formatters take away; times are
//! local, without a zone, and only a run's start has one; `/ask X` is recorded as the command and
//! again as its prompt. `docs/formats/aider.md` has the evidence.

mod inputs;
mod kind;
mod line;
mod reader;
mod run;
mod turn;

use std::path::{Path, PathBuf};

use super::formats::{files, glob};
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The connector.
pub(super) struct Aider;

const AGENT: Agent = Agent {
    id: "aider",
    name: "Aider",
    badge: "aider",
    aliases: &[],
    color: (22, 163, 74),
    key: "aider",
    variable: "AJ_AIDER_PATH",
    shell_variables: &[],
    mcp: None,
};

const CHAT: &str = ".aider.chat.history.md";

impl Connector for Aider {
    fn scans_below(&self) -> bool {
        false
    }

    fn has_local_times(&self) -> bool {
        true
    }

    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    /// Aider keeps no list of its logs: they are where somebody worked.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots = machine.projects.clone();
        roots.push(machine.home.clone());
        if let Some(file) = machine.path("AIDER_CHAT_HISTORY_FILE") {
            // A relative name is one in each project; joining an absolute one gives itself.
            let named: Vec<PathBuf> = roots.iter().map(|root| root.join(&file)).collect();
            roots.extend(named);
            roots.dedup();
        }
        roots
    }

    /// A directory is looked at, not below; whoever wants that writes a pattern.
    fn discover(&self, root: &Path) -> Result<Vec<Source>> {
        let mut sources = if glob::is_pattern(root) {
            glob::files(root)?.into_iter().filter(|source| is_chat(&source.path)).collect()
        } else {
            let file = if files::is_dir(root) { root.join(CHAT) } else { root.to_owned() };
            Vec::from_iter(files::source(file))
        };
        sources.iter_mut().for_each(add_inputs);
        Ok(sources)
    }

    fn around(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        // A pattern may be about any name.
        if glob::is_pattern(root) {
            return None;
        }
        let chat = if root.is_dir() { root.join(CHAT) } else { root.to_owned() };
        if changed != chat && inputs::beside(&chat).is_none_or(|inputs| changed != inputs) {
            return Some(Vec::new());
        }
        let mut sources = Vec::from_iter(files::source(chat));
        sources.iter_mut().for_each(add_inputs);
        Some(sources)
    }

    fn read(&self, source: &Source, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
        reader::read(&source.path, &start, sink)
    }

    /// A log has one history: the runs before this one and after it come back too.
    fn resume_command(&self, _: &Session, source: &Path) -> Option<Resume> {
        let mut resume = Resume::new("aider", ["--restore-chat-history"]);
        if source.file_name()? != CHAT {
            resume.arguments.push(format!("--chat-history-file={}", source.to_str()?));
        }
        Some(resume)
    }
}

/// Typed lines are a part of what a log tells: their change is a change.
fn add_inputs(source: &mut Source) {
    if let Some(inputs) = inputs::beside(&source.path) {
        source.stamp = source.stamp.with(&inputs);
    }
}

/// Whether a pattern meant this file: `.aider*` names Aider's other files too.
fn is_chat(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("chat.history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &Path, home: &Path) -> Vec<String> {
        let sources = Aider.discover(root).unwrap();
        let names = sources.iter().map(|source| source.path.strip_prefix(home).unwrap());
        names.map(|path| path.to_string_lossy().replace('\\', "/")).collect()
    }

    #[test]
    fn a_directory_is_looked_at_and_a_pattern_reaches_below() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        for place in ["", "src/one", "src/one/web", "src/two/.cache"] {
            let place = home.join(place);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::File::create(place.join(CHAT)).unwrap();
            std::fs::File::create(place.join(".aider.input.history")).unwrap();
        }
        assert_eq!(found(home, home), [CHAT]);
        assert_eq!(found(&home.join("src"), home), [""; 0]);
        assert_eq!(found(&home.join(CHAT), home), [CHAT]);
        let below = ["src/one/.aider.chat.history.md", "src/one/web/.aider.chat.history.md"];
        assert_eq!(found(&home.join("src/**/.aider.chat.history.md"), home), below);
        assert_eq!(found(&home.join("src/**/.aider*"), home), below);
    }

    #[test]
    fn a_renamed_log_is_looked_for_where_its_variable_points() {
        let check = |file: &str, expected: &[&str]| {
            let machine = Machine {
                home: "/h".into(),
                projects: vec!["/p".into()],
                env: [("AIDER_CHAT_HISTORY_FILE".to_owned(), file.to_owned())].into(),
                ..Machine::default()
            };
            let roots = Aider.roots(&machine);
            assert_eq!(roots, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{file}");
        };
        check("", &["/p", "/h"]);
        check("log.md", &["/p", "/h", "/p/log.md", "/h/log.md"]);
        check("/logs/all.md", &["/p", "/h", "/logs/all.md"]);
    }
}
