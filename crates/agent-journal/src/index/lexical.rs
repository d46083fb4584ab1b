//! The inverted index, in Tantivy.

use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tantivy::columnar::{Column, ColumnIndex, ColumnValues};
use tantivy::indexer::{
    IndexWriter, LogMergePolicy, MergeCandidate, MergePolicy, PreparedCommit, UserOperation,
};
use tantivy::query::{BooleanQuery, Occur, Query, RangeQuery, TermQuery};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, OwnedValue, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::{
    Document, Index, IndexReader, IndexSettings, ReloadPolicy, Searcher, SegmentMeta,
    SegmentReader, TantivyError, Term,
};

use super::backlog::{Backlog, Taking};
use super::directory::{IndexDirectory, META, WriteFailure, delete_leftovers};
use super::guard::{guarded, writing};
use super::{Passage, PassageFingerprint, RankKey};
use crate::error::{Error, Result};

/// The version of the tokenizer and fields; an index with another version is rebuilt.
const VERSION: u32 = 7;

const TOKENIZER: &str = "code";

/// The marker file that exists while an index is written.
const MARK: &str = "writing";

/// The number of passages submitted at once: as many as tantivy keeps together. Tantivy limits the
/// number of queued batches, and its limit is too low for batches of one passage.
const SHEAF: usize = 4;

/// The position of texts about a whole session.
const WHOLE: u64 = u32::MAX as u64;

/// The data stored with a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Payload {
    version: u32,
    /// The id of the journal it was built from.
    journal: i64,
    /// The last change of that journal it contains.
    pub(crate) generation: i64,
}

#[derive(Clone, Copy)]
struct IndexFields {
    body: Field,
    recording: Field,
    position: Field,
    traits: Field,
    likeness: Field,
    at: Field,
}

/// The index, open for searching.
#[derive(Clone)]
pub(crate) struct Lexical {
    reader: IndexReader,
    fields: IndexFields,
}

/// The index, open for writing. Readers see nothing before a commit.
pub(crate) struct LexicalWriter {
    writer: IndexWriter<IndexRow>,
    fields: IndexFields,
    path: PathBuf,
    journal: i64,
    /// Passages that are not submitted yet.
    batch: Mutex<RowBatch>,
    backlog: Arc<Backlog>,
    failure: WriteFailure,
}

/// Passages that are submitted together.
type RowBatch = Vec<UserOperation<IndexRow>>;

/// A passage to be indexed. Tantivy's own document type would copy the text once more and allocate
/// room for it twice.
struct IndexRow(Box<[(Field, OwnedValue)]>);

impl Document for IndexRow {
    type Value<'a> = &'a OwnedValue;
    type FieldsValuesIter<'a> = Values<'a>;

    fn iter_fields_and_values(&self) -> Values<'_> {
        Values(self.0.iter())
    }
}

/// An iterator over the values of a document.
struct Values<'a>(std::slice::Iter<'a, (Field, OwnedValue)>);

impl<'a> Iterator for Values<'a> {
    type Item = (Field, &'a OwnedValue);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(field, value)| (*field, value))
    }
}

/// A commit that is written and not visible yet.
pub(crate) struct PreparedLexical<'w> {
    commit: PreparedCommit<'w, IndexRow>,
    path: &'w Path,
    journal: i64,
    failure: &'w WriteFailure,
}

/// A passage with its recording, position and time.
pub(crate) struct StampedPassage<'a> {
    pub(crate) recording: u64,
    pub(crate) position: Option<u64>,
    pub(crate) at: i64,
    pub(crate) passage: Passage<'a>,
}

/// The columns that a collector reads.
pub(crate) struct PassageColumns {
    pub(crate) recording: Arc<dyn ColumnValues<u64>>,
    pub(crate) position: Arc<dyn ColumnValues<u64>>,
    pub(crate) traits: Arc<dyn ColumnValues<u64>>,
    pub(crate) likeness: Arc<dyn ColumnValues<u64>>,
    pub(crate) at: Arc<dyn ColumnValues<i64>>,
}

/// Returns the values of a column without a presence check per value: every document has one.
fn values<T>(column: Column<T>) -> Arc<dyn ColumnValues<T>>
where
    T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + Default + 'static,
{
    match column.index {
        ColumnIndex::Full => column.values,
        _ => column.first_or_default_col(T::default()),
    }
}

/// A merge policy that merges small segments only, until there are too many segments.
#[derive(Debug)]
struct SmallMergePolicy(LogMergePolicy);

/// The maximum size of a merge that may follow every small commit, in passages.
const LITTLE: u32 = 128;

/// The maximum number of segments: with more, searches become noticeably slower.
const TOO_MANY: usize = 24;

impl Default for SmallMergePolicy {
    fn default() -> Self {
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(6);
        policy.set_min_layer_size(16);
        policy.set_level_log_size(2.0);
        Self(policy)
    }
}

impl MergePolicy for SmallMergePolicy {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        let mut candidates = self.0.compute_merge_candidates(segments);
        if segments.len() <= TOO_MANY {
            let docs = |candidate: &MergeCandidate| -> u32 {
                let merged = segments.iter().filter(|one| candidate.0.contains(&one.id()));
                merged.map(SegmentMeta::num_docs).sum()
            };
            candidates.retain(|candidate| docs(candidate) <= LITTLE);
        }
        candidates
    }
}

fn schema() -> (Schema, IndexFields) {
    let mut builder = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let fields = IndexFields {
        body: builder.add_text_field("body", TextOptions::default().set_indexing_options(indexing)),
        recording: builder.add_u64_field("recording", INDEXED | FAST),
        position: builder.add_u64_field("position", FAST),
        traits: builder.add_u64_field("traits", FAST),
        likeness: builder.add_u64_field("likeness", FAST),
        at: builder.add_i64_field("at", FAST),
    };
    (builder.build(), fields)
}

/// An opened index.
struct OpenIndex {
    index: Index,
    fields: IndexFields,
    payload: Payload,
    failure: WriteFailure,
}

/// Opens an index of this version and journal; returns `None` when there is none.
fn open(path: &Path, journal: i64) -> Option<OpenIndex> {
    let directory = IndexDirectory::open(path).ok()?;
    let failure = directory.failure();
    let index = Index::open(directory).ok()?;
    let (wanted, fields) = schema();
    if index.schema() != wanted {
        return None;
    }
    let payload = index.load_metas().ok()?.payload?;
    let payload: Payload = serde_json::from_str(&payload).ok()?;
    if !payload.fits(journal) {
        return None;
    }
    Some(OpenIndex { index, fields, payload, failure })
}

/// Returns whether an index can be written to. If its last writer was interrupted, the checksums
/// are verified: a damaged file may have been the reason.
fn is_whole(index: &Index, path: &Path) -> bool {
    let compared = || index.validate_checksum().is_ok_and(|damaged| damaged.is_empty());
    !path.join(MARK).exists() || guarded(compared).unwrap_or(false)
}

/// Returns the error of a writer: the write error of the operating system if there is one,
/// otherwise tantivy's.
fn write_error<'e>(
    path: &'e Path,
    failure: &'e WriteFailure,
) -> impl FnOnce(TantivyError) -> Error + 'e {
    move |error| match failure.cause() {
        Some(cause) => Error::write_error(path)(cause),
        None => Error::index_error(path)(error),
    }
}

#[expect(clippy::disallowed_methods, reason = "the index owns its files")]
fn mark(path: &Path, is_open: bool) -> Result<()> {
    let mark = path.join(MARK);
    let done = if is_open { fs::write(&mark, "") } else { fs::remove_file(&mark) };
    done.map_err(Error::write_error(&mark))
}

impl Payload {
    /// Returns whether an index with this payload belongs to a journal.
    fn fits(self, journal: i64) -> bool {
        self.version == VERSION && self.journal == journal
    }
}

impl Lexical {
    /// Opens the index for searching; returns `None` when it must be rebuilt.
    pub(crate) fn open(path: &Path, journal: i64) -> Option<Self> {
        let OpenIndex { index, fields, .. } = open(path, journal)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
        let reader = reader.num_warming_threads(0).try_into().ok()?;
        Some(Self { reader, fields })
    }

    /// Returns the last change of the journal in the index without opening the index; `None` when
    /// it must be rebuilt.
    pub(crate) fn generation(path: &Path, journal: i64) -> Option<i64> {
        #[derive(Deserialize)]
        struct Meta {
            payload: Option<String>,
        }
        let meta: Meta = serde_json::from_slice(&fs::read(path.join(META)).ok()?).ok()?;
        let payload: Payload = serde_json::from_str(&meta.payload?).ok()?;
        payload.fits(journal).then_some(payload.generation)
    }

    pub(crate) fn searcher(&self) -> Searcher {
        self.reader.searcher()
    }

    /// Returns the field that holds all text.
    pub(crate) fn body(&self) -> Field {
        self.fields.body
    }

    /// Returns the field with the recording of each passage.
    pub(crate) fn recording(&self) -> Field {
        self.fields.recording
    }
}

impl PreparedLexical<'_> {
    /// Makes the written data visible, as of a generation of the journal.
    pub(crate) fn commit(self, generation: i64) -> Result<()> {
        let Self { mut commit, path, journal, failure } = self;
        let payload = Payload { version: VERSION, journal, generation };
        commit.set_payload(&serde_json::to_string(&payload).expect("numbers serialise"));
        commit.commit().map(drop).map_err(write_error(path, failure))
    }
}

impl PassageColumns {
    pub(crate) fn of(segment: &SegmentReader) -> tantivy::Result<Self> {
        let fast = segment.fast_fields();
        Ok(Self {
            recording: values(fast.u64("recording")?),
            position: values(fast.u64("position")?),
            traits: values(fast.u64("traits")?),
            likeness: values(fast.u64("likeness")?),
            at: values(fast.i64("at")?),
        })
    }

    /// Returns the position of a message in its recording; `None` for a text about the whole
    /// session.
    pub(crate) fn place(position: u64) -> Option<u64> {
        (position != WHOLE).then_some(position)
    }
}

impl LexicalWriter {
    /// Opens the index for writing, and rebuilds it when it is missing, damaged or of another
    /// version. Returns the generation it contains.
    pub(crate) fn open(path: &Path, journal: i64, memory: usize) -> Result<(Self, i64)> {
        if let Some(opened) = open(path, journal)
            && is_whole(&opened.index, path)
        {
            let generation = opened.payload.generation;
            match Self::with(opened, path, memory) {
                Ok(writer) => return Ok((writer, generation)),
                // An index that cannot be written now can still be searched.
                Err(error) if !matches!(error, Error::Index { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        Self::discard(path)?;
        crate::private::private_directory(path)?;
        let (schema, fields) = schema();
        let directory = IndexDirectory::open(path).map_err(Error::index_error(path))?;
        let failure = directory.failure();
        let index = Index::create(directory, schema, IndexSettings::default())
            .map_err(write_error(path, &failure))?;
        let payload = Payload { version: VERSION, journal, generation: 0 };
        let opened = OpenIndex { index, fields, payload, failure };
        Ok((Self::with(opened, path, memory)?, 0))
    }

    /// Deletes all passages; readers are unaffected until the next commit.
    pub(crate) fn clear(&self) -> Result<()> {
        self.writer.delete_all_documents().map(drop).map_err(self.error())
    }

    /// Deletes the index.
    #[expect(clippy::disallowed_methods, reason = "the index owns its files")]
    pub(crate) fn discard(path: &Path) -> Result<()> {
        // The list of segments goes first: without it, a partly deleted index does not count as
        // one.
        match fs::remove_file(path.join(META)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::write_error(path)(error));
            }
            _ => {}
        }
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::write_error(path)(error))
            }
            _ => Ok(()),
        }
    }

    fn with(opened: OpenIndex, path: &Path, memory: usize) -> Result<Self> {
        let OpenIndex { index, fields, payload, failure } = opened;
        let journal = payload.journal;
        let backlog = Arc::new(Backlog::default());
        index.tokenizers().register(TOKENIZER, Taking(Arc::clone(&backlog)));
        let writer = index.writer_with_num_threads(1, memory);
        let writer = writer.map_err(write_error(path, &failure))?;
        delete_leftovers(&index, path, MARK).map_err(write_error(path, &failure))?;
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(6);
        writer.set_merge_policy(Box::new(policy));
        writing(path);
        mark(path, true)?;
        let (path, batch) = (path.to_owned(), Mutex::default());
        Ok(Self { writer, fields, path, journal, batch, backlog, failure })
    }

    /// Defers merges that would write much more than the new data.
    pub(crate) fn merge_little(&self) {
        self.writer.set_merge_policy(Box::new(SmallMergePolicy::default()));
    }

    fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        write_error(&self.path, &self.failure)
    }

    /// Adds a passage; waits while too many bytes are queued.
    pub(crate) fn add(&self, stamped: &StampedPassage<'_>) -> Result<()> {
        let fields = self.fields;
        let StampedPassage { recording, position, at, passage } = stamped;
        let position = position.unwrap_or(WHOLE).min(WHOLE);
        let number = OwnedValue::U64;
        let row = IndexRow(Box::new([
            (fields.body, OwnedValue::Str(passage.text.to_owned())),
            (fields.recording, number(*recording)),
            (fields.position, number(position)),
            (fields.traits, number(RankKey::of(passage, position, *at).pack())),
            (fields.likeness, number(PassageFingerprint::of(passage).pack())),
            (fields.at, OwnedValue::I64(*at)),
        ]));
        self.backlog.put(passage.text.len());
        let mut batch = self.batch();
        batch.push(UserOperation::Add(row));
        if batch.len() == SHEAF { self.hand_over(&mut batch) } else { Ok(()) }
    }

    fn batch(&self) -> MutexGuard<'_, RowBatch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits passages to tantivy, in the order in which they were added.
    fn hand_over(&self, batch: &mut RowBatch) -> Result<()> {
        self.writer.run(batch.drain(..)).map(drop).map_err(self.error())
    }

    /// Lets other threads continue: this thread adds nothing more for now.
    pub(crate) fn rest(&self) {
        self.backlog.leave();
    }

    /// Removes a recording completely.
    pub(crate) fn remove(&self, recording: u64) -> Result<()> {
        self.hand_over(&mut self.batch())?;
        self.writer.delete_term(Term::from_field_u64(self.fields.recording, recording));
        Ok(())
    }

    /// Removes the messages of a recording from a position on.
    pub(crate) fn truncate(&self, recording: u64, from: u64) -> Result<()> {
        self.remove_where(recording, self.fields.position, from..WHOLE)
    }

    /// Removes the texts about a whole recording.
    pub(crate) fn remove_whole(&self, recording: u64) -> Result<()> {
        self.remove_where(recording, self.fields.position, WHOLE..u64::MAX)
    }

    fn remove_where(
        &self,
        recording: u64,
        field: Field,
        range: std::ops::Range<u64>,
    ) -> Result<()> {
        self.hand_over(&mut self.batch())?;
        let term = Term::from_field_u64(self.fields.recording, recording);
        let of_recording = TermQuery::new(term, IndexRecordOption::Basic);
        let bound = |value| Term::from_field_u64(field, value);
        let in_range =
            RangeQuery::new(Bound::Included(bound(range.start)), Bound::Excluded(bound(range.end)));
        let both: Vec<(Occur, Box<dyn Query>)> =
            vec![(Occur::Must, Box::new(of_recording)), (Occur::Must, Box::new(in_range))];
        let query = Box::new(BooleanQuery::new(both));
        self.writer.delete_query(query).map_err(self.error())?;
        Ok(())
    }

    /// Writes everything since the last commit.
    pub(crate) fn prepare(&mut self) -> Result<PreparedLexical<'_>> {
        self.hand_over(&mut self.batch())?;
        let Self { writer, path, journal, failure, .. } = self;
        let commit = writer.prepare_commit().map_err(write_error(path, failure))?;
        Ok(PreparedLexical { commit, path, journal: *journal, failure })
    }

    /// Waits for running merges.
    pub(crate) fn close(self) -> Result<()> {
        let Self { writer, path, failure, .. } = self;
        writer.wait_merging_threads().map_err(write_error(&path, &failure))?;
        mark(&path, false)
    }
}
