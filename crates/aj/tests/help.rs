//! The help pages: as they were read last, one for every command, their examples true.

use std::fs;
use std::path::Path;

use agent_journal::search::{FieldTarget, describe_query_language, search_fields};

use crate::support::{Run, Test, two_agents};

/// Every command that has a help page.
const COMMANDS: &[&str] = &[
    "",
    "search",
    "list",
    "show",
    "resume",
    "restore",
    "handoff",
    "blame",
    "why",
    "files",
    "stats",
    "score",
    "statusline",
    "export",
    "import",
    "secrets",
    "serve",
    "sources",
    "index",
    "config",
    "config show",
    "config path",
    "config init",
    "mcp",
    "skill",
    "doctor",
    "completions",
    "man",
    "demo",
    "tui",
];

#[test]
fn help_pages_are_as_they_were_read_last() {
    let test = Test::new().env("COLUMNS", "100");
    let mut wrong = Vec::new();
    for &command in COMMANDS {
        let run = test.aj(format!("{command} --help").trim_start()).found();
        let name = format!("help {command}").trim_end().replace(' ', "-");
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/snapshots/{name}.txt"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &run.stdout).unwrap();
        }
        if fs::read_to_string(&file).unwrap_or_default() != run.stdout {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "differ from their snapshots (BLESS=1 rewrites): {wrong:?}");
}

#[test]
fn every_command_is_on_the_first_help_page_and_among_those_tested() {
    let help = Test::new().aj("--help").found();
    let commands: Vec<&str> = help
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for command in commands.into_iter().filter(|name| *name != "help") {
        assert!(COMMANDS.contains(&command), "`{command}` has no snapshot of its help");
    }
}

#[test]
fn every_search_field_is_described_in_every_place() {
    let test = Test::new();
    let print = |command: &str| test.aj(command).found().stdout;
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    let api: serde_json::Value = serde_json::from_str(&read("web/openapi.json")).unwrap();
    let query = &api["paths"]["/api/v1/search"]["get"]["parameters"][0];
    assert_eq!(query["description"], describe_query_language());
    let (search, skill, guide) =
        (print("search --help"), print("skill"), read("../../docs/guide.md"));
    let (bash, zsh) = (print("completions bash"), print("completions zsh"));
    let (list, stats) = (print("list --help"), print("stats --help"));
    for field in search_fields() {
        let name = format!("{}:", field.name);
        let has_name = |text: &str| {
            text.split([' ', '\n', ',']).any(|word| word.trim_end_matches('.') == name)
        };
        assert!(has_name(&list), "{name} in `aj list --help`");
        assert_eq!(has_name(&stats), field.target != FieldTarget::Messages, "{name}: {stats}");
        assert!(search.contains(&format!("  {name}")), "{name} in `aj search --help`");
        assert!(has_name(&bash), "{name} for bash");
        assert!(zsh.contains(&format!("{}\\:", field.name)), "{name} for zsh");
        assert!(skill.contains(&format!("- `{name}` {}", field.help)), "{name} in the skill");
        assert!(guide.contains(&format!("| `{name}` | {}", field.help)), "{name} in the guide");
        for value in field.values {
            assert!(bash.contains(&format!("{name}{value}")), "{name}{value} for bash");
            assert!(search.contains(value) && skill.contains(value), "{name}{value}");
        }
    }
}

#[test]
fn the_examples_of_every_help_page_run() {
    let test = two_agents();
    test.aj("index").found();
    for command in COMMANDS.iter().filter(|command| !command.starts_with("config ")) {
        let help = test.aj(format!("{command} --help").trim_start()).found().stdout;
        let examples: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .skip(1)
            .take_while(|line| line.starts_with("  aj "))
            .collect();
        assert!(!examples.is_empty(), "`aj {command} --help` has no example");
        for example in examples {
            let line = example.trim_start();
            // What an example does is told after two or more spaces.
            let line = line.split_once("  ").map_or(line, |(line, _)| line);
            let line = line.split_once(" | ").map_or(line, |(line, _)| line);
            let line = line.split_once(" > ").map_or(line, |(line, _)| line);
            // Alone it opens a screen.
            let Some(line) = line.strip_prefix("aj ") else { continue };
            let words = words(line);
            let ids = |word: &String| word.replace("3f1c", "3f1c0001").replace("#14", "#4");
            // Ended by a person or a signal only: they have tests of their own.
            if words.iter().any(|word| word == "--watch") || ["serve", "tui"].contains(command) {
                continue;
            }
            // Some write files where they are run, and one reads files.
            let here = tempfile::tempdir().unwrap();
            fs::create_dir(here.path().join("src")).unwrap();
            fs::write(here.path().join("src/main.rs"), "// by hand\n".repeat(60)).unwrap();
            if *command == "import" {
                for (what, file) in [("--all", "all.ndjson.zst"), ("3f1c0001", "session.json")] {
                    let file = here.path().join(file);
                    Run::of(test.command(["export", what, "-o"]).arg(file)).code(0);
                }
                let chats = include_str!("chats/chatgpt.json");
                fs::write(here.path().join("data-export.zip"), chats).unwrap();
            }
            let run = Run::of(test.command(words.iter().map(ids)).current_dir(here.path()));
            // What stands in the way of resuming is a matter of the machine.
            // An empty answer says so.
            let is_quiet = run.stderr.is_empty() || *command == "resume" || run.code == Some(1);
            assert!(matches!(run.code, Some(0 | 1)) && is_quiet, "{example}\n{run}");
        }
    }
}

/// Splits a line as a shell would, as far as examples need it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in line.trim_end().chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_program_tells_its_version_and_refuses_what_it_does_not_know() {
    let test = Test::new();
    test.aj("--version").found().stdout(concat!("aj ", env!("CARGO_PKG_VERSION"), "\n"));
    test.aj("frobnicate").code(2).stdout("").says(["unrecognized subcommand"]);
    test.aj("list --limit -1").code(2).stdout("");
    test.aj("list --frobnicate").code(2).stdout("").says(["unexpected argument"]);
}
