//! Export of sessions from the journal, in any format, with redaction and a search for secrets.

mod count;
mod inside;
mod redacted;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io;

use serde::Serialize;

use self::count::SecretCounter;
use self::inside::Inside;
use crate::analyze::Figures;
#[cfg(feature = "parquet")]
use crate::analyze::Prices;
use crate::connectors;
use crate::error::{Error, Result};
use crate::export::schema::{
    self, DocumentSession, DocumentSource, Head, SessionNotes, SourceKind, TaskNotes,
};
use crate::export::{
    AgentLook, ExportOptions, ExportOutput, Format, Outline, Pick, Pipe, Redactor, SessionFrame,
    SessionWriter, Sketch, Theme, Together, redact, to_document_session,
};
#[cfg(feature = "parquet")]
use crate::export::{OpenTableFile, Tables, UsageRowCells};
use crate::journal::Journal;
use crate::model::{self, Block, Json, Message, Timestamp, Tokens};
use crate::search::{Filter, Scope};
use crate::store::{Entry, NO_RECORDING};

/// An export in one format, for any number of sessions.
pub struct Export<'j> {
    journal: &'j Journal,
    format: &'static dyn Format,
    options: ExportOptions,
    /// The ids of the session being written and of the sessions that started it, outermost first.
    around: RefCell<Vec<String>>,
    /// The counter for secrets in text that is exported without redaction, if counting was started.
    counter: RefCell<Option<SecretCounter>>,
}

/// The number of first messages that are searched for the prompt of a sub-agent.
const FIRST: u64 = 8;

/// A secret in the journal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Secret {
    /// The kind of the secret.
    pub rule: &'static str,
    /// The text that replaces the secret in exports.
    pub placeholder: String,
    /// The length of the secret and, if it is long, its first characters, by which its owner can
    /// recognize it.
    pub hint: String,
    /// The number of occurrences in the journal.
    pub places: u64,
    /// The number of sessions that contain the secret.
    pub sessions: u64,
    /// The time of the first recorded occurrence.
    pub since: Option<Timestamp>,
    /// The session of the first occurrence.
    pub session: String,
    /// The number of the message of the first occurrence.
    pub message: u64,
}

impl Journal {
    /// Starts an export.
    pub fn start_export(
        &self,
        format: &'static dyn Format,
        mut options: ExportOptions,
    ) -> Export<'_> {
        options.redactor = options.redactor.or_else(|| self.view_redactor());
        let (around, counter) = (RefCell::default(), RefCell::default());
        Export { journal: self, format, options, around, counter }
    }

    /// Lists the hidden sessions that must be exported along with all sessions of a filter, so that
    /// sums stay correct: they are never shown, belong to no shown session, and only have model
    /// calls.
    pub fn sessions_with_detached_usage(&self, filter: &Filter) -> Result<Vec<Entry>> {
        self.check_agents(filter)?;
        if filter.scope != Scope::All {
            return Ok(Vec::new());
        }
        self.store
            .as_ref()
            .map_or(Ok(Vec::new()), |store| store.sessions_with_detached_usage(filter, self.now))
    }

    /// Returns a redactor for secrets and for the owner of this journal.
    pub fn owner_redactor(&self) -> Redactor {
        Redactor::new(&self.machine.home)
    }

    /// Finds the secrets in the sessions that match a filter, the oldest first. Calls the callback
    /// with each session before it is searched.
    pub fn find_secrets_in_sessions(
        &self,
        filter: &Filter,
        look: &mut dyn FnMut(&Entry),
    ) -> Result<Vec<Secret>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut found: BTreeMap<(&'static str, u64), Secret> = BTreeMap::new();
        for entry in self.list_entries(filter, None)? {
            look(&entry);
            let mut here = HashSet::new();
            store.each_message(entry.recording, |position, message: Message| {
                each_secret(&message, &mut |finding, hash| {
                    let key = (finding.rule, hash);
                    let secret = found.entry(key).or_insert_with(|| Secret::new(finding));
                    secret.sessions += u64::from(here.insert(key));
                    secret.add_occurrence(&entry, position, message.at);
                });
                Ok(())
            })?;
        }
        let mut secrets: Vec<Secret> = found.into_values().collect();
        secrets.sort_by(|one, other| (one.since, &one.session).cmp(&(other.since, &other.session)));
        Ok(secrets)
    }
}

impl Secret {
    fn new(finding: redact::Finding) -> Self {
        Self {
            rule: finding.rule,
            placeholder: finding.placeholder,
            hint: finding.hint,
            places: 0,
            sessions: 0,
            since: None,
            session: String::new(),
            message: 0,
        }
    }

    fn add_occurrence(&mut self, entry: &Entry, position: u64, at: Option<Timestamp>) {
        self.places += 1;
        let is_earlier = match (at, self.since) {
            (Some(at), Some(since)) => at < since,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_earlier || self.session.is_empty() {
            self.since = at.or(self.since);
            self.session.clone_from(&entry.id);
            self.message = position + 1;
        }
    }
}

/// Calls the callback with every secret of a message, and a hash that is equal for equal secrets.
fn each_secret(message: &Message, report: &mut dyn FnMut(redact::Finding, u64)) {
    let mut search = |name: &str, text: &str| {
        for finding in redact::find_value(name, text) {
            let hash = xxhash_rust::xxh3::xxh3_64(&text.as_bytes()[finding.range.clone()]);
            report(finding, hash);
        }
    };
    for block in &message.blocks {
        match block {
            Block::Text(text) | Block::Thinking(text) => search("", text),
            Block::ToolResult { output, .. } => search("", output),
            Block::ToolCall { input, .. } => redact::each_string(input.as_json_str(), &mut search),
            _ => {}
        }
    }
}

impl Export<'_> {
    /// Starts to count the secrets that are exported, unless they are redacted.
    pub fn count_secrets(&mut self) {
        if self.options.redactor.is_none() {
            self.counter.replace(Some(SecretCounter::new()));
        }
    }

    /// Returns the number of different secrets that were exported since counting was started.
    pub fn counted_secrets(&mut self) -> u64 {
        self.counter.take().map_or(0, SecretCounter::distinct_secrets)
    }

    /// Writes one session. Returns its head and its agent, which an index page needs.
    pub fn write_session(
        &mut self,
        entry: &Entry,
        out: &mut dyn ExportOutput,
    ) -> Result<(Head, AgentLook)> {
        let mut redactor = self.options.redactor.take();
        let mut writer = self.format.create_writer(out, &self.options);
        let head = self.write_session_with_subagents(entry, &mut *writer, redactor.as_mut());
        drop(writer);
        self.options.redactor = redactor;
        Ok((head?, agent_look(&entry.agent)))
    }

    /// Writes sessions as tables. `open` opens each file, and `done` is called after each session.
    #[cfg(feature = "parquet")]
    pub fn write_tables(
        &mut self,
        entries: &[Entry],
        open: &mut OpenTableFile<'_>,
        done: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut entries: Vec<&Entry> = entries.iter().collect();
        // Sorted by time, so that only the files of one month are open.
        entries.sort_by_key(|entry| (entry.started_at, &entry.id));
        let mut redactor = self.options.redactor.take();
        let mut tables = Tables::new(open);
        let written = entries.into_iter().try_for_each(|entry| {
            self.write_session_with_subagents(entry, &mut tables, redactor.as_mut())?;
            self.write_usage_rows(entry, &mut tables)?;
            done();
            Ok(())
        });
        self.options.redactor = redactor;
        written.and_then(|()| tables.finish_tables().map_err(export_error))
    }

    #[cfg(feature = "parquet")]
    fn write_usage_rows(&self, entry: &Entry, tables: &mut Tables<'_>) -> Result<()> {
        let store = self.journal.store.as_ref().ok_or(Error::Stopped)?;
        let prices = Prices::new(&self.journal.config.prices);
        store.counted_calls(entry.key, |at, spent| {
            let cost = prices.cost_of_usage(&spent);
            let spending = UsageRowCells {
                at,
                model: spent
                    .model
                    .as_deref()
                    .map(|name| crate::model::split_speed_mark(name).0.to_owned()),
                tokens: spent.tokens,
                cache_creation_1h: spent.cache_creation_1h,
                cost_micros: cost.known_micros(),
                is_recorded: spent.recorded.is_some(),
                is_unrecorded: spent.is_unrecorded,
            };
            tables.add_usage_row(&spending).map_err(export_error)
        })
    }

    /// Returns the title of a session, redacted if the export is.
    pub fn exported_title(&mut self, entry: &Entry) -> Result<String> {
        match &mut self.options.redactor {
            Some(redactor) => self.journal.redacted_title(entry, redactor),
            None => Ok(entry.title.clone()),
        }
    }

    /// Returns the number of replacements by kind.
    pub fn redaction_counts(&self) -> redact::RedactionCounts {
        self.options
            .redactor
            .as_ref()
            .map(|redactor| redactor.replacement_counts().clone())
            .unwrap_or_default()
    }

    /// Returns the colours of pages.
    pub fn page_theme(&self) -> Theme {
        self.options.theme
    }

    fn write_session_with_subagents(
        &self,
        entry: &Entry,
        writer: &mut dyn SessionWriter,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<Head> {
        let store = self.journal.store.as_ref().ok_or(Error::Stopped)?;
        let mut outline = Outline::default();
        store.each_message(entry.recording, |position, sketch: Sketch| {
            outline.add_sketch(position + 1, sketch);
            Ok(())
        })?;
        let account = self.journal.stored_account(entry)?.unwrap_or_default();
        for summary in &account.summaries {
            outline.end_at(&summary.leaf);
        }
        let mut head = self.build_head(entry, account, &outline, redactor.as_deref_mut())?;
        if let Some(redactor) = &mut redactor {
            redactor.redact_session(&mut head.session);
        }
        let fetch = |hash: &str| store.picture(hash).ok().flatten();
        let pictures = (self.options.pictures == Pick::With).then_some(&fetch as &_);
        let placement = self.options.result_placement(self.format);
        let pipe = Pipe::new(&entry.agent, pictures, placement, redactor);
        let pipe = pipe.with_parents_of(&outline);
        let mut pipe = pipe.without_tools(self.options.leaves_out_tools);
        let frame =
            SessionFrame { head: &head, outline: &outline, agent: agent_look(&entry.agent) };
        writer.begin_session(&frame).map_err(export_error)?;
        self.around.borrow_mut().push(entry.id.clone());
        let mut inside = self.nested_subagents(entry);
        store.each_line(entry.recording, |position, stored| {
            if let Some(counter) = &mut *self.counter.borrow_mut() {
                counter.scan_line(stored);
            }
            let Ok(message) = serde_json::from_slice(stored) else { return Ok(()) };
            inside.claim_called_subagents(position + 1, &message);
            let ready = pipe.take_ready_messages(position, message);
            self.write_ready_messages(ready, writer, &mut pipe, &mut inside)
        })?;
        let ready = pipe.take_remaining();
        self.write_ready_messages(ready, writer, &mut pipe, &mut inside)?;
        for child in inside.take_unclaimed() {
            self.write_session_with_subagents(&child, writer, pipe.redactor_for_subagents())?;
        }
        self.around.borrow_mut().pop();
        writer.end_session().map_err(export_error)?;
        Ok(head)
    }

    /// Writes messages, each followed by the sub-agents it started.
    fn write_ready_messages(
        &self,
        ready: Vec<schema::DocumentMessage>,
        writer: &mut dyn SessionWriter,
        pipe: &mut Pipe<'_>,
        inside: &mut Inside,
    ) -> Result<()> {
        for message in ready {
            for child in inside.begun_before(message.timestamp) {
                self.write_session_with_subagents(&child, writer, pipe.redactor_for_subagents())?;
            }
            writer.write_message(&message).map_err(export_error)?;
            for child in inside.called_by(message.index) {
                self.write_session_with_subagents(&child, writer, pipe.redactor_for_subagents())?;
            }
        }
        Ok(())
    }

    /// Returns the sub-agents that are written inside their parent.
    fn nested_subagents(&self, entry: &Entry) -> Inside {
        let mut inside = Inside::default();
        if self.options.sub_agents == Pick::Without
            || self.format.storage_of_several() != Together::Directory
        {
            return inside;
        }
        // Sessions that started each other would never end.
        let around = self.around.borrow();
        let found = entry.children.iter().filter(|id| !around.contains(id));
        for child in found.filter_map(|id| self.journal.stored_session(id).ok()) {
            let first = self.journal.stored_messages(&child, 0..FIRST).unwrap_or_default();
            let asked = first.into_iter().find(|(_, message)| message.origin.is_human_prompt());
            let asked = asked.map(|(_, message)| message.joined_text().trim().to_owned());
            inside.waiting.push((asked.filter(|text| !text.is_empty()), child));
        }
        inside.waiting.sort_by_key(|(_, child)| child.started_at);
        inside
    }

    /// Adds the cost of a session, and the figures together with its sub-agents.
    fn add_figures(&self, entry: &Entry, notes: &mut SessionNotes) -> Result<()> {
        let figures = self.journal.figures_of_entries(std::slice::from_ref(entry))?.remove(0);
        let cost = |figures: &Figures| {
            figures.cost.known_micros().map(|_| Json::from_value(&figures.cost))
        };
        notes.cost = cost(&figures.own);
        notes.not_in_transcript = recorded_tokens(figures.own.not_in_transcript.tokens);
        let whole = &figures.with_subagents;
        notes.with_subagents = (figures.subagents > 0).then(|| TaskNotes {
            subagents: figures.subagents,
            tool_calls: whole.tool_calls,
            tool_errors: whole.tool_errors,
            tokens: recorded_tokens(whole.tokens),
            cost: cost(whole),
        });
        Ok(())
    }

    fn build_head(
        &self,
        entry: &Entry,
        mut account: model::Session,
        outline: &Outline,
        redactor: Option<&mut Redactor>,
    ) -> Result<Head> {
        let mut listed = listed_notes(entry);
        if let Some(redactor) = redactor {
            // Titles are excerpts of longer texts. Some were cut by the agent.
            let texts = self.journal.title_texts(entry, &account)?;
            listed.title = redactor.redact_excerpt(&entry.title, &texts, &mut Vec::new());
            for one in &mut account.titles {
                one.text = redactor.redact_excerpt(&one.text, &texts, &mut Vec::new());
            }
        }
        let mut children = entry.children.clone();
        let source = match &account.provenance {
            Some(provenance) => {
                let missing = provenance.children.iter().filter(|id| !entry.children.contains(id));
                children.extend(missing.cloned());
                DocumentSource {
                    kind: parse_source_kind(&provenance.kind),
                    host: provenance.host.clone(),
                    path: provenance.path.clone(),
                }
            }
            None => DocumentSource {
                kind: parse_source_kind(&entry.source.kind),
                host: entry.source.host.clone(),
                path: entry.source.path.clone(),
            },
        };
        let plain = DocumentSession {
            id: entry.native_id.clone(),
            workspace: entry.cwd.clone().unwrap_or_default(),
            workspace_encoded: String::new(),
            started_at: entry.started_at,
            ended_at: entry.ended_at,
            source,
            is_agent_session: entry.is_agent_session,
            parent_session_id: account.parent.clone(),
            agent_id: None,
            extensions: BTreeMap::new(),
        };
        let store = self.journal.store.as_ref().ok_or(Error::Stopped)?;
        let calls = store.detached_calls(entry.key, entry.recording)?;
        let other_summaries = self.journal.other_summaries(entry)?;
        let mut notes = SessionNotes { calls, children, other_summaries, ..listed };
        if entry.recording != NO_RECORDING {
            self.add_figures(entry, &mut notes)?;
        }
        Ok(Head {
            schema_version: outline.schema_version().to_owned(),
            export_timestamp: self.journal.now,
            agent: entry.agent.clone(),
            session: to_document_session(notes, plain, account, &entry.agent),
        })
    }
}

/// Returns the tokens, or `None` if none are recorded.
fn recorded_tokens(tokens: Tokens) -> Option<Tokens> {
    Some(tokens).filter(Tokens::is_known)
}

/// Returns the data about a session that the journal lists.
fn listed_notes(entry: &Entry) -> SessionNotes {
    SessionNotes {
        title: entry.title.clone(),
        title_source: entry.title_source.clone(),
        project: entry.project.clone(),
        project_path: entry.project_path.clone(),
        branch: entry.branch.clone(),
        agent_version: entry.agent_version.clone(),
        models: entry.models.clone(),
        active_s: entry.active_s,
        counts: entry.counts,
        tokens: recorded_tokens(entry.tokens),
        refs: entry.refs.clone(),
        ..SessionNotes::default()
    }
}

/// Returns the display name and colour of an agent.
pub(crate) fn agent_look(agent: &str) -> AgentLook {
    match connectors::find_connector(agent) {
        Some(connector) => {
            AgentLook { name: connector.agent().name.to_owned(), color: connector.agent().color }
        }
        None => AgentLook { name: agent.to_owned(), color: (128, 128, 128) },
    }
}

fn parse_source_kind(name: &str) -> SourceKind {
    match name {
        "wsl" => SourceKind::Wsl,
        "windows" => SourceKind::Windows,
        "remote" => SourceKind::Remote,
        _ => SourceKind::Local,
    }
}

fn export_error(source: io::Error) -> Error {
    Error::Export { source }
}
