//! Converts a message and its parts, as versions before 2 record them.

use serde_json::value::RawValue;

use super::document::{
    CallFacts, OpenCodeError, OpenCodeFirstMetadata, OpenCodeMessage, OpenCodeTime, millis_to_time,
};
use super::part::{self, OpenCodePart, RecordedPart, ToolDetails};
use super::step::StepMessages;
use crate::connectors::formats::json::{self, BorrowedText, UnnamedFields, owned_if_present};
use crate::model::{ATTACHMENTS, Block, Extensions, Json, Message, Origin, Role, Timestamp};

/// Fields that repeat others, or that hold instructions of the program.
const OMITTED: &[&str] =
    &["agentID", "format", "id", "mode", "model", "sessionID", "system", "tokens", "tools"];

/// The text with which the program records a shell command that a person ran. The reply that
/// follows holds the command and its output.
const SHELL_NOTICE: &str = "The following tool was executed by the user";

/// A message as recorded.
pub(super) struct RecordedMessage {
    /// Id of the message.
    pub(super) id: String,
    /// Time of the record, in milliseconds since 1970, where the database has it.
    pub(super) created_ms: Option<i64>,
    /// Whether an agent inside the session wrote it.
    pub(super) is_sidechain: bool,
    /// The document.
    pub(super) text: String,
    /// The parts, where the document does not hold them.
    pub(super) parts: Vec<RecordedPart>,
}

/// A converted record.
pub(super) enum ConvertedMessage {
    /// Messages of the model, at least one.
    Messages(Vec<Message>),
    /// A record without content for the journal.
    PassedOver(&'static str),
    /// A record that is not a JSON object.
    Unreadable,
}

/// Facts about a record that apply to more than its messages.
#[derive(Default)]
pub(super) struct RecordFacts {
    /// Start of the record.
    pub(super) began: Option<Timestamp>,
    /// End of the record.
    pub(super) ended: Option<Timestamp>,
    /// Files that the step changed.
    pub(super) files: Vec<String>,
}

/// Converts the messages of a session, in order.
#[derive(Default)]
pub(super) struct MessageConverter {
    /// Id of the message that announces a shell command of a person.
    shell_notice: Option<String>,
}

impl MessageConverter {
    /// Converts a message with its parts.
    pub(super) fn convert_message(
        &mut self,
        record: &RecordedMessage,
    ) -> (ConvertedMessage, RecordFacts) {
        let Some(mut message) = json::parse_json::<OpenCodeMessage<'_>>(&record.text) else {
            return (ConvertedMessage::Unreadable, RecordFacts::default());
        };
        let inner = message.parts.take().unwrap_or_default().into_iter();
        let inner = inner.map(|raw| RecordedPart { id: None, text: raw.get().to_owned() });
        let own: Vec<RecordedPart> = inner.collect();
        let parts = if own.is_empty() { &record.parts } else { &own };
        let mut metadata = message.metadata.take().unwrap_or_default();
        let time: OpenCodeTime = message.time.take().or(metadata.time.take()).unwrap_or_default();
        let created = time.created.or(record.created_ms.and_then(|ms| u64::try_from(ms).ok()));
        let began = created.and_then(millis_to_time);
        let ended = time.completed.and_then(millis_to_time).or(began);
        let facts = RecordFacts { began, ended, files: changed_files(parts) };
        let role = message.role.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        let envelope = Message {
            uuid: Some(record.id.clone()),
            at: began,
            sidechain: record.is_sidechain,
            ..Message::default()
        };
        let converted = match role.as_str() {
            "user" => self.convert_prompt(message, parts, envelope),
            "assistant" => self.convert_reply(message, metadata, parts, envelope),
            _ => ConvertedMessage::Messages(convert_unknown(record, parts, envelope)),
        };
        (converted, facts)
    }

    fn convert_prompt(
        &mut self,
        message: OpenCodeMessage<'_>,
        parts: &[RecordedPart],
        mut envelope: Message,
    ) -> ConvertedMessage {
        keep_unmodeled_fields(message.rest, &mut envelope.extensions);
        let mut prompt = PromptParts::default();
        for part in parts {
            prompt.add_part(part);
        }
        if prompt.is_shell_notice() {
            self.shell_notice.clone_from(&envelope.uuid);
            return ConvertedMessage::PassedOver("shell command of a person");
        }
        prompt.into_messages(envelope)
    }

    fn convert_reply(
        &mut self,
        message: OpenCodeMessage<'_>,
        metadata: OpenCodeFirstMetadata<'_>,
        parts: &[RecordedPart],
        envelope: Message,
    ) -> ConvertedMessage {
        let parent = message.parent.as_ref().map(BorrowedText::as_borrowed_str);
        let is_shell = self.shell_notice.is_some() && self.shell_notice.as_deref() == parent;
        if is_shell && let Some(messages) = convert_shell_command(parts, &envelope) {
            return ConvertedMessage::Messages(messages);
        }
        let first = metadata.assistant.unwrap_or_default();
        let is_summary = message.summary.is_some_and(|raw| raw.get() == "true")
            || first.is_summary == Some(true);
        let created_ms = envelope.at.map(Timestamp::as_millis);
        let provider = owned_if_present(message.provider.or(first.provider));
        let call = CallFacts {
            created_ms,
            provider: provider.as_deref().unwrap_or_default(),
            cost: message.cost.or(first.cost),
        };
        let tokens = message.tokens.or(first.tokens);
        let mut reply = Message {
            role: if is_summary { Role::User } else { Role::Assistant },
            origin: if is_summary { Origin::Summary } else { Origin::Assistant },
            model: owned_if_present(message.model_id.or(first.model_id)),
            stop_reason: owned_if_present(message.finish),
            usage: tokens.and_then(|tokens| tokens.to_usage(&call)),
            cwd: message.path.or(first.path).and_then(|path| owned_if_present(path.cwd)),
            ..envelope
        };
        keep_unmodeled_fields(message.rest, &mut reply.extensions);
        if let Some(provider) = &provider {
            reply.extensions.insert("providerID".to_owned(), Json::from_value(provider));
        }
        let error = message.error.or(metadata.error);
        reply.failed = error.is_some();
        let tools = metadata.tools.and_then(json::object_fields).unwrap_or_default();
        let tools =
            tools.into_iter().map(|(id, raw)| ToolDetails { call_id: id.into_owned(), raw });
        let tools: Vec<_> = tools.collect();
        let mut step = StepMessages::new(reply);
        part::add_reply_parts(parts, &tools, &mut step);
        if let Some(text) = error.and_then(OpenCodeError::error_text) {
            step.keep_extension("error", Some(Json::from_value(&text)));
            if step.is_empty() {
                step.push_block(Block::Text(text));
            }
        }
        ConvertedMessage::Messages(step.into_messages())
    }
}

/// Lists the files that the patches of a step name.
fn changed_files(parts: &[RecordedPart]) -> Vec<String> {
    let patches = parts.iter().filter(|part| part.text.contains("\"patch\""));
    let patches = patches.filter_map(RecordedPart::parse_part);
    let files = patches.filter(|part| part.part_type() == "patch").filter_map(|part| part.files);
    files.flatten().filter_map(|file| owned_if_present(Some(file))).collect()
}

/// Keeps a message of an unknown role, with the blocks of its parts.
fn convert_unknown(
    record: &RecordedMessage,
    parts: &[RecordedPart],
    envelope: Message,
) -> Vec<Message> {
    let mut step = StepMessages::new(envelope);
    step.push_block(Block::Other(json::json_as_recorded(&record.text)));
    part::add_reply_parts(parts, &[], &mut step);
    step.into_messages()
}

/// Converts a shell command that a person ran: the command as typed, and its output as a second
/// message. `None` when the reply holds anything else.
fn convert_shell_command(parts: &[RecordedPart], envelope: &Message) -> Option<Vec<Message>> {
    let mut step = StepMessages::new(envelope.clone());
    part::add_reply_parts(parts, &[], &mut step);
    let messages = step.into_messages();
    let [Block::ToolCall { input, .. }] = messages.first()?.blocks.as_slice() else { return None };
    let fields: std::collections::BTreeMap<String, Json> = input.parse_as()?;
    let command: String = fields.get("command")?.parse_as()?;
    let output =
        messages.iter().flat_map(|message| &message.blocks).find_map(|block| match block {
            Block::ToolResult { output, .. } => Some(output.clone()),
            _ => None,
        });
    Some(command_messages(envelope.clone(), &command, output))
}

/// Returns the messages of a shell command that a person ran.
pub(super) fn command_messages(
    envelope: Message,
    command: &str,
    output: Option<String>,
) -> Vec<Message> {
    let output = output.filter(|output| !output.is_empty()).map(|output| Message {
        role: Role::User,
        origin: Origin::Injected,
        at: envelope.at,
        sidechain: envelope.sidechain,
        blocks: vec![Block::Text(output)],
        ..Message::default()
    });
    let mut typed = Message { role: Role::User, origin: Origin::Command, ..envelope };
    typed.blocks = vec![Block::Text(format!("!{command}"))];
    std::iter::once(typed).chain(output).collect()
}

/// The parts of a prompt: typed text and files, and text that the program added.
#[derive(Default)]
struct PromptParts {
    blocks: Vec<Block>,
    attachments: Vec<Extensions>,
    agents: Vec<String>,
    /// Ids and texts of the program.
    injected: Vec<(Option<String>, Block)>,
    /// Tasks that a command gave to a sub-agent.
    tasks: Vec<Message>,
    /// Whether the message asks for a compaction, and whether the program asked by itself.
    compaction: Option<bool>,
}

impl PromptParts {
    fn add_part(&mut self, part: &RecordedPart) {
        let Some(parsed) = part.parse_part() else {
            return self.blocks.push(Block::Other(part.as_recorded()));
        };
        match parsed.part_type() {
            "text" => {
                let is_typed = parsed.is_synthetic != Some(true) && parsed.is_ignored != Some(true);
                let Some(text) = owned_if_present(parsed.text).map(Block::Text) else { return };
                if is_typed {
                    self.blocks.push(text);
                } else {
                    self.injected.push((part.id.clone(), text));
                }
            }
            "file" => self.add_file(&parsed),
            "agent" => self.agents.extend(owned_if_present(parsed.name)),
            "subtask" => self.tasks.push(convert_task(parsed)),
            "compaction" => self.compaction = Some(parsed.is_automatic == Some(true)),
            "step-start" | "step-finish" | "snapshot" | "patch" => {}
            _ => self.blocks.push(Block::Other(part.as_recorded())),
        }
    }

    fn add_file(&mut self, part: &OpenCodePart<'_>) {
        if let Some(image) = part::image_of_file(part) {
            return self.blocks.push(Block::Image(image));
        }
        let text =
            |text: Option<&BorrowedText<'_>>| text.map(|text| text.as_borrowed_str().to_owned());
        let url = text(part.url.as_ref()).filter(|url| !url.starts_with("data:"));
        let path = part.source.as_ref().and_then(|source| text(source.path.as_ref())).or(url);
        let fields = [("path", path), ("name", text(part.filename.as_ref()))];
        let fields = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let fields = fields.map(|(key, value)| (key.to_owned(), Json::from_value(&value)));
        self.attachments.push(fields.collect());
    }

    /// Returns whether the message only announces a shell command of a person.
    fn is_shell_notice(&self) -> bool {
        let is_notice = |block: &Block| matches!(block, Block::Text(text) if text == SHELL_NOTICE);
        let is_alone = self.blocks.is_empty() && self.attachments.is_empty();
        is_alone && matches!(self.injected.as_slice(), [(_, block)] if is_notice(block))
    }

    fn into_messages(self, mut envelope: Message) -> ConvertedMessage {
        let Self { blocks, attachments, agents, injected, tasks, compaction } = self;
        if !attachments.is_empty() {
            let attachments = Json::from_value(&attachments);
            envelope.extensions.insert(ATTACHMENTS.to_owned(), attachments);
        }
        if !agents.is_empty() {
            envelope.extensions.insert("agents".to_owned(), Json::from_value(&agents));
        }
        let is_typed = !blocks.is_empty() || envelope.extensions.contains_key(ATTACHMENTS);
        let is_asked_compaction = compaction == Some(false);
        let (at, sidechain) = (envelope.at, envelope.sidechain);
        let mut messages = Vec::new();
        if is_typed || (is_asked_compaction && injected.is_empty()) {
            let origin = if is_typed { Origin::Human } else { Origin::Command };
            let mut prompt = Message { role: Role::User, origin, blocks, ..envelope };
            if !is_typed {
                prompt.blocks.push(Block::Text("/compact".to_owned()));
            }
            messages.push(prompt);
        }
        messages.extend(tasks.into_iter().map(|task| Message { at, sidechain, ..task }));
        messages.extend(injected.into_iter().map(|(uuid, text)| Message {
            uuid,
            role: Role::User,
            origin: Origin::Injected,
            at,
            sidechain,
            blocks: vec![text],
            ..Message::default()
        }));
        match (messages.is_empty(), compaction) {
            (false, _) => ConvertedMessage::Messages(messages),
            (true, Some(_)) => ConvertedMessage::PassedOver("start of a compaction"),
            (true, None) => ConvertedMessage::PassedOver("message without content"),
        }
    }
}

/// Converts a task that a command of a person gave to a sub-agent.
fn convert_task(part: OpenCodePart<'_>) -> Message {
    let mut task = Message { role: Role::User, origin: Origin::Command, ..Message::default() };
    task.blocks.extend(owned_if_present(part.prompt).map(Block::Text));
    for (name, value) in [("agent", part.agent), ("command", part.command)] {
        let value = owned_if_present(value).map(|value| Json::from_value(&value));
        task.extensions.extend(value.map(|value| (name.to_owned(), value)));
    }
    task
}

/// Keeps the fields that have no field in the model.
fn keep_unmodeled_fields(mut rest: UnnamedFields<'_>, extensions: &mut Extensions) {
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    let rest: UnnamedFields<'_> =
        rest.into_iter().filter(|(_, raw): &(_, &RawValue)| raw.get().len() <= 1 << 16).collect();
    json::keep_non_empty_fields(rest, extensions);
}
