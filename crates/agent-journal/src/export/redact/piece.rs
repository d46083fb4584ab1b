//! Pieces of longer texts: titles, snippets. A secret that a cut went through no longer looks like
//! one, so it is looked for in the whole text.

use super::{Finding, PATTERNS, find, finding};
use crate::escape::without_escapes;

/// Fewer characters of a secret tell nothing.
const TELLING: usize = 6;

/// Finds what a piece holds of the secrets in the texts that it may be cut out of, in order. White
/// space may differ: a piece has single spaces where a text has lines.
pub fn find_in_piece(piece: &str, texts: &[&str]) -> Vec<Finding> {
    let begin = piece.len() - piece.trim_start_matches(['…', '.', ' ']).len();
    let core = piece[begin..].trim_end_matches(['…', '.', ' ']);
    let mut findings = find(core);
    let mut is_located = false;
    for text in texts {
        let flat = flattened(text);
        let secrets = find(&flat);
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
                let found = overlap(core, &flat[secret.range.clone()]);
                findings.extend(found.map(|range| Finding { range, ..secret.clone() }));
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

/// Returns a text in one line, without what steers a terminal.
fn flattened(text: &str) -> String {
    let text = without_escapes(text);
    let is_gap = |one: char| one.is_whitespace() || one.is_control();
    let mut flat = String::with_capacity(text.len());
    for word in text.split(is_gap).filter(|word| !word.is_empty()) {
        if !flat.is_empty() {
            flat.push(' ');
        }
        flat.push_str(word);
    }
    flat
}

/// Returns the part of a piece that is a part of a secret: all of it, or one of its ends.
fn overlap(piece: &str, secret: &str) -> Option<std::ops::Range<usize>> {
    if let Some(at) = piece.find(secret) {
        return Some(at..at + secret.len());
    }
    let ends = secret.char_indices().map(|(at, _)| at);
    let head = ends.clone().rev().filter(|end| *end >= TELLING);
    let head = head.into_iter().find(|end| piece.ends_with(&secret[..*end]));
    if let Some(length) = head {
        return Some(piece.len() - length..piece.len());
    }
    let tail = ends.filter(|start| *start > 0 && secret.len() - start >= TELLING);
    let tail = tail.into_iter().find(|start| piece.starts_with(&secret[*start..]));
    tail.map(|start| 0..secret.len() - start)
}

/// Takes the last word of a piece for a secret when it may be the beginning of one and the whole
/// text is not known.
fn open_end(piece: &str) -> Option<Finding> {
    let at = piece.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = piece.get(at..).unwrap_or_default();
    let is_telling = word.len() >= TELLING && PATTERNS.words.is_match(word);
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
