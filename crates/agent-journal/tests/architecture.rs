//! The arrows and absences of `ARCHITECTURE.md`, held over the source text: who may know whom,
//! who may name an agent, what the library never does, how large things may grow.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::connectors::ALL;

/// Who may know whom; what is not listed is an error. An exception says its reason.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("maps", &[]),
    ("helper", &[]),
    ("escape", &[]),
    ("uri", &[]),
    ("error", &[]),
    ("interrupt", &["error"]),
    // A user may name prices and further homes.
    ("config", &["analyze", "connectors"]),
    // Threads take part in a look.
    ("connectors", &["model", "maps", "helper", "uri", "error"]),
    // `search::Filter` says itself in SQL; the kind of a home is recorded.
    ("store", &["model", "maps", "uri", "error", "search", "config"]),
    // The index lies in a directory as private as the store's; the user chooses the embedder.
    ("index", &["model", "escape", "error", "store", "config"]),
    // A query resolves the names of agents.
    (
        "search",
        &[
            "model",
            "maps",
            "helper",
            "interrupt",
            "escape",
            "error",
            "store",
            "index",
            "connectors",
        ],
    ),
    ("analyze", &["model", "maps", "error", "store", "search"]),
    // A piece is looked for in a text without what steers a terminal.
    ("export", &["model", "escape", "error"]),
    ("sync", &["model", "helper", "error", "config", "connectors", "store", "index"]),
];

/// What the program may know of connectors: facts about agents and machines, never a reader.
const FACTS: [&str; 4] = ["Agent", "Machine", "Os", "Resume"];

/// Words that are a name of an agent elsewhere, and mean something else here: the user of
/// development containers, values that an earlier API gave out.
const OTHERWISE: &[(&str, &str)] = &[
    ("export/redact/place.rs", "vscode"),
    ("web/api/before.rs", "cli"),
    ("web/api/before.rs", "vscode"),
];

/// Longest file without its tests, longest function, most parameters.
const GATES: (usize, usize, usize) = (1000, 100, 6);

#[test]
fn modules_know_only_those_below_them() {
    let mut wrong = BTreeSet::new();
    for file in sources("agent-journal") {
        let module = file.module();
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else { continue };
        for known in file.mentions("crate::") {
            if known != module && !allowed.contains(&known.as_str()) {
                wrong.insert(format!("{}: `{module}` may not know `{known}`", file.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_module_has_its_place_among_the_arrows() {
    // The door, and what leads out and in through it, may know everything.
    let doors = [
        "lib",
        "journal",
        "leave",
        "arrive",
        "resume",
        "health",
        "reach",
        "follow",
        "trace",
        "view",
        "presence",
        "understanding",
    ];
    for file in sources("agent-journal") {
        let module = file.module();
        let is_known = ARROWS.iter().any(|(name, _)| *name == module);
        assert!(is_known || doors.contains(&module.as_str()), "no arrows for `{module}`");
    }
}

#[test]
fn only_connectors_name_an_agent() {
    let mut names = BTreeSet::new();
    for agent in ALL.iter().map(|connector| connector.agent()) {
        names.extend([agent.id, agent.key, agent.variable, agent.badge]);
        names.extend(agent.aliases);
    }
    for file in sources("agent-journal").into_iter().chain(sources("aj")) {
        if file.module() == "connectors" {
            continue;
        }
        for literal in &file.literals {
            // An example of a command line has to use some name.
            let lines = literal.lines().filter(|line| !line.trim_start().starts_with("aj "));
            for word in lines.flat_map(words) {
                let is_name = names.contains(word) && !OTHERWISE.contains(&(&file.name, word));
                assert!(!is_name, "{} names an agent: {literal:?}", file.name);
            }
        }
    }
}

/// The words a literal is made of, as names of agents are written.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && !"-_".contains(character))
}

#[test]
fn views_see_no_connector() {
    for file in sources("aj") {
        for known in file.mentions("agent_journal::connectors::") {
            assert!(FACTS.contains(&known.as_str()), "{} knows `{known}`", file.name);
        }
    }
}

#[test]
fn the_library_never_prints_and_never_reads_the_environment() {
    let forbidden =
        ["println!", "print!", "eprintln!", "eprint!", "dbg!", "std::env::", "env::var"];
    for file in sources("agent-journal") {
        for word in forbidden {
            let found = file.code.lines().find(|line| has_word(line, word));
            assert!(found.is_none(), "{}: {}", file.name, found.unwrap_or_default().trim());
        }
    }
}

#[test]
fn there_is_no_async_in_the_library() {
    for file in sources("agent-journal") {
        for word in ["async ", ".await"] {
            assert!(!file.code.contains(word), "{}: `{word}`", file.name);
        }
    }
    let runtimes = ["tokio", "async-std", "async-executor", "smol", "futures-executor", "actix-rt"];
    for package in dependencies("agent-journal") {
        assert!(!runtimes.contains(&package.as_str()), "the library depends on {package}");
    }
}

#[test]
fn files_and_functions_stay_within_their_gates() {
    let (lines, length, parameters) = GATES;
    for file in sources("agent-journal").into_iter().chain(sources("aj")) {
        let code = file.code.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(code <= lines, "{} has {code} lines", file.name);
        for function in functions(&file.code) {
            let Function { name, lines, takes } = function;
            assert!(lines <= length, "{}: `{name}` has {lines} lines", file.name);
            assert!(takes <= parameters, "{}: `{name}` takes {takes} parameters", file.name);
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in sources("agent-journal").into_iter().chain(sources("aj")) {
        assert!(file.text.starts_with("//! "), "{} has no first line about itself", file.name);
    }
}

#[test]
fn nothing_is_left_for_later() {
    for file in sources("agent-journal").into_iter().chain(sources("aj")) {
        for word in ["todo!", "unimplemented!", "TODO", "FIXME", "#[ignore"] {
            assert!(!file.text.contains(word), "{}: `{word}`", file.name);
        }
    }
}

/// A source file, taken apart.
struct SourceFile {
    /// Its path below `src`.
    name: String,
    text: String,
    /// The text without comments, tests and what is inside literals.
    code: String,
    /// What is inside the literals outside tests.
    literals: Vec<String>,
}

impl SourceFile {
    /// The top module it belongs to.
    fn module(&self) -> String {
        let first = self.name.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first).to_owned()
    }

    /// The names that follow a path, grouped or not.
    fn mentions(&self, path: &str) -> Vec<String> {
        let mut names = Vec::new();
        for (at, _) in self.code.match_indices(path) {
            let rest = &self.code[at + path.len()..];
            let Some(group) = rest.strip_prefix('{') else {
                names.extend(identifier(rest));
                continue;
            };
            for part in top_level(&group[..close(group)]) {
                names.extend(identifier(part.trim_start()));
            }
        }
        names
    }
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty() && name != "self").then(|| name.to_owned())
}

/// Where a group that has been opened ends.
fn close(text: &str) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' if depth == 0 => return at,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The parts between the commas of a group, inner groups left whole.
fn top_level(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '(' | '[' | '<' => depth += 1,
            // The arrow of a function type closes nothing.
            '>' if text[..at].ends_with('-') => {}
            '}' | ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn sources(name: &str) -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    assert!(paths.len() > 10, "no sources in {}", root.display());
    paths.into_iter().map(|path| take_apart(&path, &root)).collect()
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        // Tests may know everything, in a file or a directory of their own.
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            paths.push(path);
        }
    }
}

fn take_apart(path: &Path, root: &Path) -> SourceFile {
    let text = fs::read_to_string(path).unwrap();
    let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    // Tests come last in a file.
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let (code, literals) = without_literals(&text[..end]);
    SourceFile { name, text, code, literals }
}

/// Takes comments and the inside of literals out of a text; line ends stay.
fn without_literals(text: &str) -> (String, Vec<String>) {
    let (mut code, mut literals) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((quote, hashes)) = raw_start(rest) {
            let ending = format!("\"{}", "#".repeat(hashes));
            let length = rest[quote..].find(&ending).unwrap();
            literals.push(rest[quote..quote + length].to_owned());
            quote + length + ending.len()
        } else if first == '"' {
            let length = quoted(&rest[1..], '"');
            literals.push(rest[1..=length].to_owned());
            length + 2
        } else if first == '\'' && is_character(rest) {
            quoted(&rest[1..], '\'') + 2
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..taken].matches('\n').map(|_| '\n'));
        rest = &rest[taken..];
    }
    (code, literals)
}

/// Where the inside of a raw literal begins, and how many hashes it has.
fn raw_start(text: &str) -> Option<(usize, usize)> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let quote = text.len() - after.len() + hashes;
    text[quote..].starts_with('"').then_some((quote + 1, hashes))
}

/// The length of what is inside a literal that has been opened.
fn quoted(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == end => return at,
            _ => {}
        }
    }
    text.len()
}

/// Tells a character from a lifetime.
fn is_character(text: &str) -> bool {
    let mut characters = text.chars().skip(1);
    let first = characters.next();
    first == Some('\\') || characters.next() == Some('\'')
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|character: char| character.is_alphanumeric() || character == '_')
    })
}

struct Function {
    name: String,
    lines: usize,
    takes: usize,
}

/// Every function with its length and how many parameters it takes, itself not counted.
fn functions(code: &str) -> Vec<Function> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let rest = &code[at + 3..];
        let Some(name) = identifier(rest).filter(|_| !code[..at].ends_with(char::is_alphanumeric))
        else {
            continue;
        };
        let Some(open) = rest.find('(') else { continue };
        let inside = &rest[open + 1..];
        let parameters = &inside[..close(inside)];
        let takes = top_level(parameters).into_iter().filter(|one| !has_word(one, "self")).count();
        let after = &inside[parameters.len()..];
        let Some(body) = after.find(['{', ';']).filter(|end| after[*end..].starts_with('{')) else {
            continue;
        };
        let body = &after[body + 1..];
        let lines = body[..close(body)].lines().count();
        all.push(Function { name, lines, takes });
    }
    all
}

/// Everything a package of the lock file depends on, directly or not; what only its tests need
/// is part of that.
fn dependencies(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(path).unwrap();
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |line: &str| line.trim_matches([' ', '"', ',']).to_owned();
        let name =
            package.lines().find_map(|line| line.strip_prefix("name = ")).map(value).unwrap();
        let needs = package.lines().filter(|line| line.starts_with(" \""));
        let needs = needs.map(|line| value(line).split(' ').next().unwrap().to_owned());
        packages.entry(name).or_default().extend(needs);
    }
    let (mut all, mut waiting) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(package) = waiting.pop() {
        if all.insert(package.clone()) {
            waiting.extend(packages[&package].iter().cloned());
        }
    }
    all
}

#[test]
fn the_reader_of_sources_understands_rust() {
    let text = "fn a<'x>(b: &'x str, (c, d): (u8, u8), e: fn(u8) -> u8) -> u8 {\n    // fn no(\n    \
        let f = \"}\\\"\"; let g = r#\"{ \"fn\" \"#; let h = '}'; let i = '\\'';\n    1\n}\n";
    let (code, literals) = without_literals(text);
    assert_eq!(literals, ["}\\\"", "{ \"fn\" "]);
    let all = functions(&code);
    assert_eq!((all.len(), all[0].name.as_str(), all[0].takes), (1, "a", 3));
    assert_eq!(all[0].lines, 4);
    let file = SourceFile {
        name: "x/y.rs".into(),
        text: String::new(),
        code: "use crate::{a, b::{c, d}};\ncrate::e::f()".into(),
        literals: Vec::new(),
    };
    assert_eq!(
        (file.module().as_str(), file.mentions("crate::")),
        ("x", vec!["a".into(), "b".into(), "e".into()])
    );
    assert!(dependencies("aj").contains("agent-journal") && !dependencies("strsim").contains("aj"));
}
