//! Journals for tests, over the homes that the tests of `agent-sessions` use.
#![allow(missing_docs, unreachable_pub, reason = "test support")]

#[path = "../../../agent-sessions/tests/support/mod.rs"]
mod homes;
pub mod place;
pub mod shelf;

use std::path::{Path, PathBuf};

pub use homes::*;

/// The sample histories, which are not published: the directory `AJ_CORPUS`, or one beside the
/// project. Says so where there are none.
pub fn corpus() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("AJ_CORPUS").map(PathBuf::from) {
        assert!(named.is_dir(), "AJ_CORPUS: no directory {}", named.display());
        return Some(named);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !beside.is_dir() {
        eprintln!("skipped: no sample histories in AJ_CORPUS or ../shared/corpus");
        return None;
    }
    Some(beside)
}
