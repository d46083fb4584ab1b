//! Parents of messages where records between them are passed over: a message whose parent became
//! no message follows the nearest ancestor that did.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

/// The passed-over records of a source, each with the nearest ancestor that is a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedParents {
    /// Passed-over records in the order they were met.
    records: Vec<PassedRecord>,
    /// Ancestors, each once for a run of records below it. An empty one is none.
    ancestors: Vec<String>,
    /// Where a record stands in `records`, by the hash of its id.
    places: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PassedRecord {
    /// The record's id, as a hash.
    id: u64,
    /// The place of its ancestor in `ancestors`.
    ancestor: u32,
}

const RECORD_BYTES: usize = 12;

impl PassedParents {
    /// Notes a record that becomes no message.
    pub fn pass(&mut self, id: &str, parent: Option<&str>) {
        let parent = parent.unwrap_or_default();
        let ancestor = match self.places.get(&hash(parent)) {
            Some(place) => self.records[*place as usize].ancestor,
            None if self.ancestors.last().is_some_and(|last| last == parent) => {
                self.ancestors.len() as u32 - 1
            }
            None => {
                self.ancestors.push(parent.to_owned());
                self.ancestors.len() as u32 - 1
            }
        };
        self.places.insert(hash(id), self.records.len() as u32);
        self.records.push(PassedRecord { id: hash(id), ancestor });
    }

    /// Returns the message that a message with this parent follows: the parent itself unless it
    /// was passed over. `None` when nothing stands above it.
    pub fn resolve(&self, parent: String) -> Option<String> {
        if self.records.is_empty() {
            return Some(parent);
        }
        let Some(place) = self.places.get(&hash(&parent)) else { return Some(parent) };
        let ancestor = &self.ancestors[self.records[*place as usize].ancestor as usize];
        (!ancestor.is_empty()).then(|| ancestor.clone())
    }

    /// Returns how many records were passed over so far.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Packs the first records for a checkpoint.
    pub fn encode(&self, count: usize) -> Vec<u8> {
        let records = &self.records[..count.min(self.records.len())];
        let ancestors = records.iter().map(|record| record.ancestor as usize + 1).max();
        let mut bytes = (records.len() as u32).to_le_bytes().to_vec();
        for record in records {
            bytes.extend(record.id.to_le_bytes());
            bytes.extend(record.ancestor.to_le_bytes());
        }
        bytes.extend(self.ancestors[..ancestors.unwrap_or(0)].join("\n").as_bytes());
        bytes
    }

    /// Unpacks the records of a checkpoint; from anything else nothing is read.
    pub fn decode(bytes: &[u8]) -> Self {
        Self::unpack(bytes).unwrap_or_default()
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk()?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(RECORD_BYTES)?;
        let (records, ancestors) = rest.split_at_checked(length)?;
        let ancestors = std::str::from_utf8(ancestors).ok()?.split('\n').map(str::to_owned);
        let mut all = Self { ancestors: ancestors.collect(), ..Self::default() };
        for record in records.as_chunks::<RECORD_BYTES>().0 {
            let (id, rest) = record.split_first_chunk()?;
            let (ancestor, _) = rest.split_first_chunk()?;
            let id = u64::from_le_bytes(*id);
            let ancestor = u32::from_le_bytes(*ancestor);
            all.ancestors.get(ancestor as usize)?;
            all.places.insert(id, all.records.len() as u32);
            all.records.push(PassedRecord { id, ancestor });
        }
        Some(all)
    }
}

fn hash(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_through_any_number_of_passed_over_records() {
        let mut passed = PassedParents::default();
        passed.pass("p1", Some("a"));
        passed.pass("p2", Some("p1"));
        passed.pass("first", None);
        passed.pass("p3", Some("b"));
        let check = |passed: &PassedParents, parent: &str, expected: Option<&str>| {
            assert_eq!(passed.resolve(parent.to_owned()).as_deref(), expected, "{parent}");
        };
        for passed in [&passed, &PassedParents::decode(&passed.encode(4))] {
            check(passed, "p2", Some("a"));
            check(passed, "p3", Some("b"));
            check(passed, "a", Some("a"));
            check(passed, "first", None);
        }
        let early = PassedParents::decode(&passed.encode(2));
        assert_eq!(early.count(), 2);
        check(&early, "p3", Some("p3"));
        assert_eq!(PassedParents::decode(&[9, 0, 0]), PassedParents::default());
        assert_eq!(PassedParents::decode(&[9, 0, 0, 0, 1]), PassedParents::default());
        assert_eq!(PassedParents::decode(&passed.encode(0)).count(), 0);
    }
}
