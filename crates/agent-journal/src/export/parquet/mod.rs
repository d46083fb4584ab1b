//! Sessions as tables, for queries in SQL: `sessions`, `messages`, `tool_calls` and `usage`. Each
//! table is a directory with one part for every month in which sessions began. `DuckDB`, pandas and
//! Spark read such a directory as one table.

mod table;

use std::collections::HashSet;
use std::io;

use self::table::{CellValue, ColumnKind, ColumnSpec, TableFile, TableWriter};
use super::schema::{DocumentBlock, DocumentMessage};
use super::{ExportOptions, ExportOutput, Format, Pick, SessionFrame, SessionWriter, Together};
use crate::model::{Json, Timestamp, Tokens, tool_name};

use ColumnKind::{Flag, Number, Text, Time};

/// Sessions as Parquet tables.
pub(super) struct Parquet;

/// Opens a file of the tables by its path below their directory.
pub type OpenTableFile<'o> = dyn FnMut(&str) -> io::Result<TableFile> + 'o;

const SESSIONS: &[ColumnSpec] = &[
    ("session_id", Text),
    ("agent", Text),
    ("title", Text),
    ("project", Text),
    ("project_path", Text),
    ("workspace", Text),
    ("branch", Text),
    ("agent_version", Text),
    ("models", Text),
    ("started_at", Time),
    ("ended_at", Time),
    ("active_s", Number),
    ("is_agent_session", Flag),
    ("parent_session_id", Text),
    ("source_type", Text),
    ("source_host", Text),
    ("source_path", Text),
    ("prompts", Number),
    ("answers", Number),
    ("tool_calls", Number),
    ("tool_errors", Number),
    ("messages", Number),
];

const MESSAGES: &[ColumnSpec] = &[
    ("session_id", Text),
    ("agent", Text),
    ("message", Number),
    ("uuid", Text),
    ("parent_uuid", Text),
    ("role", Text),
    ("origin", Text),
    ("sent_at", Time),
    ("model", Text),
    ("is_sidechain", Flag),
    ("failed", Flag),
    ("text", Text),
    ("thinking", Text),
];

const TOOL_CALLS: &[ColumnSpec] = &[
    ("session_id", Text),
    ("agent", Text),
    ("message", Number),
    ("called_at", Time),
    ("tool_id", Text),
    ("tool_name", Text),
    ("tool", Text),
    ("input", Text),
    ("output", Text),
    ("is_error", Flag),
];

const USAGE: &[ColumnSpec] = &[
    ("session_id", Text),
    ("agent", Text),
    ("called_at", Time),
    ("model", Text),
    ("input_tokens", Number),
    ("output_tokens", Number),
    ("cache_read_tokens", Number),
    ("cache_creation_tokens", Number),
    ("cache_creation_1h_tokens", Number),
    ("reasoning_tokens", Number),
    ("cost_micros", Number),
    ("cost_is_recorded", Flag),
    ("kind", Text),
];

/// A model call that counts, as a row of the `usage` table.
pub(crate) struct UsageRowCells {
    pub(crate) at: Option<Timestamp>,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Tokens,
    pub(crate) cache_creation_1h: u64,
    pub(crate) cost_micros: Option<u64>,
    pub(crate) is_recorded: bool,
    /// Whether no message records the call, and only the agent's own bill lists it.
    pub(crate) is_unrecorded: bool,
}

impl Format for Parquet {
    fn format_name(&self) -> &'static str {
        "parquet"
    }

    fn file_suffix(&self) -> &'static str {
        "parquet"
    }

    fn description(&self) -> &'static str {
        "tables for DuckDB, pandas and Spark"
    }

    fn storage_of_several(&self) -> Together {
        Together::Tables
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn always_groups_results(&self) -> bool {
        true
    }

    fn default_sub_agents(&self) -> Pick {
        Pick::With
    }

    fn create_writer<'o>(
        &self,
        _: &'o mut dyn ExportOutput,
        _: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o> {
        Box::new(Nowhere)
    }
}

/// Refuses to write: tables are several files, which one output cannot hold.
struct Nowhere;

impl SessionWriter for Nowhere {
    fn begin_session(&mut self, _: &SessionFrame<'_>) -> io::Result<()> {
        Err(io::Error::other("Parquet tables need a directory"))
    }

    fn write_message(&mut self, _: &DocumentMessage) -> io::Result<()> {
        Ok(())
    }

    fn end_session(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the tables, one month at a time.
pub(crate) struct Tables<'o> {
    open: &'o mut OpenTableFile<'o>,
    month: String,
    all: [TableWriter; 4],
    session_id: String,
    agent: String,
    /// Hashes of the tool calls already written. Some agents repeat them.
    called: HashSet<u64>,
}

/// The indexes of the tables in `tables`.
const SESSION: usize = 0;
const MESSAGE: usize = 1;
const CALL: usize = 2;
const SPENDING: usize = 3;

impl<'o> Tables<'o> {
    pub(crate) fn new(open: &'o mut OpenTableFile<'o>) -> Self {
        Self {
            open,
            month: String::new(),
            all: [
                TableWriter::new("sessions", SESSIONS),
                TableWriter::new("messages", MESSAGES),
                TableWriter::new("tool_calls", TOOL_CALLS),
                TableWriter::new("usage", USAGE),
            ],
            session_id: String::new(),
            agent: String::new(),
            called: HashSet::new(),
        }
    }

    /// Adds a model call of the session that was written last.
    pub(crate) fn add_usage_row(&mut self, spending: &UsageRowCells) -> io::Result<()> {
        let UsageRowCells { at, model, tokens, cache_creation_1h, cost_micros, .. } = spending;
        let kind = if spending.is_unrecorded { "not_in_transcript" } else { "call" };
        let (session, agent) = (self.session_id.clone(), self.agent.clone());
        self.add_row(
            SPENDING,
            &[
                (&session).into(),
                (&agent).into(),
                (*at).into(),
                model.as_ref().into(),
                tokens.input.into(),
                tokens.output.into(),
                tokens.cache_read.into(),
                tokens.cache_creation.into(),
                (*cache_creation_1h).into(),
                tokens.reasoning.into(),
                (*cost_micros).into(),
                cost_micros.map(|_| spending.is_recorded).into(),
                kind.into(),
            ],
        )
    }

    /// Finishes all files.
    pub(crate) fn finish_tables(&mut self) -> io::Result<()> {
        for at in 0..self.all.len() {
            self.flush_table(at)?;
            self.all[at].finish_file()?;
        }
        Ok(())
    }

    fn add_row(&mut self, at: usize, row: &[CellValue<'_>]) -> io::Result<()> {
        if self.all[at].buffer_row(row) { self.flush_table(at) } else { Ok(()) }
    }

    fn flush_table(&mut self, at: usize) -> io::Result<()> {
        let table = &mut self.all[at];
        if table.is_waiting() && !table.has_file() {
            let path = format!("{}/month={}/part-0.parquet", table.name, self.month);
            table.begin_file((self.open)(&path)?)?;
        }
        table.write_row_group()
    }

    fn add_call_rows(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let (session, agent) = (self.session_id.clone(), self.agent.clone());
        for block in &message.content {
            let DocumentBlock::ToolUse { tool_id, tool_name: name, input } = block else {
                continue;
            };
            let is_new = self.called.insert(xxhash_rust::xxh3::xxh3_64(tool_id.as_bytes()));
            if !is_new {
                continue;
            }
            let answer = message.content.iter().find_map(|one| match one {
                DocumentBlock::ToolResult { tool_id: id, output, is_error, .. }
                    if id == tool_id =>
                {
                    Some((output, *is_error))
                }
                _ => None,
            });
            self.add_row(
                CALL,
                &[
                    (&session).into(),
                    (&agent).into(),
                    message.index.into(),
                    message.timestamp.into(),
                    tool_id.into(),
                    name.into(),
                    (&*tool_name(name)).into(),
                    input.as_json_str().into(),
                    answer.map(|(output, _)| output).into(),
                    answer.map(|(_, is_error)| is_error).into(),
                ],
            )?;
        }
        Ok(())
    }
}

impl SessionWriter for Tables<'_> {
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()> {
        let (head, session) = (frame.head, &frame.head.session);
        let month = session.started_at.map_or("unknown".to_owned(), year_and_month);
        if month != self.month {
            self.finish_tables()?;
            self.month = month;
        }
        self.agent.clone_from(&head.agent);
        self.session_id = format!("{}:{}", head.agent, session.id);
        self.called.clear();
        let notes = session.parse_notes();
        let parent = session.parent_session_id.as_ref().map(|id| format!("{}:{id}", head.agent));
        let models = notes.models.join(", ");
        let kind = Json::from_value(&session.source.kind);
        let id = self.session_id.clone();
        let counts = &notes.counts;
        self.add_row(
            SESSION,
            &[
                (&id).into(),
                (&head.agent).into(),
                (&notes.title).into(),
                notes.project.as_ref().into(),
                notes.project_path.as_ref().into(),
                Some(&session.workspace).filter(|path| !path.is_empty()).into(),
                notes.branch.as_ref().into(),
                notes.agent_version.as_ref().into(),
                (&models).into(),
                session.started_at.into(),
                session.ended_at.into(),
                Some(notes.active_s).filter(|seconds| *seconds > 0).into(),
                session.is_agent_session.into(),
                parent.as_ref().into(),
                kind.as_json_str().trim_matches('"').into(),
                session.source.host.as_ref().into(),
                (&session.source.path).into(),
                counts.user_prompts.into(),
                counts.assistant_messages.into(),
                counts.tool_calls.into(),
                counts.tool_errors.into(),
                counts.messages.into(),
            ],
        )
    }

    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let notes = message.parse_message_notes();
        let (role, origin) =
            (Json::from_value(&message.role), Json::from_value(&message.recorded_origin()));
        let model = message.metadata.as_ref().and_then(|one| one.model.as_ref()?.name.as_ref());
        let (session, agent) = (self.session_id.clone(), self.agent.clone());
        let text = joined_block_texts(message, |block| match block {
            DocumentBlock::Text { text } => Some(text),
            _ => None,
        });
        let thinking = joined_block_texts(message, |block| match block {
            DocumentBlock::Thinking { thinking } => Some(thinking),
            _ => None,
        });
        self.add_row(
            MESSAGE,
            &[
                (&session).into(),
                (&agent).into(),
                message.index.into(),
                message.uuid.as_ref().into(),
                message.parent_uuid.as_ref().into(),
                role.as_json_str().trim_matches('"').into(),
                origin.as_json_str().trim_matches('"').into(),
                message.timestamp.into(),
                model.or(notes.model.as_ref()).into(),
                notes.sidechain.into(),
                notes.failed.into(),
                text.as_ref().into(),
                thinking.as_ref().into(),
            ],
        )?;
        self.add_call_rows(message)
    }

    fn end_session(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Joins the texts of the blocks that `pick` selects.
fn joined_block_texts(
    message: &DocumentMessage,
    pick: impl Fn(&DocumentBlock) -> Option<&String>,
) -> Option<String> {
    let texts: Vec<&str> = message.content.iter().filter_map(pick).map(String::as_str).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns the year and month of an instant, as `2026-01`.
fn year_and_month(at: Timestamp) -> String {
    at.to_string()[..7].to_owned()
}

#[cfg(test)]
mod tests {
    use super::{MESSAGES, SESSIONS, TOOL_CALLS, USAGE};

    /// Words that `DuckDB` or `PostgreSQL` refuse as an unquoted column name.
    const RESERVED: &str = "all analyse analyze and any array as asc asymmetric at authorization
        binary both case cast check collate collation column concurrently constraint create cross
        current_catalog current_date current_role current_schema current_time current_timestamp
        current_user default deferrable desc describe distinct do else end except false fetch for
        foreign freeze from full generated glob grant group having ilike in initially inner
        intersect into is isnull join lambda lateral leading left like limit localtime
        localtimestamp map natural not notnull null offset on only or order outer overlaps pivot
        pivot_longer pivot_wider placing positional primary qualify references returning right
        select semi session_user show similar some summarize symmetric table tablesample then to
        trailing true try_cast union unique unpivot user using variadic verbose when where window
        with";

    #[test]
    fn no_column_has_a_name_that_needs_quotes() {
        let reserved: Vec<&str> = RESERVED.split_whitespace().collect();
        for (name, _) in [SESSIONS, MESSAGES, TOOL_CALLS, USAGE].into_iter().flatten() {
            assert!(!reserved.contains(name), "{name}");
            assert!(
                name.bytes().all(|one| one.is_ascii_lowercase() || b"_0123456789".contains(&one))
            );
        }
    }
}
