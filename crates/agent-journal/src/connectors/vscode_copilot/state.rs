//! The state database of a workspace or of the program: the list of sessions with their titles,
//! and the sessions themselves before they had files of their own.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;

use super::chat::{self, Place};
use super::shape::{is_true, place, read, word};
use super::{AGENT, document};
use crate::connectors::formats::vscode::{self, Item};
use crate::connectors::formats::{jsonl, sqlite};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Session, TitleRank};

const TABLE: &str = "ItemTable";
const INDEX: &str = "chat.ChatSessionStore.index";
const SESSIONS: &str = "interactive.sessions";

/// What the list calls a session that has no title.
const UNTITLED: &str = "New Chat";

/// Reads what a state database says about sessions. Only these two keys are looked at: others
/// hold secrets of the account.
pub(super) fn read_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open(path)?;
    let storage = path.parent().unwrap_or(Path::new(""));
    let folder = vscode::folder(storage);
    match vscode::item(&database, TABLE, INDEX)? {
        Item::Value(bytes) => index(&jsonl::mend(&bytes), folder.as_deref(), sink)?,
        Item::TooLong => sink.accept(Record::bad(0, "the list of sessions is too long"))?,
        Item::Absent => {}
    }
    match vscode::item(&database, TABLE, SESSIONS)? {
        Item::Value(bytes) => {
            drop(database);
            sessions(&jsonl::mend(&bytes), folder.as_deref(), storage, sink)
        }
        Item::TooLong => sink.accept(Record::cut(0, "the sessions are too long")),
        Item::Absent => Ok(()),
    }
}

fn index(bytes: &[u8], folder: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Index<'a> {
        entries: BTreeMap<String, &'a RawValue>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Entry<'a> {
        title: Option<&'a RawValue>,
        is_external: Option<&'a RawValue>,
        working_directory: Option<&'a RawValue>,
    }
    let Ok(index) = serde_json::from_slice::<Index<'_>>(bytes) else {
        return sink.accept(Record::bad(0, "not a list of sessions"));
    };
    for (id, raw) in index.entries {
        let Some(entry) = read::<Entry<'_>>(Some(raw)) else { continue };
        let title = word(entry.title).filter(|title| title != UNTITLED);
        // Sessions of other agents are listed too; their own connectors read them.
        let Some(title) = title.filter(|_| !is_true(entry.is_external)) else { continue };
        let mut session = Session::new(AGENT.id, id);
        session.cwd = folder.map(str::to_owned).or_else(|| place(entry.working_directory));
        session.title(TitleRank::Listed, title);
        sink.accept(Record::Session(Box::new(session)))?;
    }
    Ok(())
}

fn sessions(bytes: &[u8], folder: Option<&str>, storage: &Path, sink: &mut dyn Sink) -> Result<()> {
    let Ok(documents) = serde_json::from_slice::<Vec<&RawValue>>(bytes) else {
        return sink.accept(Record::bad(0, "not a list of sessions"));
    };
    for raw in documents {
        let folder = folder.map(str::to_owned);
        let place = Place { native: None, folder, storage: Some(storage) };
        chat::tell(document::part(raw), &place, sink)?;
    }
    Ok(())
}
