//! A recall check: samples texts from the sources themselves, not from the journal, and searches
//! for them as phrases.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::filter::TextKind;
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Session, SessionKind};
use crate::search::{Clause, Filter, Mode, Pattern, Query, Scope, SearchOptions, Tier};

/// The length of a sample, in characters.
const LENGTH: Range<usize> = 12..41;

/// The bytes of text per sample. Each text gets two samples more.
const STRIDE: usize = 1 << 10;

/// The number of positions tried in a text until a sample can be cut.
const TRIES: usize = 4;

/// The maximum number of samples kept per agent and kind of text.
const KEPT: usize = 1_000;

/// The parameters of a recall check.
#[derive(Clone, Copy, Debug)]
pub struct RecallQuery {
    /// The number of samples to search for, over all agents and kinds.
    pub samples: usize,
    /// The seed of the random numbers. The same seed draws the same samples.
    pub seed: u64,
}

/// The result of a recall check.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RecallReport {
    /// The counts by agent and kind of text.
    pub rows: Vec<RecallRow>,
    /// The samples that were not found.
    pub missed: Vec<Missed>,
}

/// The counts for one kind of text of one agent.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RecallRow {
    /// The id of the agent.
    pub agent: &'static str,
    /// The kind of text.
    pub kind: TextKind,
    /// The number of samples searched for.
    pub samples: u64,
    /// The number of samples found.
    pub found: u64,
}

/// A sample that was not found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Missed {
    /// The id of the agent.
    pub agent: &'static str,
    /// The kind of text.
    pub kind: TextKind,
    /// The session that contains the sample.
    pub session: String,
    /// The text of the sample.
    pub text: String,
}

impl RecallReport {
    /// Returns the number of samples searched for, and the number of those found.
    pub fn sample_totals(&self) -> (u64, u64) {
        self.rows
            .iter()
            .fold((0, 0), |(samples, found), row| (samples + row.samples, found + row.found))
    }
}

impl Journal {
    /// Draws samples of text from every source, and checks whether search finds them.
    pub fn check_recall(&self, query: RecallQuery) -> Result<RecallReport> {
        let mut pool = Pool { chance: Chance(query.seed), kinds: BTreeMap::new() };
        for found in self.make_plan(true)?.changed {
            let agent = found.connector.agent().id;
            let mut drawer = Drawer { pool: &mut pool, agent, session: None };
            // Read errors are reported with the sources, not here.
            let _ = found.connector.read_source(&found.source, Checkpoint::default(), &mut drawer);
        }
        self.draw_titles(&mut pool)?;
        let mut reach = RecallReport::default();
        for ((agent, kind), pieces) in pool.take_samples(query.samples) {
            let mut row = RecallRow { agent, kind, samples: pieces.len() as u64, found: 0 };
            for TextSample { session, text } in pieces {
                if self.is_found_by_search(&text)? {
                    row.found += 1;
                } else {
                    reach.missed.push(Missed { agent, kind, session, text });
                }
            }
            reach.rows.push(row);
        }
        Ok(reach)
    }

    /// Samples titles from the list of sessions: a session has one of several recorded titles.
    fn draw_titles(&self, pool: &mut Pool) -> Result<()> {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        for entry in self.list_entries(&all, None)? {
            if let Some(agent) = Self::supported_agents().find(|agent| agent.id == entry.agent) {
                pool.offer_text(agent.id, TextKind::Title, &entry.id, &entry.title);
            }
        }
        Ok(())
    }

    fn is_found_by_search(&self, text: &str) -> Result<bool> {
        let clause = Clause { pattern: Pattern::Phrase(text.to_owned()), negated: false };
        let query = Query { clauses: vec![clause], ..Query::default() };
        let mode = Mode::Lexical;
        let answer = self.search(&query, &SearchOptions { limit: 1, mode, ..<_>::default() })?;
        Ok(answer.total > 0 && answer.tier <= Tier::AllWords)
    }
}

/// The samples drawn so far.
struct Pool {
    chance: Chance,
    kinds: BTreeMap<(&'static str, TextKind), Drawn>,
}

/// The samples of one kind of text. Every sample offered has the same probability to be kept.
#[derive(Default)]
struct Drawn {
    offered: u64,
    pieces: Vec<TextSample>,
}

struct TextSample {
    session: String,
    text: String,
}

impl Pool {
    /// Draws samples from a text, more of a longer one.
    fn offer_text(&mut self, agent: &'static str, kind: TextKind, session: &str, text: &str) {
        // No sample may begin inside an escape sequence.
        let text = crate::escape::replace_escape_sequences(text, " ");
        for _ in 0..2 + text.len() / STRIDE {
            let mut tries = (0..TRIES).filter_map(|_| cut_sample(&text, &mut self.chance));
            let Some(piece) = tries.next() else { continue };
            let drawn = self.kinds.entry((agent, kind)).or_default();
            drawn.offered += 1;
            let place = if drawn.pieces.len() < KEPT {
                drawn.pieces.push(TextSample { session: String::new(), text: String::new() });
                drawn.pieces.len() - 1
            } else {
                self.chance.random_below(drawn.offered as usize)
            };
            if let Some(kept) = drawn.pieces.get_mut(place) {
                *kept = TextSample { session: session.to_owned(), text: piece.to_owned() };
            }
        }
    }

    /// Takes a number of samples in all, as evenly from every kind as possible.
    fn take_samples(self, samples: usize) -> Vec<((&'static str, TextKind), Vec<TextSample>)> {
        let mut kinds: Vec<_> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|(_, drawn)| drawn.pieces.len());
        let (mut left, mut taken) = (samples, Vec::new());
        let count = kinds.len();
        for (at, (kind, mut drawn)) in kinds.into_iter().enumerate() {
            // Larger kinds get the samples that small kinds do not have.
            drawn.pieces.truncate(left.div_ceil(count - at));
            left -= drawn.pieces.len();
            taken.push((kind, drawn.pieces));
        }
        taken.sort_by_key(|(kind, _)| *kind);
        taken
    }
}

/// Receives records from a connector, and samples their texts.
struct Drawer<'p> {
    pool: &'p mut Pool,
    agent: &'static str,
    session: Option<String>,
}

impl Sink for Drawer<'_> {
    fn accept_record(&mut self, record: Record) -> agent_sessions::Result<()> {
        match record {
            Record::Session(session) => self.draw_from_session(&session),
            Record::Message(message) => self.draw_from_message(&message),
            Record::Skipped(_) => {}
        }
        Ok(())
    }
}

impl Drawer<'_> {
    fn draw_from_session(&mut self, session: &Session) {
        // A working copy has no text that is not recorded elsewhere.
        self.session = (session.kind != SessionKind::Copy).then(|| session.id.to_string());
        for (_, text) in &session.documents {
            self.offer_kind(TextKind::Document, text);
        }
    }

    fn draw_from_message(&mut self, message: &Message) {
        for block in &message.blocks {
            match block {
                Block::Text(text) => match message.origin {
                    Origin::Human | Origin::Queued => self.offer_kind(TextKind::Prompt, text),
                    Origin::Assistant => self.offer_kind(TextKind::Reply, text),
                    Origin::Summary => self.offer_kind(TextKind::Document, text),
                    _ => {}
                },
                Block::ToolCall { input, .. } => {
                    let mut strings = Vec::new();
                    input.visit_strings(&mut |text| strings.push(text.to_owned()));
                    for text in strings {
                        self.offer_kind(TextKind::ToolInput, &text);
                    }
                }
                Block::ToolResult { output, .. } => self.offer_kind(TextKind::ToolOutput, output),
                _ => {}
            }
        }
    }

    fn offer_kind(&mut self, kind: TextKind, text: &str) {
        if let Some(session) = &self.session {
            self.pool.offer_text(self.agent, kind, session, text);
        }
    }
}

/// Pseudo-random numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn random_below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (xxh3_64_with_seed(&self.0.to_le_bytes(), 7) % end.max(1) as u64) as usize
    }
}

/// Cuts a sample out of a text at word boundaries. Returns `None` if there is nothing to search for
/// at the chosen position.
fn cut_sample<'t>(text: &'t str, chance: &mut Chance) -> Option<&'t str> {
    let wanted = LENGTH.start + chance.random_below(LENGTH.len());
    let last = text.len().saturating_sub(LENGTH.start);
    let from = text.floor_char_boundary(chance.random_below(last));
    // A boundary is always near, except in data without words.
    let near = &text[from..text.floor_char_boundary(from + 8 * LENGTH.end)];
    let ends: Vec<usize> = word_boundaries(near, from == 0, from + near.len() == text.len());
    let start = *ends.first()?;
    let length = |end: &usize| near[start..*end].chars().count();
    let fits = |end: &&usize| LENGTH.contains(&length(end));
    let end = ends.iter().filter(fits).min_by_key(|end| length(end).abs_diff(wanted))?;
    let piece = near[start..*end].trim();
    let long_enough = piece.chars().count() >= LENGTH.start;
    (long_enough && piece.contains(char::is_alphanumeric)).then_some(piece)
}

/// Returns the positions at which words begin and end.
fn word_boundaries(text: &str, is_start: bool, is_end: bool) -> Vec<usize> {
    let mut all = Vec::new();
    let mut before = None;
    for (at, one) in text.char_indices() {
        let is_boundary = match before {
            None => is_start,
            Some(before) => !(is_word_character(before) && is_word_character(one)),
        };
        if is_boundary {
            all.push(at);
        }
        before = Some(one);
    }
    if is_end {
        all.push(text.len());
    }
    all
}

/// Returns whether a character is part of a word, so that a cut next to it would split the word.
fn is_word_character(one: char) -> bool {
    one == '_' || one.is_alphanumeric() || unicode_normalization::char::is_combining_mark(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_their_length_and_end_where_words_end() {
        let text =
            "The index is rebuilt_in_full when `store.rs` changes: 42 sessions, äöü. ".repeat(9);
        let mut chance = Chance(1);
        let mut count = 0;
        for _ in 0..500 {
            let Some(piece) = cut_sample(&text, &mut chance) else { continue };
            count += 1;
            assert!(LENGTH.contains(&piece.chars().count()), "{piece:?}");
            let at = text.find(piece).unwrap();
            let before = text[..at].chars().next_back();
            let after = text[at + piece.len()..].chars().next();
            let first = piece.chars().next().unwrap();
            let last = piece.chars().next_back().unwrap();
            assert!(
                !before.is_some_and(|before| is_word_character(before) && is_word_character(first)),
                "{piece:?}"
            );
            assert!(
                !after.is_some_and(|after| is_word_character(last) && is_word_character(after)),
                "{piece:?}"
            );
        }
        assert!(count > 400, "{count}");
        assert_eq!(cut_sample("------------------------", &mut chance), None);
        assert_eq!(cut_sample("", &mut chance), None);
    }
}
