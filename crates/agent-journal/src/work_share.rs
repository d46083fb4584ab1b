//! Shares work between two threads. A command runs for a few milliseconds: a thread started for
//! each task would mostly wait for a processor. The thread that checks for changes therefore also
//! helps with other jobs, and the thread that waits for the check helps with the check.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) use agent_sessions::connectors::formats::pieces::Pieces;

/// A job that several threads can work on, chunk by chunk.
pub(crate) trait SharedJob: Send + Sync {
    /// Runs the next chunk. Returns false if none is left.
    fn step(&self) -> bool;

    /// Returns whether all chunks are done.
    fn is_done(&self) -> bool;
}

/// Shares jobs between a worker thread and the thread that started it.
#[derive(Default)]
pub struct WorkShare {
    /// The job that the worker thread was started for.
    own: Option<Arc<dyn SharedJob>>,
    offers: Mutex<Offers>,
    changed: Condvar,
}

#[derive(Default)]
struct Offers {
    offered: Option<Arc<dyn SharedJob>>,
    is_over: bool,
}

impl WorkShare {
    /// Creates a work share whose worker thread runs `own` in the background.
    pub(crate) fn with<W: SharedJob + 'static>(own: Arc<W>) -> Self {
        Self { own: Some(own), ..Self::default() }
    }

    /// Runs the background job on the calling thread, on another processor if there is one. Runs an
    /// offered job before each chunk of it.
    pub fn run_jobs(&self) {
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

    /// Waits for offered jobs and runs them, until the `WorkGuard` is dropped.
    pub fn wait_for_jobs(&self) {
        loop {
            let offers = self.offers();
            let is_idle = |offers: &mut Offers| offers.offered.is_none() && !offers.is_over;
            let waited = self.changed.wait_while(offers, is_idle);
            let offered = waited.unwrap_or_else(PoisonError::into_inner).offered.take();
            let Some(work) = offered else { return };
            while work.step() {}
        }
    }

    /// Marks the calling thread as the one that offers jobs, until the returned guard is dropped.
    /// The guard then helps to finish the background job.
    pub fn attend(&self) -> WorkGuard<'_> {
        WorkGuard(self)
    }

    fn step(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.step())
    }

    /// Runs a job, together with the worker thread if it is free. While the worker finishes its
    /// last chunk, runs chunks of the background job.
    pub(crate) fn share<W: SharedJob + 'static>(&self, work: &Arc<W>) {
        self.offers().offered = Some(Arc::clone(work) as Arc<dyn SharedJob>);
        self.changed.notify_one();
        while work.step() {}
        self.offers().offered = None;
        while !work.is_done() && self.step() {}
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard of the thread that offers jobs. `WorkShare::enter` returns it.
pub struct WorkGuard<'h>(&'h WorkShare);

impl Drop for WorkGuard<'_> {
    fn drop(&mut self) {
        self.0.offers().is_over = true;
        self.0.changed.notify_one();
        while self.0.step() {}
    }
}

/// Moves the calling thread to another processor than that of the thread that started it. The
/// scheduler would let both compete for some milliseconds before it moves one.
#[cfg(target_os = "linux")]
fn go_elsewhere() {
    use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(sched_getcpu());
    // After the move, all processors are allowed again.
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &all);
    }
}

#[cfg(not(target_os = "linux"))]
fn go_elsewhere() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that records which chunks ran.
    struct Noted {
        pieces: Pieces,
        done: Mutex<Vec<usize>>,
    }

    impl Noted {
        fn new(count: usize) -> Arc<Self> {
            Arc::new(Self { pieces: Pieces::new(count), done: Mutex::default() })
        }
    }

    impl SharedJob for Noted {
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
        let helper = WorkShare::with(Arc::clone(&own));
        let shared: Vec<Arc<Noted>> = (0..20).map(|_| Noted::new(50)).collect();
        std::thread::scope(|scope| {
            let _here = helper.attend();
            scope.spawn(|| {
                helper.run_jobs();
                helper.wait_for_jobs();
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
            assert_eq!(done, (0..work.pieces.count()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn whoever_waits_does_the_work_of_the_one_they_wait_for() {
        let (own, work) = (Noted::new(3), Noted::new(1));
        let helper = WorkShare::with(Arc::clone(&own));
        // Another thread runs the only chunk and finishes it after the background job.
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
