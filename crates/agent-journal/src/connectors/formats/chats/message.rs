//! One recorded message, and the messages it becomes: an answer that used tools is followed by
//! what the tools returned.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::fold::fold_text;
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, Text, lenient, lossless};
use crate::connectors::formats::jsonl;
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Timestamp, Tokens, Usage};

use super::prompt;

lossless! {
    struct Line<'a> {
        "id" id: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "type" kind: Option<Text<'a>>,
        "content" content: Option<&'a RawValue>,
        "displayContent" display: Option<&'a RawValue>,
        "thoughts" thoughts: Option<&'a RawValue>,
        "tokens" tokens: Option<&'a RawValue>,
        "model" model: Option<Text<'a>>,
        "toolCalls" calls: Option<Vec<Call<'a>>>,
    }
}

lossless! {
    /// A call with its result.
    struct Call<'a> {
        "id" id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "args" args: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "resultDisplay" display: Option<&'a RawValue>,
        "status" status: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
    }
}

lenient! {
    struct Thought<'a> {
        "subject" subject: Option<Text<'a>>,
        "description" description: Option<Text<'a>>,
    }
}

lenient! {
    /// Tokens of one call of the model. `input` includes `cached`; `thoughts` are not in `output`.
    struct Counts {
        "input" input: Option<u64>,
        "output" output: Option<u64>,
        "cached" cached: Option<u64>,
        "thoughts" thoughts: Option<u64>,
        "tool" tool: Option<u64>,
    }
}

/// When a message was recorded.
pub(super) fn at(held: &str) -> Option<Timestamp> {
    lenient! {
        struct Instant<'a> {
            "timestamp" timestamp: Option<Text<'a>>,
        }
    }
    instant(json::parse::<Instant<'_>>(held)?.timestamp.as_ref())
}

/// What a recorded message says, the same in every form of it; `None` when it says nothing.
pub(super) fn gist(held: &str) -> Option<String> {
    let message = messages(held).into_iter().next()?;
    let mut said = message.text();
    for block in &message.blocks {
        if let Block::ToolCall { id, .. } = block {
            said = format!("{said}\0{id}");
        }
    }
    let said = said.trim();
    (!said.is_empty()).then(|| format!("{}\0{said}", message.role.name()))
}

/// Makes messages of a recorded one; what is not understood is kept as it is.
pub(super) fn messages(held: &str) -> Vec<Message> {
    let mended = jsonl::mend_escapes(held.as_bytes());
    let text = fold_text(std::str::from_utf8(&mended).unwrap_or(held));
    let text = &*text;
    match json::parse::<Line<'_>>(text) {
        Some(line) => told(line, text),
        None => vec![Message { blocks: other(text), ..Message::default() }],
    }
}

fn told(line: Line<'_>, held: &str) -> Vec<Message> {
    match line.kind.as_ref().map_or("", Text::as_str) {
        "user" => user(line),
        // Forks answer under their own name.
        "gemini" | "qwen" | "assistant" | "model" => answer(line),
        "info" | "warning" | "error" => vec![notice(line)],
        _ => {
            let mut message = envelope(line);
            message.extensions.clear();
            message.blocks = other(held);
            vec![message]
        }
    }
}

fn user(mut line: Line<'_>) -> Vec<Message> {
    let (content, display) = (line.content.take(), line.display.take());
    let mut message = Message { role: Role::User, ..envelope(line) };
    let mut sent = Vec::new();
    if let Some(content) = content {
        genai::blocks(content, &mut sent);
    }
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    if sent.iter().any(is_result) {
        return returned(sent, message);
    }
    message.blocks = sent;
    message.origin = origin(&message);
    // What was typed, where the program sent more than that (files that were referred to).
    if let Some(display) = display {
        let mut shown = Vec::new();
        genai::blocks(display, &mut shown);
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

/// Makes messages of results, and of what a person typed while the tools ran.
fn returned(sent: Vec<Block>, message: Message) -> Vec<Message> {
    let is_hint =
        |block: &Block| matches!(block, Block::Text(text) if prompt::hints(text).is_some());
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

/// Takes off what the program put around a prompt, and keeps it.
fn take_off_envelope(message: &mut Message) {
    let texts = message.blocks.iter().filter(|block| matches!(block, Block::Text(_)));
    let has_context = texts.count() > 1 && prompt::is_context(&message.text());
    let Message { blocks, extensions, .. } = message;
    let mut keep = |rest: &str| {
        extensions.insert("envelope".to_owned(), Json::from_value(&rest));
    };
    if has_context {
        // The context and the task are parts of their own.
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
            && let Some((typed, rest)) = prompt::unwrap(text)
        {
            keep(&rest);
            *text = typed;
        }
    }
}

/// Tells who wrote a user message.
fn origin(message: &Message) -> Origin {
    const MACHINE: &[(&str, Origin)] = &[
        ("/", Origin::Command),
        ("?", Origin::Command),
        ("<session_context>", Origin::Injected),
        ("<hook_context>", Origin::Injected),
        ("<state_snapshot>", Origin::Summary),
    ];
    let text = message.text();
    let text = text.trim_start();
    if text.is_empty() {
        let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
        return if has_image { Origin::Human } else { Origin::Injected };
    }
    let machine = MACHINE.iter().find(|(beginning, _)| text.starts_with(beginning));
    machine.map_or(Origin::Human, |(_, origin)| *origin)
}

fn answer(mut line: Line<'_>) -> Vec<Message> {
    let calls = line.calls.take().unwrap_or_default();
    let mut blocks = Vec::new();
    if let Some(thoughts) = line.thoughts.take() {
        push_thoughts(thoughts, &mut blocks);
    }
    if let Some(content) = line.content.take() {
        genai::blocks(content, &mut blocks);
    }
    // The content may repeat the calls that are listed with their results.
    blocks.retain(|block| match block {
        Block::ToolCall { id, .. } => !calls.iter().any(|call| call.key() == *id),
        _ => true,
    });
    blocks.extend(calls.iter().map(Call::block));
    let counts = line.tokens.take().and_then(|raw| json::parse::<Counts>(raw.get()));
    let mut message =
        Message { role: Role::Assistant, origin: Origin::Assistant, ..envelope(line) };
    message.blocks = blocks;
    let tokens = counts.and_then(|counts| counts.tokens());
    message.usage =
        tokens.map(|tokens| Usage { identity: message.uuid.clone(), tokens, ..Usage::default() });
    let results = results(calls, message.uuid.as_deref());
    std::iter::once(message).chain(results).collect()
}

fn push_thoughts(raw: &RawValue, blocks: &mut Vec<Block>) {
    let Some(thoughts) = json::parse::<Vec<Thought<'_>>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    for thought in thoughts {
        let parts = [thought.subject, thought.description];
        let parts: Vec<String> = parts.into_iter().flatten().map(Text::into_owned).collect();
        let text = parts.join("\n\n");
        if !text.trim().is_empty() {
            blocks.push(Block::Thinking(text));
        }
    }
}

/// The message of the tools behind an answer.
fn results(calls: Vec<Call<'_>>, answer: Option<&str>) -> Option<Message> {
    let mut message = Message {
        role: Role::Tool,
        origin: Origin::Tool,
        parent: answer.map(str::to_owned),
        ..Message::default()
    };
    let mut displays = BTreeMap::new();
    for call in calls {
        message.at = message.at.max(instant(call.timestamp.as_ref()));
        call.push_result(&mut message.blocks);
        let (id, display) = (call.key(), call.display());
        if !display.is_empty() {
            displays.insert(id, display);
        }
    }
    if !displays.is_empty() {
        message.extensions.insert("toolCalls".to_owned(), Json::from_value(&displays));
    }
    (!message.blocks.is_empty()).then_some(message)
}

impl Call<'_> {
    fn key(&self) -> String {
        let id = self.id.as_ref().or(self.name.as_ref());
        id.map(|id| id.as_str().to_owned()).unwrap_or_default()
    }

    fn block(&self) -> Block {
        Block::ToolCall {
            id: self.key(),
            name: self.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default(),
            input: self.args.map_or_else(|| Json::from_value(&()), Json::from),
        }
    }

    /// Appends the result, with pictures that came with it.
    fn push_result(&self, blocks: &mut Vec<Block>) {
        let mut parts = Vec::new();
        if let Some(result) = self.result {
            genai::blocks(result, &mut parts);
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
            // Nothing went back to the model; what a person saw is the result.
            texts.extend(self.display.and_then(|raw| serde_json::from_str(raw.get()).ok()));
        }
        if texts.is_empty() && others.is_empty() {
            return;
        }
        let output = texts.join("\n");
        let failed = match self.status.as_ref().map(Text::as_str) {
            // The tool did what it was asked to: run a command, which may have failed.
            Some("success") => {
                Some(self.is_shell() && exit_code(&output).is_some_and(|code| code != 0))
            }
            Some("error") => Some(true),
            // Cancelled, or still under way.
            _ => None,
        };
        blocks.push(Block::ToolResult { call_id: self.key(), output, is_error: failed });
        blocks.append(&mut others);
    }

    fn is_shell(&self) -> bool {
        self.name.as_ref().is_some_and(|name| name.as_str().contains("shell"))
    }

    /// Keeps the small facts about a call and the difference an edit made.
    fn display(self) -> Extensions {
        let mut kept = Extensions::new();
        json::keep(self.rest, &mut kept);
        kept.retain(|_, value| value.as_str().len() <= json::MAX_SMALL);
        if let Some(status) = self.status.filter(|status| status.as_str() != "success") {
            kept.insert("status".to_owned(), Json::from_value(&status.as_str()));
        }
        if let Some(display) = self.display.and_then(json::small) {
            kept.insert("resultDisplay".to_owned(), display);
        }
        kept
    }
}

/// Reads the exit code from the lines that the program puts behind a command's output.
fn exit_code(output: &str) -> Option<i64> {
    const BEHIND: &[&str] =
        &["Signal:", "Error:", "Background PIDs:", "Process Group PGID:", "</untrusted_context>"];
    let mut lines = output.lines().rev().map(str::trim).skip_while(|line| {
        line.is_empty() || BEHIND.iter().any(|beginning| line.starts_with(beginning))
    });
    lines.next()?.strip_prefix("Exit Code: ")?.trim().parse().ok()
}

impl Counts {
    /// The tokens by class; `None` when none of them is known.
    fn tokens(&self) -> Option<Tokens> {
        let counts = [self.input, self.output, self.cached, self.thoughts, self.tool];
        counts.iter().any(Option::is_some).then(|| self.sorted())
    }

    fn sorted(&self) -> Tokens {
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

fn notice(mut line: Line<'_>) -> Message {
    let kind = line.kind.take().map(Text::into_owned).unwrap_or_default();
    let content = line.content.take();
    let mut message = envelope(line);
    message.failed = kind == "error";
    message.extensions.insert("type".to_owned(), Json::from_value(&kind));
    if let Some(content) = content {
        genai::blocks(content, &mut message.blocks);
    }
    message
}

/// Makes a message of what every record has; what the model has no word for is kept.
fn envelope(line: Line<'_>) -> Message {
    let mut extensions = Extensions::new();
    json::keep(line.rest, &mut extensions);
    Message {
        uuid: line.id.map(Text::into_owned).filter(|id| !id.is_empty()),
        at: instant(line.timestamp.as_ref()),
        model: line.model.map(Text::into_owned).filter(|model| !model.is_empty()),
        extensions,
        ..Message::default()
    }
}

fn other(held: &str) -> Vec<Block> {
    let raw = serde_json::from_str::<&RawValue>(held).ok();
    raw.map(|raw| Block::Other(Json::from(raw))).into_iter().collect()
}

fn instant(text: Option<&Text<'_>>) -> Option<Timestamp> {
    Timestamp::parse(text?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_input_is_taken_out_and_thoughts_are_added_to_the_output() {
        let raw = r#"{"input":6398,"output":1,"cached":5693,"thoughts":21,"tool":0,"total":6420}"#;
        let tokens = serde_json::from_str::<Counts>(raw).unwrap().tokens().unwrap();
        assert_eq!((tokens.input, tokens.cache_read), (705, 5693));
        assert_eq!((tokens.output, tokens.reasoning), (22, Some(21)));
        assert_eq!(tokens.total(), 6420);
    }

    #[test]
    fn only_what_a_person_typed_is_a_prompt() {
        let check = |content: &str, expected: Origin| {
            let held = format!(r#"{{"id":"u","type":"user","content":{content}}}"#);
            assert_eq!(messages(&held)[0].origin, expected, "{content}");
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
            assert_eq!(exit_code(output), expected, "{output}");
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
            let told = messages(&held);
            let Block::ToolResult { is_error, output, .. } = &told[1].blocks[0] else {
                panic!("{told:?}")
            };
            assert_eq!((*is_error, output.as_str()), (expected, "no"), "{status}");
        };
        check("success", Some(false));
        check("error", Some(true));
        check("cancelled", None);
    }
}
