//! Detects early that a new version of an agent writes records that cannot be parsed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Result;
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Timestamp};
use crate::store::{SourceUnderstanding, Store};

/// Minimum percentage of parsed records. Below it the format has changed.
const EXPECTED_PERCENT: u64 = 90;

/// Minimum decrease that counts as a drop, in percentage points.
const DROP_PERCENT: f64 = 5.0;

/// Minimum number of records for judging a version.
const MIN_RECORDS: u64 = 20;

/// Versions last seen longer ago than this, before the agent's latest session, are ignored.
const RECENT_MS: i64 = 30 * 86_400_000;

/// Maximum number of sources that are read to name the record types, those with the most unparsed
/// records first.
const READ_SOURCES: usize = 20;

/// Maximum number of record types that are named.
const NAMED_TYPES: usize = 5;

/// A version of an agent whose records are parsed less completely than those of earlier versions.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct UnderstandingDrop {
    /// The version, or the month if no version is recorded.
    pub version: String,
    /// Number of records that the version wrote.
    pub records: u64,
    /// Number of records that were parsed.
    pub understood: u64,
    /// Percentage of parsed records of the earlier versions.
    pub percent_before: Option<f64>,
    /// Types of the unparsed records with their number, the most frequent first.
    pub unknown_types: Vec<(String, u64)>,
    /// The source with the most unparsed records.
    pub path: String,
}

impl UnderstandingDrop {
    /// Returns the percentage of parsed records of the version.
    pub fn parsed_percent(&self) -> f64 {
        percent_of(self.understood, self.records)
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
    /// Finds the latest version of an agent whose records are parsed less completely than before.
    pub fn understanding_drop(&self, agent: &str) -> Result<Option<UnderstandingDrop>> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut versions = by_version(store.understanding(agent)?);
        versions.sort_by_key(|one| one.last_seen);
        let latest = versions.last().and_then(|one| one.last_seen);
        let (mut records, mut understood) = (0, 0);
        let mut dropped = None;
        for (at, one) in versions.iter().enumerate() {
            let before = (records >= MIN_RECORDS).then(|| percent_of(understood, records));
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

/// Groups sources by the version that wrote them, or by month.
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
    let share = percent_of(one.understood, one.records);
    one.understood * 100 < one.records * EXPECTED_PERCENT
        || before.is_some_and(|before| before - share >= DROP_PERCENT)
}

fn percent_of(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// Counts unparsed records by type, or by the reason why they were skipped.
fn unknown_types(store: &Store, sources: &[SourceUnderstanding]) -> Result<Vec<(String, u64)>> {
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for source in sources.iter().take(READ_SOURCES) {
        for (reason, count) in &source.skipped {
            *types.entry(reason.clone()).or_default() += count;
        }
        for recording in &source.recordings {
            store.each_message(*recording, |_, message: Message| {
                // Attached context is of a known type, even if kept raw.
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

/// Returns the type of a record that was kept raw.
fn type_name(block: &Block) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct RecordTypeCounts {
        #[serde(rename = "type")]
        name: String,
    }
    let Block::Other(json) = block else { return None };
    let typed: Option<RecordTypeCounts> = json.parse_as();
    Some(typed.map_or_else(|| "a record without a type".to_owned(), |typed| typed.name))
}
