//! The journal's door outwards: sessions leave in a format, and secrets are found before they do.

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
use crate::export::schema::{self, Head, Session, SessionNotes, Source, SourceKind, TaskNotes};
use crate::export::{
    AgentLook, Format, Frame, Options, Outline, Output, Pick, Pipe, Redactor, Sketch, Theme,
    Together, Writer, redact, session,
};
#[cfg(feature = "parquet")]
use crate::export::{Open, Spending, Tables};
use crate::journal::Journal;
use crate::model::{self, Block, Json, Message, Timestamp, Tokens};
use crate::search::{Filter, Scope};
use crate::store::{Entry, NONE};

/// One way out, used for any number of sessions.
pub struct Export<'j> {
    journal: &'j Journal,
    format: &'static dyn Format,
    options: Options,
    /// The session being told, inside those that started it.
    around: RefCell<Vec<String>>,
    /// Counts secrets in what leaves as it was recorded, if somebody wants to know.
    counter: RefCell<Option<SecretCounter>>,
}

/// Among so many messages is the task that a sub-agent was given.
const FIRST: u64 = 8;

/// A secret that stands in the journal.
#[derive(Clone, Debug, Serialize)]
pub struct Secret {
    /// What kind of secret.
    pub rule: &'static str,
    /// What stands for it in exports.
    pub placeholder: String,
    /// As much of it as helps its owner to know it again.
    pub hint: String,
    /// How often it stands in the journal.
    pub places: u64,
    /// In how many sessions.
    pub sessions: u64,
    /// When it was recorded first.
    pub since: Option<Timestamp>,
    /// The session of its first place.
    pub session: String,
    /// The number of the message there.
    pub message: u64,
}

impl Journal {
    /// Opens a way out.
    pub fn export(&self, format: &'static dyn Format, mut options: Options) -> Export<'_> {
        options.redactor = options.redactor.or_else(|| self.view_redactor());
        let (around, counter) = (RefCell::default(), RefCell::default());
        Export { journal: self, format, options, around, counter }
    }

    /// Lists what goes along with all sessions a filter chooses, so that sums stay what they are:
    /// sessions that are never shown and belong to none that is, with their calls alone.
    pub fn spenders(&self, filter: &Filter) -> Result<Vec<Entry>> {
        self.check_agents(filter)?;
        if filter.scope != Scope::All {
            return Ok(Vec::new());
        }
        self.store.as_ref().map_or(Ok(Vec::new()), |store| store.spenders(filter, self.now))
    }

    /// What takes secrets and the owner of this journal out of texts.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(&self.machine.home)
    }

    /// Finds the secrets in the sessions a filter chooses, the oldest first.
    pub fn secrets(&self, filter: &Filter, look: &mut dyn FnMut(&Entry)) -> Result<Vec<Secret>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut found: BTreeMap<(&'static str, u64), Secret> = BTreeMap::new();
        for entry in self.sessions(filter, None)? {
            look(&entry);
            let mut here = HashSet::new();
            store.each_message(entry.telling, |position, message: Message| {
                each_secret(&message, &mut |finding, hash| {
                    let key = (finding.rule, hash);
                    let secret = found.entry(key).or_insert_with(|| Secret::new(finding));
                    secret.sessions += u64::from(here.insert(key));
                    secret.meet(&entry, position, message.at);
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

    fn meet(&mut self, entry: &Entry, position: u64, at: Option<Timestamp>) {
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

/// Tells every secret of a message, with a hash that is the same for the same secret.
fn each_secret(message: &Message, tell: &mut dyn FnMut(redact::Finding, u64)) {
    let mut look = |name: &str, text: &str| {
        for finding in redact::find_value(name, text) {
            let hash = xxhash_rust::xxh3::xxh3_64(&text.as_bytes()[finding.range.clone()]);
            tell(finding, hash);
        }
    };
    for block in &message.blocks {
        match block {
            Block::Text(text) | Block::Thinking(text) => look("", text),
            Block::ToolResult { output, .. } => look("", output),
            Block::ToolCall { input, .. } => redact::each_string(input.as_str(), &mut look),
            _ => {}
        }
    }
}

impl Export<'_> {
    /// Counts the secrets in what leaves from now on, unless they are taken out.
    pub fn count_secrets(&mut self) {
        if self.options.redactor.is_none() {
            self.counter.replace(Some(SecretCounter::new()));
        }
    }

    /// Returns how many different secrets left since `count_secrets`.
    pub fn counted_secrets(&mut self) -> u64 {
        self.counter.take().map_or(0, SecretCounter::finish)
    }

    /// Writes one session, and tells what an index of many needs: its head and its agent.
    pub fn write(&mut self, entry: &Entry, out: &mut dyn Output) -> Result<(Head, AgentLook)> {
        let mut redactor = self.options.redactor.take();
        let mut writer = self.format.writer(out, &self.options);
        let head = self.session(entry, &mut *writer, redactor.as_mut());
        drop(writer);
        self.options.redactor = redactor;
        Ok((head?, look(&entry.agent)))
    }

    /// Writes sessions as tables, each file of which `open` opens.
    #[cfg(feature = "parquet")]
    pub fn tables(
        &mut self,
        entries: &[Entry],
        open: &mut Open<'_>,
        done: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut entries: Vec<&Entry> = entries.iter().collect();
        // One month after the other: only the files of one are open.
        entries.sort_by_key(|entry| (entry.started_at, &entry.id));
        let mut redactor = self.options.redactor.take();
        let mut tables = Tables::new(open);
        let written = entries.into_iter().try_for_each(|entry| {
            self.session(entry, &mut tables, redactor.as_mut())?;
            self.spendings(entry, &mut tables)?;
            done();
            Ok(())
        });
        self.options.redactor = redactor;
        written.and_then(|()| tables.finish().map_err(output))
    }

    #[cfg(feature = "parquet")]
    fn spendings(&self, entry: &Entry, tables: &mut Tables<'_>) -> Result<()> {
        let store = self.journal.store.as_ref().ok_or(Error::Stopped)?;
        let prices = Prices::new(&self.journal.config.prices);
        store.counted_calls(entry.key, |at, spent| {
            let cost = prices.cost(&spent);
            let spending = Spending {
                at,
                model: spent.model.as_deref().map(|name| crate::model::unmarked(name).0.to_owned()),
                tokens: spent.tokens,
                cache_creation_1h: spent.cache_creation_1h,
                cost_micros: cost.micros(),
                is_recorded: spent.recorded.is_some(),
                is_unrecorded: spent.is_unrecorded,
            };
            tables.spending(&spending).map_err(output)
        })
    }

    /// A session's title as it may be seen outside.
    pub fn title(&mut self, entry: &Entry) -> Result<String> {
        match &mut self.options.redactor {
            Some(redactor) => self.journal.redacted_title(entry, redactor),
            None => Ok(entry.title.clone()),
        }
    }

    /// How often each kind of thing was taken out so far.
    pub fn redactions(&self) -> redact::Redactions {
        self.options.redactor.as_ref().map(|redactor| redactor.counts().clone()).unwrap_or_default()
    }

    /// The colours pages have.
    pub fn theme(&self) -> Theme {
        self.options.theme
    }

    fn session(
        &self,
        entry: &Entry,
        writer: &mut dyn Writer,
        mut redactor: Option<&mut Redactor>,
    ) -> Result<Head> {
        let store = self.journal.store.as_ref().ok_or(Error::Stopped)?;
        let mut outline = Outline::default();
        store.each_message(entry.telling, |position, sketch: Sketch| {
            outline.add(position + 1, sketch);
            Ok(())
        })?;
        let account = self.journal.stored_account(entry)?.unwrap_or_default();
        for summary in &account.summaries {
            outline.end_at(&summary.leaf);
        }
        let mut head = self.head(entry, account, &outline, redactor.as_deref_mut())?;
        if let Some(redactor) = &mut redactor {
            redactor.session(&mut head.session);
        }
        let fetch = |hash: &str| store.picture(hash).ok().flatten();
        let pictures = (self.options.pictures == Pick::With).then_some(&fetch as &_);
        let placement = self.options.placement(self.format);
        let pipe = Pipe::new(&entry.agent, pictures, placement, redactor);
        let pipe = pipe.with_parents_of(&outline);
        let mut pipe = pipe.without_tools(self.options.leaves_out_tools);
        let frame = Frame { head: &head, outline: &outline, agent: look(&entry.agent) };
        writer.begin(&frame).map_err(output)?;
        self.around.borrow_mut().push(entry.id.clone());
        let mut inside = self.inside(entry);
        let mut json = Vec::new();
        store.each_line(entry.telling, |position, stored| {
            if let Some(counter) = &mut *self.counter.borrow_mut() {
                counter.line(stored);
            }
            json.clear();
            if let Some(lines) = writer.lines()
                && pipe.line(position, stored, &mut json)
            {
                return lines.line(&json).map_err(output);
            }
            let Ok(message) = serde_json::from_slice(stored) else { return Ok(()) };
            inside.meet(position + 1, &message);
            let ready = pipe.take(position, message);
            self.written(ready, writer, &mut pipe, &mut inside)
        })?;
        let ready = pipe.rest();
        self.written(ready, writer, &mut pipe, &mut inside)?;
        for child in inside.rest() {
            self.session(&child, writer, pipe.redactor())?;
        }
        self.around.borrow_mut().pop();
        writer.end().map_err(output)?;
        Ok(head)
    }

    /// Writes messages, and behind each the sub-agents it started.
    fn written(
        &self,
        ready: Vec<schema::Message>,
        writer: &mut dyn Writer,
        pipe: &mut Pipe<'_>,
        inside: &mut Inside,
    ) -> Result<()> {
        for message in ready {
            for child in inside.begun_before(message.timestamp) {
                self.session(&child, writer, pipe.redactor())?;
            }
            writer.message(&message).map_err(output)?;
            for child in inside.called_by(message.index) {
                self.session(&child, writer, pipe.redactor())?;
            }
        }
        Ok(())
    }

    /// The sub-agents that are told inside their parent.
    fn inside(&self, entry: &Entry) -> Inside {
        let mut inside = Inside::default();
        if self.options.sub_agents == Pick::Without || self.format.together() != Together::Directory
        {
            return inside;
        }
        // Sessions that started each other would never end.
        let around = self.around.borrow();
        let found = entry.children.iter().filter(|id| !around.contains(id));
        for child in found.filter_map(|id| self.journal.stored_session(id).ok()) {
            let first = self.journal.stored_messages(&child, 0..FIRST).unwrap_or_default();
            let asked = first.into_iter().find(|(_, message)| message.origin.is_prompt());
            let asked = asked.map(|(_, message)| message.text().trim().to_owned());
            inside.waiting.push((asked.filter(|text| !text.is_empty()), child));
        }
        inside.waiting.sort_by_key(|(_, child)| child.started_at);
        inside
    }

    /// Notes what a session cost, and what it did and spent with its sub-agents.
    fn add_figures(&self, entry: &Entry, notes: &mut SessionNotes) -> Result<()> {
        let figures = self.journal.session_figures(std::slice::from_ref(entry))?.remove(0);
        let cost =
            |figures: &Figures| figures.cost.micros().map(|_| Json::from_value(&figures.cost));
        notes.cost = cost(&figures.own);
        notes.not_in_transcript = known(figures.own.not_in_transcript.tokens);
        let whole = &figures.with_subagents;
        notes.with_subagents = (figures.subagents > 0).then(|| TaskNotes {
            subagents: figures.subagents,
            tool_calls: whole.tool_calls,
            tool_errors: whole.tool_errors,
            tokens: known(whole.tokens),
            cost: cost(whole),
        });
        Ok(())
    }

    fn head(
        &self,
        entry: &Entry,
        mut account: model::Session,
        outline: &Outline,
        redactor: Option<&mut Redactor>,
    ) -> Result<Head> {
        let mut listed = listed(entry);
        if let Some(redactor) = redactor {
            // Titles are cut out of longer texts, some of them by the agent.
            let texts = self.journal.title_texts(entry, &account)?;
            listed.title = redactor.piece(&entry.title, &texts, &mut Vec::new());
            for one in &mut account.titles {
                one.text = redactor.piece(&one.text, &texts, &mut Vec::new());
            }
        }
        let mut children = entry.children.clone();
        let source = match &account.provenance {
            Some(provenance) => {
                let told = provenance.children.iter().filter(|id| !entry.children.contains(id));
                children.extend(told.cloned());
                Source {
                    kind: kind(&provenance.kind),
                    host: provenance.host.clone(),
                    path: provenance.path.clone(),
                }
            }
            None => Source {
                kind: kind(&entry.source.kind),
                host: entry.source.host.clone(),
                path: entry.source.path.clone(),
            },
        };
        let plain = Session {
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
        let calls = store.calls_beside(entry.key, entry.telling)?;
        let other_summaries = self.journal.other_summaries(entry)?;
        let mut notes = SessionNotes { calls, children, other_summaries, ..listed };
        if entry.telling != NONE {
            self.add_figures(entry, &mut notes)?;
        }
        Ok(Head {
            schema_version: outline.schema_version().to_owned(),
            export_timestamp: self.journal.now,
            agent: entry.agent.clone(),
            session: session(notes, plain, account, &entry.agent),
        })
    }
}

/// Tokens, unless none are recorded.
fn known(tokens: Tokens) -> Option<Tokens> {
    Some(tokens).filter(Tokens::is_known)
}

/// What the journal lists of a session.
fn listed(entry: &Entry) -> SessionNotes {
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
        tokens: known(entry.tokens),
        refs: entry.refs.clone(),
        ..SessionNotes::default()
    }
}

/// An agent as people know it.
pub(crate) fn look(agent: &str) -> AgentLook {
    match connectors::find(agent) {
        Some(connector) => {
            AgentLook { name: connector.agent().name.to_owned(), color: connector.agent().color }
        }
        None => AgentLook { name: agent.to_owned(), color: (128, 128, 128) },
    }
}

fn kind(name: &str) -> SourceKind {
    match name {
        "wsl" => SourceKind::Wsl,
        "windows" => SourceKind::Windows,
        "remote" => SourceKind::Remote,
        _ => SourceKind::Local,
    }
}

fn output(source: io::Error) -> Error {
    Error::Export { source }
}
