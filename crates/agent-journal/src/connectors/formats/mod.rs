//! Shapes that several agents share. Nothing here knows an agent.

pub mod files;
pub mod json;
pub mod jsonl;
pub mod sqlite;
pub mod vscode;
