//! Reads system records: facts about the session, commands, summaries, and program state.

use serde_json::value::RawValue;

use super::line::QwenLine;
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Json, Message, Origin, Role, Session, SessionKind, TitleRank};

/// Subtypes that are program state or repeat other records.
const STATE: &[&str] = &[
    "agent_bootstrap",
    "agent_launch_prompt",
    "agent_retry",
    "agent_session_ready",
    "attribution_snapshot",
    "branch_checkpoint",
    "file_history_snapshot",
    "goal_runtime",
    "goal_state",
    "goal_turn_end",
    "session_approval_mode",
    "session_artifact_event",
    "session_artifact_snapshot",
    "session_execution_engine",
    "session_sources_snapshot",
    "turn_result",
    "user_text_elements",
];

/// The outcome of reading a system record.
pub(super) enum SystemOutcome {
    /// The record was applied to the session.
    Fact,
    /// The record is a message.
    Message(Box<Message>),
    /// The record has no content for the journal.
    Nothing,
}

lenient! {
    struct SystemPayload<'a> {
        "customTitle" custom_title: Option<BorrowedText<'a>>,
        "titleSource" title_source: Option<BorrowedText<'a>>,
        "parentSessionId" parent_session_id: Option<BorrowedText<'a>>,
        "modelId" model_id: Option<BorrowedText<'a>>,
        "phase" phase: Option<BorrowedText<'a>>,
        "rawCommand" raw_command: Option<BorrowedText<'a>>,
        "outputHistoryItems" output_history_items: Option<Vec<&'a RawValue>>,
        "compressedHistory" compressed_history: Option<Vec<CompressedContent<'a>>>,
        "info" info: Option<&'a RawValue>,
        "displayText" display_text: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct CompressedContent<'a> {
        "parts" parts: Option<&'a RawValue>,
    }
}

/// Reads a system record. Facts about the session are applied to `session`.
pub(super) fn read_qwen_system_record(line: QwenLine<'_>, session: &mut Session) -> SystemOutcome {
    let subtype = line.subtype_name().to_owned();
    if STATE.contains(&subtype.as_str()) {
        return SystemOutcome::Nothing;
    }
    let raw = line.payload;
    let Some(payload) = raw.and_then(|raw| json::parse_json::<SystemPayload<'_>>(raw.get())) else {
        return convert_unknown_system(line.message_from_record(), raw);
    };
    match subtype.as_str() {
        "custom_title" | "parent_session" | "session_model" => {
            apply_session_facts(payload, session);
            SystemOutcome::Fact
        }
        "slash_command" => convert_slash_command(line.message_from_record(), payload),
        "chat_compression" => convert_compression(line.message_from_record(), payload),
        "notification" if payload.display_text.is_some() => {
            let mut message = line.message_from_record();
            message.blocks.extend(payload.display_text.map(|text| Block::Text(text.into_owned())));
            SystemOutcome::Message(Box::new(message))
        }
        _ => convert_unknown_system(line.message_from_record(), raw),
    }
}

/// Applies the title, parent or model in a record to the session.
fn apply_session_facts(payload: SystemPayload<'_>, session: &mut Session) {
    if let Some(title) = payload.custom_title {
        let is_auto = payload.title_source.is_some_and(|source| source.as_borrowed_str() == "auto");
        let rank = if is_auto { TitleRank::Generated } else { TitleRank::Renamed };
        session.add_title(rank, title.into_owned());
    }
    if let Some(parent) = payload.parent_session_id {
        session.parent = Some(parent.into_owned());
        session.kind = SessionKind::Agent;
    }
    if let Some(model) = payload.model_id {
        session.model = Some(model.into_owned());
    }
}

/// Converts a slash command, as typed or with its output, into a message.
fn convert_slash_command(mut message: Message, payload: SystemPayload<'_>) -> SystemOutcome {
    lenient! {
        struct OutputHistoryItem<'a> {
            "text" text: Option<BorrowedText<'a>>,
        }
    }
    if payload.phase.as_ref().is_some_and(|phase| phase.as_borrowed_str() == "invocation") {
        message.role = Role::User;
        message.origin = Origin::Command;
        message.blocks.extend(payload.raw_command.map(|text| Block::Text(text.into_owned())));
    } else {
        for item in payload.output_history_items.unwrap_or_default() {
            let text =
                json::parse_json::<OutputHistoryItem<'_>>(item.get()).and_then(|item| item.text);
            message.blocks.push(match text {
                Some(text) => Block::Text(text.into_owned()),
                None => Block::Other(Json::from(item)),
            });
        }
    }
    if message.blocks.is_empty() {
        SystemOutcome::Nothing
    } else {
        SystemOutcome::Message(Box::new(message))
    }
}

/// Converts a compression into a message with its summary, the first entry of the compressed
/// history. The other entries repeat messages.
fn convert_compression(mut message: Message, payload: SystemPayload<'_>) -> SystemOutcome {
    message.role = Role::User;
    message.origin = Origin::Summary;
    let first = payload.compressed_history.and_then(|history| history.into_iter().next());
    if let Some(parts) = first.and_then(|content| content.parts) {
        genai::append_content_blocks(parts, &mut message.blocks);
    }
    if let Some(info) = payload.info {
        message.extensions.insert("info".to_owned(), Json::from(info));
    }
    SystemOutcome::Message(Box::new(message))
}

/// Converts a record of an unknown subtype into a message with its payload.
fn convert_unknown_system(mut message: Message, payload: Option<&RawValue>) -> SystemOutcome {
    message.blocks.extend(payload.map(|raw| Block::Other(Json::from(raw))));
    SystemOutcome::Message(Box::new(message))
}
