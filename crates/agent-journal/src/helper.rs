//! A second thread that takes part in what takes long. A command lives for some milliseconds: a
//! thread that is started for each piece of work would mostly wait for a processor, so that the
//! one that looks for news helps, and is helped by whoever would have to wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Something that threads can do together, piece by piece.
pub(crate) trait Joint: Send + Sync {
    /// Does the next piece; false when none is left.
    fn step(&self) -> bool;

    /// Whether every piece is done.
    fn is_done(&self) -> bool;
}

/// The pieces of something that threads do together.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    count: usize,
    next: AtomicUsize,
    /// Held by everybody who is at work on a piece.
    under_way: RwLock<()>,
}

impl Pieces {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, ..Self::default() }
    }

    /// Takes the next piece and does it; false when none is left.
    pub(crate) fn take(&self, act: impl FnOnce(usize)) -> bool {
        let _part = self.under_way.read().unwrap_or_else(PoisonError::into_inner);
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        if at < self.count {
            act(at);
        }
        at < self.count
    }

    /// Leaves out the pieces that nobody has taken yet.
    pub(crate) fn stop(&self) {
        self.next.fetch_max(self.count, Ordering::Relaxed);
    }

    /// Whether every piece is done.
    pub(crate) fn are_done(&self) -> bool {
        let is_nobody_at_work = self.under_way.try_write().is_ok();
        is_nobody_at_work && self.next.load(Ordering::Relaxed) >= self.count
    }

    /// Waits for everybody who is at work on a piece.
    pub(crate) fn wait(&self) {
        drop(self.under_way.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Where threads that have time find something to do.
#[derive(Default)]
pub struct Helper {
    /// What the helping thread is there for.
    own: Option<Arc<dyn Joint>>,
    offers: Mutex<Offers>,
    changed: Condvar,
}

#[derive(Default)]
struct Offers {
    offered: Option<Arc<dyn Joint>>,
    is_over: bool,
}

impl Helper {
    /// A helper that has work of its own.
    pub(crate) fn with<W: Joint + 'static>(own: Arc<W>) -> Self {
        Self { own: Some(own), ..Self::default() }
    }

    /// Does the helper's own work on a thread that was started for it, on a processor of its own
    /// if there is one; and what is offered before every piece of it.
    pub fn work_beside(&self) {
        go_elsewhere();
        loop {
            let offered = self.offers().offered.take();
            if let Some(work) = offered {
                while work.step() {}
            }
            if !self.step() {
                return;
            }
        }
    }

    /// Does what is offered, as it comes, until it is over.
    pub fn wait_beside(&self) {
        loop {
            let offers = self.offers();
            let is_idle = |offers: &mut Offers| offers.offered.is_none() && !offers.is_over;
            let waited = self.changed.wait_while(offers, is_idle);
            let offered = waited.unwrap_or_else(PoisonError::into_inner).offered.take();
            let Some(work) = offered else { return };
            while work.step() {}
        }
    }

    /// Whoever offers work is there until this is dropped; then the helper's own is finished
    /// together.
    pub fn attend(&self) -> Attendance<'_> {
        Attendance(self)
    }

    fn step(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.step())
    }

    /// Does work, with help if there is any. While others are at its last pieces, their own is
    /// done for them.
    pub(crate) fn share<W: Joint + 'static>(&self, work: &Arc<W>) {
        self.offers().offered = Some(Arc::clone(work) as Arc<dyn Joint>);
        self.changed.notify_one();
        while work.step() {}
        self.offers().offered = None;
        while !work.is_done() && self.step() {}
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The presence of whoever offers work.
pub struct Attendance<'h>(&'h Helper);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.0.offers().is_over = true;
        self.0.changed.notify_one();
        while self.0.step() {}
    }
}

/// Leaves the processor to the thread this one was started by. The system would have both wait
/// for each other for some milliseconds before it looks for another processor.
#[cfg(target_os = "linux")]
fn go_elsewhere() {
    use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(sched_getcpu());
    // Once it has moved, it may be anywhere again.
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &all);
    }
}

#[cfg(not(target_os = "linux"))]
fn go_elsewhere() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes which pieces were done.
    struct Noted {
        pieces: Pieces,
        done: Mutex<Vec<usize>>,
    }

    impl Noted {
        fn new(count: usize) -> Arc<Self> {
            Arc::new(Self { pieces: Pieces::new(count), done: Mutex::default() })
        }
    }

    impl Joint for Noted {
        fn step(&self) -> bool {
            self.pieces.take(|at| self.done.lock().unwrap().push(at))
        }

        fn is_done(&self) -> bool {
            self.pieces.are_done()
        }
    }

    #[test]
    fn every_piece_is_done_once_whoever_helps() {
        let own = Noted::new(1000);
        let helper = Helper::with(Arc::clone(&own));
        let shared: Vec<Arc<Noted>> = (0..20).map(|_| Noted::new(50)).collect();
        std::thread::scope(|scope| {
            let _here = helper.attend();
            scope.spawn(|| {
                helper.work_beside();
                helper.wait_beside();
            });
            for work in &shared {
                helper.share(work);
                work.pieces.wait();
                assert!(work.is_done());
            }
        });
        for work in shared.iter().chain([&own]) {
            let mut done = work.done.lock().unwrap().clone();
            done.sort_unstable();
            assert_eq!(done, (0..work.pieces.count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn whoever_waits_does_the_work_of_the_one_they_wait_for() {
        let (own, work) = (Noted::new(3), Noted::new(1));
        let helper = Helper::with(Arc::clone(&own));
        // Somebody is at the only piece, and comes to its end when the other work is done.
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let (work, own) = (&work, &own);
            scope.spawn(move || {
                work.pieces.take(|_| {
                    begun.send(()).unwrap();
                    while !own.is_done() {
                        std::thread::yield_now();
                    }
                })
            });
            has_begun.recv().unwrap();
            helper.share(work);
        });
        assert_eq!(own.done.lock().unwrap().len(), 3);
    }

    #[test]
    fn what_is_stopped_is_done() {
        let work = Noted::new(5);
        assert!(work.step());
        work.pieces.stop();
        assert!(!work.step() && work.is_done());
        assert_eq!(*work.done.lock().unwrap(), [0]);
    }
}
