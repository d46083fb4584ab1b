//! How many secrets are in what leaves as it was recorded. They are looked for on a thread of its
//! own, because that takes as long as writing does.

use std::collections::HashSet;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use crate::export::redact;

/// Lines are handed over in batches of at least this many bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Batches that may wait, so that memory stays bounded.
const WAITING_BATCHES: usize = 16;

/// Counts the different secrets in lines of JSON.
pub(super) struct SecretCounter {
    batch: Vec<u8>,
    sender: SyncSender<Vec<u8>>,
    thread: JoinHandle<HashSet<u64>>,
}

impl SecretCounter {
    pub(super) fn new() -> Self {
        let (sender, batches) = sync_channel::<Vec<u8>>(WAITING_BATCHES);
        let thread = std::thread::spawn(move || {
            let mut secrets = HashSet::new();
            for batch in batches {
                for line in batch.split(|byte| *byte == b'\n') {
                    add_secrets(line, &mut secrets);
                }
            }
            secrets
        });
        Self { batch: Vec::new(), sender, thread }
    }

    /// Looks for secrets in a line.
    pub(super) fn line(&mut self, json: &[u8]) {
        self.batch.extend_from_slice(json);
        self.batch.push(b'\n');
        if self.batch.len() >= BATCH_BYTES {
            // A thread that ended has nothing more to count.
            let _ = self.sender.send(std::mem::take(&mut self.batch));
        }
    }

    /// Returns how many different secrets there were.
    pub(super) fn finish(self) -> u64 {
        let _ = self.sender.send(self.batch);
        drop(self.sender);
        self.thread.join().map_or(0, |secrets| secrets.len() as u64)
    }
}

fn add_secrets(line: &[u8], secrets: &mut HashSet<u64>) {
    let Ok(text) = std::str::from_utf8(line) else { return };
    redact::each_string(text, &mut |name, value| {
        for finding in redact::find_value(name, value) {
            secrets.insert(xxh3_64(&value.as_bytes()[finding.range]));
        }
    });
}
