//! The editor's `state.vscdb`: chat tabs and inline composers in the `ItemTable` of a workspace,
//! composers and their bubbles in the `cursorDiskKV` of the whole program.
//!
//! The latter grows to gigabytes, nearly all of it caches: only rows of composers are walked, by
//! a range of the key's index, and each bubble is fetched by its key. A conversation that did not
//! change since the last read is passed over by its fingerprint. Other keys of `ItemTable`
//! hold access tokens; they are never selected.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;
use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::bubble::Bubble;
use super::composer::Composer;
use super::telling::Telling;
use crate::connectors::formats::json::{self, Text};
use crate::connectors::formats::jsonl;
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::vscode::{self, Item};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Kind, Session};

const TABS: &str = "workbench.panel.aichat.view.aichat.chatdata";

/// Lists of composers: of a workspace, and of the whole program.
const LISTS: [&str; 2] = ["composer.composerData", "composer.composerHeaders"];

/// The rows of composers, without their values.
const COMPOSERS: &str = "SELECT key, rowid FROM cursorDiskKV \
     WHERE key >= 'composerData:' AND key < 'composerData;'";

/// One row, unless its value is too long.
const ROW: &str = "SELECT CASE WHEN octet_length(value) <= ?1 THEN value END, octet_length(value) \
     FROM cursorDiskKV WHERE key = ?2";

/// The bubbles of a conversation, in the order they were written.
const BUBBLES_WRITTEN: &str = "SELECT key, CASE WHEN octet_length(value) <= ?1 THEN value END \
     FROM cursorDiskKV WHERE key >= ?2 AND key < ?3 ORDER BY rowid";

/// What tells that the bubbles of a composer changed, without reading those that are long. A row
/// that is replaced gets another number.
const BUBBLES: &str = "SELECT key, rowid, octet_length(value), \
     CASE WHEN octet_length(value) <= 1024 THEN value END \
     FROM cursorDiskKV WHERE key >= ?1 AND key < ?2";

/// A longer value is not read.
const MAX_VALUE: i64 = sqlite::MAX_VALUE_BYTES as i64;

/// Why a value is left out.
const TOO_LONG: &str = "a value is too long";

/// Sessions that a list names, for those whose conversation stands elsewhere.
type Heads = BTreeMap<String, Session>;

/// Reads a state database.
pub(super) fn read(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open(path)?;
    let folder = path.parent().and_then(vscode::folder);
    let mut reader = Reader { database: &database, folder, heads: Heads::new(), sink };
    reader.tabs()?;
    // The newest list first: what it says is not changed by the others.
    reader.headers()?;
    for list in LISTS {
        reader.list(list)?;
    }
    if reader.composers()? { reader.finish() } else { Ok(()) }
}

struct Reader<'a> {
    database: &'a Database,
    /// The folder the database's workspace belongs to.
    folder: Option<String>,
    heads: Heads,
    sink: &'a mut dyn Sink,
}

impl Reader<'_> {
    /// Chats of 2023 and 2024.
    fn tabs(&mut self) -> Result<()> {
        #[derive(Deserialize)]
        struct Tabs<'a> {
            #[serde(borrow, default)]
            tabs: Vec<&'a RawValue>,
        }
        let Some(bytes) = self.item(TABS)? else { return Ok(()) };
        let Ok(list) = serde_json::from_slice::<Tabs<'_>>(&bytes) else {
            return self.sink.accept(Record::bad(0, "not a list of chat tabs"));
        };
        for (at, raw) in list.tabs.into_iter().enumerate() {
            match json::parse::<Composer<'_>>(raw.get()) {
                Some(tab) => self.inline(tab, at as u64)?,
                None => self.sink.accept(Record::bad(at as u64, "not a chat tab"))?,
            }
        }
        Ok(())
    }

    /// A list of composers: whole ones in the builds of 2024, later only their heads.
    fn list(&mut self, key: &str) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct List<'a> {
            #[serde(borrow, default)]
            all_composers: Vec<&'a RawValue>,
        }
        let Some(bytes) = self.item(key)? else { return Ok(()) };
        let Ok(list) = serde_json::from_slice::<List<'_>>(&bytes) else {
            return self.sink.accept(Record::bad(0, "not a list of composers"));
        };
        for (at, raw) in list.all_composers.into_iter().enumerate() {
            match json::parse::<Composer<'_>>(raw.get()) {
                Some(composer) if composer.conversation.is_some() => {
                    self.inline(composer, at as u64)?;
                }
                Some(head) => self.head(head),
                None => self.sink.accept(Record::bad(at as u64, "not a composer"))?,
            }
        }
        Ok(())
    }

    /// The table that lists composers since 2026.
    fn headers(&mut self) -> Result<()> {
        let columns = self.database.columns("composerHeaders")?;
        if !columns.iter().any(|column| column == "value") {
            return Ok(());
        }
        let (mut found, mut too_long) = (Vec::new(), 0);
        let value = sqlite::bounded("value");
        let sql = format!("SELECT {value} FROM composerHeaders WHERE value IS NOT NULL");
        self.database.each(&sql, [], |row| {
            let value = row.get_ref(0).unwrap_or(ValueRef::Null);
            let Some(bytes) = sqlite::bytes(value) else {
                too_long += u64::from(value == ValueRef::Null);
                return Ok(());
            };
            let head = std::str::from_utf8(bytes).ok().and_then(json::parse::<Composer<'_>>);
            if let Some(mut head) = head {
                found.extend(native(&head).map(|native| head.session(&native)));
            }
            Ok(())
        })?;
        for at in 0..too_long {
            self.sink.accept(Record::bad(at, TOO_LONG))?;
        }
        for session in found {
            self.learn(session);
        }
        Ok(())
    }

    fn head(&mut self, mut head: Composer<'_>) {
        if let Some(native) = native(&head) {
            let session = head.session(&native);
            self.learn(session);
        }
    }

    fn learn(&mut self, mut session: Session) {
        session.cwd = session.cwd.take().or_else(|| self.folder.clone());
        match self.heads.get_mut(&session.id.native) {
            Some(known) => known.complete(session),
            None => drop(self.heads.insert(session.id.native.clone(), session)),
        }
    }

    /// Tells a conversation whose bubbles stand in its own record.
    fn inline(&mut self, mut composer: Composer<'_>, at: u64) -> Result<()> {
        let Some(native) = native(&composer) else {
            return self.sink.accept(Record::bad(at, "no id"));
        };
        let mut session = composer.session(&native);
        session.cwd = session.cwd.take().or_else(|| self.folder.clone());
        let bubbles = composer.conversation.take().or(composer.bubbles.take()).unwrap_or_default();
        if composer.sent_at.is_none() && is_draft(&bubbles) {
            return self.sink.accept(Record::passed(at, "unsent draft"));
        }
        let mut telling = Telling::new(session, self.sink);
        for (at, bubble) in bubbles.into_iter().enumerate() {
            telling.bubble(bubble.get().as_bytes(), at as u64)?;
        }
        if !telling.finish(composer.costs())? {
            self.sink.accept(Record::passed(at, "empty conversation"))?;
        }
        Ok(())
    }

    /// Composers of 2025 and later: a row each, and a row for each of their bubbles. Those that
    /// were written last come first. Returns whether there was time for all of them.
    fn composers(&mut self) -> Result<bool> {
        let columns = self.database.columns("cursorDiskKV")?;
        if !["key", "value"].iter().all(|name| columns.iter().any(|column| column == name)) {
            return Ok(true);
        }
        let mut keys: Vec<(i64, Option<String>)> = Vec::new();
        self.database.each(COMPOSERS, [], |row| {
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
                Some(key) => self.composer(&key, at)?,
                None => self.sink.accept(Record::bad(at, "not a text"))?,
            }
        }
        Ok(true)
    }

    fn composer(&mut self, key: &str, at: u64) -> Result<()> {
        let native = key.strip_prefix("composerData:").unwrap_or(key);
        let bytes = match self.row(key)? {
            Row::Empty | Row::Missing => return Ok(()),
            Row::NoText => return self.sink.accept(Record::bad(at, "not a text")),
            Row::TooLong => return self.sink.accept(Record::bad(at, TOO_LONG)),
            Row::Value(bytes) => bytes,
        };
        if let Ok(composer) = serde_json::from_slice::<Composer<'_>>(&bytes) {
            return self.split(native, composer, &bytes, at);
        }
        let mended = String::from_utf8(jsonl::mend(&bytes)).unwrap_or_default();
        match json::parse::<Composer<'_>>(&mended) {
            Some(composer) => self.split(native, composer, &bytes, at),
            None => self.sink.accept(Record::bad(at, "not a composer")),
        }
    }

    /// Returns what changes whenever a conversation does: all of its composer, and its bubbles as
    /// far as that is cheap.
    fn fingerprint(&self, native: &str, composer: &[u8]) -> Result<u64> {
        let mut hash = Xxh3::new();
        hash.update(composer);
        hash.update(self.folder.as_deref().unwrap_or_default().as_bytes());
        let head = self.heads.get(native).map(serde_json::to_vec);
        hash.update(&head.and_then(std::result::Result::ok).unwrap_or_default());
        let range = [format!("bubbleId:{native}:"), format!("bubbleId:{native};")];
        self.database.each(BUBBLES, range, |row| {
            hash.update(row.get_ref(0).ok().and_then(sqlite::bytes).unwrap_or_default());
            for column in [1, 2] {
                hash.update(&row.get::<_, i64>(column).unwrap_or(-1).to_le_bytes());
            }
            hash.update(row.get_ref(3).ok().and_then(sqlite::bytes).unwrap_or_default());
            Ok(())
        })?;
        Ok(hash.digest())
    }

    /// Tells a conversation whose bubbles may stand in rows of their own.
    fn split(
        &mut self,
        native: &str,
        mut composer: Composer<'_>,
        bytes: &[u8],
        at: u64,
    ) -> Result<()> {
        let ids = composer.bubble_ids();
        let mut session = composer.session(native);
        if let Some(head) = self.heads.get(native) {
            session.complete(head.clone());
        }
        if ids.is_empty() && composer.conversation.as_ref().is_none_or(Vec::is_empty) {
            return self.sink.accept(Record::passed(at, "empty conversation"));
        }
        for child in composer.children() {
            let mut child = Session::new(super::AGENT.id, child);
            child.parent = Some(native.to_owned());
            child.kind = Kind::Agent;
            self.sink.accept(Record::Session(Box::new(child)))?;
        }
        let id = session.id.clone();
        let fingerprint = self.fingerprint(native, bytes)?;
        if self.sink.is_unchanged(&id, fingerprint)? {
            self.heads.remove(native);
            return Ok(());
        }
        let mut telling = Telling::new(session, self.sink);
        for (at, bubble) in composer.conversation.take().unwrap_or_default().iter().enumerate() {
            if ids.is_empty() {
                telling.bubble(bubble.get().as_bytes(), at as u64)?;
            }
        }
        let map = composer.map.take().unwrap_or_default();
        let named: HashSet<&str> = ids.iter().flatten().map(Text::as_str).collect();
        let mut seen = HashSet::new();
        let mut has_odd = false;
        for (at, id) in ids.iter().enumerate() {
            let Some(id) = id else {
                // It may be any of those that the list does not name.
                if !std::mem::replace(&mut has_odd, true) {
                    for bubble in unnamed_bubbles(self.database, native, &named)? {
                        telling.bubble(&bubble, at as u64)?;
                    }
                }
                continue;
            };
            if !seen.insert(id.as_str()) {
                continue;
            }
            let key = format!("bubbleId:{native}:{}", id.as_str());
            match (row(self.database, &key)?, map.get(id)) {
                (Row::Value(bytes), _) => telling.bubble(&bytes, at as u64)?,
                (_, Some(raw)) => telling.bubble(raw.get().as_bytes(), at as u64)?,
                (Row::TooLong, None) => telling.skip(at as u64, TOO_LONG)?,
                (Row::Empty | Row::Missing | Row::NoText, None) => {}
            }
        }
        if telling.finish(composer.costs())? {
            self.heads.remove(native);
            self.sink.finish_session(&id, fingerprint)
        } else {
            self.sink.accept(Record::passed(at, "empty conversation"))
        }
    }

    /// Tells what the lists say of sessions whose conversation is not in this database.
    fn finish(self) -> Result<()> {
        for session in self.heads.into_values() {
            self.sink.accept(Record::Session(Box::new(session)))?;
        }
        Ok(())
    }

    fn item(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let bytes = match vscode::item(self.database, "ItemTable", key)? {
            Item::Value(bytes) => bytes,
            Item::Absent => return Ok(None),
            Item::TooLong => {
                self.sink.accept(Record::bad(0, TOO_LONG))?;
                return Ok(None);
            }
        };
        // One bad byte must not cost all conversations of the list.
        Ok(Some(match serde_json::from_slice::<&RawValue>(&bytes) {
            Ok(_) => bytes,
            Err(_) => jsonl::mend(&bytes),
        }))
    }

    fn row(&self, key: &str) -> Result<Row> {
        row(self.database, key)
    }
}

/// Reads the bubbles of a conversation that its list does not name, in the order they were written.
fn unnamed_bubbles(
    database: &Database,
    native: &str,
    named: &HashSet<&str>,
) -> Result<Vec<Vec<u8>>> {
    let (first, end) = (format!("bubbleId:{native}:"), format!("bubbleId:{native};"));
    let mut bubbles = Vec::new();
    database.each(BUBBLES_WRITTEN, (MAX_VALUE, &first, &end), |row| {
        let key = row.get_ref(0).ok().and_then(sqlite::bytes);
        let id = key.and_then(|key| key.strip_prefix(first.as_bytes()));
        let id = id.and_then(|id| std::str::from_utf8(id).ok());
        let value = row.get_ref(1).ok().and_then(sqlite::bytes);
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
enum Row {
    /// There is none, or it cannot be read.
    Missing,
    /// It was emptied: its chat was deleted.
    Empty,
    NoText,
    TooLong,
    Value(Vec<u8>),
}

fn row(database: &Database, key: &str) -> Result<Row> {
    let mut found = Row::Missing;
    let read = database.each(ROW, (MAX_VALUE, key), |row| {
        found = match row.get_ref(0) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Row::Value(bytes.to_vec()),
            Ok(ValueRef::Null) => match row.get::<_, Option<i64>>(1) {
                Ok(Some(_)) => Row::TooLong,
                _ => Row::Empty,
            },
            _ => Row::NoText,
        };
        Ok(())
    });
    match read {
        // A row that cannot be read costs the others nothing.
        Err(Error::Database { .. }) => Ok(Row::Missing),
        read => read.map(|()| found),
    }
}

/// Whether somebody wrote something and never sent it: one bubble, whose words are only what the
/// input held.
fn is_draft(bubbles: &[&RawValue]) -> bool {
    let [bubble] = bubbles else { return false };
    serde_json::from_str::<Bubble<'_>>(bubble.get()).is_ok_and(|bubble| bubble.is_unsent())
}

fn native(composer: &Composer<'_>) -> Option<String> {
    let id = composer.id.as_ref().or(composer.tab_id.as_ref()).map(Text::as_str)?;
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
