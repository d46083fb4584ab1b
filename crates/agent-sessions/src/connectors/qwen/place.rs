//! Derives session ids from transcript paths, and reads the metadata file of a sub-agent.

use std::path::{Path, PathBuf};

use super::line::QwenLine;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{BorrowedText, lenient, parse_json};
use crate::connectors::formats::jsonl::LineReader;
use crate::error::Result;
use crate::model::{Json, Session, SessionKind, TitleRank};

/// Session metadata derived from the path of a transcript.
pub(super) struct QwenTranscriptLocation {
    /// The session's id, or `None` when only the records have it.
    pub(super) native: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) kind: SessionKind,
    /// The directory of sub-agent transcripts, with one subdirectory per session.
    agents: PathBuf,
}

impl QwenTranscriptLocation {
    pub(super) fn from_qwen_path(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        let project = folder.parent().unwrap_or(Path::new(""));
        let agents = project.join("subagents");
        let Some(agent) = stem.strip_prefix("agent-") else {
            let is_chat = folder.file_name().is_some_and(|name| name == "chats");
            return Self {
                native: is_chat.then_some(stem),
                parent: None,
                kind: SessionKind::Root,
                agents,
            };
        };
        let parent = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let native = agent_id(agent, parent.as_deref().unwrap_or_default());
        Self { native: Some(native), parent, kind: SessionKind::Agent, agents }
    }

    /// Returns whether a session's sub-agents have transcripts of their own.
    pub(super) fn has_transcripts(&self, session: &str) -> bool {
        !session.is_empty() && self.agents.join(session).is_dir()
    }
}

/// Returns the session id of a sub-agent. Its name is unique only in its session; the start of the
/// session's id makes it globally unique.
pub(super) fn agent_id(agent: &str, session: &str) -> String {
    let session: String = session.chars().take(8).collect();
    format!("{agent}@{session}")
}

/// Adds the metadata from the file beside a sub-agent's transcript.
pub(super) fn add_sidecar_metadata(path: &Path, session: &mut Session) {
    lenient! {
        struct QwenSidecarMeta<'a> {
            "agentType" agent_type: Option<BorrowedText<'a>>,
            "description" description: Option<BorrowedText<'a>>,
            "model" model: Option<BorrowedText<'a>>,
        }
    }
    let text = files::small_text(&path.with_extension("meta.json"), 1 << 20).unwrap_or_default();
    let Some(meta) = parse_json::<QwenSidecarMeta<'_>>(&text) else { return };
    let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
    session.add_title(TitleRank::Generated, owned(meta.description).unwrap_or_default());
    session.model = owned(meta.model).filter(|model| !model.is_empty());
    if let Some(agent_type) = meta.agent_type {
        session
            .extensions
            .insert("agentType".to_owned(), Json::from_value(&agent_type.as_borrowed_str()));
    }
}

/// Returns the session id in the records of a renamed file, or the file stem if there is none.
pub(super) fn first_session(path: &Path) -> Result<String> {
    let mut lines = LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
        if let Ok(QwenLine { session: Some(session), .. }) = serde_json::from_slice(line.bytes) {
            return Ok(session.into_owned());
        }
    }
    Ok(path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transcript_of_a_sub_agent_names_its_session_by_its_directory() {
        let check = |path: &str, native: Option<&str>, parent: Option<&str>, kind: SessionKind| {
            let place = QwenTranscriptLocation::from_qwen_path(Path::new(path));
            assert_eq!(place.native.as_deref(), native, "{path}");
            assert_eq!((place.parent.as_deref(), place.kind), (parent, kind), "{path}");
        };
        check("p/chats/1a2b3c4d-0000.jsonl", Some("1a2b3c4d-0000"), None, SessionKind::Root);
        check(
            "p/subagents/1a2b3c4d-0000/agent-explore-7f.jsonl",
            Some("explore-7f@1a2b3c4d"),
            Some("1a2b3c4d-0000"),
            SessionKind::Agent,
        );
        check("elsewhere/full.jsonl", None, None, SessionKind::Root);
    }
}
