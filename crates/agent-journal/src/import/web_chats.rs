//! Reads exports of web chats, one conversation after another: only one is in memory at a time.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::{WEB_CHATS, WebChat, read_web_chat};
use crate::error::Error;
use crate::export::{LimitedInput, Trouble};

/// The largest accepted conversation, in bytes. It protects against files that are made to exhaust
/// memory; attached files are not part of a conversation.
const LARGEST_CONVERSATION: u64 = 64 << 20;

/// The callback that gets the conversations.
type ChatCallback<'t> = dyn FnMut(WebChat) -> Result<(), Error> + 't;

/// Returns whether a file is a list, as exports of web chats are, and not a document.
pub(super) fn is_chat_list(mut input: Box<dyn Read>) -> io::Result<bool> {
    let mut byte = [0];
    while input.read(&mut byte)? > 0 {
        if !byte[0].is_ascii_whitespace() {
            return Ok(byte[0] == b'[');
        }
    }
    Ok(false)
}

/// Calls the callback with every conversation of the lists in a file. Returns the number of
/// elements that are no conversation.
pub(super) fn read_web_chats(
    input: Box<dyn Read>,
    take: &mut ChatCallback<'_>,
) -> Result<u64, Trouble> {
    let left = Rc::new(Cell::new(LARGEST_CONVERSATION));
    let limited = LimitedInput::new(input, left.clone());
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(limited));
    let mut reader =
        ChatListReader { left: &left, take, failure: None, conversations: 0, unread: 0 };
    let mut read = Ok(());
    while read.is_ok() && input.end().is_err() {
        left.set(LARGEST_CONVERSATION);
        read = ChatListSeed { reader: &mut reader }.deserialize(&mut input);
    }
    let ChatListReader { failure, conversations, unread, .. } = reader;
    match (failure, read) {
        (Some(error), _) => Err(Trouble::Taker(error)),
        (None, Err(error)) => {
            let number = conversations + unread + 1;
            Err(Trouble::File(format!("conversation {number}: {error}")))
        }
        (None, Ok(())) if conversations > 0 => Ok(unread),
        (None, Ok(())) if unread > 0 => Err(Trouble::File(format!("not an export of {WEB_CHATS}"))),
        (None, Ok(())) => Err(Trouble::File("the file contains no session".to_owned())),
    }
}

/// The state of a pass over a file.
struct ChatListReader<'r, 't> {
    left: &'r Cell<u64>,
    take: &'r mut ChatCallback<'t>,
    failure: Option<Error>,
    conversations: u64,
    unread: u64,
}

struct ChatListSeed<'s, 'r, 't> {
    reader: &'s mut ChatListReader<'r, 't>,
}

impl<'de> DeserializeSeed<'de> for ChatListSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ChatListSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let reader = self.reader;
        loop {
            reader.left.set(LARGEST_CONVERSATION);
            let Some(raw) = items.next_element::<Box<RawValue>>()? else { return Ok(()) };
            let Some(chat) = read_web_chat(raw.get()) else {
                reader.unread += 1;
                continue;
            };
            drop(raw);
            reader.conversations += 1;
            (reader.take)(chat).map_err(|error| {
                reader.failure = Some(error);
                de::Error::custom("stopped")
            })?;
        }
    }
}
