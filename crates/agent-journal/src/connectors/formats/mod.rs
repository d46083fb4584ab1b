//! Shapes that several agents share. Nothing here knows an agent.

pub mod files;
pub mod glob;
pub mod json;
pub mod jsonl;
pub mod sqlite;
