//! Reads and writes the marks of sessions. Every change is numbered, so that two journals agree on
//! the last one whichever of them reads the other first.

use rusqlite::{Row, params};

use super::database::OptionalRow;
use super::sessions::Entry;
use super::{Store, Writer};
use crate::error::Result;
use crate::marks::{MarkChange, MarkKind, MarkRecord, Marks};
use crate::model::{SessionId, Timestamp};

/// SQL for the marks that are set, of all sessions.
const SET_MARKS: &str =
    "SELECT session, kind, name, value, device, counter, at FROM marks WHERE value IS NOT NULL";

impl Store {
    /// Reads the marks of a session with the clock of each.
    pub(crate) fn mark_records(&self, session: u64) -> Result<Vec<MarkRecord>> {
        let sql = format!("{SET_MARKS} AND session = ?1 ORDER BY kind, name");
        let rows: Vec<Option<MarkRecord>> =
            self.database.rows(&sql, [session as i64], mark_record)?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Reads the marks of a session.
    pub(crate) fn marks(&self, session: u64) -> Result<Marks> {
        Ok(Marks::from_records(self.mark_records(session)?))
    }

    /// Sets the marks of listed sessions.
    pub(super) fn add_marks(&self, entries: &mut [Entry]) -> Result<()> {
        // Most journals have few marks or none.
        let has_marks: bool = self.database.value("SELECT EXISTS (SELECT 1 FROM marks)", [])?;
        if has_marks {
            for entry in entries {
                entry.marks = self.marks(entry.key)?;
            }
        }
        Ok(())
    }

    /// Counts the sessions of each tag.
    pub(crate) fn count_tags(&self) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT name, count(*) AS sessions FROM marks
                   JOIN sessions ON sessions.key = marks.session AND sessions.shown = 1
                   WHERE marks.kind = 'tag' AND value IS NOT NULL
                   GROUP BY name ORDER BY sessions DESC, name";
        self.database
            .rows(sql, [], |row| Ok((row.get("name")?, row.get::<_, i64>("sessions")? as u64)))
    }

    /// Returns the next number for a change of a mark or a tombstone.
    pub(super) fn next_counter(&self) -> Result<i64> {
        let sql = "SELECT 1 + max((SELECT coalesce(max(counter), 0) FROM marks),
                   (SELECT coalesce(max(counter), 0) FROM unread_sessions))";
        self.database.value(sql, [])
    }
}

impl Writer<'_> {
    /// Changes the marks of a session.
    pub(crate) fn change_mark(
        &mut self,
        session: &SessionId,
        change: &MarkChange,
        at: Timestamp,
    ) -> Result<()> {
        let key = session.session_key();
        let mut set = |kind, name: &str, value: Option<&str>| {
            self.set_mark(key, &ChangedMark { kind, name, value }, at)
        };
        let filled = |text: &'_ String| (!text.is_empty()).then_some(text.as_str().to_owned());
        match change {
            MarkChange::Star => set(MarkKind::Star, "", Some("")),
            MarkChange::Unstar => set(MarkKind::Star, "", None),
            MarkChange::AddTag(tag) => set(MarkKind::Tag, tag, Some("")),
            MarkChange::RemoveTag(tag) => set(MarkKind::Tag, tag, None),
            MarkChange::SetNote(text) => set(MarkKind::Note, "", filled(text).as_deref()),
            MarkChange::SetTitle(text) => set(MarkKind::Title, "", filled(text).as_deref()),
            MarkChange::RemoveAllTags => {
                let tags = self.store.marks(key)?.tags;
                tags.iter().try_for_each(|tag| {
                    let mark = ChangedMark { kind: MarkKind::Tag, name: tag, value: None };
                    self.set_mark(key, &mark, at)
                })
            }
        }
    }

    /// Sets or removes a mark, unless that changes nothing.
    fn set_mark(&mut self, session: u64, mark: &ChangedMark<'_>, at: Timestamp) -> Result<()> {
        let ChangedMark { kind, name, value } = *mark;
        let sql = "SELECT value FROM marks WHERE session = ?1 AND kind = ?2 AND name = ?3";
        let place = params![session as i64, kind.kind_name(), name];
        let known: Option<Option<String>> =
            self.database.query_row(sql, place, |row| row.get("value")).optional()?;
        if known.flatten().as_deref() == value {
            return Ok(());
        }
        let (device, counter) = (self.store.identity()?, self.store.next_counter()?);
        self.write_mark(session, mark, &MarkClock { device, counter, at })
    }

    /// Adds a mark of another journal, unless this journal knows a later change of it.
    pub(crate) fn merge_mark(&mut self, session: &SessionId, record: &MarkRecord) -> Result<()> {
        let key = session.session_key();
        let (name, value) = match record.kind {
            MarkKind::Tag => (record.text.as_str(), ""),
            _ => ("", record.text.as_str()),
        };
        let sql =
            "SELECT EXISTS (SELECT 1 FROM marks WHERE session = ?1 AND kind = ?2 AND name = ?3
                   AND (counter, device) >= (?4, ?5))";
        let kind = record.kind.kind_name();
        let known = params![key as i64, kind, name, record.counter, record.device];
        if self.database.value(sql, known)? {
            return Ok(());
        }
        let mark = ChangedMark { kind: record.kind, name, value: Some(value) };
        let MarkRecord { device, counter, at, .. } = *record;
        self.write_mark(key, &mark, &MarkClock { device, counter, at })
    }

    fn write_mark(
        &mut self,
        session: u64,
        mark: &ChangedMark<'_>,
        clock: &MarkClock,
    ) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO marks (session, kind, name, value, device, counter, at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let ChangedMark { kind, name, value } = mark;
        let MarkClock { device, counter, at } = clock;
        let at = at.as_millis();
        let row = params![session as i64, kind.kind_name(), name, value, device, counter, at];
        self.database.execute(sql, row)?;
        self.touched.insert(session);
        // Titles and notes are part of what is listed and searched.
        if matches!(kind, MarkKind::Title | MarkKind::Note) {
            self.unlisted.insert(session);
        }
        Ok(())
    }

    /// Returns the title that a person set.
    pub(super) fn marked_title(&self, session: u64) -> Result<Option<String>> {
        let sql = "SELECT value FROM marks WHERE session = ?1 AND kind = 'title' AND name = ''";
        let value: Option<Option<String>> =
            self.database.query_row(sql, [session as i64], |row| row.get("value")).optional()?;
        Ok(value.flatten())
    }
}

/// A mark with its new value; `None` removes it.
struct ChangedMark<'m> {
    kind: MarkKind,
    name: &'m str,
    value: Option<&'m str>,
}

/// The clock of a change.
struct MarkClock {
    device: i64,
    counter: i64,
    at: Timestamp,
}

/// Reads a mark from a row; `None` if a newer program defined its kind.
fn mark_record(row: &Row<'_>) -> rusqlite::Result<Option<MarkRecord>> {
    let Some(kind) = MarkKind::from_kind_name(row.get_ref("kind")?.as_str()?) else {
        return Ok(None);
    };
    let column = if kind == MarkKind::Tag { "name" } else { "value" };
    Ok(Some(MarkRecord {
        kind,
        text: row.get(column)?,
        device: row.get("device")?,
        counter: row.get("counter")?,
        at: Timestamp::from_millis(row.get("at")?).unwrap_or_default(),
    }))
}
