//! Readers for file formats that several agents share. The code here is independent of the agent.
//! It is public for `agent-journal` and for tests; it is not part of the interface and may change.

pub mod chats;
pub mod copilot_events;
pub mod copilot_store;
mod dir_stat;
pub mod documents;
pub mod files;
pub mod fold;
pub mod genai;
pub mod glob;
pub mod images;
pub mod json;
pub mod jsonl;
pub mod large;
pub mod md5;
pub mod open_step;
pub mod openai_chat;
pub mod parents;
pub mod pieces;
pub mod project_search;
pub mod protobuf;
pub mod rows;
pub mod scan_snapshot;
pub mod source_file;
pub mod sqlite;
pub mod vscode;

pub use crate::model::sha256;
