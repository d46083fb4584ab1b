//! Answers queries that consist of fields only: all matches are listed, the latest first. No text
//! is compared, so there is no ranking.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::answer::{Answer, Found, Grouping, SearchOptions, Tier};
use super::collector::{MatchGroup, PassageMatch, SessionCollector};
use super::places::{MatchPlace, MatchPlaces};
use super::present::QueryWording;
use super::run::Search;
use super::{ChosenSessions, Filter, SessionState};
use crate::error::Result;
use crate::index::{PassageColumns, RankKey};
use crate::maps::{Map, Set};
use crate::model::{Block, Message, Timestamp};
use crate::store::Store;

/// The maximum distance between a tool call and its result, in messages.
const CALL_BEFORE: u64 = 64;

/// A listed message: its time, recording, position, segment and document.
type ListedMessage = (i64, u64, u64, u16, u32);

/// The messages that a filter selects.
struct MessageListing {
    /// The latest messages, at most as many as are wanted, unsorted.
    latest: BinaryHeap<Reverse<ListedMessage>>,
    /// The number of messages per recording.
    counts: Map<u64, u64>,
}

/// Lists the sessions that a filter selects by facts about whole sessions.
pub(crate) fn list_sessions(
    store: &Store,
    filter: &Filter,
    options: &SearchOptions,
    now: Timestamp,
) -> Result<Answer> {
    let wanted = options.offset.saturating_add(options.limit);
    let entries = store.sessions(filter, Some(wanted), now)?;
    let found =
        |entry| Found { entry, tier: Tier::Listed, score: 0.0, hits: Vec::new(), matches: 0 };
    let mut answer = Answer {
        tier: Tier::Listed,
        grouping: Grouping::Session,
        total: store.count(filter)?,
        sessions: entries.into_iter().skip(options.offset).map(found).collect(),
        ..Answer::default()
    };
    if !options.facets.is_empty() {
        let recordings = store.chosen_recordings(filter)?;
        let counts = recordings.into_iter().map(|recording| (recording, 1)).collect();
        answer.facets = super::facets::count(store, &counts, options)?;
    }
    Ok(answer)
}

impl Search<'_> {
    /// Lists the messages that a filter selects, the latest first.
    pub(crate) fn list_messages(&self, filter: &Filter, options: &SearchOptions) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let places = MatchPlaces::of(&searcher).map_err(self.error())?;
        let wanted = options.offset.saturating_add(options.limit);
        let collector = self.collector(filter, wanted, places.clone())?;
        let listing = self.scan(&collector);
        self.stop.check_interrupted()?;
        let mut answer = Answer {
            grouping: Grouping::Message,
            total: listing.counts.values().sum(),
            facets: super::facets::count(self.store, &listing.counts, options)?,
            ..Answer::default()
        };
        let mut latest = listing.latest.into_vec();
        latest.sort_unstable();
        let shown = latest.into_iter().skip(options.offset).take(options.limit);
        let shown: Vec<ListedMessage> = shown.map(|Reverse(listed)| listed).collect();
        let recordings: Vec<u64> = shown.iter().map(|(_, recording, ..)| *recording).collect();
        let tasks = self.store.tasks(&recordings)?;
        let group = |(_, recording, _, part, document): ListedMessage| {
            let tag = RankKey::unpack(places.part(part).traits.get_val(document)).message_tag();
            let place = MatchPlace::Passage { part, document, tag };
            let task = tasks.get(&recording).copied().unwrap_or(recording);
            let best = vec![PassageMatch { score: 0.0, place }];
            MatchGroup { count: 1, best, ..MatchGroup::new(task, Tier::Listed) }
        };
        let page: Vec<MatchGroup> = shown.into_iter().map(group).collect();
        let nothing = QueryWording { typed: &[], marked: &[], is_mixed: false };
        self.present(&page, &places, nothing, options, &mut answer)?;
        if filter.states.contains(&SessionState::Failed) {
            self.add_calls(&mut answer)?;
        }
        answer.tier = Tier::Listed;
        Ok(answer)
    }

    /// Selects sessions by their messages: those with a wanted message, without those with an
    /// excluded one.
    pub(crate) fn choose_sessions(&self, filter: &Filter) -> Result<ChosenSessions> {
        let mut chosen = ChosenSessions::default();
        let wanted = Filter { not: None, ..filter.clone() };
        if wanted.selects_messages() {
            chosen.with = Some(self.sessions_with(&wanted)?);
        }
        for one in filter.not.iter().flat_map(|not| apart(not)) {
            chosen.without.extend(self.sessions_with(&one)?);
        }
        Ok(chosen)
    }

    fn sessions_with(&self, filter: &Filter) -> Result<Set<u64>> {
        let places = MatchPlaces::of(&self.lexical.searcher()).map_err(self.error())?;
        let collector = self.collector(filter, 0, places)?;
        let found = self.scan(&collector).counts;
        self.stop.check_interrupted()?;
        Ok(found.into_keys().collect())
    }

    /// Scans every passage and keeps as many of the latest messages as the collector allows. Stops
    /// early when the search is cancelled.
    fn scan(&self, collector: &SessionCollector) -> MessageListing {
        let searcher = self.lexical.searcher();
        let weights = collector.weights();
        let mut listing = MessageListing { latest: BinaryHeap::new(), counts: Map::default() };
        // Whether a session may be shown, and the last of its messages that was counted.
        let mut known: Map<u64, Option<u64>> = Map::default();
        for (part, segment) in searcher.segment_readers().iter().enumerate() {
            let columns: &PassageColumns = collector.places.part(part as u16);
            for document in 0..segment.max_doc() {
                if collector.stop.is_interrupted() {
                    return listing;
                }
                let rank_key = RankKey::unpack(columns.traits.get_val(document));
                if weights[rank_key.class_index()] == 0.0
                    || segment.is_deleted(document)
                    || !collector.wants(columns, document)
                {
                    continue;
                }
                let recording = columns.recording.get_val(document);
                let last = known
                    .entry(recording)
                    .or_insert_with(|| collector.allows(recording).then_some(u64::MAX));
                let Some(last) = last else { continue };
                // Passages of one message are adjacent.
                let position = columns.position.get_val(document);
                if *last == position {
                    continue;
                }
                *last = position;
                *listing.counts.entry(recording).or_default() += 1;
                let at = columns.at.get_val(document);
                listing.keep((at, recording, position, part as u16, document), collector.keep);
            }
        }
        listing
    }

    /// Prepends the tool call to the output of a failed tool: users want to see which call failed.
    fn add_calls(&self, answer: &mut Answer) -> Result<()> {
        for found in &mut answer.sessions {
            let task = found.entry.recording;
            for hit in &mut found.hits {
                let recording = hit.within.as_ref().map_or(task, |entry| entry.recording);
                let (Some(position), Some(message)) = (hit.position, &hit.message) else {
                    continue;
                };
                let call = self.call_of(recording, position, message)?;
                let Some(call) = call else { continue };
                let said = if hit.snippet.text.is_empty() {
                    call
                } else {
                    format!("{call} → {}", hit.snippet.text)
                };
                hit.snippet = super::snippet::beginning(&said);
            }
        }
        Ok(())
    }

    /// Returns the call whose result is the first failure in a message, as one text.
    fn call_of(&self, recording: u64, position: u64, message: &Message) -> Result<Option<String>> {
        let failed = message.blocks.iter().find_map(|block| match block {
            Block::ToolResult { call_id, is_error: Some(true), .. } => Some(call_id),
            _ => None,
        });
        let Some(failed) = failed else { return Ok(None) };
        let before = position.saturating_sub(CALL_BEFORE)..position + 1;
        let messages = self.store.messages(recording, before)?;
        let mut blocks = messages.iter().rev().flat_map(|(_, message)| &message.blocks);
        Ok(blocks.find_map(|block| match block {
            Block::ToolCall { id, name, input } if id == failed => {
                let mut text = name.clone();
                input.visit_strings(&mut |part| {
                    text.push(' ');
                    text.push_str(part);
                });
                Some(super::snippet::beginning(&text).text)
            }
            _ => None,
        }))
    }
}

impl MessageListing {
    fn keep(&mut self, listed: ListedMessage, most: usize) {
        if self.latest.len() < most {
            self.latest.push(Reverse(listed));
        } else if self.latest.peek().is_some_and(|Reverse(oldest)| *oldest < listed) {
            self.latest.pop();
            self.latest.push(Reverse(listed));
        }
    }
}

/// Splits the conditions on messages into one filter each: a session that matches any of them is
/// excluded.
fn apart(not: &Filter) -> Vec<Filter> {
    let all = || Filter { side_chains: true, ..Filter::default() };
    let mut apart = Vec::new();
    if !not.roles.is_empty() {
        apart.push(Filter { roles: not.roles.clone(), ..all() });
    }
    if !not.kinds.is_empty() {
        apart.push(Filter { kinds: not.kinds.clone(), ..all() });
    }
    for state in [SessionState::SideChain, SessionState::Failed] {
        if not.states.contains(&state) {
            apart.push(Filter { states: vec![state], ..all() });
        }
    }
    apart
}
