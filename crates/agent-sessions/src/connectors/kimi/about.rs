//! The metadata of a session, which stands in other files: title, directory, origin.

use std::collections::BTreeMap;

use super::line::{owned_if_present, text_or_empty};
use super::place::KimiPlace;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::{files, md5};
use crate::model::{Json, Session, SessionKind, TitleRank};

/// Size limit of a metadata file in bytes.
const MAX_METADATA_BYTES: u64 = 4 << 20;

lenient! {
    /// The metadata file of a session, as both programs write it.
    struct KimiSessionState<'a> {
        "title" title: Option<BorrowedText<'a>>,
        "titleKind" title_kind: Option<BorrowedText<'a>>,
        "isCustomTitle" is_custom_title: Option<bool>,
        "custom_title" cli_title: Option<BorrowedText<'a>>,
        "title_generated" is_cli_title_generated: Option<bool>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "workDir" work_dir: Option<BorrowedText<'a>>,
        "forkedFrom" forked_from: Option<BorrowedText<'a>>,
        "agents" agents: Option<BTreeMap<String, KimiAgentState<'a>>>,
        "custom" custom: Option<KimiCustomState<'a>>,
    }
}

lenient! {
    /// One agent of a session.
    struct KimiAgentState<'a> {
        "parentAgentId" parent: Option<BorrowedText<'a>>,
        "forkedFrom" forked_from: Option<BorrowedText<'a>>,
        "labels" labels: Option<KimiAgentLabels<'a>>,
    }
}

lenient! {
    struct KimiAgentLabels<'a> {
        "profileName" profile: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The part of the metadata that names a session of Kimi CLI, where it was imported from it.
    struct KimiCustomState<'a> {
        "kimi_cli_session_id" imported_session: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The file in which Kimi CLI lists its working directories.
    struct KimiDirectories<'a> {
        "work_dirs" directories: Option<Vec<KimiDirectory<'a>>>,
    }
}

lenient! {
    struct KimiDirectory<'a> {
        "path" path: Option<BorrowedText<'a>>,
    }
}

/// The other session from which messages were copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyOrigin {
    /// A fork copied the records of this session.
    Fork(String),
    /// The messages of this session of Kimi CLI were imported.
    Import(String),
}

/// Returns the metadata of a session, and the session from which its first messages were copied.
pub(super) fn session_metadata(agent: &str, place: &KimiPlace) -> (Session, Option<CopyOrigin>) {
    let mut session = Session::new(agent, place.native_id());
    let text = files::small_text(&place.state_file(), MAX_METADATA_BYTES).unwrap_or_default();
    let mut state = json::parse_json::<KimiSessionState<'_>>(&text).unwrap_or_default();
    let directory = owned_if_present(state.cwd.take()).or(owned_if_present(state.work_dir.take()));
    session.cwd = directory.or_else(|| listed_directory(place));
    let fork = owned_if_present(state.forked_from.take());
    let imported = state.custom.take().and_then(|custom| owned_if_present(custom.imported_session));
    let Some(id) = &place.agent else {
        add_title(&mut session, &state);
        let copied = fork.map(CopyOrigin::Fork).or(imported.map(CopyOrigin::Import));
        return (session, copied);
    };
    let agent = state.agents.take().and_then(|mut agents| agents.remove(id)).unwrap_or_default();
    let parent = owned_if_present(agent.parent).or(owned_if_present(agent.forked_from));
    session.kind = SessionKind::Agent;
    session.parent = Some(place.id_of_agent(parent.as_deref().unwrap_or("main")));
    let profile = agent.labels.and_then(|labels| owned_if_present(labels.profile));
    if let Some(profile) = profile {
        session.extensions.insert("profile".to_owned(), Json::from_value(&profile));
    }
    let copied = fork.map(|session| CopyOrigin::Fork(place.id_in_session(&session)));
    (session, copied)
}

fn add_title(session: &mut Session, state: &KimiSessionState<'_>) {
    let is_generated = state.is_cli_title_generated == Some(true);
    let rank = if is_generated { TitleRank::Generated } else { TitleRank::Renamed };
    session.add_title(rank, text_or_empty(state.cli_title.as_ref()));
    let rank = match text_or_empty(state.title_kind.as_ref()) {
        "custom" => TitleRank::Renamed,
        "generated" => TitleRank::Generated,
        _ if state.is_custom_title == Some(true) => TitleRank::Renamed,
        // The beginning of a prompt.
        _ => TitleRank::Listed,
    };
    session.add_title(rank, text_or_empty(state.title.as_ref()));
}

/// Returns the working directory of a session of Kimi CLI, which keeps the sessions of a directory
/// below the MD5 of its path.
fn listed_directory(place: &KimiPlace) -> Option<String> {
    let folder = place.project_folder();
    let hash = folder.rsplit_once('_').map_or(&*folder, |(_, hash)| hash);
    let text = files::small_text(&place.directories_file(), MAX_METADATA_BYTES)?;
    let listed = json::parse_json::<KimiDirectories<'_>>(&text)?.directories?;
    let mut paths = listed.into_iter().filter_map(|directory| owned_if_present(directory.path));
    paths.find(|path| md5::md5_hex(path) == hash)
}
