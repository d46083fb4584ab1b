//! Reads `LoCoMo`, a public set of long conversations with questions, from a directory: either one
//! file with all conversations or one file for each.

use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::model::Block;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::history::{By, Said, Session};
use super::queries::{Class, Item};

/// The time of the first session, and the distance between sessions, in milliseconds.
const FIRST_AT: i64 = 1_772_000_000_000;
const DAY: i64 = 86_400_000;

/// One conversation: the sessions of two people, and questions about them.
pub(super) struct Conversation {
    pub(super) sessions: Vec<Session>,
    pub(super) items: Vec<Item>,
}

/// Reads all conversations below a directory.
pub(super) fn read(directory: &Path) -> Result<Vec<Conversation>> {
    let mut files = Vec::new();
    list_json_files(directory, &mut files)?;
    let mut conversations = Vec::new();
    for file in files {
        let attempt = || format!("could not read {}", file.display());
        let document: Value = serde_json::from_slice(&fs::read(&file).with_context(attempt)?)
            .with_context(attempt)?;
        match document {
            Value::Array(all) => conversations.extend(all.iter().filter_map(conversation)),
            one => conversations.extend(conversation(&one)),
        }
    }
    ensure!(!conversations.is_empty(), "no conversations in {}", directory.display());
    Ok(conversations)
}

fn list_json_files(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let attempt = || format!("could not list {}", directory.display());
    let entries = fs::read_dir(directory).with_context(attempt)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list_json_files(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    Ok(())
}

fn conversation(document: &Value) -> Option<Conversation> {
    let told = document.get("conversation").unwrap_or(document);
    let first = told["speaker_a"].as_str()?;
    let mut sessions = Vec::new();
    while let Some(turns) = told[format!("session_{}", sessions.len() + 1)].as_array() {
        let messages = turns.iter().filter_map(|turn| said(turn, first)).collect();
        let ended = FIRST_AT + DAY * sessions.len() as i64;
        sessions.push(Session { title: None, ended, messages });
    }
    let questions = document["qa"].as_array()?;
    let items = questions.iter().filter_map(|question| item(question, sessions.len())).collect();
    Some(Conversation { sessions, items })
}

fn said(turn: &Value, first: &str) -> Option<Said> {
    let speaker = turn["speaker"].as_str()?;
    let text = format!("{speaker}: {}", turn["text"].as_str()?);
    let by = if speaker == first { By::Person } else { By::Model };
    Some(Said { by, blocks: vec![Block::Text(text.clone())], text })
}

/// Reads a question. The sessions of its evidence are correct: `D3:5` is the fifth turn of the
/// third session.
fn item(question: &Value, sessions: usize) -> Option<Item> {
    let evidence = question["evidence"].as_array()?.iter().filter_map(Value::as_str);
    let numbers = evidence.flat_map(|places| places.split([';', ' ', ','])).filter_map(|place| {
        let number: usize = place.trim().strip_prefix('D')?.split(':').next()?.parse().ok()?;
        number.checked_sub(1).filter(|number| *number < sessions)
    });
    let mut right: Vec<usize> = numbers.collect();
    right.dedup();
    let query = question["question"].as_str()?.to_owned();
    (!right.is_empty()).then(|| Item::about_sessions(Class::Chat, query, right))
}
