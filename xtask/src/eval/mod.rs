//! `eval`: how well search finds what is known to be there, and how often it shows something
//! when there is nothing. Questions are made from a history; of the one that weights are chosen by,
//! half of them to choose, the other half to report. The same questions on every run.

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

use agent_journal::search::Fusion;
use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use home::History;
use measure::{Reply, Worth};
use queries::{Class, Item};
use systems::{Embedder, Place, System};

/// Weights that are tried.
const WEIGHTS: [f32; 6] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7];

/// Where the table is kept.
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

/// A history with everything that was asked of it.
struct Evaluated {
    name: String,
    sessions: usize,
    messages: usize,
    vectors: u64,
    items: Vec<Item>,
    /// Whether weights are chosen by its development half.
    chooses: bool,
    /// Everybody's answers to all questions, in their order.
    answers: Vec<(System, Vec<Worth>)>,
    /// Everybody's answers to questions that have none.
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

/// Everybody who answers.
fn everybody() -> Vec<System> {
    let mut all = vec![
        System::ripgrep(),
        System::lexical(),
        System::semantic(Embedder::Table),
        System::semantic(Embedder::Hash),
        System::far(),
    ];
    all.extend(WEIGHTS.map(|weight| System::hybrid(Fusion::Convex(weight), Embedder::Table)));
    all.push(System::hybrid(Fusion::Ranks, Embedder::Table));
    all.push(System::hybrid(Fusion::default(), Embedder::Hash));
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

    /// The worths of one who answers, of one kind.
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

    /// Whether a question is of a part: all are where nothing is chosen.
    fn has(&self, part: Part, item: &Item) -> bool {
        !self.chooses || item.development == (part == Part::Development)
    }

    /// What a part is called.
    fn name(&self, part: Part) -> &'static str {
        match part {
            _ if !self.chooses => "all questions",
            Part::Development => "development half",
            Part::Other => "other half",
        }
    }
}

/// The questions by which weights are chosen, and the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Development,
    Other,
}
