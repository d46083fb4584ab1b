//! The shapes inside a request. Every field is read by itself: one of an unknown type is passed
//! over and costs its neighbours nothing.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::formats::json::{Text, lossless};
use crate::connectors::formats::vscode;
use crate::model::Timestamp;

lossless! {
    /// A prompt and its answer.
    struct Request<'a> {
        "requestId" id: Option<&'a RawValue>,
        "responseId" response_id: Option<&'a RawValue>,
        "timestamp" timestamp: Option<&'a RawValue>,
        "message" message: Option<&'a RawValue>,
        "variableData" variables: Option<&'a RawValue>,
        "agent" agent: Option<&'a RawValue>,
        "modelId" model: Option<&'a RawValue>,
        "response" response: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "modelState" state: Option<&'a RawValue>,
        "isCanceled" is_canceled: Option<&'a RawValue>,
        "isSystemInitiated" is_system: Option<&'a RawValue>,
        "confirmation" confirmation: Option<&'a RawValue>,
        "promptTokens" prompt_tokens: Option<&'a RawValue>,
        "completionTokens" completion_tokens: Option<&'a RawValue>,
        "followups" followups: Option<IgnoredAny>,
        "responseMarkdownInfo" markdown_info: Option<IgnoredAny>,
        "timeSpentWaiting" waiting: Option<IgnoredAny>,
    }
}

lossless! {
    /// How a request ended.
    struct Outcome<'a> {
        "metadata" metadata: Option<Metadata<'a>>,
        "errorDetails" error: Option<&'a RawValue>,
        "usage" usage: Option<&'a RawValue>,
    }
}

lossless! {
    /// What the extension remembers of a request. The prompt as rendered, the files it was
    /// rendered from and the code in the answer repeat what stands elsewhere.
    struct Metadata<'a> {
        "toolCallRounds" rounds: Option<&'a RawValue>,
        "toolCallResults" results: Option<&'a RawValue>,
        "promptTokens" prompt_tokens: Option<&'a RawValue>,
        "outputTokens" output_tokens: Option<&'a RawValue>,
        "resolvedModel" model: Option<&'a RawValue>,
        "renderedUserMessage" rendered_prompt: Option<IgnoredAny>,
        "renderedGlobalContext" rendered_context: Option<IgnoredAny>,
        "codeBlocks" code: Option<IgnoredAny>,
        "messages" messages: Option<IgnoredAny>,
        "edits" edits: Option<IgnoredAny>,
        "summaries" summaries: Option<IgnoredAny>,
        "sessionId" session: Option<IgnoredAny>,
        "cacheKey" cache_key: Option<IgnoredAny>,
    }
}

/// One part of an answer.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    pub(super) kind: Option<&'a RawValue>,
    pub(super) value: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) title: Option<&'a RawValue>,
    pub(super) message: Option<&'a RawValue>,
    pub(super) inline_reference: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) uri: Option<&'a RawValue>,
    pub(super) tool_id: Option<&'a RawValue>,
    pub(super) tool_call_id: Option<&'a RawValue>,
    pub(super) invocation_message: Option<&'a RawValue>,
    pub(super) past_tense_message: Option<&'a RawValue>,
    pub(super) is_complete: Option<&'a RawValue>,
    pub(super) is_confirmed: Option<&'a RawValue>,
    pub(super) tool_specific_data: Option<&'a RawValue>,
    pub(super) result_details: Option<&'a RawValue>,
    pub(super) sub_agent_invocation_id: Option<&'a RawValue>,
}

/// Something attached to a prompt.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Variable<'a> {
    pub(super) kind: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) value: Option<&'a RawValue>,
    #[serde(rename = "mimeType")]
    pub(super) mime_type: Option<&'a RawValue>,
}

/// Reads a value as a type that may or may not fit it.
pub(super) fn read<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Reads an array, element by element; anything else is an array of itself.
pub(super) fn list(raw: Option<&RawValue>) -> Vec<&RawValue> {
    match raw {
        Some(raw) if raw.get().starts_with('[') => read(Some(raw)).unwrap_or_default(),
        Some(raw) if raw.get() != "null" => vec![raw],
        _ => Vec::new(),
    }
}

/// Reads a string.
pub(super) fn word(raw: Option<&RawValue>) -> Option<String> {
    read::<Text<'_>>(raw).map(Text::into_owned).filter(|text| !text.is_empty())
}

/// Reads a text: a string, a list of strings, or an object that holds one as `value` or `text`.
pub(super) fn text(raw: Option<&RawValue>) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Holder<'a> {
        value: Option<&'a RawValue>,
        text: Option<&'a RawValue>,
    }
    let text = match raw?.get().as_bytes().first()? {
        b'"' => read::<Text<'_>>(raw)?.into_owned(),
        b'[' => read::<Vec<Text<'_>>>(raw)?.iter().map(Text::as_str).collect(),
        b'{' => {
            let holder: Holder<'_> = read(raw)?;
            word(holder.value).or_else(|| word(holder.text))?
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Reads milliseconds since 1970.
pub(super) fn instant(raw: Option<&RawValue>) -> Option<Timestamp> {
    Timestamp::from_millis(read::<f64>(raw)? as i64)
}

/// Reads a count.
pub(super) fn count(raw: Option<&RawValue>) -> Option<u64> {
    read::<f64>(raw).filter(|number| *number >= 0.0).map(|number| number as u64)
}

/// Whether a value is `true`.
pub(super) fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// How many references may stand inside each other: a location holds a URI.
const MAX_PLACE_DEPTH: usize = 8;

/// The file a reference names: a URI as text or in pieces, with or without a range in it.
pub(super) fn place(raw: Option<&RawValue>) -> Option<String> {
    place_within(raw, MAX_PLACE_DEPTH)
}

/// The same, in at most so many references around it.
fn place_within(raw: Option<&RawValue>, depth: usize) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Uri<'a> {
        fs_path: Option<&'a RawValue>,
        external: Option<&'a RawValue>,
        path: Option<&'a RawValue>,
        #[serde(rename = "uri")]
        target: Option<&'a RawValue>,
        location: Option<&'a RawValue>,
    }
    if let Some(uri) = word(raw) {
        return Some(vscode::path(&uri));
    }
    let depth = depth.checked_sub(1)?;
    let uri: Uri<'_> = read(raw)?;
    word(uri.fs_path)
        .or_else(|| word(uri.external).map(|uri| vscode::path(&uri)))
        .or_else(|| word(uri.path))
        .or_else(|| place_within(uri.target, depth))
        .or_else(|| place_within(uri.location, depth))
}

/// Bytes, however they were written: as an object of numbered bytes (what `JSON.stringify` makes
/// of them), as an array, or as Base64.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Bytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
                use base64::Engine;
                let text = text.rsplit_once(',').map_or(text, |(_, data)| data);
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                decoded.map(Bytes).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = items.next_element()? {
                    bytes.push(byte);
                }
                Ok(Bytes(bytes))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while entries.next_key::<IgnoredAny>()?.is_some() {
                    bytes.push(entries.next_value()?);
                }
                Ok(Bytes(bytes))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
