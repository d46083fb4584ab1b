//! Reads chats below `tmp/<project>/chats`, as Gemini CLI and its forks record them: one JSON
//! document, or a log whose lines replay to one. The content of a file decides which of the two it
//! is, not its name.
//!
//! A log rewrites earlier messages as they grow, so a changed file is read again from its start.
//! While reading, only the resulting state is in memory.

mod message;
mod place;
mod prompt;
mod replay;

use std::collections::HashSet;
use std::path::Path;

use super::files;
use crate::connectors::{Record, Sink, Source};
use crate::error::Result;
use crate::model::{
    Block, Extensions, Json, Message, Role, Session, SessionKind, Timestamp, TitleRank,
};

use place::ChatLocation;
use replay::{Held, ReplayedChat};

/// Lists the chats of all projects below `root`. `root` may also be the directory of one project or
/// its `chats` directory.
pub fn discover_chats(root: &Path) -> Result<Vec<Source>> {
    let is_chat = |name: &str| {
        let extension = Path::new(name).extension();
        extension.is_some_and(|extension| extension == "json" || extension == "jsonl")
    };
    let mut sources = files::walk_in(root, "chats", &is_chat)?;
    // A newer version continues a document as a log of the same name and leaves the document in
    // place.
    let logs: HashSet<_> = sources
        .iter()
        .map(|source| source.path.clone())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    sources.retain(|source| {
        source.path.extension().is_none_or(|extension| extension != "json")
            || !logs.contains(&source.path.with_extension("jsonl"))
    });
    Ok(sources)
}

/// Reads a whole chat and sends it to `sink` as a session of `agent`.
pub fn read_chat(path: &Path, agent: &str, sink: &mut dyn Sink) -> Result<()> {
    let mut chat = replay::load_chat(path)?;
    for skipped in chat.skipped.drain(..) {
        sink.accept_record(skipped)?;
    }
    if chat.messages.is_empty() && chat.metadata_text("sessionId").is_none() {
        return sink.accept_record(Record::passed_over_record(0, "not a chat"));
    }
    let mut session = chat_session(path, agent, &mut chat);
    let mut writer = ChatWriter::default();
    // The session's time span includes its messages, and the session is sent before them.
    for held in &chat.messages {
        session.extend_time_span(message::recorded_message_time(&held.text));
    }
    sink.accept_record(Record::Session(Box::new(session)))?;
    for (at, held) in chat.messages.iter().enumerate() {
        writer.emit_held_message(held, at as u64, sink)?;
    }
    Ok(())
}

/// Builds the session metadata from the chat's own metadata and its path.
fn chat_session(path: &Path, agent: &str, chat: &mut ReplayedChat) -> Session {
    let place = ChatLocation::from_chat_path(path);
    let id = chat.metadata_text("sessionId");
    let native = id.as_ref().map_or_else(|| place.stem.clone(), |id| place.unique_session_id(id));
    let mut session = Session::new(agent, native);
    session.parent.clone_from(&place.parent);
    session.kind = match (place.kind, chat.metadata_text("kind").as_deref()) {
        (SessionKind::Root, Some("subagent")) => SessionKind::Agent,
        (kind, _) => kind,
    };
    let instant = |text: Option<String>| text.and_then(|text| Timestamp::parse_iso_time(&text));
    session.extend_time_span(instant(chat.metadata_text("startTime")));
    session.extend_time_span(instant(chat.metadata_text("lastUpdated")));
    let directories: Vec<String> =
        chat.facts.get("directories").and_then(Json::parse_as).unwrap_or_default();
    let hash = chat.metadata_text("projectHash");
    session.cwd = place.project_root(hash.as_deref()).or_else(|| directories.into_iter().next());
    match chat.metadata_text("summary") {
        // The summary of a sub-agent is its reply.
        Some(text) if session.kind != SessionKind::Root => {
            session.documents.push(("summary".to_owned(), text));
        }
        Some(text) => session.add_title(TitleRank::Summary, text),
        None => {}
    }
    session.extensions = std::mem::take(&mut chat.facts);
    for derived in ["startTime", "lastUpdated", "summary", "kind"] {
        session.extensions.remove(derived);
    }
    if id.as_ref() == Some(&session.id.native) {
        session.extensions.remove("sessionId");
    }
    drop_empty(&mut session.extensions);
    if let Some(name) = hash.or_else(|| place.folder_name()) {
        session.lies_in(&name);
    }
    session
}

/// Returns the id with which the agent can resume a session. `None` for chats of servers and
/// editors, whose ids the agent does not search for.
pub fn resumable_id(session: &Session) -> Option<&str> {
    let id = session.id.native.split('@').next()?;
    place::is_chat_uuid(id).then_some(id)
}

fn drop_empty(extensions: &mut Extensions) {
    extensions
        .retain(|_, value| !matches!(value.as_json_str(), "null" | "false" | "\"\"" | "[]" | "{}"));
}

/// Sends messages to a sink and drops tool results that were sent before.
#[derive(Default)]
struct ChatWriter {
    answered: HashSet<String>,
}

impl ChatWriter {
    fn emit_held_message(&mut self, held: &Held, at: u64, sink: &mut dyn Sink) -> Result<()> {
        let mut messages = message::parse_chat_record(&held.text);
        for message in &mut messages {
            self.drop_repeated(message);
        }
        messages.retain(|message| message.role != Role::Tool || !message.blocks.is_empty());
        if messages.is_empty() {
            return sink.accept_record(Record::passed_over_record(at, "repeated result"));
        }
        for mut message in messages {
            if held.is_rewound {
                message.extensions.insert("rewound".to_owned(), Json::from_value(&true));
            }
            sink.accept_record(Record::Message(Box::new(message)))?;
        }
        Ok(())
    }

    /// Drops tool results that were sent before. A result is recorded with its tool call; a
    /// synchronised history repeats it in the form the model received.
    fn drop_repeated(&mut self, message: &mut Message) {
        message.blocks.retain(|block| match block {
            Block::ToolResult { call_id, .. } => self.answered.insert(call_id.clone()),
            _ => true,
        });
    }
}
