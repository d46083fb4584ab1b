//! Converts one recorded message into messages: a reply that used tools is followed by a message
//! with the tool results.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::fold::fold_text;
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::connectors::formats::jsonl;
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Timestamp, Tokens, Usage};

use super::prompt;

lossless! {
    struct ChatLine<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "displayContent" display: Option<&'a RawValue>,
        "thoughts" thoughts: Option<&'a RawValue>,
        "tokens" tokens: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "toolCalls" calls: Option<Vec<ChatToolCall<'a>>>,
    }
}

lossless! {
    /// A tool call with its result.
    struct ChatToolCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "args" args: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "resultDisplay" display: Option<&'a RawValue>,
        "status" status: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ChatThought<'a> {
        "subject" subject: Option<BorrowedText<'a>>,
        "description" description: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Token counts of one model call. `input` includes `cached`; `output` does not include
    /// `thoughts`.
    struct ChatTokenCounts {
        "input" input: Option<u64>,
        "output" output: Option<u64>,
        "cached" cached: Option<u64>,
        "thoughts" thoughts: Option<u64>,
        "tool" tool: Option<u64>,
    }
}

/// Returns the time at which a message was recorded.
pub(super) fn recorded_message_time(held: &str) -> Option<Timestamp> {
    lenient! {
        struct RecordedInstant<'a> {
            "timestamp" timestamp: Option<BorrowedText<'a>>,
        }
    }
    parse_chat_time(json::parse_json::<RecordedInstant<'_>>(held)?.timestamp.as_ref())
}

/// Returns a key for the content of a recorded message: role, text and ids of tool calls. The key
/// is the same for every form in which the message is recorded. `None` when the message is empty.
pub(super) fn message_content_key(held: &str) -> Option<String> {
    let message = parse_chat_record(held).into_iter().next()?;
    let mut said = message.joined_text();
    for block in &message.blocks {
        if let Block::ToolCall { id, .. } = block {
            said = format!("{said}\0{id}");
        }
    }
    let said = said.trim();
    (!said.is_empty()).then(|| format!("{}\0{said}", message.role.role_name()))
}

/// Parses one recorded message into messages. A record that cannot be parsed becomes a raw JSON
/// block.
pub(super) fn parse_chat_record(held: &str) -> Vec<Message> {
    let mended = jsonl::mend_escapes(held.as_bytes());
    let text = fold_text(std::str::from_utf8(&mended).unwrap_or(held));
    let text = &*text;
    match json::parse_json::<ChatLine<'_>>(text) {
        Some(line) => convert_chat_line(line, text),
        None => vec![Message { blocks: raw_record_blocks(text), ..Message::default() }],
    }
}

fn convert_chat_line(line: ChatLine<'_>, held: &str) -> Vec<Message> {
    match line.kind.as_ref().map_or("", BorrowedText::as_borrowed_str) {
        "user" => convert_user_line(line),
        // Forks record replies under their own name.
        "gemini" | "qwen" | "assistant" | "model" => convert_answer_line(line),
        "info" | "warning" | "error" => vec![convert_notice_line(line)],
        _ => {
            let mut message = message_from_line(line);
            message.extensions.clear();
            message.blocks = raw_record_blocks(held);
            vec![message]
        }
    }
}

fn convert_user_line(mut line: ChatLine<'_>) -> Vec<Message> {
    let (content, display) = (line.content.take(), line.display.take());
    let mut message = Message { role: Role::User, ..message_from_line(line) };
    let mut sent = Vec::new();
    if let Some(content) = content {
        genai::append_content_blocks(content, &mut sent);
    }
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    if sent.iter().any(is_result) {
        return split_tool_results(sent, message);
    }
    message.blocks = sent;
    message.origin = user_message_origin(&message);
    // `displayContent` is the typed prompt. The program sent more than that, such as the contents
    // of referenced files.
    if let Some(display) = display {
        let mut shown = Vec::new();
        genai::append_content_blocks(display, &mut shown);
        if !shown.is_empty() && shown != message.blocks {
            message.blocks = shown;
            message.extensions.extend(content.map(|raw| ("content".to_owned(), Json::from(raw))));
        }
    }
    if message.origin == Origin::Human {
        take_off_envelope(&mut message);
    }
    vec![message]
}

/// Splits the blocks of a user record into a message with tool results and a prompt with the hints
/// that a person typed while the tools ran.
fn split_tool_results(sent: Vec<Block>, message: Message) -> Vec<Message> {
    let is_hint =
        |block: &Block| matches!(block, Block::Text(text) if prompt::typed_hints(text).is_some());
    let (hints, results): (Vec<Block>, Vec<Block>) = sent.into_iter().partition(is_hint);
    let (role, origin) = (Role::Tool, Origin::Tool);
    if hints.is_empty() {
        return vec![Message { role, origin, blocks: results, ..message }];
    }
    let parent = message.uuid.clone();
    let results =
        Message { role, origin, parent, at: message.at, blocks: results, ..Message::default() };
    let mut typed = Message { origin: Origin::Human, blocks: hints, ..message };
    take_off_envelope(&mut typed);
    vec![results, typed]
}

/// Strips the text that the program added around a prompt and keeps it in the extensions.
fn take_off_envelope(message: &mut Message) {
    let texts = message.blocks.iter().filter(|block| matches!(block, Block::Text(_)));
    let has_context = texts.count() > 1 && prompt::is_context(&message.joined_text());
    let Message { blocks, extensions, .. } = message;
    let mut keep = |rest: &str| {
        extensions.insert("envelope".to_owned(), Json::from_value(&rest));
    };
    if has_context {
        // The context and the task are separate blocks.
        let last = blocks.iter().rposition(|block| matches!(block, Block::Text(_)));
        let mut context = Vec::new();
        let mut place = 0;
        blocks.retain(|block| {
            place += 1;
            match block {
                Block::Text(text) if Some(place - 1) != last => {
                    context.push(text.clone());
                    false
                }
                _ => true,
            }
        });
        return keep(&context.join("\n\n"));
    }
    for block in blocks {
        if let Block::Text(text) = block
            && let Some((typed, rest)) = prompt::split_added_text(text)
        {
            keep(&rest);
            *text = typed;
        }
    }
}

/// Returns the origin of a user message: a person, a command, a summary or the program.
fn user_message_origin(message: &Message) -> Origin {
    const MACHINE: &[(&str, Origin)] = &[
        ("/", Origin::Command),
        ("?", Origin::Command),
        ("<session_context>", Origin::Injected),
        ("<hook_context>", Origin::Injected),
        ("<state_snapshot>", Origin::Summary),
    ];
    let text = message.joined_text();
    let text = text.trim_start();
    if text.is_empty() {
        let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
        return if has_image { Origin::Human } else { Origin::Injected };
    }
    let machine = MACHINE.iter().find(|(beginning, _)| text.starts_with(beginning));
    machine.map_or(Origin::Human, |(_, origin)| *origin)
}

fn convert_answer_line(mut line: ChatLine<'_>) -> Vec<Message> {
    let calls = line.calls.take().unwrap_or_default();
    let mut blocks = Vec::new();
    if let Some(thoughts) = line.thoughts.take() {
        push_thoughts(thoughts, &mut blocks);
    }
    if let Some(content) = line.content.take() {
        genai::append_content_blocks(content, &mut blocks);
    }
    // The content may repeat the tool calls that `toolCalls` lists with their results.
    blocks.retain(|block| match block {
        Block::ToolCall { id, .. } => !calls.iter().any(|call| call.call_key() == *id),
        _ => true,
    });
    blocks.extend(calls.iter().map(ChatToolCall::call_block));
    let counts = line.tokens.take().and_then(|raw| json::parse_json::<ChatTokenCounts>(raw.get()));
    let mut message =
        Message { role: Role::Assistant, origin: Origin::Assistant, ..message_from_line(line) };
    message.blocks = blocks;
    let tokens = counts.and_then(|counts| counts.tokens_by_class());
    message.usage =
        tokens.map(|tokens| Usage { identity: message.uuid.clone(), tokens, ..Usage::default() });
    let results = tool_results_message(calls, message.uuid.as_deref());
    std::iter::once(message).chain(results).collect()
}

fn push_thoughts(raw: &RawValue, blocks: &mut Vec<Block>) {
    let Some(thoughts) = json::parse_json::<Vec<ChatThought<'_>>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    for thought in thoughts {
        let parts = [thought.subject, thought.description];
        let parts: Vec<String> =
            parts.into_iter().flatten().map(BorrowedText::into_owned).collect();
        let text = parts.join("\n\n");
        if !text.trim().is_empty() {
            blocks.push(Block::Thinking(text));
        }
    }
}

/// Builds the message with the results of a reply's tool calls. `None` when there are no results.
fn tool_results_message(calls: Vec<ChatToolCall<'_>>, answer: Option<&str>) -> Option<Message> {
    let mut message = Message {
        role: Role::Tool,
        origin: Origin::Tool,
        parent: answer.map(str::to_owned),
        ..Message::default()
    };
    let mut displays = BTreeMap::new();
    for call in calls {
        message.at = message.at.max(parse_chat_time(call.timestamp.as_ref()));
        call.push_call_result(&mut message.blocks);
        let (id, display) = (call.call_key(), call.keep_display_fields());
        if !display.is_empty() {
            displays.insert(id, display);
        }
    }
    if !displays.is_empty() {
        message.extensions.insert("toolCalls".to_owned(), Json::from_value(&displays));
    }
    (!message.blocks.is_empty()).then_some(message)
}

impl ChatToolCall<'_> {
    fn call_key(&self) -> String {
        let id = self.id.as_ref().or(self.name.as_ref());
        id.map(|id| id.as_borrowed_str().to_owned()).unwrap_or_default()
    }

    fn call_block(&self) -> Block {
        Block::ToolCall {
            id: self.call_key(),
            name: self
                .name
                .as_ref()
                .map(|name| name.as_borrowed_str().to_owned())
                .unwrap_or_default(),
            input: self.args.map_or_else(|| Json::from_value(&()), Json::from),
        }
    }

    /// Appends the result and the images that belong to it.
    fn push_call_result(&self, blocks: &mut Vec<Block>) {
        let mut parts = Vec::new();
        if let Some(result) = self.result {
            genai::append_content_blocks(result, &mut parts);
        }
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for part in parts {
            match part {
                Block::Text(text) | Block::ToolResult { output: text, .. } => texts.push(text),
                other => others.push(other),
            }
        }
        if texts.is_empty() {
            // Nothing was sent to the model, so the text shown to the person is the result.
            texts.extend(self.display.and_then(|raw| serde_json::from_str(raw.get()).ok()));
        }
        if texts.is_empty() && others.is_empty() {
            return;
        }
        let output = texts.join("\n");
        let failed = match self.status.as_ref().map(BorrowedText::as_borrowed_str) {
            // `success` means that the tool ran the command. The command itself may have failed.
            Some("success") => Some(
                self.is_shell() && parse_appended_exit_code(&output).is_some_and(|code| code != 0),
            ),
            Some("error") => Some(true),
            // Cancelled, or still running.
            _ => None,
        };
        blocks.push(Block::ToolResult { call_id: self.call_key(), output, is_error: failed });
        blocks.append(&mut others);
    }

    fn is_shell(&self) -> bool {
        self.name.as_ref().is_some_and(|name| name.as_borrowed_str().contains("shell"))
    }

    /// Keeps the small fields of a tool call and the diff of an edit.
    fn keep_display_fields(self) -> Extensions {
        let mut kept = Extensions::new();
        json::keep_non_empty_fields(self.rest, &mut kept);
        kept.retain(|_, value| value.as_json_str().len() <= json::MAX_SMALL);
        if let Some(status) = self.status.filter(|status| status.as_borrowed_str() != "success") {
            kept.insert("status".to_owned(), Json::from_value(&status.as_borrowed_str()));
        }
        if let Some(display) = self.display.and_then(json::small_parts) {
            kept.insert("resultDisplay".to_owned(), display);
        }
        kept
    }
}

/// Parses the exit code from the lines that the program appends to a command's output.
fn parse_appended_exit_code(output: &str) -> Option<i64> {
    const BEHIND: &[&str] =
        &["Signal:", "Error:", "Background PIDs:", "Process Group PGID:", "</untrusted_context>"];
    let mut lines = output.lines().rev().map(str::trim).skip_while(|line| {
        line.is_empty() || BEHIND.iter().any(|beginning| line.starts_with(beginning))
    });
    lines.next()?.strip_prefix("Exit Code: ")?.trim().parse().ok()
}

impl ChatTokenCounts {
    /// Returns the tokens by class. `None` when the record has no counts.
    fn tokens_by_class(&self) -> Option<Tokens> {
        let counts = [self.input, self.output, self.cached, self.thoughts, self.tool];
        counts.iter().any(Option::is_some).then(|| self.disjoint_classes())
    }

    fn disjoint_classes(&self) -> Tokens {
        let count = |count: Option<u64>| count.unwrap_or(0);
        let (input, cached) = (count(self.input), count(self.cached));
        Tokens {
            input: input.saturating_sub(cached).saturating_add(count(self.tool)),
            output: count(self.output).saturating_add(count(self.thoughts)),
            cache_read: cached.min(input),
            cache_creation: 0,
            reasoning: Some(count(self.thoughts)),
        }
    }
}

fn convert_notice_line(mut line: ChatLine<'_>) -> Message {
    let kind = line.kind.take().map(BorrowedText::into_owned).unwrap_or_default();
    let content = line.content.take();
    let mut message = message_from_line(line);
    message.failed = kind == "error";
    message.extensions.insert("type".to_owned(), Json::from_value(&kind));
    if let Some(content) = content {
        genai::append_content_blocks(content, &mut message.blocks);
    }
    message
}

/// Builds a message from the fields that every record has. Fields unknown to the model go into the
/// extensions.
fn message_from_line(line: ChatLine<'_>) -> Message {
    let mut extensions = Extensions::new();
    json::keep_non_empty_fields(line.rest, &mut extensions);
    Message {
        uuid: line.id.map(BorrowedText::into_owned).filter(|id| !id.is_empty()),
        at: parse_chat_time(line.timestamp.as_ref()),
        model: line.model.map(BorrowedText::into_owned).filter(|model| !model.is_empty()),
        extensions,
        ..Message::default()
    }
}

fn raw_record_blocks(held: &str) -> Vec<Block> {
    let raw = serde_json::from_str::<&RawValue>(held).ok();
    raw.map(|raw| Block::Other(Json::from(raw))).into_iter().collect()
}

fn parse_chat_time(text: Option<&BorrowedText<'_>>) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text?.as_borrowed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_input_is_taken_out_and_thoughts_are_added_to_the_output() {
        let raw = r#"{"input":6398,"output":1,"cached":5693,"thoughts":21,"tool":0,"total":6420}"#;
        let tokens =
            serde_json::from_str::<ChatTokenCounts>(raw).unwrap().tokens_by_class().unwrap();
        assert_eq!((tokens.input, tokens.cache_read), (705, 5693));
        assert_eq!((tokens.output, tokens.reasoning), (22, Some(21)));
        assert_eq!(tokens.total_tokens(), 6420);
    }

    #[test]
    fn only_what_a_person_typed_is_a_prompt() {
        let check = |content: &str, expected: Origin| {
            let held = format!(r#"{{"id":"u","type":"user","content":{content}}}"#);
            assert_eq!(parse_chat_record(&held)[0].origin, expected, "{content}");
        };
        check(r#""fix it""#, Origin::Human);
        check(r#"[{"text":" /stats"}]"#, Origin::Command);
        check(r#"[{"text":"?"}]"#, Origin::Command);
        check(r#"[{"text":"<session_context>today</session_context>"}]"#, Origin::Injected);
        check(r#"[{"text":"<state_snapshot>so far</state_snapshot>"}]"#, Origin::Summary);
        check(r#"[{"text":" "}]"#, Origin::Injected);
        check(r#"[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]"#, Origin::Human);
        check(
            r#"[{"functionResponse":{"id":"c","name":"f","response":{"output":"x"}}}]"#,
            Origin::Tool,
        );
    }

    #[test]
    fn exit_codes_stand_behind_the_output() {
        let check = |output: &str, expected: Option<i64>| {
            assert_eq!(parse_appended_exit_code(output), expected, "{output}");
        };
        check(
            "<untrusted_context>\nOutput: x\nExit Code: 2\nProcess Group PGID: 7\n</untrusted_context>",
            Some(2),
        );
        check("Stdout: x\nStderr: (empty)\nError: (none)\nExit Code: 0\nSignal: (none)", Some(0));
        check("Output: Exit Code: 2\nProcess Group PGID: 7", None);
        check("Exit Code: 2\nand so on", None);
        check("Exit Code: (none)", None);
    }

    #[test]
    fn the_status_of_a_call_tells_whether_it_failed() {
        let check = |status: &str, expected: Option<bool>| {
            let result = r#"[{"functionResponse":{"id":"c","response":{"error":"no"}}}]"#;
            let held = format!(
                r#"{{"id":"a","type":"gemini","content":"","toolCalls":[{{"id":"c","name":"f","args":{{}},"result":{result},"status":"{status}"}}]}}"#
            );
            let messages = parse_chat_record(&held);
            let Block::ToolResult { is_error, output, .. } = &messages[1].blocks[0] else {
                panic!("{messages:?}")
            };
            assert_eq!((*is_error, output.as_str()), (expected, "no"), "{status}");
        };
        check("success", Some(false));
        check("error", Some(true));
        check("cancelled", None);
    }
}
