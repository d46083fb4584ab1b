//! Agents that a user declares in the configuration: the places of the facts in files of lines, in
//! documents or in databases. A declared agent is a connector like the others.

mod convert;
mod database;
mod declaration;
mod document;
mod field_path;
mod infer;
mod learn;
mod lines;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

pub use self::declaration::{AgentDeclaration, DeclarationError};
pub use self::learn::{LearnedAgent, LearnedShare, learn_agent};

use self::declaration::DeclaredFormat;
use super::formats::{files, glob, sqlite};
use super::{ALL, Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The declared agents of this process. As the agents with a connector of their own, they do not
/// depend on a journal: an agent's id means the same everywhere.
static DECLARED: OnceLock<Vec<&'static DeclaredConnector>> = OnceLock::new();

/// Colours of the badges of declared agents.
const COLORS: [(u8, u8, u8); 6] =
    [(190, 18, 60), (126, 34, 206), (29, 78, 216), (15, 118, 110), (77, 124, 15), (161, 98, 7)];

/// Adds agents to those that this process knows. It can be done once; the same declarations may be
/// made again.
pub fn declare_agents(declarations: Vec<AgentDeclaration>) -> Result<(), DeclarationError> {
    let mut connectors: Vec<&'static DeclaredConnector> = Vec::new();
    for declaration in declarations {
        let id = declaration.id.clone();
        let is_taken = ALL.iter().any(|connector| connector.agent().has_name(&id))
            || connectors.iter().any(|connector| connector.agent.id == id);
        if is_taken {
            let reason = "the id belongs to another agent".to_owned();
            return Err(DeclarationError { agent: id, reason });
        }
        // A connector lives as long as the process.
        connectors.push(Box::leak(Box::new(DeclaredConnector::new(declaration)?)));
    }
    let fingerprints = |all: &[&DeclaredConnector]| -> Vec<u64> {
        all.iter().map(|connector| connector.fingerprint).collect()
    };
    let wanted = fingerprints(&connectors);
    let known = DECLARED.get_or_init(|| connectors);
    if fingerprints(known) == wanted {
        return Ok(());
    }
    let agent = known.first().map_or_else(String::new, |known| known.agent.id.to_owned());
    Err(DeclarationError { agent, reason: "agents were declared before".to_owned() })
}

/// Lists the connectors of all agents: those in [`ALL`], and the declared ones.
pub fn all_connectors() -> impl Iterator<Item = &'static dyn Connector> {
    let declared = DECLARED.get().into_iter().flatten();
    ALL.iter().copied().chain(declared.map(|connector| *connector as &dyn Connector))
}

/// The connector of a declared agent.
#[derive(Debug)]
pub struct DeclaredConnector {
    agent: &'static Agent,
    declaration: AgentDeclaration,
    /// Hash of the declaration. If it changes, all files are read again.
    fingerprint: u64,
    /// The program that continues a session.
    program: Option<&'static str>,
}

/// A declaration, applied to one file.
#[derive(Clone, Copy)]
struct DeclaredReader<'r> {
    declaration: &'r AgentDeclaration,
    fingerprint: u64,
    path: &'r Path,
}

impl DeclaredReader<'_> {
    /// Returns the id of the session that a record names.
    fn session_id(&self, record: &serde_json::Value) -> Option<String> {
        let declared = self.declaration;
        declared.message.session.find_text(record).or_else(|| declared.session.id.find_text(record))
    }

    /// Returns the name of the file without its extension.
    fn file_stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl DeclaredConnector {
    /// Creates the connector of a declared agent. Its description is kept for the rest of the
    /// process.
    pub fn new(declaration: AgentDeclaration) -> Result<Self, DeclarationError> {
        declaration.check()?;
        let fingerprint = xxh3_64(format!("{declaration:?}").as_bytes());
        let id = leak_text(declaration.id.clone());
        let key = id.replace('-', "_");
        let agent = Agent {
            id,
            name: declaration.name.clone().map_or(id, leak_text),
            badge: id,
            aliases: &[],
            color: COLORS[(xxh3_64(id.as_bytes()) % COLORS.len() as u64) as usize],
            variable: leak_text(format!("AJ_{}_PATH", key.to_ascii_uppercase())),
            key: leak_text(key),
            shell_variables: &[],
            mcp: None,
        };
        let program = declaration.resume.first().cloned().map(leak_text);
        Ok(Self { agent: Box::leak(Box::new(agent)), declaration, fingerprint, program })
    }

    /// Creates the source of a file. A change of the declaration counts as a change of the file.
    fn source_from_file(&self, path: PathBuf) -> Option<Source> {
        let mut source = match self.declaration.format_of(&path) {
            DeclaredFormat::Sqlite => sqlite::database_source(path),
            DeclaredFormat::Jsonl | DeclaredFormat::Json => files::source_from_file(path),
        }?;
        source.stamp.inode ^= self.fingerprint;
        Some(source)
    }

    /// Returns whether a file in a directory is one of the declared ones, judged by its extension.
    fn has_declared_extension(&self, name: &str) -> bool {
        let extension = Path::new(name).extension();
        let declared = self.declaration.file_patterns().iter();
        declared.map(|file| Path::new(file).extension()).any(|one| one == extension)
    }
}

fn leak_text(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Connector for DeclaredConnector {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        self.declaration.file_patterns().iter().map(|file| machine.expand_home(file)).collect()
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let found = if glob::is_pattern(root) {
            glob::files_matching_pattern(root)?
        } else if files::is_dir(root) {
            files::walk_files(root, &|name| self.has_declared_extension(name))?
        } else {
            Vec::from_iter(files::source_from_file(root.to_owned()))
        };
        let found = found.into_iter();
        Ok(found.filter_map(|source| self.source_from_file(source.path)).collect())
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let (declaration, fingerprint) = (&self.declaration, self.fingerprint);
        let reader = DeclaredReader { declaration, fingerprint, path: &source.path };
        match declaration.format_of(&source.path) {
            DeclaredFormat::Jsonl => lines::read_lines(reader, &start, sink),
            DeclaredFormat::Json => {
                document::read_document(reader, sink)?;
                Ok(Checkpoint::default())
            }
            DeclaredFormat::Sqlite => {
                database::read_database(reader, sink)?;
                Ok(Checkpoint::default())
            }
        }
    }

    fn settings_hash(&self) -> u64 {
        self.fingerprint
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let arguments = self.declaration.resume.get(1..).unwrap_or_default();
        let arguments = arguments.iter().map(|one| one.replace("{id}", &session.id.native));
        Some(Resume { program: self.program?, arguments: arguments.collect() })
    }
}
