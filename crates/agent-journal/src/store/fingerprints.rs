//! Fingerprints by which a source reports that a session did not change since it was read.

use std::collections::BTreeMap;

use rusqlite::params;

use super::Store;
use super::database::OptionalRow;
use super::write::Writer;
use crate::error::Result;

/// The fingerprint of a session in a source, with the record counts of that read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) value: u64,
    pub(crate) records: u64,
    pub(crate) raw: u64,
    pub(crate) skipped: BTreeMap<String, u64>,
}

impl Store {
    /// Reads the fingerprint of a recording that was read to its end.
    pub(crate) fn fingerprint(&self, recording: u64) -> Result<Option<Fingerprint>> {
        let sql = "SELECT fingerprint, fingerprints.records, raw, skipped FROM fingerprints
                   JOIN recordings ON key = recording WHERE recording = ?1 AND gone = 0";
        let row = self.database.query_row(sql, [recording as i64], |row| {
            let skipped: String = row.get("skipped")?;
            Ok(Fingerprint {
                value: row.get::<_, i64>("fingerprint")? as u64,
                records: row.get::<_, i64>("records")? as u64,
                raw: row.get::<_, i64>("raw")? as u64,
                skipped: serde_json::from_str(&skipped).unwrap_or_default(),
            })
        });
        row.optional()
    }
}

impl Writer<'_> {
    /// Writes the fingerprint of a recording that was read to its end.
    pub(crate) fn fingerprint(&self, recording: u64, fingerprint: &Fingerprint) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO fingerprints (recording, fingerprint, records, raw, skipped)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let skipped = serde_json::to_string(&fingerprint.skipped).unwrap_or_default();
        let row = params![
            recording as i64,
            fingerprint.value as i64,
            fingerprint.records as i64,
            fingerprint.raw as i64,
            skipped
        ];
        self.database.execute(sql, row).map(drop)
    }

    /// Deletes the fingerprint of a recording that changes or may be incomplete.
    pub(super) fn forget_fingerprint(&self, recording: u64) -> Result<()> {
        let sql = "DELETE FROM fingerprints WHERE recording = ?1";
        self.database.execute(sql, [recording as i64]).map(drop)
    }
}
