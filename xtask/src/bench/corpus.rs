//! The history for benchmarks, generated once and kept for later runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{root, run};

/// Initial size of the growing session, in bytes.
const GROWING: u64 = 10_000_000;

const GROWING_ID: &str = "b0000000-0000-4000-8000-000000000001";

/// A generated home.
pub(crate) struct Corpus {
    pub(crate) home: PathBuf,
}

impl Corpus {
    /// Returns the home of the given size, and generates it if necessary.
    pub(crate) fn of(megabytes: u64, place: &Path) -> Result<Self> {
        let home = place.join(format!("home-{megabytes}"));
        if !home.is_dir() {
            fs::create_dir_all(place).with_context(|| attempt(place))?;
            let unfinished = home.with_extension("unfinished");
            let mut maker = Command::new("python3");
            maker.arg(root().join("benches/gen_corpus.py"));
            maker.args(["--mb", &megabytes.to_string(), "--seed", "2", "--share", "100,0,0"]);
            run(maker.arg("--out").arg(&unfinished))?;
            fs::rename(&unfinished, &home).with_context(|| attempt(&home))?;
        }
        let corpus = Self { home };
        corpus.forget_growing()?;
        Ok(corpus)
    }

    /// Returns the directory of the session files.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.home.join(".claude/projects")
    }

    /// Reads all files once, so that they are in the file cache.
    pub(crate) fn warm(&self) -> Result<()> {
        each_file(&self.sessions(), &mut |path| {
            let mut file = File::open(path).with_context(|| attempt(path))?;
            io::copy(&mut file, &mut io::sink()).with_context(|| attempt(path))?;
            Ok(())
        })
    }

    /// Creates the large session that grows during the benchmark.
    pub(crate) fn begin_growing(&self) -> Result<()> {
        let path = self.growing();
        fs::create_dir_all(path.parent().unwrap_or(&path)).with_context(|| attempt(&path))?;
        let mut file = BufWriter::new(File::create(&path).with_context(|| attempt(&path))?);
        let (mut size, mut number) = (0, 0);
        while size < GROWING {
            let line = line(number, &format!("step {number} of a long session ").repeat(40));
            file.write_all(line.as_bytes()).with_context(|| attempt(&path))?;
            size += line.len() as u64;
            number += 1;
        }
        file.flush().with_context(|| attempt(&path))
    }

    /// Appends one message to the growing session.
    pub(crate) fn grow(&self, number: usize, text: &str) -> Result<()> {
        let path = self.growing();
        let mut file =
            OpenOptions::new().append(true).open(&path).with_context(|| attempt(&path))?;
        file.write_all(line(1_000_000 + number, text).as_bytes()).with_context(|| attempt(&path))
    }

    /// Removes the growing session.
    pub(crate) fn forget_growing(&self) -> Result<()> {
        let path = self.growing();
        if path.exists() {
            fs::remove_file(&path).with_context(|| attempt(&path))?;
        }
        Ok(())
    }

    fn growing(&self) -> PathBuf {
        self.sessions().join("-home-bench-growing").join(format!("{GROWING_ID}.jsonl"))
    }
}

fn attempt(path: &Path) -> String {
    format!("could not use {}", path.display())
}

/// Returns a prompt in the agent's format.
fn line(number: usize, text: &str) -> String {
    let record = serde_json::json!({
        "type": "user",
        "uuid": format!("b0000000-0000-4000-9000-{number:012}"),
        "parentUuid": null,
        "sessionId": GROWING_ID,
        "cwd": "/home/bench/growing",
        "version": "2.1.80",
        "timestamp": "2026-11-14T18:00:00.000Z",
        "isSidechain": false,
        "userType": "external",
        "message": { "role": "user", "content": text },
    });
    format!("{record}\n")
}

/// Returns the size of a file, or of all files below a directory, in bytes.
pub(crate) fn size(path: &Path) -> Result<u64> {
    if path.is_file() {
        return Ok(fs::metadata(path).with_context(|| attempt(path))?.len());
    }
    let mut sum = 0;
    each_file(path, &mut |file| {
        sum += fs::metadata(file).with_context(|| attempt(file))?.len();
        Ok(())
    })?;
    Ok(sum)
}

fn each_file(folder: &Path, found: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| attempt(folder))? {
        let path = entry.with_context(|| attempt(folder))?.path();
        if path.is_dir() { each_file(&path, found)? } else { found(&path)? }
    }
    Ok(())
}
