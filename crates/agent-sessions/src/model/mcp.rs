//! The MCP servers whose tools agents may call.

use std::path::PathBuf;

use serde::Serialize;

/// A configured MCP server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct McpServer {
    /// Name of the server in the configuration.
    pub name: String,
    /// The project it is configured for; `None` for all projects.
    pub project: Option<PathBuf>,
    /// The agent it is configured for; `None` for several agents.
    pub agent: Option<&'static str>,
}
