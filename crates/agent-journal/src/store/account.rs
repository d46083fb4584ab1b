//! What all tellings of a session say of it as a whole.

use rusqlite::Connection;

use crate::model::Session;

/// Which recording leads: the richest, then the longest. An import leads only when it is richer or
/// longer than the agent's own files. A combined recording says nothing of its own.
pub(super) const ORDER: &str = "tellings.combined, tellings.messages > 0 DESC,
    tellings.richness DESC, tellings.messages DESC, sources.home = 'import', tellings.key";

/// Joins the accounts of a session: the fullest telling speaks, the others fill its gaps.
pub(super) fn joined(
    connection: &Connection,
    session: u64,
) -> rusqlite::Result<Option<(i64, Session)>> {
    let sql = format!(
        "SELECT key, account FROM tellings JOIN sources ON sources.id = tellings.source
         WHERE session = ?1 ORDER BY {ORDER}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement
        .query_map([session as i64], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut best: Option<(i64, Session)> = None;
    for row in rows {
        let (key, json) = row?;
        let Ok(account) = serde_json::from_str::<Session>(&json) else { continue };
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
