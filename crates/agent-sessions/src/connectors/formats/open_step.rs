//! A step: one reply of the model, recorded in parts, and the results of its calls.

use serde_json::value::RawValue;

use crate::model::{Block, Json, Message, Origin, Role, Timestamp, Usage};

/// A step that is being read. Its messages are emitted when it ends.
#[derive(Debug, Default)]
pub struct OpenStep {
    /// The reply so far.
    reply: Message,
    /// Arguments of the last call, while further parts of them may follow.
    arguments: Option<String>,
    /// Messages that follow the reply.
    followers: Vec<Message>,
    /// Model calls recorded during the step, each with its model.
    calls: Vec<(Usage, Option<String>)>,
}

impl OpenStep {
    /// Begins a step. `id` is the agent's own id for it.
    pub fn begin(id: Option<String>) -> Self {
        let reply = Message {
            uuid: id,
            role: Role::Assistant,
            origin: Origin::Assistant,
            ..Message::default()
        };
        Self { reply, ..Self::default() }
    }

    /// Marks the messages of the step as those of a side conversation.
    pub fn mark_as_sidechain(&mut self) {
        self.reply.sidechain = true;
    }

    /// Sets the model that writes the reply.
    pub fn set_model(&mut self, model: Option<String>) {
        self.reply.model = model;
    }

    /// Adds blocks to the reply.
    pub fn add_blocks(&mut self, blocks: Vec<Block>, at: Option<Timestamp>) {
        self.seal_arguments();
        self.reply.blocks.extend(blocks);
        self.note_time(at);
    }

    /// Adds a block to the reply. A text continues the text before it, and so does reasoning.
    pub fn continue_block(&mut self, block: Block, at: Option<Timestamp>) {
        match (self.reply.blocks.last_mut(), &block) {
            (Some(Block::Text(known)), Block::Text(more))
            | (Some(Block::Thinking(known)), Block::Thinking(more)) => known.push_str(more),
            _ => self.add_blocks(vec![block], at),
        }
    }

    /// Adds a call whose arguments may be continued.
    pub fn begin_call(
        &mut self,
        id: String,
        name: String,
        arguments: String,
        at: Option<Timestamp>,
    ) {
        self.add_blocks(vec![Block::ToolCall { id, name, input: Json::from_value(&()) }], at);
        self.arguments = Some(arguments);
    }

    /// Continues the arguments of the last call. Without one, they are those of an unknown call.
    pub fn continue_arguments(&mut self, part: &str, at: Option<Timestamp>) {
        match &mut self.arguments {
            Some(arguments) => arguments.push_str(part),
            None => self.begin_call(String::new(), String::new(), part.to_owned(), at),
        }
    }

    /// Adds a message that follows the reply. It may be recorded before the last arguments.
    pub fn add_follower(&mut self, message: Message) {
        self.followers.push(message);
    }

    /// Returns whether messages follow the reply.
    pub fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Adds a model call that was recorded during the step.
    pub fn add_model_call(&mut self, usage: Usage, model: Option<String>) {
        self.calls.push((usage, model));
    }

    /// Ends the step with the usage of its reply.
    pub fn set_usage(&mut self, usage: Option<Usage>) {
        self.reply.usage = usage;
    }

    /// Returns whether the usage of the reply is known.
    pub fn has_usage(&self) -> bool {
        self.reply.usage.is_some()
    }

    /// Sets the API's id of the answer.
    pub fn set_answer_id(&mut self, id: Option<String>) {
        self.reply.api_id = id;
    }

    /// Sets the reason why the model stopped.
    pub fn set_stop_reason(&mut self, reason: Option<String>) {
        self.reply.stop_reason = reason;
    }

    /// Marks the reply as interrupted.
    pub fn interrupt(&mut self) {
        self.reply.stop_reason = Some("interrupted".to_owned());
        self.reply.failed = true;
    }

    /// Returns the messages of the step in order.
    pub fn into_messages(mut self) -> Vec<Message> {
        self.seal_arguments();
        let Self { mut reply, followers, mut calls, .. } = self;
        match &reply.usage {
            // The usage of the reply is recorded twice.
            Some(usage) => {
                let same = calls.iter().position(|(call, _)| call.tokens == usage.tokens);
                same.map(|at| calls.remove(at));
            }
            None if !reply.blocks.is_empty() => {
                if let Some((usage, model)) = calls.pop() {
                    reply.usage = Some(usage);
                    reply.model = model.or(reply.model);
                }
            }
            None => {}
        }
        let is_empty = reply.blocks.is_empty() && reply.usage.is_none();
        let (sidechain, at) = (reply.sidechain, reply.at);
        let mut messages = Vec::new();
        messages.extend(calls.into_iter().map(|(usage, model)| Message {
            usage: Some(usage),
            model,
            at,
            sidechain,
            ..Message::default()
        }));
        messages.extend((!is_empty).then_some(reply));
        messages.extend(followers);
        messages
    }

    /// The reply has the time of its first part: the model answers before the parts are written.
    fn note_time(&mut self, at: Option<Timestamp>) {
        self.reply.at = self.reply.at.or(at);
    }

    fn seal_arguments(&mut self) {
        let Some(arguments) = self.arguments.take() else { return };
        if let Some(Block::ToolCall { input, .. }) = self.reply.blocks.last_mut() {
            *input = match serde_json::from_str::<&RawValue>(&arguments) {
                Ok(raw) => Json::from(raw),
                Err(_) => Json::from_value(&arguments),
            };
        }
    }
}
