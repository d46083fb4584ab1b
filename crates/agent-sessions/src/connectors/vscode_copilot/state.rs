//! Reads the state database of a workspace or of the program: the list of sessions with their
//! titles, and the sessions that older versions stored in it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;

use super::chat::{self, ChatDocumentLocation};
use super::shape::{is_true, parse_non_empty_string, parse_raw, parse_reference_path};
use super::{AGENT, document};
use crate::connectors::formats::vscode::{self, KeyValueItem};
use crate::connectors::formats::{jsonl, sqlite};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Session, TitleRank};

const TABLE: &str = "ItemTable";
const INDEX: &str = "chat.ChatSessionStore.index";
const SESSIONS: &str = "interactive.sessions";

/// The title in the list for a session that has none.
const UNTITLED: &str = "New Chat";

/// Reads the sessions in a state database. Only two keys are selected: others hold secrets of the
/// account.
pub(super) fn read_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let storage = path.parent().unwrap_or(Path::new(""));
    let folder = vscode::storage_folder(storage);
    match vscode::read_key_value_item(&database, TABLE, INDEX)? {
        KeyValueItem::Value(bytes) => {
            read_chat_index(&jsonl::mend_line(&bytes), folder.as_deref(), sink)?;
        }
        KeyValueItem::TooLong => {
            sink.accept_record(Record::unreadable_record(0, "the list of sessions is too long"))?;
        }
        KeyValueItem::Absent => {}
    }
    match vscode::read_key_value_item(&database, TABLE, SESSIONS)? {
        KeyValueItem::Value(bytes) => {
            drop(database);
            read_interactive_sessions(&jsonl::mend_line(&bytes), folder.as_deref(), storage, sink)
        }
        KeyValueItem::TooLong => {
            sink.accept_record(Record::truncated_record(0, "the sessions are too long"))
        }
        KeyValueItem::Absent => Ok(()),
    }
}

fn read_chat_index(bytes: &[u8], folder: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct ChatIndex<'a> {
        entries: BTreeMap<String, &'a RawValue>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct ChatIndexEntry<'a> {
        title: Option<&'a RawValue>,
        is_external: Option<&'a RawValue>,
        working_directory: Option<&'a RawValue>,
    }
    let Ok(index) = serde_json::from_slice::<ChatIndex<'_>>(bytes) else {
        return sink.accept_record(Record::unreadable_record(0, "not a list of sessions"));
    };
    for (id, raw) in index.entries {
        let Some(entry) = parse_raw::<ChatIndexEntry<'_>>(Some(raw)) else { continue };
        let title = parse_non_empty_string(entry.title).filter(|title| title != UNTITLED);
        // Sessions of other agents are listed too; the connectors of those agents read them.
        let Some(title) = title.filter(|_| !is_true(entry.is_external)) else { continue };
        let mut session = Session::new(AGENT.id, id);
        session.cwd =
            folder.map(str::to_owned).or_else(|| parse_reference_path(entry.working_directory));
        session.add_title(TitleRank::Listed, title);
        sink.accept_record(Record::Session(Box::new(session)))?;
    }
    Ok(())
}

fn read_interactive_sessions(
    bytes: &[u8],
    folder: Option<&str>,
    storage: &Path,
    sink: &mut dyn Sink,
) -> Result<()> {
    let Ok(documents) = serde_json::from_slice::<Vec<&RawValue>>(bytes) else {
        return sink.accept_record(Record::unreadable_record(0, "not a list of sessions"));
    };
    for raw in documents {
        let folder = folder.map(str::to_owned);
        let place = ChatDocumentLocation { native: None, folder, storage: Some(storage) };
        chat::emit_chat_document(document::parse_embedded_document(raw), &place, sink)?;
    }
    Ok(())
}
