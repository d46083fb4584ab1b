//! Loads the sessions, messages and snippets of the results to show.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use super::answer::{Answer, Found, Hit, SearchOptions, Tier};
use super::collector::MatchGroup;
use super::engine::{as_typed, deciding};
use super::places::{LocatedText, MatchPlaces};
use super::query::{Clause, Pattern};
use super::run::Search;
use super::snippet::{QueryMarks, SNIPPET, snippet};
use super::verify::{CheckedText, has_phrase};
use crate::error::Result;
use crate::filter::TextKind;
use crate::index::{text_of, window_of};
use crate::model::Message;
use crate::store::{CompressedChunk, Entry};
use crate::work_share::{Pieces, SharedJob};

/// The maximum number of hits shown per session.
const SHOWN: usize = 3;

/// The number of top sessions that show more than their best hit.
const DETAILED: usize = 5;

impl Search<'_> {
    pub(super) fn present(
        &self,
        groups: &[MatchGroup],
        places: &MatchPlaces,
        wording: QueryWording<'_>,
        options: &SearchOptions,
        answer: &mut Answer,
    ) -> Result<()> {
        // Results further down show only their best match, so that less is read.
        let shown = |place: usize, group: &MatchGroup| {
            group.best.len().min(if place < DETAILED { SHOWN } else { 1 })
        };
        let mut recordings: Vec<u64> = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            recordings.push(group.recording);
            let best = group.best[..shown(place, group)].iter();
            recordings.extend(best.map(|one| places.text(one).recording));
        }
        recordings.sort_unstable();
        recordings.dedup();
        let entries = self.store.sessions_by_recording(&recordings, self.now)?;
        let how = PresentOptions::of(wording, options);
        let read = match how.context {
            0 => {
                let best = groups.iter().enumerate();
                let best = best.flat_map(|(place, it)| &it.best[..shown(place, it)]);
                let texts = best.map(|one| places.text(one));
                self.read_all(texts.map(|text| (text.recording, text.position)))?
            }
            _ => HashMap::new(),
        };
        for (place, group) in groups.iter().enumerate() {
            // The recording of the session may have changed since the index was committed.
            let Some(entry) = entries.get(&group.recording) else { continue };
            let mut hits = Vec::new();
            for one in &group.best[..shown(place, group)] {
                let located = places.text(one);
                let recording = located.recording;
                let title = entries.get(&recording).map(|entry| entry.title.as_str());
                let place = located.position.map(|position| (recording, position));
                let message = place.and_then(|place| read.get(&place).cloned());
                let found = MatchedText { score: one.score, tier: group.tier, located, title };
                let found = self.present_hit(&found, message, &how)?;
                let Some(mut hit) = found else { continue };
                if recording != group.recording {
                    hit.within = within(&entries, recording);
                }
                hits.push(hit);
            }
            hits.sort_by_key(|hit| {
                let session = hit.within.as_ref().map(|entry| entry.started_at);
                (session, hit.position.map_or(0, |position| position + 1))
            });
            let tier = hits.iter().map(|hit| hit.tier).min().unwrap_or(group.tier);
            let (entry, score, matches) = (entry.clone(), group.score(), group.count);
            answer.sessions.push(Found { entry, tier, score, hits, matches });
        }
        answer.tier = answer.sessions.iter().map(|found| found.tier).min().unwrap_or_default();
        Ok(())
    }

    /// Reads the messages of matches, shared with a worker thread.
    fn read_all(
        &self,
        texts: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> Result<HashMap<(u64, u64), Message>> {
        let mut places: HashMap<u64, HashSet<u64>> = HashMap::new();
        for (recording, position) in texts {
            places.entry(recording).or_default().extend(position);
        }
        let mut runs = Vec::new();
        for (recording, positions) in places {
            let positions = Arc::new(positions);
            let found = self.store.chunks_at(recording, &positions)?.into_iter();
            runs.extend(found.map(|run| (recording, Arc::clone(&positions), run)));
        }
        let (pieces, read) = (Pieces::new(runs.len()), Mutex::default());
        let reading = Arc::new(MessageReading { runs, pieces, read });
        self.helper.share(&reading);
        reading.pieces.wait();
        Ok(take(&mut *reading.read.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn present_hit(
        &self,
        found: &MatchedText<'_>,
        mut message: Option<Message>,
        how: &PresentOptions<'_>,
    ) -> Result<Option<Hit>> {
        let MatchedText { score, tier, located, title } = *found;
        let LocatedText { recording, position, kind, window, .. } = located;
        let mut context = Vec::new();
        if let Some(position) = position.filter(|_| how.context > 0) {
            let range = position.saturating_sub(how.context)..position + how.context + 1;
            context = self.store.messages(recording, range)?;
            let at = context.iter().position(|(at, _)| *at == position);
            message = at.map(|at| context.remove(at).1);
        }
        let text = match (&message, position) {
            (Some(message), _) => text_of(message, kind),
            (None, Some(_)) => return Ok(None),
            (None, None) if kind == TextKind::Title => title.unwrap_or_default().to_owned(),
            (None, None) => how.document(self.whole_texts(recording, kind)?, window),
        };
        let (tier, piece) = match window {
            Some(hash) => (Tier::Meaning, window_of(&text, hash).unwrap_or(&text)),
            None => (how.tier(tier, &text), text.as_str()),
        };
        let snippet = snippet(piece, &how.marks, SNIPPET);
        Ok(Some(Hit { within: None, position, message, kind, tier, score, snippet, context }))
    }
}

/// A text that matches, with the title of its session.
struct MatchedText<'t> {
    score: f32,
    tier: Tier,
    located: LocatedText,
    title: Option<&'t str>,
}

/// Packed runs of messages to unpack: the recording, the wanted positions and the run.
struct MessageReading {
    runs: Vec<(u64, Arc<HashSet<u64>>, CompressedChunk)>,
    pieces: Pieces,
    read: Mutex<HashMap<(u64, u64), Message>>,
}

impl SharedJob for MessageReading {
    fn step(&self) -> bool {
        self.pieces.take(|at| {
            let (recording, positions, run) = &self.runs[at];
            let messages = run.messages(positions).into_iter();
            let messages = messages.map(|(position, message)| ((*recording, position), message));
            self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        })
    }

    fn is_done(&self) -> bool {
        self.pieces.are_done()
    }
}

fn within(entries: &HashMap<u64, Entry>, recording: u64) -> Option<Box<Entry>> {
    entries.get(&recording).cloned().map(Box::new)
}

/// The clauses of the query as typed, and as searched.
#[derive(Clone, Copy)]
pub(super) struct QueryWording<'q> {
    pub(super) typed: &'q [Clause],
    /// The clauses with corrected words and other word forms.
    pub(super) marked: &'q [Clause],
    /// Whether results with all words may show messages with some of them.
    pub(super) is_mixed: bool,
}

/// Builds hits from matches.
struct PresentOptions<'q> {
    clauses: &'q [Clause],
    marks: QueryMarks<'q>,
    /// The clauses without stop words.
    deciding: Vec<Clause>,
    /// The words in typed order.
    phrase: Option<Vec<String>>,
    /// Whether every clause is a phrase or an expression.
    is_exact: bool,
    is_mixed: bool,
    context: u64,
}

impl<'q> PresentOptions<'q> {
    fn of(wording: QueryWording<'q>, options: &SearchOptions) -> Self {
        let QueryWording { typed, marked, is_mixed } = wording;
        let mut wanted = typed.iter().filter(|clause| !clause.negated);
        Self {
            clauses: marked,
            marks: QueryMarks::of(marked),
            deciding: deciding(marked),
            phrase: as_typed(typed),
            is_exact: wanted
                .all(|clause| matches!(clause.pattern, Pattern::Phrase(_) | Pattern::Regex(_))),
            is_mixed,
            context: options.context,
        }
    }

    /// Returns the document that contains the near window or matches all clauses. If none does, all
    /// documents are joined.
    fn document(&self, mut documents: Vec<String>, window: Option<u64>) -> String {
        let is_found = |text: &String| match window {
            Some(hash) => window_of(text, hash).is_some(),
            None => CheckedText::new(text).fits(self.clauses),
        };
        match documents.iter().position(is_found) {
            Some(at) => documents.swap_remove(at),
            None => documents.join("\n"),
        }
    }

    /// Refines the tier of a text: all words in typed order are an exact phrase.
    fn tier(&self, tier: Tier, text: &str) -> Tier {
        let is_complete = matches!(tier, Tier::AllWords | Tier::WordForms | Tier::Typo);
        if self.is_mixed && is_complete && !CheckedText::new(text).fits(&self.deciding) {
            return Tier::SomeWords;
        }
        if tier != Tier::AllWords {
            return tier;
        }
        let stands_there = self.phrase.as_ref().is_some_and(|phrase| has_phrase(text, phrase));
        if self.is_exact || stands_there { Tier::ExactPhrase } else { tier }
    }
}
