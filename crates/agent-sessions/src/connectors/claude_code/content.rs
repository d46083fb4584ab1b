//! The content of a message: a string, or blocks of many kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde_json::value::RawValue;

use super::rest;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, FromOddValue, lenient, lossless};
use crate::model::{Block, Extensions, Image, Json};

/// Size limit of a persisted output; larger ones are truncated here, with a marker.
const MAX_OUTPUT: u64 = 32 << 20;

/// The content of a message or of a tool result.
pub(super) enum ClaudeContent<'a> {
    /// Plain text.
    Text(Cow<'a, str>),
    Parts(Vec<ClaudeBlock<'a>>),
}

lossless! {
    /// One block of a message.
    struct ClaudeBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "tool_use_id" tool_use_id: Option<BorrowedText<'a>>,
        "content" content: Option<ClaudeContent<'a>>,
        "is_error" is_error: Option<bool>,
        "source" source: Option<&'a RawValue>,
        "signature" signature: Option<&'a RawValue>,
        "data" data: Option<&'a RawValue>,
    }
}

lenient! {
    /// The source of an image or document.
    struct MediaSource<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "media_type" media_type: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
        "url" url: Option<BorrowedText<'a>>,
    }
}

impl<'a> ClaudeContent<'a> {
    /// Returns the blocks, with a plain text as a single block.
    pub(super) fn into_blocks(self) -> Vec<ClaudeBlock<'a>> {
        match self {
            Self::Text(text) => vec![ClaudeBlock::text_block(text)],
            Self::Parts(parts) => parts,
        }
    }

    /// Returns the text of all blocks, joined by newlines.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text.into_owned(),
            Self::Parts(parts) => {
                let texts =
                    parts.into_iter().filter_map(|part| part.text).map(BorrowedText::into_owned);
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Returns whether one of the blocks is a tool result.
    pub(super) fn has_tool_result(&self) -> bool {
        matches!(self, Self::Parts(parts) if parts.iter().any(|part| part.has_kind("tool_result")))
    }
}

impl<'a> ClaudeBlock<'a> {
    fn text_block(text: Cow<'a, str>) -> Self {
        Self {
            kind: Some(BorrowedText(Cow::Borrowed("text"))),
            text: Some(BorrowedText(text)),
            ..Self::default()
        }
    }

    /// Returns whether a field has a value that is not a text.
    fn has_odd(&self, key: &str) -> bool {
        self.rest.iter().any(|(known, _)| known == key)
    }

    pub(super) fn has_kind(&self, kind: &str) -> bool {
        self.kind.as_ref().is_some_and(|known| known.as_borrowed_str() == kind)
    }

    /// Moves the fields of a known block that the model does not have to the extensions, under the
    /// block's kind and id.
    pub(super) fn keep_unmodeled_fields(&mut self, extensions: &mut Extensions) {
        let kind = self.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let id = self.id.as_ref().or(self.tool_use_id.as_ref()).map(BorrowedText::as_borrowed_str);
        let name = match (kind, id) {
            ("text" | "thinking", _) => kind.to_owned(),
            ("tool_use" | "server_tool_use" | "tool_result", Some(id)) => format!("{kind} {id}"),
            _ => return,
        };
        let is_kept = |key: &str| key != "citations" && key != "text" && key != "thinking";
        let unknown = self.rest.extract_if(.., |(key, _)| is_kept(key)).collect();
        rest::keep_remaining_fields(&name, unknown, extensions);
    }

    /// Converts this block and appends the result. Reasoning without readable text yields nothing.
    pub(super) fn push_block(self, tool_results: &Path, blocks: &mut Vec<Block>) {
        let kind = self.kind.as_ref().map_or("", |kind| kind.as_borrowed_str());
        match kind {
            "text" | "thinking" if self.has_odd(kind) => {
                blocks.push(Block::Other(self.into_raw_json()));
            }
            "text" => {
                let text = self.text.map(BorrowedText::into_owned).unwrap_or_default();
                if !text.is_empty() {
                    blocks.push(Block::Text(text));
                }
                // The citations of a text become a block of their own after it.
                if let Some((_, cited)) = self.rest.iter().find(|(key, _)| key == "citations")
                    && !matches!(cited.get(), "null" | "[]")
                {
                    let cited = BTreeMap::from([("citations", Json::from(*cited))]);
                    blocks.push(Block::Other(Json::from_value(&cited)));
                }
            }
            "thinking" => {
                let text = self.thinking.map(BorrowedText::into_owned).unwrap_or_default();
                if !text.is_empty() {
                    blocks.push(Block::Thinking(text));
                }
            }
            "redacted_thinking" => {}
            "tool_use" | "server_tool_use" => blocks.push(Block::ToolCall {
                id: owned_text_or_empty(self.id),
                name: owned_text_or_empty(self.name),
                input: self.input.map_or_else(|| Json::from_value(&()), Json::from),
            }),
            "tool_result" | "web_search_tool_result" => self.push_tool_result(tool_results, blocks),
            "image" | "document" => match self.source.and_then(MediaSource::parse_media_source) {
                Some(source) => blocks.push(Block::Image(source.into_image())),
                None => blocks.push(Block::Other(self.into_raw_json())),
            },
            _ => blocks.push(Block::Other(self.into_raw_json())),
        }
    }

    fn push_tool_result(self, tool_results: &Path, blocks: &mut Vec<Block>) {
        let mut texts: Vec<Cow<'_, str>> = Vec::new();
        let mut others = Vec::new();
        for part in self.content.map(ClaudeContent::into_blocks).unwrap_or_default() {
            if part.has_kind("text") {
                texts.extend(part.text.map(|text| text.0));
            } else if part.has_kind("web_search_result") {
                texts.push(Cow::Owned(part.search_result()));
            } else {
                part.push_block(tool_results, &mut others);
            }
        }
        let output = match texts.len() {
            0 => String::new(),
            1 => texts.remove(0).into_owned(),
            _ => texts.join("\n"),
        };
        blocks.push(Block::ToolResult {
            call_id: owned_text_or_empty(self.tool_use_id),
            output: read_offloaded_output(&output, tool_results).unwrap_or(output),
            is_error: self.is_error,
        });
        blocks.append(&mut others);
    }

    /// Formats a web search result as title and URL; its encrypted content is not readable.
    fn search_result(&self) -> String {
        let field = |name: &str| {
            let (_, value) = self.rest.iter().find(|(key, _)| key == name)?;
            serde_json::from_str::<String>(value.get()).ok()
        };
        [field("title"), field("url")].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Rebuilds the JSON of a block of unknown kind.
    fn into_raw_json(self) -> Json {
        Json::from_value(&self.into_map())
    }

    fn into_map(self) -> serde_json::Map<String, serde_json::Value> {
        let mut map = serde_json::Map::new();
        let mut put = |key: &str, text: Option<BorrowedText<'_>>| {
            if let Some(text) = text {
                map.insert(key.to_owned(), text.into_owned().into());
            }
        };
        put("type", self.kind);
        put("text", self.text);
        put("id", self.id);
        put("name", self.name);
        put("tool_use_id", self.tool_use_id);
        put("thinking", self.thinking);
        if let Some(is_error) = self.is_error {
            map.insert("is_error".to_owned(), is_error.into());
        }
        match self.content {
            Some(ClaudeContent::Text(text)) => drop(map.insert("content".to_owned(), text.into())),
            Some(ClaudeContent::Parts(parts)) => {
                let parts: Vec<_> = parts.into_iter().map(ClaudeBlock::into_map).collect();
                map.insert("content".to_owned(), parts.into());
            }
            None => {}
        }
        let raw = [("input", self.input), ("data", self.data), ("source", self.source)];
        let rest = self.rest.iter().map(|(key, value)| (&**key, Some(*value)));
        for (key, value) in raw.into_iter().chain(rest) {
            if let Some(value) = value.and_then(|value| serde_json::from_str(value.get()).ok()) {
                map.insert(key.to_owned(), value);
            }
        }
        map
    }
}

impl<'a> MediaSource<'a> {
    /// Parses a source that contains or references an image or document; other sources are kept as
    /// they are.
    fn parse_media_source(raw: &'a RawValue) -> Option<Self> {
        let source: Self = json::parse_json(raw.get())?;
        let is_encoded = source.kind.as_ref().is_none_or(|kind| kind.as_borrowed_str() == "base64");
        (source.url.is_some() || (is_encoded && source.data.is_some())).then_some(source)
    }

    fn into_image(self) -> Image {
        let media_type = self.media_type.map(BorrowedText::into_owned);
        match self.data {
            Some(data) => Image::from_base64(media_type, data.as_borrowed_str()),
            None => Image {
                media_type,
                location: self.url.map(BorrowedText::into_owned),
                ..Image::default()
            },
        }
    }
}

/// Reads an output that was too large for the transcript. Only the file's name is used: the
/// recorded path is one of the machine that wrote it.
fn read_offloaded_output(output: &str, tool_results: &Path) -> Option<String> {
    if !output.starts_with("<persisted-output>") {
        return None;
    }
    let (_, after) = output.split_once("saved to: ")?;
    let path = after.lines().next()?.trim();
    let name = path.rsplit(['/', '\\']).next()?;
    if name.is_empty() || name.starts_with('.') {
        return None;
    }
    files::text_up_to(&tool_results.join(name), MAX_OUTPUT)
}

fn owned_text_or_empty(text: Option<BorrowedText<'_>>) -> String {
    text.map(BorrowedText::into_owned).unwrap_or_default()
}

impl<'a> FromOddValue<'a> for ClaudeContent<'a> {
    /// Parses each block separately; a number or a boolean becomes its text.
    fn from_odd_value(raw: &'a RawValue, is_complete: &mut bool) -> Option<Self> {
        if let Some(elements) = json::array_elements(raw) {
            let mut parts = Vec::new();
            for raw in elements {
                parts.extend(
                    json::parse_json::<Self>(raw.get())
                        .map(Self::into_blocks)
                        .into_iter()
                        .flatten(),
                );
            }
            return Some(Self::Parts(parts));
        }
        if raw.get().starts_with('{') {
            return ClaudeBlock::from_odd_value(raw, is_complete)
                .map(|part| Self::Parts(vec![part]));
        }
        BorrowedText::from_odd_value(raw, is_complete).map(|text| Self::Text(text.0))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ClaudeContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both;

        impl<'de> Visitor<'de> for Both {
            type Value = ClaudeContent<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(ClaudeContent::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(ClaudeContent::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(ClaudeContent::Parts(Vec::new()))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<Self::Value, A::Error> {
                ClaudeBlock::deserialize(MapAccessDeserializer::new(map))
                    .map(|part| ClaudeContent::Parts(vec![part]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                // Very old files hold bare strings among the blocks.
                while let Some(item) = items.next_element::<ClaudeContent<'de>>()? {
                    parts.append(&mut item.into_blocks());
                }
                Ok(ClaudeContent::Parts(parts))
            }
        }

        deserializer.deserialize_any(Both)
    }
}
