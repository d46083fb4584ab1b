//! Reads recordings: messages, metadata and changes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rusqlite::{Row, params};

use super::chunk::lines;
use super::compression::{Dictionary, unpack};
use super::database::OptionalRow;
use super::summaries::{self, Summaries};
use super::{Store, metadata};
use crate::error::Result;
use crate::model::{Message, Ref, Session, SessionId, Title, TitleRank};

/// The texts about a session as a whole, which are indexed besides its messages.
pub(crate) struct SessionTexts {
    pub(crate) recording: u64,
    pub(crate) title: String,
    pub(crate) at: i64,
    /// Documents by name.
    pub(crate) documents: Vec<(String, String)>,
}

/// A recording as stored in the journal.
pub(crate) struct StoredRecording {
    pub(crate) metadata: Session,
    pub(crate) hashes: Hashes,
}

/// Hashes of the messages of a recording, or of its last messages only.
#[derive(Default)]
pub(crate) struct Hashes {
    /// Number of messages before the first hash.
    first: u64,
    hashes: Vec<u64>,
}

impl Hashes {
    pub(crate) fn get(&self, position: u64) -> Option<u64> {
        self.hashes.get(position.checked_sub(self.first)? as usize).copied()
    }

    /// Returns the number of messages in the recording.
    pub(crate) fn len(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A compressed chunk of messages that any thread can unpack.
pub(crate) struct CompressedChunk {
    first: u64,
    body: Vec<u8>,
    dictionary: Option<Arc<Dictionary>>,
}

impl CompressedChunk {
    /// Decodes the messages at the given positions.
    pub(crate) fn messages(&self, positions: &HashSet<u64>) -> Vec<(u64, Message)> {
        let run = unpack(&self.body, self.dictionary.as_deref()).unwrap_or_default();
        let all = (self.first..).zip(lines(&run));
        let wanted = all.filter(|(position, _)| positions.contains(position));
        wanted.filter_map(|(at, line)| Some((at, serde_json::from_slice(line).ok()?))).collect()
    }
}

impl Store {
    /// Returns whether all chunks of a recording can be decompressed.
    pub(crate) fn is_sound(&self, recording: u64) -> Result<bool> {
        let sql = "SELECT count, body FROM chunks WHERE recording = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording as i64])?;
        while let Some(row) = rows.next()? {
            let count = row.get::<i64>("count")? as usize;
            let run = self.unpack(row.blob("body")?)?.unwrap_or_default();
            if lines(&run).count() != count {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the messages in a range of positions.
    pub(crate) fn messages(
        &self,
        recording: u64,
        range: Range<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        let sql = "SELECT first, body FROM chunks WHERE recording = ?1 AND first < ?3
                   AND first + count > ?2 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let place =
            params![recording as i64, range.start as i64, range.end.min(i64::MAX as u64) as i64];
        let mut rows = statement.query(place)?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next()? {
            let first = row.get::<i64>("first")? as u64;
            let run = self.unpack(row.blob("body")?)?.unwrap_or_default();
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

    /// Reads the messages at the given positions. Each chunk is read once.
    pub(crate) fn messages_at(
        &self,
        recording: u64,
        positions: &HashSet<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        let runs = self.chunks_at(recording, positions)?;
        Ok(runs.iter().flat_map(|run| run.messages(positions)).collect())
    }

    /// Reads the compressed chunks that contain the given positions.
    pub(crate) fn chunks_at(
        &self,
        recording: u64,
        positions: &HashSet<u64>,
    ) -> Result<Vec<CompressedChunk>> {
        let mut wanted: Vec<u64> = positions.iter().copied().collect();
        wanted.sort_unstable();
        let sql = "SELECT first, body FROM chunks WHERE recording = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut runs = Vec::new();
        // From the end: the chunk of the last position also contains other wanted positions.
        while let Some(last) = wanted.last() {
            let run = statement.query_row(params![recording as i64, *last as i64], |row| {
                Ok((row.get::<_, i64>("first")? as u64, row.get::<_, Vec<u8>>("body")?))
            });
            let Some((first, body)) = run.optional()? else { break };
            let dictionary = self.needed(&body)?;
            wanted.truncate(wanted.partition_point(|position| *position < first));
            runs.push(CompressedChunk { first, body, dictionary });
        }
        Ok(runs)
    }

    /// Reads one message.
    pub(crate) fn message(&self, recording: u64, position: u64) -> Result<Option<Message>> {
        let sql = "SELECT first, body FROM chunks WHERE recording = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(params![recording as i64, position as i64])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let first = row.get::<i64>("first")? as u64;
        let run = self.unpack(row.blob("body")?)?.unwrap_or_default();
        let line = lines(&run).nth((position - first) as usize);
        Ok(line.and_then(|line| serde_json::from_slice(line).ok()))
    }

    /// Reads the metadata of a recording.
    pub(crate) fn metadata(&self, recording: u64) -> Result<Option<Session>> {
        let sql = "SELECT metadata FROM recordings WHERE key = ?1";
        let json: Option<String> = self.database.optional_value(sql, [recording as i64])?;
        Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
    }

    /// Reads the metadata of a session, merged from all its recordings.
    pub(crate) fn merged_metadata(&self, session: u64) -> Result<Option<Session>> {
        let metadata = metadata::joined(&self.database, session)?;
        Ok(metadata.map(|(_, metadata)| metadata))
    }

    /// Reads the documents, titles and references of the session that a recording belongs to, and
    /// the summaries that end in the recording.
    pub(crate) fn documents(&self, recording: u64) -> Result<Vec<String>> {
        let sql = "SELECT session FROM recordings WHERE key = ?1";
        let session: Option<i64> = self.database.optional_value(sql, [recording as i64])?;
        let Some(session) = session else {
            return Ok(Vec::new());
        };
        let metadata = self.merged_metadata(session as u64)?.unwrap_or_default();
        let mut texts: Vec<String> = metadata.documents.into_iter().map(|(_, text)| text).collect();
        texts.extend(self.short_texts(session)?);
        texts.extend(self.summaries(&metadata.id, recording)?);
        Ok(texts)
    }

    /// Reads the summaries of a session, the latest first.
    pub(crate) fn summaries(&self, session: &SessionId, recording: u64) -> Result<Vec<String>> {
        let known = summaries::of_agent(&self.database, &session.agent)?;
        let (key, recording) = (session.session_key(), recording as i64);
        summaries::about_session(&self.database, key, recording, &known)
    }

    /// Reads the titles and references in all recordings of a session.
    fn short_texts(&self, session: i64) -> Result<Vec<String>> {
        let sql = "SELECT metadata FROM recordings WHERE session = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([session], |row| row.get::<_, String>(0));
        let mut texts = Vec::new();
        for metadata in rows? {
            let about: Option<MetadataTexts> = serde_json::from_str(&metadata?).ok();
            texts.extend(about.unwrap_or_default().short_texts());
        }
        Ok(texts)
    }

    /// Reads a stored recording, with the hashes of its messages from `from` on.
    pub(crate) fn stored_recording(&self, key: u64, from: u64) -> Result<Option<StoredRecording>> {
        let Some(metadata) = self.metadata(key)? else { return Ok(None) };
        let first = self.rewrite_start(key, from, 0)?;
        let sql = "SELECT hashes FROM chunks WHERE recording = ?1 AND first >= ?2 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([key as i64, first as i64])?;
        let mut hashes = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes = row.blob("hashes")?;
            hashes.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        Ok(Some(StoredRecording { metadata, hashes: Hashes { first, hashes } }))
    }

    /// Returns the position from which chunks must be rewritten if messages change from `position`
    /// on: `position` itself if a chunk of at least `full` bytes ends there, else the start of the
    /// chunk that contains or precedes it.
    pub(crate) fn rewrite_start(&self, recording: u64, position: u64, full: u64) -> Result<u64> {
        let sql =
            "SELECT first, first + count AS end_position, bytes FROM chunks WHERE recording = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let row = self.database.query_row(sql, params![recording as i64, position as i64], |row| {
            Ok((
                row.get::<_, i64>("first")? as u64,
                row.get::<_, i64>("end_position")? as u64,
                row.get::<_, i64>("bytes")? as u64,
            ))
        });
        Ok(match row.optional()? {
            Some((_, end, bytes)) if end <= position && bytes >= full => position,
            Some((first, _, _)) => first,
            None => position,
        })
    }

    /// Lists the recordings of the sessions that changed after a generation.
    pub(crate) fn changed_recordings(&self, generation: i64) -> Result<Vec<u64>> {
        let sql =
            "SELECT recordings.key FROM recordings JOIN sessions ON sessions.key = recordings.session
                   WHERE sessions.generation > ?1 ORDER BY sessions.ended_at DESC";
        self.keys(sql, [generation])
    }

    /// Reads the texts of the sessions that changed after a generation.
    pub(crate) fn changed_session_texts(&self, generation: i64) -> Result<Vec<SessionTexts>> {
        let mut statement = self.database.prepare_cached(&session_texts_sql())?;
        let mut rows = statement.query([generation])?;
        let mut all: Vec<SessionTexts> = Vec::new();
        while let Some(row) = rows.next()? {
            let whole = row.read(session_texts)?;
            match all.last_mut() {
                // Search finds what views show: of several texts with one name, the first.
                Some(last) if last.recording == whole.recording => {
                    let is_new = |(name, text): &(String, String)| {
                        let mut known = last.documents.iter();
                        known.all(|(one, known)| one != name && known.trim() != text.trim())
                    };
                    let new: Vec<_> = whole.documents.into_iter().filter(is_new).collect();
                    last.documents.extend(new);
                }
                _ => all.push(whole),
            }
        }
        self.add_summaries(&mut all, generation)?;
        Ok(all)
    }

    /// Adds the summaries of sessions that are not their titles.
    fn add_summaries(&self, all: &mut [SessionTexts], generation: i64) -> Result<()> {
        // A session with another kind of title has no summary, except one without an owner.
        let sql = "SELECT recording, agent, key FROM sessions WHERE generation > ?1 AND +shown = 1
                   AND (title_source IN ('renamed', 'named', 'generated', 'summary')
                        OR EXISTS (SELECT 1 FROM summaries WHERE holder = sessions.key AND found = 0))
                   AND agent IN (SELECT agent FROM summaries)";
        let mut known: HashMap<String, Summaries> = HashMap::new();
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([generation])?;
        while let Some(row) = rows.next()? {
            let recording: i64 = row.get("recording")?;
            let agent: String = row.get("agent")?;
            let at = all.binary_search_by_key(&recording, |whole| whole.recording as i64);
            let Ok(at) = at else { continue };
            if !known.contains_key(&agent) {
                let all = summaries::of_agent(&self.database, &agent)?;
                known.insert(agent.clone(), all);
            }
            let key = row.get::<i64>("key")? as u64;
            let ending = summaries::about_session(&self.database, key, recording, &known[&agent]);
            let (ending, whole) = (ending?, &mut all[at]);
            let others = ending.into_iter().filter(|text| text.trim() != whole.title);
            whole.documents.extend(others.map(|text| (String::new(), text)).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Counts the sessions that did not change after a generation, and all sessions.
    pub(crate) fn count_unchanged_sessions(&self, generation: i64) -> Result<(u64, u64)> {
        let sql = "SELECT coalesce(sum(generation <= ?1), 0) AS settled, count(*) AS sessions FROM sessions WHERE shown = 1";
        self.database.query_row(sql, [generation], |row| {
            Ok((row.get::<_, i64>("settled")? as u64, row.get::<_, i64>("sessions")? as u64))
        })
    }
}

/// Returns SQL for the texts of changed sessions. The plus makes SQLite use the index on the
/// generation instead of the one on `shown`; `CROSS JOIN` enforces the order of the tables.
fn session_texts_sql() -> String {
    format!(
        "SELECT sessions.recording, title, coalesce(ended_at, 0) AS at, metadata FROM sessions
         CROSS JOIN recordings ON recordings.session = sessions.key
         CROSS JOIN sources ON sources.id = recordings.source
         WHERE generation > ?1 AND +shown = 1 ORDER BY sessions.recording, {}",
        metadata::ORDER
    )
}

/// The parts of the metadata that are searchable besides the messages.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct MetadataTexts {
    documents: Vec<(String, String)>,
    titles: Vec<Title>,
    refs: Vec<Ref>,
}

impl MetadataTexts {
    /// Returns all recorded titles, and the references joined to one text.
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

fn session_texts(row: &Row<'_>) -> rusqlite::Result<SessionTexts> {
    let about: Option<MetadataTexts> =
        serde_json::from_str(&row.get::<_, String>("metadata")?).ok();
    let about = about.unwrap_or_default();
    let title: String = row.get("title")?;
    let others = about.short_texts().into_iter().filter(|text| text.trim() != title);
    let others: Vec<_> = others.map(|text| (text.clone(), text)).collect();
    let mut documents = about.documents;
    documents.retain(|(_, text)| text.trim() != title.trim());
    documents.extend(others);
    Ok(SessionTexts {
        recording: row.get::<_, i64>("recording")? as u64,
        title,
        at: row.get("at")?,
        documents,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_found_without_a_look_at_everything() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("journal.db")).unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", session_texts_sql());
        let mut statement = store.database.prepare(&sql).unwrap();
        let steps = statement.query_map([1], |row| row.get::<_, String>("detail")).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps[0].contains("sessions_by_generation"), "{steps:?}");
        assert!(steps.iter().all(|step| !step.contains("SCAN")), "{steps:?}");
    }
}
