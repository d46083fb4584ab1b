//! News for open pages: server-sent events, for as long as the page is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};

use super::connections::Slot;
use super::state::{App, News};

/// Shortest time between two news, so that a first reading does not flood the page.
const PAUSE: Duration = Duration::from_millis(200);

/// Follows the journal, until the page is closed or too many others follow it: a browser asks
/// again by itself.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    slot: Option<Extension<Arc<Slot>>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let news = app.news();
    let end = slot.map(|Extension(slot)| slot.follow()).unwrap_or_default();
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
            Some((Ok(event(now)), (news, false)))
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

fn event(news: News) -> Event {
    let data =
        format!("{{\"change\":{},\"total\":{},\"done\":{}}}", news.change, news.total, news.done);
    Event::default().event("news").data(data)
}
