//! What all tellings of a session say of it as a whole.

use rusqlite::Connection;

use crate::model::Session;

/// Which recording leads: the richest, then the longest. An import leads only where the agent's own
/// files have no message. A combined recording says nothing of its own.
pub(super) const ORDER: &str = "tellings.combined, tellings.messages > 0 DESC,
    sources.home = 'import', tellings.richness DESC, tellings.messages DESC, tellings.key";

/// Joins the accounts of a session: the fullest telling speaks, the others fill its gaps.
pub(super) fn joined(
    connection: &Connection,
    session: u64,
) -> rusqlite::Result<Option<(i64, Session)>> {
    let sql = format!(
        "SELECT key, account, home = 'import' FROM tellings JOIN sources ON sources.id = tellings.source
         WHERE session = ?1 ORDER BY {ORDER}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([session as i64], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
    })?;
    let mut best: Option<(i64, Session)> = None;
    let mut is_own = false;
    for row in rows {
        let (key, json, is_import) = row?;
        let Ok(mut account) = serde_json::from_str::<Session>(&json) else { continue };
        is_own |= best.is_none() && !is_import;
        if is_own && is_import {
            // An import neither renames a session of this machine nor moves it.
            account.titles.clear();
            account.parent = None;
        }
        match &mut best {
            Some((_, best)) => best.complete(account),
            None => best = Some((key, account)),
        }
    }
    if let Some((_, account)) = &mut best
        && let Some(title) = account.titles.first()
    {
        // A summary that is the title need not be told twice.
        account.documents.retain(|(_, text)| text.trim() != title.text.trim());
    }
    Ok(best)
}
