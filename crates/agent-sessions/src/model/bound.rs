//! Limits the number of blocks of a message. The largest message of the histories this was measured
//! on has 17; a file made to fill the memory has millions. Blocks beyond the limit are joined:
//! texts into one text, reasoning into one, everything else into one block as recorded. So
//! everything is kept and searchable, and no list of blocks exceeds the limit.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::{Block, Json, Message};

/// Maximum number of blocks in a message, not counting the joined ones.
pub const MAX_BLOCKS: usize = 8192;

/// The blocks of a message beyond [`MAX_BLOCKS`], joined.
#[derive(Default)]
pub struct JoinedBlocks {
    count: u64,
    text: String,
    thinking: String,
    /// Blocks that are not text, as JSON separated by commas.
    other: String,
    /// Texts that are too large to be copied.
    large: Vec<Block>,
}

impl JoinedBlocks {
    /// Adds a block.
    pub fn push_joined(&mut self, block: Block) {
        self.count += 1;
        match block {
            Block::Text(text) if text.len() > LARGE_TEXT && self.large.len() < MAX_LARGE => {
                self.large.push(Block::Text(text));
            }
            Block::Text(text) => add_line(&mut self.text, &text),
            Block::Thinking(text) => add_line(&mut self.thinking, &text),
            other => {
                if !self.other.is_empty() {
                    self.other.push(',');
                }
                let json = serde_json::to_string(&other).expect("blocks always serialise");
                self.other.push_str(&json);
            }
        }
    }

    /// Returns the number of added blocks.
    pub fn added_count(&self) -> u64 {
        self.count
    }

    /// Returns the added blocks as a few joined ones, the first of which states their number.
    pub fn into_blocks(self) -> Vec<Block> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut blocks = vec![Block::Text(format!("[{} more blocks, joined]", self.count))];
        if !self.text.is_empty() {
            blocks.push(Block::Text(self.text));
        }
        if !self.thinking.is_empty() {
            blocks.push(Block::Thinking(self.thinking));
        }
        if !self.other.is_empty() {
            let json = format!("{{\"blocks\":[{}]}}", self.other);
            blocks.extend(Json::from_text(json).map(Block::Other));
        }
        blocks.extend(self.large);
        blocks
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

impl Message {
    /// Joins the blocks beyond the limit. Returns their number.
    pub fn join_surplus(&mut self) -> u64 {
        // A message that was joined before has a few blocks more than the limit.
        if self.blocks.len() <= MAX_BLOCKS + JOINED {
            return 0;
        }
        let mut joined = JoinedBlocks::default();
        self.blocks.drain(MAX_BLOCKS..).for_each(|block| joined.push_joined(block));
        self.blocks.shrink_to_fit();
        let count = joined.added_count();
        self.blocks.extend(joined.into_blocks());
        count
    }
}

/// Size in bytes above which a text stays a block of its own, up to `MAX_LARGE_TEXTS` of them.
const LARGE_TEXT: usize = 1 << 20;
const MAX_LARGE: usize = 64;

/// Maximum number of blocks that represent the joined ones.
const JOINED: usize = 4 + MAX_LARGE;

/// Deserialises the blocks of a stored message, for `serde(deserialize_with)`. Journals may hold
/// messages that were stored before the limit existed.
pub(super) fn deserialize_blocks<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Vec<Block>, D::Error> {
    struct BlocksVisitor;

    impl<'de> Visitor<'de> for BlocksVisitor {
        type Value = Vec<Block>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of blocks")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut blocks = Vec::new();
            let mut joined = JoinedBlocks::default();
            while let Some(block) = items.next_element::<Block>()? {
                if joined.added_count() == 0 && blocks.len() < MAX_BLOCKS + JOINED {
                    blocks.push(block);
                    continue;
                }
                blocks.drain(MAX_BLOCKS..).for_each(|block| joined.push_joined(block));
                joined.push_joined(block);
            }
            blocks.extend(joined.into_blocks());
            Ok(blocks)
        }
    }

    input.deserialize_seq(BlocksVisitor)
}

/// Deserialises the first blocks of a stored message as any type, for `serde(deserialize_with)`.
pub fn first_blocks<'de, D, T>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    input.deserialize_seq(FirstBlocks(PhantomData))
}

/// A visitor that returns as many blocks as a message may have.
struct FirstBlocks<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FirstBlocks<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        while blocks.len() < MAX_BLOCKS + JOINED {
            match items.next_element()? {
                Some(block) => blocks.push(block),
                None => return Ok(blocks),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(texts: usize) -> Message {
        let text = |at| Block::Text(format!("word{at}"));
        Message { blocks: (0..texts).map(text).collect(), ..Message::default() }
    }

    #[test]
    fn a_message_within_the_bound_stays_as_it_is() {
        for count in [0, 1, MAX_BLOCKS, MAX_BLOCKS + JOINED] {
            let mut bounded = message(count);
            assert_eq!(bounded.join_surplus(), 0);
            assert_eq!(bounded, message(count));
        }
    }

    #[test]
    fn what_is_beyond_the_bound_is_joined_and_nothing_is_lost() {
        let mut bounded = message(MAX_BLOCKS + 100);
        let input = Json::from_value(&serde_json::json!({ "path": "surplus.rs" }));
        bounded.blocks.push(Block::ToolCall { id: "1".into(), name: "edit".into(), input });
        bounded.blocks.push(Block::Thinking("hm".into()));
        let whole = bounded.clone();
        assert_eq!(bounded.join_surplus(), 102);
        assert_eq!(bounded.blocks.len(), MAX_BLOCKS + 4);
        let all = serde_json::to_string(&bounded).unwrap();
        for word in ["word0", &format!("word{}", MAX_BLOCKS + 99), "surplus.rs", "[102 more blocks"]
        {
            assert!(all.contains(word), "{word}");
        }
        // Joining again, or reading a message that an older version stored, has the same result.
        assert_eq!(bounded.clone().join_surplus(), 0);
        let stored = serde_json::to_string(&whole).unwrap();
        let read: Message = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, bounded);
        assert_eq!(serde_json::from_str::<Message>(&all).unwrap(), bounded);
    }
}
