//! The shape of one record, with the fields that are used and the rest as written.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, FromOddValue, Text, lenient, lossless};
use crate::model::{Extensions, Json, Message, Timestamp};

lossless! {
    /// One line of a transcript.
    struct Line<'a> {
        "type" kind: Option<Text<'a>>,
        "subtype" subtype: Option<Text<'a>>,
        "uuid" uuid: Option<Text<'a>>,
        "parentUuid" parent: Option<Text<'a>>,
        "sessionId" session: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "cwd" cwd: Option<Text<'a>>,
        "version" version: Option<Text<'a>>,
        "gitBranch" branch: Option<Text<'a>>,
        "model" model: Option<Text<'a>>,
        "message" message: Option<Content<'a>>,
        "usageMetadata" usage: Option<&'a RawValue>,
        "toolCallResult" result: Option<&'a RawValue>,
        "systemPayload" payload: Option<&'a RawValue>,
        "provenance" provenance: Option<Text<'a>>,
        "agentId" agent: Option<Text<'a>>,
        "agentName" agent_name: Option<Text<'a>>,
        "isSidechain" is_sidechain: Option<bool>,
    }
}

lenient! {
    /// The API's content inside a record.
    struct Content<'a> {
        "parts" parts: Option<&'a RawValue>,
    }
}

impl<'a> Line<'a> {
    pub(super) fn at(&self) -> Option<Timestamp> {
        Timestamp::parse(self.timestamp.as_ref()?.as_str())
    }

    /// Takes what was said; a message that is not an object is read as its parts.
    pub(super) fn take_parts(&mut self) -> Option<&'a RawValue> {
        let parts = self.message.take().and_then(|content| content.parts);
        parts.or_else(|| json::take(&mut self.rest, "message"))
    }

    pub(super) fn subtype(&self) -> &str {
        self.subtype.as_ref().map_or("", Text::as_str)
    }

    /// Reads the payload as any type that fits it.
    pub(super) fn payload<'b, T>(&'b self) -> Option<T>
    where
        T: Deserialize<'b> + FromOddValue<'b>,
    {
        json::parse(self.payload?.get())
    }

    /// Makes a message of the record's envelope; what it holds beyond the model is kept.
    pub(super) fn envelope(self) -> Message {
        let some =
            |text: Option<Text<'_>>| text.map(Text::into_owned).filter(|text| !text.is_empty());
        let at = self.at();
        let mut extensions = Extensions::new();
        json::keep(self.rest, &mut extensions);
        if let Some(subtype) = some(self.subtype) {
            extensions.insert("subtype".to_owned(), Json::from_value(&subtype));
        }
        // Mostly it says what the type says.
        let told = ["real_user", "assistant_output", "tool_result"];
        if let Some(source) = some(self.provenance).filter(|one| !told.contains(&one.as_str())) {
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
