//! Combines several recordings of one session. The richest one leads. Messages that only another
//! one contains are added to it in a combined recording, which is then shown. If nothing is
//! missing, there is no combined recording, and this check is cheap.

mod align;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use self::align::{MessageFingerprint, Sequence, SequenceItem};
use super::recording_key;
use crate::error::Result;
use crate::index::{IndexTargets, KnownCalls};
use crate::model::{Message, SessionId, SessionKind};
use crate::store::{
    ChunkBuilder, FULL_CHUNK_BYTES, READER_VERSION, Recording, SerializedMessage, Store, Writer,
};

/// Updates the combined recordings of the changed sessions. `store` is the journal that is written.
/// Without `index`, the caller updates the index from the journal later.
pub(crate) fn combine_changed(
    store: &Store,
    writer: &mut Writer<'_>,
    index: Option<IndexTargets<'_>>,
) -> Result<()> {
    for session in writer.touched_sessions() {
        let recordings = store.recordings(session)?;
        if recordings.len() > 1 {
            Combination { store, writer, index }.update(session, recordings)?;
        }
    }
    Ok(())
}

/// Combines the recordings of one session.
struct Combination<'c, 'w> {
    store: &'c Store,
    writer: &'c mut Writer<'w>,
    index: Option<IndexTargets<'c>>,
}

impl Combination<'_, '_> {
    fn update(&mut self, session: u64, mut recordings: Vec<Recording>) -> Result<()> {
        let combined = recordings.iter().position(|one| one.is_combined);
        let combined = combined.map(|at| recordings.remove(at));
        recordings.retain(|one| one.messages > 0);
        // An import that is a working copy does not hide a session of this machine.
        let has_own = recordings.iter().any(|one| !one.is_import);
        let is_copy = recordings
            .iter()
            .any(|one| one.kind == SessionKind::Copy && !(one.is_import && has_own));
        if recordings.len() < 2 || is_copy {
            return combined.map_or(Ok(()), |combined| self.clear(session, &combined));
        }
        self.rank(session, &mut recordings)?;
        let (leader, others) = (&recordings[0], &recordings[1..]);
        let sequence = self.sequence(leader, others)?;
        match (sequence, combined) {
            (Some(sequence), combined) => self.write(leader, &sequence, combined),
            (None, Some(combined)) => self.clear(session, &combined),
            (None, None) => Ok(()),
        }
    }

    /// Computes the richness of recordings and sorts the richest first, in the order of the
    /// metadata, so that the result does not depend on the order of reading. An import never leads if
    /// there is a recording of this machine.
    fn rank(&mut self, session: u64, recordings: &mut [Recording]) -> Result<()> {
        for recording in recordings.iter_mut() {
            let richness = self.store.richness(recording.key)?;
            if recording.richness != richness {
                recording.richness = richness;
                self.writer.set_richness(session, recording.key, richness)?;
            }
        }
        recordings.sort_by_key(|one| {
            let size = Reverse((one.richness, one.messages, one.source_bytes));
            (one.is_import, size, one.key)
        });
        Ok(())
    }

    /// Merges the messages of all recordings; returns `None` if the leading one contains all of
    /// them.
    fn sequence(&mut self, leader: &Recording, others: &[Recording]) -> Result<Option<Sequence>> {
        let mut uncovered: Vec<&Recording> = Vec::new();
        for other in others {
            if !self.store.is_covered(other, leader.key)? {
                uncovered.push(other);
            }
        }
        if uncovered.is_empty() {
            return Ok(None);
        }
        let known: HashSet<u64> = self.hashes(leader)?;
        let mut rest = Vec::new();
        for other in uncovered {
            if self.hashes(other)?.is_subset(&known) {
                self.writer.set_covered(other, leader.key)?;
            } else {
                rest.push(other);
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut sequence = Sequence::new(leader.key, self.fingerprints(leader)?);
        let mut is_complete = true;
        for other in rest {
            // If the leader is an import too, the others need no label.
            let is_import = other.is_import && !leader.is_import;
            if sequence.add(other.key, self.fingerprints(other)?, is_import) {
                is_complete = false;
            } else if is_complete {
                // Nothing was added so far, so the leading recording alone contains all of it.
                self.writer.set_covered(other, leader.key)?;
            }
        }
        Ok((!is_complete).then_some(sequence))
    }

    fn hashes(&self, recording: &Recording) -> Result<HashSet<u64>> {
        Ok(self.store.message_hashes(recording.key)?.into_iter().collect())
    }

    fn fingerprints(&self, recording: &Recording) -> Result<Vec<MessageFingerprint>> {
        let mut all = Vec::new();
        self.store.each_message(recording.key, |position, message: Message| {
            all.push(MessageFingerprint::new(
                position,
                SerializedMessage::new(&message).hash,
                &message,
            ));
            Ok(())
        })?;
        Ok(all)
    }

    /// Writes the combined recording from the first changed message on.
    fn write(
        &mut self,
        leader: &Recording,
        sequence: &Sequence,
        before: Option<Recording>,
    ) -> Result<()> {
        let recording = recording_key(&leader.session, Path::new("combined"));
        let known = match &before {
            Some(before) if before.richness == READER_VERSION => {
                self.store.message_hashes(recording)?
            }
            _ => Vec::new(),
        };
        let items = sequence.items();
        let mut same = 0;
        while same < items.len().min(known.len()) && self.hash(&items[same])? == known[same] {
            same += 1;
        }
        let is_same = same == items.len() && same == known.len();
        if !is_same {
            let from = self
                .store
                .rewrite_start(recording, same as u64, FULL_CHUNK_BYTES)?
                .min(same as u64);
            self.rewrite(&leader.session, recording, &items[from as usize..], from)?;
        }
        if !is_same || before.is_none_or(|before| before.source != leader.source) {
            self.writer.set_combined(leader, recording, items.len() as u64)?;
        }
        Ok(())
    }

    /// Returns the hash of a message of the combined recording in the store.
    fn hash(&self, item: &SequenceItem) -> Result<u64> {
        if let Some(hash) = item.stored_hash() {
            return Ok(hash);
        }
        let message = self.store.message(item.recording, item.position())?.unwrap_or_default();
        Ok(SerializedMessage::new(&item.labelled(message)).hash)
    }

    fn rewrite(
        &mut self,
        session: &SessionId,
        recording: u64,
        items: &[SequenceItem],
        from: u64,
    ) -> Result<()> {
        self.writer.truncate(recording, from, from)?;
        if let Some(index) = self.index {
            index.truncate(recording, from)?;
        }
        let mut builder = ChunkBuilder::at(from);
        let mut calls = KnownCalls::default();
        let mut cursors: HashMap<u64, RecordingCursor> = HashMap::new();
        for item in items {
            let cursor = cursors.entry(item.recording).or_default();
            let Some(message) = cursor.message(self.store, item)? else { continue };
            let mut message = item.labelled(message);
            if let Some(index) = self.index {
                index.message(recording, builder.next(), &message, &mut calls)?;
            }
            let packed = SerializedMessage::new(&message);
            if item.is_import {
                // The calls of an import count in its own recording, after those of this machine.
                message.usage = None;
            }
            builder.add_recorded(session, &mut message, packed, item.position());
            if builder.is_full() {
                let chunk = builder.pack(&self.writer.packer());
                self.writer.chunk(recording, session.session_key(), &chunk)?;
            }
        }
        if !builder.is_empty() {
            let chunk = builder.pack(&self.writer.packer());
            self.writer.chunk(recording, session.session_key(), &chunk)?;
        }
        if let Some(index) = self.index {
            index.rest();
        }
        Ok(())
    }

    /// Empties a combined recording that is no longer needed. Its row stays, so that an outdated
    /// index removes its messages too.
    fn clear(&mut self, session: u64, combined: &Recording) -> Result<()> {
        if combined.messages == 0 {
            return Ok(());
        }
        if let Some(index) = self.index {
            index.remove(combined.key)?;
        }
        self.writer.truncate(combined.key, 0, 0)?;
        self.writer.clear_combined(session, combined.key)
    }
}

/// Reads the messages of a recording in order, one chunk at a time.
#[derive(Default)]
struct RecordingCursor {
    messages: VecDeque<(u64, Message)>,
}

impl RecordingCursor {
    fn message(&mut self, store: &Store, item: &SequenceItem) -> Result<Option<Message>> {
        while self.messages.front().is_some_and(|(position, _)| *position < item.position()) {
            self.messages.pop_front();
        }
        if self.messages.front().is_none_or(|(position, _)| *position != item.position()) {
            let end = store.chunk_end(item.recording, item.position())?.unwrap_or(item.position());
            self.messages = store.messages(item.recording, item.position()..end)?.into();
        }
        let found = self.messages.front().is_some_and(|(position, _)| *position == item.position());
        Ok(if found { self.messages.pop_front().map(|(_, message)| message) } else { None })
    }
}
