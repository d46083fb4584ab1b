//! The blocks of a message.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::Json;

/// One block of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Block"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DocumentBlock {
    /// A text.
    Text {
        /// The text, as Markdown if a model wrote it.
        text: String,
    },
    /// A tool call.
    ToolUse {
        /// The id that links the call to its result.
        tool_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The arguments of the call.
        #[cfg_attr(test, schemars(with = "serde_json::Value"))]
        input: Json,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        tool_id: String,
        /// The name of the tool.
        tool_name: String,
        /// The output of the tool.
        output: String,
        /// Whether the call failed.
        is_error: bool,
    },
    /// The readable reasoning of the model (since 1.1).
    Thinking {
        /// The text of the reasoning.
        thinking: String,
    },
    /// A picture (since 1.1).
    Image {
        /// The media type of the picture.
        #[serde(skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// The size of the picture in bytes.
        bytes: u64,
        /// The path or address of the picture, if it is not in the record.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        /// The content hash of the picture in the journal.
        #[serde(skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
        /// The picture in Base64.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// Anything else, as the agent recorded it (since 1.1).
    Other {
        /// The record as JSON.
        #[cfg_attr(test, schemars(with = "serde_json::Value"))]
        raw: Json,
    },
}

/// The fields of all blocks. A tagged enum cannot be deserialized while keeping raw JSON unchanged.
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

impl<'de> Deserialize<'de> for DocumentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Json::deserialize(deserializer)?;
        let any: AnyBlock = serde_json::from_str(whole.as_json_str()).map_err(D::Error::custom)?;
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
            // A later minor version may define more kinds.
            _ => Self::Other { raw: whole },
        })
    }
}
