//! The evaluated systems: the journal in its search modes, plain BM25, and a plain text search.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use agent_journal::connectors::Machine;
use agent_journal::search::{Mode, Query, SearchOptions, Tier};
use agent_journal::{Config, Journal, SyncOptions};
use anyhow::Result;

use super::bm25::PlainBm25;
use super::history::{By, Session, session_id, uuid};
use super::measure::{DEPTH, Reply, Shown};
use super::queries::{content, words};

/// The current time for age-dependent ranking, later than all recorded sessions.
const NOW: &str = "2026-12-01T12:00:00+00:00[UTC]";

/// A search system to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct System {
    pub(super) name: String,
    method: SearchMethod,
    meaning_weight: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchMethod {
    /// The latest files with all words.
    Ripgrep,
    /// BM25 over messages.
    PlainBm25,
    /// The journal.
    Journal(Mode),
}

impl System {
    pub(super) fn ripgrep() -> Self {
        Self::new("ripgrep by recency", SearchMethod::Ripgrep)
    }

    pub(super) fn plain_bm25() -> Self {
        Self::new("plain BM25", SearchMethod::PlainBm25)
    }

    pub(super) fn lexical() -> Self {
        Self::new("by words", SearchMethod::Journal(Mode::Lexical))
    }

    pub(super) fn semantic() -> Self {
        Self::new("by meaning", SearchMethod::Journal(Mode::Semantic))
    }

    /// Returns hybrid search with the default weight of the meaning.
    pub(super) fn hybrid() -> Self {
        Self::new("hybrid", SearchMethod::Journal(Mode::Hybrid))
    }

    /// Returns hybrid search with a weight of the meaning against the words.
    pub(super) fn weighted(meaning_weight: f32) -> Self {
        let name = format!("hybrid {meaning_weight:.1}");
        Self { meaning_weight, ..Self::new(&name, SearchMethod::Journal(Mode::Hybrid)) }
    }

    /// Returns whether this is one of the tried weights.
    pub(super) fn is_tried_weight(&self) -> bool {
        self.name.starts_with("hybrid ")
    }

    fn new(name: &str, method: SearchMethod) -> Self {
        let meaning_weight = SearchOptions::default().meaning_weight;
        Self { name: name.to_owned(), method, meaning_weight }
    }
}

/// The journal of one haystack, and what the other systems search.
pub(super) struct Place<'s> {
    sessions: &'s [Session],
    journal: Journal,
    plain: PlainBm25,
    by_uuid: HashMap<String, (usize, usize)>,
    by_id: HashMap<String, usize>,
    /// The text of each session in lower case, without masked messages.
    texts: Vec<String>,
}

impl<'s> Place<'s> {
    /// Creates the journal of a home that was written from these sessions.
    pub(super) fn new(
        sessions: &'s [Session],
        masked: &HashSet<(usize, usize)>,
        place: &Path,
    ) -> Result<Self> {
        let (mut by_uuid, mut by_id, mut texts) = (HashMap::new(), HashMap::new(), Vec::new());
        for (number, session) in sessions.iter().enumerate() {
            by_id.insert(session_id(number), number);
            let mut text = String::new();
            for (at, said) in session.messages.iter().enumerate() {
                by_uuid.insert(uuid(number, at), (number, at));
                if !masked.contains(&(number, at)) {
                    text.push_str(&said.text.to_lowercase());
                }
            }
            texts.push(text);
        }
        let machine = Machine { home: place.join("home"), ..Machine::default() };
        let mut journal = Journal::open(Config::new(place.join("journal")), machine)?;
        journal.sync(SyncOptions::default(), &mut |_| {})?;
        let plain = PlainBm25::new(sessions, masked);
        Ok(Self { sessions, journal, plain, by_uuid, by_id, texts })
    }

    /// Returns the number of texts that can be found by meaning.
    pub(super) fn vectors(&self) -> Result<u64> {
        Ok(self.journal.semantic_coverage()?.vectors)
    }

    pub(super) fn ask(&self, system: &System, text: &str) -> Result<Reply> {
        match system.method {
            SearchMethod::Ripgrep => Ok(self.look_through(text)),
            SearchMethod::PlainBm25 => Ok(self.ask_plain(text)),
            SearchMethod::Journal(mode) => self.ask_journal(mode, system.meaning_weight, text),
        }
    }

    fn ask_journal(&self, mode: Mode, meaning_weight: f32, text: &str) -> Result<Reply> {
        let started = Instant::now();
        let Ok(query) = Query::parse(text, &NOW.parse()?) else {
            return Ok(Reply { is_refused: true, ..Reply::default() });
        };
        let options =
            SearchOptions { limit: DEPTH, mode, meaning_weight, ..SearchOptions::default() };
        let answer = self.journal.search(&query, &options)?;
        let took = started.elapsed();
        let is_weak = answer.tier > Tier::AllWords;
        let shown = answer.sessions.iter().filter_map(|found| {
            let session = *self.by_id.get(&found.entry.native_id)?;
            let places = found.hits.iter().map(|hit| match &hit.message {
                Some(message) => {
                    let uuid = message.uuid.as_ref()?;
                    self.by_uuid.get(uuid).map(|(_, at)| *at)
                }
                None => self.first_prompt(session),
            });
            Some(Shown { session, messages: places.flatten().collect() })
        });
        Ok(Reply { shown: shown.collect(), is_weak, took, is_refused: false })
    }

    fn ask_plain(&self, text: &str) -> Reply {
        let started = Instant::now();
        let found = self.plain.search(text, DEPTH).into_iter();
        let shown = found.map(|(session, at)| Shown { session, messages: vec![at] }).collect();
        Reply { shown, took: started.elapsed(), ..Reply::default() }
    }

    fn first_prompt(&self, session: usize) -> Option<usize> {
        self.sessions[session].messages.iter().position(|said| said.by == By::Person)
    }

    /// Simulates a search with grep: the latest files that contain all words, otherwise those with
    /// the longest word. Every message of a file counts as shown, and the whole file must be read.
    fn look_through(&self, text: &str) -> Reply {
        let started = Instant::now();
        let all = words(text);
        let lower = |word: &str| word.to_lowercase();
        let needles: Vec<String> = if text.starts_with('"') {
            vec![lower(text.trim_matches('"'))]
        } else {
            content(&all).map(lower).collect()
        };
        let with = |needles: &[String]| -> Vec<usize> {
            let fits = |at: &usize| needles.iter().all(|one| self.texts[*at].contains(one));
            (0..self.texts.len()).rev().filter(fits).take(DEPTH).collect()
        };
        let mut found = if needles.is_empty() { Vec::new() } else { with(&needles) };
        let is_weak = found.is_empty();
        if is_weak && let Some(longest) = needles.iter().max_by_key(|one| one.len()) {
            found = with(std::slice::from_ref(longest));
        }
        let shown = found.into_iter().map(|session| Shown {
            session,
            messages: (0..self.sessions[session].messages.len()).collect(),
        });
        Reply { shown: shown.collect(), is_weak, took: started.elapsed(), is_refused: false }
    }
}
