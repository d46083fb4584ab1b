//! System records: facts about the session, commands, summaries, and state of the program.

use serde_json::value::RawValue;

use super::line::Line;
use crate::connectors::formats::genai;
use crate::connectors::formats::json::{self, Text, lenient};
use crate::model::{Block, Json, Kind, Message, Origin, Role, Session, TitleRank};

/// Subtypes that are state of the program, or repeat what stands elsewhere.
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

/// What a system record becomes.
pub(super) enum Told {
    /// Something the session keeps; the record is understood.
    Fact,
    /// Something to read.
    Message(Box<Message>),
    /// Nothing for the journal.
    Nothing,
}

lenient! {
    struct Payload<'a> {
        "customTitle" custom_title: Option<Text<'a>>,
        "titleSource" title_source: Option<Text<'a>>,
        "parentSessionId" parent_session_id: Option<Text<'a>>,
        "modelId" model_id: Option<Text<'a>>,
        "phase" phase: Option<Text<'a>>,
        "rawCommand" raw_command: Option<Text<'a>>,
        "outputHistoryItems" output_history_items: Option<Vec<&'a RawValue>>,
        "compressedHistory" compressed_history: Option<Vec<Content<'a>>>,
        "info" info: Option<&'a RawValue>,
        "displayText" display_text: Option<Text<'a>>,
    }
}

lenient! {
    struct Content<'a> {
        "parts" parts: Option<&'a RawValue>,
    }
}

/// Reads a system record.
pub(super) fn read(line: Line<'_>, session: &mut Session) -> Told {
    let subtype = line.subtype().to_owned();
    if STATE.contains(&subtype.as_str()) {
        return Told::Nothing;
    }
    let raw = line.payload;
    let Some(payload) = raw.and_then(|raw| json::parse::<Payload<'_>>(raw.get())) else {
        return other(line.envelope(), raw);
    };
    match subtype.as_str() {
        "custom_title" | "parent_session" | "session_model" => {
            about(payload, session);
            Told::Fact
        }
        "slash_command" => command(line.envelope(), payload),
        "chat_compression" => summary(line.envelope(), payload),
        "notification" if payload.display_text.is_some() => {
            let mut message = line.envelope();
            message.blocks.extend(payload.display_text.map(|text| Block::Text(text.into_owned())));
            Told::Message(Box::new(message))
        }
        _ => other(line.envelope(), raw),
    }
}

/// Takes in what a record says about the session.
fn about(payload: Payload<'_>, session: &mut Session) {
    if let Some(title) = payload.custom_title {
        let is_auto = payload.title_source.is_some_and(|source| source.as_str() == "auto");
        let rank = if is_auto { TitleRank::Generated } else { TitleRank::Renamed };
        session.title(rank, title.into_owned());
    }
    if let Some(parent) = payload.parent_session_id {
        session.parent = Some(parent.into_owned());
        session.kind = Kind::Agent;
    }
    if let Some(model) = payload.model_id {
        session.model = Some(model.into_owned());
    }
}

/// A command as it was typed, or what it printed.
fn command(mut message: Message, payload: Payload<'_>) -> Told {
    lenient! {
        struct Item<'a> {
            "text" text: Option<Text<'a>>,
        }
    }
    if payload.phase.as_ref().is_some_and(|phase| phase.as_str() == "invocation") {
        message.role = Role::User;
        message.origin = Origin::Command;
        message.blocks.extend(payload.raw_command.map(|text| Block::Text(text.into_owned())));
    } else {
        for item in payload.output_history_items.unwrap_or_default() {
            let text = json::parse::<Item<'_>>(item.get()).and_then(|item| item.text);
            message.blocks.push(match text {
                Some(text) => Block::Text(text.into_owned()),
                None => Block::Other(Json::from(item)),
            });
        }
    }
    if message.blocks.is_empty() { Told::Nothing } else { Told::Message(Box::new(message)) }
}

/// The history that goes on after a compression begins with its summary; the rest repeats
/// messages.
fn summary(mut message: Message, payload: Payload<'_>) -> Told {
    message.role = Role::User;
    message.origin = Origin::Summary;
    let first = payload.compressed_history.and_then(|history| history.into_iter().next());
    if let Some(parts) = first.and_then(|content| content.parts) {
        genai::blocks(parts, &mut message.blocks);
    }
    if let Some(info) = payload.info {
        message.extensions.insert("info".to_owned(), Json::from(info));
    }
    Told::Message(Box::new(message))
}

/// Keeps a record we have no word for.
fn other(mut message: Message, payload: Option<&RawValue>) -> Told {
    message.blocks.extend(payload.map(|raw| Block::Other(Json::from(raw))));
    Told::Message(Box::new(message))
}
