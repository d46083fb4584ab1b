//! Sessions that answer no question, to make a history larger: their texts are chains of words that
//! follow each other in the history itself.

use std::collections::HashMap;

use agent_journal::model::Block;

use super::chance::Chance;
use super::history::{By, Said, Session};

/// The bounds of the number of messages in a decoy, and of the words in a message.
const MESSAGES: (usize, usize) = (4, 24);
const WORDS: (usize, usize) = (6, 120);

/// The most text that the chains are made from, in bytes.
const MOST_TEXT: usize = 8 << 20;

/// The distance in time between decoys, in milliseconds.
const APART: i64 = 600_000;

/// The words of one kind of speaker, each with the words that follow it.
#[derive(Default)]
struct WordChain<'t> {
    words: Vec<&'t str>,
    numbers: HashMap<&'t str, usize>,
    next: Vec<Vec<u32>>,
}

impl<'t> WordChain<'t> {
    fn add(&mut self, text: &'t str) {
        let mut before: Option<usize> = None;
        for word in text.split_whitespace().filter(|word| word.len() < 40) {
            let number = *self.numbers.entry(word).or_insert_with(|| {
                self.words.push(word);
                self.next.push(Vec::new());
                self.words.len() - 1
            });
            if let Some(before) = before {
                self.next[before].push(number as u32);
            }
            before = Some(number);
        }
    }

    fn text(&self, count: usize, chance: &mut Chance) -> String {
        let mut text = String::new();
        let mut at = chance.below(self.words.len());
        for place in 0..count {
            if place > 0 {
                text.push(if place % 14 == 0 { '\n' } else { ' ' });
            }
            text.push_str(self.words[at]);
            let next = &self.next[at];
            // A chain that always goes on would repeat whole sentences.
            at = if next.is_empty() || chance.below(6) == 0 {
                chance.below(self.words.len())
            } else {
                next[chance.below(next.len())] as usize
            };
        }
        text
    }
}

/// Returns sessions to add, until a history has `size` of them.
pub(super) fn make(sessions: &[Session], size: usize) -> Vec<Session> {
    let speakers = [By::Person, By::Model, By::Tool];
    let mut chains = speakers.map(|_| WordChain::default());
    let mut left = MOST_TEXT;
    for said in sessions.iter().flat_map(|session| &session.messages) {
        let text = &said.text[..said.text.floor_char_boundary(4000)];
        let Some(rest) = left.checked_sub(text.len()) else { break };
        left = rest;
        chains[said.by as usize].add(text);
    }
    let first_at = sessions.first().map_or(0, |session| session.ended);
    let mut chance = Chance::new(size as u64);
    let between = |(least, most): (usize, usize), chance: &mut Chance| {
        least + chance.below(most - least).min(chance.below(most - least))
    };
    let decoy = |number: usize| {
        let count = between(MESSAGES, &mut chance);
        let messages = (0..count).filter_map(|at| {
            let by = match at {
                0 => By::Person,
                _ => speakers[[1, 2, 1, 0][at % 4]],
            };
            let chain = &chains[by as usize];
            if chain.words.is_empty() {
                return None;
            }
            let text = chain.text(between(WORDS, &mut chance), &mut chance);
            let block = match by {
                By::Tool => Block::ToolResult {
                    call_id: format!("call_{number}_{at}"),
                    output: text.clone(),
                    is_error: None,
                },
                By::Person | By::Model => Block::Text(text.clone()),
            };
            Some(Said { by, blocks: vec![block], text })
        });
        let messages: Vec<Said> = messages.collect();
        Session { title: None, ended: first_at + APART * number as i64, messages }
    };
    (sessions.len()..size).map(decoy).collect()
}
