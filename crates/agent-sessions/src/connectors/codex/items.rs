//! Reads items: the input and output of the model.

use serde_json::value::RawValue;

use super::content::{CodexContent, ToolOutput};
use super::line::CodexItem;
use super::prompt;
use super::reader::{RolloutMark, RolloutReader, forget_emitted_text, remember_emitted_text};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::error::Result;
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role};

/// A user item whose event may follow.
pub(super) struct PendingUserItem {
    pub(super) mark: RolloutMark,
    pub(super) message: Message,
}

impl RolloutReader<'_> {
    /// Reads one item of the model's input or output.
    pub(super) fn read_item(&mut self, mut item: CodexItem<'_>, raw: &RawValue) -> Result<()> {
        let kind = item.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        match kind.as_str() {
            "message" | "" => self.read_message_item(item, raw),
            "user" | "assistant" | "system" | "developer" | "tool" => {
                let role = item.role.or(Some(BorrowedText(kind.into())));
                self.read_message_item(CodexItem { role, ..item }, raw)
            }
            "reasoning" => self.read_reasoning_item(item),
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "tool_search_call"
            | "web_search_call"
            | "image_generation_call" => self.read_call_item(&kind, item),
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "tool_search_output" => self.read_call_output_item(item),
            "agent_message" => {
                let content = item.content.take().map(CodexContent::into_content_blocks);
                let message = self.new_message_at_line(Role::User, Origin::Injected);
                let mut message = Message { blocks: content.unwrap_or_default(), ..message };
                fill_message_from_item(&mut message, item);
                self.emit_after_pending(message)
            }
            "compaction" | "compaction_summary" | "context_compaction" | "ghost_snapshot" => {
                self.pass_over_record(&kind)
            }
            _ => self.keep_raw_record(raw),
        }
    }

    fn read_message_item(&mut self, mut item: CodexItem<'_>, raw: &RawValue) -> Result<()> {
        let content = item.content.take().or(item.text.take()).or(item.message.take());
        let Some(content) = content else { return self.keep_raw_record(raw) };
        let role = item.role.take().map(BorrowedText::into_owned).unwrap_or_default();
        let blocks = content.into_content_blocks();
        match role.as_str() {
            "user" => self.hold_user_item(item, blocks),
            "assistant" => {
                if self.add_answer_text(blocks)? {
                    self.keep_item_fields(item);
                }
                Ok(())
            }
            "system" | "developer" | "tool" => {
                let (role, origin) = match role.as_str() {
                    "tool" => (Role::Tool, Origin::Tool),
                    _ => (Role::System, Origin::Injected),
                };
                let mut message = Message { blocks, ..self.new_message_at_line(role, origin) };
                self.look_for_cwd(&message.joined_text());
                fill_message_from_item(&mut message, item);
                self.emit_after_pending(message)
            }
            _ => self.keep_raw_record(raw),
        }
    }

    fn hold_user_item(&mut self, item: CodexItem<'_>, blocks: Vec<Block>) -> Result<()> {
        self.close_answer()?;
        let mark = self.continuation_mark();
        let mut message =
            Message { blocks, ..self.new_message_at_line(Role::User, Origin::Injected) };
        let text = message.joined_text();
        self.look_for_cwd(&text);
        if forget_emitted_text(&mut self.state.from_events, &text) {
            return self.pass_over_record("repeats its event");
        }
        fill_message_from_item(&mut message, item);
        self.asked = Some(PendingUserItem { mark, message });
        Ok(())
    }

    /// Emits the user item that waits for its event. Without an event, the beginning of the text
    /// determines the origin.
    pub(super) fn emit_pending_user_item(&mut self) -> Result<()> {
        let Some(PendingUserItem { message, .. }) = self.asked.take() else { return Ok(()) };
        let text = message.joined_text();
        let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
        let origin = match prompt::user_item_origin(&text) {
            Origin::Human if text.trim().is_empty() && !has_image => Origin::Injected,
            origin => origin,
        };
        if origin == Origin::Human {
            remember_emitted_text(&mut self.state.from_items, &text);
        }
        self.emit_unwrapped_prompt(Message { origin, ..message })
    }

    /// Emits a prompt without the envelope that Codex put around it.
    pub(super) fn emit_unwrapped_prompt(&mut self, mut message: Message) -> Result<()> {
        if message.origin == Origin::Human {
            let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
            for block in &mut message.blocks {
                let Block::Text(text) = block else { continue };
                if let Some((envelope, request)) = prompt::split_prompt_envelope(text) {
                    message.extensions.insert("envelope".into(), Json::from_value(&envelope));
                    *text = request;
                }
                if has_image {
                    *text = prompt::without_placeholders(text).trim().to_owned();
                }
            }
            message.blocks.retain(|block| !matches!(block, Block::Text(text) if text.is_empty()));
        }
        self.emit_to_sink(message)
    }

    /// Reads the readable part of a reasoning item; most reasoning is encrypted.
    fn read_reasoning_item(&mut self, mut item: CodexItem<'_>) -> Result<()> {
        let summary = item.summary.take().into_iter().flat_map(CodexContent::into_texts);
        let mut thoughts: Vec<String> = summary.collect();
        thoughts.extend(item.content.take().into_iter().flat_map(CodexContent::into_texts));
        if thoughts.is_empty() {
            return self.pass_over_record("encrypted reasoning");
        }
        self.add_reasoning(thoughts)?;
        self.keep_item_fields(item);
        Ok(())
    }

    fn read_call_item(&mut self, kind: &str, mut item: CodexItem<'_>) -> Result<()> {
        let id = item.call_id.take().or_else(|| item.id.clone()).map(BorrowedText::into_owned);
        let id = id.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("{kind}@{}", self.offset));
        let name = item.name.take().map(BorrowedText::into_owned);
        let name = name.unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
        let name = match item.namespace.take() {
            Some(space) => qualified_tool_name(space.as_borrowed_str(), &name),
            None => name,
        };
        let input = item.arguments.take().or(item.action.take());
        let input = match item.input.take() {
            // The text of a free-form tool is not JSON, even when it looks like JSON.
            Some(text) => Json::from(text),
            None => json::parse_call_arguments(input),
        };
        let picture = item.result.take().filter(|_| kind == "image_generation_call");
        let picture = picture.map(|data| Image::from_base64(None, data.as_borrowed_str()));
        self.note_git(&id, &input);
        let open = self.open_answer_for_line()?;
        open.message.blocks.push(Block::ToolCall { id, name, input });
        open.message.blocks.extend(picture.map(Block::Image));
        self.keep_item_fields(item);
        Ok(())
    }

    fn read_call_output_item(&mut self, mut item: CodexItem<'_>) -> Result<()> {
        let mut message = self.new_message_at_line(Role::Tool, Origin::Tool);
        let output = match (item.output.take(), item.tools.take()) {
            (Some(output), _) => ToolOutput::parse_tool_output(output),
            (None, Some(tools)) => {
                ToolOutput { text: tools.get().to_owned(), ..ToolOutput::default() }
            }
            (None, None) => ToolOutput::default(),
        };
        let call_id = item.call_id.take().map(BorrowedText::into_owned).unwrap_or_default();
        let ToolOutput { text, is_error, others, metadata } = output;
        self.note_git_result(&call_id, &text, is_error);
        message.blocks.push(Block::ToolResult { call_id, output: text, is_error });
        message.blocks.extend(others);
        if let Some(metadata) = metadata {
            message.extensions.insert("metadata".into(), metadata);
        }
        fill_message_from_item(&mut message, item);
        self.emit_pending_user_item()?;
        self.queue_trailing_message(message)
    }

    /// Adds the remaining fields of an item to the open answer.
    fn keep_item_fields(&mut self, item: CodexItem<'_>) {
        let envelope = std::mem::take(&mut self.envelope);
        let Some(open) = &mut self.open else { return };
        let message = &mut open.message;
        message.extensions.extend(envelope);
        if message.uuid.is_none() {
            return fill_message_from_item(message, item);
        }
        let id = item.id.as_ref().map(|id| id.as_borrowed_str().to_owned());
        message.part_uuids.extend(id.filter(|id| !id.is_empty()));
        extend_from_item(&mut message.extensions, item);
    }
}

/// Returns a tool's name with its namespace, in the form of versions without namespaces.
fn qualified_tool_name(space: &str, name: &str) -> String {
    match space {
        "" | "functions" => name.to_owned(),
        _ if space.ends_with('_') || name.starts_with('_') => format!("{space}{name}"),
        _ if space.starts_with("mcp__") => format!("{space}__{name}"),
        _ => format!("{space}.{name}"),
    }
}

/// Sets the message's id to the item's, and adds the item's remaining fields.
fn fill_message_from_item(message: &mut Message, item: CodexItem<'_>) {
    let id = item.id.as_ref().map(|id| id.as_borrowed_str().to_owned()).filter(|id| !id.is_empty());
    message.uuid = id.or(message.uuid.take());
    extend_from_item(&mut message.extensions, item);
}

fn extend_from_item(extensions: &mut Extensions, item: CodexItem<'_>) {
    if let Some(phase) = item.phase {
        extensions.insert("phase".into(), Json::from_value(&phase.as_borrowed_str()));
    }
    if let Some(status) = item.status.filter(|status| status.as_borrowed_str() != "completed") {
        extensions.insert("status".into(), Json::from_value(&status.as_borrowed_str()));
    }
    json::keep_non_empty_fields(item.rest, extensions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_namespaces_read_like_those_without() {
        let check = |space: &str, name: &str, expected: &str| {
            assert_eq!(qualified_tool_name(space, name), expected);
        };
        check("functions", "exec_command", "exec_command");
        check("mcp__docs__", "search", "mcp__docs__search");
        check("mcp__docs", "search", "mcp__docs__search");
        check("mcp__apps__forge", "_fetch", "mcp__apps__forge_fetch");
        check("tool_search", "find", "tool_search.find");
    }
}
