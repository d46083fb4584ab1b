//! Writing: one transaction per batch of sources.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, ToSql, named_params, params, types::ToSqlOutput};

use super::chunk::UsageRow;
use super::packing::{Dictionary, Packer};
use super::settle::Lister;
use super::{Chunk, READER_VERSION, Store};
use crate::config::HomeKind;
use crate::error::{Error, Result};
use crate::model::{Checkpoint, Session, Source};

/// Writes the journal. Everything since the last `commit` is one transaction.
pub(crate) struct Writer<'s> {
    pub(super) store: &'s Store,
    pub(super) connection: &'s Connection,
    pub(super) path: &'s Path,
    /// Sessions that changed in this transaction.
    pub(super) touched: BTreeSet<u64>,
    /// Sessions whose listing must be worked out before the commit.
    pub(super) unlisted: BTreeSet<u64>,
    /// Calls of this transaction that are, or were, recorded elsewhere too.
    pub(super) contested: BTreeSet<[u8; 16]>,
    /// Sessions whose counted calls changed in this transaction.
    pub(super) owners: BTreeSet<u64>,
    /// Sessions whose listed tokens may have changed by what others spent for them.
    pub(super) stale_tokens: BTreeSet<u64>,
    /// Last messages of summaries that are new in this transaction.
    pub(super) new_leaves: HashSet<i64>,
    /// Messages of this transaction that recordings of other sessions may begin with, too.
    pub(super) shared_anchors: HashSet<[u8; 8]>,
    /// Sources of forks that are to be read again, because what they go on from has come.
    pub(super) incomplete_forks: BTreeSet<i64>,
    /// What was looked up for listings.
    pub(super) lister: Lister,
    /// Tellings that were not there before this transaction.
    fresh: HashSet<u64>,
    /// Numbers of models.
    models: HashMap<String, i64>,
    packer: Arc<Packer>,
    /// The dictionary that was stored last.
    dictionary: Option<u32>,
    pub(super) generation: i64,
}

/// What a source tells of a session as a whole.
pub(crate) struct Told {
    pub(crate) key: u64,
    pub(crate) source: i64,
    pub(crate) account: Session,
    pub(crate) messages: u64,
    pub(crate) is_new: bool,
}

/// Which home a source belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) kind: HomeKind,
    pub(crate) host: Option<String>,
}

/// Why a source is to be read on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// There was no more time.
    OutOfTime,
    /// Its program was changing it.
    Unsettled,
}

/// How the reading of a source ended.
pub(crate) struct SourceEnd {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) records: u64,
    pub(crate) raw: u64,
    pub(crate) skipped: BTreeMap<String, u64>,
    /// Whether the counts add to those of an earlier read.
    pub(crate) continued: bool,
    pub(crate) error: Option<String>,
    /// Whether to try again although nothing changed: what hindered may be gone.
    pub(crate) again: bool,
    /// Why the source was not read to its end, and is to be read on although nothing changed.
    pub(crate) pending: Option<Pending>,
    /// The recordings that the source holds, where it was read from its beginning to its end.
    pub(crate) told: Option<Vec<u64>>,
}

impl SourceEnd {
    /// The end of a read that changes nothing of what is known of a source.
    pub(crate) fn kept(checkpoint: Checkpoint) -> Self {
        Self {
            checkpoint,
            records: 0,
            raw: 0,
            skipped: BTreeMap::new(),
            continued: true,
            error: None,
            again: false,
            pending: None,
            told: None,
        }
    }
}

impl Store {
    /// Begins to write.
    pub(crate) fn write(&self) -> Result<Writer<'_>> {
        let generation = self.generation()?;
        let writer = Writer {
            store: self,
            connection: &self.connection,
            path: &self.path,
            touched: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            contested: BTreeSet::new(),
            owners: BTreeSet::new(),
            stale_tokens: BTreeSet::new(),
            new_leaves: HashSet::new(),
            shared_anchors: HashSet::new(),
            incomplete_forks: BTreeSet::new(),
            lister: Lister::default(),
            fresh: HashSet::new(),
            models: HashMap::new(),
            packer: Arc::new(self.packer()?),
            dictionary: None,
            generation,
        };
        writer.begin()?;
        // A newer program may have come while this one had the journal open.
        let found = super::version(&self.connection).map_err(self.error())?;
        if found > super::VERSION {
            let (path, known) = (self.path.clone(), super::VERSION);
            return Err(Error::Newer { path, found, known });
        }
        Ok(writer)
    }
}

impl Writer<'_> {
    fn begin(&self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.error())
    }

    pub(super) fn error(&self) -> impl FnOnce(rusqlite::Error) -> Error {
        Error::store(self.path)
    }

    /// Works out what follows from everything since the last commit, and returns the generation
    /// it will be.
    pub(crate) fn conclude(&mut self) -> Result<i64> {
        if !self.touched.is_empty() {
            self.settle()?;
            self.generation += 1;
            let sql = "UPDATE meta SET value = ?1 WHERE name = 'generation'";
            self.connection.execute(sql, [self.generation]).map_err(self.error())?;
        }
        Ok(self.generation)
    }

    /// Makes everything since the last commit durable.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.conclude()?;
        self.connection.execute_batch("COMMIT").map_err(self.error())?;
        self.begin()
    }

    /// Whoever packs the runs that are to be written.
    pub(crate) fn packer(&self) -> Arc<Packer> {
        Arc::clone(&self.packer)
    }

    /// The generation of the last commit.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns the tellings that were not there before this transaction.
    pub(super) fn fresh_tellings(&self) -> &HashSet<u64> {
        &self.fresh
    }

    /// Hands over the tellings that were new in the last transaction.
    pub(crate) fn take_fresh(&mut self) -> HashSet<u64> {
        std::mem::take(&mut self.fresh)
    }

    /// Hands over the sources of forks that are to be read again.
    pub(crate) fn take_incomplete_forks(&mut self) -> BTreeSet<i64> {
        std::mem::take(&mut self.incomplete_forks)
    }

    /// Notes a source, so that what it tells can refer to it.
    pub(crate) fn source(&self, agent: &str, source: &Source, home: &Place) -> Result<i64> {
        let sql = "INSERT INTO sources (agent, path, size, modified, inode, home, host, reader)
                   VALUES (?1, ?2, -1, ?6, 0, ?3, ?4, ?5) ON CONFLICT (agent, path)
                   DO UPDATE SET present = 1, home = ?3, host = ?4 RETURNING id";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![
            agent,
            PathValue(&source.path),
            home.kind.name(),
            home.host,
            READER_VERSION,
            source.stamp.modified
        ];
        let row = statement.query_row(row, |row| row.get(0));
        row.map_err(self.error())
    }

    /// Records how far a source has been read.
    pub(crate) fn source_end(&mut self, id: i64, source: &Source, end: &SourceEnd) -> Result<()> {
        let skipped = serde_json::to_string(&self.skipped(id, end)?);
        let sql = "UPDATE sources SET size = :size, modified = :modified, inode = :inode,
                   records = :records + iif(:continued, records, 0),
                   raw = :raw + iif(:continued, raw, 0),
                   skipped = :skipped, error = :error, present = 1,
                   reader = iif(:pending, reader, :reader)
                   WHERE id = :id";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement
            .execute(named_params! {
                ":size": if end.again { -1 } else { source.stamp.size as i64 },
                // Its size tells whether what was read may be gone; its time, that there is more.
                ":modified": if end.pending.is_some() { -1 } else { source.stamp.modified },
                ":pending": end.pending.is_some(),
                ":inode": source.stamp.inode as i64,
                ":records": end.records as i64,
                ":raw": end.raw as i64,
                ":continued": end.continued,
                ":skipped": skipped.unwrap_or_default(),
                ":error": end.error,
                ":reader": READER_VERSION,
                ":id": id,
            })
            .map_err(self.error())?;
        if let Some(told) = &end.told {
            self.note_gone(id, told)?;
        }
        self.checkpoint(id, &end.checkpoint)?;
        // Whether a session without messages is shown depends on what was skipped.
        if end.records == 0 && !end.skipped.is_empty() {
            let sessions = self.sessions_of(id)?;
            self.unlisted.extend(sessions);
        }
        Ok(())
    }

    fn sessions_of(&self, source: i64) -> Result<Vec<u64>> {
        let sql = "SELECT session FROM tellings WHERE source = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([source], |row| row.get::<_, i64>(0).map(|key| key as u64));
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Marks the recordings that a source no longer holds; the journal keeps them.
    fn note_gone(&self, source: i64, told: &[u64]) -> Result<()> {
        let sql = "SELECT key, gone FROM tellings WHERE source = ?1 AND combined = 0";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([source], |row| Ok((row.get(0)?, row.get(1)?)));
        let known: Vec<(i64, bool)> = rows.and_then(Iterator::collect).map_err(self.error())?;
        let told: HashSet<i64> = told.iter().map(|key| *key as i64).collect();
        for (key, was_gone) in known {
            let is_gone = !told.contains(&key);
            if is_gone != was_gone {
                let sql = "UPDATE tellings SET gone = ?2 WHERE key = ?1";
                self.connection.execute(sql, params![key, is_gone]).map_err(self.error())?;
            }
        }
        Ok(())
    }

    fn checkpoint(&self, source: i64, checkpoint: &Checkpoint) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO checkpoints
                   (source, read_to, guard, messages, state, seen_to, seen_guard)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
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
        statement.execute(row).map_err(self.error())?;
        Ok(())
    }

    /// Adds the skipped records of a continued read to those of the earlier ones.
    fn skipped(&self, id: i64, end: &SourceEnd) -> Result<BTreeMap<String, u64>> {
        let mut all = end.skipped.clone();
        if end.continued {
            let sql = "SELECT skipped FROM sources WHERE id = ?1";
            let earlier: Option<String> = self
                .connection
                .query_row(sql, [id], |row| row.get(0))
                .optional()
                .map_err(self.error())?;
            let earlier: BTreeMap<String, u64> =
                earlier.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            for (reason, count) in earlier {
                *all.entry(reason).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Marks sources as gone or back again; their sessions stay.
    pub(crate) fn present(&mut self, ids: &[i64], present: bool) -> Result<()> {
        for id in ids {
            let sql = "UPDATE sources SET present = ?2 WHERE id = ?1";
            self.connection.execute(sql, params![id, present]).map_err(self.error())?;
        }
        Ok(())
    }

    /// Records what a source tells of a session as a whole.
    pub(crate) fn telling(&mut self, told: &Told) -> Result<()> {
        let Told { key, source, account, messages, is_new } = told;
        let session = account.id.key();
        let json = serde_json::to_string(account).expect("sessions always serialise");
        let sql = "INSERT INTO tellings (key, source, session, account, messages)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (key) DO UPDATE SET account = ?4, messages = ?5";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![*key as i64, source, session as i64, json, *messages as i64];
        statement.execute(row).map_err(self.error())?;
        self.forget_fingerprint(*key)?;
        self.touched.insert(session);
        self.unlisted.insert(session);
        if *is_new {
            self.fresh.insert(*key);
        }
        self.note_continuation(account, told.source)?;
        for summary in &account.summaries {
            // Of several sessions in whose files it stands one holds it, whichever is read first.
            let sql = "INSERT INTO summaries (leaf, agent, text, holder) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT (leaf, text) DO UPDATE SET holder = ?4
                       WHERE holder IS NULL OR holder > ?4";
            let leaf = xxhash_rust::xxh3::xxh3_64(summary.leaf.as_bytes()) as i64;
            let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
            let new =
                statement.execute(params![leaf, account.id.agent, summary.text, session as i64]);
            if new.map_err(self.error())? > 0 {
                self.new_leaves.insert(leaf);
                self.lister.add(&account.id.agent, (leaf, &summary.text));
            }
        }
        Ok(())
    }

    /// Forgets the messages of a telling from a position on, and its calls from another: they are
    /// about to be told again.
    pub(crate) fn truncate(&mut self, telling: u64, from: u64, calls: u64) -> Result<()> {
        let place = params![telling as i64, from as i64];
        let sql = "DELETE FROM chunks WHERE telling = ?1 AND first >= ?2";
        self.connection
            .prepare_cached(sql)
            .and_then(|mut one| one.execute(place))
            .map_err(self.error())?;
        self.forget_anchors(telling, from)?;
        self.forget_calls(telling, calls..i64::MAX as u64)
    }

    /// Forgets the calls of a telling at some positions.
    pub(super) fn forget_calls(&mut self, telling: u64, positions: Range<u64>) -> Result<()> {
        let sql = "DELETE FROM usage WHERE telling = ?1 AND position >= ?2 AND position < ?3
                   RETURNING identity, owner";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let place = params![telling as i64, positions.start as i64, positions.end as i64];
        let calls = statement
            .query_map(place, |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, i64>(1)?)))
            .map_err(self.error())?;
        for call in calls {
            let (identity, owner) = call.map_err(self.error())?;
            self.contested.insert(identity);
            self.owners.insert(owner as u64);
        }
        Ok(())
    }

    /// Stores a run of messages.
    pub(crate) fn chunk(&mut self, telling: u64, session: u64, chunk: &Chunk) -> Result<()> {
        if let Some(dictionary) = &chunk.dictionary {
            self.dictionary(dictionary)?;
        }
        let sql = "INSERT INTO chunks (telling, first, count, bytes, hashes, uuids, facts, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement
            .execute(params![
                telling as i64,
                chunk.first as i64,
                chunk.count as i64,
                chunk.bytes as i64,
                chunk.hashes,
                chunk.uuids,
                chunk.facts,
                chunk.body
            ])
            .map_err(self.error())?;
        self.note_anchors(telling, chunk)?;
        for row in &chunk.usage {
            self.usage(telling, session, row)?;
        }
        for image in &chunk.images {
            let sql = "INSERT OR IGNORE INTO images (hash, media_type, data) VALUES (?1, ?2, ?3)";
            let row = params![image.hash, image.media_type, image.data];
            self.connection.execute(sql, row).map_err(self.error())?;
        }
        Ok(())
    }

    /// Stores a dictionary, unless it is there.
    pub(super) fn dictionary(&mut self, dictionary: &Dictionary) -> Result<()> {
        if self.dictionary.replace(dictionary.id) != Some(dictionary.id) {
            let sql = "INSERT OR IGNORE INTO dictionaries (id, learnt, sum, bytes, spare)
                       VALUES (?1, ?2, ?3, ?4, ?4)";
            let (id, sum, bytes) = (dictionary.id, dictionary.sum, &dictionary.bytes);
            let row = params![id, self.generation, sum, bytes];
            self.connection.execute(sql, row).map_err(self.error())?;
        }
        Ok(())
    }

    /// The number of a model.
    fn model(&mut self, name: &str) -> Result<i64> {
        if let Some(id) = self.models.get(name) {
            return Ok(*id);
        }
        let sql = "INSERT INTO models (name) VALUES (?1) ON CONFLICT (name)
                   DO UPDATE SET name = name RETURNING id";
        let id = self.connection.query_row(sql, [name], |row| row.get(0)).map_err(self.error())?;
        self.models.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Stores a call. Of several records in one telling the largest output holds.
    pub(super) fn usage(&mut self, telling: u64, session: u64, row: &UsageRow) -> Result<()> {
        // Nearly every call is new: that another record of it counts, the constraint says.
        let mut counted = self.add_call(telling, session, row, true)?;
        if !counted && !self.add_call(telling, session, row, false)? {
            counted = self.repeat_call(telling, row)?;
        }
        self.owners.insert(session);
        if !counted {
            self.contested.insert(row.identity);
        }
        Ok(())
    }

    /// Adds a call, unless the telling has a record of it, or one counts already and this one is
    /// to. A statement that also said what to do then would have SQLite write down, for every row,
    /// how to take it back.
    fn add_call(
        &mut self,
        telling: u64,
        session: u64,
        row: &UsageRow,
        counted: bool,
    ) -> Result<bool> {
        let sql = "INSERT OR IGNORE INTO usage (identity, session, telling, position, at, model,
                   input, output, cache_read, cache_creation, cache_creation_1h, reasoning,
                   cost_micros, since, counted, owner, unrecorded)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?2,
                   ?16)";
        let tokens = &row.usage.tokens;
        let model = row.model.as_deref().map(|name| self.model(name)).transpose()?;
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let added = statement.execute(params![
            row.identity,
            session as i64,
            telling as i64,
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
        Ok(added.map_err(self.error())? > 0)
    }

    /// Notes a further record of a call in its telling; says whether the first is counted.
    fn repeat_call(&self, telling: u64, row: &UsageRow) -> Result<bool> {
        let sql = "UPDATE usage SET repeats = repeats + 1,
                   input = iif(?3 > output, ?4, input),
                   cache_read = iif(?3 > output, ?5, cache_read),
                   cache_creation = iif(?3 > output, ?6, cache_creation),
                   cache_creation_1h = iif(?3 > output, ?7, cache_creation_1h),
                   reasoning = iif(?3 > output, ?8, reasoning),
                   output = max(?3, output)
                   WHERE identity = ?1 AND telling = ?2 RETURNING counted";
        let tokens = &row.usage.tokens;
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let values = params![
            row.identity,
            telling as i64,
            tokens.output as i64,
            tokens.input as i64,
            tokens.cache_read as i64,
            tokens.cache_creation as i64,
            row.usage.cache_creation_1h as i64,
            tokens.reasoning.map(|n| n as i64),
        ];
        statement.query_row(values, |row| row.get(0)).map_err(self.error())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // After an error the transaction may be gone already.
        let _ = self.connection.execute_batch("ROLLBACK");
    }
}

/// A path as SQLite keeps it: text, or bytes when it is not UTF-8.
pub(super) struct PathValue<'p>(pub(super) &'p Path);

impl ToSql for PathValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0.to_str() {
            Some(text) => ToSqlOutput::from(text),
            None => ToSqlOutput::from(self.0.as_os_str().as_encoded_bytes()),
        })
    }
}
