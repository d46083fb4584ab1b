//! Reads the editor's `state.vscdb`: chat tabs and inline composers in the `ItemTable` of a
//! workspace, composers and their bubbles in the `cursorDiskKV` of the whole program.
//!
//! The latter grows to gigabytes, nearly all of it caches. Only rows of composers are scanned, by a
//! range of the key index, and each bubble is fetched by its key. A conversation whose fingerprint
//! did not change since the last read is skipped. Other keys of `ItemTable` hold access tokens and
//! are never selected.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;
use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::bubble::Bubble;
use super::composer::Composer;
use super::conversation::ConversationWriter;
use crate::connectors::formats::fold::fold_conversation;
use crate::connectors::formats::json::{self, BorrowedText};
use crate::connectors::formats::jsonl;
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::vscode::{self, KeyValueItem};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Session, SessionKind};

const TABS: &str = "workbench.panel.aichat.view.aichat.chatdata";

/// Keys of the composer lists: of a workspace, and of the whole program.
const LISTS: [&str; 2] = ["composer.composerData", "composer.composerHeaders"];

/// Selects the rows of composers, without their values.
const COMPOSERS: &str = "SELECT key, rowid FROM cursorDiskKV \
     WHERE key >= 'composerData:' AND key < 'composerData;'";

/// Selects one row, with NULL in place of a value that is too long.
const ROW: &str = "SELECT CASE WHEN octet_length(value) <= ?1 THEN value END, octet_length(value) \
     FROM cursorDiskKV WHERE key = ?2";

/// Selects the bubbles of a conversation in the order of writing.
const BUBBLES_WRITTEN: &str = "SELECT key, CASE WHEN octet_length(value) <= ?1 THEN value END \
     FROM cursorDiskKV WHERE key >= ?2 AND key < ?3 ORDER BY rowid";

/// Selects the columns that change with a composer's bubbles, without reading long values. A row
/// that is replaced gets another `rowid`.
const BUBBLES: &str = "SELECT key, rowid, octet_length(value), \
     CASE WHEN octet_length(value) <= 1024 THEN value END \
     FROM cursorDiskKV WHERE key >= ?1 AND key < ?2";

/// Size limit of a value. A longer one is not read.
const MAX_VALUE: i64 = sqlite::MAX_VALUE_BYTES as i64;

/// The reason reported for a skipped value.
const TOO_LONG: &str = "a value is too long";

/// Sessions named in a composer list, by id. Their conversations may be stored elsewhere.
type ComposerHeads = BTreeMap<String, Session>;

/// Reads a state database and emits its sessions and messages.
pub(super) fn read_state_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let folder = path.parent().and_then(vscode::storage_folder);
    let mut reader = StateReader { database: &database, folder, heads: ComposerHeads::new(), sink };
    reader.read_chat_tabs()?;
    // Newest list first: later lists do not override its values.
    reader.read_composer_headers()?;
    for list in LISTS {
        reader.read_composer_list(list)?;
    }
    if reader.read_composer_rows()? { reader.emit_remaining_heads() } else { Ok(()) }
}

struct StateReader<'a> {
    database: &'a Database,
    /// The folder of the workspace that the database belongs to.
    folder: Option<String>,
    heads: ComposerHeads,
    sink: &'a mut dyn Sink,
}

impl StateReader<'_> {
    /// Reads the chat tabs of 2023 and 2024.
    fn read_chat_tabs(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Tabs<'a> {
            #[serde(borrow, default)]
            tabs: Vec<&'a RawValue>,
        }
        let Some(bytes) = self.read_item_value(TABS)? else { return Ok(()) };
        let Ok(list) = serde_json::from_slice::<Tabs<'_>>(&bytes) else {
            return self
                .sink
                .accept_record(Record::unreadable_record(0, "not a list of chat tabs"));
        };
        for (at, raw) in list.tabs.into_iter().enumerate() {
            match json::parse_json::<Composer<'_>>(raw.get()) {
                Some(tab) => self.read_inline_composer(tab, at as u64)?,
                None => self
                    .sink
                    .accept_record(Record::unreadable_record(at as u64, "not a chat tab"))?,
            }
        }
        Ok(())
    }

    /// Reads a list of composers: complete ones in the builds of 2024, later only their metadata.
    fn read_composer_list(&mut self, key: &str) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ComposerList<'a> {
            #[serde(borrow, default)]
            all_composers: Vec<&'a RawValue>,
        }
        let Some(bytes) = self.read_item_value(key)? else { return Ok(()) };
        let Ok(list) = serde_json::from_slice::<ComposerList<'_>>(&bytes) else {
            return self
                .sink
                .accept_record(Record::unreadable_record(0, "not a list of composers"));
        };
        for (at, raw) in list.all_composers.into_iter().enumerate() {
            match json::parse_json::<Composer<'_>>(raw.get()) {
                Some(composer) if composer.conversation.is_some() => {
                    self.read_inline_composer(composer, at as u64)?;
                }
                Some(head) => self.read_composer_head(head),
                None => self
                    .sink
                    .accept_record(Record::unreadable_record(at as u64, "not a composer"))?,
            }
        }
        Ok(())
    }

    /// Reads the table that lists composers since 2026.
    fn read_composer_headers(&mut self) -> Result<()> {
        let columns = self.database.table_columns("composerHeaders")?;
        if !columns.iter().any(|column| column == "value") {
            return Ok(());
        }
        let (mut found, mut too_long) = (Vec::new(), 0);
        let value = sqlite::size_bounded_column("value");
        let sql = format!("SELECT {value} FROM composerHeaders WHERE value IS NOT NULL");
        self.database.for_each_row(&sql, [], |row| {
            let value = row.get_ref(0).unwrap_or(ValueRef::Null);
            let Some(bytes) = sqlite::format_bytes(value) else {
                too_long += u64::from(value == ValueRef::Null);
                return Ok(());
            };
            let bytes = fold_conversation(bytes);
            let head = std::str::from_utf8(&bytes).ok().and_then(json::parse_json::<Composer<'_>>);
            if let Some(mut head) = head {
                found.extend(
                    composer_native_id(&head).map(|native| head.take_session_metadata(&native)),
                );
            }
            Ok(())
        })?;
        for at in 0..too_long {
            self.sink.accept_record(Record::unreadable_record(at, TOO_LONG))?;
        }
        for session in found {
            self.merge_session_metadata(session);
        }
        Ok(())
    }

    fn read_composer_head(&mut self, mut head: Composer<'_>) {
        if let Some(native) = composer_native_id(&head) {
            let session = head.take_session_metadata(&native);
            self.merge_session_metadata(session);
        }
    }

    fn merge_session_metadata(&mut self, mut session: Session) {
        session.cwd = session.cwd.take().or_else(|| self.folder.clone());
        match self.heads.get_mut(&session.id.native) {
            Some(known) => known.complete_from(session),
            None => drop(self.heads.insert(session.id.native.clone(), session)),
        }
    }

    /// Reads a conversation whose bubbles are in its own record.
    fn read_inline_composer(&mut self, mut composer: Composer<'_>, at: u64) -> Result<()> {
        let Some(native) = composer_native_id(&composer) else {
            return self.sink.accept_record(Record::unreadable_record(at, "no id"));
        };
        let mut session = composer.take_session_metadata(&native);
        session.cwd = session.cwd.take().or_else(|| self.folder.clone());
        let bubbles = composer.conversation.take().or(composer.bubbles.take()).unwrap_or_default();
        if composer.sent_at.is_none() && is_draft(&bubbles) {
            return self.sink.accept_record(Record::passed_over_record(at, "unsent draft"));
        }
        let mut writer = ConversationWriter::new(session, self.sink);
        for (at, bubble) in bubbles.into_iter().enumerate() {
            writer.add_bubble(bubble.get().as_bytes(), at as u64)?;
        }
        if !writer.finish_conversation(composer.costs_by_model())? {
            self.sink.accept_record(Record::passed_over_record(at, "empty conversation"))?;
        }
        Ok(())
    }

    /// Reads the composers of 2025 and later: one row each, and one row for each of their bubbles.
    /// The most recently written come first. Returns whether there was time for all of them.
    fn read_composer_rows(&mut self) -> Result<bool> {
        let columns = self.database.table_columns("cursorDiskKV")?;
        if !["key", "value"].iter().all(|name| columns.iter().any(|column| column == name)) {
            return Ok(true);
        }
        let mut keys: Vec<(i64, Option<String>)> = Vec::new();
        self.database.for_each_row(COMPOSERS, [], |row| {
            let key = row.get_ref(0).ok().and_then(|key| key.as_str().ok().map(str::to_owned));
            keys.push((row.get(1).unwrap_or(0), key));
            Ok(())
        })?;
        keys.sort_unstable_by(|a, b| b.cmp(a));
        for (at, (_, key)) in (0..).zip(keys) {
            if self.sink.is_due() {
                return Ok(false);
            }
            match key {
                Some(key) => self.read_composer_row(&key, at)?,
                None => self.sink.accept_record(Record::unreadable_record(at, "not a text"))?,
            }
        }
        Ok(true)
    }

    fn read_composer_row(&mut self, key: &str, at: u64) -> Result<()> {
        let native = key.strip_prefix("composerData:").unwrap_or(key);
        let bytes = match self.read_row(key)? {
            DiskKvRow::Empty | DiskKvRow::Missing => return Ok(()),
            DiskKvRow::NoText => {
                return self.sink.accept_record(Record::unreadable_record(at, "not a text"));
            }
            DiskKvRow::TooLong => {
                return self.sink.accept_record(Record::unreadable_record(at, TOO_LONG));
            }
            DiskKvRow::Value(bytes) => bytes,
        };
        let bytes = fold_conversation(&bytes);
        if let Ok(composer) = serde_json::from_slice::<Composer<'_>>(&bytes) {
            return self.read_split_composer(native, composer, &bytes, at);
        }
        let mended = String::from_utf8(jsonl::mend_line(&bytes)).unwrap_or_default();
        match json::parse_json::<Composer<'_>>(&mended) {
            Some(composer) => self.read_split_composer(native, composer, &bytes, at),
            None => self.sink.accept_record(Record::unreadable_record(at, "not a composer")),
        }
    }

    /// Returns a hash that changes with the conversation. It covers the whole composer, and of each
    /// bubble the columns that are cheap to read.
    fn conversation_fingerprint(&self, native: &str, composer: &[u8]) -> Result<u64> {
        let mut hash = Xxh3::new();
        hash.update(composer);
        hash.update(self.folder.as_deref().unwrap_or_default().as_bytes());
        let head = self.heads.get(native).map(serde_json::to_vec);
        hash.update(&head.and_then(std::result::Result::ok).unwrap_or_default());
        let range = [format!("bubbleId:{native}:"), format!("bubbleId:{native};")];
        self.database.for_each_row(BUBBLES, range, |row| {
            hash.update(row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default());
            for column in [1, 2] {
                hash.update(&row.get::<_, i64>(column).unwrap_or(-1).to_le_bytes());
            }
            hash.update(row.get_ref(3).ok().and_then(sqlite::format_bytes).unwrap_or_default());
            Ok(())
        })?;
        Ok(hash.digest())
    }

    /// Reads a conversation whose bubbles may be in separate rows.
    fn read_split_composer(
        &mut self,
        native: &str,
        mut composer: Composer<'_>,
        bytes: &[u8],
        at: u64,
    ) -> Result<()> {
        let ids = composer.bubble_ids();
        let mut session = composer.take_session_metadata(native);
        if let Some(head) = self.heads.get(native) {
            session.complete_from(head.clone());
        }
        if ids.is_empty() && composer.conversation.as_ref().is_none_or(Vec::is_empty) {
            return self.sink.accept_record(Record::passed_over_record(at, "empty conversation"));
        }
        for child in composer.take_child_sessions() {
            let mut child = Session::new(super::AGENT.id, child);
            child.parent = Some(native.to_owned());
            child.kind = SessionKind::Agent;
            self.sink.accept_record(Record::Session(Box::new(child)))?;
        }
        let id = session.id.clone();
        let fingerprint = self.conversation_fingerprint(native, bytes)?;
        if self.sink.is_unchanged(&id, fingerprint)? {
            self.heads.remove(native);
            return Ok(());
        }
        let mut writer = ConversationWriter::new(session, self.sink);
        for (at, bubble) in composer.conversation.take().unwrap_or_default().iter().enumerate() {
            if ids.is_empty() {
                writer.add_bubble(bubble.get().as_bytes(), at as u64)?;
            }
        }
        let map = composer.map.take().unwrap_or_default();
        let named: HashSet<&str> =
            ids.iter().flatten().map(BorrowedText::as_borrowed_str).collect();
        let mut seen = HashSet::new();
        let mut has_odd = false;
        for (at, id) in ids.iter().enumerate() {
            let Some(id) = id else {
                // It may be any bubble that the list does not name.
                if !std::mem::replace(&mut has_odd, true) {
                    for bubble in unnamed_bubbles(self.database, native, &named)? {
                        writer.add_bubble(&bubble, at as u64)?;
                    }
                }
                continue;
            };
            if !seen.insert(id.as_borrowed_str()) {
                continue;
            }
            let key = format!("bubbleId:{native}:{}", id.as_borrowed_str());
            match (read_disk_kv_row(self.database, &key)?, map.get(id)) {
                (DiskKvRow::Value(bytes), _) => writer.add_bubble(&bytes, at as u64)?,
                (_, Some(raw)) => writer.add_bubble(raw.get().as_bytes(), at as u64)?,
                (DiskKvRow::TooLong, None) => writer.skip_bubble(at as u64, TOO_LONG)?,
                (DiskKvRow::Empty | DiskKvRow::Missing | DiskKvRow::NoText, None) => {}
            }
        }
        if writer.finish_conversation(composer.costs_by_model())? {
            self.heads.remove(native);
            self.sink.finish_session(&id, fingerprint)
        } else {
            self.sink.accept_record(Record::passed_over_record(at, "empty conversation"))
        }
    }

    /// Emits the metadata of listed sessions whose conversations are not in this database.
    fn emit_remaining_heads(self) -> Result<()> {
        for session in self.heads.into_values() {
            self.sink.accept_record(Record::Session(Box::new(session)))?;
        }
        Ok(())
    }

    fn read_item_value(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let bytes = match vscode::read_key_value_item(self.database, "ItemTable", key)? {
            KeyValueItem::Value(bytes) => bytes,
            KeyValueItem::Absent => return Ok(None),
            KeyValueItem::TooLong => {
                self.sink.accept_record(Record::unreadable_record(0, TOO_LONG))?;
                return Ok(None);
            }
        };
        // One bad byte must not lose all conversations of the list.
        let bytes = fold_conversation(&bytes);
        Ok(Some(match serde_json::from_slice::<&RawValue>(&bytes) {
            Ok(_) => bytes.into_owned(),
            Err(_) => jsonl::mend_line(&bytes),
        }))
    }

    fn read_row(&self, key: &str) -> Result<DiskKvRow> {
        read_disk_kv_row(self.database, key)
    }
}

/// Fetches the bubbles of a conversation that its list does not name, in the order of writing.
fn unnamed_bubbles(
    database: &Database,
    native: &str,
    named: &HashSet<&str>,
) -> Result<Vec<Vec<u8>>> {
    let (first, end) = (format!("bubbleId:{native}:"), format!("bubbleId:{native};"));
    let mut bubbles = Vec::new();
    database.for_each_row(BUBBLES_WRITTEN, (MAX_VALUE, &first, &end), |row| {
        let key = row.get_ref(0).ok().and_then(sqlite::format_bytes);
        let id = key.and_then(|key| key.strip_prefix(first.as_bytes()));
        let id = id.and_then(|id| std::str::from_utf8(id).ok());
        let value = row.get_ref(1).ok().and_then(sqlite::format_bytes);
        if let (Some(id), Some(bytes)) = (id, value)
            && !named.contains(id)
        {
            bubbles.push(bytes.to_vec());
        }
        Ok(())
    })?;
    Ok(bubbles)
}

/// A row of `cursorDiskKV`.
enum DiskKvRow {
    /// The row does not exist or cannot be read.
    Missing,
    /// The value is NULL: the chat was deleted.
    Empty,
    NoText,
    TooLong,
    Value(Vec<u8>),
}

fn read_disk_kv_row(database: &Database, key: &str) -> Result<DiskKvRow> {
    let mut found = DiskKvRow::Missing;
    let read = database.for_each_row(ROW, (MAX_VALUE, key), |row| {
        found = match row.get_ref(0) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => DiskKvRow::Value(bytes.to_vec()),
            Ok(ValueRef::Null) => match row.get::<_, Option<i64>>(1) {
                Ok(Some(_)) => DiskKvRow::TooLong,
                _ => DiskKvRow::Empty,
            },
            _ => DiskKvRow::NoText,
        };
        Ok(())
    });
    match read {
        // A row that cannot be read must not affect the others.
        Err(Error::Database { .. }) => Ok(DiskKvRow::Missing),
        read => read.map(|()| found),
    }
}

/// Returns whether a conversation is a draft that was never sent: a single bubble whose text exists
/// only in its input field.
fn is_draft(bubbles: &[&RawValue]) -> bool {
    let [bubble] = bubbles else { return false };
    serde_json::from_str::<Bubble<'_>>(bubble.get()).is_ok_and(|bubble| bubble.is_unsent())
}

fn composer_native_id(composer: &Composer<'_>) -> Option<String> {
    let id =
        composer.id.as_ref().or(composer.tab_id.as_ref()).map(BorrowedText::as_borrowed_str)?;
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, OpenFlags};

    use super::*;

    #[test]
    fn rows_are_found_by_the_index_of_their_keys() {
        let connection = Connection::open_with_flags("", OpenFlags::default()).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)",
            )
            .unwrap();
        for sql in [COMPOSERS, ROW, BUBBLES] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = statement.raw_query();
            let mut plan = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            assert_eq!(plan.len(), 1, "{plan:?}");
            assert!(plan[0].starts_with("SEARCH cursorDiskKV USING "), "{plan:?}");
            assert!(plan[0].contains("INDEX"), "{plan:?}");
        }
    }
}
