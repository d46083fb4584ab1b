//! The content of messages: texts, reasoning, media, calls and results.

use serde_json::value::RawValue;

use super::line::{
    KimiCall, KimiMessage, KimiOrigin, KimiReturnValue, KimiToolResult, owned_if_present,
    text_or_empty,
};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role};

/// Fields of messages that repeat others, or that only the program needs.
const OMITTED: &[&str] = &["name", "partial", "toolCallDisplays", "tools"];

lenient! {
    /// One part of a content.
    struct KimiPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "think" think: Option<BorrowedText<'a>>,
        "image_url" image: Option<&'a RawValue>,
        "imageUrl" image_camel: Option<&'a RawValue>,
    }
}

lenient! {
    struct KimiMedia<'a> {
        "url" url: Option<BorrowedText<'a>>,
    }
}

/// Appends the blocks of a content: a text, a list of parts, or one part.
pub(super) fn push_content(content: &RawValue, blocks: &mut Vec<Block>) {
    match json::array_elements(content) {
        Some(parts) => parts.into_iter().for_each(|part| push_part(part, blocks)),
        None if content.get() == "null" => {}
        None => push_part(content, blocks),
    }
}

/// Appends one part of a content.
pub(super) fn push_part(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        return blocks.extend(owned_if_present(Some(text)).map(Block::Text));
    }
    let Some(part) = json::parse_json::<KimiPart<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    match text_or_empty(part.kind.as_ref()) {
        "text" if part.text.is_some() => {
            blocks.extend(owned_if_present(part.text).map(Block::Text));
        }
        // Its signature is never kept.
        "think" if part.think.is_some() => {
            blocks.extend(owned_if_present(part.think).map(Block::Thinking));
        }
        "image_url" => match media_url(part.image.or(part.image_camel)) {
            Some(url) => blocks.push(Block::Image(Image::from_url(&url))),
            None => blocks.push(Block::Other(Json::from(raw))),
        },
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

/// Returns the address of an image: a text, or an object with one.
fn media_url(raw: Option<&RawValue>) -> Option<String> {
    let raw = raw?.get();
    let text = serde_json::from_str::<BorrowedText<'_>>(raw).ok();
    owned_if_present(text.or_else(|| json::parse_json::<KimiMedia<'_>>(raw)?.url))
}

/// Converts the result of a call in Kimi Code. A result without a mark is that of a call that
/// succeeded.
pub(super) fn result_of_code(call_id: String, result: KimiToolResult<'_>) -> Message {
    let is_error = Some(result.is_error.unwrap_or(false));
    let mut message = result_message(call_id, result.output, is_error);
    if let Some(note) = owned_if_present(result.note) {
        message.extensions.insert("note".to_owned(), Json::from_value(&note));
    }
    message
}

/// Converts the result of a call in Kimi CLI. The model gets the program's message after the output.
pub(super) fn result_of_cli(call_id: String, result: KimiReturnValue<'_>) -> Message {
    let mut message = result_message(call_id, result.output, result.is_error);
    let remark = owned_if_present(result.message);
    if let Some((Block::ToolResult { output, .. }, remark)) = message.blocks.first_mut().zip(remark)
    {
        let divider = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
        *output = format!("{output}{divider}{remark}");
    }
    message
}

/// Builds the message of a tool's result: its texts, joined by newlines, and the other blocks.
fn result_message(call_id: String, output: Option<&RawValue>, is_error: Option<bool>) -> Message {
    let (mut parts, mut texts, mut others) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(output) = output {
        push_content(output, &mut parts);
    }
    for part in parts {
        match part {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    let mut blocks = vec![Block::ToolResult { call_id, output: texts.join("\n"), is_error }];
    blocks.append(&mut others);
    Message { role: Role::Tool, origin: Origin::Tool, blocks, ..Message::default() }
}

/// Converts a call in a message.
fn call_block(call: KimiCall<'_>) -> Block {
    let (name, arguments) = match call.function {
        Some(function) => (function.name.or(call.name), function.arguments.or(call.arguments)),
        None => (call.name, call.arguments),
    };
    Block::ToolCall {
        id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: name.map(BorrowedText::into_owned).unwrap_or_default(),
        input: json::parse_call_arguments(arguments),
    }
}

/// Converts a message as the model gets it. `None` when it has no role of a conversation.
pub(super) fn convert_message(message: KimiMessage<'_>) -> Option<Message> {
    let mut blocks = Vec::new();
    let role = text_or_empty(message.role.as_ref());
    if role != "tool"
        && let Some(content) = message.content
    {
        push_content(content, &mut blocks);
    }
    let mut converted = match role {
        "user" => user_message(blocks, message.origin),
        "assistant" => {
            let calls = message.tool_calls.or(message.cli_tool_calls).unwrap_or_default();
            blocks.extend(calls.into_iter().map(call_block));
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            Message { role, origin, blocks, ..Message::default() }
        }
        "tool" => {
            let call_id = message.tool_call_id.or(message.cli_tool_call_id);
            let call_id = call_id.map(BorrowedText::into_owned).unwrap_or_default();
            result_message(call_id, message.content, message.is_error)
        }
        "system" => Message { origin: Origin::Injected, blocks, ..Message::default() },
        _ => return None,
    };
    converted.uuid = owned_if_present(message.id);
    let mut rest = message.rest;
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    json::keep_non_empty_fields(rest, &mut converted.extensions);
    Some(converted)
}

/// Converts a message with the role of the user, which the program writes as well.
fn user_message(blocks: Vec<Block>, origin: Option<KimiOrigin<'_>>) -> Message {
    let mut message = Message { role: Role::User, blocks, ..Message::default() };
    let Some(origin) = origin else {
        let is_injected = message.joined_text().trim_start().starts_with("<system");
        message.origin = if is_injected { Origin::Injected } else { Origin::Human };
        return message;
    };
    let kind = text_or_empty(origin.kind.as_ref());
    message.origin = match (kind, text_or_empty(origin.trigger.as_ref())) {
        ("user", _) => {
            let skills = origin.skills.as_ref().map_or(0, Vec::len).min(message.blocks.len());
            let envelope = message.blocks.drain(..skills).collect();
            keep_envelope(envelope, &mut message.extensions);
            Origin::Human
        }
        ("skill_activation", trigger) if !matches!(trigger, "model-tool" | "nested-skill") => {
            let typed = typed_command("/skill:", origin.skill_name, origin.skill_arguments);
            restore_command(&mut message, typed);
            Origin::Command
        }
        ("plugin_command", _) => {
            let plugin = owned_if_present(origin.plugin).unwrap_or_default();
            let prefix = format!("/{plugin}:");
            let typed = typed_command(&prefix, origin.command_name, origin.command_arguments);
            restore_command(&mut message, typed);
            Origin::Command
        }
        ("shell_command", _) if text_or_empty(origin.phase.as_ref()) != "output" => {
            unwrap_shell_command(&mut message);
            Origin::Command
        }
        ("compaction_summary", _) => Origin::Summary,
        // The task of a sub-agent, written by the agent that started it.
        ("system_trigger", _) if text_or_empty(origin.name.as_ref()) == "subagent" => Origin::Human,
        _ => Origin::Injected,
    };
    let label = origin.variant.as_ref().or(origin.name.as_ref()).or(origin.kind.as_ref());
    if message.origin == Origin::Injected
        && let Some(label) = label
    {
        message.extensions.insert("origin".to_owned(), Json::from_value(&label.as_borrowed_str()));
    }
    message
}

/// Returns a command as a person types it.
fn typed_command(
    prefix: &str,
    name: Option<BorrowedText<'_>>,
    arguments: Option<BorrowedText<'_>>,
) -> String {
    let (name, arguments) = (owned_if_present(name), owned_if_present(arguments));
    let typed = format!("{prefix}{} {}", name.unwrap_or_default(), arguments.unwrap_or_default());
    typed.trim_end().to_owned()
}

/// Replaces the text that a command stands for by the command. The text is kept as an extension.
fn restore_command(message: &mut Message, typed: String) {
    let is_text = |block: &Block| matches!(block, Block::Text(_));
    let first = message.blocks.iter().position(is_text).map(|at| message.blocks.remove(at));
    keep_envelope(first.into_iter().collect(), &mut message.extensions);
    message.blocks.insert(0, Block::Text(typed));
}

fn keep_envelope(envelope: Vec<Block>, extensions: &mut Extensions) {
    let text = Message { blocks: envelope, ..Message::default() }.joined_text();
    if !text.is_empty() {
        extensions.insert("envelope".to_owned(), Json::from_value(&text));
    }
}

/// Restores a shell command that a person ran from the tags around it.
fn unwrap_shell_command(message: &mut Message) {
    for block in &mut message.blocks {
        let Block::Text(text) = block else { continue };
        let inner =
            text.strip_prefix("<bash-input>").and_then(|rest| rest.strip_suffix("</bash-input>"));
        if let Some(inner) = inner {
            let command = inner.trim().replace("&lt;", "<").replace("&gt;", ">");
            *text = format!("!{}", command.replace("&quot;", "\"").replace("&amp;", "&"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(json: &str) -> Message {
        convert_message(json::parse_json(json).unwrap()).unwrap()
    }

    #[test]
    fn a_command_is_shown_as_it_was_typed() {
        let check = |origin: &str, text: &str, expected: &str| {
            let json = format!(r#"{{"role":"user","content":"{text}","origin":{origin}}}"#);
            let message = converted(&json);
            assert_eq!(message.origin, Origin::Command, "{json}");
            assert_eq!(message.joined_text(), expected, "{json}");
        };
        check(
            r#"{"kind":"skill_activation","trigger":"user-slash","skillName":"glaze","skillArgs":"a"}"#,
            "Mix it.",
            "/skill:glaze a",
        );
        check(r#"{"kind":"plugin_command","pluginId":"p","commandName":"fire"}"#, "x", "/p:fire");
        let shell = r#"{"kind":"shell_command","phase":"input"}"#;
        check(shell, "<bash-input>\\nls &lt;a\\n</bash-input>", "!ls <a");
    }

    #[test]
    fn the_text_of_skills_is_told_from_the_prompt_after_it() {
        let message = converted(
            r#"{"role":"user","content":[{"type":"text","text":"Mix."},{"type":"text","text":"Now"}],
            "origin":{"kind":"user","skillActivations":[{"skillName":"glaze"}]}}"#,
        );
        assert_eq!((message.origin, &*message.joined_text()), (Origin::Human, "Now"));
        assert_eq!(message.extensions["envelope"].as_json_str(), "\"Mix.\"");
    }
}
