//! Finds and reads the sessions of all agents.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::connectors::formats::{files, glob};
use crate::connectors::{
    Agent, Checkpoint, Connector, Machine, Record, Sink, Skipped, Source, all_connectors,
};
use crate::error::{Error, Result};
use crate::model::{Block, Message, Session, SessionId, TitleRank};

/// Reads every session that the agents left on a machine, one source after the other.
///
/// A source that cannot be read is one `Err`, after the sessions that could be read from it; the
/// other sources follow. Memory holds the sessions of one source at a time.
/// [`AgentSource::read`] reads without that limit.
///
/// ```
/// # use agent_sessions::{Machine, read_sessions};
/// # let machine = Machine::of_home("tests/fixtures/claude-code/whole-session/home");
/// let recordings: Vec<_> = read_sessions(&machine).filter_map(Result::ok).collect();
/// # assert!(!recordings.is_empty());
/// ```
pub fn read_sessions(machine: &Machine) -> Recordings {
    Recordings { sources: find_sources(machine).into(), read: VecDeque::new() }
}

/// Lists the sources of all agents on a machine. An `Err` concerns one directory; the other
/// directories are listed.
pub fn find_sources(machine: &Machine) -> Vec<Result<AgentSource>> {
    all_connectors().flat_map(|connector| find_agent_sources(connector, machine)).collect()
}

fn find_agent_sources(
    connector: &'static dyn Connector,
    machine: &Machine,
) -> Vec<Result<AgentSource>> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for root in connector.roots(machine) {
        if !files::path_exists(&glob::pattern_base(&root)) {
            continue;
        }
        match connector.discover_sources(&root) {
            Ok(sources) => found.extend(sources),
            Err(error) => errors.push(Err(error)),
        }
    }
    // Two roots may lead to the same file.
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    let found = found.into_iter().map(|source| Ok(AgentSource { connector, source }));
    found.chain(errors).collect()
}

/// One source, such as a log or a database, with the connector that reads it.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentSource {
    /// The reader of the agent's files.
    pub connector: &'static dyn Connector,
    /// The file, and the state by which a change of it is detected.
    pub source: Source,
}

impl AgentSource {
    /// Returns the agent that wrote the source.
    pub fn agent(&self) -> &'static Agent {
        self.connector.agent()
    }

    /// Returns the path of the source.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Reads the source from its beginning and passes each record to `sink` as soon as it is read.
    /// [`Connector::read_source`] continues from a checkpoint.
    pub fn read(&self, sink: &mut dyn Sink) -> Result<()> {
        self.connector.read_source(&self.source, Checkpoint::default(), sink).map(drop)
    }

    /// Reads the source into memory.
    pub fn read_sessions(&self) -> SourceContent {
        let mut collector = RecordingCollector {
            agent: self.agent(),
            path: self.path(),
            content: SourceContent::default(),
            index: HashMap::new(),
            current: 0,
        };
        let error = self.read(&mut collector).err();
        SourceContent { error, ..collector.content }
    }
}

impl fmt::Debug for AgentSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("AgentSource");
        fields.field("agent", &self.agent().id).field("source", &self.source);
        fields.finish_non_exhaustive()
    }
}

/// Everything that was read from one source.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SourceContent {
    /// The sessions, in the order in which they begin.
    pub recordings: Vec<Recording>,
    /// The records that became neither session nor message, with the reasons.
    pub skipped: Vec<Skipped>,
    /// The error that ended the read, if the source was not read to its end.
    pub error: Option<Error>,
}

/// One source's copy of a session.
///
/// A session may have several recordings: a log and a database, or the same file in two
/// directories. They have the same [`Session::id`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recording {
    /// The agent that wrote the recording.
    pub agent: &'static Agent,
    /// Path of the source.
    pub path: PathBuf,
    /// The metadata of the session.
    pub session: Session,
    /// The messages, in recorded order.
    pub messages: Vec<Message>,
}

impl Recording {
    /// Returns the best title on one line: a recorded title, else the first line of the first
    /// prompt, else the session's id.
    pub fn title(&self) -> &str {
        let recorded = self.session.titles.iter().find(|title| title.rank < TitleRank::Prompt);
        let recorded = recorded.and_then(|title| first_line(&title.text));
        let prompt = || self.messages.iter().find_map(first_prompt_line);
        recorded.or_else(prompt).unwrap_or(&self.session.id.native)
    }
}

/// Returns the first line of a message, if a person typed it.
fn first_prompt_line(message: &Message) -> Option<&str> {
    let blocks = message.origin.is_human_prompt().then_some(&message.blocks)?;
    blocks.iter().find_map(|block| match block {
        Block::Text(text) => first_line(text),
        _ => None,
    })
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

/// An iterator over the sessions of a machine. [`read_sessions`] returns it.
#[derive(Debug)]
pub struct Recordings {
    sources: VecDeque<Result<AgentSource>>,
    /// The results of the source that was read last.
    read: VecDeque<Result<Recording>>,
}

impl Iterator for Recordings {
    type Item = Result<Recording>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() {
            match self.sources.pop_front()? {
                Ok(source) => {
                    let content = source.read_sessions();
                    self.read.extend(content.recordings.into_iter().map(Ok));
                    self.read.extend(content.error.map(Err));
                }
                Err(error) => self.read.push_back(Err(error)),
            }
        }
        self.read.pop_front()
    }
}

/// Collects the records of one source by session.
struct RecordingCollector<'s> {
    agent: &'static Agent,
    path: &'s Path,
    content: SourceContent,
    /// Positions of the recordings by session.
    index: HashMap<SessionId, usize>,
    /// Position of the recording that messages belong to.
    current: usize,
}

impl Sink for RecordingCollector<'_> {
    fn accept_record(&mut self, record: Record) -> Result<()> {
        let recordings = &mut self.content.recordings;
        match record {
            Record::Session(session) => {
                let next = recordings.len();
                self.current = *self.index.entry(session.id.clone()).or_insert(next);
                match recordings.get_mut(self.current) {
                    Some(known) => known.session.merge_later(*session),
                    None => recordings.push(Recording {
                        agent: self.agent,
                        path: self.path.to_owned(),
                        session: *session,
                        messages: Vec::new(),
                    }),
                }
            }
            Record::Message(message) => {
                // Connectors emit a session before its messages.
                if let Some(recording) = recordings.get_mut(self.current) {
                    recording.messages.push(*message);
                }
            }
            Record::Skipped(skipped) => self.content.skipped.push(skipped),
        }
        Ok(())
    }
}
