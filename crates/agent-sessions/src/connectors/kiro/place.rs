//! The files of sessions, and the metadata files beside them.

use std::path::{Path, PathBuf};

use crate::connectors::Source;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::{files, sqlite};
use crate::model::{Session, SessionKind, Timestamp, TitleRank};

/// The database of conversations.
const DATABASE: &str = "data.sqlite3";

/// The log of events, and the metadata beside it.
const EVENTS: &str = "messages.jsonl";
const EVENTS_METADATA: &str = "session.json";

/// The directory with journals.
const JOURNALS: &str = "cli";

/// Size limit of a metadata file. It repeats the permissions and figures of every turn.
const MAX_METADATA_BYTES: u64 = 32 << 20;

/// Kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KiroSource {
    /// A database of conversations.
    Database,
    /// A journal of messages.
    Journal,
    /// A log of events.
    Events,
}

impl KiroSource {
    pub(super) fn of_path(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default();
        let extension = path.extension().unwrap_or_default();
        if name == EVENTS || name == EVENTS_METADATA {
            Self::Events
        } else if extension == "jsonl" || extension == "json" {
            Self::Journal
        } else {
            Self::Database
        }
    }
}

/// Lists the sources of a root: a directory with a database, with sessions, or around one.
pub(super) fn list_sources(root: &Path) -> Vec<Source> {
    let mut paths = vec![root.join(DATABASE)];
    for sessions in [root.to_owned(), root.join("sessions")] {
        for place in entries(&sessions) {
            paths.extend(
                entries(&place).into_iter().filter_map(|entry| session_file(&place, entry)),
            );
        }
    }
    if root.file_name().is_some_and(|name| name == JOURNALS) {
        paths.extend(entries(root).into_iter().filter(|path| is_journal(path)));
    }
    paths.into_iter().filter_map(source_with_metadata).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    if !files::is_dir(directory) {
        return Vec::new();
    }
    files::directory_entries(directory).unwrap_or_default()
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Returns the source at an entry of a directory: a journal, or the log in a session's directory.
fn session_file(place: &Path, entry: PathBuf) -> Option<PathBuf> {
    if place.file_name().is_some_and(|name| name == JOURNALS) {
        return is_journal(&entry).then_some(entry);
    }
    let events = entry.join(EVENTS);
    files::is_regular_file(&events).then_some(events)
}

/// Creates a source whose stamp includes its metadata file.
pub(super) fn source_with_metadata(path: PathBuf) -> Option<Source> {
    if KiroSource::of_path(&path) == KiroSource::Database {
        return sqlite::database_source(path);
    }
    let mut source = files::source_from_file(path)?;
    source.stamp = source.stamp.with_companion(&metadata_file(&source.path));
    Some(source)
}

/// Lists the sources that a change of a journal, of a log or of their metadata affects.
pub(super) fn sources_of_change(changed: &Path) -> Vec<Source> {
    let source = match KiroSource::of_path(changed) {
        KiroSource::Events => changed.with_file_name(EVENTS),
        _ => changed.with_extension("jsonl"),
    };
    let place = source.parent().unwrap_or(Path::new(""));
    let is_known = match KiroSource::of_path(&source) {
        KiroSource::Events => true,
        _ => place.file_name().is_some_and(|name| name == JOURNALS),
    };
    Vec::from_iter(is_known.then(|| source_with_metadata(source)).flatten())
}

fn metadata_file(source: &Path) -> PathBuf {
    match KiroSource::of_path(source) {
        KiroSource::Events => source.with_file_name(EVENTS_METADATA),
        _ => source.with_extension("json"),
    }
}

lenient! {
    /// The metadata of a session, in the names of both formats.
    struct KiroMetadata<'a> {
        "cwd" cwd: Option<BorrowedText<'a>>,
        "workspacePaths" workspaces: Option<Vec<BorrowedText<'a>>>,
        "title" title: Option<BorrowedText<'a>>,
        "created_at" created_at: Option<BorrowedText<'a>>,
        "createdAt" created: Option<BorrowedText<'a>>,
        "updated_at" updated_at: Option<BorrowedText<'a>>,
        "lastModifiedAt" modified: Option<BorrowedText<'a>>,
        "parent_session_id" parent_id: Option<BorrowedText<'a>>,
        "parentSessionId" parent: Option<BorrowedText<'a>>,
        "modelId" model: Option<BorrowedText<'a>>,
        "session_state" state: Option<KiroState<'a>>,
    }
}

lenient! {
    struct KiroState<'a> {
        "rts_model_state" model: Option<KiroModelState<'a>>,
    }
}

lenient! {
    struct KiroModelState<'a> {
        "model_info" info: Option<KiroModelInfo<'a>>,
    }
}

lenient! {
    struct KiroModelInfo<'a> {
        "model_id" id: Option<BorrowedText<'a>>,
    }
}

/// Creates the session of a journal or a log, with the metadata in the file beside it.
pub(super) fn session_of_source(agent: &str, source: &Path) -> Session {
    let kind = KiroSource::of_path(source);
    let native = match kind {
        KiroSource::Events => source.parent().and_then(Path::file_name),
        _ => source.file_stem(),
    };
    let mut session = Session::new(agent, native.unwrap_or_default().to_string_lossy());
    let text = files::small_text(&metadata_file(source), MAX_METADATA_BYTES).unwrap_or_default();
    let Some(metadata) = json::parse_json::<KiroMetadata<'_>>(&text) else { return session };
    let owned = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
    };
    // A journal is named after its first prompt; a log has a name that the model chose.
    let rank = if kind == KiroSource::Events { TitleRank::Generated } else { TitleRank::Listed };
    session.add_title(rank, owned(metadata.title).unwrap_or_default());
    let workspace = metadata.workspaces.into_iter().flatten().next();
    session.cwd = owned(metadata.cwd.or(workspace));
    let times = [metadata.created_at, metadata.created, metadata.updated_at, metadata.modified];
    for time in times.into_iter().flatten() {
        session.extend_time_span(Timestamp::parse_iso_time(time.as_borrowed_str()));
    }
    let state = metadata.state.and_then(|state| state.model).and_then(|model| model.info);
    session.model = owned(metadata.model.or(state.and_then(|info| info.id)));
    let parent = owned(metadata.parent_id.or(metadata.parent));
    if let Some(parent) = parent.filter(|parent| *parent != session.id.native) {
        session.parent = Some(parent);
        session.kind = SessionKind::Agent;
    }
    session
}
