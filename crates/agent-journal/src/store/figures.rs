//! Reading what sessions did and spent.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row, params_from_iter};
use serde::Deserialize;

use super::Store;
use super::ledger::{self, Done, Spent, Touches};
use super::packing::unpack_facts;
use crate::error::Result;
use crate::model::Ref;
use crate::search::Filter;

/// The columns of what a session did and spent, but for the last: whether it is chosen.
pub(super) const DOINGS: &str = "sessions.key, agent, native, title, kind, shown, parent, project,
    project_path, branch, started_at, iif(refs = '[]', NULL, refs), done, calls,
    iif(calls IS NULL AND models != '[]', models, NULL)";

/// The tables of these columns.
pub(super) const DOINGS_FROM: &str = "sessions
    LEFT JOIN activity ON activity.session = sessions.key
    LEFT JOIN spending ON spending.session = sessions.key";

/// What a session did and spent, with what it is sorted by.
pub(crate) struct Doings {
    pub(crate) key: u64,
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) title: String,
    /// Whether a person started it.
    pub(crate) is_root: bool,
    pub(crate) is_shown: bool,
    /// Whether the filter chooses it, whatever its time.
    pub(crate) is_chosen: bool,
    pub(crate) parent: Option<u64>,
    pub(crate) project: Option<String>,
    pub(crate) project_path: Option<String>,
    pub(crate) branch: Option<String>,
    /// When it began, in milliseconds.
    pub(crate) started: Option<i64>,
    pub(crate) refs: Vec<Ref>,
    /// Its models, where nothing is recorded about what they used.
    pub(crate) silent_models: Vec<String>,
    /// Packed: unpacked all at once, years of work would fill the memory.
    done: Box<[u8]>,
    spent: Box<[u8]>,
}

impl Doings {
    /// What it did.
    pub(crate) fn done(&self) -> Done {
        Done::unpack(&self.done)
    }

    /// What it spent.
    pub(crate) fn spent(&self) -> Vec<Spent> {
        ledger::unpack_spent(&self.spent)
    }
}

/// Records of calls that are not counted.
#[derive(Default)]
pub(crate) struct Repeats {
    /// Further records of a call in one file.
    pub(crate) in_file: u64,
    /// The same session in another file.
    pub(crate) in_copies: u64,
    /// The call in another session: a resume, a fork, a replay.
    pub(crate) in_sessions: u64,
    /// The call in a working copy of its session.
    pub(crate) in_working_copies: u64,
    /// Sums whose calls are recorded one by one, and calls told second-hand.
    pub(crate) sums: u64,
    /// Answers that the program wrote itself, in place of a model.
    pub(crate) synthetic: u64,
}

impl Store {
    /// Reads what every session did and spent, or every one that ended after an instant.
    pub(crate) fn doings(&self, filter: &Filter, after: Option<i64>) -> Result<Vec<Doings>> {
        let (condition, values) = self.about(filter)?;
        let after = after.map_or(String::new(), |at| format!("WHERE ended_at >= {at}"));
        let sql = format!("SELECT {DOINGS}, coalesce({condition}, 0) FROM {DOINGS_FROM} {after}");
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let rows = statement.query_map(params_from_iter(values), doings).map_err(self.error())?;
        rows.collect::<rusqlite::Result<_>>().map_err(self.error())
    }

    /// Reads the repositories that sessions name, by session.
    pub(crate) fn repositories(&self) -> Result<HashMap<u64, String>> {
        let sql =
            "SELECT session, iif(json_valid(account), json_extract(account, '$.repository'), NULL)
                   AS name FROM tellings WHERE name IS NOT NULL ORDER BY messages, key DESC";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        // What the fullest telling says comes last, and holds.
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Calls `found` with every file a session changed, and how often.
    pub(crate) fn each_file(&self, found: &mut dyn FnMut(u64, &str, u64)) -> Result<()> {
        self.each_packed("SELECT session, files FROM activity", &mut |session, files| {
            let _ = ledger::each_file(files, &mut |path, count| found(session, path, count));
        })
    }

    /// Calls `found` with every file a session touched, and how. Of a session whose facts are of
    /// an earlier version only the changes are known.
    pub(crate) fn each_touched(&self, found: &mut dyn FnMut(u64, &str, Touches)) -> Result<()> {
        self.each_packed("SELECT session, files FROM touched", &mut |session, files| {
            let _ = ledger::each_touched(files, &mut |path, touches| found(session, path, touches));
        })?;
        let sql = "SELECT session, files FROM activity
                   WHERE session NOT IN (SELECT session FROM touched)";
        self.each_packed(sql, &mut |session, files| {
            let _ = ledger::each_file(files, &mut |path, edited| {
                found(session, path, Touches { edited, ..Touches::default() });
            });
        })
    }

    /// Reads the files one session touched, and how.
    pub(crate) fn touched_files(&self, session: u64) -> Result<Vec<(String, Touches)>> {
        let sql = "SELECT files FROM touched WHERE session = ?1";
        let packed = self.connection.query_row(sql, [session as i64], |row| row.get(0));
        let packed: Option<Vec<u8>> = packed.optional().map_err(self.error())?;
        let mut files = Vec::new();
        let _ = ledger::each_touched(&packed.unwrap_or_default(), &mut |path, touches| {
            files.push((path.to_owned(), touches));
        });
        Ok(files)
    }

    fn each_packed(&self, sql: &str, found: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let session = row.get::<_, i64>(0).map_err(self.error())? as u64;
            found(session, row.get_ref(1).and_then(|it| Ok(it.as_blob()?)).map_err(self.error())?);
        }
        Ok(())
    }

    /// Counts the records of calls that are not counted, by the reason.
    pub(crate) fn repeats(&self) -> Result<Repeats> {
        // Of a call's records the owner's first one counts, whichever of them is the fullest.
        let sql = "SELECT total(repeats), total(iif(owner IS NULL, records, 0)),
                   total(owner != session AND kind IS 2), total(iif(owner IS NULL, 0, records - 1)),
                   total(owner != session AND kind IS NOT 2)
                   FROM (SELECT usage.session, count(*) AS records, total(repeats) AS repeats,
                       (SELECT winner.owner FROM usage winner
                        WHERE winner.identity = usage.identity AND winner.counted = 1) AS owner
                       FROM usage
                       WHERE usage.telling NOT IN (SELECT key FROM tellings WHERE combined = 1)
                       GROUP BY usage.identity, usage.session) AS told
                   LEFT JOIN sessions ON sessions.key = told.session";
        let repeats = self.connection.query_row(sql, [], |row| {
            let number = |at: usize| row.get::<_, f64>(at).map(|sum| sum as u64);
            Ok(Repeats {
                synthetic: 0,
                in_file: number(0)?,
                sums: number(1)?,
                in_working_copies: number(2)?,
                in_copies: number(3)?,
                in_sessions: number(4)?,
            })
        });
        let repeats = repeats.map_err(self.error())?;
        Ok(Repeats { synthetic: self.synthetic()?, ..repeats })
    }

    /// Counts the answers no model wrote, in what is shown.
    fn synthetic(&self) -> Result<u64> {
        /// Of all facts the one that is asked for: the others take their time to read.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Brief {
            synthetic: u64,
        }
        let sql = "SELECT facts FROM chunks JOIN tellings ON tellings.key = chunks.telling
                   WHERE hidden = 0";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([]).map_err(self.error())?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(self.error())? {
            let packed = row.get_ref(0).and_then(|it| Ok(it.as_blob()?)).map_err(self.error())?;
            let facts = unpack_facts(packed).and_then(|json| serde_json::from_slice(&json).ok());
            count += facts.map_or(0, |brief: Brief| brief.synthetic);
        }
        Ok(count)
    }
}

pub(super) fn doings(row: &Row<'_>) -> rusqlite::Result<Doings> {
    let agent: String = row.get(1)?;
    let native: String = row.get(2)?;
    let refs: Option<String> = row.get(11)?;
    let models: Option<String> = row.get(14)?;
    Ok(Doings {
        key: row.get::<_, i64>(0)? as u64,
        id: format!("{agent}:{native}"),
        agent,
        title: row.get(3)?,
        is_root: row.get::<_, i64>(4)? == 0,
        is_shown: row.get(5)?,
        parent: row.get::<_, Option<i64>>(6)?.map(|key| key as u64),
        project: row.get(7)?,
        project_path: row.get(8)?,
        branch: row.get(9)?,
        started: row.get(10)?,
        refs: refs.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        done: row.get_ref(12)?.as_blob_or_null()?.unwrap_or_default().into(),
        spent: row.get_ref(13)?.as_blob_or_null()?.unwrap_or_default().into(),
        silent_models: models.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        is_chosen: row.get(15)?,
    })
}
