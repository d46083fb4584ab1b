//! `docs`: generates parts of documents from the program's own output and the library's tables: the
//! list of agents, the settings and the search fields. The parts are between markers; in the
//! description of the API it is the description of a parameter.

use std::fs;
use std::path::Path;

use agent_journal::search::{describe_query_language, search_fields};
use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde::Deserialize;

use crate::cargo::{aj, build, root};
use crate::farm::AGENTS;
use crate::no_arguments;
use crate::recording_rules::RECORDINGS;

/// Maximum number of directories shown for an agent.
const PLACES: usize = 2;

/// A generated part of a document.
struct Part {
    file: &'static str,
    name: &'static str,
    text: String,
}

/// Writes the generated parts.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    for part in parts()? {
        let path = root().join(part.file);
        let (before, after) = part.apply(&path)?;
        if before != after {
            fs::write(&path, after).with_context(|| format!("could not write {}", part.file))?;
            eprintln!("wrote {}", part.file);
        }
    }
    Ok(())
}

/// Fails if a generated part is out of date.
pub(crate) fn check() -> Result<()> {
    for part in parts()? {
        let (before, after) = part.apply(&root().join(part.file))?;
        ensure!(before == after, "{} is out of date: run `cargo xtask docs`", part.file);
    }
    Ok(())
}

impl Part {
    /// Returns the document as it is and as it should be.
    fn apply(&self, path: &Path) -> Result<(String, String)> {
        let text = fs::read_to_string(path).with_context(|| format!("no {}", self.file))?;
        let after = if path.extension().is_some_and(|extension| extension == "json") {
            replace_description(&text, self.name, &self.text)
        } else {
            replace_between_markers(&text, self.name, &self.text)
        };
        let after =
            after.with_context(|| format!("{} has no place for `{}`", self.file, self.name))?;
        Ok((text, after))
    }
}

/// Replaces the text between the markers of a name.
pub(crate) fn replace_between_markers(document: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: "), format!("<!-- /{name} -->"));
    let start = document.find(&begin)?;
    let start = start + document[start..].find('\n')? + 1;
    let stop = start + document[start..].find(&end)?;
    Some(format!("{}\n{text}\n{}", &document[..start], &document[stop..]))
}

/// Replaces the description of the parameter `q` of an endpoint of the API.
fn replace_description(document: &str, endpoint: &str, text: &str) -> Option<String> {
    const BEGIN: &str = "\"description\": ";
    let mut start = document.find(&format!("\"{endpoint}\": {{"))?;
    start += document[start..].find("\"name\": \"q\"")?;
    start += document[start..].find(BEGIN)? + BEGIN.len();
    let stop = start + document[start..].find(",\n")?;
    let text = serde_json::to_string(text).ok()?;
    Some(format!("{}{text}{}", &document[..start], &document[stop..]))
}

/// Renders the table of search fields.
fn fields() -> String {
    let mut table = String::from("| field | selects | example |\n|---|---|---|\n");
    for field in search_fields() {
        let values: Vec<String> = field.values.iter().map(|value| format!("`{value}`")).collect();
        let values =
            if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
        let (name, help, example) = (field.name, field.help, field.example);
        table.push_str(&format!("| `{name}:` | {help}{values} | `{example}` |\n"));
    }
    table
}

fn parts() -> Result<Vec<Part>> {
    let program = build("dev")?;
    let scratch = tempfile::tempdir().context("could not make a directory")?;
    let (home, journal) = (scratch.path().join("home"), scratch.path().join("journal"));
    fs::create_dir(&home).context("could not make a home")?;
    let ask = |words: &[&str]| -> Result<String> {
        let output = aj(&program, &home, &journal).args(words).output();
        let output = output.context("could not run aj")?;
        if !output.status.success() {
            bail!("aj {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).context("aj wrote no text")
    };
    let sources: Sources = serde_json::from_str(&ask(&["sources", "--all", "--json"])?)
        .context("aj sources changed its shape")?;
    let evidence = evidence(&sources)?;
    let agents = agents(sources, &home);
    ask(&["config", "init"])?;
    let settings = fs::read_to_string(journal.join("config.toml")).context("no settings")?;
    let settings = format!("```toml\n{settings}```\n");
    Ok(vec![
        Part { file: "README.md", name: "agents", text: agents },
        Part { file: "docs/agents.md", name: "evidence", text: evidence },
        Part { file: "docs/agents.md", name: "unrecorded", text: unrecorded_figures() },
        Part { file: "docs/configuration.md", name: "settings", text: settings },
        Part { file: "docs/guide.md", name: "fields", text: fields() },
        Part {
            file: "crates/aj/web/openapi.json",
            name: "/api/v1/search",
            text: describe_query_language(),
        },
    ])
}

#[derive(Deserialize)]
struct Sources {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
struct Agent {
    id: String,
    name: String,
    roots: Vec<Root>,
}

#[derive(Deserialize)]
struct Root {
    path: String,
}

/// Renders the table of agents.
fn agents(sources: Sources, home: &Path) -> String {
    let home = home.to_string_lossy();
    let mut table = String::from("| Agent | Id | Read from (on Linux) |\n|---|---|---|\n");
    for agent in sources.agents {
        let mut places: Vec<String> = agent.roots.iter().map(|root| place(root, &home)).collect();
        let more = places.len().saturating_sub(PLACES);
        places.truncate(PLACES);
        let mut places = places.join(", ");
        if more > 0 {
            places.push_str(&format!(" and {more} more"));
        }
        let page = format!("docs/formats/{}.md", agent.id);
        let name = if root().join(&page).is_file() {
            format!("[{}]({page})", agent.name)
        } else {
            agent.name
        };
        table.push_str(&format!("| {name} | `{}` | {places} |\n", agent.id));
    }
    table
}

/// Renders the table of what verifies the reading of each agent.
fn evidence(sources: &Sources) -> Result<String> {
    let with_samples = sampled_agents()?;
    let fixtures = root().join("crates/agent-sessions/tests/fixtures");
    let mut table =
        String::from("| agent | id | recordings | samples | fixtures |\n|---|---|---|---|--:|\n");
    for agent in &sources.agents {
        let cases = fs::read_dir(fixtures.join(&agent.id)).into_iter().flatten().flatten();
        let cases = cases.filter(|case| case.path().is_dir()).count();
        let is_recorded = AGENTS.iter().any(|recorded| recorded.id == agent.id);
        let has_samples = with_samples.contains(&agent.id);
        let yes_or_dash = |is_true: bool| if is_true { "yes" } else { "–" };
        let page = format!("docs/formats/{}.md", agent.id);
        let name = if root().join(&page).is_file() {
            format!("[{}](formats/{}.md)", agent.name, agent.id)
        } else {
            agent.name.clone()
        };
        let (recorded, sampled) = (yes_or_dash(is_recorded), yes_or_dash(has_samples));
        let row = format!("| {name} | `{}` | {recorded} | {sampled} | {cases} |\n", agent.id);
        table.push_str(&row);
    }
    Ok(table)
}

/// Renders the table of the figures that agents record nowhere.
fn unrecorded_figures() -> String {
    let mut table = String::from("| agent | not recorded |\n|---|---|\n");
    for agent in AGENTS {
        let rules = RECORDINGS.iter().find(|(name, _)| *name == agent.rules);
        let figures = rules.map(|(_, figures)| figures.join(", ").replace('_', " "));
        if let Some(figures) = figures.filter(|figures| !figures.is_empty()) {
            table.push_str(&format!("| {} | {figures} |\n", agent.name));
        }
    }
    table
}

/// Returns the agents of which there are samples, from the test that compares them.
fn sampled_agents() -> Result<Vec<String>> {
    let file = root().join("crates/agent-journal/tests/corpus.rs");
    let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    let (_, list) = text.split_once("const FOLDERS").context("no list of samples")?;
    let (list, _) = list.split_once("];").context("the list of samples has no end")?;
    let row = Regex::new(r#"\("[^"]+",\s*"([^"]+)"\)"#).expect("the pattern is a constant");
    Ok(row.captures_iter(list).map(|row| row[1].to_owned()).collect())
}

fn place(root: &Root, home: &str) -> String {
    format!("`{}`", root.path.replacen(home, "~", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let document = "a\n<!-- x: made -->\nold\n<!-- /x -->\nb\n";
        let wanted = "a\n<!-- x: made -->\n\nnew\n<!-- /x -->\nb\n";
        assert_eq!(replace_between_markers(document, "x", "new").as_deref(), Some(wanted));
        assert_eq!(replace_between_markers(wanted, "x", "new").as_deref(), Some(wanted));
        assert_eq!(replace_between_markers(document, "y", "new"), None);
    }

    #[test]
    fn only_the_query_of_the_named_endpoint_is_described() {
        let q = |about: &str| format!("{{ \"name\": \"q\", \"description\": \"{about}\",\n }}");
        let document = format!("\"/a\": {{ {} }} \"/b\": {{ {} }}", q("x"), q("y"));
        let wanted = format!("\"/a\": {{ {} }} \"/b\": {{ {} }}", q("x"), q("a \\\"b\\\""));
        assert_eq!(replace_description(&document, "/b", "a \"b\""), Some(wanted));
        assert_eq!(replace_description(&document, "/c", "z"), None);
    }

    #[test]
    fn figures_that_an_agent_does_not_record_are_listed_in_words() {
        let table = unrecorded_figures();
        assert!(table.contains("| hermes | model calls |\n"), "{table}");
        assert!(!table.contains("| codex |"), "{table}");
    }

    #[test]
    fn an_agent_with_many_places_shows_the_first_ones() {
        let json = r#"{"agents":[{"id":"x","name":"X","roots":
            [{"path":"/h/.x"},{"path":"/h/.y"},{"path":"/h/.z"}]}]}"#;
        let table = agents(serde_json::from_str(json).unwrap(), Path::new("/h"));
        assert_eq!(table.lines().last(), Some("| X | `x` | `~/.x`, `~/.y` and 1 more |"));
    }
}
