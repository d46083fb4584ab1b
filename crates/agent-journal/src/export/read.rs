//! Reads exported documents, one after another, message by message. Only one message is in memory
//! at a time, however large the session is.

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
use super::from_document::block_from_document as told_block;
use super::schema::{DocumentBlock, DocumentMessage, DocumentSession, Head};
use crate::error::Error;
use crate::model::{self, JoinedBlocks, Json, MAX_BLOCKS};

/// The largest accepted message, in bytes. It protects against files that are made to exhaust
/// memory.
const LARGEST: u64 = 256 << 20;

/// The largest accepted block, and the largest sum of the blocks of one message, in bytes. It is
/// more than the longest line that is read from an agent's own file.
const LARGEST_BLOCK: u64 = 72 << 20;

/// The supported major version of the schema. Fields that a later minor version adds are kept.
const MAJOR: &str = "1";

/// A part of a document.
pub(crate) enum DocumentPart {
    /// Everything before the messages.
    Head(Box<Head>),
    /// The next message.
    Message(Box<DocumentMessage>),
    /// The end of the document.
    End,
}

/// The reason why reading stopped.
pub(crate) enum Trouble {
    /// The file is not a valid export.
    File(String),
    /// The callback failed.
    Taker(Error),
}

/// The callback that gets the parts of the documents.
pub(crate) type PartCallback<'t> = dyn FnMut(DocumentPart) -> Result<(), Error> + 't;

/// The result of the first pass over a document.
pub(crate) struct Surveyed {
    /// The number of messages.
    pub(crate) messages: u64,
    /// The head, if it comes after the messages.
    late: Option<Box<Head>>,
    /// Fields of the document that this version does not define.
    additional: BTreeMap<String, Json>,
}

/// Makes the first pass over a file: checks that it is an export, and counts its messages.
pub(crate) fn survey_documents(input: Box<dyn Read>) -> Result<Vec<Surveyed>, String> {
    let mut found = Vec::new();
    walk_documents(input, &mut |left, input| {
        let mut messages = 0;
        let does = Does::Count(&mut messages);
        let seed = DocumentSeed { left, late: None, additional: BTreeMap::new(), does };
        let Rest { late, additional } = seed.deserialize(input)?;
        found.push(Surveyed { messages, late, additional });
        Ok(())
    })?;
    if found.is_empty() { Err("the file contains no session".to_owned()) } else { Ok(found) }
}

/// Makes the second pass over a file: calls the callback with the parts of every document.
pub(crate) fn read_documents(
    input: Box<dyn Read>,
    survey: Vec<Surveyed>,
    on_part: &mut PartCallback<'_>,
) -> Result<(), Trouble> {
    let mut failure = None;
    let mut surveyed = survey.into_iter();
    let walked = walk_documents(input, &mut |left, input| {
        let (late, additional) =
            surveyed.next().map(|one| (one.late, one.additional)).unwrap_or_default();
        let does = Does::Emit(on_part, &mut failure);
        DocumentSeed { left, late, additional, does }.deserialize(input).map(drop)
    });
    match (failure, walked) {
        (Some(error), _) => Err(Trouble::Taker(error)),
        (None, Err(what)) => Err(Trouble::File(what)),
        (None, Ok(())) => Ok(()),
    }
}

type JsonInput = serde_json::Deserializer<IoRead<BufReader<LimitedInput>>>;

/// Calls `read` at the beginning of each document. An error names the number of the document.
fn walk_documents(
    input: Box<dyn Read>,
    read: &mut dyn FnMut(&Cell<u64>, &mut JsonInput) -> serde_json::Result<()>,
) -> Result<(), String> {
    let left = Rc::new(Cell::new(LARGEST));
    let limited = LimitedInput::new(input, left.clone());
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(limited));
    for number in 1_u64.. {
        // Only white space may follow the last document.
        if input.end().is_ok() {
            break;
        }
        left.set(LARGEST);
        read(&left, &mut input).map_err(|error| describe_parse_error(number, &error))?;
    }
    Ok(())
}

/// Describes in one line why a document cannot be read.
fn describe_parse_error(number: u64, error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    match error.classify() {
        Category::Eof => format!("the file ends in the middle of session {number}"),
        Category::Io => error.to_string(),
        Category::Syntax if number == 1 => format!("not a JSON or ndjson export: {error}"),
        Category::Syntax | Category::Data => format!("session {number}: {error}"),
    }
}

/// A reader that fails once the remaining bytes of a message or conversation are used up.
pub(crate) struct LimitedInput {
    input: Box<dyn Read>,
    left: Rc<Cell<u64>>,
}

impl LimitedInput {
    pub(crate) fn new(input: Box<dyn Read>, left: Rc<Cell<u64>>) -> Self {
        Self { input, left }
    }
}

impl Read for LimitedInput {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(bytes)?;
        let left = self.left.get().checked_sub(read as u64);
        let too_much = || io::Error::other("a message or a part of it is too large");
        self.left.set(left.ok_or_else(too_much)?);
        Ok(read)
    }
}

/// The pass over a document: the first one counts messages, the second one emits the parts.
enum Does<'d, 't> {
    Count(&'d mut u64),
    Emit(&'d mut PartCallback<'t>, &'d mut Option<Error>),
}

impl Does<'_, '_> {
    fn pass_part<E: de::Error>(&mut self, part: DocumentPart) -> Result<(), E> {
        let Self::Emit(on_part, failure) = self else { return Ok(()) };
        on_part(part).map_err(|error| {
            **failure = Some(error);
            E::custom("stopped")
        })
    }
}

/// The facts about a document that are only known at its end.
struct Rest {
    /// The head, if it came after the messages.
    late: Option<Box<Head>>,
    /// Fields of the document that this version does not define.
    additional: BTreeMap<String, Json>,
}

/// Deserializes a document.
struct DocumentSeed<'d, 't> {
    left: &'d Cell<u64>,
    late: Option<Box<Head>>,
    additional: BTreeMap<String, Json>,
    does: Does<'d, 't>,
}

/// The fields of a head, as far as they have been read.
#[derive(Default)]
struct HeadParts {
    schema_version: Option<String>,
    export_timestamp: Option<crate::model::Timestamp>,
    agent: Option<String>,
    session: Option<DocumentSession>,
}

impl HeadParts {
    /// Takes the head, once all its fields have been read.
    fn take_complete_head(&mut self) -> Option<Box<Head>> {
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

    fn missing_field(&self) -> &'static str {
        match self {
            Self { schema_version: None, .. } => "schema_version",
            Self { export_timestamp: None, .. } => "export_timestamp",
            Self { agent: None, .. } => "agent",
            _ => "session",
        }
    }
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_, '_> {
    type Value = Rest;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_, '_> {
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
                    parts.schema_version =
                        Some(check_schema_version(&map.next_value::<String>()?)?);
                }
                "export_timestamp" => parts.export_timestamp = Some(map.next_value()?),
                "agent" => parts.agent = Some(map.next_value()?),
                "session" => {
                    let raw = map.next_value::<Box<RawValue>>()?;
                    let mut session = parse_part::<DocumentSession, A::Error>(&raw)?;
                    keep_of_session(&raw, &mut session.extensions);
                    parts.session = Some(session);
                }
                "messages" if has_messages => return Err(de::Error::duplicate_field("messages")),
                "messages" => {
                    has_messages = true;
                    if let Some(mut head) = self.late.take().or_else(|| parts.take_complete_head())
                    {
                        has_head = true;
                        let additional = std::mem::take(&mut self.additional);
                        keep_of_document(&additional, &mut head.session.extensions);
                        self.does.pass_part(DocumentPart::Head(head))?;
                    }
                    map.next_value_seed(MessageListSeed { left: self.left, does: &mut self.does })?;
                }
                // The graph is computed again.
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
        self.does.pass_part(DocumentPart::End)?;
        let late = match parts.take_complete_head() {
            _ if has_head => None,
            None => return Err(de::Error::missing_field(parts.missing_field())),
            late => late,
        };
        Ok(Rest { late, additional: self.additional })
    }
}

/// Parses a part of a document.
fn parse_part<T: DeserializeOwned, E: de::Error>(raw: &RawValue) -> Result<T, E> {
    serde_json::from_str(raw.get()).map_err(E::custom)
}

/// Rejects documents with another major version of the schema.
fn check_schema_version<E: de::Error>(text: &str) -> Result<String, E> {
    let major = text.split('.').next().unwrap_or_default();
    match major.parse::<u64>() {
        Ok(_) if major == MAJOR => Ok(text.to_owned()),
        Ok(_) => Err(E::custom(format_args!(
            "schema version {text} is not supported; this version supports {MAJOR}"
        ))),
        Err(_) => Err(E::custom(format_args!("`{text}` is not a schema version"))),
    }
}

struct MessageListSeed<'m, 'd, 't> {
    left: &'m Cell<u64>,
    does: &'m mut Does<'d, 't>,
}

impl<'de> DeserializeSeed<'de> for MessageListSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MessageListSeed<'_, '_, '_> {
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
            self.does.pass_part(DocumentPart::Message(message))?;
        }
    }
}

/// Deserializes a message. Its blocks are read one by one, so that a list of millions is never in
/// memory.
struct OneMessage<'m> {
    left: &'m Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for OneMessage<'_> {
    type Value = Box<DocumentMessage>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneMessage<'_> {
    type Value = Box<DocumentMessage>;

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
                content = Some(map.next_value_seed(BlockListSeed { left: self.left })?);
                continue;
            }
            let value = map.next_value::<Box<RawValue>>()?;
            fields.push(',');
            fields.push_str(Json::from_value(&key).as_json_str());
            fields.push(':');
            fields.push_str(value.get());
        }
        fields.push('}');
        let content = content.ok_or_else(|| de::Error::missing_field("content"))?;
        let raw = RawValue::from_string(fields).map_err(de::Error::custom)?;
        let mut message = parse_part::<DocumentMessage, A::Error>(&raw)?;
        keep_of_message(&raw, content.additional, &mut message.extensions);
        message.content = content.blocks;
        Ok(Box::new(message))
    }
}

/// The blocks of a message, and their fields that this version does not define.
struct BlocksRead {
    blocks: Vec<DocumentBlock>,
    additional: BlockFields,
}

struct BlockListSeed<'m> {
    left: &'m Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for BlockListSeed<'_> {
    type Value = BlocksRead;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for BlockListSeed<'_> {
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
            // A single block must not be larger than a message of an agent's own file.
            let of_message = self.left.get();
            self.left.set(of_message.min(LARGEST_BLOCK));
            let Some(raw) = items.next_element::<Box<RawValue>>()? else {
                self.left.set(of_message);
                break;
            };
            let read = of_message.min(LARGEST_BLOCK) - self.left.get();
            self.left.set(of_message - read);
            let block = parse_part::<DocumentBlock, A::Error>(&raw)?;
            let bytes = match &block {
                DocumentBlock::Text { text } | DocumentBlock::Thinking { thinking: text } => {
                    text.len() + 1
                }
                _ => raw.get().len(),
            };
            if kept_bytes + bytes as u64 > LARGEST_BLOCK {
                left_out += 1;
                continue;
            }
            kept_bytes += bytes as u64;
            if blocks.len() < MAX_BLOCKS {
                additional.keep_block_fields(blocks.len(), &raw);
                blocks.push(block);
            } else {
                joined.push_joined(told_block(block));
            }
        }
        blocks.extend(joined.into_blocks().into_iter().filter_map(joined_block));
        if left_out > 0 {
            let text = format!("[{left_out} more blocks left out: the message is too large]");
            blocks.push(DocumentBlock::Text { text });
        }
        Ok(BlocksRead { blocks, additional })
    }
}

/// Converts a joined block to a block of the document.
fn joined_block(block: model::Block) -> Option<DocumentBlock> {
    match block {
        model::Block::Text(text) => Some(DocumentBlock::Text { text }),
        model::Block::Thinking(thinking) => Some(DocumentBlock::Thinking { thinking }),
        model::Block::Other(raw) => Some(DocumentBlock::Other { raw }),
        // Joining creates no other blocks.
        _ => None,
    }
}
