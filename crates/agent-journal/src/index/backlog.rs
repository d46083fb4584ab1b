//! Texts queued for tantivy and not yet split into words. Tantivy limits their number but not their
//! size; this file limits the queued bytes and decides which thread continues while many are
//! queued.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tantivy::tokenizer::Tokenizer;

use super::tokenizer::WordCutter;

/// Above this many queued bytes, only one thread continues reading until half of them are left,
/// which leaves a core to tantivy.
const MUCH: usize = 6 << 20;

/// The maximum number of queued bytes: twice what one thread reads while tantivy writes a segment
/// and takes nothing.
const ROOM: usize = 40 << 20;

/// Below this many queued bytes, all threads continue.
const LITTLE: usize = MUCH / 2;

/// Below this many queued bytes, the active thread continues after the queue was full: not after
/// every text that tantivy takes.
const SOME_ROOM: usize = ROOM - MUCH;

/// The maximum wait for room in the queue. If tantivy's thread has ended, it takes nothing any
/// more: after this time the caller submits its text anyway and receives the error.
const PATIENCE: Duration = Duration::from_millis(250);

thread_local! {
    /// A value with a different address in each thread.
    static OWN: u8 = const { 0 };
}

/// The size of the queue, and the threads that wait for room in it.
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// The address that identifies the active thread, the only one that continues while many bytes
    /// are queued; zero for none.
    only: AtomicUsize,
    turn: Mutex<()>,
    is_less: Condvar,
    patience: Duration,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            only: AtomicUsize::new(0),
            turn: Mutex::new(()),
            is_less: Condvar::new(),
            patience: PATIENCE,
        }
    }
}

impl Backlog {
    /// Waits until another text may be queued, then counts it in any case; returns whether there
    /// was room in time.
    pub(super) fn put(&self, bytes: usize) -> bool {
        let in_time = self.may_put() || self.wait();
        self.bytes.fetch_add(bytes, SeqCst);
        in_time
    }

    fn may_put(&self) -> bool {
        let waiting = self.bytes.load(SeqCst);
        waiting < MUCH || (waiting < ROOM && self.goes_on())
    }

    /// Returns whether this thread is the active one; it becomes active if no other is.
    fn goes_on(&self) -> bool {
        let me = me();
        let before = self.only.compare_exchange(0, me, SeqCst, SeqCst);
        before.is_ok() || before == Err(me)
    }

    fn wait(&self) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.may_put() {
            let waited = self.is_less.wait_timeout(turn, self.patience);
            let (back, end) = waited.unwrap_or_else(PoisonError::into_inner);
            if end.timed_out() {
                return self.may_put();
            }
            turn = back;
        }
        true
    }

    /// Lets another thread become active: this thread has nothing more to queue.
    pub(super) fn leave(&self) {
        if self.only.compare_exchange(me(), 0, SeqCst, SeqCst).is_ok() {
            self.wake();
        }
    }

    /// Removes a text that tantivy took from the count.
    fn take(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, SeqCst);
        let passes = |mark: usize| (before - bytes..before).contains(&mark);
        if passes(LITTLE) {
            self.only.store(0, SeqCst);
        } else if !passes(SOME_ROOM) {
            return;
        }
        self.wake();
    }

    fn wake(&self) {
        // A thread that has just decided to wait is waiting once this lock is free.
        drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_less.notify_all();
    }
}

/// Returns a number that identifies the current thread.
fn me() -> usize {
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

/// The tokenizer of the index. Tantivy has taken a text when it asks for its tokens.
#[derive(Clone)]
pub(super) struct Taking(pub(super) Arc<Backlog>);

impl Tokenizer for Taking {
    type TokenStream<'a> = WordCutter<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordCutter<'a> {
        self.0.take(text.len());
        WordCutter::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Backlog {
        fn with(bytes: usize) -> Self {
            Self { bytes: AtomicUsize::new(bytes), ..Self::default() }
        }

        /// A backlog with a wait long enough for slow machines.
        fn patient(bytes: usize) -> Self {
            Self { patience: Duration::from_mins(10), ..Self::with(bytes) }
        }

        fn bytes(&self) -> usize {
            self.bytes.load(SeqCst)
        }
    }

    #[test]
    fn while_much_waits_one_goes_on_until_there_is_no_room() {
        let backlog = Backlog::with(MUCH);
        assert!(backlog.put(1) && backlog.put(ROOM - MUCH - 1));
        // If tantivy takes nothing, the wait ends.
        assert!(!backlog.put(7));
        let backlog = &Backlog::with(MUCH);
        assert!(backlog.put(1));
        std::thread::scope(|scope| assert!(!scope.spawn(|| backlog.put(2)).join().unwrap()));
        // When few bytes are left, any thread may become active.
        backlog.take(MUCH);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| backlog.put(MUCH) && backlog.put(1));
            assert!(other.join().unwrap());
        });
    }

    #[test]
    fn whoever_is_done_leaves_the_turn_to_others() {
        let backlog = &Backlog::patient(MUCH);
        assert!(backlog.put(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| backlog.put(1));
            backlog.leave();
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn those_who_wait_go_on_when_there_is_less() {
        for _ in 0..100 {
            let backlog = &Backlog::patient(ROOM);
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| backlog.put(7))).collect();
                std::thread::yield_now();
                backlog.take(ROOM - MUCH);
                backlog.take(MUCH);
                assert!(waiting.into_iter().all(|one| one.join().unwrap()));
            });
            assert_eq!(backlog.bytes(), 3 * 7);
        }
    }

    #[test]
    fn what_is_cut_into_words_is_taken() {
        let backlog = Arc::new(Backlog::with("some words".len()));
        let mut taking = Taking(Arc::clone(&backlog));
        drop(taking.token_stream("some"));
        assert_eq!(backlog.bytes(), " words".len());
    }
}
