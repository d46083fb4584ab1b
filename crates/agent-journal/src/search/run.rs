//! Runs a query: step by step from what fits closely to what fits at all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tantivy::TantivyError;

use super::answer::{Answer, Grouping, Mode, Options, Sort, Stage, Tier};
use super::document_length::DocumentLengths;
use super::engine::{Engine, deciding};
use super::fold::{collapse, into_tasks};
use super::gather::{BEST, Gather, Group, Match, rank};
use super::places::{Located, Places};
use super::present::Wording;
use super::query::{Clause, Pattern, Query, join};
use super::statistics::Statistics;
use super::verify::Text;
use super::{Filter, Scope, State, share};
use crate::error::{Error, Result};
use crate::helper::Helper;
use crate::index::{Lexical, SemanticReader, TextKind, text_of, tool_number};
use crate::interrupt::StopFlag;
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

/// How much a match in other forms of the words is worth beside one in the words themselves.
const OTHER_FORMS: f32 = 0.8;

/// Fewer sessions than this, found by reading mistyped words as others, are too few: some of the
/// words are looked for as well.
const FEW: usize = 3;

/// Answers queries.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lexical: &'a Lexical,
    /// None when nothing is to be found by meaning.
    pub(crate) semantic: Option<Arc<SemanticReader>>,
    pub(crate) path: &'a Path,
    /// Who may take part.
    pub(crate) helper: &'a Helper,
    /// Set when nobody waits for the answer any more.
    pub(crate) stop: &'a StopFlag,
    pub(crate) now: Timestamp,
}

/// What has been found so far.
pub(super) struct Progress {
    pub(super) groups: Vec<Group>,
    pub(super) places: Places,
    pub(super) answer: Answer,
    /// What is looked for, mistakes corrected.
    pub(super) clauses: Vec<Clause>,
    /// What is marked in the answer: the same, with other forms of words where these were looked
    /// for.
    pub(super) marked: Vec<Clause>,
    /// Whether what is asked is a question.
    pub(super) is_question: bool,
}

/// One step of a search by words.
struct Step<'c> {
    name: &'static str,
    tier: Tier,
    clauses: &'c [Clause],
    /// The clauses as the engine takes them; `None` when there is nothing to look for.
    query: Option<Box<dyn tantivy::query::Query>>,
}

/// Where is looked.
type Place<'p> = (&'p Engine<'p>, &'p Arc<Gather>);

impl Search<'_> {
    /// Answers a query.
    pub(crate) fn run(&self, query: &Query, options: &Options) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let statistics = Statistics::new(&searcher, self.lexical.body());
        let field = self.lexical.body();
        let engine = Engine { field, statistics: &statistics, stop: self.stop };
        let places = Places::of(&searcher).map_err(self.error())?;
        let every = query.has_regex() || options.group == Grouping::Message;
        let keep = if every { usize::MAX } else { BEST };
        let lengths = DocumentLengths::of(&statistics, engine.field).map_err(self.error())?;
        let gather = self.gather(&query.filter, keep, places.clone())?;
        let gather = Arc::new(Gather { document_lengths: Some(lengths), ..gather });
        let mut progress = Progress {
            groups: Vec::new(),
            places,
            answer: Answer { group: options.group, ..Answer::default() },
            clauses: query.clauses.clone(),
            marked: query.clauses.clone(),
            is_question: is_question(&query.clauses),
        };
        if options.mode != Mode::Semantic {
            self.by_words(query, options, (&engine, &gather), &mut progress)?;
        }
        if options.mode != Mode::Lexical {
            self.by_meaning(query, options, &gather, &mut progress)?;
        }
        let Progress { groups, places, mut answer, marked, is_question, .. } = progress;
        let order = Order { sort: options.sort, is_question, places: &places };
        let groups = self.arrange(groups, options, (gather.keep, order))?;
        answer.total = groups.len() as u64;
        answer.facets = self.facets(&groups, options)?;
        let page: Vec<Group> =
            groups.into_iter().skip(options.offset).take(options.limit).collect();
        let wording = Wording { typed: &query.clauses, marked: &marked };
        self.present((&page, &places), wording, options, &mut answer)?;
        Ok(answer)
    }

    pub(super) fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        Error::index(self.path)
    }

    pub(super) fn gather(&self, filter: &Filter, keep: usize, places: Places) -> Result<Gather> {
        let not = filter.not.as_deref();
        // A search looks into sub-agents too; only facts of sessions need the store. Tools and
        // times are known of every passage.
        let not_tools =
            not.map(|not| Filter { tools: Vec::new(), since: None, until: None, ..not.clone() });
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
        // What is left out begins or ends where the rest ends or begins.
        let left_out = not.map(|not| (not.since, not.until)).unwrap_or_default();
        let first = millis(filter.since, i64::MIN)
            .max(left_out.1.map_or(i64::MIN, |until| until.as_millis().saturating_add(1)));
        let last = millis(filter.until, i64::MAX)
            .min(left_out.0.map_or(i64::MAX, |since| since.as_millis().saturating_sub(1)));
        let tools = |filter: &Filter| filter.tools.iter().map(|name| tool_number(name)).collect();
        let is_side = |filter: &Filter| filter.states.contains(&State::SideChain);
        let is_failed = |filter: &Filter| filter.states.contains(&State::Failed);
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
            is_failed: match (is_failed(filter), not.is_some_and(is_failed)) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            span: (first, last),
            now: self.now.as_millis(),
            keep,
            places,
            document_lengths: None,
            stop: self.stop.clone(),
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
            self.stop.check()?;
            let tried = group.best.len().min(left);
            untried += (group.best.len() - tried) as u64;
            left -= tried;
            group.best.truncate(tried);
            let positions = group.best.iter().filter_map(|one| places.text(one).position).collect();
            let messages = self.store.messages_at(group.telling, &positions)?;
            let messages: HashMap<u64, Message> = messages.into_iter().collect();
            let mut kept: Vec<Match> = Vec::new();
            for one in &group.best {
                self.stop.check()?;
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
        let (engine, clauses) = (place.0, &query.clauses);
        let all = engine.all(clauses).map_err(self.error())?;
        let name = if query.has_regex() { "regular expression" } else { "all words" };
        self.take(Step { name, tier: Tier::AllWords, clauses, query: all }, place, progress)?;
        if query.has_regex() {
            return Ok(());
        }
        let wanted = (options.offset + options.limit).max(SCREEN);
        if progress.groups.len() < wanted {
            self.in_other_forms(place, progress)?;
        }
        let is_corrected = progress.groups.is_empty() && self.corrected(place, progress)?;
        let found = progress.groups.len();
        let is_little = found == 0 || is_corrected && found < FEW;
        if is_little || progress.is_question && found < wanted {
            self.some_of_them(place, progress)?;
        }
        Ok(())
    }

    /// Looks for all words in any form that occurs.
    fn in_other_forms(&self, place: Place<'_>, progress: &mut Progress) -> Result<()> {
        let forms = place.0.with_word_forms(&progress.clauses).map_err(self.error())?;
        let Some(forms) = forms else { return Ok(()) };
        let query = place.0.all(&forms).map_err(self.error())?;
        let known = progress.groups.len();
        let step = Step { name: "word forms", tier: Tier::WordForms, clauses: &forms, query };
        self.take(step, place, progress)?;
        for one in progress.groups[known..].iter_mut().flat_map(|group| &mut group.best) {
            one.score *= OTHER_FORMS;
        }
        progress.marked = forms;
        Ok(())
    }

    /// Reads words that occur nowhere as others; says whether any was read as its neighbour.
    fn corrected(&self, place: Place<'_>, progress: &mut Progress) -> Result<bool> {
        let (clauses, corrections) = place.0.corrected(&progress.clauses).map_err(self.error())?;
        (progress.clauses, progress.marked) = (clauses.clone(), clauses);
        if corrections.is_empty() {
            return Ok(false);
        }
        progress.answer.corrected = corrections;
        let clauses = &progress.clauses.clone();
        let query = place.0.all(clauses).map_err(self.error())?;
        self.take(Step { name: "typo", tier: Tier::Typo, clauses, query }, place, progress)?;
        Ok(true)
    }

    /// Looks for some of the words. In a short query they may stand in any form; a question has
    /// enough words as they are.
    fn some_of_them(&self, place: Place<'_>, progress: &mut Progress) -> Result<()> {
        for one in progress.groups.iter_mut().flat_map(|group| &mut group.best) {
            one.score *= ALL_WORDS;
        }
        let mut clauses = progress.clauses.clone();
        if !progress.is_question
            && let Some(forms) = place.0.with_word_forms(&clauses).map_err(self.error())?
        {
            progress.marked.clone_from(&forms);
            clauses = forms;
        }
        let query = place.0.some(&clauses).map_err(self.error())?;
        let step = Step { name: "some words", tier: Tier::SomeWords, clauses: &clauses, query };
        // A long document has some of any words.
        let gather = Arc::new(Gather { document_lengths: None, ..(**place.1).clone() });
        self.take(step, (place.0, &gather), progress)
    }

    /// Adds the sessions that fit and are not there yet.
    fn take(
        &self,
        step: Step<'_>,
        (engine, gather): Place<'_>,
        progress: &mut Progress,
    ) -> Result<()> {
        let started = Instant::now();
        let Step { name, tier, clauses, query } = step;
        // What the engine was given may be incomplete once the flag is set.
        self.stop.check()?;
        let Some(query) = query else { return Ok(()) };
        let found = share::gather(&*query, engine.statistics, gather, self.helper);
        let mut groups = found.map_err(self.error())?;
        self.stop.check()?;
        if clauses.iter().any(Clause::has_regex) {
            progress.answer.untried =
                self.try_on_messages(clauses, (&mut groups, &progress.places))?;
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
            query: join(&deciding(clauses)),
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
