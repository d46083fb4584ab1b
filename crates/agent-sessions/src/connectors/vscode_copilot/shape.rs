//! The JSON types inside a request, and functions that parse their values. Every field is parsed
//! separately: a field of an unexpected type is skipped without affecting the others.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::formats::json::{BorrowedText, lossless};
use crate::connectors::formats::vscode;
use crate::model::Timestamp;

lossless! {
    /// A prompt and its response.
    struct ChatRequest<'a> {
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
    /// The result of a request.
    struct RequestResult<'a> {
        "metadata" metadata: Option<RequestMetadata<'a>>,
        "errorDetails" error: Option<&'a RawValue>,
        "usage" usage: Option<&'a RawValue>,
    }
}

lossless! {
    /// The extension's metadata of a request. The rendered prompt, the files it was rendered from
    /// and the code in the response repeat other fields and are ignored.
    struct RequestMetadata<'a> {
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

/// One part of a response.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub(super) struct ResponsePart<'a> {
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

/// An attachment of a prompt.
#[derive(serde::Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Variable<'a> {
    pub(super) kind: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) value: Option<&'a RawValue>,
    #[serde(rename = "mimeType")]
    pub(super) mime_type: Option<&'a RawValue>,
}

/// Parses a value as a type. Returns `None` when the type does not fit.
pub(super) fn parse_raw<'a, T: serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Returns the elements of an array. Any other value except null is a list of one.
pub(super) fn elements_or_single(raw: Option<&RawValue>) -> Vec<&RawValue> {
    match raw {
        Some(raw) if raw.get().starts_with('[') => parse_raw(Some(raw)).unwrap_or_default(),
        Some(raw) if raw.get() != "null" => vec![raw],
        _ => Vec::new(),
    }
}

/// Parses a string. Returns `None` when it is empty.
pub(super) fn parse_non_empty_string(raw: Option<&RawValue>) -> Option<String> {
    parse_raw::<BorrowedText<'_>>(raw).map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

/// Parses a text: a string, a list of strings, or an object with a string as `value` or `text`.
pub(super) fn parse_text_value(raw: Option<&RawValue>) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Holder<'a> {
        value: Option<&'a RawValue>,
        text: Option<&'a RawValue>,
    }
    let text = match raw?.get().as_bytes().first()? {
        b'"' => parse_raw::<BorrowedText<'_>>(raw)?.into_owned(),
        b'[' => parse_raw::<Vec<BorrowedText<'_>>>(raw)?
            .iter()
            .map(BorrowedText::as_borrowed_str)
            .collect(),
        b'{' => {
            let holder: Holder<'_> = parse_raw(raw)?;
            parse_non_empty_string(holder.value).or_else(|| parse_non_empty_string(holder.text))?
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Parses a time in milliseconds since 1970.
pub(super) fn parse_epoch_millis(raw: Option<&RawValue>) -> Option<Timestamp> {
    Timestamp::from_millis(parse_raw::<f64>(raw)? as i64)
}

/// Parses a non-negative number as a count.
pub(super) fn parse_count_value(raw: Option<&RawValue>) -> Option<u64> {
    parse_raw::<f64>(raw).filter(|number| *number >= 0.0).map(|number| number as u64)
}

/// Returns whether a value is `true`.
pub(super) fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// Maximum nesting of references, such as a URI inside a location.
const MAX_PLACE_DEPTH: usize = 8;

/// Parses the file path of a reference: a URI as text or in components, with or without a range.
pub(super) fn parse_reference_path(raw: Option<&RawValue>) -> Option<String> {
    place_within(raw, MAX_PLACE_DEPTH)
}

/// Parses the file path of a reference with at most `depth` levels of nesting.
fn place_within(raw: Option<&RawValue>, depth: usize) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct UriComponents<'a> {
        fs_path: Option<&'a RawValue>,
        external: Option<&'a RawValue>,
        path: Option<&'a RawValue>,
        #[serde(rename = "uri")]
        target: Option<&'a RawValue>,
        location: Option<&'a RawValue>,
    }
    if let Some(uri) = parse_non_empty_string(raw) {
        return Some(vscode::path_from_uri(&uri));
    }
    let depth = depth.checked_sub(1)?;
    let uri: UriComponents<'_> = parse_raw(raw)?;
    parse_non_empty_string(uri.fs_path)
        .or_else(|| parse_non_empty_string(uri.external).map(|uri| vscode::path_from_uri(&uri)))
        .or_else(|| parse_non_empty_string(uri.path))
        .or_else(|| place_within(uri.target, depth))
        .or_else(|| place_within(uri.location, depth))
}

/// Bytes in any encoding: an object of numbered bytes (the output of `JSON.stringify`), an array,
/// or Base64.
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
