//! Finds sessions that begin with messages of another session: a fork, or a resume that copies the
//! history into a new file. The shared messages count for the session that recorded them first.
//!
//! Candidates are found by a few messages of each recording (`anchors`) and compared by the hashes
//! of all message uuids. Only sessions that share an anchor are compared.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::params;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::lines;
use super::database::OptionalRow;
use super::summaries::hashes;
use super::{Chunk, Store, Writer};
use crate::error::Result;
use crate::maps::Map;
use crate::model::{Continuation, Session, SessionId, Timestamp};

/// Maximum number of message uuids per lineage in memory. Further sessions of the lineage are not
/// compared.
const MAX_UUIDS: usize = 4 << 20;

/// The origin of a session that continues another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// Key of the session that first recorded the last shared message.
    pub(crate) origin: u64,
    /// Number of leading messages that belong to the origin.
    pub(crate) shared_messages: u64,
}

/// A session in a group that shares messages.
struct LineageMember {
    session: u64,
    recording: i64,
    native: String,
    /// Whether its file shows that it begins with a copy.
    begins_with_copy: bool,
    /// Whether its shown recording is imported.
    is_import: bool,
    /// Hashes of the message uuids, in order.
    uuids: Vec<i64>,
}

/// The fields of a stored message that identify and date it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageHead {
    uuid: Option<String>,
    part_uuids: Vec<String>,
    at: Option<Timestamp>,
    blocks: Option<Box<RawValue>>,
}

/// A message that was found by its uuid.
struct FoundMessage {
    position: u64,
    at: Option<Timestamp>,
    /// The blocks as stored JSON.
    content: String,
}

impl Store {
    /// Reads all lineages by session. There is one per fork.
    pub(crate) fn lineages(&self) -> Result<Map<u64, Lineage>> {
        let sql = "SELECT session, origin, shared FROM lineages";
        self.database.rows(sql, [], |row| {
            let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
            Ok((
                number("session")?,
                Lineage { origin: number("origin")?, shared_messages: number("shared")? },
            ))
        })
    }

    /// Reads the shared beginnings of all forks: the shown recordings of the fork and of its
    /// origin, with the number of shared messages.
    pub(crate) fn shared_beginnings(&self) -> Result<Vec<SharedBeginning>> {
        let sql = "SELECT fork.recording AS fork, origin.recording AS origin, lineages.shared FROM lineages
                   JOIN sessions fork ON fork.key = lineages.session
                   JOIN sessions origin ON origin.key = lineages.origin
                   WHERE lineages.shared > 0 AND origin.shown = 1";
        self.database.rows(sql, [], |row| {
            let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
            Ok(SharedBeginning {
                recording: number("fork")?,
                origin_recording: number("origin")?,
                shared_messages: number("shared")?,
            })
        })
    }
}

/// The beginning of a recording that belongs to another session.
pub(crate) struct SharedBeginning {
    pub(crate) recording: u64,
    pub(crate) origin_recording: u64,
    pub(crate) shared_messages: u64,
}

impl Writer<'_> {
    /// Writes the anchors of a chunk, and collects those that another recording has too.
    pub(super) fn note_anchors(&mut self, recording: u64, chunk: &Chunk) -> Result<()> {
        for anchor in &chunk.anchors {
            let sql =
                "INSERT OR IGNORE INTO anchors (uuid, recording, position) VALUES (?1, ?2, ?3)";
            let row = params![anchor.uuid, recording as i64, anchor.position as i64];
            self.database.execute(sql, row)?;
            let sql = "SELECT 1 FROM anchors WHERE uuid = ?1 AND recording != ?2 LIMIT 1";
            let mut statement = self.database.prepare_cached(sql)?;
            let other = params![anchor.uuid, recording as i64];
            if statement.exists(other)? {
                self.shared_anchors.insert(anchor.uuid);
            }
        }
        Ok(())
    }

    /// Deletes the anchors of a recording from a position on.
    pub(super) fn forget_anchors(&self, recording: u64, from: u64) -> Result<()> {
        let sql = "DELETE FROM anchors WHERE recording = ?1 AND position >= ?2";
        self.database.execute(sql, params![recording as i64, from as i64])?;
        Ok(())
    }

    /// Writes the session that a session continues, as declared by its format. An import's
    /// declaration is ignored if this machine has the session.
    pub(super) fn note_continuation(&self, metadata: &Session, source: i64) -> Result<()> {
        let key = metadata.id.session_key() as i64;
        let Some(Continuation { session, messages }) = &metadata.continues else {
            return self.forget_imported_continuation(key, source);
        };
        let sql = "SELECT home = 'import' AND EXISTS (SELECT 1 FROM recordings
                     JOIN sources own ON own.id = recordings.source
                     WHERE recordings.session = ?2 AND own.home != 'import')
                   FROM sources WHERE id = ?1";
        if self.database.value(sql, [source, key])? {
            return Ok(());
        }
        let origin = SessionId { agent: metadata.id.agent.clone(), native: session.clone() };
        let sql = "INSERT OR REPLACE INTO continuations (session, origin, shared)
                   VALUES (?1, ?2, ?3)";
        let row = params![key, origin.session_key() as i64, *messages as i64];
        self.database.execute(sql, row)?;
        Ok(())
    }

    /// Deletes a continuation that only an import declared, once this machine has the session.
    fn forget_imported_continuation(&self, session: i64, source: i64) -> Result<()> {
        let sql = "DELETE FROM continuations WHERE session = ?1
                   AND EXISTS (SELECT 1 FROM sources WHERE id = ?2 AND home != 'import')
                   AND EXISTS (SELECT 1 FROM recordings JOIN sources ON sources.id = recordings.source
                     WHERE recordings.session = ?1 AND sources.home = 'import')
                   AND NOT EXISTS (SELECT 1 FROM recordings
                     JOIN sources ON sources.id = recordings.source
                     WHERE recordings.session = ?1 AND sources.home != 'import'
                     AND recordings.metadata ->> '$.continues' IS NOT NULL)";
        self.database.execute(sql, [session, source])?;
        Ok(())
    }

    /// Writes the lineages that formats declare for changed sessions and for sessions that continue
    /// them. Returns whether a lineage changed.
    fn derive_continuations(&mut self, changed: &BTreeSet<u64>) -> Result<bool> {
        let mut is_changed = false;
        for session in changed {
            for (member, lineage) in self.continuations(*session)? {
                is_changed |= self.store_lineage(&member, Some(lineage))?;
            }
        }
        Ok(is_changed)
    }

    /// Queues the forks of new sessions, and the forks of those, to be read again. Their files
    /// contain only the messages after the fork, and the messages before it were not readable
    /// earlier.
    pub(super) fn find_incomplete_forks(&mut self) -> Result<()> {
        // `CROSS JOIN` enforces this order. Another order scans all sources for each recording.
        let sql = "WITH RECURSIVE forks (session) AS (
                       SELECT continuations.session FROM recordings
                       CROSS JOIN continuations ON continuations.origin = recordings.session
                       WHERE recordings.key = ?1 AND continuations.shared = 0
                       UNION SELECT continuations.session FROM forks
                       CROSS JOIN continuations ON continuations.origin = forks.session)
                   SELECT DISTINCT recordings.source FROM forks
                   CROSS JOIN recordings ON recordings.session = forks.session
                   CROSS JOIN sources ON sources.id = recordings.source
                   WHERE NOT recordings.combined AND sources.present AND sources.home != 'import'";
        let mut found = BTreeSet::new();
        let mut statement = self.database.prepare_cached(sql)?;
        for recording in self.fresh_recordings() {
            let rows = statement.query_map([*recording as i64], |row| row.get::<_, i64>(0));
            for source in rows? {
                found.insert(source?);
            }
        }
        drop(statement);
        for source in found {
            // If no time is left now, the next scan finds the source outdated.
            let sql = "UPDATE sources SET reader = 0 WHERE id = ?1";
            self.database.execute(sql, [source])?;
            self.incomplete_forks.insert(source);
        }
        Ok(())
    }

    /// Reads the lineages that formats declare for a session and for the sessions that continue it,
    /// if the origin is known.
    fn continuations(&self, session: u64) -> Result<Vec<(LineageMember, Lineage)>> {
        let sql = "SELECT fork.key, fork.recording, fork.native, origin.key AS origin, continuations.shared
                   FROM continuations JOIN sessions fork ON fork.key = continuations.session
                   JOIN sessions origin ON origin.key = continuations.origin
                   WHERE continuations.session = ?1 OR continuations.origin = ?1";
        self.database.rows(sql, [session as i64], |row| {
            let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
            let (session, recording) = (number("key")?, row.get("recording")?);
            let native = row.get("native")?;
            let member = LineageMember {
                session,
                recording,
                native,
                begins_with_copy: true,
                is_import: false,
                uuids: Vec::new(),
            };
            Ok((member, Lineage { origin: number("origin")?, shared_messages: number("shared")? }))
        })
    }

    /// Reads the derived lineage of a session.
    pub(super) fn lineage(&self, session: u64) -> Result<Option<Lineage>> {
        let sql = "SELECT origin, shared FROM lineages WHERE session = ?1";
        let row = self.database.query_row(sql, [session as i64], |row| {
            let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
            Ok(Lineage { origin: number("origin")?, shared_messages: number("shared")? })
        });
        row.optional()
    }

    /// Derives the lineages of the changed sessions and of all sessions that share messages with
    /// them. Returns whether a lineage changed, because listings and calls depend on it.
    pub(super) fn derive_lineages(&mut self, changed: &BTreeSet<u64>) -> Result<bool> {
        let mut is_changed = self.derive_continuations(changed)?;
        let mut known: HashSet<u64> = HashSet::new();
        for session in self.lineage_candidates(changed)? {
            if known.contains(&session) {
                continue;
            }
            let members = self.relatives(session)?;
            known.insert(session);
            known.extend(members.iter().map(|member| member.session));
            is_changed |= self.derive_group_lineages(&members)?;
        }
        Ok(is_changed)
    }

    /// Lists the sessions whose lineage may have changed.
    fn lineage_candidates(&mut self, changed: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let mut candidates = BTreeSet::new();
        let anchors = std::mem::take(&mut self.shared_anchors);
        let is_first = self.store.meta("lineages")? == 0;
        if is_first {
            let sql = "SELECT DISTINCT recordings.session FROM anchors
                       JOIN recordings ON recordings.key = anchors.recording WHERE uuid IN
                       (SELECT uuid FROM anchors GROUP BY uuid HAVING count(*) > 1)";
            let mut statement = self.database.prepare(sql)?;
            let rows = statement.query_map([], |row| row.get::<_, i64>(0))?;
            for session in rows {
                candidates.insert(session? as u64);
            }
            let sql = "UPDATE meta SET value = 1 WHERE name = 'lineages'";
            self.database.execute(sql, [])?;
        }
        let sql = "SELECT recordings.session FROM anchors
                   JOIN recordings ON recordings.key = anchors.recording WHERE uuid = ?1 LIMIT 1";
        let mut statement = self.database.prepare_cached(sql)?;
        for uuid in anchors {
            let session = statement.query_row([uuid], |row| row.get::<_, i64>(0)).optional();
            candidates.extend(session?.map(|session| session as u64));
        }
        let sql = "SELECT 1 FROM lineages WHERE session = ?1
                   UNION ALL SELECT 1 FROM lineages WHERE origin = ?1 LIMIT 1";
        let mut statement = self.database.prepare_cached(sql)?;
        for session in changed {
            if statement.exists([*session as i64])? {
                candidates.insert(*session);
            }
        }
        Ok(candidates)
    }

    /// Reads the sessions that share anchors with a session, directly or indirectly, sorted by id.
    fn relatives(&self, session: u64) -> Result<Vec<LineageMember>> {
        let sql = "SELECT DISTINCT other.key, other.recording, other.native,
                   EXISTS (SELECT 1 FROM recordings copy WHERE copy.session = other.key
                        AND copy.metadata ->> '$.begins_with_copy') AS begins_with_copy,
                   sources.home = 'import' AS is_import FROM sessions one
                   JOIN anchors mine ON mine.recording = one.recording
                   JOIN anchors theirs ON theirs.uuid = mine.uuid
                   JOIN recordings ON recordings.key = theirs.recording
                   JOIN sessions other ON other.key = recordings.session
                        AND other.recording = theirs.recording
                   JOIN sources ON sources.id = recordings.source
                   WHERE one.key = ?1 AND other.agent = one.agent AND other.kind != 2
                   AND NOT EXISTS (SELECT 1 FROM continuations
                        JOIN sessions origin ON origin.key = continuations.origin
                        WHERE continuations.session = other.key)";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut found: HashMap<u64, LineageMember> = HashMap::new();
        let (mut waiting, mut uuids) = (vec![session], 0);
        while let Some(one) = waiting.pop() {
            let mut rows = statement.query([one as i64])?;
            while let Some(row) = rows.next()? {
                let session = row.get::<i64>("key")? as u64;
                if found.contains_key(&session) || uuids > MAX_UUIDS {
                    continue;
                }
                let recording = row.get("recording")?;
                let native = row.get("native")?;
                let begins_with_copy = row.get("begins_with_copy")?;
                let is_import = row.get("is_import")?;
                let own = self.uuids(recording)?;
                uuids += own.len();
                let member = LineageMember {
                    session,
                    recording,
                    native,
                    begins_with_copy,
                    is_import,
                    uuids: own,
                };
                found.insert(session, member);
                waiting.push(session);
            }
        }
        let mut members: Vec<LineageMember> = found.into_values().collect();
        members.sort_by(|one, other| one.native.cmp(&other.native));
        Ok(members)
    }

    /// Reads the hashes of all message uuids of a recording.
    fn uuids(&self, recording: i64) -> Result<Vec<i64>> {
        let sql = "SELECT uuids FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.extend(hashes(row.blob("uuids")?));
        }
        Ok(all)
    }

    /// Derives and writes the lineages within a group. Returns whether any changed.
    fn derive_group_lineages(&mut self, members: &[LineageMember]) -> Result<bool> {
        // An imported session is never the origin of a session of this machine.
        let (own, imported): (Vec<usize>, Vec<usize>) =
            (0..members.len()).partition(|at| !members[*at].is_import);
        let mut order = self.in_order(members, own)?;
        order.extend(self.in_order(members, imported)?);
        let mut owners: HashMap<i64, usize> = HashMap::new();
        let mut is_changed = false;
        for at in order {
            let member = &members[at];
            let lineage = self.compare(member, members, &owners)?;
            for uuid in &member.uuids {
                owners.entry(*uuid).or_insert(at);
            }
            is_changed |= self.store_lineage(member, lineage)?;
        }
        Ok(is_changed)
    }

    /// Compares a session with the earlier ones. Since uuids are not always unique, the first and
    /// the last shared message must also have equal content and time.
    fn compare(
        &self,
        member: &LineageMember,
        members: &[LineageMember],
        owners: &HashMap<i64, usize>,
    ) -> Result<Option<Lineage>> {
        let Some(last) = last_shared(&member.uuids, owners) else { return Ok(None) };
        let first = member.uuids.iter().find(|uuid| owners.contains_key(uuid));
        let mut shared_messages = 0;
        for uuid in first.into_iter().chain([&last]) {
            let owner = &members[owners[uuid]];
            let mine = self.message_of(member.recording, *uuid)?;
            let theirs = self.message_of(owner.recording, *uuid)?;
            let Some((mine, theirs)) = mine.zip(theirs) else { return Ok(None) };
            if (mine.at, &mine.content) != (theirs.at, &theirs.content) {
                return Ok(None);
            }
            shared_messages = mine.position + 1;
        }
        Ok(Some(Lineage { origin: members[owners[&last]].session, shared_messages }))
    }

    /// Sorts sessions so that those which recorded the shared messages first come first. At each
    /// point where the sessions diverge, those whose files show that they begin with a copy come
    /// last. Of the others, a session that ends there comes first, then the one that continues
    /// earliest.
    fn in_order(&self, members: &[LineageMember], group: Vec<usize>) -> Result<Vec<usize>> {
        if group.len() < 2 {
            return Ok(group);
        }
        let common = common_uuids(members, &group);
        // Sessions without messages of their own form their own branches.
        let mut branches: HashMap<(Option<i64>, Option<usize>), Vec<usize>> = HashMap::new();
        for at in group {
            let uuids = &members[at].uuids;
            let end = uuids.iter().rposition(|uuid| common.contains(uuid)).map_or(0, |at| at + 1);
            let next = uuids.get(end).copied();
            branches.entry((next, next.is_none().then_some(at))).or_default().push(at);
        }
        let mut parted = Vec::new();
        for ((next, _), branch) in branches {
            let is_copy = branch.iter().all(|at| members[*at].begins_with_copy);
            let order = match next {
                // The session with the longest history comes first.
                None => (is_copy, false, -(members[branch[0]].uuids.len() as i64)),
                Some(next) => {
                    let found = self.message_of(members[branch[0]].recording, next)?;
                    let at = found.and_then(|found| found.at);
                    (is_copy, true, at.map_or(i64::MAX, Timestamp::as_millis))
                }
            };
            parted.push((order, branch));
        }
        parted.sort();
        let mut ordered = Vec::new();
        for (_, branch) in parted {
            ordered.extend(self.in_order(members, branch)?);
        }
        Ok(ordered)
    }

    /// Finds a message by the hash of its uuid.
    fn message_of(&self, recording: i64, uuid: i64) -> Result<Option<FoundMessage>> {
        let sql = "SELECT first, uuids, body FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording])?;
        while let Some(row) = rows.next()? {
            if hashes(row.blob("uuids")?).all(|known| known != uuid) {
                continue;
            }
            let first = row.get::<i64>("first")? as u64;
            let run = self.store.unpack(row.blob("body")?)?;
            for (position, line) in (first..).zip(lines(&run.unwrap_or_default())) {
                let head: MessageHead = serde_json::from_slice(line).unwrap_or_default();
                let is_it =
                    |text: &String| xxhash_rust::xxh3::xxh3_64(text.as_bytes()) as i64 == uuid;
                if head.uuid.iter().chain(&head.part_uuids).any(is_it) {
                    let content = head.blocks.map(|raw| raw.get().to_owned()).unwrap_or_default();
                    return Ok(Some(FoundMessage { position, at: head.at, content }));
                }
            }
        }
        Ok(None)
    }

    /// Writes the lineage of a session. If it changed, queues the listing of the session and the
    /// owners of the shared calls to be derived again. Returns whether it changed.
    fn store_lineage(&mut self, member: &LineageMember, lineage: Option<Lineage>) -> Result<bool> {
        let before = self.lineage(member.session)?;
        if before == lineage {
            return Ok(false);
        }
        let key = member.session as i64;
        match lineage {
            Some(Lineage { origin, shared_messages }) => {
                let sql = "INSERT OR REPLACE INTO lineages (session, origin, shared)
                           VALUES (?1, ?2, ?3)";
                let row = params![key, origin as i64, shared_messages as i64];
                self.database.execute(sql, row)?;
            }
            None => {
                let sql = "DELETE FROM lineages WHERE session = ?1";
                self.database.execute(sql, [key])?;
            }
        }
        self.unlisted.insert(member.session);
        let shared = [before, lineage].into_iter().flatten().map(|one| one.shared_messages).max();
        let sql = "SELECT identity FROM usage WHERE recording = ?1 AND position < ?2";
        let mut statement = self.database.prepare_cached(sql)?;
        let place = params![member.recording, shared.unwrap_or(0) as i64];
        let rows = statement.query_map(place, |row| row.get(0))?;
        for identity in rows {
            self.contested.insert(identity?);
        }
        Ok(true)
    }
}

/// Returns the uuids that all sessions of a group contain.
fn common_uuids(members: &[LineageMember], group: &[usize]) -> HashSet<i64> {
    let mut common: HashSet<i64> = members[group[0]].uuids.iter().copied().collect();
    for at in &group[1..] {
        let theirs: HashSet<i64> = members[*at].uuids.iter().copied().collect();
        common.retain(|uuid| theirs.contains(uuid));
    }
    common
}

/// Returns the last message at the beginning of a session that belongs to another session. A
/// beginning is shared if more than half of its messages are: a single common message is not a
/// copy.
fn last_shared(uuids: &[i64], owners: &HashMap<i64, usize>) -> Option<i64> {
    let (mut shared, mut last) = (0, None);
    for (at, uuid) in uuids.iter().enumerate() {
        if owners.contains_key(uuid) {
            shared += 1;
            if shared * 2 > at {
                last = Some(*uuid);
            }
        }
    }
    last
}
