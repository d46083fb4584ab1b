//! The lines of a file to attribute to sessions, with the commits that git names.

mod git;

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use agent_journal::analyze::{Confidence, FileLine};
use agent_journal::{Author, Blame, BlamedFile};
use anyhow::{Context as _, Result, bail};

use self::git::LineCommit;
use crate::output::count;

/// Consecutive lines with the same author and the same commit. Both can be unknown.
pub(crate) struct BlamedSpan {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) author: Option<Author>,
    pub(crate) commit: Option<String>,
}

/// The file and the lines to attribute, with the commits of its lines.
pub(crate) struct BlamedPlace {
    pub(crate) path: PathBuf,
    pub(crate) file: BlamedFile,
    commits: Vec<Option<LineCommit>>,
    wanted: RangeInclusive<usize>,
}

impl BlamedPlace {
    /// Reads the file of an argument such as `file:4-8`.
    pub(crate) fn read_argument(text: &str) -> Result<Self> {
        let (path, lines) = place(text)?;
        let (file, commits) = read(&path)?;
        let wanted = match lines {
            Some(lines) if *lines.end() > file.lines.len() => {
                bail!("{} has {}", path.display(), count(file.lines.len() as u64, "line"))
            }
            Some(lines) => lines,
            None => 1..=file.lines.len(),
        };
        Ok(Self { path, file, commits, wanted })
    }

    /// Groups consecutive lines with the same author and commit.
    pub(crate) fn group_spans(&self, blame: &Blame) -> Vec<BlamedSpan> {
        spans_of_lines(blame, &self.commits, &self.wanted)
    }
}

/// Splits `file:4-8` into path and lines. If a file with the whole name exists, all of it is meant.
fn place(text: &str) -> Result<(PathBuf, Option<RangeInclusive<usize>>)> {
    let whole = || (PathBuf::from(text), None);
    let Some((path, lines)) = text.rsplit_once(':').filter(|_| !Path::new(text).exists()) else {
        return Ok(whole());
    };
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
        // The colon belongs to a drive letter or a file name. Reading the file reports any mistake.
        return Ok(whole());
    };
    if first == 0 || last < first {
        bail!("`{lines}` is not a range of lines: write it like `{path}:1-20`");
    }
    Ok((PathBuf::from(path), Some(first..=last)))
}

/// Reads a file and the commits of its lines.
fn read(path: &Path) -> Result<(BlamedFile, Vec<Option<LineCommit>>)> {
    let bytes = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    let given = std::path::absolute(path)?;
    let real = fs::canonicalize(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let commits = git::line_commits(&real);
    let lines = text.lines().enumerate().map(|(at, line)| FileLine {
        text: line.to_owned(),
        committed_at: commits.get(at).and_then(Option::as_ref).and_then(|commit| commit.at),
    });
    let lines = lines.collect();
    let repository = git::worktree_root(&real);
    let mut paths = vec![real];
    if !paths.contains(&given) {
        paths.push(given);
    }
    Ok((BlamedFile { paths, repository, lines }, commits))
}

fn spans_of_lines(
    blame: &Blame,
    commits: &[Option<LineCommit>],
    wanted: &RangeInclusive<usize>,
) -> Vec<BlamedSpan> {
    let mut spans: Vec<BlamedSpan> = Vec::new();
    for number in wanted.clone() {
        let author = blame.lines.get(number - 1).copied().flatten();
        let commit = commits.get(number - 1).and_then(Option::as_ref);
        let commit = commit.map(|commit| commit.id.clone());
        match spans.last_mut() {
            Some(span) if span.author == author && span.commit == commit => span.last = number,
            _ => spans.push(BlamedSpan { first: number, last: number, author, commit }),
        }
    }
    spans
}

/// Returns the words for how sure an attribution is.
pub(crate) fn confidence_label(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Exact => "exact",
        _ => "partial",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_maybe_lines() {
        let check = |text: &str, file: &str, lines: Option<RangeInclusive<usize>>| {
            assert_eq!(place(text).unwrap(), (PathBuf::from(file), lines), "{text}");
        };
        check("src/x.rs", "src/x.rs", None);
        check("src/x.rs:4", "src/x.rs", Some(4..=4));
        check("src/x.rs:4-8", "src/x.rs", Some(4..=8));
        check("C:\\x.rs", "C:\\x.rs", None);
        assert!(place("x.rs:0").is_err());
        assert!(place("x.rs:8-4").is_err());
    }
}
