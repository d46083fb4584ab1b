//! How much of what agents recorded can be found again: pieces of text, drawn from the sources
//! themselves and not from the journal, are searched as phrases.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::index::TextKind;
use crate::journal::Journal;
use crate::model::{Block, Kind, Message, Origin, Session};
use crate::search::{Clause, Filter, Pattern, Query, Scope, Tier};

/// Length of a piece, in characters.
const LENGTH: Range<usize> = 12..41;

/// One piece is offered for so many bytes of a text, and two of every text.
const STRIDE: usize = 1 << 10;

/// How often another place is tried when there is nothing to cut out at the first.
const TRIES: usize = 4;

/// Pieces kept of one kind of one agent at most.
const KEPT: usize = 1_000;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct ReachQuery {
    /// How many pieces to search for, over all agents and kinds.
    pub samples: usize,
    /// Where chance begins: the same number draws the same pieces.
    pub seed: u64,
}

/// How much was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reach {
    /// By agent and kind of text.
    pub rows: Vec<ReachRow>,
    /// What was not found.
    pub missed: Vec<Missed>,
}

/// The pieces of one kind of text of one agent.
#[derive(Clone, Debug, Serialize)]
pub struct ReachRow {
    /// The agent's id.
    pub agent: &'static str,
    /// The kind of text.
    pub kind: TextKind,
    /// How many were searched for.
    pub samples: u64,
    /// How many were found.
    pub found: u64,
}

/// A piece that was not found.
#[derive(Clone, Debug, Serialize)]
pub struct Missed {
    /// The agent's id.
    pub agent: &'static str,
    /// The kind of text.
    pub kind: TextKind,
    /// The session it is from.
    pub session: String,
    /// The piece.
    pub text: String,
}

impl Reach {
    /// How many pieces were searched for, and how many of them were found.
    pub fn totals(&self) -> (u64, u64) {
        self.rows
            .iter()
            .fold((0, 0), |(samples, found), row| (samples + row.samples, found + row.found))
    }
}

impl Journal {
    /// Draws pieces of text from every source and looks whether search finds them.
    pub fn reach(&self, query: ReachQuery) -> Result<Reach> {
        let mut pool = Pool { chance: Chance(query.seed), kinds: BTreeMap::new() };
        for found in self.plan(true)?.changed {
            let agent = found.connector.agent().id;
            let mut drawer = Drawer { pool: &mut pool, agent, session: None };
            // What cannot be read is told by whoever looks at the sources.
            let _ = found.connector.read(&found.source, Checkpoint::default(), &mut drawer);
        }
        self.draw_titles(&mut pool)?;
        let mut reach = Reach::default();
        for ((agent, kind), pieces) in pool.take(query.samples) {
            let mut row = ReachRow { agent, kind, samples: pieces.len() as u64, found: 0 };
            for Piece { session, text } in pieces {
                if self.finds(&text)? {
                    row.found += 1;
                } else {
                    reach.missed.push(Missed { agent, kind, session, text });
                }
            }
            reach.rows.push(row);
        }
        Ok(reach)
    }

    /// Titles are drawn as they are listed: of several on record one is the session's.
    fn draw_titles(&self, pool: &mut Pool) -> Result<()> {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        for entry in self.sessions(&all, None)? {
            if let Some(agent) = Self::agents().find(|agent| agent.id == entry.agent) {
                pool.offer(agent.id, TextKind::Title, &entry.id, &entry.title);
            }
        }
        Ok(())
    }

    fn finds(&self, text: &str) -> Result<bool> {
        let clause = Clause { pattern: Pattern::Phrase(text.to_owned()), negated: false };
        let query = Query { clauses: vec![clause], ..Query::default() };
        let answer = self.search(&query, 1, 0)?;
        Ok(answer.total > 0 && answer.tier <= Tier::AllWords)
    }
}

/// Pieces drawn so far.
struct Pool {
    chance: Chance,
    kinds: BTreeMap<(&'static str, TextKind), Drawn>,
}

/// The pieces of one kind, each of those offered with the same chance to be among them.
#[derive(Default)]
struct Drawn {
    offered: u64,
    pieces: Vec<Piece>,
}

struct Piece {
    session: String,
    text: String,
}

impl Pool {
    /// Offers pieces of a text, more of a longer one.
    fn offer(&mut self, agent: &'static str, kind: TextKind, session: &str, text: &str) {
        // No piece may begin in the middle of a colour.
        let text = crate::escape::replaced(text, " ");
        for _ in 0..2 + text.len() / STRIDE {
            let mut tries = (0..TRIES).filter_map(|_| cut(&text, &mut self.chance));
            let Some(piece) = tries.next() else { continue };
            let drawn = self.kinds.entry((agent, kind)).or_default();
            drawn.offered += 1;
            let place = if drawn.pieces.len() < KEPT {
                drawn.pieces.push(Piece { session: String::new(), text: String::new() });
                drawn.pieces.len() - 1
            } else {
                self.chance.below(drawn.offered as usize)
            };
            if let Some(kept) = drawn.pieces.get_mut(place) {
                *kept = Piece { session: session.to_owned(), text: piece.to_owned() };
            }
        }
    }

    /// Takes so many pieces in all, from every kind as evenly as they have some.
    fn take(self, samples: usize) -> Vec<((&'static str, TextKind), Vec<Piece>)> {
        let mut kinds: Vec<_> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|(_, drawn)| drawn.pieces.len());
        let (mut left, mut taken) = (samples, Vec::new());
        let count = kinds.len();
        for (at, (kind, mut drawn)) in kinds.into_iter().enumerate() {
            // What small kinds do not need, the larger ones get.
            drawn.pieces.truncate(left.div_ceil(count - at));
            left -= drawn.pieces.len();
            taken.push((kind, drawn.pieces));
        }
        taken.sort_by_key(|(kind, _)| *kind);
        taken
    }
}

/// Takes records from a connector and offers their texts.
struct Drawer<'p> {
    pool: &'p mut Pool,
    agent: &'static str,
    session: Option<String>,
}

impl Sink for Drawer<'_> {
    fn accept(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Session(session) => self.session(&session),
            Record::Message(message) => self.message(&message),
            Record::Skipped(_) => {}
        }
        Ok(())
    }
}

impl Drawer<'_> {
    fn session(&mut self, session: &Session) {
        // A working copy says nothing that is not said elsewhere.
        self.session = (session.kind != Kind::Copy).then(|| session.id.to_string());
        for (_, text) in &session.documents {
            self.offer(TextKind::Document, text);
        }
    }

    fn message(&mut self, message: &Message) {
        for block in &message.blocks {
            match block {
                Block::Text(text) => match message.origin {
                    Origin::Human | Origin::Queued => self.offer(TextKind::Prompt, text),
                    Origin::Assistant => self.offer(TextKind::Reply, text),
                    Origin::Summary => self.offer(TextKind::Document, text),
                    _ => {}
                },
                Block::ToolCall { input, .. } => {
                    let mut strings = Vec::new();
                    input.strings(&mut |text| strings.push(text.to_owned()));
                    for text in strings {
                        self.offer(TextKind::ToolInput, &text);
                    }
                }
                Block::ToolResult { output, .. } => self.offer(TextKind::ToolOutput, output),
                _ => {}
            }
        }
    }

    fn offer(&mut self, kind: TextKind, text: &str) {
        if let Some(session) = &self.session {
            self.pool.offer(self.agent, kind, session, text);
        }
    }
}

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (xxh3_64_with_seed(&self.0.to_le_bytes(), 7) % end.max(1) as u64) as usize
    }
}

/// Cuts a piece out of a text at the boundaries of words; `None` when there is nothing in it that
/// could be looked for.
fn cut<'t>(text: &'t str, chance: &mut Chance) -> Option<&'t str> {
    let wanted = LENGTH.start + chance.below(LENGTH.len());
    let last = text.len().saturating_sub(LENGTH.start);
    let from = text.floor_char_boundary(chance.below(last));
    // A boundary is never far, except in data that has none.
    let near = &text[from..text.floor_char_boundary(from + 8 * LENGTH.end)];
    let ends: Vec<usize> = boundaries(near, from == 0, from + near.len() == text.len());
    let start = *ends.first()?;
    let length = |end: &usize| near[start..*end].chars().count();
    let fits = |end: &&usize| LENGTH.contains(&length(end));
    let end = ends.iter().filter(fits).min_by_key(|end| length(end).abs_diff(wanted))?;
    let piece = near[start..*end].trim();
    let long_enough = piece.chars().count() >= LENGTH.start;
    (long_enough && piece.contains(char::is_alphanumeric)).then_some(piece)
}

/// Where words begin and end.
fn boundaries(text: &str, is_start: bool, is_end: bool) -> Vec<usize> {
    let mut all = Vec::new();
    let mut before = None;
    for (at, one) in text.char_indices() {
        let is_boundary = match before {
            None => is_start,
            Some(before) => !(is_inside(before) && is_inside(one)),
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

/// Whether a character is part of a word that must not be cut beside it.
fn is_inside(one: char) -> bool {
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
            let Some(piece) = cut(&text, &mut chance) else { continue };
            count += 1;
            assert!(LENGTH.contains(&piece.chars().count()), "{piece:?}");
            let at = text.find(piece).unwrap();
            let before = text[..at].chars().next_back();
            let after = text[at + piece.len()..].chars().next();
            let first = piece.chars().next().unwrap();
            let last = piece.chars().next_back().unwrap();
            assert!(
                !before.is_some_and(|before| is_inside(before) && is_inside(first)),
                "{piece:?}"
            );
            assert!(!after.is_some_and(|after| is_inside(last) && is_inside(after)), "{piece:?}");
        }
        assert!(count > 400, "{count}");
        assert_eq!(cut("------------------------", &mut chance), None);
        assert_eq!(cut("", &mut chance), None);
    }
}
