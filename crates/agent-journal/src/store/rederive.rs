//! Derives facts and calls again from stored messages, for sources that cannot be read again.

use rusqlite::params;

use super::{ChunkBuilder, SerializedMessage, Store, Writer};
use crate::error::Result;
use crate::model::{Session, SessionId};

/// A recording of a source that cannot be read again.
struct KeptRecording {
    key: u64,
    metadata: String,
}

impl Writer<'_> {
    /// Derives the facts and calls of all recordings of a source again. `store` is the journal that
    /// is written, `reader` the current version of the reader.
    pub(crate) fn rederive(&mut self, store: &Store, source: i64, reader: i64) -> Result<()> {
        for recording in self.kept_recordings(source)? {
            let Ok(metadata) = serde_json::from_str::<Session>(&recording.metadata) else {
                continue;
            };
            for (first, end) in self.runs(recording.key)? {
                self.rederive_run(store, recording.key, &metadata.id, first, end)?;
            }
            let session = metadata.id.session_key();
            self.touched.insert(session);
            self.unlisted.insert(session);
        }
        let sql = "UPDATE sources SET reader = ?2 WHERE id = ?1";
        self.database.execute(sql, [source, reader])?;
        Ok(())
    }

    fn kept_recordings(&self, source: i64) -> Result<Vec<KeptRecording>> {
        let sql = "SELECT key, metadata FROM recordings WHERE source = ?1 AND combined = 0";
        self.database.rows(sql, [source], |row| {
            Ok(KeptRecording {
                key: row.get::<_, i64>("key")? as u64,
                metadata: row.get("metadata")?,
            })
        })
    }

    /// Lists the position ranges of a recording's chunks: first position, and position after the
    /// last.
    fn runs(&self, recording: u64) -> Result<Vec<(u64, u64)>> {
        let sql = "SELECT first, first + count AS end_position FROM chunks WHERE recording = ?1 ORDER BY first";
        self.database.rows(sql, [recording as i64], |row| {
            Ok((row.get::<_, i64>("first")? as u64, row.get::<_, i64>("end_position")? as u64))
        })
    }

    fn rederive_run(
        &mut self,
        store: &Store,
        recording: u64,
        session: &SessionId,
        first: u64,
        end: u64,
    ) -> Result<()> {
        let messages = store.messages(recording, first..end)?;
        // A chunk that cannot be read stays unchanged.
        if messages.len() as u64 != end - first {
            return Ok(());
        }
        let mut builder = ChunkBuilder::at(first);
        for (_, mut message) in messages {
            let packed = SerializedMessage::new(&message);
            builder.add(session, &mut message, packed);
        }
        let sql = "DELETE FROM chunks WHERE recording = ?1 AND first = ?2";
        self.database.execute(sql, params![recording as i64, first as i64])?;
        self.forget_calls(recording, first..end)?;
        let chunk = builder.pack(&self.packer());
        self.chunk(recording, session.session_key(), &chunk)
    }
}
