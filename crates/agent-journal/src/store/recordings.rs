//! Several recordings of one session: their richness, their coverage by the leading recording, and
//! the row of the combined recording.

use rusqlite::params;

use super::database::OptionalRow;
use super::{READER_VERSION, Store, Writer, chunk};
use crate::error::Result;
use crate::model::{MessageFacts, Session, SessionId, SessionKind};

/// One source's copy of a session, or the combination of several.
pub(crate) struct Recording {
    /// Key of the recording.
    pub(crate) key: u64,
    pub(crate) session: SessionId,
    pub(crate) kind: SessionKind,
    pub(crate) source: i64,
    pub(crate) is_import: bool,
    pub(crate) messages: u64,
    /// Sum of the features that the recording has. For a combined recording, the reader version.
    pub(crate) richness: i64,
    pub(crate) is_combined: bool,
    /// Size of the recording's source.
    pub(crate) source_bytes: u64,
}

/// Maximum number of sessions in a small source. A source with more is a database.
const MAX_FEW_RECORDINGS: usize = 3;

/// Weights of the features of a recording, the most important first. A log has all of them, a
/// digest few.
const CONVERSATION: i64 = 8;
const TOOL_RESULTS: i64 = 4;
const MODELS: i64 = 2;
const MESSAGE_IDS: i64 = 1;

impl Store {
    /// Lists the recordings of a session.
    pub(crate) fn recordings(&self, session: u64) -> Result<Vec<Recording>> {
        let count = "SELECT count(*) FROM recordings WHERE session = ?1";
        let count: i64 = self.database.value(count, [session as i64])?;
        // Nearly every session has one recording, and nothing of it needs to be read.
        if count < 2 {
            return Ok(Vec::new());
        }
        let sql = "SELECT key, metadata, source, home = 'import' AS is_import, messages, richness, combined, size
                   FROM recordings JOIN sources ON sources.id = recordings.source
                   WHERE session = ?1 ORDER BY key";
        self.database.rows(sql, [session as i64], |row| {
            let metadata: Option<Session> =
                serde_json::from_str(&row.get::<_, String>("metadata")?).ok();
            let metadata = metadata.unwrap_or_default();
            Ok(Recording {
                key: row.get::<_, i64>("key")? as u64,
                session: metadata.id,
                kind: metadata.kind,
                source: row.get("source")?,
                is_import: row.get("is_import")?,
                messages: row.get::<_, i64>("messages")? as u64,
                richness: row.get("richness")?,
                is_combined: row.get("combined")?,
                source_bytes: row.get::<_, i64>("size")? as u64,
            })
        })
    }

    /// Lists the recordings of a source, each with its session, if there are few: for a file about
    /// one session, not for a database.
    pub(crate) fn few_recordings_of(&self, source: i64) -> Result<Vec<(u64, u64)>> {
        let sql = "SELECT key, session FROM recordings WHERE source = ?1 AND combined = 0 LIMIT ?2";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map(params![source, MAX_FEW_RECORDINGS as i64 + 1], |row| {
            Ok((row.get::<_, i64>("key")? as u64, row.get::<_, i64>("session")? as u64))
        })?;
        let few = rows.collect::<Result<Vec<(u64, u64)>>>()?;
        Ok(if few.len() > MAX_FEW_RECORDINGS { Vec::new() } else { few })
    }

    /// Computes the richness of a recording from the features it has.
    pub(crate) fn richness(&self, recording: u64) -> Result<i64> {
        let sql = "SELECT facts, uuids FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording as i64])?;
        let (mut facts, mut has_ids) = (MessageFacts::default(), false);
        while let Some(row) = rows.next()? {
            facts.append_facts(chunk::facts(row.blob("facts")?));
            has_ids |= !row.blob("uuids")?.is_empty();
        }
        let counts = facts.count_items();
        let has_conversation =
            counts.user_prompts + counts.assistant_messages + counts.tool_calls > 0;
        let features = [
            (has_conversation, CONVERSATION),
            (counts.tool_results > 0, TOOL_RESULTS),
            (!facts.models.is_empty(), MODELS),
            (has_ids, MESSAGE_IDS),
        ];
        Ok(features.into_iter().filter(|(has, _)| *has).map(|(_, value)| value).sum())
    }

    /// Returns whether a recording is known to have no message that the leading recording lacks.
    pub(crate) fn is_covered(&self, recording: &Recording, leader: u64) -> Result<bool> {
        let sql = "SELECT messages = ?2 AND leader = ?3 FROM coverage WHERE recording = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let row = params![recording.key as i64, recording.messages as i64, leader as i64];
        let covered = statement.query_row(row, |row| row.get(0)).optional();
        Ok(covered?.unwrap_or(false))
    }

    /// Reads the hashes of a recording's messages, in order.
    pub(crate) fn message_hashes(&self, recording: u64) -> Result<Vec<u64>> {
        let sql = "SELECT hashes FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording as i64])?;
        let mut hashes = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes = row.blob("hashes")?;
            hashes.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        Ok(hashes)
    }
}

impl Writer<'_> {
    /// Lists the sessions that changed since the last commit.
    pub(crate) fn touched_sessions(&self) -> Vec<u64> {
        self.touched.iter().copied().collect()
    }

    /// Writes the richness of a recording.
    pub(crate) fn set_richness(
        &mut self,
        session: u64,
        recording: u64,
        richness: i64,
    ) -> Result<()> {
        let sql = "UPDATE recordings SET richness = ?2 WHERE key = ?1";
        self.run_on(sql, params![recording as i64, richness])?;
        self.unlisted.insert(session);
        Ok(())
    }

    /// Marks a recording as having no message that the leading recording lacks.
    pub(crate) fn set_covered(&self, recording: &Recording, leader: u64) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO coverage (recording, messages, leader) VALUES (?1, ?2, ?3)";
        let row = params![recording.key as i64, recording.messages as i64, leader as i64];
        self.run_on(sql, row)
    }

    /// Deletes the coverage of a recording whose messages are rewritten.
    pub(crate) fn set_uncovered(&self, recording: u64) -> Result<()> {
        let sql = "DELETE FROM coverage WHERE recording = ?1 OR leader = ?1";
        self.run_on(sql, params![recording as i64])
    }

    /// Writes the row of the recording that combines those of a session.
    pub(crate) fn set_combined(
        &mut self,
        leader: &Recording,
        recording: u64,
        messages: u64,
    ) -> Result<()> {
        let session = leader.session.session_key();
        let metadata =
            Session { id: leader.session.clone(), kind: leader.kind, ..Session::default() };
        let json = serde_json::to_string(&metadata).expect("sessions always serialise");
        let sql =
            "INSERT INTO recordings (key, source, session, metadata, messages, combined, richness)
                   VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6) ON CONFLICT (key) DO UPDATE SET
                   source = ?2, metadata = ?4, messages = ?5, richness = ?6";
        let row = params![
            recording as i64,
            leader.source,
            session as i64,
            json,
            messages as i64,
            READER_VERSION
        ];
        self.run_on(sql, row)?;
        self.touched.insert(session);
        self.unlisted.insert(session);
        Ok(())
    }

    /// Hides the combined recording of a session, because it is no longer needed.
    pub(crate) fn clear_combined(&mut self, session: u64, recording: u64) -> Result<()> {
        let sql = "UPDATE recordings SET messages = 0, hidden = 1 WHERE key = ?1";
        self.run_on(sql, params![recording as i64])?;
        self.touched.insert(session);
        self.unlisted.insert(session);
        Ok(())
    }

    /// Deletes a recording, and its session if it has no other recording.
    pub(crate) fn forget(&mut self, recording: u64) -> Result<()> {
        self.truncate(recording, 0, 0)?;
        self.set_uncovered(recording)?;
        self.forget_fingerprint(recording)?;
        let sql = "DELETE FROM recordings WHERE key = ?1 RETURNING session";
        let session =
            self.database.query_row(sql, [recording as i64], |row| row.get::<_, i64>(0)).optional();
        let Some(session) = session? else { return Ok(()) };
        let sql = "SELECT EXISTS (SELECT 1 FROM recordings WHERE session = ?1 AND combined = 0)";
        let has_others = self.database.value(sql, [session]);
        if has_others? {
            self.touched.insert(session as u64);
            self.unlisted.insert(session as u64);
            return Ok(());
        }
        self.forget_bill(session as u64)?;
        for sql in [
            "DELETE FROM sessions WHERE key = ?1",
            "DELETE FROM activity WHERE session = ?1",
            "DELETE FROM spending WHERE session = ?1",
        ] {
            self.run_on(sql, params![session])?;
        }
        Ok(())
    }

    /// Returns the key of the combined recording of a session, if there is one.
    pub(super) fn combined(&self, session: u64) -> Result<Option<i64>> {
        let sql = "SELECT key FROM recordings WHERE session = ?1 AND combined = 1 AND messages > 0";
        self.database.optional_value(sql, [session as i64])
    }

    fn run_on(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.database.execute(sql, values)?;
        Ok(())
    }
}
