//! One bubble of a conversation in the editor: a prompt, an answer, a call of a tool with its
//! result, in every shape since the chat tabs of 2023.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::tool::{Tool, plain};
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, FromOddValue, Text, lenient, lossless};
use crate::connectors::formats::vscode;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Timestamp, Tokens, Usage,
};

/// What a bubble records of the interface, repeats from its text, or points at elsewhere.
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
    /// A bubble.
    struct Bubble<'a> {
        "type" side: Option<Side>,
        "bubbleId" id: Option<Text<'a>>,
        "id" old_id: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "rawText" raw_text: Option<Text<'a>>,
        "richText" rich_text: Option<&'a RawValue>,
        "initText" init_text: Option<&'a RawValue>,
        "createdAt" created_at: Option<Moment>,
        "timingInfo" timing: Option<Timing>,
        "modelInfo" model: Option<Model<'a>>,
        "modelType" model_type: Option<Text<'a>>,
        "tokenCount" tokens: Option<Count>,
        "thinking" thinking: Option<Thought>,
        "allThinkingBlocks" thoughts: Option<Vec<Thought>>,
        "toolFormerData" tool: Option<Tool<'a>>,
        "requestId" request_id: Option<Text<'a>>,
        "usageUuid" usage_id: Option<Text<'a>>,
        "images" images: Option<&'a RawValue>,
        "selectedImages" selected_images: Option<&'a RawValue>,
        "context" context: Option<&'a RawValue>,
        "errorDetails" error: Option<&'a RawValue>,
        "skipRendering" is_skipped: Option<bool>,
        "isNudge" is_nudge: Option<bool>,
        "isSimulatedMsg" is_simulated: Option<bool>,
        "workspaceUris" folders: Option<Vec<Text<'a>>>,
        "workspaceProjectDir" project: Option<Text<'a>>,
    }
}

/// Who speaks: 1 and `user`, 2 and `ai`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    User,
    Assistant,
    Unknown,
}

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(match raw.get() {
            "1" | "\"user\"" => Self::User,
            "2" | "\"ai\"" => Self::Assistant,
            _ => Self::Unknown,
        })
    }
}

impl FromOddValue<'_> for Side {}

impl FromOddValue<'_> for Thought {}

lenient! {
    struct Timing {
        "clientEndTime" end: Option<Moment>,
        "clientSettleTime" settled: Option<Moment>,
        "clientRpcSendTime" sent: Option<Moment>,
    }
}

lenient! {
    struct Model<'a> {
        "modelName" model_name: Option<Text<'a>>,
    }
}

lenient! {
    struct Count {
        "inputTokens" input_tokens: Option<f64>,
        "outputTokens" output_tokens: Option<f64>,
    }
}

/// Readable reasoning, alone or beside its signature.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Thought {
    Plain(String),
    Signed {
        #[serde(default)]
        text: String,
    },
}

impl Bubble<'_> {
    /// Whose bubble it is.
    pub(super) fn side(&self) -> Side {
        self.side.unwrap_or(Side::Unknown)
    }

    /// The model it names.
    pub(super) fn model(&self) -> Option<String> {
        let name = self.model.as_ref().and_then(|model| model.model_name.as_ref());
        let name = name.or(self.model_type.as_ref())?.as_str();
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Makes a prompt of it; `None` when nothing was asked.
    pub(super) fn prompt(self) -> Option<Message> {
        let mut blocks = Vec::new();
        let text = self.words();
        if !text.trim().is_empty() {
            blocks.push(Block::Text(text));
        }
        let in_context = self.context.and_then(|context| {
            lenient! {
                struct Context<'a> {
                    "selectedImages" selected_images: Option<&'a RawValue>,
                }
            }
            json::parse::<Context<'_>>(context.get())?.selected_images
        });
        for raw in [in_context, self.selected_images, self.images].into_iter().flatten() {
            blocks.extend(pictures(raw).into_iter().map(Block::Image));
        }
        blocks.extend(self.odd_text());
        if blocks.is_empty() {
            return None;
        }
        let is_hidden = [self.is_skipped, self.is_nudge, self.is_simulated].contains(&Some(true));
        let origin = if is_hidden { Origin::Injected } else { Origin::Human };
        Some(Message { role: Role::User, origin, blocks, ..self.envelope() })
    }

    /// Makes an answer of it, with the result of the tool it called; the answer may be empty.
    pub(super) fn answer(mut self) -> (Message, Option<Message>) {
        let mut blocks = Vec::new();
        let thoughts = self.thoughts.take().unwrap_or_default();
        for thought in self.thinking.take().into_iter().chain(thoughts) {
            let (Thought::Plain(text) | Thought::Signed { text }) = thought;
            let thought = Block::Thinking(text);
            if !matches!(&thought, Block::Thinking(text) if text.trim().is_empty())
                && !blocks.contains(&thought)
            {
                blocks.push(thought);
            }
        }
        let text = self.words();
        if !text.trim().is_empty() {
            blocks.push(Block::Text(text));
        }
        blocks.extend(self.odd_text());
        let tool = self.tool.take();
        let usage = self.usage();
        let mut message = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            model: self.model(),
            failed: self.error.is_some_and(|error| !value::is_hollow(error.get())),
            usage,
            ..self.envelope()
        };
        message.blocks = blocks;
        let result = tool.and_then(|tool| tool.push(&mut message));
        (message, result)
    }

    /// Whether it is a prompt whose words stand only in the input they were typed into.
    pub(super) fn is_unsent(&self) -> bool {
        let says = |text: &Text<'_>| !text.as_str().trim().is_empty();
        self.side() == Side::User
            && self.init_text.is_some()
            && ![&self.text, &self.raw_text].into_iter().flatten().any(says)
            && self.rich_text.is_none_or(|rich| leaves(rich).trim().is_empty())
    }

    /// What was said: the plain text, else the leaves of the rich one.
    fn words(&self) -> String {
        let says = |text: &String| !text.trim().is_empty();
        let plain = [&self.text, &self.raw_text].into_iter().flatten();
        let rich = [self.rich_text, self.init_text].into_iter().flatten().map(leaves);
        plain.map(|text| text.as_str().to_owned()).chain(rich).find(says).unwrap_or_default()
    }

    /// A text that is not a string, as it is written.
    fn odd_text(&self) -> Option<Block> {
        let odd = self.rest.iter().find(|(key, _)| key == "text" || key == "rawText");
        odd.map(|(_, raw)| Block::Other(Json::from(*raw)))
    }

    fn usage(&self) -> Option<Usage> {
        let count = self.tokens.as_ref()?;
        let number = |number: Option<f64>| number.filter(|one| *one > 0.0).unwrap_or(0.0) as u64;
        let tokens = Tokens {
            input: number(count.input_tokens),
            output: number(count.output_tokens),
            ..Tokens::default()
        };
        // Zeros stand in every bubble whose tokens were not counted.
        (tokens.total() > 0).then(|| Usage { identity: self.id(), tokens, ..Usage::default() })
    }

    fn id(&self) -> Option<String> {
        let id = self.id.as_ref().or(self.old_id.as_ref());
        id.map(|id| id.as_str().to_owned()).filter(|id| !id.is_empty())
    }

    fn at(&self) -> Option<Timestamp> {
        let times = self.timing.as_ref().map(|timing| [timing.end, timing.settled, timing.sent]);
        self.created_at
            .into_iter()
            .chain(times.into_iter().flatten().flatten())
            .find_map(|moment| moment.0)
    }

    /// The folder of its window. Some builds name their own directory for the project instead.
    fn cwd(&self) -> Option<String> {
        let folder = self.folders.iter().flatten().next().map(|uri| vscode::path(uri.as_str()));
        let project = self.project.as_ref().map(|path| path.as_str().to_owned());
        folder.or(project.filter(|path| !path.is_empty() && !path.contains(".cursor")))
    }

    /// What every message of the bubble has.
    fn envelope(self) -> Message {
        let (uuid, at, cwd) = (self.id(), self.at(), self.cwd());
        let mut extensions = Extensions::new();
        let named = [("context", self.context), ("errorDetails", self.error)];
        let named = named.into_iter().filter_map(|(key, raw)| Some((key.into(), raw?)));
        value::keep(named.chain(self.rest).collect(), NOISE, &mut extensions);
        let request_id = self.request_id.or(self.usage_id);
        Message {
            uuid,
            at,
            request_id: request_id.map(Text::into_owned).filter(|id| !id.is_empty()),
            cwd,
            extensions,
            ..Message::default()
        }
    }
}

/// The words of a rich text, which is JSON or a string of JSON.
fn leaves(raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Node {
        #[serde(default)]
        text: String,
        #[serde(default, rename = "type")]
        kind: String,
        #[serde(default)]
        children: Vec<Node>,
        root: Option<Box<Node>>,
    }
    fn walk(node: &Node, words: &mut String) {
        words.push_str(&node.text);
        if node.kind == "linebreak" || (node.kind == "paragraph" && !words.is_empty()) {
            words.push('\n');
        }
        node.root.iter().for_each(|root| walk(root, words));
        node.children.iter().for_each(|child| walk(child, words));
    }
    let json = plain(raw);
    let mut words = String::new();
    // A text that is no tree of nodes has no leaves.
    if let Ok(node) = serde_json::from_str::<Node>(&json) {
        walk(&node, &mut words);
    }
    words
}

/// The pictures of a list, wherever each build keeps their place.
fn pictures(raw: &RawValue) -> Vec<Image> {
    lenient! {
        struct Picture<'a> {
            "path" path: Option<Text<'a>>,
            "url" url: Option<Text<'a>>,
            "uuid" uuid: Option<Text<'a>>,
        }
    }
    let pictures: Vec<Picture<'_>> = json::parse(raw.get()).unwrap_or_default();
    let place = |one: Picture<'_>| one.path.or(one.url).or(one.uuid).map(Text::into_owned);
    pictures.into_iter().map(|one| Image { location: place(one), ..Image::default() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rich_text_says_its_leaves() {
        let check = |json: &str, expected: &str| {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(leaves(raw), expected, "{json}");
        };
        let tree = r#"{"root":{"children":[{"type":"paragraph","children":[{"type":"text","text":"fix "},{"type":"mention","text":"@a.rs"}]},{"type":"paragraph","children":[{"text":"now"}]}]}}"#;
        check(tree, "fix @a.rs\nnow");
        check(&serde_json::to_string(tree).unwrap(), "fix @a.rs\nnow");
        check(r#""plain words""#, "");
        check("[1]", "");
    }
}
