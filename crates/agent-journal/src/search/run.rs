//! Runs a query: step by step from what fits closely to what fits at all.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tantivy::{Searcher, TantivyError};

use super::answer::{Answer, Grouping, Mode, Options, Sort, Stage, Tier};
use super::engine::{Engine, deciding};
use super::gather::{BEST, Gather, Group};
use super::query::{Query, join};
use super::verify::Text;
use super::{Filter, Scope};
use crate::error::{Error, Result};
use crate::index::{Lexical, SemanticReader, TextKind, text_of};
use crate::model::Timestamp;
use crate::store::Store;

/// A regular expression is tried on at most this many messages, the best candidates first.
const TRIED: usize = 50_000;

/// Answers queries.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lexical: &'a Lexical,
    /// None when nothing is to be found by meaning.
    pub(crate) semantic: Option<SemanticReader>,
    pub(crate) path: &'a Path,
    pub(crate) now: Timestamp,
}

/// What has been found so far.
pub(super) struct Progress {
    pub(super) groups: Vec<Group>,
    pub(super) answer: Answer,
}

impl Search<'_> {
    /// Answers a query.
    pub(crate) fn run(&self, query: &Query, options: &Options) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let engine = Engine { field: self.lexical.body(), searcher: &searcher };
        let gather = self.gather(query, options)?;
        let mut progress = Progress {
            groups: Vec::new(),
            answer: Answer { mode: options.mode, ..Answer::default() },
        };
        if options.mode != Mode::Semantic {
            self.by_words(query, &engine, &gather, &mut progress)?;
            let wanted = options.offset + options.limit;
            if progress.groups.len() < wanted && !query.has_regex() {
                self.by_some_words(query, (&engine, &gather), &mut progress)?;
            }
        }
        if options.mode != Mode::Lexical {
            self.by_meaning(query, options, &gather, &mut progress)?;
        }
        let Progress { mut groups, mut answer } = progress;
        self.order(&mut groups, options);
        answer.total = groups.len() as u64;
        let page: Vec<Group> =
            groups.into_iter().skip(options.offset).take(options.limit).collect();
        self.present(&page, query, options, &mut answer)?;
        Ok(answer)
    }

    pub(super) fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        Error::index(self.path)
    }

    fn by_words(
        &self,
        query: &Query,
        engine: &Engine<'_>,
        gather: &Gather,
        progress: &mut Progress,
    ) -> Result<()> {
        let started = Instant::now();
        let Some(all) = engine.all(&query.clauses).map_err(self.error())? else { return Ok(()) };
        let mut groups = collect(engine.searcher, &all, gather).map_err(self.error())?;
        if query.has_regex() {
            progress.answer.stages.push(stage("candidates", &query.clauses, &groups, started));
            progress.answer.untried = self.try_on_messages(query, &mut groups)?;
        }
        let name = if query.has_regex() { "regular expression" } else { "all words" };
        progress.answer.stages.push(stage(name, &deciding(&query.clauses), &groups, started));
        progress.groups = groups;
        Ok(())
    }

    fn by_some_words(
        &self,
        query: &Query,
        (engine, gather): (&Engine<'_>, &Gather),
        progress: &mut Progress,
    ) -> Result<()> {
        let started = Instant::now();
        let Some(some) = engine.some(&query.clauses).map_err(self.error())? else { return Ok(()) };
        let mut groups = collect(engine.searcher, &some, gather).map_err(self.error())?;
        let known: HashSet<u64> = progress.groups.iter().map(|group| group.telling).collect();
        groups.retain(|group| !known.contains(&group.telling));
        for group in &mut groups {
            group.tier = Tier::SomeWords;
        }
        progress.answer.stages.push(stage(
            "some words",
            &deciding(&query.clauses),
            &groups,
            started,
        ));
        progress.groups.extend(groups);
        Ok(())
    }

    fn gather(&self, query: &Query, options: &Options) -> Result<Gather> {
        let filter = &query.filter;
        // A search looks into sub-agents too; only facts of sessions need the store.
        let wide = Filter { scope: Scope::All, since: None, until: None, ..filter.clone() };
        let only = wide.limits_sessions().then(|| self.store.chosen_tellings(&wide)).transpose()?;
        let millis = |at: Option<Timestamp>, or| at.map_or(or, Timestamp::as_millis);
        let every = query.has_regex() || options.group == Grouping::Message;
        Ok(Gather {
            only: only.map(|only| Arc::new(HashSet::from_iter(only))),
            hidden: Arc::new(self.store.hidden_tellings()?.into_iter().collect()),
            kinds: filter.text_kinds(),
            span: (millis(filter.since, i64::MIN), millis(filter.until, i64::MAX)),
            now: self.now.as_millis(),
            keep: if every { usize::MAX } else { BEST },
        })
    }

    /// Keeps the matches whose messages really fit; says how many were not tried.
    fn try_on_messages(&self, query: &Query, groups: &mut Vec<Group>) -> Result<u64> {
        let mut left = TRIED;
        let mut untried = 0;
        for group in groups.iter_mut() {
            let tried = group.best.len().min(left);
            untried += (group.best.len() - tried) as u64;
            left -= tried;
            group.best.truncate(tried);
            let positions: HashSet<u64> =
                group.best.iter().filter_map(|one| one.position).collect();
            let messages: HashMap<u64, _> =
                self.store.messages_at(group.telling, &positions)?.into_iter().collect();
            let mut kept = Vec::new();
            for one in &group.best {
                let text = match one.position {
                    Some(position) => messages.get(&position).map(|it| text_of(it, one.kind)),
                    None => self.whole_text(group.telling, one.kind)?,
                };
                if text.is_some_and(|text| Text::new(&text).fits(&query.clauses)) {
                    kept.push(*one);
                }
            }
            group.count = kept.len() as u64;
            group.best = kept;
        }
        groups.retain(|group| group.count > 0);
        Ok(untried)
    }

    /// A text that is about a session as a whole.
    pub(super) fn whole_text(&self, telling: u64, kind: TextKind) -> Result<Option<String>> {
        if kind == TextKind::Title {
            let mut entries = self.store.sessions_by_telling(&[telling], self.now)?;
            return Ok(entries.remove(&telling).map(|entry| entry.title));
        }
        let documents = self.store.account(telling)?.map(|account| account.documents);
        let texts = documents.into_iter().flatten().map(|(_, text)| text).collect::<Vec<_>>();
        Ok(Some(texts.join("\n")))
    }

    fn order(&self, groups: &mut [Group], options: &Options) {
        match options.sort {
            Sort::Relevance => groups.sort_by(|a, b| {
                let score = b.score().total_cmp(&a.score());
                a.tier.step().cmp(&b.tier.step()).then(score).then(a.telling.cmp(&b.telling))
            }),
            Sort::Time => {
                groups.sort_by_key(|group| std::cmp::Reverse((group.at(), group.telling)))
            }
        }
    }
}

fn collect(
    searcher: &Searcher,
    query: &dyn tantivy::query::Query,
    gather: &Gather,
) -> tantivy::Result<Vec<Group>> {
    searcher.search(query, gather)
}

fn stage(name: &str, clauses: &[super::Clause], groups: &[Group], started: Instant) -> Stage {
    Stage {
        name: name.to_owned(),
        query: join(clauses),
        found: groups.len() as u64,
        took: started.elapsed(),
    }
}
