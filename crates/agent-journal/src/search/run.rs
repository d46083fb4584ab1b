//! Runs a query: words against the index, the best sessions with their best messages back.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, PhraseQuery, Query as Engine, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, TantivyError, Term};

use super::gather::{Gather, Group, Match};
use super::snippet::{Marks, Snippet, snippet};
use super::{Clause, Filter, Pattern, Query, Scope};
use crate::error::{Error, Result};
use crate::index::{Lexical, TextKind, text_of, words};
use crate::model::{Message, Timestamp};
use crate::store::{Entry, Store};

/// Length of a snippet in bytes.
const SNIPPET: usize = 200;

/// Sessions of which more than the best match is shown.
const DETAILED: usize = 5;

/// A prefix stands for at most this many words, the most frequent ones.
const EXPANSIONS: usize = 200;

/// Words that decide nothing when not every word can be found.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or",
    "our", "out", "so", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "will", "with", "would", "you", "your",
];

/// How closely an answer fits its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Everything that was asked for stands in one message.
    AllWords,
    /// Some of the words do.
    SomeWords,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How closely it fits.
    pub tier: Tier,
    /// How many sessions fit.
    pub total: u64,
    /// The best of them.
    pub sessions: Vec<Found>,
}

/// A session that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The session.
    pub entry: Entry,
    /// What it is worth.
    pub score: f32,
    /// Its best messages.
    pub hits: Vec<Hit>,
    /// How many passages fit in all.
    pub matches: u64,
}

/// A message (or title) that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The message's position; none for what is about the session as a whole.
    pub position: Option<u64>,
    /// The message.
    pub message: Option<Message>,
    /// The kind of text.
    pub kind: TextKind,
    /// What it is worth.
    pub score: f32,
    /// The part that shows why.
    pub snippet: Snippet,
}

/// Where to search.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lexical: &'a Lexical,
    pub(crate) path: &'a std::path::Path,
    pub(crate) now: Timestamp,
}

impl Search<'_> {
    /// Answers a query with at most `limit` sessions.
    pub(crate) fn run(&self, query: &Query, limit: usize, offset: usize) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let engine = EngineQuery { field: self.lexical.body(), searcher: &searcher };
        let gather = self.gather(&query.filter)?;
        let mut tier = Tier::AllWords;
        let mut groups = Vec::new();
        if let Some(all) = engine.all(&query.clauses).map_err(self.error())? {
            groups = searcher.search(&all, &gather).map_err(self.error())?;
        }
        if groups.is_empty()
            && let Some(some) = engine.some(&query.clauses).map_err(self.error())?
        {
            tier = Tier::SomeWords;
            groups = searcher.search(&some, &gather).map_err(self.error())?;
        }
        let total = groups.len() as u64;
        let page: Vec<Group> = groups.into_iter().skip(offset).take(limit).collect();
        let sessions = self.present(&page, &marks(&query.clauses))?;
        Ok(Answer { tier, total, sessions })
    }

    fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        Error::index(self.path)
    }

    fn gather(&self, filter: &Filter) -> Result<Gather> {
        // A search looks into sub-agents too; only facts of sessions need the store.
        let wide = Filter { scope: Scope::All, since: None, until: None, ..filter.clone() };
        let only = wide.limits_sessions().then(|| self.store.chosen_tellings(&wide)).transpose()?;
        let millis = |at: Option<Timestamp>, or| at.map_or(or, Timestamp::as_millis);
        Ok(Gather {
            only: only.map(|only| Arc::new(HashSet::from_iter(only))),
            hidden: Arc::new(self.store.hidden_tellings()?.into_iter().collect()),
            kinds: filter.roles.iter().flat_map(|role| kinds(role)).copied().collect(),
            span: (millis(filter.since, i64::MIN), millis(filter.until, i64::MAX)),
            now: self.now.as_millis(),
        })
    }

    fn present(&self, groups: &[Group], marks: &Marks) -> Result<Vec<Found>> {
        let tellings: Vec<u64> = groups.iter().map(|group| group.telling).collect();
        let mut entries = self.store.sessions_by_telling(&tellings, self.now)?;
        let mut sessions = Vec::new();
        for group in groups {
            // Between the index's commit and now the session may have changed its telling.
            let Some(entry) = entries.remove(&group.telling) else { continue };
            let mut hits = Vec::new();
            // The further down, the less is read: the best match says what the session is about.
            let shown = if sessions.len() < DETAILED { group.best.len() } else { 1 };
            for one in &group.best[..shown.min(group.best.len())] {
                hits.extend(self.hit(&entry, one, marks)?);
            }
            hits.sort_by_key(|hit| hit.position.map_or(0, |position| position + 1));
            sessions.push(Found { entry, score: group.score(), hits, matches: group.count });
        }
        Ok(sessions)
    }

    fn hit(&self, entry: &Entry, one: &Match, marks: &Marks) -> Result<Option<Hit>> {
        let Match { position, kind, score } = *one;
        let Some(position) = position else {
            let snippet = snippet(&entry.title, marks, SNIPPET);
            return Ok(Some(Hit { position: None, message: None, kind, score, snippet }));
        };
        let Some(message) = self.store.message(entry.telling, position)? else { return Ok(None) };
        let snippet = snippet(&text_of(&message, kind), marks, SNIPPET);
        Ok(Some(Hit { position: Some(position), message: Some(message), kind, score, snippet }))
    }
}

/// The kinds of text a role means.
fn kinds(role: &str) -> &'static [TextKind] {
    match role {
        "user" => &[TextKind::Prompt],
        "assistant" => &[TextKind::Reply, TextKind::Thinking, TextKind::ToolInput],
        "tool" => &[TextKind::ToolInput, TextKind::ToolOutput],
        "title" => &[TextKind::Title],
        "document" => &[TextKind::Document],
        "input" => &[TextKind::ToolInput],
        _ => &[TextKind::ToolOutput],
    }
}

/// The words to mark in what is shown.
fn marks(clauses: &[Clause]) -> Marks {
    let mut marks = Marks::default();
    for clause in clauses.iter().filter(|clause| !clause.negated) {
        let mut parts: Vec<String> = match &clause.pattern {
            Pattern::Word(text) | Pattern::Phrase(text) | Pattern::Prefix(text) => {
                words(text).into_iter().map(|word| word.text).collect()
            }
        };
        if matches!(clause.pattern, Pattern::Prefix(_)) {
            marks.prefixes.extend(parts.pop());
        }
        marks.words.extend(parts);
    }
    marks
}

/// Says clauses to the engine.
struct EngineQuery<'s> {
    field: Field,
    searcher: &'s Searcher,
}

type Parts = Vec<(Occur, Box<dyn Engine>)>;

impl EngineQuery<'_> {
    /// Everything that is asked for, in one passage.
    fn all(&self, clauses: &[Clause]) -> tantivy::Result<Option<BooleanQuery>> {
        self.join(clauses, Occur::Must)
    }

    /// Some of the words, stop words left out.
    fn some(&self, clauses: &[Clause]) -> tantivy::Result<Option<BooleanQuery>> {
        let decides = |clause: &&Clause| match &clause.pattern {
            Pattern::Word(text) => !STOP_WORDS.contains(&text.to_lowercase().as_str()),
            Pattern::Phrase(_) | Pattern::Prefix(_) => true,
        };
        let clauses: Vec<Clause> = clauses.iter().filter(decides).cloned().collect();
        // With a single clause there is nothing to leave out; a phrase is never given up.
        let words = clauses.iter().filter(|clause| !clause.negated).count();
        if words < 2 { Ok(None) } else { self.join(&clauses, Occur::Should) }
    }

    fn join(&self, clauses: &[Clause], occur: Occur) -> tantivy::Result<Option<BooleanQuery>> {
        let mut parts: Parts = Vec::new();
        let mut wanted = 0;
        for clause in clauses {
            let Some(query) = self.pattern(&clause.pattern)? else { continue };
            if clause.negated {
                parts.push((Occur::MustNot, query));
            } else {
                let phrase = matches!(clause.pattern, Pattern::Phrase(_));
                parts.push((if phrase { Occur::Must } else { occur }, query));
                wanted += 1;
            }
        }
        Ok((wanted > 0).then(|| BooleanQuery::new(parts)))
    }

    /// `None` when there is nothing in it that could be looked for.
    fn pattern(&self, pattern: &Pattern) -> tantivy::Result<Option<Box<dyn Engine>>> {
        let (text, is_prefix) = match pattern {
            Pattern::Word(text) | Pattern::Phrase(text) => (text, false),
            Pattern::Prefix(text) => (text, true),
        };
        let mut parts: Vec<String> = words(text).into_iter().map(|word| word.text).collect();
        if is_prefix {
            let Some(beginning) = parts.pop() else { return Ok(None) };
            return self.prefix(&parts, &beginning).map(Some);
        }
        Ok(self.sequence(parts))
    }

    /// Words next to each other.
    fn sequence(&self, mut parts: Vec<String>) -> Option<Box<dyn Engine>> {
        match parts.len() {
            0 => None,
            1 => Some(self.term(&parts.remove(0))),
            _ => {
                let terms = parts.iter().map(|part| Term::from_field_text(self.field, part));
                Some(Box::new(PhraseQuery::new(terms.collect())))
            }
        }
    }

    fn term(&self, word: &str) -> Box<dyn Engine> {
        let term = Term::from_field_text(self.field, word);
        Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
    }

    /// Words next to each other, of which the last only begins like this.
    fn prefix(&self, before: &[String], beginning: &str) -> tantivy::Result<Box<dyn Engine>> {
        let mut alternatives: Parts = Vec::new();
        for word in self.expand(beginning)? {
            let mut parts = before.to_vec();
            parts.push(word);
            alternatives.extend(self.sequence(parts).map(|query| (Occur::Should, query)));
        }
        if alternatives.is_empty() {
            // A word nobody wrote: the clause matches nothing, as it should.
            alternatives.push((Occur::Should, self.term(&format!("{beginning}\u{1}"))));
        }
        Ok(Box::new(BoostQuery::new(Box::new(BooleanQuery::new(alternatives)), 1.0)))
    }

    /// The most frequent words that begin like this.
    fn expand(&self, beginning: &str) -> tantivy::Result<Vec<String>> {
        let mut counts: std::collections::HashMap<String, u64> = std::collections::HashMap::new();
        for segment in self.searcher.segment_readers() {
            let inverted = segment.inverted_index(self.field)?;
            let end = format!("{beginning}\u{10ffff}");
            let mut terms = inverted.terms().range().ge(beginning).lt(end).into_stream()?;
            while terms.advance() {
                if let Ok(word) = std::str::from_utf8(terms.key()) {
                    *counts.entry(word.to_owned()).or_default() +=
                        u64::from(terms.value().doc_freq);
                }
            }
        }
        let mut words: Vec<(String, u64)> = counts.into_iter().collect();
        words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(words.into_iter().take(EXPANSIONS).map(|(word, _)| word).collect())
    }
}
