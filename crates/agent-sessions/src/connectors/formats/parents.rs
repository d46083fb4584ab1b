//! Resolves parents of messages across records that do not become messages: a message whose parent
//! was passed over follows the nearest ancestor that is a message.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

/// The passed-over records of a source, each with its nearest ancestor that is a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedParents {
    /// Passed-over records in file order.
    records: Vec<PassedRecord>,
    /// Ancestor ids, one per run of consecutive records below it. An empty id means no ancestor.
    ancestors: Vec<String>,
    /// Index into `records`, by the hash of a record's id.
    places: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PassedRecord {
    /// Hash of the record's id.
    id: u64,
    /// Index of the ancestor in `ancestors`.
    ancestor: u32,
}

const RECORD_BYTES: usize = 12;

impl PassedParents {
    /// Adds a record that does not become a message.
    pub fn add_passed_record(&mut self, id: &str, parent: Option<&str>) {
        let parent = parent.unwrap_or_default();
        let ancestor = match self.places.get(&record_id_hash(parent)) {
            Some(place) => self.records[*place as usize].ancestor,
            None if self.ancestors.last().is_some_and(|last| last == parent) => {
                self.ancestors.len() as u32 - 1
            }
            None => {
                self.ancestors.push(parent.to_owned());
                self.ancestors.len() as u32 - 1
            }
        };
        self.places.insert(record_id_hash(id), self.records.len() as u32);
        self.records.push(PassedRecord { id: record_id_hash(id), ancestor });
    }

    /// Returns the message that a message with this parent follows: the parent itself, or its
    /// nearest ancestor if the parent was passed over. `None` when there is no ancestor.
    pub fn resolve_parent(&self, parent: String) -> Option<String> {
        if self.records.is_empty() {
            return Some(parent);
        }
        let Some(place) = self.places.get(&record_id_hash(&parent)) else { return Some(parent) };
        let ancestor = &self.ancestors[self.records[*place as usize].ancestor as usize];
        (!ancestor.is_empty()).then(|| ancestor.clone())
    }

    /// Returns the number of passed-over records so far.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// Encodes the first `count` records for a checkpoint.
    pub fn encode_first(&self, count: usize) -> Vec<u8> {
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

    /// Decodes the records of a checkpoint. Invalid bytes give an empty result.
    pub fn decode_records(bytes: &[u8]) -> Self {
        Self::unpack_records(bytes).unwrap_or_default()
    }

    fn unpack_records(bytes: &[u8]) -> Option<Self> {
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

fn record_id_hash(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_through_any_number_of_passed_over_records() {
        let mut passed = PassedParents::default();
        passed.add_passed_record("p1", Some("a"));
        passed.add_passed_record("p2", Some("p1"));
        passed.add_passed_record("first", None);
        passed.add_passed_record("p3", Some("b"));
        let check = |passed: &PassedParents, parent: &str, expected: Option<&str>| {
            assert_eq!(passed.resolve_parent(parent.to_owned()).as_deref(), expected, "{parent}");
        };
        for passed in [&passed, &PassedParents::decode_records(&passed.encode_first(4))] {
            check(passed, "p2", Some("a"));
            check(passed, "p3", Some("b"));
            check(passed, "a", Some("a"));
            check(passed, "first", None);
        }
        let early = PassedParents::decode_records(&passed.encode_first(2));
        assert_eq!(early.record_count(), 2);
        check(&early, "p3", Some("p3"));
        assert_eq!(PassedParents::decode_records(&[9, 0, 0]), PassedParents::default());
        assert_eq!(PassedParents::decode_records(&[9, 0, 0, 0, 1]), PassedParents::default());
        assert_eq!(PassedParents::decode_records(&passed.encode_first(0)).record_count(), 0);
    }
}
