//! The fast lane: a stored message becomes a line of the document without its texts being read.
//! Strings that the journal wrote are passed on as they lie there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::schema::{self, Metadata, Role};
use super::shape::Shaper;
use crate::model::{self, Extensions, Json, Origin, Timestamp, Usage};

/// A message as the journal has it, its texts unread.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored<'l> {
    uuid: Option<String>,
    part_uuids: Vec<String>,
    parent: Option<String>,
    role: model::Role,
    origin: Origin,
    at: Option<Timestamp>,
    model: Option<String>,
    api_id: Option<String>,
    request_id: Option<String>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
    // A message with more blocks takes the slow lane, which joins them.
    #[serde(borrow, deserialize_with = "model::few_blocks")]
    blocks: Vec<StoredBlock<'l>>,
    cwd: Option<String>,
    branch: Option<String>,
    agent_version: Option<String>,
    sidechain: bool,
    failed: bool,
    imported: bool,
    extensions: Extensions,
}

/// A part of it; pictures are left to the slow lane, which can fetch them.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBlock<'l> {
    #[serde(borrow)]
    Text(&'l RawValue),
    #[serde(borrow)]
    Thinking(&'l RawValue),
    ToolCall {
        id: String,
        name: String,
        #[serde(borrow)]
        input: &'l RawValue,
    },
    ToolResult {
        call_id: String,
        #[serde(borrow)]
        output: &'l RawValue,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(borrow)]
    Other(&'l RawValue),
}

/// The line of the document: field by field what [`schema::Message`] is.
#[derive(Serialize)]
struct Line<'l> {
    index: u64,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    role: Role,
    timestamp: Option<Timestamp>,
    content: Vec<LineBlock<'l>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extensions: BTreeMap<String, Json>,
}

/// Field by field what [`schema::Block`] is.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum LineBlock<'l> {
    Text { text: &'l RawValue },
    ToolUse { tool_id: String, tool_name: String, input: &'l RawValue },
    ToolResult { tool_id: String, tool_name: String, output: &'l RawValue, is_error: bool },
    Thinking { thinking: &'l RawValue },
    Other { raw: &'l RawValue },
}

impl Shaper<'_> {
    /// Gives a stored message its shape as a line, appended to `out`; whether it could.
    pub(super) fn line(&mut self, position: u64, stored: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(stored) = serde_json::from_slice::<Stored<'_>>(stored) else { return false };
        let Stored { blocks, .. } = stored;
        let message = model::Message {
            uuid: stored.uuid,
            part_uuids: stored.part_uuids,
            parent: stored.parent,
            role: stored.role,
            origin: stored.origin,
            at: stored.at,
            model: stored.model,
            api_id: stored.api_id,
            request_id: stored.request_id,
            stop_reason: stored.stop_reason,
            usage: stored.usage,
            blocks: Vec::new(),
            cwd: stored.cwd,
            branch: stored.branch,
            agent_version: stored.agent_version,
            sidechain: stored.sidechain,
            failed: stored.failed,
            imported: stored.imported,
            extensions: stored.extensions,
        };
        let shaped: schema::Message = self.message(position, message);
        let line = Line {
            index: shaped.index,
            uuid: shaped.uuid,
            parent_uuid: shaped.parent_uuid,
            role: shaped.role,
            timestamp: shaped.timestamp,
            content: blocks.into_iter().map(|block| self.line_block(block)).collect(),
            metadata: shaped.metadata,
            extensions: shaped.extensions,
        };
        serde_json::to_writer(out, &line).is_ok()
    }

    fn line_block<'l>(&mut self, block: StoredBlock<'l>) -> LineBlock<'l> {
        match block {
            StoredBlock::Text(text) => LineBlock::Text { text },
            StoredBlock::Thinking(thinking) => LineBlock::Thinking { thinking },
            StoredBlock::ToolCall { id, name, input } => {
                self.called(&id, &name);
                LineBlock::ToolUse { tool_id: id, tool_name: name, input }
            }
            StoredBlock::ToolResult { call_id, output, is_error } => LineBlock::ToolResult {
                tool_name: self.name_of(&call_id),
                tool_id: call_id,
                output,
                is_error: is_error.unwrap_or(false),
            },
            StoredBlock::Other(raw) => LineBlock::Other { raw },
        }
    }
}
