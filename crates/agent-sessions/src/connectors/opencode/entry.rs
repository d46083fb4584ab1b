//! Converts an entry of a session, as version 2 records it: one document, which holds the content
//! of a reply and its tool calls.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::document::{
    CallFacts, OpenCodeError, OpenCodeModel, OpenCodeTime, OpenCodeTokens, millis_to_time,
};
use super::message::{ConvertedMessage, RecordFacts, command_messages};
use super::part::{self, OpenCodeToolDetails};
use super::step::{StepMessages, ToolOutcome, ToolUse};
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless, owned_if_present};
use crate::model::{ATTACHMENTS, Block, Extensions, Image, Json, Message, Origin, Role, Timestamp};

/// Entry types that hold state of the program, not conversation.
const STATE: &[&str] = &["agent-switched", "idle", "location-switched", "model-switched"];

/// Fields that only the program or the provider can read.
const OMITTED: &[&str] =
    &["providerState", "rawFinish", "recent", "sessionID", "shellID", "snapshot", "status"];

lossless! {
    /// An entry of a session.
    struct OpenCodeEntry<'a> {
        "time" time: Option<OpenCodeTime>,
        "text" text: Option<BorrowedText<'a>>,
        "files" files: Option<Vec<OpenCodeAttachment<'a>>>,
        "agents" agents: Option<Vec<OpenCodeMention<'a>>>,
        "skills" skills: Option<Vec<OpenCodeSkill<'a>>>,
        "model" model: Option<OpenCodeModel<'a>>,
        "content" content: Option<Vec<&'a RawValue>>,
        "finish" finish: Option<BorrowedText<'a>>,
        "cost" cost: Option<f64>,
        "tokens" tokens: Option<OpenCodeTokens>,
        "error" error: Option<OpenCodeError<'a>>,
        "command" command: Option<BorrowedText<'a>>,
        "output" output: Option<OpenCodeShellOutput<'a>>,
        "exit" exit: Option<f64>,
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A file attached to a prompt.
    struct OpenCodeAttachment<'a> {
        "data" data: Option<BorrowedText<'a>>,
        "mime" mime: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "source" source: Option<OpenCodeUriSource<'a>>,
    }
}

lenient! {
    /// The origin of an attached file.
    struct OpenCodeUriSource<'a> {
        "uri" uri: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A sub-agent that a prompt names.
    struct OpenCodeMention<'a> {
        "name" name: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A skill that a prompt names, with its text.
    struct OpenCodeSkill<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The output of a shell command that a person ran.
    struct OpenCodeShellOutput<'a> {
        "output" output: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// One piece of a reply.
    struct OpenCodeContent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "state" state: Option<OpenCodeCallState<'a>>,
        "time" time: Option<OpenCodeTime>,
    }
}

lenient! {
    /// The state of a tool call, which holds its input and its result.
    struct OpenCodeCallState<'a> {
        "status" status: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "content" content: Option<Vec<&'a RawValue>>,
        "error" error: Option<OpenCodeError<'a>>,
        "metadata" metadata: Option<&'a RawValue>,
    }
}

lenient! {
    /// One piece of a tool's output.
    struct OpenCodeOutput<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "uri" uri: Option<BorrowedText<'a>>,
        "mime" mime: Option<BorrowedText<'a>>,
    }
}

/// An entry as recorded.
pub(super) struct RecordedEntry {
    /// Id of the entry.
    pub(super) id: String,
    /// Type of the entry.
    pub(super) kind: String,
    /// Time of the record, in milliseconds since 1970.
    pub(super) created_ms: Option<i64>,
    /// The document.
    pub(super) text: String,
}

/// Converts an entry.
pub(super) fn convert_entry(record: &RecordedEntry) -> (ConvertedMessage, RecordFacts) {
    let Some(mut entry) = json::parse_json::<OpenCodeEntry<'_>>(&record.text) else {
        return (ConvertedMessage::Unreadable, RecordFacts::default());
    };
    let time = entry.time.take().unwrap_or_default();
    let created = time.created.or(record.created_ms.and_then(|ms| u64::try_from(ms).ok()));
    let began = created.and_then(millis_to_time);
    let ended = time.completed.and_then(millis_to_time).or(began);
    let facts = RecordFacts { began, ended, files: Vec::new() };
    let mut envelope = Message { uuid: Some(record.id.clone()), at: began, ..Message::default() };
    let mut rest = std::mem::take(&mut entry.rest);
    rest.retain(|(key, raw)| !OMITTED.contains(&&**key) && raw.get().len() <= 1 << 16);
    json::keep_non_empty_fields(rest, &mut envelope.extensions);
    let converted = match record.kind.as_str() {
        "user" => convert_prompt(entry, envelope),
        "assistant" => convert_reply(entry, envelope),
        "synthetic" | "skill" => convert_injected(entry, envelope, Role::User),
        "system" => convert_injected(entry, envelope, Role::System),
        "shell" => convert_shell(entry, envelope),
        "compaction" => convert_compaction(entry, envelope),
        state if STATE.contains(&state) => ConvertedMessage::PassedOver("state of the program"),
        _ => {
            envelope.extensions.clear();
            envelope.blocks.push(Block::Other(json::json_as_recorded(&record.text)));
            ConvertedMessage::Messages(vec![envelope])
        }
    };
    (converted, facts)
}

fn convert_prompt(entry: OpenCodeEntry<'_>, mut envelope: Message) -> ConvertedMessage {
    let mut blocks = Vec::from_iter(owned_if_present(entry.text).map(Block::Text));
    let mut attachments: Vec<Extensions> = Vec::new();
    for file in entry.files.unwrap_or_default() {
        match image_of_attachment(&file) {
            Some(image) => blocks.push(Block::Image(image)),
            None => attachments.push(attachment_fields(file)),
        }
    }
    if !attachments.is_empty() {
        envelope.extensions.insert(ATTACHMENTS.to_owned(), Json::from_value(&attachments));
    }
    let agents = entry.agents.unwrap_or_default().into_iter();
    let agents: Vec<String> = agents.filter_map(|agent| owned_if_present(agent.name)).collect();
    if !agents.is_empty() {
        envelope.extensions.insert("agents".to_owned(), Json::from_value(&agents));
    }
    let at = envelope.at;
    let prompt = Message { role: Role::User, origin: Origin::Human, blocks, ..envelope };
    let skills = entry.skills.unwrap_or_default().into_iter().filter_map(|skill| {
        let text = owned_if_present(skill.text)?;
        let name = owned_if_present(skill.name).map(|name| Json::from_value(&name));
        Some(Message {
            role: Role::User,
            origin: Origin::Injected,
            at,
            blocks: vec![Block::Text(text)],
            extensions: name.map(|name| ("skill".to_owned(), name)).into_iter().collect(),
            ..Message::default()
        })
    });
    ConvertedMessage::Messages(std::iter::once(prompt).chain(skills).collect())
}

fn image_of_attachment(file: &OpenCodeAttachment<'_>) -> Option<Image> {
    let mime = file.mime.as_ref()?.as_borrowed_str();
    let data = file.data.as_ref()?.as_borrowed_str();
    mime.starts_with("image/").then(|| Image::from_base64(Some(mime.to_owned()), data))
}

/// Returns the name and location of an attached file, and its content if that is text.
fn attachment_fields(file: OpenCodeAttachment<'_>) -> Extensions {
    let data = file.data.and_then(|data| STANDARD.decode(data.as_borrowed_str()).ok());
    let fields = [
        ("path", file.source.and_then(|source| owned_if_present(source.uri))),
        ("name", owned_if_present(file.name)),
        ("content", data.and_then(|data| String::from_utf8(data).ok())),
    ];
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
    fields.map(|(key, value)| (key.to_owned(), Json::from_value(&value))).collect()
}

fn convert_reply(entry: OpenCodeEntry<'_>, envelope: Message) -> ConvertedMessage {
    let model = entry.model.unwrap_or_default();
    let provider = owned_if_present(model.provider);
    let call = CallFacts {
        created_ms: envelope.at.map(Timestamp::as_millis),
        provider: provider.as_deref().unwrap_or_default(),
        cost: entry.cost,
    };
    let mut reply = Message {
        role: Role::Assistant,
        origin: Origin::Assistant,
        model: owned_if_present(model.id),
        stop_reason: owned_if_present(entry.finish),
        usage: entry.tokens.and_then(|tokens| tokens.to_usage(&call)),
        failed: entry.error.is_some(),
        ..envelope
    };
    let provider = provider.map(|provider| Json::from_value(&provider));
    reply.extensions.extend(provider.map(|provider| ("providerID".to_owned(), provider)));
    let mut step = StepMessages::new(reply);
    for raw in entry.content.unwrap_or_default() {
        add_content(raw, &mut step);
    }
    if let Some(text) = entry.error.and_then(OpenCodeError::error_text) {
        step.keep_extension("error", Some(Json::from_value(&text)));
        if step.is_empty() {
            step.push_block(Block::Text(text));
        }
    }
    ConvertedMessage::Messages(step.into_messages())
}

fn add_content(raw: &RawValue, step: &mut StepMessages) {
    let parsed = json::parse_json::<OpenCodeContent<'_>>(raw.get());
    let Some(content) = parsed else { return step.push_block(Block::Other(Json::from(raw))) };
    match content.kind.as_ref().map_or("", BorrowedText::as_borrowed_str) {
        "text" => step.extend_blocks(owned_if_present(content.text).map(Block::Text)),
        "reasoning" => step.extend_blocks(owned_if_present(content.text).map(Block::Thinking)),
        "tool" => step.push_tool(tool_use(content)),
        _ => step.push_block(Block::Other(Json::from(raw))),
    }
}

fn tool_use(content: OpenCodeContent<'_>) -> ToolUse {
    let state = content.state.unwrap_or_default();
    let details: OpenCodeToolDetails<'_> =
        state.metadata.and_then(|raw| json::parse_json(raw.get())).unwrap_or_default();
    let status = state.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let time = content.time.unwrap_or_default();
    let is_error = match status {
        "error" => Some(true),
        "completed" => Some(details.exit.is_some_and(|exit| exit != 0.0)),
        _ => None,
    };
    let mut outputs = Vec::from_iter(state.error.and_then(OpenCodeError::error_text));
    let mut images = Vec::new();
    for raw in state.content.unwrap_or_default() {
        let output: OpenCodeOutput<'_> = json::parse_json(raw.get()).unwrap_or_default();
        let mime = output.mime.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let image =
            output.uri.as_ref().and_then(|uri| part::image_from_url(mime, uri.as_borrowed_str()));
        match (image, owned_if_present(output.text)) {
            (Some(image), _) => images.push(Block::Image(image)),
            (None, Some(text)) => outputs.push(text),
            (None, None) => images.push(Block::Other(Json::from(raw))),
        }
    }
    let is_answered = is_error.is_some() || !outputs.is_empty() || !images.is_empty();
    let outcome = is_answered.then(|| ToolOutcome {
        output: outputs.join("\n"),
        is_error,
        images,
        at: time.completed.and_then(millis_to_time),
        details: state.metadata.and_then(part::small_details),
    });
    ToolUse {
        uuid: None,
        call_id: content.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: content.name.map(BorrowedText::into_owned).unwrap_or_default(),
        input: state.input.map_or_else(|| Json::from_value(&()), Json::from),
        outcome,
    }
}

fn convert_injected(entry: OpenCodeEntry<'_>, envelope: Message, role: Role) -> ConvertedMessage {
    let blocks = Vec::from_iter(owned_if_present(entry.text).map(Block::Text));
    let injected = Message { role, origin: Origin::Injected, blocks, ..envelope };
    ConvertedMessage::Messages(vec![injected])
}

fn convert_shell(entry: OpenCodeEntry<'_>, mut envelope: Message) -> ConvertedMessage {
    let exit = entry.exit.filter(|exit| *exit != 0.0).map(|exit| Json::from_value(&exit));
    envelope.extensions.extend(exit.map(|exit| ("exit".to_owned(), exit)));
    let command = entry.command.map(BorrowedText::into_owned).unwrap_or_default();
    let output = entry.output.and_then(|output| owned_if_present(output.output));
    ConvertedMessage::Messages(command_messages(envelope, &command, output))
}

/// Converts a summary of the conversation so far.
fn convert_compaction(entry: OpenCodeEntry<'_>, envelope: Message) -> ConvertedMessage {
    let error = entry.error.and_then(OpenCodeError::error_text);
    let summary = owned_if_present(entry.summary);
    let (role, origin) = match summary {
        Some(_) => (Role::User, Origin::Summary),
        None => (Role::System, Origin::System),
    };
    let Some(text) = summary.or(error) else {
        return ConvertedMessage::PassedOver("compaction without a summary");
    };
    let blocks = vec![Block::Text(text)];
    ConvertedMessage::Messages(vec![Message { role, origin, blocks, ..envelope }])
}
