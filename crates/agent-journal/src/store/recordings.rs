//! Several recordings of one session: how rich each is, which have nothing that the leading one
//! lacks, and the row of the one that combines them.

use rusqlite::{OptionalExtension, params};

use super::{READER_VERSION, Store, Writer, chunk};
use crate::error::Result;
use crate::model::{Facts, Kind, Session, SessionId};

/// One source's copy of a session, or the combination of several.
pub(crate) struct Recording {
    pub(crate) telling: u64,
    pub(crate) session: SessionId,
    pub(crate) kind: Kind,
    pub(crate) source: i64,
    pub(crate) is_import: bool,
    pub(crate) messages: u64,
    /// How much it says of what it records; of a combination the version of the reader.
    pub(crate) richness: i64,
    pub(crate) is_combined: bool,
}

/// A source that tells of more sessions than this is a database.
const FEW: usize = 3;

/// What makes a recording rich, the most important first. A log has it all, a digest little.
const CONVERSATION: i64 = 8;
const TOOL_RESULTS: i64 = 4;
const MODELS: i64 = 2;
const MESSAGE_IDS: i64 = 1;

impl Store {
    /// Lists the recordings of a session.
    pub(crate) fn recordings(&self, session: u64) -> Result<Vec<Recording>> {
        let count = "SELECT count(*) FROM tellings WHERE session = ?1";
        let mut statement = self.connection.prepare_cached(count).map_err(self.error())?;
        let count = statement.query_row([session as i64], |row| row.get::<_, i64>(0));
        // Nearly every session has one, and nothing of it needs to be read.
        if count.map_err(self.error())? < 2 {
            return Ok(Vec::new());
        }
        let sql = "SELECT key, account, source, home = 'import', messages, richness, combined
                   FROM tellings JOIN sources ON sources.id = tellings.source
                   WHERE session = ?1 ORDER BY key";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([session as i64], |row| {
            let account: Option<Session> = serde_json::from_str(&row.get::<_, String>(1)?).ok();
            let account = account.unwrap_or_default();
            Ok(Recording {
                telling: row.get::<_, i64>(0)? as u64,
                session: account.id,
                kind: account.kind,
                source: row.get(2)?,
                is_import: row.get(3)?,
                messages: row.get::<_, i64>(4)? as u64,
                richness: row.get(5)?,
                is_combined: row.get(6)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Lists what a source tells, as recording and session, if that is little: a file about one
    /// session, and no database of many.
    pub(crate) fn few_recordings_of(&self, source: i64) -> Result<Vec<(u64, u64)>> {
        let sql = "SELECT key, session FROM tellings WHERE source = ?1 AND combined = 0 LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map(params![source, FEW as i64 + 1], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        });
        let few: Vec<(u64, u64)> = rows.and_then(Iterator::collect).map_err(self.error())?;
        Ok(if few.len() > FEW { Vec::new() } else { few })
    }

    /// Measures how much a recording says of what it records.
    pub(crate) fn richness(&self, telling: u64) -> Result<i64> {
        let sql = "SELECT facts, uuids FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling as i64]).map_err(self.error())?;
        let (mut facts, mut has_ids) = (Facts::default(), false);
        while let Some(row) = rows.next().map_err(self.error())? {
            let blob = |at| row.get_ref(at).and_then(|it| Ok(it.as_blob()?)).map_err(self.error());
            facts.append(chunk::facts(blob(0)?));
            has_ids |= !blob(1)?.is_empty();
        }
        let counts = facts.counts();
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

    /// Returns whether a recording is known to have no message that a leading one lacks.
    pub(crate) fn is_covered(&self, recording: &Recording, leader: u64) -> Result<bool> {
        let sql = "SELECT messages = ?2 AND leader = ?3 FROM coverage WHERE telling = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![recording.telling as i64, recording.messages as i64, leader as i64];
        let covered = statement.query_row(row, |row| row.get(0)).optional();
        Ok(covered.map_err(self.error())?.unwrap_or(false))
    }

    /// Reads the hashes of a recording's messages, in order.
    pub(crate) fn message_hashes(&self, telling: u64) -> Result<Vec<u64>> {
        let sql = "SELECT hashes FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling as i64]).map_err(self.error())?;
        let mut hashes = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let bytes = row.get_ref(0).and_then(|it| Ok(it.as_blob()?)).map_err(self.error())?;
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

    /// Notes how rich a recording is.
    pub(crate) fn set_richness(&mut self, session: u64, telling: u64, richness: i64) -> Result<()> {
        let sql = "UPDATE tellings SET richness = ?2 WHERE key = ?1";
        self.run_on(sql, params![telling as i64, richness])?;
        self.unlisted.insert(session);
        Ok(())
    }

    /// Notes that a recording has no message that the leading one lacks.
    pub(crate) fn set_covered(&self, recording: &Recording, leader: u64) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO coverage (telling, messages, leader) VALUES (?1, ?2, ?3)";
        let row = params![recording.telling as i64, recording.messages as i64, leader as i64];
        self.run_on(sql, row)
    }

    /// Forgets what is known of a recording whose messages are told anew.
    pub(crate) fn set_uncovered(&self, telling: u64) -> Result<()> {
        let sql = "DELETE FROM coverage WHERE telling = ?1 OR leader = ?1";
        self.run_on(sql, params![telling as i64])
    }

    /// Notes the recording that combines those of a session.
    pub(crate) fn set_combined(
        &mut self,
        leader: &Recording,
        telling: u64,
        messages: u64,
    ) -> Result<()> {
        let session = leader.session.key();
        let account =
            Session { id: leader.session.clone(), kind: leader.kind, ..Session::default() };
        let json = serde_json::to_string(&account).expect("sessions always serialise");
        let sql =
            "INSERT INTO tellings (key, source, session, account, messages, combined, richness)
                   VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6) ON CONFLICT (key) DO UPDATE SET
                   source = ?2, account = ?4, messages = ?5, richness = ?6";
        let row = params![
            telling as i64,
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

    /// Notes that nothing needs to be combined any more.
    pub(crate) fn clear_combined(&mut self, session: u64, telling: u64) -> Result<()> {
        let sql = "UPDATE tellings SET messages = 0, hidden = 1 WHERE key = ?1";
        self.run_on(sql, params![telling as i64])?;
        self.touched.insert(session);
        self.unlisted.insert(session);
        Ok(())
    }

    /// Forgets a recording, and its session when there is no other one.
    pub(crate) fn forget(&mut self, telling: u64) -> Result<()> {
        self.truncate(telling, 0, 0)?;
        self.set_uncovered(telling)?;
        self.forget_fingerprint(telling)?;
        let sql = "DELETE FROM tellings WHERE key = ?1 RETURNING session";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let session = statement.query_row([telling as i64], |row| row.get::<_, i64>(0)).optional();
        let Some(session) = session.map_err(self.error())? else { return Ok(()) };
        let sql = "SELECT EXISTS (SELECT 1 FROM tellings WHERE session = ?1 AND combined = 0)";
        let has_others = self.connection.query_row(sql, [session], |row| row.get(0));
        if has_others.map_err(self.error())? {
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

    /// Returns the recording that combines those of a session, if there is one.
    pub(super) fn combined(&self, session: u64) -> Result<Option<i64>> {
        let sql = "SELECT key FROM tellings WHERE session = ?1 AND combined = 1 AND messages > 0";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.query_row([session as i64], |row| row.get(0)).optional().map_err(self.error())
    }

    fn run_on(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute(values).map_err(self.error())?;
        Ok(())
    }
}
