//! One message of a session of the SDK, and its blocks, which have the shape of Anthropic's API.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp, Tokens, Usage};

/// Kinds of messages that the program writes in the person's name.
const PROGRAM_KINDS: &[&str] = &[
    "auto_compaction",
    "compaction_budget_emergency",
    "completion_reminder",
    "loop_detection_notice",
    "manual_compaction",
    "mistake_stop_notice",
    "recovery_notice",
];

/// Beginnings of texts that the program writes in the person's name.
const PROGRAM_TEXTS: &[&str] = &[
    "[TASK RESUMPTION]",
    LEGACY_WARNING,
    "The user approved switching to act mode. Continue with the approved plan now.",
];

/// Beginning of the message after those of a task that the program converted to a session.
const LEGACY_WARNING: &str = "Warning: this is a legacy conversation";

lossless! {
    /// One message of a session.
    struct SessionMessage<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "ts" millis: Option<u64>,
        "modelInfo" model: Option<SessionModel<'a>>,
        "metrics" metrics: Option<SessionMetrics>,
        "metadata" metadata: Option<MessageMetadata<'a>>,
        "agent" agent: Option<BorrowedText<'a>>,
        "sessionId" session: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The model that wrote a message.
    struct SessionModel<'a> {
        "id" id: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens and cost of a model call. The input includes tokens read from and written to a cache.
    struct SessionMetrics {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "cacheReadTokens" cache_read: Option<u64>,
        "cacheWriteTokens" cache_write: Option<u64>,
        "cost" cost: Option<f64>,
    }
}

lossless! {
    /// Facts about a message that the model does not receive.
    struct MessageMetadata<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
        "displayRole" display_role: Option<BorrowedText<'a>>,
        "userRunSpan" run_span: Option<u64>,
        "modelToolActivities" activities: Option<Vec<ToolActivity<'a>>>,
    }
}

lenient! {
    /// A tool that ran where the model ran.
    struct ToolActivity<'a> {
        "toolCallId" id: Option<BorrowedText<'a>>,
        "toolName" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "output" output: Option<&'a RawValue>,
        "isError" is_error: Option<bool>,
    }
}

lenient! {
    /// One block of a message.
    struct SessionBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "tool_use_id" call_id: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "is_error" is_error: Option<bool>,
        "data" data: Option<BorrowedText<'a>>,
        "mediaType" media_type: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The outcome of one of the parts of a call, such as one command of several.
    struct PartOutcome<'a> {
        "query" query: Option<BorrowedText<'a>>,
        "result" result: Option<&'a RawValue>,
        "error" error: Option<BorrowedText<'a>>,
        "success" is_success: Option<bool>,
    }
}

impl SessionMessage<'_> {
    /// Returns the time of the message.
    pub(super) fn message_time(&self) -> Option<Timestamp> {
        Timestamp::from_millis(i64::try_from(self.millis?).ok()?)
    }

    /// Returns the identity of the model call. A fork copies messages with their ids and times.
    fn call_identity(&self) -> Option<String> {
        let id = self.id.as_ref().map(BorrowedText::as_borrowed_str).filter(|id| !id.is_empty())?;
        Some(self.millis.map_or_else(|| id.to_owned(), |millis| format!("{id} {millis}")))
    }
}

impl SessionMetrics {
    fn into_usage(self, identity: Option<String>) -> Option<Usage> {
        let count = |count: Option<u64>| count.unwrap_or(0);
        let cached = count(self.cache_read).saturating_add(count(self.cache_write));
        let tokens = Tokens {
            input: count(self.input).saturating_sub(cached),
            output: count(self.output),
            cache_read: count(self.cache_read),
            cache_creation: count(self.cache_write),
            reasoning: None,
        };
        // A cost of zero is that of a model without known prices.
        let cost = self.cost.filter(|dollars| *dollars > 0.0);
        let cost_micros = cost.map(|dollars| (dollars * 1e6).round() as u64);
        tokens
            .is_known()
            .then(|| Usage { identity, tokens, cost_micros, ..Usage::default() }.within_reason())
    }
}

/// Returns whether a message separates the messages of a converted task from those that follow.
pub(super) fn is_legacy_warning(message: &SessionMessage<'_>) -> bool {
    let text = message.content.map(RawValue::get).unwrap_or_default();
    text.len() < 4096 && text.contains(LEGACY_WARNING)
}

/// Converts a message. The results of tools in a message of the person become a message of their
/// own. A message without content becomes none.
pub(super) fn convert_message(mut source: SessionMessage<'_>) -> Vec<Message> {
    let mut converted = Vec::new();
    let role = source.role.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
    let mut message = Message {
        uuid: source.id.as_ref().map(|id| id.as_borrowed_str().to_owned()),
        at: source.message_time(),
        ..Message::default()
    };
    let identity = source.call_identity();
    let metadata = source.metadata.take().unwrap_or_default();
    let blocks = source.content.map(blocks_of_content).unwrap_or_default();
    json::keep_non_empty_fields(std::mem::take(&mut source.rest), &mut message.extensions);
    match role.as_str() {
        "assistant" => {
            message.role = Role::Assistant;
            message.origin = Origin::Assistant;
            let model = source.model.and_then(|model| model.id).map(BorrowedText::into_owned);
            message.model = model.filter(|model| !model.is_empty());
            message.usage = source.metrics.and_then(|metrics| metrics.into_usage(identity));
            message.blocks = blocks;
            let results = push_activities(metadata.activities.unwrap_or_default(), &mut message);
            json::keep_non_empty_fields(metadata.rest, &mut message.extensions);
            converted.push(message);
            converted.extend(results);
        }
        "user" => convert_person_message(message, blocks, metadata, &mut converted),
        _ => {
            message.failed = role == "error";
            message.blocks = blocks;
            json::keep_non_empty_fields(metadata.rest, &mut message.extensions);
            converted.push(message);
        }
    }
    converted.retain(|message| !message.blocks.is_empty() || message.usage.is_some());
    converted
}

fn convert_person_message(
    mut message: Message,
    blocks: Vec<Block>,
    metadata: MessageMetadata<'_>,
    converted: &mut Vec<Message>,
) {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    let has_result = blocks.iter().any(is_result);
    // The images of a result follow it.
    let end =
        blocks.iter().position(|block| matches!(block, Block::Text(_))).filter(|_| has_result);
    let mut blocks = blocks;
    let spoken = match end {
        Some(end) if blocks[..end].iter().any(is_result) => blocks.split_off(end),
        Some(_) => {
            let (results, spoken) = blocks.into_iter().partition(is_result);
            blocks = results;
            spoken
        }
        None if has_result => Vec::new(),
        None => std::mem::take(&mut blocks),
    };
    if has_result {
        let result = Message {
            role: Role::Tool,
            origin: Origin::Tool,
            uuid: message.uuid.clone().filter(|_| spoken.is_empty()),
            at: message.at,
            blocks,
            ..Message::default()
        };
        converted.push(result);
    }
    if spoken.is_empty() {
        return;
    }
    message.role = Role::User;
    message.blocks = spoken;
    message.origin = origin_of_message(&message, &metadata);
    if message.origin == Origin::Human {
        unwrap_prompt(&mut message);
    }
    if let Some(kind) = metadata.kind {
        let kind = Json::from_value(&kind.as_borrowed_str());
        message.extensions.insert("kind".to_owned(), kind);
    }
    json::keep_non_empty_fields(metadata.rest, &mut message.extensions);
    converted.push(message);
}

/// Decides who wrote a message in the person's name.
fn origin_of_message(message: &Message, metadata: &MessageMetadata<'_>) -> Origin {
    let text = |field: &Option<BorrowedText<'_>>| {
        field.as_ref().map_or(String::new(), |text| text.as_borrowed_str().to_owned())
    };
    let kind = text(&metadata.kind);
    let display_role = text(&metadata.display_role);
    let is_program = PROGRAM_KINDS.contains(&&*kind)
        || metadata.run_span == Some(0)
        || matches!(&*display_role, "system" | "status" | "error");
    let is_program_text = || {
        let text = message.joined_text();
        PROGRAM_TEXTS.iter().any(|beginning| text.starts_with(beginning))
    };
    match &*kind {
        "compaction" | "compaction_summary" => Origin::Summary,
        _ if is_program || is_program_text() => Origin::Injected,
        _ => Origin::Human,
    }
}

/// Takes the tags off a prompt that name the mode, or the command that it came from.
fn unwrap_prompt(message: &mut Message) {
    for block in &mut message.blocks {
        let Block::Text(text) = block else { continue };
        let (notice, rest) = split_notice(text);
        let Some((mode, slash, typed)) = split_wrapper(rest) else { continue };
        let typed = slash.map_or_else(|| typed.clone(), |slash| format!("/{slash} {typed}"));
        if let Some(mode) = mode {
            message.extensions.insert("mode".to_owned(), Json::from_value(&mode));
        }
        if let Some(notice) = notice {
            message.extensions.insert("mode_notice".to_owned(), Json::from_value(&notice));
        }
        typed.trim().clone_into(text);
    }
}

/// Splits the notice that the person changed the mode from the text that follows.
fn split_notice(text: &str) -> (Option<&str>, &str) {
    let split = || text.trim_start().strip_prefix("<mode_notice>")?.split_once("</mode_notice>");
    split().map_or((None, text), |(notice, rest)| (Some(notice), rest))
}

/// Splits a wrapped prompt into its mode, the name of its command, and the text. A text behind the
/// wrapper stays.
fn split_wrapper(text: &str) -> Option<(Option<String>, Option<String>, String)> {
    let text = text.trim_start();
    let tags = [("<user_input", "</user_input>"), ("<user_command", "</user_command>")];
    let (attributes, inner, behind) = tags.iter().find_map(|(start, end)| {
        let (attributes, rest) = text.strip_prefix(start)?.split_once('>')?;
        let (inner, behind) = rest.rsplit_once(end)?;
        Some((attributes, inner, behind))
    })?;
    let attribute = |name: &str| {
        let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let behind = behind.trim();
    let typed = if behind.is_empty() { inner.to_owned() } else { format!("{inner}\n\n{behind}") };
    // A command is wrapped once more.
    let (_, slash, typed) = match split_wrapper(&typed) {
        Some(inside) if attribute("slash").is_none() => (inside.0, inside.1, inside.2),
        _ => (None, attribute("slash"), typed),
    };
    Some((attribute("mode"), slash, typed))
}

/// Adds the calls of tools that ran where the model ran. Returns their results.
fn push_activities(activities: Vec<ToolActivity<'_>>, message: &mut Message) -> Option<Message> {
    let mut results = Vec::new();
    for activity in activities {
        let id = activity.id.map(BorrowedText::into_owned).unwrap_or_default();
        message.blocks.push(Block::ToolCall {
            id: id.clone(),
            name: activity.name.map(BorrowedText::into_owned).unwrap_or_default(),
            input: activity.input.map_or_else(|| Json::from_value(&()), Json::from),
        });
        if activity.output.is_some() || activity.is_error.is_some() {
            let (output, images, _) = activity.output.map(result_of_content).unwrap_or_default();
            let is_error = Some(activity.is_error == Some(true));
            results.push(Block::ToolResult { call_id: id, output, is_error });
            results.extend(images);
        }
    }
    (!results.is_empty()).then(|| Message {
        role: Role::Tool,
        origin: Origin::Tool,
        at: message.at,
        blocks: results,
        ..Message::default()
    })
}

/// Converts a content, which is a text or a list of blocks.
fn blocks_of_content(content: &RawValue) -> Vec<Block> {
    let mut blocks = Vec::new();
    match json::array_elements(content) {
        Some(parts) => parts.into_iter().for_each(|part| push_block(part, &mut blocks)),
        None if content.get() == "null" => {}
        None => push_block(content, &mut blocks),
    }
    blocks
}

fn push_block(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        blocks.extend(Some(text).filter(|text| !text.is_empty()).map(Block::Text));
        return;
    }
    let Some(block) = json::parse_json::<SessionBlock<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
    match block.kind.as_ref().map_or("", BorrowedText::as_borrowed_str) {
        "text" if block.text.is_some() => {
            blocks.extend(owned(block.text).filter(|text| !text.is_empty()).map(Block::Text));
        }
        "thinking" if block.thinking.is_some() => {
            let text = owned(block.thinking).filter(|text| !text.is_empty());
            blocks.extend(text.map(Block::Thinking));
        }
        // Encrypted reasoning is never kept.
        "redacted_thinking" => {}
        "tool_use" => blocks.push(Block::ToolCall {
            id: owned(block.id).unwrap_or_default(),
            name: owned(block.name).unwrap_or_default(),
            input: block.input.map_or_else(|| Json::from_value(&()), Json::from),
        }),
        "tool_result" => {
            let (output, images, is_success) =
                block.content.map(result_of_content).unwrap_or_default();
            let is_error = Some(block.is_error == Some(true) || is_success == Some(false));
            let call_id = owned(block.call_id).unwrap_or_default();
            blocks.push(Block::ToolResult { call_id, output, is_error });
            blocks.extend(images);
        }
        "image" if block.data.is_some() => blocks.extend(image_of_block(block)),
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

/// Converts the content of a result: its text, its images, and whether all of its parts succeeded,
/// where it says so.
fn result_of_content(content: &RawValue) -> (String, Vec<Block>, Option<bool>) {
    let mut result = ResultParts::default();
    match json::array_elements(content) {
        Some(parts) => {
            let is_single = parts.len() == 1;
            for part in parts {
                result.add_part(part, is_single);
            }
        }
        None => result.add_part(content, true),
    }
    (result.texts.join("\n"), result.images, result.is_success)
}

/// The parts of a result.
#[derive(Default)]
struct ResultParts {
    texts: Vec<String>,
    images: Vec<Block>,
    is_success: Option<bool>,
}

impl ResultParts {
    /// Adds a part: an outcome, which may be the JSON in a text, or a block.
    fn add_part(&mut self, raw: &RawValue, is_single: bool) {
        let text = serde_json::from_str::<String>(raw.get()).ok();
        let inner = text.as_deref().filter(|text| text.starts_with('{'));
        let inner = inner.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        if !self.add_outcome(inner.unwrap_or(raw), is_single) {
            self.add_block(raw);
        }
    }

    /// Adds a text or an image. Any other block is kept as its JSON.
    fn add_block(&mut self, raw: &RawValue) {
        if raw.get() == "null" {
            return;
        }
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            return self.texts.push(text);
        }
        let block = json::parse_json::<SessionBlock<'_>>(raw.get()).unwrap_or_default();
        match block.kind.as_ref().map_or("", BorrowedText::as_borrowed_str) {
            "text" if block.text.is_some() => {
                self.texts.extend(block.text.map(BorrowedText::into_owned));
            }
            "image" if block.data.is_some() => self.images.extend(image_of_block(block)),
            _ => self.texts.push(Json::from(raw).as_json_str().to_owned()),
        }
    }

    /// Adds the outcome of a part. Returns whether it is one. The parts of a call that has several
    /// are named.
    fn add_outcome(&mut self, raw: &RawValue, is_single: bool) -> bool {
        let Some(outcome) = json::parse_json::<PartOutcome<'_>>(raw.get()) else { return false };
        if outcome.result.is_none() && outcome.is_success.is_none() {
            return false;
        }
        let owned = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        self.texts.extend(owned(outcome.query).filter(|_| !is_single));
        let known = self.texts.len();
        match outcome.result.map(|result| (result, json::array_elements(result))) {
            Some((_, Some(parts))) => parts.into_iter().for_each(|part| self.add_block(part)),
            Some((result, None)) if result.get() != "\"\"" => self.add_block(result),
            _ => {}
        }
        // The text of a failed command usually begins with the error.
        let is_new = |error: &String| !self.texts[known..].iter().any(|text| text.contains(error));
        let error = owned(outcome.error).filter(is_new);
        self.texts.extend(error);
        if let Some(is_success) = outcome.is_success {
            self.is_success = Some(self.is_success.unwrap_or(true) && is_success);
        }
        true
    }
}

fn image_of_block(block: SessionBlock<'_>) -> Option<Block> {
    let media_type = block.media_type.map(BorrowedText::into_owned);
    let data = block.data?;
    Some(Block::Image(Image::from_base64(media_type, data.as_borrowed_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_the_text_inside_its_tags() {
        let check = |text: &str, expected: &str| {
            let mut message =
                Message { blocks: vec![Block::Text(text.to_owned())], ..Message::default() };
            unwrap_prompt(&mut message);
            assert_eq!(message.joined_text(), expected, "{text}");
        };
        check("plain", "plain");
        check("<user_input mode=\"act\">mix it</user_input>", "mix it");
        check(
            "<mode_notice>changed</mode_notice><user_input mode=\"plan\">mix</user_input>\n<file>",
            "mix\n\n<file>",
        );
        check("<user_command slash=\"team\">mix</user_command>", "/team mix");
        check(
            "<user_input mode=\"act\"><user_command slash=\"team\">mix</user_command></user_input>",
            "/team mix",
        );
        check("see <user_input> in the code", "see <user_input> in the code");
    }

    #[test]
    fn the_parts_of_a_result_tell_whether_it_failed() {
        let check = |content: &str, output: &str, is_success: Option<bool>| {
            let raw: &RawValue = serde_json::from_str(content).unwrap();
            let (text, _, success) = result_of_content(raw);
            assert_eq!((text.as_str(), success), (output, is_success), "{content}");
        };
        check(r#""done""#, "done", None);
        check(r#""{\"query\":\"q\",\"result\":\"r\",\"success\":true}""#, "r", Some(true));
        check(r#"[{"query":"q","result":"r","success":true}]"#, "r", Some(true));
        check(
            r#"[{"query":"a","result":"r","success":true},{"query":"b","result":"","error":"no","success":false}]"#,
            "a\nr\nb\nno",
            Some(false),
        );
        check(r#"[{"type":"text","text":"t"}]"#, "t", None);
        check(r#""{\"text\":\"t\",\"iterations\":2}""#, r#"{"text":"t","iterations":2}"#, None);
    }
}
