//! Allows only one thread at a time to read a large record. A record takes several times its size
//! while it is parsed, packed and indexed; on all processors at once, memory use would be
//! unbounded.

use std::marker::PhantomData;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Size above which a reader must hold a `LargeRecordGuard`.
pub const LARGE_BYTES: usize = 4 << 20;

static TURN: LargeRecordTurn =
    LargeRecordTurn { holder: Mutex::new(None), is_free: Condvar::new() };

struct LargeRecordTurn {
    /// The thread that holds the lock, and its number of guards. A reader may open another file
    /// while it holds a large record of the first.
    holder: Mutex<Option<(ThreadId, usize)>>,
    is_free: Condvar,
}

/// Permission of the current thread to hold a large record, until dropped.
pub struct LargeTurn {
    /// Makes the guard `!Send`: it is dropped on the thread that acquired it.
    not_send: PhantomData<*const ()>,
}

impl LargeTurn {
    /// Waits until no other thread holds a large record.
    pub fn wait_for_turn() -> Self {
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
                    let outer = LargeTurn::wait_for_turn();
                    let inner = LargeTurn::wait_for_turn();
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
