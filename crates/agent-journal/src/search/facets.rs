//! Counts results by agent, project, model and month.

use jiff::tz::TimeZone;

use super::answer::{Counts, Facet, SearchOptions};
use super::collector::MatchGroup;
use super::run::Search;
use crate::error::Result;
use crate::maps::Map;
use crate::model::Timestamp;
use crate::store::{Facts, Store};

/// The maximum number of values per facet; the most frequent ones are kept.
const MOST: usize = 20;

/// The label for results without a value.
const UNKNOWN: &str = "–";

impl Search<'_> {
    pub(super) fn facets(
        &self,
        groups: &[MatchGroup],
        options: &SearchOptions,
    ) -> Result<Vec<(Facet, Counts)>> {
        if options.facets.is_empty() {
            return Ok(Vec::new());
        }
        let mut results: Map<u64, u64> = Map::default();
        for group in groups {
            *results.entry(group.recording).or_default() += 1;
        }
        count(self.store, &results, options)
    }
}

/// Counts results by facet, given the number of results of each recording.
pub(super) fn count(
    store: &Store,
    results: &Map<u64, u64>,
    options: &SearchOptions,
) -> Result<Vec<(Facet, Counts)>> {
    if options.facets.is_empty() {
        return Ok(Vec::new());
    }
    let mut tally = vec![Map::default(); options.facets.len()];
    let mut months = Months { zone: &options.zone, names: Map::default() };
    for facts in store.facts()?.iter() {
        let Some(results) = results.get(&facts.recording) else { continue };
        for (facet, counts) in options.facets.iter().zip(&mut tally) {
            add(counts, value(*facet, facts, &mut months), *results);
        }
    }
    let facets = options.facets.iter().copied().zip(tally);
    Ok(facets.map(|(facet, counts)| (facet, ordered(facet, counts))).collect())
}

fn add(counts: &mut Map<String, u64>, value: &str, results: u64) {
    match counts.get_mut(value) {
        Some(count) => *count += results,
        None => drop(counts.insert(value.to_owned(), results)),
    }
}

fn ordered(facet: Facet, mut counts: Map<String, u64>) -> Counts {
    if facet == Facet::Model {
        counts = by_first(counts);
    }
    let mut counts: Counts = counts.into_iter().collect();
    match facet {
        Facet::Month => counts.sort_by(|a, b| b.0.cmp(&a.0)),
        _ => counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))),
    }
    counts.truncate(MOST);
    counts
}

/// Sums counts by the first entry of each list: there are few distinct lists and many sessions.
fn by_first(lists: Map<String, u64>) -> Map<String, u64> {
    let mut counts = Map::default();
    for (list, count) in lists {
        let first =
            serde_json::from_str::<Vec<String>>(&list).unwrap_or_default().into_iter().next();
        add(&mut counts, first.as_deref().unwrap_or(UNKNOWN), count);
    }
    counts
}

fn value<'f>(facet: Facet, facts: &'f Facts, months: &'f mut Months<'_>) -> &'f str {
    match facet {
        Facet::Agent => &facts.agent,
        Facet::Project => facts.project.as_deref().unwrap_or(UNKNOWN),
        Facet::Model => &facts.models,
        Facet::Month => months.name(facts.ended_at),
    }
}

/// A cache of month names.
struct Months<'z> {
    zone: &'z TimeZone,
    names: Map<(i16, i8), String>,
}

impl Months<'_> {
    fn name(&mut self, at: Option<Timestamp>) -> &str {
        let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at.as_millis()).ok());
        let Some(date) = at.map(|at| self.zone.to_datetime(at).date()) else { return UNKNOWN };
        let (year, month) = (date.year(), date.month());
        self.names.entry((year, month)).or_insert_with(|| format!("{year:04}-{month:02}"))
    }
}
