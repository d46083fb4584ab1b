//! The editor's `state.vscdb`: chat tabs and inline composers in the `ItemTable` of a workspace,
//! composers and their bubbles in the `cursorDiskKV` of the whole program.
//!
//! The latter grows to gigabytes, nearly all of it caches: only rows of composers are walked, by
//! a range of the key's index, and each bubble is fetched by its key. Other keys of `ItemTable`
//! hold access tokens; they are never selected.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Statement};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bubble::Bubble;
use super::composer::Composer;
use super::telling::Telling;
use crate::connectors::formats::json::{self, Text};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::{jsonl, vscode};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Kind, Session};

const TABS: &str = "workbench.panel.aichat.view.aichat.chatdata";

/// Lists of composers: of a workspace, and of the whole program.
const LISTS: [&str; 2] = ["composer.composerData", "composer.composerHeaders"];

const COMPOSERS: &str = "SELECT key, CASE WHEN octet_length(value) <= ?1 THEN value END \
     FROM cursorDiskKV \
     WHERE key >= 'composerData:' AND key < 'composerData;' AND value IS NOT NULL ORDER BY key";

const BUBBLE: &str = "SELECT CASE WHEN octet_length(value) <= ?1 THEN value END \
     FROM cursorDiskKV WHERE key = ?2";

const BUBBLES: &str = "SELECT key, CASE WHEN octet_length(value) <= ?1 THEN value END \
     FROM cursorDiskKV WHERE key >= ?2 AND key < ?3 ORDER BY rowid";

/// A longer value is not read.
const MAX_VALUE: i64 = jsonl::MAX_LINE as i64;

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
    reader.composers()?;
    reader.finish()
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
        let columns = self.database.columns("composerHeaders");
        if !columns.iter().any(|column| column == "value") {
            return Ok(());
        }
        let mut found = Vec::new();
        let sql = "SELECT value FROM composerHeaders WHERE value IS NOT NULL";
        self.database.each(sql, |row| {
            let Ok(bytes) =
                row.get_ref(0).map_err(drop).and_then(|one| one.as_bytes().map_err(drop))
            else {
                return Ok(());
            };
            let head = std::str::from_utf8(bytes).ok().and_then(json::parse::<Composer<'_>>);
            if let Some(mut head) = head {
                found.extend(native(&head).map(|native| head.session(&native)));
            }
            Ok(())
        })?;
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

    /// Composers of 2025 and later: a row each, and a row for each of their bubbles.
    fn composers(&mut self) -> Result<()> {
        if self.database.columns("cursorDiskKV").is_empty() {
            return Ok(());
        }
        let wrong = || sqlite::database(self.database.path());
        let connection = self.database.connection();
        let mut composers = connection.prepare(COMPOSERS).map_err(wrong())?;
        let mut bubbles = connection.prepare(BUBBLE).map_err(wrong())?;
        let mut rows = composers.query([MAX_VALUE]).map_err(wrong())?;
        let mut at = 0;
        while let Some(row) = rows.next().map_err(wrong())? {
            let key = row.get_ref(0).map_err(wrong())?;
            let value = row.get_ref(1).map_err(wrong())?;
            self.composer(key, value, at, &mut bubbles)?;
            at += 1;
        }
        Ok(())
    }

    fn composer(
        &mut self,
        key: ValueRef<'_>,
        value: ValueRef<'_>,
        at: u64,
        bubbles: &mut Statement<'_>,
    ) -> Result<()> {
        let native = key.as_str().ok().and_then(|key| key.strip_prefix("composerData:"));
        let (Some(native), Ok(bytes)) = (native, value.as_bytes()) else {
            return self.sink.accept(Record::bad(at, "not a text, or too long"));
        };
        if let Ok(composer) = serde_json::from_slice::<Composer<'_>>(bytes) {
            return self.split(native, composer, at, bubbles);
        }
        let mended = String::from_utf8(jsonl::mend(bytes)).unwrap_or_default();
        match json::parse::<Composer<'_>>(&mended) {
            Some(composer) => self.split(native, composer, at, bubbles),
            None => self.sink.accept(Record::bad(at, "not a composer")),
        }
    }

    /// Tells a conversation whose bubbles may stand in rows of their own.
    fn split(
        &mut self,
        native: &str,
        mut composer: Composer<'_>,
        at: u64,
        bubbles: &mut Statement<'_>,
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
            if !fetch(bubbles, &key, &mut |bytes| telling.bubble(bytes, at as u64))?
                && let Some(raw) = map.get(id)
            {
                telling.bubble(raw.get().as_bytes(), at as u64)?;
            }
        }
        if telling.finish(composer.costs())? {
            self.heads.remove(native);
        } else {
            self.sink.accept(Record::passed(at, "empty conversation"))?;
        }
        Ok(())
    }

    /// Tells what the lists say of sessions whose conversation is not in this database.
    fn finish(self) -> Result<()> {
        for session in self.heads.into_values() {
            self.sink.accept(Record::Session(Box::new(session)))?;
        }
        Ok(())
    }

    fn item(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let bytes = vscode::item(self.database, "ItemTable", key)?;
        // One bad byte must not cost all conversations of the list.
        Ok(bytes.map(|bytes| match serde_json::from_slice::<&RawValue>(&bytes) {
            Ok(_) => bytes,
            Err(_) => jsonl::mend(&bytes),
        }))
    }
}

/// Reads the bubbles of a conversation that its list does not name, in the order they were written.
fn unnamed_bubbles(
    database: &Database,
    native: &str,
    named: &HashSet<&str>,
) -> Result<Vec<Vec<u8>>> {
    let wrong = || sqlite::database(database.path());
    let (first, end) = (format!("bubbleId:{native}:"), format!("bubbleId:{native};"));
    let mut statement = database.connection().prepare(BUBBLES).map_err(wrong())?;
    let mut rows = statement.query((MAX_VALUE, &first, &end)).map_err(wrong())?;
    let mut bubbles = Vec::new();
    while let Some(row) = rows.next().map_err(wrong())? {
        let (Ok(key), Ok(value)) = (row.get_ref(0), row.get_ref(1)) else { continue };
        let id = key.as_str().ok().and_then(|key| key.strip_prefix(first.as_str()));
        if let (Some(id), Ok(bytes)) = (id, value.as_bytes())
            && !named.contains(id)
        {
            bubbles.push(bytes.to_vec());
        }
    }
    Ok(bubbles)
}

/// Hands out the bubble at a key; `false` when there is none.
fn fetch(
    bubbles: &mut Statement<'_>,
    key: &str,
    found: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<bool> {
    let told = bubbles.query_row((MAX_VALUE, key), |row| {
        Ok(match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(found(bytes)),
            _ => None,
        })
    });
    // A row that cannot be read costs the others nothing.
    told.optional().ok().flatten().flatten().map_or(Ok(false), |told| told.map(|()| true))
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
        for sql in [COMPOSERS, BUBBLE] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = statement.raw_query();
            let mut plan = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            assert_eq!(plan.len(), 1, "{plan:?}");
            assert!(plan[0].starts_with("SEARCH cursorDiskKV USING INDEX"), "{plan:?}");
        }
    }
}
