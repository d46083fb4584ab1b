//! What a search asks of every session at once, held for the next question until the journal
//! changes.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::Row;

use super::Store;
use super::tasks::Link;
use crate::error::Result;
use crate::maps::Set;
use crate::model::Timestamp;

/// What was read of all sessions.
#[derive(Default)]
pub(super) struct Catalog {
    links: Slot<Vec<Link>>,
    facts: Slot<Vec<Facts>>,
}

/// Something that was read, and of which generation it is.
type Slot<T> = RefCell<Option<(i64, Arc<T>)>>;

/// What results of a search are counted by.
pub(crate) struct Facts {
    pub(crate) telling: u64,
    pub(crate) agent: Arc<str>,
    pub(crate) project: Option<Arc<str>>,
    /// A list as it is written, the most used first.
    pub(crate) models: Arc<str>,
    pub(crate) ended_at: Option<Timestamp>,
}

/// Texts of which there are few different ones.
#[derive(Default)]
struct Texts(Set<Arc<str>>);

impl Catalog {
    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.links.take();
        self.facts.take();
    }
}

impl Store {
    /// Which session started which: those that started others, and those that were started.
    pub(super) fn all_links(&self) -> Result<Arc<Vec<Link>>> {
        self.known(&self.catalog.links, || self.started())
    }

    /// The facts that results are counted by, of every session that is shown.
    pub(crate) fn facts(&self) -> Result<Arc<Vec<Facts>>> {
        let read = || {
            let sql = "SELECT telling, agent, project, models, ended_at
                       FROM sessions NOT INDEXED WHERE shown = 1";
            let mut statement = self.connection.prepare(sql).map_err(self.error())?;
            let mut texts = Texts::default();
            let rows = statement.query_map([], |row| facts(row, &mut texts));
            rows.and_then(Iterator::collect).map_err(self.error())
        };
        self.known(&self.catalog.facts, read)
    }

    /// What is held in a place, or what is read now.
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

fn facts(row: &Row<'_>, texts: &mut Texts) -> rusqlite::Result<Facts> {
    let project = row.get_ref(2)?.as_str_or_null()?;
    Ok(Facts {
        telling: row.get::<_, i64>(0)? as u64,
        agent: texts.get(row.get_ref(1)?.as_str()?),
        project: project.map(|project| texts.get(project)),
        models: texts.get(row.get_ref(3)?.as_str()?),
        ended_at: row.get::<_, Option<i64>>(4)?.and_then(Timestamp::from_millis),
    })
}

impl Texts {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}
