//! Plain BM25 over messages: what every ranking has to beat.

use std::collections::{HashMap, HashSet};

use super::history::Session;
use super::queries::content;

const SATURATION: f32 = 1.2;
const LENGTH_SHARE: f32 = 0.75;

/// An inverted index of messages.
pub(super) struct PlainBm25 {
    /// For each word, the messages with it and how often it occurs in them.
    postings: HashMap<String, Vec<(usize, f32)>>,
    /// For each message, its session, its place in it and its length in words.
    messages: Vec<IndexedMessage>,
    average_length: f32,
}

struct IndexedMessage {
    session: usize,
    at: usize,
    length: f32,
}

impl PlainBm25 {
    pub(super) fn new(sessions: &[Session], masked: &HashSet<(usize, usize)>) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        let mut messages = Vec::new();
        for (session, one) in sessions.iter().enumerate() {
            for (at, said) in one.messages.iter().enumerate() {
                if masked.contains(&(session, at)) {
                    continue;
                }
                let mut counts: HashMap<String, f32> = HashMap::new();
                let mut length = 0.0;
                for word in lower_words(&said.text) {
                    *counts.entry(word).or_default() += 1.0;
                    length += 1.0;
                }
                for (word, count) in counts {
                    postings.entry(word).or_default().push((messages.len(), count));
                }
                messages.push(IndexedMessage { session, at, length });
            }
        }
        let total: f32 = messages.iter().map(|message| message.length).sum();
        let average_length = (total / messages.len().max(1) as f32).max(1.0);
        Self { postings, messages, average_length }
    }

    /// Returns the sessions with the best messages, each with that message.
    pub(super) fn search(&self, text: &str, limit: usize) -> Vec<(usize, usize)> {
        let all: Vec<String> = lower_words(text).collect();
        let borrowed: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut wanted: Vec<&str> = content(&borrowed).collect();
        if wanted.is_empty() {
            wanted = borrowed;
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for word in wanted {
            let Some(found) = self.postings.get(word) else { continue };
            let (count, with) = (self.messages.len() as f32, found.len() as f32);
            let rarity = ((count - with + 0.5) / (with + 0.5)).ln_1p();
            for (message, times) in found {
                let share = self.messages[*message].length / self.average_length;
                let damping = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * share);
                *scores.entry(*message).or_default() +=
                    rarity * times * (SATURATION + 1.0) / (times + damping);
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let mut seen = HashSet::new();
        let messages = ranked.into_iter().map(|(message, _)| &self.messages[message]);
        let firsts = messages.filter(|message| seen.insert(message.session));
        firsts.take(limit).map(|message| (message.session, message.at)).collect()
    }
}

fn lower_words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|one: char| !one.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}
