//! Which record of a model call counts, and whose the call is: every call once, wherever and
//! however often it is recorded.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use super::Writer;
use super::beside::INSIDE;
use super::ledger::{self, Done, Spent};
use crate::error::Result;
use crate::model::{Facts, Session, Timestamp, Tokens};

/// Says in SQL that a row of `usage` stands in for calls that are also recorded one by one, with
/// their input, among the rows that fit a condition on `one`. A sum stands in for those of its
/// time, a call that was told second-hand for whatever there is.
pub(super) fn told_one_by_one(condition: &str) -> String {
    format!(
        "(usage.since IS NOT NULL AND EXISTS (SELECT 1 FROM usage one WHERE {condition}
         AND one.since IS NULL AND one.input + one.cache_read + one.cache_creation > 0
         AND (usage.since = usage.at OR one.at BETWEEN usage.since AND usage.at)))"
    )
}

impl Writer<'_> {
    /// Decides, for calls recorded more than once, which record counts and whose it is.
    pub(super) fn settle_calls(&mut self) -> Result<()> {
        let sums = self.sums()?;
        self.contested.extend(sums.iter().copied());
        for identity in std::mem::take(&mut self.contested) {
            self.note_owner(identity)?;
            let sql = "UPDATE usage SET counted = 0 WHERE identity = ?1";
            self.run(sql, identity)?;
            // The fullest record counts, and of what bills list what was worked out here. Whoever
            // made the call first owns it, and a working copy or a session that only begins with it
            // never does as long as the original is known. An import says nothing about a call that
            // an agent of this machine recorded.
            let sql = "UPDATE usage SET counted = 1, owner = (
                           SELECT other.session FROM usage other
                           LEFT JOIN tellings ON tellings.key = other.telling
                           LEFT JOIN sources ON sources.id = tellings.source
                           LEFT JOIN lineages ON lineages.session = other.session
                           WHERE other.identity = ?1
                           ORDER BY sources.home IS 'import',
                           tellings.account ->> '$.kind' = 'copy',
                           other.position < coalesce(lineages.shared, 0), other.at IS NULL,
                           other.at, other.session
                           LIMIT 1)
                       WHERE identity = ?1 AND telling = (
                           SELECT one.telling FROM usage one
                           LEFT JOIN tellings ON tellings.key = one.telling
                           LEFT JOIN sources ON sources.id = tellings.source
                           WHERE one.identity = ?1
                           ORDER BY one.unrecorded AND tellings.key IS NOT NULL,
                           sources.home IS 'import', one.output DESC,
                           one.input + one.cache_read + one.cache_creation DESC,
                           one.cost_micros IS NULL, one.model IS NULL, one.at IS NULL, one.at,
                           one.session, one.telling LIMIT 1)";
            self.run(sql, identity)?;
            self.note_owner(identity)?;
        }
        let sql = format!(
            "UPDATE usage SET counted = 0 WHERE identity = ?1 AND counted AND {}",
            told_one_by_one(
                "one.telling IN (SELECT tellings.key FROM tellings
                 JOIN sources ON sources.id = tellings.source
                 WHERE tellings.session = usage.session AND (sources.home != 'import'
                 OR EXISTS (SELECT 1 FROM tellings own JOIN sources ON sources.id = own.source
                            WHERE own.key = usage.telling AND sources.home = 'import')))"
            )
        );
        sums.into_iter().try_for_each(|identity| self.run(&sql, identity))
    }

    fn run(&self, sql: &str, identity: [u8; 16]) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute([identity]).map_err(self.error())?;
        Ok(())
    }

    fn note_owner(&mut self, identity: [u8; 16]) -> Result<()> {
        let sql = "SELECT owner FROM usage WHERE identity = ?1 AND counted = 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let owner = statement.query_row([identity], |row| row.get::<_, i64>(0));
        self.owners.extend(owner.optional().map_err(self.error())?.map(|owner| owner as u64));
        Ok(())
    }

    /// Lists the sums of the sessions that changed: what they stand in for may have changed.
    fn sums(&self) -> Result<Vec<[u8; 16]>> {
        let sql = "SELECT identity FROM usage WHERE session = ?1 AND since IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut all = Vec::new();
        for session in &self.touched {
            let rows = statement.query_map([*session as i64], |row| row.get(0));
            for identity in rows.map_err(self.error())? {
                all.push(identity.map_err(self.error())?);
            }
        }
        Ok(all)
    }

    /// Sums up the calls that count for a session, with those of sessions that worked for it and
    /// are not shown.
    pub(super) fn tokens(&self, session: u64) -> Result<Tokens> {
        let sql = format!(
            "{INSIDE} SELECT total(input), total(output), total(cache_read), total(cache_creation),
             sum(reasoning) FROM usage WHERE owner IN inside AND counted = 1"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let sums = statement.query_row([session as i64], |row| {
            let number = |at: usize| row.get::<_, f64>(at).map(|sum| sum as u64);
            Ok(Tokens {
                input: number(0)?,
                output: number(1)?,
                cache_read: number(2)?,
                cache_creation: number(3)?,
                reasoning: row.get::<_, Option<i64>>(4)?.map(|sum| sum as u64),
            })
        });
        Ok(sums.optional().map_err(self.error())?.unwrap_or_default())
    }

    /// Packs what a session did. Of one that is not shown nothing counts but what it spent: a
    /// working copy repeats what the original did, and nobody could see what else was counted.
    pub(super) fn write_activity(
        &self,
        key: u64,
        account: &Session,
        facts: Facts,
        shown: bool,
    ) -> Result<()> {
        let start = account.started_at.map(Timestamp::as_millis);
        let facts = if shown { facts } else { Facts::default() };
        let files = ledger::pack_files(&facts.files, account.cwd.as_deref());
        let done = Done::of(&facts, start).pack();
        let sql = "INSERT OR REPLACE INTO activity (session, done, files) VALUES (?1, ?2, ?3)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute(params![key as i64, done, files]).map_err(self.error())?;
        let listed = if shown { &account.files } else { &[][..] };
        let touched = ledger::pack_touched(&facts, listed, account.cwd.as_deref());
        let sql = "INSERT OR REPLACE INTO touched (session, files) VALUES (?1, ?2)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute(params![key as i64, touched]).map_err(self.error())?;
        Ok(())
    }

    /// Packs the counted calls of every session that won or lost some.
    pub(super) fn settle_spending(&mut self) -> Result<()> {
        let owners = std::mem::take(&mut self.owners);
        owners.iter().try_for_each(|owner| self.write_spending(*owner))?;
        let mut stale = std::mem::take(&mut self.stale_tokens);
        stale.extend(owners);
        // Calls of a session that is not shown count for the one it worked for, and so on.
        let mut written = BTreeSet::new();
        while let Some(session) = stale.pop_first() {
            if written.insert(session) {
                self.write_tokens(session)?;
                stale.extend(self.shown_for(session)?);
            }
        }
        Ok(())
    }

    /// Returns the session that a session which is not shown worked for.
    fn shown_for(&self, session: u64) -> Result<Option<u64>> {
        let sql = "SELECT parent FROM sessions WHERE key = ?1 AND shown = 0 AND parent != key";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let parent = statement.query_row([session as i64], |row| row.get::<_, Option<i64>>(0));
        let parent = parent.optional().map_err(self.error())?.flatten();
        Ok(parent.map(|parent| parent as u64))
    }

    /// Brings the listed tokens of a session up to date.
    fn write_tokens(&self, session: u64) -> Result<()> {
        let tokens = self.tokens(session)?;
        let sql = "UPDATE sessions SET input = ?2, output = ?3, cache_read = ?4,
                   cache_creation = ?5, reasoning = ?6 WHERE key = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let reasoning = tokens.reasoning.map(|number| number as i64);
        let [input, output, cache_read, cache_creation] =
            [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation]
                .map(|number| number as i64);
        let row = params![session as i64, input, output, cache_read, cache_creation, reasoning];
        statement.execute(row).map_err(self.error())?;
        Ok(())
    }

    /// Packs the counted calls of a session.
    pub(super) fn write_spending(&self, owner: u64) -> Result<()> {
        let spent = self.spent(owner)?;
        let sql = "INSERT OR REPLACE INTO spending (session, calls) VALUES (?1, ?2)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![owner as i64, ledger::pack_spent(spent)];
        statement.execute(row).map_err(self.error())?;
        Ok(())
    }

    fn spent(&self, owner: u64) -> Result<Vec<Spent>> {
        let sql = "SELECT coalesce(usage.at, sessions.started_at, 0), models.name, usage.input,
                   usage.output, usage.cache_read, usage.cache_creation, usage.cache_creation_1h,
                   usage.reasoning, usage.cost_micros,
                   usage.since IS NOT NULL AND usage.since IS NOT usage.at, usage.unrecorded
                   FROM usage
                   LEFT JOIN sessions ON sessions.key = usage.owner
                   LEFT JOIN models ON models.id = usage.model
                   WHERE usage.owner = ?1 AND usage.counted = 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([owner as i64], ledger::spent).map_err(self.error())?;
        rows.collect::<rusqlite::Result<_>>().map_err(self.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::{Source, Stamp};
    use crate::model::{Message, SessionId, Usage};
    use crate::store::{ChunkBuilder, Packed, Store, Told};

    struct Journal {
        directory: tempfile::TempDir,
    }

    /// A call, or a sum since a time: identity, time, tokens.
    fn usage(identity: &str, at: i64, since: Option<i64>, (input, output): (u64, u64)) -> Message {
        let tokens = Tokens { input, output, ..Tokens::default() };
        let since = since.and_then(Timestamp::from_millis);
        let usage = Usage { identity: Some(identity.into()), tokens, since, ..Usage::default() };
        Message { at: Timestamp::from_millis(at), usage: Some(usage), ..Message::default() }
    }

    impl Journal {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap() }
        }

        fn open(&self) -> Store {
            Store::create(&self.directory.path().join("journal.db")).unwrap()
        }

        /// Tells a session anew, from the source of that name.
        fn tell(&self, source: &str, key: u64, messages: Vec<Message>) {
            let id = SessionId { agent: "x".into(), native: "1".into() };
            let store = self.open();
            let mut writer = store.write().unwrap();
            let place = Source { path: source.into(), stamp: Stamp::default() };
            let source = writer.source("x", &place, &crate::store::Place::default()).unwrap();
            writer.truncate(key, 0, 0).unwrap();
            let mut builder = ChunkBuilder::at(0);
            let count = messages.len() as u64;
            for mut message in messages {
                let packed = Packed::new(&message);
                builder.add(&id, &mut message, &packed);
            }
            writer.chunk(key, id.key(), &builder.pack(&writer.packer())).unwrap();
            let account = Session { id, ..Session::default() };
            writer.telling(&Told { key, source, account, messages: count, is_new: true }).unwrap();
            writer.commit().unwrap();
        }

        /// Input and output of everything that counts, which is what the session is listed with.
        fn totals(&self) -> (u64, u64) {
            let store = self.open();
            let filter = crate::search::Filter::default();
            let doings = store.doings(&filter, None).unwrap();
            let calls = doings.into_iter().flat_map(|one| one.spent());
            let counted = calls.fold((0, 0), |(input, output), call| {
                (input + call.tokens.input, output + call.tokens.output)
            });
            let listed = store.sessions(&filter, None, Timestamp::from_millis(0).unwrap()).unwrap();
            let listed: Vec<_> =
                listed.iter().map(|one| (one.tokens.input, one.tokens.output)).collect();
            assert!(listed.is_empty() || listed == [counted], "{listed:?} for {counted:?}");
            counted
        }
    }

    fn log() -> Vec<Message> {
        vec![
            usage("a", 1_000, None, (0, 10)),
            usage("b", 2_000, None, (0, 20)),
            usage("sum", 3_000, Some(500), (700, 0)),
        ]
    }

    #[test]
    fn a_sum_counts_where_nothing_tells_its_calls_one_by_one() {
        let journal = Journal::new();
        journal.tell("log", 1, log());
        assert_eq!(journal.totals(), (700, 30));
    }

    #[test]
    fn a_sum_gives_way_to_its_calls_and_counts_again_without_them() {
        let journal = Journal::new();
        journal.tell("log", 1, log());
        let single =
            || vec![usage("a", 1_000, None, (300, 10)), usage("b", 2_000, None, (450, 20))];
        journal.tell("store", 2, single());
        assert_eq!(journal.totals(), (750, 30));
        journal.tell("store", 2, Vec::new());
        assert_eq!(journal.totals(), (700, 30));
        // Told the other way round it comes to the same.
        let other = Journal::new();
        other.tell("store", 2, single());
        other.tell("log", 1, log());
        assert_eq!(other.totals(), (750, 30));
    }

    #[test]
    fn a_sum_stays_beside_calls_of_another_time() {
        let journal = Journal::new();
        journal.tell("log", 1, log());
        journal.tell("store", 2, vec![usage("late", 9_000, None, (40, 4))]);
        assert_eq!(journal.totals(), (740, 34));
    }

    #[test]
    fn a_call_told_second_hand_gives_way_to_any_record_of_the_session_itself() {
        let journal = Journal::new();
        journal.tell("parent", 1, vec![usage("a", 1_000, Some(1_000), (300, 10))]);
        assert_eq!(journal.totals(), (300, 10));
        journal.tell("own", 2, vec![usage("b", 1_003, None, (290, 9))]);
        assert_eq!(journal.totals(), (290, 9));
    }

    #[test]
    fn a_sum_gives_way_within_one_telling_too() {
        let journal = Journal::new();
        let mut messages = log();
        messages.push(usage("c", 2_500, None, (5, 1)));
        journal.tell("log", 1, messages);
        assert_eq!(journal.totals(), (5, 31));
    }

    #[test]
    fn of_the_records_of_a_call_in_one_telling_the_largest_output_holds() {
        let journal = Journal::new();
        let (early, full, late) = ((300, 2), (310, 40), (305, 7));
        let record = |tokens| usage("a", 1_000, None, tokens);
        journal.tell("log", 1, vec![record(early), record(full), record(late)]);
        assert_eq!(journal.totals(), full);
        // Another telling has only the first of them.
        journal.tell("copy", 2, vec![record(early)]);
        assert_eq!(journal.totals(), full);
    }
}
