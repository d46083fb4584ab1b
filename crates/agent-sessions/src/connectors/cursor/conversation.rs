//! Converts one conversation of the editor into a session and messages, bubble by bubble.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

use super::bubble::{Bubble, BubbleAuthor};
use super::value;
use crate::connectors::formats::fold::fold_excess_values;
use crate::connectors::formats::{json, jsonl};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Session, Usage};

/// Writes one conversation to a sink.
pub(super) struct ConversationWriter<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    has_emitted: bool,
    /// A message with reasoning or tokens whose text comes in the next bubble.
    pending: Option<Message>,
    /// The id of the reply that tool calls belong to.
    answer: Option<String>,
    /// The model of the turn, which some builds record only on the prompt.
    model: Option<String>,
    calls: HashSet<String>,
    has_usage: bool,
}

impl<'s> ConversationWriter<'s> {
    pub(super) fn new(session: Session, sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            session,
            has_emitted: false,
            pending: None,
            answer: None,
            model: None,
            calls: HashSet::new(),
            has_usage: false,
        }
    }

    /// Adds a bubble. `at` is its position in the conversation.
    pub(super) fn add_bubble(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let bytes = fold_excess_values(bytes);
        let bytes = value::repair_surrogates(&bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&bytes) {
            return self.add_known_bubble(bubble, &bytes, at);
        }
        let mended = jsonl::mend_line(&bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&mended) {
            return self.add_known_bubble(bubble, &mended, at);
        }
        match json::parse_odd::<Bubble<'_>>(&mended) {
            Some(bubble) => self.add_known_bubble(bubble, &mended, at),
            None => self.sink.accept_record(Record::unreadable_record(at, "not a JSON object")),
        }
    }

    /// Reports a bubble that was not read.
    pub(super) fn skip_bubble(&mut self, at: u64, reason: &'static str) -> Result<()> {
        self.sink.accept_record(Record::unreadable_record(at, reason))
    }

    fn add_known_bubble(&mut self, bubble: Bubble<'_>, bytes: &[u8], at: u64) -> Result<()> {
        match bubble.bubble_author() {
            BubbleAuthor::User => {
                self.flush_pending()?;
                self.answer = None;
                self.model = bubble.named_model();
                match bubble.into_prompt() {
                    Some(message) => self.emit_conversation_message(message),
                    None => self.sink.accept_record(Record::passed_over_record(at, "empty bubble")),
                }
            }
            BubbleAuthor::Assistant => {
                let (message, result) = bubble.into_answer();
                self.add_answer(message, result, at)
            }
            BubbleAuthor::Unknown => match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(raw) => self.emit_unknown_bubble(raw),
                Err(_) => {
                    self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"))
                }
            },
        }
    }

    fn add_answer(&mut self, mut message: Message, result: Option<Message>, at: u64) -> Result<()> {
        let says = message.blocks.iter().any(|block| matches!(block, Block::Text(_)));
        let calls = message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if message.blocks.is_empty() && message.usage.is_none() && !message.failed {
            return self.sink.accept_record(Record::passed_over_record(at, "empty bubble"));
        }
        if message.model.is_none() {
            message.model.clone_from(&self.model);
        }
        self.has_usage |= message.usage.is_some();
        message = self.prepend_pending_parts(message)?;
        if !says && !calls && !message.failed {
            self.pending = Some(message);
            return Ok(());
        }
        if says || self.answer.is_none() {
            self.answer.clone_from(&message.uuid);
        } else {
            message.api_id.clone_from(&self.answer);
        }
        self.emit_with_unique_calls(message, result)
    }

    /// Prepends the pending reasoning or tokens to the message with their text.
    fn prepend_pending_parts(&mut self, mut message: Message) -> Result<Message> {
        let Some(mut first) = self.pending.take() else { return Ok(message) };
        if first.usage.is_some() && message.usage.is_some() {
            self.pending = Some(first);
            self.flush_pending()?;
            return Ok(message);
        }
        first.part_uuids.extend(message.uuid.take());
        first.blocks.append(&mut message.blocks);
        first.extensions.append(&mut message.extensions);
        Ok(Message {
            uuid: first.uuid,
            part_uuids: first.part_uuids,
            at: first.at.or(message.at),
            usage: first.usage.or(message.usage),
            blocks: first.blocks,
            extensions: first.extensions,
            ..message
        })
    }

    /// Emits a message and its tool result, with call ids that no earlier call has.
    fn emit_with_unique_calls(
        &mut self,
        mut message: Message,
        mut result: Option<Message>,
    ) -> Result<()> {
        let own = message.part_uuids.last().or(message.uuid.as_ref()).cloned().unwrap_or_default();
        for block in &mut message.blocks {
            let Block::ToolCall { id, .. } = block else { continue };
            if self.calls.insert(id.clone()) {
                continue;
            }
            id.clone_from(&own);
            self.calls.insert(own.clone());
            for block in result.iter_mut().flat_map(|result| &mut result.blocks) {
                if let Block::ToolResult { call_id, .. } = block {
                    call_id.clone_from(&own);
                }
            }
        }
        self.emit_conversation_message(message)?;
        result.map_or(Ok(()), |result| self.emit_conversation_message(result))
    }

    fn emit_unknown_bubble(&mut self, raw: &RawValue) -> Result<()> {
        self.flush_pending()?;
        let blocks = vec![Block::Other(Json::from(raw))];
        self.emit_conversation_message(Message { blocks, ..Message::default() })
    }

    fn flush_pending(&mut self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |message| self.emit_conversation_message(message))
    }

    fn emit_conversation_message(&mut self, message: Message) -> Result<()> {
        if !self.has_emitted {
            self.has_emitted = true;
            self.session.cwd = self.session.cwd.take().or_else(|| message.cwd.clone());
            self.sink.accept_record(Record::Session(Box::new(self.session.clone())))?;
        }
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Ends the conversation. Adds its recorded costs when no tokens were recorded. Returns whether
    /// any message was written.
    pub(super) fn finish_conversation(mut self, costs: Vec<(String, u64)>) -> Result<bool> {
        self.flush_pending()?;
        if !self.has_emitted || self.has_usage {
            return Ok(self.has_emitted);
        }
        let at = self.session.ended_at;
        for (model, cost) in costs {
            let usage = Usage {
                identity: Some(format!("{} {model}", self.session.id.native)),
                cost_micros: Some(cost),
                ..Usage::default()
            };
            let said = BTreeMap::from([("costInCents", cost as f64 / 10_000.0)]);
            self.emit_conversation_message(Message {
                at,
                model: Some(model),
                usage: Some(usage),
                blocks: vec![Block::Other(Json::from_value(&said))],
                ..Message::default()
            })?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bubble_of_very_many_small_values_is_folded() {
        struct Messages(Vec<Message>);
        impl Sink for Messages {
            fn accept_record(&mut self, record: Record) -> Result<()> {
                if let Record::Message(message) = record {
                    self.0.push(*message);
                }
                Ok(())
            }
        }
        let thoughts: Vec<String> = (0..400_000).map(|at| format!("\"{at}\"")).collect();
        let thoughts = thoughts.join(",");
        let bubble = format!("{{\"type\":2,\"text\":\"done\",\"allThinkingBlocks\":[{thoughts}]}}");
        let mut sink = Messages(Vec::new());
        let mut writer = ConversationWriter::new(Session::new("cursor", "c"), &mut sink);
        writer.add_bubble(bubble.as_bytes(), 0).unwrap();
        assert!(writer.finish_conversation(Vec::new()).unwrap());
        let [message] = &sink.0[..] else { panic!("{} messages", sink.0.len()) };
        assert!(message.blocks.len() < 300_000, "{} blocks", message.blocks.len());
        let is_last =
            |block: &Block| matches!(block, Block::Thinking(text) if text.contains("399999"));
        assert!(message.blocks.iter().any(is_last));
        assert_eq!(message.blocks.last(), Some(&Block::Text("done".to_owned())));
    }
}
