//! Configuration of an agent as an MCP client, and the name it sends to an MCP server.

use serde_json::{Value, json};

/// An agent as a client of MCP servers.
#[derive(Debug, PartialEq, Eq)]
pub struct McpClient {
    /// Configuration file: in the home directory (`~/`), or relative to the project.
    pub file: &'static str,
    /// The agent's own command that adds a server to that file, with placeholders `NAME` and
    /// `COMMAND`.
    pub add: Option<&'static str>,
    /// Lower-case substring of the client name that the agent sends to a server.
    pub introduces: &'static str,
    /// Directory of the agent's skills, relative to the home directory.
    pub skills: Option<&'static str>,
    pub(super) shape: McpConfigFormat,
}

/// Formats of an MCP configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum McpConfigFormat {
    /// JSON with servers under `mcpServers`.
    McpServers,
    /// JSON with servers under `mcpServers`, each with its type and the tools that may be used.
    Described,
    /// JSON with servers under `servers`, each with its type.
    Servers,
    /// TOML with one table per server.
    Toml,
}

impl McpClient {
    /// Returns the configuration text that declares a server.
    pub fn config_snippet(&self, name: &str, command: &str, arguments: &[&str]) -> String {
        let plain = json!({ "command": command, "args": arguments });
        let with = |further: &[(&str, Value)]| {
            let mut server = plain.clone();
            for (key, value) in further {
                server[*key] = value.clone();
            }
            server
        };
        let document = match self.shape {
            McpConfigFormat::McpServers => json!({ "mcpServers": { name: plain } }),
            McpConfigFormat::Described => {
                let server = with(&[("type", json!("local")), ("tools", json!(["*"]))]);
                json!({ "mcpServers": { name: server } })
            }
            McpConfigFormat::Servers => {
                json!({ "servers": { name: with(&[("type", json!("stdio"))]) } })
            }
            McpConfigFormat::Toml => {
                // A JSON string or array of strings is valid TOML.
                let (command, arguments) = (json!(command), json!(arguments));
                return format!("[mcp_servers.{name}]\ncommand = {command}\nargs = {arguments}\n");
            }
        };
        format!("{document:#}\n")
    }
}
