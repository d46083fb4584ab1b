//! News for open pages: server-sent events, for as long as the page is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};

use super::state::{App, News};

/// Shortest time between two news, so that a first reading does not flood the page.
const PAUSE: Duration = Duration::from_millis(200);

/// Follows the journal.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let news = app.news();
    let stream = stream::unfold((news, true), async |(mut news, is_first)| {
        if !is_first {
            tokio::time::sleep(PAUSE).await;
            news.changed().await.ok()?;
        }
        let now = *news.borrow_and_update();
        Some((Ok(event(now)), (news, false)))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

fn event(news: News) -> Event {
    let data =
        format!("{{\"change\":{},\"total\":{},\"done\":{}}}", news.change, news.total, news.done);
    Event::default().event("news").data(data)
}
