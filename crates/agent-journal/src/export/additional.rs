//! Fields that this version of the schema does not define. A minor version only adds fields. They
//! are kept among the extensions, grouped by the object that had them, and are exported again with
//! them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::model::Json;

/// The key of these fields among the extensions.
const ADDITIONAL: &str = "additional";

const SESSION: [&str; 10] = [
    "id",
    "workspace",
    "workspace_encoded",
    "started_at",
    "ended_at",
    "source",
    "is_agent_session",
    "parent_session_id",
    "agent_id",
    "extensions",
];
const SOURCE: [&str; 3] = ["type", "host", "path"];
const MESSAGE: [&str; 8] =
    ["index", "uuid", "parent_uuid", "role", "timestamp", "content", "metadata", "extensions"];
const METADATA: [&str; 9] = [
    "cwd",
    "git_branch",
    "agent_version",
    "user_type",
    "is_meta",
    "is_tool_result",
    "model",
    "token_usage",
    "request_id",
];
const MODEL: [&str; 3] = ["name", "stop_reason", "stop_sequence"];
const TOKEN_USAGE: [&str; 4] =
    ["input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens"];

/// The fields of a JSON object, as they were written.
type JsonFields = BTreeMap<String, Json>;

/// The fields of a JSON object, not parsed yet.
type RawFields<'r> = BTreeMap<String, &'r RawValue>;

fn parse_value<'r, T: serde::Deserialize<'r>>(raw: &'r RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns the fields of a known block type. Blocks of other types are kept complete.
fn known_of_block(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "text" => &["type", "text"],
        "thinking" => &["type", "thinking"],
        "tool_use" => &["type", "tool_id", "tool_name", "input"],
        "tool_result" => &["type", "tool_id", "tool_name", "output", "is_error"],
        "image" => &["type", "media_type", "bytes", "location", "hash", "data"],
        "other" => &["type", "raw"],
        _ => return None,
    })
}

#[derive(serde::Deserialize)]
struct BlockType {
    #[serde(rename = "type")]
    kind: String,
}

/// Unknown fields, grouped by the object that had them.
#[derive(Default)]
struct UnknownFields(JsonFields);

impl UnknownFields {
    /// Adds the fields of an object that are not in `known`, and returns all its fields.
    fn collect_unknown<'r>(
        &mut self,
        place: &str,
        object: Option<&'r RawValue>,
        known: &[&str],
    ) -> RawFields<'r> {
        let fields: RawFields<'r> = object.and_then(parse_value).unwrap_or_default();
        let is_unknown = |name: &str| !known.contains(&name);
        let unknown = fields.iter().filter(|(name, _)| is_unknown(name));
        let unknown: JsonFields =
            unknown.map(|(name, value)| (name.clone(), Json::from(*value))).collect();
        if !unknown.is_empty() {
            self.0.insert(place.to_owned(), Json::from_value(&unknown));
        }
        fields
    }

    fn move_to_extensions(self, extensions: &mut JsonFields) {
        if !self.0.is_empty() {
            extensions.insert(ADDITIONAL.to_owned(), Json::from_value(&self.0));
        }
    }
}

/// The unknown fields of a message's blocks, by block number.
#[derive(Default)]
pub(super) struct BlockFields(UnknownFields);

impl BlockFields {
    /// Adds the unknown fields of a block.
    pub(super) fn keep_block_fields(&mut self, number: usize, block: &RawValue) {
        let kind = parse_value::<BlockType>(block).map(|block| block.kind);
        if let Some(known) = kind.as_deref().and_then(known_of_block) {
            self.0.collect_unknown(&number.to_string(), Some(block), known);
        }
    }
}

/// Stores the unknown fields of a message among its extensions.
pub(super) fn keep_of_message(raw: &RawValue, blocks: BlockFields, extensions: &mut JsonFields) {
    let mut gathered = UnknownFields::default();
    let message = gathered.collect_unknown("message", Some(raw), &MESSAGE);
    let metadata =
        gathered.collect_unknown("metadata", message.get("metadata").copied(), &METADATA);
    gathered.collect_unknown("model", metadata.get("model").copied(), &MODEL);
    gathered.collect_unknown("token_usage", metadata.get("token_usage").copied(), &TOKEN_USAGE);
    let BlockFields(blocks) = blocks;
    if !blocks.0.is_empty() {
        gathered.0.insert("content".to_owned(), Json::from_value(&blocks.0));
    }
    gathered.move_to_extensions(extensions);
}

/// Stores the unknown fields of a session among its extensions.
pub(super) fn keep_of_session(raw: &RawValue, extensions: &mut JsonFields) {
    let mut gathered = UnknownFields::default();
    let session = gathered.collect_unknown("session", Some(raw), &SESSION);
    gathered.collect_unknown("source", session.get("source").copied(), &SOURCE);
    gathered.move_to_extensions(extensions);
}

/// Stores the unknown fields of the document itself among the extensions of its session.
pub(super) fn keep_of_document(fields: &JsonFields, extensions: &mut JsonFields) {
    if fields.is_empty() {
        return;
    }
    let mut all: JsonFields =
        extensions.get(ADDITIONAL).and_then(Json::parse_as).unwrap_or_default();
    all.insert("document".to_owned(), Json::from_value(fields));
    extensions.insert(ADDITIONAL.to_owned(), Json::from_value(&all));
}
