//! The JSON documents that commands print and the API returns.

pub(crate) mod stats;
