//! Determines the order of the events in a log. Every event names its predecessor. The file order
//! is correct unless an event names a predecessor that comes later in the file.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::connectors::formats::json::BorrowedText;
use crate::connectors::formats::jsonl::{self, LineReader};
use crate::error::Result;

/// Number of recent events kept. Nearly every event names the one directly before it; the farthest
/// predecessor in real logs was 17 lines up.
const MAX_RECENT: usize = 24;

/// Number of named parents kept that have not occurred yet. Programs omit events that others name,
/// so a tenth of all parents never occurs.
const MAX_EXPECTED: usize = 64;

/// Number of bytes at each end of a long line that are searched for its ids.
const WINDOW: usize = 512;

/// The most recent events of a log with their nearest messages, and the parents that were named
/// before they occurred.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RecentEvents {
    events: VecDeque<RecentEvent>,
    expected: VecDeque<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct RecentEvent {
    /// Hash of the event's id.
    id: u64,
    #[serde(flatten)]
    ancestors: Ancestors,
}

/// Ids of the messages before an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ancestors {
    /// The nearest message, including side conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nearest: Option<String>,
    /// The nearest message of the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) main: Option<String>,
}

impl RecentEvents {
    /// Returns the messages before an event with this parent. Empty when the parent is not among
    /// the recent events.
    pub(super) fn ancestors_of(&self, parent: Option<&str>) -> Ancestors {
        let Some(id) = parent.map(event_id_hash) else { return Ancestors::default() };
        let found = self.events.iter().rev().find(|event| event.id == id);
        found.map(|event| event.ancestors.clone()).unwrap_or_default()
    }

    /// Records an event. Returns whether an earlier event named it as its parent.
    pub(super) fn record_event(
        &mut self,
        id: &str,
        parent: Option<&str>,
        ancestors: Ancestors,
    ) -> bool {
        self.note_hashes(event_id_hash(id), parent.map(event_id_hash), ancestors)
    }

    fn note_hashes(&mut self, id: u64, parent: Option<u64>, ancestors: Ancestors) -> bool {
        if let Some(parent) = parent
            && self.events.iter().rev().all(|event| event.id != parent)
        {
            push_bounded(&mut self.expected, parent, MAX_EXPECTED);
        }
        push_bounded(&mut self.events, RecentEvent { id, ancestors }, MAX_RECENT);
        let expected = self.expected.iter().position(|known| *known == id);
        expected.is_some_and(|at| self.expected.remove(at).is_some())
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    if queue.len() == limit {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// The id of an event and the id of its parent.
#[derive(Deserialize)]
struct EventIds<'a> {
    #[serde(borrow)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow, rename = "parentId")]
    parent: Option<BorrowedText<'a>>,
}

/// An event with its position in the file and the hashes of its ids.
struct ParentLink {
    offset: u64,
    id: u64,
    parent: Option<u64>,
}

/// Returns the file offsets of the events in the order of their chain of parents. `None` when the
/// file order is the same, or when the chain does not lead through all events in exactly one way.
pub(super) fn chain_order(path: &Path) -> Result<Option<Vec<u64>>> {
    if !has_late_parent(path)? {
        return Ok(None);
    }
    let mut chain = Vec::new();
    let mut lines = LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
        if jsonl::is_blank_line(line.bytes) {
            continue;
        }
        match serde_json::from_slice::<EventIds<'_>>(line.bytes) {
            Ok(EventIds { id: Some(id), parent }) => {
                let parent = parent_hash(parent);
                chain.push(ParentLink {
                    offset: line.offset,
                    id: event_id_hash(id.as_borrowed_str()),
                    parent,
                });
            }
            _ => return Ok(None),
        }
    }
    Ok(follow_parent_chain(&chain))
}

/// Returns whether an earlier event names a later one as its parent. Scans only the ids, because
/// nearly no file has such an event.
fn has_late_parent(path: &Path) -> Result<bool> {
    let mut recent = RecentEvents::default();
    let mut lines = LineReader::open_at(path, 0)?;
    while let Some(line) = lines.next_line()? {
        if let Some((id, parent)) = scan_event_ids(line.bytes)
            && recent.note_hashes(id, parent, Ancestors::default())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Scans a line for its ids and returns their hashes. In a long line only both ends are searched,
/// where programs write the ids.
fn scan_event_ids(line: &[u8]) -> Option<(u64, Option<u64>)> {
    if line.len() <= WINDOW {
        let ids = serde_json::from_slice::<EventIds<'_>>(line).ok()?;
        return Some((event_id_hash(ids.id?.as_borrowed_str()), parent_hash(ids.parent)));
    }
    let last = &line[line.len() - WINDOW..];
    let (part, at) = match memmem::rfind(last, br#""parentId""#) {
        Some(at) => (last, at),
        None => (&line[..WINDOW], memmem::find(&line[..WINDOW], br#""parentId""#)?),
    };
    let parent = string_value_after(&part[at + br#""parentId""#.len()..]);
    let parent = parent.filter(|parent| !parent.is_empty()).map(xxh3_64);
    let id = memmem::rfind(&part[..at], br#""id""#).or_else(|| memmem::rfind(part, br#""id""#))?;
    Some((xxh3_64(string_value_after(&part[id + br#""id""#.len()..])?), parent))
}

/// Returns the string value after a key. `None` when the value is not a string.
fn string_value_after(after_key: &[u8]) -> Option<&[u8]> {
    let text = after_key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let text = text.strip_prefix(b"\"")?;
    text.get(..memchr::memchr(b'"', text)?)
}

/// Follows the chain from its only root. `None` when the chain does not include every event, or is
/// already in file order.
fn follow_parent_chain(links: &[ParentLink]) -> Option<Vec<u64>> {
    let mut children = HashMap::new();
    let mut roots = Vec::new();
    for (place, link) in links.iter().enumerate() {
        match link.parent {
            Some(parent) if children.insert(parent, place).is_some() => return None,
            Some(_) => {}
            None => roots.push(place),
        }
    }
    let [root] = roots[..] else { return None };
    let mut offsets = Vec::with_capacity(links.len());
    let mut next = Some(root);
    while let Some(place) = next.take_if(|_| offsets.len() < links.len()) {
        offsets.push(links[place].offset);
        next = children.get(&links[place].id).copied();
    }
    let is_whole = next.is_none() && offsets.len() == links.len();
    (is_whole && !offsets.is_sorted()).then_some(offsets)
}

fn parent_hash(parent: Option<BorrowedText<'_>>) -> Option<u64> {
    parent
        .filter(|parent| !parent.as_borrowed_str().is_empty())
        .map(|parent| event_id_hash(parent.as_borrowed_str()))
}

fn event_id_hash(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the order of a chain. Each word is an event and its parent.
    fn check(words: &str, expected: Option<&[u64]>) {
        let links: Vec<ParentLink> = words
            .split_whitespace()
            .enumerate()
            .map(|(place, word)| {
                let (id, parent) = word.split_once('.').unwrap_or((word, ""));
                let parent = Some(parent).filter(|parent| !parent.is_empty()).map(event_id_hash);
                ParentLink { offset: place as u64, id: event_id_hash(id), parent }
            })
            .collect();
        assert_eq!(follow_parent_chain(&links).as_deref(), expected, "{words}");
    }

    #[test]
    fn only_a_whole_and_unique_chain_has_an_order_of_its_own() {
        check("a b.a d.c c.b", Some(&[0, 1, 3, 2]));
        check("b.a a", Some(&[1, 0]));
        // Already in order; a gap; two successors; two roots; cycles.
        check("a b.a c.b", None);
        check("a c.x b.a", None);
        check("a c.b b.a d.b", None);
        check("a c.b b", None);
        check("b.c c.b a", None);
        check("a.b b.a", None);
    }

    #[test]
    fn ids_are_found_at_either_end_of_a_long_line() {
        let long =
            format!(r#""data":{{"id":"inner","parentId":"inner","x":"{}"}}"#, "x".repeat(2000));
        let parent = Some(event_id_hash("p"));
        let check = |line: &str, parent: Option<u64>| {
            assert_eq!(
                scan_event_ids(line.as_bytes()),
                Some((event_id_hash("e"), parent)),
                "{}",
                &line[..40]
            );
        };
        check(&format!(r#"{{"type":"x",{long},"id":"e","timestamp":"t","parentId":"p"}}"#), parent);
        check(&format!(r#"{{"type": "x", "id": "e", "parentId": "p", {long}}}"#), parent);
        check(&format!(r#"{{"type":"x","id":"e","parentId":null,{long}}}"#), None);
        check(r#"{"data":{"id":"i"},"parentId":"p","id":"e"}"#, parent);
        assert_eq!(scan_event_ids(format!(r#"{{"x":"{}"}}"#, "x".repeat(2000)).as_bytes()), None);
    }
}
