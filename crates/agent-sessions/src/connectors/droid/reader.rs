//! Reads the lines of a session and emits its messages.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content;
use super::line::{DroidLine, DroidMessage, keep_unmodeled_fields, owned_if_present};
use super::settings::{self, SettingsFacts};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::parents::PassedParents;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Continuation, Json, Message, Origin, Role, Session, SessionKind, Timestamp, TitleRank,
    Usage,
};

/// Records that hold state of the program.
const STATE: &[&str] = &["agent_turn_outcome", "session_end", "session_settings", "todo_state"];

/// Beginning of the id of a message that holds injected text.
const CONTEXT_ID: &str = "context-";

/// Source of a message that no person wrote. Others name the program in which a person typed.
const AUTOMATION: &str = "automation";

/// The reason reported for a line that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

/// Reads a session file from a checkpoint on.
pub(super) fn read_droid_session(
    agent: &str,
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = DroidReader::new(agent, path, start, sink)?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut end = start.offset;
    // The state before a last line that may be incomplete.
    let mut settled = None;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some((reader.emitted, reader.encode_state()));
        }
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_line(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    let (messages, state) = settled.unwrap_or_else(|| (reader.emitted, reader.encode_state()));
    reader.finish_session()?;
    Ok(Checkpoint {
        offset: end,
        guard: jsonl::checkpoint_guard(path, end)?,
        messages,
        state,
        ..Checkpoint::default()
    })
}

/// Reads the lines of one session.
struct DroidReader<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    settings: SettingsFacts,
    state: DroidReaderState,
    /// Lines with an id that became no message.
    passed: PassedParents,
    line_offset: u64,
    is_open: bool,
    /// Number of messages emitted so far.
    emitted: u64,
}

/// Reader state that the lines after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct DroidReaderState {
    native: Option<String>,
    has_header: bool,
    /// The session that the header names as the origin, and the last message copied from it.
    origin: Option<String>,
    forked_at: Option<String>,
    /// Number of messages copied from the origin.
    copied: u64,
    is_sub_agent: bool,
    /// Times of the session's own messages.
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// A state as stored in a checkpoint.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredDroidState {
    state: DroidReaderState,
    /// The records of `PassedParents` in Base64.
    passed: String,
}

impl<'s> DroidReader<'s> {
    fn new(agent: &str, path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let stored: StoredDroidState = serde_json::from_slice(&start.state).unwrap_or_default();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let state = stored.state;
        let native = state.native.clone().unwrap_or(stem);
        let mut session = Session::new(agent, native);
        if state.is_sub_agent {
            session.kind = SessionKind::Agent;
        }
        let settings = settings::read_settings(path);
        session.model.clone_from(&settings.model);
        let passed = STANDARD.decode(&stored.passed).unwrap_or_default();
        let mut reader = Self {
            sink,
            session,
            settings,
            state,
            passed: PassedParents::decode_records(&passed),
            line_offset: start.offset,
            is_open: false,
            emitted: start.messages,
        };
        if reader.is_session() && start.offset > 0 {
            reader.open_session()?;
        }
        Ok(reader)
    }

    fn encode_state(&self) -> Vec<u8> {
        let passed = self.passed.encode_first(self.passed.record_count());
        let stored =
            StoredDroidState { state: self.state.clone(), passed: STANDARD.encode(passed) };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Returns whether the source is a session, so far as it was read.
    fn is_session(&self) -> bool {
        self.state.has_header || self.emitted > 0
    }

    fn open_session(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    /// Emits the sum of the session's calls, and its final metadata.
    fn finish_session(&mut self) -> Result<()> {
        if !self.is_session() {
            return Ok(());
        }
        if let Some(origin) = &self.state.origin
            && self.state.copied > 0
        {
            let (session, messages) = (origin.clone(), self.state.copied);
            self.session.continues = Some(Continuation { session, messages });
        }
        // The times of copied messages are not the session's own.
        if self.state.forked_at.is_none() || self.state.copied > 0 {
            self.session.extend_time_span(self.state.began);
            self.session.extend_time_span(self.state.ended);
        }
        // The sum changes with each turn, so that no checkpoint includes its message.
        if let Some(usage) = self.settings.usage.take() {
            self.open_session()?;
            let identity = Some(format!("sum {}", self.session.id.native));
            let usage = Some(Usage { identity, since: self.state.began, ..usage });
            let (at, model) = (self.state.ended, self.settings.model.clone());
            let sum = Message { at, model, usage, ..Message::default() };
            self.sink.accept_record(Record::Message(Box::new(sum)))?;
        }
        self.is_open = false;
        self.open_session()
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        self.line_offset = at;
        let bytes = jsonl::mend_escapes(bytes);
        if let Ok(line) = serde_json::from_slice::<DroidLine<'_>>(&bytes) {
            return self.read_parsed_line(line, &bytes);
        }
        let mended = jsonl::mend_line(&bytes);
        match json::parse_odd::<DroidLine<'_>>(&mended) {
            Some(line) => self.read_parsed_line(line, &mended),
            // The last line may be incomplete: the next read starts with it again.
            None if !is_complete => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, NO_OBJECT)),
        }
    }

    fn read_parsed_line(&mut self, line: DroidLine<'_>, bytes: &[u8]) -> Result<()> {
        let kind = line.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        match kind.as_str() {
            "session_start" => self.read_header(line),
            "message" => self.read_message(&line, bytes),
            "compaction_state" if line.summary.is_some() => {
                let mut message = self.message_from_line(&line);
                (message.role, message.origin) = (Role::User, Origin::Summary);
                message.blocks.extend(owned_if_present(line.summary).map(Block::Text));
                self.emit(message)
            }
            "compaction_state" => self.pass_over(&line, kind),
            state if STATE.contains(&state) => self.pass_over(&line, kind),
            _ if self.is_session() => self.keep_unknown(&line, bytes),
            _ => {
                let unreadable = Record::unreadable_record(self.line_offset, "not a session");
                self.sink.accept_record(unreadable)
            }
        }
    }

    fn read_header(&mut self, line: DroidLine<'_>) -> Result<()> {
        if std::mem::replace(&mut self.state.has_header, true) {
            return self.pass_over(&line, "repeated header".to_owned());
        }
        if let Some(id) = owned_if_present(line.id) {
            self.state.native = Some(id.clone());
            self.session.id.native = id;
        }
        self.session.cwd = owned_if_present(line.cwd);
        let is_manual = line.is_manual_title == Some(true);
        // Without a choice, the title is the beginning of the first prompt.
        let rank = if is_manual { TitleRank::Renamed } else { TitleRank::Listed };
        let title = owned_if_present(line.session_title).or(owned_if_present(line.title));
        self.session.add_title(rank, title.unwrap_or_default());
        if let Some(caller) = owned_if_present(line.caller) {
            self.state.is_sub_agent = true;
            self.session.kind = SessionKind::Agent;
            self.session.parent = Some(caller);
            if let Some(call) = owned_if_present(line.calling_tool_use) {
                let call = Json::from_value(&call);
                self.session.extensions.insert("callingToolUseId".to_owned(), call);
            }
        }
        self.state.origin = owned_if_present(line.origin);
        self.state.forked_at = owned_if_present(line.forked_at);
        self.open_session()
    }

    fn read_message(&mut self, line: &DroidLine<'_>, bytes: &[u8]) -> Result<()> {
        let parsed = line.message.and_then(|raw| json::parse_json::<DroidMessage<'_>>(raw.get()));
        let Some(parsed) = parsed else { return self.keep_unknown(line, bytes) };
        let mut message = self.message_from_line(line);
        message.blocks = parsed.content.map(content::content_blocks).unwrap_or_default();
        message.model = owned_if_present(parsed.model).or(owned_if_present(parsed.old_model));
        message.api_id = owned_if_present(parsed.answer_id);
        let role = parsed.role.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let visibility = parsed.visibility.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let is_context =
            line.id.as_ref().is_some_and(|id| id.as_borrowed_str().starts_with(CONTEXT_ID));
        (message.role, message.origin) = match role {
            "assistant" => (Role::Assistant, Origin::Assistant),
            "user" if content::are_tool_results(&message.blocks) => (Role::Tool, Origin::Tool),
            "user" if visibility == "user_only" => (Role::System, Origin::System),
            "user" if is_context || visibility == "llm_only" => (Role::User, Origin::Injected),
            "user" if parsed.hook.is_some() => (Role::User, Origin::Injected),
            "user" if parsed.source.as_ref().is_some_and(|one| one.0 == AUTOMATION) => {
                (Role::User, Origin::Injected)
            }
            "user" if is_reminder(&message) => (Role::User, Origin::Injected),
            "user" => (Role::User, Origin::Human),
            "system" => (Role::System, Origin::Injected),
            _ => return self.keep_unknown(line, bytes),
        };
        if let Some(hook) = owned_if_present(parsed.hook) {
            message.extensions.insert("hookEventName".to_owned(), Json::from_value(&hook));
        }
        keep_unmodeled_fields(parsed.rest, &mut message.extensions);
        self.emit(message)
    }

    /// Returns an empty message with the id, parent and time of a line.
    fn message_from_line(&self, line: &DroidLine<'_>) -> Message {
        let parent = owned_if_present(line.parent_id.clone());
        Message {
            uuid: owned_if_present(line.id.clone()),
            parent: parent.and_then(|parent| self.passed.resolve_parent(parent)),
            at: line.line_time(),
            ..Message::default()
        }
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.open_session()?;
        self.emitted += 1;
        if self.state.forked_at.is_some() && message.uuid == self.state.forked_at {
            // Everything so far was copied.
            self.state.copied = self.emitted;
            (self.state.began, self.state.ended) = (None, None);
        } else {
            let times = [self.state.began, self.state.ended, message.at].into_iter().flatten();
            (self.state.began, self.state.ended) = (times.clone().min(), times.max());
        }
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Counts a line that has no content for the journal. Messages that follow it follow the
    /// message before it.
    fn pass_over(&mut self, line: &DroidLine<'_>, reason: String) -> Result<()> {
        if let Some(id) = &line.id {
            let parent = line.parent_id.as_ref().map(BorrowedText::as_borrowed_str);
            self.passed.add_passed_record(id.as_borrowed_str(), parent);
        }
        self.sink.accept_record(Record::passed_over_record(self.line_offset, reason))
    }

    fn keep_unknown(&mut self, line: &DroidLine<'_>, bytes: &[u8]) -> Result<()> {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            let unreadable = Record::unreadable_record(self.line_offset, NO_OBJECT);
            return self.sink.accept_record(unreadable);
        };
        let mut message = self.message_from_line(line);
        message.blocks.push(Block::Other(Json::from(raw)));
        self.emit(message)
    }
}

/// Returns whether a message consists of reminders of the program.
fn is_reminder(message: &Message) -> bool {
    let mut texts = message.blocks.iter().map(|block| match block {
        Block::Text(text) => text.trim_start().starts_with("<system-reminder>"),
        _ => false,
    });
    !message.blocks.is_empty() && texts.all(|is_reminder| is_reminder)
}
