//! `eval`: measures how well search finds known answers, and how often it shows results for
//! questions without an answer. The questions are made from a history and are the same on every
//! run. If weights are chosen on a history, one half of its questions is for choosing, the other
//! half for reporting.

mod chance;
mod history;
mod home;
mod measure;
mod queries;
mod report;
mod systems;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use home::History;
use measure::{Reply, Worth};
use queries::{Class, Item};
use systems::{Embedder, Place, System};

/// Weights that are tried.
const WEIGHTS: [f32; 6] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7];

/// The document that contains the results.
const DOCUMENT: &str = "docs/search-quality.md";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut home = None;
    let mut writes = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--home" => home = Some(PathBuf::from(words.next().context("`--home` needs a path")?)),
            "--write" => writes = true,
            _ => bail!("`eval` takes `--home DIR`, `--write` and nothing else"),
        }
    }
    let place = cargo::target()?.join("eval");
    let histories = match &home {
        Some(home) => vec![History::of(home)],
        None => History::samples(&place)?,
    };
    ensure!(!histories.is_empty(), "no history to evaluate on: name one with `--home DIR`");
    let mut text = String::new();
    for history in histories {
        eprintln!("{}", history.name);
        let evaluated = evaluate(&history, &place.join(slug(&history.name)))?;
        let tables = report::history(&evaluated);
        println!("{tables}");
        text.push_str(&tables);
    }
    if writes { report::write(&cargo::root().join(DOCUMENT), &text) } else { Ok(()) }
}

fn slug(name: &str) -> String {
    name.chars().map(|one| if one.is_alphanumeric() { one } else { '-' }).collect()
}

/// The results of all systems on one history.
struct Evaluated {
    name: String,
    sessions: usize,
    messages: usize,
    vectors: u64,
    items: Vec<Item>,
    /// Whether weights are chosen on its development half.
    chooses: bool,
    /// The grades of all systems for all questions, in the order of the questions.
    answers: Vec<(System, Vec<Worth>)>,
    /// The replies of all systems to questions without an answer.
    absent: BTreeMap<String, Vec<Reply>>,
}

fn evaluate(history: &History, place: &Path) -> Result<Evaluated> {
    if place.exists() {
        fs::remove_dir_all(place).context("could not remove the last journal")?;
    }
    let sessions = history::read(history, place)?;
    let set = queries::make(&sessions);
    history::write(&sessions, &set.masked, &place.join("home"))?;
    let asked = Place::new(&sessions, &set.masked, place)?;
    let mut evaluated = Evaluated {
        name: history.name.clone(),
        sessions: sessions.len(),
        messages: sessions.iter().map(|session| session.messages.len()).sum(),
        vectors: asked.vectors()?,
        items: set.items,
        chooses: history.chooses,
        answers: Vec::new(),
        absent: BTreeMap::new(),
    };
    for system in everybody() {
        evaluated.ask(&asked, system)?;
    }
    Ok(evaluated)
}

/// Returns all systems to evaluate.
fn everybody() -> Vec<System> {
    let mut all = vec![
        System::ripgrep(),
        System::lexical(),
        System::semantic(Embedder::Table),
        System::semantic(Embedder::Hash),
        System::far(),
    ];
    all.extend(WEIGHTS.map(|weight| System::hybrid(weight, Embedder::Table)));
    all.push(System::chosen(Embedder::Hash));
    all
}

impl Evaluated {
    fn ask(&mut self, place: &Place<'_>, system: System) -> Result<()> {
        eprintln!("  {}", system.name);
        let worths = self.items.iter().map(|item| Ok(place.ask(&system, &item.query)?.worth(item)));
        let worths = worths.collect::<Result<Vec<Worth>>>()?;
        let absent = words::ABSENT.iter().map(|query| place.ask(&system, query));
        self.absent.insert(system.name.clone(), absent.collect::<Result<_>>()?);
        self.answers.push((system, worths));
        Ok(())
    }

    /// Returns the grades of a system for questions of one class and part.
    fn of<'w>(
        &'w self,
        worths: &'w [Worth],
        class: Class,
        part: Part,
    ) -> impl Iterator<Item = &'w Worth> {
        let pairs = self.items.iter().zip(worths);
        let wanted = pairs.filter(move |(item, _)| item.class == class && self.has(part, item));
        wanted.map(|(_, worth)| worth)
    }

    /// Returns whether a question is in a part. If no weights are chosen, all questions are in
    /// both.
    fn has(&self, part: Part, item: &Item) -> bool {
        !self.chooses || item.development == (part == Part::Development)
    }

    /// Returns the name of a part.
    fn name(&self, part: Part) -> &'static str {
        match part {
            _ if !self.chooses => "all questions",
            Part::Development => "development half",
            Part::Other => "other half",
        }
    }
}

/// The questions for choosing weights, and those for reporting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Development,
    Other,
}
