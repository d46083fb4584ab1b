//! Maps and sets with a fast hash function, for lookups that happen many thousand times per query.
//! Like that of the standard library, the hash is seeded at random.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A hash map with a fast hash function.
pub(crate) type Map<K, V> = HashMap<K, V, RandomState>;

/// A hash set with a fast hash function.
pub(crate) type Set<K> = HashSet<K, RandomState>;
