//! The blocks that a message consists of.

use serde::{Deserialize, Serialize};

use super::Json;

/// One block of a message. Blocks are in recorded order.
///
/// The list of kinds is complete: `Other` holds the rest. A new kind is a breaking change, so that
/// no redaction passes over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text written by a person or the model.
    Text(String),
    /// Readable reasoning. Encrypted reasoning is never kept.
    Thinking(String),
    /// A request of the model to run a tool.
    ToolCall {
        /// Id that joins the call with its result.
        id: String,
        /// Name of the tool as recorded.
        name: String,
        /// Arguments as recorded.
        input: Json,
    },
    /// The result of a tool call.
    ToolResult {
        /// Id of the call that this answers.
        call_id: String,
        /// Output of the tool as text.
        output: String,
        /// Whether the call failed; `None` when the format does not record it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// An image.
    Image(Image),
    /// Anything that the model cannot represent, as recorded.
    Other(Json),
}

/// An image in a message: its description, and its bytes until the store has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Media type, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the decoded image in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Location of an image that is not in the record: a path or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Content hash under which the store keeps the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The image itself. It is passed to the store and never part of the message's JSON.
    #[serde(skip)]
    pub data: Option<Vec<u8>>,
}

impl Image {
    /// Builds an image from Base64. Data that cannot be decoded keeps only its size and type.
    pub fn from_base64(media_type: Option<String>, text: &str) -> Self {
        use base64::Engine;
        let Ok(data) = base64::engine::general_purpose::STANDARD.decode(text.trim()) else {
            return Self { media_type, bytes: text.len() as u64 / 4 * 3, ..Self::default() };
        };
        Self::image_from_bytes(media_type, data)
    }

    /// Builds an image from its URL, which may contain the image data.
    pub fn from_url(url: &str) -> Self {
        match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((media_type, data)) => Self::from_base64(Some(media_type.to_owned()), data),
            None => Self { location: Some(url.to_owned()), ..Self::default() },
        }
    }

    /// Builds an image from its bytes.
    pub fn image_from_bytes(media_type: Option<String>, data: Vec<u8>) -> Self {
        Self {
            media_type,
            bytes: data.len() as u64,
            hash: Some(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&data))),
            location: None,
            data: Some(data),
        }
    }
}
