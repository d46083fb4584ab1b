//! The journal's door to a screen: windows of a transcript as markup, its landmarks, and what is
//! found in it. However long a session is, a window costs what a window holds.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

use crate::analyze::{Prices, costs_with_subagents};
use crate::error::{Error, Result};
use crate::export::{Fragment, Grouper, Keep, Outline, Redactor, Shaper, Sketch, visible};
use crate::journal::Journal;
use crate::leave::look;
use crate::model::{Block, Message, Origin, Timestamp, first_blocks};
use crate::search::Snippet;
use crate::store::{Browse, Entry, Listing, Order, Store, Touches};

/// Messages read at once.
const STEP: u64 = 16;

/// How much text a window holds, in bytes.
const WEIGHT: usize = 256 * 1024;

/// How much one text counts: the rest is cut.
const LONGEST: usize = 10_000;

/// How many messages are passed over in search of those that are wanted.
const PATIENCE: u64 = 4096;

/// Letters of a landmark.
const BEGINNING: usize = 90;

/// Letters around an occurrence.
const AROUND: usize = 60;

/// Which part of a session is shown. Messages are counted from one.
#[derive(Clone, Debug)]
pub struct Window {
    /// The first message.
    pub from: u64,
    /// The message before which it ends, whatever it weighs.
    pub until: Option<u64>,
    /// How many messages at most.
    pub count: u64,
    /// Which messages.
    pub keep: Keep,
    /// Messages on branches that were left.
    pub left: HashSet<u64>,
    /// The address before a picture's hash.
    pub pictures: String,
    /// What stands before every id, so that those of a sub-agent are its own.
    pub prefix: String,
}

/// A part of a session as markup.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The markup.
    pub html: String,
    /// Its first message.
    pub from: u64,
    /// The message after its last; none at the end.
    pub next: Option<u64>,
}

/// What leads through a session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contents {
    /// The prompts.
    pub prompts: Vec<Landmark>,
    /// Messages with something that failed.
    pub errors: Vec<u64>,
    /// Messages on branches that were left.
    #[serde(skip)]
    pub left: HashSet<u64>,
}

/// A prompt, and what followed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Landmark {
    /// Its message.
    pub index: u64,
    /// Its beginning.
    pub text: String,
    /// When it was given.
    pub at: Option<Timestamp>,
    /// Calls of tools that followed.
    pub tools: u64,
    /// Of those, how many failed.
    pub errors: u64,
}

/// A place where a text stands.
#[derive(Clone, Debug, Serialize)]
pub struct Occurrence {
    /// The message.
    pub index: u64,
    /// The text around it.
    pub snippet: Snippet,
}

/// As much of a message as a landmark needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sign {
    origin: Origin,
    at: Option<Timestamp>,
    sidechain: bool,
    failed: bool,
    #[serde(deserialize_with = "first_blocks")]
    blocks: Vec<SignBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SignBlock {
    Text(String),
    ToolCall {
        id: String,
    },
    ToolResult {
        call_id: String,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(untagged)]
    Else(serde::de::IgnoredAny),
}

impl Journal {
    /// Lists a window of the sessions that are chosen, in any order.
    pub fn browse(&self, browse: &Browse) -> Result<Listing> {
        let nothing = || Listing { entries: Vec::new(), total: 0, facets: <_>::default() };
        let Some(store) = &self.store else { return Ok(nothing()) };
        let browse =
            &Browse { filter: self.resolved(&browse.filter)?.into_owned(), ..browse.clone() };
        if browse.order != Order::Cost {
            let mut listing = store.browse(browse, self.now)?;
            self.redact_for_view(&mut listing.entries)?;
            return Ok(listing);
        }
        // Prices are no business of the store.
        let prices = Prices::new(&self.config.prices);
        let keys = store.browsed_keys(browse, self.now)?;
        let costs = costs_with_subagents(store, &keys, &prices)?;
        let costs = costs.into_iter().map(|cost| Reverse(cost.micros()));
        let mut costs: Vec<_> = costs.zip(keys).collect();
        costs.sort_unstable();
        let window = costs.into_iter().skip(browse.offset).take(browse.limit);
        let keys: Vec<u64> = window.map(|(_, key)| key).collect();
        let mut listing = store.browse_keys(browse, &keys, self.now)?;
        self.redact_for_view(&mut listing.entries)?;
        Ok(listing)
    }

    /// Shows a part of a session.
    pub fn window(&self, entry: &Entry, window: &Window) -> Result<Shown> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let from = aligned(store, entry, window.from.saturating_sub(1))?;
        let (messages, next) = gather(store, entry, (from, window))?;
        let mut shaper = Shaper::new(&entry.agent, None);
        let mut grouper = Grouper::default();
        let mut ready = Vec::new();
        let mut answers = HashMap::new();
        let mut redactor = self.view_redactor();
        for (position, mut message) in messages {
            if let Some(redactor) = &mut redactor {
                redactor.recorded(&mut message);
            }
            if let Some(call) = answered(&message) {
                answers.entry(call).or_insert(position + 1);
            }
            ready.extend(grouper.add(shaper.message(position, message)));
        }
        ready.extend(grouper.finish());
        let fragment = Fragment {
            agent: look(&entry.agent).name,
            pictures: window.pictures.clone(),
            left: window.left.clone(),
            prefix: window.prefix.clone(),
            answers,
            keep: window.keep,
            alone: window.until == Some(window.from + 1),
        };
        let html = fragment.write(ready).map_err(|source| Error::Export { source })?;
        Ok(Shown { html, from: from + 1, next: next.map(|position| position + 1) })
    }

    /// The size of a session's messages in bytes.
    pub fn weight(&self, entry: &Entry) -> Result<u64> {
        self.store.as_ref().map_or(Ok(0), |store| store.weight(entry.telling))
    }

    /// Files that a session's tools changed, with the number of calls.
    pub fn changed_files(&self, entry: &Entry) -> Result<Vec<(String, u64)>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut files = store.files(entry.telling)?;
        self.redact_paths(files.iter_mut().map(|(path, _)| path));
        Ok(files)
    }

    /// Returns the files that a session touched, and how.
    pub fn touched_files(&self, entry: &Entry) -> Result<Vec<(String, Touches)>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut files = store.touched_files(entry.key)?;
        self.redact_paths(files.iter_mut().map(|(path, _)| path));
        Ok(files)
    }

    /// Reads a picture by its hash.
    pub fn picture(&self, hash: &str) -> Result<Option<Vec<u8>>> {
        self.store.as_ref().map_or(Ok(None), |store| store.picture(hash))
    }

    /// Reads all of a session for what leads through it.
    pub fn contents(&self, entry: &Entry) -> Result<Contents> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut contents = Contents::default();
        let mut calls = HashMap::new();
        let mut redactor = self.view_redactor();
        store.each_message(entry.telling, |position, sign: Sign| {
            contents.add(position + 1, sign, &mut calls, redactor.as_mut());
            Ok(())
        })?;
        contents.errors.sort_unstable();
        contents.errors.dedup();
        let mut outline = Outline::default();
        store.each_message(entry.telling, |position, sketch: Sketch| {
            outline.add(position + 1, sketch);
            Ok(())
        })?;
        for summary in self.account(entry)?.unwrap_or_default().summaries {
            outline.end_at(&summary.leaf);
        }
        contents.left = outline.left();
        Ok(contents)
    }

    /// Finds a text in a session, whatever its case, at most once a message.
    pub fn occurrences(&self, entry: &Entry, text: &str, limit: usize) -> Result<Vec<Occurrence>> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut pattern = RegexBuilder::new(&regex::escape(text));
        let pattern = pattern.case_insensitive(true).unicode(false).build();
        let pattern = pattern.map_err(|error| Error::Query { message: error.to_string() })?;
        let mut found = Vec::new();
        let mut redactor = self.view_redactor();
        store.each_message(entry.telling, |position, mut message: Message| {
            if let Some(redactor) = &mut redactor {
                redactor.recorded(&mut message);
            }
            let place = (found.len() < limit).then(|| occurrence(&message, &pattern)).flatten();
            found.extend(place.map(|snippet| Occurrence { index: position + 1, snippet }));
            Ok(())
        })?;
        Ok(found)
    }
}

impl Contents {
    fn add(
        &mut self,
        index: u64,
        sign: Sign,
        calls: &mut HashMap<String, u64>,
        redactor: Option<&mut Redactor>,
    ) {
        let is_prompt =
            (sign.origin.is_prompt() || sign.origin == Origin::Command) && !sign.sidechain;
        if is_prompt {
            let text = sign.blocks.iter().find_map(|block| match block {
                SignBlock::Text(text) => Some(text.as_str()),
                _ => None,
            });
            // Secrets are taken out before the text is cut.
            let text = text.unwrap_or_default();
            let text = redactor.map_or(text.into(), |redactor| redactor.text(text));
            let text = beginning(&text);
            self.prompts.push(Landmark { index, text, at: sign.at, ..Landmark::default() });
        }
        if sign.failed {
            self.errors.push(index);
        }
        for block in sign.blocks {
            match block {
                SignBlock::ToolCall { id } => {
                    calls.insert(id, index);
                    if let Some(prompt) = self.prompts.last_mut() {
                        prompt.tools += 1;
                    }
                }
                SignBlock::ToolResult { call_id, is_error } => {
                    let call = calls.remove(&call_id).unwrap_or(index);
                    if is_error == Some(true) {
                        self.errors.push(call);
                        if let Some(prompt) = self.prompts.last_mut() {
                            prompt.errors += 1;
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// Messages with their positions.
type Run = Vec<(u64, Message)>;

/// Steps back to where a window may begin: results of tools stand with their calls.
fn aligned(store: &Store, entry: &Entry, from: u64) -> Result<u64> {
    let start = from.saturating_sub(STEP);
    let before = store.messages(entry.telling, start..from + 1)?;
    let begins = before.iter().rev().find(|(_, message)| !is_result(message));
    Ok(begins.map_or(from, |(position, _)| *position))
}

/// Reads the messages of a window, and tells where the next begins.
fn gather(
    store: &Store,
    entry: &Entry,
    (from, window): (u64, &Window),
) -> Result<(Run, Option<u64>)> {
    let mut taken = Vec::new();
    let (mut weight, mut count) = (0, 0);
    let end = window.until.map_or(u64::MAX, |until| until.saturating_sub(1));
    for start in (from..entry.transcript_length()).step_by(STEP as usize) {
        for (position, message) in store.messages(entry.telling, start..start + STEP)? {
            let is_full = match window.until {
                Some(_) => position >= end,
                None => count >= window.count || weight > WEIGHT || position - from > PATIENCE,
            };
            if is_full && !is_result(&message) {
                return Ok((taken, Some(position)));
            }
            if wanted(&message, window.keep) {
                weight += weigh(&message);
                count += 1;
            }
            taken.push((position, message));
        }
    }
    Ok((taken, None))
}

/// Whether a message may be shown, as far as can be told without its results.
fn wanted(message: &Message, keep: Keep) -> bool {
    match keep {
        Keep::All | Keep::Talk => true,
        Keep::Prompts => message.origin.is_prompt(),
        Keep::Answers => message.origin == Origin::Assistant,
        Keep::Tools => message.blocks.iter().any(is_call),
        Keep::Errors => message.failed || message.blocks.iter().any(is_failure),
    }
}

fn is_call(block: &Block) -> bool {
    matches!(block, Block::ToolCall { .. })
}

fn is_failure(block: &Block) -> bool {
    matches!(block, Block::ToolResult { is_error: Some(true), .. })
}

fn is_result(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult { .. });
    !message.blocks.is_empty() && message.blocks.iter().all(is_result)
}

/// The first call that a message answers which does nothing else.
fn answered(message: &Message) -> Option<String> {
    match message.blocks.first()? {
        Block::ToolResult { call_id, .. } if is_result(message) => Some(call_id.clone()),
        _ => None,
    }
}

fn weigh(message: &Message) -> usize {
    let weigh = |block: &Block| match block {
        Block::Text(text) | Block::Thinking(text) => text.len(),
        Block::ToolCall { input, .. } => input.as_str().len(),
        Block::ToolResult { output, .. } => output.len(),
        Block::Other(raw) => raw.as_str().len(),
        _ => 0,
    };
    message.blocks.iter().map(|block| weigh(block).min(LONGEST) + 200).sum()
}

fn beginning(text: &str) -> String {
    let line: String = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
    let line = visible(&line);
    match line.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// Finds a pattern in what a message says or did.
fn occurrence(message: &Message, pattern: &regex::Regex) -> Option<Snippet> {
    message.blocks.iter().find_map(|block| {
        let text = match block {
            Block::Text(text) | Block::Thinking(text) => text,
            Block::ToolCall { input, .. } => input.as_str(),
            Block::ToolResult { output, .. } => output,
            _ => return None,
        };
        let place = pattern.find(text)?;
        Some(around(text, place.range()))
    })
}

fn around(text: &str, place: Range<usize>) -> Snippet {
    let start = text.floor_char_boundary(place.start.saturating_sub(AROUND));
    let end = text.ceil_char_boundary((place.end + AROUND).min(text.len()));
    let clean = |part: &str| part.replace(['\n', '\t', '\r'], " ");
    let mut piece = clean(&text[start..place.start]);
    let from = piece.len();
    piece.push_str(&clean(&text[place.clone()]));
    let found = from..piece.len();
    piece.push_str(&clean(&text[place.end..end]));
    Snippet { text: piece, highlights: vec![found] }
}
