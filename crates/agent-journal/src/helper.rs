//! A second thread that takes part in what takes long. A command lives for some milliseconds: a
//! thread that is started for each piece of work would mostly wait for a processor, so that the
//! one that looks for news helps.

use std::sync::{Arc, Mutex, PoisonError};

/// Something that threads can do together, piece by piece.
pub(crate) trait Joint: Send + Sync {
    /// Does pieces of it until none is left.
    fn take_part(&self);
}

/// Where a thread that has time finds something to do.
#[derive(Default)]
pub struct Helper {
    offered: Mutex<Option<Arc<dyn Joint>>>,
}

impl Helper {
    /// Takes part in what is offered, if anything is.
    pub fn help(&self) {
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(work) = offered {
            work.take_part();
        }
    }

    /// Does work, with help if there is any.
    pub(crate) fn share<W: Joint + 'static>(&self, work: &Arc<W>) {
        self.offer(Some(Arc::clone(work) as Arc<dyn Joint>));
        work.take_part();
        self.offer(None);
    }

    fn offer(&self, work: Option<Arc<dyn Joint>>) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }
}
