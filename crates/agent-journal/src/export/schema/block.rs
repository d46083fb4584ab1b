//! The parts of a message.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::Json;

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text, as Markdown where a model wrote it.
        text: String,
    },
    /// A request for a tool.
    ToolUse {
        /// Joins the call with its result.
        tool_id: String,
        /// The tool's name.
        tool_name: String,
        /// The arguments.
        #[cfg_attr(test, schemars(with = "serde_json::Value"))]
        input: Json,
    },
    /// What a tool answered.
    ToolResult {
        /// The call that is answered.
        tool_id: String,
        /// The tool's name.
        tool_name: String,
        /// The answer.
        output: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// The model's readable reasoning (since 1.1).
    Thinking {
        /// The reasoning.
        thinking: String,
    },
    /// A picture (since 1.1).
    Image {
        /// Its media type.
        #[serde(skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// Its size in bytes.
        bytes: u64,
        /// Where it lies, when it is not in the record.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        /// Its content hash in the journal.
        #[serde(skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
        /// The picture itself in Base64.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// Anything else, as the agent recorded it (since 1.1).
    Other {
        /// The record.
        #[cfg_attr(test, schemars(with = "serde_json::Value"))]
        raw: Json,
    },
}

/// Every field of every block: what a tagged enum cannot read while raw JSON is kept as it is.
#[derive(Deserialize)]
struct AnyBlock {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    #[serde(default)]
    tool_id: String,
    #[serde(default)]
    tool_name: String,
    input: Option<Json>,
    #[serde(default)]
    output: String,
    #[serde(default)]
    is_error: bool,
    media_type: Option<String>,
    #[serde(default)]
    bytes: u64,
    location: Option<String>,
    hash: Option<String>,
    data: Option<String>,
    raw: Option<Json>,
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Json::deserialize(deserializer)?;
        let any: AnyBlock = serde_json::from_str(whole.as_str()).map_err(D::Error::custom)?;
        let nothing = || Json::from_value(&serde_json::Value::Null);
        Ok(match any.kind.as_str() {
            "text" => Self::Text { text: any.text.unwrap_or_default() },
            "thinking" => Self::Thinking { thinking: any.thinking.unwrap_or_default() },
            "tool_use" => Self::ToolUse {
                tool_id: any.tool_id,
                tool_name: any.tool_name,
                input: any.input.unwrap_or_else(nothing),
            },
            "tool_result" => Self::ToolResult {
                tool_id: any.tool_id,
                tool_name: any.tool_name,
                output: any.output,
                is_error: any.is_error,
            },
            "image" => Self::Image {
                media_type: any.media_type,
                bytes: any.bytes,
                location: any.location,
                hash: any.hash,
                data: any.data,
            },
            "other" => Self::Other { raw: any.raw.unwrap_or_else(nothing) },
            // A later minor version may know more kinds.
            _ => Self::Other { raw: whole },
        })
    }
}
