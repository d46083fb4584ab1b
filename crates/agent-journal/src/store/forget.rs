//! Deletes sessions for good: rows, images, and the text that a compression dictionary learnt.
//!
//! Deleted rows are overwritten with zeros, the file is then rewritten without its free pages, and
//! the log is emptied. A dictionary consists of pieces of the messages that trained it, so it is
//! replaced by one that is trained without them.

use std::collections::HashSet;

use rusqlite::params;

use super::compression::{ChunkCompressor, unpack};
use super::database::OptionalRow;
use super::unread::{LeftOutReason, LeftOutRow};
use super::{Store, Writer, chunk};
use crate::error::Result;
use crate::model::{Block, Message, SessionId, Timestamp};

/// Number of chunks that are compressed again at once.
const CHUNKS_PER_STEP: usize = 64;

/// The work that is left after a transaction that deleted sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeState {
    /// Nothing.
    Done,
    /// The index may contain deleted text, and the file has free pages.
    IndexAndFile,
    /// The file has free pages.
    File,
}

/// The size of sessions in the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredSize {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Store {
    /// Returns the keys of sessions together with those of their sub-agents and working copies.
    pub(crate) fn with_subagents(&self, sessions: &[u64]) -> Result<Vec<u64>> {
        let keys: Vec<String> = sessions.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are integers of the database, so no escaping is needed.
        let sql = format!(
            "WITH RECURSIVE family (key) AS (
                 SELECT key FROM sessions WHERE key IN ({}) UNION
                 SELECT sessions.key FROM family
                 JOIN sessions ON sessions.parent = family.key AND sessions.kind > 0)
             SELECT key FROM family",
            keys.join(",")
        );
        self.keys(&sql, [])
    }

    /// Returns the size of the shown recording of each session.
    pub(crate) fn stored_size(&self, sessions: &[u64]) -> Result<StoredSize> {
        let sql = "SELECT coalesce(sum(count), 0) AS messages, coalesce(sum(bytes), 0) AS bytes
                   FROM sessions JOIN chunks ON chunks.recording = sessions.recording
                   WHERE sessions.key = ?1";
        let mut size = StoredSize::default();
        for session in sessions {
            let (messages, bytes) = self.database.query_row(sql, [*session as i64], |row| {
                Ok((row.get::<_, i64>("messages")?, row.get::<_, i64>("bytes")?))
            })?;
            size.messages += messages as u64;
            size.bytes += bytes as u64;
        }
        Ok(size)
    }

    /// Returns the work that is left after sessions were deleted.
    pub(crate) fn purge_state(&self) -> Result<PurgeState> {
        let sql = "SELECT value FROM meta WHERE name = 'purge'";
        Ok(match self.database.optional_value::<i64>(sql, [])? {
            None => PurgeState::Done,
            Some(1) => PurgeState::IndexAndFile,
            Some(_) => PurgeState::File,
        })
    }

    /// Notes that the index contains no deleted text any more.
    pub(crate) fn note_index_purged(&self) -> Result<()> {
        self.database.execute("UPDATE meta SET value = 2 WHERE name = 'purge'", []).map(drop)
    }

    /// Overwrites deleted data from now on.
    pub(crate) fn overwrite_deleted(&self) -> Result<()> {
        self.database.execute_batch("PRAGMA secure_delete = ON")
    }

    /// Rewrites the file without its free pages and empties the log. Returns false if another
    /// process reads the journal, so that its log could not be emptied.
    pub(crate) fn rewrite_file(&self) -> Result<bool> {
        // The copy of the file would otherwise be in memory.
        self.database
            .execute_batch("PRAGMA temp_store = FILE; VACUUM; PRAGMA temp_store = MEMORY")?;
        if !self.empty_log()? {
            return Ok(false);
        }
        self.database.execute("DELETE FROM meta WHERE name = 'purge'", [])?;
        self.empty_log()
    }

    fn empty_log(&self) -> Result<bool> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool = self.database.query_row(sql, [], |row| row.get("busy"))?;
        Ok(!is_busy)
    }
}

impl Writer<'_> {
    /// Notes that deleted text is left in the index and in free pages. The next writer deletes it.
    pub(crate) fn request_purge(&self) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('purge', 1)";
        self.database.execute(sql, []).map(drop)
    }

    /// Deletes sessions and leaves a tombstone of each. Returns the keys of the deleted
    /// recordings.
    pub(crate) fn forget_sessions(
        &mut self,
        sessions: &[u64],
        reason: LeftOutReason,
        at: Timestamp,
    ) -> Result<Vec<u64>> {
        let forgotten: HashSet<u64> = sessions.iter().copied().collect();
        let mut images = HashSet::new();
        let mut recordings = Vec::new();
        for session in sessions {
            let keys = self.recordings_of(*session)?;
            for recording in &keys {
                self.collect_images(*recording, &mut images)?;
            }
            self.write_tombstone(*session, reason, &forgotten, at)?;
            self.requeue_neighbours(*session, &forgotten)?;
            for recording in &keys {
                self.forget(*recording)?;
            }
            self.forget_rest(*session)?;
            recordings.extend(keys);
        }
        self.delete_unused_images(images)?;
        self.replace_dictionaries()?;
        let sql = "DELETE FROM sources WHERE (home = 'import' OR present = 0)
                   AND id IN (SELECT source FROM unread_sources)
                   AND NOT EXISTS (SELECT 1 FROM recordings WHERE recordings.source = sources.id)";
        // A source without recordings is found by another scan if it exists again.
        self.database.execute_batch(
            "DELETE FROM checkpoints WHERE source IN (SELECT source FROM unread_sources)",
        )?;
        self.database.execute(sql, [])?;
        self.database.execute_batch(
            "DELETE FROM unread_sources WHERE source NOT IN (SELECT id FROM sources)",
        )?;
        self.request_purge()?;
        Ok(recordings)
    }

    fn recordings_of(&self, session: u64) -> Result<Vec<u64>> {
        self.store.keys("SELECT key FROM recordings WHERE session = ?1", [session as i64])
    }

    fn write_tombstone(
        &mut self,
        session: u64,
        reason: LeftOutReason,
        forgotten: &HashSet<u64>,
        at: Timestamp,
    ) -> Result<()> {
        let sql = "SELECT agent, native, cwd, parent FROM sessions WHERE key = ?1";
        let known = self.database.query_row(sql, [session as i64], |row| {
            let id = SessionId { agent: row.get("agent")?, native: row.get("native")? };
            let parent = row.get::<_, Option<i64>>("parent")?.map(|key| key as u64);
            Ok((id, row.get::<_, Option<String>>("cwd")?, parent))
        });
        let Some((id, cwd, parent)) = known.optional()? else { return Ok(()) };
        let parent = parent.filter(|parent| forgotten.contains(parent));
        let place = cwd.filter(|_| reason == LeftOutReason::Excluded);
        self.write_unread(&LeftOutRow { session: id, reason, place, parent }, at)?;
        let sql = "SELECT DISTINCT source FROM recordings WHERE session = ?1 AND combined = 0";
        let sources: Vec<i64> =
            self.database.rows(sql, [session as i64], |row| row.get("source"))?;
        sources.into_iter().try_for_each(|source| {
            self.note_unread_source(session, source)?;
            self.forget_archived_source(session, source)
        })
    }

    /// Queues the sessions whose figures depend on a session that is deleted: its forks, and the
    /// session that started it.
    fn requeue_neighbours(&mut self, session: u64, forgotten: &HashSet<u64>) -> Result<()> {
        let sql = "DELETE FROM lineages WHERE session = ?1 OR origin = ?1 RETURNING session";
        let forks: Vec<i64> =
            self.database.rows(sql, [session as i64], |row| row.get("session"))?;
        let sql = "SELECT parent FROM sessions WHERE key = ?1 AND parent IS NOT NULL";
        let parent: Option<i64> = self.database.optional_value(sql, [session as i64])?;
        for other in forks.into_iter().chain(parent).map(|key| key as u64) {
            if !forgotten.contains(&other) {
                self.touched.insert(other);
                self.unlisted.insert(other);
            }
        }
        Ok(())
    }

    /// Deletes everything about a session besides its recordings.
    fn forget_rest(&mut self, session: u64) -> Result<()> {
        let key = session as i64;
        for sql in [
            "DELETE FROM sessions WHERE key = ?1",
            "DELETE FROM activity WHERE session = ?1",
            "DELETE FROM spending WHERE session = ?1",
            "DELETE FROM touched WHERE session = ?1",
            "DELETE FROM bills WHERE session = ?1",
            "DELETE FROM summaries WHERE holder = ?1",
            "DELETE FROM continuations WHERE session = ?1",
            "DELETE FROM marks WHERE session = ?1",
        ] {
            self.database.execute(sql, [key])?;
        }
        self.touched.insert(session);
        self.unlisted.remove(&session);
        self.owners.remove(&session);
        Ok(())
    }

    /// Adds the hashes of the images in a recording.
    fn collect_images(&self, recording: u64, images: &mut HashSet<String>) -> Result<()> {
        let sql = "SELECT facts, body FROM chunks WHERE recording = ?1";
        self.each_image(sql, params![recording as i64], &mut |hash| {
            images.insert(hash);
        })
    }

    /// Deletes those of the given images that no message has any more.
    fn delete_unused_images(&self, mut images: HashSet<String>) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        self.each_image("SELECT facts, body FROM chunks", [], &mut |hash| {
            images.remove(&hash);
        })?;
        for hash in images {
            self.database.execute("DELETE FROM images WHERE hash = ?1", [hash])?;
        }
        Ok(())
    }

    fn each_image(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        found: &mut dyn FnMut(String),
    ) -> Result<()> {
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            if chunk::facts(row.blob("facts")?).images == 0 {
                continue;
            }
            let run = self.store.unpack(row.blob("body")?)?.unwrap_or_default();
            for line in chunk::lines(&run) {
                let message: Message = serde_json::from_slice(line).unwrap_or_default();
                for block in message.blocks {
                    if let Block::Image(image) = block {
                        image.hash.into_iter().for_each(&mut *found);
                    }
                }
            }
        }
        Ok(())
    }

    /// Trains a new dictionary with the chunks that are left, and compresses all chunks with it
    /// that needed an earlier one. A chunk that cannot be decompressed keeps its dictionary out of
    /// the journal, and is damaged as before.
    fn replace_dictionaries(&mut self) -> Result<()> {
        let known: i64 = self.database.value("SELECT count(*) FROM dictionaries", [])?;
        if known == 0 {
            return Ok(());
        }
        let packer = ChunkCompressor::new(None);
        let mut written = HashSet::new();
        let mut after = 0_i64;
        loop {
            let sql = "SELECT rowid AS place, body FROM chunks WHERE rowid > ?1
                       ORDER BY rowid LIMIT ?2";
            let chunks: Vec<(i64, Vec<u8>)> =
                self.database.rows(sql, params![after, CHUNKS_PER_STEP as i64], |row| {
                    Ok((row.get("place")?, row.get("body")?))
                })?;
            let Some((last, _)) = chunks.last() else { break };
            after = *last;
            for (place, body) in &chunks {
                let needed = self.store.needed(body)?;
                let Some(run) = unpack(body, needed.as_deref()) else { continue };
                let (body, dictionary) = packer.pack(&run);
                if let Some(dictionary) = &dictionary
                    && written.insert(dictionary.id)
                {
                    let sql = "INSERT OR REPLACE INTO dictionaries (id, learnt, sum, bytes, spare)
                               VALUES (?1, ?2, ?3, ?4, ?4)";
                    let (id, sum) = (dictionary.id, dictionary.sum);
                    let row = params![id, self.generation + 1, sum, dictionary.bytes];
                    self.database.execute(sql, row)?;
                }
                let sql = "UPDATE chunks SET body = ?2 WHERE rowid = ?1";
                self.database.execute(sql, params![place, body])?;
            }
        }
        let kept: Vec<String> = written.iter().map(u32::to_string).collect();
        let sql = format!("DELETE FROM dictionaries WHERE id NOT IN ({})", kept.join(","));
        self.database.execute_batch(&sql)?;
        self.store.dictionaries.borrow_mut().clear();
        self.use_packer(packer);
        Ok(())
    }
}
