//! Reads a session of the SDK: a document with its messages, and a manifest beside it. A sub-agent
//! is a document of its own in the same directory.

use std::path::{Path, PathBuf};

use super::MESSAGES;
use super::session_message::{SessionMessage, convert_message, is_legacy_warning};
use crate::connectors::formats::documents::{ListDocument, read_list_document};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Continuation, Json, Message, Session, SessionKind, Timestamp, TitleRank};

/// Size limit of a manifest. A larger file of that name has another format.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// End of the title of a fork.
const FORK_MARK: &str = " (fork)";

/// The reason reported for a message that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

lenient! {
    /// The facts about a session.
    struct SessionManifest<'a> {
        "source" source: Option<BorrowedText<'a>>,
        "started_at" started_at: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "exit_code" exit_code: Option<f64>,
        "provider" provider: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "workspace_root" root: Option<BorrowedText<'a>>,
        "team_name" team: Option<BorrowedText<'a>>,
        "prompt" prompt: Option<BorrowedText<'a>>,
        "metadata" metadata: Option<ManifestMetadata<'a>>,
    }
}

lenient! {
    /// Facts that programs add to a manifest.
    struct ManifestMetadata<'a> {
        "title" title: Option<BorrowedText<'a>>,
        "git" git: Option<ManifestGit<'a>>,
        "fork" fork: Option<ManifestFork<'a>>,
        "importedFrom" import: Option<ManifestImport<'a>>,
        "sessionHistoryOrigin" origin: Option<SessionOrigin<'a>>,
    }
}

lenient! {
    struct ManifestGit<'a> {
        "branch" branch: Option<BorrowedText<'a>>,
        "url" url: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The session that this one was forked from.
    struct ManifestFork<'a> {
        "forkedFromSessionId" session: Option<BorrowedText<'a>>,
        "forkedAt" at: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The session of another agent that this one was imported from.
    struct ManifestImport<'a> {
        "tool" tool: Option<BorrowedText<'a>>,
        "sourceSessionId" session: Option<BorrowedText<'a>>,
        "importedAt" at: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The program that started a session, and the session that did.
    struct SessionOrigin<'a> {
        "version" version: Option<BorrowedText<'a>>,
        "mode" mode: Option<BorrowedText<'a>>,
        "trigger" trigger: Option<BorrowedText<'a>>,
        "sessionId" session: Option<BorrowedText<'a>>,
        "parentThreadId" parent: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The messages that replace the conversation so far for the model.
    struct CompactedMessages<'a> {
        "messages" messages: Option<Vec<CompactedMessage<'a>>>,
    }
}

lenient! {
    struct CompactedMessage<'a> {
        "metadata" metadata: Option<CompactionMetadata<'a>>,
    }
}

lenient! {
    struct CompactionMetadata<'a> {
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

/// The messages at the beginning of a session that were recorded elsewhere before.
#[derive(Default)]
struct CopiedMessages {
    /// The messages up to this time.
    until: Option<Timestamp>,
    /// The messages before this position.
    before: usize,
    /// The session they come from, if the same agent recorded it.
    origin: Option<String>,
}

/// Returns the manifest of the session that a document belongs to. A sub-agent has none of its own.
pub(super) fn manifest_path(document: &Path) -> PathBuf {
    let own = own_manifest_path(document);
    if files::is_regular_file(&own) {
        return own;
    }
    let folder = document.parent().unwrap_or(Path::new(""));
    folder.join(format!("{}.json", folder.file_name().unwrap_or_default().to_string_lossy()))
}

/// Returns the manifest with the name of a document.
fn own_manifest_path(document: &Path) -> PathBuf {
    document.with_file_name(format!("{}.json", stem_of(document)))
}

/// Returns the file with the messages that replace those of a document for the model.
pub(super) fn compaction_path(document: &Path) -> PathBuf {
    document.with_file_name(format!("{}.compaction.json", stem_of(document)))
}

/// Reads a session and sends it to `sink`.
pub(super) fn read_session(agent: &str, path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let document = read_list_document(path, "messages")?;
    let origin = document.fields.get("origin").map(Json::as_json_str).unwrap_or_default();
    let origin = json::parse_json::<SessionOrigin<'_>>(origin).unwrap_or_default();
    let mut session = session_of_document(agent, path, &document, &origin);
    let text = files::small_text(&manifest_path(path), MAX_MANIFEST_BYTES).unwrap_or_default();
    let manifest = json::parse_json::<SessionManifest<'_>>(&text).unwrap_or_default();
    let mut copied = describe_session(manifest, &mut session);
    add_compaction(path, &mut session);
    let (messages, broken) = parse_messages(&document);
    if let Some(at) = messages.iter().position(is_legacy_warning) {
        copied.before = at;
        session.begins_with_copy = true;
    }
    let converted = convert_messages(messages, &copied, &mut session);
    sink.accept_record(Record::Session(Box::new(session)))?;
    for at in broken {
        sink.accept_record(Record::unreadable_record(at, NO_OBJECT))?;
    }
    for message in converted {
        sink.accept_record(Record::Message(Box::new(message)))?;
    }
    document.break_record().map_or(Ok(()), |record| sink.accept_record(record))
}

/// Returns the name of a document without its ending.
fn stem_of(document: &Path) -> String {
    let name = document.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(MESSAGES).unwrap_or(&name).to_owned()
}

/// Creates the session of a document. One with another name than its directory and without a
/// manifest is a sub-agent's.
fn session_of_document(
    agent: &str,
    path: &Path,
    document: &ListDocument,
    origin: &SessionOrigin<'_>,
) -> Session {
    let stem = stem_of(path);
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let named = |text: &Option<BorrowedText<'_>>| {
        let text = text.as_ref().map(BorrowedText::as_borrowed_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let is_main = stem == folder || files::is_regular_file(&own_manifest_path(path));
    let mut session = if is_main {
        Session::new(agent, stem)
    } else {
        let recorded = named(&origin.session).or_else(|| document.text_field("sessionId"));
        // The first versions name the session that started the sub-agent.
        let own = recorded.filter(|id| *id != folder);
        Session::new(agent, own.unwrap_or_else(|| format!("{folder}__{stem}")))
    };
    if !is_main {
        session.kind = SessionKind::Agent;
        session.parent = named(&origin.parent).or_else(|| Some(folder.into_owned()));
    }
    session.agent_version = named(&origin.version);
    if let Some(kind) = document.text_field("taskType") {
        session.extensions.insert("taskType".to_owned(), Json::from_value(&kind));
    }
    session
}

/// Completes a session from its manifest. A sub-agent has only the manifest of the session that
/// started it. Returns the messages that were copied.
fn describe_session(manifest: SessionManifest<'_>, session: &mut Session) -> CopiedMessages {
    let owned = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
    };
    let metadata = manifest.metadata.unwrap_or_default();
    session.cwd = owned(manifest.cwd);
    session.root = owned(manifest.root);
    let git = metadata.git.unwrap_or_default();
    session.branch = owned(git.branch);
    session.repository = owned(git.url);
    if session.kind != SessionKind::Root {
        return CopiedMessages::default();
    }
    session.model = owned(manifest.model);
    session.extend_time_span(instant(manifest.started_at.as_ref()));
    let origin = metadata.origin.unwrap_or_default();
    session.agent_version = session.agent_version.take().or(owned(origin.version));
    add_title(metadata.title, owned(manifest.prompt), session);
    let mode = owned(origin.mode).filter(|mode| mode != "user");
    for (key, text) in [
        ("source", owned(manifest.source)),
        ("status", owned(manifest.status)),
        ("provider", owned(manifest.provider)),
        ("team_name", owned(manifest.team)),
        ("mode", mode),
        ("trigger", owned(origin.trigger)),
    ] {
        if let Some(text) = text {
            session.extensions.insert(key.to_owned(), Json::from_value(&text));
        }
    }
    if let Some(code) = manifest.exit_code.filter(|code| *code != 0.0) {
        session.extensions.insert("exit_code".to_owned(), Json::from_value(&code));
    }
    if let Some(import) = metadata.import {
        session.begins_with_copy = true;
        let until = instant(import.at.as_ref());
        let source = serde_json::json!({
            "tool": owned(import.tool),
            "sourceSessionId": owned(import.session),
        });
        session.extensions.insert("importedFrom".to_owned(), Json::from_value(&source));
        return CopiedMessages { until, ..CopiedMessages::default() };
    }
    let fork = metadata.fork.unwrap_or_default();
    let (until, origin) = (instant(fork.at.as_ref()), owned(fork.session));
    CopiedMessages { until: until.filter(|_| origin.is_some()), origin, before: 0 }
}

/// Adds the title. The program makes it of the prompt's first line, unless a person changed it.
fn add_title(title: Option<BorrowedText<'_>>, prompt: Option<String>, session: &mut Session) {
    let title = title.map(BorrowedText::into_owned).unwrap_or_default();
    let prompt = prompt.unwrap_or_default();
    let shown = title.strip_suffix(FORK_MARK).unwrap_or(&title);
    let is_of_prompt = prompt.contains(shown.trim());
    let rank = if is_of_prompt { TitleRank::Prompt } else { TitleRank::Named };
    session.add_title(rank, title);
}

/// Adds the summary that replaces the conversation so far for the model.
fn add_compaction(path: &Path, session: &mut Session) {
    let Some(text) = files::small_text(&compaction_path(path), MAX_MANIFEST_BYTES) else { return };
    let compacted = json::parse_json::<CompactedMessages<'_>>(&text).unwrap_or_default();
    let messages = compacted.messages.unwrap_or_default().into_iter();
    let summaries = messages.filter_map(|message| message.metadata?.summary);
    let summary = summaries.map(BorrowedText::into_owned).find(|text| !text.trim().is_empty());
    session.documents.extend(summary.map(|summary| ("compaction".to_owned(), summary)));
}

/// Parses the messages of a document. Returns also the positions of those that are no objects.
fn parse_messages(document: &ListDocument) -> (Vec<SessionMessage<'_>>, Vec<u64>) {
    let (mut messages, mut broken) = (Vec::new(), Vec::new());
    for (at, raw) in (0..).zip(&document.items) {
        match json::parse_json::<SessionMessage<'_>>(raw) {
            Some(message) => messages.push(message),
            None => broken.push(at),
        }
    }
    (messages, broken)
}

/// Converts the messages, and notes how many of them were copied.
fn convert_messages(
    messages: Vec<SessionMessage<'_>>,
    copied: &CopiedMessages,
    session: &mut Session,
) -> Vec<Message> {
    let mut converted = Vec::new();
    let mut is_copying = true;
    let mut shared = 0;
    for (position, message) in messages.into_iter().enumerate() {
        let at = message.message_time();
        is_copying &= position < copied.before
            || copied.until.is_some_and(|until| at.is_none_or(|at| at <= until));
        // The time span of a copy is that of its origin.
        if !is_copying || copied.origin.is_none() {
            session.extend_time_span(at);
        }
        let mut parts = convert_message(message);
        // Tokens of a task or of another agent's session count where they were spent.
        if is_copying && copied.origin.is_none() {
            for part in &mut parts {
                part.usage = None;
            }
        }
        converted.append(&mut parts);
        if is_copying {
            shared = converted.len() as u64;
        }
    }
    if let Some(origin) = copied.origin.clone() {
        session.continues = Some(Continuation { session: origin, messages: shared });
    }
    if session.kind != SessionKind::Root {
        session.model = converted.iter().find_map(|message| message.model.clone());
    }
    converted
}

fn instant(text: Option<&BorrowedText<'_>>) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text?.as_borrowed_str())
}
