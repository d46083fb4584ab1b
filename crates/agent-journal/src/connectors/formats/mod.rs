//! Shapes that several agents share. Nothing here knows an agent.

pub mod copilot_events;
pub mod copilot_store;
pub mod files;
pub mod json;
pub mod jsonl;
pub mod sqlite;
pub mod vscode;
