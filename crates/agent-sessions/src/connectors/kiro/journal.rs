//! One line of a journal `sessions/cli/<id>.jsonl`.

use serde_json::value::RawValue;

use super::lines::{ConvertedLine, KiroLinesState, tool_output_of_json};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp};

lenient! {
    struct JournalLine<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
        "data" data: Option<&'a RawValue>,
    }
}

lenient! {
    struct JournalData<'a> {
        "message_id" id: Option<BorrowedText<'a>>,
        "content" content: Option<Vec<&'a RawValue>>,
        "results" results: Option<&'a RawValue>,
        "meta" meta: Option<JournalMeta>,
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct JournalMeta {
        "timestamp" seconds: Option<f64>,
    }
}

lenient! {
    /// A part of a message. Its kind decides the type of its data.
    struct JournalPart<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
        "data" data: Option<&'a RawValue>,
    }
}

lenient! {
    struct JournalThinking<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "modelId" model: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct JournalToolUse<'a> {
        "toolUseId" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
    }
}

lenient! {
    struct JournalToolResult<'a> {
        "toolUseId" id: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "status" status: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct JournalImage<'a> {
        "source" source: Option<JournalImageSource<'a>>,
    }
}

lenient! {
    struct JournalImageSource<'a> {
        "media_type" media_type: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
    }
}

/// Converts a line.
pub(super) fn convert_line(bytes: &[u8], state: &mut KiroLinesState) -> ConvertedLine {
    let parsed = serde_json::from_slice(bytes).ok().or_else(|| json::parse_odd(bytes));
    let Some(JournalLine { kind, data }) = parsed else { return ConvertedLine::Unreadable };
    let kind = kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let data = data.and_then(|data| json::parse_json::<JournalData<'_>>(data.get()));
    let (role, origin) = match kind {
        "Prompt" => (Role::User, Origin::Human),
        "AssistantMessage" => (Role::Assistant, Origin::Assistant),
        "ToolResults" => (Role::Tool, Origin::Tool),
        "Compaction" => (Role::User, Origin::Summary),
        "ResetTo" => return ConvertedLine::PassedOver("return to an earlier message".to_owned()),
        _ => return ConvertedLine::Unknown,
    };
    let Some(data) = data else { return ConvertedLine::Unknown };
    state.has_prompt |= kind == "Prompt";
    let seconds = data.meta.and_then(|meta| meta.seconds);
    let mut message = Message { role, origin, ..Message::default() };
    message.at = seconds.and_then(|seconds| Timestamp::from_millis((seconds * 1000.0) as i64));
    let id = data.id.map(BorrowedText::into_owned);
    // A long reply is written in pieces that repeat its id.
    message.uuid = id.clone().filter(|_| id != state.last_id);
    state.last_id = id;
    let summary = data.summary.map(BorrowedText::into_owned).filter(|text| !text.is_empty());
    message.blocks.extend(summary.map(Block::Text));
    for part in data.content.into_iter().flatten() {
        push_part(part, &mut message);
    }
    if role == Role::Tool {
        push_other_results(data.results, &mut message.blocks);
    }
    if message.blocks.is_empty() {
        return ConvertedLine::PassedOver("a message without content".to_owned());
    }
    ConvertedLine::Message(Box::new(message))
}

fn push_part(raw: &RawValue, message: &mut Message) {
    let part = json::parse_json::<JournalPart<'_>>(raw.get()).unwrap_or_default();
    let kind = part.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let text = |data: &RawValue| serde_json::from_str::<String>(data.get()).ok();
    let block = part.data.and_then(|data| match kind {
        "text" => text(data).map(Block::Text),
        "thinking" => {
            let thinking = json::parse_json::<JournalThinking<'_>>(data.get())?;
            message.model = thinking.model.map(BorrowedText::into_owned).or(message.model.take());
            // What only the provider can read is not kept.
            let text = thinking.text.map(BorrowedText::into_owned).unwrap_or_default();
            Some(Block::Thinking(text))
        }
        "toolUse" => {
            json::parse_json::<JournalToolUse<'_>>(data.get()).map(|call| Block::ToolCall {
                id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
                name: call.name.map(BorrowedText::into_owned).unwrap_or_default(),
                input: call.input.map_or_else(|| Json::from_value(&()), Json::from),
            })
        }
        "image" => {
            let source = json::parse_json::<JournalImage<'_>>(data.get())?.source?;
            let media_type = source.media_type.map(BorrowedText::into_owned);
            let data = source.data?.into_owned();
            Some(Block::Image(Image::from_base64(media_type, &data)))
        }
        "toolResult" => {
            let result = json::parse_json::<JournalToolResult<'_>>(data.get())?;
            push_result(result, &mut message.blocks);
            Some(Block::Text(String::new()))
        }
        _ => None,
    });
    match block {
        Some(Block::Text(text) | Block::Thinking(text)) if text.is_empty() => {}
        Some(block) => message.blocks.push(block),
        None => message.blocks.push(Block::Other(Json::from(raw))),
    }
}

fn push_result(result: JournalToolResult<'_>, blocks: &mut Vec<Block>) {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    let mut has_failed = false;
    let parts = result
        .content
        .map(|content| json::array_elements(content).unwrap_or_else(|| vec![content]));
    for raw in parts.into_iter().flatten() {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            texts.push(text);
            continue;
        }
        let part = json::parse_json::<JournalPart<'_>>(raw.get()).unwrap_or_default();
        let kind = part.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        match (kind, part.data) {
            ("text", Some(data)) if data.get().starts_with('"') => {
                texts.extend(serde_json::from_str::<String>(data.get()).ok());
            }
            ("json", Some(data)) => {
                let output = tool_output_of_json(data);
                has_failed |= output.has_failed;
                texts.push(output.text);
            }
            _ => others.push(Block::Other(Json::from(raw))),
        }
    }
    let is_error = match result.status.as_ref().map(BorrowedText::as_borrowed_str) {
        Some("error") => Some(true),
        Some("success") => Some(has_failed),
        _ => has_failed.then_some(true),
    };
    let call_id = result.id.map(BorrowedText::into_owned).unwrap_or_default();
    blocks.push(Block::ToolResult { call_id, output: texts.join("\n"), is_error });
    blocks.append(&mut others);
}

/// Adds the results that only the map of results has.
fn push_other_results(results: Option<&RawValue>, blocks: &mut Vec<Block>) {
    lenient! {
        struct JournalOutcome<'a> {
            "result" result: Option<&'a RawValue>,
        }
    }
    let fields = results.and_then(json::object_fields);
    for (id, raw) in fields.into_iter().flatten() {
        let is_known = blocks.iter().any(|block| match block {
            Block::ToolResult { call_id, .. } => *call_id == id,
            _ => false,
        });
        let outcome = json::parse_json::<JournalOutcome<'_>>(raw.get()).filter(|_| !is_known);
        let Some(result) = outcome.and_then(|outcome| outcome.result) else { continue };
        let kind =
            json::object_fields(result).and_then(|fields| Some(fields.first()?.0.to_string()));
        let is_error = match kind.as_deref() {
            Some("Success") => Some(false),
            Some("Error") => Some(true),
            _ => None,
        };
        let output = Json::from(result).as_json_str().to_owned();
        blocks.push(Block::ToolResult { call_id: id.into_owned(), output, is_error });
    }
}
