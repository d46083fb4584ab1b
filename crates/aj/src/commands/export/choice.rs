//! Selects the sessions to export: by ids, by a query, or all.

use agent_journal::export::{Pick, Together};
use agent_journal::search::{Filter, Mode, Query, Scope, SearchOptions};
use agent_journal::{Entry, Error, Journal};
use anyhow::Result;

use super::ExportArgs;
use super::target::ExportTarget;
use crate::context::CommandContext;
use crate::session_filter::require_session_fields;

/// The selection of sessions that an export command describes.
pub(super) struct ExportSelection<'a> {
    pub(super) args: &'a ExportArgs,
    pub(super) context: &'a CommandContext,
    pub(super) journal: &'a Journal,
    pub(super) sub_agents: Pick,
}

impl ExportSelection<'_> {
    pub(super) fn selected_entries(&self, target: &ExportTarget) -> Result<Vec<Entry>> {
        // HTML pages and Markdown include sub-agents in their parent session.
        let apart = self.sub_agents == Pick::With
            && target.format.storage_of_several() != Together::Directory;
        let scope = if apart { Scope::All } else { Scope::Roots };
        if self.args.all {
            let filter = self.args.filter.filter_from_flags(scope, &self.context.now)?;
            let mut entries = self.journal.list_entries(&filter, None)?;
            // Includes every session that was counted, also sub-agents outside the scope.
            if matches!(target.format.storage_of_several(), Together::OneFile | Together::Tables) {
                entries.extend(self.journal.sessions_with_detached_usage(&filter)?);
            }
            return Ok(entries);
        }
        if let Some(mut entries) = self.by_id()? {
            if apart && target.format.storage_of_several() == Together::OneFile {
                self.add_subagents(&mut entries);
            }
            return Ok(entries);
        }
        let mut query = Query::parse_exact(&self.args.what.join(" "), &self.context.now)?;
        query.filter.scope = scope;
        self.args.filter.apply_flags(&mut query.filter, &self.context.now)?;
        self.by_query(&query)
    }

    /// Returns the sessions if every argument is a session id.
    fn by_id(&self) -> Result<Option<Vec<Entry>>> {
        let mut entries: Vec<Entry> = Vec::new();
        for id in &self.args.what {
            match self.journal.find_session(id) {
                Ok(entry) if entries.iter().any(|known| known.id == entry.id) => {}
                Ok(entry) => entries.push(entry),
                Err(error @ Error::AmbiguousSession { .. }) if is_session_id(id) => {
                    return Err(error.into());
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(entries))
    }

    /// Adds the sub-agents of the sessions, recursively.
    fn add_subagents(&self, entries: &mut Vec<Entry>) {
        let mut at = 0;
        while at < entries.len() {
            let children: Vec<Entry> = entries[at]
                .children
                .iter()
                .filter_map(|id| self.journal.find_session(id).ok())
                .collect();
            for child in children {
                if entries.iter().all(|known| known.id != child.id) {
                    entries.push(child);
                }
            }
            at += 1;
        }
    }

    fn by_query(&self, query: &Query) -> Result<Vec<Entry>> {
        if query.clauses.is_empty() {
            require_session_fields(&query.filter)?;
            return Ok(self.journal.list_entries(&query.filter, None)?);
        }
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let limit = self.journal.count_sessions(&all)?.max(1) as usize;
        // A match by meaning is a guess: an export has only sessions with the words.
        let options = SearchOptions { limit, mode: Mode::Lexical, ..SearchOptions::default() };
        let answer = self.journal.search(query, &options)?;
        Ok(answer.sessions.into_iter().map(|found| found.entry).collect())
    }
}

/// Returns whether a word can only be a session id.
fn is_session_id(word: &str) -> bool {
    word.contains(|one: char| one.is_ascii_digit())
        && word.chars().all(|one| one.is_ascii_hexdigit() || one == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_a_word_is_an_id() {
        assert!(is_session_id("5e1fb0a2") && is_session_id("5e1f-"));
        assert!(!is_session_id("added") && !is_session_id("login2"));
    }
}
