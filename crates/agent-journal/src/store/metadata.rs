//! Merges the metadata of a session from all its recordings.

use super::database::Database;
use crate::error::Result;
use crate::model::Session;

/// SQL order of recordings by priority: the richest first, then the longest, then that of the
/// largest file. An import leads only if the agent's own files have no message. A combined recording has no metadata of its own.
pub(super) const ORDER: &str = "recordings.combined, recordings.messages > 0 DESC,
    sources.home = 'import', recordings.richness DESC, recordings.messages DESC,
    sources.size DESC, recordings.key";

/// Merges the metadata of a session. The leading recording takes precedence, the others fill its
/// gaps. Returns the key of the leading recording with the result.
pub(super) fn joined(database: &Database, session: u64) -> Result<Option<(i64, Session)>> {
    let sql = format!(
        "SELECT key, metadata, home = 'import' AS is_import FROM recordings JOIN sources ON sources.id = recordings.source
         WHERE session = ?1 ORDER BY {ORDER}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([session as i64], |row| {
        Ok((
            row.get::<_, i64>("key")?,
            row.get::<_, String>("metadata")?,
            row.get::<_, bool>("is_import")?,
        ))
    })?;
    let mut best: Option<(i64, Session)> = None;
    let mut is_own = false;
    for row in rows {
        let (key, json, is_import) = row?;
        let Ok(mut metadata) = serde_json::from_str::<Session>(&json) else { continue };
        is_own |= best.is_none() && !is_import;
        if is_own && is_import {
            // An import neither renames nor moves a session of this machine.
            metadata.titles.clear();
            metadata.parent = None;
        }
        match &mut best {
            Some((_, best)) => best.complete_from(metadata),
            None => best = Some((key, metadata)),
        }
    }
    if let Some((_, metadata)) = &mut best
        && let Some(title) = metadata.titles.first()
    {
        // A summary that is the title is not also a document.
        metadata.documents.retain(|(_, text)| text.trim() != title.text.trim());
    }
    Ok(best)
}
