//! Several recordings of one session complete each other. The richest one leads. Messages that
//! only another one has are added to it in a combined recording, which is then the one shown.
//! Where nothing is lacking there is no combined recording, and finding that out is cheap.

mod align;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use self::align::{Fingerprint, Sequence, SequenceItem};
use super::telling_key;
use crate::error::Result;
use crate::index::{Calls, Targets};
use crate::model::{Kind, Message, SessionId};
use crate::store::{ChunkBuilder, FULL_RUN, Packed, READER_VERSION, Recording, Store, Writer};

/// Brings the combined recordings of the sessions that changed up to date. `store` is the journal
/// that is written. Without `index` the caller has the index catch up with the journal.
pub(crate) fn combine_changed(
    store: &Store,
    writer: &mut Writer<'_>,
    index: Option<Targets<'_>>,
) -> Result<()> {
    for session in writer.touched_sessions() {
        let recordings = store.recordings(session)?;
        if recordings.len() > 1 {
            Combination { store, writer, index }.update(session, recordings)?;
        }
    }
    Ok(())
}

/// The work on one session.
struct Combination<'c, 'w> {
    store: &'c Store,
    writer: &'c mut Writer<'w>,
    index: Option<Targets<'c>>,
}

impl Combination<'_, '_> {
    fn update(&mut self, session: u64, mut recordings: Vec<Recording>) -> Result<()> {
        let combined = recordings.iter().position(|one| one.is_combined);
        let combined = combined.map(|at| recordings.remove(at));
        recordings.retain(|one| one.messages > 0);
        // What an import says of a session of this machine does not hide it.
        let has_own = recordings.iter().any(|one| !one.is_import);
        let is_copy =
            recordings.iter().any(|one| one.kind == Kind::Copy && !(one.is_import && has_own));
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

    /// Measures how rich recordings are, and puts the richest first. Nothing that was imported leads
    /// where there is a recording of this machine.
    fn rank(&mut self, session: u64, recordings: &mut [Recording]) -> Result<()> {
        for recording in recordings.iter_mut() {
            let richness = self.store.richness(recording.telling)?;
            if recording.richness != richness {
                recording.richness = richness;
                self.writer.set_richness(session, recording.telling, richness)?;
            }
        }
        recordings.sort_by_key(|one| {
            (one.is_import, Reverse(one.richness), Reverse(one.messages), one.telling)
        });
        Ok(())
    }

    /// Puts the messages of all recordings in order; `None` when the leading one has them all.
    fn sequence(&mut self, leader: &Recording, others: &[Recording]) -> Result<Option<Sequence>> {
        let mut uncovered: Vec<&Recording> = Vec::new();
        for other in others {
            if !self.store.is_covered(other, leader.telling)? {
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
                self.writer.set_covered(other, leader.telling)?;
            } else {
                rest.push(other);
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut sequence = Sequence::new(leader.telling, self.fingerprints(leader)?);
        let mut is_complete = true;
        for other in rest {
            // Between imports none is somebody's own.
            let is_import = other.is_import && !leader.is_import;
            if sequence.add(other.telling, self.fingerprints(other)?, is_import) {
                is_complete = false;
            } else if is_complete {
                // Nothing was added yet: the leading recording alone has all of it.
                self.writer.set_covered(other, leader.telling)?;
            }
        }
        Ok((!is_complete).then_some(sequence))
    }

    fn hashes(&self, recording: &Recording) -> Result<HashSet<u64>> {
        Ok(self.store.message_hashes(recording.telling)?.into_iter().collect())
    }

    fn fingerprints(&self, recording: &Recording) -> Result<Vec<Fingerprint>> {
        let mut all = Vec::new();
        self.store.each_message(recording.telling, |position, message: Message| {
            all.push(Fingerprint::new(position, Packed::new(&message).hash, &message));
            Ok(())
        })?;
        Ok(all)
    }

    /// Writes the combined recording, from the first message on that is not there yet.
    fn write(
        &mut self,
        leader: &Recording,
        sequence: &Sequence,
        before: Option<Recording>,
    ) -> Result<()> {
        let telling = telling_key(&leader.session, Path::new("combined"));
        let known = match &before {
            Some(before) if before.richness == READER_VERSION => {
                self.store.message_hashes(telling)?
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
            let from = self.store.run_before(telling, same as u64, FULL_RUN)?.min(same as u64);
            self.rewrite(&leader.session, telling, &items[from as usize..], from)?;
        }
        if !is_same || before.is_none_or(|before| before.source != leader.source) {
            self.writer.set_combined(leader, telling, items.len() as u64)?;
        }
        Ok(())
    }

    /// The hash that a message of the combined recording has in the store.
    fn hash(&self, item: &SequenceItem) -> Result<u64> {
        if let Some(hash) = item.stored_hash() {
            return Ok(hash);
        }
        let message = self.store.message(item.telling, item.position())?.unwrap_or_default();
        Ok(Packed::new(&item.labelled(message)).hash)
    }

    fn rewrite(
        &mut self,
        session: &SessionId,
        telling: u64,
        items: &[SequenceItem],
        from: u64,
    ) -> Result<()> {
        self.writer.truncate(telling, from, from)?;
        if let Some(index) = self.index {
            index.truncate(telling, from)?;
        }
        let mut builder = ChunkBuilder::at(from);
        let mut calls = Calls::default();
        let mut cursors: HashMap<u64, Cursor> = HashMap::new();
        for item in items {
            let cursor = cursors.entry(item.telling).or_default();
            let Some(message) = cursor.message(self.store, item)? else { continue };
            let mut message = item.labelled(message);
            if let Some(index) = self.index {
                index.message((telling, builder.next()), &message, &mut calls)?;
            }
            let packed = Packed::new(&message);
            if item.is_import {
                // Its calls count where they were imported, after those of this machine.
                message.usage = None;
            }
            builder.add_recorded(session, &mut message, &packed, item.position());
            if builder.is_full() {
                let chunk = builder.pack(&self.writer.packer());
                self.writer.chunk(telling, session.key(), &chunk)?;
            }
        }
        if !builder.is_empty() {
            let chunk = builder.pack(&self.writer.packer());
            self.writer.chunk(telling, session.key(), &chunk)?;
        }
        if let Some(index) = self.index {
            index.rest();
        }
        Ok(())
    }

    /// Empties a combined recording that is no longer needed. Its row stays, so that an index that
    /// is behind forgets its messages, too.
    fn clear(&mut self, session: u64, combined: &Recording) -> Result<()> {
        if combined.messages == 0 {
            return Ok(());
        }
        if let Some(index) = self.index {
            index.remove(combined.telling)?;
        }
        self.writer.truncate(combined.telling, 0, 0)?;
        self.writer.clear_combined(session, combined.telling)
    }
}

/// Reads the messages of a recording in order, one run at a time.
#[derive(Default)]
struct Cursor {
    messages: VecDeque<(u64, Message)>,
}

impl Cursor {
    fn message(&mut self, store: &Store, item: &SequenceItem) -> Result<Option<Message>> {
        while self.messages.front().is_some_and(|(position, _)| *position < item.position()) {
            self.messages.pop_front();
        }
        if self.messages.front().is_none_or(|(position, _)| *position != item.position()) {
            let end = store.run_end(item.telling, item.position())?.unwrap_or(item.position());
            self.messages = store.messages(item.telling, item.position()..end)?.into();
        }
        let found = self.messages.front().is_some_and(|(position, _)| *position == item.position());
        Ok(if found { self.messages.pop_front().map(|(_, message)| message) } else { None })
    }
}
