//! What is a session? The words every other module speaks: an agent's session is a list of
//! messages, a message is a list of blocks, and a message may carry the usage of one model call.
//! Nothing here knows an agent, opens a file or asks a database.

mod bill;
mod block;
mod bound;
mod edits;
mod facts;
mod json;
mod mcp;
mod message;
mod session;
pub mod sha256;
mod source;
mod time;
mod tools;
mod usage;
mod workspace;

pub use bill::{Bill, BilledModel};
pub use block::{Block, Image};
pub(crate) use bound::{JoinedBlocks, MAX_BLOCKS, few_blocks, first_blocks};
pub use edits::{Edit, EditLine, edits};
pub(crate) use facts::hash as call_hash;
pub use facts::{Call, Counts, Facts, Failure, QUARTER};
pub use json::Json;
pub use mcp::McpServer;
pub(crate) use message::{ATTACHMENTS, attachment_names};
pub use message::{Message, Origin, Role};
pub use session::{
    Continuation, Kind, Provenance, Ref, Session, SessionId, Summary, Title, TitleRank,
};
pub use source::{Checkpoint, Source, Stamp};
pub use time::Timestamp;
pub(crate) use tools::{AGENT_FAILURE, changed_files};
pub use tools::{ASK_USER, failure_name, tool_name};
pub use usage::{ModelCall, Tokens, Usage, unmarked};
pub use workspace::{FOUND_DIR, PROJECT_DIR, decoded, encoded};

use std::collections::BTreeMap;

/// What a format records beyond the model, kept under the names the format uses.
pub type Extensions = BTreeMap<String, Json>;
