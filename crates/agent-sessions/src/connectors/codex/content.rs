//! The content of an item: a text, or parts; and the various formats of a tool's output.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde_json::value::RawValue;

use super::prompt;
use crate::connectors::formats::json::{self, BorrowedText, FromOddValue, lenient, lossless};
use crate::model::{Block, Image, Json};

/// The content of an item.
pub(super) struct CodexContent<'a>(pub(super) Vec<CodexContentPart<'a>>);

lossless! {
    /// One part of an item's content.
    struct CodexContentPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "image_url" image_url: Option<BorrowedText<'a>>,
        "path" path: Option<BorrowedText<'a>>,
        "encrypted_content" encrypted: Option<&'a RawValue>,
    }
}

/// The output of a tool.
#[derive(Default)]
pub(super) struct ToolOutput {
    pub(super) text: String,
    pub(super) is_error: Option<bool>,
    /// Images and other parts that are not text.
    pub(super) others: Vec<Block>,
    /// Exit code, duration and the like, where they are recorded separately.
    pub(super) metadata: Option<Json>,
}

impl CodexContent<'_> {
    /// Returns the non-blank texts, one per part.
    pub(super) fn into_texts(self) -> impl Iterator<Item = String> {
        let texts = self.0.into_iter().filter_map(|part| part.text.map(BorrowedText::into_owned));
        texts.filter(|text| !text.trim().is_empty())
    }

    /// Returns the blocks. The tags that Codex puts around an image become the image's location.
    pub(super) fn into_content_blocks(self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut path = None;
        for part in self.0 {
            match part.text.as_ref().and_then(|text| prompt::image_tag(text.as_borrowed_str())) {
                Some("") => {}
                Some(named) => path = Some(named.to_owned()),
                None => part.push_part_block(&mut path, &mut blocks),
            }
        }
        blocks
    }
}

impl<'a> CodexContentPart<'a> {
    fn text_part(text: Cow<'a, str>) -> Self {
        Self { text: Some(BorrowedText(text)), ..Self::default() }
    }

    fn push_part_block(self, path: &mut Option<String>, blocks: &mut Vec<Block>) {
        if let Some(text) = self.text {
            if !text.as_borrowed_str().is_empty() {
                blocks.push(Block::Text(text.into_owned()));
            }
        } else if let Some(url) = self.image_url {
            let image = Image::from_url(url.as_borrowed_str());
            let location = image.location.or(path.take());
            blocks.push(Block::Image(Image { location, ..image }));
        } else if let (Some("local_image"), Some(path)) =
            (self.kind.as_ref().map(BorrowedText::as_borrowed_str), &self.path)
        {
            let location = Some(path.as_borrowed_str().to_owned());
            blocks.push(Block::Image(Image { location, ..Image::default() }));
        } else if self.encrypted.is_none() {
            blocks.push(Block::Other(self.into_part_json()));
        }
    }

    /// Rebuilds the JSON of a part of unknown kind.
    fn into_part_json(self) -> Json {
        let mut map = std::collections::BTreeMap::new();
        let texts = [("type", &self.kind), ("path", &self.path)];
        for (key, text) in texts {
            if let Some(text) = text {
                map.insert(key, Json::from_value(&text.as_borrowed_str()));
            }
        }
        map.extend(self.rest.iter().map(|(key, value)| (&**key, Json::from(*value))));
        Json::from_value(&map)
    }
}

impl ToolOutput {
    /// Parses an output: a text, parts, or an object with a success flag.
    pub(super) fn parse_tool_output(raw: &RawValue) -> Self {
        lenient! {
            struct OutputObject<'a> {
                "content" content: Option<CodexContent<'a>>,
                "success" success: Option<bool>,
            }
        }
        let text = raw.get();
        if let Ok(BorrowedText(text)) = serde_json::from_str(text) {
            return Self::of_text(&text);
        }
        if let Some(OutputObject { content: Some(content), success }) = json::parse_json(text) {
            let output = Self::of_parts(content);
            return Self {
                is_error: success.map(|success| !success).or(output.is_error),
                ..output
            };
        }
        match json::array_elements(raw).and_then(|_| json::parse_json(text)) {
            Some(content) => Self::of_parts(content),
            None => Self { text: text.to_owned(), ..Self::default() },
        }
    }

    fn of_parts(content: CodexContent<'_>) -> Self {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for block in content.into_content_blocks() {
            match block {
                Block::Text(text) => texts.push(text),
                other => others.push(other),
            }
        }
        Self { others, ..Self::of_text(&texts.join("\n")) }
    }

    /// Parses the text of an output. Older versions wrote `{"output": …, "metadata": …}` into it.
    fn of_text(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Wrapped<'a> {
            output: String,
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
        }
        lenient! {
            struct OutputMetadata {
                "exit_code" exit_code: Option<f64>,
            }
        }
        let wrapped = text.starts_with('{').then(|| serde_json::from_str::<Wrapped<'_>>(text));
        let Some(Ok(Wrapped { output, metadata })) = wrapped else {
            let is_error = prompt::parse_exit_code_header(text).map(|code| code != 0);
            return Self { text: text.to_owned(), is_error, ..Self::default() };
        };
        let facts = metadata.and_then(|raw| json::parse_json::<OutputMetadata>(raw.get()));
        Self {
            text: output,
            is_error: facts.and_then(|facts| facts.exit_code).map(|code| code != 0.0),
            metadata: metadata.map(Json::from),
            ..Self::default()
        }
    }
}

impl<'a> FromOddValue<'a> for CodexContent<'a> {
    /// Parses each part separately; a number or a boolean becomes its text.
    fn from_odd_value(raw: &'a RawValue, is_complete: &mut bool) -> Option<Self> {
        if let Some(elements) = json::array_elements(raw) {
            let mut parts = Vec::new();
            for raw in elements {
                parts.extend(
                    json::parse_json::<Self>(raw.get()).into_iter().flat_map(|part| part.0),
                );
            }
            return Some(Self(parts));
        }
        if raw.get().starts_with('{') {
            return CodexContentPart::from_odd_value(raw, is_complete).map(|part| Self(vec![part]));
        }
        BorrowedText::from_odd_value(raw, is_complete)
            .map(|text| Self(vec![CodexContentPart::text_part(text.0)]))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for CodexContent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = CodexContent<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or parts")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(CodexContent(vec![CodexContentPart::text_part(Cow::Borrowed(text))]))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(CodexContent(vec![CodexContentPart::text_part(Cow::Owned(text.to_owned()))]))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(CodexContent(Vec::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let part = CodexContentPart::deserialize(MapAccessDeserializer::new(map))?;
                Ok(CodexContent(vec![part]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(CodexContent(mut more)) =
                    items.next_element::<CodexContent<'de>>()?
                {
                    parts.append(&mut more);
                }
                Ok(CodexContent(parts))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_every_version_are_read() {
        let check = |json: &str, text: &str, is_error: Option<bool>| {
            let output = ToolOutput::parse_tool_output(serde_json::from_str(json).unwrap());
            assert_eq!((&*output.text, output.is_error), (text, is_error), "{json}");
        };
        check(r#""Plan updated""#, "Plan updated", None);
        check(
            r#""{\"output\":\"a\\n\",\"metadata\":{\"exit_code\":2,\"duration_seconds\":0.1}}""#,
            "a\n",
            Some(true),
        );
        check(r#""{\"output\":3}""#, r#"{"output":3}"#, None);
        check(r#""Exit code: 0\nOutput:\nx""#, "Exit code: 0\nOutput:\nx", Some(false));
        check(r#"{"content":"denied","success":false}"#, "denied", Some(true));
        check(
            r#"[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]"#,
            "a\nb",
            None,
        );
        check(r#"{"odd":1}"#, r#"{"odd":1}"#, None);
    }

    #[test]
    fn a_picture_takes_the_path_of_the_tag_before_it() {
        let json = r#"[{"type":"input_text","text":"<image name=[Image #1] path=\"/a.png\">"},
            {"type":"input_image","image_url":"data:image/png;base64,AAAA"},
            {"type":"input_text","text":"</image>"},{"type":"input_text","text":"what is it?"}]"#;
        let blocks = serde_json::from_str::<CodexContent<'_>>(json).unwrap().into_content_blocks();
        let [Block::Image(image), Block::Text(text)] = &blocks[..] else { panic!("{blocks:?}") };
        assert_eq!((image.location.as_deref(), image.bytes), (Some("/a.png"), 3));
        assert_eq!(text, "what is it?");
    }
}
