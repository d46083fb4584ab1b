//! Converts the message of an entry into messages of the model.

use serde_json::value::RawValue;

use super::content;
use super::line::{PiMessage, keep_unmodeled_fields, owned_if_present};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Extensions, Json, Message, Origin, Role};

lenient! {
    /// The author of a prompt that OpenClaw received.
    struct PromptProvenance<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The exit status of a command, in the details of its result.
    struct CommandDetails {
        "exitCode" exit_code: Option<f64>,
    }
}

/// The outcome of converting the message of an entry.
pub(super) enum ConvertedMessage {
    /// One message, or the command that a person ran and its output.
    Messages(Vec<Message>),
    /// The system prompt, which is no part of the conversation.
    SystemPrompt,
    /// A role that is not known.
    Unknown,
}

/// Converts the message of an entry. `envelope` has the fields of the entry, and `identity` names
/// the model call.
pub(super) fn convert_message(
    message: PiMessage<'_>,
    envelope: Message,
    identity: Option<String>,
) -> ConvertedMessage {
    let role = message.role.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let one = |message: Message| ConvertedMessage::Messages(vec![message]);
    match role {
        "user" => one(convert_prompt(message, envelope)),
        "assistant" => one(convert_reply(message, envelope, identity)),
        "toolResult" => one(convert_tool_result(message, envelope, identity)),
        "bashExecution" => ConvertedMessage::Messages(convert_command(message, envelope)),
        "custom" | "hookMessage" | "developer" => {
            one(convert_injected(message.content, message.details, message.rest, envelope))
        }
        "branchSummary" | "compactionSummary" => {
            one(convert_summary(message.summary, None, message.rest, envelope))
        }
        "system" => ConvertedMessage::SystemPrompt,
        _ => ConvertedMessage::Unknown,
    }
}

/// Converts a text that an extension put into the conversation.
pub(super) fn convert_injected(
    content: Option<&RawValue>,
    details: Option<&RawValue>,
    rest: json::UnnamedFields<'_>,
    mut message: Message,
) -> Message {
    message.role = Role::User;
    message.origin = Origin::Injected;
    message.blocks.extend(content.into_iter().flat_map(content::content_blocks));
    keep_details(details, &mut message.extensions);
    keep_unmodeled_fields(rest, &mut message.extensions);
    message
}

/// Converts a summary of the conversation so far, or of a branch that was left.
pub(super) fn convert_summary(
    summary: Option<BorrowedText<'_>>,
    details: Option<&RawValue>,
    rest: json::UnnamedFields<'_>,
    mut message: Message,
) -> Message {
    message.role = Role::User;
    message.origin = Origin::Summary;
    message.blocks.extend(owned_if_present(summary).map(Block::Text));
    keep_details(details, &mut message.extensions);
    keep_unmodeled_fields(rest, &mut message.extensions);
    message
}

fn convert_prompt(message: PiMessage<'_>, envelope: Message) -> Message {
    let mut prompt = Message { role: Role::User, origin: Origin::Human, ..envelope };
    prompt.blocks.extend(message.content.into_iter().flat_map(content::content_blocks));
    if let Some(provenance) = message.provenance {
        if !is_typed_by_person(provenance) {
            prompt.origin = Origin::Injected;
        }
        prompt.extensions.insert("provenance".to_owned(), Json::from(provenance));
    }
    keep_unmodeled_fields(message.rest, &mut prompt.extensions);
    restore_skill_command(&mut prompt);
    prompt
}

/// Returns whether a person typed a prompt with this provenance: neither another session nor the
/// program itself.
fn is_typed_by_person(provenance: &RawValue) -> bool {
    let kind = json::parse_json::<PromptProvenance<'_>>(provenance.get()).and_then(|one| one.kind);
    let kind = kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    !matches!(kind, "inter_session" | "internal_system")
}

/// Restores the command that a person typed to run a skill. The program replaces it by the text of
/// the skill.
fn restore_skill_command(prompt: &mut Message) {
    let Some(Block::Text(text)) = prompt.blocks.first_mut() else { return };
    let Some((name, arguments)) = split_skill_text(text) else { return };
    let skill = Json::from_value(&text[..text.len() - arguments.len()].trim_end());
    let typed = format!("/skill:{name} {arguments}").trim_end().to_owned();
    if arguments.is_empty() {
        prompt.origin = Origin::Command;
    }
    *text = typed;
    prompt.extensions.insert("envelope".to_owned(), skill);
}

/// Splits the text of a skill command into the skill's name and the arguments after its text.
fn split_skill_text(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix("<skill name=\"")?.split_once("\" location=\"")?;
    let (_, rest) = rest.split_once("\">\n")?;
    let (_, arguments) = rest.rsplit_once("\n</skill>")?;
    let is_whole = arguments.is_empty() || arguments.starts_with("\n\n");
    is_whole.then(|| (name, arguments.trim_start()))
}

fn convert_reply(message: PiMessage<'_>, envelope: Message, identity: Option<String>) -> Message {
    let mut reply = Message {
        role: Role::Assistant,
        origin: Origin::Assistant,
        model: owned_if_present(message.model),
        api_id: owned_if_present(message.response_id),
        stop_reason: owned_if_present(message.stop_reason),
        usage: message.usage.and_then(|usage| usage.into_usage(identity)),
        ..envelope
    };
    reply.failed = matches!(reply.stop_reason.as_deref(), Some("error" | "aborted"));
    reply.blocks.extend(message.content.into_iter().flat_map(content::content_blocks));
    if let Some(error) = owned_if_present(message.error_message) {
        reply.extensions.insert("errorMessage".to_owned(), Json::from_value(&error));
        if reply.blocks.is_empty() {
            reply.blocks.push(Block::Text(error));
        }
    }
    keep_unmodeled_fields(message.rest, &mut reply.extensions);
    reply
}

fn convert_tool_result(
    message: PiMessage<'_>,
    envelope: Message,
    identity: Option<String>,
) -> Message {
    let mut result = Message {
        role: Role::Tool,
        origin: Origin::Tool,
        usage: message.usage.and_then(|usage| usage.into_usage(identity)),
        ..envelope
    };
    if let Some(nested) = message.nested_calls {
        content::push_nested_calls(nested, &mut result.blocks);
    }
    // OpenClaw does not mark a command that ended with a status other than 0 as an error.
    let has_failed = message.details.is_some_and(is_failed_command);
    let (output, others) = message.content.map(content::result_text_and_blocks).unwrap_or_default();
    result.blocks.push(Block::ToolResult {
        call_id: message.tool_call_id.map(BorrowedText::into_owned).unwrap_or_default(),
        output,
        is_error: if has_failed { Some(true) } else { message.is_error },
    });
    result.blocks.extend(others);
    keep_details(message.details, &mut result.extensions);
    keep_unmodeled_fields(message.rest, &mut result.extensions);
    result
}

/// Returns whether the details of a result are those of a command that failed.
fn is_failed_command(details: &RawValue) -> bool {
    let details = json::parse_json::<CommandDetails>(details.get()).unwrap_or_default();
    details.exit_code.is_some_and(|code| code != 0.0)
}

/// Converts a shell command that a person ran, with its output as a second message.
fn convert_command(message: PiMessage<'_>, envelope: Message) -> Vec<Message> {
    let mark = if message.is_excluded == Some(true) { "!!" } else { "!" };
    let command = message.command.map(BorrowedText::into_owned).unwrap_or_default();
    let mut typed = Message { role: Role::User, origin: Origin::Command, ..envelope };
    typed.blocks.push(Block::Text(format!("{mark}{command}")));
    let mut output = Message {
        role: Role::User,
        origin: Origin::Injected,
        at: typed.at,
        parent: typed.uuid.clone(),
        ..Message::default()
    };
    output.blocks.extend(owned_if_present(message.output).map(Block::Text));
    keep_unmodeled_fields(message.rest, &mut typed.extensions);
    if output.blocks.is_empty() { vec![typed] } else { vec![typed, output] }
}

fn keep_details(details: Option<&RawValue>, extensions: &mut Extensions) {
    if let Some(details) = details.filter(|raw| raw.get() != "{}").and_then(json::small_parts) {
        extensions.insert("details".to_owned(), details);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_skill_is_told_from_the_arguments_behind_it() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            assert_eq!(split_skill_text(text), expected, "{text}");
        };
        let skill = "<skill name=\"glaze\" location=\"/s/SKILL.md\">\nMix.\n</skill>";
        check(skill, Some(("glaze", "")));
        check(&format!("{skill}\n\nfor the bowl"), Some(("glaze", "for the bowl")));
        check(&format!("{skill} and more"), None);
        check("fix the <skill name=\"x\"> tag", None);
    }
}
