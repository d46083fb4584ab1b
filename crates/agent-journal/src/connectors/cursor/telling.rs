//! Tells one conversation of the editor, bubble by bubble.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

use super::bubble::{Bubble, Side};
use super::value;
use crate::connectors::formats::{json, jsonl};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Session, Usage};

/// One conversation being told.
pub(super) struct Telling<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    is_told: bool,
    /// Reasoning or tokens whose words come in the next bubble.
    pending: Option<Message>,
    /// The answer that calls of tools belong to.
    answer: Option<String>,
    /// The model of the turn, which some builds write only on the prompt.
    model: Option<String>,
    calls: HashSet<String>,
    has_usage: bool,
}

impl<'s> Telling<'s> {
    pub(super) fn new(session: Session, sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            session,
            is_told: false,
            pending: None,
            answer: None,
            model: None,
            calls: HashSet::new(),
            has_usage: false,
        }
    }

    /// Tells a bubble; `at` is where it stands in its conversation.
    pub(super) fn bubble(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let bytes = value::sound(bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&bytes) {
            return self.known(bubble, &bytes, at);
        }
        let mended = jsonl::mend(&bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&mended) {
            return self.known(bubble, &mended, at);
        }
        match json::parse_odd::<Bubble<'_>>(&mended) {
            Some(bubble) => self.known(bubble, &mended, at),
            None => self.sink.accept(Record::bad(at, "not a JSON object")),
        }
    }

    /// Counts a bubble that was not read.
    pub(super) fn skip(&mut self, at: u64, reason: &'static str) -> Result<()> {
        self.sink.accept(Record::bad(at, reason))
    }

    fn known(&mut self, bubble: Bubble<'_>, bytes: &[u8], at: u64) -> Result<()> {
        match bubble.side() {
            Side::User => {
                self.flush()?;
                self.answer = None;
                self.model = bubble.model();
                match bubble.prompt() {
                    Some(message) => self.emit(message),
                    None => self.sink.accept(Record::passed(at, "empty bubble")),
                }
            }
            Side::Assistant => {
                let (message, result) = bubble.answer();
                self.answer(message, result, at)
            }
            Side::Unknown => match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(raw) => self.other(raw),
                Err(_) => self.sink.accept(Record::bad(at, "not a JSON object")),
            },
        }
    }

    fn answer(&mut self, mut message: Message, result: Option<Message>, at: u64) -> Result<()> {
        let says = message.blocks.iter().any(|block| matches!(block, Block::Text(_)));
        let calls = message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if message.blocks.is_empty() && message.usage.is_none() && !message.failed {
            return self.sink.accept(Record::passed(at, "empty bubble"));
        }
        if message.model.is_none() {
            message.model.clone_from(&self.model);
        }
        self.has_usage |= message.usage.is_some();
        message = self.fold(message)?;
        if !says && !calls && !message.failed {
            self.pending = Some(message);
            return Ok(());
        }
        if says || self.answer.is_none() {
            self.answer.clone_from(&message.uuid);
        } else {
            message.api_id.clone_from(&self.answer);
        }
        self.once(message, result)
    }

    /// Puts what was waiting for its words in front of them.
    fn fold(&mut self, mut message: Message) -> Result<Message> {
        let Some(mut first) = self.pending.take() else { return Ok(message) };
        if first.usage.is_some() && message.usage.is_some() {
            self.pending = Some(first);
            self.flush()?;
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

    /// Tells a call and its result under an id that no earlier call has.
    fn once(&mut self, mut message: Message, mut result: Option<Message>) -> Result<()> {
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
        self.emit(message)?;
        result.map_or(Ok(()), |result| self.emit(result))
    }

    fn other(&mut self, raw: &RawValue) -> Result<()> {
        self.flush()?;
        let blocks = vec![Block::Other(Json::from(raw))];
        self.emit(Message { blocks, ..Message::default() })
    }

    fn flush(&mut self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |message| self.emit(message))
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        if !self.is_told {
            self.is_told = true;
            self.session.cwd = self.session.cwd.take().or_else(|| message.cwd.clone());
            self.sink.accept(Record::Session(Box::new(self.session.clone())))?;
        }
        self.sink.accept(Record::Message(Box::new(message)))
    }

    /// Ends the conversation with what it cost, where that is recorded and tokens are not.
    /// Returns whether there was a conversation at all.
    pub(super) fn finish(mut self, costs: Vec<(String, u64)>) -> Result<bool> {
        self.flush()?;
        if !self.is_told || self.has_usage {
            return Ok(self.is_told);
        }
        let at = self.session.ended_at;
        for (model, cost) in costs {
            let usage = Usage {
                identity: Some(format!("{} {model}", self.session.id.native)),
                cost_micros: Some(cost),
                ..Usage::default()
            };
            let said = BTreeMap::from([("costInCents", cost as f64 / 10_000.0)]);
            self.emit(Message {
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
