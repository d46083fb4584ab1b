//! One thread at a time reads a large record. A record takes several times its size while it is
//! parsed, packed and indexed; on as many threads as there are processors that would be any
//! amount of memory.

use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// A record that is larger waits for its turn.
pub const LARGE_BYTES: usize = 4 << 20;

static TURN: Turn = Turn { holder: Mutex::new(None), is_free: Condvar::new() };

struct Turn {
    /// The thread whose turn it is, and how many large records it holds: a reader may look into
    /// another file while it holds a record of the first.
    holder: Mutex<Option<(ThreadId, usize)>>,
    is_free: Condvar,
}

/// The turn of this thread, until it is dropped.
pub struct LargeTurn {
    /// It ends on the thread it began on.
    not_send: PhantomData<*const ()>,
}

impl LargeTurn {
    /// Waits until no other thread holds a large record.
    pub fn wait() -> Self {
        let me = thread::current().id();
        let mut holder = TURN.holder.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut *holder {
                None => *holder = Some((me, 1)),
                Some((thread, count)) if *thread == me => *count += 1,
                Some(_) => {
                    holder = TURN.is_free.wait(holder).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            return Self { not_send: PhantomData };
        }
    }
}

impl Drop for LargeTurn {
    fn drop(&mut self) {
        let mut holder = TURN.holder.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *holder {
            Some((_, count)) if *count > 1 => *count -= 1,
            _ => *holder = None,
        }
        drop(holder);
        TURN.is_free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_its_turn_and_may_take_it_twice() {
        let (inside, most) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let outer = LargeTurn::wait();
                    let inner = LargeTurn::wait();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    drop(inner);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(outer);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
