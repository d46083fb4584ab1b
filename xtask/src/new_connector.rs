//! `new-connector`: creates a connector from a template, adds its two lines to `connectors/mod.rs`,
//! and creates the fixture that tests it against the laws from the start.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{root, run as call};

const TEMPLATE: &str = include_str!("../templates/connector.rs.txt");
const SESSION: &str = include_str!("../templates/session.jsonl");

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [id] = arguments else { bail!("`new-connector` takes the agent's id, such as `goose`") };
    let names = Names::of(id)?;
    let library = root().join("crates/agent-sessions");
    let list = library.join("src/connectors/mod.rs");
    let file = library.join(format!("src/connectors/{}.rs", names.snake));
    let fixture = library.join(format!("tests/fixtures/{id}/first-session/home/.{id}/sessions"));
    let folder = file.with_extension("");
    ensure!(!file.exists() && !folder.exists(), "there is a connector `{id}` already");

    let text = fs::read_to_string(&list).with_context(|| attempt(&list))?;
    let text = names.list(&text).context("connectors/mod.rs has another shape than expected")?;
    fs::write(&file, names.fill(TEMPLATE)).with_context(|| attempt(&file))?;
    call(Command::new("rustfmt").args(["--edition", "2024"]).arg(&file).current_dir(root()))?;
    fs::create_dir_all(&fixture).with_context(|| attempt(&fixture))?;
    let session = fixture.join("first.jsonl");
    fs::write(&session, SESSION).with_context(|| attempt(&session))?;
    fs::write(&list, text).with_context(|| attempt(&list))?;
    print!("{}", names.fill(NEXT));
    Ok(())
}

/// The steps that are left to do.
const NEXT: &str = "created crates/agent-sessions/src/connectors/{snake}.rs and its fixture. Next:
  1. replace tests/fixtures/{id}/first-session/home with a small session that the agent wrote
  2. implement roots, discover_sources and read_source
  3. cargo xtask bless {id}, then read records.jsonl: what is missing there is missing
  4. cargo xtask test
  5. write docs/formats/{id}.md and a line in CHANGELOG.md, run cargo xtask docs
";

fn attempt(path: &Path) -> String {
    format!("could not write {}", path.display())
}

/// The name of an agent in all spellings.
struct Names {
    id: String,
    snake: String,
    camel: String,
    title: String,
}

impl Names {
    fn of(id: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            id.chars().all(plain) && id.starts_with(|c: char| c.is_ascii_lowercase()),
            "`{id}` is no id: lower-case letters, digits and dashes, a letter first"
        );
        ensure!(!id.ends_with('-') && !id.contains("--"), "`{id}` has a dash too many");
        let words: Vec<String> = id.split('-').map(capital).collect();
        Ok(Self {
            id: id.to_owned(),
            snake: id.replace('-', "_"),
            camel: words.concat(),
            title: words.join(" "),
        })
    }

    /// Inserts the names into a template.
    fn fill(&self, template: &str) -> String {
        template
            .replace("{id}", &self.id)
            .replace("{snake}", &self.snake)
            .replace("{SNAKE}", &self.snake.to_uppercase())
            .replace("{Type}", &self.camel)
            .replace("{Name}", &self.title)
    }

    /// Adds the connector to the list of connectors: its module in alphabetical order, its value
    /// last.
    fn list(&self, text: &str) -> Option<String> {
        let module = format!("mod {};", self.snake);
        let value = format!("    &{}::{},", self.snake, self.camel);
        let mut lines: Vec<&str> = text.lines().collect();
        let is_module = |line: &str| line.starts_with("mod ") && line.ends_with(';');
        let end = lines.iter().rposition(|line| is_module(line))? + 1;
        let later = lines.iter().position(|line| is_module(line) && **line > *module);
        lines.insert(later.unwrap_or(end), &module);
        let all = lines.iter().position(|line| line.starts_with("pub const ALL"))?;
        let end = all + lines[all..].iter().position(|line| *line == "];")?;
        lines.insert(end, &value);
        Some(lines.join("\n") + "\n")
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connector_takes_its_place_in_the_list() {
        let list = "mod a;\nmod z;\n\npub const ALL: &[&dyn C] = &[\n    &z::Z,\n    &a::A,\n];\n";
        let wanted = "mod a;\nmod my_agent;\nmod z;\n\npub const ALL: &[&dyn C] = &[\n    &z::Z,\n    &a::A,\n    &my_agent::MyAgent,\n];\n";
        assert_eq!(Names::of("my-agent").unwrap().list(list).as_deref(), Some(wanted));
        let behind = Names::of("zz").unwrap().list(list).unwrap();
        assert!(behind.starts_with("mod a;\nmod z;\nmod zz;\n"));
    }

    #[test]
    fn ids_are_lower_case_words() {
        for wrong in ["", "Goose", "9x", "a_b", "a--b", "a-", "-a"] {
            assert!(Names::of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Names::of("my-agent2").unwrap().title, "My Agent2");
    }
}
