//! Transcripts for pages: windows of a session as markup, its table of contents, and search in it.
//! The cost of a window does not depend on the length of the session.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

use crate::analyze::{Prices, costs_with_subagents};
use crate::error::{Error, Result};
use crate::export::{Fragment, Grouper, Keep, Outline, Redactor, Shaper, Sketch, make_visible};
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Timestamp, first_blocks};
use crate::search::Snippet;
use crate::session_export::agent_look;
use crate::store::{Browse, Entry, Listing, Order, Store, Touches};

/// The number of messages read at a time.
const STEP: u64 = 16;

/// The size of the text in a window, in bytes.
const WEIGHT: usize = 256 * 1024;

/// The part of one text that counts, in bytes. The rest is not shown.
const LONGEST: usize = 10_000;

/// The maximum number of messages read in search of those that are selected.
const PATIENCE: u64 = 4096;

/// The length of a landmark, in characters.
const BEGINNING: usize = 90;

/// The length of the text on either side of an occurrence, in bytes.
const AROUND: usize = 60;

/// The part of a session to render. Messages are numbered from 1.
#[derive(Clone, Debug)]
pub struct TranscriptWindow {
    /// The first message.
    pub from: u64,
    /// The message before which the window ends, independent of its size.
    pub until: Option<u64>,
    /// The maximum number of messages.
    pub count: u64,
    /// The kinds of messages that are shown.
    pub keep: Keep,
    /// The numbers of the messages on abandoned branches.
    pub left: HashSet<u64>,
    /// The address before the hash of a picture.
    pub pictures: String,
    /// The prefix of every id, which keeps those of sub-agents distinct.
    pub prefix: String,
}

/// A part of a session as markup.
#[derive(Clone, Debug)]
pub struct RenderedWindow {
    /// The markup.
    pub html: String,
    /// The first message of the window.
    pub from: u64,
    /// The message after the last one of the window; `None` at the end of the session.
    pub next: Option<u64>,
}

/// The table of contents of a session.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Contents {
    /// The prompts of the session.
    pub prompts: Vec<PromptLandmark>,
    /// The numbers of the messages with a failure.
    pub errors: Vec<u64>,
    /// The numbers of the messages on abandoned branches.
    #[serde(skip)]
    pub left: HashSet<u64>,
}

/// A prompt, with the figures of the turn it began.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct PromptLandmark {
    /// The number of the message.
    pub index: u64,
    /// The beginning of the prompt.
    pub text: String,
    /// The time of the prompt.
    pub at: Option<Timestamp>,
    /// The number of tool calls in the turn.
    pub tools: u64,
    /// The number of failed tool calls in the turn.
    pub errors: u64,
}

/// An occurrence of a text in a session.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Occurrence {
    /// The number of the message.
    pub index: u64,
    /// The text around the occurrence.
    pub snippet: Snippet,
}

/// The fields of a message that the table of contents needs.
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
    /// Lists a window of the sessions that match a filter, in any order.
    pub fn browse_sessions(&self, browse: &Browse) -> Result<Listing> {
        let nothing = || Listing { entries: Vec::new(), total: 0, facets: <_>::default() };
        let Some(store) = &self.store else { return Ok(nothing()) };
        let browse = &Browse {
            filter: self.resolve_message_conditions(&browse.filter)?.into_owned(),
            ..browse.clone()
        };
        if browse.order != Order::Cost {
            let mut listing = store.browse(browse, self.now)?;
            self.redact_for_view(&mut listing.entries)?;
            return Ok(listing);
        }
        // Prices are not in the store, so this order is computed here.
        let prices = Prices::new(&self.config.prices);
        let keys = store.browsed_keys(browse, self.now)?;
        let costs = costs_with_subagents(store, &keys, &prices)?;
        let costs = costs.into_iter().map(|cost| Reverse(cost.known_micros()));
        let mut costs: Vec<_> = costs.zip(keys).collect();
        costs.sort_unstable();
        let window = costs.into_iter().skip(browse.offset).take(browse.limit);
        let keys: Vec<u64> = window.map(|(_, key)| key).collect();
        let mut listing = store.browse_keys(browse, &keys, self.now)?;
        self.redact_for_view(&mut listing.entries)?;
        Ok(listing)
    }

    /// Renders a part of a session as markup.
    pub fn render_window(
        &self,
        entry: &Entry,
        window: &TranscriptWindow,
    ) -> Result<RenderedWindow> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let from = align_window_start(store, entry, window.from.saturating_sub(1))?;
        let (messages, next) = read_window_messages(store, entry, from, window)?;
        let mut shaper = Shaper::new(&entry.agent, None);
        let mut grouper = Grouper::default();
        let mut ready = Vec::new();
        let mut answers = HashMap::new();
        let mut redactor = self.view_redactor();
        for (position, mut message) in messages {
            if let Some(redactor) = &mut redactor {
                redactor.redact_recorded_message(&mut message);
            }
            if let Some(call) = answered_call(&message) {
                answers.entry(call).or_insert(position + 1);
            }
            ready.extend(grouper.add_to_group(shaper.convert_message(position, message)));
        }
        ready.extend(grouper.take_waiting());
        let fragment = Fragment {
            agent: agent_look(&entry.agent).name,
            pictures: window.pictures.clone(),
            left: window.left.clone(),
            prefix: window.prefix.clone(),
            answers,
            keep: window.keep,
            alone: window.until == Some(window.from + 1),
        };
        let html = fragment.render_messages(ready).map_err(|source| Error::Export { source })?;
        Ok(RenderedWindow { html, from: from + 1, next: next.map(|position| position + 1) })
    }

    /// Returns the size of a session's messages in bytes.
    pub fn stored_size(&self, entry: &Entry) -> Result<u64> {
        self.store.as_ref().map_or(Ok(0), |store| store.weight(entry.recording))
    }

    /// Returns the files that a session's tools changed, with the number of calls.
    pub fn changed_files_of(&self, entry: &Entry) -> Result<Vec<(String, u64)>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut files = store.files(entry.recording)?;
        self.redact_paths(files.iter_mut().map(|(path, _)| path));
        Ok(files)
    }

    /// Returns the files that a session touched, with the number of calls by kind.
    pub fn touched_files_of(&self, entry: &Entry) -> Result<Vec<(String, Touches)>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut files = store.touched_files(entry.key)?;
        self.redact_paths(files.iter_mut().map(|(path, _)| path));
        Ok(files)
    }

    /// Reads a picture by its hash.
    pub fn read_picture(&self, hash: &str) -> Result<Option<Vec<u8>>> {
        self.store.as_ref().map_or(Ok(None), |store| store.picture(hash))
    }

    /// Builds the table of contents of a session. It reads the complete session.
    pub fn table_of_contents(&self, entry: &Entry) -> Result<Contents> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut contents = Contents::default();
        let mut calls = HashMap::new();
        let mut redactor = self.view_redactor();
        store.each_message(entry.recording, |position, sign: Sign| {
            contents.add_message_sign(position + 1, sign, &mut calls, redactor.as_mut());
            Ok(())
        })?;
        contents.errors.sort_unstable();
        contents.errors.dedup();
        let mut outline = Outline::default();
        store.each_message(entry.recording, |position, sketch: Sketch| {
            outline.add_sketch(position + 1, sketch);
            Ok(())
        })?;
        for summary in self.session_metadata(entry)?.unwrap_or_default().summaries {
            outline.end_at(&summary.leaf);
        }
        contents.left = outline.abandoned_messages();
        Ok(contents)
    }

    /// Finds a text in a session, ignoring case, at most once per message.
    pub fn find_occurrences(
        &self,
        entry: &Entry,
        text: &str,
        limit: usize,
    ) -> Result<Vec<Occurrence>> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut pattern = RegexBuilder::new(&regex::escape(text));
        let pattern = pattern.case_insensitive(true).unicode(false).build();
        let pattern = pattern.map_err(|error| Error::Query { message: error.to_string() })?;
        let mut found = Vec::new();
        let mut redactor = self.view_redactor();
        store.each_message(entry.recording, |position, mut message: Message| {
            if let Some(redactor) = &mut redactor {
                redactor.redact_recorded_message(&mut message);
            }
            let place =
                (found.len() < limit).then(|| find_in_message(&message, &pattern)).flatten();
            found.extend(place.map(|snippet| Occurrence { index: position + 1, snippet }));
            Ok(())
        })?;
        Ok(found)
    }
}

impl Contents {
    fn add_message_sign(
        &mut self,
        index: u64,
        sign: Sign,
        calls: &mut HashMap<String, u64>,
        redactor: Option<&mut Redactor>,
    ) {
        let is_prompt =
            (sign.origin.is_human_prompt() || sign.origin == Origin::Command) && !sign.sidechain;
        if is_prompt {
            let text = sign.blocks.iter().find_map(|block| match block {
                SignBlock::Text(text) => Some(text.as_str()),
                _ => None,
            });
            // Redacted before it is cut, because a part of a secret is not recognized.
            let text = text.unwrap_or_default();
            let text = redactor.map_or(text.into(), |redactor| redactor.redact_text(text));
            let text = beginning_of_message(&text);
            self.prompts.push(PromptLandmark {
                index,
                text,
                at: sign.at,
                ..PromptLandmark::default()
            });
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
type MessageRun = Vec<(u64, Message)>;

/// Moves the start of a window back to the call, if it is at the result of a tool.
fn align_window_start(store: &Store, entry: &Entry, from: u64) -> Result<u64> {
    let start = from.saturating_sub(STEP);
    let before = store.messages(entry.recording, start..from + 1)?;
    let begins = before.iter().rev().find(|(_, message)| !is_result(message));
    Ok(begins.map_or(from, |(position, _)| *position))
}

/// Reads the messages of a window. Returns them and the position of the next window.
fn read_window_messages(
    store: &Store,
    entry: &Entry,
    from: u64,
    window: &TranscriptWindow,
) -> Result<(MessageRun, Option<u64>)> {
    let mut taken = Vec::new();
    let (mut weight, mut count) = (0, 0);
    let end = window.until.map_or(u64::MAX, |until| until.saturating_sub(1));
    for start in (from..entry.transcript_length()).step_by(STEP as usize) {
        for (position, message) in store.messages(entry.recording, start..start + STEP)? {
            let is_full = match window.until {
                Some(_) => position >= end,
                None => count >= window.count || weight > WEIGHT || position - from > PATIENCE,
            };
            if is_full && !is_result(&message) {
                return Ok((taken, Some(position)));
            }
            if may_be_shown(&message, window.keep) {
                weight += message_weight(&message);
                count += 1;
            }
            taken.push((position, message));
        }
    }
    Ok((taken, None))
}

/// Returns whether a message may be shown, judged without the results of its calls.
fn may_be_shown(message: &Message, keep: Keep) -> bool {
    match keep {
        Keep::All | Keep::Talk => true,
        Keep::Prompts => message.origin.is_human_prompt(),
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

/// Returns the id of the first call that a message answers, if the message only contains tool
/// results.
fn answered_call(message: &Message) -> Option<String> {
    match message.blocks.first()? {
        Block::ToolResult { call_id, .. } if is_result(message) => Some(call_id.clone()),
        _ => None,
    }
}

fn message_weight(message: &Message) -> usize {
    let weigh = |block: &Block| match block {
        Block::Text(text) | Block::Thinking(text) => text.len(),
        Block::ToolCall { input, .. } => input.as_json_str().len(),
        Block::ToolResult { output, .. } => output.len(),
        Block::Other(raw) => raw.as_json_str().len(),
        Block::Image(_) => 0,
    };
    message.blocks.iter().map(|block| weigh(block).min(LONGEST) + 200).sum()
}

fn beginning_of_message(text: &str) -> String {
    let line: String = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
    let line = make_visible(&line);
    match line.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// Finds a pattern in the texts, tool inputs and tool outputs of a message.
fn find_in_message(message: &Message, pattern: &regex::Regex) -> Option<Snippet> {
    message.blocks.iter().find_map(|block| {
        let text = match block {
            Block::Text(text) | Block::Thinking(text) => text,
            Block::ToolCall { input, .. } => input.as_json_str(),
            Block::ToolResult { output, .. } => output,
            _ => return None,
        };
        let place = pattern.find(text)?;
        Some(snippet_around(text, place.range()))
    })
}

fn snippet_around(text: &str, place: Range<usize>) -> Snippet {
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
