//! `eval`: measures how well search finds known answers, and how often it shows results for
//! questions without an answer. The questions are made from a history and are the same on every
//! run. If weights are chosen on a history, one half of its questions is for choosing, the other
//! half for reporting.

mod bm25;
mod chance;
mod decoys;
mod history;
mod home;
mod locomo;
mod measure;
mod queries;
mod report;
mod systems;
mod words;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use history::Session;
use home::History;
use locomo::Conversation;
use measure::{Reply, Worth};
use queries::{Class, Item};
use systems::{Place, System};

/// Weights of the meaning that are tried.
const WEIGHTS: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

/// The number of questions about conversations that a history of code has no answer to.
const FOREIGN_QUESTIONS: usize = 150;

/// The document that contains the results.
const DOCUMENT: &str = "docs/search-quality.md";

/// What is evaluated.
#[derive(Default)]
struct EvalOptions {
    home: Option<PathBuf>,
    /// The directory with the conversations of `LoCoMo`.
    locomo: Option<PathBuf>,
    /// The numbers of sessions to which the histories are filled up.
    sizes: Vec<usize>,
    /// Whether the journals of the last run are used again.
    reuses: bool,
    /// Whether only the default of hybrid search is compared with plain BM25.
    is_quick: bool,
    writes: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse_options(arguments)?;
    let place = cargo::target()?.join("eval");
    let conversations = match &options.locomo {
        Some(directory) => locomo::read(directory)?,
        None => Vec::new(),
    };
    let histories = match &options.home {
        Some(home) => vec![History::of(home)],
        None => History::samples(&place)?,
    };
    ensure!(
        !histories.is_empty() || !conversations.is_empty(),
        "no history to evaluate on: name one with `--home DIR`"
    );
    let mut text = String::new();
    for history in histories {
        let place = place.join(slug(&history.name));
        if place.exists() && !options.reuses {
            fs::remove_dir_all(&place).context("could not remove the last journal")?;
        }
        let mut sessions = history::read(&history, &place)?;
        let set = queries::make(&sessions);
        let own = sessions.len();
        let sizes = options.sizes.iter().copied().filter(|size| *size > own);
        for size in [own].into_iter().chain(sizes) {
            let decoys = decoys::make(&sessions[..own], size);
            sessions.truncate(own);
            sessions.extend(decoys);
            let haystack = Haystack {
                name: format!("{}, {size} sessions", history.name),
                sessions: &sessions,
                items: set.items.clone(),
                masked: &set.masked,
                absent: absent_questions(&conversations),
                chooses: history.chooses,
            };
            text.push_str(&tell(&evaluate(haystack, &place.join(size.to_string()), &options)?));
        }
    }
    if !conversations.is_empty() {
        let evaluated = evaluate_conversations(conversations, &place.join("locomo"), &options)?;
        text.push_str(&tell(&evaluated));
    }
    if options.writes { report::write(&cargo::root().join(DOCUMENT), &text) } else { Ok(()) }
}

fn parse_options(arguments: &[String]) -> Result<EvalOptions> {
    let mut options = EvalOptions::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--home" => options.home = Some(PathBuf::from(value()?)),
            "--locomo" => options.locomo = Some(PathBuf::from(value()?)),
            "--sizes" => {
                let sizes = value()?.split(',').map(str::parse);
                options.sizes = sizes.collect::<Result<_, _>>().context("`--sizes 500,5000`")?;
            }
            "--reuse" => options.reuses = true,
            "--quick" => options.is_quick = true,
            "--write" => options.writes = true,
            _ => bail!(
                "`eval` takes `--home DIR`, `--locomo DIR`, `--sizes N,N`, `--reuse`, `--quick`, \
                 `--write` and nothing else"
            ),
        }
    }
    Ok(options)
}

fn tell(evaluated: &Evaluated) -> String {
    let tables = report::haystack(evaluated);
    println!("{tables}");
    tables
}

fn slug(name: &str) -> String {
    name.chars().map(|one| if one.is_alphanumeric() { one } else { '-' }).collect()
}

/// Returns questions without an answer in a history of code.
fn absent_questions(conversations: &[Conversation]) -> Vec<String> {
    let mut all: Vec<String> = words::ABSENT.iter().map(|query| (*query).to_owned()).collect();
    let foreign = conversations.iter().flat_map(|one| &one.items).map(|item| item.query.clone());
    let mut foreign: Vec<String> = foreign.collect();
    chance::Chance::new(16).shuffle(&mut foreign);
    all.extend(foreign.into_iter().take(FOREIGN_QUESTIONS));
    all
}

/// Sessions to search, and questions about them.
struct Haystack<'s> {
    name: String,
    sessions: &'s [Session],
    items: Vec<Item>,
    masked: &'s HashSet<(usize, usize)>,
    /// Questions without an answer.
    absent: Vec<String>,
    /// Whether weights are chosen on the development half of the questions.
    chooses: bool,
}

/// The results of all systems on one haystack, or on several small ones together.
struct Evaluated {
    name: String,
    sessions: usize,
    messages: usize,
    vectors: u64,
    items: Vec<Item>,
    chooses: bool,
    /// The grades of all systems for all questions, in the order of the questions.
    answers: Vec<(System, Vec<Worth>)>,
    /// The replies of all systems to questions without an answer.
    absent: BTreeMap<String, Vec<Reply>>,
}

fn evaluate(haystack: Haystack<'_>, place: &Path, options: &EvalOptions) -> Result<Evaluated> {
    let Haystack { name, sessions, items, masked, absent, chooses } = haystack;
    eprintln!("{name}");
    let home = place.join("home");
    if !options.reuses || !home.exists() {
        if place.exists() {
            fs::remove_dir_all(place).context("could not remove the last journal")?;
        }
        history::write(sessions, masked, &home)?;
    }
    let asked = Place::new(sessions, masked, place)?;
    let mut evaluated = Evaluated {
        name,
        sessions: sessions.len(),
        messages: sessions.iter().map(|session| session.messages.len()).sum(),
        vectors: asked.vectors()?,
        items,
        chooses,
        answers: Vec::new(),
        absent: BTreeMap::new(),
    };
    for system in everybody(options) {
        evaluated.ask(&asked, system, &absent)?;
    }
    Ok(evaluated)
}

/// Evaluates every conversation in a history of its own, and adds up the results.
fn evaluate_conversations(
    conversations: Vec<Conversation>,
    place: &Path,
    options: &EvalOptions,
) -> Result<Evaluated> {
    let mut all: Option<Evaluated> = None;
    for (number, Conversation { sessions, mut items }) in conversations.into_iter().enumerate() {
        queries::split(&mut items);
        let haystack = Haystack {
            name: "LoCoMo, own haystacks".to_owned(),
            sessions: &sessions,
            items,
            masked: &HashSet::new(),
            absent: Vec::new(),
            chooses: true,
        };
        let one = evaluate(haystack, &place.join(number.to_string()), options)?;
        match &mut all {
            Some(all) => all.add(one),
            None => all = Some(one),
        }
    }
    all.context("no conversation")
}

/// Returns all systems to evaluate.
fn everybody(options: &EvalOptions) -> Vec<System> {
    if options.is_quick {
        return vec![System::plain_bm25(), System::lexical(), System::hybrid()];
    }
    let mut all = vec![
        System::ripgrep(),
        System::plain_bm25(),
        System::lexical(),
        System::semantic(),
        System::hybrid(),
    ];
    all.extend(WEIGHTS.map(System::weighted));
    all
}

impl Evaluated {
    fn ask(&mut self, place: &Place<'_>, system: System, absent: &[String]) -> Result<()> {
        let worths = self.items.iter().map(|item| Ok(place.ask(&system, &item.query)?.worth(item)));
        let worths = worths.collect::<Result<Vec<Worth>>>()?;
        let absent = absent.iter().map(|query| place.ask(&system, query));
        self.absent.insert(system.name.clone(), absent.collect::<Result<_>>()?);
        self.answers.push((system, worths));
        Ok(())
    }

    /// Adds the results on another haystack.
    fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.messages += other.messages;
        self.vectors += other.vectors;
        self.items.extend(other.items);
        for ((_, worths), (_, others)) in self.answers.iter_mut().zip(other.answers) {
            worths.extend(others);
        }
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
        part == Part::All || !self.chooses || item.development == (part == Part::Development)
    }

    /// Returns the name of a part.
    fn name(&self, part: Part) -> &'static str {
        match part {
            _ if !self.chooses => "all questions",
            Part::All => "all questions",
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
    All,
}
