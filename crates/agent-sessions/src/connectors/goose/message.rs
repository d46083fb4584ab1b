//! Converts the content of a message, a list of typed items.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role};

lenient! {
    /// One item of a message.
    struct GooseItem<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "reasoning" reasoning: Option<BorrowedText<'a>>,
        "msg" notice: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
        "mimeType" mime_type: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "toolCall" tool_call: Option<&'a RawValue>,
        "toolResult" tool_result: Option<&'a RawValue>,
    }
}

lenient! {
    /// A tool call or its result: a value if the program understood it, else an error. The first
    /// versions wrote the value alone.
    struct GooseOutcome<'a> {
        "status" status: Option<BorrowedText<'a>>,
        "value" value: Option<&'a RawValue>,
        "error" error: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct GooseCall<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

lenient! {
    struct GooseResult<'a> {
        "content" content: Option<&'a RawValue>,
        "isError" is_error: Option<bool>,
        "structuredContent" structured: Option<StructuredResult>,
        "_meta" meta: Option<ResultMetadata<'a>>,
    }
}

lenient! {
    struct StructuredResult {
        "exit_code" exit_code: Option<f64>,
    }
}

lenient! {
    struct ResultMetadata<'a> {
        "subagent_session_id" sub_agent: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The readers that a message is meant for.
    struct GooseVisibility {
        "userVisible" for_person: Option<bool>,
        "agentVisible" for_model: Option<bool>,
    }
}

/// One message, as a row or a line records it.
pub(super) struct GooseMessage<'a> {
    pub(super) role: &'a str,
    pub(super) content: &'a RawValue,
    pub(super) metadata: Option<&'a RawValue>,
}

/// Converts messages in their order.
#[derive(Default)]
pub(super) struct MessageConverter {
    /// The text of the latest prompt.
    prompt: String,
    /// Whether the message before this one was written by a compaction.
    is_after_compaction: bool,
}

impl MessageConverter {
    /// Converts a message. `envelope` has its id and time. Also returns the sessions of the
    /// sub-agents whose results are in it.
    pub(super) fn convert_message(
        &mut self,
        recorded: &GooseMessage<'_>,
        envelope: Message,
    ) -> (Message, Vec<String>) {
        let mut message = envelope;
        let mut sub_agents = Vec::new();
        match json::array_elements(recorded.content) {
            Some(items) => {
                for item in items {
                    push_item(item, &mut message.blocks, &mut sub_agents);
                }
            }
            None => message.blocks.push(Block::Other(Json::from(recorded.content))),
        }
        let visibility = recorded.metadata.and_then(|raw| json::parse_json(raw.get()));
        let visibility: GooseVisibility = visibility.unwrap_or_default();
        let is_hidden = visibility.for_person == Some(false);
        (message.role, message.origin) = match recorded.role {
            "assistant" => (Role::Assistant, Origin::Assistant),
            "user" if is_only_results(&message.blocks) => (Role::Tool, Origin::Tool),
            "user" => (Role::User, self.origin_of_prompt(&message, is_hidden)),
            _ => (Role::System, Origin::System),
        };
        if message.origin == Origin::Assistant && is_hidden {
            // The program tells the model that the context was compacted.
            (message.role, message.origin) = (Role::User, Origin::Injected);
        }
        self.is_after_compaction = message.origin == Origin::Injected && is_hidden;
        if message.origin == Origin::Human {
            self.prompt = message.joined_text();
        }
        keep_visibility(&visibility, &mut message.extensions);
        (message, sub_agents)
    }

    /// Returns the author of a text in the person's role. A compaction repeats the latest prompt
    /// after its summary, which only the model sees.
    fn origin_of_prompt(&self, message: &Message, is_hidden: bool) -> Origin {
        let is_repeated = self.is_after_compaction && message.joined_text() == self.prompt;
        let is_summary =
            is_hidden && message.blocks.iter().any(|block| matches!(block, Block::Text(_)));
        // The prompt that is repeated later is hidden from both.
        if is_repeated || is_summary { Origin::Injected } else { Origin::Human }
    }
}

fn keep_visibility(visibility: &GooseVisibility, extensions: &mut Extensions) {
    let known = [("userVisible", visibility.for_person), ("agentVisible", visibility.for_model)];
    for (name, is_visible) in known {
        if is_visible == Some(false) {
            extensions.insert(name.to_owned(), Json::from_value(&false));
        }
    }
}

fn is_only_results(blocks: &[Block]) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. } | Block::Image(_));
    blocks.iter().any(|block| matches!(block, Block::ToolResult { .. }))
        && blocks.iter().all(is_result)
}

fn push_item(raw: &RawValue, blocks: &mut Vec<Block>, sub_agents: &mut Vec<String>) {
    let Some(item) = json::parse_json::<GooseItem<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let kind = item.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
    let id = || owned(item.id.clone()).unwrap_or_default();
    match kind {
        "text" if item.text.is_some() => push_text(owned(item.text), Block::Text, blocks),
        "thinking" if item.thinking.is_some() => {
            push_text(owned(item.thinking), Block::Thinking, blocks);
        }
        "reasoning" if item.text.is_some() || item.reasoning.is_some() => {
            push_text(owned(item.text.or(item.reasoning)), Block::Thinking, blocks);
        }
        // Encrypted reasoning is never kept.
        "redactedThinking" => {}
        "systemNotification" | "conversationCompacted" if item.notice.is_some() => {
            push_text(owned(item.notice), Block::Text, blocks);
        }
        "image" if item.data.is_some() => {
            let data = owned(item.data).unwrap_or_default();
            blocks.push(Block::Image(Image::from_base64(owned(item.mime_type), &data)));
        }
        "toolRequest" | "frontendToolRequest" if item.tool_call.is_some() => {
            blocks.extend(item.tool_call.map(|call| tool_call_block(call, id())));
        }
        "toolResponse" if item.tool_result.is_some() => {
            if let Some(result) = item.tool_result {
                push_tool_result(result, id(), blocks, sub_agents);
            }
        }
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

fn push_text(text: Option<String>, block: fn(String) -> Block, blocks: &mut Vec<Block>) {
    blocks.extend(text.filter(|text| !text.is_empty()).map(block));
}

/// Converts a tool call. One that the program could not understand keeps its error as input.
fn tool_call_block(raw: &RawValue, id: String) -> Block {
    let outcome = json::parse_json::<GooseOutcome<'_>>(raw.get()).unwrap_or_default();
    let value = outcome.value.unwrap_or(raw);
    let call = json::parse_json::<GooseCall<'_>>(value.get()).unwrap_or_default();
    let input = match (call.arguments, outcome.error) {
        (Some(arguments), _) => Json::from(arguments),
        (None, Some(error)) => Json::from_value(&error.as_borrowed_str()),
        (None, None) if call.name.is_none() => Json::from(raw),
        (None, None) => Json::from_value(&()),
    };
    Block::ToolCall { id, name: call.name.map(BorrowedText::into_owned).unwrap_or_default(), input }
}

/// Appends the result of a tool, and the images in it. A command that ended with a status other
/// than 0 failed.
fn push_tool_result(
    raw: &RawValue,
    call_id: String,
    blocks: &mut Vec<Block>,
    sub_agents: &mut Vec<String>,
) {
    let outcome = json::parse_json::<GooseOutcome<'_>>(raw.get()).unwrap_or_default();
    let status = outcome.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let value = outcome.value.unwrap_or(raw);
    let result = json::parse_json::<GooseResult<'_>>(value.get()).unwrap_or_default();
    let content = result.content.unwrap_or(value);
    let mut inner = Vec::new();
    for part in json::array_elements(content).unwrap_or_default() {
        push_item(part, &mut inner, &mut Vec::new());
    }
    let mut texts: Vec<String> = Vec::new();
    let mut others = Vec::new();
    for block in inner {
        match block {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    let error = outcome.error.map(BorrowedText::into_owned);
    texts.extend(error.filter(|_| status != "success"));
    let exit_code = result.structured.and_then(|structured| structured.exit_code);
    let is_failed = status == "error" || exit_code.is_some_and(|code| code != 0.0);
    let is_error = if is_failed { Some(true) } else { result.is_error };
    let is_error = is_error.or((status == "success").then_some(false));
    blocks.push(Block::ToolResult { call_id, output: texts.join("\n"), is_error });
    blocks.extend(others);
    let sub_agent = result.meta.and_then(|meta| meta.sub_agent);
    sub_agents.extend(sub_agent.map(BorrowedText::into_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(role: &str, content: &str, converter: &mut MessageConverter) -> Message {
        let content = serde_json::from_str(content).unwrap();
        let recorded = GooseMessage { role, content, metadata: None };
        converter.convert_message(&recorded, Message::default()).0
    }

    #[test]
    fn results_of_every_version_have_their_text_and_outcome() {
        let check = |result: &str, text: &str, failed: Option<bool>| {
            let content = format!(r#"[{{"type":"toolResponse","id":"c","toolResult":{result}}}]"#);
            let message = read("user", &content, &mut MessageConverter::default());
            let expected = Block::ToolResult {
                call_id: "c".to_owned(),
                output: text.to_owned(),
                is_error: failed,
            };
            assert_eq!((message.role, &*message.blocks), (Role::Tool, &[expected][..]), "{result}");
        };
        let text = r#"[{"type":"text","text":"out"}]"#;
        check(&format!(r#"{{"status":"success","value":{text}}}"#), "out", Some(false));
        let value = format!(r#"{{"content":{text},"isError":true}}"#);
        check(&format!(r#"{{"status":"success","value":{value}}}"#), "out", Some(true));
        let value = format!(r#"{{"content":{text},"structuredContent":{{"exit_code":2}}}}"#);
        check(&format!(r#"{{"status":"success","value":{value}}}"#), "out", Some(true));
        check(r#"{"status":"error","error":"no such tool"}"#, "no such tool", Some(true));
    }

    #[test]
    fn the_prompt_that_a_compaction_repeats_is_not_typed_again() {
        let mut converter = MessageConverter::default();
        let mut origin = |role: &str, text: &str, metadata: &str| {
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            let content = serde_json::from_str(&content).unwrap();
            let metadata = Some(serde_json::from_str(metadata).unwrap());
            let recorded = GooseMessage { role, content, metadata };
            converter.convert_message(&recorded, Message::default()).0.origin
        };
        let shown = r#"{"userVisible":true,"agentVisible":false}"#;
        let hidden = r#"{"userVisible":false,"agentVisible":true}"#;
        assert_eq!(origin("user", "glaze it", shown), Origin::Human);
        assert_eq!(origin("user", "a summary", hidden), Origin::Injected);
        assert_eq!(origin("assistant", "it was compacted", hidden), Origin::Injected);
        assert_eq!(origin("user", "glaze it", r#"{"userVisible":true}"#), Origin::Injected);
        assert_eq!(origin("assistant", "done", r#"{"userVisible":true}"#), Origin::Assistant);
        assert_eq!(origin("user", "glaze it", r#"{"userVisible":true}"#), Origin::Human);
    }
}
