//! VS Code Copilot Chat: `<User>/workspaceStorage/<id>/chatSessions/<session>.json[l]` and
//! `<User>/globalStorage/emptyWindowChatSessions`, where `<User>` is VS Code's user directory.
//!
//! Observed versions: VS Code up to 1.133, the extension up to 0.61. Peculiarities: since 1.109 a
//! session is a change log that has to be replayed; a tool call is recorded twice, as displayed and
//! as the model made it, and both are joined; two of three files contain no request; some titles
//! are only in a state database. `docs/formats/vscode-copilot.md` has the evidence.

mod answer;
mod chat;
mod document;
mod shape;
mod state;
mod tools;
mod turn;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::copilot_cli;
use super::formats::{copilot_events, copilot_store, files, sqlite, vscode};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Os, Record, Sink, Source,
    Stamp,
};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for VS Code Copilot Chat.
pub(super) struct VscodeCopilot;

const AGENT: Agent = Agent {
    id: "vscode-copilot",
    name: "VS Code Copilot Chat",
    badge: "vscode",
    aliases: &["vscode", "vscode-copilot-chat"],
    color: (126, 34, 206),
    key: "vscode_copilot",
    variable: "AJ_VSCODE_PATH",
    // Since VS Code 1.121, `VSCODE_AGENT` marks terminals of the agent. Other programs also check
    // `COPILOT_AGENT`.
    shell_variables: &["VSCODE_AGENT", "COPILOT_AGENT"],
    mcp: Some(McpClient {
        file: ".vscode/mcp.json",
        add: None,
        introduces: "visual studio code",
        skills: None,
        shape: McpConfigFormat::Servers,
    }),
};

/// The extension's directory in a workspace storage.
const EXTENSION: &str = "GitHub.copilot-chat";

/// The directory of the extension's own transcripts, in a workspace storage.
const TRANSCRIPTS: &str = "GitHub.copilot-chat/transcripts";

/// The session directory of the extension's embedded runtime, in the home directory.
const RUNTIME: &str = ".copilot/session-state";

/// The extension's own database.
const STORE: &str = "session-store.db";

/// Size limit of memories. Longer ones are truncated, with a marker.
const MAX_MEMORY: u64 = 4 << 20;

const PRODUCTS: &[&str] =
    &["Code", "Code - Insiders", "Code - OSS", "Code - Exploration", "VSCodium"];

impl Connector for VscodeCopilot {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots = vscode::product_user_directories(machine, PRODUCTS);
        roots.extend(vscode::SERVERS.iter().map(|server| machine.home.join(server)));
        if machine.os == Os::Linux {
            roots.extend(vscode::SANDBOXES.iter().map(|sandbox| machine.home.join(sandbox)));
        }
        roots.extend(machine.env_path("VSCODE_PORTABLE").map(|data| data.join("user-data/User")));
        roots.extend(machine.env_path("VSCODE_APPDATA").map(|data| data.join("Code/User")));
        roots
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let user = vscode::user_directory(root);
        let global = user.join("globalStorage");
        let storages = vscode::workspace_storages(&user);
        let mut sources = Vec::new();
        if storages.is_empty() && !files::is_dir(&global) {
            files::observed_listing(&user).map_err(Error::read(&user))?;
            add_chat_sources(&user, None, &mut sources);
            return Ok(sources);
        }
        let runtime = Runtime::collect_around(&user);
        for storage in &storages {
            add_workspace_sources(storage, &runtime, &mut sources);
        }
        add_chat_sources(&global.join("emptyWindowChatSessions"), None, &mut sources);
        add_chat_sources(&global.join("transferredChatSessions"), None, &mut sources);
        add_transcript_sources(&storages, &runtime, &mut sources);
        sources.extend(sqlite::database_source(global.join(vscode::STATE)));
        sources.extend(sqlite::database_source(global.join("github.copilot-chat").join(STORE)));
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let path = &source.path;
        let name = path.file_name().unwrap_or_default();
        let sink = &mut OwnerSink { runtime: Runtime::collect_around(path), sink };
        if path.parent().is_some_and(|directory| directory.ends_with(TRANSCRIPTS)) {
            return read_extension_transcript(path, start, sink);
        }
        if name == vscode::STATE {
            state::read_database(path, sink)?;
        } else if name == STORE {
            copilot_store::read_session_store(path, AGENT.id, sink)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            read_memory_file(path, sink)?;
        } else {
            read_chat_file(path, sink)?;
        }
        // Documents can change anywhere, so every read starts at the beginning.
        Ok(Checkpoint::default())
    }
}

/// The session ids of the runtime that the extension embeds. The runtime is also the terminal agent
/// (Copilot CLI): a session for which it has a directory or a log belongs to that agent.
#[derive(Default)]
struct Runtime {
    sessions: HashSet<String>,
}

impl Runtime {
    /// Collects the runtime's sessions from every ancestor of a path that contains them.
    fn collect_around(path: &Path) -> Self {
        let mut sessions = HashSet::new();
        for around in path.ancestors() {
            let directory = around.join(RUNTIME);
            if !files::is_dir(&directory) {
                continue;
            }
            for entry in files::observed_listing(&directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let id = name.strip_suffix(".jsonl").unwrap_or(&name);
                sessions.extend(is_session_uuid(id).then(|| id.to_owned()));
            }
        }
        Self { sessions }
    }

    /// Returns the id of the agent that a session belongs to.
    fn owner_of_session(&self, id: &str) -> &'static str {
        if self.sessions.contains(id) { copilot_cli::AGENT.id } else { AGENT.id }
    }

    /// Adds the owner of a session to the stamp of a source, so that a new owner is a change.
    fn stamp_with_owner(&self, source: Source, id: Option<&str>) -> Source {
        let is_own = id.is_none_or(|id| self.owner_of_session(id) == AGENT.id);
        let owner = Stamp { inode: u64::from(!is_own), ..Stamp::default() };
        let stamp = if is_own { source.stamp } else { source.stamp.combine_stamps(owner) };
        Source { stamp, ..source }
    }

    /// Adds the owner of the session named by the file stem to the stamp of a source.
    fn stamp_named(&self, source: Source) -> Source {
        let id = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.stamp_with_owner(source, id.as_deref())
    }
}

/// A sink that assigns each session to the agent that owns it.
struct OwnerSink<'s> {
    runtime: Runtime,
    sink: &'s mut dyn Sink,
}

impl Sink for OwnerSink<'_> {
    fn accept_record(&mut self, mut record: Record) -> Result<()> {
        if let Record::Session(session) = &mut record {
            self.runtime.owner_of_session(&session.id.native).clone_into(&mut session.id.agent);
        }
        self.sink.accept_record(record)
    }
}

fn add_workspace_sources(storage: &Path, runtime: &Runtime, sources: &mut Vec<Source>) {
    let folder = vscode::workspace_file(storage);
    let documents = sources.len();
    add_chat_sources(&storage.join("chatSessions"), Some(&folder), sources);
    for source in &mut sources[documents..] {
        *source = runtime.stamp_named(source.clone());
    }
    if let Some(source) = sqlite::database_source(storage.join(vscode::STATE)) {
        sources.push(Source { stamp: source.stamp.with_companion(&folder), ..source });
    }
    let memories = storage.join(EXTENSION).join("memory-tool/memories");
    if let Ok(found) = files::walk_files(&memories, &is_note) {
        sources.extend(found.into_iter().filter_map(|source| {
            let id = memory_session_id(&source.path)?;
            Some(runtime.stamp_with_owner(source, Some(&id)))
        }));
    }
}

/// Adds the extension's transcripts. A transcript has less content than a document or a log of the
/// runtime, but each may have content that the others lack, so all of them are read.
fn add_transcript_sources(storages: &[PathBuf], runtime: &Runtime, sources: &mut Vec<Source>) {
    for storage in storages {
        let Ok(entries) = files::observed_listing(&storage.join(TRANSCRIPTS)) else { continue };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        found.sort();
        let folder = vscode::workspace_file(storage);
        sources.extend(found.into_iter().filter_map(files::source_from_file).map(|source| {
            runtime.stamp_named(Source { stamp: source.stamp.with_companion(&folder), ..source })
        }));
    }
}

fn read_extension_transcript(
    path: &Path,
    start: Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, stem);
    session.cwd = path.ancestors().nth(3).and_then(vscode::storage_folder);
    copilot_events::read_event_log(path, start, session, sink)
}

/// Adds the session documents in a directory. A session may exist in both formats.
fn add_chat_sources(directory: &Path, folder: Option<&Path>, sources: &mut Vec<Source>) {
    let Ok(entries) = files::observed_listing(directory) else { return };
    let mut documents: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    documents.retain(|path| {
        path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json")
    });
    documents.sort();
    for mut source in documents.into_iter().filter_map(files::source_from_file) {
        if let Some(folder) = folder {
            source.stamp = source.stamp.with_companion(folder);
        }
        sources.push(source);
    }
}

fn read_chat_file(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
    let document = if is_log {
        document::replay_change_log(path, sink)?
    } else {
        document::read_chat_document(path, sink)?
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    let storage = directory.parent().filter(|_| directory.ends_with("chatSessions"));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let place = chat::ChatDocumentLocation {
        native: is_session_uuid(&stem).then(|| stem.into_owned()),
        folder: storage.and_then(vscode::storage_folder),
        storage,
    };
    chat::emit_chat_document(document, &place, sink)
}

fn is_note(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}

/// Reads a memory file as a document of the session that wrote it.
fn read_memory_file(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let Some(native) = memory_session_id(path) else {
        return sink
            .accept_record(Record::passed_over_record(0, "a memory file without a session"));
    };
    let wrong = || Error::Format { path: path.to_owned(), what: "not a text file".to_owned() };
    let text = files::text_up_to(path, MAX_MEMORY).ok_or_else(wrong)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut session = Session::new(AGENT.id, native);
    session.cwd = path.ancestors().nth(5).and_then(vscode::storage_folder);
    session.documents.push((name, text));
    sink.accept_record(Record::Session(Box::new(session)))
}

/// Returns the id of the session that a memory belongs to: the name of its directory, mostly in
/// Base64. Other directories hold memories of the repository or the user.
fn memory_session_id(path: &Path) -> Option<String> {
    let directory = path.parent()?.file_name()?.to_string_lossy();
    let decoded = STANDARD_NO_PAD.decode(directory.trim_end_matches('='));
    let decoded = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded
        .filter(|id| is_session_uuid(id))
        .or_else(|| is_session_uuid(&directory).then(|| directory.into_owned()))
}

/// Returns whether a text is a session id, which is a UUID.
fn is_session_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_chat_exported_into_a_directory_is_read_where_it_lies() {
        struct Sessions(Vec<String>);
        impl Sink for Sessions {
            fn accept_record(&mut self, record: Record) -> Result<()> {
                if let Record::Session(session) = record {
                    self.0.push(session.id.native);
                }
                Ok(())
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let export = r#"{"responderUsername":"GitHub Copilot","initialLocation":"panel",
            "requests":[{"requestId":"request_7","message":{"text":"tea?"},"response":[]}]}"#;
        #[expect(clippy::disallowed_methods, reason = "a private directory")]
        fs::write(directory.path().join("chat.json"), export).unwrap();
        let sources = VscodeCopilot.discover_sources(directory.path()).unwrap();
        let mut sink = Sessions(Vec::new());
        VscodeCopilot.read_source(&sources[0], Checkpoint::default(), &mut sink).unwrap();
        assert_eq!(sink.0, ["7", "7"]);
    }

    #[test]
    fn every_transcript_is_read_and_the_runtime_owns_the_sessions_it_has_a_directory_for() {
        let home = tempfile::tempdir().unwrap();
        let user = home.path().join(".config/Code/User");
        let storage = user.join("workspaceStorage/1a2b");
        let put = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a private directory")]
            fs::write(path, "{}\n").unwrap();
        };
        let id = |number: u8| format!("0b1c2d3e-0000-4000-8000-00000000000{number}");
        // The runtime has a log of one, a workspace file of another, and nothing of the third.
        put(home.path().join(RUNTIME).join(id(1)).join("events.jsonl"));
        put(home.path().join(RUNTIME).join(id(2)).join("workspace.yaml"));
        put(storage.join("chatSessions").join(format!("{}.json", id(3))));
        for number in 1..=3 {
            put(storage.join(TRANSCRIPTS).join(format!("{}.jsonl", id(number))));
        }
        let sources = VscodeCopilot.discover_sources(&user).unwrap();
        let transcripts = storage.join(TRANSCRIPTS);
        let runtime = Runtime::collect_around(&user);
        let owners: Vec<_> = sources
            .iter()
            .filter(|source| source.path.starts_with(&transcripts))
            .map(|source| {
                runtime.owner_of_session(&source.path.file_stem().unwrap().to_string_lossy())
            })
            .collect();
        assert_eq!(owners, [copilot_cli::AGENT.id, copilot_cli::AGENT.id, AGENT.id]);
    }

    #[test]
    fn memories_name_their_session_in_base64_or_plainly() {
        let check = |directory: &str, expected: Option<&str>| {
            let path = Path::new("memories").join(directory).join("plan.md");
            assert_eq!(memory_session_id(&path).as_deref(), expected, "{directory}");
        };
        let id = "0b1c2d3e-0000-4000-8000-000000000001";
        check("MGIxYzJkM2UtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx", Some(id));
        check("MGIxYzJkM2UtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx==", Some(id));
        check(id, Some(id));
        check("repo", None);
        check("memories", None);
    }
}
