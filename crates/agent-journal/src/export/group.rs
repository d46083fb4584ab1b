//! Moves tool results next to their calls. Messages wait for the results of their calls, up to a
//! limit in number and size. Beyond it a result stays where it was recorded.

use std::collections::VecDeque;

use super::schema::{DocumentBlock, DocumentMessage};

/// The maximum number of waiting messages.
const MESSAGES: usize = 64;

/// The maximum size of the waiting messages, in bytes.
const BYTES: usize = 16 << 20;

/// Moves tool results behind the calls they answer.
#[derive(Default)]
pub(crate) struct Grouper {
    waiting: VecDeque<WaitingMessage>,
    bytes: usize,
}

struct WaitingMessage {
    message: DocumentMessage,
    /// The number of calls without a result so far.
    open: usize,
    bytes: usize,
}

impl Grouper {
    /// Adds a message, and returns the messages that need not wait any longer.
    pub(crate) fn add_to_group(&mut self, mut message: DocumentMessage) -> Vec<DocumentMessage> {
        let blocks = std::mem::take(&mut message.content);
        for block in blocks {
            if let Some(block) = self.place_result(block, &mut message) {
                message.content.push(block);
            }
        }
        let open = message
            .content
            .iter()
            .filter(|block| is_unanswered_call(block, &message.content))
            .count();
        let bytes = message.content.iter().map(block_size).sum();
        self.bytes += bytes;
        self.waiting.push_back(WaitingMessage { message, open, bytes });
        let mut ready = Vec::new();
        while let Some(first) = self.waiting.front()
            && (first.open == 0 || self.waiting.len() > MESSAGES || self.bytes > BYTES)
        {
            self.bytes -= first.bytes;
            ready.extend(self.waiting.pop_front().map(|one| one.message));
        }
        ready
    }

    /// Returns all messages that still wait.
    pub(crate) fn take_waiting(&mut self) -> Vec<DocumentMessage> {
        self.bytes = 0;
        self.waiting.drain(..).map(|one| one.message).collect()
    }

    /// Moves a result behind its call. Returns the block if it stays in its message.
    fn place_result(
        &mut self,
        block: DocumentBlock,
        message: &mut DocumentMessage,
    ) -> Option<DocumentBlock> {
        let DocumentBlock::ToolResult { tool_id, .. } = &block else { return Some(block) };
        if call_at(&message.content, tool_id).is_some() {
            return Some(block);
        }
        for waiting in self.waiting.iter_mut().rev() {
            if let Some(at) = call_at(&waiting.message.content, tool_id) {
                if has_answer(&waiting.message.content, tool_id) {
                    // A second result of a call stays where it was recorded.
                    return Some(block);
                }
                let bytes = block_size(&block);
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

fn is_unanswered_call(block: &DocumentBlock, content: &[DocumentBlock]) -> bool {
    matches!(block, DocumentBlock::ToolUse { tool_id, .. } if !has_answer(content, tool_id))
}

fn has_answer(content: &[DocumentBlock], id: &str) -> bool {
    content
        .iter()
        .any(|block| matches!(block, DocumentBlock::ToolResult { tool_id, .. } if tool_id == id))
}

fn call_at(content: &[DocumentBlock], id: &str) -> Option<usize> {
    content
        .iter()
        .position(|block| matches!(block, DocumentBlock::ToolUse { tool_id, .. } if tool_id == id))
}

fn block_size(block: &DocumentBlock) -> usize {
    match block {
        DocumentBlock::Text { text } => text.len(),
        DocumentBlock::Thinking { thinking } => thinking.len(),
        DocumentBlock::ToolUse { input, .. } => input.as_json_str().len(),
        DocumentBlock::ToolResult { output, .. } => output.len(),
        DocumentBlock::Image { data, .. } => data.as_ref().map_or(0, String::len),
        DocumentBlock::Other { raw } => raw.as_json_str().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::schema::DocumentRole;
    use crate::model::Json;

    fn message(index: u64, content: Vec<DocumentBlock>) -> DocumentMessage {
        DocumentMessage {
            index,
            uuid: None,
            parent_uuid: None,
            role: DocumentRole::User,
            timestamp: None,
            content,
            metadata: None,
            extensions: <_>::default(),
        }
    }

    fn call(id: &str) -> DocumentBlock {
        DocumentBlock::ToolUse {
            tool_id: id.into(),
            tool_name: "t".into(),
            input: Json::from_value(&1),
        }
    }

    fn result(id: &str) -> DocumentBlock {
        DocumentBlock::ToolResult {
            tool_id: id.into(),
            tool_name: "t".into(),
            output: "o".into(),
            is_error: false,
        }
    }

    #[test]
    fn a_result_stands_behind_its_call_and_its_message_stays() {
        let mut grouper = Grouper::default();
        assert!(grouper.add_to_group(message(1, vec![call("a"), call("b")])).is_empty());
        assert!(grouper.add_to_group(message(2, vec![result("b")])).is_empty());
        let ready = grouper.add_to_group(message(3, vec![result("a")]));
        let expected = [
            message(1, vec![call("a"), result("a"), call("b"), result("b")]),
            message(2, vec![]),
            message(3, vec![]),
        ];
        assert_eq!(ready, expected);
        // Messages that are already grouped stay as they are.
        let mut again = Grouper::default();
        let ready: Vec<DocumentMessage> =
            expected.iter().flat_map(|one| again.add_to_group(one.clone())).collect();
        assert_eq!(ready, expected);
    }

    #[test]
    fn a_call_without_an_answer_holds_up_nobody_for_long() {
        let mut grouper = Grouper::default();
        grouper.add_to_group(message(1, vec![call("a")]));
        let ready: usize = (0..200).map(|at| grouper.add_to_group(message(at, vec![])).len()).sum();
        assert!(ready > 100, "{ready}");
        let late = grouper.add_to_group(message(300, vec![result("a")]));
        let all: Vec<DocumentMessage> = late.into_iter().chain(grouper.take_waiting()).collect();
        assert!(all.iter().any(|one| one.content == [result("a")]));
    }
}
