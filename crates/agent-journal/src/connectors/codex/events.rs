//! What the interface showed: mostly what an item says as well.

use serde_json::value::RawValue;

use super::content::{self, Content};
use super::items::Asked;
use super::line::{Changes, Event, Shown};
use super::prompt;
use super::reader::{Reader, recall, remember};
use super::usage::Info;
use crate::connectors::formats::json::{self, Text};
use crate::error::Result;
use crate::model::{Block, Image, Message, Origin, Role};

/// Events that repeat an item or only say that something goes on.
const TWINS: &[&str] = &[
    "exec_command_begin",
    "exec_command_end",
    "patch_apply_begin",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "web_search_begin",
    "web_search_end",
    "view_image_tool_call",
    "image_generation_begin",
    "image_generation_end",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "sub_agent_activity",
    "context_compacted",
    "thread_settings_applied",
    "turn_diff",
    "plan_update",
    "background_event",
    "item_started",
];

/// The same in files that keep their history in pages.
const SHOWN: &[&str] = &[
    "CommandExecution",
    "McpToolCall",
    "WebSearch",
    "DynamicToolCall",
    "CollabAgentToolCall",
    "SubAgentActivity",
    "ImageView",
    "ImageGeneration",
    "ContextCompaction",
    "HookPrompt",
    "Sleep",
];

impl Reader<'_> {
    /// Reads an event, which is what the interface showed.
    pub(super) fn event(&mut self, event: Event<'_>, raw: &RawValue) -> Result<()> {
        let kind = event.kind.as_ref().map_or("", Text::as_str).to_owned();
        let text = |text: Option<Text<'_>>| text.map(Text::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user_message" => {
                let images = pictures(event.images, event.local_images);
                self.typed(&text(event.message), images)
            }
            "agent_message" => self.announce(Block::Text(text(event.message))),
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                self.announce(Block::Thinking(text(event.text)))
            }
            "token_count" => match event.info.or_else(|| alone(raw)) {
                Some(info) => self.count(&info),
                None => self.pass(&kind),
            },
            "task_started" | "turn_started" => {
                self.close()?;
                let turn = event.turn_id.as_ref().map(Text::as_str);
                self.state.threads.turn(event.started_at, turn);
                self.state.from_events.clear();
                self.state.from_items.clear();
                self.pass(&kind)
            }
            "task_complete" | "turn_complete" if event.error.is_none() => {
                self.close()?;
                self.pass(&kind)
            }
            "task_complete" | "turn_complete" | "turn_aborted" | "error" | "stream_error" => {
                self.failed(&kind, event)
            }
            "item_completed" if event.item.is_some() => {
                event.item.map_or(Ok(()), |item| self.shown(item, raw))
            }
            "patch_apply_end" => {
                self.touched(event.changes);
                self.pass(&kind)
            }
            // What a search found stands nowhere else.
            "web_search_end" if event.results.is_some() => self.keep(raw),
            _ if TWINS.contains(&kind.as_str()) || kind.starts_with("collab_") => self.pass(&kind),
            _ => self.keep(raw),
        }
    }

    fn failed(&mut self, kind: &str, event: Event<'_>) -> Result<()> {
        let words = event.message.or(event.reason).map(Text::into_owned);
        let words = words.or_else(|| event.error.map(words_of));
        let text = match words {
            Some(words) if kind == "error" || kind == "stream_error" => words,
            Some(words) => format!("{kind}: {words}"),
            None => kind.to_owned(),
        };
        let mut message = self.message(Role::System, Origin::System);
        message.blocks.push(Block::Text(text));
        // A turn that a person stopped did not fail.
        message.failed = kind != "turn_aborted";
        json::keep(event.rest, &mut message.extensions);
        self.tell(message)
    }

    fn shown(&mut self, item: Shown<'_>, raw: &RawValue) -> Result<()> {
        let kind = item.kind.as_ref().map_or("", Text::as_str).to_owned();
        match kind.as_str() {
            "UserMessage" => {
                let blocks = item.content.map(Content::blocks).unwrap_or_default();
                let message = Message { blocks, ..Message::default() };
                let text = message.text();
                let images = message.blocks.into_iter().filter_map(|block| match block {
                    Block::Image(image) => Some(image),
                    _ => None,
                });
                self.typed(&text, images.collect())
            }
            "AgentMessage" => {
                let texts: Vec<String> =
                    item.content.into_iter().flat_map(Content::texts).collect();
                self.announce(Block::Text(texts.join("\n")))
            }
            "Reasoning" => {
                let thoughts = item.summary.into_iter().chain(item.raw).flatten();
                let mut thoughts = thoughts.map(|text| Block::Thinking(text.into_owned()));
                thoughts.try_for_each(|thought| self.announce(thought))
            }
            "Plan" => {
                let plan = item.text.map(Text::into_owned).unwrap_or_default();
                self.session.documents.retain(|(name, _)| name != "plan");
                self.session.documents.push(("plan".to_owned(), plan));
                self.pass("plan")
            }
            "FileChange" => {
                self.touched(item.changes);
                self.pass(&kind)
            }
            _ if SHOWN.contains(&kind.as_str()) => self.pass(&kind),
            _ => self.keep(raw),
        }
    }

    fn touched(&mut self, changes: Option<Changes<'_>>) {
        if !self.state.threads.is_own() {
            return;
        }
        for path in changes.into_iter().flatten().map(|(path, _)| path) {
            if !self.session.files.contains(&path) {
                self.session.files.push(path);
            }
        }
    }

    /// Takes the event of a prompt: it says that the item before it is what a person typed.
    fn typed(&mut self, text: &str, images: Vec<Image>) -> Result<()> {
        let is_twin = |asked: &Asked| {
            let item = asked.message.text();
            let (item, typed) =
                (prompt::without_placeholders(&item), prompt::without_placeholders(text));
            let (item, typed) = (item.trim(), typed.trim());
            item == typed || (prompt::origin(item) == Origin::Human && item.contains(typed))
        };
        if let Some(Asked { message, .. }) = self.asked.take_if(|asked| is_twin(asked)) {
            return self.prompt(Message { origin: Origin::Human, ..message });
        }
        if recall(&mut self.state.from_items, text) {
            return self.pass("told by its item");
        }
        self.close()?;
        let mut message = self.message(Role::User, Origin::Human);
        message.blocks.extend((!text.is_empty()).then(|| Block::Text(text.to_owned())));
        message.blocks.extend(images.into_iter().map(Block::Image));
        remember(&mut self.state.from_events, &message.text());
        self.prompt(message)
    }
}

/// What an error says for itself: its message, or all of it.
fn words_of(error: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Error {
        message: String,
    }
    let plain = serde_json::from_str::<String>(error.get());
    let inside = || serde_json::from_str::<Error>(error.get()).map(|error| error.message);
    plain.or_else(|_| inside()).unwrap_or_else(|_| error.get().to_owned())
}

/// A count in the versions that wrote it without its envelope.
fn alone(raw: &RawValue) -> Option<Info> {
    serde_json::from_str(raw.get()).ok().and_then(Info::alone)
}

/// The pictures an event names; their bytes, where they are here, stand in the item.
fn pictures(images: Option<Vec<Text<'_>>>, local: Option<Vec<Text<'_>>>) -> Vec<Image> {
    let images = images.into_iter().chain(local).flatten();
    images.map(|url| content::image(url.as_str())).collect()
}
