//! Forgets sessions: deletes them from the journal for good, and leaves tombstones, so that they are
//! not read again. Agents' files are never touched.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::archive;
use crate::error::{Error, Result};
use crate::filter::{Filter, Scope};
use crate::index::{LexicalWriter, Semantic};
use crate::journal::Journal;
use crate::store::{Entry, LeftOutReason, LeftOutSession, PurgeState, Store, StoredSize};
use crate::sync::{Progress, SyncOptions, SyncRun, WriterLock, excludes_directory};

/// The sessions that would be forgotten.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForgetPlan {
    /// The sessions that were named or found, the latest first.
    pub sessions: Vec<Entry>,
    /// The number of sub-agents of these sessions, which are forgotten too.
    pub subagents: u64,
    /// The number of messages.
    pub messages: u64,
    /// The size of the messages, in bytes.
    pub bytes: u64,
    /// Ids of sessions that begin with a copy of messages of these sessions, and stay.
    pub copied_into: Vec<String>,
    keys: Vec<u64>,
    reason: LeftOutReason,
}

/// The result of forgetting sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForgetReport {
    /// The number of forgotten sessions, with sub-agents.
    pub sessions: u64,
    /// The number of messages.
    pub messages: u64,
    /// The number of bytes by which the journal's files became smaller.
    pub freed_bytes: u64,
    /// Whether no byte is left. Otherwise another process reads the journal, and the next sync
    /// deletes the rest.
    pub is_complete: bool,
}

impl Journal {
    /// Returns what would be forgotten with some sessions.
    pub fn plan_forgetting(&self, sessions: Vec<Entry>) -> Result<ForgetPlan> {
        self.plan_removal(sessions, LeftOutReason::Forgotten)
    }

    /// Returns the stored sessions that the configuration excludes.
    pub fn plan_forgetting_excluded(&self) -> Result<ForgetPlan> {
        let rules = &self.config.exclude;
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let mut sessions = match &self.store {
            Some(store) if !rules.is_empty() => store.sessions(&all, None, self.now)?,
            _ => Vec::new(),
        };
        sessions.retain(|entry| {
            let places = [&entry.project_path, &entry.cwd].into_iter().flatten();
            rules.excludes_path(&entry.source.path)
                || places.into_iter().any(|place| excludes_directory(rules, place))
        });
        self.plan_removal(sessions, LeftOutReason::Excluded)
    }

    fn plan_removal(&self, mut sessions: Vec<Entry>, reason: LeftOutReason) -> Result<ForgetPlan> {
        let mut seen = std::collections::HashSet::new();
        sessions.retain(|entry| seen.insert(entry.key));
        let named: Vec<u64> = sessions.iter().map(|entry| entry.key).collect();
        let (mut keys, mut size) = (Vec::new(), StoredSize::default());
        if let Some(store) = &self.store {
            keys = store.with_subagents(&named)?;
            size = store.stored_size(&keys)?;
        }
        let ids: std::collections::HashSet<&str> =
            sessions.iter().map(|entry| entry.id.as_str()).collect();
        let copies = sessions.iter().flat_map(|entry| entry.continued_by.iter());
        let mut copied_into: Vec<String> =
            copies.filter(|id| !ids.contains(id.as_str())).cloned().collect();
        copied_into.sort();
        copied_into.dedup();
        Ok(ForgetPlan {
            subagents: (keys.len() - named.len()) as u64,
            messages: size.messages,
            bytes: size.bytes,
            copied_into,
            keys,
            reason,
            sessions,
        })
    }

    /// Deletes sessions with everything that was derived from them, and leaves tombstones. Waits
    /// for another writer at most `wait`.
    pub fn forget_sessions(
        &mut self,
        plan: &ForgetPlan,
        wait: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ForgetReport> {
        if plan.keys.is_empty() {
            return Ok(ForgetReport { is_complete: true, ..ForgetReport::default() });
        }
        let _lock = self.lock_for_writing(wait, progress)?;
        self.finish_purge()?;
        let before = self.journal_bytes();
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        store.overwrite_deleted()?;
        let options = SyncOptions { budget: Some(Duration::ZERO), ..SyncOptions::default() };
        let (config, store_path) = (&self.config, &*self.path);
        let (archive, packs) = (None, self.pack_directory());
        let mut run = SyncRun { config, store, store_path, options, progress, archive };
        let forgotten = run.forget_sessions(&mut |writer| {
            let recordings = writer.forget_sessions(&plan.keys, plan.reason, self.now)?;
            archive::collect_garbage(&packs, store, writer)?;
            Ok(recordings)
        });
        match forgotten {
            Ok(()) => store.note_index_purged()?,
            // The sessions may be deleted from the journal already, and the index is damaged.
            Err(Error::Index { .. }) if store.purge_state()? != PurgeState::Done => {}
            Err(error) => return Err(error),
        }
        let is_complete = self.finish_purge()?;
        Ok(ForgetReport {
            sessions: plan.keys.len() as u64,
            messages: plan.messages,
            freed_bytes: before.saturating_sub(self.journal_bytes()),
            is_complete,
        })
    }

    /// Lifts the tombstones of the sessions with an id or a prefix of an id, so that the next sync
    /// reads them again. Returns these sessions.
    pub fn lift_tombstones(&mut self, id: &str, wait: Duration) -> Result<Vec<LeftOutSession>> {
        let unknown = || Error::UnknownSession { id: id.to_owned() };
        let is_meant = |one: &LeftOutSession| {
            let native = one.id.split_once(':').map_or(one.id.as_str(), |(_, native)| native);
            one.reason == LeftOutReason::Forgotten
                && (one.id.starts_with(id) || native.starts_with(id))
        };
        let mut meant = self.left_out_sessions()?;
        meant.retain(is_meant);
        if id.is_empty() || meant.is_empty() {
            return Err(unknown());
        }
        let is_exact = |one: &LeftOutSession| one.id == id || one.id.ends_with(&format!(":{id}"));
        if meant.iter().any(is_exact) {
            meant.retain(is_exact);
        } else if meant.iter().filter(|one| !one.is_subagent).count() > 1 {
            return Err(Error::AmbiguousSession {
                id: id.to_owned(),
                count: meant.len() as u64,
                candidates: meant.iter().map(|one| (one.id.clone(), String::new())).collect(),
            });
        }
        let _lock = self.lock_for_writing(wait, &mut |_| {})?;
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut writer = store.write()?;
        for one in &meant {
            writer.lift_tombstone(one.key, self.now)?;
        }
        writer.commit()?;
        Ok(meant)
    }

    /// Lists the sessions that are not read: forgotten and excluded ones.
    pub fn left_out_sessions(&self) -> Result<Vec<LeftOutSession>> {
        self.store.as_ref().map_or(Ok(Vec::new()), Store::left_out_sessions)
    }

    /// Completes the deletion of sessions that another process interrupted or delayed. The caller
    /// holds the lock. Returns false if another process reads the journal, so that its log cannot
    /// be emptied now.
    pub(crate) fn finish_purge(&self) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(true) };
        match store.purge_state()? {
            PurgeState::Done => return Ok(true),
            PurgeState::IndexAndFile => {
                LexicalWriter::discard(&self.config.index_dir.join("lexical"))?;
                Semantic::discard_all(&self.config.index_dir)?;
                store.note_index_purged()?;
            }
            PurgeState::File => {}
        }
        archive::remove_unknown_bytes(&self.pack_directory(), store)?;
        store.overwrite_deleted()?;
        store.rewrite_file()
    }

    /// Takes the lock of the writer, and opens the journal for writing.
    pub(crate) fn lock_for_writing(
        &mut self,
        wait: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<WriterLock> {
        let path = self.config.journal_dir.join("lock");
        let taken = WriterLock::take(&path, Some(wait), progress)?;
        let lock = taken.ok_or(Error::Busy { path })?;
        self.store = Some(Store::create(&self.path)?);
        Ok(lock)
    }

    fn pack_directory(&self) -> PathBuf {
        archive::pack_directory(&self.config.journal_dir)
    }

    /// Returns the size of the files of the journal, its index and its archive.
    fn journal_bytes(&self) -> u64 {
        let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let mut bytes = size(&self.path) + size(std::path::Path::new(&log));
        for directory in [
            self.config.index_dir.clone(),
            self.config.index_dir.join("lexical"),
            self.pack_directory(),
        ] {
            let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
            bytes += files
                .filter_map(|file| file.metadata().ok())
                .filter(std::fs::Metadata::is_file)
                .map(|file| file.len())
                .sum::<u64>();
        }
        bytes
    }
}
