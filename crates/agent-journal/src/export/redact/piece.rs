//! Secrets in excerpts of longer texts, such as titles and snippets. A secret that was cut no
//! longer looks like one, so it is searched in the complete text.

use std::ops::Range;

use super::{Finding, NamedText, find_secrets, find_value, new_finding, scan};
use crate::escape::without_escapes;

/// The number of bytes of a secret below which a part of it reveals nothing.
const MIN_RECOGNIZED_BYTES: usize = 6;

/// Finds the parts of an excerpt that belong to secrets in the texts it may come from, in order.
/// White space may differ: an excerpt has single spaces where a text has line ends.
pub fn find_in_piece(piece: &str, texts: &[NamedText]) -> Vec<Finding> {
    let begin = piece.len() - piece.trim_start_matches(['…', '.', ' ']).len();
    let core = piece[begin..].trim_end_matches(['…', '.', ' ']);
    let mut findings = find_secrets(core);
    let mut is_located = false;
    for text in texts {
        let clean = without_escapes(&text.text);
        let (flat, words) = flatten_text(&clean);
        let mut secrets = find_value(&text.name, &clean);
        for secret in &mut secrets {
            secret.range = flattened_range(&words, &secret.range);
        }
        let places = excerpt_positions(&flat, core, core.len() < piece.len());
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
            if places.is_empty() && core.len() >= MIN_RECOGNIZED_BYTES {
                let found = overlapping_parts(core, &flat[secret.range.clone()]);
                findings.extend(found.into_iter().map(|range| Finding { range, ..secret.clone() }));
            }
        }
    }
    if !is_located && begin + core.len() < piece.len() {
        findings.extend(open_end(core));
    }
    let mut findings = merge_findings(findings);
    for one in &mut findings {
        one.range = one.range.start + begin..one.range.end + begin;
    }
    findings
}

/// Returns the positions of an excerpt in a text: all of them if it is marked as cut, else only the
/// beginning. A short word occurs too often to be evidence.
fn excerpt_positions(flat: &str, core: &str, is_cut: bool) -> Vec<usize> {
    if core.len() < MIN_RECOGNIZED_BYTES {
        return Vec::new();
    }
    let found = flat.match_indices(core).map(|(at, _)| at);
    found.filter(|at| is_cut || *at == 0).collect()
}

/// A word of a text, with its position in the text and in the flattened text.
struct FlatWord {
    from: usize,
    to: usize,
    length: usize,
}

/// Returns a text in one line, with the positions of its words.
fn flatten_text(text: &str) -> (String, Vec<FlatWord>) {
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

/// Converts a range of a text to a range of the flattened text.
fn flattened_range(words: &[FlatWord], range: &Range<usize>) -> Range<usize> {
    let inside = |at: usize| {
        let after = words.partition_point(|word| word.from + word.length < at);
        words.get(after).map_or_else(
            || words.last().map_or(0, |word| word.to + word.length),
            |word| word.to + at.saturating_sub(word.from),
        )
    };
    inside(range.start)..inside(range.end).max(inside(range.start))
}

/// Returns the parts of an excerpt that are parts of a secret: the complete secret anywhere, or one
/// end of it at an edge of the excerpt.
fn overlapping_parts(piece: &str, secret: &str) -> Vec<Range<usize>> {
    let whole = piece.match_indices(secret).map(|(at, _)| at..at + secret.len());
    let mut found: Vec<Range<usize>> = whole.collect();
    let ends = secret.char_indices().map(|(at, _)| at);
    let mut heads = ends.clone().rev().filter(|end| *end >= MIN_RECOGNIZED_BYTES);
    let head = heads.find(|end| piece.ends_with(&secret[..*end]));
    found.extend(head.map(|length| piece.len() - length..piece.len()));
    let mut tails = ends.filter(|start| *start > 0 && secret.len() - start >= MIN_RECOGNIZED_BYTES);
    let tail = tails.find(|start| piece.starts_with(&secret[*start..]));
    found.extend(tail.map(|start| 0..secret.len() - start));
    found
}

/// Treats the last word of an excerpt as a secret if it may be the beginning of one. It is for
/// excerpts whose complete text is unknown.
fn open_end(piece: &str) -> Option<Finding> {
    let at = piece.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = piece.get(at..).unwrap_or_default();
    let is_long_enough = word.len() >= MIN_RECOGNIZED_BYTES && scan::has_word(word);
    is_long_enough.then(|| new_finding("cut", word, at..piece.len()))
}

/// Returns the findings in order. Overlapping ones are merged.
fn merge_findings(mut findings: Vec<Finding>) -> Vec<Finding> {
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
