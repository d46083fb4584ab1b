//! Decides which sessions are not read: those that the user forgot, and those that the configuration
//! excludes.

use std::collections::HashMap;

use super::ReadJob;
use super::record::recording_key;
use crate::config::{Config, ExcludeRules};
use crate::connectors::formats::jsonl;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Session, SessionId, SessionKind};
use crate::store::{LeftOutReason, LeftOutRow, Store, project_directory, project_place};

/// Returns the reason why a session must not be read, as it is stored; `None` if it is read.
pub(crate) fn reason_not_to_read(
    session: &Session,
    rules: &ExcludeRules,
    store: Option<&Store>,
) -> Result<Option<LeftOutRow>> {
    let row =
        |reason, place, parent| LeftOutRow { session: session.id.clone(), reason, place, parent };
    if let Some(store) = store {
        if store.is_forgotten(session.id.session_key())? {
            return Ok(Some(row(LeftOutReason::Forgotten, None, None)));
        }
        // A sub-agent of a forgotten session that was not known when the session was forgotten.
        if let (SessionKind::Agent | SessionKind::Copy, Some(native)) =
            (session.kind, &session.parent)
        {
            let parent = SessionId { agent: session.id.agent.clone(), native: native.clone() };
            let key = parent.session_key();
            if store.is_forgotten(key)? {
                return Ok(Some(row(LeftOutReason::Forgotten, None, Some(key))));
            }
        }
    }
    let place = excluded_place(session, rules);
    Ok(place.map(|place| row(LeftOutReason::Excluded, Some(place), None)))
}

/// Reads a source once and lists the sessions that are excluded, each with its directory. Some
/// agents write the directory after the first messages, and no text of these may reach the journal.
pub(super) fn excluded_sessions(
    job: &ReadJob,
    config: &Config,
    store: Option<&Store>,
) -> HashMap<SessionId, String> {
    let mut scan = SessionScan { job, store, sessions: HashMap::new() };
    if config.exclude.is_empty() {
        return HashMap::new();
    }
    let read = || job.connector.read_source(&job.source, Checkpoint::default(), &mut scan);
    // The read that follows reports an error of the source.
    let _ = jsonl::with_max_line(config.max_line_bytes, read);
    let places = scan.sessions.into_values().filter_map(|session| {
        let place = excluded_place(&session, &config.exclude)?;
        Some((session.id, place))
    });
    places.collect()
}

/// Collects the sessions of a source without their messages.
struct SessionScan<'a> {
    job: &'a ReadJob,
    store: Option<&'a Store>,
    sessions: HashMap<SessionId, Session>,
}

impl Sink for SessionScan<'_> {
    fn accept_record(&mut self, record: Record) -> agent_sessions::Result<()> {
        if let Record::Session(session) = record {
            match self.sessions.get_mut(&session.id) {
                Some(known) => known.merge_later(*session),
                None => drop(self.sessions.insert(session.id.clone(), *session)),
            }
        }
        Ok(())
    }

    fn is_unchanged(&mut self, id: &SessionId, fingerprint: u64) -> agent_sessions::Result<bool> {
        let Some(store) = self.store else { return Ok(false) };
        let known = store.fingerprint(recording_key(id, &self.job.source.path))?;
        Ok(known.is_some_and(|known| known.value == fingerprint))
    }
}

/// Returns the directory for which a session is excluded; `None` if it is not excluded.
fn excluded_place(session: &Session, rules: &ExcludeRules) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let places = [project_place(session), session.cwd.as_deref()];
    let found = places.into_iter().flatten().find(|place| excludes_directory(rules, place));
    found.map(str::to_owned)
}

/// Returns whether sessions in a directory are excluded.
pub(crate) fn excludes_directory(rules: &ExcludeRules, directory: &str) -> bool {
    let is_of_project =
        || !rules.projects.is_empty() && rules.excludes_project(&project_directory(directory));
    rules.excludes_path(directory) || is_of_project()
}
