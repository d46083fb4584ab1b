//! Which sessions leave: those named by their ids, those a query finds, or all.

use agent_journal::export::{Pick, Together};
use agent_journal::search::{Filter, Query, Scope};
use agent_journal::{Entry, Error, Journal};
use anyhow::Result;

use super::Args;
use super::target::Target;
use crate::commands::of_sessions;
use crate::context::Context;

/// Which sessions.
pub(super) struct Choice<'a> {
    pub(super) args: &'a Args,
    pub(super) context: &'a Context,
    pub(super) journal: &'a Journal,
    pub(super) sub_agents: Pick,
}

impl Choice<'_> {
    pub(super) fn entries(&self, target: &Target) -> Result<Vec<Entry>> {
        // In a page or in Markdown sub-agents stand inside their parent.
        let apart =
            self.sub_agents == Pick::With && target.format.together() != Together::Directory;
        let scope = if apart { Scope::All } else { Scope::Roots };
        if self.args.all {
            let filter = self.args.filter.filter(scope, &self.context.now)?;
            let mut entries = self.journal.sessions(&filter, None)?;
            // What is counted must be in it, whoever spent it.
            if matches!(target.format.together(), Together::OneFile | Together::Tables) {
                entries.extend(self.journal.spenders(&filter)?);
            }
            return Ok(entries);
        }
        if let Some(mut entries) = self.by_id()? {
            if apart && target.format.together() == Together::OneFile {
                self.add_children(&mut entries);
            }
            return Ok(entries);
        }
        let mut query = Query::parse(&self.args.what.join(" "), &self.context.now)?;
        query.filter.scope = scope;
        self.args.filter.apply(&mut query.filter, &self.context.now)?;
        self.by_query(&query)
    }

    /// The sessions, when every word is the id of one.
    fn by_id(&self) -> Result<Option<Vec<Entry>>> {
        let mut entries: Vec<Entry> = Vec::new();
        for id in &self.args.what {
            match self.journal.session(id) {
                Ok(entry) if entries.iter().any(|known| known.id == entry.id) => {}
                Ok(entry) => entries.push(entry),
                Err(error @ Error::AmbiguousSession { .. }) if is_id(id) => {
                    return Err(error.into());
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(entries))
    }

    /// Adds the sessions that those before them started.
    fn add_children(&self, entries: &mut Vec<Entry>) {
        let mut at = 0;
        while at < entries.len() {
            let children: Vec<Entry> = entries[at]
                .children
                .iter()
                .filter_map(|id| self.journal.session(id).ok())
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
            of_sessions(&query.filter)?;
            return Ok(self.journal.sessions(&query.filter, None)?);
        }
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let limit = self.journal.count(&all)?.max(1) as usize;
        let answer = self.journal.search(query, limit, 0)?;
        Ok(answer.sessions.into_iter().map(|found| found.entry).collect())
    }
}

/// Whether a word can only be meant as an id.
fn is_id(word: &str) -> bool {
    word.contains(|one: char| one.is_ascii_digit())
        && word.chars().all(|one| one.is_ascii_hexdigit() || one == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_a_word_is_an_id() {
        assert!(is_id("5e1fb0a2") && is_id("5e1f-"));
        assert!(!is_id("added") && !is_id("login2"));
    }
}
