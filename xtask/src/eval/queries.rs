//! Makes questions with known answers from a history.

use std::collections::{HashMap, HashSet};

use super::chance::Chance;
use super::history::{By, Said, Session};
use super::words::{EMPTY, SYNONYMS};

/// Maximum number of questions per class, and per class and session.
const MOST: usize = 160;
const MOST_EACH: usize = 4;

/// Maximum number of words in a question.
const LONGEST: usize = 14;

/// The classes of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The opening of a prompt. The prompt is masked, the correct result is the answer to it.
    Prompt,
    /// A given title. It is masked, the correct result is the session.
    Title,
    /// A prompt in other words. The correct result is the prompt or its answer.
    Question,
    /// A rare identifier. The correct result is the message.
    Identifier,
    /// A line that reports an error. The correct result is the message.
    Error,
    /// Four words in quotes. The correct result is the message.
    Phrase,
}

impl Class {
    pub(super) const ALL: [Self; 6] =
        [Self::Prompt, Self::Title, Self::Question, Self::Identifier, Self::Error, Self::Phrase];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Title => "title",
            Self::Question => "question",
            Self::Identifier => "identifier",
            Self::Error => "error line",
            Self::Phrase => "phrase",
        }
    }
}

/// A question and its correct results.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) class: Class,
    pub(super) query: String,
    pub(super) session: usize,
    /// The correct messages; `None` if any message of the session is correct.
    pub(super) messages: Option<Vec<usize>>,
    /// Whether the question may be used to choose weights.
    pub(super) development: bool,
}

/// A message by the indexes of session and message.
type Place = (usize, usize);

/// Questions, and the messages to be masked for them.
pub(super) struct Set {
    pub(super) items: Vec<Item>,
    pub(super) masked: HashSet<Place>,
}

/// Makes questions of all classes.
pub(super) fn make(sessions: &[Session]) -> Set {
    let mut maker = Maker { sessions, masked: HashSet::new(), items: Vec::new() };
    maker.prompts();
    maker.titles();
    maker.identifiers();
    maker.errors();
    maker.phrases();
    let mut items = Vec::new();
    for class in Class::ALL {
        let mut all: Vec<Item> =
            maker.items.iter().filter(|item| item.class == class).cloned().collect();
        Chance::new(class as u64).shuffle(&mut all);
        let mut each: HashMap<usize, usize> = HashMap::new();
        all.retain(|item| {
            let count = each.entry(item.session).or_default();
            *count += 1;
            *count <= MOST_EACH
        });
        all.truncate(MOST);
        for (at, item) in all.iter_mut().enumerate() {
            item.development = at % 2 == 0;
        }
        items.extend(all);
    }
    // Prompts without a question are not masked.
    let is_asked = |place: &Place| {
        items.iter().any(|item| {
            let before = item
                .messages
                .as_ref()
                .and_then(|all| all.first())
                .and_then(|first| first.checked_sub(1));
            item.class == Class::Prompt && (item.session, before) == (place.0, Some(place.1))
        })
    };
    let masked = maker.masked.into_iter().filter(is_asked).collect();
    Set { items, masked }
}

struct Maker<'s> {
    sessions: &'s [Session],
    masked: HashSet<Place>,
    items: Vec<Item>,
}

impl<'s> Maker<'s> {
    fn add(&mut self, class: Class, query: String, session: usize, messages: Option<Vec<usize>>) {
        self.items.push(Item { class, query, session, messages, development: false });
    }

    /// Iterates over all messages that are not masked.
    fn each(&self) -> impl Iterator<Item = (Place, &'s Said)> + use<'s> {
        let masked = self.masked.clone();
        let all = self.sessions.iter().enumerate().flat_map(|(number, session)| {
            session.messages.iter().enumerate().map(move |(at, said)| ((number, at), said))
        });
        all.filter(move |(place, _)| !masked.contains(place))
    }

    /// Turns prompts alternately into openings, whose text is masked, and paraphrases.
    fn prompts(&mut self) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, said) in self.each().filter(|(_, said)| said.by == By::Person) {
            *counts.entry(said.text.trim()).or_default() += 1;
        }
        let mut turn = 0;
        for (number, session) in self.sessions.iter().enumerate() {
            for (at, said) in session.messages.iter().enumerate() {
                if said.by != By::Person || counts[said.text.trim()] > 1 {
                    continue;
                }
                let rest = &session.messages[at + 1..];
                let length = rest.iter().take_while(|said| said.by != By::Person).count();
                let answers = |said: &Said| said.by == By::Model && said.text.len() > 80;
                if !rest[..length].iter().any(answers) {
                    continue;
                }
                let opening = opening(&said.text);
                if content(&opening).count() < 4 {
                    continue;
                }
                turn += 1;
                if turn % 2 == 0 {
                    let answer = (at + 1..=at + length).collect();
                    self.masked.insert((number, at));
                    self.add(Class::Prompt, opening.join(" "), number, Some(answer));
                } else if let Some(query) = paraphrase(&opening) {
                    let exchange = (at..=at + length).collect();
                    self.add(Class::Question, query, number, Some(exchange));
                }
            }
        }
    }

    fn titles(&mut self) {
        for (number, session) in self.sessions.iter().enumerate() {
            let Some(title) = &session.title else { continue };
            let words = words(title);
            if content(&words).count() >= 2 {
                self.add(Class::Title, words.join(" "), number, None);
            }
        }
    }

    fn identifiers(&mut self) {
        let mut places: HashMap<&str, Vec<Place>> = HashMap::new();
        for (place, said) in self.each() {
            let is_inner = |one: char| one.is_ascii_alphanumeric() || one == '_';
            for word in said.text.split(|one| !is_inner(one)).filter(|word| is_identifier(word)) {
                let known = places.entry(word).or_default();
                if known.last() != Some(&place) {
                    known.push(place);
                }
            }
        }
        let mut rare: Vec<(&str, Vec<Place>)> = places.into_iter().collect();
        rare.retain(|(_, places)| {
            places.len() <= 2 && places.iter().all(|place| place.0 == places[0].0)
        });
        rare.sort_unstable();
        Chance::new(11).shuffle(&mut rare);
        for (word, places) in rare {
            let messages = places.iter().map(|place| place.1).collect();
            self.add(Class::Identifier, word.to_owned(), places[0].0, Some(messages));
        }
    }

    fn errors(&mut self) {
        let mut places: HashMap<&str, Vec<Place>> = HashMap::new();
        for (place, said) in self.each().filter(|(_, said)| said.by == By::Tool) {
            for line in said.text.lines().map(str::trim).filter(|line| is_error(line)) {
                places.entry(line).or_default().push(place);
            }
        }
        let mut once: Vec<(&str, Place)> = places
            .into_iter()
            .filter(|(_, all)| all.len() == 1)
            .map(|(l, all)| (l, all[0]))
            .collect();
        once.sort_unstable();
        Chance::new(12).shuffle(&mut once);
        for (line, (session, at)) in once {
            let words: Vec<&str> = words(line).into_iter().take(LONGEST).collect();
            if content(&words).count() >= 4 {
                self.add(Class::Error, words.join(" "), session, Some(vec![at]));
            }
        }
    }

    fn phrases(&mut self) {
        let mut chance = Chance::new(13);
        let mut spoken: Vec<(Place, &Said)> =
            self.each().filter(|(_, said)| said.by != By::Tool && said.text.len() > 200).collect();
        chance.shuffle(&mut spoken);
        for ((session, at), said) in spoken.into_iter().take(2 * MOST) {
            let Some(phrase) = phrase(&said.text, &mut chance) else { continue };
            let holds = |(_, other): &(Place, &Said)| other.text.to_lowercase().contains(&phrase);
            let mut with = self.each().filter(holds).map(|(place, _)| place);
            if with.next() == Some((session, at)) && with.next().is_none() {
                self.add(Class::Phrase, format!("\"{phrase}\""), session, Some(vec![at]));
            }
        }
    }
}

/// Returns four adjacent plain words of one line.
fn phrase(text: &str, chance: &mut Chance) -> Option<String> {
    let is_plain = |word: &&str| word.len() > 2 && word.bytes().all(|one| one.is_ascii_lowercase());
    let mut all = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        all.extend(words.windows(4).filter(|four| four.iter().all(is_plain)).map(|f| f.join(" ")));
    }
    if all.is_empty() { None } else { Some(all.swap_remove(chance.below(all.len()))) }
}

/// Splits a text into words, without characters and words that a query would interpret.
pub(super) fn words(text: &str) -> Vec<&str> {
    let parts = text.split(|one: char| !one.is_alphanumeric() && one != '_');
    parts.filter(|word| !word.is_empty() && *word != "OR").collect()
}

/// Returns the first words of a text.
fn opening(text: &str) -> Vec<&str> {
    words(text.get(..text.floor_char_boundary(600)).unwrap_or(text))
        .into_iter()
        .take(LONGEST)
        .collect()
}

/// Returns the words that are not stop words.
pub(super) fn content<'w>(words: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    words.iter().copied().filter(|word| !EMPTY.contains(&word.to_lowercase().as_str()))
}

/// Returns a question with the same meaning in other words, or `None` if no synonym is known.
fn paraphrase(opening: &[&str]) -> Option<String> {
    let mut query = String::from("how did we");
    let (mut swapped, mut kept) = (0, 0);
    for word in content(opening) {
        let lower = word.to_lowercase();
        if let Ok(at) = SYNONYMS.binary_search_by(|(known, _)| (*known).cmp(&lower)) {
            swapped += 1;
            query.push_str(&format!(" {}", SYNONYMS[at].1));
        } else {
            kept += 1;
            // People do not remember every word, so some are left out.
            if kept % 3 != 0 {
                query.push_str(&format!(" {word}"));
            }
        }
    }
    (swapped > 0 && swapped + kept >= 4).then_some(query)
}

fn is_identifier(word: &str) -> bool {
    let has_case = word
        .bytes()
        .zip(word.bytes().skip(1))
        .any(|(one, other)| one.is_ascii_lowercase() && other.is_ascii_uppercase());
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    (8..=40).contains(&word.len())
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && letters + 3 >= word.len().saturating_sub(word.matches('_').count())
        && (has_case || word.trim_matches('_').contains('_'))
}

fn is_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    (30..=200).contains(&line.len())
        && ["error", "failed", "exception", "panicked"].iter().any(|word| lower.contains(word))
}
