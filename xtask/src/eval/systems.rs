//! The evaluated systems: the journal in its search modes, and a plain text search.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use agent_journal::connectors::Machine;
use agent_journal::search::{Mode, Query, SearchOptions, Tier};
use agent_journal::{Config, Journal, Meaning, SyncOptions};
use anyhow::{Context, Result};

use super::history::{By, Session, session_id, uuid};
use super::measure::{DEPTH, Reply, Shown};
use super::queries::{content, words};

/// The current time for age-dependent ranking, later than all recorded sessions.
const NOW: &str = "2026-12-01T12:00:00+00:00[UTC]";

/// A search system to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct System {
    pub(super) name: String,
    pub(super) embedder: Embedder,
    pub(super) mode: Option<Mode>,
    meaning_weight: f32,
    min_similarity: f32,
}

/// The embedder whose vectors are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Embedder {
    Table,
    Hash,
}

impl System {
    pub(super) fn lexical() -> Self {
        Self::new("lexical", Embedder::Table, Some(Mode::Lexical))
    }

    pub(super) fn semantic(embedder: Embedder) -> Self {
        let name = match embedder {
            Embedder::Table => "semantic",
            Embedder::Hash => "semantic, hashes",
        };
        Self::new(name, embedder, Some(Mode::Semantic))
    }

    /// Returns semantic search without a minimum similarity.
    pub(super) fn far() -> Self {
        let system = Self::new("semantic, however far", Embedder::Table, Some(Mode::Semantic));
        Self { min_similarity: 0.0, ..system }
    }

    /// Returns hybrid search with a weight of the meaning against the words.
    pub(super) fn hybrid(meaning_weight: f32, embedder: Embedder) -> Self {
        let name = match embedder {
            Embedder::Table => format!("hybrid {meaning_weight:.1}"),
            Embedder::Hash => format!("hybrid {meaning_weight:.1}, hashes"),
        };
        Self { meaning_weight, ..Self::new(&name, embedder, Some(Mode::Hybrid)) }
    }

    /// Returns hybrid search with the default weight.
    pub(super) fn chosen(embedder: Embedder) -> Self {
        Self::hybrid(SearchOptions::default().meaning_weight, embedder)
    }

    pub(super) fn ripgrep() -> Self {
        Self::new("ripgrep by recency", Embedder::Table, None)
    }

    fn new(name: &str, embedder: Embedder, mode: Option<Mode>) -> Self {
        let SearchOptions { meaning_weight, min_similarity, .. } = SearchOptions::default();
        Self { name: name.to_owned(), embedder, mode, meaning_weight, min_similarity }
    }
}

/// The journals of one history, with one index per embedder.
pub(super) struct Place<'s> {
    sessions: &'s [Session],
    table: Journal,
    hash: Journal,
    by_uuid: HashMap<String, (usize, usize)>,
    by_id: HashMap<String, usize>,
    /// The text of each session in lower case, without masked messages.
    texts: Vec<String>,
}

impl<'s> Place<'s> {
    /// Creates the journals of a home that was written from these sessions.
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
        let table = open(place, "table", Meaning::default())?;
        // With an unusable model, the journal falls back to hashes.
        let broken = place.join("broken");
        std::fs::create_dir_all(&broken)?;
        for name in ["model.onnx", "tokenizer.json"] {
            std::fs::write(broken.join(name), "none")?;
        }
        let hash = open(place, "hash", Meaning { model_path: Some(broken), ..Meaning::default() })?;
        Ok(Self { sessions, table, hash, by_uuid, by_id, texts })
    }

    /// Returns the number of texts that can be found by meaning.
    pub(super) fn vectors(&self) -> Result<u64> {
        Ok(self.table.semantic_coverage()?.vectors)
    }

    pub(super) fn ask(&self, system: &System, text: &str) -> Result<Reply> {
        let Some(mode) = system.mode else { return Ok(self.look_through(text)) };
        let journal = match system.embedder {
            Embedder::Table => &self.table,
            Embedder::Hash => &self.hash,
        };
        let started = Instant::now();
        let query = Query::parse(text, &NOW.parse()?).with_context(|| format!("query {text:?}"))?;
        let options = SearchOptions {
            limit: DEPTH,
            mode,
            meaning_weight: system.meaning_weight,
            min_similarity: system.min_similarity,
            ..SearchOptions::default()
        };
        let answer = journal.search(&query, &options)?;
        let took = started.elapsed();
        let is_weak = answer.tier > Tier::AllWords;
        let score = answer.sessions.first().map_or(0.0, |first| first.score);
        let shown = answer.sessions.iter().filter_map(|found| {
            let session = *self.by_id.get(&found.entry.native_id)?;
            let places = found.hits.iter().map(|hit| match &hit.message {
                Some(message) => {
                    let uuid = message.uuid.as_ref()?;
                    self.by_uuid.get(uuid).map(|(_, at)| *at)
                }
                None => self.first_prompt(session),
            });
            let snippets = found.hits.iter().map(|hit| hit.snippet.text.len()).sum::<usize>();
            let tokens = (found.entry.title.len() + snippets) / 4;
            Some(Shown { session, messages: places.flatten().collect(), tokens })
        });
        Ok(Reply { shown: shown.collect(), is_weak, score, took })
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
            tokens: self.texts[session].len() / 4,
        });
        Reply { shown: shown.collect(), is_weak, score: 0.0, took: started.elapsed() }
    }
}

/// Opens a journal of the written home, with its own index.
fn open(place: &Path, index: &str, meaning: Meaning) -> Result<Journal> {
    let mut config = Config::new(place.join("journal"));
    config.index_dir = place.join(format!("index-{index}"));
    config.meaning = meaning;
    let machine = Machine { home: place.join("home"), ..Machine::default() };
    let mut journal = Journal::open(config, machine)?;
    journal.sync(SyncOptions::default(), &mut |_| {})?;
    Ok(journal)
}
