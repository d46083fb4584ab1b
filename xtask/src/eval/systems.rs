//! Who answers: the journal in its modes, and a look through the files.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use agent_journal::connectors::Machine;
use agent_journal::search::{Blend, Fusion, Mode, Options, Query, Tier};
use agent_journal::{Config, Journal, Meaning, SyncOptions};
use anyhow::{Context, Result};

use super::history::{By, Session, session_id, uuid};
use super::measure::{DEPTH, Reply, Shown};
use super::queries::{content, words};

/// The present, for ages: after everything that was recorded.
const NOW: &str = "2026-12-01T12:00:00+00:00[UTC]";

/// A way to answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct System {
    pub(super) name: String,
    pub(super) embedder: Embedder,
    pub(super) mode: Option<Mode>,
    pub(super) blend: Blend,
}

/// Which vectors are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Embedder {
    Table,
    Hash,
}

impl System {
    pub(super) fn lexical() -> Self {
        Self::new("lexical", Embedder::Table, Some(Mode::Lexical), Blend::default())
    }

    pub(super) fn semantic(embedder: Embedder) -> Self {
        let name = match embedder {
            Embedder::Table => "semantic",
            Embedder::Hash => "semantic, hashes",
        };
        Self::new(name, embedder, Some(Mode::Semantic), Blend::default())
    }

    /// By meaning, however far.
    pub(super) fn far() -> Self {
        let blend = Blend { floor: 0.0, ..Blend::default() };
        Self::new("semantic, however far", Embedder::Table, Some(Mode::Semantic), blend)
    }

    pub(super) fn hybrid(fusion: Fusion, embedder: Embedder) -> Self {
        let name = match (fusion, embedder) {
            (Fusion::Ranks, _) => "hybrid, ranks".to_owned(),
            (Fusion::Convex(weight), Embedder::Table) => format!("hybrid {weight:.1}"),
            (Fusion::Convex(weight), Embedder::Hash) => format!("hybrid {weight:.1}, hashes"),
        };
        let blend = Blend { fusion, ..Blend::default() };
        Self::new(&name, embedder, Some(Mode::Hybrid), blend)
    }

    pub(super) fn ripgrep() -> Self {
        Self::new("ripgrep by recency", Embedder::Table, None, Blend::default())
    }

    fn new(name: &str, embedder: Embedder, mode: Option<Mode>, blend: Blend) -> Self {
        Self { name: name.to_owned(), embedder, mode, blend }
    }
}

/// A history that can be asked.
pub(super) struct Place<'s> {
    sessions: &'s [Session],
    table: Journal,
    hash: Journal,
    by_uuid: HashMap<String, (usize, usize)>,
    by_id: HashMap<String, usize>,
    /// All text of each session in lower case, as it was written.
    texts: Vec<String>,
}

impl<'s> Place<'s> {
    /// Makes journals of a home that was written from these sessions.
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
        // A model that cannot be used is answered for by hashes.
        let broken = place.join("broken");
        std::fs::create_dir_all(&broken)?;
        for name in ["model.onnx", "tokenizer.json"] {
            std::fs::write(broken.join(name), "none")?;
        }
        let hash = open(place, "hash", Meaning { model_path: Some(broken), ..Meaning::default() })?;
        Ok(Self { sessions, table, hash, by_uuid, by_id, texts })
    }

    /// Texts that can be found by meaning.
    pub(super) fn vectors(&self) -> Result<u64> {
        Ok(self.table.coverage()?.vectors)
    }

    pub(super) fn ask(&self, system: &System, text: &str) -> Result<Reply> {
        let Some(mode) = system.mode else { return Ok(self.look_through(text)) };
        let journal = match system.embedder {
            Embedder::Table => &self.table,
            Embedder::Hash => &self.hash,
        };
        let started = Instant::now();
        let query = Query::parse(text, &NOW.parse()?).with_context(|| format!("query {text:?}"))?;
        let options = Options { limit: DEPTH, mode, blend: system.blend, ..Options::default() };
        let answer = journal.find(&query, &options)?;
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

    /// What somebody finds who greps: the latest files with all the words in them, or else with
    /// the longest. Every match in them counts, and whole files have to be read.
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

/// Opens a journal of the home in a place, with an index of its own.
fn open(place: &Path, index: &str, meaning: Meaning) -> Result<Journal> {
    let mut config = Config::new(place.join("journal"));
    config.index_dir = place.join(format!("index-{index}"));
    config.meaning = meaning;
    let machine = Machine { home: place.join("home"), ..Machine::default() };
    let mut journal = Journal::open(config, machine)?;
    journal.sync(SyncOptions::default(), &mut |_| {})?;
    Ok(journal)
}
