//! Reads a transcript line by line and emits its messages.
//!
//! Lines of one API message are merged into one message, also when results of its first tools are
//! between them. The message that is still open at the end of the file is emitted, but the
//! checkpoint stays before it: the next read emits it again, perhaps longer.

mod bill;
mod folder;
mod records;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::line::{ApiMessage, ClaudeLine};
use super::{AGENT, TranscriptLocation};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::parents::PassedParents;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{
    FOUND_DIR, Json, Message, Origin, Ref, Session, SessionKind, Summary, Timestamp, TitleRank,
};

/// Number of messages behind an open one above which they are emitted without waiting for its end.
const MAX_TRAILING: usize = 256;

/// Record types that hold state of Claude Code, not conversation.
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
    // The composition of requests to the model. The transcript already has their content.
    "api-request",
    "api-request-shape",
    "api-request-blob",
];

/// Age difference in milliseconds to the record before it above which a first message was copied.
const COPY_AGE_MILLIS: i64 = 1000;

/// File in a session's directory with the title that the user chose.
const CUSTOM_TITLE: &str = "custom-title.json";

/// The complete prompt of a sub-agent that Claude Code starts only to warm up.
const WARMUP: &str = "Warmup";

/// Reads a transcript from a checkpoint on.
pub(super) fn read_transcript(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = ClaudeReader::new(path, start, sink)?;
    reader.emit_session_metadata()?;
    let mut lines = LineReader::open_at(path, reader.mark.offset)?;
    while let Some(line) = lines.next_line()? {
        if reader.open.is_none() {
            reader.mark = reader.resume_point_at(line.offset);
        }
        let is_whole = line.end != End::File;
        reader.read_transcript_line(&line)?;
        if is_whole {
            reader.end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish_transcript(path)
}

struct ClaudeReader<'s> {
    sink: &'s mut dyn Sink,
    path: PathBuf,
    place: TranscriptLocation,
    /// Whether this is a sub-agent's file only because all messages so far are of a side
    /// conversation.
    is_all_side: bool,
    /// Session metadata collected by this read.
    session: Session,
    state: ClaudeReaderState,
    /// Hashes of the line uuids emitted so far, in order and for lookup.
    order: Vec<u64>,
    seen: HashSet<u64>,
    /// Records with an id that became no message.
    passed: PassedParents,
    files: HashSet<String>,
    emitted: u64,
    is_from_start: bool,
    open: Option<OpenApiMessage>,
    mark: ResumePoint,
    /// End offset of the last complete line.
    end: u64,
}

/// An API message that may not be complete, and the messages after it.
struct OpenApiMessage {
    message: Box<Message>,
    trailing: Vec<Message>,
}

/// A position from which a later read can continue, with the reader's state there.
struct ResumePoint {
    offset: u64,
    emitted: u64,
    uuids: usize,
    passed: usize,
    state: ClaudeReaderState,
}

/// State carried from the lines before a checkpoint to those after it.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ClaudeReaderState {
    /// The session's id, where the file's name does not contain it.
    native: String,
    /// Prompts waiting in the agent's queue, oldest first.
    queue: Vec<WaitingPrompt>,
    /// Hashes of prompts emitted when they left the queue, whose attachment may still follow.
    removed: Vec<u64>,
    /// Hashes of prompts emitted as attachments, which may still leave the queue.
    attached: Vec<u64>,
    /// Whether it is decided that the session is a person's or a sub-agent's.
    #[serde(default)]
    is_decided: bool,
    /// The latest time that a line records.
    #[serde(default)]
    last_at: Option<Timestamp>,
    /// Whether a user or assistant record was read.
    #[serde(default)]
    has_talk: bool,
    /// The turn of the last prompt.
    #[serde(default)]
    turn: Option<PromptTurn>,
}

/// A turn of the conversation, as numbered by its prompt.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct PromptTurn {
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

impl<'s> ClaudeReader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let place = TranscriptLocation::from_transcript_path(path);
        let Decoded { mut state, uuids: order, passed } =
            ClaudeReaderState::decode_state(&start.state);
        state.is_decided |= place.kind != SessionKind::Root || place.native.is_none();
        let mut reader = Self {
            sink,
            path: path.to_owned(),
            session: Session::default(),
            seen: order.iter().copied().collect(),
            passed,
            files: HashSet::new(),
            emitted: start.messages,
            is_from_start: start.offset == 0,
            open: None,
            mark: ResumePoint {
                offset: start.offset,
                emitted: 0,
                uuids: 0,
                passed: 0,
                state: ClaudeReaderState::default(),
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
        reader.read_sidecar(path);
        reader.custom_title(path);
        Ok(reader)
    }

    /// Reads a sub-agent's task from the sidecar file beside its transcript.
    fn read_sidecar(&mut self, path: &Path) {
        lenient! {
            struct SidecarMeta<'a> {
                "agentType" agent_type: Option<BorrowedText<'a>>,
                "description" description: Option<BorrowedText<'a>>,
                "toolUseId" tool_use_id: Option<BorrowedText<'a>>,
                "spawnDepth" spawn_depth: Option<u64>,
            }
        }
        let text = super::sidecar_path(path).and_then(|path| files::small_text(&path, 1 << 20));
        let Some(text) = text else { return };
        let Some(meta) = json::parse_json::<SidecarMeta<'_>>(&text) else { return };
        let description = meta.description.map(BorrowedText::into_owned).unwrap_or_default();
        self.session.add_title(TitleRank::Generated, description);
        if let Some(agent_type) = meta.agent_type {
            let agent_type = Json::from_value(&agent_type.as_borrowed_str());
            self.session.extensions.insert("agentType".into(), agent_type);
        }
        if let Some(call) = meta.tool_use_id {
            self.session
                .extensions
                .insert("toolUseId".into(), Json::from_value(&call.as_borrowed_str()));
        }
        if let Some(depth) = meta.spawn_depth {
            self.session.extensions.insert("spawnDepth".into(), Json::from_value(&depth));
        }
    }

    /// Reads the title that the user gave the session, from the session's directory.
    fn custom_title(&mut self, path: &Path) {
        if self.place.kind != SessionKind::Root {
            return;
        }
        let text = files::small_text(&path.with_extension("").join(CUSTOM_TITLE), 1 << 16);
        let Some(text) = text else { return };
        let title: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let title = title.as_ref().and_then(|title| match title {
            serde_json::Value::String(title) => Some(title.as_str()),
            title => ["customTitle", "title", "name"].iter().find_map(|key| title[key].as_str()),
        });
        self.session.add_title(TitleRank::Renamed, title.unwrap_or_default());
    }

    fn emit_session_metadata(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn resume_point_at(&self, offset: u64) -> ResumePoint {
        ResumePoint {
            offset,
            emitted: self.emitted,
            uuids: self.order.len(),
            passed: self.passed.record_count(),
            state: self.state.clone(),
        }
    }

    fn finish_transcript(mut self, path: &Path) -> Result<Checkpoint> {
        if self.open.is_none() && self.end > self.mark.offset {
            self.mark = self.resume_point_at(self.end);
        }
        self.close_open_message()?;
        self.emit_queued_prompts()?;
        if self.session.cwd.is_none()
            && self.is_from_start
            && let Some(found) = self.place.project.as_deref().and_then(folder::existing_directory)
        {
            self.session.extensions.insert(FOUND_DIR.into(), Json::from_value(&found));
        }
        self.session.files = self.files.drain().collect();
        self.session.files.sort();
        self.emit_session_metadata()?;
        // A message of the main conversation would turn this into another session, so the next read
        // starts from the beginning.
        if self.is_all_side {
            return Ok(Checkpoint::default());
        }
        let ResumePoint { offset, emitted, uuids, passed, state } = self.mark;
        Ok(Checkpoint {
            offset,
            guard: jsonl::checkpoint_guard(path, offset)?,
            messages: emitted,
            state: state.encode_state(&self.order[..uuids], &self.passed.encode_first(passed)),
            ..Checkpoint::default()
        })
    }

    fn read_transcript_line(&mut self, line: &jsonl::SourceLine<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG));
        }
        if jsonl::is_blank_line(line.bytes) {
            return Ok(());
        }
        // Checking the whole line as UTF-8 once is faster than checking each of its strings.
        if let Ok(text) = std::str::from_utf8(line.bytes)
            && let Ok(parsed) = serde_json::from_str::<ClaudeLine<'_>>(text)
        {
            return self.read_known_record(parsed, line.bytes, line.offset);
        }
        let mended = jsonl::mend_line(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<ClaudeLine<'_>>(&mended) {
            return self.read_known_record(parsed, &mended, line.offset);
        }
        match json::parse_odd::<ClaudeLine<'_>>(&mended) {
            Some(parsed) => self.read_known_record(parsed, &mended, line.offset),
            // A line that is still being written is read again when it is complete.
            None if line.end == End::File => Ok(()),
            None => {
                self.sink.accept_record(Record::unreadable_record(line.offset, "not a JSON object"))
            }
        }
    }

    fn read_known_record(
        &mut self,
        mut line: ClaudeLine<'_>,
        bytes: &[u8],
        offset: u64,
    ) -> Result<()> {
        if let Some(odd) = json::take_field(&mut line.rest, "message") {
            line.message = ApiMessage::from_plain_content(odd);
        }
        let at = line.timestamp.take().and_then(|text| text.0);
        let at = at.and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str()));
        let is_talk = line.kind.as_ref().is_some_and(|kind| is_talk(kind.as_borrowed_str()));
        if is_talk && self.shows_copy(&line, at) {
            self.session.begins_with_copy = true;
        }
        self.state.last_at = self.state.last_at.max(at);
        // Only messages extend the session's time span, not notices or the queue.
        if is_talk {
            self.session.extend_time_span(at);
        }
        self.decide_session_kind(&line)?;
        self.collect_line_metadata(&line);
        if let Some(uuid) = &line.uuid {
            let hash = xxh3_64(uuid.as_borrowed_str().as_bytes());
            if !self.seen.insert(hash) {
                return self
                    .sink
                    .accept_record(Record::passed_over_record(offset, "repeated line"));
            }
            self.order.push(hash);
        }
        let kind = line.kind.take().map(BorrowedText::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user" => self.read_user_record(line, at),
            "assistant" => self.read_assistant_record(line, at),
            "system" => self.read_system_record(line, at, offset),
            "attachment" => self.read_attachment(line, at, offset),
            "queue-operation" => self.read_queue_operation(line, at, offset),
            "summary" | "custom-title" | "ai-title" | "agent-name" | "pr-link" => {
                self.collect_session_metadata(line);
                self.sink.accept_record(Record::passed_over_record(offset, kind))
            }
            "cost-state" => {
                if self.place.kind == SessionKind::Root
                    && let Some(state) = bill::parse_bill_state(bytes, self.state.last_at)
                {
                    self.session.add_bill(state);
                }
                self.pass_over(&line);
                self.sink.accept_record(Record::passed_over_record(offset, kind))
            }
            "file-history-snapshot" | "file-history-delta" => {
                self.add_backed_up_files(&line);
                self.pass_over(&line);
                self.sink.accept_record(Record::passed_over_record(offset, kind))
            }
            _ if STATE.contains(&kind.as_str()) => {
                self.pass_over(&line);
                self.sink.accept_record(Record::passed_over_record(offset, kind))
            }
            _ => {
                let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
                    return self.sink.accept_record(Record::unreadable_record(offset, "not JSON"));
                };
                let uuid = line.uuid.map(BorrowedText::into_owned);
                let parent = line.parent.map(BorrowedText::into_owned);
                self.keep_unknown_record(Message { uuid, parent, at, ..Message::default() }, raw)
            }
        }
    }

    /// Returns whether a message was evidently copied into this file. A fork's file begins with
    /// records of its own, which are younger than the messages behind them, and gives all prompts
    /// that it copies one id.
    fn shows_copy(&mut self, line: &ClaudeLine<'_>, at: Option<Timestamp>) -> bool {
        lenient! {
            struct TurnPosition {
                "turnIndex" turn_index: Option<u64>,
            }
        }
        let is_first = !std::mem::replace(&mut self.state.has_talk, true);
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let age = millis(self.state.last_at).zip(millis(at)).map_or(0, |(last, at)| last - at);
        let rest = |key: &str| line.rest.iter().find(|(known, _)| known == key);
        let number = rest("turnPosition").and_then(|(_, raw)| json::parse_json(raw.get()));
        let number = number.and_then(|position: TurnPosition| position.turn_index);
        let prompt = rest("promptId").map(|(_, raw)| xxh3_64(raw.get().as_bytes()));
        let turn = prompt.zip(number).map(|(prompt, number)| PromptTurn { prompt, number });
        let is_other_turn = |before: &PromptTurn, turn: &PromptTurn| {
            before.prompt == turn.prompt && before.number != turn.number
        };
        let before = self.state.turn.as_ref();
        let is_repeated =
            before.zip(turn.as_ref()).is_some_and(|(one, two)| is_other_turn(one, two));
        self.state.turn = turn.or(self.state.turn.take());
        (is_first && age > COPY_AGE_MILLIS) || is_repeated
    }

    /// Registers a record that becomes no message, so that its children are linked to its parent.
    fn pass_over(&mut self, line: &ClaudeLine<'_>) {
        if let Some(uuid) = &line.uuid {
            let parent = line.parent.as_ref().or(line.logical_parent.as_ref());
            self.passed.add_passed_record(
                uuid.as_borrowed_str(),
                parent.map(BorrowedText::as_borrowed_str),
            );
        }
    }

    /// Decides at the first message whether the file may be a sub-agent's under an ordinary name,
    /// and if so checks all of it.
    fn decide_session_kind(&mut self, line: &ClaudeLine<'_>) -> Result<()> {
        let kind = line.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if self.state.is_decided || !is_talk(kind) {
            return Ok(());
        }
        self.state.is_decided = true;
        if line.is_sidechain == Some(true) && is_all_side(&self.path)? {
            self.is_all_side = true;
            self.place.kind = SessionKind::Agent;
            self.session.kind = SessionKind::Agent;
        }
        Ok(())
    }

    /// Collects the session metadata that every record carries.
    fn collect_line_metadata(&mut self, line: &ClaudeLine<'_>) {
        let session = &mut self.session;
        let text = |text: &Option<BorrowedText<'_>>| {
            text.as_ref()
                .map(BorrowedText::as_borrowed_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        if session.cwd.is_none() {
            session.cwd = text(&line.cwd);
        }
        set_if_new(&mut session.branch, line.branch.as_ref());
        set_if_new(&mut session.agent_version, line.version.as_ref());
        if self.place.kind == SessionKind::Agent
            && let Some(agent) = text(&line.agent_id).filter(|id| *id != session.id.native)
        {
            session.extensions.insert("agentId".into(), Json::from_value(&agent));
        }
        if session.parent.is_none() && self.place.kind != SessionKind::Root {
            session.parent = text(&line.session_id).filter(|id| *id != session.id.native);
        }
        if let Some(slug) = line.slug.as_ref()
            && session.titles.last().is_none_or(|title| title.text != slug.as_borrowed_str())
        {
            session.add_title(TitleRank::Slug, slug.as_borrowed_str());
        }
    }

    /// Collects the metadata of a record that describes the session as a whole.
    fn collect_session_metadata(&mut self, line: ClaudeLine<'_>) {
        let session = &mut self.session;
        if let Some(title) = line.custom_title {
            session.add_title(TitleRank::Renamed, title.into_owned());
        }
        if let Some(title) = line.ai_title {
            session.add_title(TitleRank::Generated, title.into_owned());
        }
        if let Some(name) = line.agent_name {
            session.add_title(TitleRank::Listed, name.into_owned());
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

    /// Adds the files that Claude Code backed up, which are the files it changed.
    fn add_backed_up_files(&mut self, line: &ClaudeLine<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct FileSnapshot<'a> {
            #[serde(borrow, default)]
            tracked_file_backups: HashMap<BorrowedText<'a>, &'a RawValue>,
        }
        let Some(raw) = line.snapshot else { return };
        if let Ok(snapshot) = serde_json::from_str::<FileSnapshot<'_>>(raw.get()) {
            self.files
                .extend(snapshot.tracked_file_backups.into_keys().map(BorrowedText::into_owned));
        }
    }

    /// Queues a message behind the open one, or emits it if there is none.
    fn queue_behind_open_message(&mut self, message: Message) -> Result<()> {
        let asks = matches!(message.origin, Origin::Human | Origin::Command);
        match &mut self.open {
            Some(open) if !asks && open.trailing.len() < MAX_TRAILING => {
                open.trailing.push(message);
                Ok(())
            }
            _ => {
                self.close_open_message()?;
                self.emit_message(message)
            }
        }
    }

    /// Emits the prompts that are still queued at the end of the file. The checkpoint is before
    /// them: a later record may show that they were sent or withdrawn.
    fn emit_queued_prompts(&mut self) -> Result<()> {
        for prompt in std::mem::take(&mut self.state.queue) {
            if let Some(message) = records::queued_prompt_message(prompt.text, prompt.at) {
                self.emit_message(message)?;
            }
        }
        Ok(())
    }

    fn close_open_message(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.emit_message(*open.message)?;
        open.trailing.into_iter().try_for_each(|message| self.emit_message(message))
    }

    fn emit_message(&mut self, mut message: Message) -> Result<()> {
        self.emitted += 1;
        // A file that consists only of a side conversation is a session of its own.
        message.sidechain &= self.place.kind == SessionKind::Root;
        message.parent = message.parent.and_then(|parent| self.passed.resolve_parent(parent));
        self.sink.accept_record(Record::Message(Box::new(message)))
    }
}

fn set_if_new(known: &mut Option<String>, text: Option<&BorrowedText<'_>>) {
    if let Some(text) = text.map(BorrowedText::as_borrowed_str)
        && !text.is_empty()
        && known.as_deref() != Some(text)
    {
        *known = Some(text.to_owned());
    }
}

fn is_talk(kind: &str) -> bool {
    matches!(kind, "user" | "assistant")
}

/// Returns whether all messages of a file are of side conversations.
fn is_all_side(path: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Said<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<BorrowedText<'a>>,
        is_sidechain: Option<bool>,
    }
    let mut lines = LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
        let Ok(said) = serde_json::from_slice::<Said<'_>>(line.bytes) else { continue };
        let kind = said.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if is_talk(kind) && said.is_sidechain != Some(true) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the session id that most records of a renamed file have.
fn usual_session(path: &Path) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Id {
        session_id: Option<String>,
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut lines = LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
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

impl ClaudeReaderState {
    /// Encodes the state as JSON, followed by the ignored records and the uuids of the emitted
    /// lines, both as raw bytes.
    fn encode_state(&self, uuids: &[u64], passed: &[u8]) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("strings and numbers serialise");
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&json);
        bytes.extend((passed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(passed);
        bytes.extend(uuids.iter().flat_map(|uuid| uuid.to_le_bytes()));
        bytes
    }

    fn decode_state(bytes: &[u8]) -> Decoded {
        Self::unpack_state(bytes).unwrap_or_default()
    }

    fn unpack_state(bytes: &[u8]) -> Option<Decoded> {
        let (json, rest) = split_counted(bytes)?;
        // Checkpoints of earlier versions have only the uuids.
        let (passed, uuids) = split_counted(rest).unwrap_or((&[], rest));
        Some(Decoded {
            state: serde_json::from_slice(json).unwrap_or_default(),
            uuids: uuids.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect(),
            passed: PassedParents::decode_records(passed),
        })
    }
}

/// The decoded content of a checkpoint.
#[derive(Default)]
struct Decoded {
    state: ClaudeReaderState,
    uuids: Vec<u64>,
    passed: PassedParents,
}

/// Splits off bytes that are preceded by their length.
fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
