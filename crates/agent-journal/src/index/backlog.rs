//! Texts that were handed to the engine and are not cut into words yet. It takes up to a number of
//! them, of whatever size; here is told how many bytes may wait, and who goes on when many do.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tantivy::tokenizer::Tokenizer;

use super::tokenizer::Cutter;

/// When this much waits, one thread alone goes on reading until only half of it is left: so the
/// engine has a processor for itself.
const MUCH: usize = 6 << 20;

/// More than this may not wait: twice what one thread reads while the engine writes a part of the
/// index and takes nothing.
const ROOM: usize = 40 << 20;

/// When so little is left, everybody goes on.
const LITTLE: usize = MUCH / 2;

/// When so much is left, the one that found no room goes on: not with every text that is taken.
const SOME_ROOM: usize = ROOM - MUCH;

/// An engine that has given up takes nothing any more. Whoever has waited so long goes on with one
/// text, and is told by it.
const PATIENCE: Duration = Duration::from_millis(250);

thread_local! {
    /// Something that every thread has at a place of its own.
    static OWN: u8 = const { 0 };
}

/// How much waits for the engine.
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// The thread that goes on while much is waiting; none at zero.
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
    /// Waits until another text may wait; says whether that was in time, and goes on anyhow.
    pub(super) fn put(&self, bytes: usize) -> bool {
        let in_time = self.may_put() || self.wait();
        self.bytes.fetch_add(bytes, SeqCst);
        in_time
    }

    fn may_put(&self) -> bool {
        let waiting = self.bytes.load(SeqCst);
        waiting < MUCH || (waiting < ROOM && self.goes_on())
    }

    /// Whether this thread is the one that goes on; it is if no other was before.
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

    /// Leaves the turn to others: this thread has nothing more to put.
    pub(super) fn leave(&self) {
        if self.only.compare_exchange(me(), 0, SeqCst, SeqCst).is_ok() {
            self.wake();
        }
    }

    /// Notes that the engine took a text.
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
        // Whoever has just found that they must wait is waiting once this is free.
        drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_less.notify_all();
    }
}

/// A number that no other thread has.
fn me() -> usize {
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

/// The tokenizer of the index: what it is given to cut, the engine has taken.
#[derive(Clone)]
pub(super) struct Taking(pub(super) Arc<Backlog>);

impl Tokenizer for Taking {
    type TokenStream<'a> = Cutter<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Cutter<'a> {
        self.0.take(text.len());
        Cutter::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Backlog {
        fn with(bytes: usize) -> Self {
            Self { bytes: AtomicUsize::new(bytes), ..Self::default() }
        }

        /// One that is waited for however slow the machine is.
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
        // An engine that takes nothing is not waited for forever.
        assert!(!backlog.put(7));
        let backlog = &Backlog::with(MUCH);
        assert!(backlog.put(1));
        std::thread::scope(|scope| assert!(!scope.spawn(|| backlog.put(2)).join().unwrap()));
        // When little is left, it is anybody's turn again.
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
