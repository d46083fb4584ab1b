//! Walks a transcript line by line and tells its messages.
//!
//! Lines of one API message are folded into one message, also when results of its first tools
//! stand between them. The message that is still open at the end of the file is told, but the
//! checkpoint stays before it: the next read tells it again, perhaps longer.

mod bill;
mod folder;
mod records;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::line::{Body, Line};
use super::{AGENT, Place};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, Text, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::formats::parents::PassedParents;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{
    FOUND_DIR, Json, Kind, Message, Origin, Ref, Session, Summary, Timestamp, TitleRank,
};

/// More messages than this behind an open one are told without waiting for the rest of it.
const MAX_TRAILING: usize = 256;

/// Record types that are state of the program, not conversation.
const STATE: &[&str] = &[
    "progress",
    "last-prompt",
    "permission-mode",
    "mode",
    "agent-setting",
    "bridge-session",
    "atis-latch",
    "worktree-state",
    "content-replacement",
    "tag",
    "agent-color",
    "tools-used",
    // How requests to the model were put together: the transcript has what was said in them.
    "api-request",
    "api-request-shape",
    "api-request-blob",
];

/// A first message that is this much older than the record before it was copied.
const COPY_AGE_MILLIS: i64 = 1000;

/// A file in a session's folder with the name that the user gave it.
const CUSTOM_TITLE: &str = "custom-title.json";

/// The whole prompt of a sub-agent that the program starts to warm itself up.
const WARMUP: &str = "Warmup";

/// Reads a transcript from a checkpoint on.
pub(super) fn read(path: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let mut reader = Reader::new(path, start, sink)?;
    reader.tell_session()?;
    let mut lines = Lines::open(path, reader.mark.offset)?;
    while let Some(line) = lines.next()? {
        if reader.open.is_none() {
            reader.mark = reader.mark_at(line.offset);
        }
        let is_whole = line.end != End::File;
        reader.line(&line)?;
        if is_whole {
            reader.end = lines.offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish(path)
}

struct Reader<'s> {
    sink: &'s mut dyn Sink,
    path: PathBuf,
    place: Place,
    /// Whether it is a sub-agent's only because every message so far is of a side conversation.
    is_all_side: bool,
    /// What this read has learnt about the session.
    session: Session,
    state: State,
    /// Uuids of the lines told so far, in order and for looking up.
    order: Vec<u64>,
    seen: HashSet<u64>,
    /// Records with an id that became no message.
    passed: PassedParents,
    files: HashSet<String>,
    told: u64,
    is_from_start: bool,
    open: Option<Open>,
    mark: Mark,
    /// End of the last line that was written whole.
    end: u64,
}

/// An API message that may not be complete, and what came after it.
struct Open {
    message: Box<Message>,
    trailing: Vec<Message>,
}

/// Where a later read can go on, and what was known there.
struct Mark {
    offset: u64,
    told: u64,
    uuids: usize,
    passed: usize,
    state: State,
}

/// What the lines before a checkpoint mean for those after it.
#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    /// The session's id, where the file's name does not tell it.
    native: String,
    /// Prompts waiting in the agent's queue, oldest first.
    queue: Vec<WaitingPrompt>,
    /// Prompts told when they left the queue, whose attachment may still come.
    removed: Vec<u64>,
    /// Prompts told as attachments, which may still leave the queue.
    attached: Vec<u64>,
    /// Whether it is known that the session is a person's or a sub-agent's.
    #[serde(default)]
    is_decided: bool,
    /// The latest instant that a line names.
    #[serde(default)]
    last_at: Option<Timestamp>,
    /// Whether a message was read.
    #[serde(default)]
    has_talk: bool,
    /// The last turn that a prompt began.
    #[serde(default)]
    turn: Option<Turn>,
}

/// A turn of the conversation, as a prompt numbers it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Turn {
    /// Hash of the prompt's id.
    prompt: u64,
    number: u64,
}

/// A prompt in the agent's queue.
#[derive(Clone, Serialize, Deserialize)]
struct WaitingPrompt {
    text: String,
    at: Option<Timestamp>,
}

impl<'s> Reader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let place = Place::of(path);
        let Decoded { mut state, uuids: order, passed } = State::decode(&start.state);
        state.is_decided |= place.kind != Kind::Root || place.native.is_none();
        let mut reader = Self {
            sink,
            path: path.to_owned(),
            session: Session::default(),
            seen: order.iter().copied().collect(),
            passed,
            files: HashSet::new(),
            told: start.messages,
            is_from_start: start.offset == 0,
            open: None,
            mark: Mark {
                offset: start.offset,
                told: 0,
                uuids: 0,
                passed: 0,
                state: State::default(),
            },
            end: start.offset,
            state,
            order,
            place,
            is_all_side: false,
        };
        if reader.state.native.is_empty() {
            reader.state.native = match reader.place.native.take() {
                Some(native) => native,
                None => usual_session(path)?,
            };
        }
        reader.session = Session::new(AGENT.id, reader.state.native.clone());
        reader.session.kind = reader.place.kind;
        reader.session.parent = reader.place.parent.clone();
        if let Some(project) = &reader.place.project {
            reader.session.lies_in(project);
        }
        reader.sidecar(path);
        reader.custom_title(path);
        Ok(reader)
    }

    /// A sub-agent's task, kept beside its transcript.
    fn sidecar(&mut self, path: &Path) {
        lenient! {
            struct Meta<'a> {
                "agentType" agent_type: Option<Text<'a>>,
                "description" description: Option<Text<'a>>,
                "toolUseId" tool_use_id: Option<Text<'a>>,
                "spawnDepth" spawn_depth: Option<u64>,
            }
        }
        let text = super::sidecar(path).and_then(|path| files::small_text(&path, 1 << 20));
        let Some(text) = text else { return };
        let Some(meta) = json::parse::<Meta<'_>>(&text) else { return };
        let description = meta.description.map(Text::into_owned).unwrap_or_default();
        self.session.title(TitleRank::Generated, description);
        if let Some(agent_type) = meta.agent_type {
            let agent_type = Json::from_value(&agent_type.as_str());
            self.session.extensions.insert("agentType".into(), agent_type);
        }
        if let Some(call) = meta.tool_use_id {
            self.session.extensions.insert("toolUseId".into(), Json::from_value(&call.as_str()));
        }
        if let Some(depth) = meta.spawn_depth {
            self.session.extensions.insert("spawnDepth".into(), Json::from_value(&depth));
        }
    }

    /// Reads the name that the user gave the session, from its folder.
    fn custom_title(&mut self, path: &Path) {
        if self.place.kind != Kind::Root {
            return;
        }
        let text = files::small_text(&path.with_extension("").join(CUSTOM_TITLE), 1 << 16);
        let Some(text) = text else { return };
        let title: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let title = title.as_ref().and_then(|title| match title {
            serde_json::Value::String(title) => Some(title.as_str()),
            title => ["customTitle", "title", "name"].iter().find_map(|key| title[key].as_str()),
        });
        self.session.title(TitleRank::Renamed, title.unwrap_or_default());
    }

    fn tell_session(&mut self) -> Result<()> {
        self.sink.accept(Record::Session(Box::new(self.session.clone())))
    }

    fn mark_at(&self, offset: u64) -> Mark {
        Mark {
            offset,
            told: self.told,
            uuids: self.order.len(),
            passed: self.passed.count(),
            state: self.state.clone(),
        }
    }

    fn finish(mut self, path: &Path) -> Result<Checkpoint> {
        if self.open.is_none() && self.end > self.mark.offset {
            self.mark = self.mark_at(self.end);
        }
        self.close()?;
        self.tell_waiting()?;
        if self.session.cwd.is_none()
            && self.is_from_start
            && let Some(found) = self.place.project.as_deref().and_then(folder::existing_directory)
        {
            self.session.extensions.insert(FOUND_DIR.into(), Json::from_value(&found));
        }
        self.session.files = self.files.drain().collect();
        self.session.files.sort();
        self.tell_session()?;
        // A message of the main conversation would make it another session: read as a whole again.
        if self.is_all_side {
            return Ok(Checkpoint::default());
        }
        let Mark { offset, told, uuids, passed, state } = self.mark;
        Ok(Checkpoint {
            offset,
            guard: jsonl::guard(path, offset)?,
            messages: told,
            state: state.encode(&self.order[..uuids], &self.passed.encode(passed)),
            ..Checkpoint::default()
        })
    }

    fn line(&mut self, line: &jsonl::Line<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept(Record::bad(line.offset, LINE_TOO_LONG));
        }
        if jsonl::is_blank(line.bytes) {
            return Ok(());
        }
        // One look at the whole line is quicker than one at each of its strings.
        if let Ok(text) = std::str::from_utf8(line.bytes)
            && let Ok(parsed) = serde_json::from_str::<Line<'_>>(text)
        {
            return self.record(parsed, line.bytes, line.offset);
        }
        let mended = jsonl::mend(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<Line<'_>>(&mended) {
            return self.record(parsed, &mended, line.offset);
        }
        match json::parse_odd::<Line<'_>>(&mended) {
            Some(parsed) => self.record(parsed, &mended, line.offset),
            // A line that is still being written is read again when it is whole.
            None if line.end == End::File => Ok(()),
            None => self.sink.accept(Record::bad(line.offset, "not a JSON object")),
        }
    }

    fn record(&mut self, mut line: Line<'_>, bytes: &[u8], offset: u64) -> Result<()> {
        if let Some(odd) = json::take(&mut line.rest, "message") {
            line.message = Body::of(odd);
        }
        let at = line.timestamp.take().and_then(|text| text.0);
        let at = at.and_then(|text| Timestamp::parse(text.as_str()));
        let is_talk = line.kind.as_ref().is_some_and(|kind| is_talk(kind.as_str()));
        if is_talk && self.shows_copy(&line, at) {
            self.session.begins_with_copy = true;
        }
        self.state.last_at = self.state.last_at.max(at);
        // Notices and the queue do not widen a conversation.
        if is_talk {
            self.session.seen(at);
        }
        self.decide(&line)?;
        self.note(&line);
        if let Some(uuid) = &line.uuid {
            let hash = xxh3_64(uuid.as_str().as_bytes());
            if !self.seen.insert(hash) {
                return self.sink.accept(Record::passed(offset, "repeated line"));
            }
            self.order.push(hash);
        }
        let kind = line.kind.take().map(Text::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user" => self.user(line, at),
            "assistant" => self.assistant(line, at),
            "system" => self.system(line, at, offset),
            "attachment" => self.attachment(line, at, offset),
            "queue-operation" => self.queue(line, at, offset),
            "summary" | "custom-title" | "ai-title" | "agent-name" | "pr-link" => {
                self.about(line);
                self.sink.accept(Record::passed(offset, kind))
            }
            "cost-state" => {
                if self.place.kind == Kind::Root
                    && let Some(state) = bill::read(bytes, self.state.last_at)
                {
                    self.session.add_bill(state);
                }
                self.pass_over(&line);
                self.sink.accept(Record::passed(offset, kind))
            }
            "file-history-snapshot" | "file-history-delta" => {
                self.snapshot(&line);
                self.pass_over(&line);
                self.sink.accept(Record::passed(offset, kind))
            }
            _ if STATE.contains(&kind.as_str()) => {
                self.pass_over(&line);
                self.sink.accept(Record::passed(offset, kind))
            }
            _ => {
                let raw: &RawValue = serde_json::from_slice(bytes).map_err(|_| Error::Stopped)?;
                let uuid = line.uuid.map(Text::into_owned);
                let parent = line.parent.map(Text::into_owned);
                self.keep(Message { uuid, parent, at, ..Message::default() }, raw)
            }
        }
    }

    /// Whether a message shows that it was copied into this file. A fork's file begins with records
    /// of its own, which are younger than the messages behind them, and gives all prompts that it
    /// copies one id.
    fn shows_copy(&mut self, line: &Line<'_>, at: Option<Timestamp>) -> bool {
        lenient! {
            struct TurnPosition {
                "turnIndex" turn_index: Option<u64>,
            }
        }
        let is_first = !std::mem::replace(&mut self.state.has_talk, true);
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let age = millis(self.state.last_at).zip(millis(at)).map_or(0, |(last, at)| last - at);
        let rest = |key: &str| line.rest.iter().find(|(known, _)| known == key);
        let number = rest("turnPosition").and_then(|(_, raw)| json::parse(raw.get()));
        let number = number.and_then(|position: TurnPosition| position.turn_index);
        let prompt = rest("promptId").map(|(_, raw)| xxh3_64(raw.get().as_bytes()));
        let turn = prompt.zip(number).map(|(prompt, number)| Turn { prompt, number });
        let is_other_turn = |before: &Turn, turn: &Turn| {
            before.prompt == turn.prompt && before.number != turn.number
        };
        let before = self.state.turn.as_ref();
        let is_repeated =
            before.zip(turn.as_ref()).is_some_and(|(one, two)| is_other_turn(one, two));
        self.state.turn = turn.or(self.state.turn.take());
        (is_first && age > COPY_AGE_MILLIS) || is_repeated
    }

    /// Notes a record that becomes no message: what follows it follows what it followed.
    fn pass_over(&mut self, line: &Line<'_>) {
        if let Some(uuid) = &line.uuid {
            let parent = line.parent.as_ref().or(line.logical_parent.as_ref());
            self.passed.pass(uuid.as_str(), parent.map(Text::as_str));
        }
    }

    /// Tells by the first message whether the file may be a sub-agent's under an ordinary name,
    /// and if so looks at all of it.
    fn decide(&mut self, line: &Line<'_>) -> Result<()> {
        let kind = line.kind.as_ref().map_or("", Text::as_str);
        if self.state.is_decided || !is_talk(kind) {
            return Ok(());
        }
        self.state.is_decided = true;
        if line.is_sidechain == Some(true) && is_all_side(&self.path)? {
            self.is_all_side = true;
            self.place.kind = Kind::Agent;
            self.session.kind = Kind::Agent;
        }
        Ok(())
    }

    /// Takes in what every record says about the session.
    fn note(&mut self, line: &Line<'_>) {
        let session = &mut self.session;
        let text = |text: &Option<Text<'_>>| {
            text.as_ref().map(Text::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if session.cwd.is_none() {
            session.cwd = text(&line.cwd);
        }
        set_if_new(&mut session.branch, line.branch.as_ref());
        set_if_new(&mut session.agent_version, line.version.as_ref());
        if self.place.kind == Kind::Agent
            && let Some(agent) = text(&line.agent_id).filter(|id| *id != session.id.native)
        {
            session.extensions.insert("agentId".into(), Json::from_value(&agent));
        }
        if session.parent.is_none() && self.place.kind != Kind::Root {
            session.parent = text(&line.session_id).filter(|id| *id != session.id.native);
        }
        if let Some(slug) = line.slug.as_ref()
            && session.titles.last().is_none_or(|title| title.text != slug.as_str())
        {
            session.title(TitleRank::Slug, slug.as_str());
        }
    }

    /// Takes in a record that is about the session as a whole.
    fn about(&mut self, line: Line<'_>) {
        let session = &mut self.session;
        if let Some(title) = line.custom_title {
            session.title(TitleRank::Renamed, title.into_owned());
        }
        if let Some(title) = line.ai_title {
            session.title(TitleRank::Generated, title.into_owned());
        }
        if let Some(name) = line.agent_name {
            session.title(TitleRank::Listed, name.into_owned());
        }
        if let (Some(text), Some(leaf)) = (line.summary, line.leaf) {
            let summary = Summary { leaf: leaf.into_owned(), text: text.into_owned() };
            if !session.summaries.contains(&summary) {
                session.summaries.push(summary);
            }
        }
        if let Some(url) = line.pr_url {
            let pr = Ref { kind: "pr".to_owned(), value: url.into_owned() };
            if !session.refs.contains(&pr) {
                session.refs.push(pr);
            }
        }
    }

    /// The files that Claude backed up are the files it touched.
    fn snapshot(&mut self, line: &Line<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Snapshot<'a> {
            #[serde(borrow, default)]
            tracked_file_backups: HashMap<Text<'a>, &'a RawValue>,
        }
        let Some(raw) = line.snapshot else { return };
        if let Ok(snapshot) = serde_json::from_str::<Snapshot<'_>>(raw.get()) {
            self.files.extend(snapshot.tracked_file_backups.into_keys().map(Text::into_owned));
        }
    }

    /// Tells a message, behind the open one if there is one.
    fn tell(&mut self, message: Message) -> Result<()> {
        let asks = matches!(message.origin, Origin::Human | Origin::Command);
        match &mut self.open {
            Some(open) if !asks && open.trailing.len() < MAX_TRAILING => {
                open.trailing.push(message);
                Ok(())
            }
            _ => {
                self.close()?;
                self.emit(message)
            }
        }
    }

    /// Tells the prompts that still wait in the queue at the end of the file. The checkpoint lies
    /// before them: a later record may show that they were sent or taken back.
    fn tell_waiting(&mut self) -> Result<()> {
        for prompt in std::mem::take(&mut self.state.queue) {
            if let Some(message) = records::queued(prompt.text, prompt.at) {
                self.emit(message)?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.emit(*open.message)?;
        open.trailing.into_iter().try_for_each(|message| self.emit(message))
    }

    fn emit(&mut self, mut message: Message) -> Result<()> {
        self.told += 1;
        // A file that is a side conversation as a whole is a session of its own.
        message.sidechain &= self.place.kind == Kind::Root;
        message.parent = message.parent.and_then(|parent| self.passed.resolve(parent));
        self.sink.accept(Record::Message(Box::new(message)))
    }
}

fn set_if_new(known: &mut Option<String>, text: Option<&Text<'_>>) {
    if let Some(text) = text.map(Text::as_str)
        && !text.is_empty()
        && known.as_deref() != Some(text)
    {
        *known = Some(text.to_owned());
    }
}

fn is_talk(kind: &str) -> bool {
    matches!(kind, "user" | "assistant")
}

/// Whether all messages of a file are of side conversations.
fn is_all_side(path: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Said<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        is_sidechain: Option<bool>,
    }
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(line.bytes) else { continue };
        let kind = said.kind.as_ref().map_or("", Text::as_str);
        if is_talk(kind) && said.is_sidechain != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Finds the session most records of a renamed file name.
fn usual_session(path: &Path) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Id {
        session_id: Option<String>,
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        let Ok(Id { session_id: Some(id) }) = serde_json::from_slice(line.bytes) else { continue };
        match counts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, count)) => *count += 1,
            None => counts.push((id, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    let usual = counts.into_iter().find(|(_, count)| Some(*count) == most).map(|(id, _)| id);
    Ok(usual.unwrap_or_else(|| path.file_stem().unwrap_or_default().to_string_lossy().into_owned()))
}

impl State {
    /// Packs the state, the uuids of the lines told and the records passed over: the first as
    /// JSON, the others as they are.
    fn encode(&self, uuids: &[u64], passed: &[u8]) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("strings and numbers serialise");
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&json);
        bytes.extend((passed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(passed);
        bytes.extend(uuids.iter().flat_map(|uuid| uuid.to_le_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Decoded {
        Self::unpack(bytes).unwrap_or_default()
    }

    fn unpack(bytes: &[u8]) -> Option<Decoded> {
        let (json, rest) = split_counted(bytes)?;
        // Checkpoints of earlier versions have the uuids alone.
        let (passed, uuids) = split_counted(rest).unwrap_or((&[], rest));
        Some(Decoded {
            state: serde_json::from_slice(json).unwrap_or_default(),
            uuids: uuids.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect(),
            passed: PassedParents::decode(passed),
        })
    }
}

/// What a checkpoint holds.
#[derive(Default)]
struct Decoded {
    state: State,
    uuids: Vec<u64>,
    passed: PassedParents,
}

/// Splits bytes off that stand behind their length.
fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
