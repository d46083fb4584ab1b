//! Aider: `.aider.chat.history.md` in the project it worked on, one Markdown log for all runs,
//! append-only.
//!
//! Versions 0.48 to 0.86 were seen. Peculiarities: prompt, notice and reply differ only in the
//! line's prefix and its two trailing spaces, which Markdown formatters remove; times are local,
//! without a zone, and only the start of a run has one; `/ask X` is recorded as the command and
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

/// The Aider connector.
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

    fn has_local_times(&self, _: &Path) -> bool {
        true
    }

    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn project_files(&self) -> &'static [&'static str] {
        &[CHAT]
    }

    /// Returns the projects and the home directory: Aider keeps no list of its logs, they are in
    /// the directories it worked in.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots = machine.projects.clone();
        roots.push(machine.home.clone());
        if let Some(file) = machine.env_path("AIDER_CHAT_HISTORY_FILE") {
            // A relative name applies to each project; joining an absolute one yields that path
            // itself.
            let named: Vec<PathBuf> = roots.iter().map(|root| root.join(&file)).collect();
            roots.extend(named);
            roots.dedup();
        }
        roots
    }

    /// Finds the log directly in a directory. Only a glob pattern includes directories below.
    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let mut sources = if glob::is_pattern(root) {
            glob::files_matching_pattern(root)?
                .into_iter()
                .filter(|source| is_chat(&source.path))
                .collect()
        } else {
            let file = if files::is_dir(root) { root.join(CHAT) } else { root.to_owned() };
            Vec::from_iter(files::source_from_file(file))
        };
        sources.iter_mut().for_each(add_inputs);
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        // A pattern can match any name.
        if glob::is_pattern(root) {
            return None;
        }
        let chat = if root.is_dir() { root.join(CHAT) } else { root.to_owned() };
        if changed != chat
            && inputs::input_history_path(&chat).is_none_or(|inputs| changed != inputs)
        {
            return Some(Vec::new());
        }
        let mut sources = Vec::from_iter(files::source_from_file(chat));
        sources.iter_mut().for_each(add_inputs);
        Some(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_chat_log(&source.path, &start, sink)
    }

    /// Returns the command that restores the log. One log holds one history, so the runs before and
    /// after this session are restored too.
    fn resume_command(&self, _: &Session, source: &Path) -> Option<Resume> {
        let mut resume = Resume::new("aider", ["--restore-chat-history"]);
        if source.file_name()? != CHAT {
            resume.arguments.push(format!("--chat-history-file={}", source.to_str()?));
        }
        Some(resume)
    }
}

/// Adds the input history to the source's stamp, because a change of it changes the messages'
/// times.
fn add_inputs(source: &mut Source) {
    if let Some(inputs) = inputs::input_history_path(&source.path) {
        source.stamp = source.stamp.with_companion(&inputs);
    }
}

/// Returns whether a matched file is a chat log: `.aider*` also matches Aider's other files.
fn is_chat(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("chat.history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &Path, home: &Path) -> Vec<String> {
        let sources = Aider.discover_sources(root).unwrap();
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
