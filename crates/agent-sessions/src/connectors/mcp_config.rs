//! Configured MCP servers, read from every known configuration file. Comments and trailing commas
//! are tolerated; a missing or invalid file counts as empty.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Machine;
use super::formats::{files, vscode};
use crate::model::McpServer;

/// Size limit of a configuration file; larger files are ignored.
const LARGEST: u64 = 16 << 20;

/// Configuration files in the home directory, each with the agent that reads it.
const HOME: &[(&str, Option<&str>)] = &[
    (".claude/settings.json", Some("claude-code")),
    (".claude.json", Some("claude-code")),
    (".vscode/mcp.json", Some("vscode-copilot")),
    (".copilot/mcp-config.json", Some("copilot-cli")),
    (".codex/config.toml", Some("codex")),
    (".gemini/settings.json", Some("gemini")),
    (".qwen/settings.json", Some("qwen")),
    (".cursor/mcp.json", Some("cursor")),
];

/// Configuration files in a project, each with the agent that reads it; `None` if several agents
/// do.
const PROJECT: &[(&str, Option<&str>)] = &[
    (".mcp.json", None),
    (".vscode/mcp.json", Some("vscode-copilot")),
    (".github/copilot/mcp.json", None),
    (".gemini/settings.json", Some("gemini")),
    (".cursor/mcp.json", Some("cursor")),
];

/// The agent that runs in the editors of `EDITOR_NAMES`.
const EDITOR_AGENT: Option<&str> = Some("vscode-copilot");

/// Editors that keep an `mcp.json` in the user's settings directory.
const EDITORS: &[&str] = &["Code", "Code - Insiders"];

/// Lists the servers configured for the machine and for the given projects.
pub fn configured_servers(machine: &Machine, projects: &[PathBuf]) -> BTreeSet<McpServer> {
    let mut all = BTreeSet::new();
    let editors = vscode::product_user_directories(machine, EDITORS);
    let places = HOME.iter().map(|(file, agent)| (machine.home.join(file), *agent));
    let editors = editors.into_iter().map(|user| (user.join("mcp.json"), EDITOR_AGENT));
    for (place, agent) in places.chain(editors) {
        let Some(found) = read_config_file(&place) else { continue };
        add_servers(&mut all, &found, None, agent);
        for (path, inner) in found["projects"].as_object().into_iter().flatten() {
            add_servers(&mut all, inner, Some(&PathBuf::from(path)), agent);
        }
    }
    for project in projects {
        for (file, agent) in PROJECT {
            let Some(found) = read_config_file(&project.join(file)) else { continue };
            add_servers(&mut all, &found, Some(project), *agent);
        }
    }
    all
}

/// Adds the enabled servers of a configuration. They are under one of three keys; a value of an
/// unexpected type loses that key or that server only.
fn add_servers(
    all: &mut BTreeSet<McpServer>,
    configuration: &Value,
    project: Option<&PathBuf>,
    agent: Option<&'static str>,
) {
    let lists = ["mcpServers", "servers", "mcp_servers"].map(|key| configuration[key].as_object());
    for (name, server) in lists.into_iter().flatten().flatten() {
        if server["disabled"] != true && server["enabled"] != false {
            all.insert(McpServer { name: name.clone(), project: project.cloned(), agent });
        }
    }
}

fn read_config_file(path: &Path) -> Option<Value> {
    let text = files::small_text(path, LARGEST)?;
    let text = text.trim_start_matches('\u{feff}');
    if path.extension().is_some_and(|extension| extension == "toml") {
        return toml::from_str(text).ok();
    }
    serde_json::from_str(&plain_json(text)).ok()
}

/// Removes comments and trailing commas from JSON.
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

/// Returns the length in bytes of the string that a text begins with, quotes included.
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
        write(".codex/config.toml", "model = \"x\"\n[mcp_servers.j]\ncommand = \"j\"\n");
        write(".gemini/settings.json", &server("mcpServers", "k"));
        write(".cursor/mcp.json", &server("mcpServers", "l"));
        write("src/web/.mcp.json", &server("mcpServers", "g"));
        write("src/web/.vscode/mcp.json", &server("servers", "h"));
        write("src/web/.github/copilot/mcp.json", &server("mcpServers", "i"));
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        let found = configured_servers(&machine, std::slice::from_ref(&project));
        let of = |place: Option<&PathBuf>| -> Vec<&str> {
            let fits = |server: &&McpServer| server.project.as_ref() == place;
            found.iter().filter(fits).map(|server| server.name.as_str()).collect()
        };
        assert_eq!(of(None), ["a", "b", "d", "e", "f", "j", "k", "l"]);
        let agent = |name: &str| found.iter().find(|server| server.name == name).unwrap().agent;
        assert_eq!((agent("j"), agent("g")), (Some("codex"), None));
        assert_eq!(of(Some(&project)), ["c", "g", "h", "i"]);
    }

    #[test]
    fn broken_and_missing_configurations_mean_none() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/settings.json"), "{nonsense").unwrap();
        let disabled = r#"{"mcpServers":{"off":{"disabled":true},"odd":5},"servers":["x"],
            "projects":{"/x":{"mcpServers":null},"/y":3}}"#;
        std::fs::write(home.path().join(".claude.json"), disabled).unwrap();
        let machine = Machine { home: home.path().to_owned(), ..Machine::default() };
        let names: Vec<String> =
            configured_servers(&machine, &[]).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["odd"]);
    }
}
