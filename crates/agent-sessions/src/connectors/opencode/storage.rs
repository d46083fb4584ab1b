//! Reads the sessions of versions before 1.2: a tree of JSON documents, one for each session,
//! message and part.
//!
//! The documents are rewritten while a reply is streamed, so an incomplete one is normal. Later
//! versions copied the tree into a database and left it in place.

use std::path::{Path, PathBuf};

use super::document::{OpenCodeSession, given_title, millis_to_time};
use super::message::{MessageConverter, RecordedMessage};
use super::part::RecordedPart;
use super::transcript::TranscriptWriter;
use crate::connectors::formats::json::{self, BorrowedText, document_text, owned_if_present};
use crate::connectors::formats::{files, source_file};
use crate::connectors::{Record, Sink, Source, Stamp};
use crate::error::Result;
use crate::model::{Session, SessionKind, TitleRank};

/// The name of the directory with session documents in the versions before 0.6.
const INFO: &str = "info";

/// Fields of a session that repeat others, or that only the program can read.
const OMITTED: &[&str] = &["metadata", "permission", "share"];

/// The directories that hold the documents of one session.
struct SessionTree {
    /// Id of the session.
    native: String,
    /// Directory with its messages.
    messages: PathBuf,
    /// Directory with a directory of parts for each message.
    parts: PathBuf,
    /// Directory with the documents of projects, where the version has one.
    projects: Option<PathBuf>,
}

impl SessionTree {
    fn of_session_file(path: &Path) -> Option<Self> {
        let native = path.file_stem()?.to_string_lossy().into_owned();
        let folder = path.parent()?;
        let around = folder.parent()?;
        if folder.file_name()? == INFO {
            let messages = around.join("message").join(&native);
            let parts = around.join("part").join(&native);
            return Some(Self { native, messages, parts, projects: None });
        }
        let storage = around.parent()?;
        let messages = storage.join("message").join(&native);
        let parts = storage.join("part");
        Some(Self { native, messages, parts, projects: Some(storage.join("project")) })
    }
}

/// Lists the documents of all sessions below the agent's data directory.
pub(super) fn list_session_files(data: &Path) -> Vec<Source> {
    let current = data.join("storage/session");
    let projects = files::directory_entries(&data.join("project")).unwrap_or_default();
    let older = projects.into_iter().map(|project| project.join("storage/session").join(INFO));
    let folders = std::iter::once(current).chain(older).filter(|folder| files::is_dir(folder));
    let found = folders.filter_map(|folder| files::walk_files(&folder, &is_document).ok());
    found.flatten().collect()
}

/// Adds the state of a session's messages to the stamp of its document. A message is written again
/// when its last part is complete.
pub(super) fn with_message_stamps(mut source: Source) -> Source {
    let tree = SessionTree::of_session_file(&source.path);
    let messages = tree.and_then(|tree| files::directory_entries(&tree.messages).ok());
    for message in messages.unwrap_or_default() {
        source.stamp = Stamp::with_companion(source.stamp, &message);
    }
    source
}

/// Reads one session.
pub(super) fn read_session_tree(agent: &str, path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let Some(tree) = SessionTree::of_session_file(path) else {
        return sink.accept_record(Record::unreadable_record(0, "not a session"));
    };
    let text = document_text(&source_file::read_file(path)?);
    let mut session = Session::new(agent, tree.native.clone());
    let document = json::parse_json::<OpenCodeSession<'_>>(&text);
    let is_readable = document.is_some();
    let mut document = document.unwrap_or_default();
    let (time, revert) = (document.time.take().unwrap_or_default(), document.revert.take());
    fill_session(document, &tree, &mut session);
    let created = time.created.and_then(millis_to_time);
    let messages = files::directory_entries(&tree.messages).unwrap_or_default();
    let messages: Vec<PathBuf> =
        messages.into_iter().filter(|path| is_document_path(path)).collect();
    if messages.is_empty() {
        return sink.accept_record(Record::passed_over_record(0, "session without messages"));
    }
    let mut writer = TranscriptWriter::begin_session(session, created, revert, sink)?;
    if !is_readable {
        writer.skip_record(0, "not a session")?;
    }
    let mut converter = MessageConverter::default();
    for (at, path) in (1..).zip(messages) {
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(bytes) = source_file::read_file(&path) else {
            writer.skip_record(at, "not a message")?;
            continue;
        };
        let record = RecordedMessage {
            parts: read_parts(&tree.parts.join(&id)),
            id,
            created_ms: None,
            is_sidechain: false,
            text: document_text(&bytes),
        };
        let (outcome, facts) = converter.convert_message(&record);
        writer.emit_converted(&record.id, outcome, facts, at)?;
    }
    writer.finish_session(|_| Ok(None))
}

/// Fills the metadata of a session from its document.
fn fill_session(document: OpenCodeSession<'_>, tree: &SessionTree, session: &mut Session) {
    session.cwd = owned_if_present(document.directory);
    session.agent_version = owned_if_present(document.version);
    session.parent = owned_if_present(document.parent);
    if session.parent.is_some() {
        session.kind = SessionKind::Agent;
    }
    let title = document.title.as_ref().map_or("", BorrowedText::as_borrowed_str);
    session.add_title(TitleRank::Generated, given_title(title).unwrap_or_default());
    session.add_title(TitleRank::Slug, owned_if_present(document.slug).unwrap_or_default());
    let project = owned_if_present(document.project);
    session.root = project
        .zip(tree.projects.as_ref())
        .and_then(|(project, projects)| project_root(&projects.join(format!("{project}.json"))));
    let mut rest = document.rest;
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    json::keep_non_empty_fields(rest, &mut session.extensions);
}

/// Reads the root directory of a repository from the document of its project.
fn project_root(path: &Path) -> Option<String> {
    let text = files::small_text(path, 1 << 16)?;
    json::lenient! {
        struct OpenCodeProject<'a> {
            "worktree" worktree: Option<BorrowedText<'a>>,
            "vcs" vcs: Option<BorrowedText<'a>>,
        }
    }
    let project = json::parse_json::<OpenCodeProject<'_>>(&text)?;
    project.vcs.is_some().then(|| owned_if_present(project.worktree)).flatten()
}

/// Reads the parts of a message, in the order of their ids.
fn read_parts(folder: &Path) -> Vec<RecordedPart> {
    let paths = files::directory_entries(folder).unwrap_or_default().into_iter();
    let parts = paths.filter(|path| is_document_path(path)).filter_map(|path| {
        let bytes = source_file::read_file(&path).ok()?;
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Some(RecordedPart { id, text: document_text(&bytes) })
    });
    parts.collect()
}

fn is_document(name: &str) -> bool {
    is_document_path(Path::new(name))
}

fn is_document_path(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}
