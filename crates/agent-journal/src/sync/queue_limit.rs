//! Limits the size of large chunks in the queue to the writer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Chunks up to this size need no reservation, because the length of the queue limits them.
const LARGE_CHUNK_BYTES: u64 = 1 << 20;

/// Maximum total size of large chunks in the queue. A larger chunk waits until it is alone.
const MAX_WAITING_BYTES: u64 = 32 << 20;

/// The total size of the large chunks in the queue.
#[derive(Clone, Default)]
pub(super) struct QueueLimit {
    waiting: Arc<(Mutex<u64>, Condvar)>,
}

/// Queue space reserved for a chunk, until the writer has written it.
pub(super) struct QueueReservation {
    bytes: u64,
    rooms: QueueLimit,
}

impl QueueLimit {
    /// Waits until there is space for a chunk, and reserves it.
    pub(super) fn take(&self, bytes: u64) -> Option<QueueReservation> {
        if bytes <= LARGE_CHUNK_BYTES {
            return None;
        }
        let (waiting, is_less) = &*self.waiting;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting > 0 && *waiting + bytes > MAX_WAITING_BYTES {
            waiting = is_less.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        *waiting += bytes;
        Some(QueueReservation { bytes, rooms: self.clone() })
    }
}

impl Drop for QueueReservation {
    fn drop(&mut self) {
        let (waiting, is_less) = &*self.rooms.waiting;
        *waiting.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        is_less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn small_runs_need_no_room_and_large_ones_wait_for_it() {
        let rooms = &QueueLimit::default();
        assert!(rooms.take(LARGE_CHUNK_BYTES).is_none());
        let first = rooms.take(MAX_WAITING_BYTES * 2);
        assert!(first.is_some(), "one is let in, however large it is");
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.send(rooms.take(LARGE_CHUNK_BYTES + 1).is_some()));
            assert!(receiver.try_recv().is_err());
            drop(first);
            assert_eq!(receiver.recv(), Ok(true));
        });
    }
}
