//! The metadata of a session in `summary.json`: title, directory, model, origin.

use std::path::{Path, PathBuf};

use super::line::owned_if_present;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::LineReader;
use crate::model::{Json, Session, SessionKind, Timestamp, TitleRank};

/// Size limit of a metadata file in bytes.
const MAX_SUMMARY_BYTES: u64 = 4 << 20;

/// Beginning of the kinds of sessions that another session started.
const SUB_AGENT: &str = "subagent";

lenient! {
    struct GrokSummary<'a> {
        "info" info: Option<GrokInfo<'a>>,
        "session_summary" session_summary: Option<BorrowedText<'a>>,
        "generated_title" title: Option<BorrowedText<'a>>,
        "title_is_manual" is_manual_title: Option<bool>,
        "current_model_id" model: Option<BorrowedText<'a>>,
        "git_root_dir" root: Option<BorrowedText<'a>>,
        "head_branch" branch: Option<BorrowedText<'a>>,
        "parent_session_id" parent: Option<BorrowedText<'a>>,
        "forked_at" forked_at: Option<BorrowedText<'a>>,
        "session_kind" kind: Option<BorrowedText<'a>>,
        "agent_name" agent_name: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct GrokInfo<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct NamedUpdate<'a> {
        "params" params: Option<NamedParameters<'a>>,
    }
}

lenient! {
    struct NamedParameters<'a> {
        "sessionId" session: Option<BorrowedText<'a>>,
    }
}

/// The facts about a session that its metadata file records.
pub(super) struct SessionFacts {
    pub(super) session: Session,
    /// The session whose beginning was copied, and the time of the copy.
    pub(super) fork: Option<(String, Timestamp)>,
    /// Whether the session's tokens are included in those of another sub-agent.
    pub(super) is_nested: bool,
}

/// Returns the metadata file of a session.
pub(super) fn summary_file(updates: &Path) -> PathBuf {
    updates.with_file_name("summary.json")
}

/// Reads the metadata of the session in a file.
pub(super) fn read_facts(agent: &str, updates: &Path) -> SessionFacts {
    let folder = updates.parent().unwrap_or(Path::new(""));
    let text = files::small_text(&summary_file(updates), MAX_SUMMARY_BYTES).unwrap_or_default();
    let summary = json::parse_json::<GrokSummary<'_>>(&text).unwrap_or_default();
    let is_sub_agent = is_sub_agent(&summary);
    let info = summary.info.unwrap_or_default();
    let folder_name = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A copy of a session's folder under another name is the same session.
    let native = first_session_id(updates).or_else(|| owned_if_present(info.id));
    let mut session = Session::new(agent, native.unwrap_or_else(folder_name));
    session.cwd = owned_if_present(info.cwd);
    session.model = owned_if_present(summary.model);
    session.branch = owned_if_present(summary.branch);
    let root = owned_if_present(summary.root);
    session.root = root.map(|root| root.trim_end_matches('/').to_owned());
    let is_manual = summary.is_manual_title == Some(true);
    let rank = if is_manual { TitleRank::Renamed } else { TitleRank::Generated };
    let title = |text: Option<BorrowedText<'_>>| owned_if_present(text).unwrap_or_default();
    session.add_title(TitleRank::Listed, title(summary.session_summary));
    session.add_title(rank, title(summary.title));
    if let Some(profile) = owned_if_present(summary.agent_name) {
        session.extensions.insert("agent_name".to_owned(), Json::from_value(&profile));
    }
    let forked_at = owned_if_present(summary.forked_at);
    let forked_at = forked_at.and_then(|time| Timestamp::parse_iso_time(&time));
    let Some(parent) = owned_if_present(summary.parent) else {
        return SessionFacts { session, fork: None, is_nested: false };
    };
    if !is_sub_agent {
        let fork = forked_at.map(|at| (parent, at));
        return SessionFacts { session, fork, is_nested: false };
    }
    let around = folder.parent().unwrap_or(Path::new(""));
    let is_nested = is_sub_agent_file(&around.join(&parent).join("summary.json"));
    session.kind = SessionKind::Agent;
    session.parent = Some(parent);
    SessionFacts { session, fork: None, is_nested }
}

/// Returns the session that the first line of a file names.
fn first_session_id(updates: &Path) -> Option<String> {
    let mut lines = LineReader::open_at(updates, 0).ok()?;
    let line = lines.next_line().ok()??;
    let named = serde_json::from_slice::<NamedUpdate<'_>>(line.bytes).ok()?;
    owned_if_present(named.params?.session)
}

fn is_sub_agent_file(summary: &Path) -> bool {
    let text = files::small_text(summary, MAX_SUMMARY_BYTES);
    text.as_deref().and_then(json::parse_json).is_some_and(|summary| is_sub_agent(&summary))
}

fn is_sub_agent(summary: &GrokSummary<'_>) -> bool {
    let kind = summary.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    kind.starts_with(SUB_AGENT)
}
