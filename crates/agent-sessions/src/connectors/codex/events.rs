//! Reads events: the interface's record of the session, which mostly repeats the items.

use serde_json::value::RawValue;

use super::content::CodexContent;
use super::items::PendingUserItem;
use super::line::{InterfaceEvent, PatchChanges, ShownItem};
use super::prompt;
use super::reader::{RolloutReader, forget_emitted_text, remember_emitted_text};
use super::usage::Info;
use crate::connectors::formats::json::{self, BorrowedText};
use crate::error::Result;
use crate::model::{Block, Image, Message, Origin, Role};

/// Events that repeat an item or only report progress.
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

/// The same kinds of items in files with a paged history.
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

impl RolloutReader<'_> {
    /// Reads an event of the interface.
    pub(super) fn read_event(&mut self, event: InterfaceEvent<'_>, raw: &RawValue) -> Result<()> {
        let kind = event.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        let text =
            |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned).unwrap_or_default();
        match kind.as_str() {
            "user_message" => {
                let images = event_images(event.images, event.local_images);
                self.confirm_typed_prompt(&text(event.message), images)
            }
            "agent_message" => self.announce_block(Block::Text(text(event.message))),
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                self.announce_block(Block::Thinking(text(event.text)))
            }
            "token_count" => match event.info.or_else(|| parse_bare_token_count(raw)) {
                Some(info) => self.assign_token_count(&info),
                None => self.pass_over_record(&kind),
            },
            "task_started" | "turn_started" => {
                self.close_answer()?;
                let turn = event.turn_id.as_ref().map(BorrowedText::as_borrowed_str);
                self.state.threads.begin_turn(event.started_at, turn);
                self.state.from_events.clear();
                self.state.from_items.clear();
                self.pass_over_record(&kind)
            }
            "task_complete" | "turn_complete" if event.error.is_none() => {
                self.close_answer()?;
                self.pass_over_record(&kind)
            }
            "task_complete" | "turn_complete" | "turn_aborted" | "error" | "stream_error" => {
                self.read_failure_event(&kind, event)
            }
            "item_completed" if event.item.is_some() => {
                event.item.map_or(Ok(()), |item| self.read_shown_item(item, raw))
            }
            "patch_apply_end" => {
                self.add_patched_files(event.changes);
                self.pass_over_record(&kind)
            }
            // The results of a search are recorded nowhere else.
            "web_search_end" if event.results.is_some() => self.keep_raw_record(raw),
            _ if TWINS.contains(&kind.as_str()) || kind.starts_with("collab_") => {
                self.pass_over_record(&kind)
            }
            _ => self.keep_raw_record(raw),
        }
    }

    fn read_failure_event(&mut self, kind: &str, event: InterfaceEvent<'_>) -> Result<()> {
        let words = event.message.or(event.reason).map(BorrowedText::into_owned);
        let words = words.or_else(|| event.error.map(error_message_text));
        let text = match words {
            Some(words) if kind == "error" || kind == "stream_error" => words,
            Some(words) => format!("{kind}: {words}"),
            None => kind.to_owned(),
        };
        let mut message = self.new_message_at_line(Role::System, Origin::System);
        message.blocks.push(Block::Text(text));
        // A turn that a person stopped did not fail.
        message.failed = kind != "turn_aborted";
        json::keep_non_empty_fields(event.rest, &mut message.extensions);
        self.emit_after_pending(message)
    }

    fn read_shown_item(&mut self, item: ShownItem<'_>, raw: &RawValue) -> Result<()> {
        let kind = item.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        match kind.as_str() {
            "UserMessage" => {
                let blocks =
                    item.content.map(CodexContent::into_content_blocks).unwrap_or_default();
                let message = Message { blocks, ..Message::default() };
                let text = message.joined_text();
                let images = message.blocks.into_iter().filter_map(|block| match block {
                    Block::Image(image) => Some(image),
                    _ => None,
                });
                self.confirm_typed_prompt(&text, images.collect())
            }
            "AgentMessage" => {
                let texts: Vec<String> =
                    item.content.into_iter().flat_map(CodexContent::into_texts).collect();
                self.announce_block(Block::Text(texts.join("\n")))
            }
            "Reasoning" => {
                let thoughts = item.summary.into_iter().chain(item.raw).flatten();
                let mut thoughts = thoughts.map(|text| Block::Thinking(text.into_owned()));
                thoughts.try_for_each(|thought| self.announce_block(thought))
            }
            "Plan" => {
                let plan = item.text.map(BorrowedText::into_owned).unwrap_or_default();
                self.session.documents.retain(|(name, _)| name != "plan");
                self.session.documents.push(("plan".to_owned(), plan));
                self.pass_over_record("plan")
            }
            "FileChange" => {
                self.add_patched_files(item.changes);
                self.pass_over_record(&kind)
            }
            _ if SHOWN.contains(&kind.as_str()) => self.pass_over_record(&kind),
            _ => self.keep_raw_record(raw),
        }
    }

    fn add_patched_files(&mut self, changes: Option<PatchChanges<'_>>) {
        if !self.state.threads.is_own_record() {
            return;
        }
        for path in changes.into_iter().flatten().map(|(path, _)| path) {
            if !self.session.files.contains(&path) {
                self.session.files.push(path);
            }
        }
    }

    /// Reads the event of a prompt, which confirms that a person typed the item before it.
    fn confirm_typed_prompt(&mut self, text: &str, images: Vec<Image>) -> Result<()> {
        let is_twin = |asked: &PendingUserItem| {
            let item = asked.message.joined_text();
            let (item, typed) =
                (prompt::without_placeholders(&item), prompt::without_placeholders(text));
            let (item, typed) = (item.trim(), typed.trim());
            item == typed
                || (prompt::user_item_origin(item) == Origin::Human && item.contains(typed))
        };
        if let Some(PendingUserItem { message, .. }) = self.asked.take_if(|asked| is_twin(asked)) {
            return self.emit_unwrapped_prompt(Message { origin: Origin::Human, ..message });
        }
        if forget_emitted_text(&mut self.state.from_items, text) {
            return self.pass_over_record("repeats its item");
        }
        self.close_answer()?;
        let mut message = self.new_message_at_line(Role::User, Origin::Human);
        message.blocks.extend((!text.is_empty()).then(|| Block::Text(text.to_owned())));
        message.blocks.extend(images.into_iter().map(Block::Image));
        remember_emitted_text(&mut self.state.from_events, &message.joined_text());
        self.emit_unwrapped_prompt(message)
    }
}

/// Returns the message of an error, or its whole JSON.
fn error_message_text(error: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct ErrorPayload {
        message: String,
    }
    let plain = serde_json::from_str::<String>(error.get());
    let inside = || serde_json::from_str::<ErrorPayload>(error.get()).map(|error| error.message);
    plain.or_else(|_| inside()).unwrap_or_else(|_| error.get().to_owned())
}

/// Parses a token count from the versions that wrote it without its envelope.
fn parse_bare_token_count(raw: &RawValue) -> Option<Info> {
    serde_json::from_str(raw.get()).ok().and_then(Info::from_bare_total)
}

/// Returns the images that an event names. Their data, if recorded, is in the item.
fn event_images(
    images: Option<Vec<BorrowedText<'_>>>,
    local: Option<Vec<BorrowedText<'_>>>,
) -> Vec<Image> {
    let images = images.into_iter().chain(local).flatten();
    images.map(|url| Image::from_url(url.as_borrowed_str())).collect()
}
