//! Makes what was found ready to be shown: sessions, messages, snippets.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use super::answer::{Answer, Found, Hit, Options, Tier};
use super::engine::as_typed;
use super::gather::Group;
use super::places::{Located, Places};
use super::query::{Clause, Pattern};
use super::run::Search;
use super::snippet::{Marks, SNIPPET, snippet};
use super::verify::{Text, has_phrase};
use crate::error::Result;
use crate::helper::{Joint, Pieces};
use crate::index::{TextKind, text_of, window_of};
use crate::model::Message;
use crate::store::{Entry, Run};

/// Messages shown of one session.
const SHOWN: usize = 3;

/// Sessions of which more than the best match is shown.
const DETAILED: usize = 5;

impl Search<'_> {
    pub(super) fn present(
        &self,
        (groups, places): (&[Group], &Places),
        wording: Wording<'_>,
        options: &Options,
        answer: &mut Answer,
    ) -> Result<()> {
        // The further down, the less is read: the best match says what the session is about.
        let shown = |place: usize, group: &Group| {
            group.best.len().min(if place < DETAILED { SHOWN } else { 1 })
        };
        let mut tellings: Vec<u64> = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            tellings.push(group.telling);
            let best = group.best[..shown(place, group)].iter();
            tellings.extend(best.map(|one| places.text(one).telling));
        }
        tellings.sort_unstable();
        tellings.dedup();
        let entries = self.store.sessions_by_telling(&tellings, self.now)?;
        let how = How::of(wording, options);
        let read = match how.context {
            0 => {
                let best = groups.iter().enumerate();
                let best = best.flat_map(|(place, it)| &it.best[..shown(place, it)]);
                let texts = best.map(|one| places.text(one));
                self.read_all(texts.map(|text| (text.telling, text.position)))?
            }
            _ => HashMap::new(),
        };
        for (place, group) in groups.iter().enumerate() {
            // Between the index's commit and now the session may have changed its telling.
            let Some(entry) = entries.get(&group.telling) else { continue };
            let mut hits = Vec::new();
            for one in &group.best[..shown(place, group)] {
                let located = places.text(one);
                let telling = located.telling;
                let title = entries.get(&telling).map(|entry| entry.title.as_str());
                let place = located.position.map(|position| (telling, position));
                let message = place.and_then(|place| read.get(&place).cloned());
                let about = (group.tier, title, message);
                let found = self.hit((one.score, located), about, &how)?;
                let Some(mut hit) = found else { continue };
                if telling != group.telling {
                    hit.within = within(&entries, telling);
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

    /// Reads the messages of matches, with help.
    fn read_all(
        &self,
        texts: impl Iterator<Item = (u64, Option<u64>)>,
    ) -> Result<HashMap<(u64, u64), Message>> {
        let mut places: HashMap<u64, HashSet<u64>> = HashMap::new();
        for (telling, position) in texts {
            places.entry(telling).or_default().extend(position);
        }
        let mut runs = Vec::new();
        for (telling, positions) in places {
            let positions = Arc::new(positions);
            let found = self.store.runs_at(telling, &positions)?.into_iter();
            runs.extend(found.map(|run| (telling, Arc::clone(&positions), run)));
        }
        let (pieces, read) = (Pieces::new(runs.len()), Mutex::default());
        let reading = Arc::new(Reading { runs, pieces, read });
        self.helper.share(&reading);
        reading.pieces.wait();
        Ok(take(&mut *reading.read.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn hit(
        &self,
        (score, located): (f32, Located),
        (tier, title, mut message): (Tier, Option<&str>, Option<Message>),
        how: &How<'_>,
    ) -> Result<Option<Hit>> {
        let Located { telling, position, kind, window, .. } = located;
        let mut context = Vec::new();
        if let Some(position) = position.filter(|_| how.context > 0) {
            let range = position.saturating_sub(how.context)..position + how.context + 1;
            context = self.store.messages(telling, range)?;
            let at = context.iter().position(|(at, _)| *at == position);
            message = at.map(|at| context.remove(at).1);
        }
        let text = match (&message, position) {
            (Some(message), _) => text_of(message, kind),
            (None, Some(_)) => return Ok(None),
            (None, None) if kind == TextKind::Title => title.unwrap_or_default().to_owned(),
            (None, None) => how.document(self.whole_texts(telling, kind)?, window),
        };
        let (tier, piece) = match window {
            Some(hash) => (Tier::Meaning, window_of(&text, hash).unwrap_or(&text)),
            None => (how.tier(tier, &text), text.as_str()),
        };
        let snippet = snippet(piece, &how.marks, SNIPPET);
        Ok(Some(Hit { within: None, position, message, kind, tier, score, snippet, context }))
    }
}

/// Runs of messages that are being unpacked: whose, and which messages of them are wanted.
struct Reading {
    runs: Vec<(u64, Arc<HashSet<u64>>, Run)>,
    pieces: Pieces,
    read: Mutex<HashMap<(u64, u64), Message>>,
}

impl Joint for Reading {
    fn step(&self) -> bool {
        self.pieces.take(|at| {
            let (telling, positions, run) = &self.runs[at];
            let messages = run.messages(positions).into_iter();
            let messages = messages.map(|(position, message)| ((*telling, position), message));
            self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        })
    }

    fn is_done(&self) -> bool {
        self.pieces.are_done()
    }
}

fn within(entries: &HashMap<u64, Entry>, telling: u64) -> Option<Box<Entry>> {
    entries.get(&telling).cloned().map(Box::new)
}

/// What was asked for, as it was typed and as it was looked for.
#[derive(Clone, Copy)]
pub(super) struct Wording<'q> {
    pub(super) typed: &'q [Clause],
    /// With mistyped words corrected and other forms of words.
    pub(super) marked: &'q [Clause],
}

/// How hits are made ready.
struct How<'q> {
    clauses: &'q [Clause],
    marks: Marks<'q>,
    /// The words as they were typed.
    phrase: Option<Vec<String>>,
    /// Whether everything asked for is a phrase or an expression.
    is_exact: bool,
    context: u64,
}

impl<'q> How<'q> {
    fn of(wording: Wording<'q>, options: &Options) -> Self {
        let Wording { typed, marked } = wording;
        let mut wanted = typed.iter().filter(|clause| !clause.negated);
        Self {
            clauses: marked,
            marks: Marks::of(marked),
            phrase: as_typed(typed),
            is_exact: wanted
                .all(|clause| matches!(clause.pattern, Pattern::Phrase(_) | Pattern::Regex(_))),
            context: options.context,
        }
    }

    /// The document that was found: it has the piece that is near in meaning, or what is looked
    /// for. Where none has all of it, they are one text.
    fn document(&self, mut documents: Vec<String>, window: Option<u64>) -> String {
        let is_found = |text: &String| match window {
            Some(hash) => window_of(text, hash).is_some(),
            None => Text::new(text).fits(self.clauses),
        };
        match documents.iter().position(is_found) {
            Some(at) => documents.swap_remove(at),
            None => documents.join("\n"),
        }
    }

    /// How closely a text fits that was found in some tier.
    fn tier(&self, tier: Tier, text: &str) -> Tier {
        if tier != Tier::AllWords {
            return tier;
        }
        let stands_there = self.phrase.as_ref().is_some_and(|phrase| has_phrase(text, phrase));
        if self.is_exact || stands_there { Tier::ExactPhrase } else { tier }
    }
}
