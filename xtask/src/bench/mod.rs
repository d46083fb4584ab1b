//! `bench`: measures speed, memory and size on a generated history against their limits, and
//! ripgrep for comparison. Every figure is measured on fresh processes with the files in the cache.

pub(crate) mod corpus;
mod peers;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod strokes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::{self, aj};
use corpus::{Corpus, size};
use process::{Used, measure};
use report::{Row, Runs, first_line, load, machine, markdown, memory, time};
use serve::Server;

/// Runs of each short command. The median counts.
const RUNS: usize = 11;

/// The corpus size that the limits apply to, in MB.
const FULL: u64 = 1000;

const MIB: u64 = 1 << 20;

/// A query for `aj` and ripgrep.
struct Question {
    what: &'static str,
    /// The query for `aj search`.
    query: &'static str,
    /// The closest pattern for ripgrep.
    pattern: &'static str,
    /// The expected exit code.
    code: i32,
    limit: Limit,
}

/// Limits of a search: milliseconds and mebibytes.
type Limit = (u64, u64);

const BY_WORDS: Limit = (15, 40);
const BY_BOTH: Limit = (30, 60);

const QUESTIONS: [Question; 6] = [
    Question::new("rare word", "zyxquorble", "zyxquorble"),
    Question::new("common word", "error", "error"),
    Question::new("phrase", "\"copper lattice\"", "copper lattice"),
    Question::new("prefix", "tokeniz*", r"\btokeniz"),
    Question { code: 1, ..Question::new("nonsense", "qxzvjkwpfh", "qxzvjkwpfh") },
    Question {
        limit: BY_BOTH,
        ..Question::new("two words, by both", "copper lattice", "copper lattice")
    },
];

impl Question {
    const fn new(what: &'static str, query: &'static str, pattern: &'static str) -> Self {
        Self { what, query, pattern, code: 0, limit: BY_WORDS }
    }
}

/// Goals for the full index and for the search of a common word.
const INDEX_GOAL: Duration = Duration::from_secs(10);
const COMMON_GOAL: Duration = Duration::from_millis(8);

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(done) = peers::run_all(arguments)? {
        return Ok(done);
    }
    let is_serve = arguments.first().is_some_and(|flag| flag == "--serve");
    let megabytes = match &arguments[usize::from(is_serve)..] {
        [] => FULL,
        [flag, number] if flag == "--mb" => {
            number.parse().with_context(|| format!("`{number}` is no number of megabytes"))?
        }
        _ => bail!("`bench` takes `--peers`, or `--serve` and `--mb N`"),
    };
    let place = cargo::target()?.join("bench");
    let bench = Bench {
        program: cargo::build("dist")?,
        corpus: Corpus::of(megabytes, &place)?,
        journal: place.join(format!("journal-{megabytes}")),
        ripgrep: first_line("rg", &["--version"]),
    };
    let about = bench.about(megabytes)?;
    let rows = if is_serve { bench.serve()? } else { bench.rows()? };
    println!("{}", markdown(&about, &rows));
    let over = rows.iter().filter(|row| row.holds == Some(false)).count();
    eprintln!("{over} of {} limits are not met", rows.iter().filter(|r| r.holds.is_some()).count());
    Ok(())
}

struct Bench {
    program: PathBuf,
    corpus: Corpus,
    journal: PathBuf,
    /// The version of ripgrep, if it is installed.
    ripgrep: Option<String>,
}

impl Bench {
    fn rows(&self) -> Result<Vec<Row>> {
        self.corpus.warm()?;
        let mut rows = self.index()?;
        rows.push(self.unchanged()?);
        for question in &QUESTIONS {
            rows.extend(self.search(question)?);
        }
        rows.push(self.list()?);
        eprintln!("terminal");
        rows.extend(strokes::rows(&self.aj(&["tui"]))?);
        rows.extend(self.grow()?);
        Ok(rows)
    }

    /// Measures the dashboard on the existing journal, or on a new one.
    fn serve(&self) -> Result<Vec<Row>> {
        self.corpus.warm()?;
        measure(&self.aj(&["index"]), 0)?;
        serve::measure(&Server::start(&mut self.aj(&["serve", "--port", "0"]))?)
    }

    fn aj(&self, words: &[&str]) -> Command {
        let mut command = aj(&self.program, &self.corpus.home, &self.journal);
        command.args(words);
        command
    }

    /// Runs a short command repeatedly. The first run warms the cache and does not count.
    fn often(command: &Command, code: i32) -> Result<Runs> {
        let runs: Result<Vec<Used>> = (0..=RUNS).map(|_| measure(command, code)).collect();
        Ok(Runs(runs?.split_off(1)))
    }

    fn index(&self) -> Result<Vec<Row>> {
        eprintln!("index");
        if self.journal.exists() {
            fs::remove_dir_all(&self.journal).context("could not remove the last journal")?;
        }
        let used = measure(&self.aj(&["index"]), 0)?;
        let source = size(&self.corpus.sessions())?;
        let index = size(&self.journal.join("index"))?;
        let whole = size(&self.journal)?;
        let share = whole as f64 / source as f64;
        let megabytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
        let runs = Runs(vec![used]);
        Ok(vec![
            Row::at_most("full index", &runs, Duration::from_secs(15)),
            Row::at_most("… and where it is meant to get to", &runs, INDEX_GOAL),
            Row::new("full index, peak memory", memory(used.memory))
                .within(memory(300 * MIB), used.memory < 300 * MIB),
            Row::new("store and index against the source", format!("{share:.2}"))
                .within("0.50".to_owned(), share <= 0.5),
            Row::new("source", megabytes(source)),
            Row::new("store", megabytes(whole - index)),
            Row::new("index", megabytes(index)),
        ])
    }

    fn unchanged(&self) -> Result<Row> {
        eprintln!("index, nothing new");
        let runs = Self::often(&self.aj(&["index"]), 0)?;
        Ok(Row::at_most("`aj index`, nothing new", &runs, Duration::from_millis(60)))
    }

    fn search(&self, question: &Question) -> Result<Vec<Row>> {
        eprintln!("search, {}", question.what);
        let runs = Self::often(&self.aj(&["search", question.query]), question.code)?;
        let (millis, mebibytes) = question.limit;
        let mut row = Row::both(&format!("search, {}", question.what), &runs).within(
            format!("{millis} ms, {mebibytes} MiB"),
            runs.wall() < Duration::from_millis(millis) && runs.memory() < mebibytes * MIB,
        );
        let goal = Row::at_most("… and where it is meant to get to", &runs, COMMON_GOAL);
        let goal = (question.what == "common word").then_some(goal);
        if self.ripgrep.is_some() {
            let runs = Self::often(&self.rg(question), question.code)?;
            row.ripgrep = format!("{}, {}", time(runs.wall()), memory(runs.memory()));
        }
        Ok([row].into_iter().chain(goal).collect())
    }

    /// Returns the ripgrep command that lists the matching files, ignoring case.
    fn rg(&self, question: &Question) -> Command {
        let mut command = Command::new("rg");
        command.args(["--no-config", "--no-ignore", "--hidden", "--ignore-case"]);
        command.args(["--files-with-matches", "--regexp", question.pattern]);
        command.arg(self.corpus.sessions());
        command
    }

    fn list(&self) -> Result<Row> {
        eprintln!("list");
        let runs = Self::often(&self.aj(&["list"]), 0)?;
        let limit = Duration::from_millis(10);
        Ok(Row::both("`aj list`", &runs).within("10 ms".to_owned(), runs.wall() < limit))
    }

    /// Measures the search for a word in a line just appended to a session of 10 MB.
    fn grow(&self) -> Result<Vec<Row>> {
        eprintln!("append and search");
        self.corpus.begin_growing()?;
        measure(&self.aj(&["index"]), 0)?;
        let mut runs = Vec::new();
        for number in 0..RUNS {
            let word = format!("growing{number}word");
            self.corpus.grow(number, &format!("and then {word} was said"))?;
            runs.push(measure(&self.aj(&["search", &word]), 0)?);
        }
        self.corpus.forget_growing()?;
        let runs = Runs(runs);
        let limit = Duration::from_millis(150);
        Ok(vec![
            Row::at_most("one line more in 10 MB, then search", &runs, limit),
            Row::new("… written to disk", memory(runs.written()))
                .within(memory(2 * MIB), runs.written() < 2 * MIB),
        ])
    }

    /// Returns the facts that the figures depend on.
    fn about(&self, megabytes: u64) -> Result<Vec<String>> {
        let version = |program: &Path, words: &[&str]| {
            first_line(&program.to_string_lossy(), words).context("could not ask for a version")
        };
        let commit = first_line(
            "git",
            &["-C", &cargo::root().to_string_lossy(), "rev-parse", "--short", "HEAD"],
        );
        let mut about = vec![
            format!("{megabytes} MB of generated Claude Code history"),
            jiff::Zoned::now().date().to_string(),
            machine(),
            version(&self.program, &["--version"])?
                + &commit.map_or(String::new(), |id| format!(" ({id})")),
            version(Path::new("rustc"), &["--version"])?,
            self.ripgrep.clone().unwrap_or_else(|| "ripgrep is not installed".to_owned()),
            format!("medians of {RUNS} fresh processes, warm cache"),
        ];
        about.extend(load());
        if megabytes != FULL {
            about.push(format!("the limits are meant for {FULL} MB"));
        }
        Ok(about)
    }
}

impl Row {
    fn new(what: &str, ours: String) -> Self {
        Self { what: what.to_owned(), ours, ..Self::default() }
    }

    /// Returns a row with a time and its limit.
    fn at_most(what: &str, runs: &Runs, limit: Duration) -> Self {
        let row = Self { cpu: time(runs.cpu()), ..Self::new(what, time(runs.wall())) };
        row.within(time(limit), runs.wall() <= limit)
    }

    /// Returns a row with time and memory.
    fn both(what: &str, runs: &Runs) -> Self {
        let ours = format!("{}, {}", time(runs.wall()), memory(runs.memory()));
        Self { cpu: time(runs.cpu()), ..Self::new(what, ours) }
    }

    fn within(self, limit: String, holds: bool) -> Self {
        Self { limit, holds: Some(holds), ..self }
    }
}
