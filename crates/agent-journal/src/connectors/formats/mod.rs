//! Shapes that several agents share. Nothing here knows an agent.

pub mod chats;
pub mod copilot_events;
pub mod copilot_store;
pub mod files;
pub mod fold;
pub mod genai;
mod glance;
pub mod glob;
pub mod json;
pub mod jsonl;
pub mod large;
pub mod parents;
pub mod sight;
pub mod sqlite;
pub mod vscode;

pub use crate::model::sha256;
