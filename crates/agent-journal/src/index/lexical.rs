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
use super::{Likeness, Passage, Traits};
use crate::error::{Error, Result};

/// Another version of the tokenizer or of the fields makes another index.
const VERSION: u32 = 6;

const TOKENIZER: &str = "code";

/// The file that stands beside an index while it is written.
const MARK: &str = "writing";

/// How many passages are handed over in one piece: as many as the engine keeps together. The
/// pieces it lets wait are counted, and too few of one passage each.
const SHEAF: usize = 4;

/// Position of texts that are about a session as a whole.
const WHOLE: u64 = u32::MAX as u64;

/// What a commit says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Payload {
    version: u32,
    /// The journal it was made from.
    journal: i64,
    /// The last change of that journal it holds.
    pub(crate) generation: i64,
}

#[derive(Clone, Copy)]
struct Fields {
    body: Field,
    telling: Field,
    position: Field,
    traits: Field,
    likeness: Field,
    at: Field,
}

/// The index, open for searching.
#[derive(Clone)]
pub(crate) struct Lexical {
    reader: IndexReader,
    fields: Fields,
}

/// The index, open for writing. Readers see nothing before a commit.
pub(crate) struct LexicalWriter {
    writer: IndexWriter<Row>,
    fields: Fields,
    path: PathBuf,
    journal: i64,
    /// Passages that are yet to be handed over.
    sheaf: Mutex<Sheaf>,
    backlog: Arc<Backlog>,
    failure: WriteFailure,
}

/// Passages that are handed over together.
type Sheaf = Vec<UserOperation<Row>>;

/// A passage on its way into the index. What the engine would make of one by itself copies the
/// text once more and has room for it twice.
struct Row(Box<[(Field, OwnedValue)]>);

impl Document for Row {
    type Value<'a> = &'a OwnedValue;
    type FieldsValuesIter<'a> = Values<'a>;

    fn iter_fields_and_values(&self) -> Values<'_> {
        Values(self.0.iter())
    }
}

/// The values of a row.
struct Values<'a>(std::slice::Iter<'a, (Field, OwnedValue)>);

impl<'a> Iterator for Values<'a> {
    type Item = (Field, &'a OwnedValue);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(field, value)| (*field, value))
    }
}

/// What was written and is not visible yet.
pub(crate) struct PreparedLexical<'w> {
    commit: PreparedCommit<'w, Row>,
    path: &'w Path,
    journal: i64,
    failure: &'w WriteFailure,
}

/// A passage with its place.
pub(crate) struct Stamped<'a> {
    pub(crate) telling: u64,
    pub(crate) position: Option<u64>,
    pub(crate) at: i64,
    pub(crate) passage: Passage<'a>,
}

/// The columns a collector reads.
pub(crate) struct Columns {
    pub(crate) telling: Arc<dyn ColumnValues<u64>>,
    pub(crate) position: Arc<dyn ColumnValues<u64>>,
    pub(crate) traits: Arc<dyn ColumnValues<u64>>,
    pub(crate) likeness: Arc<dyn ColumnValues<u64>>,
    pub(crate) at: Arc<dyn ColumnValues<i64>>,
}

/// The values of a column, without asking at each whether it is there: every document has one.
fn values<T>(column: Column<T>) -> Arc<dyn ColumnValues<T>>
where
    T: PartialOrd + Copy + std::fmt::Debug + Send + Sync + Default + 'static,
{
    match column.index {
        ColumnIndex::Full => column.values,
        _ => column.first_or_default_col(T::default()),
    }
}

/// Merges small segments only, until there are too many of any size.
#[derive(Debug)]
struct Little(LogMergePolicy);

/// The largest result of a merge that may follow every small commit, in passages.
const LITTLE: u32 = 128;

/// With more segments than this a search would feel them.
const TOO_MANY: usize = 24;

impl Default for Little {
    fn default() -> Self {
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(6);
        policy.set_min_layer_size(16);
        policy.set_level_log_size(2.0);
        Self(policy)
    }
}

impl MergePolicy for Little {
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

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let fields = Fields {
        body: builder.add_text_field("body", TextOptions::default().set_indexing_options(indexing)),
        telling: builder.add_u64_field("telling", INDEXED | FAST),
        position: builder.add_u64_field("position", FAST),
        traits: builder.add_u64_field("traits", FAST),
        likeness: builder.add_u64_field("likeness", FAST),
        at: builder.add_i64_field("at", FAST),
    };
    (builder.build(), fields)
}

/// An index that was opened.
struct OpenIndex {
    index: Index,
    fields: Fields,
    payload: Payload,
    failure: WriteFailure,
}

/// Opens an index of this version and this journal; `None` when there is none.
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

/// Returns whether an index can be written to. If its last writer was interrupted, the files are
/// compared with their sums: a damaged file may have been the reason.
fn is_whole(index: &Index, path: &Path) -> bool {
    let compared = || index.validate_checksum().is_ok_and(|damaged| damaged.is_empty());
    !path.join(MARK).exists() || guarded(compared).unwrap_or(false)
}

/// Returns the error of a writer: what the system refused to write, or else what the engine says.
fn write_error<'e>(
    path: &'e Path,
    failure: &'e WriteFailure,
) -> impl FnOnce(TantivyError) -> Error + 'e {
    move |error| match failure.cause() {
        Some(cause) => Error::write(path)(cause),
        None => Error::index(path)(error),
    }
}

#[expect(clippy::disallowed_methods, reason = "the index owns its files")]
fn mark(path: &Path, is_open: bool) -> Result<()> {
    let mark = path.join(MARK);
    let done = if is_open { fs::write(&mark, "") } else { fs::remove_file(&mark) };
    done.map_err(Error::write(&mark))
}

impl Payload {
    /// Whether an index of this payload can serve a journal.
    fn fits(self, journal: i64) -> bool {
        self.version == VERSION && self.journal == journal
    }
}

impl Lexical {
    /// Opens the index for searching; `None` when it must be made anew.
    pub(crate) fn open(path: &Path, journal: i64) -> Option<Self> {
        let OpenIndex { index, fields, .. } = open(path, journal)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
        let reader = reader.num_warming_threads(0).try_into().ok()?;
        Some(Self { reader, fields })
    }

    /// The last change of the journal that can be found, told without opening the index; `None`
    /// when it must be made anew.
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

    /// The field all text is in.
    pub(crate) fn body(&self) -> Field {
        self.fields.body
    }
}

impl PreparedLexical<'_> {
    /// Makes what was written visible, as of a generation of the journal.
    pub(crate) fn commit(self, generation: i64) -> Result<()> {
        let Self { mut commit, path, journal, failure } = self;
        let payload = Payload { version: VERSION, journal, generation };
        commit.set_payload(&serde_json::to_string(&payload).expect("numbers serialise"));
        commit.commit().map(drop).map_err(write_error(path, failure))
    }
}

impl Columns {
    pub(crate) fn of(segment: &SegmentReader) -> tantivy::Result<Self> {
        let fast = segment.fast_fields();
        Ok(Self {
            telling: values(fast.u64("telling")?),
            position: values(fast.u64("position")?),
            traits: values(fast.u64("traits")?),
            likeness: values(fast.u64("likeness")?),
            at: values(fast.i64("at")?),
        })
    }

    /// Where a document with this position stands in its telling; none for what is about the
    /// session as a whole.
    pub(crate) fn place(position: u64) -> Option<u64> {
        (position != WHOLE).then_some(position)
    }
}

impl LexicalWriter {
    /// Opens the index for writing, making it anew when it is missing, damaged or of another
    /// version; says which generation it holds.
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
        crate::store::private_directory(path)?;
        let (schema, fields) = schema();
        let directory = IndexDirectory::open(path).map_err(Error::index(path))?;
        let failure = directory.failure();
        let index = Index::create(directory, schema, IndexSettings::default())
            .map_err(write_error(path, &failure))?;
        let payload = Payload { version: VERSION, journal, generation: 0 };
        let opened = OpenIndex { index, fields, payload, failure };
        Ok((Self::with(opened, path, memory)?, 0))
    }

    /// Forgets everything; readers see what they saw until the next commit.
    pub(crate) fn clear(&self) -> Result<()> {
        self.writer.delete_all_documents().map(drop).map_err(self.error())
    }

    /// Deletes the index.
    #[expect(clippy::disallowed_methods, reason = "the index owns its files")]
    pub(crate) fn discard(path: &Path) -> Result<()> {
        // First the list of segments: without it, an index that is half deleted is none.
        match fs::remove_file(path.join(META)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::write(path)(error));
            }
            _ => {}
        }
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path)(error)),
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
        let (path, sheaf) = (path.to_owned(), Mutex::default());
        Ok(Self { writer, fields, path, journal, sheaf, backlog, failure })
    }

    /// Puts off what would write much more than what is new.
    pub(crate) fn merge_little(&self) {
        self.writer.set_merge_policy(Box::new(Little::default()));
    }

    fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        write_error(&self.path, &self.failure)
    }

    /// Adds a passage; waits while the engine has enough to do.
    pub(crate) fn add(&self, stamped: &Stamped<'_>) -> Result<()> {
        let fields = self.fields;
        let Stamped { telling, position, at, passage } = stamped;
        let position = position.unwrap_or(WHOLE).min(WHOLE);
        let number = OwnedValue::U64;
        let row = Row(Box::new([
            (fields.body, OwnedValue::Str(passage.text.to_owned())),
            (fields.telling, number(*telling)),
            (fields.position, number(position)),
            (fields.traits, number(Traits::of(passage, position, *at).pack())),
            (fields.likeness, number(Likeness::of(passage).pack())),
            (fields.at, OwnedValue::I64(*at)),
        ]));
        self.backlog.put(passage.text.len());
        let mut sheaf = self.sheaf();
        sheaf.push(UserOperation::Add(row));
        if sheaf.len() == SHEAF { self.hand_over(&mut sheaf) } else { Ok(()) }
    }

    fn sheaf(&self) -> MutexGuard<'_, Sheaf> {
        self.sheaf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands passages over to the engine, in the order in which they were added.
    fn hand_over(&self, sheaf: &mut Sheaf) -> Result<()> {
        self.writer.run(sheaf.drain(..)).map(drop).map_err(self.error())
    }

    /// Notes that this thread adds nothing more for now.
    pub(crate) fn rest(&self) {
        self.backlog.leave();
    }

    /// Forgets a telling as a whole.
    pub(crate) fn remove(&self, telling: u64) -> Result<()> {
        self.hand_over(&mut self.sheaf())?;
        self.writer.delete_term(Term::from_field_u64(self.fields.telling, telling));
        Ok(())
    }

    /// Forgets the messages of a telling from a position on.
    pub(crate) fn truncate(&self, telling: u64, from: u64) -> Result<()> {
        self.remove_where(telling, self.fields.position, from..WHOLE)
    }

    /// Forgets what is about a telling as a whole.
    pub(crate) fn remove_whole(&self, telling: u64) -> Result<()> {
        self.remove_where(telling, self.fields.position, WHOLE..u64::MAX)
    }

    fn remove_where(&self, telling: u64, field: Field, range: std::ops::Range<u64>) -> Result<()> {
        self.hand_over(&mut self.sheaf())?;
        let term = Term::from_field_u64(self.fields.telling, telling);
        let of_telling = TermQuery::new(term, IndexRecordOption::Basic);
        let bound = |value| Term::from_field_u64(field, value);
        let in_range =
            RangeQuery::new(Bound::Included(bound(range.start)), Bound::Excluded(bound(range.end)));
        let both: Vec<(Occur, Box<dyn Query>)> =
            vec![(Occur::Must, Box::new(of_telling)), (Occur::Must, Box::new(in_range))];
        let query = Box::new(BooleanQuery::new(both));
        self.writer.delete_query(query).map_err(self.error())?;
        Ok(())
    }

    /// Writes everything since the last commit.
    pub(crate) fn prepare(&mut self) -> Result<PreparedLexical<'_>> {
        self.hand_over(&mut self.sheaf())?;
        let Self { writer, path, journal, failure, .. } = self;
        let commit = writer.prepare_commit().map_err(write_error(path, failure))?;
        Ok(PreparedLexical { commit, path, journal: *journal, failure })
    }

    /// Waits for merges that are under way.
    pub(crate) fn close(self) -> Result<()> {
        let Self { writer, path, failure, .. } = self;
        writer.wait_merging_threads().map_err(write_error(&path, &failure))?;
        mark(&path, false)
    }
}
