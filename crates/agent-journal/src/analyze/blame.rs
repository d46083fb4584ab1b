//! Attributes the lines of a file to recorded edits, by content alone.
//!
//! An edit that occurs in the file as one block is *exact*. If only some of its lines are left,
//! those that are distinctive and occur in the file once are *partial*; trivial ones (`}`, blanks)
//! count only beside them. Each line belongs to the newest edit before its commit that wrote it; an
//! edit that has removed the line since then invalidates all older claims.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::model::{FileEdit, Timestamp};

/// The minimum number of letters and digits of a distinctive line.
const MIN_LETTERS: usize = 8;

/// The minimum number of letters and digits of a distinctive part of a line.
const MIN_PART_LETTERS: usize = 12;

/// The minimum number of letters and digits of a text that occurs in the file several times.
const MIN_COPY_LETTERS: usize = 40;

/// The maximum difference between the clocks of a commit and a record, in milliseconds.
const SLACK: i64 = 2_000;

/// A line of a file in its current state.
#[derive(Clone, Debug, Default)]
pub struct FileLine {
    /// The line, without its line ending.
    pub text: String,
    /// The time of its commit; `None` if it is not committed.
    pub committed_at: Option<Timestamp>,
}

/// The certainty that an edit wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Confidence {
    /// The line, or lines around it, are distinctive; the rest of the edit is no longer in the
    /// file.
    Partial,
    /// The complete edit occurs in the file as one block.
    Exact,
}

/// An edit and its time.
pub(crate) struct Dated {
    pub(crate) at: Option<Timestamp>,
    pub(crate) edit: FileEdit,
}

/// Returns the edit that wrote each line. `edits` must be in chronological order.
pub(crate) fn attribute_lines(
    lines: &[FileLine],
    edits: &[Dated],
) -> Vec<Option<(usize, Confidence)>> {
    let file = File::new(lines);
    let claims: Vec<Claims> = edits.iter().map(|dated| file.left_of(&dated.edit)).collect();
    let removed: Vec<HashSet<&str>> = edits.iter().map(|dated| taken_away(&dated.edit)).collect();
    let is_before =
        |number: &usize, line: &FileLine| !is_after(edits[*number].at, line.committed_at);
    let holds = |at: usize, line: &FileLine| {
        for number in (0..edits.len()).rev().filter(|number| is_before(number, line)) {
            if let Some(confidence) = claims[number].wrote.get(&at) {
                return Some((number, *confidence));
            }
            // An edit that wrote the whole file without the line, or removed it, ends the line's
            // history.
            let is_near = claims[number].near.as_ref().is_none_or(|near| near.contains(&at));
            let is_removed = is_near && removed[number].contains(line.text.trim());
            if edits[number].edit.is_whole || is_removed {
                break;
            }
        }
        let mut doubtful = (0..edits.len()).rev().filter(|number| is_before(number, line));
        let found = doubtful.find(|number| claims[*number].doubtful.contains(&at));
        found.map(|number| (number, Confidence::Partial))
    };
    let mut found: Vec<_> = lines.iter().enumerate().map(|(at, line)| holds(at, line)).collect();
    fill_trivial_lines(lines, edits, &mut found);
    found
}

/// Attributes trivial lines that an edit wrote somewhere to the edit around them, unless they
/// belong to another commit.
fn fill_trivial_lines(
    lines: &[FileLine],
    edits: &[Dated],
    found: &mut [Option<(usize, Confidence)>],
) {
    let written = edits.iter().flat_map(|dated| &dated.edit.lines).filter(|line| line.is_new);
    let written: HashSet<&str> = written.map(|line| line.text.trim_end()).collect();
    let is_open = |line: &FileLine| {
        !is_distinctive(&line.text, MIN_LETTERS) && written.contains(line.text.trim_end())
    };
    let mut at = 0;
    while at < lines.len() {
        let run = (at..lines.len()).take_while(|at| found[*at].is_none()).count();
        let (before, after) = (at.checked_sub(1).and_then(|at| found[at]), found.get(at + run));
        // A file may begin or end with them.
        let ends = (at == 0 || before.is_some()) && after.is_none_or(Option::is_some);
        let author = before.or_else(|| after.copied().flatten());
        let beside = [at.checked_sub(1), Some(at + run)].map(|at| lines.get(at?));
        let came_with = |line: &FileLine| {
            beside.into_iter().flatten().any(|other| other.committed_at == line.committed_at)
        };
        if let Some((number, _)) = author
            && ends
            && lines[at..at + run].iter().all(|line| is_open(line) && came_with(line))
        {
            found[at..at + run].fill(Some((number, Confidence::Partial)));
        }
        at += run + 1;
    }
}

/// The lines of a file that an edit may have written.
#[derive(Default)]
struct Claims {
    wrote: HashMap<usize, Confidence>,
    /// Lines that existed before, or are a copy that the edit wrote: both are possible.
    doubtful: HashSet<usize>,
    /// The lines around the edit, if it occurs exactly once.
    near: Option<Range<usize>>,
}

impl From<HashMap<usize, Confidence>> for Claims {
    fn from(wrote: HashMap<usize, Confidence>) -> Self {
        Self { wrote, ..Self::default() }
    }
}

fn is_after(made: Option<Timestamp>, committed: Option<Timestamp>) -> bool {
    let Some((made, committed)) = made.zip(committed) else { return false };
    made.as_millis() > committed.as_millis() + SLACK
}

/// Returns the distinctive lines that an edit removed and did not add again.
fn taken_away(edit: &FileEdit) -> HashSet<&str> {
    let kept: HashSet<&str> = edit.lines.iter().map(|line| line.text.trim()).collect();
    let removed = edit.removed.iter().map(|line| line.trim());
    removed.filter(|line| is_distinctive(line, MIN_LETTERS) && !kept.contains(line)).collect()
}

fn is_distinctive(line: &str, letters: usize) -> bool {
    line.chars().filter(|one| one.is_alphanumeric()).nth(letters - 1).is_some()
}

/// A file with an index of its lines.
struct File<'l> {
    lines: Vec<&'l str>,
    places: HashMap<&'l str, Vec<usize>>,
}

impl<'l> File<'l> {
    fn new(lines: &'l [FileLine]) -> Self {
        let lines: Vec<&str> = lines.iter().map(|line| line.text.trim_end()).collect();
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            places.entry(line).or_default().push(at);
        }
        Self { lines, places }
    }

    /// Returns the lines of the file that an edit wrote.
    fn left_of(&self, edit: &FileEdit) -> Claims {
        let block: Vec<&str> = edit.lines.iter().map(|line| line.text.trim_end()).collect();
        let is_all = edit.is_whole && block == self.lines;
        let is_enough = is_distinctive(&block.concat(), MIN_LETTERS) || is_all;
        if !is_enough || edit.lines.iter().all(|line| !line.is_new) {
            return Claims::default();
        }
        let starts = self.find_block(&block, edit.is_fragment);
        // A text that occurs several times may be a copy by another author, unless it is long
        // enough to be recognized.
        let confidence = match starts.len() {
            0 if edit.is_whole => return self.align_whole_file(&block).into(),
            0 => return self.rest_of(edit, &block).into(),
            1 => Confidence::Exact,
            _ if is_distinctive(&block.concat(), MIN_COPY_LETTERS) => Confidence::Partial,
            _ => return Claims::default(),
        };
        let texts: HashSet<&str> =
            edit.lines.iter().filter(|line| line.is_new).map(|line| line.text.trim_end()).collect();
        let reach = block.len() + edit.removed.len();
        let only = starts.first().filter(|_| starts.len() == 1);
        let near = only.map(|start| start.saturating_sub(edit.removed.len())..start + reach);
        let mut claims = Claims { near, ..Claims::default() };
        for start in starts {
            for (at, line) in edit.lines.iter().enumerate() {
                if line.is_new {
                    claims.wrote.insert(start + at, confidence);
                } else if texts.contains(line.text.trim_end()) {
                    claims.doubtful.insert(start + at);
                }
            }
        }
        claims
    }

    /// Returns the remaining lines of an edit that wrote a whole file, in order. If most of it is
    /// left, trivial lines between them are included.
    fn align_whole_file(&self, block: &[&str]) -> HashMap<usize, Confidence> {
        let runs: Vec<(usize, usize, usize)> =
            capture_diff_slices(Algorithm::Patience, block, &self.lines)
                .into_iter()
                .filter_map(|run| match run {
                    DiffOp::Equal { old_index, new_index, len } => {
                        Some((old_index, new_index, len))
                    }
                    _ => None,
                })
                .collect();
        let distinctive_lines =
            |lines: &[&str]| lines.iter().filter(|line| is_distinctive(line, MIN_LETTERS)).count();
        let kept: usize =
            runs.iter().map(|(old, _, len)| distinctive_lines(&block[*old..old + len])).sum();
        let is_most = kept * 2 >= distinctive_lines(block).max(1);
        let own = runs
            .iter()
            .filter(|(old, _, len)| is_most || distinctive_lines(&block[*old..old + len]) > 0);
        let places = own.flat_map(|(_, new, len)| *new..new + len);
        places.map(|at| (at, Confidence::Partial)).collect()
    }

    /// Returns the lines at which a block occurs in the file.
    fn find_block(&self, block: &[&str], is_fragment: bool) -> Vec<usize> {
        let whole = if is_fragment && block.len() > 2 { &block[1..block.len() - 1] } else { block };
        let parts = is_fragment && block.len() <= 2;
        // The rarest line limits the positions to check.
        let rarest = |line: &str| self.places.get(line).map_or(0, Vec::len);
        let anchor = whole.iter().enumerate().min_by_key(|(_, line)| rarest(line));
        let Some((offset, line)) = anchor else { return Vec::new() };
        let offset = offset + usize::from(whole.len() < block.len());
        let starts: Vec<usize> = if parts {
            (0..self.lines.len()).collect()
        } else {
            let places = self.places.get(line).into_iter().flatten();
            places.filter_map(|at| at.checked_sub(offset)).collect()
        };
        starts.into_iter().filter(|start| self.occurs_at(*start, block, is_fragment)).collect()
    }

    /// Returns whether a block occurs at a line; the ends of a fragment may be parts of lines.
    fn occurs_at(&self, start: usize, block: &[&str], is_fragment: bool) -> bool {
        let Some(lines) = self.lines.get(start..start + block.len()) else { return false };
        let last = block.len() - 1;
        lines.iter().zip(block).enumerate().all(|(at, (line, part))| match is_fragment {
            _ if line == part => true,
            true if last == 0 => {
                line.contains(part.trim()) && is_distinctive(part, MIN_PART_LETTERS)
            }
            true if at == 0 => line.ends_with(part.trim_start()),
            true if at == last => line.starts_with(part),
            _ => false,
        })
    }

    /// Returns the remaining lines of an edit that does not occur as a whole.
    fn rest_of(&self, edit: &FileEdit, block: &[&str]) -> HashMap<usize, Confidence> {
        let mut left = HashMap::new();
        let mut at_of: HashMap<usize, usize> = HashMap::new();
        for (number, line) in block.iter().enumerate() {
            let is_new = edit.lines[number].is_new && is_distinctive(line, MIN_LETTERS);
            let once = block.iter().filter(|other| *other == line).count() == 1;
            if let Some([at]) = self.places.get(line).map(Vec::as_slice)
                && is_new
                && once
            {
                at_of.insert(number, *at);
                left.insert(*at, Confidence::Partial);
            }
        }
        self.spread_to_adjacent(edit, block, &mut at_of, &mut left);
        left
    }

    /// Adds the lines adjacent to those that were found, as long as file and edit agree.
    fn spread_to_adjacent(
        &self,
        edit: &FileEdit,
        block: &[&str],
        at_of: &mut HashMap<usize, usize>,
        left: &mut HashMap<usize, Confidence>,
    ) {
        let mut open: Vec<(usize, usize)> =
            at_of.iter().map(|(number, at)| (*number, *at)).collect();
        while let Some((number, at)) = open.pop() {
            let before = number.checked_sub(1).zip(at.checked_sub(1));
            for (number, at) in before.into_iter().chain([(number + 1, at + 1)]) {
                let agree = block.get(number).is_some_and(|line| self.lines.get(at) == Some(line));
                if agree && edit.lines[number].is_new && !at_of.contains_key(&number) {
                    at_of.insert(number, at);
                    left.entry(at).or_insert(Confidence::Partial);
                    open.push((number, at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EditLine;

    fn at(minute: i64) -> Option<Timestamp> {
        Timestamp::from_millis(minute * 60_000)
    }

    /// Parses lines with a sign each: `+` added, `-` removed, blank for existing ones.
    fn edit(minute: i64, lines: &[&str]) -> Dated {
        let mut edit = FileEdit { file: "a".into(), ..FileEdit::default() };
        for line in lines {
            let (sign, text) = line.split_at(1);
            match sign {
                "-" => edit.removed.push(text.to_owned()),
                _ => edit.lines.push(EditLine { text: text.to_owned(), is_new: sign == "+" }),
            }
        }
        Dated { at: at(minute), edit }
    }

    fn write(minute: i64, lines: &[&str]) -> Dated {
        let mut dated = edit(minute, lines);
        dated.edit.is_whole = true;
        dated
    }

    /// Shows the author of each line: the number of the edit, with `~` if only a part of it is
    /// left.
    fn who(lines: &[&str], edits: &[Dated]) -> String {
        who_at(&lines.iter().map(|line| (*line, None)).collect::<Vec<_>>(), edits)
    }

    fn who_at(lines: &[(&str, Option<i64>)], edits: &[Dated]) -> String {
        let line = |(text, minute): &(&str, Option<i64>)| FileLine {
            text: (*text).to_owned(),
            committed_at: minute.and_then(at),
        };
        let lines: Vec<FileLine> = lines.iter().map(line).collect();
        let found = attribute_lines(&lines, edits).into_iter().map(|found| match found {
            None => "-".to_owned(),
            Some((number, Confidence::Exact)) => number.to_string(),
            Some((number, Confidence::Partial)) => format!("~{number}"),
        });
        found.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_block_that_stands_as_it_was_written_is_exact() {
        let edits = [edit(1, &[" fn one() {", "+    let answer = 42;", "+", "+    answer", " }"])];
        let file = ["fn zero() {}", "fn one() {", "    let answer = 42;", "", "    answer", "}"];
        assert_eq!(who(&file, &edits), "- - 0 0 0 -");
    }

    #[test]
    fn what_is_left_of_a_block_is_partial_and_trivial_lines_need_neighbours() {
        let block = ["+fn answer() -> u32 {", "+    let basis = 40;", "+    basis + offset", "+}"];
        let edits = [edit(1, &block)];
        let file =
            ["fn other() {", "}", "fn answer() -> u32 {", "    7", "    basis + offset", "}"];
        assert_eq!(who(&file, &edits), "- - ~0 - ~0 ~0");
    }

    #[test]
    fn lines_that_say_nothing_attribute_nothing() {
        let edits = [edit(1, &["+}", "+", "+return"]), edit(2, &["+    }"])];
        assert_eq!(who(&["}", "", "return", "    }"], &edits), "- - - -");
    }

    #[test]
    fn the_newest_edit_before_the_commit_holds() {
        let line = "let answer = compute();";
        let edits =
            [edit(10, &["+let answer = compute();"]), edit(20, &["+let answer = compute();"])];
        assert_eq!(who(&[line], &edits), "1");
        assert_eq!(who_at(&[(line, Some(15))], &edits), "0");
        assert_eq!(who_at(&[(line, Some(5))], &edits), "-");
    }

    #[test]
    fn what_was_undone_does_not_count_although_it_stands_there_again() {
        let edits = [
            edit(1, &["+let answer = compute();"]),
            edit(2, &["-let answer = compute();", "+let answer = guess();"]),
        ];
        assert_eq!(who(&["let answer = compute();"], &edits), "-");
        let edits = [write(1, &["+let answer = compute();"]), write(2, &["+let other = 7777;"])];
        assert_eq!(who(&["let answer = compute();", "let other = 7777;"], &edits), "- 1");
    }

    #[test]
    fn what_was_taken_away_in_one_place_still_stands_in_another() {
        let edits = [
            write(1, &["+## First steps", "+cd backend", "+## More of it", "+cd backend"]),
            edit(2, &[" ## First steps", "-cd backend", "+cd the_frontend"]),
        ];
        let file =
            ["## First steps", "cd the_frontend", "## More of it", "and", "that", "cd backend"];
        assert_eq!(who(&file, &edits), "~0 1 ~0 - - ~0");
    }

    #[test]
    fn trivial_lines_between_what_was_written_belong_to_it() {
        let edits = [edit(1, &["+let answer = compute();", "+}", "+", "+let other = guess();"])];
        let file = ["let answer = compute();", "", "}", "let other = guess();"];
        assert_eq!(who(&file, &edits), "~0 ~0 ~0 ~0");
    }

    #[test]
    fn trivial_lines_that_came_with_another_commit_are_nobodys() {
        let edits = [edit(1, &["+let answer = compute();", "+}", "+", "+let other = guess();"])];
        let file = |minute| {
            let (first, last) = ("let answer = compute();", "let other = guess();");
            [(first, Some(5)), ("", Some(minute)), ("}", Some(minute)), (last, Some(5))]
        };
        assert_eq!(who_at(&file(5), &edits), "~0 ~0 ~0 ~0");
        assert_eq!(who_at(&file(9), &edits), "~0 - - ~0");
    }

    #[test]
    fn a_part_of_a_line_is_found_when_it_tells_enough() {
        let part = |text: &str| {
            let mut dated = edit(1, &[&format!("+{text}")]);
            dated.edit.is_fragment = true;
            [dated]
        };
        let file = ["    let answer = compute_everything(x);", "    let other = 7;"];
        assert_eq!(who(&file, &part("compute_everything(x)")), "0 -");
        assert_eq!(who(&file, &part("other = 7")), "- -");
        assert_eq!(who(&[file[0], file[0]], &part("compute_everything(x)")), "- -");
    }

    #[test]
    fn no_edit_attributes_nothing() {
        assert_eq!(who(&["let answer = compute();", "}"], &[]), "- -");
        assert_eq!(who(&[], &[edit(1, &["+let answer = compute();"])]), "");
    }
}
