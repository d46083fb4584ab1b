//! Puts the messages of several recordings of one session in one order, each message once.
//!
//! Recordings of one format share ids or are equal byte by byte: a message that another one lacks
//! is simply added. A digest in another format (a database beside a log) shares neither. There
//! prompts are matched by their words, and of what follows a prompt only the texts, tool calls and
//! results are added that the leading recording does not contain anywhere.

use std::collections::HashMap;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::model::{Block, Message, Origin, Timestamp};

/// A text of fewer characters may stand in several places without being the same one.
const LONG_TEXT: usize = 40;

/// What a message is compared by: hashes instead of texts.
pub(super) struct Fingerprint {
    position: u64,
    /// As the store has it.
    hash: u64,
    uuids: Vec<u64>,
    voice: Voice,
    at: Option<i64>,
    parts: Vec<Part>,
}

/// Whose words a message has, as far as that matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    Prompt,
    /// Answers, tool results, commands: the rest of the conversation.
    Reply,
    /// Notices of the program, and what it put into the conversation.
    Notice,
}

/// One block of a message.
enum Part {
    /// Its lines, without the white space around words.
    Text { lines: Vec<u64>, length: usize },
    /// A tool call, a result or a picture, by its id, with the lines of what a tool was asked or
    /// returned: a digest may have them as messages.
    Named { id: u64, lines: Vec<u64> },
    /// Something that only the same format can have.
    Foreign,
}

impl Fingerprint {
    pub(super) fn new(position: u64, hash: u64, message: &Message) -> Self {
        let uuids = message.uuid.iter().chain(&message.part_uuids);
        Self {
            position,
            hash,
            uuids: uuids.map(|uuid| xxh3_64(uuid.as_bytes())).collect(),
            voice: voice(message),
            at: message.at.map(Timestamp::as_millis),
            parts: message.blocks.iter().map(Part::new).collect(),
        }
    }

    /// One number for all words of the message.
    fn words(&self) -> u64 {
        let mut hash = Xxh3::new();
        for part in &self.parts {
            if let Part::Text { lines, .. } = part {
                for line in lines {
                    hash.update(&line.to_le_bytes());
                }
            }
        }
        hash.digest()
    }
}

fn voice(message: &Message) -> Voice {
    match message.origin {
        Origin::Human | Origin::Queued if !message.sidechain => Voice::Prompt,
        Origin::System | Origin::Injected => Voice::Notice,
        _ => Voice::Reply,
    }
}

impl Part {
    fn new(block: &Block) -> Self {
        let named = |kind: &str, id: &str| Self::Named {
            id: xxh3_64(format!("{kind} {id}").as_bytes()),
            lines: tool_lines(block),
        };
        match block {
            Block::Text(text) | Block::Thinking(text) => {
                Self::Text { lines: line_hashes(text).collect(), length: text.trim().len() }
            }
            Block::ToolCall { id, .. } => named("call", id),
            Block::ToolResult { call_id, .. } => named("result", call_id),
            Block::Image(image) => match image.hash.as_ref().or(image.location.as_ref()) {
                Some(name) => named("image", name),
                None => Self::Foreign,
            },
            _ => Self::Foreign,
        }
    }
}

fn tool_lines(block: &Block) -> Vec<u64> {
    let mut lines = Vec::new();
    match block {
        Block::ToolCall { input, .. } => {
            input.strings(&mut |text| lines.extend(line_hashes(text)));
        }
        Block::ToolResult { output, .. } => lines.extend(line_hashes(output)),
        _ => {}
    }
    lines
}

/// Hashes the lines of a text by their letters and digits: formats differ in white space, in the
/// marks around names and in where a link leads. Lines without any are left out.
fn line_hashes(text: &str) -> impl Iterator<Item = u64> {
    text.lines().filter_map(|line| {
        let mut hash = Xxh3::new();
        let mut is_empty = true;
        for piece in without_targets(line) {
            let words = piece.split(|one: char| !one.is_alphanumeric());
            for word in words.filter(|word| !word.is_empty()) {
                hash.update(word.as_bytes());
                hash.update(b" ");
                is_empty = false;
            }
        }
        (!is_empty).then(|| hash.digest())
    })
}

/// Splits a line where links lead somewhere: `[name](target)` is its name.
fn without_targets(line: &str) -> impl Iterator<Item = &str> {
    let mut pieces = line.split("](");
    let first = pieces.next();
    let rest = pieces.map(|piece| piece.split_once(')').map_or(piece, |(_, after)| after));
    first.into_iter().chain(rest)
}

/// A message of the combined recording: where it is recorded, and which of its blocks are taken.
pub(super) struct SequenceItem {
    pub(super) telling: u64,
    /// Whether it comes from an imported file, beside a recording of this machine.
    pub(super) is_import: bool,
    print: Fingerprint,
    /// The blocks that are taken, unless all are.
    blocks: Option<Vec<usize>>,
}

impl SequenceItem {
    /// Where the message stands in its own recording.
    pub(super) fn position(&self) -> u64 {
        self.print.position
    }

    /// The hash under which the store has the message; `None` when some blocks are left out, or
    /// when it is labelled.
    pub(super) fn stored_hash(&self) -> Option<u64> {
        (self.blocks.is_none() && !self.is_import).then_some(self.print.hash)
    }

    /// Leaves the blocks out that the leading recording has, and labels what was imported.
    pub(super) fn labelled(&self, mut message: Message) -> Message {
        message.imported = self.is_import;
        if let Some(blocks) = &self.blocks {
            let mut at = 0..;
            message.blocks.retain(|_| at.next().is_some_and(|at| blocks.contains(&at)));
        }
        message
    }

    fn is_prompt(&self) -> bool {
        self.print.voice == Voice::Prompt
    }
}

/// The messages of several recordings in one order.
pub(super) struct Sequence {
    items: Vec<SequenceItem>,
    known: Known,
}

/// Where things stand in a sequence.
#[derive(Default)]
struct Known {
    uuids: HashMap<u64, usize>,
    hashes: HashMap<u64, usize>,
    /// Prompts by their words.
    prompts: HashMap<u64, Vec<usize>>,
    lines: HashMap<u64, usize>,
    named: HashMap<u64, usize>,
}

impl Known {
    fn add(&mut self, print: &Fingerprint, at: usize) {
        for uuid in &print.uuids {
            self.uuids.entry(*uuid).or_insert(at);
        }
        self.hashes.entry(print.hash).or_insert(at);
        if print.voice == Voice::Prompt {
            self.prompts.entry(print.words()).or_default().push(at);
        }
        for part in &print.parts {
            let lines = match part {
                Part::Text { lines, .. } => lines,
                Part::Named { id, lines } => {
                    self.named.entry(*id).or_insert(at);
                    lines
                }
                Part::Foreign => continue,
            };
            for line in lines {
                self.lines.entry(*line).or_insert(at);
            }
        }
    }

    fn same(&self, print: &Fingerprint) -> Option<usize> {
        let by_uuid = print.uuids.iter().find_map(|uuid| self.uuids.get(uuid));
        by_uuid.or_else(|| self.hashes.get(&print.hash)).copied()
    }
}

/// How an answer is compared with a sequence.
#[derive(Clone, Copy)]
struct Compared {
    /// Whether it follows a prompt that the sequence lacks.
    is_new_turn: bool,
    is_same_format: bool,
    /// Whether ids are not believed.
    is_import: bool,
}

impl Compared {
    /// Compares what an import says under an id that the sequence has.
    fn of_import() -> Self {
        Self { is_new_turn: false, is_same_format: false, is_import: true }
    }
}

/// How a message of one recording relates to a sequence.
enum Relation {
    /// The sequence has it, there if that is known.
    Had(Option<usize>),
    /// The sequence lacks it, or some blocks of it.
    Lacking(Option<Vec<usize>>),
}

impl Sequence {
    /// Begins with all messages of the leading recording.
    pub(super) fn new(telling: u64, prints: Vec<Fingerprint>) -> Self {
        let item = |print| SequenceItem { telling, is_import: false, print, blocks: None };
        let mut sequence =
            Self { items: prints.into_iter().map(item).collect(), known: Known::default() };
        sequence.learn();
        sequence
    }

    pub(super) fn items(&self) -> &[SequenceItem] {
        &self.items
    }

    /// Adds what another recording has and the sequence lacks. Returns whether there was any. An
    /// import may use the ids of messages and say something else: that is added, too.
    pub(super) fn add(&mut self, telling: u64, prints: Vec<Fingerprint>, is_import: bool) -> bool {
        let is_same_format = self.is_same_format(&prints);
        let relations = self.relations(&prints, is_same_format, is_import);
        if relations.iter().all(|relation| matches!(relation, Relation::Had(_))) {
            return false;
        }
        let slots = self.slots(&prints, &relations, is_same_format);
        let mut new = Vec::new();
        for ((print, relation), slot) in prints.into_iter().zip(relations).zip(slots) {
            if let Relation::Lacking(blocks) = relation {
                new.push((slot, SequenceItem { telling, is_import, print, blocks }));
            }
        }
        self.insert(new);
        self.learn();
        true
    }

    /// Whether a recording is of the format of the leading one: up to the last message that both
    /// have, they share most. A few may come from a combination that was exported and imported.
    /// Recordings that both have ids and nothing in common are two conversations.
    fn is_same_format(&self, prints: &[Fingerprint]) -> bool {
        let (mut shared, mut is_same) = (0, self.is_unrelated(prints));
        for (at, print) in prints.iter().enumerate() {
            if self.known.same(print).is_some() {
                shared += 1;
                is_same = shared * 2 > at;
            }
        }
        is_same
    }

    /// Whether every message has an id, here and there, and no prompt occurs in both.
    fn is_unrelated(&self, prints: &[Fingerprint]) -> bool {
        let has_id = |print: &Fingerprint| !print.uuids.is_empty();
        let is_known = |print: &Fingerprint| {
            self.known.same(print).is_some()
                || (print.voice == Voice::Prompt && self.known.prompts.contains_key(&print.words()))
        };
        prints.iter().all(has_id)
            && self.items.iter().all(|item| has_id(&item.print))
            && !prints.iter().any(is_known)
    }

    /// Notes where everything stands.
    fn learn(&mut self) {
        let mut known = Known::default();
        for (at, item) in self.items.iter().enumerate() {
            known.add(&item.print, at);
        }
        self.known = known;
    }

    fn relations(
        &self,
        prints: &[Fingerprint],
        is_same_format: bool,
        is_import: bool,
    ) -> Vec<Relation> {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut is_new_turn = false;
        let mut relations = Vec::with_capacity(prints.len());
        for print in prints {
            let is_prompt = print.voice == Voice::Prompt;
            let same = self.known.same(print);
            let relation = if let Some(at) = same {
                // What an import says under the id of another message is compared by its words.
                match is_import.then(|| self.reply(print, Compared::of_import())) {
                    Some(lacking @ Relation::Lacking(_)) => lacking,
                    _ => Relation::Had(Some(at)),
                }
            } else if is_same_format && !print.uuids.is_empty() {
                Relation::Lacking(None)
            } else if is_prompt {
                self.prompt(print, seen.get(&print.words()).copied().unwrap_or(0), is_same_format)
            } else if print.voice == Voice::Notice && !is_same_format {
                Relation::Had(None)
            } else {
                self.reply(print, Compared { is_new_turn, is_same_format, is_import })
            };
            if is_prompt {
                *seen.entry(print.words()).or_default() += 1;
                is_new_turn = matches!(relation, Relation::Lacking(_));
            }
            relations.push(relation);
        }
        relations
    }

    /// The n-th prompt with some words is the n-th with those words. A digest may repeat a prompt,
    /// or tell what an agent asked another one: a long text that stands somewhere is no new prompt.
    fn prompt(&self, print: &Fingerprint, count: usize, is_same_format: bool) -> Relation {
        let same = self.known.prompts.get(&print.words());
        if let Some(at) = same.and_then(|places| places.get(count)) {
            return Relation::Had(Some(*at));
        }
        let texts = print.parts.iter().filter_map(|part| match part {
            Part::Text { lines, length } => Some((lines, *length)),
            _ => None,
        });
        let length: usize = texts.clone().map(|(_, length)| length).sum();
        if !is_same_format && length >= LONG_TEXT {
            let lines = texts.flat_map(|(lines, _)| lines);
            let places: Option<Vec<usize>> =
                lines.map(|line| self.known.lines.get(line).copied()).collect();
            if let Some(places) = places {
                return Relation::Had(places.first().copied());
            }
        }
        let is_empty =
            length == 0 && !print.parts.iter().any(|part| matches!(part, Part::Named { .. }));
        if is_empty { Relation::Had(None) } else { Relation::Lacking(None) }
    }

    /// Of an answer those blocks are lacking that stand nowhere.
    fn reply(&self, print: &Fingerprint, compared: Compared) -> Relation {
        let Compared { is_new_turn, is_same_format, is_import } = compared;
        let (mut place, mut lacking) = (None, Vec::new());
        for (at, part) in print.parts.iter().enumerate() {
            let known = match part {
                Part::Text { lines, length } => {
                    let places: Option<Vec<usize>> =
                        lines.iter().map(|line| self.known.lines.get(line).copied()).collect();
                    let is_sure = !is_new_turn || *length >= LONG_TEXT || lines.is_empty();
                    places.filter(|_| is_sure).map(|places| places.last().copied())
                }
                Part::Named { id, lines } => {
                    let has_lines = || lines.iter().all(|line| self.known.lines.contains_key(line));
                    let place = self.known.named.get(id).filter(|_| !is_import || has_lines());
                    place.map(|place| Some(*place))
                }
                Part::Foreign => (!is_same_format).then_some(None),
            };
            match known {
                Some(known) => place = place.max(known),
                None => lacking.push(at),
            }
        }
        let is_whole = lacking.len() == print.parts.len();
        if lacking.is_empty() {
            return Relation::Had(place);
        }
        Relation::Lacking((!is_whole).then_some(lacking))
    }

    /// Finds out before which item of the sequence each message of a recording stands.
    fn slots(
        &self,
        prints: &[Fingerprint],
        relations: &[Relation],
        is_same_format: bool,
    ) -> Vec<usize> {
        let mut next = vec![None; prints.len() + 1];
        for at in (0..prints.len()).rev() {
            next[at] = match relations[at] {
                Relation::Had(Some(place)) => Some(place),
                _ => next[at + 1],
            };
        }
        let (mut slot, mut is_added) = (0, false);
        let mut slots = Vec::with_capacity(prints.len());
        for (at, (print, relation)) in prints.iter().zip(relations).enumerate() {
            match relation {
                Relation::Had(place) => {
                    slot = place.map_or(slot, |place| slot.max(place + 1));
                    is_added &= place.is_none();
                }
                Relation::Lacking(_) => {
                    let end = next[at].filter(|place| *place >= slot).unwrap_or(self.items.len());
                    let passes = |item: &SequenceItem| match (is_same_format, print.voice) {
                        (true, _) => is_before(item.print.at, print.at),
                        (false, Voice::Prompt) => {
                            !item.is_prompt() || is_before(item.print.at, print.at)
                        }
                        (false, _) => !is_added && !item.is_prompt(),
                    };
                    while slot < end && passes(&self.items[slot]) {
                        slot += 1;
                    }
                    is_added = true;
                }
            }
            slots.push(slot);
        }
        slots
    }

    /// Puts new items before those at their slots, in their own order.
    fn insert(&mut self, new: Vec<(usize, SequenceItem)>) {
        let before = std::mem::take(&mut self.items);
        let mut new = new.into_iter().peekable();
        for (at, item) in before.into_iter().enumerate() {
            while let Some((_, added)) = new.next_if(|(slot, _)| *slot <= at) {
                self.items.push(added);
            }
            self.items.push(item);
        }
        self.items.extend(new.map(|(_, item)| item));
    }
}

fn is_before(item: Option<i64>, message: Option<i64>) -> bool {
    item.zip(message).is_some_and(|(item, message)| item <= message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt (`you: …`) or an answer, a minute after the one before.
    fn recording(name: &str, lines: &[&str], first_minute: i64) -> Vec<Fingerprint> {
        let message = |at: usize, line: &str| {
            let (origin, text) = match line.strip_prefix("you: ") {
                Some(text) => (Origin::Human, text),
                None => (Origin::Assistant, line),
            };
            let minute = (first_minute + at as i64) * 60_000;
            let blocks = vec![Block::Text(text.to_owned())];
            Message { origin, at: Timestamp::from_millis(minute), blocks, ..Message::default() }
        };
        let lines = lines.iter().enumerate();
        lines
            .map(|(at, line)| {
                let message = message(at, line);
                let hash = xxh3_64(format!("{name} {at} {line}").as_bytes());
                Fingerprint::new(at as u64, hash, &message)
            })
            .collect()
    }

    /// The order of a log and a digest that begins as many minutes later: `a` and `b` with
    /// positions.
    fn combined(log: &[&str], digest: &[&str], later: i64) -> String {
        let mut sequence = Sequence::new(1, recording("log", log, 100));
        sequence.add(2, recording("digest", digest, 100 + later), false);
        let name = |item: &SequenceItem| {
            format!("{}{}", if item.telling == 1 { 'a' } else { 'b' }, item.position())
        };
        sequence.items().iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_digest_adds_only_what_the_log_lacks() {
        let log = ["you: one", "working", "done with it"];
        let check = |digest: &[&str], expected: &str| {
            assert_eq!(combined(&log, digest, 0), expected, "{digest:?}");
        };
        check(&["you: one", "working\n\n  done `with` it"], "a0 a1 a2");
        check(&["you: one", "something else"], "a0 a1 a2 b1");
        check(&["you: one", "working", "you: two", "working"], "a0 a1 a2 b2 b3");
        check(&["you: zero", "you: one"], "b0 a0 a1 a2");
        check(&["you: one", "you: one"], "a0 a1 a2 b1");
    }

    #[test]
    fn a_turn_that_is_lacking_stands_where_its_time_is() {
        let log = ["you: one", "first", "you: three", "third"];
        assert_eq!(combined(&log, &["you: two", "second"], 1), "a0 a1 b0 b1 a2 a3");
        assert_eq!(combined(&log, &["you: two", "second"], 9), "a0 a1 a2 a3 b0 b1");
    }

    #[test]
    fn a_long_prompt_that_a_digest_repeats_is_one_prompt() {
        let long = "you: a prompt that is far too long to be said twice by chance";
        assert_eq!(combined(&[long, "yes"], &[long, long, "yes"], 0), "a0 a1");
    }

    #[test]
    fn links_and_marks_do_not_make_another_line() {
        let hashes = |text: &str| line_hashes(text).collect::<Vec<_>>();
        assert_eq!(hashes("see [a.rs](src/a.rs), then"), hashes("see  `a.rs` then\n---"));
        assert_ne!(hashes("see a.rs"), hashes("see b.rs"));
    }
}
