//! Answers queries of fields alone: what fits is listed, the latest first. Nothing is compared, so
//! nothing is ranked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::answer::{Answer, Found, Grouping, Options, Tier};
use super::filter::ChosenSessions;
use super::gather::{Gather, Group, Match};
use super::places::{Place, Places};
use super::present::Wording;
use super::run::Search;
use super::{Filter, State};
use crate::error::Result;
use crate::index::{Columns, Traits};
use crate::maps::{Map, Set};
use crate::model::{Block, Message, Timestamp};
use crate::store::Store;

/// As far before a result its call is looked for, in messages.
const CALL_BEFORE: u64 = 64;

/// Where a message is: when it was recorded, its session and position, then its passage.
type Listed = (i64, u64, u64, u16, u32);

/// The messages a filter chooses.
struct Listing {
    /// The latest, at most as many as are wanted, in no order.
    latest: BinaryHeap<Reverse<Listed>>,
    /// How many there are of each session.
    counts: Map<u64, u64>,
}

/// Lists the sessions that a filter chooses by facts of whole sessions.
pub(crate) fn list_sessions(
    store: &Store,
    filter: &Filter,
    options: &Options,
    now: Timestamp,
) -> Result<Answer> {
    let wanted = options.offset.saturating_add(options.limit);
    let entries = store.sessions(filter, Some(wanted), now)?;
    let found =
        |entry| Found { entry, tier: Tier::Listed, score: 0.0, hits: Vec::new(), matches: 0 };
    let mut answer = Answer {
        tier: Tier::Listed,
        group: Grouping::Session,
        total: store.count(filter)?,
        sessions: entries.into_iter().skip(options.offset).map(found).collect(),
        ..Answer::default()
    };
    if !options.facets.is_empty() {
        let tellings = store.chosen_tellings(filter)?;
        let counts = tellings.into_iter().map(|telling| (telling, 1)).collect();
        answer.facets = super::facets::count(store, &counts, options)?;
    }
    Ok(answer)
}

impl Search<'_> {
    /// Lists the messages that a filter chooses, the latest first.
    pub(crate) fn list_messages(&self, filter: &Filter, options: &Options) -> Result<Answer> {
        let searcher = self.lexical.searcher();
        let places = Places::of(&searcher).map_err(self.error())?;
        let wanted = options.offset.saturating_add(options.limit);
        let gather = self.gather(filter, wanted, places.clone())?;
        let listing = self.scan(&gather);
        self.stop.check()?;
        let mut answer = Answer {
            group: Grouping::Message,
            total: listing.counts.values().sum(),
            facets: super::facets::count(self.store, &listing.counts, options)?,
            ..Answer::default()
        };
        let mut latest = listing.latest.into_vec();
        latest.sort_unstable();
        let shown = latest.into_iter().skip(options.offset).take(options.limit);
        let shown: Vec<Listed> = shown.map(|Reverse(listed)| listed).collect();
        let tellings: Vec<u64> = shown.iter().map(|(_, telling, ..)| *telling).collect();
        let tasks = self.store.tasks(&tellings)?;
        let group = |(_, telling, _, part, document): Listed| {
            let mark = Traits::unpack(places.part(part).traits.get_val(document)).mark();
            let place = Place::Passage { part, document, mark };
            let task = tasks.get(&telling).copied().unwrap_or(telling);
            let best = vec![Match { score: 0.0, place }];
            Group { count: 1, best, ..Group::new(task, Tier::Listed) }
        };
        let page: Vec<Group> = shown.into_iter().map(group).collect();
        let nothing = Wording { typed: &[], marked: &[] };
        self.present((&page, &places), nothing, options, &mut answer)?;
        if filter.states.contains(&State::Failed) {
            self.add_calls(&mut answer)?;
        }
        answer.tier = Tier::Listed;
        Ok(answer)
    }

    /// Chooses sessions by their messages: those that have one that is wanted, without those that
    /// have one that is not.
    pub(crate) fn choose_sessions(&self, filter: &Filter) -> Result<ChosenSessions> {
        let mut chosen = ChosenSessions::default();
        let wanted = Filter { not: None, ..filter.clone() };
        if wanted.message_field().is_some() {
            chosen.with = Some(self.sessions_with(&wanted)?);
        }
        for one in filter.not.iter().flat_map(|not| apart(not)) {
            chosen.without.extend(self.sessions_with(&one)?);
        }
        Ok(chosen)
    }

    fn sessions_with(&self, filter: &Filter) -> Result<Set<u64>> {
        let places = Places::of(&self.lexical.searcher()).map_err(self.error())?;
        let gather = self.gather(filter, 0, places)?;
        let found = self.scan(&gather).counts;
        self.stop.check()?;
        Ok(found.into_keys().collect())
    }

    /// Looks at every passage; as many of the latest messages are kept as `gather` says. Once the
    /// answer is abandoned, the rest is passed over.
    fn scan(&self, gather: &Gather) -> Listing {
        let searcher = self.lexical.searcher();
        let weights = gather.weights();
        let mut listing = Listing { latest: BinaryHeap::new(), counts: Map::default() };
        // Whether a session may be shown, and the last of its messages that was counted.
        let mut known: Map<u64, Option<u64>> = Map::default();
        for (part, segment) in searcher.segment_readers().iter().enumerate() {
            let columns: &Columns = gather.places.part(part as u16);
            for document in 0..segment.max_doc() {
                if gather.stop.is_set() {
                    return listing;
                }
                let traits = Traits::unpack(columns.traits.get_val(document));
                if weights[traits.sort()] == 0.0
                    || segment.is_deleted(document)
                    || !gather.wants(columns, document)
                {
                    continue;
                }
                let telling = columns.telling.get_val(document);
                let last = known
                    .entry(telling)
                    .or_insert_with(|| gather.allows(telling).then_some(u64::MAX));
                let Some(last) = last else { continue };
                // Passages of one message follow each other.
                let position = columns.position.get_val(document);
                if *last == position {
                    continue;
                }
                *last = position;
                *listing.counts.entry(telling).or_default() += 1;
                let at = columns.at.get_val(document);
                listing.keep((at, telling, position, part as u16, document), gather.keep);
            }
        }
        listing
    }

    /// Puts the call before what a failing tool returned: the question is which one failed.
    fn add_calls(&self, answer: &mut Answer) -> Result<()> {
        for found in &mut answer.sessions {
            let task = found.entry.telling;
            for hit in &mut found.hits {
                let telling = hit.within.as_ref().map_or(task, |entry| entry.telling);
                let (Some(position), Some(message)) = (hit.position, &hit.message) else {
                    continue;
                };
                let call = self.call_of(telling, position, message)?;
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

    /// The call whose result is the first failure in a message, as one text.
    fn call_of(&self, telling: u64, position: u64, message: &Message) -> Result<Option<String>> {
        let failed = message.blocks.iter().find_map(|block| match block {
            Block::ToolResult { call_id, is_error: Some(true), .. } => Some(call_id),
            _ => None,
        });
        let Some(failed) = failed else { return Ok(None) };
        let before = position.saturating_sub(CALL_BEFORE)..position + 1;
        let messages = self.store.messages(telling, before)?;
        let mut blocks = messages.iter().rev().flat_map(|(_, message)| &message.blocks);
        Ok(blocks.find_map(|block| match block {
            Block::ToolCall { id, name, input } if id == failed => {
                let mut text = name.clone();
                input.strings(&mut |part| {
                    text.push(' ');
                    text.push_str(part);
                });
                Some(super::snippet::beginning(&text).text)
            }
            _ => None,
        }))
    }
}

impl Listing {
    fn keep(&mut self, listed: Listed, most: usize) {
        if self.latest.len() < most {
            self.latest.push(Reverse(listed));
        } else if self.latest.peek().is_some_and(|Reverse(oldest)| *oldest < listed) {
            self.latest.pop();
            self.latest.push(Reverse(listed));
        }
    }
}

/// Takes apart what a filter asks of messages: whatever fits any of it is left out.
fn apart(not: &Filter) -> Vec<Filter> {
    let all = || Filter { side_chains: true, ..Filter::default() };
    let mut apart = Vec::new();
    if !not.roles.is_empty() {
        apart.push(Filter { roles: not.roles.clone(), ..all() });
    }
    if !not.kinds.is_empty() {
        apart.push(Filter { kinds: not.kinds.clone(), ..all() });
    }
    for state in [State::SideChain, State::Failed] {
        if not.states.contains(&state) {
            apart.push(Filter { states: vec![state], ..all() });
        }
    }
    apart
}
