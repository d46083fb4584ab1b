//! Results of tools moved next to their calls. Messages wait for the results of their calls, but
//! only so many and so large: beyond that a result stays where it was recorded.

use std::collections::VecDeque;

use super::schema::{Block, Message};

/// How many messages may wait.
const MESSAGES: usize = 64;

/// How many bytes may wait.
const BYTES: usize = 16 << 20;

/// Moves results to their calls.
#[derive(Default)]
pub(crate) struct Grouper {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

struct Waiting {
    message: Message,
    /// Calls without a result so far.
    open: usize,
    bytes: usize,
}

impl Grouper {
    /// Takes a message, and gives those that need not wait any more.
    pub(crate) fn add(&mut self, mut message: Message) -> Vec<Message> {
        let blocks = std::mem::take(&mut message.content);
        for block in blocks {
            if let Some(block) = self.place(block, &mut message) {
                message.content.push(block);
            }
        }
        let open = message.content.iter().filter(|block| is_open(block, &message.content)).count();
        let bytes = message.content.iter().map(size).sum();
        self.bytes += bytes;
        self.waiting.push_back(Waiting { message, open, bytes });
        let mut ready = Vec::new();
        while let Some(first) = self.waiting.front()
            && (first.open == 0 || self.waiting.len() > MESSAGES || self.bytes > BYTES)
        {
            self.bytes -= first.bytes;
            ready.extend(self.waiting.pop_front().map(|one| one.message));
        }
        ready
    }

    /// Gives everything that still waits.
    pub(crate) fn finish(&mut self) -> Vec<Message> {
        self.bytes = 0;
        self.waiting.drain(..).map(|one| one.message).collect()
    }

    /// Puts a result behind its call; returns any other block.
    fn place(&mut self, block: Block, message: &mut Message) -> Option<Block> {
        let Block::ToolResult { tool_id, .. } = &block else { return Some(block) };
        if call_at(&message.content, tool_id).is_some() {
            return Some(block);
        }
        for waiting in self.waiting.iter_mut().rev() {
            if let Some(at) = call_at(&waiting.message.content, tool_id) {
                if answered(&waiting.message.content, tool_id) {
                    // A second result of one call stays where it was told.
                    return Some(block);
                }
                let bytes = size(&block);
                waiting.message.content.insert(at + 1, block);
                waiting.open = waiting.open.saturating_sub(1);
                waiting.bytes += bytes;
                self.bytes += bytes;
                return None;
            }
        }
        Some(block)
    }
}

fn is_open(block: &Block, content: &[Block]) -> bool {
    matches!(block, Block::ToolUse { tool_id, .. } if !answered(content, tool_id))
}

fn answered(content: &[Block], id: &str) -> bool {
    content.iter().any(|block| matches!(block, Block::ToolResult { tool_id, .. } if tool_id == id))
}

fn call_at(content: &[Block], id: &str) -> Option<usize> {
    content
        .iter()
        .position(|block| matches!(block, Block::ToolUse { tool_id, .. } if tool_id == id))
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.len(),
        Block::Thinking { thinking } => thinking.len(),
        Block::ToolUse { input, .. } => input.as_str().len(),
        Block::ToolResult { output, .. } => output.len(),
        Block::Image { data, .. } => data.as_ref().map_or(0, String::len),
        Block::Other { raw } => raw.as_str().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::schema::Role;
    use crate::model::Json;

    fn message(index: u64, content: Vec<Block>) -> Message {
        Message {
            index,
            uuid: None,
            parent_uuid: None,
            role: Role::User,
            timestamp: None,
            content,
            metadata: None,
            extensions: <_>::default(),
        }
    }

    fn call(id: &str) -> Block {
        Block::ToolUse { tool_id: id.into(), tool_name: "t".into(), input: Json::from_value(&1) }
    }

    fn result(id: &str) -> Block {
        Block::ToolResult {
            tool_id: id.into(),
            tool_name: "t".into(),
            output: "o".into(),
            is_error: false,
        }
    }

    #[test]
    fn a_result_stands_behind_its_call_and_its_message_stays() {
        let mut grouper = Grouper::default();
        assert!(grouper.add(message(1, vec![call("a"), call("b")])).is_empty());
        assert!(grouper.add(message(2, vec![result("b")])).is_empty());
        let ready = grouper.add(message(3, vec![result("a")]));
        let expected = [
            message(1, vec![call("a"), result("a"), call("b"), result("b")]),
            message(2, vec![]),
            message(3, vec![]),
        ];
        assert_eq!(ready, expected);
        // What is grouped already stays as it is.
        let mut again = Grouper::default();
        let ready: Vec<Message> = expected.iter().flat_map(|one| again.add(one.clone())).collect();
        assert_eq!(ready, expected);
    }

    #[test]
    fn a_call_without_an_answer_holds_up_nobody_for_long() {
        let mut grouper = Grouper::default();
        grouper.add(message(1, vec![call("a")]));
        let ready: usize = (0..200).map(|at| grouper.add(message(at, vec![])).len()).sum();
        assert!(ready > 100, "{ready}");
        let late = grouper.add(message(300, vec![result("a")]));
        let all: Vec<Message> = late.into_iter().chain(grouper.finish()).collect();
        assert!(all.iter().any(|one| one.content == [result("a")]));
    }
}
