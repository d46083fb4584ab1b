//! The words in which every view describes the same thing: who wrote a message, the subject of a
//! tool call, how a result was found, and numbers, sizes, durations and costs.
//!
//! Terminal, dashboard, MCP server and exported documents take their words from here, so that a
//! session reads the same in all of them.

mod call;
mod numbers;
mod speaker;
mod tier;

pub(crate) use call::{CallDescription, CallPart, ChangedLines, NamedValue, describe_call};
pub use call::{call_subject, one_line};
pub use numbers::{
    amount, bytes, count, duration, known_duration, money, money_of_share, not_in_transcript,
    percent, plural, thousands, token_classes, tokens,
};
pub use speaker::{Speaker, text_kind_label};
pub use tier::{nothing_close_line, tier_label, tier_note};
