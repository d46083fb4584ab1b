//! Merges the messages of several recordings of one session into one sequence, without duplicates.
//!
//! Recordings of one format share ids or are equal byte by byte: a message that the other lacks is
//! simply added. A digest in another format (a database besides a log) shares neither. Its prompts
//! are matched by their words. Of the messages after a prompt, only those texts, tool calls and
//! results are added that the leading recording does not contain anywhere.

use std::collections::HashMap;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::model::{Block, Message, Origin, Timestamp};

/// Minimum size of a text that identifies itself, in bytes. A shorter one may occur several times
/// by chance.
const LONG_TEXT_BYTES: usize = 40;

/// The hashes by which a message is compared.
pub(super) struct MessageFingerprint {
    position: u64,
    /// Hash of the message in the store.
    hash: u64,
    uuids: Vec<u64>,
    voice: MessageRole,
    at: Option<i64>,
    parts: Vec<BlockHashes>,
}

/// The role of a message in the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageRole {
    Prompt,
    /// Replies, tool results, commands: the rest of the conversation.
    Reply,
    /// Notices of the agent's program, and injected text.
    Notice,
}

/// The hashes by which a block is compared.
enum BlockHashes {
    /// A text: hashes of its lines, and its length in bytes.
    Text { lines: Vec<u64>, length: usize },
    /// A tool call, a result or an image with its id, and the hashes of the lines of the tool's
    /// input or output, because a digest may contain these as messages.
    Named { id: u64, lines: Vec<u64> },
    /// A block that only a recording of the same format can contain, with the hash of its JSON.
    Foreign { id: Option<u64> },
}

impl MessageFingerprint {
    pub(super) fn new(position: u64, hash: u64, message: &Message) -> Self {
        let uuids = message.uuid.iter().chain(&message.part_uuids);
        Self {
            position,
            hash,
            uuids: uuids.map(|uuid| xxh3_64(uuid.as_bytes())).collect(),
            voice: voice(message),
            at: message.at.map(Timestamp::as_millis),
            parts: message.blocks.iter().map(BlockHashes::new).collect(),
        }
    }

    /// Returns one hash of all words of the message.
    fn words(&self) -> u64 {
        let mut hash = Xxh3::new();
        for part in &self.parts {
            if let BlockHashes::Text { lines, .. } = part {
                for line in lines {
                    hash.update(&line.to_le_bytes());
                }
            }
        }
        hash.digest()
    }
}

fn voice(message: &Message) -> MessageRole {
    match message.origin {
        Origin::Human | Origin::Queued if !message.sidechain => MessageRole::Prompt,
        Origin::System | Origin::Injected => MessageRole::Notice,
        _ => MessageRole::Reply,
    }
}

impl BlockHashes {
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
                None => Self::Foreign { id: None },
            },
            Block::Other(json) => {
                // White space is not part of what the agent recorded.
                let content = json.parse_as::<serde_json::Value>().unwrap_or_default();
                Self::Foreign { id: Some(xxh3_64(format!("other {content}").as_bytes())) }
            }
        }
    }
}

fn tool_lines(block: &Block) -> Vec<u64> {
    let mut lines = Vec::new();
    match block {
        Block::ToolCall { input, .. } => {
            input.visit_strings(&mut |text| lines.extend(line_hashes(text)));
        }
        Block::ToolResult { output, .. } => lines.extend(line_hashes(output)),
        _ => {}
    }
    lines
}

/// Hashes the lines of a text by their letters and digits, because formats differ in white space,
/// in marks around names and in link targets. Skips lines without any.
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

/// Splits a line into pieces without link targets: of `[name](target)` only the name remains.
fn without_targets(line: &str) -> impl Iterator<Item = &str> {
    let mut pieces = line.split("](");
    let first = pieces.next();
    let rest = pieces.map(|piece| piece.split_once(')').map_or(piece, |(_, after)| after));
    first.into_iter().chain(rest)
}

/// A message of the combined recording: its original recording and the selected blocks.
pub(super) struct SequenceItem {
    pub(super) recording: u64,
    /// Whether the message comes from an import, while a recording of this machine leads.
    pub(super) is_import: bool,
    print: MessageFingerprint,
    /// Indexes of the selected blocks; `None` for all.
    blocks: Option<Vec<usize>>,
}

impl SequenceItem {
    /// Returns the position of the message in its own recording.
    pub(super) fn position(&self) -> u64 {
        self.print.position
    }

    /// Returns the hash of the message in the store; `None` if blocks are left out or the message
    /// is labelled as imported.
    pub(super) fn stored_hash(&self) -> Option<u64> {
        (self.blocks.is_none() && !self.is_import).then_some(self.print.hash)
    }

    /// Removes the blocks that are not selected, and labels an imported message.
    pub(super) fn labelled(&self, mut message: Message) -> Message {
        message.imported = self.is_import;
        if let Some(blocks) = &self.blocks {
            let mut at = 0..;
            message.blocks.retain(|_| at.next().is_some_and(|at| blocks.contains(&at)));
        }
        message
    }

    fn is_prompt(&self) -> bool {
        self.print.voice == MessageRole::Prompt
    }
}

/// The messages of several recordings in one order.
pub(super) struct Sequence {
    items: Vec<SequenceItem>,
    known: SequenceIndex,
}

/// Indexes of a sequence by ids and hashes.
#[derive(Default)]
struct SequenceIndex {
    uuids: HashMap<u64, usize>,
    hashes: HashMap<u64, usize>,
    /// Prompts by the hash of their words.
    prompts: HashMap<u64, Vec<usize>>,
    lines: HashMap<u64, usize>,
    named: HashMap<u64, usize>,
}

impl SequenceIndex {
    fn add(&mut self, print: &MessageFingerprint, at: usize) {
        for uuid in &print.uuids {
            self.uuids.entry(*uuid).or_insert(at);
        }
        self.hashes.entry(print.hash).or_insert(at);
        if print.voice == MessageRole::Prompt {
            self.prompts.entry(print.words()).or_default().push(at);
        }
        for part in &print.parts {
            let lines = match part {
                BlockHashes::Text { lines, .. } => lines,
                BlockHashes::Named { id, lines } => {
                    self.named.entry(*id).or_insert(at);
                    lines
                }
                BlockHashes::Foreign { id } => {
                    if let Some(id) = id {
                        self.named.entry(*id).or_insert(at);
                    }
                    continue;
                }
            };
            for line in lines {
                self.lines.entry(*line).or_insert(at);
            }
        }
    }

    fn same(&self, print: &MessageFingerprint) -> Option<usize> {
        let by_uuid = print.uuids.iter().find_map(|uuid| self.uuids.get(uuid));
        by_uuid.or_else(|| self.hashes.get(&print.hash)).copied()
    }
}

/// The conditions under which a reply is compared with a sequence.
#[derive(Clone, Copy)]
struct ReplyContext {
    /// Whether the reply follows a prompt that the sequence lacks.
    is_new_turn: bool,
    is_same_format: bool,
    /// Whether ids are not trusted.
    is_import: bool,
}

impl ReplyContext {
    /// Returns the conditions for an import with an id that the sequence already contains.
    fn of_import() -> Self {
        Self { is_new_turn: false, is_same_format: false, is_import: true }
    }
}

/// The relation of a message to a sequence.
enum SequenceRelation {
    /// The sequence contains the message, at this index if known.
    Had(Option<usize>),
    /// The sequence lacks the message, or only these blocks of it.
    Lacking(Option<Vec<usize>>),
}

impl Sequence {
    /// Starts with all messages of the leading recording.
    pub(super) fn new(recording: u64, prints: Vec<MessageFingerprint>) -> Self {
        let item = |print| SequenceItem { recording, is_import: false, print, blocks: None };
        let mut sequence =
            Self { items: prints.into_iter().map(item).collect(), known: SequenceIndex::default() };
        sequence.learn();
        sequence
    }

    pub(super) fn items(&self) -> &[SequenceItem] {
        &self.items
    }

    /// Adds the messages of another recording that the sequence lacks. Returns whether there were
    /// any. An import may use known message ids for different content: that is added too.
    pub(super) fn add(
        &mut self,
        recording: u64,
        prints: Vec<MessageFingerprint>,
        is_import: bool,
    ) -> bool {
        let is_same_format = self.is_same_format(&prints);
        let relations = self.relations(&prints, is_same_format, is_import);
        if relations.iter().all(|relation| matches!(relation, SequenceRelation::Had(_))) {
            return false;
        }
        let slots = self.slots(&prints, &relations, is_same_format);
        let mut new = Vec::new();
        for ((print, relation), slot) in prints.into_iter().zip(relations).zip(slots) {
            if let SequenceRelation::Lacking(blocks) = relation {
                new.push((slot, SequenceItem { recording, is_import, print, blocks }));
            }
        }
        self.insert(new);
        self.learn();
        true
    }

    /// Returns whether a recording has the format of the leading one: up to the last common
    /// message, they share more than half. A few common messages may come from a combination that
    /// was exported and imported. Two recordings that have ids and nothing in common are separate
    /// conversations.
    fn is_same_format(&self, prints: &[MessageFingerprint]) -> bool {
        let (mut shared, mut is_same) = (0, self.is_unrelated(prints));
        for (at, print) in prints.iter().enumerate() {
            if self.known.same(print).is_some() {
                shared += 1;
                is_same = shared * 2 > at;
            }
        }
        is_same
    }

    /// Returns whether all messages of both recordings have ids and no prompt occurs in both.
    fn is_unrelated(&self, prints: &[MessageFingerprint]) -> bool {
        let has_id = |print: &MessageFingerprint| !print.uuids.is_empty();
        let is_known = |print: &MessageFingerprint| {
            self.known.same(print).is_some()
                || (print.voice == MessageRole::Prompt
                    && self.known.prompts.contains_key(&print.words()))
        };
        prints.iter().all(has_id)
            && self.items.iter().all(|item| has_id(&item.print))
            && !prints.iter().any(is_known)
    }

    /// Rebuilds the indexes of the sequence.
    fn learn(&mut self) {
        let mut known = SequenceIndex::default();
        for (at, item) in self.items.iter().enumerate() {
            known.add(&item.print, at);
        }
        self.known = known;
    }

    fn relations(
        &self,
        prints: &[MessageFingerprint],
        is_same_format: bool,
        is_import: bool,
    ) -> Vec<SequenceRelation> {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut is_new_turn = false;
        let mut relations = Vec::with_capacity(prints.len());
        for print in prints {
            let is_prompt = print.voice == MessageRole::Prompt;
            let same = self.known.same(print);
            let relation = if let Some(at) = same {
                // If an import uses a known id, its content is compared by words.
                match is_import.then(|| self.reply(print, ReplyContext::of_import())) {
                    Some(lacking @ SequenceRelation::Lacking(_)) => lacking,
                    _ => SequenceRelation::Had(Some(at)),
                }
            } else if is_same_format && !print.uuids.is_empty() {
                SequenceRelation::Lacking(None)
            } else if is_prompt {
                self.prompt(print, seen.get(&print.words()).copied().unwrap_or(0), is_same_format)
            } else if print.voice == MessageRole::Notice && !is_same_format {
                SequenceRelation::Had(None)
            } else {
                self.reply(print, ReplyContext { is_new_turn, is_same_format, is_import })
            };
            if is_prompt {
                *seen.entry(print.words()).or_default() += 1;
                is_new_turn = matches!(relation, SequenceRelation::Lacking(_));
            }
            relations.push(relation);
        }
        relations
    }

    /// Relates a prompt: the n-th prompt with some words matches the n-th in the sequence with
    /// these words. A digest may repeat a prompt or contain an agent's request to another one, so a
    /// long text that occurs anywhere in the sequence is not a new prompt.
    fn prompt(
        &self,
        print: &MessageFingerprint,
        count: usize,
        is_same_format: bool,
    ) -> SequenceRelation {
        let same = self.known.prompts.get(&print.words());
        if let Some(at) = same.and_then(|places| places.get(count)) {
            return SequenceRelation::Had(Some(*at));
        }
        let texts = print.parts.iter().filter_map(|part| match part {
            BlockHashes::Text { lines, length } => Some((lines, *length)),
            _ => None,
        });
        let length: usize = texts.clone().map(|(_, length)| length).sum();
        if !is_same_format && length >= LONG_TEXT_BYTES {
            let lines = texts.flat_map(|(lines, _)| lines);
            let places: Option<Vec<usize>> =
                lines.map(|line| self.known.lines.get(line).copied()).collect();
            if let Some(places) = places {
                return SequenceRelation::Had(places.first().copied());
            }
        }
        let is_empty = length == 0
            && !print.parts.iter().any(|part| matches!(part, BlockHashes::Named { .. }));
        if is_empty { SequenceRelation::Had(None) } else { SequenceRelation::Lacking(None) }
    }

    /// Relates a reply: blocks that occur nowhere in the sequence are missing.
    fn reply(&self, print: &MessageFingerprint, compared: ReplyContext) -> SequenceRelation {
        let ReplyContext { is_new_turn, is_same_format, is_import } = compared;
        let (mut place, mut lacking) = (None, Vec::new());
        for (at, part) in print.parts.iter().enumerate() {
            let known = match part {
                BlockHashes::Text { lines, length } => {
                    let places: Option<Vec<usize>> =
                        lines.iter().map(|line| self.known.lines.get(line).copied()).collect();
                    let is_sure = !is_new_turn || *length >= LONG_TEXT_BYTES || lines.is_empty();
                    places.filter(|_| is_sure).map(|places| places.last().copied())
                }
                BlockHashes::Named { id, lines } => {
                    let has_lines = || lines.iter().all(|line| self.known.lines.contains_key(line));
                    let place = self.known.named.get(id).filter(|_| !is_import || has_lines());
                    place.map(|place| Some(*place))
                }
                BlockHashes::Foreign { id } => {
                    let place = id.and_then(|id| self.known.named.get(&id));
                    place.map(|place| Some(*place)).or((!is_same_format).then_some(None))
                }
            };
            match known {
                Some(known) => place = place.max(known),
                None => lacking.push(at),
            }
        }
        let is_whole = lacking.len() == print.parts.len();
        if lacking.is_empty() {
            return SequenceRelation::Had(place);
        }
        SequenceRelation::Lacking((!is_whole).then_some(lacking))
    }

    /// Finds the index in the sequence before which each message of a recording belongs.
    fn slots(
        &self,
        prints: &[MessageFingerprint],
        relations: &[SequenceRelation],
        is_same_format: bool,
    ) -> Vec<usize> {
        let mut next = vec![None; prints.len() + 1];
        for at in (0..prints.len()).rev() {
            next[at] = match relations[at] {
                SequenceRelation::Had(Some(place)) => Some(place),
                _ => next[at + 1],
            };
        }
        let (mut slot, mut is_added) = (0, false);
        let mut slots = Vec::with_capacity(prints.len());
        for (at, (print, relation)) in prints.iter().zip(relations).enumerate() {
            match relation {
                SequenceRelation::Had(place) => {
                    slot = place.map_or(slot, |place| slot.max(place + 1));
                    is_added &= place.is_none();
                }
                SequenceRelation::Lacking(_) => {
                    let end = next[at].filter(|place| *place >= slot).unwrap_or(self.items.len());
                    let passes = |item: &SequenceItem| match (is_same_format, print.voice) {
                        (true, _) => is_before(item.print.at, print.at),
                        (false, MessageRole::Prompt) => {
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

    /// Inserts items before the given indexes, keeping their own order.
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

    /// Builds a recording of prompts (`you: …`) and replies, one minute apart.
    fn recording(name: &str, lines: &[&str], first_minute: i64) -> Vec<MessageFingerprint> {
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
                MessageFingerprint::new(at as u64, hash, &message)
            })
            .collect()
    }

    /// Merges a log (`a`) with a digest (`b`) that begins `later` minutes later. Returns the order
    /// of their positions.
    fn combined(log: &[&str], digest: &[&str], later: i64) -> String {
        let mut sequence = Sequence::new(1, recording("log", log, 100));
        sequence.add(2, recording("digest", digest, 100 + later), false);
        let name = |item: &SequenceItem| {
            format!("{}{}", if item.recording == 1 { 'a' } else { 'b' }, item.position())
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
