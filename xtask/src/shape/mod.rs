//! `shape`: sizes against their goals. Goals and second looks are advice; only what is beyond the
//! gate fails, here as in the library's `tests/architecture.rs`.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cargo::root;
use crate::no_arguments;
use source::Measures;

/// The folders that are measured.
const FOLDERS: [&str; 3] = ["crates/agent-journal/src", "crates/aj/src", "xtask/src"];

/// A measure: where to look again, and what does not pass.
struct Limit {
    what: &'static str,
    again: usize,
    gate: usize,
}

const FUNCTION: Limit = Limit { what: "lines of a function", again: 50, gate: 100 };
const FILE: Limit = Limit { what: "lines of a file", again: 500, gate: 1000 };
const PARAMETERS: Limit = Limit { what: "parameters", again: 4, gate: 6 };

/// A value that deserves a second look.
struct Outlier {
    limit: &'static Limit,
    value: usize,
    place: String,
}

/// Everything measured, by file.
struct Shape(BTreeMap<PathBuf, Measures>);

/// Prints the table, and fails beyond the gate.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    let shape = Shape::measure()?;
    println!("{}", shape.table()?);
    let outliers = shape.outliers();
    for outlier in &outliers {
        println!("  {:>5} {}: {}", outlier.value, outlier.limit.what, outlier.place);
    }
    gate(&outliers)
}

fn gate(outliers: &[Outlier]) -> Result<()> {
    let beyond: Vec<&str> = outliers
        .iter()
        .filter(|outlier| outlier.value > outlier.limit.gate)
        .map(|outlier| &*outlier.place)
        .collect();
    ensure!(beyond.is_empty(), "too large, see `cargo xtask shape`: {}", beyond.join(", "));
    Ok(())
}

impl Shape {
    fn measure() -> Result<Self> {
        let mut files = BTreeMap::new();
        for folder in FOLDERS {
            add(&root().join(folder), &mut files)?;
        }
        Ok(Self(files))
    }

    fn outliers(&self) -> Vec<Outlier> {
        let mut all = Vec::new();
        let mut look = |limit: &'static Limit, value: usize, place: String| {
            if value > limit.again {
                all.push(Outlier { limit, value, place });
            }
        };
        for (path, measures) in &self.0 {
            let path = path.strip_prefix(root()).unwrap_or(path).display();
            if !measures.is_table {
                look(&FILE, measures.lines, path.to_string());
            }
            for function in &measures.functions {
                let place = format!("{path}:{} {}", function.line, function.name);
                look(&PARAMETERS, function.parameters, place.clone());
                if !measures.is_table {
                    look(&FUNCTION, function.lines, place);
                }
            }
        }
        all
    }

    fn table(&self) -> Result<String> {
        let functions = || self.0.values().flat_map(|file| &file.functions);
        let lengths = Spread::of(functions().map(|function| function.lines));
        let parameters = Spread::of(functions().map(|function| function.parameters));
        let words = Spread::of(functions().map(|function| function.name.split('_').count()));
        let files = Spread::of(self.0.values().map(|file| file.lines));
        let connectors = Spread::of(self.connectors().into_values());
        let sum = |what: fn(&Measures) -> usize| self.0.values().map(what).sum::<usize>();
        let comments = 100 * sum(|file| file.comments) / sum(|file| file.written).max(1);
        let both = |spread: &Spread| format!("{} / {}", spread.median, spread.p95);
        let rows = [
            ["measure", "now", "goal", "look again", "gate"].map(str::to_owned),
            row("function lines, median / p95", &both(&lengths), ["8 / 35", "", ""]),
            row("function lines, longest", &lengths.most, ["", "> 50", "> 100"]),
            row("file lines without tests, median / p95", &both(&files), ["120 / 400", "", ""]),
            row("file lines without tests, longest", &files.most, ["", "> 500", "> 1000"]),
            row("parameters, most", &parameters.most, ["4", "5", "> 6"]),
            row("words of a function's name, p95", &words.p95, ["3", "5", ""]),
            row("folders below `src`", &self.depth(), ["2", "3", ""]),
            row("comments", &format!("{comments} %"), ["8–15 %", "< 6, > 20 %", ""]),
            row("connector lines, median", &connectors.median, ["200", "", ""]),
            row("direct dependencies", &dependencies()?, ["40", "", ""]),
        ];
        let mut table = String::new();
        for [what, now, goal, again, gate] in rows {
            table.push_str(&format!("{what:<40} {now:>10} {goal:>10} {again:>12} {gate:>7}\n"));
        }
        Ok(table)
    }

    /// Lines of every connector, by its file or folder.
    fn connectors(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for (path, measures) in &self.0 {
            let inside = path.strip_prefix(root().join(FOLDERS[0]).join("connectors"));
            let Some(first) = inside.ok().and_then(|path| path.components().next()) else {
                continue;
            };
            let name = first.as_os_str().to_string_lossy().into_owned();
            if !matches!(name.as_str(), "mod.rs" | "formats") {
                *all.entry(name).or_default() += measures.lines;
            }
        }
        all
    }

    /// The deepest folder below a `src`.
    fn depth(&self) -> usize {
        let folders = FOLDERS.map(|folder| root().join(folder));
        let below = |path: &Path| {
            let inside = folders.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
            Some(inside.components().count() - 1)
        };
        self.0.keys().filter_map(|path| below(path)).max().unwrap_or(0)
    }
}

fn row(what: &str, now: &impl ToString, limits: [&str; 3]) -> [String; 5] {
    let [goal, again, gate] = limits.map(str::to_owned);
    [what.to_owned(), now.to_string(), goal, again, gate]
}

fn add(folder: &Path, files: &mut BTreeMap<PathBuf, Measures>) -> Result<()> {
    let attempt = || format!("could not read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(attempt)? {
        let path = entry.with_context(attempt)?.path();
        if path.is_dir() {
            add(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(attempt)?;
            files.insert(path, source::measure(&text));
        }
    }
    Ok(())
}

/// Counts what library and program depend on; what only tests need is left out.
fn dependencies() -> Result<usize> {
    let mut names = BTreeSet::new();
    for manifest in ["crates/agent-journal/Cargo.toml", "crates/aj/Cargo.toml"] {
        let text =
            fs::read_to_string(root().join(manifest)).context("could not read a manifest")?;
        let section = text.split("[dependencies]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let name = |line: &str| line.split(['.', ' ', '#']).next().unwrap_or_default().to_owned();
        names.extend(lines.map(name));
    }
    names.retain(|name| !name.is_empty() && name != "agent-journal");
    Ok(names.len())
}

/// How values are spread.
struct Spread {
    median: usize,
    p95: usize,
    most: usize,
}

impl Spread {
    fn of(values: impl Iterator<Item = usize>) -> Self {
        let mut values: Vec<usize> = values.collect();
        values.sort_unstable();
        let at = |share: usize| values.get(values.len() * share / 100).copied().unwrap_or(0);
        Self { median: at(50), p95: at(95), most: values.last().copied().unwrap_or(0) }
    }
}
