//! Deduplicates the usage of model calls: each call counts once and has one owner, however many
//! sources record it.

use std::collections::BTreeSet;

use rusqlite::params;

use super::Writer;
use super::activity_codec::{self, ActivityLog, UsageBucket, UsageBucketColumns};
use super::database::OptionalRow;
use super::derive::SessionFacts;
use super::detached_usage::OWNERS;
use crate::error::Result;
use crate::model::{MessageFacts, Session, Tokens};

/// Returns an SQL condition: the row of `usage` is a sum or a second-hand record, and its calls are
/// also recorded individually, with their input, among the rows `one` that match `condition`. A sum
/// stands for the calls of its time span, a second-hand record for any call.
pub(super) fn recorded_individually(condition: &str) -> String {
    format!(
        "(usage.since IS NOT NULL AND EXISTS (SELECT 1 FROM usage one WHERE {condition}
         AND one.since IS NULL AND one.input + one.cache_read + one.cache_creation > 0
         AND (usage.since = usage.at OR one.at BETWEEN usage.since AND usage.at)))"
    )
}

impl Writer<'_> {
    /// Decides which record of each contested call counts, and which session owns the call.
    pub(super) fn dedupe_usage(&mut self) -> Result<()> {
        let sums = self.sums()?;
        self.contested.extend(sums.iter().copied());
        for identity in std::mem::take(&mut self.contested) {
            self.note_owner(identity)?;
            let sql = "UPDATE usage SET counted = 0 WHERE identity = ?1";
            self.run(sql, identity)?;
            // The most complete record counts; of usage on bills, the one derived here. The owner
            // is the session that made the call first. A working copy or a fork owns a call only if
            // the original session is unknown. An import has no effect on calls that an agent of
            // this machine recorded.
            let sql = "UPDATE usage SET counted = 1, owner = (
                           SELECT other.session FROM usage other
                           LEFT JOIN recordings ON recordings.key = other.recording
                           LEFT JOIN sources ON sources.id = recordings.source
                           LEFT JOIN lineages ON lineages.session = other.session
                           WHERE other.identity = ?1
                           ORDER BY sources.home IS 'import',
                           recordings.metadata ->> '$.kind' = 'copy',
                           other.position < coalesce(lineages.shared, 0), other.at IS NULL,
                           other.at, other.session
                           LIMIT 1)
                       WHERE identity = ?1 AND recording = (
                           SELECT one.recording FROM usage one
                           LEFT JOIN recordings ON recordings.key = one.recording
                           LEFT JOIN sources ON sources.id = recordings.source
                           WHERE one.identity = ?1
                           ORDER BY one.unrecorded AND recordings.key IS NOT NULL,
                           sources.home IS 'import', one.output DESC,
                           one.input + one.cache_read + one.cache_creation DESC,
                           one.cost_micros IS NULL, one.model IS NULL, one.at IS NULL, one.at,
                           one.session, one.recording LIMIT 1)";
            self.run(sql, identity)?;
            self.note_owner(identity)?;
        }
        let sql = format!(
            "UPDATE usage SET counted = 0 WHERE identity = ?1 AND counted AND {}",
            recorded_individually(
                "one.recording IN (SELECT recordings.key FROM recordings
                 JOIN sources ON sources.id = recordings.source
                 WHERE recordings.session = usage.session AND (sources.home != 'import'
                 OR EXISTS (SELECT 1 FROM recordings own JOIN sources ON sources.id = own.source
                            WHERE own.key = usage.recording AND sources.home = 'import')))"
            )
        );
        sums.into_iter().try_for_each(|identity| self.run(&sql, identity))
    }

    fn run(&self, sql: &str, identity: [u8; 16]) -> Result<()> {
        self.database.execute(sql, [identity])?;
        Ok(())
    }

    fn note_owner(&mut self, identity: [u8; 16]) -> Result<()> {
        let sql = "SELECT owner FROM usage WHERE identity = ?1 AND counted = 1";
        let owner: Option<i64> = self.database.optional_value(sql, [identity])?;
        self.owners.extend(owner.map(|owner| owner as u64));
        Ok(())
    }

    /// Lists the usage sums of the changed sessions, because the calls they stand for may have
    /// changed.
    fn sums(&self) -> Result<Vec<[u8; 16]>> {
        let sql = "SELECT identity FROM usage WHERE session = ?1 AND since IS NOT NULL";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut all = Vec::new();
        for session in &self.touched {
            let rows = statement.query_map([*session as i64], |row| row.get(0));
            for identity in rows? {
                all.push(identity?);
            }
        }
        Ok(all)
    }

    /// Sums up the counted calls of a session and of its hidden descendants.
    pub(super) fn tokens(&self, session: u64) -> Result<Tokens> {
        let sql = format!(
            "{OWNERS} SELECT total(input) AS input, total(output) AS output, total(cache_read) AS cache_read,
             total(cache_creation) AS cache_creation, sum(reasoning) AS reasoning FROM usage WHERE owner IN inside AND counted = 1"
        );
        let sums = self.database.query_row(&sql, [session as i64], |row| {
            let number = |name: &str| row.get::<_, f64>(name).map(|sum| sum as u64);
            Ok(Tokens {
                input: number("input")?,
                output: number("output")?,
                cache_read: number("cache_read")?,
                cache_creation: number("cache_creation")?,
                reasoning: row.get::<_, Option<i64>>("reasoning")?.map(|sum| sum as u64),
            })
        });
        Ok(sums.optional()?.unwrap_or_default())
    }

    /// Writes the packed activity of a session. Of a hidden session only the usage counts: a
    /// working copy repeats the activity of the original, and other hidden activity would not be
    /// visible anywhere.
    pub(super) fn write_activity(
        &self,
        key: u64,
        metadata: &Session,
        figures: SessionFacts,
        shown: bool,
    ) -> Result<()> {
        let start = figures.started_at;
        let facts = if shown { figures.into_own() } else { MessageFacts::default() };
        let files = activity_codec::pack_files(&facts.files, metadata.cwd.as_deref());
        let done = ActivityLog::of(&facts, start).pack();
        let sql = "INSERT OR REPLACE INTO activity (session, done, files) VALUES (?1, ?2, ?3)";
        self.database.execute(sql, params![key as i64, done, files])?;
        let listed = if shown { &metadata.files } else { &[][..] };
        let touched = activity_codec::pack_touched(&facts, listed, metadata.cwd.as_deref());
        let sql = "INSERT OR REPLACE INTO touched (session, files) VALUES (?1, ?2)";
        self.database.execute(sql, params![key as i64, touched])?;
        Ok(())
    }

    /// Writes the packed usage of every session that gained or lost counted calls.
    pub(super) fn roll_up_spending(&mut self) -> Result<()> {
        let owners = std::mem::take(&mut self.owners);
        owners.iter().try_for_each(|owner| self.write_spending(*owner))?;
        let mut stale = std::mem::take(&mut self.stale_tokens);
        stale.extend(owners);
        // Calls of a hidden session count for its parent, recursively.
        let mut written = BTreeSet::new();
        while let Some(session) = stale.pop_first() {
            if written.insert(session) {
                self.write_tokens(session)?;
                stale.extend(self.shown_for(session)?);
            }
        }
        Ok(())
    }

    /// Returns the parent of a session, if the session is hidden.
    fn shown_for(&self, session: u64) -> Result<Option<u64>> {
        let sql = "SELECT parent FROM sessions WHERE key = ?1 AND shown = 0 AND parent != key";
        let parent = self.database.optional_value::<Option<i64>>(sql, [session as i64])?;
        Ok(parent.flatten().map(|parent| parent as u64))
    }

    /// Updates the token columns of a session.
    fn write_tokens(&self, session: u64) -> Result<()> {
        let tokens = self.tokens(session)?;
        let sql = "UPDATE sessions SET input = ?2, output = ?3, cache_read = ?4,
                   cache_creation = ?5, reasoning = ?6 WHERE key = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let reasoning = tokens.reasoning.map(|number| number as i64);
        let [input, output, cache_read, cache_creation] =
            [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation]
                .map(|number| number as i64);
        let row = params![session as i64, input, output, cache_read, cache_creation, reasoning];
        statement.execute(row)?;
        Ok(())
    }

    /// Writes the packed usage of a session.
    pub(super) fn write_spending(&self, owner: u64) -> Result<()> {
        let spent = self.spent(owner)?;
        let sql = "INSERT OR REPLACE INTO spending (session, calls) VALUES (?1, ?2)";
        let row = params![owner as i64, activity_codec::pack_usage(spent)];
        self.database.execute(sql, row)?;
        Ok(())
    }

    fn spent(&self, owner: u64) -> Result<Vec<UsageBucket>> {
        let sql = "SELECT coalesce(usage.at, sessions.started_at, 0) AS at, models.name AS model, usage.input,
                   usage.output, usage.cache_read, usage.cache_creation, usage.cache_creation_1h,
                   usage.reasoning, usage.cost_micros,
                   usage.since IS NOT NULL AND usage.since IS NOT usage.at AS is_sum, usage.unrecorded
                   FROM usage
                   LEFT JOIN sessions ON sessions.key = usage.owner
                   LEFT JOIN models ON models.id = usage.model
                   WHERE usage.owner = ?1 AND usage.counted = 1";
        let mut columns = None;
        self.database.rows(sql, [owner as i64], |row| {
            activity_codec::usage_bucket(row, UsageBucketColumns::of(&mut columns, row)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::{Source, Stamp};
    use crate::model::{Message, SessionId, Timestamp, Usage};
    use crate::store::{ChunkBuilder, RecordingRow, SerializedMessage, Store};

    struct Journal {
        directory: tempfile::TempDir,
    }

    /// Builds a message with a call, or with a sum since a time: identity, time, tokens.
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

        /// Records a session again from the source of that name.
        fn record_calls(&self, source: &str, key: u64, messages: Vec<Message>) {
            let id = SessionId { agent: "x".into(), native: "1".into() };
            let store = self.open();
            let mut writer = store.write().unwrap();
            let place = Source { path: source.into(), stamp: Stamp::default() };
            let source =
                writer.source("x", &place, &crate::store::SourceHome::default(), 1).unwrap();
            writer.truncate(key, 0, 0).unwrap();
            let mut builder = ChunkBuilder::at(0);
            let count = messages.len() as u64;
            for mut message in messages {
                let packed = SerializedMessage::new(&message);
                builder.add(&id, &mut message, packed);
            }
            writer.chunk(key, id.session_key(), &builder.pack(&writer.packer())).unwrap();
            let metadata = Session { id, ..Session::default() };
            writer
                .write_recording(&RecordingRow {
                    key,
                    source,
                    metadata,
                    messages: count,
                    is_new: true,
                })
                .unwrap();
            writer.commit().unwrap();
        }

        /// Returns input and output of all counted calls, after checking that the listing has the
        /// same.
        fn totals(&self) -> (u64, u64) {
            let store = self.open();
            let filter = crate::filter::Filter::default();
            let activity = store.activity(&filter, None).unwrap();
            let calls = activity.into_iter().flat_map(|one| one.spent());
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
        journal.record_calls("log", 1, log());
        assert_eq!(journal.totals(), (700, 30));
    }

    #[test]
    fn a_sum_gives_way_to_its_calls_and_counts_again_without_them() {
        let journal = Journal::new();
        journal.record_calls("log", 1, log());
        let single =
            || vec![usage("a", 1_000, None, (300, 10)), usage("b", 2_000, None, (450, 20))];
        journal.record_calls("store", 2, single());
        assert_eq!(journal.totals(), (750, 30));
        journal.record_calls("store", 2, Vec::new());
        assert_eq!(journal.totals(), (700, 30));
        // The other order gives the same result.
        let other = Journal::new();
        other.record_calls("store", 2, single());
        other.record_calls("log", 1, log());
        assert_eq!(other.totals(), (750, 30));
    }

    #[test]
    fn a_sum_stays_beside_calls_of_another_time() {
        let journal = Journal::new();
        journal.record_calls("log", 1, log());
        journal.record_calls("store", 2, vec![usage("late", 9_000, None, (40, 4))]);
        assert_eq!(journal.totals(), (740, 34));
    }

    #[test]
    fn a_call_told_second_hand_gives_way_to_any_record_of_the_session_itself() {
        let journal = Journal::new();
        journal.record_calls("parent", 1, vec![usage("a", 1_000, Some(1_000), (300, 10))]);
        assert_eq!(journal.totals(), (300, 10));
        journal.record_calls("own", 2, vec![usage("b", 1_003, None, (290, 9))]);
        assert_eq!(journal.totals(), (290, 9));
    }

    #[test]
    fn a_sum_gives_way_within_one_recording_too() {
        let journal = Journal::new();
        let mut messages = log();
        messages.push(usage("c", 2_500, None, (5, 1)));
        journal.record_calls("log", 1, messages);
        assert_eq!(journal.totals(), (5, 31));
    }

    #[test]
    fn of_the_records_of_a_call_in_one_recording_the_largest_output_holds() {
        let journal = Journal::new();
        let (early, full, late) = ((300, 2), (310, 40), (305, 7));
        let record = |tokens| usage("a", 1_000, None, tokens);
        journal.record_calls("log", 1, vec![record(early), record(full), record(late)]);
        assert_eq!(journal.totals(), full);
        // The other recording contains only the first record.
        journal.record_calls("copy", 2, vec![record(early)]);
        assert_eq!(journal.totals(), full);
    }
}
