//! Notices when a new version of an agent writes records that are not understood, before they are
//! many.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Result;
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Timestamp};
use crate::store::{SourceUnderstanding, Store};

/// Of a hundred records of an agent this many are understood, or its format has changed.
const EXPECTED_PERCENT: u64 = 90;

/// So many points less than before is a drop.
const DROP_PERCENT: f64 = 5.0;

/// Fewer records say nothing about a version.
const MIN_RECORDS: u64 = 20;

/// A version that was last seen this long before the agent's latest session is history.
const RECENT_MS: i64 = 30 * 86_400_000;

/// Sources that are read to name the records, those with the most unknown ones first.
const READ_SOURCES: usize = 20;

/// Types of records that are named.
const NAMED_TYPES: usize = 5;

/// A version of an agent of whose records less is understood than of those before.
#[derive(Clone, Debug, Serialize)]
pub struct UnderstandingDrop {
    /// The version, or the month where no version is recorded.
    pub version: String,
    /// How many records it wrote.
    pub records: u64,
    /// How many of them are understood.
    pub understood: u64,
    /// The share of the records of earlier versions that is understood, in percent.
    pub percent_before: Option<f64>,
    /// The types of the other records, the most frequent first, each with its number.
    pub unknown_types: Vec<(String, u64)>,
    /// The source with the most of them.
    pub path: String,
}

impl UnderstandingDrop {
    /// Returns the share of the version's records that is understood, in percent.
    pub fn percent(&self) -> f64 {
        percent(self.understood, self.records)
    }
}

/// The sources of one version.
struct VersionSources {
    version: String,
    last_seen: Option<Timestamp>,
    records: u64,
    understood: u64,
    sources: Vec<SourceUnderstanding>,
}

impl Journal {
    /// Finds the latest version of an agent of whose records less is understood than before.
    pub fn understanding_drop(&self, agent: &str) -> Result<Option<UnderstandingDrop>> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut versions = by_version(store.understanding(agent)?);
        versions.sort_by_key(|one| one.last_seen);
        let latest = versions.last().and_then(|one| one.last_seen);
        let (mut records, mut understood) = (0, 0);
        let mut dropped = None;
        for (at, one) in versions.iter().enumerate() {
            let before = (records >= MIN_RECORDS).then(|| percent(understood, records));
            records += one.records;
            understood += one.understood;
            if is_recent(one.last_seen, latest) && is_drop(one, before) {
                dropped = Some((at, before));
            }
        }
        let Some((at, percent_before)) = dropped else { return Ok(None) };
        let mut one = versions.swap_remove(at);
        one.sources.sort_by_key(|source| std::cmp::Reverse(source.unknown()));
        Ok(Some(UnderstandingDrop {
            unknown_types: unknown_types(store, &one.sources)?,
            path: one.sources.swap_remove(0).path,
            version: one.version,
            records: one.records,
            understood: one.understood,
            percent_before,
        }))
    }
}

/// Gathers sources by the version that wrote them, or by month.
fn by_version(sources: Vec<SourceUnderstanding>) -> Vec<VersionSources> {
    let mut versions: BTreeMap<String, VersionSources> = BTreeMap::new();
    for source in sources {
        let month =
            || source.ended_at.map_or("undated".to_owned(), |at| at.to_string()[..7].into());
        let version = source.version.clone().unwrap_or_else(month);
        let one = versions.entry(version.clone()).or_insert_with(|| VersionSources {
            version,
            last_seen: None,
            records: 0,
            understood: 0,
            sources: Vec::new(),
        });
        one.last_seen = one.last_seen.max(source.ended_at);
        one.records += source.records;
        one.understood += source.understood;
        one.sources.push(source);
    }
    versions.into_values().collect()
}

fn is_recent(last_seen: Option<Timestamp>, latest: Option<Timestamp>) -> bool {
    let millis = |at: Option<Timestamp>| at.map_or(0, Timestamp::as_millis);
    millis(latest) - millis(last_seen) <= RECENT_MS
}

fn is_drop(one: &VersionSources, before: Option<f64>) -> bool {
    if one.records < MIN_RECORDS || one.understood >= one.records {
        return false;
    }
    let share = percent(one.understood, one.records);
    one.understood * 100 < one.records * EXPECTED_PERCENT
        || before.is_some_and(|before| before - share >= DROP_PERCENT)
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// Counts the records that are not understood by their type, or by the reason why they were
/// skipped.
fn unknown_types(store: &Store, sources: &[SourceUnderstanding]) -> Result<Vec<(String, u64)>> {
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for source in sources.iter().take(READ_SOURCES) {
        for (reason, count) in &source.skipped {
            *types.entry(reason.clone()).or_default() += count;
        }
        for telling in &source.tellings {
            store.each_message(*telling, |_, message: Message| {
                // Context that the program attached is known for what it is.
                if message.origin != Origin::Injected {
                    let unknown = message.blocks.iter().filter_map(type_name);
                    unknown.for_each(|name| *types.entry(name).or_default() += 1);
                }
                Ok(())
            })?;
        }
    }
    let mut types: Vec<(String, u64)> = types.into_iter().collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    types.truncate(NAMED_TYPES);
    Ok(types)
}

/// Returns the type of a record that is kept as it was written.
fn type_name(block: &Block) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        name: String,
    }
    let Block::Other(json) = block else { return None };
    let typed: Option<Typed> = json.parse();
    Some(typed.map_or_else(|| "a record without a type".to_owned(), |typed| typed.name))
}
