//! Which MCP servers are configured: every known place is looked into, comments and trailing
//! commas are tolerated, and what is missing or broken means none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Machine;
use super::formats::{files, vscode};
use crate::model::McpServer;

/// A configuration larger than this is none.
const LARGEST: u64 = 16 << 20;

/// Files in the home directory.
const HOME: &[&str] =
    &[".claude/settings.json", ".claude.json", ".vscode/mcp.json", ".copilot/mcp-config.json"];

/// Files in a project.
const PROJECT: &[&str] = &[".mcp.json", ".vscode/mcp.json", ".github/copilot/mcp.json"];

/// Editors with a file of their own among the user's settings.
const EDITORS: &[&str] = &["Code", "Code - Insiders"];

/// Lists the servers configured for the machine and for some projects.
pub(crate) fn servers(machine: &Machine, projects: &[PathBuf]) -> BTreeSet<McpServer> {
    let mut all = BTreeSet::new();
    let editors = vscode::users(machine, EDITORS);
    let places = HOME.iter().map(|file| machine.home.join(file));
    for place in places.chain(editors.into_iter().map(|user| user.join("mcp.json"))) {
        let Some(found) = read(&place) else { continue };
        add(&mut all, found.names(), None);
        for (path, inner) in found.projects {
            add(&mut all, inner.names(), Some(&PathBuf::from(path)));
        }
    }
    for project in projects {
        for file in PROJECT {
            let Some(found) = read(&project.join(file)) else { continue };
            add(&mut all, found.names(), Some(project));
        }
    }
    all
}

fn add(all: &mut BTreeSet<McpServer>, names: Vec<String>, project: Option<&PathBuf>) {
    all.extend(names.into_iter().map(|name| McpServer { name, project: project.cloned() }));
}

/// A configuration: its servers stand under either of two names.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    #[serde(rename = "mcpServers")]
    mcp_servers: Servers,
    servers: Servers,
    projects: BTreeMap<String, Configuration>,
}

type Servers = BTreeMap<String, Server>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Server {
    Described {
        #[serde(default)]
        disabled: bool,
    },
    Other(IgnoredAny),
}

impl Configuration {
    /// The servers that are switched on.
    fn names(&self) -> Vec<String> {
        let is_on = |server: &Server| !matches!(server, Server::Described { disabled: true });
        let all = self.mcp_servers.iter().chain(&self.servers);
        all.filter(|(_, server)| is_on(server)).map(|(name, _)| name.clone()).collect()
    }
}

fn read(path: &Path) -> Option<Configuration> {
    let text = files::small_text(path, LARGEST)?;
    serde_json::from_str(&plain_json(text.trim_start_matches('\u{feff}'))).ok()
}

/// Takes comments and trailing commas out of JSON.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest[2..].find("*/").map_or("", |end| &rest[end + 4..]);
                continue;
            }
            _ => first.len_utf8(),
        };
        if matches!(first, '}' | ']') && plain.trim_end().ends_with(',') {
            plain.truncate(plain.trim_end().len() - 1);
        }
        plain.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    plain
}

/// Length of the string a text begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escape = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escape => is_escape = false,
            '\\' => is_escape = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_taken_out_and_strings_stay() {
        let check = |text: &str, expected: &str| assert_eq!(plain_json(text), expected);
        check("{\"a\": 1, // one\n}", "{\"a\": 1 \n}".replace(" \n", "").as_str());
        check(r#"{"a":/* x, } */[1,2,],}"#, r#"{"a":[1,2]}"#);
        check(r#"{"u":"http://x/*,]*/\",}"}"#, r#"{"u":"http://x/*,]*/\",}"}"#);
        check("{/* never closed", "{");
    }

    #[test]
    fn every_place_is_looked_into() {
        // R191, R231, C40.
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("src/web");
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let server = |key: &str, name: &str| format!("{{// c\n\"{key}\":{{\"{name}\":{{}},}},}}");
        write(".claude/settings.json", &server("mcpServers", "a"));
        let inner = server("mcpServers", "c");
        let path = project.display();
        write(
            ".claude.json",
            &format!("{{\"mcpServers\":{{\"b\":{{}}}},\"projects\":{{\"{path}\":{inner}}}}}"),
        );
        write(".vscode/mcp.json", &server("servers", "d"));
        write(".copilot/mcp-config.json", &server("mcpServers", "e"));
        write(".config/Code/User/mcp.json", &server("servers", "f"));
        write("src/web/.mcp.json", &server("mcpServers", "g"));
        write("src/web/.vscode/mcp.json", &server("servers", "h"));
        write("src/web/.github/copilot/mcp.json", &server("mcpServers", "i"));
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        let found = servers(&machine, std::slice::from_ref(&project));
        let of = |place: Option<&PathBuf>| -> Vec<&str> {
            let fits = |server: &&McpServer| server.project.as_ref() == place;
            found.iter().filter(fits).map(|server| server.name.as_str()).collect()
        };
        assert_eq!(of(None), ["a", "b", "d", "e", "f"]);
        assert_eq!(of(Some(&project)), ["c", "g", "h", "i"]);
    }

    #[test]
    fn broken_and_missing_configurations_mean_none() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/settings.json"), "{nonsense").unwrap();
        let disabled = r#"{"mcpServers":{"off":{"disabled":true},"odd":5}}"#;
        std::fs::write(home.path().join(".claude.json"), disabled).unwrap();
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        let names: Vec<String> = servers(&machine, &[]).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["odd"]);
    }
}
