//! Reads a history into plain messages, and writes it again in one format with some messages
//! masked.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use agent_journal::model::{Block, Message, Origin, Timestamp};
use agent_journal::search::{Filter, Scope};
use agent_journal::{Config, Home, HomeKind, Journal, Meaning, SyncOptions};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::home::History;

/// A session to be searched.
pub(super) struct Session {
    /// The given or generated title; `None` if it is only the first prompt.
    pub(super) title: Option<String>,
    /// End of the session, in milliseconds since the epoch.
    pub(super) ended: i64,
    pub(super) messages: Vec<Said>,
}

/// A message to be searched.
pub(super) struct Said {
    pub(super) by: By,
    pub(super) blocks: Vec<Block>,
    /// The text of all blocks, for plain text search.
    pub(super) text: String,
}

/// The speaker of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Person,
    Model,
    Tool,
}

/// Reads a history through the journal. Sessions with the same first prompt, which were resumed or
/// copied, are used once.
pub(super) fn read(history: &History, place: &Path) -> Result<Vec<Session>> {
    let (first, others) = history.machines.split_first().context("no home to read")?;
    let mut config = Config::new(place.join("source"));
    config.meaning = Meaning { off: true, ..Meaning::default() };
    let home =
        |machine: &_| Home { machine: Clone::clone(machine), kind: HomeKind::Local, host: None };
    config.homes = others.iter().map(home).collect();
    let mut journal = Journal::open(config, first.clone())?;
    journal.sync(SyncOptions::default(), &mut |_| {})?;
    let filter = Filter { scope: Scope::All, ..Filter::default() };
    let mut seen = HashSet::new();
    let mut sessions = Vec::new();
    for entry in journal.list_entries(&filter, None)? {
        let messages = journal.read_messages(&entry, 0..u64::MAX)?;
        let messages: Vec<Said> = messages.into_iter().filter_map(|(_, one)| said(one)).collect();
        let first = messages.iter().find(|one| one.by == By::Person).map(|one| one.text.clone());
        let Some(first) = first.filter(|first| seen.insert(first.clone())) else { continue };
        let is_given = ["renamed", "named", "generated", "summary", "listed"];
        let is_own = is_given.contains(&entry.title_source.as_str());
        let begins = |title: &str| {
            let head: String = title.chars().take(20).collect();
            first.to_lowercase().contains(&head.to_lowercase())
        };
        let title = Some(entry.title).filter(|title| is_own && !begins(title));
        let ended = entry.ended_at.map_or(0, Timestamp::as_millis);
        sessions.push(Session { title, ended, messages });
    }
    sessions.sort_by_key(|session| session.ended);
    Ok(sessions)
}

fn said(message: Message) -> Option<Said> {
    let by = match message.origin {
        Origin::Human | Origin::Queued => By::Person,
        Origin::Assistant => By::Model,
        Origin::Tool => By::Tool,
        _ => return None,
    };
    let mut text = String::new();
    for block in &message.blocks {
        match block {
            Block::Text(part) => text.push_str(part),
            Block::ToolResult { output, .. } => text.push_str(output),
            Block::ToolCall { name, input, .. } => {
                text.push_str(name);
                input.visit_strings(&mut |part| {
                    text.push(' ');
                    text.push_str(part);
                });
            }
            _ => {}
        }
        text.push('\n');
    }
    (!text.trim().is_empty()).then_some(Said { by, blocks: message.blocks, text })
}

/// Writes a history in the format of one agent. Masked messages keep their position and lose their
/// text.
pub(super) fn write(
    sessions: &[Session],
    masked: &HashSet<(usize, usize)>,
    home: &Path,
) -> Result<()> {
    let folder = home.join(".claude/projects/-home-mara-work");
    fs::create_dir_all(&folder)?;
    for (number, session) in sessions.iter().enumerate() {
        let id = session_id(number);
        let mut lines = String::new();
        for (at, said) in session.messages.iter().enumerate() {
            let is_masked = masked.contains(&(number, at));
            // Ranking depends on times, so the recorded end is kept.
            let millis = session.ended - 1000 * (session.messages.len() - at) as i64;
            let time = jiff::Timestamp::from_millisecond(millis.max(0))?;
            let line = json!({
                "type": if said.by == By::Model { "assistant" } else { "user" },
                "uuid": uuid(number, at), "sessionId": id, "cwd": "/home/mara/work",
                "version": "2.1.80", "timestamp": time.to_string(), "isSidechain": false,
                "message": message(said, (number, at), is_masked),
            });
            lines.push_str(&format!("{line}\n"));
        }
        fs::write(folder.join(format!("{id}.jsonl")), lines)?;
    }
    Ok(())
}

/// Returns the id of a session in the written history.
pub(super) fn session_id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// Returns the id of a message in the written history.
pub(super) fn uuid(number: usize, at: usize) -> String {
    format!("{number:08x}-0000-4000-8000-{:012x}", at + 1)
}

fn message(said: &Said, (number, at): (usize, usize), is_masked: bool) -> Value {
    let content: Vec<Value> = if is_masked {
        vec![json!({ "type": "text", "text": "…" })]
    } else {
        said.blocks.iter().filter_map(content).collect()
    };
    match said.by {
        By::Model => json!({
            "id": format!("msg_{number}_{at}"), "role": "assistant", "type": "message",
            "model": "some-model", "content": content,
        }),
        By::Person | By::Tool => json!({ "role": "user", "content": content }),
    }
}

fn content(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(json!({ "type": "text", "text": text })),
        Block::ToolCall { id, name, input } => {
            let input: Value = serde_json::from_str(input.as_json_str()).unwrap_or_default();
            let input = if input.is_object() { input } else { json!({ "input": input }) };
            Some(json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
        }
        Block::ToolResult { call_id, output, .. } => {
            Some(json!({ "type": "tool_result", "tool_use_id": call_id, "content": output }))
        }
        _ => None,
    }
}
