//! Runs a query in steps, from close matches to loose ones.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tantivy::TantivyError;

use super::answer::{Answer, Grouping, Mode, SearchOptions, Sort, Stage, Tier};
use super::collector::{BEST, MatchGroup, PassageMatch, SessionCollector, rank};
use super::document_length::DocumentLengths;
use super::engine::{QueryCompiler, deciding};
use super::group::{demote_duplicates, group_by_task};
use super::places::{LocatedText, MatchPlaces};
use super::present::QueryWording;
use super::query::{Clause, Pattern, Query, join};
use super::statistics::Statistics;
use super::verify::CheckedText;
use super::{Filter, Scope, SessionState, parallel};
use crate::error::{Error, Result};
use crate::filter::TextKind;
use crate::index::{Lexical, SemanticReader, text_of, tool_number};
use crate::interrupt::StopFlag;
use crate::maps::Set;
use crate::model::{Message, Timestamp};
use crate::store::Store;
use crate::work_share::WorkShare;

/// The maximum number of messages on which a regular expression is tried, the best candidates
/// first.
const TRIED: usize = 50_000;

/// The number of words from which a query counts as a question: a text with most of the words in a
/// prominent place is then better than one with all of them anywhere.
const QUESTION: usize = 4;

/// The minimum number of sessions to find for a question, however few are shown.
const SCREEN: usize = 20;

/// Score factor for results of a question that contain every word. At 3.0, tool output with all
/// words outranks prompts with some.
const ALL_WORDS: f32 = 3.0;

/// Score factor for matches in other forms of the words.
const OTHER_FORMS: f32 = 0.8;

/// The minimum number of sessions found with corrected words: with fewer, some of the words are
/// searched as well.
const FEW: usize = 3;

/// Runs queries against the index and the store.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a Store,
    pub(crate) lexical: &'a Lexical,
    /// The vectors; `None` if nothing is searched by meaning.
    pub(crate) semantic: Option<Arc<SemanticReader>>,
    pub(crate) path: &'a Path,
    /// The worker thread that shares the work.
    pub(crate) helper: &'a WorkShare,
    /// Set when the search is cancelled.
    pub(crate) stop: &'a StopFlag,
    pub(crate) now: Timestamp,
}

/// The matches found so far.
pub(super) struct SearchProgress {
    pub(super) groups: Vec<MatchGroup>,
    pub(super) places: MatchPlaces,
    pub(super) answer: Answer,
    /// The clauses that are searched, with typos corrected.
    pub(super) clauses: Vec<Clause>,
    /// The clauses that are highlighted: the same, with other word forms where these were searched.
    pub(super) marked: Vec<Clause>,
    /// Whether the query is a question.
    pub(super) is_question: bool,
}

/// One step of a search by words.
struct WordStep<'c> {
    name: &'static str,
    tier: Tier,
    clauses: &'c [Clause],
    /// The compiled clauses; `None` when there is nothing to search.
    query: Option<Box<dyn tantivy::query::Query>>,
}

/// The compiler and the collector of a search by words.
#[derive(Clone, Copy)]
struct WordSearch<'p> {
    compiler: &'p QueryCompiler<'p>,
    collector: &'p Arc<SessionCollector>,
}

impl Search<'_> {
    /// Runs a query.
    pub(crate) fn run(&self, query: &Query, options: &SearchOptions) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let statistics = Statistics::new(&searcher, self.lexical.body());
        let field = self.lexical.body();
        let compiler = QueryCompiler { field, statistics: &statistics, stop: self.stop };
        let places = MatchPlaces::of(&searcher).map_err(self.error())?;
        let every = query.has_regex() || options.grouping == Grouping::Message;
        let keep = if every { usize::MAX } else { BEST };
        let lengths = DocumentLengths::of(&statistics, compiler.field).map_err(self.error())?;
        let collector = self.collector(&query.filter, keep, places.clone())?;
        let collector = Arc::new(SessionCollector { document_lengths: Some(lengths), ..collector });
        let mut progress = SearchProgress {
            groups: Vec::new(),
            places,
            answer: Answer { grouping: options.grouping, ..Answer::default() },
            clauses: query.clauses.clone(),
            marked: query.clauses.clone(),
            is_question: is_question(&query.clauses),
        };
        if options.mode != Mode::Semantic {
            let words = WordSearch { compiler: &compiler, collector: &collector };
            self.by_words(query, options, words, &mut progress)?;
        }
        if options.mode != Mode::Lexical {
            self.by_meaning(query, options, &collector, &mut progress)?;
        }
        let SearchProgress { groups, places, mut answer, marked, is_question, .. } = progress;
        let order = ResultOrder { sort: options.sort, is_question, places: &places };
        let groups = self.arrange(groups, options, collector.keep, order)?;
        answer.total = groups.len() as u64;
        answer.facets = self.facets(&groups, options)?;
        let page: Vec<MatchGroup> =
            groups.into_iter().skip(options.offset).take(options.limit).collect();
        let wording = QueryWording { typed: &query.clauses, marked: &marked };
        self.present(&page, &places, wording, options, &mut answer)?;
        Ok(answer)
    }

    pub(super) fn error(&self) -> impl FnOnce(TantivyError) -> Error {
        Error::index_error(self.path)
    }

    pub(super) fn collector(
        &self,
        filter: &Filter,
        keep: usize,
        places: MatchPlaces,
    ) -> Result<SessionCollector> {
        let not = filter.not.as_deref();
        // A search covers sub-agents too. Only facts about sessions need the store: every passage
        // has its tool and time.
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
        let only =
            wide.limits_sessions().then(|| self.store.chosen_recordings(&wide)).transpose()?;
        let only: Option<Arc<Set<u64>>> = only.map(|only| Arc::new(only.into_iter().collect()));
        let mut shared = self.store.shared_beginnings()?;
        shared.retain(|one| only.as_ref().is_none_or(|only| only.contains(&one.origin_recording)));
        let shared = shared.into_iter().map(|one| (one.recording, one.shared_messages));
        let millis = |at: Option<Timestamp>, or| at.map_or(or, Timestamp::as_millis);
        // An excluded time range ends where the rest begins, or begins where it ends.
        let left_out = not.map(|not| (not.since, not.until)).unwrap_or_default();
        let first = millis(filter.since, i64::MIN)
            .max(left_out.1.map_or(i64::MIN, |until| until.as_millis().saturating_add(1)));
        let last = millis(filter.until, i64::MAX)
            .min(left_out.0.map_or(i64::MAX, |since| since.as_millis().saturating_sub(1)));
        let tools = |filter: &Filter| filter.tools.iter().map(|name| tool_number(name)).collect();
        let is_side = |filter: &Filter| filter.states.contains(&SessionState::SideChain);
        let is_failed = |filter: &Filter| filter.states.contains(&SessionState::Failed);
        Ok(SessionCollector {
            only,
            shared: Arc::new(shared.collect()),
            hidden: Arc::new(self.store.hidden_recordings()?.into_iter().collect()),
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

    /// Keeps the matches whose messages really match; returns the number of messages not tried.
    fn try_on_messages(
        &self,
        clauses: &[Clause],
        groups: &mut Vec<MatchGroup>,
        places: &MatchPlaces,
    ) -> Result<u64> {
        groups.sort_by_cached_key(|group| (Reverse(rank(group.score())), group.recording));
        let mut left = TRIED;
        let mut untried = 0;
        for group in groups.iter_mut() {
            self.stop.check_interrupted()?;
            let tried = group.best.len().min(left);
            untried += (group.best.len() - tried) as u64;
            left -= tried;
            group.best.truncate(tried);
            let positions = group.best.iter().filter_map(|one| places.text(one).position).collect();
            let messages = self.store.messages_at(group.recording, &positions)?;
            let messages: HashMap<u64, Message> = messages.into_iter().collect();
            let mut kept: Vec<PassageMatch> = Vec::new();
            for one in &group.best {
                self.stop.check_interrupted()?;
                let LocatedText { position, kind, .. } = places.text(one);
                let texts: Vec<String> = match position {
                    Some(position) => {
                        messages.get(&position).map(|it| text_of(it, kind)).into_iter().collect()
                    }
                    None => self.whole_texts(group.recording, kind)?,
                };
                let is_known = kept.iter().any(|known| places.are_same(known, one));
                if !is_known && texts.iter().any(|text| CheckedText::new(text).fits(clauses)) {
                    kept.push(*one);
                }
            }
            group.count = kept.len() as u64;
            group.best = kept;
        }
        groups.retain(|group| group.count > 0);
        Ok(untried)
    }

    /// Reads the texts of a kind that are about a whole session.
    pub(super) fn whole_texts(&self, recording: u64, kind: TextKind) -> Result<Vec<String>> {
        if kind == TextKind::Title {
            let mut entries = self.store.sessions_by_recording(&[recording], self.now)?;
            return Ok(entries.remove(&recording).map(|entry| entry.title).into_iter().collect());
        }
        self.store.documents(recording)
    }

    /// Groups the matches into results and sorts them.
    fn arrange(
        &self,
        groups: Vec<MatchGroup>,
        options: &SearchOptions,
        keep: usize,
        order: ResultOrder<'_>,
    ) -> Result<Vec<MatchGroup>> {
        let mut groups = match options.grouping {
            Grouping::Session => {
                let recordings: Vec<u64> = groups.iter().map(|group| group.recording).collect();
                group_by_task(groups, &self.store.tasks(&recordings)?, keep, order.places)
            }
            Grouping::Message => groups.into_iter().flat_map(MatchGroup::apart).collect(),
        };
        order.apply(&mut groups);
        if options.sort == Sort::Relevance {
            let wanted = options.offset.saturating_add(options.limit);
            order.apply(demote_duplicates(&mut groups, wanted, order.places));
        }
        Ok(groups)
    }
}

impl Search<'_> {
    /// Searches for all words, then for word forms, corrected words and some of the words.
    fn by_words(
        &self,
        query: &Query,
        options: &SearchOptions,
        words: WordSearch<'_>,
        progress: &mut SearchProgress,
    ) -> Result<()> {
        let clauses = &query.clauses;
        let all = words.compiler.all(clauses).map_err(self.error())?;
        let name = if query.has_regex() { "regular expression" } else { "all words" };
        self.take(WordStep { name, tier: Tier::AllWords, clauses, query: all }, words, progress)?;
        if query.has_regex() {
            return Ok(());
        }
        let wanted = (options.offset + options.limit).max(SCREEN);
        if progress.groups.len() < wanted {
            self.in_other_forms(words, progress)?;
        }
        let is_corrected = progress.groups.is_empty() && self.corrected(words, progress)?;
        let found = progress.groups.len();
        let is_little = found == 0 || is_corrected && found < FEW;
        if is_little || progress.is_question && found < wanted {
            self.some_of_them(words, progress)?;
        }
        Ok(())
    }

    /// Searches for all words in any form that is in the index.
    fn in_other_forms(&self, words: WordSearch<'_>, progress: &mut SearchProgress) -> Result<()> {
        let forms = words.compiler.with_word_forms(&progress.clauses).map_err(self.error())?;
        let Some(forms) = forms else { return Ok(()) };
        let query = words.compiler.all(&forms).map_err(self.error())?;
        let known = progress.groups.len();
        let step = WordStep { name: "word forms", tier: Tier::WordForms, clauses: &forms, query };
        self.take(step, words, progress)?;
        for one in progress.groups[known..].iter_mut().flat_map(|group| &mut group.best) {
            one.score *= OTHER_FORMS;
        }
        progress.marked = forms;
        Ok(())
    }

    /// Replaces words that are not in the index by the nearest ones and searches for those; returns
    /// whether any word was corrected.
    fn corrected(&self, words: WordSearch<'_>, progress: &mut SearchProgress) -> Result<bool> {
        let (clauses, corrections) =
            words.compiler.corrected(&progress.clauses).map_err(self.error())?;
        (progress.clauses, progress.marked) = (clauses.clone(), clauses);
        if corrections.is_empty() {
            return Ok(false);
        }
        progress.answer.corrected = corrections;
        let clauses = &progress.clauses.clone();
        let query = words.compiler.all(clauses).map_err(self.error())?;
        self.take(WordStep { name: "typo", tier: Tier::Typo, clauses, query }, words, progress)?;
        Ok(true)
    }

    /// Searches for some of the words. A short query also matches other word forms; a question has
    /// enough words without them.
    fn some_of_them(&self, words: WordSearch<'_>, progress: &mut SearchProgress) -> Result<()> {
        for one in progress.groups.iter_mut().flat_map(|group| &mut group.best) {
            one.score *= ALL_WORDS;
        }
        let mut clauses = progress.clauses.clone();
        if !progress.is_question
            && let Some(forms) = words.compiler.with_word_forms(&clauses).map_err(self.error())?
        {
            progress.marked.clone_from(&forms);
            clauses = forms;
        }
        let query = words.compiler.some(&clauses).map_err(self.error())?;
        let step = WordStep { name: "some words", tier: Tier::SomeWords, clauses: &clauses, query };
        // A long document contains some of any words.
        let collector =
            Arc::new(SessionCollector { document_lengths: None, ..(**words.collector).clone() });
        self.take(step, WordSearch { collector: &collector, ..words }, progress)
    }

    /// Runs one step and adds the sessions that were not found before.
    fn take(
        &self,
        step: WordStep<'_>,
        words: WordSearch<'_>,
        progress: &mut SearchProgress,
    ) -> Result<()> {
        let started = Instant::now();
        let WordStep { name, tier, clauses, query } = step;
        // The compiled query may be incomplete once the flag is set.
        self.stop.check_interrupted()?;
        let Some(query) = query else { return Ok(()) };
        let found = parallel::collect_matches(
            &*query,
            words.compiler.statistics,
            words.collector,
            self.helper,
        );
        let mut groups = found.map_err(self.error())?;
        self.stop.check_interrupted()?;
        if clauses.iter().any(Clause::has_regex) {
            progress.answer.untried =
                self.try_on_messages(clauses, &mut groups, &progress.places)?;
        }
        if !progress.groups.is_empty() {
            let known: Set<u64> = progress.groups.iter().map(|group| group.recording).collect();
            groups.retain(|group| !known.contains(&group.recording));
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
        // The first step finds most of the groups, which need not be copied.
        if progress.groups.is_empty() {
            progress.groups = groups;
        } else {
            progress.groups.extend(groups);
        }
        Ok(())
    }
}

/// Returns whether a query is a question as people type it: plain words only, and many.
fn is_question(clauses: &[Clause]) -> bool {
    let is_word = |clause: &&Clause| matches!(clause.pattern, Pattern::Word(_));
    clauses.iter().filter(is_word).count() >= QUESTION && deciding(clauses).len() >= 2
}

/// The order of the results.
#[derive(Clone, Copy)]
struct ResultOrder<'p> {
    sort: Sort,
    is_question: bool,
    places: &'p MatchPlaces,
}

impl ResultOrder<'_> {
    /// Sorts the groups by tier and score, or by time.
    fn apply(self, groups: &mut [MatchGroup]) {
        let step = |group: &MatchGroup| if self.is_question { 0 } else { group.tier.step() };
        match self.sort {
            Sort::Relevance => groups.sort_by_cached_key(|group| {
                (step(group), Reverse(rank(group.score())), group.recording)
            }),
            Sort::Time => {
                groups
                    .sort_by_cached_key(|group| (Reverse(group.at(self.places)), group.recording));
            }
        }
    }
}
