//! The content of a message: a string, or blocks of many kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde_json::value::RawValue;

use super::rest;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, FromOddValue, Text, lenient, lossless};
use crate::model::{Block, Extensions, Image, Json};

/// Larger put-aside outputs are cut here, with a marker.
const MAX_OUTPUT: u64 = 32 << 20;

/// The content of a message or of a tool's result.
pub(super) enum Content<'a> {
    /// Plain text.
    Text(Cow<'a, str>),
    /// Blocks.
    Parts(Vec<Part<'a>>),
}

lossless! {
    /// One block.
    struct Part<'a> {
        "type" kind: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "thinking" thinking: Option<Text<'a>>,
        "id" id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "input" input: Option<&'a RawValue>,
        "tool_use_id" tool_use_id: Option<Text<'a>>,
        "content" content: Option<Content<'a>>,
        "is_error" is_error: Option<bool>,
        "source" source: Option<&'a RawValue>,
        "signature" signature: Option<&'a RawValue>,
        "data" data: Option<&'a RawValue>,
    }
}

lenient! {
    /// Where a picture or document comes from.
    struct Source<'a> {
        "type" kind: Option<Text<'a>>,
        "media_type" media_type: Option<Text<'a>>,
        "data" data: Option<Text<'a>>,
        "url" url: Option<Text<'a>>,
    }
}

impl<'a> Content<'a> {
    /// The blocks, a plain text as one of them.
    pub(super) fn parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Text(text) => vec![Part::text(text)],
            Self::Parts(parts) => parts,
        }
    }

    /// The text in it.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text.into_owned(),
            Self::Parts(parts) => {
                let texts = parts.into_iter().filter_map(|part| part.text).map(Text::into_owned);
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Whether a tool's result is among the blocks.
    pub(super) fn has_tool_result(&self) -> bool {
        matches!(self, Self::Parts(parts) if parts.iter().any(|part| part.is("tool_result")))
    }
}

impl<'a> Part<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Self { kind: Some(Text(Cow::Borrowed("text"))), text: Some(Text(text)), ..Self::default() }
    }

    /// Whether a field holds something that is not a text.
    fn has_odd(&self, key: &str) -> bool {
        self.rest.iter().any(|(known, _)| known == key)
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind.as_ref().is_some_and(|known| known.as_str() == kind)
    }

    /// Keeps what a block of a known kind says beyond the model, under its kind and id.
    pub(super) fn keep(&mut self, extensions: &mut Extensions) {
        let kind = self.kind.as_ref().map_or("", Text::as_str);
        let id = self.id.as_ref().or(self.tool_use_id.as_ref()).map(Text::as_str);
        let name = match (kind, id) {
            ("text" | "thinking", _) => kind.to_owned(),
            ("tool_use" | "server_tool_use" | "tool_result", Some(id)) => format!("{kind} {id}"),
            _ => return,
        };
        let is_kept = |key: &str| key != "citations" && key != "text" && key != "thinking";
        let unknown = self.rest.extract_if(.., |(key, _)| is_kept(key)).collect();
        rest::keep(&name, unknown, extensions);
    }

    /// Appends what this block becomes. Reasoning without readable text becomes nothing.
    pub(super) fn push(self, tool_results: &Path, blocks: &mut Vec<Block>) {
        let kind = self.kind.as_ref().map_or("", |kind| kind.as_str());
        match kind {
            "text" | "thinking" if self.has_odd(kind) => {
                blocks.push(Block::Other(self.into_json()));
            }
            "text" => {
                let text = self.text.map(Text::into_owned).unwrap_or_default();
                if !text.is_empty() {
                    blocks.push(Block::Text(text));
                }
                // What a text rests on stands beside it.
                if let Some((_, cited)) = self.rest.iter().find(|(key, _)| key == "citations")
                    && !matches!(cited.get(), "null" | "[]")
                {
                    let cited = BTreeMap::from([("citations", Json::from(*cited))]);
                    blocks.push(Block::Other(Json::from_value(&cited)));
                }
            }
            "thinking" => {
                let text = self.thinking.map(Text::into_owned).unwrap_or_default();
                if !text.is_empty() {
                    blocks.push(Block::Thinking(text));
                }
            }
            "redacted_thinking" => {}
            "tool_use" | "server_tool_use" => blocks.push(Block::ToolCall {
                id: owned(self.id),
                name: owned(self.name),
                input: self.input.map_or_else(|| Json::from_value(&()), Json::from),
            }),
            "tool_result" | "web_search_tool_result" => self.push_result(tool_results, blocks),
            "image" | "document" => match self.source.and_then(Source::read) {
                Some(source) => blocks.push(Block::Image(source.image())),
                None => blocks.push(Block::Other(self.into_json())),
            },
            _ => blocks.push(Block::Other(self.into_json())),
        }
    }

    fn push_result(self, tool_results: &Path, blocks: &mut Vec<Block>) {
        let mut texts: Vec<Cow<'_, str>> = Vec::new();
        let mut others = Vec::new();
        for part in self.content.map(Content::parts).unwrap_or_default() {
            if part.is("text") {
                texts.extend(part.text.map(|text| text.0));
            } else if part.is("web_search_result") {
                texts.push(Cow::Owned(part.search_result()));
            } else {
                part.push(tool_results, &mut others);
            }
        }
        let output = match texts.len() {
            0 => String::new(),
            1 => texts.remove(0).into_owned(),
            _ => texts.join("\n"),
        };
        blocks.push(Block::ToolResult {
            call_id: owned(self.tool_use_id),
            output: put_aside(&output, tool_results).unwrap_or(output),
            is_error: self.is_error,
        });
        blocks.append(&mut others);
    }

    /// A result of a search on the web; its encrypted content is nobody's to read.
    fn search_result(&self) -> String {
        let field = |name: &str| {
            let (_, value) = self.rest.iter().find(|(key, _)| key == name)?;
            serde_json::from_str::<String>(value.get()).ok()
        };
        [field("title"), field("url")].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Puts a block of a kind we have no word for together again.
    fn into_json(self) -> Json {
        Json::from_value(&self.into_map())
    }

    fn into_map(self) -> serde_json::Map<String, serde_json::Value> {
        let mut map = serde_json::Map::new();
        let mut put = |key: &str, text: Option<Text<'_>>| {
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
            Some(Content::Text(text)) => drop(map.insert("content".to_owned(), text.into())),
            Some(Content::Parts(parts)) => {
                let parts: Vec<_> = parts.into_iter().map(Part::into_map).collect();
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

impl<'a> Source<'a> {
    /// Reads a source that holds or names a picture or document; others are kept as they are.
    fn read(raw: &'a RawValue) -> Option<Self> {
        let source: Self = json::parse(raw.get())?;
        let is_encoded = source.kind.as_ref().is_none_or(|kind| kind.as_str() == "base64");
        (source.url.is_some() || (is_encoded && source.data.is_some())).then_some(source)
    }

    fn image(self) -> Image {
        let media_type = self.media_type.map(Text::into_owned);
        match self.data {
            Some(data) => Image::from_base64(media_type, data.as_str()),
            None => {
                Image { media_type, location: self.url.map(Text::into_owned), ..Image::default() }
            }
        }
    }
}

/// Fetches an output that was too large for the transcript. Only the file's name is believed:
/// the recorded path is of the machine that wrote it.
fn put_aside(output: &str, tool_results: &Path) -> Option<String> {
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

fn owned(text: Option<Text<'_>>) -> String {
    text.map(Text::into_owned).unwrap_or_default()
}

impl<'a> FromOddValue<'a> for Content<'a> {
    /// Each block by itself; a number or a truth value as the text it is written as.
    fn from_odd_value(raw: &'a RawValue, is_complete: &mut bool) -> Option<Self> {
        if let Some(elements) = json::elements(raw) {
            let mut parts = Vec::new();
            for raw in elements {
                parts.extend(json::parse::<Self>(raw.get()).map(Self::parts).into_iter().flatten());
            }
            return Some(Self::Parts(parts));
        }
        if raw.get().starts_with('{') {
            return Part::from_odd_value(raw, is_complete).map(|part| Self::Parts(vec![part]));
        }
        Text::from_odd_value(raw, is_complete).map(|text| Self::Text(text.0))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both;

        impl<'de> Visitor<'de> for Both {
            type Value = Content<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::Parts(Vec::new()))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<Self::Value, A::Error> {
                Part::deserialize(MapAccessDeserializer::new(map))
                    .map(|part| Content::Parts(vec![part]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                // Very old files hold bare strings among the blocks.
                while let Some(item) = items.next_element::<Content<'de>>()? {
                    parts.append(&mut item.parts());
                }
                Ok(Content::Parts(parts))
            }
        }

        deserializer.deserialize_any(Both)
    }
}
