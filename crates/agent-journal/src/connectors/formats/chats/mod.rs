//! Chats below `tmp/<project>/chats`, the way Gemini CLI and its forks record them: one JSON
//! document, or a log whose lines replay to one. Which of the two a file is, its content says,
//! not its name.
//!
//! A log changes what it said before (messages are written again as they grow), so a changed file
//! is read as a whole. What is held meanwhile is the state the log leads to.

mod message;
mod place;
mod prompt;
mod replay;

use std::collections::HashSet;
use std::path::Path;

use super::files;
use crate::connectors::{Record, Sink, Source};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Kind, Message, Role, Session, Timestamp, TitleRank};

use place::Place;
use replay::{Chat, Held};

/// Lists the chats of every project below a directory of projects; the directory of one project
/// or of its chats is fine too.
pub fn discover(root: &Path) -> Result<Vec<Source>> {
    let is_chat = |name: &str| {
        let extension = Path::new(name).extension();
        extension.is_some_and(|extension| extension == "json" || extension == "jsonl")
    };
    let mut sources = files::walk_in(root, "chats", &is_chat)?;
    // A document that was resumed by a newer version goes on as a log of the same name, and the
    // document stays behind.
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

/// Reads a chat as a whole and tells it as a session of `agent`.
pub fn read(path: &Path, agent: &str, sink: &mut dyn Sink) -> Result<()> {
    let mut chat = replay::load(path)?;
    for skipped in chat.skipped.drain(..) {
        sink.accept(skipped)?;
    }
    if chat.messages.is_empty() && chat.fact("sessionId").is_none() {
        return sink.accept(Record::passed(0, "not a chat"));
    }
    let mut session = session(path, agent, &mut chat);
    let mut telling = Telling::default();
    // Times of messages belong to the session, and the session is told first.
    for held in &chat.messages {
        session.seen(message::at(&held.text));
    }
    sink.accept(Record::Session(Box::new(session)))?;
    for (at, held) in chat.messages.iter().enumerate() {
        telling.tell(held, at as u64, sink)?;
    }
    Ok(())
}

/// Makes the session of what the chat and its place say about it.
fn session(path: &Path, agent: &str, chat: &mut Chat) -> Session {
    let place = Place::of(path);
    let id = chat.fact("sessionId");
    let native = id.as_ref().map_or_else(|| place.stem.clone(), |id| place.native(id));
    let mut session = Session::new(agent, native);
    session.parent.clone_from(&place.parent);
    session.kind = match (place.kind, chat.fact("kind").as_deref()) {
        (Kind::Root, Some("subagent")) => Kind::Agent,
        (kind, _) => kind,
    };
    let instant = |text: Option<String>| text.and_then(|text| Timestamp::parse(&text));
    session.seen(instant(chat.fact("startTime")));
    session.seen(instant(chat.fact("lastUpdated")));
    let directories: Vec<String> =
        chat.facts.get("directories").and_then(Json::parse).unwrap_or_default();
    let hash = chat.fact("projectHash");
    session.cwd = place.root(hash.as_deref()).or_else(|| directories.into_iter().next());
    match chat.fact("summary") {
        // A sub-agent's summary is its answer.
        Some(text) if session.kind != Kind::Root => {
            session.documents.push(("summary".to_owned(), text));
        }
        Some(text) => session.title(TitleRank::Summary, text),
        None => {}
    }
    session.extensions = std::mem::take(&mut chat.facts);
    for told in ["startTime", "lastUpdated", "summary", "kind"] {
        session.extensions.remove(told);
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

/// The id by which the agent finds a session again: servers and editors record chats under names
/// that it does not look for.
pub fn resumable(session: &Session) -> Option<&str> {
    let id = session.id.native.split('@').next()?;
    place::is_uuid(id).then_some(id)
}

fn drop_empty(extensions: &mut Extensions) {
    extensions
        .retain(|_, value| !matches!(value.as_str(), "null" | "false" | "\"\"" | "[]" | "{}"));
}

/// Tells messages one by one and remembers which calls were answered.
#[derive(Default)]
struct Telling {
    answered: HashSet<String>,
}

impl Telling {
    fn tell(&mut self, held: &Held, at: u64, sink: &mut dyn Sink) -> Result<()> {
        let mut messages = message::messages(&held.text);
        for message in &mut messages {
            self.drop_repeated(message);
        }
        messages.retain(|message| message.role != Role::Tool || !message.blocks.is_empty());
        if messages.is_empty() {
            return sink.accept(Record::passed(at, "repeated result"));
        }
        for mut message in messages {
            if held.is_rewound {
                message.extensions.insert("rewound".to_owned(), Json::from_value(&true));
            }
            sink.accept(Record::Message(Box::new(message)))?;
        }
        Ok(())
    }

    /// A result stands with its call; a history that was synchronised repeats it as the model saw
    /// it.
    fn drop_repeated(&mut self, message: &mut Message) {
        message.blocks.retain(|block| match block {
            Block::ToolResult { call_id, .. } => self.answered.insert(call_id.clone()),
            _ => true,
        });
    }
}
