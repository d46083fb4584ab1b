//! `bench --peers`: compares `aj` with similar programs on the same history in the same run. Each
//! program has its own installation directory and its own copy of the home. After the installation
//! everything runs without network access.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::corpus::{Corpus, size};
use super::process::{Used, measure_any};
use super::report::Runs;
use crate::cargo::{self, run};
use table::{From, PEERS, Peer};

/// Runs of each short command. The median counts.
const RUNS: usize = 5;

/// Sizes of the histories in MB.
const SIZES: [u64; 2] = [100, 1000];

/// The argument that starts the measurement, without network access.
const OFFLINE: &str = "--peers-offline";

/// The queries for every program: a rare word, a common word, a phrase, a prefix, a word that does
/// not occur.
const QUESTIONS: [(&str, &str); 5] = [
    ("rare", "zyxquorble"),
    ("common", "error"),
    ("phrase", "\"copper lattice\""),
    ("prefix", "tokeniz*"),
    ("nonsense", "qxzvjkwpfh"),
];

/// The results of one program. A value is missing if the program has no such command or the command
/// failed.
struct Came<'p> {
    peer: &'p Peer,
    index: Option<Used>,
    kept: u64,
    unchanged: Option<Runs>,
    searches: Vec<Option<Runs>>,
    list: Option<Runs>,
    usage: Option<Runs>,
    /// Whether the token totals equal those of the manifest.
    is_right: Option<bool>,
    /// Kinds of text in which a planted word was found, and those in which it was not.
    finds: Vec<String>,
    misses: Vec<String>,
}

pub(super) fn run_all(arguments: &[String]) -> Result<Option<()>> {
    let place = cargo::target()?.join("bench");
    match arguments {
        [flag] if flag == "--peers" => {
            let program = cargo::build("dist")?;
            for peer in &PEERS {
                install(peer, &place.join("peers"), &program)?;
            }
            for megabytes in SIZES {
                Corpus::of(megabytes, &place)?;
            }
            without_network()?;
        }
        [flag] if flag == OFFLINE => {
            for megabytes in SIZES {
                compare(megabytes, &place)?;
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

/// Runs this program again with only the loopback network.
fn without_network() -> Result<()> {
    let program = std::env::current_exe().context("could not find this program")?;
    let mut command = Command::new("unshare");
    command.args([
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        "ip link set lo up && exec \"$@\"",
        "sh",
    ]);
    run(command.arg(program).args(["bench", OFFLINE]))
}

fn install(peer: &Peer, place: &Path, ours: &Path) -> Result<()> {
    let program = peer.path(place);
    fs::create_dir_all(place).context("could not make the directory of peers")?;
    if matches!(peer.from, From::Here) {
        let folder = program.parent().context("a program lies in a folder")?;
        fs::create_dir_all(folder).context("could not make the directory of our own program")?;
        return fs::copy(ours, &program).map(drop).context("could not copy our own program");
    }
    if program.is_file() || matches!(peer.from, From::Path) {
        return Ok(());
    }
    match peer.from {
        From::Python => {
            if !place.join("python/bin/pip").is_file() {
                run(Command::new("python3").args(["-m", "venv"]).arg(place.join("python")))?;
            }
            run(Command::new(place.join("python/bin/pip")).args(["install", "-q", peer.package]))?;
        }
        From::Node => {
            run(Command::new("npm")
                .args(["install", "--silent", "--prefix"])
                .arg(place.join("node"))
                .arg(peer.package))?;
        }
        From::Cargo => {
            let mut command = cargo::cargo(&["install", "--locked", "--quiet", "--root"]);
            run(command.arg(place.join("cargo")).arg(peer.package))?;
        }
        From::Path | From::Here => {}
    }
    ensure!(program.is_file(), "installed, but not found: {}", program.display());
    Ok(())
}

fn compare(megabytes: u64, place: &Path) -> Result<()> {
    let corpus = Corpus::of(megabytes, place)?;
    let manifest = fs::read_to_string(corpus.home.join("corpus-manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let source = size(&corpus.sessions())?;
    let mut all = Vec::new();
    for peer in &PEERS {
        eprintln!("{megabytes} MB, {}", peer.name);
        let home = place.join("peers").join(format!("home-{}", peer.name));
        copy(&corpus.home, &home)?;
        let visit = Visit { peer, program: peer.path(&place.join("peers")), home };
        all.push(visit.measure(&manifest)?);
        visit.stop();
        fs::remove_dir_all(&visit.home).context("could not remove a copy of the history")?;
    }
    println!("{}", table::markdown(megabytes, source, &all));
    Ok(())
}

/// Copies a home, which also puts its files into the cache.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).context("could not remove the last copy")?;
    }
    run(Command::new("cp").arg("-r").arg(from).arg(to))
}

/// One program with its home.
struct Visit<'p> {
    peer: &'p Peer,
    program: PathBuf,
    home: PathBuf,
}

impl<'p> Visit<'p> {
    fn command(&self, words: &[&str], question: &str) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.home.to_string_lossy();
        command
            .args(words.iter().map(|word| word.replace("{}", question).replace("{home}", &home)));
        command.env("HOME", &self.home).current_dir(&self.home);
        for name in
            ["XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "AJ_HOME"]
        {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command repeatedly. Returns `None` if there is no such command or if it fails.
    fn often(&self, words: &[&str], question: &str) -> Result<Option<Runs>> {
        if words.is_empty() {
            return Ok(None);
        }
        let command = self.command(words, question);
        let mut runs = Vec::new();
        for _ in 0..=RUNS {
            let used = measure_any(&command)?;
            // Exit code 1 means that nothing was found.
            if !matches!(used.code, Some(0 | 1)) {
                return Ok(None);
            }
            runs.push(used);
        }
        Ok(Some(Runs(runs.split_off(1))))
    }

    fn output(&self, words: &[&str], question: &str) -> Result<Output> {
        self.command(words, question).output().context("could not run it")
    }

    fn measure(&self, manifest: &Value) -> Result<Came<'p>> {
        let peer = self.peer;
        let (mut index, mut unchanged) = (None, None);
        if !peer.index.is_empty() {
            index = Some(measure_any(&self.command(peer.index, ""))?)
                .filter(|used| used.code == Some(0));
            unchanged = self.often(peer.again, "")?;
        }
        let kept = peer.keeps.iter().map(|folder| size(&self.home.join(folder)).unwrap_or(0)).sum();
        let mut searches = Vec::new();
        for (_, question) in QUESTIONS {
            searches.push(self.often(peer.search, question)?);
        }
        let (finds, misses) = self.kinds(manifest)?;
        let usage = self.often(peer.usage, "")?;
        let is_right = usage.is_some().then(|| self.is_right(manifest)).transpose()?;
        let list = self.often(peer.list, "")?;
        Ok(Came { peer, index, kept, unchanged, searches, list, usage, is_right, finds, misses })
    }

    /// Returns the kinds of text in which a planted word is found and not found. Output counts as
    /// found if it names the session, or if it is longer than the output for a word that does not
    /// occur.
    fn kinds(&self, manifest: &Value) -> Result<(Vec<String>, Vec<String>)> {
        let (mut finds, mut misses) = (Vec::new(), Vec::new());
        if self.peer.search.is_empty() {
            return Ok((finds, misses));
        }
        let nothing = self.output(self.peer.search, QUESTIONS[4].1)?.stdout.len();
        for plant in manifest["plants"].as_array().into_iter().flatten() {
            let word = plant["words"][1].as_str().context("a planted word")?;
            let session = plant["session"].as_str().context("its session")?;
            let kind = word.trim_start_matches("probeclaude").to_owned();
            let said = self.output(self.peer.search, word)?.stdout;
            let text = String::from_utf8_lossy(&said);
            let id = session.rsplit('/').next().unwrap_or(session);
            let is_found = text.contains(&id[..8.min(id.len())]) || said.len() > nothing + 80;
            if is_found { finds.push(kind) } else { misses.push(kind) }
        }
        Ok((finds, misses))
    }

    /// Returns whether the token totals equal those of the generated history.
    fn is_right(&self, manifest: &Value) -> Result<bool> {
        let said: Value = serde_json::from_slice(&self.output(self.peer.usage, "")?.stdout)
            .unwrap_or(Value::Null);
        let models = manifest["claude_usage"].as_object().context("the manifest has no sums")?;
        let names = [
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        let expected =
            names.map(|name| models.values().filter_map(|model| model[name].as_u64()).sum::<u64>());
        let told =
            self.peer.totals.iter().map(|pointer| said.pointer(pointer).and_then(Value::as_u64));
        Ok(told.eq(expected.into_iter().map(Some)))
    }

    /// Stops a background process of the program.
    fn stop(&self) {
        if !self.peer.stop.is_empty() {
            // It may have stopped already.
            drop(self.output(self.peer.stop, ""));
        }
    }
}
