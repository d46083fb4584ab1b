//! Reads the records of Kimi Code.

use serde_json::value::RawValue;

use super::content;
use super::line::{KimiLine, KimiLoopEvent, KimiMessage, owned_if_present, text_or_empty};
use super::reader::{OWN_STEP, WireReader};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::error::Result;
use crate::model::{Block, Message, Origin, Role, Timestamp};

/// Record types that hold state of the program, or repeat what other records say.
const STATE: &[&str] = &[
    "agent.message.appended",
    "agent.turn.ended",
    "agent.turn.started",
    "config.update",
    "context.clear",
    "context.undo",
    "cron.add",
    "cron.cursor",
    "cron.delete",
    "file_history.checkpoint",
    "file_history.tracked",
    "full_compaction.begin",
    "full_compaction.cancel",
    "full_compaction.complete",
    "goal.account_usage",
    "goal.clear",
    "goal.continuation",
    "goal.create",
    "goal.update",
    "interaction.request",
    "interaction.resolved",
    "interruptionReminder.recorded",
    "llm.request",
    "llm.tools_snapshot",
    "mcp.tools_discovered",
    "metadata",
    "permission.record_approval_result",
    "permission.rules.add",
    "permission.set_mode",
    "plan.revision",
    "plan_mode.cancel",
    "plan_mode.enter",
    "plan_mode.exit",
    "plugin.session_start",
    "profile.bind",
    "prompt.accepted",
    "prompt.completed",
    "runtime.set_binding",
    "staleGuard.cleared",
    "staleGuard.recorded",
    "subagent.completed",
    "subagent.failed",
    "subagent.spawned",
    "subagent.started",
    "swarm_mode.enter",
    "swarm_mode.exit",
    "task.started",
    "task.terminated",
    "task.waitDelivered",
    "token_counting.measured",
    "token_counting.rebased",
    "token_counting.truncated",
    "token_counting.turn_recorded",
    "tools.register_user_tool",
    "tools.reset_active_tools",
    "tools.set_active_tools",
    "tools.unregister_user_tool",
    "tools.update_store",
    "tower_mode.enter",
    "tower_mode.exit",
    "turn.cancel",
    "turn.steer",
];

impl WireReader<'_> {
    /// Reads one record of Kimi Code.
    pub(super) fn read_record(&mut self, line: KimiLine<'_>, bytes: &[u8]) -> Result<()> {
        let at = line.line_time();
        let kind = text_or_empty(line.kind.as_ref()).to_owned();
        match kind.as_str() {
            "context.append_message" => self.read_appended_message(line.message, at, bytes),
            "context.append_loop_event" => match line.event.map(RawValue::get) {
                Some(event) => self.read_loop_event(event, at, bytes),
                None => self.keep_unknown(bytes, at),
            },
            "context.apply_compaction" => self.read_compaction(line, at),
            "usage.record" => self.read_model_call(line, at),
            "forked" => {
                self.close_all_steps()?;
                self.note_fork();
                self.pass_over(kind)
            }
            // The prompt follows as a message.
            "turn.prompt" => {
                self.close_all_steps()?;
                self.pass_over(kind)
            }
            "turn.ended" => self.read_turn_end(line, at),
            state if STATE.contains(&state) => {
                self.note_model(line);
                self.pass_over(kind)
            }
            _ => self.keep_unknown(bytes, at),
        }
    }

    /// Notes the model in use, where a record names it.
    fn note_model(&mut self, line: KimiLine<'_>) {
        let alias = owned_if_present(line.model_alias);
        self.state.model_alias = alias.or(self.state.model_alias.take());
        if let Some(model) = owned_if_present(line.model) {
            self.state.model = Some(model.clone());
            if let Some(step) = self.running_step(OWN_STEP) {
                step.set_model(Some(model));
            }
        }
    }

    fn read_appended_message(
        &mut self,
        raw: Option<&RawValue>,
        at: Option<Timestamp>,
        bytes: &[u8],
    ) -> Result<()> {
        let parsed = raw.and_then(|raw| json::parse_json::<KimiMessage<'_>>(raw.get()));
        match parsed.and_then(content::convert_message) {
            Some(message) => self.push_message(OWN_STEP, Message { at, ..message }),
            None => self.keep_unknown(bytes, at),
        }
    }

    /// Reads a part of a step.
    fn read_loop_event(&mut self, event: &str, at: Option<Timestamp>, bytes: &[u8]) -> Result<()> {
        let Some(event) = json::parse_json::<KimiLoopEvent<'_>>(event) else {
            return self.keep_unknown(bytes, at);
        };
        match text_or_empty(event.kind.as_ref()) {
            "step.begin" => {
                self.close_all_steps()?;
                self.begin_step(OWN_STEP, owned_if_present(event.uuid));
            }
            "content.part" => match event.part {
                Some(part) => self.read_part(part, OWN_STEP, at),
                None => return self.keep_unknown(bytes, at),
            },
            "tool.call" => {
                let call = Block::ToolCall {
                    id: event.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default(),
                    name: event.name.map(BorrowedText::into_owned).unwrap_or_default(),
                    input: json::parse_call_arguments(event.arguments),
                };
                self.open_step(OWN_STEP).add_blocks(vec![call], at);
            }
            "tool.result" => {
                let id = event.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default();
                let result = content::result_of_code(id, event.result.unwrap_or_default());
                self.push_message(OWN_STEP, Message { at, ..result })?;
            }
            "step.end" => {
                let id = owned_if_present(event.uuid);
                let step = self.open_step(OWN_STEP);
                step.set_usage(event.usage.and_then(|tokens| tokens.into_usage(id)));
                step.set_answer_id(owned_if_present(event.message_id));
                step.set_stop_reason(owned_if_present(event.finish_reason));
                self.close_step(OWN_STEP)?;
            }
            _ => return self.keep_unknown(bytes, at),
        }
        Ok(())
    }

    /// Reads a model call. A step records the same tokens at its end; a call outside of steps is
    /// one of the program's own, such as a compaction.
    fn read_model_call(&mut self, line: KimiLine<'_>, at: Option<Timestamp>) -> Result<()> {
        let named = owned_if_present(line.model);
        let is_alias = named.is_none() || named == self.state.model_alias;
        let model = if is_alias { self.state.model.clone().or(named) } else { named };
        let Some(mut usage) = line.usage.and_then(|tokens| tokens.into_usage(None)) else {
            return self.pass_over("model call without tokens".to_owned());
        };
        let time = at.map_or(0, Timestamp::as_millis);
        let (total, output) = (usage.tokens.total_tokens(), usage.tokens.output);
        // A fork copies the record.
        usage.identity = Some(format!("{time} {total} {output}"));
        match self.running_step(OWN_STEP) {
            Some(step) => {
                step.add_model_call(usage, model);
                Ok(())
            }
            None => {
                let call = Message { at, model, usage: Some(usage), ..Message::default() };
                self.push_message(OWN_STEP, call)
            }
        }
    }

    fn read_compaction(&mut self, line: KimiLine<'_>, at: Option<Timestamp>) -> Result<()> {
        let mut summary =
            Message { role: Role::User, origin: Origin::Summary, at, ..Message::default() };
        if let Some(text) = owned_if_present(line.context_summary) {
            summary.blocks.push(Block::Text(text));
        } else if let Some(raw) = line.summary {
            let message = json::parse_json::<KimiMessage<'_>>(raw.get());
            let content = message.and_then(|message| message.content).unwrap_or(raw);
            content::push_content(content, &mut summary.blocks);
        }
        self.push_message(OWN_STEP, summary)
    }

    /// Reads the end of a turn, with the reason if it failed.
    fn read_turn_end(&mut self, line: KimiLine<'_>, at: Option<Timestamp>) -> Result<()> {
        self.close_all_steps()?;
        let error = line.error.and_then(|error| owned_if_present(error.message.or(error.code)));
        let Some(error) = error else { return self.pass_over("turn.ended".to_owned()) };
        let blocks = vec![Block::Text(error)];
        self.push_message(OWN_STEP, Message { at, failed: true, blocks, ..Message::default() })
    }
}
