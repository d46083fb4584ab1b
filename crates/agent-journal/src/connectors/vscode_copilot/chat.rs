//! Tells a session document: the session, and for each request the prompt and its answer.

use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use super::answer::Calls;
use super::document::Node;
use super::shape::{Request, instant, read, word};
use super::turn::Turn;
use crate::connectors::formats::{json, jsonl};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Extensions, Json, Session, TitleRank};

/// What the interface remembers between two prompts, and pictures of people.
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

/// Where a document was found.
#[derive(Default)]
pub(super) struct Place<'a> {
    /// The session's id, where the place tells it.
    pub(super) native: Option<String>,
    /// The folder its workspace belongs to.
    pub(super) folder: Option<String>,
    /// The workspace storage it lies in.
    pub(super) storage: Option<&'a Path>,
}

/// Tells everything in a document.
pub(super) fn tell(mut document: Node, place: &Place<'_>, sink: &mut dyn Sink) -> Result<()> {
    let requests = document.take("requests");
    let is_chat = requests.is_some();
    let requests = requests.map(Node::elements).unwrap_or_default();
    let session = about(document, place, requests.first()).filter(|_| is_chat);
    let Some(mut session) = session else {
        return sink.accept(Record::bad(0, "not a chat session"));
    };
    sink.accept(Record::Session(Box::new(session.clone())))?;
    if requests.is_empty() {
        return Ok(());
    }
    let resources =
        place.storage.map(|storage| storage.join(super::EXTENSION).join("chat-session-resources"));
    let resources = resources.unwrap_or_default();
    let mut calls = Calls::default();
    for (at, request) in requests.into_iter().enumerate() {
        let Some(raw) = request.into_raw().filter(|raw| raw.get() != "null") else { continue };
        let mended;
        let mut request = read::<Request<'_>>(Some(&raw));
        if request.is_none() {
            mended = jsonl::mend(raw.get().as_bytes());
            request = serde_json::from_slice(&mended).ok();
        }
        let Some(request) = request else {
            sink.accept(Record::bad(at as u64, "not a request"))?;
            continue;
        };
        let turn = Turn::of(request, &session.id.native);
        let answer = turn.answer(&resources, &mut calls);
        for message in turn.tell(answer, &mut session) {
            sink.accept(Record::Message(Box::new(message)))?;
        }
    }
    sink.accept(Record::Session(Box::new(session)))
}

/// Reads what the document says about the session as a whole.
fn about(mut document: Node, place: &Place<'_>, first: Option<&Node>) -> Option<Session> {
    let mut take = |key: &str| document.take(key).and_then(Node::into_raw);
    let native = word(take("sessionId").as_deref()).or_else(|| place.native.clone());
    let mut session = Session::new(AGENT.id, native.or_else(|| request_id(first?))?);
    let created = instant(take("creationDate").as_deref());
    if first.is_none() {
        session.seen(created);
    }
    session.seen(instant(take("lastMessageDate").as_deref()).filter(|_| first.is_some()));
    // Version 3 calls the title custom that version 2 called computed.
    let computed = word(take("computedTitle").as_deref());
    let custom = word(take("customTitle").as_deref()).or(computed);
    session.title(TitleRank::Generated, custom.unwrap_or_default());
    let directory = super::shape::place(take("workingDirectory").as_deref());
    session.cwd = place.folder.clone().or(directory);
    repository(take("repoData").as_deref(), &mut session);
    for key in INTERFACE {
        take(key);
    }
    keep(document, &mut session.extensions);
    Some(session)
}

/// An exported chat has no id: the one of its first request is as good.
fn request_id(first: &Node) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct First {
        request_id: String,
    }
    let raw = serde_json::to_string(first).ok()?;
    let First { request_id } = serde_json::from_str(&raw).ok()?;
    Some(request_id.strip_prefix("request_").unwrap_or(&request_id).to_owned())
}

fn repository(raw: Option<&RawValue>, session: &mut Session) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Repository<'a> {
        remote_url: Option<&'a RawValue>,
        local_branch: Option<&'a RawValue>,
        local_head_commit: Option<&'a RawValue>,
    }
    let Some(found) = read::<Repository<'_>>(raw) else { return };
    session.repository = word(found.remote_url);
    session.branch = word(found.local_branch);
    if let Some(commit) = word(found.local_head_commit) {
        session.extensions.insert("localHeadCommit".into(), Json::from_value(&commit));
    }
}

fn keep(document: Node, extensions: &mut Extensions) {
    let Node::Object(members) = document else { return };
    let raw: Vec<(String, Box<RawValue>)> =
        members.into_iter().filter_map(|(key, value)| Some((key, value.into_raw()?))).collect();
    json::keep(raw.iter().map(|(key, value)| (key.into(), &**value)).collect(), extensions);
}
