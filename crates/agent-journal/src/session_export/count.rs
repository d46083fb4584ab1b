//! Counts the secrets in an export without redaction. The search runs on threads of its own,
//! because it takes longer than writing.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use crate::export::redact;

/// The minimum size of the batches that lines are sent in, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// The maximum number of queued batches, which bounds memory.
const WAITING_BATCHES: usize = 16;

/// The maximum number of searching threads: with more, writing is the slowest part.
const MAX_THREADS: usize = 4;

/// Counts the different secrets in lines of JSON.
pub(super) struct SecretCounter {
    batch: Vec<u8>,
    sender: SyncSender<Vec<u8>>,
    threads: Vec<JoinHandle<HashSet<u64>>>,
}

impl SecretCounter {
    pub(super) fn new() -> Self {
        let (sender, batches) = sync_channel(WAITING_BATCHES);
        let batches = Arc::new(Mutex::new(batches));
        // One processor writes.
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let search = || {
            let batches = Arc::clone(&batches);
            std::thread::spawn(move || search_batches(&batches))
        };
        let threads = (0..(processors - 1).clamp(1, MAX_THREADS)).map(|_| search()).collect();
        Self { batch: Vec::new(), sender, threads }
    }

    /// Searches a line for secrets.
    pub(super) fn scan_line(&mut self, json: &[u8]) {
        self.batch.extend_from_slice(json);
        self.batch.push(b'\n');
        if self.batch.len() >= BATCH_BYTES {
            // If the thread has ended, nothing is counted any more.
            let _ = self.sender.send(std::mem::take(&mut self.batch));
        }
    }

    /// Returns the number of different secrets.
    pub(super) fn distinct_secrets(self) -> u64 {
        let _ = self.sender.send(self.batch);
        drop(self.sender);
        let found = self.threads.into_iter().filter_map(|thread| thread.join().ok());
        let secrets: HashSet<u64> = found.flatten().collect();
        secrets.len() as u64
    }
}

/// Searches batches until there are no more. Returns the hashes of the secrets.
fn search_batches(batches: &Mutex<Receiver<Vec<u8>>>) -> HashSet<u64> {
    let next_batch = || batches.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    let mut secrets = HashSet::new();
    while let Some(batch) = next_batch() {
        for line in batch.split(|byte| *byte == b'\n') {
            add_secrets(line, &mut secrets);
        }
    }
    secrets
}

fn add_secrets(line: &[u8], secrets: &mut HashSet<u64>) {
    let Ok(text) = std::str::from_utf8(line) else { return };
    redact::each_string(text, &mut |name, value| {
        for finding in redact::find_value(name, value) {
            secrets.insert(xxh3_64(&value.as_bytes()[finding.range]));
        }
    });
}
