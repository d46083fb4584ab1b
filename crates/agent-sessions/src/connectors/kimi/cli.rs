//! Reads the events of Kimi CLI.

use serde_json::value::RawValue;

use super::content;
use super::line::{KimiEvent, KimiEventPayload, owned_if_present, text_or_empty};
use super::reader::{OWN_STEP, WireReader};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::error::Result;
use crate::model::{Block, Message, Origin, Role, Timestamp};

/// Event types that hold state of the program, or repeat what other events say.
const STATE: &[&str] = &[
    "ApprovalRequest",
    "ApprovalRequestResolved",
    "ApprovalResponse",
    "CompactionBegin",
    "CompactionEnd",
    "HookRequest",
    "HookResolved",
    "HookTriggered",
    "MCPLoadingBegin",
    "MCPLoadingEnd",
    "QuestionRequest",
    "StatusUpdate",
    "StepRetry",
    "ToolCallRequest",
];

/// Name of the document that holds the plan of a session.
const PLAN: &str = "plan";

impl WireReader<'_> {
    /// Reads one event of Kimi CLI. `key` names the step of its agent, and `bytes` are the line.
    pub(super) fn read_event(
        &mut self,
        event: &KimiEvent<'_>,
        key: &str,
        at: Option<Timestamp>,
        bytes: &[u8],
    ) -> Result<()> {
        let kind = text_or_empty(event.kind.as_ref()).to_owned();
        let raw = event.payload;
        let payload = raw.and_then(|raw| json::parse_json::<KimiEventPayload<'_>>(raw.get()));
        let payload = payload.unwrap_or_default();
        match kind.as_str() {
            "TurnBegin" | "SteerInput" => {
                self.close_step(key)?;
                self.read_prompt(payload.user_input, key, at)
            }
            "StepBegin" => {
                self.close_step(key)?;
                self.begin_step(key, None);
                Ok(())
            }
            "ContentPart" => match raw {
                Some(part) => {
                    self.read_part(part, key, at);
                    Ok(())
                }
                None => self.keep_unknown(bytes, at),
            },
            "ToolCall" => {
                self.read_call(payload, key, at);
                Ok(())
            }
            "ToolCallPart" => {
                let part = text_or_empty(payload.arguments_part.as_ref());
                self.open_step(key).continue_arguments(part, at);
                Ok(())
            }
            "ToolResult" => {
                let id = payload.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default();
                let result = payload.return_value.unwrap_or_default();
                let mut message = Message { at, ..content::result_of_cli(id, result) };
                message.sidechain = key != OWN_STEP;
                self.push_message(key, message)
            }
            "StatusUpdate" if payload.usage.is_some() => self.read_usage(payload, key, at),
            "StepInterrupted" => {
                if let Some(step) = self.running_step(key) {
                    step.interrupt();
                }
                self.close_step(key)?;
                self.pass_over(kind)
            }
            "TurnEnd" => {
                self.close_step(key)?;
                self.pass_over(kind)
            }
            "BtwBegin" | "BtwEnd" => self.read_side_question(payload, at),
            "Notification" => self.read_notice(payload, at),
            "PlanDisplay" => {
                if let Some(plan) = owned_if_present(payload.content) {
                    self.session.documents.retain(|(name, _)| name != PLAN);
                    self.session.documents.push((PLAN.to_owned(), plan));
                }
                self.pass_over(kind)
            }
            "SubagentEvent" => self.read_sub_agent_event(payload, at, bytes),
            state if STATE.contains(&state) => self.pass_over(kind),
            _ => self.keep_unknown(bytes, at),
        }
    }

    fn read_prompt(
        &mut self,
        input: Option<&RawValue>,
        key: &str,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let mut prompt = Message { role: Role::User, at, ..Message::default() };
        if let Some(input) = input {
            content::push_content(input, &mut prompt.blocks);
        }
        let is_command = is_slash_command(&prompt.joined_text());
        prompt.origin = if is_command { Origin::Command } else { Origin::Human };
        prompt.sidechain = key != OWN_STEP;
        self.push_message(key, prompt)
    }

    fn read_call(&mut self, payload: KimiEventPayload<'_>, key: &str, at: Option<Timestamp>) {
        let id = payload.id.map(BorrowedText::into_owned).unwrap_or_default();
        let function = payload.function.unwrap_or_default();
        let name = function.name.map(BorrowedText::into_owned).unwrap_or_default();
        let arguments = function.arguments.map_or("", RawValue::get);
        let written = serde_json::from_str::<String>(arguments);
        let step = self.open_step(key);
        step.begin_call(id, name, written.unwrap_or_else(|_| arguments.to_owned()), at);
    }

    /// Reads the usage of the step that is running.
    fn read_usage(
        &mut self,
        payload: KimiEventPayload<'_>,
        key: &str,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let answer = owned_if_present(payload.message_id);
        let time = at.map_or(0, Timestamp::as_millis);
        // A fork copies the line.
        let identity = Some(format!("{time} {}", answer.as_deref().unwrap_or_default()));
        if let Some(step) = self.running_step(key).filter(|step| !step.has_usage()) {
            step.set_usage(payload.usage.and_then(|tokens| tokens.into_usage(identity)));
            step.set_answer_id(answer);
            return Ok(());
        }
        let usage = payload.usage.and_then(|tokens| tokens.into_usage(identity));
        if usage.is_none() {
            return self.pass_over("model call without tokens".to_owned());
        }
        let sidechain = key != OWN_STEP;
        self.push_message(key, Message { at, usage, sidechain, ..Message::default() })
    }

    /// Reads a question that a person asked beside the conversation, or the answer to it.
    fn read_side_question(
        &mut self,
        payload: KimiEventPayload<'_>,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let mut message = Message { at, sidechain: true, ..Message::default() };
        (message.role, message.origin) = if payload.question.is_some() {
            (Role::User, Origin::Human)
        } else {
            (Role::Assistant, Origin::Assistant)
        };
        message.failed = payload.error.is_some();
        let texts = [payload.question, payload.response, payload.error];
        message.blocks.extend(texts.into_iter().filter_map(owned_if_present).map(Block::Text));
        self.push_message(OWN_STEP, message)
    }

    fn read_notice(&mut self, payload: KimiEventPayload<'_>, at: Option<Timestamp>) -> Result<()> {
        let texts = [payload.title, payload.body].into_iter().filter_map(owned_if_present);
        let blocks = vec![Block::Text(texts.collect::<Vec<_>>().join("\n"))];
        self.push_message(OWN_STEP, Message { at, blocks, ..Message::default() })
    }

    /// Reads an event of a sub-agent. Since sub-agents have files of their own, it repeats them.
    fn read_sub_agent_event(
        &mut self,
        payload: KimiEventPayload<'_>,
        at: Option<Timestamp>,
        bytes: &[u8],
    ) -> Result<()> {
        if payload.agent.is_some() {
            return self.pass_over("event of a sub-agent".to_owned());
        }
        let call = payload.parent_call.or(payload.task_call);
        let key = call.map_or_else(|| "sub-agent".to_owned(), BorrowedText::into_owned);
        let event = payload.event.and_then(|raw| json::parse_json::<KimiEvent<'_>>(raw.get()));
        match event {
            Some(event) => self.read_event(&event, &key, at, bytes),
            None => self.keep_unknown(bytes, at),
        }
    }
}

/// Returns whether a prompt is a command of the program, such as `/compact` or `/skill:name`.
fn is_slash_command(text: &str) -> bool {
    let word = text.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    let is_name = |one: char| one.is_alphanumeric() || matches!(one, '-' | '_' | ':');
    word.is_some_and(|word| text[1..].starts_with(word) && word.chars().all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_command() {
        for text in ["/compact", "/skill:glaze the bowl"] {
            assert!(is_slash_command(text), "{text}");
        }
        for text in ["/home/mara/bowl.md is missing", "/ what", "look at /init"] {
            assert!(!is_slash_command(text), "{text}");
        }
    }
}
