//! In which order the events of a log follow each other. Every event names the one before it; the
//! order of the file is right as long as no event names one that stands further down.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::connectors::formats::json::Text;
use crate::connectors::formats::jsonl::{self, Lines};
use crate::error::Result;

/// How many of the last events are remembered. Nearly every event names the one right before it;
/// the farthest seen in real logs was 17 lines up.
const MAX_RECENT: usize = 24;

/// How many parents that were not met yet are remembered. Programs leave out events that others
/// name, so a tenth of all parents never comes.
const MAX_EXPECTED: usize = 64;

/// How much of the beginning and the end of a long line is looked at for its ids.
const WINDOW: usize = 512;

/// The last events of a log, with the messages they led to, and the parents that were named
/// before they were met.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RecentEvents {
    events: VecDeque<RecentEvent>,
    expected: VecDeque<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct RecentEvent {
    /// The event's id, as a hash.
    id: u64,
    #[serde(flatten)]
    ancestors: Ancestors,
}

/// The messages that an event follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ancestors {
    /// The nearest message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nearest: Option<String>,
    /// The nearest message of the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) main: Option<String>,
}

impl RecentEvents {
    /// Returns the messages that stand above an event with this parent: none when the parent is
    /// not among the last events.
    pub(super) fn above(&self, parent: Option<&str>) -> Ancestors {
        let Some(id) = parent.map(hash) else { return Ancestors::default() };
        let found = self.events.iter().rev().find(|event| event.id == id);
        found.map(|event| event.ancestors.clone()).unwrap_or_default()
    }

    /// Notes an event. Returns whether an earlier one named it as its parent.
    pub(super) fn note(&mut self, id: &str, parent: Option<&str>, ancestors: Ancestors) -> bool {
        self.note_hashes(hash(id), parent.map(hash), ancestors)
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

/// The ids of an event.
#[derive(Deserialize)]
struct EventIds<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow, rename = "parentId")]
    parent: Option<Text<'a>>,
}

/// An event in the file.
struct Link {
    offset: u64,
    id: u64,
    parent: Option<u64>,
}

/// Returns where the events stand in the order of their chain of parents: when the file has
/// another order, and the chain leads through all events in one way only.
pub(super) fn chain_order(path: &Path) -> Result<Option<Vec<u64>>> {
    if !has_late_parent(path)? {
        return Ok(None);
    }
    let mut chain = Vec::new();
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        if jsonl::is_blank(line.bytes) {
            continue;
        }
        match serde_json::from_slice::<EventIds<'_>>(line.bytes) {
            Ok(EventIds { id: Some(id), parent }) => {
                let parent = parent_hash(parent);
                chain.push(Link { offset: line.offset, id: hash(id.as_str()), parent });
            }
            _ => return Ok(None),
        }
    }
    Ok(follow(&chain))
}

/// Looks over a file for an event that an earlier one names as its parent: quickly, because
/// nearly no file has one.
fn has_late_parent(path: &Path) -> Result<bool> {
    let mut recent = RecentEvents::default();
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        if let Some((id, parent)) = ids(line.bytes)
            && recent.note_hashes(id, parent, Ancestors::default())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the ids of a line as hashes. Of a long line only the beginning and the end are looked at,
/// where programs write them.
fn ids(line: &[u8]) -> Option<(u64, Option<u64>)> {
    if line.len() <= WINDOW {
        let ids = serde_json::from_slice::<EventIds<'_>>(line).ok()?;
        return Some((hash(ids.id?.as_str()), parent_hash(ids.parent)));
    }
    let last = &line[line.len() - WINDOW..];
    let (part, at) = match memmem::rfind(last, br#""parentId""#) {
        Some(at) => (last, at),
        None => (&line[..WINDOW], memmem::find(&line[..WINDOW], br#""parentId""#)?),
    };
    let parent = value(&part[at + br#""parentId""#.len()..]);
    let parent = parent.filter(|parent| !parent.is_empty()).map(xxh3_64);
    let id = memmem::rfind(&part[..at], br#""id""#).or_else(|| memmem::rfind(part, br#""id""#))?;
    Some((xxh3_64(value(&part[id + br#""id""#.len()..])?), parent))
}

/// Reads the text behind a key; `None` when it is none.
fn value(after_key: &[u8]) -> Option<&[u8]> {
    let text = after_key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let text = text.strip_prefix(b"\"")?;
    text.get(..memchr::memchr(b'"', text)?)
}

/// Follows the chain from its one beginning; `None` when it does not lead through everything.
fn follow(links: &[Link]) -> Option<Vec<u64>> {
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

fn parent_hash(parent: Option<Text<'_>>) -> Option<u64> {
    parent.filter(|parent| !parent.as_str().is_empty()).map(|parent| hash(parent.as_str()))
}

fn hash(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is an event and its parent.
    fn check(words: &str, expected: Option<&[u64]>) {
        let links: Vec<Link> = words
            .split_whitespace()
            .enumerate()
            .map(|(place, word)| {
                let (id, parent) = word.split_once('.').unwrap_or((word, ""));
                let parent = Some(parent).filter(|parent| !parent.is_empty()).map(hash);
                Link { offset: place as u64, id: hash(id), parent }
            })
            .collect();
        assert_eq!(follow(&links).as_deref(), expected, "{words}");
    }

    #[test]
    fn only_a_whole_and_unique_chain_has_an_order_of_its_own() {
        check("a b.a d.c c.b", Some(&[0, 1, 3, 2]));
        check("b.a a", Some(&[1, 0]));
        // In order already; a hole; two ways on; two beginnings; a circle.
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
        let parent = Some(hash("p"));
        let check = |line: &str, parent: Option<u64>| {
            assert_eq!(ids(line.as_bytes()), Some((hash("e"), parent)), "{}", &line[..40]);
        };
        check(&format!(r#"{{"type":"x",{long},"id":"e","timestamp":"t","parentId":"p"}}"#), parent);
        check(&format!(r#"{{"type": "x", "id": "e", "parentId": "p", {long}}}"#), parent);
        check(&format!(r#"{{"type":"x","id":"e","parentId":null,{long}}}"#), None);
        check(r#"{"data":{"id":"i"},"parentId":"p","id":"e"}"#, parent);
        assert_eq!(ids(format!(r#"{{"x":"{}"}}"#, "x".repeat(2000)).as_bytes()), None);
    }
}
