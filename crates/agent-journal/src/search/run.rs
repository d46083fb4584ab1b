//! Runs a query in steps, from close matches to loose ones.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, TantivyError, Term};

use super::answer::{Answer, Grouping, Mode, SearchOptions, Sort, Stage, Tier};
use super::collector::{BEST, MatchGroup, PassageMatch, SessionCollector, rank};
use super::document_length::DocumentLengths;
use super::engine::{QueryCompiler, deciding};
use super::group::{demote_duplicates, group_by_task};
use super::places::{LocatedText, MatchPlaces};
use super::present::QueryWording;
use super::query::{Clause, Pattern, Query, join};
use super::session_score::{ScoredWord, score_sessions};
use super::statistics::Statistics;
use super::verify::CheckedText;
use super::{Filter, Scope, SessionState, parallel};
use crate::error::{Error, Result};
use crate::filter::TextKind;
use crate::index::{Lexical, PassageFingerprint, SemanticReader, text_of, tool_number};
use crate::interrupt::StopFlag;
use crate::maps::{Map, Set};
use crate::model::{Message, Timestamp};
use crate::store::Store;
use crate::work_share::WorkShare;

/// The maximum number of messages on which a regular expression is tried, the best candidates
/// first.
const TRIED: usize = 50_000;

/// The number of words from which a query counts as a question: a text with most of the words in a
/// prominent place is then better than one with all of them anywhere.
const QUESTION: usize = 4;

/// The number of the results with the whole text as it was typed from which nothing else is
/// searched.
const VERBATIM: usize = 20;

/// The minimum number of sessions to find for a question, however few are shown.
const SCREEN: usize = 20;

/// The weight of the score of a whole session beside that of its best message.
const SESSION_WEIGHT: f32 = 0.5;

/// The number of sessions that are scored as a whole, the best first.
const SCORED_SESSIONS: usize = 100;

/// Score factor for texts with all words of a long query that is not worded as a question: a line of
/// output or a list of words is remembered as it was, a question is not.
const ALL_WORDS: f32 = 2.0;

/// Words that a question contains.
const QUESTION_WORDS: [&str; 7] = ["how", "what", "when", "where", "which", "who", "why"];

/// Words that a question begins with.
const QUESTION_BEGINNINGS: [&str; 13] = [
    "are", "can", "could", "did", "do", "does", "has", "have", "is", "was", "were", "will", "would",
];

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
    /// Whether the query is worded as a question: `how did …`.
    is_asked: bool,
    /// Whether results with all words may show messages with some of them.
    pub(super) is_mixed: bool,
    /// The words of a question, for scoring whole sessions.
    scored_words: Vec<ScoredWord>,
    /// The similarity of the text that is nearest in meaning, if meanings were compared.
    pub(super) nearest: Option<f32>,
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
        let recording = self.lexical.recording();
        let compiler = QueryCompiler { field, recording, statistics: &statistics, stop: self.stop };
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
            is_asked: is_asked(&query.clauses),
            is_mixed: false,
            scored_words: Vec::new(),
            nearest: None,
        };
        if options.mode != Mode::Semantic {
            let words = WordSearch { compiler: &compiler, collector: &collector };
            self.by_words(query, options, words, &mut progress)?;
            if progress.is_question && options.grouping == Grouping::Session {
                self.score_whole_sessions(words, &mut progress)?;
            }
        }
        if options.mode != Mode::Lexical {
            self.by_meaning(query, options, &collector, &mut progress)?;
        }
        let groups = std::mem::take(&mut progress.groups);
        let order = ResultOrder {
            sort: options.sort,
            is_question: progress.is_question,
            places: &progress.places,
        };
        let mut groups = self.arrange(groups, options, collector.keep, order)?;
        if !self.is_close(&compiler, &groups, &progress)? {
            let distant: Set<u64> = groups.iter().map(|group| group.recording).collect();
            progress.answer.distant = distant.len() as u64;
            groups.clear();
        }
        let SearchProgress { places, mut answer, marked, is_mixed, .. } = progress;
        answer.total = groups.len() as u64;
        answer.facets = self.facets(&groups, options)?;
        let page: Vec<MatchGroup> =
            groups.into_iter().skip(options.offset).take(options.limit).collect();
        let wording = QueryWording { typed: &query.clauses, marked: &marked, is_mixed };
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

    /// Returns the fingerprints of all longer texts of a recording; none if they cannot be read.
    fn fingerprints(&self, recording: u64, places: &MatchPlaces) -> Vec<u32> {
        let searcher = self.lexical.searcher();
        let field = self.lexical.recording();
        let mut found = Vec::new();
        for (part, segment) in searcher.segment_readers().iter().enumerate() {
            let term = Term::from_field_u64(field, recording);
            let passages = segment.inverted_index(field);
            let passages =
                passages.and_then(|it| Ok(it.read_postings(&term, IndexRecordOption::Basic)?));
            let Ok(Some(mut passages)) = passages else { continue };
            while passages.doc() != TERMINATED {
                let likeness = places.part(part as u16).likeness.get_val(passages.doc());
                if !segment.is_deleted(passages.doc()) {
                    found.push(PassageFingerprint::unpack(likeness).fingerprint);
                }
                passages.advance();
            }
        }
        found.retain(|fingerprint| *fingerprint != 0);
        found
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
            let fingerprints_of = |recording: u64| self.fingerprints(recording, order.places);
            let compared = demote_duplicates(&mut groups, wanted, order.places, &fingerprints_of);
            order.apply(compared);
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
        // The parts of a single identifier are searched together anyway.
        if query.is_verbatim
            && clauses.len() > 1
            && let Some(query) = words.compiler.verbatim(clauses)
        {
            let tier = Tier::ExactPhrase;
            let step = WordStep { name: "as it stands", tier, clauses, query: Some(query) };
            self.take(step, words, progress)?;
            if progress.groups.len() >= VERBATIM.max(options.offset + options.limit) {
                return Ok(());
            }
        }
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
        if progress.groups.is_empty() {
            self.corrected(words, progress)?;
        }
        let found = progress.groups.len();
        let is_corrected = !progress.answer.corrected.is_empty();
        if found == 0 || is_corrected && found < FEW || progress.is_question {
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

    /// Replaces words that are not in the index by the nearest ones, and searches for all of those.
    fn corrected(&self, words: WordSearch<'_>, progress: &mut SearchProgress) -> Result<()> {
        let (clauses, corrections) =
            words.compiler.corrected(&progress.clauses).map_err(self.error())?;
        (progress.clauses, progress.marked) = (clauses.clone(), clauses);
        if corrections.is_empty() {
            return Ok(());
        }
        progress.answer.corrected = corrections;
        let clauses = &progress.clauses.clone();
        let query = words.compiler.all(clauses).map_err(self.error())?;
        self.take(WordStep { name: "typo", tier: Tier::Typo, clauses, query }, words, progress)
    }

    /// Searches for some of the words, in any form. Results that were found before are ranked like
    /// the others and keep their tier.
    fn some_of_them(&self, words: WordSearch<'_>, progress: &mut SearchProgress) -> Result<()> {
        let clauses = progress.clauses.clone();
        let some = words.compiler.some(&clauses).map_err(self.error())?;
        if let Some(forms) = words.compiler.with_word_forms(&clauses).map_err(self.error())? {
            progress.marked = forms;
        }
        let Some(some) = some else { return Ok(()) };
        progress.scored_words = some.words;
        let query = Some(some.query);
        let step = WordStep { name: "some words", tier: Tier::SomeWords, clauses: &clauses, query };
        // A long document contains some of any words.
        let collector =
            Arc::new(SessionCollector { document_lengths: None, ..(**words.collector).clone() });
        let words = WordSearch { collector: &collector, ..words };
        if !progress.is_question {
            return self.take(step, words, progress);
        }
        let before = std::mem::take(&mut progress.groups);
        self.take(step, words, progress)?;
        progress.rejoin(before, collector.keep);
        Ok(())
    }

    /// Adds the score of each session as a whole to that of its best message.
    fn score_whole_sessions(
        &self,
        words: WordSearch<'_>,
        progress: &mut SearchProgress,
    ) -> Result<()> {
        if progress.scored_words.len() < 2 {
            return Ok(());
        }
        let mut best: Vec<(f32, u64)> =
            progress.groups.iter().map(|group| (group.score(), group.recording)).collect();
        best.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        best.truncate(SCORED_SESSIONS);
        let Some((best_score, _)) = best.first().copied().filter(|first| first.0 > 0.0) else {
            return Ok(());
        };
        let recordings: Vec<u64> = best.iter().map(|(_, recording)| *recording).collect();
        let asked = &progress.scored_words;
        let scores = score_sessions(words.compiler, &progress.places, asked, &recordings);
        let scores = scores.map_err(self.error())?;
        let highest = scores.values().copied().fold(f32::MIN_POSITIVE, f32::max);
        for group in &mut progress.groups {
            let session = scores.get(&group.recording).map_or(0.0, |score| score / highest);
            group.worth = Some(group.score() / best_score + SESSION_WEIGHT * session);
        }
        Ok(())
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

impl SearchProgress {
    /// Puts back the results of earlier steps, which the last step found again with other scores.
    fn rejoin(&mut self, before: Vec<MatchGroup>, keep: usize) {
        let by_recording: Map<u64, usize> =
            self.groups.iter().enumerate().map(|(at, group)| (group.recording, at)).collect();
        for mut group in before {
            let Some(at) = by_recording.get(&group.recording) else {
                self.groups.push(group);
                continue;
            };
            let known = &mut self.groups[*at];
            known.tier = group.tier;
            // Documents that have all words were scored as if they were short; of the others, the
            // new score counts.
            let places = &self.places;
            let is_document = |one: &PassageMatch| places.text(one).kind == TextKind::Document;
            if group.tier == Tier::ExactPhrase {
                *known = group;
                continue;
            }
            if self.is_asked {
                group.best.retain(is_document);
            }
            for one in group.best.iter_mut().filter(|one| !is_document(one)) {
                let again = known.best.iter().find(|again| places.are_same(again, one));
                one.score = again.map_or(one.score, |again| again.score) * ALL_WORDS;
            }
            group.count = group.best.len() as u64;
            known.join(group, keep, &self.places);
        }
        self.is_mixed = true;
    }
}

/// Returns whether a query is a question as people type it: plain words only, and many.
fn is_question(clauses: &[Clause]) -> bool {
    let is_word = |clause: &&Clause| matches!(clause.pattern, Pattern::Word(_));
    clauses.iter().filter(is_word).count() >= QUESTION && deciding(clauses).len() >= 2
}

/// Returns whether a query is worded as a question, not as a line of output or a list of words.
fn is_asked(clauses: &[Clause]) -> bool {
    let mut words = clauses.iter().filter_map(|clause| match &clause.pattern {
        Pattern::Word(text) if !clause.negated => Some(text.to_lowercase()),
        _ => None,
    });
    let is_one_of = |word: &str, list: &[&str]| list.contains(&word);
    let Some(first) = words.next() else { return false };
    is_one_of(&first, &QUESTION_BEGINNINGS)
        || is_one_of(&first, &QUESTION_WORDS)
        || words.any(|word| is_one_of(&word, &QUESTION_WORDS))
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
        let step = |group: &MatchGroup| match group.tier {
            Tier::ExactPhrase => 0,
            _ if self.is_question => 1,
            tier => tier.step(),
        };
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
