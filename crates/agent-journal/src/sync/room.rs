//! Large runs of messages that wait for the writer: how many bytes of them there may be.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A smaller run needs no room: as many as may wait do no harm.
const LARGE: u64 = 1 << 20;

/// Large runs that wait may have this many bytes together. A larger one waits alone.
const MAX_WAITING: u64 = 32 << 20;

/// The bytes of the large runs that wait.
#[derive(Clone, Default)]
pub(super) struct Rooms {
    waiting: Arc<(Mutex<u64>, Condvar)>,
}

/// Room that a run takes until the writer has it.
pub(super) struct Room {
    bytes: u64,
    rooms: Rooms,
}

impl Rooms {
    /// Waits until there is room for a run.
    pub(super) fn take(&self, bytes: u64) -> Option<Room> {
        if bytes <= LARGE {
            return None;
        }
        let (waiting, is_less) = &*self.waiting;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting > 0 && *waiting + bytes > MAX_WAITING {
            waiting = is_less.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        *waiting += bytes;
        Some(Room { bytes, rooms: self.clone() })
    }
}

impl Drop for Room {
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
        let rooms = &Rooms::default();
        assert!(rooms.take(LARGE).is_none());
        let first = rooms.take(MAX_WAITING * 2);
        assert!(first.is_some(), "one is let in, however large it is");
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.send(rooms.take(LARGE + 1).is_some()));
            assert!(receiver.try_recv().is_err());
            drop(first);
            assert_eq!(receiver.recv(), Ok(true));
        });
    }
}
