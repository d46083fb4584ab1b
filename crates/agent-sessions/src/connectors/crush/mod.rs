//! Crush, and the OpenCode written in Go from which it was made: a database in the directory of
//! each project.
//!
//! Observed versions: OpenCode (Go) of 2025-06 to 2026-01 and Crush of 2025-10; the schema of
//! 2026-08 is known from Crush's source. Peculiarities: times are seconds although the schema says
//! milliseconds; tokens are recorded for the last context only, costs for the session; live
//! databases have most rows in their log. `docs/formats/crush.md` has the evidence.

mod database;
mod part;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::formats::{files, glob, sqlite};
use super::{Agent, Checkpoint, Connector, Machine, Os, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The connector for one of the agents.
pub(super) struct CrushFamily {
    agent: &'static Agent,
    /// The agent's directory in a project.
    folder: &'static str,
    /// Name of the database in that directory.
    database: &'static str,
    /// The database, relative to a project.
    project_files: &'static [&'static str],
    /// Returns the directory with the list of projects, if the agent keeps one.
    data_directory: fn(&Machine) -> Option<PathBuf>,
    /// The command that continues a session, without the session's id.
    resume_program: Option<&'static str>,
}

/// The connector for Crush.
pub(super) const CRUSH: CrushFamily = CrushFamily {
    agent: &Agent {
        id: "crush",
        name: "Crush",
        badge: "crush",
        aliases: &[],
        color: (217, 70, 239),
        key: "crush",
        variable: "AJ_CRUSH_PATH",
        shell_variables: &[],
        mcp: None,
    },
    folder: ".crush",
    database: "crush.db",
    project_files: &[".crush/crush.db"],
    data_directory: crush_data_directory,
    resume_program: Some("crush"),
};

/// The connector for the OpenCode written in Go.
pub(super) const OPENCODE_GO: CrushFamily = CrushFamily {
    agent: &Agent {
        id: "opencode-go",
        name: "OpenCode (Go)",
        badge: "opencode-go",
        aliases: &[],
        color: (146, 64, 14),
        key: "opencode_go",
        variable: "AJ_OPENCODE_GO_PATH",
        shell_variables: &[],
        mcp: None,
    },
    folder: ".opencode",
    database: "opencode.db",
    project_files: &[".opencode/opencode.db"],
    data_directory: |_| None,
    resume_program: None,
};

/// The file in which Crush lists its projects.
const PROJECTS: &str = "projects.json";

/// Size limit of the list of projects.
const MAX_PROJECTS_BYTES: u64 = 16 << 20;

impl Connector for CrushFamily {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    fn scans_below(&self) -> bool {
        false
    }

    fn project_files(&self) -> &'static [&'static str] {
        self.project_files
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let around = machine.projects.iter().chain([&machine.home]);
        let folders = around.map(|project| project.join(self.folder));
        (self.data_directory)(machine).into_iter().chain(folders).collect()
    }

    /// Finds the database directly in a directory, and those of the projects that a list in it
    /// names. Only a glob pattern includes directories below.
    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if glob::is_pattern(root) {
            let found = glob::files_matching_pattern(root)?.into_iter().map(|source| source.path);
            let databases = found.filter(|path| path.ends_with(self.database));
            return Ok(databases.filter_map(sqlite::database_source).collect());
        }
        if !files::is_dir(root) {
            return Ok(Vec::from_iter(sqlite::database_source(root.to_owned())));
        }
        let listed = listed_directories(&root.join(PROJECTS)).into_iter();
        let inner = root.join(self.folder);
        let folders = [root.to_owned(), inner].into_iter().chain(listed);
        let mut sources: Vec<Source> = folders
            .filter_map(|folder| sqlite::database_source(folder.join(self.database)))
            .collect();
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        sources.dedup_by(|a, b| a.path == b.path);
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        // The list of projects and a pattern can name any directory.
        if glob::is_pattern(root) || name == PROJECTS {
            return None;
        }
        let database = changed.with_file_name(name.strip_suffix("-wal").unwrap_or(&name));
        let source =
            database.ends_with(self.database).then(|| sqlite::database_source(database)).flatten();
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        database::read_database(self.agent.id, &source.path, self.folder, sink)?;
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new(self.resume_program?, ["--session", &session.id.native]))
    }
}

/// Returns the directory in which Crush keeps its list of projects.
fn crush_data_directory(machine: &Machine) -> Option<PathBuf> {
    let own = machine.env_path("CRUSH_GLOBAL_DATA");
    own.or_else(|| Some(machine.env_path("XDG_DATA_HOME")?.join("crush"))).or_else(|| {
        let base = match machine.os {
            Os::Windows => machine
                .env_path("LOCALAPPDATA")
                .unwrap_or_else(|| machine.home.join("AppData/Local")),
            _ => machine.home.join(".local/share"),
        };
        Some(base.join("crush"))
    })
}

/// Reads the data directories of all projects from Crush's list.
fn listed_directories(list: &Path) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct ProjectList {
        projects: Vec<serde_json::Value>,
    }
    let text = files::small_text(list, MAX_PROJECTS_BYTES);
    let list = text.and_then(|text| serde_json::from_str::<ProjectList>(&text).ok());
    let projects = list.map(|list| list.projects).unwrap_or_default().into_iter();
    // A relative data directory is relative to its project.
    let directories = projects.filter_map(|project| {
        let path = project["path"].as_str().unwrap_or_default();
        Some(Path::new(path).join(project["data_dir"].as_str()?))
    });
    directories.filter(|directory| directory.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a private directory")]
    fn databases_of_listed_projects_are_found() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let make = |path: &Path, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for project in ["one/.crush", "two/state"] {
            make(&home.path().join(project).join("crush.db"), "");
        }
        let one = home.path().join("one");
        let list = serde_json::json!({ "projects": [
            { "path": one, "data_dir": ".crush" },
            { "path": "", "data_dir": home.path().join("two/state") },
            { "path": "", "data_dir": "relative" },
            { "path": one, "data_dir": 7 },
            5,
        ]});
        make(&data.join(PROJECTS), &list.to_string());
        let found = |root: &Path| CRUSH.discover_sources(root).unwrap().len();
        assert_eq!(found(&data), 2);
        assert_eq!(found(&one), 1);
        assert_eq!(found(&one.join(".crush")), 1);
        assert_eq!(found(&one.join(".crush/crush.db")), 1);
        assert_eq!(found(&home.path().join("*/.crush/*")), 1);
    }

    #[test]
    fn the_list_of_projects_is_where_its_variables_point() {
        let check = |os: Os, env: &[(&str, &str)], expected: &str| {
            let env = env.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let machine =
                Machine { home: "/h".into(), os, env: env.collect(), ..Machine::default() };
            assert_eq!(CRUSH.roots(&machine)[0], Path::new(expected));
        };
        check(Os::Linux, &[], "/h/.local/share/crush");
        check(Os::MacOs, &[("XDG_DATA_HOME", "/x")], "/x/crush");
        check(Os::Windows, &[("LOCALAPPDATA", "/l")], "/l/crush");
        check(Os::Linux, &[("CRUSH_GLOBAL_DATA", "/g"), ("XDG_DATA_HOME", "/x")], "/g");
    }
}
