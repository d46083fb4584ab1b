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
    /// A line of tool output as it stands. The correct result is the session.
    Line,
    /// Words of a text in other forms: plurals, `-ed`, `-ing`. The correct result is the session.
    Inflection,
    /// Words of a text, one of them mistyped. The correct result is the session.
    Typo,
    /// The subject of a commit. The commands with it are masked, the correct result is the session
    /// that made the commit.
    Commit,
    /// A question about a conversation, written by a person or a model. The correct results are the
    /// sessions with the evidence.
    Chat,
}

impl Class {
    pub(super) const ALL: [Self; 11] = [
        Self::Prompt,
        Self::Title,
        Self::Question,
        Self::Identifier,
        Self::Error,
        Self::Phrase,
        Self::Line,
        Self::Inflection,
        Self::Typo,
        Self::Commit,
        Self::Chat,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Title => "title",
            Self::Question => "question",
            Self::Identifier => "identifier",
            Self::Error => "words of an error line",
            Self::Phrase => "phrase",
            Self::Line => "pasted line",
            Self::Inflection => "other word forms",
            Self::Typo => "mistyped word",
            Self::Commit => "commit subject",
            Self::Chat => "chat memory",
        }
    }
}

/// A question and its correct results.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) class: Class,
    pub(super) query: String,
    /// The correct sessions.
    pub(super) sessions: Vec<usize>,
    /// The correct messages of the only correct session; `None` if any message is correct.
    pub(super) messages: Option<Vec<usize>>,
    /// The messages of that session to be masked.
    pub(super) masks: Vec<usize>,
    /// Whether the question may be used to choose weights.
    pub(super) development: bool,
}

impl Item {
    /// Returns a question that any message of some sessions answers.
    pub(super) fn about_sessions(class: Class, query: String, sessions: Vec<usize>) -> Self {
        Self { class, query, sessions, messages: None, masks: Vec::new(), development: false }
    }
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
    maker.commits();
    maker.prompts();
    maker.titles();
    maker.identifiers();
    maker.errors();
    maker.phrases();
    maker.lines();
    maker.changed_words();
    let mut items = Vec::new();
    for class in Class::ALL {
        let mut all: Vec<Item> =
            maker.items.iter().filter(|item| item.class == class).cloned().collect();
        Chance::new(class as u64).shuffle(&mut all);
        let mut each: HashMap<usize, usize> = HashMap::new();
        all.retain(|item| {
            let count = each.entry(item.sessions[0]).or_default();
            *count += 1;
            *count <= MOST_EACH
        });
        all.truncate(MOST);
        split(&mut all);
        items.extend(all);
    }
    // What no question asks for is not masked.
    let masks = items.iter().flat_map(|item| item.masks.iter().map(|at| (item.sessions[0], *at)));
    let masked = masks.collect();
    Set { items, masked }
}

/// Splits questions into a half for choosing weights and a half for reporting.
pub(super) fn split(items: &mut [Item]) {
    for (at, item) in items.iter_mut().enumerate() {
        item.development = at % 2 == 0;
    }
}

struct Maker<'s> {
    sessions: &'s [Session],
    masked: HashSet<Place>,
    items: Vec<Item>,
}

impl<'s> Maker<'s> {
    fn add(&mut self, class: Class, query: String, session: usize, messages: Option<Vec<usize>>) {
        let item = Item::about_sessions(class, query, vec![session]);
        self.items.push(Item { messages, ..item });
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
                if said.by != By::Person || counts.get(said.text.trim()) != Some(&1) {
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
                    let query = opening.join(" ");
                    let item = Item::about_sessions(Class::Prompt, query, vec![number]);
                    self.items.push(Item { messages: Some(answer), masks: vec![at], ..item });
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

/// Maximum number of bytes of a pasted line.
const LONGEST_LINE: usize = 300;

impl Maker<'_> {
    /// Asks for lines of tool output that occur in one session only.
    fn lines(&mut self) {
        let mut places: HashMap<&str, Option<usize>> = HashMap::new();
        for ((session, _), said) in self.each().filter(|(_, said)| said.by == By::Tool) {
            for line in said.text.lines().map(str::trim).filter(|line| is_telling(line)) {
                let known = places.entry(line).or_insert(Some(session));
                *known = known.filter(|known| *known == session);
            }
        }
        let mut once: Vec<(&str, usize)> =
            places.into_iter().filter_map(|(line, session)| Some((line, session?))).collect();
        once.sort_unstable();
        Chance::new(14).shuffle(&mut once);
        let mut each: HashMap<usize, usize> = HashMap::new();
        once.retain(|(_, session)| {
            let count = each.entry(*session).or_default();
            *count += 1;
            *count <= MOST_EACH
        });
        for (line, session) in once {
            self.add(Class::Line, line.to_owned(), session, None);
        }
    }

    /// Asks with words of one sentence: in other forms, or with one of them mistyped.
    fn changed_words(&mut self) {
        let mut chance = Chance::new(15);
        let mut spoken: Vec<(Place, &Said)> =
            self.each().filter(|(_, said)| said.by != By::Tool && said.text.len() > 80).collect();
        chance.shuffle(&mut spoken);
        for (number, ((session, _), said)) in spoken.into_iter().enumerate() {
            let mut sentences: Vec<Vec<&str>> = said.text.lines().map(plain_words).collect();
            sentences.retain(|words| words.len() >= 4);
            if sentences.is_empty() {
                continue;
            }
            let mut words = sentences.swap_remove(chance.below(sentences.len()));
            words.truncate(5);
            if number % 2 == 0 {
                let changed: Vec<String> = words.iter().map(|word| other_form(word)).collect();
                self.add(Class::Inflection, changed.join(" "), session, None);
            } else if let Some(longest) = words.iter().map(|word| word.len()).max() {
                let mistyped = |word: &&str| {
                    if word.len() == longest { swap_letters(word) } else { (*word).to_owned() }
                };
                let changed: Vec<String> = words.iter().map(mistyped).collect();
                self.add(Class::Typo, changed.join(" "), session, None);
            }
        }
    }

    /// Asks with the subjects of commits. Every message of the session with the subject is masked.
    fn commits(&mut self) {
        let mut known = HashSet::new();
        for (number, session) in self.sessions.iter().enumerate() {
            for said in session.messages.iter().filter(|said| said.by == By::Model) {
                let Some(subject) = commit_subject(&said.text) else { continue };
                if content(&words(subject)).count() < 4 || !known.insert(subject) {
                    continue;
                }
                let all = session.messages.iter().enumerate();
                let with = all.filter(|(_, said)| said.text.contains(subject));
                let masks: Vec<usize> = with.map(|(at, _)| at).collect();
                if masks.len() * 2 > session.messages.len() {
                    continue;
                }
                self.masked.extend(masks.iter().map(|at| (number, *at)));
                let query = subject.to_owned();
                let item = Item::about_sessions(Class::Commit, query, vec![number]);
                self.items.push(Item { masks, ..item });
            }
        }
    }
}

/// Returns the first line of the message of a `git commit` in a text.
fn commit_subject(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("git commit")?;
    let (_, after) = after.split_once("-m ")?;
    let after = after.trim_start();
    let quoted = match after.strip_prefix("\"$(cat <<'EOF'") {
        Some(document) => document.trim_start().lines().next()?,
        None => {
            let quote = after.chars().next().filter(|one| "\"'".contains(*one))?;
            after[1..].split([quote, '\n']).next()?
        }
    };
    Some(quoted.trim()).filter(|subject| (20..=120).contains(&subject.len()))
}

/// Returns whether a line has enough words to tell where it comes from.
fn is_telling(line: &str) -> bool {
    (24..=LONGEST_LINE).contains(&line.len())
        && content(&words(line)).filter(|word| word.len() > 2).count() >= 3
}

/// Returns the plain content words of a line.
fn plain_words(line: &str) -> Vec<&str> {
    let is_plain = |word: &&str| word.len() > 4 && word.bytes().all(|one| one.is_ascii_lowercase());
    line.split_whitespace().filter(is_plain).filter(|word| !EMPTY.contains(word)).collect()
}

/// Returns another form of an English word, or of one that looks like it.
fn other_form(word: &str) -> String {
    if let Some(base) = word.strip_suffix("ies") {
        return format!("{base}y");
    }
    if let Some(base) = word.strip_suffix("ing") {
        return format!("{base}ed");
    }
    if let Some(base) = word.strip_suffix("ed") {
        return format!("{base}ing");
    }
    match word.strip_suffix('s') {
        Some(base) if !base.ends_with(['s', 'u', 'i']) => base.to_owned(),
        _ => format!("{word}s"),
    }
}

/// Swaps two letters in the middle of a word.
fn swap_letters(word: &str) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    let middle = letters.len() / 2;
    let differs = (middle..letters.len()).find(|at| letters[*at] != letters[at - 1]);
    if let Some(at) = differs {
        letters.swap(at, at - 1);
    }
    letters.into_iter().collect()
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
