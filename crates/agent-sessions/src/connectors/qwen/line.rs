//! One line of a transcript: typed fields that are used, the others as written.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, FromOddValue, lenient, lossless};
use crate::model::{Extensions, Json, Message, Timestamp};

lossless! {
    /// One line of a transcript.
    struct QwenLine<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "subtype" subtype: Option<BorrowedText<'a>>,
        "uuid" uuid: Option<BorrowedText<'a>>,
        "parentUuid" parent: Option<BorrowedText<'a>>,
        "sessionId" session: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "version" version: Option<BorrowedText<'a>>,
        "gitBranch" branch: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "message" message: Option<QwenContent<'a>>,
        "usageMetadata" usage: Option<&'a RawValue>,
        "toolCallResult" result: Option<&'a RawValue>,
        "systemPayload" payload: Option<&'a RawValue>,
        "provenance" provenance: Option<BorrowedText<'a>>,
        "agentId" agent: Option<BorrowedText<'a>>,
        "agentName" agent_name: Option<BorrowedText<'a>>,
        "isSidechain" is_sidechain: Option<bool>,
    }
}

lenient! {
    /// The API content inside a record.
    struct QwenContent<'a> {
        "parts" parts: Option<&'a RawValue>,
    }
}

impl<'a> QwenLine<'a> {
    pub(super) fn line_time(&self) -> Option<Timestamp> {
        Timestamp::parse_iso_time(self.timestamp.as_ref()?.as_borrowed_str())
    }

    /// Takes the parts of the message. A message that is not an object is returned as the parts.
    pub(super) fn take_parts(&mut self) -> Option<&'a RawValue> {
        let parts = self.message.take().and_then(|content| content.parts);
        parts.or_else(|| json::take_field(&mut self.rest, "message"))
    }

    pub(super) fn subtype_name(&self) -> &str {
        self.subtype.as_ref().map_or("", BorrowedText::as_borrowed_str)
    }

    /// Parses the payload as the requested type.
    pub(super) fn parse_payload<'b, T>(&'b self) -> Option<T>
    where
        T: Deserialize<'b> + FromOddValue<'b>,
    {
        json::parse_json(self.payload?.get())
    }

    /// Converts the record into a message without blocks. Unknown fields go to its extensions.
    pub(super) fn message_from_record(self) -> Message {
        let some = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        let at = self.line_time();
        let mut extensions = Extensions::new();
        json::keep_non_empty_fields(self.rest, &mut extensions);
        if let Some(subtype) = some(self.subtype) {
            extensions.insert("subtype".to_owned(), Json::from_value(&subtype));
        }
        // These values only repeat the record's type.
        let repeated = ["real_user", "assistant_output", "tool_result"];
        if let Some(source) = some(self.provenance).filter(|one| !repeated.contains(&one.as_str()))
        {
            extensions.insert("provenance".to_owned(), Json::from_value(&source));
        }
        Message {
            uuid: some(self.uuid),
            parent: some(self.parent),
            at,
            model: some(self.model),
            cwd: some(self.cwd),
            branch: some(self.branch),
            agent_version: some(self.version),
            extensions,
            ..Message::default()
        }
    }
}
