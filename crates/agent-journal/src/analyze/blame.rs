//! Whose lines are these? Recorded edits are compared with a file as it stands, by content alone.
//!
//! An edit that stands in the file as one block is *exact*. Where only some of its lines are left,
//! those that are telling and stand in the file once are *partial*; trivial ones (`}`, blanks)
//! count only beside them. For each line the newest edit before its commit that left it there
//! holds; an edit that took the line away since makes every older claim void.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::model::{Edit, Timestamp};

/// Letters and digits a line needs to tell anything.
const TELLING: usize = 8;

/// The same for a part of a line.
const TELLING_PART: usize = 12;

/// Clocks of a commit and a record may differ by this much, in milliseconds.
const SLACK: i64 = 2_000;

/// A line of a file as it stands.
#[derive(Clone, Debug, Default)]
pub struct FileLine {
    /// The line, without its end.
    pub text: String,
    /// When it was committed; absent when it was not.
    pub committed_at: Option<Timestamp>,
}

/// How sure it is that an edit wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Confidence {
    /// The line, or lines around it, tell it apart; the rest of the edit is no longer there.
    Partial,
    /// The whole edit stands in the file as one block.
    Exact,
}

/// An edit, and when it was made.
pub(crate) struct Dated {
    pub(crate) at: Option<Timestamp>,
    pub(crate) edit: Edit,
}

/// Finds, for each line, the edit that wrote it. `edits` come in the order they were made.
pub(crate) fn attribute(lines: &[FileLine], edits: &[Dated]) -> Vec<Option<(usize, Confidence)>> {
    let file = File::new(lines);
    let left: Vec<HashMap<usize, Confidence>> =
        edits.iter().map(|dated| file.left_of(&dated.edit)).collect();
    let removed: Vec<HashSet<&str>> = edits.iter().map(|dated| taken_away(&dated.edit)).collect();
    let holds = |at: usize, line: &FileLine| {
        for (number, dated) in edits.iter().enumerate().rev() {
            if is_after(dated.at, line.committed_at) {
                continue;
            }
            if let Some(confidence) = left[number].get(&at) {
                return Some((number, *confidence));
            }
            let text = line.text.trim();
            // Whoever wrote the whole file without the line, or took it away, ended its history.
            if dated.edit.is_whole || removed[number].contains(text) {
                return None;
            }
        }
        None
    };
    lines.iter().enumerate().map(|(at, line)| holds(at, line)).collect()
}

fn is_after(made: Option<Timestamp>, committed: Option<Timestamp>) -> bool {
    let Some((made, committed)) = made.zip(committed) else { return false };
    made.as_millis() > committed.as_millis() + SLACK
}

/// The telling lines that an edit took away and did not bring back.
fn taken_away(edit: &Edit) -> HashSet<&str> {
    let kept: HashSet<&str> = edit.lines.iter().map(|line| line.text.trim()).collect();
    let removed = edit.removed.iter().map(|line| line.trim());
    removed.filter(|line| is_telling(line, TELLING) && !kept.contains(line)).collect()
}

fn is_telling(line: &str, letters: usize) -> bool {
    line.chars().filter(|one| one.is_alphanumeric()).nth(letters - 1).is_some()
}

/// A file, made ready for looking lines up.
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

    /// The lines of the file that an edit wrote.
    fn left_of(&self, edit: &Edit) -> HashMap<usize, Confidence> {
        let block: Vec<&str> = edit.lines.iter().map(|line| line.text.trim_end()).collect();
        let is_all = edit.is_whole && block == self.lines;
        let tells = is_telling(&block.concat(), TELLING) || is_all;
        if !tells || edit.lines.iter().all(|line| !line.is_new) {
            return HashMap::new();
        }
        if let Some(start) = self.find(&block, edit.is_fragment) {
            let new = edit.lines.iter().enumerate().filter(|(_, line)| line.is_new);
            return new.map(|(at, _)| (start + at, Confidence::Exact)).collect();
        }
        self.rest_of(edit, &block)
    }

    /// Where a block stands in the file, if it does so once.
    fn find(&self, block: &[&str], is_fragment: bool) -> Option<usize> {
        let whole = if is_fragment && block.len() > 2 { &block[1..block.len() - 1] } else { block };
        let parts = is_fragment && block.len() <= 2;
        // The rarest line says where to look.
        let rarest = |places: Option<&Vec<usize>>| places.map_or(0, Vec::len);
        let anchor =
            whole.iter().enumerate().min_by_key(|(_, line)| rarest(self.places.get(*line)));
        let (offset, line) = anchor?;
        let offset = offset + usize::from(whole.len() < block.len());
        let everywhere = || (0..self.lines.len()).collect::<Vec<_>>();
        let candidates =
            if parts { everywhere() } else { self.places.get(line).cloned().unwrap_or_default() };
        let offset = if parts { 0 } else { offset };
        let starts = candidates.into_iter().filter_map(|at| at.checked_sub(offset));
        let mut found = starts.filter(|start| self.stands(*start, block, is_fragment));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Whether a block stands at a line; a fragment's ends may be parts of lines.
    fn stands(&self, start: usize, block: &[&str], is_fragment: bool) -> bool {
        let Some(lines) = self.lines.get(start..start + block.len()) else { return false };
        let last = block.len() - 1;
        lines.iter().zip(block).enumerate().all(|(at, (line, part))| match is_fragment {
            _ if line == part => true,
            true if last == 0 => line.contains(part.trim()) && is_telling(part, TELLING_PART),
            true if at == 0 => line.ends_with(part.trim_start()),
            true if at == last => line.starts_with(part),
            _ => false,
        })
    }

    /// The lines of an edit that are left where the edit as a whole is not.
    fn rest_of(&self, edit: &Edit, block: &[&str]) -> HashMap<usize, Confidence> {
        let mut left = HashMap::new();
        let mut at_of: HashMap<usize, usize> = HashMap::new();
        for (number, line) in block.iter().enumerate() {
            let is_new = edit.lines[number].is_new && is_telling(line, TELLING);
            let once = block.iter().filter(|other| *other == line).count() == 1;
            if let Some([at]) = self.places.get(line).map(Vec::as_slice)
                && is_new
                && once
            {
                at_of.insert(number, *at);
                left.insert(*at, Confidence::Partial);
            }
        }
        self.spread(edit, block, &mut at_of, &mut left);
        left
    }

    /// Takes in the lines beside those that were found, as long as file and edit agree.
    fn spread(
        &self,
        edit: &Edit,
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

    /// Lines with a sign each: `+` new, `-` taken away, blank for what stood there.
    fn edit(minute: i64, lines: &[&str]) -> Dated {
        let mut edit = Edit { file: "a".into(), ..Edit::default() };
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

    /// Who wrote each line: the number of the edit, with `~` where only a part of it is left.
    fn who(lines: &[&str], edits: &[Dated]) -> String {
        who_at(&lines.iter().map(|line| (*line, None)).collect::<Vec<_>>(), edits)
    }

    fn who_at(lines: &[(&str, Option<i64>)], edits: &[Dated]) -> String {
        let line = |(text, minute): &(&str, Option<i64>)| FileLine {
            text: (*text).to_owned(),
            committed_at: minute.and_then(at),
        };
        let lines: Vec<FileLine> = lines.iter().map(line).collect();
        let told = attribute(&lines, edits).into_iter().map(|found| match found {
            None => "-".to_owned(),
            Some((number, Confidence::Exact)) => number.to_string(),
            Some((number, Confidence::Partial)) => format!("~{number}"),
        });
        told.collect::<Vec<_>>().join(" ")
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
