//! Collects the messages of one model call: the reply, and a message for each tool result.

use crate::model::{Block, Extensions, Json, Message, Origin, Role, Timestamp};

/// A tool call and its result.
pub(super) struct ToolUse {
    /// Id of the record.
    pub(super) uuid: Option<String>,
    /// Id that joins call and result.
    pub(super) call_id: String,
    /// Name of the tool.
    pub(super) name: String,
    /// Arguments as recorded.
    pub(super) input: Json,
    /// The result, once there is one.
    pub(super) outcome: Option<ToolOutcome>,
}

/// The result of a tool call.
pub(super) struct ToolOutcome {
    /// Output of the tool as text.
    pub(super) output: String,
    /// Whether the call failed, where it is recorded.
    pub(super) is_error: Option<bool>,
    /// Images in the result.
    pub(super) images: Vec<Block>,
    /// Time of the result.
    pub(super) at: Option<Timestamp>,
    /// Further details that the tool recorded.
    pub(super) details: Option<Json>,
}

/// The messages of one model call, in order.
pub(super) struct StepMessages {
    reply: Message,
    results: Vec<Message>,
    has_calls: bool,
    done: Vec<Message>,
}

impl StepMessages {
    /// Starts with the reply, which may have its usage already.
    pub(super) fn new(reply: Message) -> Self {
        Self { reply, results: Vec::new(), has_calls: false, done: Vec::new() }
    }

    /// Appends a block to the reply.
    pub(super) fn push_block(&mut self, block: Block) {
        self.reply.blocks.push(block);
    }

    /// Appends blocks to the reply.
    pub(super) fn extend_blocks(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.reply.blocks.extend(blocks);
    }

    /// Appends tool calls with their results.
    pub(super) fn extend_tools(&mut self, tools: impl IntoIterator<Item = ToolUse>) {
        tools.into_iter().for_each(|tool| self.push_tool(tool));
    }

    /// Appends a tool call to the reply. Its result becomes a message after the reply.
    pub(super) fn push_tool(&mut self, tool: ToolUse) {
        let ToolUse { uuid, call_id, name, input, outcome } = tool;
        self.has_calls = true;
        self.reply.blocks.push(Block::ToolCall { id: call_id.clone(), name, input });
        let Some(ToolOutcome { output, is_error, images, at, details }) = outcome else { return };
        let mut blocks = vec![Block::ToolResult { call_id, output, is_error }];
        blocks.extend(images);
        let details = details.map(|details| ("metadata".to_owned(), details));
        self.results.push(Message {
            uuid,
            role: Role::Tool,
            origin: Origin::Tool,
            at: at.or(self.reply.at),
            sidechain: self.reply.sidechain,
            blocks,
            extensions: Extensions::from_iter(details),
            ..Message::default()
        });
    }

    /// Keeps a field of the format with the reply.
    pub(super) fn keep_extension(&mut self, name: &str, value: Option<Json>) {
        self.reply.extensions.extend(value.map(|value| (name.to_owned(), value)));
    }

    /// Starts another reply, if tools were called in the one before.
    pub(super) fn begin_step(&mut self, uuid: Option<String>) {
        if !std::mem::take(&mut self.has_calls) {
            return;
        }
        let next = Message {
            uuid,
            role: self.reply.role,
            origin: self.reply.origin,
            at: self.results.last().map_or(self.reply.at, |result| result.at),
            model: self.reply.model.clone(),
            cwd: self.reply.cwd.clone(),
            sidechain: self.reply.sidechain,
            ..Message::default()
        };
        self.done.push(std::mem::replace(&mut self.reply, next));
        self.done.append(&mut self.results);
    }

    /// Returns whether the reply has no content yet.
    pub(super) fn is_empty(&self) -> bool {
        self.reply.blocks.is_empty() && self.done.is_empty()
    }

    /// Returns all messages.
    pub(super) fn into_messages(mut self) -> Vec<Message> {
        if !self.reply.blocks.is_empty() || self.done.is_empty() {
            self.done.push(self.reply);
        }
        self.done.append(&mut self.results);
        self.done
    }
}
