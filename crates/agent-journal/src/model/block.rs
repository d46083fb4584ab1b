//! The parts of a message.

use serde::{Deserialize, Serialize};

use super::Json;

/// One part of a message, in the order it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// Text that a person or the model wrote.
    Text(String),
    /// Readable reasoning. Encrypted reasoning is never kept.
    Thinking(String),
    /// The model asks for a tool.
    ToolCall {
        /// Joins the call with its result.
        id: String,
        /// The tool's name as recorded.
        name: String,
        /// The arguments as recorded.
        input: Json,
    },
    /// A tool answers.
    ToolResult {
        /// The call that is answered.
        call_id: String,
        /// What the tool returned, as text.
        output: String,
        /// Whether it failed; absent when the format does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// A picture.
    Image(Image),
    /// Anything the model has no word for, as recorded.
    Other(Json),
}

/// A picture in a message: what it is, and its bytes while they are on their way to the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// The media type, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the picture in bytes, decoded.
    #[serde(default)]
    pub bytes: u64,
    /// Where the picture lies when it is not in the record: a path or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Content hash under which the store keeps the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The picture itself; handed to the store, never part of the message's text form.
    #[serde(skip)]
    pub data: Option<Vec<u8>>,
}

impl Image {
    /// Makes a picture of its Base64 form. What does not decode keeps its size and type only.
    pub fn from_base64(media_type: Option<String>, text: &str) -> Self {
        use base64::Engine;
        let Ok(data) = base64::engine::general_purpose::STANDARD.decode(text.trim()) else {
            return Self { media_type, bytes: text.len() as u64 / 4 * 3, ..Self::default() };
        };
        Self::from_bytes(media_type, data)
    }

    /// Makes a picture of its bytes.
    pub fn from_bytes(media_type: Option<String>, data: Vec<u8>) -> Self {
        Self {
            media_type,
            bytes: data.len() as u64,
            hash: Some(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&data))),
            location: None,
            data: Some(data),
        }
    }
}
