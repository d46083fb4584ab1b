//! Reads the database of one conversation.

use std::path::Path;

use rusqlite::Row;

use super::AGENT;
use super::generation::GenerationTable;
use super::place::ConversationFiles;
use super::step::{StepColumns, TrajectoryStep};
use crate::connectors::formats::protobuf::ProtobufMessage;
use crate::connectors::formats::rows::{bounded_select_list, number_column, text_column};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::vscode;
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Continuation, Message, Session, SessionKind, TitleRank};

/// Kinds of references that make a conversation a fork: of another one, and by a sub-agent.
const FORKS: [u64; 2] = [2, 6];

/// Reads a conversation and emits its session and messages.
pub(super) fn read_conversation(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    if database.table_columns("steps")?.is_empty() {
        return sink.accept_record(Record::passed_over_record(0, "conversation without steps"));
    }
    let files = ConversationFiles::of_source(path);
    let mut session = Session::new(AGENT.id, files.native.clone());
    add_recorded_metadata(&database, &mut session)?;
    files.add_facts(&mut session);
    let mut reader = ConversationReader {
        trajectory: current_trajectory(&database)?.unwrap_or_else(|| files.native.clone()),
        calls: GenerationTable::read_table(&database)?,
        fork: find_fork(&database, &files.native)?,
        session,
        shared: 0,
        emitted: 0,
        sink,
    };
    reader.read_steps(&database)
}

/// Calls `visit` with the bytes of a column, row by row.
fn for_each_blob(
    database: &Database,
    table: &str,
    mut visit: impl FnMut(ProtobufMessage<'_>),
) -> Result<()> {
    let columns = database.table_columns(table)?;
    if !columns.iter().any(|column| column == "data") {
        return Ok(());
    }
    let data = sqlite::size_bounded_column("data");
    database.for_each_row(&format!("SELECT {data} FROM {table} ORDER BY 1"), [], |row| {
        let data = row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default();
        visit(ProtobufMessage::new(data));
        Ok(())
    })
}

/// Adds what the conversation records about itself: a `CortexTrajectoryMetadata`.
fn add_recorded_metadata(database: &Database, session: &mut Session) -> Result<()> {
    for_each_blob(database, "trajectory_metadata_blob", |metadata| {
        session.extend_time_span(metadata.time(2));
        let folder = metadata.text_at(&[1, 1]).or_else(|| metadata.text(7));
        let folder = folder.map(|uri| vscode::path_from_uri(&uri)).filter(|path| !path.is_empty());
        session.cwd = session.cwd.take().or(folder);
        session.branch = session.branch.take().or_else(|| metadata.text_at(&[1, 4]));
        if let Some(parent) = metadata.text(5).filter(|parent| *parent != session.id.native) {
            session.parent = Some(parent);
            session.kind = SessionKind::Agent;
        }
    })
}

fn current_trajectory(database: &Database) -> Result<Option<String>> {
    let columns = database.table_columns("trajectory_meta")?;
    if !columns.iter().any(|column| column == "trajectory_id") {
        return Ok(None);
    }
    let mut found = None;
    let id = sqlite::size_bounded_column("trajectory_id");
    let sql = format!("SELECT {id} AS trajectory_id FROM trajectory_meta");
    database.for_each_row(&sql, [], |row| {
        found = found.take().or_else(|| text_column(row, "trajectory_id"));
        Ok(())
    })?;
    Ok(found)
}

/// The conversation that a fork begins with.
struct ForkOrigin {
    conversation: String,
    /// Index of the last step that was copied.
    last_step: u64,
}

/// Finds the newest reference to another conversation that this one was forked from. Older ones
/// were copied from that conversation.
fn find_fork(database: &Database, native: &str) -> Result<Option<ForkOrigin>> {
    let columns = database.table_columns("parent_references")?;
    if !["idx", "data"].iter().all(|name| columns.iter().any(|column| column == name)) {
        return Ok(None);
    }
    let mut found = None;
    let data = sqlite::size_bounded_column("data");
    let sql = format!("SELECT {data} FROM parent_references ORDER BY idx");
    database.for_each_row(&sql, [], |row| {
        let data = row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default();
        let reference = ProtobufMessage::new(data);
        let is_fork = reference.number(5).is_some_and(|kind| FORKS.contains(&kind));
        if let Some(conversation) = reference.text(6).filter(|id| is_fork && id != native) {
            let last_step = reference.number(2).unwrap_or(0);
            found = Some(ForkOrigin { conversation, last_step });
        }
        Ok(())
    })?;
    Ok(found)
}

struct ConversationReader<'s> {
    session: Session,
    /// Id of the trajectory that new steps belong to.
    trajectory: String,
    calls: GenerationTable,
    fork: Option<ForkOrigin>,
    /// Number of messages at the beginning that were copied.
    shared: u64,
    /// Number of messages emitted so far.
    emitted: u64,
    sink: &'s mut dyn Sink,
}

impl ConversationReader<'_> {
    fn read_steps(&mut self, database: &Database) -> Result<()> {
        self.emit_session()?;
        let columns = database.table_columns("steps")?;
        let sql = format!("SELECT {} FROM steps ORDER BY idx", bounded_select_list(&columns));
        database.for_each_row(&sql, [], |row| self.read_step(row))?;
        let calls = std::mem::take(&mut self.calls).into_unclaimed_calls(&self.trajectory);
        calls.into_iter().try_for_each(|call| self.emit(call))?;
        if let Some(fork) = self.fork.take().filter(|_| self.shared > 0) {
            self.session.continues =
                Some(Continuation { session: fork.conversation, messages: self.shared });
        }
        self.emit_session()
    }

    fn read_step(&mut self, row: &Row<'_>) -> Result<()> {
        let count =
            |column: &str| number_column(row, column).and_then(|number| u64::try_from(number).ok());
        let bytes = |column: &str| {
            let bytes = row.get_ref(column).ok().and_then(sqlite::format_bytes);
            bytes.filter(|bytes| !bytes.is_empty())
        };
        let index = count("idx").unwrap_or(0);
        let Some(payload) = bytes("step_payload") else {
            let reason = "a step without readable content";
            return self.sink.accept_record(Record::unreadable_record(index, reason));
        };
        let step = TrajectoryStep::from_columns(&StepColumns {
            index,
            kind: count("step_type"),
            status: count("status"),
            payload,
            metadata: bytes("metadata"),
            error: bytes("error_details"),
        });
        let is_copied = self.is_copied(&step);
        if !is_copied {
            self.session.extend_time_span(step.created_at());
        }
        self.session.add_title(TitleRank::Generated, step.checkpoint_title().unwrap_or_default());
        let is_complete = step.is_complete();
        let Some(message) = step.into_message(&self.trajectory, &mut self.calls) else {
            return self.sink.accept_record(if is_complete {
                Record::passed_over_record(index, "a step without content")
            } else {
                Record::unreadable_record(index, "a step with damaged content")
            });
        };
        if is_copied {
            self.shared = self.emitted + 1;
        }
        self.emit(message)
    }

    /// Returns whether a step was copied from the conversation that this one was forked from.
    fn is_copied(&self, step: &TrajectoryStep<'_>) -> bool {
        let is_before = self.fork.as_ref().is_some_and(|fork| step.index <= fork.last_step);
        is_before && step.trajectory().is_some_and(|trajectory| trajectory != self.trajectory)
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    fn emit_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }
}
