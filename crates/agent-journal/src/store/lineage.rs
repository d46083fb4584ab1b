//! Sessions that begin with messages of another session: a fork, or a resume that copies the
//! history into a new file. The shared messages count for the session that recorded them first.
//!
//! Copies are found by a few messages of each recording (`anchors`) and compared by the hashes of
//! all message uuids. Only sessions that share an anchor are ever compared.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::{OptionalExtension, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunk::lines;
use super::summaries::hashes;
use super::{Chunk, Store, Writer};
use crate::error::Result;
use crate::maps::Map;
use crate::model::{Continuation, Session, SessionId, Timestamp};

/// Sessions of one lineage hold no more uuids than this in memory; further sessions of it are
/// left as they are.
const MAX_UUIDS: usize = 4 << 20;

/// How a session continues another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// The session that recorded the last of the shared messages first.
    pub(crate) origin: u64,
    /// How many messages at the beginning are that session's.
    pub(crate) shared_messages: u64,
}

/// One session of those that share messages.
struct Member {
    session: u64,
    telling: i64,
    native: String,
    /// Whether its file shows that it begins with a copy.
    begins_with_copy: bool,
    /// Whether all that is known of it was imported.
    is_import: bool,
    /// Hashes of the uuids of its messages, in order.
    uuids: Vec<i64>,
}

/// What is needed of a stored message to find it and its time.
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
    /// What it says, as it is stored.
    content: String,
}

impl Store {
    /// Reads all lineages, by session: there are as many as there are forks.
    pub(crate) fn lineages(&self) -> Result<Map<u64, Lineage>> {
        let sql = "SELECT session, origin, shared FROM lineages";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
            Ok((number(0)?, Lineage { origin: number(1)?, shared_messages: number(2)? }))
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Reads which messages of which recordings are another session's: the shown recording of each
    /// fork and of the session it continues, with the number of shared messages.
    pub(crate) fn shared_beginnings(&self) -> Result<Vec<SharedBeginning>> {
        let sql = "SELECT fork.telling, origin.telling, lineages.shared FROM lineages
                   JOIN sessions fork ON fork.key = lineages.session
                   JOIN sessions origin ON origin.key = lineages.origin
                   WHERE lineages.shared > 0 AND origin.shown = 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
            Ok(SharedBeginning {
                telling: number(0)?,
                origin_telling: number(1)?,
                shared_messages: number(2)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }
}

/// The beginning of a recording that is another session's.
pub(crate) struct SharedBeginning {
    pub(crate) telling: u64,
    pub(crate) origin_telling: u64,
    pub(crate) shared_messages: u64,
}

impl Writer<'_> {
    /// Stores the anchors of a run, and notes those that another recording has, too.
    pub(super) fn note_anchors(&mut self, telling: u64, chunk: &Chunk) -> Result<()> {
        for anchor in &chunk.anchors {
            let sql = "INSERT OR IGNORE INTO anchors (uuid, telling, position) VALUES (?1, ?2, ?3)";
            let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
            let row = params![anchor.uuid, telling as i64, anchor.position as i64];
            statement.execute(row).map_err(self.error())?;
            let sql = "SELECT 1 FROM anchors WHERE uuid = ?1 AND telling != ?2 LIMIT 1";
            let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
            let other = params![anchor.uuid, telling as i64];
            if statement.exists(other).map_err(self.error())? {
                self.shared_anchors.insert(anchor.uuid);
            }
        }
        Ok(())
    }

    /// Forgets the anchors of a recording from a position on.
    pub(super) fn forget_anchors(&self, telling: u64, from: u64) -> Result<()> {
        let sql = "DELETE FROM anchors WHERE telling = ?1 AND position >= ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute(params![telling as i64, from as i64]).map_err(self.error())?;
        Ok(())
    }

    /// Stores how a session continues another one, where its format says so. What an import says
    /// of a session of this machine does not count.
    pub(super) fn note_continuation(&self, account: &Session, source: i64) -> Result<()> {
        let key = account.id.key() as i64;
        let Some(Continuation { session, messages }) = &account.continues else {
            return self.forget_imported_continuation(key, source);
        };
        let sql = "SELECT home = 'import' AND EXISTS (SELECT 1 FROM tellings
                     JOIN sources own ON own.id = tellings.source
                     WHERE tellings.session = ?2 AND own.home != 'import')
                   FROM sources WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let is_foreign = statement.query_row([source, key], |row| row.get::<_, bool>(0));
        if is_foreign.map_err(self.error())? {
            return Ok(());
        }
        let origin = SessionId { agent: account.id.agent.clone(), native: session.clone() };
        let sql = "INSERT OR REPLACE INTO continuations (session, origin, shared)
                   VALUES (?1, ?2, ?3)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![key, origin.key() as i64, *messages as i64];
        statement.execute(row).map_err(self.error())?;
        Ok(())
    }

    /// Forgets what only an import said a session continues, once this machine has the session.
    fn forget_imported_continuation(&self, session: i64, source: i64) -> Result<()> {
        let sql = "DELETE FROM continuations WHERE session = ?1
                   AND EXISTS (SELECT 1 FROM sources WHERE id = ?2 AND home != 'import')
                   AND EXISTS (SELECT 1 FROM tellings JOIN sources ON sources.id = tellings.source
                     WHERE tellings.session = ?1 AND sources.home = 'import')
                   AND NOT EXISTS (SELECT 1 FROM tellings
                     JOIN sources ON sources.id = tellings.source
                     WHERE tellings.session = ?1 AND sources.home != 'import'
                     AND tellings.account ->> '$.continues' IS NOT NULL)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute([session, source]).map_err(self.error())?;
        Ok(())
    }

    /// Takes over what the formats of changed sessions, and of those that continue changed ones,
    /// say. Returns whether any lineage changed.
    fn settle_continuations(&mut self, changed: &BTreeSet<u64>) -> Result<bool> {
        let mut is_changed = false;
        for session in changed {
            for (member, lineage) in self.continuations(*session)? {
                is_changed |= self.store_lineage(&member, Some(lineage))?;
            }
        }
        Ok(is_changed)
    }

    /// Has forks read again that refer to a session which is new, and forks of those: their files
    /// hold only what follows, and what they go on from could not be read before.
    pub(super) fn find_incomplete_forks(&mut self) -> Result<()> {
        // `CROSS JOIN` keeps this order: another one goes through all sources for each recording.
        let sql = "WITH RECURSIVE forks (session) AS (
                       SELECT continuations.session FROM tellings
                       CROSS JOIN continuations ON continuations.origin = tellings.session
                       WHERE tellings.key = ?1 AND continuations.shared = 0
                       UNION SELECT continuations.session FROM forks
                       CROSS JOIN continuations ON continuations.origin = forks.session)
                   SELECT DISTINCT tellings.source FROM forks
                   CROSS JOIN tellings ON tellings.session = forks.session
                   CROSS JOIN sources ON sources.id = tellings.source
                   WHERE NOT tellings.combined AND sources.present AND sources.home != 'import'";
        let mut found = BTreeSet::new();
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        for telling in self.fresh_tellings() {
            let rows = statement.query_map([*telling as i64], |row| row.get::<_, i64>(0));
            for source in rows.map_err(self.error())? {
                found.insert(source.map_err(Store::error(self.store))?);
            }
        }
        drop(statement);
        for source in found {
            // Should there be no time left now, the next look finds the source outdated.
            let sql = "UPDATE sources SET reader = 0 WHERE id = ?1";
            self.connection.execute(sql, [source]).map_err(self.error())?;
            self.incomplete_forks.insert(source);
        }
        Ok(())
    }

    /// Reads what the formats say about a session and those that continue it, where the session
    /// that is continued is known.
    fn continuations(&self, session: u64) -> Result<Vec<(Member, Lineage)>> {
        let sql = "SELECT fork.key, fork.telling, fork.native, origin.key, continuations.shared
                   FROM continuations JOIN sessions fork ON fork.key = continuations.session
                   JOIN sessions origin ON origin.key = continuations.origin
                   WHERE continuations.session = ?1 OR continuations.origin = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([session as i64], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
            let (session, telling) = (number(0)?, row.get(1)?);
            let native = row.get(2)?;
            let member = Member {
                session,
                telling,
                native,
                begins_with_copy: true,
                is_import: false,
                uuids: Vec::new(),
            };
            Ok((member, Lineage { origin: number(3)?, shared_messages: number(4)? }))
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Returns how a session continues another one, as far as it was worked out.
    pub(super) fn lineage(&self, session: u64) -> Result<Option<Lineage>> {
        let sql = "SELECT origin, shared FROM lineages WHERE session = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = statement.query_row([session as i64], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
            Ok(Lineage { origin: number(0)?, shared_messages: number(1)? })
        });
        row.optional().map_err(self.error())
    }

    /// Works out the lineages of the sessions that changed and of those they share messages with.
    /// Returns whether any lineage changed: listings and calls follow from it.
    pub(super) fn settle_lineages(&mut self, changed: &BTreeSet<u64>) -> Result<bool> {
        let mut is_changed = self.settle_continuations(changed)?;
        let mut known: HashSet<u64> = HashSet::new();
        for session in self.lineage_candidates(changed)? {
            if known.contains(&session) {
                continue;
            }
            let members = self.relatives(session)?;
            known.insert(session);
            known.extend(members.iter().map(|member| member.session));
            is_changed |= self.settle_group(&members)?;
        }
        Ok(is_changed)
    }

    /// Lists the sessions whose lineage may have changed.
    fn lineage_candidates(&mut self, changed: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let mut candidates = BTreeSet::new();
        let anchors = std::mem::take(&mut self.shared_anchors);
        let is_first = self.store.meta("lineages")? == 0;
        let error = || crate::error::Error::store(self.path);
        if is_first {
            let sql = "SELECT DISTINCT tellings.session FROM anchors
                       JOIN tellings ON tellings.key = anchors.telling WHERE uuid IN
                       (SELECT uuid FROM anchors GROUP BY uuid HAVING count(*) > 1)";
            let mut statement = self.connection.prepare(sql).map_err(error())?;
            let rows = statement.query_map([], |row| row.get::<_, i64>(0)).map_err(error())?;
            for session in rows {
                candidates.insert(session.map_err(error())? as u64);
            }
            let sql = "UPDATE meta SET value = 1 WHERE name = 'lineages'";
            self.connection.execute(sql, []).map_err(error())?;
        }
        let sql = "SELECT tellings.session FROM anchors
                   JOIN tellings ON tellings.key = anchors.telling WHERE uuid = ?1 LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(error())?;
        for uuid in anchors {
            let session = statement.query_row([uuid], |row| row.get::<_, i64>(0)).optional();
            candidates.extend(session.map_err(error())?.map(|session| session as u64));
        }
        let sql = "SELECT 1 FROM lineages WHERE session = ?1
                   UNION ALL SELECT 1 FROM lineages WHERE origin = ?1 LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(error())?;
        for session in changed {
            if statement.exists([*session as i64]).map_err(error())? {
                candidates.insert(*session);
            }
        }
        Ok(candidates)
    }

    /// Reads the sessions that share anchors with a session, directly or by way of others, in the
    /// order of their ids.
    fn relatives(&self, session: u64) -> Result<Vec<Member>> {
        let sql = "SELECT DISTINCT other.key, other.telling, other.native,
                   EXISTS (SELECT 1 FROM tellings copy WHERE copy.session = other.key
                        AND copy.account ->> '$.begins_with_copy'),
                   sources.home = 'import' FROM sessions one
                   JOIN anchors mine ON mine.telling = one.telling
                   JOIN anchors theirs ON theirs.uuid = mine.uuid
                   JOIN tellings ON tellings.key = theirs.telling
                   JOIN sessions other ON other.key = tellings.session
                        AND other.telling = theirs.telling
                   JOIN sources ON sources.id = tellings.source
                   WHERE one.key = ?1 AND other.agent = one.agent AND other.kind != 2
                   AND NOT EXISTS (SELECT 1 FROM continuations
                        JOIN sessions origin ON origin.key = continuations.origin
                        WHERE continuations.session = other.key)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut found: HashMap<u64, Member> = HashMap::new();
        let (mut waiting, mut uuids) = (vec![session], 0);
        while let Some(one) = waiting.pop() {
            let mut rows = statement.query([one as i64]).map_err(self.error())?;
            while let Some(row) = rows.next().map_err(self.error())? {
                let session = row.get::<_, i64>(0).map_err(self.error())? as u64;
                if found.contains_key(&session) || uuids > MAX_UUIDS {
                    continue;
                }
                let telling = row.get(1).map_err(self.error())?;
                let native = row.get(2).map_err(self.error())?;
                let begins_with_copy = row.get(3).map_err(self.error())?;
                let is_import = row.get(4).map_err(self.error())?;
                let own = self.uuids(telling)?;
                uuids += own.len();
                let member =
                    Member { session, telling, native, begins_with_copy, is_import, uuids: own };
                found.insert(session, member);
                waiting.push(session);
            }
        }
        let mut members: Vec<Member> = found.into_values().collect();
        members.sort_by(|one, other| one.native.cmp(&other.native));
        Ok(members)
    }

    /// Reads the hashes of all message uuids of a recording.
    fn uuids(&self, telling: i64) -> Result<Vec<i64>> {
        let sql = "SELECT uuids FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling]).map_err(self.error())?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let blob = row.get_ref(0).and_then(|blob| Ok(blob.as_blob()?)).map_err(self.error())?;
            all.extend(hashes(blob));
        }
        Ok(all)
    }

    /// Works out and stores the lineages within one group. Returns whether any changed.
    fn settle_group(&mut self, members: &[Member]) -> Result<bool> {
        // An imported session is never the origin of one of this machine.
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

    /// Compares a session with those before it. Uuids that are not unique make no copy: the first
    /// and the last shared message must say the same, at the same time.
    fn compare(
        &self,
        member: &Member,
        members: &[Member],
        owners: &HashMap<i64, usize>,
    ) -> Result<Option<Lineage>> {
        let Some(last) = last_shared(&member.uuids, owners) else { return Ok(None) };
        let first = member.uuids.iter().find(|uuid| owners.contains_key(uuid));
        let mut shared_messages = 0;
        for uuid in first.into_iter().chain([&last]) {
            let owner = &members[owners[uuid]];
            let mine = self.message_of(member.telling, *uuid)?;
            let theirs = self.message_of(owner.telling, *uuid)?;
            let Some((mine, theirs)) = mine.zip(theirs) else { return Ok(None) };
            if (mine.at, &mine.content) != (theirs.at, &theirs.content) {
                return Ok(None);
            }
            shared_messages = mine.position + 1;
        }
        Ok(Some(Lineage { origin: members[owners[&last]].session, shared_messages }))
    }

    /// Orders sessions by who recorded their shared messages first: at each point where they part,
    /// those whose files show that they begin with a copy come last; of the others one that ends
    /// there comes first, then the one that goes on earliest.
    fn in_order(&self, members: &[Member], group: Vec<usize>) -> Result<Vec<usize>> {
        if group.len() < 2 {
            return Ok(group);
        }
        let common = common_uuids(members, &group);
        // Sessions that have nothing of their own stand alone.
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
                // The one with the longest history comes first.
                None => (is_copy, false, -(members[branch[0]].uuids.len() as i64)),
                Some(next) => {
                    let found = self.message_of(members[branch[0]].telling, next)?;
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
    fn message_of(&self, telling: i64, uuid: i64) -> Result<Option<FoundMessage>> {
        let sql = "SELECT first, uuids, body FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let blob = |at: usize| row.get_ref(at).and_then(|blob| Ok(blob.as_blob()?));
            if hashes(blob(1).map_err(self.error())?).all(|known| known != uuid) {
                continue;
            }
            let first = row.get::<_, i64>(0).map_err(self.error())? as u64;
            let run = blob(2).and_then(|body| self.store.unpack(body)).map_err(self.error())?;
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

    /// Stores how a session continues another one. Where that is news, its listing and the owners
    /// of the shared calls are to be worked out again.
    fn store_lineage(&mut self, member: &Member, lineage: Option<Lineage>) -> Result<bool> {
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
                self.connection.execute(sql, row).map_err(self.error())?;
            }
            None => {
                let sql = "DELETE FROM lineages WHERE session = ?1";
                self.connection.execute(sql, [key]).map_err(self.error())?;
            }
        }
        self.unlisted.insert(member.session);
        let shared = [before, lineage].into_iter().flatten().map(|one| one.shared_messages).max();
        let sql = "SELECT identity FROM usage WHERE telling = ?1 AND position < ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let place = params![member.telling, shared.unwrap_or(0) as i64];
        let rows = statement.query_map(place, |row| row.get(0)).map_err(self.error())?;
        for identity in rows {
            self.contested.insert(identity.map_err(Store::error(self.store))?);
        }
        Ok(true)
    }
}

/// Returns the uuids that all sessions of a group have.
fn common_uuids(members: &[Member], group: &[usize]) -> HashSet<i64> {
    let mut common: HashSet<i64> = members[group[0]].uuids.iter().copied().collect();
    for at in &group[1..] {
        let theirs: HashSet<i64> = members[*at].uuids.iter().copied().collect();
        common.retain(|uuid| theirs.contains(uuid));
    }
    common
}

/// Returns the last message of a session's beginning that belongs to another one. A beginning is
/// shared when most of it is: a single message that occurs elsewhere makes no copy.
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
