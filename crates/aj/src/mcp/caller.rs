//! Finds the sessions of the calling agent, so that a search does not return its own question.

use std::path::Path;

use agent_journal::connectors::Agent;
use agent_journal::model::SessionStatus;
use agent_journal::search::{DayEdge, Filter, Scope, date};
use agent_journal::{Entry, Journal};
use anyhow::Result;

use super::ToolCall;

impl ToolCall {
    /// Returns the sessions that may be the caller's: running ones of the client's agent in the
    /// directory this server was started in.
    pub(super) fn callers_sessions(&self, journal: &Journal) -> Result<Vec<Entry>> {
        let Ok(here) = std::env::current_dir() else { return Ok(Vec::new()) };
        let since = date("1d", &self.context.now, DayEdge::Start)?;
        let agents =
            client_agent(&self.client).map(|agent| agent.id.to_owned()).into_iter().collect();
        let filter =
            Filter { agents, since: Some(since), scope: Scope::Roots, ..Filter::default() };
        let mut running = journal.list_entries(&filter, None)?;
        running.retain(|entry| entry.status == SessionStatus::Running && is_in(entry, &here));
        Ok(running)
    }
}

/// Returns the agent that a client's name identifies, if there is one.
fn client_agent(name: &str) -> Option<&'static Agent> {
    let name = name.to_lowercase();
    let fits =
        |agent: &&Agent| agent.mcp.as_ref().is_some_and(|client| name.contains(client.introduces));
    Journal::supported_agents().find(fits)
}

/// Returns whether a session runs in a directory, below it or above it.
fn is_in(entry: &Entry, here: &Path) -> bool {
    let places = [&entry.cwd, &entry.project_path];
    places.into_iter().flatten().any(|place| {
        let place = Path::new(place);
        here.starts_with(place) || place.starts_with(here)
    })
}

/// Returns whether a session is one of `sessions` or a direct sub-agent of one.
pub(super) fn is_among(entry: &Entry, sessions: &[Entry]) -> bool {
    let is_one =
        |session: &Entry| session.id == entry.id || entry.parent_id.as_deref() == Some(&session.id);
    sessions.iter().any(is_one)
}
