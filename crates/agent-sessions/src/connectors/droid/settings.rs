//! The settings of a session, which also hold the sum of its tokens.

use std::path::{Path, PathBuf};

use super::line::owned_if_present;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Tokens, Usage};

/// Size limit of a settings file in bytes.
const MAX_SETTINGS_BYTES: u64 = 4 << 20;

lenient! {
    struct DroidSettings<'a> {
        "model" model: Option<BorrowedText<'a>>,
        "tokenUsage" usage: Option<DroidTokens>,
    }
}

lenient! {
    /// The tokens of the session itself, without those of its sub-agents. The classes do not
    /// overlap.
    struct DroidTokens {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "cacheReadTokens" cache_read: Option<u64>,
        "cacheCreationTokens" cache_creation: Option<u64>,
    }
}

/// The facts about a session that its settings record.
pub(super) struct SettingsFacts {
    /// The model chosen last.
    pub(super) model: Option<String>,
    /// The sum of the session's calls.
    pub(super) usage: Option<Usage>,
}

/// Returns the settings file of a session.
pub(super) fn settings_file(session: &Path) -> PathBuf {
    session.with_extension("settings.json")
}

/// Reads the settings of the session in a file.
pub(super) fn read_settings(session: &Path) -> SettingsFacts {
    let text = files::small_text(&settings_file(session), MAX_SETTINGS_BYTES).unwrap_or_default();
    let settings = json::parse_json::<DroidSettings<'_>>(&text).unwrap_or_default();
    let tokens = settings.usage.map(|usage| Tokens {
        input: usage.input.unwrap_or(0),
        output: usage.output.unwrap_or(0),
        cache_read: usage.cache_read.unwrap_or(0),
        cache_creation: usage.cache_creation.unwrap_or(0),
        reasoning: None,
    });
    let usage = tokens.filter(Tokens::is_known).map(|tokens| Usage { tokens, ..Usage::default() });
    SettingsFacts { model: owned_if_present(settings.model), usage }
}
