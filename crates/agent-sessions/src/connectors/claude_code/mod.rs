//! Claude Code: `~/.claude/projects/<slug>/<session>.jsonl`, one JSON record a line, append-only.
//!
//! Versions 0.2.97 to 2.1.239 were seen. Peculiarities: one API message spans several lines that
//! repeat its usage; tool results are user records; sub-agents have been stored inline, in flat
//! `agent-*.jsonl` files, in `<session>/subagents/` and in `<slug>/subagents/`; a resumed session
//! may replay its history in a new file; summaries at the head of a file mostly belong to other
//! sessions. `docs/formats/claude-code.md` has the evidence.

mod content;
mod line;
mod prompt;
mod reader;
mod rest;
mod retention;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::formats::files;
use super::formats::json::{self, BorrowedText, lenient};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Os, Record, Resume,
    Retention, Sink, Source,
};
use crate::error::{Error, Result};
use crate::model::{Session, SessionKind, TitleRank};

/// The Claude Code connector.
pub(super) struct ClaudeCode;

const AGENT: Agent = Agent {
    id: "claude-code",
    name: "Claude Code",
    badge: "claude",
    aliases: &["claude"],
    color: (217, 119, 6),
    key: "claude_code",
    variable: "AJ_CLAUDE_PATH",
    shell_variables: &["CLAUDECODE"],
    mcp: Some(McpClient {
        file: "~/.claude.json",
        add: Some("claude mcp add --scope user NAME -- COMMAND"),
        introduces: "claude",
        skills: Some(".claude/skills"),
        shape: McpConfigFormat::McpServers,
    }),
};

/// File name suffix of the notes beside a sub-agent's transcript.
const SIDECAR: &str = ".meta.json";

/// Directory of sub-agents, in a session's directory or in the project's.
const SUBAGENTS: &str = "subagents";

const INDEX: &str = "sessions-index.json";

/// Size limit of the index. It is a small cache; a larger file of that name is something else.
const MAX_INDEX: u64 = 64 << 20;

impl Connector for ClaudeCode {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        if let Some(list) = machine.env_var("CLAUDE_CONFIG_DIR") {
            let named = list.split(',').map(str::trim).filter(|one| !one.is_empty());
            return named.map(|one| projects_directory(machine.expand_home(one))).collect();
        }
        let xdg =
            machine.env_path("XDG_CONFIG_HOME").unwrap_or_else(|| machine.home.join(".config"));
        let mut roots = vec![machine.home.join(".claude/projects"), xdg.join("claude/projects")];
        if machine.os == Os::MacOs {
            let support = machine.home.join("Library/Application Support");
            roots.push(support.join("Claude/local-agent-mode-sessions"));
        }
        roots
    }

    fn retention_period(&self, machine: &Machine) -> Option<Retention> {
        retention::read_retention_setting(machine)
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let root = projects_directory(root.to_owned());
        // A session's directory holds much besides its sub-agents. Only the standard layout is
        // known well enough to go straight to them.
        let is_usual = root.file_name().is_some_and(|name| name == "projects");
        let mut sources = files::walk_through(&root, &is_source, &|depth, folder| {
            let is_session = is_usual && depth == 1 && !folder.ends_with(SUBAGENTS);
            if is_session { folder.join(SUBAGENTS) } else { folder }
        })?;
        // Claude Desktop keeps other logs beside the projects of its agents.
        if root.ends_with("local-agent-mode-sessions") {
            sources.retain(|source| {
                source.path.components().any(|part| part.as_os_str() == "projects")
            });
        }
        Ok(with_sidecars(sources))
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let root = projects_directory(root.to_owned());
        let inside: Vec<_> = changed.strip_prefix(&root).ok()?.iter().collect();
        // Outside the standard directory the layout is unknown.
        if root.file_name().is_none_or(|name| name != "projects") || inside.is_empty() {
            return None;
        }
        let name = inside[inside.len() - 1].to_string_lossy();
        let is_transcript_directory = inside.len() < 3
            || inside[1] == SUBAGENTS
            || (inside[2] == SUBAGENTS && inside.len() > 3);
        if !is_transcript_directory || !is_source(&name) {
            return Some(Vec::new());
        }
        let transcript = match name.strip_suffix(SIDECAR) {
            Some(stem) => changed.with_file_name(format!("{stem}.jsonl")),
            None => changed.to_owned(),
        };
        let mut source = files::source_from_file(transcript);
        if let Some(source) = &mut source
            && let Some(note) = sidecar_path(&source.path)
        {
            source.stamp = source.stamp.with_companion(&note);
        }
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        if source.path.file_name().is_some_and(|name| name == INDEX) {
            read_session_index(&source.path, sink)?;
            return Ok(Checkpoint::default());
        }
        reader::read_transcript(&source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("claude", ["--resume", &session.id.native]))
    }
}

/// Returns the `projects` directory in a configuration home, or the path itself.
fn projects_directory(root: PathBuf) -> PathBuf {
    let child = root.join("projects");
    if files::is_dir(&child) { child } else { root }
}

/// Returns whether a file may hold sessions, by its name.
fn is_source(name: &str) -> bool {
    let is_jsonl = Path::new(name).extension().is_some_and(|ending| ending == "jsonl");
    let is_transcript = is_jsonl && !matches!(name, "history.jsonl" | "journal.jsonl");
    is_transcript || name == INDEX || (name.starts_with("agent-") && name.ends_with(SIDECAR))
}

/// Merges the stamps of sidecar files into those of their transcripts: a change of either is a
/// change of the source.
fn with_sidecars(sources: Vec<Source>) -> Vec<Source> {
    let is_note = |source: &Source| source.path.to_string_lossy().ends_with(SIDECAR);
    let (notes, mut sources): (Vec<Source>, Vec<Source>) = sources.into_iter().partition(is_note);
    let notes: HashMap<PathBuf, Source> =
        notes.into_iter().map(|note| (note.path.clone(), note)).collect();
    if notes.is_empty() {
        return sources;
    }
    for source in &mut sources {
        if let Some(note) = sidecar_path(&source.path).and_then(|path| notes.get(&path)) {
            source.stamp = source.stamp.combine_stamps(note.stamp);
        }
    }
    sources
}

/// Returns the path of the sidecar file that describes a sub-agent's task, beside its transcript.
fn sidecar_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    name.starts_with("agent-").then(|| path.with_extension("meta.json"))
}

/// Reads Claude Code's own cache of session names. It is stale and incomplete, but the only source
/// of some titles.
fn read_session_index(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let wrong = |what: &str| Error::Format { path: path.to_owned(), what: what.to_owned() };
    let text = files::small_text(path, MAX_INDEX).ok_or_else(|| wrong("not a small text file"))?;
    let index: SessionIndex<'_> =
        json::parse_json(&text).ok_or_else(|| wrong("not a sessions index"))?;
    for entry in index.entries.unwrap_or_default() {
        let Some(id) = entry.session_id else { continue };
        let mut session = Session::new(AGENT.id, id.into_owned());
        let summary = entry.summary.map(BorrowedText::into_owned);
        session.add_title(TitleRank::Listed, summary.unwrap_or_default());
        sink.accept_record(Record::Session(Box::new(session)))?;
    }
    Ok(())
}

lenient! {
    struct SessionIndex<'a> {
        "entries" entries: Option<Vec<SessionIndexEntry<'a>>>,
    }
}

lenient! {
    struct SessionIndexEntry<'a> {
        "sessionId" session_id: Option<BorrowedText<'a>>,
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

/// Facts about a session that follow from the path of its transcript.
struct TranscriptLocation {
    /// The session's id; `None` when only the records contain it.
    native: Option<String>,
    parent: Option<String>,
    /// Name of the project's directory below `projects`.
    project: Option<String>,
    kind: SessionKind,
    /// Directory of tool outputs that were too large for the transcript.
    tool_results: PathBuf,
}

impl TranscriptLocation {
    fn from_transcript_path(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new(""));
        let agent = stem.strip_prefix("agent-");
        let Some(agent) = agent.or(folder.ends_with(SUBAGENTS).then_some(&*stem)) else {
            return Self {
                native: is_claude_uuid(&stem).then(|| stem.to_string()),
                parent: None,
                project: project_slug(folder),
                kind: SessionKind::Root,
                tool_results: folder.join(&*stem).join("tool-results"),
            };
        };
        let around = folder.ancestors().find(|one| one.ends_with(SUBAGENTS));
        let around = around.and_then(Path::parent);
        let session = around.and_then(Path::file_name).map(|name| name.to_string_lossy());
        Self {
            native: Some(agent.to_owned()),
            // A directory of sub-agents may also be in the project's directory, whose name is no
            // session id.
            parent: session.filter(|name| is_claude_uuid(name)).map(Cow::into_owned),
            project: folder.ancestors().take(5).find_map(project_slug),
            kind: if is_internal_agent(agent) { SessionKind::Copy } else { SessionKind::Agent },
            tool_results: around.unwrap_or(folder).join("tool-results"),
        }
    }
}

/// Returns the name of a project's directory: the path of the project, with every character other
/// than letters and digits replaced by a dash.
fn project_slug(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let is_slug = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && (name.starts_with('-') || name.get(1..3) == Some("--"));
    is_slug.then(|| name.to_owned())
}

/// Returns whether an agent's id is one of Claude Code's internal agents (`acompact-…`,
/// `aside_question-…`): working copies of the parent conversation.
fn is_internal_agent(agent: &str) -> bool {
    agent.split_once('-').is_some_and(|(word, rest)| {
        word.starts_with('a')
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && !rest.is_empty()
            && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn is_claude_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_of_sub_agents_names_the_parent_where_it_can() {
        let check = |path: &str, native: Option<&str>, parent: Option<&str>, kind: SessionKind| {
            let place = TranscriptLocation::from_transcript_path(Path::new(path));
            assert_eq!(place.native.as_deref(), native, "{path}");
            assert_eq!(place.parent.as_deref(), parent, "{path}");
            assert_eq!(place.kind, kind, "{path}");
        };
        let id = "0b1c2d3e-0000-4000-8000-000000000001";
        check(&format!("p/{id}.jsonl"), Some(id), None, SessionKind::Root);
        check("p/agent-562b2e5b.jsonl", Some("562b2e5b"), None, SessionKind::Agent);
        check(
            &format!("p/{id}/subagents/agent-a1.jsonl"),
            Some("a1"),
            Some(id),
            SessionKind::Agent,
        );
        check(
            &format!("p/{id}/subagents/workflows/wf_1/agent-b2.jsonl"),
            Some("b2"),
            Some(id),
            SessionKind::Agent,
        );
        check(
            &format!("p/{id}/subagents/agent-acompact-28.jsonl"),
            Some("acompact-28"),
            Some(id),
            SessionKind::Copy,
        );
        check(&format!("-p/subagents/{id}.jsonl"), Some(id), None, SessionKind::Agent);
        check("-p/subagents/agent-c3.jsonl", Some("c3"), None, SessionKind::Agent);
        check("subagents/p/full.jsonl", None, None, SessionKind::Root);
    }
}
