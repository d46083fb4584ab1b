//! By what a source says that a session in it did not change since it was read.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use super::Store;
use super::write::Writer;
use crate::error::Result;

/// A fingerprint of a session in a source, and what was counted when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) value: u64,
    pub(crate) records: u64,
    pub(crate) raw: u64,
    pub(crate) skipped: BTreeMap<String, u64>,
}

impl Store {
    /// Returns the fingerprint with which a recording was read to its end.
    pub(crate) fn fingerprint(&self, telling: u64) -> Result<Option<Fingerprint>> {
        let sql = "SELECT fingerprint, fingerprints.records, raw, skipped FROM fingerprints
                   JOIN tellings ON key = telling WHERE telling = ?1 AND gone = 0";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = statement.query_row([telling as i64], |row| {
            let skipped: String = row.get("skipped")?;
            Ok(Fingerprint {
                value: row.get::<_, i64>("fingerprint")? as u64,
                records: row.get::<_, i64>("records")? as u64,
                raw: row.get::<_, i64>("raw")? as u64,
                skipped: serde_json::from_str(&skipped).unwrap_or_default(),
            })
        });
        row.optional().map_err(self.error())
    }
}

impl Writer<'_> {
    /// Notes that a recording was read to its end.
    pub(crate) fn fingerprint(&self, telling: u64, fingerprint: &Fingerprint) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO fingerprints (telling, fingerprint, records, raw, skipped)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let skipped = serde_json::to_string(&fingerprint.skipped).unwrap_or_default();
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![
            telling as i64,
            fingerprint.value as i64,
            fingerprint.records as i64,
            fingerprint.raw as i64,
            skipped
        ];
        statement.execute(row).map(drop).map_err(self.error())
    }

    /// Forgets a fingerprint: the recording changes, or may not be whole.
    pub(super) fn forget_fingerprint(&self, telling: u64) -> Result<()> {
        let sql = "DELETE FROM fingerprints WHERE telling = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute([telling as i64]).map(drop).map_err(self.error())
    }
}
