//! Reads a transcript line by line and emits one message per record.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::AGENT;
use super::line::QwenLine;
use super::place::{self, QwenTranscriptLocation};
use super::system::{self, SystemOutcome};
use super::telemetry::{TelemetryEvent, TelemetryPayload};
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{
    Block, Json, Message, Origin, Role, Session, SessionKind, Timestamp, TitleRank, Usage,
};

/// Reads a transcript from a checkpoint on.
pub(super) fn read_qwen_transcript(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = QwenReader::new(path, start, sink)?;
    reader.switch_session(None)?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    while let Some(line) = lines.next_line()? {
        let emitted = reader.emitted;
        reader.read_qwen_line(&line)?;
        if line.end == End::File {
            reader.settled = Some(emitted);
        } else {
            reader.end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish_qwen_transcript(path)
}

struct QwenReader<'s> {
    sink: &'s mut dyn Sink,
    /// The session metadata found by this read.
    session: Session,
    state: QwenReaderState,
    /// Sub-agents emitted from this file, by name.
    agents: BTreeMap<String, Session>,
    /// The sub-agent whose messages are being emitted; `None` is the session itself.
    current: Option<String>,
    place: QwenTranscriptLocation,
    emitted: u64,
    /// Number of messages before a last line that may be incomplete.
    settled: Option<u64>,
    /// Offset of the end of the last complete line.
    end: u64,
}

/// Reader state stored in a checkpoint for the lines after it.
#[derive(Default, Serialize, Deserialize)]
struct QwenReaderState {
    /// The session's id.
    native: String,
    /// Whether the file also contains messages of sub-agents. A checkpoint has only one message
    /// count, so such a file is always read from the start.
    has_agents: bool,
    /// Sub-agent calls whose telemetry may follow.
    #[serde(default)]
    tasks: Vec<SubagentTask>,
    /// The model of a sub-agent's replies, which do not name one.
    #[serde(default)]
    model: Option<String>,
}

/// The task of a sub-agent, as given in the call that started it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SubagentTask {
    description: String,
    prompt: String,
    subagent_type: String,
}

/// Maximum number of sub-agent calls kept in the state.
const MAX_TASKS: usize = 64;

impl<'s> QwenReader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let mut place = QwenTranscriptLocation::from_qwen_path(path);
        let mut state: QwenReaderState = serde_json::from_slice(&start.state).unwrap_or_default();
        if state.native.is_empty() {
            state.native = match place.native.take() {
                Some(native) => native,
                None => place::first_session(path)?,
            };
        }
        let mut session = Session::new(AGENT.id, state.native.clone());
        session.parent = place.parent.take();
        session.kind = place.kind;
        if place.kind == SessionKind::Agent {
            place::add_sidecar_metadata(path, &mut session);
            let model = session.model.clone();
            // Replies emitted by an earlier read lack the model that is known now.
            if start.offset > 0 && model.is_some() && state.model != model {
                return Err(Error::StartOver);
            }
            state.model = model.or(state.model);
        }
        Ok(Self {
            sink,
            session,
            state,
            agents: BTreeMap::new(),
            current: None,
            place,
            emitted: start.messages,
            settled: None,
            end: start.offset,
        })
    }

    /// Emits the session that the following messages belong to.
    fn switch_session(&mut self, agent: Option<&str>) -> Result<()> {
        self.current = agent.map(str::to_owned);
        let known = agent.and_then(|agent| self.agents.get(agent));
        let session = known.unwrap_or(&self.session).clone();
        self.sink.accept_record(Record::Session(Box::new(session)))
    }

    /// Records activity of a sub-agent. Creates the sub-agent's session on first use. The parent is
    /// this session, or the one it is a copy of.
    fn note_agent(&mut self, parent: &str, agent: &str, at: Option<Timestamp>) -> Result<()> {
        if !self.agents.contains_key(agent) {
            let mut session = Session {
                parent: Some(parent.to_owned()),
                kind: SessionKind::Agent,
                cwd: self.session.cwd.clone(),
                branch: self.session.branch.clone(),
                agent_version: self.session.agent_version.clone(),
                ..Session::new(AGENT.id, place::agent_id(agent, parent))
            };
            session.add_title(TitleRank::Slug, agent);
            let task = self.take_task(agent);
            session.add_title(TitleRank::Generated, task.description);
            session.extend_time_span(at);
            self.agents.insert(agent.to_owned(), session);
            if !task.prompt.trim().is_empty() {
                let message = Message {
                    role: Role::User,
                    origin: Origin::Human,
                    at,
                    blocks: vec![Block::Text(task.prompt)],
                    ..Message::default()
                };
                self.emit_for_agent(Some(agent), message)?;
            }
        }
        if let Some(session) = self.agents.get_mut(agent) {
            session.extend_time_span(at);
        }
        Ok(())
    }

    /// Stores the tasks of the sub-agents that a reply starts.
    fn note_tasks(&mut self, message: &Message) {
        for block in &message.blocks {
            let Block::ToolCall { name, input, .. } = block else { continue };
            let task =
                input.parse_as::<SubagentTask>().filter(|_| matches!(&**name, "agent" | "task"));
            let Some(task) = task.filter(|task| !task.subagent_type.is_empty()) else { continue };
            if self.state.tasks.len() == MAX_TASKS {
                self.state.tasks.remove(0);
            }
            self.state.tasks.push(task);
        }
    }

    /// Takes the first unassigned task of a sub-agent's type. The name begins with the type.
    fn take_task(&mut self, agent: &str) -> SubagentTask {
        let is_its = |task: &SubagentTask| {
            agent.strip_prefix(&task.subagent_type).is_some_and(|rest| rest.starts_with('-'))
        };
        let place = self.state.tasks.iter().position(is_its);
        place.map(|place| self.state.tasks.remove(place)).unwrap_or_default()
    }

    fn finish_qwen_transcript(mut self, path: &Path) -> Result<Checkpoint> {
        for session in std::mem::take(&mut self.agents).into_values() {
            self.sink.accept_record(Record::Session(Box::new(session)))?;
        }
        self.switch_session(None)?;
        if self.state.has_agents {
            return Ok(Checkpoint::default());
        }
        Ok(Checkpoint {
            offset: self.end,
            guard: jsonl::checkpoint_guard(path, self.end)?,
            messages: self.settled.unwrap_or(self.emitted),
            state: serde_json::to_vec(&self.state).unwrap_or_default(),
            ..Checkpoint::default()
        })
    }

    fn read_qwen_line(&mut self, line: &jsonl::SourceLine<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG));
        }
        if jsonl::is_blank_line(line.bytes) {
            return Ok(());
        }
        let bytes = jsonl::mend_escapes(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<QwenLine<'_>>(&bytes) {
            return self.read_qwen_record(parsed, &jsonl::SourceLine { bytes: &bytes, ..*line });
        }
        let mended = jsonl::mend_line(line.bytes);
        if let Ok(parsed) = serde_json::from_slice::<QwenLine<'_>>(&mended) {
            return self.read_qwen_record(parsed, &jsonl::SourceLine { bytes: &mended, ..*line });
        }
        match json::parse_odd::<QwenLine<'_>>(&mended) {
            Some(parsed) => {
                self.read_qwen_record(parsed, &jsonl::SourceLine { bytes: &mended, ..*line })
            }
            // The last line may be incomplete: the next read starts with it again.
            None if line.end == End::File => Ok(()),
            None => {
                self.sink.accept_record(Record::unreadable_record(line.offset, "not a JSON object"))
            }
        }
    }

    fn read_qwen_record(
        &mut self,
        mut line: QwenLine<'_>,
        source: &jsonl::SourceLine<'_>,
    ) -> Result<()> {
        self.update_session_metadata(&line);
        let kind = line.kind.take().map(BorrowedText::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user" => self.read_qwen_user(line),
            "assistant" => self.read_qwen_assistant(line),
            "tool_result" => self.read_qwen_tool_result(line),
            "system" if line.subtype_name() == "ui_telemetry" => {
                self.emit_telemetry(line, source.offset)
            }
            "system" => {
                let subtype = line.subtype_name().to_owned();
                match system::read_qwen_system_record(line, &mut self.session) {
                    SystemOutcome::Message(message) => self.emit_for_agent(None, *message),
                    SystemOutcome::Fact => Ok(()),
                    SystemOutcome::Nothing => {
                        self.sink.accept_record(Record::passed_over_record(source.offset, subtype))
                    }
                }
            }
            _ => match serde_json::from_slice::<&RawValue>(source.bytes) {
                Ok(raw) => self.keep_unknown_qwen_record(
                    Message { at: line.line_time(), ..Message::default() },
                    raw,
                ),
                Err(_) => self
                    .sink
                    .accept_record(Record::unreadable_record(source.offset, "not a JSON object")),
            },
        }
    }

    /// Updates the session with the metadata that every record has.
    fn update_session_metadata(&mut self, line: &QwenLine<'_>) {
        let session = &mut self.session;
        session.extend_time_span(line.line_time());
        if session.cwd.is_none() {
            set_if_present(&mut session.cwd, line.cwd.as_ref());
        }
        set_if_present(&mut session.branch, line.branch.as_ref());
        set_if_present(&mut session.agent_version, line.version.as_ref());
        if session.kind == SessionKind::Agent && session.parent.is_none() {
            set_if_present(&mut session.parent, line.session.as_ref());
        }
        if let Some(name) = &line.agent_name {
            session
                .extensions
                .insert("agentName".to_owned(), Json::from_value(&name.as_borrowed_str()));
        }
    }

    fn read_qwen_user(&mut self, mut line: QwenLine<'_>) -> Result<()> {
        let origin = match (
            line.subtype_name(),
            line.provenance.as_ref().map(BorrowedText::as_borrowed_str),
        ) {
            ("", None | Some("real_user")) => Origin::Human,
            ("mid_turn_user_message", _) => Origin::Queued,
            _ => Origin::Injected,
        };
        let parts = line.take_parts();
        let shown = displayed_prompt(&line);
        let mut message = Message { role: Role::User, origin, ..line.message_from_record() };
        if let Some(parts) = parts {
            genai::append_content_blocks(parts, &mut message.blocks);
        }
        if message.blocks.iter().any(|block| matches!(block, Block::ToolResult { .. })) {
            message.role = Role::Tool;
            message.origin = Origin::Tool;
        } else if let Some(shown) = shown.filter(|shown| *shown != message.joined_text()) {
            // The typed text, where the program sent more than that to the model.
            message.blocks = vec![Block::Text(shown)];
            message.extensions.extend(parts.map(|raw| ("parts".to_owned(), Json::from(raw))));
        }
        if message.origin == Origin::Human {
            take_off_reminders(&mut message);
        }
        self.emit_for_agent(None, message)
    }

    fn read_qwen_assistant(&mut self, mut line: QwenLine<'_>) -> Result<()> {
        let parts = line.take_parts();
        let usage: Option<genai::UsageMetadata> =
            line.usage.take().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut message = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            ..line.message_from_record()
        };
        if message.model.is_none() {
            message.model.clone_from(&self.state.model);
        }
        message.usage = usage.map(|usage| Usage {
            identity: message.uuid.clone(),
            tokens: usage.disjoint_tokens(),
            ..Usage::default()
        });
        if let Some(parts) = parts {
            genai::append_content_blocks(parts, &mut message.blocks);
        }
        self.note_tasks(&message);
        self.emit_for_agent(None, message)
    }

    fn read_qwen_tool_result(&mut self, mut line: QwenLine<'_>) -> Result<()> {
        lenient! {
            struct ToolCallOutcome<'a> {
                "status" status: Option<BorrowedText<'a>>,
                "resultDisplay" result_display: Option<&'a RawValue>,
            }
        }
        let parts = line.take_parts();
        let outcome: Option<ToolCallOutcome<'_>> =
            line.result.and_then(|raw| json::parse_json(raw.get()));
        let mut message =
            Message { role: Role::Tool, origin: Origin::Tool, ..line.message_from_record() };
        if let Some(parts) = parts {
            genai::append_content_blocks(parts, &mut message.blocks);
        }
        if let Some(ToolCallOutcome { status, result_display }) = outcome {
            let status = status.map(BorrowedText::into_owned).unwrap_or_default();
            let failed = match status.as_str() {
                "success" => Some(false),
                "error" => Some(true),
                // Cancelled or still running.
                _ => None,
            };
            for block in &mut message.blocks {
                if let Block::ToolResult { is_error, .. } = block {
                    *is_error = failed;
                }
            }
            if failed.is_none() {
                message.extensions.insert("status".to_owned(), Json::from_value(&status));
            }
            if let Some(display) = result_display.and_then(json::small_parts) {
                message.extensions.insert("resultDisplay".to_owned(), display);
            }
        }
        self.emit_for_agent(None, message)
    }

    /// Emits the telemetry of a sub-agent that has no transcript of its own.
    fn emit_telemetry(&mut self, line: QwenLine<'_>, offset: u64) -> Result<()> {
        let raw = line.payload;
        let event = raw.and_then(|raw| json::parse_json::<TelemetryPayload<'_>>(raw.get()));
        let event: Option<TelemetryEvent<'_>> = event.and_then(|payload| payload.event);
        let agent = event.as_ref().and_then(TelemetryEvent::session_and_agent);
        let agent = agent.map(|(session, agent)| (session.to_owned(), agent.to_owned()));
        let known = agent.filter(|(session, _)| !self.place.has_transcripts(session));
        let (Some(event), Some((session, agent))) = (event, known) else {
            return self.sink.accept_record(Record::passed_over_record(offset, "ui_telemetry"));
        };
        self.state.has_agents = true;
        let mut envelope = line.message_from_record();
        // Parent ids refer to records of the session, most of which are not emitted here.
        envelope.parent = None;
        self.note_agent(&session, &agent, envelope.at)?;
        for message in event.into_telemetry_messages(envelope) {
            self.emit_for_agent(Some(&agent), message)?;
        }
        Ok(())
    }

    /// Emits a record of an unknown kind as it is.
    fn keep_unknown_qwen_record(&mut self, mut message: Message, raw: &RawValue) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.emit_for_agent(None, message)
    }

    fn emit_for_agent(&mut self, agent: Option<&str>, message: Message) -> Result<()> {
        if self.current.as_deref() != agent {
            self.switch_session(agent)?;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }
}

/// Returns the text that the interface showed for a prompt.
fn displayed_prompt(line: &QwenLine<'_>) -> Option<String> {
    lenient! {
        struct Display<'a> {
            "displayText" display_text: Option<BorrowedText<'a>>,
        }
    }
    line.parse_payload::<Display<'_>>()?
        .display_text
        .map(BorrowedText::into_owned)
        .filter(|text| !text.trim().is_empty())
}

fn set_if_present(known: &mut Option<String>, text: Option<&BorrowedText<'_>>) {
    if let Some(text) = text.map(BorrowedText::as_borrowed_str)
        && !text.is_empty()
        && known.as_deref() != Some(text)
    {
        *known = Some(text.to_owned());
    }
}

/// Moves the reminders that the program put before a prompt to the extension `envelope`. A message
/// of reminders only was not typed.
fn take_off_reminders(message: &mut Message) {
    let is_alone = message.blocks.len() == 1;
    let Some(Block::Text(text)) = message.blocks.first_mut() else { return };
    let typed = after_reminders(text).to_owned();
    let envelope = text[..text.len() - typed.len()].trim().to_owned();
    if envelope.is_empty() {
        return;
    }
    if typed.is_empty() && is_alone {
        message.origin = Origin::Injected;
        return;
    }
    *text = typed;
    message.blocks.retain(|block| !matches!(block, Block::Text(text) if text.is_empty()));
    message.extensions.insert("envelope".to_owned(), Json::from_value(&envelope));
}

/// Returns the text after the reminders at its beginning.
fn after_reminders(text: &str) -> &str {
    let mut rest = text;
    while let Some(inside) = rest.trim_start().strip_prefix("<system-reminder>")
        && let Some((_, after)) = inside.split_once("</system-reminder>")
    {
        rest = after.trim_start();
    }
    rest
}
