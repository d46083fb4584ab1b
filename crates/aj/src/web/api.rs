//! The JSON API.

use std::sync::Arc;

use axum::Router;

use super::state::App;

/// Its addresses.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
