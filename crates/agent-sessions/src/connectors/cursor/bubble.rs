//! One bubble of a conversation in the editor: a prompt, a reply, or a tool call with its result,
//! in every format since the chat tabs of 2023.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::tool::{Tool, json_string_or_raw};
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, BorrowedText, FromOddValue, lenient, lossless};
use crate::connectors::formats::vscode;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Timestamp, Tokens, Usage,
};

/// Keys not kept: state of the interface, copies of the text, and references to other records.
const NOISE: &[&str] = &[
    "_v",
    "afterCheckpointId",
    "aiType",
    "capabilityStatuses",
    "capabilityType",
    "checkpointId",
    "codeBlocks",
    "editToolSupportsSearchAndReplace",
    "followup",
    "hasCodeBlock",
    "isAgentic",
    "isThought",
    "messageType",
    "serverBubbleId",
    "suggestedCodeBlocks",
    "supportedTools",
    "unifiedMode",
];

lossless! {
    /// A bubble as the editor stores it.
    struct Bubble<'a> {
        "type" side: Option<BubbleAuthor>,
        "bubbleId" id: Option<BorrowedText<'a>>,
        "id" old_id: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "rawText" raw_text: Option<BorrowedText<'a>>,
        "richText" rich_text: Option<&'a RawValue>,
        "initText" init_text: Option<&'a RawValue>,
        "createdAt" created_at: Option<Moment>,
        "timingInfo" timing: Option<Timing>,
        "modelInfo" model: Option<BubbleModel<'a>>,
        "modelType" model_type: Option<BorrowedText<'a>>,
        "tokenCount" tokens: Option<BubbleTokenCount>,
        "thinking" thinking: Option<BubbleThinking>,
        "allThinkingBlocks" thoughts: Option<Vec<BubbleThinking>>,
        "toolFormerData" tool: Option<Tool<'a>>,
        "requestId" request_id: Option<BorrowedText<'a>>,
        "usageUuid" usage_id: Option<BorrowedText<'a>>,
        "images" images: Option<&'a RawValue>,
        "selectedImages" selected_images: Option<&'a RawValue>,
        "context" context: Option<&'a RawValue>,
        "errorDetails" error: Option<&'a RawValue>,
        "skipRendering" is_skipped: Option<bool>,
        "isNudge" is_nudge: Option<bool>,
        "isSimulatedMsg" is_simulated: Option<bool>,
        "workspaceUris" folders: Option<Vec<BorrowedText<'a>>>,
        "workspaceProjectDir" project: Option<BorrowedText<'a>>,
    }
}

/// The author of a bubble: 1 or `user`, 2 or `ai`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BubbleAuthor {
    User,
    Assistant,
    Unknown,
}

impl<'de> Deserialize<'de> for BubbleAuthor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(match raw.get() {
            "1" | "\"user\"" => Self::User,
            "2" | "\"ai\"" => Self::Assistant,
            _ => Self::Unknown,
        })
    }
}

impl FromOddValue<'_> for BubbleAuthor {}

impl FromOddValue<'_> for BubbleThinking {}

lenient! {
    struct Timing {
        "clientEndTime" end: Option<Moment>,
        "clientSettleTime" settled: Option<Moment>,
        "clientRpcSendTime" sent: Option<Moment>,
    }
}

lenient! {
    struct BubbleModel<'a> {
        "modelName" model_name: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct BubbleTokenCount {
        "inputTokens" input_tokens: Option<f64>,
        "outputTokens" output_tokens: Option<f64>,
    }
}

/// Readable reasoning, alone or beside its signature.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum BubbleThinking {
    Plain(String),
    Signed {
        #[serde(default)]
        text: String,
    },
}

impl Bubble<'_> {
    /// Returns the author of the bubble.
    pub(super) fn bubble_author(&self) -> BubbleAuthor {
        self.side.unwrap_or(BubbleAuthor::Unknown)
    }

    /// Returns the model that the bubble names.
    pub(super) fn named_model(&self) -> Option<String> {
        let name = self.model.as_ref().and_then(|model| model.model_name.as_ref());
        let name = name.or(self.model_type.as_ref())?.as_borrowed_str();
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Converts the bubble into a prompt. Returns `None` when it has no content.
    pub(super) fn into_prompt(self) -> Option<Message> {
        let mut blocks = Vec::new();
        let text = self.bubble_text();
        if !text.trim().is_empty() {
            blocks.push(Block::Text(text));
        }
        let in_context = self.context.and_then(|context| {
            lenient! {
                struct BubbleContext<'a> {
                    "selectedImages" selected_images: Option<&'a RawValue>,
                }
            }
            json::parse_json::<BubbleContext<'_>>(context.get())?.selected_images
        });
        for raw in [in_context, self.selected_images, self.images].into_iter().flatten() {
            blocks.extend(parse_bubble_images(raw).into_iter().map(Block::Image));
        }
        blocks.extend(self.odd_text());
        if blocks.is_empty() {
            return None;
        }
        let is_hidden = [self.is_skipped, self.is_nudge, self.is_simulated].contains(&Some(true));
        let origin = if is_hidden { Origin::Injected } else { Origin::Human };
        Some(Message { role: Role::User, origin, blocks, ..self.into_empty_message() })
    }

    /// Converts the bubble into a reply, which may be empty, and the result of its tool call.
    pub(super) fn into_answer(mut self) -> (Message, Option<Message>) {
        let mut blocks = Vec::new();
        let thoughts = self.thoughts.take().unwrap_or_default();
        let mut seen = HashSet::new();
        for thought in self.thinking.take().into_iter().chain(thoughts) {
            let (BubbleThinking::Plain(text) | BubbleThinking::Signed { text }) = thought;
            if !text.trim().is_empty() && seen.insert(text.clone()) {
                blocks.push(Block::Thinking(text));
            }
        }
        let text = self.bubble_text();
        if !text.trim().is_empty() {
            blocks.push(Block::Text(text));
        }
        blocks.extend(self.odd_text());
        let tool = self.tool.take();
        let usage = self.bubble_usage();
        let mut message = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            model: self.named_model(),
            failed: self.error.is_some_and(|error| !value::is_hollow(error.get())),
            usage,
            ..self.into_empty_message()
        };
        message.blocks = blocks;
        let result = tool.and_then(|tool| tool.push_call_and_result(&mut message));
        (message, result)
    }

    /// Returns whether the bubble is a prompt whose text exists only in its input field.
    pub(super) fn is_unsent(&self) -> bool {
        let says = |text: &BorrowedText<'_>| !text.as_borrowed_str().trim().is_empty();
        self.bubble_author() == BubbleAuthor::User
            && self.init_text.is_some()
            && ![&self.text, &self.raw_text].into_iter().flatten().any(says)
            && self.rich_text.is_none_or(|rich| rich_text_leaves(rich).trim().is_empty())
    }

    /// Returns the text of the bubble: the plain text, else the leaves of the rich text.
    fn bubble_text(&self) -> String {
        let says = |text: &String| !text.trim().is_empty();
        let plain = [&self.text, &self.raw_text].into_iter().flatten();
        let rich = [self.rich_text, self.init_text].into_iter().flatten().map(rich_text_leaves);
        plain
            .map(|text| text.as_borrowed_str().to_owned())
            .chain(rich)
            .find(says)
            .unwrap_or_default()
    }

    /// Returns a text that is not a JSON string, as written.
    fn odd_text(&self) -> Option<Block> {
        let odd = self.rest.iter().find(|(key, _)| key == "text" || key == "rawText");
        odd.map(|(_, raw)| Block::Other(Json::from(*raw)))
    }

    fn bubble_usage(&self) -> Option<Usage> {
        let count = self.tokens.as_ref()?;
        let number = |number: Option<f64>| number.filter(|one| *one > 0.0).unwrap_or(0.0) as u64;
        let tokens = Tokens {
            input: number(count.input_tokens),
            output: number(count.output_tokens),
            ..Tokens::default()
        };
        // Bubbles without a token count have zeros.
        (tokens.total_tokens() > 0).then(|| Usage {
            identity: self.bubble_id(),
            tokens,
            ..Usage::default()
        })
    }

    fn bubble_id(&self) -> Option<String> {
        let id = self.id.as_ref().or(self.old_id.as_ref());
        id.map(|id| id.as_borrowed_str().to_owned()).filter(|id| !id.is_empty())
    }

    fn bubble_time(&self) -> Option<Timestamp> {
        let times = self.timing.as_ref().map(|timing| [timing.end, timing.settled, timing.sent]);
        self.created_at
            .into_iter()
            .chain(times.into_iter().flatten().flatten())
            .find_map(|moment| moment.0)
    }

    /// Returns the folder of the bubble's window. Some builds name Cursor's own project directory
    /// instead, which is not used.
    fn window_folder(&self) -> Option<String> {
        let folder = self
            .folders
            .iter()
            .flatten()
            .next()
            .map(|uri| vscode::path_from_uri(uri.as_borrowed_str()));
        let project = self.project.as_ref().map(|path| path.as_borrowed_str().to_owned());
        folder.or(project.filter(|path| !path.is_empty() && !path.contains(".cursor")))
    }

    /// Converts the bubble into a message with its id, time, folder and extensions, without blocks.
    fn into_empty_message(self) -> Message {
        let (uuid, at, cwd) = (self.bubble_id(), self.bubble_time(), self.window_folder());
        let mut extensions = Extensions::new();
        let named = [("context", self.context), ("errorDetails", self.error)];
        let named = named.into_iter().filter_map(|(key, raw)| Some((key.into(), raw?)));
        value::keep_informative_values(named.chain(self.rest).collect(), NOISE, &mut extensions);
        let request_id = self.request_id.or(self.usage_id);
        Message {
            uuid,
            at,
            request_id: request_id.map(BorrowedText::into_owned).filter(|id| !id.is_empty()),
            cwd,
            extensions,
            ..Message::default()
        }
    }
}

/// Returns the text of a rich text's leaves. The rich text is JSON or a string of JSON.
fn rich_text_leaves(raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct RichTextNode {
        #[serde(default)]
        text: String,
        #[serde(default, rename = "type")]
        kind: String,
        #[serde(default)]
        children: Vec<RichTextNode>,
        root: Option<Box<RichTextNode>>,
    }
    fn collect_leaf_texts(node: &RichTextNode, words: &mut String) {
        words.push_str(&node.text);
        if node.kind == "linebreak" || (node.kind == "paragraph" && !words.is_empty()) {
            words.push('\n');
        }
        node.root.iter().for_each(|root| collect_leaf_texts(root, words));
        node.children.iter().for_each(|child| collect_leaf_texts(child, words));
    }
    let json = json_string_or_raw(raw);
    let mut words = String::new();
    // A text that is not a tree of nodes has no leaves.
    if let Ok(node) = serde_json::from_str::<RichTextNode>(&json) {
        collect_leaf_texts(&node, &mut words);
    }
    words
}

/// Parses a list of images. Each build stores the location of an image under another key.
fn parse_bubble_images(raw: &RawValue) -> Vec<Image> {
    lenient! {
        struct Picture<'a> {
            "path" path: Option<BorrowedText<'a>>,
            "url" url: Option<BorrowedText<'a>>,
            "uuid" uuid: Option<BorrowedText<'a>>,
        }
    }
    let pictures: Vec<Picture<'_>> = json::parse_json(raw.get()).unwrap_or_default();
    let place = |one: Picture<'_>| one.path.or(one.url).or(one.uuid).map(BorrowedText::into_owned);
    pictures.into_iter().map(|one| Image { location: place(one), ..Image::default() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rich_text_says_its_leaves() {
        let check = |json: &str, expected: &str| {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(rich_text_leaves(raw), expected, "{json}");
        };
        let tree = r#"{"root":{"children":[{"type":"paragraph","children":[{"type":"text","text":"fix "},{"type":"mention","text":"@a.rs"}]},{"type":"paragraph","children":[{"text":"now"}]}]}}"#;
        check(tree, "fix @a.rs\nnow");
        check(&serde_json::to_string(tree).unwrap(), "fix @a.rs\nnow");
        check(r#""plain words""#, "");
        check("[1]", "");
    }
}
