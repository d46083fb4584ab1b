//! Totals do not depend on how the files of a history lie or arrive: laws over the fixtures of
//! every agent. Nothing here names an agent; a new fixture is held to them as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::analyze::Figures;
use agent_journal::connectors::{ALL, Machine, Source};
use agent_journal::{Config, Home as Further, HomeKind, Journal, SyncOptions};
use proptest::prelude::RngExt;

use crate::support::shelf::{every_fixture, of_all};
use crate::support::{Home, copy, each_file, fixtures};

/// The number of agents whose files record no tokens.
const AGENTS_WITHOUT_TOKENS: usize = 2;

/// What each agent and each model spent: calls, tokens, cost.
type Totals = BTreeMap<String, String>;

/// A home whose files come and go, and a journal of it.
struct Place {
    directory: tempfile::TempDir,
    homes: usize,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory, homes: 1 };
        fs::create_dir_all(place.home()).unwrap();
        place
    }

    /// A place with all of a home in it.
    fn of(home: &Home) -> Self {
        let place = Self::new();
        copy(home.path(), &place.home());
        place
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home-0")
    }

    fn machine(&self, number: usize) -> Machine {
        let home = self.directory.path().join(format!("home-{number}"));
        // Agents that write beside the code are looked for wherever there is code.
        let projects = crate::support::directories(&home);
        Machine { home, projects, ..Machine::default() }
    }

    /// Reads what is new, and sums up.
    fn totals(&self, options: SyncOptions) -> Totals {
        let mut config = Config::new(self.directory.path().join("journal"));
        config.meaning.off = true;
        let further = |number| {
            let machine = self.machine(number);
            Further { machine, kind: HomeKind::Remote, host: Some("other".to_owned()) }
        };
        config.homes = (1..self.homes).map(further).collect();
        let mut journal = Journal::open(config, self.machine(0)).unwrap();
        journal.sync(options, &mut |_| {}).unwrap();
        let stats = journal.stats(&of_all()).unwrap();
        let agents = stats.agents.iter().chain(&stats.models);
        let mut totals: Totals =
            agents.map(|group| (group.key.clone(), spent(&group.figures))).collect();
        totals.retain(|_, spent| *spent != self::spent(&Figures::default()));
        totals.insert("all".to_owned(), spent(&stats.totals));
        totals
    }

    fn read(&self) -> Totals {
        self.totals(SyncOptions::default())
    }

    /// Everything that would be read, with what tells that it changed.
    fn sources(&self) -> Vec<Source> {
        let machine = self.machine(0);
        ALL.iter().flat_map(|connector| crate::support::sources(*connector, &machine)).collect()
    }
}

fn spent(figures: &Figures) -> String {
    let Figures { model_calls, tokens, cost, .. } = figures;
    format!(
        "{model_calls} calls, {tokens:?}, {:?} of {:?}",
        cost.known_micros(),
        cost.priced_share()
    )
}

/// Lays the files of every fixture out in other ways, and compares what they come to.
fn each_fixture(mut lay_out: impl FnMut(&Home, &mut dyn FnMut(String, Totals))) {
    let mut with_tokens = BTreeSet::new();
    let mut wrong = Vec::new();
    for fixture in every_fixture() {
        let home = Home::of(&fixture);
        let totals = Place::of(&home).read();
        let agent = fixture.parent().unwrap().file_name().unwrap().to_owned();
        if totals.len() > 1 {
            with_tokens.insert(agent);
        }
        let name = fixture.strip_prefix(fixtures()).unwrap().display();
        lay_out(&home, &mut |how, found| {
            for (what, spent) in &found {
                let expected = totals.get(what);
                if expected != Some(spent) {
                    wrong.push(format!("{name}, {how}: {what} {spent}, not {expected:?}"));
                }
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        with_tokens.len() + AGENTS_WITHOUT_TOKENS,
        ALL.len(),
        "an agent has no fixture with tokens: {with_tokens:?}"
    );
}

/// The same numbers in every run: a failure can be looked at again.
fn rng() -> proptest::test_runner::TestRng {
    let algorithm = proptest::test_runner::RngAlgorithm::ChaCha;
    proptest::test_runner::TestRng::deterministic_rng(algorithm)
}

fn files(home: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    each_file(home, &mut |path| files.push(path.strip_prefix(home).unwrap().to_owned()));
    files
}

fn put(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, fs::read(from).unwrap()).unwrap();
}

#[test]
fn files_may_appear_in_any_order() {
    let mut rng = rng();
    each_fixture(|home, check| {
        let mut files = files(home.path());
        for at in (1..files.len()).rev() {
            files.swap(at, rng.random_range(0..=at));
        }
        let place = Place::new();
        for part in files.chunks(files.len().div_ceil(3)) {
            for file in part {
                put(&home.path().join(file), &place.home().join(file));
            }
            place.read();
        }
        check(format!("{files:?}"), place.read());
    });
}

#[test]
fn two_homes_may_hold_the_same_sessions() {
    each_fixture(|home, check| {
        let mut place = Place::of(home);
        place.homes = 2;
        copy(home.path(), &place.directory.path().join("home-1"));
        check("all".to_owned(), place.read());
    });
}

#[test]
fn reading_everything_again_changes_nothing() {
    each_fixture(|home, check| {
        let place = Place::of(home);
        place.read();
        for _ in 0..2 {
            let full = SyncOptions { full: true, ..SyncOptions::default() };
            check("all".to_owned(), place.totals(full));
        }
    });
}

/// Every file and every directory on the way to it, under another name beside it; and every file
/// alone where only one directory on its way has another name.
fn copies(home: &Path) -> BTreeSet<(PathBuf, PathBuf)> {
    let mut all = BTreeSet::new();
    for file in files(home) {
        for path in file.ancestors().filter(|path| path.file_name().is_some()) {
            let copy = path.with_file_name(renamed(path));
            let rest = file.strip_prefix(path).unwrap();
            if path != file {
                all.insert((file.clone(), copy.join(rest)));
            }
            all.insert((path.to_owned(), copy));
        }
    }
    all
}

/// Lists a file and, if it goes to another directory, the files that have its name with another
/// ending, each with its new path.
fn companions(from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    let stem = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    if stem(from) != stem(to) || stem(from).is_empty() {
        return vec![(from.to_owned(), to.to_owned())];
    }
    let beside = fs::read_dir(from.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let files = beside.filter(|path| path.is_file() && stem(path) == stem(from));
    files.map(|path| (path.clone(), to.with_file_name(path.file_name().unwrap()))).collect()
}

/// Returns whether the name that a copy changes is the only id of the session: the name of its file
/// or directory, which occurs in no file of it. Such a copy is another session.
fn is_only_id(home: &Path, original: &Path, other: &Path) -> bool {
    let changed = original.iter().zip(other).position(|(one, other)| one != other);
    let depth = original.components().count();
    let Some(changed) = changed.filter(|changed| changed + 2 >= depth) else { return false };
    let name = original.iter().nth(changed).unwrap().to_string_lossy();
    let id = name.split('.').next().unwrap_or_default().as_bytes();
    let mut is_inside = false;
    let mut search = |path: &Path| {
        is_inside |= memchr::memmem::find(&fs::read(path).unwrap(), id).is_some();
    };
    let copied = home.join(original);
    if copied.is_dir() {
        each_file(&copied, &mut search);
    } else {
        search(&copied);
    }
    !is_inside
}

/// A name that stays what it is to whoever looks at beginning and end.
fn renamed(path: &Path) -> OsString {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    match name.rsplit_once('.') {
        Some((stem, suffix)) if !stem.is_empty() => format!("{stem}-copy.{suffix}").into(),
        _ => format!("{name}-copy").into(),
    }
}

#[test]
fn a_copy_elsewhere_counts_nothing_and_stays_when_the_original_goes() {
    let mut found = 0;
    each_fixture(|home, check| {
        for (original, other) in copies(home.path()) {
            let place = Place::of(home);
            let before = place.sources();
            if is_only_id(home.path(), &original, &other) {
                continue;
            }
            let (from, to) = (place.home().join(&original), place.home().join(&other));
            let files = if from.is_dir() { Vec::new() } else { companions(&from, &to) };
            if files.is_empty() {
                copy(&from, &to);
            }
            for (from, to) in &files {
                put(from, to);
            }
            // What nobody looks at counts nothing.
            if place.sources() == before {
                continue;
            }
            found += 1;
            check(format!("copied to {other:?}"), place.read());
            if files.is_empty() {
                fs::remove_dir_all(&from).unwrap();
            }
            for (from, _) in &files {
                fs::remove_file(from).unwrap();
            }
            check(format!("moved to {other:?}"), place.read());
        }
    });
    assert!(found > 100, "only {found} copies were read");
}

#[test]
fn a_file_may_be_read_while_it_grows() {
    let mut rng = rng();
    each_fixture(|home, check| {
        let place = Place::of(home);
        let whole: Vec<(PathBuf, Vec<u8>)> = files(home.path())
            .into_iter()
            .map(|file| (place.home().join(&file), fs::read(home.path().join(file)).unwrap()))
            .collect();
        let mut cuts: Vec<usize> = whole.iter().map(|_| 0).collect();
        for _ in 0..3 {
            for ((path, bytes), cut) in whole.iter().zip(&mut cuts) {
                let ends: Vec<usize> = memchr::memchr_iter(b'\n', bytes)
                    .map(|at| at + 1)
                    .filter(|end| end > cut && !bytes.contains(&0))
                    .collect();
                if !ends.is_empty() {
                    *cut = ends[rng.random_range(0..ends.len())];
                    fs::write(path, &bytes[..*cut]).unwrap();
                }
            }
            place.read();
        }
        for (path, bytes) in &whole {
            fs::write(path, bytes).unwrap();
        }
        check("all".to_owned(), place.read());
    });
}
