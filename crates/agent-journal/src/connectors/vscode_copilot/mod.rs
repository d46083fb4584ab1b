//! VS Code Copilot Chat: `<User>/workspaceStorage/<id>/chatSessions/<session>.json[l]` and
//! `<User>/globalStorage/emptyWindowChatSessions`, where `<User>` is VS Code's user directory.
//!
//! VS Code up to 1.133 and the extension up to 0.61 were seen. Odd: since 1.109 a session is a
//! log of changes that has to be replayed; what a person saw of a tool call and what the model
//! asked stand in two places and are joined; two files of three hold no request at all; some
//! titles live only in a state database. `docs/formats/vscode-copilot.md` has the evidence.

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
    Agent, Checkpoint, Connector, Machine, McpClient, Os, Record, Shape, Sink, Source, Stamp,
};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector.
pub(super) struct VscodeCopilot;

const AGENT: Agent = Agent {
    id: "vscode-copilot",
    name: "VS Code Copilot Chat",
    badge: "vscode",
    aliases: &["vscode", "vscode-copilot-chat"],
    color: (126, 34, 206),
    key: "vscode_copilot",
    variable: "AJ_VSCODE_PATH",
    // Since VS Code 1.121 `VSCODE_AGENT` marks terminals of the agent; others look for
    // `COPILOT_AGENT`, too.
    shell_variables: &["VSCODE_AGENT", "COPILOT_AGENT"],
    mcp: Some(McpClient {
        file: ".vscode/mcp.json",
        add: None,
        introduces: "visual studio code",
        skills: None,
        shape: Shape::Servers,
    }),
};

/// The extension's directory in a workspace storage.
const EXTENSION: &str = "GitHub.copilot-chat";

/// Where the extension keeps its own account of sessions, in a workspace storage.
const TRANSCRIPTS: &str = "GitHub.copilot-chat/transcripts";

/// Where the runtime that the extension embeds keeps its sessions, in the home.
const RUNTIME: &str = ".copilot/session-state";

/// The extension's own database.
const STORE: &str = "session-store.db";

/// Longer memories are cut here, with a marker.
const MAX_MEMORY: u64 = 4 << 20;

const PRODUCTS: &[&str] =
    &["Code", "Code - Insiders", "Code - OSS", "Code - Exploration", "VSCodium"];

/// Servers keep the same tree below a directory of their own.
const SERVERS: &[&str] = &[
    ".vscode-server/data/User",
    ".vscode-server-insiders/data/User",
    ".vscode-server-oss/data/User",
    ".vscodium-server/data/User",
    ".vscode-remote/data/User",
    ".local/share/code-server/User",
];

const SANDBOXES: &[&str] = &[
    ".var/app/com.visualstudio.code/config/Code/User",
    ".var/app/com.visualstudio.code-oss/config/Code - OSS/User",
    ".var/app/com.vscodium.codium/config/VSCodium/User",
];

impl Connector for VscodeCopilot {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots = vscode::users(machine, PRODUCTS);
        roots.extend(SERVERS.iter().map(|server| machine.home.join(server)));
        if machine.os == Os::Linux {
            roots.extend(SANDBOXES.iter().map(|sandbox| machine.home.join(sandbox)));
        }
        roots.extend(machine.path("VSCODE_PORTABLE").map(|data| data.join("user-data/User")));
        roots.extend(machine.path("VSCODE_APPDATA").map(|data| data.join("Code/User")));
        roots
    }

    fn discover(&self, root: &Path) -> Result<Vec<Source>> {
        let user = vscode::user(root);
        let global = user.join("globalStorage");
        let storages = vscode::storages(&user);
        let mut sources = Vec::new();
        if storages.is_empty() && !files::is_dir(&global) {
            files::list(&user).map_err(Error::read(&user))?;
            chats(&user, None, &mut sources);
            return Ok(sources);
        }
        let runtime = Runtime::around(&user);
        for storage in &storages {
            workspace(storage, &runtime, &mut sources);
        }
        chats(&global.join("emptyWindowChatSessions"), None, &mut sources);
        chats(&global.join("transferredChatSessions"), None, &mut sources);
        transcripts(&storages, &runtime, &mut sources);
        sources.extend(sqlite::source(global.join(vscode::STATE)));
        sources.extend(sqlite::source(global.join("github.copilot-chat").join(STORE)));
        Ok(sources)
    }

    fn read(&self, source: &Source, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
        let path = &source.path;
        let name = path.file_name().unwrap_or_default();
        let sink = &mut OwnerSink { runtime: Runtime::around(path), sink };
        if path.parent().is_some_and(|directory| directory.ends_with(TRANSCRIPTS)) {
            return transcript(path, start, sink);
        }
        if name == vscode::STATE {
            state::read_database(path, sink)?;
        } else if name == STORE {
            copilot_store::read(path, AGENT.id, sink)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            memory(path, sink)?;
        } else {
            chat(path, sink)?;
        }
        // Documents change anywhere: each change is read from the start.
        Ok(Checkpoint::default())
    }
}

/// The sessions of the runtime that the extension embeds: it runs in the terminal, too, and a
/// session that it has a directory or a log for is a session of the terminal's agent.
#[derive(Default)]
struct Runtime {
    sessions: HashSet<String>,
}

impl Runtime {
    /// Looks for the runtime's sessions in the homes around a path.
    fn around(path: &Path) -> Self {
        let mut sessions = HashSet::new();
        for around in path.ancestors() {
            let directory = around.join(RUNTIME);
            if !files::is_dir(&directory) {
                continue;
            }
            for entry in files::list(&directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let id = name.strip_suffix(".jsonl").unwrap_or(&name);
                sessions.extend(is_id(id).then(|| id.to_owned()));
            }
        }
        Self { sessions }
    }

    /// Returns the agent that a session belongs to.
    fn owner(&self, id: &str) -> &'static str {
        if self.sessions.contains(id) { copilot_cli::AGENT.id } else { AGENT.id }
    }

    /// Takes the owner of a session into the stamp of a file about it.
    fn stamp(&self, source: Source, id: Option<&str>) -> Source {
        let is_own = id.is_none_or(|id| self.owner(id) == AGENT.id);
        let owner = Stamp { inode: u64::from(!is_own), ..Stamp::default() };
        let stamp = if is_own { source.stamp } else { source.stamp.and(owner) };
        Source { stamp, ..source }
    }

    /// Takes the owner of the session that a file is named by into its stamp.
    fn stamp_named(&self, source: Source) -> Source {
        let id = source.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.stamp(source, id.as_deref())
    }
}

/// Gives each session to the agent that it belongs to.
struct OwnerSink<'s> {
    runtime: Runtime,
    sink: &'s mut dyn Sink,
}

impl Sink for OwnerSink<'_> {
    fn accept(&mut self, mut record: Record) -> Result<()> {
        if let Record::Session(session) = &mut record {
            self.runtime.owner(&session.id.native).clone_into(&mut session.id.agent);
        }
        self.sink.accept(record)
    }
}

fn workspace(storage: &Path, runtime: &Runtime, sources: &mut Vec<Source>) {
    let folder = vscode::workspace_file(storage);
    let documents = sources.len();
    chats(&storage.join("chatSessions"), Some(&folder), sources);
    for source in &mut sources[documents..] {
        *source = runtime.stamp_named(source.clone());
    }
    if let Some(source) = sqlite::source(storage.join(vscode::STATE)) {
        sources.push(Source { stamp: source.stamp.with(&folder), ..source });
    }
    let memories = storage.join(EXTENSION).join("memory-tool/memories");
    if let Ok(found) = files::walk(&memories, &is_note) {
        sources.extend(found.into_iter().filter_map(|source| {
            let id = remembered(&source.path)?;
            Some(runtime.stamp(source, Some(&id)))
        }));
    }
}

/// Adds the transcripts of sessions. A transcript says less than a document or a log of the
/// runtime, but each may have what the others lack: all of them are read.
fn transcripts(storages: &[PathBuf], runtime: &Runtime, sources: &mut Vec<Source>) {
    for storage in storages {
        let Ok(entries) = files::list(&storage.join(TRANSCRIPTS)) else { continue };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        found.sort();
        let folder = vscode::workspace_file(storage);
        sources.extend(found.into_iter().filter_map(files::source).map(|source| {
            runtime.stamp_named(Source { stamp: source.stamp.with(&folder), ..source })
        }));
    }
}

fn transcript(path: &Path, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, stem);
    session.cwd = path.ancestors().nth(3).and_then(vscode::folder);
    copilot_events::read(path, start, session, sink)
}

/// Adds the session documents in a directory. A session may be there in both forms.
fn chats(directory: &Path, folder: Option<&Path>, sources: &mut Vec<Source>) {
    let Ok(entries) = files::list(directory) else { return };
    let mut documents: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    documents.retain(|path| {
        path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json")
    });
    documents.sort();
    for mut source in documents.into_iter().filter_map(files::source) {
        if let Some(folder) = folder {
            source.stamp = source.stamp.with(folder);
        }
        sources.push(source);
    }
}

fn chat(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
    let document = if is_log { document::replay(path, sink)? } else { document::read(path, sink)? };
    let directory = path.parent().unwrap_or(Path::new(""));
    let storage = directory.parent().filter(|_| directory.ends_with("chatSessions"));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let place = chat::Place {
        native: is_id(&stem).then(|| stem.into_owned()),
        folder: storage.and_then(vscode::folder),
        storage,
    };
    chat::tell(document, &place, sink)
}

fn is_note(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}

/// Tells a memory as a document of the session that made it.
fn memory(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let Some(native) = remembered(path) else {
        return sink.accept(Record::passed(0, "a memory of no session"));
    };
    let wrong = || Error::Format { path: path.to_owned(), what: "not a text file".to_owned() };
    let text = files::text_up_to(path, MAX_MEMORY).ok_or_else(wrong)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut session = Session::new(AGENT.id, native);
    session.cwd = path.ancestors().nth(5).and_then(vscode::folder);
    session.documents.push((name, text));
    sink.accept(Record::Session(Box::new(session)))
}

/// The session a memory belongs to: its directory is the session's id, mostly in Base64. Other
/// directories hold memories of the repository or the user.
fn remembered(path: &Path) -> Option<String> {
    let directory = path.parent()?.file_name()?.to_string_lossy();
    let decoded = STANDARD_NO_PAD.decode(directory.trim_end_matches('='));
    let decoded = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.filter(|id| is_id(id)).or_else(|| is_id(&directory).then(|| directory.into_owned()))
}

/// Whether a name is a session's id: a UUID.
fn is_id(text: &str) -> bool {
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
            fn accept(&mut self, record: Record) -> Result<()> {
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
        let sources = VscodeCopilot.discover(directory.path()).unwrap();
        let mut told = Sessions(Vec::new());
        VscodeCopilot.read(&sources[0], Checkpoint::default(), &mut told).unwrap();
        assert_eq!(told.0, ["7", "7"]);
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
        // The runtime logged one, has begun another, and knows nothing of the third.
        put(home.path().join(RUNTIME).join(id(1)).join("events.jsonl"));
        put(home.path().join(RUNTIME).join(id(2)).join("workspace.yaml"));
        put(storage.join("chatSessions").join(format!("{}.json", id(3))));
        for number in 1..=3 {
            put(storage.join(TRANSCRIPTS).join(format!("{}.jsonl", id(number))));
        }
        let sources = VscodeCopilot.discover(&user).unwrap();
        let transcripts = storage.join(TRANSCRIPTS);
        let runtime = Runtime::around(&user);
        let owners: Vec<_> = sources
            .iter()
            .filter(|source| source.path.starts_with(&transcripts))
            .map(|source| runtime.owner(&source.path.file_stem().unwrap().to_string_lossy()))
            .collect();
        assert_eq!(owners, [copilot_cli::AGENT.id, copilot_cli::AGENT.id, AGENT.id]);
    }

    #[test]
    fn memories_name_their_session_in_base64_or_plainly() {
        let check = |directory: &str, expected: Option<&str>| {
            let path = Path::new("memories").join(directory).join("plan.md");
            assert_eq!(remembered(&path).as_deref(), expected, "{directory}");
        };
        let id = "0b1c2d3e-0000-4000-8000-000000000001";
        check("MGIxYzJkM2UtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx", Some(id));
        check("MGIxYzJkM2UtMDAwMC00MDAwLTgwMDAtMDAwMDAwMDAwMDAx==", Some(id));
        check(id, Some(id));
        check("repo", None);
        check("memories", None);
    }
}
