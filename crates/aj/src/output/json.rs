//! JSON output: every document names its schema, and long ones are written piece by piece.

use std::io::Write;

use agent_journal::analyze::SessionFigures;
use agent_journal::model::{Block, Message};
use agent_journal::{Entry, Touches};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

/// Prints one document with its schema.
pub(crate) fn print_document(schema: &str, mut document: Value) -> Result<()> {
    document["schema"] = format!("aj.{schema}/1").into();
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Converts a session to JSON: its listing and its cost. `tokens`, `cost` and `counts` are those of
/// the session alone; `with_subagents` has the same figures including its sub-agents.
/// `not_in_transcript` is the part that no message records, where there is one.
pub(crate) fn session_json(entry: &Entry, figures: &SessionFigures) -> Result<Value> {
    const TASK: [&str; 9] = [
        "prompts",
        "messages",
        "tool_calls",
        "tool_results",
        "tool_errors",
        "model_calls",
        "tokens",
        "cost",
        "not_in_transcript",
    ];
    let mut document = serde_json::to_value(entry)?;
    document["cost"] = serde_json::to_value(figures.own.cost)?;
    if !figures.own.not_in_transcript.has_no_tokens() {
        document["not_in_transcript"] = serde_json::to_value(figures.own.not_in_transcript)?;
    }
    let mut whole = serde_json::to_value(&figures.with_subagents)?;
    if let Some(whole) = whole.as_object_mut() {
        whole.retain(|name, _| TASK.contains(&name.as_str()));
        whole.insert("subagents".to_owned(), figures.subagents.into());
    }
    document["with_subagents"] = whole;
    Ok(document)
}

/// Converts the documents of a session to JSON.
pub(crate) fn documents_json(documents: &[(String, String)]) -> Value {
    documents.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect()
}

/// Converts the files that a session touched to JSON.
pub(crate) fn touched_files_json(files: &[(String, Touches)]) -> Value {
    let file = |(path, touches): &(String, Touches)| {
        let Touches { viewed, edited, created } = touches;
        json!({ "path": path, "viewed": viewed, "edited": edited, "created": created })
    };
    files.iter().map(file).collect()
}

/// Writes a session and its messages as one JSON document, a message at a time.
pub(crate) struct SessionJsonStream<W: Write> {
    out: W,
    first: bool,
}

impl<W: Write> SessionJsonStream<W> {
    pub(crate) fn begin_stream(mut out: W, schema: &str, session: &Value) -> Result<Self> {
        write!(out, "{{\"schema\":\"aj.{schema}/1\",\"session\":{session},\"messages\":[")?;
        Ok(Self { out, first: true })
    }

    pub(crate) fn write_json_message(&mut self, position: u64, message: &Message) -> Result<()> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        write!(
            self.out,
            "{comma}{}",
            serde_json::to_string(&MessageJson::from_message(position, message))?
        )?;
        Ok(())
    }

    pub(crate) fn end_stream(mut self) -> Result<()> {
        writeln!(self.out, "\n]}}")?;
        self.out.flush()?;
        Ok(())
    }
}

/// A message in JSON output.
#[derive(Serialize)]
pub(crate) struct MessageJson<'m> {
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_uuid: Option<&'m str>,
    role: &'static str,
    origin: agent_journal::model::Origin,
    timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'m str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_sidechain: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'static str>,
    content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<agent_journal::model::Tokens>,
}

impl<'m> MessageJson<'m> {
    pub(crate) fn from_message(position: u64, message: &'m Message) -> Self {
        Self {
            index: position + 1,
            uuid: message.uuid.as_deref(),
            parent_uuid: message.parent.as_deref(),
            role: message.role.role_name(),
            origin: message.origin,
            timestamp: message.at.map(|at| at.to_string()),
            model: message.model.as_deref(),
            is_sidechain: message.sidechain,
            is_error: message.failed,
            recording: message.imported.then_some("imported"),
            content: message.blocks.iter().map(block_json).collect(),
            tokens: message.usage.as_ref().map(|usage| usage.tokens),
        }
    }
}

fn block_json(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Thinking(text) => json!({ "type": "thinking", "thinking": text }),
        Block::ToolCall { id, name, input } => {
            json!({ "type": "tool_use", "tool_id": id, "tool_name": name, "input": input })
        }
        Block::ToolResult { call_id, output, is_error } => {
            json!({ "type": "tool_result", "tool_id": call_id, "output": output, "is_error": is_error })
        }
        Block::Image(image) => json!({ "type": "image", "image": image }),
        Block::Other(raw) => json!({ "type": "other", "raw": raw }),
    }
}
