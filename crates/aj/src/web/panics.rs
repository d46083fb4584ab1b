//! Catches a panic while a request is answered: the request fails, and the server goes on after
//! printing one line.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;
use std::task::Poll;

thread_local! {
    /// Whether a panic of this thread is caught here.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// Message and location of the last panic that was caught here.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A request that panicked; the reason was printed.
#[derive(Debug)]
pub(super) struct Panicked;

impl std::fmt::Display for Panicked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("internal error; aj printed the reason")
    }
}

impl std::error::Error for Panicked {}

/// Installs a panic hook that stores the messages of panics that are caught here. Others are
/// reported as before.
pub(super) fn keep_reports() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if IS_CAUGHT.get() && !agent_journal::is_guarded() {
            LAST.set(Some(panic_on_one_line(panic)));
        } else {
            report(panic);
        }
    }));
}

fn panic_on_one_line(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("unknown reason");
    let place = panic.location().map_or(String::new(), |place| format!(" ({place})"));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{message}{place}")
}

/// Runs a closure. A panic is printed on one line and returned as an error.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let before = IS_CAUGHT.replace(true);
    // State that a panic leaves behind is dropped with the request.
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(before);
    done.map_err(|_| {
        let reason = LAST.take().unwrap_or_else(|| "unknown reason".to_owned());
        crate::error::print_warning(&format!("a request failed: {reason}"));
        Panicked
    })
}

/// Awaits a future. A panic in it is printed on one line and returned as an error.
pub(super) async fn caught_in<F: Future>(work: F) -> Result<F::Output, Panicked> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_panic(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_request_only() {
        assert!(catch_panic(|| -> u8 { panic!("of a request") }).is_err());
        assert_eq!(catch_panic(|| 7).unwrap(), 7);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let panics = caught_in(async {
                tokio::task::yield_now().await;
                panic!("after a while")
            });
            assert!(panics.await.is_err());
            assert_eq!(caught_in(async { 7 }).await.unwrap(), 7);
        });
    }
}
