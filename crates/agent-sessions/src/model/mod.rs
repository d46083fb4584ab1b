//! The data model that all other modules share. A session is a list of messages, a message is a
//! list of blocks, and a message may have the usage of one model call. Nothing here depends on an
//! agent, opens a file or queries a database.

mod bill;
mod block;
mod bound;
mod edits;
mod facts;
mod json;
mod mcp;
mod message;
mod session;
#[doc(hidden)]
pub mod sha256;
mod source;
mod status;
mod time;
mod tools;
mod usage;
mod workspace;

pub use bill::{Bill, BilledModel};
pub use block::{Block, Image};
pub use edits::{EditLine, FileEdit, edits_of_message};
pub use facts::{FailureFact, MessageFacts, QUARTER, SessionCounts, ToolCallFact};
pub use json::Json;
pub use mcp::McpServer;
pub use message::{Message, Origin, Role};
pub use session::{
    Continuation, Provenance, Ref, Session, SessionId, SessionKind, Summary, Title, TitleRank,
};
pub use source::{Checkpoint, Source, Stamp};
pub use status::SessionStatus;
pub use time::Timestamp;
pub use tools::{ASK_USER, failure_name, tool_name};
pub use usage::{ModelCall, Tokens, Usage, split_speed_mark};
pub use workspace::{FOUND_DIR, PROJECT_DIR, decode_path_from_name, encode_path_as_name};

// For `agent-journal`, not part of the interface.
#[doc(hidden)]
pub use self::{
    bound::{JoinedBlocks, MAX_BLOCKS, first_blocks},
    facts::fact_id_hash as call_hash,
    message::{ATTACHMENTS, attachment_names},
    status::RUNNING_WINDOW_MS,
    tools::{AGENT_FAILURE, files_changed_by_call},
};

use std::collections::BTreeMap;

/// Fields of a format that the model does not have, under the names the format uses.
pub type Extensions = BTreeMap<String, Json>;
