//! Works out again what follows from stored messages, for sources that cannot be read again.

use rusqlite::params;

use super::{ChunkBuilder, Packed, READER_VERSION, Store, Writer};
use crate::error::Result;
use crate::model::{Session, SessionId};

/// A recording of a source that cannot be read again.
struct KeptRecording {
    telling: u64,
    account: String,
}

impl Writer<'_> {
    /// Works out the facts and calls of everything that a source told, from the stored messages.
    /// `store` is the journal that is written.
    pub(crate) fn rederive(&mut self, store: &Store, source: i64) -> Result<()> {
        for recording in self.kept_recordings(source)? {
            let Ok(account) = serde_json::from_str::<Session>(&recording.account) else { continue };
            for (first, end) in self.runs(recording.telling)? {
                self.rederive_run(store, recording.telling, &account.id, first, end)?;
            }
            let session = account.id.key();
            self.touched.insert(session);
            self.unlisted.insert(session);
        }
        let sql = "UPDATE sources SET reader = ?2 WHERE id = ?1";
        self.connection.execute(sql, [source, READER_VERSION]).map_err(self.error())?;
        Ok(())
    }

    fn kept_recordings(&self, source: i64) -> Result<Vec<KeptRecording>> {
        let sql = "SELECT key, account FROM tellings WHERE source = ?1 AND combined = 0";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([source], |row| {
            Ok(KeptRecording { telling: row.get::<_, i64>(0)? as u64, account: row.get(1)? })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Lists the runs of a telling: the position of the first message, and the one after the last.
    fn runs(&self, telling: u64) -> Result<Vec<(u64, u64)>> {
        let sql = "SELECT first, first + count FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([telling as i64], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    fn rederive_run(
        &mut self,
        store: &Store,
        telling: u64,
        session: &SessionId,
        first: u64,
        end: u64,
    ) -> Result<()> {
        let messages = store.messages(telling, first..end)?;
        // A run that cannot be read stays as it is.
        if messages.len() as u64 != end - first {
            return Ok(());
        }
        let mut builder = ChunkBuilder::at(first);
        for (_, mut message) in messages {
            let packed = Packed::new(&message);
            builder.add(session, &mut message, &packed);
        }
        let sql = "DELETE FROM chunks WHERE telling = ?1 AND first = ?2";
        self.connection
            .execute(sql, params![telling as i64, first as i64])
            .map_err(self.error())?;
        self.forget_calls(telling, first..end)?;
        let chunk = builder.pack(&self.packer());
        self.chunk(telling, session.key(), &chunk)
    }
}
