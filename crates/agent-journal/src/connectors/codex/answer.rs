//! Folds what one call of the model gave into one message.
//!
//! Reasoning, text and tool calls are items of their own; each may be announced by an event that
//! repeats it; the tokens come before the items, after them, or after the results of the tools.
//! So an answer stays open, with the results behind it, until something that cannot belong to it
//! comes. At the end of the file it is told, but the checkpoint stays before it.

use super::reader::{Mark, Reader, recall, remember};
use super::usage::Info;
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role};

/// More messages than this behind an open one are told without waiting for its tokens.
const MAX_TRAILING: usize = 256;

/// An answer that may go on.
pub(super) struct Open {
    pub(super) mark: Mark,
    /// Its id, unless one of its items has one.
    place: String,
    pub(super) message: Box<Message>,
    has_text: bool,
    announced: Vec<Announced>,
    trailing: Vec<Message>,
}

/// What an event showed and no item has confirmed yet.
struct Announced {
    block: Block,
    /// Before which block of the answer it belongs.
    place: usize,
}

impl Announced {
    fn is_text(&self) -> bool {
        matches!(self.block, Block::Text(_))
    }

    /// Whether an item is what was announced. Events leave out what follows the visible text.
    fn is(&self, block: &Block) -> bool {
        match (&self.block, block) {
            (Block::Text(shown), Block::Text(text)) => text.trim().starts_with(shown.trim()),
            (Block::Thinking(shown), Block::Thinking(text)) => text.trim() == shown.trim(),
            _ => false,
        }
    }
}

impl Open {
    fn says(&self) -> bool {
        self.has_text || self.announced.iter().any(Announced::is_text)
    }
}

impl Reader<'_> {
    /// The answer that the current line is a part of.
    pub(super) fn answer(&mut self) -> Result<&mut Open> {
        if self.open.as_ref().is_none_or(|open| !open.trailing.is_empty()) {
            self.close()?;
            let mark = self.mark();
            let mut message = self.message(Role::Assistant, Origin::Assistant);
            let place = message.uuid.take().unwrap_or_default();
            message.model.clone_from(&self.state.model);
            if let Some(effort) = &self.state.effort {
                message.extensions.insert("effort".into(), Json::from_value(effort));
            }
            let message = Box::new(message);
            let (announced, trailing) = (Vec::new(), Vec::new());
            self.open = Some(Open { mark, place, message, has_text: false, announced, trailing });
        }
        Ok(self.open.as_mut().expect("opened above"))
    }

    /// Adds what the model said. One message holds one such text.
    pub(super) fn say(&mut self, blocks: Vec<Block>) -> Result<bool> {
        let text = joined(&blocks);
        if recall(&mut self.state.from_events, &text) {
            self.pass("told by its event")?;
            return Ok(false);
        }
        let said = Block::Text(text.clone());
        let expected = |open: &Open| open.announced.iter().any(|announced| announced.is(&said));
        if self.open.as_ref().is_some_and(|open| open.says() && !expected(open)) {
            self.close()?;
        }
        let open = self.answer()?;
        if let Some(place) = open.announced.iter().position(|announced| announced.is(&said)) {
            open.announced.remove(place);
        }
        open.has_text = true;
        open.message.blocks.extend(blocks);
        remember(&mut self.state.from_items, &text);
        Ok(true)
    }

    /// Adds readable reasoning.
    pub(super) fn think(&mut self, thoughts: Vec<String>) -> Result<()> {
        for text in thoughts {
            if recall(&mut self.state.from_events, &text) {
                continue;
            }
            let block = Block::Thinking(text.clone());
            let open = self.answer()?;
            if let Some(place) = open.announced.iter().position(|announced| announced.is(&block)) {
                open.announced.remove(place);
            }
            open.message.blocks.push(block);
            remember(&mut self.state.from_items, &text);
        }
        Ok(())
    }

    /// Takes an event that shows what an item says as well, before or after it.
    pub(super) fn announce(&mut self, block: Block) -> Result<()> {
        let (Block::Text(text) | Block::Thinking(text)) = &block else { return Ok(()) };
        if text.trim().is_empty() || recall(&mut self.state.from_items, text) {
            return self.pass("told by its item");
        }
        let is_text = matches!(block, Block::Text(_));
        let announced = Announced { block, place: 0 };
        let is_told = |open: &Open| open.message.blocks.iter().any(|known| announced.is(known));
        if self.open.as_ref().is_some_and(is_told) {
            return self.pass("told by its item");
        }
        if is_text && self.open.as_ref().is_some_and(Open::says) {
            self.close()?;
        }
        let open = self.answer()?;
        let place = open.message.blocks.len();
        open.announced.push(Announced { place, ..announced });
        Ok(())
    }

    /// Takes a count of tokens: that of the open answer, if it has none yet.
    pub(super) fn count(&mut self, info: &Info) -> Result<()> {
        let mut totals = self.state.totals;
        let used = info.step(&mut totals);
        // A fork's first count repeats where its origin stood, before anything was asked.
        if self.state.is_fork && self.forks.is_empty() && self.state.threads.is_before_turns() {
            self.state.totals = totals;
            return self.pass("token_count of the fork's origin");
        }
        let (Some(used), Some(after)) = (used, totals) else {
            self.state.totals = totals;
            return self.pass("token_count");
        };
        let thread = self.state.threads.current().unwrap_or(&self.state.native);
        let usage = used.usage(thread, after);
        if self.open.as_ref().is_none_or(|open| open.message.usage.is_some()) {
            self.close()?;
            self.answer()?;
        }
        if let Some(open) = &mut self.open {
            open.message.usage = Some(usage);
        }
        self.state.totals = totals;
        Ok(())
    }

    /// Tells a message that does not end the open answer.
    pub(super) fn trail(&mut self, message: Message) -> Result<()> {
        match &mut self.open {
            Some(open) if open.trailing.len() < MAX_TRAILING => {
                open.trailing.push(message);
                Ok(())
            }
            _ => self.tell(message),
        }
    }

    /// Tells whatever waits.
    pub(super) fn close(&mut self) -> Result<()> {
        self.settle()?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let mut has_text = open.has_text;
        // From the last to the first, so that the places before stay what they are.
        while let Some(Announced { block, place }) = open.announced.pop() {
            if let Block::Text(text) | Block::Thinking(text) = &block {
                remember(&mut self.state.from_events, text);
            }
            has_text |= matches!(block, Block::Text(_));
            open.message.blocks.insert(place, block);
        }
        // The steps before a text are parts of the answer it ends; tokens alone are part of none.
        let number = if open.message.blocks.is_empty() {
            self.state.answers.saturating_sub(1)
        } else {
            self.state.answers
        };
        open.message.api_id = Some(format!("{}#{number}", self.state.native));
        self.state.answers += u64::from(has_text);
        open.message.uuid.get_or_insert(open.place);
        self.emit(*open.message)?;
        open.trailing.into_iter().try_for_each(|message| self.emit(message))
    }
}

fn joined(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}
