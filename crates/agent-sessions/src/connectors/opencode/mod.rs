//! OpenCode and the agents made from it, Kilo Code and MiMo Code: a database in the agent's data
//! directory, and before version 1.2 a tree of JSON documents.
//!
//! Observed versions: OpenCode 0.5 to 1.18, Kilo Code 7.7. Version 2 and MiMo Code are known from
//! their source. Peculiarities: until 1.3.16 the recorded output includes the reasoning, later it
//! does not; a fork copies messages under new ids; version 2 copies the older sessions and leaves
//! them in place. `docs/formats/opencode.md` has the evidence.

mod database;
mod document;
mod entry;
mod message;
mod part;
mod step;
mod storage;
mod transcript;

use std::path::{Path, PathBuf};

use super::formats::{files, sqlite};
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for one agent of the family.
pub(super) struct OpenCodeFamily {
    agent: &'static Agent,
    /// Name of the agent's data directory, and the beginning of its databases' names.
    data_name: &'static str,
    /// The variable that names the database.
    database_variable: &'static str,
    /// The variable that names a directory around the data directory, which is then called `data`.
    home_variable: Option<&'static str>,
    /// Name of the agent's program.
    program: &'static str,
}

/// The connector for OpenCode.
pub(super) const OPENCODE: OpenCodeFamily = OpenCodeFamily {
    agent: &Agent {
        id: "opencode",
        name: "OpenCode",
        badge: "opencode",
        aliases: &[],
        color: (120, 113, 108),
        key: "opencode",
        variable: "AJ_OPENCODE_PATH",
        shell_variables: &["OPENCODE"],
        mcp: None,
    },
    data_name: "opencode",
    database_variable: "OPENCODE_DB",
    home_variable: None,
    program: "opencode",
};

/// The connector for Kilo Code.
pub(super) const KILO: OpenCodeFamily = OpenCodeFamily {
    agent: &Agent {
        id: "kilo",
        name: "Kilo Code",
        badge: "kilo",
        aliases: &["kilocode"],
        color: (161, 98, 7),
        key: "kilo",
        variable: "AJ_KILO_PATH",
        shell_variables: &["KILO"],
        mcp: None,
    },
    data_name: "kilo",
    database_variable: "KILO_DB",
    home_variable: None,
    program: "kilo",
};

/// The connector for MiMo Code.
pub(super) const MIMO: OpenCodeFamily = OpenCodeFamily {
    agent: &Agent {
        id: "mimo",
        name: "MiMo Code",
        badge: "mimo",
        aliases: &["mimocode", "mimo-code"],
        color: (234, 88, 12),
        key: "mimo",
        variable: "AJ_MIMO_PATH",
        shell_variables: &["MIMOCODE"],
        mcp: None,
    },
    data_name: "mimocode",
    database_variable: "MIMOCODE_DB",
    home_variable: Some("MIMOCODE_HOME"),
    program: "mimo",
};

/// The value of the database variable that keeps the database in memory.
const IN_MEMORY: &str = ":memory:";

impl Connector for OpenCodeFamily {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    /// Returns the data directory, which is the same on all systems, and a database elsewhere.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let data = match self.home_variable.and_then(|name| machine.env_path(name)) {
            Some(home) => home.join("data"),
            None => machine
                .env_path("XDG_DATA_HOME")
                .unwrap_or_else(|| machine.home.join(".local/share"))
                .join(self.data_name),
        };
        let named = machine.env_path(self.database_variable);
        let named = named.filter(|path| path.as_os_str() != IN_MEMORY).map(|path| data.join(path));
        let is_elsewhere = |path: &PathBuf| path.parent() != Some(&data) || !self.is_database(path);
        let named = named.filter(is_elsewhere);
        std::iter::once(data.clone()).chain(named).collect()
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(Vec::from_iter(sqlite::database_source(root.to_owned())));
        }
        let entries = files::directory_entries(root).map_err(Error::read(root))?;
        let databases = entries.into_iter().filter(|path| self.is_database(path));
        let mut sources: Vec<Source> = databases.filter_map(sqlite::database_source).collect();
        let documents = storage::list_session_files(root).into_iter();
        if sources.is_empty() {
            sources.extend(documents.map(storage::with_message_stamps));
        } else {
            // A version with a database writes no documents any more.
            sources.extend(documents);
        }
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let is_file = root.is_file();
        let folder = if is_file { root.parent()? } else { root };
        if changed.parent() != Some(folder) {
            return None;
        }
        let name = changed.file_name()?.to_string_lossy();
        let database = changed.with_file_name(name.strip_suffix("-wal").unwrap_or(&name));
        let is_source = if is_file { database == root } else { self.is_database(&database) };
        let source = is_source.then(|| sqlite::database_source(database)).flatten();
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let is_document = source.path.extension().is_some_and(|extension| extension == "json");
        if is_document {
            storage::read_session_tree(self.agent.id, &source.path, sink)?;
        } else {
            database::read_database(self.agent.id, &source.path, sink)?;
        }
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new(self.program, ["--session", &session.id.native]))
    }
}

impl OpenCodeFamily {
    /// Returns whether a file is one of the agent's databases. There is one for each release
    /// channel.
    fn is_database(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_named = [self.data_name, OPENCODE.data_name].iter().any(|own| name.starts_with(own));
        is_named && path.extension().is_some_and(|extension| extension == "db")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_databases_are_where_their_variables_point() {
        let check = |family: &OpenCodeFamily, env: &[(&str, &str)], expected: &[&str]| {
            let env = env.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let machine = Machine { home: "/h".into(), env: env.collect(), ..Machine::default() };
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(family.roots(&machine), expected);
        };
        check(&OPENCODE, &[], &["/h/.local/share/opencode"]);
        check(&KILO, &[("XDG_DATA_HOME", "/x")], &["/x/kilo"]);
        check(&MIMO, &[("MIMOCODE_HOME", "/m"), ("XDG_DATA_HOME", "/x")], &["/m/data"]);
        let data = "/h/.local/share/opencode";
        check(&OPENCODE, &[("OPENCODE_DB", ":memory:")], &[data]);
        check(&OPENCODE, &[("OPENCODE_DB", "opencode-mine.db")], &[data]);
        check(&OPENCODE, &[("OPENCODE_DB", "mine.db")], &[data, &format!("{data}/mine.db")]);
        check(&OPENCODE, &[("OPENCODE_DB", "/d/own.db")], &[data, "/d/own.db"]);
    }

    #[test]
    fn a_change_of_a_database_or_its_log_affects_that_database_alone() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("opencode");
        std::fs::create_dir(&root).unwrap();
        for name in ["opencode.db", "opencode.db-wal", "auth.json"] {
            std::fs::File::create(root.join(name)).unwrap();
        }
        let affected = |name: &str| {
            let sources = OPENCODE.affected_sources(&root, &root.join(name))?;
            Some(sources.into_iter().map(|source| source.path).collect::<Vec<_>>())
        };
        let database = Some(vec![root.join("opencode.db")]);
        assert_eq!(affected("opencode.db"), database);
        assert_eq!(affected("opencode.db-wal"), database);
        assert_eq!(affected("auth.json"), Some(Vec::new()));
        assert_eq!(affected("storage/session/global/s.json"), None);
    }
}
