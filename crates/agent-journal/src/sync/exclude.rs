//! Decides which sessions are not read: those that the user forgot, and those that the configuration
//! excludes.

use crate::config::ExcludeRules;
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
