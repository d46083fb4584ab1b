//! Chunks: sequences of messages, packed for the store and unpacked again.

use std::cell::RefCell;
use std::sync::Arc;

use memchr::memchr;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::compression::{ChunkCompressor, Dictionary, pack_facts, unpack_facts};

use crate::model::{Block, Message, MessageFacts, Origin, SessionId, Timestamp, Usage};

/// Size at which a chunk is packed, in uncompressed bytes.
pub(crate) const FULL_CHUNK_BYTES: u64 = 64 << 10;

/// Maximum capacity of the buffer that a thread keeps, in bytes.
const MAX_SCRATCH_BYTES: usize = 1 << 20;

thread_local! {
    /// Buffer for serializing the next message.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Collects the messages of a chunk.
#[derive(Default)]
pub(crate) struct ChunkBuilder {
    first: u64,
    lines: Vec<u8>,
    hashes: Vec<u64>,
    uuids: Vec<u8>,
    anchors: Vec<Anchor>,
    facts: MessageFacts,
    usage: Vec<UsageRow>,
    images: Vec<ImageRow>,
}

/// A packed chunk of messages, ready to be stored.
pub(crate) struct Chunk {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) hashes: Vec<u8>,
    pub(crate) uuids: Vec<u8>,
    /// Messages by which copies of the session are found.
    pub(super) anchors: Vec<Anchor>,
    pub(crate) facts: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The dictionary that is needed to decompress the body.
    pub(super) dictionary: Option<Arc<Dictionary>>,
    pub(crate) usage: Vec<UsageRow>,
    pub(crate) images: Vec<ImageRow>,
}

impl Chunk {
    /// Returns the size in memory, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let pictures: usize = self.images.iter().map(|image| image.data.len()).sum();
        (self.body.len() + self.hashes.len() + self.facts.len() + pictures) as u64
    }
}

/// A message that also occurs in copies of the session.
pub(super) struct Anchor {
    /// Hash of the message's uuid.
    pub(super) uuid: [u8; 8],
    pub(super) position: u64,
}

/// A model call, ready to be stored.
pub(crate) struct UsageRow {
    pub(crate) identity: [u8; 16],
    pub(crate) position: u64,
    pub(crate) at: Option<i64>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Usage,
}

impl UsageRow {
    /// Prepares a call for storing: with the model name used for pricing, and without impossible
    /// figures.
    pub(super) fn new(
        identity: [u8; 16],
        position: u64,
        at: Option<Timestamp>,
        model: Option<String>,
        usage: Usage,
    ) -> Self {
        let model = model.map(|model| usage.priced_as(model));
        let at = at.map(Timestamp::as_millis);
        Self { identity, position, at, model, usage: usage.within_reason() }
    }
}

/// An image, ready to be stored.
pub(crate) struct ImageRow {
    pub(crate) hash: String,
    pub(crate) media_type: Option<String>,
    pub(crate) data: Vec<u8>,
}

/// A message as serialized for the store.
pub(crate) struct SerializedMessage {
    line: Vec<u8>,
    pub(crate) hash: u64,
}

impl SerializedMessage {
    pub(crate) fn new(message: &Message) -> Self {
        // Reusing the buffer avoids reallocating while the line grows.
        let mut line = SCRATCH.take();
        line.clear();
        // The buffer of a large message would take up to twice the memory if it grew by doubling.
        let text = text_bytes(message);
        if text > MAX_SCRATCH_BYTES {
            line.reserve(text + text / 8);
        }
        serde_json::to_writer(&mut line, message).expect("messages always serialise");
        Self { hash: xxh3_64(&line), line }
    }

    /// Releases the memory of a large message and returns whether it did. Afterwards, only the
    /// hash is valid.
    pub(crate) fn release_large_line(&mut self) -> bool {
        let is_large = self.line.len() > MAX_SCRATCH_BYTES;
        if is_large {
            self.line = Vec::new();
        }
        is_large
    }

    /// Returns the size before compression, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.line.len() as u64
    }
}

/// Returns the size of the texts of a message, which is a lower bound of its size as JSON.
pub(crate) fn text_bytes(message: &Message) -> usize {
    let sizes = message.blocks.iter().map(|block| match block {
        Block::Text(text) | Block::Thinking(text) => text.len(),
        Block::ToolResult { output, .. } => output.len(),
        Block::ToolCall { input, .. } => input.as_json_str().len(),
        _ => 0,
    });
    sizes.sum()
}

impl Drop for SerializedMessage {
    fn drop(&mut self) {
        // Each thread keeps its buffer, but a large one is freed.
        if self.line.capacity() <= MAX_SCRATCH_BYTES {
            SCRATCH.set(std::mem::take(&mut self.line));
        }
    }
}

impl ChunkBuilder {
    /// Starts a chunk at a position.
    pub(crate) fn at(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Returns the position of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }

    /// Adds a message. `session` is part of the identity of a call that has none of its own.
    pub(crate) fn add(
        &mut self,
        session: &SessionId,
        message: &mut Message,
        packed: SerializedMessage,
    ) {
        self.add_recorded(session, message, packed, self.next());
    }

    /// Adds a message that has the position `recorded_position` in the recording it comes from.
    /// That position is part of the identity of a call that has none of its own.
    pub(crate) fn add_recorded(
        &mut self,
        session: &SessionId,
        message: &mut Message,
        mut packed: SerializedMessage,
        recorded_position: u64,
    ) {
        let position = self.next();
        self.add_anchor(message, position);
        self.facts.add_message_facts(message);
        for uuid in message.uuid.iter().chain(&message.part_uuids) {
            self.uuids.extend(xxh3_64(uuid.as_bytes()).to_le_bytes());
        }
        if let Some(usage) = message.usage.take() {
            let identity = identity(session, &usage, message, recorded_position);
            let model = message.model.take();
            self.usage.push(UsageRow::new(identity, position, message.at, model, usage));
        }
        for block in &mut message.blocks {
            if let Block::Image(image) = block
                && let (Some(hash), Some(data)) = (&image.hash, image.data.take())
            {
                let (hash, media_type) = (hash.clone(), image.media_type.clone());
                self.images.push(ImageRow { hash, media_type, data });
            }
        }
        if self.lines.is_empty() && packed.line.len() > MAX_SCRATCH_BYTES {
            // A large message is not copied.
            self.lines = std::mem::take(&mut packed.line);
        } else {
            self.lines.extend_from_slice(&packed.line);
        }
        self.lines.push(b'\n');
        self.hashes.push(packed.hash);
    }

    /// Adds an anchor if copies of the session would contain the message too: the first message,
    /// the first prompt, a summary.
    fn add_anchor(&mut self, message: &Message, position: u64) {
        let Some(uuid) = &message.uuid else { return };
        let is_first = self.first == 0 && self.uuids.is_empty();
        let is_prompt = message.origin.is_human_prompt() && !message.sidechain;
        let is_first_prompt = self.first == 0 && is_prompt && self.facts.prompts == 0;
        if is_first || is_first_prompt || message.origin == Origin::Summary {
            self.anchors.push(Anchor { uuid: xxh3_64(uuid.as_bytes()).to_le_bytes(), position });
        }
    }

    /// Discards the calls of the messages so far, because the journal has them already.
    pub(crate) fn forget_calls(&mut self) {
        self.usage.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() as u64 >= FULL_CHUNK_BYTES
    }

    /// Packs the chunk and starts the next one.
    pub(crate) fn pack(&mut self, packer: &ChunkCompressor) -> Chunk {
        let next = Self::at(self.next());
        let run = std::mem::replace(self, next);
        let facts = serde_json::to_vec(&run.facts).expect("facts always serialise");
        let (body, dictionary) = packer.pack(&run.lines);
        Chunk {
            first: run.first,
            count: run.hashes.len() as u64,
            bytes: run.lines.len() as u64,
            hashes: run.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect(),
            uuids: run.uuids,
            anchors: run.anchors,
            facts: pack_facts(&facts),
            body,
            dictionary,
            usage: run.usage,
            images: run.images,
        }
    }
}

/// Returns the identity by which a call is deduplicated: the agent's id of the call, else the uuid
/// or position of the message.
fn identity(session: &SessionId, usage: &Usage, message: &Message, position: u64) -> [u8; 16] {
    let text = match (&usage.identity, &message.uuid) {
        (Some(identity), _) => format!("{} {identity}", session.agent),
        (None, Some(uuid)) => format!("{} {uuid}", session.agent),
        (None, None) => format!("{session} {position}"),
    };
    xxh3_128(text.as_bytes()).to_le_bytes()
}

/// Splits the body of a chunk into lines.
pub(super) fn lines(mut run: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (line, rest) = run.split_at(memchr(b'\n', run)?);
        run = &rest[1..];
        Some(line)
    })
}

/// Decodes the facts of a chunk. Damaged facts give the default.
pub(crate) fn facts(packed: &[u8]) -> MessageFacts {
    unpack_facts(packed).and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_wherever_it_stands_in_a_body() {
        let mut builder = ChunkBuilder::at(5);
        let session = SessionId { agent: "x".into(), native: "1".into() };
        for length in [1, 40_000, 3, 90_000, 2] {
            let mut message =
                Message { blocks: vec![Block::Text("y".repeat(length))], ..Message::default() };
            let packed = SerializedMessage::new(&message);
            builder.add(&session, &mut message, packed);
        }
        assert!(builder.is_full());
        let chunk = builder.pack(&ChunkCompressor::new(None));
        assert_eq!((chunk.first, chunk.count, builder.next()), (5, 5, 10));
        let run = super::super::compression::unpack(&chunk.body, None).unwrap();
        for (at, length) in [1, 40_000, 3, 90_000, 2].into_iter().enumerate() {
            let line = lines(&run).nth(at).unwrap();
            let message: Message = serde_json::from_slice(line).unwrap();
            assert_eq!(message.joined_text().len(), length);
        }
        assert_eq!(lines(&run).nth(5), None);
    }
}
