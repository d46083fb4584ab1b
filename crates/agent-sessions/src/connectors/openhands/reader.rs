//! Reads the state and the events of a conversation.

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::event::{self, ConvertedEvent};
use super::{AGENT, EVENTS, SUB_AGENTS, state};
use crate::connectors::formats::parents::PassedParents;
use crate::connectors::formats::{files, fold, jsonl};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Session, SessionKind};

/// Reads a conversation and emits its session and messages.
pub(super) fn read_conversation(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let mut session = session_of_path(path);
    let text = files::small_text(path, jsonl::MAX_LINE as u64).unwrap_or_default();
    let text = fold::fold_text(&text);
    let calls = state::read_state(&text, &mut session);
    if calls.is_none() {
        sink.accept_record(Record::unreadable_record(0, "not a state of a conversation"))?;
    }
    let mut calls = calls.unwrap_or_default();
    sink.accept_record(Record::Session(Box::new(session.clone())))?;
    let mut passed = PassedParents::default();
    for (at, file) in event_files(path).iter().enumerate() {
        let text = files::small_text(file, jsonl::MAX_LINE as u64).unwrap_or_default();
        let text = fold::fold_text(&text);
        let raw = serde_json::from_str::<&RawValue>(&text).ok();
        let Some(converted) = raw.and_then(|raw| event::convert_event(raw, &mut calls)) else {
            sink.accept_record(Record::unreadable_record(at as u64, "not an event"))?;
            continue;
        };
        let messages = match converted {
            ConvertedEvent::Messages(messages) => messages,
            ConvertedEvent::Unknown(message) => vec![*message],
            ConvertedEvent::PassedOver(event) => {
                if let Some(id) = &event.id {
                    passed.add_passed_record(id, event.parent.as_deref());
                }
                sink.accept_record(Record::passed_over_record(at as u64, event.reason))?;
                continue;
            }
        };
        for mut message in messages {
            message.parent = message.parent.and_then(|parent| passed.resolve_parent(parent));
            session.extend_time_span(message.at);
            sink.accept_record(Record::Message(Box::new(message)))?;
        }
    }
    for call in calls.into_unnamed_calls() {
        sink.accept_record(Record::Message(Box::new(call)))?;
    }
    sink.accept_record(Record::Session(Box::new(session)))
}

/// Creates the session of a conversation, which its directory names.
fn session_of_path(path: &Path) -> Session {
    let name = |count: usize| {
        let directory = path.ancestors().nth(count).and_then(Path::file_name);
        directory.unwrap_or_default().to_string_lossy().into_owned()
    };
    let mut session = Session::new(AGENT.id, name(1));
    if name(2) == SUB_AGENTS {
        session.parent = Some(name(3));
        session.kind = SessionKind::Agent;
    }
    session
}

/// Lists the files of events in order. A name begins with the number of the event, which has at
/// least five digits.
fn event_files(path: &Path) -> Vec<PathBuf> {
    let directory = path.with_file_name(EVENTS);
    if !files::is_dir(&directory) {
        return Vec::new();
    }
    let entries = files::directory_entries(&directory).unwrap_or_default();
    let number = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix("event-")?.strip_suffix(".json")?;
        name.split('-').next()?.parse::<u64>().ok()
    };
    let mut numbered: Vec<(u64, PathBuf)> =
        entries.into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
    numbered.sort();
    numbered.into_iter().map(|(_, path)| path).collect()
}
