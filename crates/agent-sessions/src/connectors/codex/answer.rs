//! Merges the output of one model call into one message.
//!
//! Reasoning, text and tool calls are items of their own; each may be announced by an event that
//! repeats it; the tokens come before the items, after them, or after the results of the tools. So
//! an answer stays open, with the results behind it, until something follows that cannot belong to
//! it. At the end of the file it is emitted, but the checkpoint stays before it.

use super::reader::{RolloutMark, RolloutReader, forget_emitted_text, remember_emitted_text};
use super::usage::Info;
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role};

/// Number of messages behind an open answer above which they are emitted without waiting for its
/// tokens.
const MAX_TRAILING: usize = 256;

/// An answer that may not be complete.
pub(super) struct OpenAnswer {
    pub(super) mark: RolloutMark,
    /// The message's id, unless one of its items has one.
    place: String,
    pub(super) message: Box<Message>,
    has_text: bool,
    announced: Vec<Announced>,
    trailing: Vec<Message>,
}

/// A block that an event showed and no item has confirmed yet.
struct Announced {
    block: Block,
    /// Index of the block in the answer before which it belongs.
    place: usize,
}

impl Announced {
    fn is_text(&self) -> bool {
        matches!(self.block, Block::Text(_))
    }

    /// Returns whether an item confirms the announced block. Events omit what follows the visible
    /// text.
    fn is_confirmed_by(&self, block: &Block) -> bool {
        match (&self.block, block) {
            (Block::Text(shown), Block::Text(text)) => text.trim().starts_with(shown.trim()),
            (Block::Thinking(shown), Block::Thinking(text)) => text.trim() == shown.trim(),
            _ => false,
        }
    }
}

impl OpenAnswer {
    fn has_visible_text(&self) -> bool {
        self.has_text || self.announced.iter().any(Announced::is_text)
    }
}

impl RolloutReader<'_> {
    /// Returns the answer that the current line belongs to, and opens one if necessary.
    pub(super) fn open_answer_for_line(&mut self) -> Result<&mut OpenAnswer> {
        if self.open.as_ref().is_none_or(|open| !open.trailing.is_empty()) {
            self.close_answer()?;
            let mark = self.continuation_mark();
            let mut message = self.new_message_at_line(Role::Assistant, Origin::Assistant);
            let place = message.uuid.take().unwrap_or_default();
            message.model.clone_from(&self.state.model);
            if let Some(effort) = &self.state.effort {
                message.extensions.insert("effort".into(), Json::from_value(effort));
            }
            let message = Box::new(message);
            let (announced, trailing) = (Vec::new(), Vec::new());
            self.open =
                Some(OpenAnswer { mark, place, message, has_text: false, announced, trailing });
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Adds the model's text to the answer. One message holds one such text.
    pub(super) fn add_answer_text(&mut self, blocks: Vec<Block>) -> Result<bool> {
        let text = joined_block_texts(&blocks);
        if forget_emitted_text(&mut self.state.from_events, &text) {
            self.pass_over_record("repeats its event")?;
            return Ok(false);
        }
        let said = Block::Text(text.clone());
        let expected = |open: &OpenAnswer| {
            open.announced.iter().any(|announced| announced.is_confirmed_by(&said))
        };
        if self.open.as_ref().is_some_and(|open| open.has_visible_text() && !expected(open)) {
            self.close_answer()?;
        }
        let open = self.open_answer_for_line()?;
        if let Some(place) =
            open.announced.iter().position(|announced| announced.is_confirmed_by(&said))
        {
            open.announced.remove(place);
        }
        open.has_text = true;
        open.message.blocks.extend(blocks);
        remember_emitted_text(&mut self.state.from_items, &text);
        Ok(true)
    }

    /// Adds readable reasoning to the answer.
    pub(super) fn add_reasoning(&mut self, thoughts: Vec<String>) -> Result<()> {
        for text in thoughts {
            if forget_emitted_text(&mut self.state.from_events, &text) {
                continue;
            }
            let block = Block::Thinking(text.clone());
            let open = self.open_answer_for_line()?;
            if let Some(place) =
                open.announced.iter().position(|announced| announced.is_confirmed_by(&block))
            {
                open.announced.remove(place);
            }
            open.message.blocks.push(block);
            remember_emitted_text(&mut self.state.from_items, &text);
        }
        Ok(())
    }

    /// Reads an event that shows the content of an item, before or after that item.
    pub(super) fn announce_block(&mut self, block: Block) -> Result<()> {
        let (Block::Text(text) | Block::Thinking(text)) = &block else { return Ok(()) };
        if text.trim().is_empty() || forget_emitted_text(&mut self.state.from_items, text) {
            return self.pass_over_record("repeats its item");
        }
        let is_text = matches!(block, Block::Text(_));
        let announced = Announced { block, place: 0 };
        let has_announced = |open: &OpenAnswer| {
            open.message.blocks.iter().any(|known| announced.is_confirmed_by(known))
        };
        if self.open.as_ref().is_some_and(has_announced) {
            return self.pass_over_record("repeats its item");
        }
        if is_text && self.open.as_ref().is_some_and(OpenAnswer::has_visible_text) {
            self.close_answer()?;
        }
        let open = self.open_answer_for_line()?;
        let place = open.message.blocks.len();
        open.announced.push(Announced { place, ..announced });
        Ok(())
    }

    /// Assigns a token count to the open answer, or to a new one if it already has a count.
    pub(super) fn assign_token_count(&mut self, info: &Info) -> Result<()> {
        let mut totals = self.state.totals;
        let used = info.advance_running_total(&mut totals);
        // A fork's first count repeats the total of its origin, before any prompt.
        if self.state.is_fork && self.forks.is_empty() && self.state.threads.is_before_turns() {
            self.state.totals = totals;
            return self.pass_over_record("token_count of the fork's origin");
        }
        let (Some(used), Some(after)) = (used, totals) else {
            self.state.totals = totals;
            return self.pass_over_record("token_count");
        };
        let thread = self.state.threads.current_thread().unwrap_or(&self.state.native);
        let usage = used.call_usage(thread, after);
        if self.open.as_ref().is_none_or(|open| open.message.usage.is_some()) {
            self.close_answer()?;
            self.open_answer_for_line()?;
        }
        if let Some(open) = &mut self.open {
            open.message.usage = Some(usage);
        }
        self.state.totals = totals;
        Ok(())
    }

    /// Queues a message that does not end the open answer.
    pub(super) fn queue_trailing_message(&mut self, message: Message) -> Result<()> {
        match &mut self.open {
            Some(open) if open.trailing.len() < MAX_TRAILING => {
                open.trailing.push(message);
                Ok(())
            }
            _ => self.emit_after_pending(message),
        }
    }

    /// Emits the pending prompt, the open answer and the messages behind it.
    pub(super) fn close_answer(&mut self) -> Result<()> {
        self.emit_pending_user_item()?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut has_text = open.has_text;
        // From last to first, so that the indexes of earlier blocks stay valid.
        while let Some(Announced { block, place }) = open.announced.pop() {
            if let Block::Text(text) | Block::Thinking(text) = &block {
                remember_emitted_text(&mut self.state.from_events, text);
            }
            has_text |= matches!(block, Block::Text(_));
            open.message.blocks.insert(place, block);
        }
        // The steps before a text belong to the answer that it ends; tokens alone belong to none.
        let number = if open.message.blocks.is_empty() {
            self.state.answers.saturating_sub(1)
        } else {
            self.state.answers
        };
        open.message.api_id = Some(format!("{}#{number}", self.state.native));
        self.state.answers += u64::from(has_text);
        open.message.uuid.get_or_insert(open.place);
        self.emit_to_sink(*open.message)?;
        open.trailing.into_iter().try_for_each(|message| self.emit_to_sink(message))
    }
}

fn joined_block_texts(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}
