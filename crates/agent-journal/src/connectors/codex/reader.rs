//! Walks a rollout line by line and tells its messages.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::answer::Open;
use super::branch::BranchState;
use super::items::Asked;
use super::line::{Compacted, Context, Item, Line, Meta};
use super::prompt;
use super::usage::{Threads, Totals};
use super::{AGENT, Name};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, FromOddValue, Text};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Session, Timestamp};

/// A larger document than this was not written by the first versions.
const MAX_DOCUMENT: u64 = 256 << 20;

/// How many texts are remembered to know their second telling.
const MEMORY: usize = 16;

/// Records that are state of the program, or repeat what events say (`token_usage_record`).
const STATE: &[&str] = &["world_state", "inter_agent_communication_metadata", "token_usage_record"];

/// Reads a rollout from a checkpoint on.
pub(super) fn read(path: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let mut lines = Lines::open(path, start.offset)?;
    let mut reader = Reader::new(path, start, sink);
    while let Some(line) = lines.next()? {
        let is_whole = line.end != End::File;
        reader.line(&line)?;
        if is_whole {
            reader.end = lines.offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    let Mark { offset, told, state } = reader.finish()?;
    let state = serde_json::to_vec(&state).expect("strings and numbers serialise");
    Ok(Checkpoint {
        offset,
        guard: jsonl::guard(path, offset)?,
        messages: told,
        state,
        ..Checkpoint::default()
    })
}

/// Reads a compressed rollout, as far as it can be decompressed.
pub(super) fn read_compressed(path: &Path, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let file = File::open(path).map_err(Error::read(path))?;
    read_packed(file, path, sink)
}

fn read_packed(input: impl Read + 'static, path: &Path, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let decoder = zstd::Decoder::new(input).map_err(Error::read(path))?;
    let mut lines = Lines::over(Box::new(decoder), path);
    let mut reader = Reader::new(path, &Checkpoint::default(), sink);
    loop {
        match lines.next() {
            Ok(Some(line)) => reader.line(&line)?,
            Ok(None) => break,
            Err(error) if is_of_file(&error) || reader.state.native.is_empty() => {
                return Err(error);
            }
            Err(_) => {
                let broken = Record::cut(reader.offset, "compressed data is broken from here on");
                reader.sink.accept(broken)?;
                break;
            }
        }
    }
    reader.finish()?;
    Ok(Checkpoint::default())
}

/// Whether the file could not be read, rather than decompressed: the next read may go well.
fn is_of_file(error: &Error) -> bool {
    matches!(error, Error::Read { source, .. } if source.raw_os_error().is_some())
}

/// Reads a session of the first versions: one document with all items.
pub(super) fn read_document(path: &Path, sink: &mut dyn Sink) -> Result<Checkpoint> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        session: &'a RawValue,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let wrong = |what: &str| Error::Format { path: path.to_owned(), what: what.to_owned() };
    let text = files::small_text(path, MAX_DOCUMENT).ok_or_else(|| wrong("not a text file"))?;
    let document: Document<'_> =
        serde_json::from_str(&text).map_err(|_| wrong("not a session document"))?;
    let mut reader = Reader::new(path, &Checkpoint::default(), sink);
    for (at, record) in std::iter::once(document.session).chain(document.items).enumerate() {
        let bytes = record.get().as_bytes();
        reader.line(&jsonl::Line { offset: at as u64, bytes, end: End::Newline })?;
    }
    reader.finish()?;
    Ok(Checkpoint::default())
}

/// Reads one rollout.
pub(super) struct Reader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    /// The file, and what its name says; in a history that is referred to, the name of that file.
    pub(super) path: PathBuf,
    pub(super) name: Name,
    /// The threads whose files are being read as the history of this one.
    pub(super) forks: Vec<String>,
    /// What this read has learnt about the session.
    pub(super) session: Session,
    pub(super) state: State,
    is_introduced: bool,
    pub(super) told: u64,
    /// The line that is being read: where it begins, when it was written, what its envelope says.
    pub(super) offset: u64,
    pub(super) now: Option<Timestamp>,
    pub(super) envelope: Extensions,
    /// The answer that may go on; or the prompt whose event may follow. Never both.
    pub(super) open: Option<Open>,
    pub(super) asked: Option<Asked>,
    /// End of the last line that was written whole.
    end: u64,
    /// Where to go on when the last line is not whole.
    unfinished: Option<Mark>,
}

/// How a record is read.
#[derive(Clone, Copy)]
enum Shape {
    /// As every known version writes it.
    Strict,
    /// Field by field: an odd value costs its field.
    Odd,
}

impl Shape {
    fn read<'a, T>(self, bytes: &'a [u8]) -> Option<T>
    where
        T: Deserialize<'a> + FromOddValue<'a>,
    {
        match self {
            Self::Strict => serde_json::from_slice(bytes).ok(),
            Self::Odd => serde_json::from_slice(bytes).ok().or_else(|| json::parse_odd(bytes)),
        }
    }
}

/// Where a later read can go on, and what was known there.
#[derive(Clone)]
pub(super) struct Mark {
    offset: u64,
    told: u64,
    state: State,
}

/// What the lines before a checkpoint mean for those after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) native: String,
    /// The thread whose history this one begins with, if it begins with any.
    pub(super) origin: Option<String>,
    /// Whether the thread is a fork of that one.
    pub(super) is_fork: bool,
    /// Whether a message was told that is this thread's own.
    pub(super) has_own: bool,
    pub(super) branch: BranchState,
    pub(super) threads: Threads,
    pub(super) totals: Option<Totals>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) cwd: Option<String>,
    /// How many answers were told.
    pub(super) answers: u64,
    /// Texts told because of their item, and texts told because of their event.
    pub(super) from_items: Vec<u64>,
    pub(super) from_events: Vec<u64>,
}

impl<'s> Reader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Self {
        let state: State = serde_json::from_slice(&start.state).unwrap_or_default();
        Self {
            sink,
            path: path.to_owned(),
            name: Name::of(path),
            forks: Vec::new(),
            session: Session::new(AGENT.id, state.native.clone()),
            state,
            is_introduced: false,
            told: start.messages,
            offset: start.offset,
            now: None,
            envelope: Extensions::new(),
            open: None,
            asked: None,
            end: start.offset,
            unfinished: None,
        }
    }

    fn finish(mut self) -> Result<Mark> {
        let end = Mark { offset: self.end, told: self.told, state: self.state.clone() };
        let pending = self.open.as_ref().map(|open| open.mark.clone());
        let pending = pending.or(self.asked.as_ref().map(|asked| asked.mark.clone()));
        let mark = self.unfinished.take().or(pending).unwrap_or(end);
        self.close()?;
        if !self.state.native.is_empty() {
            self.sink.accept(Record::Session(Box::new(self.session)))?;
        }
        Ok(mark)
    }

    /// Where a later read goes on when what the current line begins is not complete.
    pub(super) fn mark(&self) -> Mark {
        Mark { offset: self.offset, told: self.told, state: self.state.clone() }
    }

    pub(super) fn line(&mut self, line: &jsonl::Line<'_>) -> Result<()> {
        self.offset = line.offset;
        match line.end {
            End::Newline => {}
            End::TooLong => return self.bad(LINE_TOO_LONG),
            End::File => {
                let pending = self.open.as_ref().map(|open| &open.mark);
                let pending = pending.or(self.asked.as_ref().map(|asked| &asked.mark)).cloned();
                self.unfinished = Some(pending.unwrap_or_else(|| self.mark()));
            }
        }
        if jsonl::is_blank(line.bytes) {
            return Ok(());
        }
        if let Some(result) = self.parsed(line.bytes, Shape::Strict) {
            return result;
        }
        let mended = jsonl::mend(line.bytes);
        for shape in [Shape::Strict, Shape::Odd] {
            if let Some(result) = self.parsed(&mended, shape) {
                return result;
            }
        }
        match serde_json::from_slice::<&RawValue>(&mended) {
            // Its payload is not an object: kept as it is.
            Ok(raw) if raw.get().starts_with('{') => {
                self.identify(None);
                self.keep(raw)
            }
            // A line that is still being written is read again when it is whole.
            _ if line.end == End::File => Ok(()),
            _ => self.bad("not a JSON object"),
        }
    }

    /// Reads a line of the known shapes; `None` when it has none of them.
    fn parsed(&mut self, bytes: &[u8], shape: Shape) -> Option<Result<()>> {
        let mut line: Line<'_> = shape.read(bytes)?;
        let at = line.timestamp.take();
        self.now = at.and_then(|text| Timestamp::parse(text.as_str()));
        self.envelope.clear();
        let Some(payload) = line.payload else {
            let item: Item<'_> = shape.read(bytes)?;
            return self.bare(item, bytes, shape);
        };
        json::keep(line.rest, &mut self.envelope);
        let kind = line.kind.as_ref().map_or("", Text::as_str);
        if kind == "session_meta" {
            let meta: Meta<'_> = shape.read(payload.get().as_bytes())?;
            return Some(self.meta(meta));
        }
        self.identify(None);
        self.see();
        match kind {
            "response_item" => {
                let item: Item<'_> = shape.read(payload.get().as_bytes())?;
                Some(self.item(item, payload))
            }
            "event_msg" => {
                let event = shape.read(payload.get().as_bytes())?;
                Some(self.event(event, payload))
            }
            "turn_context" => {
                let turn: Context<'_> = shape.read(payload.get().as_bytes())?;
                Some(self.turn(turn))
            }
            "compacted" => {
                let compacted: Compacted<'_> = shape.read(payload.get().as_bytes())?;
                Some(self.compacted(compacted))
            }
            kind if STATE.contains(&kind) => Some(self.pass(kind)),
            _ => Some(self.keep(serde_json::from_slice(bytes).ok()?)),
        }
    }

    /// A record without an envelope: an item as the first versions wrote it, or a flat message.
    fn bare(&mut self, mut item: Item<'_>, bytes: &[u8], shape: Shape) -> Option<Result<()>> {
        if item.record_type.is_some() {
            return Some(self.pass("state"));
        }
        if item.kind.is_none() && item.role.is_none() && item.id.is_some() {
            return Some(self.meta(shape.read(bytes)?));
        }
        let owner = item.session.take().and_then(|session| session.id);
        self.identify(owner.as_ref().map(Text::as_str));
        self.see();
        if let Some(cwd) = item.cwd.take().map(Text::into_owned) {
            self.session.cwd.get_or_insert_with(|| cwd.clone());
            self.state.cwd = Some(cwd);
        }
        if let Some(model) = item.model.take().map(Text::into_owned) {
            self.session.model.get_or_insert_with(|| model.clone());
            self.state.model = Some(model);
        }
        if let Some(branch) = item.branch.take() {
            self.session.branch = Some(branch.into_owned());
            self.state.branch.is_recorded = true;
        }
        Some(self.item(item, serde_json::from_slice(bytes).ok()?))
    }

    fn compacted(&mut self, compacted: Compacted<'_>) -> Result<()> {
        let text = compacted.message.map(Text::into_owned).unwrap_or_default();
        if text.trim().is_empty() {
            self.close()?;
            return self.pass("compacted");
        }
        let message = self.message(Role::User, Origin::Summary);
        self.tell(Message { blocks: vec![Block::Text(text)], ..message })
    }

    /// Begins a message of the current line.
    pub(super) fn message(&mut self, role: Role, origin: Origin) -> Message {
        Message {
            uuid: Some(format!("{}@{}", self.file_thread(), self.offset)),
            role,
            origin,
            at: self.now,
            cwd: self.state.cwd.clone(),
            extensions: std::mem::take(&mut self.envelope),
            ..Message::default()
        }
    }

    /// The thread of the file that is being read.
    fn file_thread(&self) -> &str {
        self.forks.last().unwrap_or(&self.state.native)
    }

    /// Widens the session's span to the current line, unless it is another session's.
    fn see(&mut self) {
        if self.forks.is_empty() {
            self.session.seen(self.now);
        }
    }

    /// Keeps a record we have no word for.
    pub(super) fn keep(&mut self, raw: &RawValue) -> Result<()> {
        let message = self.message(Role::System, Origin::System);
        self.trail(Message { blocks: vec![Block::Other(Json::from(raw))], ..message })
    }

    /// Says that a record holds nothing for the journal.
    pub(super) fn pass(&mut self, what: &str) -> Result<()> {
        if !self.forks.is_empty() {
            return Ok(());
        }
        self.sink.accept(Record::passed(self.offset, what.to_owned()))
    }

    /// Says that a record could not be understood.
    fn bad(&mut self, why: &'static str) -> Result<()> {
        if !self.forks.is_empty() {
            return Ok(());
        }
        self.sink.accept(Record::bad(self.offset, why))
    }

    /// Tells a message behind everything that waits.
    pub(super) fn tell(&mut self, message: Message) -> Result<()> {
        self.close()?;
        self.emit(message)
    }

    pub(super) fn emit(&mut self, message: Message) -> Result<()> {
        if !self.is_introduced {
            self.is_introduced = true;
            self.sink.accept(Record::Session(Box::new(self.session.clone())))?;
        }
        self.told += 1;
        self.note_shared();
        self.sink.accept(Record::Message(Box::new(message)))
    }
}

/// A list of the last texts that were told.
pub(super) fn remember(texts: &mut Vec<u64>, text: &str) {
    if texts.len() == MEMORY {
        texts.remove(0);
    }
    texts.push(hash(text));
}

/// Whether a text was told, and forgets it: its second telling may come once.
pub(super) fn recall(texts: &mut Vec<u64>, text: &str) -> bool {
    let place = texts.iter().position(|known| *known == hash(text));
    place.map(|place| texts.remove(place)).is_some()
}

fn hash(text: &str) -> u64 {
    xxh3_64(prompt::without_placeholders(text).trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Gives what it has, then fails.
    struct Failing(io::Cursor<Vec<u8>>);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::from_raw_os_error(5)),
                read => Ok(read),
            }
        }
    }

    #[derive(Default)]
    struct Told(Vec<Record>);

    impl Sink for Told {
        fn accept(&mut self, record: Record) -> Result<()> {
            self.0.push(record);
            Ok(())
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_broken_archive() {
        let meta =
            r#"{"timestamp":"2026-05-01T12:00:00Z","type":"session_meta","payload":{"id":"a"}}"#;
        let packed = zstd::encode_all(format!("{meta}\n").as_bytes(), 3).unwrap();
        // Two frames, so that the first line is out before the second ends too soon.
        let half = [&packed[..], &packed[..packed.len() - 4]].concat();
        let path = Path::new("rollout-2026-05-01T12-00-00-a.jsonl.zst");

        let mut told = Told::default();
        assert!(read_packed(io::Cursor::new(half.clone()), path, &mut told).is_ok());
        let is_broken = |record: &Record| matches!(record, Record::Skipped(one) if !one.understood);
        assert!(told.0.iter().any(is_broken), "{:?}", told.0);

        let mut told = Told::default();
        let failing = Failing(io::Cursor::new(half));
        assert!(read_packed(failing, path, &mut told).is_err());
        assert!(!told.0.iter().any(is_broken), "{:?}", told.0);
    }
}
