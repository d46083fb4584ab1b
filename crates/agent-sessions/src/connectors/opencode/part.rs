//! The parts of a message: texts, reasoning, tool calls with their results, and attached files.

use serde_json::value::RawValue;

use super::document::{OpenCodeTime, millis_to_time};
use super::step::{StepMessages, ToolOutcome, ToolUse};
use crate::connectors::formats::json::{self, BorrowedText, lenient, owned_if_present};
use crate::model::{Block, Image, Json};

lenient! {
    /// One part of a message.
    struct OpenCodePart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "synthetic" is_synthetic: Option<bool>,
        "ignored" is_ignored: Option<bool>,
        "callID" call_id: Option<BorrowedText<'a>>,
        "tool" tool: Option<BorrowedText<'a>>,
        "state" state: Option<OpenCodeToolState<'a>>,
        "mime" mime: Option<BorrowedText<'a>>,
        "mediaType" media_type: Option<BorrowedText<'a>>,
        "filename" filename: Option<BorrowedText<'a>>,
        "url" url: Option<BorrowedText<'a>>,
        "source" source: Option<OpenCodeFileSource<'a>>,
        "files" files: Option<Vec<BorrowedText<'a>>>,
        "name" name: Option<BorrowedText<'a>>,
        "prompt" prompt: Option<BorrowedText<'a>>,
        "agent" agent: Option<BorrowedText<'a>>,
        "command" command: Option<BorrowedText<'a>>,
        "auto" is_automatic: Option<bool>,
        "toolInvocation" invocation: Option<OpenCodeInvocation<'a>>,
    }
}

lenient! {
    /// The state of a tool call, which holds its input and its result.
    struct OpenCodeToolState<'a> {
        "status" status: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "output" output: Option<BorrowedText<'a>>,
        "error" error: Option<BorrowedText<'a>>,
        "metadata" metadata: Option<&'a RawValue>,
        "time" time: Option<OpenCodeTime>,
        "attachments" attachments: Option<Vec<OpenCodePart<'a>>>,
    }
}

lenient! {
    /// A tool call of the first versions.
    struct OpenCodeInvocation<'a> {
        "toolCallId" call_id: Option<BorrowedText<'a>>,
        "toolName" tool: Option<BorrowedText<'a>>,
        "args" input: Option<&'a RawValue>,
        "result" output: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The origin of an attached file.
    struct OpenCodeFileSource<'a> {
        "path" path: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The metadata of a result that tell whether the call failed.
    struct OpenCodeToolDetails<'a> {
        "exit" exit: Option<f64>,
        "error" error: Option<bool>,
        "output" output: Option<BorrowedText<'a>>,
    }
}

/// A part with its id, as recorded.
pub(super) struct RecordedPart {
    /// Id of the part, if it has one.
    pub(super) id: Option<String>,
    /// The part as recorded.
    pub(super) text: String,
}

impl RecordedPart {
    /// Parses the part. `None` when it is not a JSON object.
    pub(super) fn parse_part(&self) -> Option<OpenCodePart<'_>> {
        json::parse_json(&self.text)
    }

    /// Returns the part as recorded.
    pub(super) fn as_recorded(&self) -> Json {
        json::json_as_recorded(&self.text)
    }
}

impl OpenCodePart<'_> {
    /// Returns the type of the part.
    pub(super) fn part_type(&self) -> &str {
        self.kind.as_ref().map_or("", BorrowedText::as_borrowed_str)
    }
}

/// Adds the parts of a reply to the messages of its step.
pub(super) fn add_reply_parts(
    parts: &[RecordedPart],
    tools: &[ToolDetails<'_>],
    step: &mut StepMessages,
) {
    for part in parts {
        add_reply_part(part, tools, step);
    }
}

fn add_reply_part(part: &RecordedPart, tools: &[ToolDetails<'_>], step: &mut StepMessages) {
    let Some(parsed) = part.parse_part() else {
        return step.push_block(Block::Other(part.as_recorded()));
    };
    match parsed.part_type() {
        "text" => step.extend_blocks(owned_if_present(parsed.text).map(Block::Text)),
        "reasoning" => step.extend_blocks(owned_if_present(parsed.text).map(Block::Thinking)),
        "tool" => step.push_tool(tool_use(part, parsed)),
        "tool-invocation" if parsed.invocation.is_some() => {
            step.extend_tools(parsed.invocation.map(|call| invoked_tool(call, tools)));
        }
        "file" => match image_of_file(&parsed) {
            Some(image) => step.push_block(Block::Image(image)),
            None => step.push_block(Block::Other(part.as_recorded())),
        },
        "step-start" => step.begin_step(part.id.clone()),
        "retry" => step.keep_extension("retry", json_of_part(part)),
        // Figures and snapshots that the message or the session repeats.
        "step-finish" | "snapshot" | "patch" => {}
        _ => step.push_block(Block::Other(part.as_recorded())),
    }
}

fn json_of_part(part: &RecordedPart) -> Option<Json> {
    serde_json::from_str::<&RawValue>(&part.text).ok().and_then(json::small_parts)
}

/// Returns the tool call of a part, with its result.
fn tool_use(part: &RecordedPart, parsed: OpenCodePart<'_>) -> ToolUse {
    let state = parsed.state.unwrap_or_default();
    let details: OpenCodeToolDetails<'_> =
        state.metadata.and_then(|raw| json::parse_json(raw.get())).unwrap_or_default();
    let status = state.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let time = state.time.unwrap_or_default();
    let is_running = matches!(status, "pending" | "running");
    let mut outputs = Vec::new();
    if !is_running {
        outputs.extend(owned_if_present(state.error));
        let is_failed = status == "error";
        outputs.extend(owned_if_present(state.output));
        // A call that was interrupted keeps what the tool had printed.
        outputs.extend(owned_if_present(details.output).filter(|_| is_failed));
    }
    let is_error = match status {
        "error" => Some(true),
        "completed" => Some(details.exit.is_some_and(|exit| exit != 0.0)),
        _ => None,
    };
    let images = state.attachments.unwrap_or_default();
    let outcome = (is_error.is_some() || !outputs.is_empty()).then(|| ToolOutcome {
        output: outputs.join("\n"),
        is_error,
        images: images.iter().filter_map(image_of_file).map(Block::Image).collect(),
        at: time.end.or(time.start).and_then(millis_to_time),
        details: state.metadata.and_then(small_details),
    });
    ToolUse {
        uuid: part.id.clone(),
        call_id: parsed.call_id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: parsed.tool.map(BorrowedText::into_owned).unwrap_or_default(),
        input: state.input.map_or_else(|| Json::from_value(&()), Json::from),
        outcome,
    }
}

/// Keeps the metadata of a result, except the copy of its output.
pub(super) fn small_details(raw: &RawValue) -> Option<Json> {
    let mut fields = json::object_fields(raw)?;
    fields.retain(|(key, value)| {
        !matches!(&**key, "output" | "preview" | "time" | "truncated")
            && !matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}")
    });
    let fields: std::collections::BTreeMap<_, _> = fields.into_iter().collect();
    let kept = Json::from_value(&fields);
    let raw: &RawValue = serde_json::from_str(kept.as_json_str()).ok()?;
    json::small_parts(raw).filter(|_| !fields.is_empty())
}

/// Details about a tool call that the first versions recorded in the message's metadata.
pub(super) struct ToolDetails<'a> {
    /// Id of the call.
    pub(super) call_id: String,
    /// The details.
    pub(super) raw: &'a RawValue,
}

fn invoked_tool(call: OpenCodeInvocation<'_>, tools: &[ToolDetails<'_>]) -> ToolUse {
    let call_id = call.call_id.map(BorrowedText::into_owned).unwrap_or_default();
    let raw = tools.iter().find(|one| one.call_id == call_id).map(|one| one.raw);
    let details: OpenCodeToolDetails<'_> =
        raw.and_then(|raw| json::parse_json(raw.get())).unwrap_or_default();
    let failed = details.error == Some(true) || details.exit.is_some_and(|exit| exit != 0.0);
    lenient! {
        struct OpenCodeInvocationTime {
            "time" time: Option<OpenCodeTime>,
        }
    }
    let time = raw.and_then(|raw| json::parse_json::<OpenCodeInvocationTime>(raw.get()));
    let time = time.and_then(|details| details.time).unwrap_or_default();
    let outcome = call.output.map(|output| ToolOutcome {
        output: output.into_owned(),
        is_error: failed.then_some(true),
        images: Vec::new(),
        at: time.end.or(time.start).and_then(millis_to_time),
        details: raw.and_then(small_details),
    });
    ToolUse {
        uuid: None,
        call_id,
        name: call.tool.map(BorrowedText::into_owned).unwrap_or_default(),
        input: call.input.map_or_else(|| Json::from_value(&()), Json::from),
        outcome,
    }
}

/// Returns the image of a file part. `None` for any other file.
pub(super) fn image_of_file(part: &OpenCodePart<'_>) -> Option<Image> {
    let mime = part.mime.as_ref().or(part.media_type.as_ref())?.as_borrowed_str();
    image_from_url(mime, part.url.as_ref()?.as_borrowed_str())
}

/// Returns the image behind a URL: its bytes if the URL holds them, else its location.
pub(super) fn image_from_url(mime: &str, url: &str) -> Option<Image> {
    if !mime.starts_with("image/") {
        return None;
    }
    let media_type = Some(mime.to_owned());
    Some(match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((_, data)) => Image::from_base64(media_type, data),
        None if url.starts_with("data:") => Image { media_type, ..Image::default() },
        None => Image { media_type, location: Some(url.to_owned()), ..Image::default() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_held_by_its_url_or_named_by_it() {
        let held = image_from_url("image/png", "data:image/png;base64,AAEC").unwrap();
        assert_eq!((held.bytes, held.location), (3, None));
        let named = image_from_url("image/png", "file:///pots/bowl.png").unwrap();
        assert_eq!(named.location.as_deref(), Some("file:///pots/bowl.png"));
        assert_eq!(image_from_url("text/plain", "file:///pots/notes.txt"), None);
    }
}
