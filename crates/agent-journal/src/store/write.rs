//! Writes the journal, in one transaction per batch of sources.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{ToSql, named_params, params, types::ToSqlOutput};

use super::chunk::UsageRow;
use super::compression::{ChunkCompressor, Dictionary};
use super::database::Database;
use super::derive::ListingCache;
use super::migrations::FORMAT;
use super::{Chunk, Store};
use crate::error::{Error, Result};
use crate::home_kind::HomeKind;
use crate::model::{Checkpoint, Session, Source};

/// A writer of the journal. Everything since the last `commit` is one transaction.
pub(crate) struct Writer<'s> {
    pub(super) store: &'s Store,
    pub(super) database: &'s Database,
    /// Sessions that changed in this transaction.
    pub(super) touched: BTreeSet<u64>,
    /// Sessions whose listing must be derived before the commit.
    pub(super) unlisted: BTreeSet<u64>,
    /// Identities of calls in this transaction that other recordings contain or contained too.
    pub(super) contested: BTreeSet<[u8; 16]>,
    /// Sessions whose counted calls changed in this transaction.
    pub(super) owners: BTreeSet<u64>,
    /// Sessions whose token columns may have changed because of hidden descendants.
    pub(super) stale_tokens: BTreeSet<u64>,
    /// Hashes of the messages at which new summaries end.
    pub(super) new_leaves: HashSet<i64>,
    /// Anchors of this transaction that other recordings have too.
    pub(super) shared_anchors: HashSet<[u8; 8]>,
    /// Sources of forks that must be read again, because their origin was read meanwhile.
    pub(super) incomplete_forks: BTreeSet<i64>,
    /// Data that was read for listings.
    pub(super) lister: ListingCache,
    /// Keys of the recordings that this transaction created.
    fresh: HashSet<u64>,
    /// Row ids of models by name.
    models: HashMap<String, i64>,
    packer: Arc<ChunkCompressor>,
    /// Id of the dictionary that was stored last.
    dictionary: Option<u32>,
    pub(super) generation: i64,
}

/// The row of a recording: one source's copy of a session.
pub(crate) struct RecordingRow {
    pub(crate) key: u64,
    pub(crate) source: i64,
    pub(crate) metadata: Session,
    pub(crate) messages: u64,
    pub(crate) is_new: bool,
}

/// The home that a source belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceHome {
    pub(crate) kind: HomeKind,
    pub(crate) host: Option<String>,
}

/// The reason why the rest of a source must be read later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingReason {
    /// The time limit was reached.
    OutOfTime,
    /// The agent changed its database during the read.
    Unsettled,
}

/// The result of reading a source.
pub(crate) struct SourceEnd {
    pub(crate) checkpoint: Checkpoint,
    /// Size of the data after the checkpoint at which reading started, in bytes.
    pub(crate) read_bytes: u64,
    pub(crate) records: u64,
    pub(crate) raw: u64,
    pub(crate) skipped: BTreeMap<String, u64>,
    /// Whether the counts add to those of an earlier read.
    pub(crate) continued: bool,
    pub(crate) error: Option<String>,
    /// Whether to read the source again even if it does not change, because the error may be
    /// temporary.
    pub(crate) again: bool,
    /// The reason why the source was not read to its end. It is read again even if it does not
    /// change.
    pub(crate) pending: Option<PendingReason>,
    /// Keys of all recordings in the source, if it was read from beginning to end.
    pub(crate) recordings: Option<Vec<u64>>,
}

impl SourceEnd {
    /// Returns a result that changes nothing about the stored source.
    pub(crate) fn kept(checkpoint: Checkpoint) -> Self {
        Self {
            checkpoint,
            read_bytes: 0,
            records: 0,
            raw: 0,
            skipped: BTreeMap::new(),
            continued: true,
            error: None,
            again: false,
            pending: None,
            recordings: None,
        }
    }
}

impl Store {
    /// Begins a write transaction.
    pub(crate) fn write(&self) -> Result<Writer<'_>> {
        let generation = self.generation()?;
        let writer = Writer {
            store: self,
            database: &self.database,
            touched: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            contested: BTreeSet::new(),
            owners: BTreeSet::new(),
            stale_tokens: BTreeSet::new(),
            new_leaves: HashSet::new(),
            shared_anchors: HashSet::new(),
            incomplete_forks: BTreeSet::new(),
            lister: ListingCache::default(),
            fresh: HashSet::new(),
            models: HashMap::new(),
            packer: Arc::new(self.packer()?),
            dictionary: None,
            generation,
        };
        writer.begin()?;
        // A newer program may have migrated the journal while this one had it open.
        let found: i64 = self.database.value("PRAGMA user_version", [])?;
        if found > FORMAT {
            let (path, known) = (self.database.path().to_owned(), FORMAT);
            return Err(Error::Newer { path, found, known });
        }
        Ok(writer)
    }
}

impl Writer<'_> {
    fn begin(&self) -> Result<()> {
        self.database.execute_batch("BEGIN IMMEDIATE")
    }

    /// Derives all data that depends on the changes since the last commit. Returns the resulting
    /// generation.
    pub(crate) fn conclude(&mut self) -> Result<i64> {
        if !self.touched.is_empty() {
            self.derive_sessions()?;
            self.generation += 1;
            let sql = "UPDATE meta SET value = ?1 WHERE name = 'generation'";
            self.database.execute(sql, [self.generation])?;
        }
        Ok(self.generation)
    }

    /// Commits everything since the last commit.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.conclude()?;
        self.database.execute_batch("COMMIT")?;
        self.begin()
    }

    /// Returns the compressor for chunks.
    pub(crate) fn packer(&self) -> Arc<ChunkCompressor> {
        Arc::clone(&self.packer)
    }

    /// Returns the generation of the last commit.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns the recordings that this transaction created.
    pub(super) fn fresh_recordings(&self) -> &HashSet<u64> {
        &self.fresh
    }

    /// Takes the recordings that were created since the last call.
    pub(crate) fn take_fresh(&mut self) -> HashSet<u64> {
        std::mem::take(&mut self.fresh)
    }

    /// Takes the sources of forks that must be read again.
    pub(crate) fn take_incomplete_forks(&mut self) -> BTreeSet<i64> {
        std::mem::take(&mut self.incomplete_forks)
    }

    /// Inserts or updates a source, so that recordings can refer to it. Returns its row id.
    /// `reader` is the version of the reader that will read it.
    pub(crate) fn source(
        &self,
        agent: &str,
        source: &Source,
        home: &SourceHome,
        reader: i64,
    ) -> Result<i64> {
        let sql = "INSERT INTO sources (agent, path, size, modified, inode, home, host, reader)
                   VALUES (?1, ?2, -1, ?6, 0, ?3, ?4, ?5) ON CONFLICT (agent, path)
                   DO UPDATE SET present = 1, home = ?3, host = ?4 RETURNING id";
        let mut statement = self.database.prepare_cached(sql)?;
        let row = params![
            agent,
            PathValue(&source.path),
            home.kind.home_kind_name(),
            home.host,
            reader,
            source.stamp.modified
        ];
        statement.query_row(row, |row| row.get(0))
    }

    /// Writes the result of reading a source with a version of the reader.
    pub(crate) fn source_end(
        &mut self,
        id: i64,
        source: &Source,
        end: &SourceEnd,
        reader: i64,
    ) -> Result<()> {
        let skipped = serde_json::to_string(&self.skipped(id, end)?);
        let sql = "UPDATE sources SET size = :size, modified = :modified, inode = :inode,
                   records = :records + iif(:continued, records, 0),
                   raw = :raw + iif(:continued, raw, 0),
                   skipped = :skipped, error = :error, present = 1,
                   reader = iif(:pending, reader, :reader)
                   WHERE id = :id";
        self.database.execute(
            sql,
            named_params! {
                ":size": if end.again { -1 } else { source.stamp.size as i64 },
                // The size shows whether data was removed; the invalid time marks the source as
                // pending.
                ":modified": if end.pending.is_some() { -1 } else { source.stamp.modified },
                ":pending": end.pending.is_some(),
                ":inode": source.stamp.inode as i64,
                ":records": end.records as i64,
                ":raw": end.raw as i64,
                ":continued": end.continued,
                ":skipped": skipped.unwrap_or_default(),
                ":error": end.error,
                ":reader": reader,
                ":id": id,
            },
        )?;
        if let Some(recordings) = &end.recordings {
            self.note_gone(id, recordings)?;
        }
        self.checkpoint(id, &end.checkpoint)?;
        // A session without messages is shown or hidden depending on the skipped records.
        if end.records == 0 && !end.skipped.is_empty() {
            let sessions = self.sessions_of(id)?;
            self.unlisted.extend(sessions);
        }
        Ok(())
    }

    fn sessions_of(&self, source: i64) -> Result<Vec<u64>> {
        let sql = "SELECT session FROM recordings WHERE source = ?1";
        self.database.rows(sql, [source], |row| row.get::<_, i64>("session").map(|key| key as u64))
    }

    /// Marks the recordings that a source no longer contains. The journal keeps them.
    fn note_gone(&self, source: i64, recordings: &[u64]) -> Result<()> {
        let sql = "SELECT key, gone FROM recordings WHERE source = ?1 AND combined = 0";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([source], |row| {
            Ok((row.get::<_, i64>("key")?, row.get::<_, bool>("gone")?))
        })?;
        let known = rows.collect::<Result<Vec<_>>>()?;
        let present: HashSet<i64> = recordings.iter().map(|key| *key as i64).collect();
        for (key, was_gone) in known {
            let is_gone = !present.contains(&key);
            if is_gone != was_gone {
                let sql = "UPDATE recordings SET gone = ?2 WHERE key = ?1";
                self.database.execute(sql, params![key, is_gone])?;
            }
        }
        Ok(())
    }

    fn checkpoint(&self, source: i64, checkpoint: &Checkpoint) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO checkpoints
                   (source, read_to, guard, messages, state, seen_to, seen_guard)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let mut statement = self.database.prepare_cached(sql)?;
        let number = |number: u64| number as i64;
        let row = params![
            source,
            number(checkpoint.offset),
            number(checkpoint.guard),
            number(checkpoint.messages),
            checkpoint.state,
            number(checkpoint.seen_to),
            number(checkpoint.seen_guard)
        ];
        statement.execute(row)?;
        Ok(())
    }

    /// Adds the skipped records of a continued read to those of the earlier reads.
    fn skipped(&self, id: i64, end: &SourceEnd) -> Result<BTreeMap<String, u64>> {
        let mut all = end.skipped.clone();
        if end.continued {
            let sql = "SELECT skipped FROM sources WHERE id = ?1";
            let earlier: Option<String> = self.database.optional_value(sql, [id])?;
            let earlier: BTreeMap<String, u64> =
                earlier.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            for (reason, count) in earlier {
                *all.entry(reason).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Marks sources as existing or missing. Their sessions stay.
    pub(crate) fn present(&mut self, ids: &[i64], present: bool) -> Result<()> {
        for id in ids {
            let sql = "UPDATE sources SET present = ?2 WHERE id = ?1";
            self.database.execute(sql, params![id, present])?;
        }
        Ok(())
    }

    /// Writes the row and the metadata of a recording.
    pub(crate) fn write_recording(&mut self, row: &RecordingRow) -> Result<()> {
        let RecordingRow { key, source, metadata, messages, is_new } = row;
        let session = metadata.id.session_key();
        let json = serde_json::to_string(metadata).expect("sessions always serialise");
        let sql = "INSERT INTO recordings (key, source, session, metadata, messages)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (key) DO UPDATE SET metadata = ?4, messages = ?5";
        let row = params![*key as i64, source, session as i64, json, *messages as i64];
        self.database.execute(sql, row)?;
        self.forget_fingerprint(*key)?;
        self.touched.insert(session);
        self.unlisted.insert(session);
        if *is_new {
            self.fresh.insert(*key);
        }
        self.note_continuation(metadata, *source)?;
        for summary in &metadata.summaries {
            // If several files contain the summary, the session with the lowest key holds it,
            // whichever was read first.
            let sql = "INSERT INTO summaries (leaf, agent, text, holder) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (leaf, text) DO UPDATE SET holder = ?4
                       WHERE holder IS NULL OR holder > ?4";
            let leaf = xxhash_rust::xxh3::xxh3_64(summary.leaf.as_bytes()) as i64;
            let mut statement = self.database.prepare_cached(sql)?;
            let new =
                statement.execute(params![leaf, metadata.id.agent, summary.text, session as i64]);
            if new? > 0 {
                self.new_leaves.insert(leaf);
                self.lister.add(&metadata.id.agent, leaf, &summary.text);
            }
        }
        Ok(())
    }

    /// Deletes the messages of a recording from position `from` on, and its calls from position
    /// `calls` on, because they will be written again.
    pub(crate) fn truncate(&mut self, recording: u64, from: u64, calls: u64) -> Result<()> {
        let place = params![recording as i64, from as i64];
        let sql = "DELETE FROM chunks WHERE recording = ?1 AND first >= ?2";
        self.database.prepare_cached(sql).and_then(|mut one| one.execute(place))?;
        self.forget_anchors(recording, from)?;
        self.forget_calls(recording, calls..i64::MAX as u64)
    }

    /// Deletes the calls of a recording in a range of positions.
    pub(super) fn forget_calls(&mut self, recording: u64, positions: Range<u64>) -> Result<()> {
        let sql = "DELETE FROM usage WHERE recording = ?1 AND position >= ?2 AND position < ?3
                   RETURNING identity, owner";
        let mut statement = self.database.prepare_cached(sql)?;
        let place = params![recording as i64, positions.start as i64, positions.end as i64];
        let calls = statement.query_map(place, |row| {
            Ok((row.get::<_, [u8; 16]>("identity")?, row.get::<_, i64>("owner")?))
        })?;
        for call in calls {
            let (identity, owner) = call?;
            self.contested.insert(identity);
            self.owners.insert(owner as u64);
        }
        Ok(())
    }

    /// Writes a chunk of messages, with its calls and images.
    pub(crate) fn chunk(&mut self, recording: u64, session: u64, chunk: &Chunk) -> Result<()> {
        if let Some(dictionary) = &chunk.dictionary {
            self.dictionary(dictionary)?;
        }
        let sql = "INSERT INTO chunks (recording, first, count, bytes, hashes, uuids, facts, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.database.execute(
            sql,
            params![
                recording as i64,
                chunk.first as i64,
                chunk.count as i64,
                chunk.bytes as i64,
                chunk.hashes,
                chunk.uuids,
                chunk.facts,
                chunk.body
            ],
        )?;
        self.note_anchors(recording, chunk)?;
        for row in &chunk.usage {
            self.usage(recording, session, row)?;
        }
        for image in &chunk.images {
            let sql = "INSERT OR IGNORE INTO images (hash, media_type, data) VALUES (?1, ?2, ?3)";
            let row = params![image.hash, image.media_type, image.data];
            self.database.execute(sql, row)?;
        }
        Ok(())
    }

    /// Writes a dictionary, unless it is already stored.
    pub(super) fn dictionary(&mut self, dictionary: &Dictionary) -> Result<()> {
        if self.dictionary.replace(dictionary.id) != Some(dictionary.id) {
            let sql = "INSERT OR IGNORE INTO dictionaries (id, learnt, sum, bytes, spare)
                       VALUES (?1, ?2, ?3, ?4, ?4)";
            let (id, sum, bytes) = (dictionary.id, dictionary.sum, &dictionary.bytes);
            let row = params![id, self.generation, sum, bytes];
            self.database.execute(sql, row)?;
        }
        Ok(())
    }

    /// Returns the row id of a model, and inserts it if it is new.
    fn model(&mut self, name: &str) -> Result<i64> {
        if let Some(id) = self.models.get(name) {
            return Ok(*id);
        }
        let sql = "INSERT INTO models (name) VALUES (?1) ON CONFLICT (name)
                   DO UPDATE SET name = name RETURNING id";
        let id = self.database.value(sql, [name])?;
        self.models.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Writes a call. Of several records in one recording, the one with the largest output wins.
    pub(super) fn usage(&mut self, recording: u64, session: u64, row: &UsageRow) -> Result<()> {
        // Nearly every call is new. If another record of it already counts, the constraint rejects
        // this one.
        let mut counted = self.add_call(recording, session, row, true)?;
        if !counted && !self.add_call(recording, session, row, false)? {
            counted = self.repeat_call(recording, row)?;
        }
        self.owners.insert(session);
        if !counted {
            self.contested.insert(row.identity);
        }
        Ok(())
    }

    /// Inserts a call. Returns false if the recording already has a record of it, or if `counted`
    /// is set and another record counts. With an `ON CONFLICT` clause SQLite would write a rollback
    /// record for every row.
    fn add_call(
        &mut self,
        recording: u64,
        session: u64,
        row: &UsageRow,
        counted: bool,
    ) -> Result<bool> {
        let sql = "INSERT OR IGNORE INTO usage (identity, session, recording, position, at, model,
                   input, output, cache_read, cache_creation, cache_creation_1h, reasoning,
                   cost_micros, since, counted, owner, unrecorded)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?2,
                   ?16)";
        let tokens = &row.usage.tokens;
        let model = row.model.as_deref().map(|name| self.model(name)).transpose()?;
        let mut statement = self.database.prepare_cached(sql)?;
        let added = statement.execute(params![
            row.identity,
            session as i64,
            recording as i64,
            row.position as i64,
            row.at,
            model,
            tokens.input as i64,
            tokens.output as i64,
            tokens.cache_read as i64,
            tokens.cache_creation as i64,
            row.usage.cache_creation_1h as i64,
            tokens.reasoning.map(|n| n as i64),
            row.usage.cost_micros.map(|n| n as i64),
            row.usage.since.map(crate::model::Timestamp::as_millis),
            counted,
            row.usage.unrecorded,
        ]);
        Ok(added? > 0)
    }

    /// Updates a call with a further record in the same recording. Returns whether the call is
    /// counted.
    fn repeat_call(&self, recording: u64, row: &UsageRow) -> Result<bool> {
        let sql = "UPDATE usage SET repeats = repeats + 1,
                   input = iif(?3 > output, ?4, input),
                   cache_read = iif(?3 > output, ?5, cache_read),
                   cache_creation = iif(?3 > output, ?6, cache_creation),
                   cache_creation_1h = iif(?3 > output, ?7, cache_creation_1h),
                   reasoning = iif(?3 > output, ?8, reasoning),
                   output = max(?3, output)
                   WHERE identity = ?1 AND recording = ?2 RETURNING counted";
        let tokens = &row.usage.tokens;
        let mut statement = self.database.prepare_cached(sql)?;
        let values = params![
            row.identity,
            recording as i64,
            tokens.output as i64,
            tokens.input as i64,
            tokens.cache_read as i64,
            tokens.cache_creation as i64,
            row.usage.cache_creation_1h as i64,
            tokens.reasoning.map(|n| n as i64),
        ];
        statement.query_row(values, |row| row.get(0))
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // After an error there may be no transaction any more.
        let _ = self.database.execute_batch("ROLLBACK");
    }
}

/// A path as stored in SQLite: text, or bytes if it is not UTF-8.
pub(super) struct PathValue<'p>(pub(super) &'p Path);

impl ToSql for PathValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0.to_str() {
            Some(text) => ToSqlOutput::from(text),
            None => ToSqlOutput::from(self.0.as_os_str().as_encoded_bytes()),
        })
    }
}
