//! Why a session is listed or missing: what the journal knows of it, and of the file it is in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::connectors::formats::glob;
use crate::error::Result;
use crate::journal::Journal;
use crate::store::{KnownSession, KnownSource, RecordedSource, SourceState};
use crate::sync::{self, Found, Plan};

/// What is known of a session or a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Presence {
    /// The sessions that it is, or that are in it.
    pub sessions: Vec<KnownSession>,
    /// The files that it is, or that tell of it.
    pub sources: Vec<KnownSource>,
    /// The scanned directory that a path lies in, although no session is read from that path.
    pub inside: Option<ScannedDirectory>,
}

/// A directory that is scanned for an agent.
#[derive(Clone, Debug, Serialize)]
pub struct ScannedDirectory {
    /// The agent's id.
    pub agent: &'static str,
    /// The directory.
    pub path: String,
}

impl Journal {
    /// Says what is known of the session with an id, or with the beginning of one.
    pub fn presence_of_session(&self, id: &str) -> Result<Presence> {
        let mut presence = Presence::default();
        let found = self.found_sources()?;
        if let Some(store) = self.store.as_ref() {
            let prefix = id.rsplit(':').next().unwrap_or(id);
            presence.sessions = store.known_sessions(prefix)?;
            for session in &presence.sessions {
                for recorded in store.recorded_sources(&session.id)? {
                    add_source(&mut presence.sources, self.current(recorded, &found));
                }
            }
        }
        self.redact_known(&mut presence.sessions)?;
        // A file that carries the id in its name, when nothing was read from it.
        let names_it = |one: &&Found| {
            let name = one.source.path.file_name().unwrap_or_default().to_string_lossy();
            id.len() >= MIN_ID && name.contains(id)
        };
        for found in found.iter().filter(names_it) {
            let known = self.source_at(found)?;
            add_source(&mut presence.sources, known);
        }
        Ok(presence)
    }

    /// Says what is known of a file, or of the files below a directory.
    pub fn presence_of_path(&self, path: &Path) -> Result<Presence> {
        let mut presence = Presence::default();
        let found = self.found_sources()?;
        for found in found.iter().filter(|one| one.source.path.starts_with(path)) {
            let known = self.source_at(found)?;
            add_source(&mut presence.sources, known);
        }
        if let Some(store) = self.store.as_ref() {
            for recorded in store.recorded_below(path)? {
                add_source(&mut presence.sources, self.current(recorded, &found));
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

    /// Lists every source that is there now.
    fn found_sources(&self) -> Result<Vec<Found>> {
        Ok(Plan::make(self.config(), &self.machine_now()?, None, true)?.changed)
    }

    fn source_at(&self, found: &Found) -> Result<KnownSource> {
        let agent = found.connector.agent().id;
        let path = found.source.path.display().to_string();
        let store = self.store.as_ref();
        let recorded = store.map(|store| store.recorded_below(&found.source.path)).transpose()?;
        let recorded = recorded.unwrap_or_default().into_iter();
        let same =
            recorded.filter(|one| one.known.agent == agent).find(|one| one.known.path == path);
        Ok(match same {
            Some(recorded) => self.current(recorded, std::slice::from_ref(found)),
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

    /// Compares what was recorded of a source with what is there now.
    fn current(&self, recorded: RecordedSource, found: &[Found]) -> KnownSource {
        let RecordedSource { mut known, is_present } = recorded;
        let path = PathBuf::from(&known.path);
        let now = found.iter().find(|one| one.source.path == path);
        let row = self.store.as_ref().and_then(|store| store.source(&known.agent, &path).ok()?);
        let is_same =
            |found: &Found| row.as_ref().is_some_and(|row| row.stamp == found.source.stamp);
        known.state = match now {
            _ if known.error.is_some() => SourceState::Failed,
            Some(found) if is_same(found) => SourceState::Read,
            Some(_) => SourceState::Changed,
            None if is_present && path.exists() => SourceState::Read,
            None => SourceState::Gone,
        };
        known
    }

    /// Finds the scanned directory that a path lies in, the deepest one.
    fn scanned_directory(&self, path: &Path) -> Result<Option<ScannedDirectory>> {
        let machine = self.machine_now()?;
        let mut best: Option<(usize, ScannedDirectory)> = None;
        for connector in crate::connectors::ALL {
            for root in sync::roots(*connector, self.config(), &machine) {
                let base = glob::base(&root.path);
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

/// Shorter beginnings of an id are in too many names.
const MIN_ID: usize = 6;

fn add_source(sources: &mut Vec<KnownSource>, source: KnownSource) {
    if !sources.iter().any(|known| known.path == source.path && known.agent == source.agent) {
        sources.push(source);
    }
}
