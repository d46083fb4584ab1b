//! The parts of a message.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient, owned_if_present};
use crate::model::{ATTACHMENTS, Block, Extensions, Image, Json, Message, Origin, Role};

/// The tool that runs shell commands.
const SHELL_TOOL: &str = "bash";

/// The beginning of the line with which the shell tool reports a failed command.
const EXIT_CODE: &str = "Exit code ";

lenient! {
    /// A part with its type.
    struct CrushPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "data" data: Option<CrushPartData<'a>>,
    }
}

lenient! {
    /// The fields of all types of parts.
    struct CrushPartData<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<BorrowedText<'a>>,
        "tool_call_id" call_id: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "data" image_data: Option<BorrowedText<'a>>,
        "mime_type" mime_type: Option<BorrowedText<'a>>,
        "metadata" metadata: Option<BorrowedText<'a>>,
        "is_error" is_error: Option<bool>,
        "reason" reason: Option<BorrowedText<'a>>,
        "message" message: Option<BorrowedText<'a>>,
        "details" details: Option<BorrowedText<'a>>,
        "url" url: Option<BorrowedText<'a>>,
        "Path" path: Option<BorrowedText<'a>>,
        "MIMEType" attached_type: Option<BorrowedText<'a>>,
        "Data" attached_data: Option<BorrowedText<'a>>,
        "command" command: Option<BorrowedText<'a>>,
        "output" output: Option<BorrowedText<'a>>,
        "exit_code" exit_code: Option<f64>,
    }
}

/// Adds the parts of a message to it.
pub(super) struct PartReader<'a> {
    /// Names of the tools that were called so far in the session, by call.
    pub(super) tools: &'a mut HashMap<String, String>,
    /// The message, with everything but its content.
    pub(super) message: Message,
    attachments: Vec<Extensions>,
    /// Shell commands that a person ran: the command and its output.
    commands: Vec<(String, Option<String>)>,
}

impl<'a> PartReader<'a> {
    /// Creates a reader for the parts of one message.
    pub(super) fn new(tools: &'a mut HashMap<String, String>, message: Message) -> Self {
        Self { tools, message, attachments: Vec::new(), commands: Vec::new() }
    }

    /// Adds one part.
    pub(super) fn add_part(&mut self, raw: &RawValue) {
        let part = json::parse_json::<CrushPart<'_>>(raw.get()).unwrap_or_default();
        let kind = part.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        let Some(data) = part.data else {
            return self.message.blocks.push(Block::Other(Json::from(raw)));
        };
        match kind.as_str() {
            "text" => self.add_text(data.text, Block::Text),
            "reasoning" => self.add_text(data.thinking, Block::Thinking),
            "tool_call" => self.add_call(data),
            "tool_result" => self.add_result(data),
            "finish" => self.add_finish(data),
            "image_url" => {
                let location = owned_if_present(data.url);
                self.message.blocks.push(Block::Image(Image { location, ..Image::default() }));
            }
            "binary" => self.add_attachment(data),
            "shell_command" => self.add_command(data),
            _ => self.message.blocks.push(Block::Other(Json::from(raw))),
        }
    }

    fn add_text(&mut self, text: Option<BorrowedText<'_>>, block: fn(String) -> Block) {
        self.message.blocks.extend(owned_if_present(text).map(block));
    }

    fn add_call(&mut self, data: CrushPartData<'_>) {
        let id = data.id.map(BorrowedText::into_owned).unwrap_or_default();
        let name = data.name.map(BorrowedText::into_owned).unwrap_or_default();
        self.tools.insert(id.clone(), name.clone());
        let input = data.input.map(BorrowedText::into_owned).unwrap_or_default();
        let input = json::json_as_recorded(&input);
        self.message.blocks.push(Block::ToolCall { id, name, input });
    }

    fn add_result(&mut self, data: CrushPartData<'_>) {
        let call_id = data.call_id.map(BorrowedText::into_owned).unwrap_or_default();
        let output = data.content.map(BorrowedText::into_owned).unwrap_or_default();
        let is_shell = self.tools.get(&call_id).is_some_and(|tool| tool == SHELL_TOOL);
        let is_error = match data.is_error {
            Some(true) => Some(true),
            // The shell tool returns a failed command like any other.
            _ if is_shell && reports_failure(&output) => Some(true),
            // The field is left out when it is false.
            _ => Some(false),
        };
        self.message.blocks.push(Block::ToolResult { call_id, output, is_error });
        let mime = owned_if_present(data.mime_type).filter(|mime| mime.starts_with("image/"));
        let image = mime.zip(owned_if_present(data.image_data));
        let image = image.map(|(mime, data)| Image::from_base64(Some(mime), &data));
        self.message.blocks.extend(image.map(Block::Image));
        let details = owned_if_present(data.metadata);
        let details = details.and_then(|text| {
            let raw: &RawValue = serde_json::from_str(&text).ok()?;
            json::small_parts(raw)
        });
        let details = details.map(|details| ("metadata".to_owned(), details));
        self.message.extensions.extend(details);
    }

    fn add_finish(&mut self, data: CrushPartData<'_>) {
        let reason = owned_if_present(data.reason);
        self.message.failed |= matches!(reason.as_deref(), Some("canceled" | "error"));
        if self.message.role == Role::Assistant {
            self.message.stop_reason = reason.or(self.message.stop_reason.take());
        }
        let texts = [owned_if_present(data.message), owned_if_present(data.details)];
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        if !texts.is_empty() {
            let error = Json::from_value(&texts.join(": "));
            self.message.extensions.insert("error".to_owned(), error);
            if self.message.failed && self.message.blocks.is_empty() {
                self.message.blocks.push(Block::Text(texts.join(": ")));
            }
        }
    }

    fn add_attachment(&mut self, data: CrushPartData<'_>) {
        let mime = owned_if_present(data.attached_type);
        let path = owned_if_present(data.path);
        if mime.as_ref().is_some_and(|mime| mime.starts_with("image/")) {
            let data = data.attached_data.map(BorrowedText::into_owned).unwrap_or_default();
            let image = Image::from_base64(mime, &data);
            return self.message.blocks.push(Block::Image(Image { location: path, ..image }));
        }
        let path = path.map(|path| ("path".to_owned(), Json::from_value(&path)));
        self.attachments.push(path.into_iter().collect());
    }

    fn add_command(&mut self, data: CrushPartData<'_>) {
        let exit = data.exit_code.filter(|exit| *exit != 0.0);
        let exit = exit.map(|exit| ("exit_code".to_owned(), Json::from_value(&exit)));
        self.message.extensions.extend(exit);
        let command = data.command.map(BorrowedText::into_owned).unwrap_or_default();
        self.commands.push((command, owned_if_present(data.output)));
    }

    /// Returns the message, preceded by the shell commands that a person ran. Empty when there was
    /// no content.
    pub(super) fn into_messages(mut self) -> Vec<Message> {
        if !self.attachments.is_empty() {
            let attachments = Json::from_value(&self.attachments);
            self.message.extensions.insert(ATTACHMENTS.to_owned(), attachments);
        }
        let mut messages = Vec::new();
        for (command, output) in self.commands {
            let at = self.message.at;
            let text = |text: String, origin: Origin| Message {
                role: Role::User,
                origin,
                at,
                blocks: vec![Block::Text(text)],
                ..Message::default()
            };
            messages.push(text(format!("!{command}"), Origin::Command));
            messages.extend(output.map(|output| text(output, Origin::Injected)));
        }
        // A reply without content is a call that failed or was interrupted.
        let is_empty = self.message.blocks.is_empty()
            && !self.message.extensions.contains_key(ATTACHMENTS)
            && self.message.role != Role::Assistant;
        match messages.first_mut() {
            Some(first) if is_empty => {
                first.uuid = self.message.uuid;
                first.extensions = self.message.extensions;
            }
            _ if is_empty => {}
            _ => messages.push(self.message),
        }
        messages
    }
}

/// Returns whether the output of the shell tool reports a failed command.
fn reports_failure(output: &str) -> bool {
    let mut last = output.lines().rev().filter(|line| !line.trim().is_empty()).take(3);
    last.any(|line| {
        let code = line.trim().strip_prefix(EXIT_CODE);
        code.is_some_and(|code| code.parse::<i64>().is_ok_and(|code| code != 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_reported_near_the_end_of_its_output() {
        assert!(reports_failure("\nls: no such file\nExit code 2\n\n<cwd>/pots</cwd>"));
        assert!(reports_failure("Exit code 127"));
        assert!(!reports_failure("Exit code 2\nwas expected\nby\nthe test"));
        assert!(!reports_failure("Exit code 0"));
    }
}
