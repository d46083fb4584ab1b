//! Explains why a session is listed or missing, from the stored session and the files it comes
//! from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::connectors::formats::glob;
use crate::error::Result;
use crate::journal::Journal;
use crate::store::{KnownSession, KnownSource, RecordedSource, SourceState};
use crate::sync::{self, FoundSource, Plan};

/// Everything the journal contains about a session id or a path.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Presence {
    /// The matching sessions, or the sessions in the matching files.
    pub sessions: Vec<KnownSession>,
    /// The matching files, or the files that contain the matching sessions.
    pub sources: Vec<KnownSource>,
    /// The scanned directory that contains the path, if no session was read from the path itself.
    pub inside: Option<ScannedDirectory>,
}

/// A directory that is scanned for the sessions of an agent.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScannedDirectory {
    /// Id of the agent.
    pub agent: &'static str,
    /// Path of the directory.
    pub path: String,
}

impl Journal {
    /// Looks up a session by its id or by a prefix of its id.
    pub fn presence_of_session(&self, id: &str) -> Result<Presence> {
        let mut presence = Presence::default();
        let found = self.found_sources()?;
        if let Some(store) = self.store.as_ref() {
            let prefix = id.rsplit(':').next().unwrap_or(id);
            presence.sessions = store.known_sessions(prefix)?;
            for session in &presence.sessions {
                for recorded in store.recorded_sources(&session.id)? {
                    add_known_source(
                        &mut presence.sources,
                        self.current_source_state(recorded, &found),
                    );
                }
            }
        }
        self.redact_known(&mut presence.sessions)?;
        // A file whose name contains the id, although no session was read from it.
        let names_it = |one: &&FoundSource| {
            let name = one.source.path.file_name().unwrap_or_default().to_string_lossy();
            id.len() >= MIN_ID && name.contains(id)
        };
        for found in found.iter().filter(names_it) {
            let known = self.source_at(found)?;
            add_known_source(&mut presence.sources, known);
        }
        Ok(presence)
    }

    /// Looks up a file, or all files below a directory.
    pub fn presence_of_path(&self, path: &Path) -> Result<Presence> {
        let mut presence = Presence::default();
        let found = self.found_sources()?;
        for found in found.iter().filter(|one| one.source.path.starts_with(path)) {
            let known = self.source_at(found)?;
            add_known_source(&mut presence.sources, known);
        }
        if let Some(store) = self.store.as_ref() {
            for recorded in store.recorded_below(path)? {
                add_known_source(
                    &mut presence.sources,
                    self.current_source_state(recorded, &found),
                );
            }
            for source in &presence.sources {
                presence.sessions.extend(store.sessions_in(&source.path)?);
            }
        }
        self.redact_known(&mut presence.sessions)?;
        if presence.sources.is_empty() {
            presence.inside = self.scanned_directory(path)?;
        }
        Ok(presence)
    }

    /// Lists all sources that exist now.
    fn found_sources(&self) -> Result<Vec<FoundSource>> {
        Ok(Plan::make(self.configuration(), &self.machine_now()?, None, true)?.changed)
    }

    fn source_at(&self, found: &FoundSource) -> Result<KnownSource> {
        let agent = found.connector.agent().id;
        let path = found.source.path.display().to_string();
        let store = self.store.as_ref();
        let recorded = store.map(|store| store.recorded_below(&found.source.path)).transpose()?;
        let recorded = recorded.unwrap_or_default().into_iter();
        let same =
            recorded.filter(|one| one.known.agent == agent).find(|one| one.known.path == path);
        Ok(match same {
            Some(recorded) => self.current_source_state(recorded, std::slice::from_ref(found)),
            None => KnownSource {
                agent: agent.to_owned(),
                path,
                state: SourceState::Unread,
                records: 0,
                understood: 0,
                skipped: BTreeMap::new(),
                error: None,
            },
        })
    }

    /// Sets the state of a stored source by comparing it with the file that exists now.
    fn current_source_state(&self, recorded: RecordedSource, found: &[FoundSource]) -> KnownSource {
        let RecordedSource { mut known, is_present } = recorded;
        let path = PathBuf::from(&known.path);
        let now = found.iter().find(|one| one.source.path == path);
        let row = self.store.as_ref().and_then(|store| store.source(&known.agent, &path).ok()?);
        let is_same =
            |found: &FoundSource| row.as_ref().is_some_and(|row| row.stamp == found.source.stamp);
        known.state = match now {
            _ if known.error.is_some() => SourceState::Failed,
            Some(found) if is_same(found) => SourceState::Read,
            Some(_) => SourceState::Changed,
            None if is_present && path.exists() => SourceState::Read,
            None => SourceState::Gone,
        };
        known
    }

    /// Finds the deepest scanned directory that contains a path.
    fn scanned_directory(&self, path: &Path) -> Result<Option<ScannedDirectory>> {
        let machine = self.machine_now()?;
        let mut best: Option<(usize, ScannedDirectory)> = None;
        for connector in crate::connectors::all_connectors() {
            for root in sync::roots(connector, self.configuration(), &machine) {
                let base = glob::pattern_base(&root.path);
                let depth = base.components().count();
                let is_deeper = best.as_ref().is_none_or(|(known, _)| depth > *known);
                let is_inside = if connector.scans_below() {
                    path.starts_with(&base)
                } else {
                    path.parent() == Some(&base)
                };
                if is_inside && is_deeper {
                    let agent = connector.agent().id;
                    let path = base.display().to_string();
                    best = Some((depth, ScannedDirectory { agent, path }));
                }
            }
        }
        Ok(best.map(|(_, directory)| directory))
    }
}

/// Minimum length of an id prefix to search for in file names. Shorter ones occur in too many
/// names.
const MIN_ID: usize = 6;

fn add_known_source(sources: &mut Vec<KnownSource>, source: KnownSource) {
    if !sources.iter().any(|known| known.path == source.path && known.agent == source.agent) {
        sources.push(source);
    }
}
