//! The pages, one file each: a `show` that asks the journal, and the markup of the answer.

pub(super) mod analytics;
pub(super) mod insights;
pub(super) mod search;
pub(super) mod sessions;
pub(super) mod sources;
pub(super) mod transcript;

use axum::http::StatusCode;

use super::reply::Failure;

/// The answer to an address that leads nowhere.
pub(super) async fn missing() -> Failure {
    Failure { status: StatusCode::NOT_FOUND, message: "This address leads nowhere.".to_owned() }
}
