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

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::formats::{copilot_events, copilot_store, files, sqlite, vscode};
use super::{Agent, Checkpoint, Connector, Machine, McpClient, Os, Record, Shape, Sink, Source};
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

/// Where the runtime that the extension embeds keeps its logs, in the home.
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
        for storage in &storages {
            workspace(storage, &mut sources);
        }
        chats(&global.join("emptyWindowChatSessions"), None, &mut sources);
        chats(&global.join("transferredChatSessions"), None, &mut sources);
        transcripts(&user, &storages, &mut sources);
        sources.extend(sqlite::source(global.join(vscode::STATE)));
        sources.extend(sqlite::source(global.join("github.copilot-chat").join(STORE)));
        Ok(sources)
    }

    fn read(&self, source: &Source, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
        let path = &source.path;
        let name = path.file_name().unwrap_or_default();
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

fn workspace(storage: &Path, sources: &mut Vec<Source>) {
    let folder = vscode::workspace_file(storage);
    chats(&storage.join("chatSessions"), Some(&folder), sources);
    if let Some(source) = sqlite::source(storage.join(vscode::STATE)) {
        sources.push(Source { stamp: source.stamp.with(&folder), ..source });
    }
    let memories = storage.join(EXTENSION).join("memory-tool/memories");
    if let Ok(found) = files::walk(&memories, &is_note) {
        sources.extend(found.into_iter().filter(|source| remembered(&source.path).is_some()));
    }
}

/// Adds the transcripts of sessions that have no document here, because the window that showed
/// them was on another machine. A transcript says less: no model, no result of a tool, and often
/// not the first prompt. Of a session that the runtime logs itself it says nothing new: that log
/// is the session, in the terminal too.
fn transcripts(user: &Path, storages: &[PathBuf], sources: &mut Vec<Source>) {
    let logs = OnceCell::new();
    let find = || user.ancestors().map(|one| one.join(RUNTIME)).find(|logs| files::is_dir(logs));
    let is_logged = |stem: &OsStr| {
        let logs: Option<&PathBuf> = logs.get_or_init(find).as_ref();
        logs.is_some_and(|logs| files::is_file(&logs.join(stem).join("events.jsonl")))
    };
    let known: HashSet<OsString> =
        sources.iter().filter_map(|source| source.path.file_stem()).map(Into::into).collect();
    for storage in storages {
        let Ok(entries) = files::list(&storage.join(TRANSCRIPTS)) else { continue };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| {
            path.extension().is_some_and(|extension| extension == "jsonl")
                && path.file_stem().is_some_and(|stem| !known.contains(stem) && !is_logged(stem))
        });
        found.sort();
        let folder = vscode::workspace_file(storage);
        sources.extend(
            found
                .into_iter()
                .filter_map(files::source)
                .map(|source| Source { stamp: source.stamp.with(&folder), ..source }),
        );
    }
}

fn transcript(path: &Path, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, stem);
    session.cwd = path.ancestors().nth(3).and_then(vscode::folder);
    copilot_events::read(path, start, session, sink)
}

/// Adds the session documents in a directory. Where a session is there in both forms, the log
/// is the newer one.
fn chats(directory: &Path, folder: Option<&Path>, sources: &mut Vec<Source>) {
    let Ok(entries) = files::list(directory) else { return };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let has = |path: &Path, wanted: &str| path.extension().is_some_and(|found| found == wanted);
    let logs: HashSet<PathBuf> = paths.iter().filter(|path| has(path, "jsonl")).cloned().collect();
    let mut documents: Vec<PathBuf> = paths
        .into_iter()
        .filter(|path| {
            has(path, "jsonl")
                || (has(path, "json") && !logs.contains(&path.with_extension("jsonl")))
        })
        .collect();
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
    fn a_session_that_the_runtime_logs_itself_is_told_once() {
        let home = tempfile::tempdir().unwrap();
        let user = home.path().join(".config/Code/User");
        let transcripts = user.join("workspaceStorage/1a2b").join(TRANSCRIPTS);
        let put = |path: PathBuf| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a private directory")]
            fs::write(path, "{}\n").unwrap();
        };
        // One is in both places, one only here, and of one the runtime has no log.
        put(home.path().join(RUNTIME).join("both/events.jsonl"));
        put(home.path().join(RUNTIME).join("begun/workspace.yaml"));
        for id in ["both", "here", "begun"] {
            put(transcripts.join(format!("{id}.jsonl")));
        }
        let sources = VscodeCopilot.discover(&user).unwrap();
        let stems: Vec<_> = sources.iter().filter_map(|source| source.path.file_stem()).collect();
        assert_eq!(stems, ["begun", "here"]);
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
