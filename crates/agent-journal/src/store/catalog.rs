//! Caches data about all sessions that every search needs, until the journal changes.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::Row;

use super::Store;
use super::database::columns;
use super::tasks::ParentLink;
use crate::error::Result;
use crate::maps::Set;
use crate::model::Timestamp;

/// The cached data about all sessions.
#[derive(Default)]
pub(super) struct Catalog {
    links: Slot<Vec<ParentLink>>,
    facts: Slot<Vec<Facts>>,
}

/// A cached value with the generation it was read at.
type Slot<T> = RefCell<Option<(i64, Arc<T>)>>;

/// The properties of a session by which search results are counted.
pub(crate) struct Facts {
    pub(crate) recording: u64,
    pub(crate) agent: Arc<str>,
    pub(crate) project: Option<Arc<str>>,
    /// JSON list of models as stored, the most used first.
    pub(crate) models: Arc<str>,
    pub(crate) ended_at: Option<Timestamp>,
}

/// Interns texts that repeat often.
#[derive(Default)]
struct InternedTexts(Set<Arc<str>>);

impl Catalog {
    /// Drops all cached data.
    pub(super) fn clear(&self) {
        self.links.take();
        self.facts.take();
    }
}

impl Store {
    /// Returns the parent links of all sessions that have a parent or children.
    pub(super) fn all_links(&self) -> Result<Arc<Vec<ParentLink>>> {
        self.known(&self.catalog.links, || self.started())
    }

    /// Returns the facet values of all shown sessions.
    pub(crate) fn facts(&self) -> Result<Arc<Vec<Facts>>> {
        let read = || {
            let sql = "SELECT recording, agent, project, models, ended_at
                       FROM sessions NOT INDEXED WHERE shown = 1";
            let mut statement = self.database.prepare(sql)?;
            let mut texts = InternedTexts::default();
            let mut columns = None;
            let rows = statement
                .query_map([], |row| facts(row, FactsColumns::of(&mut columns, row)?, &mut texts));
            rows?.collect()
        };
        self.known(&self.catalog.facts, read)
    }

    /// Returns the cached value, or reads it if it is outdated.
    fn known<T>(&self, slot: &Slot<T>, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let generation = self.generation()?;
        if let Some((known, thing)) = &*slot.borrow()
            && *known == generation
        {
            return Ok(Arc::clone(thing));
        }
        let thing = Arc::new(read()?);
        slot.replace(Some((generation, Arc::clone(&thing))));
        Ok(thing)
    }
}

columns! {
    /// The columns of `Facts`.
    FactsColumns { recording, agent, project, models, ended_at }
}

fn facts(
    row: &Row<'_>,
    columns: &FactsColumns,
    texts: &mut InternedTexts,
) -> rusqlite::Result<Facts> {
    let project = row.get_ref(columns.project)?.as_str_or_null()?;
    Ok(Facts {
        recording: row.get::<_, i64>(columns.recording)? as u64,
        agent: texts.get(row.get_ref(columns.agent)?.as_str()?),
        project: project.map(|project| texts.get(project)),
        models: texts.get(row.get_ref(columns.models)?.as_str()?),
        ended_at: row.get::<_, Option<i64>>(columns.ended_at)?.and_then(Timestamp::from_millis),
    })
}

impl InternedTexts {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}
