//! What lies where: the ids that paths give, and the notes beside a sub-agent's transcript.

use std::path::{Path, PathBuf};

use super::line::Line;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{Text, lenient, parse};
use crate::connectors::formats::jsonl::Lines;
use crate::error::Result;
use crate::model::{Json, Kind, Session, TitleRank};

/// What a transcript's path says about the session in it.
pub(super) struct Place {
    /// The session's id; `None` when only the records can tell.
    pub(super) native: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) kind: Kind,
    /// Where transcripts of sub-agents would be, by session.
    agents: PathBuf,
}

impl Place {
    pub(super) fn of(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        let project = folder.parent().unwrap_or(Path::new(""));
        let agents = project.join("subagents");
        let Some(agent) = stem.strip_prefix("agent-") else {
            let is_chat = folder.file_name().is_some_and(|name| name == "chats");
            return Self {
                native: is_chat.then_some(stem),
                parent: None,
                kind: Kind::Root,
                agents,
            };
        };
        let parent = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let native = agent_id(agent, parent.as_deref().unwrap_or_default());
        Self { native: Some(native), parent, kind: Kind::Agent, agents }
    }

    /// Whether a session's sub-agents have transcripts of their own.
    pub(super) fn has_transcripts(&self, session: &str) -> bool {
        !session.is_empty() && self.agents.join(session).is_dir()
    }
}

/// An agent's name is unique in its session; the beginning of the session's id makes it so
/// everywhere.
pub(super) fn agent_id(agent: &str, session: &str) -> String {
    let session: String = session.chars().take(8).collect();
    format!("{agent}@{session}")
}

/// A sub-agent's task, kept beside its transcript.
pub(super) fn sidecar(path: &Path, session: &mut Session) {
    lenient! {
        struct Meta<'a> {
            "agentType" agent_type: Option<Text<'a>>,
            "description" description: Option<Text<'a>>,
            "model" model: Option<Text<'a>>,
        }
    }
    let text = files::small_text(&path.with_extension("meta.json"), 1 << 20).unwrap_or_default();
    let Some(meta) = parse::<Meta<'_>>(&text) else { return };
    let owned = |text: Option<Text<'_>>| text.map(Text::into_owned);
    session.title(TitleRank::Generated, owned(meta.description).unwrap_or_default());
    session.model = owned(meta.model).filter(|model| !model.is_empty());
    if let Some(agent_type) = meta.agent_type {
        session.extensions.insert("agentType".to_owned(), Json::from_value(&agent_type.as_str()));
    }
}

/// Finds the session the first record of a renamed file names.
pub(super) fn first_session(path: &Path) -> Result<String> {
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        if let Ok(Line { session: Some(session), .. }) = serde_json::from_slice(line.bytes) {
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
        let check = |path: &str, native: Option<&str>, parent: Option<&str>, kind: Kind| {
            let place = Place::of(Path::new(path));
            assert_eq!(place.native.as_deref(), native, "{path}");
            assert_eq!((place.parent.as_deref(), place.kind), (parent, kind), "{path}");
        };
        check("p/chats/1a2b3c4d-0000.jsonl", Some("1a2b3c4d-0000"), None, Kind::Root);
        check(
            "p/subagents/1a2b3c4d-0000/agent-explore-7f.jsonl",
            Some("explore-7f@1a2b3c4d"),
            Some("1a2b3c4d-0000"),
            Kind::Agent,
        );
        check("elsewhere/full.jsonl", None, None, Kind::Root);
    }
}
