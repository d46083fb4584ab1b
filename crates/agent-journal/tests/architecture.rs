//! The arrows and absences of `ARCHITECTURE.md`, held over the source text: who may know whom,
//! who may name an agent, what the library never does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::connectors::{ALL, unread_agent_names};

/// Who may know whom; what is not listed is an error. An exception says its reason.
const ARROWS: &[(&str, &[&str])] = &[
    ("maps", &[]),
    // Threads take part in a scan.
    ("work_share", &["connectors"]),
    ("escape", &[]),
    ("uri", &[]),
    ("home_kind", &[]),
    ("rate", &[]),
    ("error", &[]),
    ("private", &["error"]),
    ("interrupt", &["error"]),
    // The filter is data of the level of the model: search parses it, the store writes it in SQL.
    ("filter", &["model", "maps"]),
    // A user may name prices and further homes.
    ("config", &["rate", "home_kind", "connectors"]),
    ("store", &["model", "maps", "uri", "error", "private", "filter", "home_kind"]),
    // The user chooses the embedder.
    ("index", &["model", "escape", "error", "private", "filter", "config"]),
    // A query resolves the names of agents.
    (
        "search",
        &[
            "model",
            "maps",
            "work_share",
            "interrupt",
            "escape",
            "error",
            "filter",
            "store",
            "index",
            "connectors",
        ],
    ),
    ("analyze", &["model", "maps", "error", "rate", "filter", "store"]),
    // The words of all views: for tiers, kinds of text, sessions and costs.
    ("present", &["model", "filter", "store", "search", "analyze"]),
    // A piece is looked for in a text without what steers a terminal.
    ("export", &["model", "escape", "error", "present"]),
    // Connectors read stored copies of files.
    ("archive", &["model", "error", "private", "connectors", "store"]),
    (
        "sync",
        &[
            "model",
            "work_share",
            "error",
            "filter",
            "config",
            "connectors",
            "store",
            "index",
            "archive",
        ],
    ),
];

/// The same for the crate of sessions.
const SESSION_ARROWS: &[(&str, &[&str])] =
    &[("model", &[]), ("error", &[]), ("connectors", &["model", "error"])];

/// What the program may know of connectors: facts about agents and machines, never a reader.
const FACTS: [&str; 4] = ["Agent", "Machine", "Os", "Resume"];

/// Words that are a name of an agent elsewhere, and mean something else here: the user of
/// development containers, values that an earlier API gave out.
const OTHERWISE: &[(&str, &str)] = &[
    ("export/redact/place.rs", "vscode"),
    ("web/api/before.rs", "cli"),
    ("web/api/before.rs", "vscode"),
];

/// Phrases of a translated dialect that no user should read; `docs/glossary.md` has the words to use.
const DIALECT: &[&str] = &[
    "a beginning",
    "anew",
    "are told",
    "asked for",
    "belongs into",
    "could be any of",
    "exists already",
    "go on with",
    "goes on with",
    "how well it goes",
    "is no date",
    "is no field",
    "is no id",
    "is no json",
    "is no message",
    "is no range",
    "is no regular expression",
    "is no time zone",
    "is no version",
    "is there already",
    "is to be done",
    "is told",
    "its beginning",
    "known are",
    "live on",
    "lives on",
    "look for news",
    "look whether",
    "looking for news",
    "looks whether",
    "made up",
    "makes it",
    "no screen",
    "not there",
    "nothing found of",
    "nothing of that",
    "pass over",
    "put in by",
    "stands beside",
    "stands in the way",
    "take in",
    "take out",
    "taken out",
    "takes out",
    "tells",
    "the latest first",
    "told by",
    "was told",
    "what is new",
    "where was looked",
    "whoever",
    "without looking",
    "written down",
];

/// Text files with words for users, below the directory of the crates.
const TEXTS: [&str; 2] = ["aj/src/commands/skill.md", "aj/web/openapi.json"];

#[test]
fn modules_know_only_those_below_them() {
    let mut wrong = BTreeSet::new();
    for (library, arrows) in [("agent-sessions", SESSION_ARROWS), ("agent-journal", ARROWS)] {
        for file in sources(library) {
            let module = file.module();
            let allowed = arrows.iter().find(|(name, _)| *name == module);
            let Some((_, allowed)) = allowed else { continue };
            // Both names of the crate of sessions lead to its modules.
            let own = file.mentions("crate::").into_iter();
            for known in own.chain(file.mentions("agent_sessions::")) {
                let is_error = ["Cause", "Error", "Result"].contains(&known.as_str());
                if known != module && !is_error && !allowed.contains(&known.as_str()) {
                    wrong.insert(format!("{}: `{module}` may not know `{known}`", file.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_circle_is_among_the_arrows() {
    assert_eq!(circle(ARROWS), None);
    let arrows: &[(&str, &[&str])] =
        &[("a", &["d", "b"]), ("b", &["c"]), ("c", &["a"]), ("d", &[])];
    assert_eq!(circle(arrows), Some(vec!["a", "b", "c", "a"]));
    assert_eq!(circle(&[("a", &["a"])]), Some(vec!["a", "a"]));
}

/// The first way along the arrows that comes back to where it began.
fn circle<'a>(arrows: &[(&'a str, &[&'a str])]) -> Option<Vec<&'a str>> {
    fn follow<'a>(
        way: &mut Vec<&'a str>,
        arrows: &[(&'a str, &[&'a str])],
    ) -> Option<Vec<&'a str>> {
        let last = *way.last()?;
        let (_, known) = arrows.iter().find(|(name, _)| *name == last)?;
        for next in *known {
            let start = way.iter().position(|name| name == next);
            way.push(next);
            let found = match start {
                Some(start) => Some(way[start..].to_vec()),
                None => follow(way, arrows),
            };
            if found.is_some() {
                return found;
            }
            way.pop();
        }
        None
    }
    arrows.iter().find_map(|(name, _)| follow(&mut vec![*name], arrows))
}

#[test]
fn every_module_has_its_place_among_the_arrows() {
    // The door, and what leads out and in through it, may know everything.
    let doors = [
        "lib",
        "journal",
        "session_export",
        "leftovers",
        "import",
        "resume",
        "restore",
        "health",
        "recall_check",
        "watch",
        "blame",
        "transcript_page",
        "presence",
        "understanding",
    ];
    let session_doors = ["lib", "sessions"];
    for (library, arrows, doors) in [
        ("agent-sessions", SESSION_ARROWS, &session_doors[..]),
        ("agent-journal", ARROWS, &doors[..]),
    ] {
        for file in sources(library) {
            let module = file.module();
            let is_known = arrows.iter().any(|(name, _)| *name == module);
            assert!(is_known || doors.contains(&module.as_str()), "no arrows for `{module}`");
        }
    }
}

#[test]
fn only_connectors_name_an_agent() {
    let mut names = BTreeSet::new();
    for agent in ALL.iter().map(|connector| connector.agent()) {
        names.extend([agent.id, agent.key, agent.variable, agent.badge]);
        names.extend(agent.aliases);
    }
    names.extend(unread_agent_names());
    // A verb of English and a keyword of many languages.
    names.remove("continue");
    for file in everything() {
        if file.module() == "connectors" {
            continue;
        }
        for literal in &file.literals {
            // An ampersand in HTML has the name of an agent.
            let literal = literal.replace("&amp;", "&");
            // An example of a command line has to use some name.
            let lines = literal.lines().filter(|line| !line.trim_start().starts_with("aj "));
            for word in lines.flat_map(words) {
                let is_name = names.contains(word) && !OTHERWISE.contains(&(&file.name, word));
                assert!(!is_name, "{} names an agent: {literal:?}", file.name);
            }
        }
    }
}

#[test]
fn users_read_plain_english() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts: Vec<(String, String)> = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        for file in sources(&name) {
            texts.extend(file.literals.into_iter().map(|text| (file.name.clone(), text)));
        }
    }
    assert!(texts.len() > 5000, "{} literals", texts.len());
    for text in TEXTS {
        texts.push((text.to_owned(), fs::read_to_string(crates.join(text)).unwrap()));
    }
    let pages = fs::read_dir(crates.join("aj/tests/snapshots")).unwrap();
    let pages: Vec<_> = pages.map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 20, "{} help pages", pages.len());
    for page in pages {
        texts.push((page.display().to_string(), fs::read_to_string(page).unwrap()));
    }
    let mut found = Vec::new();
    for (place, text) in &texts {
        found.extend(dialect(text).map(|phrase| format!("{place}: `{phrase}` in {text:.200}")));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The phrases of the dialect in a text, whatever stands between their words.
fn dialect(text: &str) -> impl Iterator<Item = &'static str> {
    let text = text.to_ascii_lowercase();
    let words =
        text.split(|one: char| !one.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let text = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    DIALECT.iter().copied().filter(move |phrase| text.contains(&format!(" {phrase} ")))
}

#[test]
fn the_dialect_is_recognised() {
    let found = |text: &str| dialect(text).collect::<Vec<_>>();
    assert_eq!(found("`aj sources` tells where was looked"), ["tells", "where was looked"]);
    assert_eq!(found("`x` is no date; `y` is not a date"), ["is no date"]);
    assert_eq!(found("the index is made \\\n    anew"), ["anew"]);
    assert!(found("it is not therefore wrong").is_empty());
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
        let past = file.mentions("agent_sessions::");
        assert!(past.is_empty(), "{} goes past the journal: {past:?}", file.name);
    }
}

#[test]
fn views_know_no_command() {
    // The command line itself; all other modules share code in modules of their own.
    let command_line = ["main", "args", "commands"];
    for file in sources("aj") {
        if !command_line.contains(&file.module().as_str()) {
            let known = file.mentions("crate::");
            assert!(!known.contains(&"commands".to_owned()), "{} knows a command", file.name);
        }
    }
}

#[test]
fn the_library_never_prints_and_never_reads_the_environment() {
    let forbidden =
        ["println!", "print!", "eprintln!", "eprint!", "dbg!", "std::env::", "env::var"];
    for file in libraries() {
        // `Machine::current` reads the environment; clippy holds the rest of the file to the rule.
        let is_reader = file.name == "connectors/machine.rs";
        for word in forbidden {
            let is_allowed = is_reader && word.contains("env::");
            let found = file.code.lines().find(|line| !is_allowed && has_word(line, word));
            assert!(found.is_none(), "{}: {}", file.name, found.unwrap_or_default().trim());
        }
    }
}

#[test]
fn there_is_no_async_in_the_library() {
    for file in libraries() {
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
fn every_file_says_what_it_is_for() {
    for file in everything() {
        assert!(file.text.starts_with("//! "), "{} has no first line about itself", file.name);
    }
}

#[test]
fn nothing_is_left_for_later() {
    for file in everything() {
        for word in ["todo!", "unimplemented!", "TODO", "FIXME", "#[ignore"] {
            // Literals may quote what agents write.
            let quoted: usize = file.literals.iter().map(|text| text.matches(word).count()).sum();
            assert!(file.text.matches(word).count() <= quoted, "{}: `{word}`", file.name);
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

/// The sources of both libraries.
fn libraries() -> Vec<SourceFile> {
    let mut all = sources("agent-sessions");
    all.extend(sources("agent-journal"));
    all
}

/// The sources of both libraries and of the program.
fn everything() -> Vec<SourceFile> {
    let mut all = libraries();
    all.extend(sources("aj"));
    all
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
    assert!(!code.contains("no") && !code.contains("}\\\"") && code.contains("let g = "), "{code}");
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
