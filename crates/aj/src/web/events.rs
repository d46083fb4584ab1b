//! Server-sent events that report the sync status to open pages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};

use super::connections::Slot;
use super::state::{App, SyncStatus};

/// Shortest time between two events, so that the first sync does not flood the page.
const PAUSE: Duration = Duration::from_millis(200);

/// Streams the sync status until the page is closed or too many others are open: a browser
/// reconnects by itself.
pub(super) async fn stream_events(
    State(app): State<Arc<App>>,
    slot: Option<Extension<Arc<Slot>>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let news = app.subscribe_status();
    let end = slot.map(|Extension(slot)| slot.mark_streaming()).unwrap_or_default();
    let stream = stream::unfold((news, true), move |(mut news, is_first)| {
        let end = Arc::clone(&end);
        async move {
            if !is_first {
                let changed = async {
                    tokio::time::sleep(PAUSE).await;
                    news.changed().await.ok()
                };
                tokio::select! {
                    changed = changed => changed?,
                    () = end.notified() => return None,
                }
            }
            let now = *news.borrow_and_update();
            Some((Ok(status_event(now)), (news, false)))
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

fn status_event(news: SyncStatus) -> Event {
    let data =
        format!("{{\"change\":{},\"total\":{},\"done\":{}}}", news.change, news.total, news.done);
    Event::default().event("news").data(data)
}
