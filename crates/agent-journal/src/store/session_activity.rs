//! Reads the activity and usage of sessions.

use std::collections::HashMap;

use rusqlite::{Row, params_from_iter};
use serde::Deserialize;

use super::Store;
use super::activity_codec::{self, ActivityLog, Touches, UsageBucket};
use super::compression::unpack_facts;
use super::database::columns;
use crate::error::Result;
use crate::filter::Filter;
use crate::model::Ref;

/// The columns of `SessionActivity`, except the last: whether the filter matches.
pub(super) const ACTIVITY_COLUMNS: &str =
    "sessions.key, agent, native, title, kind, shown, parent, project,
    project_path, branch, started_at, iif(refs = '[]', NULL, refs) AS refs, done, calls,
    iif(calls IS NULL AND models != '[]', models, NULL) AS silent_models";

/// The tables of these columns.
pub(super) const ACTIVITY_TABLES: &str = "sessions
    LEFT JOIN activity ON activity.session = sessions.key
    LEFT JOIN spending ON spending.session = sessions.key";

/// Activity and usage of a session, with the properties it is grouped by.
pub(crate) struct SessionActivity {
    pub(crate) key: u64,
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) title: String,
    /// Whether a person started the session.
    pub(crate) is_root: bool,
    pub(crate) is_shown: bool,
    /// Whether the session matches the filter, apart from its time.
    pub(crate) is_chosen: bool,
    pub(crate) parent: Option<u64>,
    pub(crate) project: Option<String>,
    pub(crate) project_path: Option<String>,
    pub(crate) branch: Option<String>,
    /// Start time in milliseconds.
    pub(crate) started: Option<i64>,
    pub(crate) refs: Vec<Ref>,
    /// Models of the session, if it has no recorded usage.
    pub(crate) silent_models: Vec<String>,
    /// Packed. All sessions unpacked at once could exhaust the memory.
    done: Box<[u8]>,
    spent: Box<[u8]>,
}

impl SessionActivity {
    /// Decodes the activity log.
    pub(crate) fn done(&self) -> ActivityLog {
        ActivityLog::unpack(&self.done)
    }

    /// Decodes the usage.
    pub(crate) fn spent(&self) -> Vec<UsageBucket> {
        activity_codec::unpack_usage(&self.spent)
    }
}

/// Number of records of model calls that are not counted, by reason.
#[derive(Default)]
pub(crate) struct Repeats {
    /// Repeated records of a call in one file.
    pub(crate) in_file: u64,
    /// Records of the same session in another file.
    pub(crate) in_copies: u64,
    /// Records of the call in another session: a resume, a fork, a replay.
    pub(crate) in_sessions: u64,
    /// Records of the call in a working copy of its session.
    pub(crate) in_working_copies: u64,
    /// Sums whose calls are recorded individually, and second-hand records.
    pub(crate) sums: u64,
    /// Replies that the agent's program wrote in place of a model.
    pub(crate) synthetic: u64,
}

impl Store {
    /// Reads the activity of all sessions, or of those that ended at `after` or later.
    pub(crate) fn activity(
        &self,
        filter: &Filter,
        after: Option<i64>,
    ) -> Result<Vec<SessionActivity>> {
        let (condition, values) = self.about(filter)?;
        let after = after.map_or(String::new(), |at| format!("WHERE ended_at >= {at}"));
        let sql = format!(
            "SELECT {ACTIVITY_COLUMNS}, coalesce({condition}, 0) AS is_chosen FROM {ACTIVITY_TABLES} {after}"
        );
        let mut columns = None;
        self.database.rows(&sql, params_from_iter(values), |row| {
            session_activity(row, SessionActivityColumns::of(&mut columns, row)?)
        })
    }

    /// Reads the repositories that sessions name, by session.
    pub(crate) fn repositories(&self) -> Result<HashMap<u64, String>> {
        let sql =
            "SELECT session, iif(json_valid(metadata), json_extract(metadata, '$.repository'), NULL)
                   AS name FROM recordings WHERE name IS NOT NULL ORDER BY messages, key DESC";
        let mut statement = self.database.prepare_cached(sql)?;
        // The value of the longest recording comes last and wins.
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, i64>("session")? as u64, row.get("name")?)));
        rows?.collect()
    }

    /// Calls `found` with each file that a session changed and the number of calls.
    pub(crate) fn each_file(&self, found: &mut dyn FnMut(u64, &str, u64)) -> Result<()> {
        self.each_packed("SELECT session, files FROM activity", &mut |session, files| {
            let _ =
                activity_codec::each_file(files, &mut |path, count| found(session, path, count));
        })
    }

    /// Calls `found` with each file that a session touched and the numbers of calls. Sessions whose
    /// facts have an older version contribute only their changes.
    pub(crate) fn each_touched(&self, found: &mut dyn FnMut(u64, &str, Touches)) -> Result<()> {
        self.each_packed("SELECT session, files FROM touched", &mut |session, files| {
            let _ = activity_codec::each_touched(files, &mut |path, touches| {
                found(session, path, touches);
            });
        })?;
        let sql = "SELECT session, files FROM activity
                   WHERE session NOT IN (SELECT session FROM touched)";
        self.each_packed(sql, &mut |session, files| {
            let _ = activity_codec::each_file(files, &mut |path, edited| {
                found(session, path, Touches { edited, ..Touches::default() });
            });
        })
    }

    /// Reads the files that one session touched.
    pub(crate) fn touched_files(&self, session: u64) -> Result<Vec<(String, Touches)>> {
        let sql = "SELECT files FROM touched WHERE session = ?1";
        let packed: Option<Vec<u8>> = self.database.optional_value(sql, [session as i64])?;
        let mut files = Vec::new();
        let _ = activity_codec::each_touched(&packed.unwrap_or_default(), &mut |path, touches| {
            files.push((path.to_owned(), touches));
        });
        Ok(files)
    }

    fn each_packed(&self, sql: &str, found: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found(row.get::<i64>("session")? as u64, row.blob("files")?);
        }
        Ok(())
    }

    /// Counts the records of calls that are not counted, by reason.
    pub(crate) fn repeats(&self) -> Result<Repeats> {
        // The owner's first record of a call counts as the original here, even if another record is
        // more complete.
        let sql = "SELECT total(repeats) AS in_file, total(iif(owner IS NULL, records, 0)) AS sums,
                   total(owner != session AND kind IS 2) AS in_working_copies,
                   total(iif(owner IS NULL, 0, records - 1)) AS in_copies,
                   total(owner != session AND kind IS NOT 2) AS in_sessions
                   FROM (SELECT usage.session, count(*) AS records, total(repeats) AS repeats,
                       (SELECT winner.owner FROM usage winner
                        WHERE winner.identity = usage.identity AND winner.counted = 1) AS owner
                       FROM usage
                       WHERE usage.recording NOT IN (SELECT key FROM recordings WHERE combined = 1)
                       GROUP BY usage.identity, usage.session) AS told
                   LEFT JOIN sessions ON sessions.key = told.session";
        let repeats = self.database.query_row(sql, [], |row| {
            let number = |name: &str| row.get::<_, f64>(name).map(|sum| sum as u64);
            Ok(Repeats {
                synthetic: 0,
                in_file: number("in_file")?,
                sums: number("sums")?,
                in_working_copies: number("in_working_copies")?,
                in_copies: number("in_copies")?,
                in_sessions: number("in_sessions")?,
            })
        });
        let repeats = repeats?;
        Ok(Repeats { synthetic: self.synthetic()?, ..repeats })
    }

    /// Counts the replies in shown recordings that no model wrote.
    fn synthetic(&self) -> Result<u64> {
        /// The one fact that is needed. Decoding all facts takes longer.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Brief {
            synthetic: u64,
        }
        let sql = "SELECT facts FROM chunks JOIN recordings ON recordings.key = chunks.recording
                   WHERE hidden = 0";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let facts = unpack_facts(row.blob("facts")?)
                .and_then(|json| serde_json::from_slice(&json).ok());
            count += facts.map_or(0, |brief: Brief| brief.synthetic);
        }
        Ok(count)
    }
}

columns! {
    /// The columns of `SessionActivity`.
    SessionActivityColumns {
        key, agent, native, title, kind, shown, parent, project, project_path, branch, started_at,
        refs, done, calls, silent_models, is_chosen,
    }
}

pub(super) fn session_activity(
    row: &Row<'_>,
    columns: &SessionActivityColumns,
) -> rusqlite::Result<SessionActivity> {
    let agent: String = row.get(columns.agent)?;
    let native: String = row.get(columns.native)?;
    let refs: Option<String> = row.get(columns.refs)?;
    let models: Option<String> = row.get(columns.silent_models)?;
    Ok(SessionActivity {
        key: row.get::<_, i64>(columns.key)? as u64,
        id: format!("{agent}:{native}"),
        agent,
        title: row.get(columns.title)?,
        is_root: row.get::<_, i64>(columns.kind)? == 0,
        is_shown: row.get(columns.shown)?,
        parent: row.get::<_, Option<i64>>(columns.parent)?.map(|key| key as u64),
        project: row.get(columns.project)?,
        project_path: row.get(columns.project_path)?,
        branch: row.get(columns.branch)?,
        started: row.get(columns.started_at)?,
        refs: refs.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        done: row.get_ref(columns.done)?.as_blob_or_null()?.unwrap_or_default().into(),
        spent: row.get_ref(columns.calls)?.as_blob_or_null()?.unwrap_or_default().into(),
        silent_models: models.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        is_chosen: row.get(columns.is_chosen)?,
    })
}
