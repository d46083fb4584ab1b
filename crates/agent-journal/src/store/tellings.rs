//! Reading what sources tell: messages, accounts, what changed.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, params};

use super::chunk::lines;
use super::packing::{Dictionary, unpack};
use super::summaries::{self, Summaries};
use super::{Store, account};
use crate::error::Result;
use crate::model::{Message, Ref, Session, SessionId, Title, TitleRank};

/// What is about a session as a whole.
pub(crate) struct Whole {
    pub(crate) telling: u64,
    pub(crate) title: String,
    pub(crate) at: i64,
    /// Longer texts, by name.
    pub(crate) documents: Vec<(String, String)>,
}

/// What the journal holds of one telling.
pub(crate) struct Telling {
    pub(crate) account: Session,
    pub(crate) hashes: Hashes,
}

/// Hashes of a telling's messages, or of the last of them.
#[derive(Default)]
pub(crate) struct Hashes {
    /// How many messages come before.
    first: u64,
    hashes: Vec<u64>,
}

impl Hashes {
    pub(crate) fn get(&self, position: u64) -> Option<u64> {
        self.hashes.get(position.checked_sub(self.first)? as usize).copied()
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A run of messages as it is stored, which any thread can unpack.
pub(crate) struct Run {
    first: u64,
    body: Vec<u8>,
    dictionary: Option<Arc<Dictionary>>,
}

impl Run {
    /// The messages at some positions.
    pub(crate) fn messages(&self, positions: &HashSet<u64>) -> Vec<(u64, Message)> {
        let run = unpack(&self.body, self.dictionary.as_deref()).unwrap_or_default();
        let all = (self.first..).zip(lines(&run));
        let wanted = all.filter(|(position, _)| positions.contains(position));
        wanted.filter_map(|(at, line)| Some((at, serde_json::from_slice(line).ok()?))).collect()
    }
}

impl Store {
    /// Whether every run of a telling can be unpacked.
    pub(crate) fn is_sound(&self, telling: u64) -> Result<bool> {
        let sql = "SELECT count, body FROM chunks WHERE telling = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling as i64]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let count = row.get::<_, i64>(0).map_err(self.error())? as usize;
            let body = row.get_ref(1).and_then(|body| Ok(body.as_blob()?)).map_err(self.error())?;
            let run = self.unpack(body).map_err(self.error())?.unwrap_or_default();
            if lines(&run).count() != count {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a run of messages.
    pub(crate) fn messages(&self, telling: u64, range: Range<u64>) -> Result<Vec<(u64, Message)>> {
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first < ?3
                   AND first + count > ?2 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let place =
            params![telling as i64, range.start as i64, range.end.min(i64::MAX as u64) as i64];
        let mut rows = statement.query(place).map_err(self.error())?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let first = row.get::<_, i64>(0).map_err(self.error())? as u64;
            let body = row.get_ref(1).and_then(|body| Ok(body.as_blob()?)).map_err(self.error())?;
            let run = self.unpack(body).map_err(self.error())?.unwrap_or_default();
            for (position, line) in (first..).zip(lines(&run)) {
                if range.contains(&position)
                    && let Ok(message) = serde_json::from_slice(line)
                {
                    messages.push((position, message));
                }
            }
        }
        Ok(messages)
    }

    /// Reads the messages at some positions, each run once.
    pub(crate) fn messages_at(
        &self,
        telling: u64,
        positions: &HashSet<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        let runs = self.runs_at(telling, positions)?;
        Ok(runs.iter().flat_map(|run| run.messages(positions)).collect())
    }

    /// Reads the runs that have the messages at some positions, without unpacking them.
    pub(crate) fn runs_at(&self, telling: u64, positions: &HashSet<u64>) -> Result<Vec<Run>> {
        let mut wanted: Vec<u64> = positions.iter().copied().collect();
        wanted.sort_unstable();
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut runs = Vec::new();
        // From the end: the run of the last wanted position has the others of that run, too.
        while let Some(last) = wanted.last() {
            let run = statement.query_row(params![telling as i64, *last as i64], |row| {
                let (first, body) = (row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?);
                let dictionary = self.needed(&body)?;
                Ok(Run { first, body, dictionary })
            });
            let Some(run) = run.optional().map_err(self.error())? else { break };
            wanted.truncate(wanted.partition_point(|position| *position < run.first));
            runs.push(run);
        }
        Ok(runs)
    }

    /// Reads one message.
    pub(crate) fn message(&self, telling: u64, position: u64) -> Result<Option<Message>> {
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let message = statement
            .query_row(params![telling as i64, position as i64], |row| {
                let first = row.get::<_, i64>(0)? as u64;
                let run = self.unpack(row.get_ref(1)?.as_blob()?)?.unwrap_or_default();
                let line = lines(&run).nth((position - first) as usize);
                Ok(line.and_then(|line| serde_json::from_slice(line).ok()))
            })
            .optional()
            .map_err(self.error())?;
        Ok(message.flatten())
    }

    /// Reads the account of a telling.
    pub(crate) fn account(&self, telling: u64) -> Result<Option<Session>> {
        let sql = "SELECT account FROM tellings WHERE key = ?1";
        let json = self.connection.query_row(sql, [telling as i64], |row| row.get::<_, String>(0));
        let json = json.optional().map_err(self.error())?;
        Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
    }

    /// Reads the account of a session: what all its tellings say.
    pub(crate) fn whole_account(&self, session: u64) -> Result<Option<Session>> {
        let account = account::joined(&self.connection, session).map_err(self.error())?;
        Ok(account.map(|(_, account)| account))
    }

    /// Reads the longer texts about the session that a telling is of, wherever they are told, and
    /// the summaries that end in it.
    pub(crate) fn documents(&self, telling: u64) -> Result<Vec<String>> {
        let sql = "SELECT session FROM tellings WHERE key = ?1";
        let session = self.connection.query_row(sql, [telling as i64], |row| row.get::<_, i64>(0));
        let Some(session) = session.optional().map_err(self.error())? else {
            return Ok(Vec::new());
        };
        let account = self.whole_account(session as u64)?.unwrap_or_default();
        let mut texts: Vec<String> = account.documents.into_iter().map(|(_, text)| text).collect();
        texts.extend(self.short_texts(session)?);
        texts.extend(self.summaries(&account.id, telling)?);
        Ok(texts)
    }

    /// Reads the summaries about a session, the latest first.
    pub(crate) fn summaries(&self, session: &SessionId, telling: u64) -> Result<Vec<String>> {
        let known = summaries::of_agent(&self.connection, &session.agent).map_err(self.error())?;
        let (key, telling) = (session.key(), telling as i64);
        let about = summaries::about_session(&self.connection, key, telling, &known);
        about.map_err(self.error())
    }

    /// Reads the titles that recordings of a session have, and what it refers to.
    fn short_texts(&self, session: i64) -> Result<Vec<String>> {
        let sql = "SELECT account FROM tellings WHERE session = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([session], |row| row.get::<_, String>(0));
        let mut texts = Vec::new();
        for account in rows.map_err(self.error())? {
            let about: Option<About> = serde_json::from_str(&account.map_err(self.error())?).ok();
            texts.extend(about.unwrap_or_default().short_texts());
        }
        Ok(texts)
    }

    /// Reads what the journal holds of a telling, as far as messages from a position on are
    /// concerned.
    pub(crate) fn telling(&self, key: u64, from: u64) -> Result<Option<Telling>> {
        let Some(account) = self.account(key)? else { return Ok(None) };
        let first = self.run_before(key, from, 0)?;
        let sql = "SELECT hashes FROM chunks WHERE telling = ?1 AND first >= ?2 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([key as i64, first as i64]).map_err(self.error())?;
        let mut hashes = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let bytes =
                row.get_ref(0).and_then(|blob| Ok(blob.as_blob()?)).map_err(self.error())?;
            hashes.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        Ok(Some(Telling { account, hashes: Hashes { first, hashes } }))
    }

    /// Tells where a run that is to change from `position` on must begin again: at that position
    /// when a full run ends there, else at the beginning of the run around or before it.
    pub(crate) fn run_before(&self, telling: u64, position: u64, full: u64) -> Result<u64> {
        let sql =
            "SELECT first, first + count, bytes FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let row = self.connection.query_row(sql, params![telling as i64, position as i64], |row| {
            Ok((
                row.get::<_, i64>(0)? as u64,
                row.get::<_, i64>(1)? as u64,
                row.get::<_, i64>(2)? as u64,
            ))
        });
        Ok(match row.optional().map_err(self.error())? {
            Some((_, end, bytes)) if end <= position && bytes >= full => position,
            Some((first, _, _)) => first,
            None => position,
        })
    }

    /// Lists the tellings that changed after a generation.
    pub(crate) fn changed_tellings(&self, generation: i64) -> Result<Vec<u64>> {
        let sql =
            "SELECT tellings.key FROM tellings JOIN sessions ON sessions.key = tellings.session
                   WHERE sessions.generation > ?1 ORDER BY sessions.ended_at DESC";
        self.keys(sql, [generation])
    }

    /// Lists what is about sessions as a whole, of those that changed after a generation.
    pub(crate) fn changed_wholes(&self, generation: i64) -> Result<Vec<Whole>> {
        let mut statement = self.connection.prepare_cached(&wholes_sql()).map_err(self.error())?;
        let mut rows = statement.query([generation]).map_err(self.error())?;
        let mut wholes: Vec<Whole> = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let whole = whole(row).map_err(self.error())?;
            match wholes.last_mut() {
                // What is found is what is shown: of several texts of one name the first.
                Some(last) if last.telling == whole.telling => {
                    let is_new = |(name, text): &(String, String)| {
                        let mut known = last.documents.iter();
                        known.all(|(one, told)| one != name && told.trim() != text.trim())
                    };
                    let new: Vec<_> = whole.documents.into_iter().filter(is_new).collect();
                    last.documents.extend(new);
                }
                _ => wholes.push(whole),
            }
        }
        self.add_summaries(&mut wholes, generation)?;
        Ok(wholes)
    }

    /// Adds the summaries that end in sessions and are not their titles.
    fn add_summaries(&self, wholes: &mut [Whole], generation: i64) -> Result<()> {
        // One that has no better title than these has no summary but one without an owner.
        let sql = "SELECT telling, agent, key FROM sessions WHERE generation > ?1 AND +shown = 1
                   AND (title_source IN ('renamed', 'named', 'generated', 'summary')
                        OR EXISTS (SELECT 1 FROM summaries WHERE holder = sessions.key AND found = 0))
                   AND agent IN (SELECT agent FROM summaries)";
        let mut known: HashMap<String, Summaries> = HashMap::new();
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([generation]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let telling: i64 = row.get(0).map_err(self.error())?;
            let agent: String = row.get(1).map_err(self.error())?;
            let at = wholes.binary_search_by_key(&telling, |whole| whole.telling as i64);
            let Ok(at) = at else { continue };
            if !known.contains_key(&agent) {
                let all = summaries::of_agent(&self.connection, &agent).map_err(self.error())?;
                known.insert(agent.clone(), all);
            }
            let key = row.get::<_, i64>(2).map_err(self.error())? as u64;
            let ending = summaries::about_session(&self.connection, key, telling, &known[&agent]);
            let (ending, whole) = (ending.map_err(self.error())?, &mut wholes[at]);
            let others = ending.into_iter().filter(|text| text.trim() != whole.title);
            whole.documents.extend(others.map(|text| (String::new(), text)).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Counts the sessions that did not change after a generation, and all of them.
    pub(crate) fn settled_sessions(&self, generation: i64) -> Result<(u64, u64)> {
        let sql =
            "SELECT coalesce(sum(generation <= ?1), 0), count(*) FROM sessions WHERE shown = 1";
        let counts = self.connection.query_row(sql, [generation], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        });
        counts.map_err(self.error())
    }
}

/// Asks for what is about sessions that changed. With the plus they are looked up by their
/// generation, and not among all that is shown; tables are gone through in this order.
fn wholes_sql() -> String {
    format!(
        "SELECT sessions.telling, title, coalesce(ended_at, 0), account FROM sessions
         CROSS JOIN tellings ON tellings.session = sessions.key
         CROSS JOIN sources ON sources.id = tellings.source
         WHERE generation > ?1 AND +shown = 1 ORDER BY sessions.telling, {}",
        account::ORDER
    )
}

/// As much of an account as can be found by words beside the messages.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct About {
    documents: Vec<(String, String)>,
    titles: Vec<Title>,
    refs: Vec<Ref>,
}

impl About {
    /// Returns every title on record, and what the session refers to in one text.
    fn short_texts(&self) -> Vec<String> {
        let titles = self.titles.iter().filter(|title| title.rank < TitleRank::Prompt);
        let mut texts: Vec<String> = titles.map(|title| title.text.clone()).collect();
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let value = |one: &Ref| {
            if is_number(&one.value) { format!("#{}", one.value) } else { one.value.clone() }
        };
        let refs: Vec<String> = self.refs.iter().map(value).collect();
        texts.extend((!refs.is_empty()).then(|| refs.join("\n")));
        texts
    }
}

fn whole(row: &Row<'_>) -> rusqlite::Result<Whole> {
    let about: Option<About> = serde_json::from_str(&row.get::<_, String>(3)?).ok();
    let about = about.unwrap_or_default();
    let title: String = row.get(1)?;
    let others = about.short_texts().into_iter().filter(|text| text.trim() != title);
    let others: Vec<_> = others.map(|text| (text.clone(), text)).collect();
    let mut documents = about.documents;
    documents.retain(|(_, text)| text.trim() != title.trim());
    documents.extend(others);
    Ok(Whole { telling: row.get::<_, i64>(0)? as u64, title, at: row.get(2)?, documents })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_found_without_a_look_at_everything() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("journal.db")).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", wholes_sql());
        let mut statement = store.connection.prepare(&sql).unwrap();
        let steps = statement.query_map([1], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps[0].contains("sessions_by_generation"), "{steps:?}");
        assert!(steps.iter().all(|step| !step.contains("SCAN")), "{steps:?}");
    }
}
