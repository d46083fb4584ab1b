//! Reads the updates of a session and emits its messages.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{GrokLine, GrokUpdate, owned_if_present};
use super::output;
use super::summary::{self, SessionFacts};
use super::usage::{self, RunningBill};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::open_step::OpenStep;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{
    Block, Continuation, Json, Message, Origin, Role, Session, SessionKind, Timestamp,
};

/// Updates that hold state of the program, or repeat what other updates say.
const STATE: &[&str] = &[
    "auto_compact_cancelled",
    "auto_compact_started",
    "auto_continue_completed",
    "auto_recovery_started",
    "available_commands_update",
    "background_tasks",
    "compaction_checkpoint",
    "current_mode_update",
    "feedback_request",
    "goal_updated",
    "hook_execution",
    "hooks_changed",
    "image_compressed",
    "image_dropped",
    "last_turn_summary",
    "memory_dream_completed",
    "memory_files",
    "memory_flush_completed",
    "memory_flush_started",
    "memory_session_saved",
    "model_auto_switched",
    "model_changed",
    "plan",
    "plugin_updates_installed",
    "plugins_changed",
    "relay_sync_status",
    "response_completed",
    "response_started",
    "retry_state",
    "rewind_marker",
    "scheduled_task_created",
    "scheduled_task_deleted",
    "scheduled_task_fired",
    "session_recap",
    "session_recap_unavailable",
    "session_status",
    "session_summary_generated",
    "subagent_finished",
    "subagent_progress",
    "subagent_spawned",
    "task_backgrounded",
    "task_completed",
    "tool_call_delta_chunk",
    "workflow_updated",
];

/// The reason reported for a line that cannot be parsed.
const NO_UPDATE: &str = "not an update of a session";

/// Reads a file of updates from a checkpoint on.
pub(super) fn read_updates(
    agent: &str,
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = UpdateReader::new(summary::read_facts(agent, path), start, sink)?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut end = start.offset;
    // The state before a last line that may be incomplete.
    let mut settled = None;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some(reader.opened.clone().unwrap_or_else(|| reader.mark(line.offset)));
        }
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_line(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.opened.is_none() && reader.sink.is_due() {
                break;
            }
        }
    }
    let mark = settled.or(reader.opened.clone()).unwrap_or_else(|| reader.mark(end));
    reader.close_open_messages()?;
    reader.finish_session()?;
    Ok(Checkpoint {
        offset: mark.offset,
        guard: jsonl::checkpoint_guard(path, mark.offset)?,
        messages: mark.emitted,
        state: serde_json::to_vec(&mark.state).unwrap_or_default(),
        ..Checkpoint::default()
    })
}

/// Reads the updates of one session.
struct UpdateReader<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    /// The session whose beginning was copied, and the time of the copy.
    fork: Option<(String, Timestamp)>,
    state: UpdateReaderState,
    /// The reply that is being read, with the model call that writes it.
    step: Option<(OpenStep, Option<u64>)>,
    /// The prompt that is being read, with its number.
    prompt: Option<(Message, Option<u64>)>,
    /// The position before the messages that are being read.
    opened: Option<UpdateMark>,
    line_offset: u64,
    is_open: bool,
    /// Number of messages emitted so far.
    emitted: u64,
}

/// A position from which a later read can continue.
#[derive(Clone)]
struct UpdateMark {
    offset: u64,
    emitted: u64,
    state: UpdateReaderState,
}

/// Reader state that the lines after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct UpdateReaderState {
    /// The model in use.
    model: Option<String>,
    /// The sums of all turns.
    bill: RunningBill,
    /// The time at which the running turn began.
    turn_began: Option<Timestamp>,
    /// Number of messages copied from another session.
    copied: u64,
    /// Whether another session started this one, as far as its metadata said so.
    is_sub_agent: bool,
    /// Whether the session's tokens are included in those of another sub-agent.
    is_nested: bool,
}

impl<'s> UpdateReader<'s> {
    fn new(facts: SessionFacts, start: &Checkpoint, sink: &'s mut dyn Sink) -> Result<Self> {
        let mut state: UpdateReaderState = serde_json::from_slice(&start.state).unwrap_or_default();
        let is_sub_agent = facts.session.kind == SessionKind::Agent;
        let is_known = (state.is_sub_agent, state.is_nested) == (is_sub_agent, facts.is_nested);
        if start.offset > 0 && !is_known {
            // The tokens that were read already count in another way.
            return Err(Error::StartOver);
        }
        (state.is_sub_agent, state.is_nested) = (is_sub_agent, facts.is_nested);
        let mut reader = Self {
            sink,
            session: facts.session,
            fork: facts.fork,
            state,
            step: None,
            prompt: None,
            opened: None,
            line_offset: start.offset,
            is_open: false,
            emitted: start.messages,
        };
        if reader.emitted > 0 {
            reader.open_session()?;
        }
        Ok(reader)
    }

    fn mark(&self, offset: u64) -> UpdateMark {
        UpdateMark { offset, emitted: self.emitted, state: self.state.clone() }
    }

    fn open_session(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    /// Emits the final metadata of the session.
    fn finish_session(&mut self) -> Result<()> {
        if let Some((origin, _)) = &self.fork
            && self.state.copied > 0
        {
            let messages = self.state.copied;
            self.session.continues = Some(Continuation { session: origin.clone(), messages });
        }
        self.is_open = false;
        if self.emitted > 0 { self.open_session() } else { Ok(()) }
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        self.line_offset = at;
        let bytes = jsonl::mend_escapes(bytes);
        if let Ok(line) = serde_json::from_slice::<GrokLine<'_>>(&bytes) {
            return self.read_parsed_line(line, &bytes);
        }
        let mended = jsonl::mend_line(&bytes);
        match json::parse_odd::<GrokLine<'_>>(&mended) {
            Some(line) => self.read_parsed_line(line, &mended),
            // The last line may be incomplete: the next read starts with it again.
            None if !is_complete => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, NO_UPDATE)),
        }
    }

    fn read_parsed_line(&mut self, line: GrokLine<'_>, bytes: &[u8]) -> Result<()> {
        let at = line.line_time();
        if !self.is_copied(at) {
            self.session.extend_time_span(at);
        }
        let Some(params) = line.params else { return self.keep_unknown(bytes, at) };
        let stream = params.meta.and_then(|meta| meta.stream);
        let update = params.update.and_then(|raw| json::parse_json::<GrokUpdate<'_>>(raw.get()));
        match update {
            Some(update) => self.read_update(update, stream, at, bytes),
            None => self.keep_unknown(bytes, at),
        }
    }

    fn read_update(
        &mut self,
        update: GrokUpdate<'_>,
        stream: Option<u64>,
        at: Option<Timestamp>,
        bytes: &[u8],
    ) -> Result<()> {
        let kind = update.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        match kind.as_str() {
            "user_message_chunk" => self.read_prompt_chunk(update, at),
            "agent_message_chunk" | "agent_thought_chunk" => {
                let Some(block) = update.content.and_then(output::content_block) else {
                    return self.pass_over("empty chunk".to_owned());
                };
                let block = match block {
                    Block::Text(text) if kind == "agent_thought_chunk" => Block::Thinking(text),
                    other => other,
                };
                self.open_step(stream)?.continue_block(block, at);
                Ok(())
            }
            "tool_call" => self.read_call(update, stream, at),
            "tool_call_update" => self.read_call_update(update, at),
            "turn_completed" => self.read_turn_end(update, at),
            "auto_compact_completed" => self.read_text(update.summary, Origin::Summary, at, &kind),
            "auto_recovery_exhausted" | "auto_compact_failed" => {
                self.read_text(update.error, Origin::System, at, &kind)
            }
            "hook_annotation" => self.read_text(update.message, Origin::Injected, at, &kind),
            "monitor_event" => self.read_text(update.event_text, Origin::Injected, at, &kind),
            state if STATE.contains(&state) => {
                let model = owned_if_present(update.model).or(owned_if_present(update.new_model));
                self.state.model = model.or(self.state.model.take());
                self.pass_over(kind)
            }
            _ => self.keep_unknown(bytes, at),
        }
    }

    /// Reads a part of a prompt. The parts of one prompt have the same number.
    fn read_prompt_chunk(&mut self, update: GrokUpdate<'_>, at: Option<Timestamp>) -> Result<()> {
        let meta = update.meta.unwrap_or_default();
        let number = meta.prompt_index;
        let continues = matches!((&self.prompt, number), (Some((_, Some(known))), Some(number)) if *known == number);
        if !continues {
            self.close_open_messages()?;
            self.note_opened();
            self.state.turn_began = at;
            self.state.model = owned_if_present(meta.model).or(self.state.model.take());
            let mut prompt = Message { role: Role::User, at, ..Message::default() };
            prompt.origin = match update.content.and_then(output::typed_shell_command) {
                _ if meta.is_host_turn == Some(true) => Origin::Injected,
                Some(_) => Origin::Command,
                None => Origin::Human,
            };
            self.prompt = Some((prompt, number));
        }
        if let Some((prompt, _)) = &mut self.prompt {
            prompt.blocks.extend(update.content.and_then(output::content_block));
        }
        Ok(())
    }

    fn read_call(
        &mut self,
        update: GrokUpdate<'_>,
        stream: Option<u64>,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let name = update.meta.and_then(|meta| meta.tool).and_then(|tool| tool.name);
        let call = Block::ToolCall {
            id: update.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default(),
            name: owned_if_present(name).or(owned_if_present(update.title)).unwrap_or_default(),
            input: json::parse_call_arguments(update.input),
        };
        self.open_step(stream)?.add_blocks(vec![call], at);
        Ok(())
    }

    /// Reads the progress of a call; the last one has its result.
    fn read_call_update(&mut self, update: GrokUpdate<'_>, at: Option<Timestamp>) -> Result<()> {
        let status = update.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if update.output.is_none() && !matches!(status, "completed" | "failed") {
            return self.pass_over("progress of a call".to_owned());
        }
        let is_failed = status == "failed";
        let id = update.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default();
        let blocks = output::result_blocks(id, is_failed, update.content, update.output);
        let (role, origin) = (Role::Tool, Origin::Tool);
        self.push_message(Message { role, origin, at, blocks, ..Message::default() })
    }

    /// Reads the end of a turn, with the tokens of all its calls and of its sub-agents.
    fn read_turn_end(&mut self, update: GrokUpdate<'_>, at: Option<Timestamp>) -> Result<()> {
        self.close_open_messages()?;
        let since = self.state.turn_began.take();
        let Some(turn) = update.usage else { return self.pass_over("turn_completed".to_owned()) };
        if !self.state.is_sub_agent {
            if let Some(state) = self.state.bill.add_turn(turn, at) {
                self.session.add_bill(state);
            }
        } else if !self.state.is_nested {
            let prompt = owned_if_present(update.prompt_id).unwrap_or_default();
            for (model, usage) in usage::turn_sums(turn, &prompt, since) {
                let (model, usage) = (Some(model), Some(usage));
                self.emit(Message { at, model, usage, ..Message::default() })?;
            }
        }
        self.pass_over("turn_completed".to_owned())
    }

    /// Reads an update that is a text of the program.
    fn read_text(
        &mut self,
        text: Option<BorrowedText<'_>>,
        origin: Origin,
        at: Option<Timestamp>,
        kind: &str,
    ) -> Result<()> {
        let Some(text) = owned_if_present(text) else { return self.pass_over(kind.to_owned()) };
        let role = if origin == Origin::System { Role::System } else { Role::User };
        let failed = origin == Origin::System;
        let blocks = vec![Block::Text(text)];
        self.push_message(Message { role, origin, at, blocks, failed, ..Message::default() })
    }

    /// Returns the reply that a model call writes.
    fn open_step(&mut self, stream: Option<u64>) -> Result<&mut OpenStep> {
        let is_other = self.step.as_ref().is_some_and(|(step, known)| match (known, stream) {
            (Some(known), Some(stream)) => *known != stream,
            _ => step.has_followers(),
        });
        if is_other || self.prompt.is_some() {
            self.close_open_messages()?;
        }
        self.note_opened();
        let model = self.state.model.clone();
        let (step, _) = self.step.get_or_insert_with(|| {
            let mut step = OpenStep::begin(None);
            step.set_model(model);
            (step, stream)
        });
        Ok(step)
    }

    /// Notes the position before a message that is read from several lines.
    fn note_opened(&mut self) {
        if self.opened.is_none() {
            self.opened = Some(self.mark(self.line_offset));
        }
    }

    /// Emits the messages that were being read.
    fn close_open_messages(&mut self) -> Result<()> {
        self.opened = None;
        if let Some((prompt, _)) = self.prompt.take() {
            self.emit(prompt)?;
        }
        let messages = self.step.take().map(|(step, _)| step.into_messages());
        messages.into_iter().flatten().try_for_each(|message| self.emit(message))
    }

    /// Emits a message after the reply that is being read.
    fn push_message(&mut self, message: Message) -> Result<()> {
        if self.prompt.is_some() {
            self.close_open_messages()?;
        }
        match &mut self.step {
            Some((step, _)) => {
                step.add_follower(message);
                Ok(())
            }
            None => self.emit(message),
        }
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.open_session()?;
        if self.is_copied(message.at) && self.state.copied == self.emitted {
            self.state.copied += 1;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Returns whether an update of this time was copied from another session.
    fn is_copied(&self, at: Option<Timestamp>) -> bool {
        let forked_at = self.fork.as_ref().map(|(_, at)| *at);
        at.zip(forked_at).is_some_and(|(at, forked_at)| at < forked_at)
    }

    fn pass_over(&mut self, reason: String) -> Result<()> {
        self.sink.accept_record(Record::passed_over_record(self.line_offset, reason))
    }

    fn keep_unknown(&mut self, bytes: &[u8], at: Option<Timestamp>) -> Result<()> {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            let unreadable = Record::unreadable_record(self.line_offset, NO_UPDATE);
            return self.sink.accept_record(unreadable);
        };
        let blocks = vec![Block::Other(Json::from(raw))];
        self.push_message(Message { at, blocks, ..Message::default() })
    }
}
