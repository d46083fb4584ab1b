//! Pieces of longer texts: titles, snippets. A secret that a cut went through no longer looks like
//! one, so it is looked for in the whole text.

use std::ops::Range;

use super::{Finding, NamedText, find, find_value, finding, scan};
use crate::escape::without_escapes;

/// Fewer characters of a secret tell nothing.
const TELLING: usize = 6;

/// Finds what a piece holds of the secrets in the texts that it may be cut out of, in order. White
/// space may differ: a piece has single spaces where a text has lines.
pub fn find_in_piece(piece: &str, texts: &[NamedText]) -> Vec<Finding> {
    let begin = piece.len() - piece.trim_start_matches(['…', '.', ' ']).len();
    let core = piece[begin..].trim_end_matches(['…', '.', ' ']);
    let mut findings = find(core);
    let mut is_located = false;
    for text in texts {
        let clean = without_escapes(&text.text);
        let (flat, words) = flattened(&clean);
        let mut secrets = find_value(&text.name, &clean);
        for secret in &mut secrets {
            secret.range = moved(&words, &secret.range);
        }
        let places = places(&flat, core, core.len() < piece.len());
        is_located |= !places.is_empty();
        for secret in &secrets {
            for place in &places {
                let from = secret.range.start.clamp(*place, place + core.len());
                let to = secret.range.end.clamp(*place, place + core.len());
                if from < to {
                    let range = from - place..to - place;
                    findings.push(Finding { range, ..secret.clone() });
                }
            }
            if places.is_empty() && core.len() >= TELLING {
                let found = overlaps(core, &flat[secret.range.clone()]);
                findings.extend(found.into_iter().map(|range| Finding { range, ..secret.clone() }));
            }
        }
    }
    if !is_located && begin + core.len() < piece.len() {
        findings.extend(open_end(core));
    }
    let mut findings = joined(findings);
    for one in &mut findings {
        one.range = one.range.start + begin..one.range.end + begin;
    }
    findings
}

/// Returns where a piece may be cut out of a text: anywhere when it says that it was cut, else only
/// at the beginning. A short word stands in too many places to say anything.
fn places(flat: &str, core: &str, is_cut: bool) -> Vec<usize> {
    if core.len() < TELLING {
        return Vec::new();
    }
    let found = flat.match_indices(core).map(|(at, _)| at);
    found.filter(|at| is_cut || *at == 0).collect()
}

/// A word of a text, and where it stands in the text's one line.
struct FlatWord {
    from: usize,
    to: usize,
    length: usize,
}

/// Returns a text in one line, and where its words went.
fn flattened(text: &str) -> (String, Vec<FlatWord>) {
    let is_gap = |one: char| one.is_whitespace() || one.is_control();
    let mut flat = String::with_capacity(text.len());
    let mut words = Vec::new();
    let mut from = 0;
    for word in text.split(is_gap) {
        if !word.is_empty() {
            if !flat.is_empty() {
                flat.push(' ');
            }
            words.push(FlatWord { from, to: flat.len(), length: word.len() });
            flat.push_str(word);
        }
        let gap = text[from + word.len()..].chars().next().map_or(0, char::len_utf8);
        from += word.len() + gap;
    }
    (flat, words)
}

/// Returns where a part of a text stands in its one line.
fn moved(words: &[FlatWord], range: &Range<usize>) -> Range<usize> {
    let inside = |at: usize| {
        let after = words.partition_point(|word| word.from + word.length < at);
        words.get(after).map_or_else(
            || words.last().map_or(0, |word| word.to + word.length),
            |word| word.to + at.saturating_sub(word.from),
        )
    };
    inside(range.start)..inside(range.end).max(inside(range.start))
}

/// Returns the parts of a piece that are a part of a secret: all of it wherever it stands, or one
/// of its ends at an edge of the piece.
fn overlaps(piece: &str, secret: &str) -> Vec<Range<usize>> {
    let whole = piece.match_indices(secret).map(|(at, _)| at..at + secret.len());
    let mut found: Vec<Range<usize>> = whole.collect();
    let ends = secret.char_indices().map(|(at, _)| at);
    let mut heads = ends.clone().rev().filter(|end| *end >= TELLING);
    let head = heads.find(|end| piece.ends_with(&secret[..*end]));
    found.extend(head.map(|length| piece.len() - length..piece.len()));
    let mut tails = ends.filter(|start| *start > 0 && secret.len() - start >= TELLING);
    let tail = tails.find(|start| piece.starts_with(&secret[*start..]));
    found.extend(tail.map(|start| 0..secret.len() - start));
    found
}

/// Takes the last word of a piece for a secret when it may be the beginning of one and the whole
/// text is not known.
fn open_end(piece: &str) -> Option<Finding> {
    let at = piece.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = piece.get(at..).unwrap_or_default();
    let is_telling = word.len() >= TELLING && scan::has_word(word);
    is_telling.then(|| finding("cut", word, at..piece.len()))
}

/// Returns findings in order; those that overlap become one.
fn joined(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|one| (one.range.start, usize::MAX - one.range.len()));
    let mut kept: Vec<Finding> = Vec::new();
    for one in findings {
        match kept.last_mut() {
            Some(last) if one.range.start < last.range.end => {
                last.range.end = last.range.end.max(one.range.end);
            }
            _ => kept.push(one),
        }
    }
    kept
}
