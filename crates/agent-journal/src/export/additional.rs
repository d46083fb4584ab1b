//! Fields that this version of the schema does not know. A minor version only adds: what it adds
//! is kept among the extensions, by the object it stood in, and leaves again with them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::model::Json;

/// The name of these fields among the extensions.
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

/// The fields of an object as they were written.
type Fields = BTreeMap<String, Json>;

/// The same, unread.
type Raw<'r> = BTreeMap<String, &'r RawValue>;

fn parsed<'r, T: serde::Deserialize<'r>>(raw: &'r RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns the fields of a block type that is known; blocks of other types are kept whole.
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

/// Unknown fields, gathered by the object they stood in.
#[derive(Default)]
struct Gathered(Fields);

impl Gathered {
    /// Adds what is left of an object without the fields that are known, and returns all of them.
    fn add<'r>(&mut self, place: &str, object: Option<&'r RawValue>, known: &[&str]) -> Raw<'r> {
        let fields: Raw<'r> = object.and_then(parsed).unwrap_or_default();
        let is_unknown = |name: &str| !known.contains(&name);
        let unknown = fields.iter().filter(|(name, _)| is_unknown(name));
        let unknown: Fields =
            unknown.map(|(name, value)| (name.clone(), Json::from(*value))).collect();
        if !unknown.is_empty() {
            self.0.insert(place.to_owned(), Json::from_value(&unknown));
        }
        fields
    }

    fn keep(self, extensions: &mut Fields) {
        if !self.0.is_empty() {
            extensions.insert(ADDITIONAL.to_owned(), Json::from_value(&self.0));
        }
    }
}

/// The unknown fields of a message's blocks, by the number of the block.
#[derive(Default)]
pub(super) struct BlockFields(Gathered);

impl BlockFields {
    /// Keeps the unknown fields of a block.
    pub(super) fn keep(&mut self, number: usize, block: &RawValue) {
        let kind = parsed::<BlockType>(block).map(|block| block.kind);
        if let Some(known) = kind.as_deref().and_then(known_of_block) {
            self.0.add(&number.to_string(), Some(block), known);
        }
    }
}

/// Keeps the unknown fields of a message among its extensions.
pub(super) fn keep_of_message(raw: &RawValue, blocks: BlockFields, extensions: &mut Fields) {
    let mut gathered = Gathered::default();
    let message = gathered.add("message", Some(raw), &MESSAGE);
    let metadata = gathered.add("metadata", message.get("metadata").copied(), &METADATA);
    gathered.add("model", metadata.get("model").copied(), &MODEL);
    gathered.add("token_usage", metadata.get("token_usage").copied(), &TOKEN_USAGE);
    let BlockFields(blocks) = blocks;
    if !blocks.0.is_empty() {
        gathered.0.insert("content".to_owned(), Json::from_value(&blocks.0));
    }
    gathered.keep(extensions);
}

/// Keeps the unknown fields of a session among its extensions.
pub(super) fn keep_of_session(raw: &RawValue, extensions: &mut Fields) {
    let mut gathered = Gathered::default();
    let session = gathered.add("session", Some(raw), &SESSION);
    gathered.add("source", session.get("source").copied(), &SOURCE);
    gathered.keep(extensions);
}

/// Keeps the unknown fields of a document as a whole among the extensions of its session.
pub(super) fn keep_of_document(fields: &Fields, extensions: &mut Fields) {
    if fields.is_empty() {
        return;
    }
    let mut all: Fields = extensions.get(ADDITIONAL).and_then(Json::parse).unwrap_or_default();
    all.insert("document".to_owned(), Json::from_value(fields));
    extensions.insert(ADDITIONAL.to_owned(), Json::from_value(&all));
}
