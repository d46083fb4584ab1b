//! What the model was given and gave.

use serde_json::value::RawValue;

use super::content::{self, Content, Output};
use super::line::Item;
use super::prompt;
use super::reader::{Mark, Reader, recall, remember};
use crate::connectors::formats::json::{self, Text};
use crate::error::Result;
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role};

/// A user's item whose event may follow.
pub(super) struct Asked {
    pub(super) mark: Mark,
    pub(super) message: Message,
}

impl Reader<'_> {
    /// Reads an item, which is what the model saw.
    pub(super) fn item(&mut self, mut item: Item<'_>, raw: &RawValue) -> Result<()> {
        let kind = item.kind.as_ref().map_or("", Text::as_str).to_owned();
        match kind.as_str() {
            "message" | "" => self.said(item, raw),
            "user" | "assistant" | "system" | "developer" | "tool" => {
                let role = item.role.or(Some(Text(kind.into())));
                self.said(Item { role, ..item }, raw)
            }
            "reasoning" => self.thought(item),
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "tool_search_call"
            | "web_search_call"
            | "image_generation_call" => self.called(&kind, item),
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "tool_search_output" => self.returned(item),
            "agent_message" => {
                let content = item.content.take().map(Content::blocks);
                let message = self.message(Role::User, Origin::Injected);
                let mut message = Message { blocks: content.unwrap_or_default(), ..message };
                fill(&mut message, item);
                self.tell(message)
            }
            "compaction" | "compaction_summary" | "context_compaction" | "ghost_snapshot" => {
                self.pass(&kind)
            }
            _ => self.keep(raw),
        }
    }

    fn said(&mut self, mut item: Item<'_>, raw: &RawValue) -> Result<()> {
        let content = item.content.take().or(item.text.take()).or(item.message.take());
        let Some(content) = content else { return self.keep(raw) };
        let role = item.role.take().map(Text::into_owned).unwrap_or_default();
        let blocks = content.blocks();
        match role.as_str() {
            "user" => self.ask(item, blocks),
            "assistant" => {
                if self.say(blocks)? {
                    self.note(item);
                }
                Ok(())
            }
            "system" | "developer" | "tool" => {
                let (role, origin) = match role.as_str() {
                    "tool" => (Role::Tool, Origin::Tool),
                    _ => (Role::System, Origin::Injected),
                };
                let mut message = Message { blocks, ..self.message(role, origin) };
                self.look_for_cwd(&message.text());
                fill(&mut message, item);
                self.tell(message)
            }
            _ => self.keep(raw),
        }
    }

    fn ask(&mut self, item: Item<'_>, blocks: Vec<Block>) -> Result<()> {
        self.close()?;
        let mark = self.mark();
        let mut message = Message { blocks, ..self.message(Role::User, Origin::Injected) };
        let text = message.text();
        self.look_for_cwd(&text);
        if recall(&mut self.state.from_events, &text) {
            return self.pass("told by its event");
        }
        fill(&mut message, item);
        self.asked = Some(Asked { mark, message });
        Ok(())
    }

    /// Tells the user's item that waits for its event. Without one, its beginning tells who
    /// wrote it.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(Asked { message, .. }) = self.asked.take() else { return Ok(()) };
        let text = message.text();
        let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
        let origin = match prompt::origin(&text) {
            Origin::Human if text.trim().is_empty() && !has_image => Origin::Injected,
            origin => origin,
        };
        if origin == Origin::Human {
            remember(&mut self.state.from_items, &text);
        }
        self.prompt(Message { origin, ..message })
    }

    /// Tells a prompt, without what the program put around it.
    pub(super) fn prompt(&mut self, mut message: Message) -> Result<()> {
        if message.origin == Origin::Human {
            let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
            for block in &mut message.blocks {
                let Block::Text(text) = block else { continue };
                if let Some((envelope, request)) = prompt::unwrap(text) {
                    message.extensions.insert("envelope".into(), Json::from_value(&envelope));
                    *text = request;
                }
                if has_image {
                    *text = prompt::without_placeholders(text).trim().to_owned();
                }
            }
            message.blocks.retain(|block| !matches!(block, Block::Text(text) if text.is_empty()));
        }
        self.emit(message)
    }

    /// Reasoning is told as far as it can be read; most of it is encrypted.
    fn thought(&mut self, mut item: Item<'_>) -> Result<()> {
        let summary = item.summary.take().into_iter().flat_map(Content::texts);
        let mut thoughts: Vec<String> = summary.collect();
        thoughts.extend(item.content.take().into_iter().flat_map(Content::texts));
        if thoughts.is_empty() {
            return self.pass("encrypted reasoning");
        }
        self.think(thoughts)?;
        self.note(item);
        Ok(())
    }

    fn called(&mut self, kind: &str, mut item: Item<'_>) -> Result<()> {
        let id = item.call_id.take().or_else(|| item.id.clone()).map(Text::into_owned);
        let id = id.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("{kind}@{}", self.offset));
        let name = item.name.take().map(Text::into_owned);
        let name = name.unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
        let name = match item.namespace.take() {
            Some(space) => qualified(space.as_str(), &name),
            None => name,
        };
        let input = item.arguments.take().or(item.action.take());
        let input = match item.input.take() {
            // The text of a free-form tool is no JSON, even when it looks like it.
            Some(text) => Json::from(text),
            None => content::arguments(input),
        };
        let picture = item.result.take().filter(|_| kind == "image_generation_call");
        let picture = picture.map(|data| Image::from_base64(None, data.as_str()));
        self.note_git(&id, &input);
        let open = self.answer()?;
        open.message.blocks.push(Block::ToolCall { id, name, input });
        open.message.blocks.extend(picture.map(Block::Image));
        self.note(item);
        Ok(())
    }

    fn returned(&mut self, mut item: Item<'_>) -> Result<()> {
        let mut message = self.message(Role::Tool, Origin::Tool);
        let output = match (item.output.take(), item.tools.take()) {
            (Some(output), _) => Output::read(output),
            (None, Some(tools)) => Output { text: tools.get().to_owned(), ..Output::default() },
            (None, None) => Output::default(),
        };
        let call_id = item.call_id.take().map(Text::into_owned).unwrap_or_default();
        let Output { text, is_error, others, metadata } = output;
        self.note_git_result(&call_id, &text, is_error);
        message.blocks.push(Block::ToolResult { call_id, output: text, is_error });
        message.blocks.extend(others);
        if let Some(metadata) = metadata {
            message.extensions.insert("metadata".into(), metadata);
        }
        fill(&mut message, item);
        self.settle()?;
        self.trail(message)
    }

    /// Adds what an item says beyond its content to the open answer.
    fn note(&mut self, item: Item<'_>) {
        let envelope = std::mem::take(&mut self.envelope);
        let Some(open) = &mut self.open else { return };
        let message = &mut open.message;
        message.extensions.extend(envelope);
        if message.uuid.is_none() {
            return fill(message, item);
        }
        let id = item.id.as_ref().map(|id| id.as_str().to_owned());
        message.part_uuids.extend(id.filter(|id| !id.is_empty()));
        extend(&mut message.extensions, item);
    }
}

/// A tool's name with its namespace, as versions before there were namespaces wrote it.
fn qualified(space: &str, name: &str) -> String {
    match space {
        "" | "functions" => name.to_owned(),
        _ if space.ends_with('_') || name.starts_with('_') => format!("{space}{name}"),
        _ if space.starts_with("mcp__") => format!("{space}__{name}"),
        _ => format!("{space}.{name}"),
    }
}

/// Gives a message the id of its item and what else the item says.
fn fill(message: &mut Message, item: Item<'_>) {
    let id = item.id.as_ref().map(|id| id.as_str().to_owned()).filter(|id| !id.is_empty());
    message.uuid = id.or(message.uuid.take());
    extend(&mut message.extensions, item);
}

fn extend(extensions: &mut Extensions, item: Item<'_>) {
    if let Some(phase) = item.phase {
        extensions.insert("phase".into(), Json::from_value(&phase.as_str()));
    }
    if let Some(status) = item.status.filter(|status| status.as_str() != "completed") {
        extensions.insert("status".into(), Json::from_value(&status.as_str()));
    }
    json::keep(item.rest, extensions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_namespaces_read_like_those_without() {
        let check = |space: &str, name: &str, expected: &str| {
            assert_eq!(qualified(space, name), expected);
        };
        check("functions", "exec_command", "exec_command");
        check("mcp__docs__", "search", "mcp__docs__search");
        check("mcp__docs", "search", "mcp__docs__search");
        check("mcp__apps__forge", "_fetch", "mcp__apps__forge_fetch");
        check("tool_search", "find", "tool_search.find");
    }
}
