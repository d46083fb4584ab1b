//! What is new, found out quickly: the last look that found nothing is remembered, and as long as
//! everything it saw still looks the same, there is nothing new.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::plan::{Plan, roots};
use crate::config::Config;
use crate::connectors::formats::sight::{Comparison, Sight};
use crate::connectors::{ALL, Machine};
use crate::helper::{Helper, Joint};
use crate::store::{READER_VERSION, Store};

/// What a remembered look begins with; another form has another one.
const MARK: &[u8; 8] = b"ajseen2\n";

/// What a look found.
#[derive(Default)]
pub struct News {
    pub(crate) plan: Plan,
    /// The journal's generation when it was compared.
    pub(crate) generation: i64,
    /// Whether the index holds what the journal does.
    pub(crate) indexed: bool,
}

impl News {
    /// Whether there is nothing to do and nothing to complain about.
    pub fn is_nothing(&self) -> bool {
        self.indexed && self.plan.is_empty() && self.plan.failures.is_empty()
    }

    /// How many sources changed, and how large they are.
    pub fn pending(&self) -> (u64, u64) {
        let changed = &self.plan.changed;
        let bytes = changed.iter().map(|found| found.source.stamp.size).sum();
        (changed.len() as u64, bytes)
    }

    /// Roots that could not be looked at, with the reason.
    pub fn failures(&self) -> &[(String, String)] {
        &self.plan.failures
    }
}

/// Where the last look that found nothing is written down.
fn place(config: &Config) -> PathBuf {
    config.journal_dir.join("seen")
}

/// The last look that found nothing, being compared with what is there now. That takes longest of
/// all there is to do when nothing is new, so that others may take part.
pub struct Look {
    path: PathBuf,
    begun: OnceLock<Begun>,
}

#[derive(Default)]
struct Begun {
    /// What it was about; `None` when no look is remembered.
    question: Option<u64>,
    comparison: Comparison,
}

impl Look {
    /// A look that begins with the first who takes part.
    pub fn new(config: &Config) -> Self {
        Self { path: place(config), begun: OnceLock::new() }
    }

    /// Those who take part, and have time for other things, too.
    pub fn helper(self: &Arc<Self>) -> Arc<Helper> {
        Arc::new(Helper::with(Arc::clone(self)))
    }

    fn begun(&self) -> &Begun {
        self.begun.get_or_init(|| Begun::read(&self.path).unwrap_or_default())
    }

    /// Whether something is known to be not as it was.
    pub fn differs(&self) -> bool {
        self.begun().question.is_none() || self.begun().comparison.differs()
    }

    /// Whether everything still looks the same.
    pub(crate) fn holds(&self) -> bool {
        self.begun().question.is_some() && self.begun().comparison.holds()
    }
}

impl Joint for Look {
    fn step(&self) -> bool {
        self.begun().comparison.step()
    }

    fn is_done(&self) -> bool {
        self.begun().comparison.is_done()
    }
}

impl Begun {
    fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let (question, rest) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
        let (sum, body) = rest.split_first_chunk()?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (question, start) = (u64::from_le_bytes(*question), bytes.len() - body.len());
        Some(Self { question: Some(question), comparison: Comparison::new(bytes, start)? })
    }
}

/// What was looked for, and where it is remembered.
pub(crate) struct Memory {
    path: PathBuf,
    /// What the look was about: places and the journal they were compared with.
    question: u64,
}

impl Memory {
    /// The memory of looks at a machine's places for one state of a journal.
    pub(crate) fn new(config: &Config, machine: &Machine, journal: (i64, i64)) -> Self {
        let mut hash = Xxh3::new();
        hash.update(env!("CARGO_PKG_VERSION").as_bytes());
        hash.update(&READER_VERSION.to_le_bytes());
        hash.update(&journal.0.to_le_bytes());
        hash.update(&journal.1.to_le_bytes());
        for connector in ALL {
            hash.update(connector.agent().id.as_bytes());
            for root in roots(*connector, config, machine) {
                hash.update(root.path.as_os_str().as_encoded_bytes());
                hash.update(&[0, u8::from(root.configured)]);
            }
        }
        Self { path: place(config), question: hash.digest() }
    }

    /// Whether a look is about these places and this state.
    pub(crate) fn is_of(&self, look: &Look) -> bool {
        look.begun().question == Some(self.question)
    }

    /// Remembers a look. It only saves time, so that a full disk is no reason to fail.
    pub(crate) fn keep(&self, sight: &Sight) {
        let body = sight.to_bytes();
        let write = || {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(MARK)?;
            file.write_all(&self.question.to_le_bytes())?;
            file.write_all(&xxh3_64(&body).to_le_bytes())?;
            file.write_all(&body)?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        drop(write());
    }
}

/// The journal's identity and generation, which tell one state of it from every other.
pub(crate) fn state(store: &Store) -> crate::error::Result<(i64, i64)> {
    Ok((store.identity()?, store.generation()?))
}
