//! Maps and sets with a quick hash, for what is asked many thousand times while somebody waits.
//! It is seeded at random, as that of the standard library is.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A map.
pub(crate) type Map<K, V> = HashMap<K, V, RandomState>;

/// A set.
pub(crate) type Set<K> = HashSet<K, RandomState>;
