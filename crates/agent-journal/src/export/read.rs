//! Reading documents back, one after another, message by message: however large a session is,
//! only one message of it is in memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::de::IoRead;
use serde_json::value::RawValue;

use super::additional::{BlockFields, keep_of_document, keep_of_message, keep_of_session};
use super::schema::{Block, Head, Message, Session};
use super::unshape::block as told_block;
use crate::error::Error;
use crate::model::{self, JoinedBlocks, Json, MAX_BLOCKS};

/// The largest message that is believed: whoever packs a larger one wants to fill a memory.
const LARGEST: u64 = 256 << 20;

/// The largest block that is believed, and as much as the blocks of one message may have together:
/// more than any line of an agent's own file that is read.
const LARGEST_BLOCK: u64 = 72 << 20;

/// The version of the schema that is understood. What a later minor version adds is kept.
const MAJOR: &str = "1";

/// A part of a document.
pub(crate) enum Part {
    /// What is known before the messages.
    Head(Box<Head>),
    /// The next message.
    Message(Box<Message>),
    /// The document is complete.
    End,
}

/// Why reading stopped.
pub(crate) enum Trouble {
    /// The file is not what it should be.
    File(String),
    /// Whoever was told failed.
    Taker(Error),
}

/// Is told the parts of the documents.
pub(crate) type Tell<'t> = dyn FnMut(Part) -> Result<(), Error> + 't;

/// What a first look told of a document.
pub(crate) struct Surveyed {
    /// How many messages it has.
    pub(crate) messages: u64,
    /// Its head, when that stands behind the messages.
    late: Option<Box<Head>>,
    /// Fields of the document that this version does not know.
    additional: BTreeMap<String, Json>,
}

/// Looks through a file: is it an export, and how much is in it?
pub(crate) fn survey(input: Box<dyn Read>) -> Result<Vec<Surveyed>, String> {
    let mut found = Vec::new();
    walk(input, &mut |left, input| {
        let mut messages = 0;
        let does = Does::Count(&mut messages);
        let seed = Document { left, late: None, additional: BTreeMap::new(), does };
        let Rest { late, additional } = seed.deserialize(input)?;
        found.push(Surveyed { messages, late, additional });
        Ok(())
    })?;
    if found.is_empty() { Err("there is no session in it".to_owned()) } else { Ok(found) }
}

/// Tells the parts of every document of a file that was looked through.
pub(crate) fn documents(
    input: Box<dyn Read>,
    survey: Vec<Surveyed>,
    tell: &mut Tell<'_>,
) -> Result<(), Trouble> {
    let mut failure = None;
    let mut surveyed = survey.into_iter();
    let walked = walk(input, &mut |left, input| {
        let (late, additional) =
            surveyed.next().map(|one| (one.late, one.additional)).unwrap_or_default();
        let does = Does::Tell(tell, &mut failure);
        Document { left, late, additional, does }.deserialize(input).map(drop)
    });
    match (failure, walked) {
        (Some(error), _) => Err(Trouble::Taker(error)),
        (None, Err(what)) => Err(Trouble::File(what)),
        (None, Ok(())) => Ok(()),
    }
}

type Input = serde_json::Deserializer<IoRead<BufReader<Limited>>>;

/// Calls `read` at the beginning of each document, and says where one is wrong.
fn walk(
    input: Box<dyn Read>,
    read: &mut dyn FnMut(&Cell<u64>, &mut Input) -> serde_json::Result<()>,
) -> Result<(), String> {
    let left = Rc::new(Cell::new(LARGEST));
    let limited = Limited { input, left: left.clone() };
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(limited));
    for number in 1_u64.. {
        // Nothing but white space may follow the last document.
        if input.end().is_ok() {
            break;
        }
        left.set(LARGEST);
        read(&left, &mut input).map_err(|error| reason(number, &error))?;
    }
    Ok(())
}

/// Says in one line why a document cannot be read.
fn reason(number: u64, error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    match error.classify() {
        Category::Eof => format!("it ends in the middle of session {number}"),
        Category::Io => error.to_string(),
        Category::Syntax if number == 1 => format!("it is no JSON: {error}"),
        Category::Syntax | Category::Data => format!("session {number}: {error}"),
    }
}

/// Reads no more than a message may have at a time.
struct Limited {
    input: Box<dyn Read>,
    left: Rc<Cell<u64>>,
}

impl Read for Limited {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(bytes)?;
        let left = self.left.get().checked_sub(read as u64);
        let too_much = || io::Error::other("a message or a part of it is too large");
        self.left.set(left.ok_or_else(too_much)?);
        Ok(read)
    }
}

/// What is done with a document.
enum Does<'d, 't> {
    Count(&'d mut u64),
    Tell(&'d mut Tell<'t>, &'d mut Option<Error>),
}

impl Does<'_, '_> {
    fn tell<E: de::Error>(&mut self, part: Part) -> Result<(), E> {
        let Self::Tell(tell, failure) = self else { return Ok(()) };
        tell(part).map_err(|error| {
            **failure = Some(error);
            E::custom("stopped")
        })
    }
}

/// What is known of a document only at its end.
struct Rest {
    /// Its head, when that came behind the messages.
    late: Option<Box<Head>>,
    /// Fields of the document that this version does not know.
    additional: BTreeMap<String, Json>,
}

/// Reads a document.
struct Document<'d, 't> {
    left: &'d Cell<u64>,
    late: Option<Box<Head>>,
    additional: BTreeMap<String, Json>,
    does: Does<'d, 't>,
}

/// The names that make a head.
#[derive(Default)]
struct HeadParts {
    schema_version: Option<String>,
    export_timestamp: Option<crate::model::Timestamp>,
    agent: Option<String>,
    session: Option<Session>,
}

impl HeadParts {
    /// Takes the parts, once they are all there.
    fn whole(&mut self) -> Option<Box<Head>> {
        let Self {
            schema_version: Some(schema_version),
            export_timestamp: Some(export_timestamp),
            agent: Some(agent),
            session: Some(_),
        } = self
        else {
            return None;
        };
        let (schema_version, agent) = (std::mem::take(schema_version), std::mem::take(agent));
        let (export_timestamp, session) = (*export_timestamp, self.session.take()?);
        Some(Box::new(Head { schema_version, export_timestamp, agent, session }))
    }

    fn missing(&self) -> &'static str {
        match self {
            Self { schema_version: None, .. } => "schema_version",
            Self { export_timestamp: None, .. } => "export_timestamp",
            Self { agent: None, .. } => "agent",
            _ => "session",
        }
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = Rest;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = Rest;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an exported session")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = HeadParts::default();
        let (mut has_head, mut has_messages) = (false, false);
        while let Some(key) = map.next_key::<String>()? {
            self.left.set(LARGEST);
            match key.as_str() {
                "schema_version" => {
                    parts.schema_version = Some(version(&map.next_value::<String>()?)?);
                }
                "export_timestamp" => parts.export_timestamp = Some(map.next_value()?),
                "agent" => parts.agent = Some(map.next_value()?),
                "session" => {
                    let raw = map.next_value::<Box<RawValue>>()?;
                    let mut session = parsed::<Session, A::Error>(&raw)?;
                    keep_of_session(&raw, &mut session.extensions);
                    parts.session = Some(session);
                }
                "messages" if has_messages => return Err(de::Error::duplicate_field("messages")),
                "messages" => {
                    has_messages = true;
                    if let Some(mut head) = self.late.take().or_else(|| parts.whole()) {
                        has_head = true;
                        let additional = std::mem::take(&mut self.additional);
                        keep_of_document(&additional, &mut head.session.extensions);
                        self.does.tell(Part::Head(head))?;
                    }
                    map.next_value_seed(Messages { left: self.left, does: &mut self.does })?;
                }
                // It is worked out again.
                "graph" => drop(map.next_value::<IgnoredAny>()?),
                _ if matches!(self.does, Does::Count(_)) => {
                    self.additional.insert(key, map.next_value()?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !has_messages {
            return Err(de::Error::missing_field("messages"));
        }
        self.does.tell(Part::End)?;
        let late = match parts.whole() {
            _ if has_head => None,
            None => return Err(de::Error::missing_field(parts.missing())),
            late => late,
        };
        Ok(Rest { late, additional: self.additional })
    }
}

/// Reads a part of a document from its text.
fn parsed<T: DeserializeOwned, E: de::Error>(raw: &RawValue) -> Result<T, E> {
    serde_json::from_str(raw.get()).map_err(E::custom)
}

/// Refuses what a later program wrote in a way that this one cannot know.
fn version<E: de::Error>(text: &str) -> Result<String, E> {
    let major = text.split('.').next().unwrap_or_default();
    match major.parse::<u64>() {
        Ok(_) if major == MAJOR => Ok(text.to_owned()),
        Ok(_) => {
            Err(E::custom(format_args!("its schema is version {text}, this program knows {MAJOR}")))
        }
        Err(_) => Err(E::custom(format_args!("`{text}` is no version of the schema"))),
    }
}

struct Messages<'m, 'd, 't> {
    left: &'m Cell<u64>,
    does: &'m mut Does<'d, 't>,
}

impl<'de> DeserializeSeed<'de> for Messages<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            self.left.set(LARGEST);
            if let Does::Count(counted) = self.does {
                match items.next_element::<IgnoredAny>()? {
                    Some(_) => **counted += 1,
                    None => return Ok(()),
                }
                continue;
            }
            let seed = OneMessage { left: self.left };
            let Some(message) = items.next_element_seed(seed)? else { return Ok(()) };
            self.does.tell(Part::Message(message))?;
        }
    }
}

/// Reads a message. Its blocks are read one by one: a list of millions is never in memory.
struct OneMessage<'m> {
    left: &'m Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for OneMessage<'_> {
    type Value = Box<Message>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneMessage<'_> {
    type Value = Box<Message>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // The message without its blocks, as it was written.
        let mut fields = "{\"content\":[]".to_owned();
        let mut content = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "content" {
                if content.is_some() {
                    return Err(de::Error::duplicate_field("content"));
                }
                content = Some(map.next_value_seed(Blocks { left: self.left })?);
                continue;
            }
            let value = map.next_value::<Box<RawValue>>()?;
            fields.push(',');
            fields.push_str(Json::from_value(&key).as_str());
            fields.push(':');
            fields.push_str(value.get());
        }
        fields.push('}');
        let content = content.ok_or_else(|| de::Error::missing_field("content"))?;
        let raw = RawValue::from_string(fields).map_err(de::Error::custom)?;
        let mut message = parsed::<Message, A::Error>(&raw)?;
        keep_of_message(&raw, content.additional, &mut message.extensions);
        message.content = content.blocks;
        Ok(Box::new(message))
    }
}

/// The blocks of a message, and their fields that this version does not know.
struct BlocksRead {
    blocks: Vec<Block>,
    additional: BlockFields,
}

struct Blocks<'m> {
    left: &'m Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for Blocks<'_> {
    type Value = BlocksRead;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Blocks<'_> {
    type Value = BlocksRead;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        let mut additional = BlockFields::default();
        let mut joined = JoinedBlocks::default();
        let (mut kept_bytes, mut left_out) = (0, 0_u64);
        loop {
            // A block alone may not be larger than a message of an agent's own file.
            let of_message = self.left.get();
            self.left.set(of_message.min(LARGEST_BLOCK));
            let Some(raw) = items.next_element::<Box<RawValue>>()? else {
                self.left.set(of_message);
                break;
            };
            let read = of_message.min(LARGEST_BLOCK) - self.left.get();
            self.left.set(of_message - read);
            let block = parsed::<Block, A::Error>(&raw)?;
            let bytes = match &block {
                Block::Text { text } | Block::Thinking { thinking: text } => text.len() + 1,
                _ => raw.get().len(),
            };
            if kept_bytes + bytes as u64 > LARGEST_BLOCK {
                left_out += 1;
                continue;
            }
            kept_bytes += bytes as u64;
            if blocks.len() < MAX_BLOCKS {
                additional.keep(blocks.len(), &raw);
                blocks.push(block);
            } else {
                joined.push(told_block(block));
            }
        }
        blocks.extend(joined.into_blocks().into_iter().filter_map(joined_block));
        if left_out > 0 {
            let text = format!("[{left_out} more blocks left out: the message is too large]");
            blocks.push(Block::Text { text });
        }
        Ok(BlocksRead { blocks, additional })
    }
}

/// A joined block, as a document has it.
fn joined_block(block: model::Block) -> Option<Block> {
    match block {
        model::Block::Text(text) => Some(Block::Text { text }),
        model::Block::Thinking(thinking) => Some(Block::Thinking { thinking }),
        model::Block::Other(raw) => Some(Block::Other { raw }),
        // Nothing else comes out of joining.
        _ => None,
    }
}
