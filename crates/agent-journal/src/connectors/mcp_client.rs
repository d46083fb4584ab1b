//! How each agent is told of an MCP server, and how it names itself to one.

use serde_json::{Value, json};

/// An agent as a client of MCP servers.
#[derive(Debug, PartialEq, Eq)]
pub struct McpClient {
    /// The file of its configuration, below the home directory or the project.
    pub file: &'static str,
    /// The agent's own command that writes into that file, with `NAME` and `COMMAND` in it.
    pub add: Option<&'static str>,
    /// What its name has in it when it introduces itself, in lower case.
    pub introduces: &'static str,
    /// Where it looks for skills, below the home directory.
    pub skills: Option<&'static str>,
    pub(super) shape: Shape,
}

/// The shapes of configurations.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// JSON, servers under `mcpServers`.
    McpServers,
    /// The same, where a server says its type and which of its tools may be used.
    Described,
    /// JSON, servers under `servers`, each with its type.
    Servers,
    /// TOML, one table per server.
    Toml,
}

impl McpClient {
    /// The part of the configuration that names a server.
    pub fn snippet(&self, name: &str, command: &str, arguments: &[&str]) -> String {
        let plain = json!({ "command": command, "args": arguments });
        let with = |further: &[(&str, Value)]| {
            let mut server = plain.clone();
            for (key, value) in further {
                server[*key] = value.clone();
            }
            server
        };
        let document = match self.shape {
            Shape::McpServers => json!({ "mcpServers": { name: plain } }),
            Shape::Described => {
                let server = with(&[("type", json!("local")), ("tools", json!(["*"]))]);
                json!({ "mcpServers": { name: server } })
            }
            Shape::Servers => json!({ "servers": { name: with(&[("type", json!("stdio"))]) } }),
            Shape::Toml => {
                // Strings of JSON are strings of TOML.
                let (command, arguments) = (json!(command), json!(arguments));
                return format!("[mcp_servers.{name}]\ncommand = {command}\nargs = {arguments}\n");
            }
        };
        format!("{document:#}\n")
    }
}
