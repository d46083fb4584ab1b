//! The servers that agents may call tools of.

use std::path::PathBuf;

use serde::Serialize;

/// A configured server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// The project it is configured for; `None` for all of them.
    pub project: Option<PathBuf>,
    /// The agent it is configured for; `None` for several.
    pub agent: Option<&'static str>,
}
