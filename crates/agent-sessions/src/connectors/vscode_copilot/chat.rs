//! Emits a session document: the session, and for each request the prompt and its response.

use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use super::answer::EmittedCalls;
use super::document::LazyNode;
use super::shape::{ChatRequest, parse_epoch_millis, parse_non_empty_string, parse_raw};
use super::turn::RequestTurn;
use crate::connectors::formats::fold::fold_elements;
use crate::connectors::formats::{json, jsonl};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Extensions, Json, Session, TitleRank};

/// Keys not kept: state of the interface between prompts, and avatars.
const INTERFACE: &[&str] = &[
    "inputState",
    "inputText",
    "attachments",
    "selections",
    "selectedModel",
    "mode",
    "contrib",
    "requesterAvatarIconUri",
    "responderAvatarIconUri",
    "requesterUsername",
    "responderUsername",
    "version",
    "creationDate",
];

/// The location of a document, and the metadata derived from it.
#[derive(Default)]
pub(super) struct ChatDocumentLocation<'a> {
    /// The session's id, if the file name has it.
    pub(super) native: Option<String>,
    /// The folder of the workspace.
    pub(super) folder: Option<String>,
    /// The workspace storage directory that contains the document.
    pub(super) storage: Option<&'a Path>,
}

/// Emits the session and messages of a document.
pub(super) fn emit_chat_document(
    mut document: LazyNode,
    place: &ChatDocumentLocation<'_>,
    sink: &mut dyn Sink,
) -> Result<()> {
    let requests = document.take_member("requests");
    let is_chat = requests.is_some();
    let requests = requests.map(LazyNode::into_elements).unwrap_or_default();
    let session = read_chat_session(document, place, requests.first()).filter(|_| is_chat);
    let Some(mut session) = session else {
        return sink.accept_record(Record::unreadable_record(0, "not a chat session"));
    };
    sink.accept_record(Record::Session(Box::new(session.clone())))?;
    if requests.is_empty() {
        return Ok(());
    }
    let resources =
        place.storage.map(|storage| storage.join(super::EXTENSION).join("chat-session-resources"));
    let resources = resources.unwrap_or_default();
    let mut calls = EmittedCalls::default();
    for (at, request) in requests.into_iter().enumerate() {
        let Some(raw) = request.into_raw().filter(|raw| raw.get() != "null") else { continue };
        let folded = fold_elements(raw.get());
        let mended;
        let mut request = serde_json::from_str::<ChatRequest<'_>>(&folded).ok();
        if request.is_none() {
            mended = jsonl::mend_line(folded.as_bytes());
            request = serde_json::from_slice(&mended).ok();
        }
        let Some(request) = request else {
            sink.accept_record(Record::unreadable_record(at as u64, "not a request"))?;
            continue;
        };
        let turn = RequestTurn::from_request(request, &session.id.native);
        let answer = turn.response_reader(&resources, &mut calls);
        for message in turn.into_turn_messages(answer, &mut session) {
            sink.accept_record(Record::Message(Box::new(message)))?;
        }
    }
    sink.accept_record(Record::Session(Box::new(session)))
}

/// Reads the session metadata of a document. Returns `None` when there is no session id.
fn read_chat_session(
    mut document: LazyNode,
    place: &ChatDocumentLocation<'_>,
    first: Option<&LazyNode>,
) -> Option<Session> {
    let mut take = |key: &str| document.take_member(key).and_then(LazyNode::into_raw);
    let native =
        parse_non_empty_string(take("sessionId").as_deref()).or_else(|| place.native.clone());
    let mut session = Session::new(AGENT.id, native.or_else(|| request_id(first?))?);
    let created = parse_epoch_millis(take("creationDate").as_deref());
    if first.is_none() {
        session.extend_time_span(created);
    }
    session.extend_time_span(
        parse_epoch_millis(take("lastMessageDate").as_deref()).filter(|_| first.is_some()),
    );
    // Version 3 renamed `computedTitle` of version 2 to `customTitle`.
    let computed = parse_non_empty_string(take("computedTitle").as_deref());
    let custom = parse_non_empty_string(take("customTitle").as_deref()).or(computed);
    session.add_title(TitleRank::Generated, custom.unwrap_or_default());
    let directory = super::shape::parse_reference_path(take("workingDirectory").as_deref());
    session.cwd = place.folder.clone().or(directory);
    add_repository(take("repoData").as_deref(), &mut session);
    for key in INTERFACE {
        take(key);
    }
    keep_document_fields(document, &mut session.extensions);
    Some(session)
}

/// Returns the id of the first request, which replaces the missing session id of an exported chat.
fn request_id(first: &LazyNode) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct First {
        request_id: String,
    }
    let raw = serde_json::to_string(first).ok()?;
    let First { request_id } = serde_json::from_str(&raw).ok()?;
    Some(request_id.strip_prefix("request_").unwrap_or(&request_id).to_owned())
}

fn add_repository(raw: Option<&RawValue>, session: &mut Session) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct ChatRepository<'a> {
        remote_url: Option<&'a RawValue>,
        local_branch: Option<&'a RawValue>,
        local_head_commit: Option<&'a RawValue>,
    }
    let Some(found) = parse_raw::<ChatRepository<'_>>(raw) else { return };
    session.repository = parse_non_empty_string(found.remote_url);
    session.branch = parse_non_empty_string(found.local_branch);
    if let Some(commit) = parse_non_empty_string(found.local_head_commit) {
        session.extensions.insert("localHeadCommit".into(), Json::from_value(&commit));
    }
}

fn keep_document_fields(document: LazyNode, extensions: &mut Extensions) {
    let LazyNode::Object(members) = document else { return };
    let raw: Vec<(String, Box<RawValue>)> =
        members.into_iter().filter_map(|(key, value)| Some((key, value.into_raw()?))).collect();
    json::keep_non_empty_fields(
        raw.iter().map(|(key, value)| (key.into(), &**value)).collect(),
        extensions,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, Message};

    #[test]
    fn a_request_of_very_many_small_parts_is_folded() {
        struct Messages(Vec<Message>);
        impl Sink for Messages {
            fn accept_record(&mut self, record: Record) -> Result<()> {
                if let Record::Message(message) = record {
                    self.0.push(*message);
                }
                Ok(())
            }
        }
        let parts: Vec<String> =
            (0..200_000).map(|at| format!("{{\"value\":\"w{at} \"}}")).collect();
        let text = format!(
            "{{\"sessionId\":\"s\",\"requests\":[{{\"requestId\":\"r\",\"message\":{{\"text\":\"hello\"}},\"response\":[{}]}}]}}",
            parts.join(",")
        );
        let raw = RawValue::from_string(text).unwrap();
        let document = super::super::document::parse_embedded_document(&raw);
        let mut sink = Messages(Vec::new());
        emit_chat_document(document, &ChatDocumentLocation::default(), &mut sink).unwrap();
        let [prompt, reply] = &sink.0[..] else { panic!("{} messages", sink.0.len()) };
        assert_eq!(prompt.blocks, [Block::Text("hello".to_owned())]);
        let [Block::Text(text)] = &reply.blocks[..] else {
            panic!("{} blocks", reply.blocks.len())
        };
        assert!(text.starts_with("w0 w1 w2 "), "{text:.60}");
        assert!(text.contains("'value':'w199999 '"), "{}", text.len());
    }
}
