//! Converts a message, as a row of the database or a file records it.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::openai_chat::{chat_content_blocks, chat_tool_call_blocks};
use crate::model::{Block, Json, Message, Origin, Role};

/// Beginnings of the summary that a compaction writes.
const SUMMARIES: &[&str] = &["[CONTEXT COMPACTION", "[CONTEXT SUMMARY]"];

/// Beginnings of messages that the program writes in the person's role.
const NOTICES: &[&str] =
    &["[IMPORTANT: ", "[SYSTEM: ", "[System: ", "Review the conversation above and "];

/// Beginning of a message that replaces a command which runs a skill.
const SKILL: &str = "[IMPORTANT: The user has invoked the \"";

/// The words before the text that a person typed after the name of a skill.
const SKILL_INSTRUCTION: &str =
    "The user has provided the following instruction alongside the skill invocation: ";

/// The beginning of a note that may follow that text.
const SKILL_NOTE: &str = "\n\n[Runtime note:";

/// Marks around a message that a person sent while a tool ran. They stand at the end of its result.
const STEERING: (&str, &str) = ("[OUT-OF-BAND USER MESSAGE", "[/OUT-OF-BAND USER MESSAGE]");

/// The beginning of a result of a tool that could not run.
const TOOL_ERROR: &str = "Error executing tool";

lenient! {
    /// A message in the shape of the chat API, with the fields that Hermes adds.
    struct HermesMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "tool_calls" tool_calls: Option<&'a RawValue>,
        "tool_call_id" tool_call_id: Option<BorrowedText<'a>>,
        "reasoning" reasoning: Option<BorrowedText<'a>>,
        "reasoning_content" reasoning_content: Option<BorrowedText<'a>>,
        "finish_reason" finish_reason: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "platform" platform: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The fields by which tools report their outcome.
    struct HermesToolOutcome<'a> {
        "output" output: Option<BorrowedText<'a>>,
        "exit_code" exit_code: Option<f64>,
        "error" error: Option<&'a RawValue>,
        "success" success: Option<bool>,
        "status" status: Option<BorrowedText<'a>>,
    }
}

/// Converts a message. `envelope` has its id and time. A result with a message that a person sent
/// meanwhile becomes two messages.
pub(super) fn convert_message(recorded: HermesMessage<'_>, envelope: Message) -> Vec<Message> {
    let mut message = envelope;
    let blocks = recorded.content.map(chat_content_blocks).unwrap_or_default();
    match recorded.role.as_ref().map_or("", BorrowedText::as_borrowed_str) {
        "user" => {
            message.role = Role::User;
            message.blocks = blocks;
            set_origin_of_prompt(&mut message);
        }
        "assistant" => {
            (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
            message.stop_reason = owned_if_present(recorded.finish_reason);
            let reasoning = owned_if_present(recorded.reasoning_content);
            let reasoning = reasoning.or_else(|| owned_if_present(recorded.reasoning));
            message.blocks.extend(reasoning.map(Block::Thinking));
            message.blocks.extend(blocks);
            let calls = recorded.tool_calls.map(chat_tool_call_blocks);
            message.blocks.extend(calls.into_iter().flatten());
        }
        "tool" => {
            let call_id = owned_if_present(recorded.tool_call_id).unwrap_or_default();
            return convert_tool_result(message, call_id, blocks);
        }
        _ => message.blocks = blocks,
    }
    vec![message]
}

/// Returns whether a text is the summary that a compaction wrote.
pub(super) fn is_summary(text: &str) -> bool {
    SUMMARIES.iter().any(|beginning| text.starts_with(beginning))
}

fn set_origin_of_prompt(message: &mut Message) {
    message.origin = Origin::Human;
    let Some(Block::Text(text)) = message.blocks.first_mut() else { return };
    if is_summary(text) {
        message.origin = Origin::Summary;
    } else if let Some(command) = skill_command(text) {
        let envelope = Json::from_value(&std::mem::replace(text, command));
        if !text.contains(' ') {
            message.origin = Origin::Command;
        }
        message.extensions.insert("envelope".to_owned(), envelope);
    } else if NOTICES.iter().any(|beginning| text.starts_with(beginning)) {
        message.origin = Origin::Injected;
    }
}

/// Returns the command that a person typed to run a skill. The program replaces it by the text of
/// the skill.
fn skill_command(text: &str) -> Option<String> {
    let (name, rest) = text.strip_prefix(SKILL)?.split_once('"')?;
    let typed = rest.split_once(SKILL_INSTRUCTION).map_or("", |(_, typed)| typed);
    let typed = typed.split_once(SKILL_NOTE).map_or(typed, |(typed, _)| typed);
    Some(format!("/{name} {typed}").trim_end().to_owned())
}

fn convert_tool_result(envelope: Message, call_id: String, blocks: Vec<Block>) -> Vec<Message> {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    let whole = texts.join("\n");
    let (output, typed) = split_steering(&whole);
    let mut result = Message { role: Role::Tool, origin: Origin::Tool, ..envelope };
    let is_error = is_failed_result(output);
    let output = output_text(output);
    result.blocks.push(Block::ToolResult { call_id, output, is_error });
    result.blocks.extend(others);
    let typed = typed.map(|typed| Message {
        role: Role::User,
        origin: Origin::Queued,
        at: result.at,
        blocks: vec![Block::Text(typed.to_owned())],
        ..Message::default()
    });
    std::iter::once(result).chain(typed).collect()
}

/// Splits the message that a person sent while a tool ran from the tool's output.
fn split_steering(text: &str) -> (&str, Option<&str>) {
    let split = || {
        let (output, rest) = text.rsplit_once(STEERING.0)?;
        let (_, rest) = rest.split_once(']')?;
        let (typed, after) = rest.rsplit_once(STEERING.1)?;
        after.trim().is_empty().then(|| (output.trim_end(), Some(typed.trim())))
    };
    split().unwrap_or((text, None))
}

/// Returns whether the output of a tool reports a failure; `None` where it says nothing about it.
fn is_failed_result(output: &str) -> Option<bool> {
    if output.starts_with(TOOL_ERROR) {
        return Some(true);
    }
    let outcome = json::parse_json::<HermesToolOutcome<'_>>(output)?;
    let error = outcome.error.map_or("null", RawValue::get);
    let has_error = !matches!(error, "null" | "\"\"" | "false");
    if let Some(code) = outcome.exit_code {
        return Some(code != 0.0 || has_error);
    }
    let status = outcome.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
    match outcome.success {
        _ if has_error || status == "error" => Some(true),
        Some(success) => Some(!success),
        None => (status == "success").then_some(false),
    }
}

/// Returns the text of a tool's result. Commands record their output in an object, beside the error
/// and the exit status.
fn output_text(recorded: &str) -> String {
    let outcome = json::parse_json::<HermesToolOutcome<'_>>(recorded).unwrap_or_default();
    let (Some(output), Some(_)) = (outcome.output, outcome.exit_code) else {
        return recorded.to_owned();
    };
    let error = outcome.error.map_or("null", RawValue::get);
    let error = serde_json::from_str::<String>(error).unwrap_or_else(|_| error.to_owned());
    match (output.into_owned(), error.as_str()) {
        (output, "null" | "") => output,
        (output, error) if output.is_empty() => error.to_owned(),
        (output, error) => format!("{output}\n{error}"),
    }
}

/// Returns a text; an empty one counts as absent.
pub(super) fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_report_failures_in_several_ways() {
        let check = |output: &str, failed: Option<bool>| {
            assert_eq!(is_failed_result(output), failed, "{output}");
        };
        check(r#"{"output":"x","exit_code":0,"error":null}"#, Some(false));
        check(r#"{"output":"x","exit_code":2,"error":null}"#, Some(true));
        check(r#"{"output":"","exit_code":0,"error":"timed out"}"#, Some(true));
        check(r#"{"success":false,"error":"no such skill"}"#, Some(true));
        check(r#"{"success":true,"name":"glaze"}"#, Some(false));
        check(r#"{"status":"error","output":"x"}"#, Some(true));
        check(r#"{"error":"not found"}"#, Some(true));
        check(r#"{"bytes_written":31}"#, None);
        check("Error executing tool 'read_file': no path", Some(true));
        check("plain text", None);
    }

    #[test]
    fn the_output_of_a_command_reads_as_the_command_wrote_it() {
        let check =
            |recorded: &str, text: &str| assert_eq!(output_text(recorded), text, "{recorded}");
        check(r#"{"output":"a\nb","exit_code":0,"error":null}"#, "a\nb");
        check(r#"{"output":"a","exit_code":124,"error":"timed out"}"#, "a\ntimed out");
        check(r#"{"output":"","exit_code":124,"error":"timed out"}"#, "timed out");
        check(r#"{"output":"a","success":true}"#, r#"{"output":"a","success":true}"#);
        check("plain", "plain");
    }

    #[test]
    fn a_skill_reads_as_the_command_that_ran_it() {
        let start =
            "[IMPORTANT: The user has invoked the \"glaze\" skill, which is loaded below.]\nMix.";
        assert_eq!(skill_command(start).as_deref(), Some("/glaze"));
        let typed = format!("{start}\n\n{SKILL_INSTRUCTION}for the bowl{SKILL_NOTE} x]");
        assert_eq!(skill_command(&typed).as_deref(), Some("/glaze for the bowl"));
        assert_eq!(skill_command("[IMPORTANT: You run on a schedule.]"), None);
    }

    #[test]
    fn a_message_sent_while_a_tool_ran_is_split_from_its_output() {
        let text = "done\n\n[OUT-OF-BAND USER MESSAGE — from the user]\nuse blue\n[/OUT-OF-BAND USER MESSAGE]";
        assert_eq!(split_steering(text), ("done", Some("use blue")));
        assert_eq!(split_steering("done"), ("done", None));
        assert_eq!(
            split_steering("a [OUT-OF-BAND USER MESSAGE b"),
            ("a [OUT-OF-BAND USER MESSAGE b", None)
        );
    }
}
