//! The files that sessions touched: their order, and how a file was touched.

use std::cmp::Reverse;

use agent_journal::{TouchedFile, Touches};
use clap::ValueEnum;
use serde::Deserialize;

use super::count;

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileSort {
    /// Touched by most sessions first
    Sessions,
    /// Edited most often first
    Edits,
    /// Touched last first
    Latest,
}

impl FileSort {
    /// The values of `--sort`.
    pub(crate) const NAMES: [&str; 3] = ["sessions", "edits", "latest"];

    /// Returns the default order: by sessions, or the latest first if paths are filtered by a text.
    pub(crate) fn default_order(text: &str) -> Self {
        if text.is_empty() { Self::Sessions } else { Self::Latest }
    }

    /// Sorts files that are given with the latest first. The sort is stable.
    pub(crate) fn sort_files(self, files: &mut [TouchedFile]) {
        match self {
            Self::Sessions => {
                files.sort_by_key(|file| Reverse((file.sessions.len(), file.edits)));
            }
            Self::Edits => files.sort_by_key(|file| Reverse(file.edits)),
            Self::Latest => {}
        }
    }

    /// Describes the order.
    pub(crate) fn order_name(self) -> &'static str {
        match self {
            Self::Sessions => "touched by most sessions first",
            Self::Edits => "edited most often first",
            Self::Latest => "latest first",
        }
    }
}

/// Describes how a file was touched.
pub(crate) fn touches_in_words(touches: Touches) -> String {
    let Touches { viewed, edited, created } = touches;
    let all = [
        (edited, count(edited, "edit")),
        (created, format!("created {created}×")),
        (viewed, format!("viewed {viewed}×")),
    ];
    let counts: Vec<String> =
        all.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    if counts.is_empty() { "listed".to_owned() } else { counts.join(", ") }
}
