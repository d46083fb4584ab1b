//! Runs a query: step by step from what fits closely to what fits at all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tantivy::TantivyError;

use super::answer::{Answer, Grouping, Mode, Options, Sort, Stage, Tier};
use super::engine::{Engine, deciding};
use super::fold::{collapse, into_tasks};
use super::gather::{BEST, Gather, Group, Match, rank};
use super::places::{Located, Places};
use super::query::{Clause, Pattern, Query, join};
use super::verify::Text;
use super::{Filter, Scope, State, share};
use crate::error::{Error, Result};
use crate::helper::Helper;
use crate::index::{Lexical, SemanticReader, TextKind, text_of, tool_number};
use crate::maps::Set;
use crate::model::{Message, Timestamp};
use crate::store::Store;

/// A regular expression is tried on at most this many messages, the best candidates first.
const TRIED: usize = 50_000;

/// A query of so many words is a question: what has most of them where it matters is worth more
/// than what has them all somewhere.
const QUESTION: usize = 4;

/// A question is answered by at least so many sessions, however few are shown.
const SCREEN: usize = 20;

/// What it counts, in answers to a question, that every word is there: enough for a line of a
/// tool's output to come before prompts with some of its words.
const ALL_WORDS: f32 = 3.0;

/// Answers queries.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lexical: &'a Lexical,
    /// None when nothing is to be found by meaning.
    pub(crate) semantic: Option<Arc<SemanticReader>>,
    pub(crate) path: &'a Path,
    /// Who may take part.
    pub(crate) helper: &'a Helper,
    pub(crate) now: Timestamp,
}

/// What has been found so far.
pub(super) struct Progress {
    pub(super) groups: Vec<Group>,
    pub(super) places: Places,
    pub(super) answer: Answer,
    /// What is looked for, mistakes corrected.
    pub(super) clauses: Vec<Clause>,
    /// Whether what is asked is a question.
    pub(super) is_question: bool,
}

/// Where is looked.
type Place<'p> = (&'p Engine<'p>, &'p Arc<Gather>);

impl Search<'_> {
    /// Answers a query.
    pub(crate) fn run(&self, query: &Query, options: &Options) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let engine = Engine { field: self.lexical.body(), searcher: &searcher };
        let places = Places::of(&searcher).map_err(self.error())?;
        let gather = Arc::new(self.gather(query, options, places.clone())?);
        let mut progress = Progress {
            groups: Vec::new(),
            places,
            answer: Answer::default(),
            clauses: query.clauses.clone(),
            is_question: is_question(&query.clauses),
        };
        if options.mode != Mode::Semantic {
            self.by_words(query, options, (&engine, &gather), &mut progress)?;
        }
        if options.mode != Mode::Lexical {
            self.by_meaning(query, options, &gather, &mut progress)?;
        }
        let Progress { groups, places, mut answer, clauses, is_question } = progress;
        let order = Order { sort: options.sort, is_question, places: &places };
        let groups = self.arrange(groups, options, (gather.keep, order))?;
        answer.total = groups.len() as u64;
        answer.facets = self.facets(&groups, options)?;
        let page: Vec<Group> =
            groups.into_iter().skip(options.offset).take(options.limit).collect();
        self.present((&page, &places), &clauses, options, &mut answer)?;
        Ok(answer)
    }

    pub(super) fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        Error::index(self.path)
    }

    fn gather(&self, query: &Query, options: &Options, places: Places) -> Result<Gather> {
        let filter = &query.filter;
        let not = filter.not.as_deref();
        // A search looks into sub-agents too; only facts of sessions need the store. Tools are
        // known of every passage.
        let not_tools = not.map(|not| Filter { tools: Vec::new(), ..not.clone() });
        let wide = Filter {
            scope: Scope::All,
            since: None,
            until: None,
            tools: Vec::new(),
            not: not_tools.map(Box::new),
            ..filter.clone()
        };
        let only = wide.limits_sessions().then(|| self.store.chosen_tellings(&wide)).transpose()?;
        let only: Option<Arc<Set<u64>>> = only.map(|only| Arc::new(only.into_iter().collect()));
        let mut shared = self.store.shared_beginnings()?;
        shared.retain(|one| only.as_ref().is_none_or(|only| only.contains(&one.origin_telling)));
        let shared = shared.into_iter().map(|one| (one.telling, one.shared_messages));
        let millis = |at: Option<Timestamp>, or| at.map_or(or, Timestamp::as_millis);
        let tools = |filter: &Filter| filter.tools.iter().map(|name| tool_number(name)).collect();
        let is_side = |filter: &Filter| filter.states.contains(&State::SideChain);
        let every = query.has_regex() || options.group == Grouping::Message;
        Ok(Gather {
            only,
            shared: Arc::new(shared.collect()),
            hidden: Arc::new(self.store.hidden_tellings()?.into_iter().collect()),
            kinds: filter.text_kinds(),
            tools: (tools(filter), not.map(tools).unwrap_or_default()),
            is_side: match (is_side(filter), not.is_some_and(is_side)) {
                (true, _) => Some(true),
                (_, false) if filter.side_chains => None,
                _ => Some(false),
            },
            span: (millis(filter.since, i64::MIN), millis(filter.until, i64::MAX)),
            now: self.now.as_millis(),
            keep: if every { usize::MAX } else { BEST },
            places,
        })
    }

    /// Keeps the matches whose messages really fit; says how many were not tried.
    fn try_on_messages(
        &self,
        clauses: &[Clause],
        (groups, places): (&mut Vec<Group>, &Places),
    ) -> Result<u64> {
        groups.sort_by_cached_key(|group| (Reverse(rank(group.score())), group.telling));
        let mut left = TRIED;
        let mut untried = 0;
        for group in groups.iter_mut() {
            let tried = group.best.len().min(left);
            untried += (group.best.len() - tried) as u64;
            left -= tried;
            group.best.truncate(tried);
            let positions = group.best.iter().filter_map(|one| places.text(one).position).collect();
            let messages = self.store.messages_at(group.telling, &positions)?;
            let messages: HashMap<u64, Message> = messages.into_iter().collect();
            let mut kept: Vec<Match> = Vec::new();
            for one in &group.best {
                let Located { position, kind, .. } = places.text(one);
                let texts: Vec<String> = match position {
                    Some(position) => {
                        messages.get(&position).map(|it| text_of(it, kind)).into_iter().collect()
                    }
                    None => self.whole_texts(group.telling, kind)?,
                };
                let is_known = kept.iter().any(|known| places.are_same(known, one));
                if !is_known && texts.iter().any(|text| Text::new(text).fits(clauses)) {
                    kept.push(*one);
                }
            }
            group.count = kept.len() as u64;
            group.best = kept;
        }
        groups.retain(|group| group.count > 0);
        Ok(untried)
    }

    /// The texts of a kind that are about a session as a whole.
    pub(super) fn whole_texts(&self, telling: u64, kind: TextKind) -> Result<Vec<String>> {
        if kind == TextKind::Title {
            let mut entries = self.store.sessions_by_telling(&[telling], self.now)?;
            return Ok(entries.remove(&telling).map(|entry| entry.title).into_iter().collect());
        }
        self.store.documents(telling)
    }

    /// Makes results of what was found, in the order they are told.
    fn arrange(
        &self,
        groups: Vec<Group>,
        options: &Options,
        (keep, order): (usize, Order<'_>),
    ) -> Result<Vec<Group>> {
        let mut groups = match options.group {
            Grouping::Session => {
                let tellings: Vec<u64> = groups.iter().map(|group| group.telling).collect();
                into_tasks(groups, &self.store.tasks(&tellings)?, (keep, order.places))
            }
            Grouping::Message => groups.into_iter().flat_map(Group::apart).collect(),
        };
        order.apply(&mut groups);
        if options.sort == Sort::Relevance {
            let wanted = options.offset.saturating_add(options.limit);
            order.apply(collapse(&mut groups, wanted, order.places));
        }
        Ok(groups)
    }
}

impl Search<'_> {
    /// From all of the words to some of them.
    fn by_words(
        &self,
        query: &Query,
        options: &Options,
        place: Place<'_>,
        progress: &mut Progress,
    ) -> Result<()> {
        let engine = place.0;
        let all = engine.all(&query.clauses).map_err(self.error())?;
        if query.has_regex() {
            return self.take(("regular expression", Tier::AllWords), all, place, progress);
        }
        self.take(("all words", Tier::AllWords), all, place, progress)?;
        if progress.groups.is_empty() {
            self.corrected(place, progress)?;
        }
        let wanted = (options.offset + options.limit).max(SCREEN);
        if progress.groups.is_empty() || progress.is_question && progress.groups.len() < wanted {
            for one in progress.groups.iter_mut().flat_map(|group| &mut group.best) {
                one.score *= ALL_WORDS;
            }
            let some = engine.some(&progress.clauses).map_err(self.error())?;
            self.take(("some words", Tier::SomeWords), some, place, progress)?;
        }
        Ok(())
    }

    /// Reads words that occur nowhere as others.
    fn corrected(&self, place: Place<'_>, progress: &mut Progress) -> Result<()> {
        let (clauses, corrections) = place.0.corrected(&progress.clauses).map_err(self.error())?;
        if corrections.is_empty() {
            return Ok(());
        }
        progress.clauses = clauses;
        progress.answer.corrected = corrections;
        let all = place.0.all(&progress.clauses).map_err(self.error())?;
        self.take(("typo", Tier::Typo), all, place, progress)
    }

    /// Adds the sessions that fit and are not there yet.
    fn take(
        &self,
        (name, tier): (&str, Tier),
        query: Option<Box<dyn tantivy::query::Query>>,
        (engine, gather): Place<'_>,
        progress: &mut Progress,
    ) -> Result<()> {
        let started = Instant::now();
        let Some(query) = query else { return Ok(()) };
        let place = (engine.searcher, gather);
        let mut groups = share::gather(&*query, place, self.helper).map_err(self.error())?;
        if progress.clauses.iter().any(Clause::has_regex) {
            progress.answer.untried =
                self.try_on_messages(&progress.clauses, (&mut groups, &progress.places))?;
        }
        if !progress.groups.is_empty() {
            let known: Set<u64> = progress.groups.iter().map(|group| group.telling).collect();
            groups.retain(|group| !known.contains(&group.telling));
        }
        for group in &mut groups {
            group.tier = tier;
        }
        progress.answer.stages.push(Stage {
            name: name.to_owned(),
            query: join(&deciding(&progress.clauses)),
            found: groups.len() as u64,
            took: started.elapsed(),
        });
        // What is found first is most of it, and need not be copied.
        if progress.groups.is_empty() {
            progress.groups = groups;
        } else {
            progress.groups.extend(groups);
        }
        Ok(())
    }
}

/// Whether a query is a question as people type it: words alone, and many.
fn is_question(clauses: &[Clause]) -> bool {
    let is_word = |clause: &&Clause| matches!(clause.pattern, Pattern::Word(_));
    clauses.iter().filter(is_word).count() >= QUESTION && deciding(clauses).len() >= 2
}

/// What comes first.
#[derive(Clone, Copy)]
struct Order<'p> {
    sort: Sort,
    is_question: bool,
    places: &'p Places,
}

impl Order<'_> {
    /// Puts first what fits most closely, or what is latest.
    fn apply(self, groups: &mut [Group]) {
        let step = |group: &Group| if self.is_question { 0 } else { group.tier.step() };
        match self.sort {
            Sort::Relevance => groups.sort_by_cached_key(|group| {
                (step(group), Reverse(rank(group.score())), group.telling)
            }),
            Sort::Time => {
                groups.sort_by_cached_key(|group| (Reverse(group.at(self.places)), group.telling));
            }
        }
    }
}
