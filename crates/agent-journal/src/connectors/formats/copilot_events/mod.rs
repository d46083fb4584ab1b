//! The event log of GitHub's Copilot runtime: one JSON event a line, append-only. Several
//! programs that embed the runtime write it, so the session is begun by the caller.
//!
//! Odd: `parentId` names the event before, written or not, so many parents are missing and the
//! order of the file holds unless the chain is complete; a call of a tool is told three times
//! (request, start, completion); tokens stand in up to three records; crashes leave NULs, half a line before a whole one, and events cut by raw newlines.

mod about;
mod event;
mod order;
mod tell;
mod tools;
mod usage;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::event::Event;
use self::order::RecentEvents;
use self::usage::CallState;
use super::json;
use super::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Message, Session, TitleRank};

/// How every event begins: where one starts inside a damaged line.
const HEAD: &[u8] = br#"{"type":""#;

/// An event cut by more raw newlines than this is given up.
const MAX_PIECES: usize = 256;

/// An event cut into more bytes than this is given up.
const MAX_BROKEN: usize = 4 << 20;

/// More beginnings than this in one damaged line are text that speaks of events.
const MAX_HEADS: usize = 16;

/// Names a call for log and store, which know no common id of it: it is the session's n-th call
/// that wrote so many tokens.
pub fn call_identity(native: &str, output: u64, count: u64) -> String {
    format!("{native} {output}#{count}")
}

pub use self::tools::{is_beginning, typed};

/// The name of a summary among the documents of a session.
const SUMMARY: &str = "summary in workspace.yaml";

/// Reads a log from a checkpoint on. `session` is what the caller knows: at least the agent and
/// an id, which the log's first event may correct.
pub fn read(
    path: &Path,
    start: Checkpoint,
    session: Session,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    if start.offset == 0
        && let Some(offsets) = order::chain_order(path)?
    {
        return read_in_order(path, &offsets, session, sink);
    }
    let mut reader = Reader::new(start, session, sink);
    let mut lines = Lines::open(path, reader.end)?;
    while let Some(line) = lines.next()? {
        if line.end == End::File && reader.mark.is_none() {
            reader.mark = Some(reader.mark_at(line.offset));
        }
        let is_whole = line.end != End::File;
        reader.line(&line)?;
        if is_whole {
            reader.end = lines.offset();
            // A line that raw newlines have cut is told when the rest of it is there.
            if reader.broken.is_none() && reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish(path)
}

/// Reads the events of a log in another order than the file's. A later read begins anew: what is
/// appended may stand anywhere in that order.
fn read_in_order(
    path: &Path,
    offsets: &[u64],
    session: Session,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = Reader::new(Checkpoint::default(), session, sink);
    let mut lines = Lines::open(path, 0)?;
    for offset in offsets {
        if lines.offset() != *offset {
            lines = Lines::open(path, *offset)?;
        }
        let Some(line) = lines.next()? else { break };
        reader.line(&line)?;
    }
    reader.finish(path)?;
    Ok(Checkpoint::default())
}

struct Reader<'s> {
    sink: &'s mut dyn Sink,
    /// What this read knows about the session.
    session: Session,
    is_session_told: bool,
    /// Whether an earlier read told the beginning.
    is_continued: bool,
    files: HashSet<String>,
    state: State,
    told: u64,
    /// An event that raw newlines have cut, as far as it was read.
    broken: Option<Broken>,
    /// Where a later read goes on, when that is before the end.
    mark: Option<Mark>,
    /// End of the last line that was written whole.
    end: u64,
}

struct Broken {
    offset: u64,
    bytes: Vec<u8>,
    pieces: usize,
}

struct Mark {
    offset: u64,
    told: u64,
    state: State,
}

/// What the events before a checkpoint mean for those after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// The session's id.
    native: String,
    /// Where the log says that the agent worked: first directory, repository and root,
    /// latest branch.
    cwd: Option<String>,
    repository: Option<String>,
    root: Option<String>,
    branch: Option<String>,
    /// The model at work, by the call that started it; the main agent's under "".
    models: BTreeMap<String, String>,
    /// Calls that were told and not answered yet.
    pending: Vec<String>,
    /// An answer whose calls have not all begun: how they begin says more about them.
    open: Option<Box<Message>>,
    /// What was learnt of a call after its answer was told.
    late: BTreeMap<String, Extensions>,
    /// Calls that were left out, so that their results are too.
    ignored: Vec<String>,
    /// The beginning of the first prompt.
    first_prompt: Option<String>,
    /// A folder that the user trusted: older logs name the directory nowhere else.
    trusted: Option<String>,
    /// The turn at work, by the call that started its agent.
    turns: BTreeMap<String, String>,
    /// The last events.
    recent: RecentEvents,
    /// What is known of the calls of models.
    calls: CallState,
}

impl<'s> Reader<'s> {
    fn new(start: Checkpoint, session: Session, sink: &'s mut dyn Sink) -> Self {
        let Checkpoint { offset, messages, state, .. } = start;
        let state: State = serde_json::from_slice(&state).unwrap_or_default();
        let mut reader = Self {
            sink,
            files: session.files.iter().cloned().collect(),
            session,
            is_session_told: false,
            is_continued: offset > 0,
            state,
            told: messages,
            broken: None,
            mark: None,
            end: offset,
        };
        if reader.state.native.is_empty() {
            reader.state.native.clone_from(&reader.session.id.native);
        } else {
            reader.session.id.native.clone_from(&reader.state.native);
        }
        reader.place();
        reader
    }

    /// What the log says of the session's place goes before what the caller knew.
    fn place(&mut self) {
        let (state, session) = (&self.state, &mut self.session);
        let places = [
            (&state.cwd, &mut session.cwd),
            (&state.repository, &mut session.repository),
            (&state.root, &mut session.root),
            (&state.branch, &mut session.branch),
        ];
        for (said, known) in places {
            if said.is_some() {
                known.clone_from(said);
            }
        }
    }

    fn mark_at(&self, offset: u64) -> Mark {
        Mark { offset, told: self.told, state: self.state.clone() }
    }

    fn finish(mut self, path: &Path) -> Result<Checkpoint> {
        if let Some(broken) = self.broken.take() {
            self.sink.accept(Record::bad(broken.offset, "not a JSON object"))?;
        }
        // An answer that is still open, or a call whose answer has not come, is told now, and by
        // the next read again.
        let mark = self.mark.take();
        let Mark { offset, told, state } = mark.unwrap_or_else(|| self.mark_at(self.end));
        self.close()?;
        self.tell_unclaimed()?;
        if self.session.cwd.is_none() {
            self.session.cwd.clone_from(&self.state.trusted);
        }
        self.add_summary();
        self.tell_session()?;
        Ok(Checkpoint {
            offset,
            guard: jsonl::guard(path, offset)?,
            messages: told,
            state: serde_json::to_vec(&state).expect("strings and numbers serialise"),
            ..Checkpoint::default()
        })
    }

    /// Adds the summary that the caller knows, unless it is only the first prompt or a title:
    /// behind a better title it would be neither shown nor found.
    fn add_summary(&mut self) {
        let titles = &self.session.titles;
        let summary = titles.iter().find(|title| title.rank == TitleRank::Summary);
        let Some(summary) = summary.map(|title| title.text.clone()) else { return };
        let prompt = self.state.first_prompt.as_deref();
        let is_title = titles
            .iter()
            .any(|title| title.rank < TitleRank::Summary && is_beginning(&summary, &title.text));
        if !is_title && !prompt.is_some_and(|prompt| is_beginning(&summary, prompt)) {
            self.session.documents.push((SUMMARY.to_owned(), summary));
        }
    }

    fn line(&mut self, line: &jsonl::Line<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept(Record::bad(line.offset, LINE_TOO_LONG));
        }
        if let Some(broken) = self.broken.take()
            && !self.mend_broken(broken, line)?
        {
            return Ok(());
        }
        if jsonl::is_blank(line.bytes) {
            return Ok(());
        }
        if self.event(line.bytes, line.offset)? {
            return Ok(());
        }
        let mended = jsonl::mend(line.bytes);
        if jsonl::is_blank(&mended) || self.event(&mended, line.offset)? {
            return Ok(());
        }
        if let Some(event) = json::parse_odd::<Event<'_>>(&mended) {
            return self.record(event, &mended, line.offset);
        }
        self.damaged(&mended, line)
    }

    /// Reads a line that holds no whole object: a cut event before a whole one, or a part.
    fn damaged(&mut self, bytes: &[u8], line: &jsonl::Line<'_>) -> Result<()> {
        let heads: Vec<usize> = memchr::memmem::find_iter(bytes, HEAD).take(MAX_HEADS).collect();
        for head in heads.into_iter().filter(|head| *head > 0) {
            if serde_json::from_slice::<Event<'_>>(&bytes[head..]).is_ok() {
                self.sink.accept(Record::bad(line.offset, "cut event"))?;
                self.event(&bytes[head..], line.offset + head as u64)?;
                return Ok(());
            }
        }
        if line.end == End::File {
            // A line that is still being written is read again when it is whole.
            return Ok(());
        }
        if !bytes.starts_with(b"{") {
            return self.sink.accept(Record::bad(line.offset, "not a JSON object"));
        }
        if self.mark.is_none() {
            self.mark = Some(self.mark_at(line.offset));
        }
        self.broken = Some(Broken { offset: line.offset, bytes: bytes.to_vec(), pieces: 1 });
        Ok(())
    }

    /// Adds a line to a cut event. Returns whether the line is still to be read by itself.
    fn mend_broken(&mut self, mut broken: Broken, line: &jsonl::Line<'_>) -> Result<bool> {
        let fits = broken.bytes.len() + line.bytes.len() < MAX_BROKEN;
        if !fits || broken.pieces >= MAX_PIECES || begins_event(line.bytes) {
            self.mark = (line.end == End::File).then(|| self.mark_at(line.offset));
            self.sink.accept(Record::bad(broken.offset, "not a JSON object"))?;
            return Ok(true);
        }
        broken.bytes.extend_from_slice(br"\n");
        broken.bytes.extend_from_slice(&jsonl::mend(line.bytes));
        broken.pieces += 1;
        if !line.bytes.ends_with(b"}") || !self.event(&broken.bytes, broken.offset)? {
            self.broken = Some(broken);
        } else if line.end != End::File {
            self.mark = None;
        }
        Ok(false)
    }

    /// Tells an event; `false` when the bytes are none.
    fn event(&mut self, bytes: &[u8], offset: u64) -> Result<bool> {
        let Ok(event) = serde_json::from_slice::<Event<'_>>(bytes) else { return Ok(false) };
        self.record(event, bytes, offset)?;
        Ok(true)
    }

    /// Keeps an event we have no word for.
    fn keep(&mut self, mut message: Message, raw: &RawValue) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.tell(message)
    }

    /// Tells a message, behind the open answer if there is one.
    fn tell(&mut self, message: Message) -> Result<()> {
        self.close()?;
        self.emit(message)
    }

    fn close(&mut self) -> Result<()> {
        let Some(open) = self.state.open.take() else { return Ok(()) };
        self.emit(*open)
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        if !self.is_session_told {
            self.tell_session()?;
        }
        self.told += 1;
        self.sink.accept(Record::Message(Box::new(message)))
    }

    fn tell_session(&mut self) -> Result<()> {
        self.is_session_told = true;
        self.sink.accept(Record::Session(Box::new(self.session.clone())))
    }

    fn pass(&mut self, offset: u64, kind: String) -> Result<()> {
        self.sink.accept(Record::passed(offset, kind))
    }
}

/// Whether a line is an event of its own and no part of a cut one.
fn begins_event(line: &[u8]) -> bool {
    line.starts_with(HEAD)
        || serde_json::from_slice::<Event<'_>>(line)
            .is_ok_and(|event| event.kind.is_some() && event.data.is_some())
}
