//! Who asks: an agent should not find its own question as the answer.

use std::path::Path;

use agent_journal::connectors::Agent;
use agent_journal::search::{Edge, Filter, Scope, date};
use agent_journal::{Entry, Journal};
use anyhow::Result;

use super::Call;

impl Call {
    /// The sessions that may be the one that asks: those of the client's agent that are running
    /// where this server was started.
    pub(super) fn current(&self, journal: &Journal) -> Result<Vec<Entry>> {
        let Ok(here) = std::env::current_dir() else { return Ok(Vec::new()) };
        let since = date("1d", &self.context.now, Edge::Start)?;
        let agents = client(&self.client).map(|agent| agent.id.to_owned()).into_iter().collect();
        let filter =
            Filter { agents, since: Some(since), scope: Scope::Roots, ..Filter::default() };
        let mut running = journal.sessions(&filter, None)?;
        running.retain(|entry| entry.status == "running" && is_in(entry, &here));
        Ok(running)
    }
}

/// The agent that a client is, as far as its name tells.
fn client(name: &str) -> Option<&'static Agent> {
    let name = name.to_lowercase();
    let fits =
        |agent: &&Agent| agent.mcp.as_ref().is_some_and(|client| name.contains(client.introduces));
    Journal::agents().find(fits)
}

/// Whether a session takes place in a directory, below it or around it.
fn is_in(entry: &Entry, here: &Path) -> bool {
    let places = [&entry.cwd, &entry.project_path];
    places.into_iter().flatten().any(|place| {
        let place = Path::new(place);
        here.starts_with(place) || place.starts_with(here)
    })
}

/// Whether an entry is one of these sessions, or of a sub-agent of one.
pub(super) fn is_among(entry: &Entry, sessions: &[Entry]) -> bool {
    let is_one =
        |session: &Entry| session.id == entry.id || entry.parent_id.as_deref() == Some(&session.id);
    sessions.iter().any(is_one)
}
