//! The public interface for all views: open the journal, apply pending changes, query it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::analyze::{
    self, Brief, BriefMaker, Figures, Prices, ScoreContext, ScoreReport, SessionFigures, Stats,
    StatsQuery,
};
use crate::config::Config;
use crate::connectors::formats::{glob, jsonl, scan_snapshot};
use crate::connectors::{
    Agent, AgentDeclaration, Connector, DeclarationError, Machine, Retention, UnreadAgent,
    all_connectors, declare_agents, find_unread_agents, mcp_config,
};
use crate::error::{Error, Result};
use crate::export::Redactor;
use crate::index::{Coverage, IndexCache, Lexical, LexicalWriter, Semantic, guarded};
use crate::interrupt::{Interrupter, StopFlag};
use crate::leftovers;
use crate::model::{Message, Session, SessionId, Timestamp};
use crate::search::{
    Answer, Filter, Mode, Query, Search, SearchOptions, Tier, list_sessions, unknown_agent,
};
use crate::store::{AgentTotals, Entry, Store};
use crate::sync::{
    self, ChangeCheck, PendingChanges, Plan, Progress, ProjectSearch, ScanCache, SearchEffort,
    SyncArchive, SyncOptions, SyncReport, SyncRun, WriterLock,
};
use crate::work_share::WorkShare;

/// Maximum number of attempts to use an index that another process is building.
const PATIENCE: usize = 50;

/// Wait before each further attempt.
const PAUSE: Duration = Duration::from_millis(200);

/// Makes the plan again if the journal changed meanwhile.
type MakePlanAgain<'a> = &'a dyn Fn(&Journal) -> Result<Plan>;

/// The journal of one machine.
pub struct Journal {
    pub(crate) config: Config,
    pub(crate) machine: Machine,
    pub(crate) path: PathBuf,
    pub(crate) store: Option<Store>,
    pub(crate) now: Timestamp,
    index: IndexCache,
    helper: Arc<WorkShare>,
    holds_little: bool,
    /// Set if the caller no longer needs the current answer.
    stop: StopFlag,
    on_progress: fn(Progress),
}

/// The files of one agent and the totals read from them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AgentReport {
    /// The description of the agent.
    #[serde(skip)]
    pub agent: &'static Agent,
    /// The id of the agent.
    pub id: &'static str,
    /// The display name of the agent.
    pub name: &'static str,
    /// Directories that are scanned for its sessions.
    pub roots: Vec<RootReport>,
    /// Whether the scan is recursive or covers only the roots themselves.
    pub scans_below: bool,
    /// Time after which the agent itself deletes sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Totals of the sources that were read.
    #[serde(flatten)]
    pub totals: AgentTotals,
}

/// An agent that is known only from imported files, and the totals of these files.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedAgentReport {
    /// The name of the agent in the imported files.
    pub id: String,
    /// Totals of the imported files.
    #[serde(flatten)]
    pub totals: AgentTotals,
}

/// A directory that is scanned for sessions.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RootReport {
    /// The path, which may contain a pattern.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Whether the directory exists.
    pub present: bool,
    /// Whether the user configured it.
    pub configured: bool,
}

fn current_time() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Serializes a path; invalid UTF-8 is replaced.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Journal {
    /// Opens a journal, which may not exist yet.
    pub fn open(config: Config, machine: Machine) -> Result<Self> {
        let path = config.journal_dir.join("journal.db");
        let store = Store::open(&path)?;
        let (index, helper) = (IndexCache::default(), Arc::default());
        let on_progress = |_: Progress| {};
        let (holds_little, now, stop) = (false, current_time(), StopFlag::default());
        Ok(Self {
            config,
            machine,
            path,
            store,
            now,
            index,
            helper,
            holds_little,
            stop,
            on_progress,
        })
    }

    /// Opens the same journal again, for another thread. Memory maps are shared.
    pub fn try_clone(&self) -> Result<Self> {
        let other = Self::open(self.config.clone(), self.machine.clone())?;
        Ok(Self { index: self.index.clone(), ..other })
    }

    /// Lets the worker thread of `helper` take part in long operations.
    #[doc(hidden)]
    #[must_use]
    pub fn helped_by(self, helper: Arc<WorkShare>) -> Self {
        Self { helper, ..self }
    }

    /// Sets a callback for the progress of an operation that delays an answer.
    #[must_use]
    pub fn with_progress(self, on_progress: fn(Progress)) -> Self {
        Self { on_progress, ..self }
    }

    /// Keeps memory use low between queries, for callers that hold several journals open.
    #[doc(hidden)]
    #[must_use]
    pub fn holding_little(self) -> Self {
        if let Some(store) = &self.store {
            store.hold_little();
        }
        Self { holds_little: true, ..self }
    }

    /// Releases the caches. The next query takes a little longer.
    #[doc(hidden)]
    pub fn release_caches(&self) {
        self.index.close();
        if let Some(store) = &self.store {
            store.rest();
        }
    }

    /// Updates the current time and reopens the database if it was created or replaced since, for
    /// callers that keep a journal open.
    pub fn refresh(&mut self) -> Result<()> {
        let is_current = |store: &Store| store.is_there() && !store.is_frozen();
        if !self.store.as_ref().is_some_and(is_current) {
            self.store = Store::open(&self.path)?;
            if let Some(store) = self.store.as_ref().filter(|_| self.holds_little) {
                store.hold_little();
            }
        }
        self.now = current_time();
        Ok(())
    }

    /// Returns a handle with which another thread can interrupt the next answer. Interruptions of
    /// earlier answers do not affect it.
    pub fn interrupter(&mut self) -> Interrupter {
        self.stop = StopFlag::default();
        let database = self.store.as_ref().map(Store::interrupt_handle);
        Interrupter { flag: self.stop.clone(), database }
    }

    /// Returns a number that grows with every change of the journal.
    pub fn change_generation(&self) -> Result<i64> {
        self.store.as_ref().map_or(Ok(0), Store::generation)
    }

    /// Returns all supported agents, and the declared ones.
    pub fn supported_agents() -> impl Iterator<Item = &'static Agent> {
        all_connectors().map(Connector::agent)
    }

    /// Declares further agents for all journals of this process. It can be done once.
    pub fn declare_agents(
        declarations: Vec<AgentDeclaration>,
    ) -> std::result::Result<(), DeclarationError> {
        declare_agents(declarations)
    }

    /// Returns the path of the journal's database.
    pub fn database_path(&self) -> &Path {
        &self.path
    }

    /// Reads everything that the agents wrote since the last sync.
    pub fn sync(
        &mut self,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let effort = match options.budget {
            Some(_) => SearchEffort::Quick,
            None => SearchEffort::Thorough,
        };
        let mut pending = if options.full {
            let machine = self.machine_with(self.project_search().current_projects(effort))?;
            let plan = Plan::make(&self.config, &machine, self.store.as_ref(), true)?;
            PendingChanges { plan, ..PendingChanges::default() }
        } else {
            self.find_changes(&ChangeCheck::new(&self.config), effort)?
        };
        // Vectors of another model remain in use until a sync without a time limit replaces them.
        pending.indexed &= options.budget.is_some() || self.is_embedded()?;
        self.apply(pending, options, progress)
    }

    /// Applies pending changes.
    #[doc(hidden)]
    pub fn apply(
        &mut self,
        pending: PendingChanges,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        self.apply_or_replan(pending, &|journal| journal.make_plan(options.full), options, progress)
    }

    /// Applies pending changes. Calls `again` for a new plan if another process wrote the journal
    /// meanwhile.
    pub(crate) fn apply_or_replan(
        &mut self,
        pending: PendingChanges,
        again: MakePlanAgain<'_>,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let is_outdated = pending.plan.has_outdated && options.budget.is_none();
        if !options.full && pending.indexed && pending.plan.is_empty() && !is_outdated {
            return Ok(SyncReport { failures: pending.plan.failures, ..SyncReport::default() });
        }
        crate::private::private_directory(&self.config.journal_dir)?;
        let lock = WriterLock::take(&self.config.journal_dir.join("lock"), options.wait, progress)?;
        let Some(_lock) = lock else {
            let changed = &pending.plan.changed;
            return Ok(SyncReport {
                busy: true,
                pending_sources: changed.len() as u64,
                pending_bytes: changed.iter().map(|found| found.source.stamp.size).sum(),
                failures: pending.plan.failures,
                ..SyncReport::default()
            });
        };
        // A process that was killed may have left temporary copies of databases.
        leftovers::sweep_leftovers();
        // An open database is ready for use unless it was deleted or replaced meanwhile.
        let is_replaced = self.store.as_ref().is_some_and(|store| !store.is_there());
        if is_replaced || self.store.as_ref().is_none_or(Store::is_frozen) {
            self.store = Some(Store::create(&self.path)?);
        }
        // The process that held the lock may have done the work.
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let is_current = !is_replaced && store.generation()? == pending.generation;
        let plan = if is_current { pending.plan } else { again(self)? };
        match self.execute_plan(plan, options, progress) {
            // The index is damaged. It can be rebuilt from the journal.
            Err(Error::Index { .. }) => {
                LexicalWriter::discard(&self.lexical_dir())?;
                self.execute_plan(again(self)?, options, progress)
            }
            report => report,
        }
    }

    /// Executes a plan. The caller holds the lock.
    fn execute_plan(
        &self,
        plan: Plan,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let (config, store_path) = (&self.config, &*self.path);
        let archive = SyncArchive::open(config, store)?;
        SyncRun { config, store, store_path, options, progress, archive }.run(plan)
    }

    /// Indexes everything in the journal that is not indexed yet. A damaged index is rebuilt. The
    /// caller holds the lock.
    pub(crate) fn update_index(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        match self.try_to_update_index(progress) {
            Err(Error::Index { .. }) => {
                LexicalWriter::discard(&self.lexical_dir())?;
                self.try_to_update_index(progress)
            }
            updated => updated,
        }
    }

    fn try_to_update_index(&self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let (config, store_path, options) = (&self.config, &*self.path, SyncOptions::default());
        let archive = None;
        SyncRun { config, store, store_path, options, progress, archive }.open_index()?.close()
    }

    /// Returns whether the journal contains any records.
    pub fn has_records(&self) -> bool {
        self.change_generation().is_ok_and(|generation| generation > 0)
    }

    /// Scans for changes that the agents wrote since the last sync.
    #[doc(hidden)]
    pub fn pending_changes(&self) -> Result<PendingChanges> {
        self.pending_changes_since(&ChangeCheck::new(&self.config))
    }

    /// Scans for changes that the agents wrote since the last sync, using a change check that may
    /// have started.
    #[doc(hidden)]
    pub fn pending_changes_since(&self, look: &ChangeCheck) -> Result<PendingChanges> {
        self.find_changes(look, SearchEffort::Quick)
    }

    fn find_changes(&self, look: &ChangeCheck, effort: SearchEffort) -> Result<PendingChanges> {
        let projects = self.project_search().current_projects(effort);
        let Some(store) = &self.store else {
            let machine = self.machine_with(projects)?;
            let plan = Plan::make(&self.config, &machine, None, false)?;
            return Ok(PendingChanges { plan, indexed: true, ..PendingChanges::default() });
        };
        let (identity, generation) = sync::journal_state(store)?;
        let indexed = self.is_indexed()?;
        let mut machine = self.machine.clone();
        machine.projects.extend_from_slice(&projects);
        let cache = ScanCache::new(&self.config, &machine, (identity, generation));
        if indexed && cache.matches(look) && look.holds() {
            return Ok(PendingChanges { generation, indexed, ..PendingChanges::default() });
        }
        let began = jiff::Timestamp::now().as_nanosecond() as i64;
        let machine = self.machine_with(projects)?;
        let (plan, snapshot) = scan_snapshot::observe_scan(|| {
            Plan::make(&self.config, &machine, self.store.as_ref(), false)
        });
        let pending = PendingChanges { plan: plan?, generation, indexed };
        let is_nothing = pending.is_nothing() && !pending.plan.has_outdated;
        if is_nothing && snapshot.is_settled(began) {
            cache.keep(&snapshot);
        }
        Ok(pending)
    }

    pub(crate) fn make_plan(&self, full: bool) -> Result<Plan> {
        Plan::make(&self.config, &self.machine_now()?, self.store.as_ref(), full)
    }

    /// Returns the machine together with the project directories in the journal, and those that the
    /// last search found.
    pub(crate) fn machine_now(&self) -> Result<Machine> {
        self.machine_with(self.project_search().known_projects())
    }

    /// Returns the same, after a search if the last one is too long ago.
    pub(crate) fn machine_after_search(&self) -> Result<Machine> {
        self.machine_with(self.project_search().current_projects(SearchEffort::Quick))
    }

    /// Returns the machine together with the project directories in the journal and in `found`.
    fn machine_with(&self, found: Vec<PathBuf>) -> Result<Machine> {
        let mut machine = self.machine.clone();
        if let Some(store) = &self.store {
            machine.projects.extend(store.projects()?);
        }
        machine.projects.extend(found);
        machine.projects.sort();
        machine.projects.dedup();
        Ok(machine)
    }

    fn project_search(&self) -> ProjectSearch {
        ProjectSearch::new(&self.config, &self.machine)
    }

    pub(crate) fn configuration(&self) -> &Config {
        &self.config
    }

    pub(crate) fn is_indexed(&self) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(true) };
        let indexed = Lexical::generation(&self.lexical_dir(), store.identity()?);
        Ok(indexed == Some(store.generation()?))
    }

    /// Returns whether the semantic index contains everything in the journal.
    fn is_embedded(&self) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(true) };
        let semantic = Semantic::chosen(&self.config, store.identity()?);
        let generation = store.generation()?;
        Ok(semantic.is_none_or(|semantic| semantic.generation() == generation))
    }

    /// Returns the reason why search by meaning is not available; `None` if it is available or
    /// turned off.
    pub fn no_meaning(&self) -> Option<String> {
        Semantic::impediment(&self.config)
    }

    /// Returns how many sessions search by meaning covers.
    pub fn semantic_coverage(&self) -> Result<Coverage> {
        let mut coverage =
            Coverage { problem: Semantic::problem(&self.config), ..Coverage::default() };
        let Some(store) = &self.store else { return Ok(coverage) };
        let semantic = Semantic::serving(&self.config, store.identity()?);
        let generation = semantic.as_ref().map_or(0, Semantic::generation);
        (coverage.covered, coverage.sessions) = store.count_unchanged_sessions(generation)?;
        coverage.embedder = semantic.as_ref().map(|semantic| semantic.id().to_owned());
        let reader = semantic.and_then(|semantic| self.index.semantic(semantic));
        coverage.vectors = reader.map_or(0, |reader| reader.live());
        Ok(coverage)
    }

    pub(crate) fn open_lexical_index(&self) -> Result<Option<Lexical>> {
        let Some(store) = &self.store else { return Ok(None) };
        Ok(self.index.lexical(&self.lexical_dir(), store.identity()?))
    }

    fn lexical_dir(&self) -> PathBuf {
        self.config.index_dir.join("lexical")
    }

    /// Lists the sessions that match a filter, the latest first.
    pub fn list_entries(&self, filter: &Filter, limit: Option<usize>) -> Result<Vec<Entry>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut entries =
            store.sessions(&*self.resolve_message_conditions(filter)?, limit, self.now)?;
        self.redact_for_view(&mut entries)?;
        Ok(entries)
    }

    /// Counts the sessions that match a filter.
    pub fn count_sessions(&self, filter: &Filter) -> Result<u64> {
        let Some(store) = &self.store else { return Ok(0) };
        store.count(&*self.resolve_message_conditions(filter)?)
    }

    /// Returns an error if a filter names an agent that is neither built in nor in the journal.
    pub(crate) fn check_agents(&self, filter: &Filter) -> Result<()> {
        let named = filter.agents.iter().chain(filter.not.iter().flat_map(|not| &not.agents));
        let mut others =
            named.filter(|name| crate::connectors::find_connector(name).is_none()).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let held = self.store.as_ref().map_or(Ok(Vec::new()), Store::agent_names)?;
        let unknown = others.find(|name| !held.contains(name));
        unknown.map_or(Ok(()), |name| Err(unknown_agent(name, &held)))
    }

    /// Returns a filter on sessions only. Conditions on messages become the list of sessions that
    /// have a matching message.
    pub(crate) fn resolve_message_conditions<'f>(
        &self,
        filter: &'f Filter,
    ) -> Result<Cow<'f, Filter>> {
        self.check_agents(filter)?;
        if !filter.selects_messages() || filter.chosen.is_some() {
            return Ok(Cow::Borrowed(filter));
        }
        let chosen = self.with_index(&|search| search.choose_sessions(filter))?;
        Ok(Cow::Owned(Filter { chosen: Some(chosen.unwrap_or_default()), ..filter.clone() }))
    }

    /// Finds a session by its id, by the agent's own id, or by a prefix of either.
    pub fn find_session(&self, id: &str) -> Result<Entry> {
        let mut entry = self.stored_session(id)?;
        self.redact_for_view(std::slice::from_mut(&mut entry))?;
        Ok(entry)
    }

    /// Finds a session, without redaction.
    pub(crate) fn stored_session(&self, id: &str) -> Result<Entry> {
        let unknown = || Error::UnknownSession { id: id.to_owned() };
        let store = self.store.as_ref().ok_or_else(unknown)?;
        let (agent, prefix) = match id.split_once(':') {
            Some((name, prefix)) => match crate::connectors::find_connector(name) {
                Some(connector) => (Some(connector.agent().id), prefix),
                None => (None, id),
            },
            None => (None, id),
        };
        if prefix.is_empty() {
            return Err(unknown());
        }
        let (mut known_agent, mut known_prefix) = (agent, prefix);
        let mut found = store.sessions_by_prefix(agent, prefix, self.now)?;
        if let (true, None, Some((name, rest))) = (found.is_empty(), agent, id.split_once(':')) {
            // An import may contain sessions of an agent without a connector.
            (known_agent, known_prefix) = (Some(name), rest);
            found = store.sessions_by_prefix(known_agent, known_prefix, self.now)?;
        }
        leave_out_bare(&mut found);
        if let Some(exact) = found.iter().position(|entry| entry.native_id == prefix) {
            let same = found.iter().filter(|entry| entry.native_id == prefix).count();
            if same == 1 {
                return Ok(found.swap_remove(exact));
            }
        }
        match found.len() {
            0 => Err(unknown()),
            1 => Ok(found.remove(0)),
            _ => Err(Error::AmbiguousSession {
                id: id.to_owned(),
                count: store.count_by_prefix(known_agent, known_prefix)?,
                candidates: self.named_candidates(found),
            }),
        }
    }

    /// Reads a range of a session's messages, each with its position.
    pub fn read_messages(&self, entry: &Entry, range: Range<u64>) -> Result<Vec<(u64, Message)>> {
        let mut messages = self.stored_messages(entry, range)?;
        if let Some(mut redactor) = self.view_redactor() {
            for (_, message) in &mut messages {
                redactor.redact_recorded_message(message);
            }
        }
        Ok(messages)
    }

    /// Reads a range of a session's messages, without redaction.
    pub(crate) fn stored_messages(
        &self,
        entry: &Entry,
        range: Range<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        self.store.as_ref().map_or(Ok(Vec::new()), |store| store.messages(entry.recording, range))
    }

    /// Calls `take` with each message of a session in order, holding few messages in memory.
    pub fn visit_messages(
        &self,
        entry: &Entry,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, Message) -> Result<()>,
    ) -> Result<()> {
        let read = |store: &Store| store.each_message_in(entry.recording, range, take);
        self.store.as_ref().map_or(Ok(()), read)
    }

    /// Returns notices about parts of a session's files that the journal lacks.
    pub fn session_notices(&self, entry: &Entry) -> Result<Vec<String>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let skipped = store.skipped_of_session(entry.key)?;
        let mut notices = Vec::new();
        if let Some(lines) = skipped.get(jsonl::LINE_TOO_LONG) {
            let lines = if *lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
            let limit = self.config.max_line_bytes >> 20;
            notices.push(format!("{lines} skipped: longer than {limit} MiB (index.max_line_mb)"));
        }
        Ok(notices)
    }

    /// Reads the metadata of a session, merged from all its recordings.
    pub fn session_metadata(&self, entry: &Entry) -> Result<Option<Session>> {
        let mut account = self.stored_account(entry)?;
        if let (Some(account), Some(mut redactor)) = (&mut account, self.view_redactor()) {
            redactor.redact_metadata(account);
        }
        Ok(account)
    }

    /// Reads the metadata of a session, without redaction.
    pub(crate) fn stored_account(&self, entry: &Entry) -> Result<Option<Session>> {
        self.store.as_ref().map_or(Ok(None), |store| store.merged_metadata(entry.key))
    }

    /// Reads the summaries of a session, the latest first.
    pub fn session_summaries(&self, entry: &Entry) -> Result<Vec<String>> {
        let id = SessionId { agent: entry.agent.clone(), native: entry.native_id.clone() };
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut summaries = store.summaries(&id, entry.recording)?;
        if let Some(mut redactor) = self.view_redactor() {
            for text in &mut summaries {
                redactor.redact_in_place(text);
            }
        }
        Ok(summaries)
    }

    /// Reads the documents of a session, each with its name: plans, checkpoints, and the summaries
    /// that are not its title.
    pub fn session_documents(&self, entry: &Entry) -> Result<Vec<(String, String)>> {
        let mut documents = self.session_metadata(entry)?.unwrap_or_default().documents;
        let summaries = self.other_summaries(entry)?.into_iter();
        documents.extend(summaries.map(|text| ("summary".to_owned(), text)));
        Ok(documents)
    }

    /// Reads the summaries of a session that are not its title.
    pub(crate) fn other_summaries(&self, entry: &Entry) -> Result<Vec<String>> {
        let mut summaries = self.session_summaries(entry)?;
        summaries.retain(|text| text.trim() != entry.title);
        Ok(summaries)
    }

    /// Builds a brief for handing a session over. Redaction is applied to whole messages, before
    /// excerpts are taken.
    pub fn build_brief(&self, entry: &Entry, redactor: &mut Redactor) -> Result<Brief> {
        let mut maker = BriefMaker::default();
        if let Some(store) = &self.store {
            for path in [&entry.cwd, &entry.project_path].into_iter().flatten() {
                redactor.add_home_owner(path);
            }
            let mut account = self.stored_account(entry)?.unwrap_or_default();
            redactor.redact_metadata(&mut account);
            maker.add_documents(account.documents);
            store.each_message(entry.recording, |position, mut message: Message| {
                redactor.redact_recorded_message(&mut message);
                maker.add_message(position, &message);
                Ok(())
            })?;
        }
        Ok(maker.into_brief())
    }

    /// Searches for a query. A query of fields only lists its matches, the latest first: messages
    /// if a field is about messages, else sessions.
    pub fn search(&self, query: &Query, options: &SearchOptions) -> Result<Answer> {
        let mut answer = self.stored_answer(query, options)?;
        if let Some(mut redactor) = self.view_redactor() {
            self.redact_answer(&mut answer, &mut redactor)?;
        }
        Ok(answer)
    }

    fn stored_answer(&self, query: &Query, options: &SearchOptions) -> Result<Answer> {
        self.check_agents(&query.filter)?;
        let listed = Answer { mode: options.mode, tier: Tier::Listed, ..Answer::default() };
        if query.is_fields_only() {
            let Some(store) = &self.store else { return Ok(listed) };
            let answer = if query.filter.lists_messages() {
                self.with_index(&|search| search.list_messages(&query.filter, options))?
            } else {
                Some(list_sessions(store, &query.filter, options, self.now)?)
            };
            return Ok(Answer { mode: options.mode, ..answer.unwrap_or(listed) });
        }
        self.retry_until_answered(&|| self.try_search(query, options))
    }

    /// Runs a query on the lexical index; returns `None` while the journal is empty.
    fn with_index<T: Send>(&self, ask: &dyn Fn(&Search<'_>) -> Result<T>) -> Result<Option<T>> {
        let Some(store) = &self.store else { return Ok(None) };
        if store.generation()? == 0 {
            return Ok(None);
        }
        let answer = || {
            let Some(lexical) = self.open_lexical_index()? else { return Ok(None) };
            let (path, helper, now) = (&*self.config.index_dir, &*self.helper, self.now);
            let stop = &self.stop;
            let search =
                Search { store, lexical: &lexical, semantic: None, path, helper, stop, now };
            match ask(&search) {
                Err(Error::Index { .. }) => Ok(None),
                asked => asked.map(Some),
            }
        };
        self.retry_until_answered(&answer).map(Some)
    }

    /// Retries a query until it succeeds. Rebuilds an unusable index, and waits while another
    /// process builds it.
    fn retry_until_answered<T>(&self, answer: &dyn Fn() -> Result<Option<T>>) -> Result<T> {
        let mut is_mended = false;
        for _ in 0..PATIENCE {
            // A panic after the rebuild is not caused by a damaged index.
            let answered =
                if is_mended { answer()? } else { guarded(answer).transpose()?.flatten() };
            if let Some(answer) = answered {
                return Ok(answer);
            }
            let lock = self.config.journal_dir.join("lock");
            // The process that held the lock may have built the index.
            if let Some(_lock) = WriterLock::take(&lock, Some(PAUSE), &mut |_| {})?
                && guarded(answer).transpose()?.flatten().is_none()
            {
                self.mend_index()?;
                is_mended = true;
            }
        }
        Err(Error::Busy { path: self.path.clone() })
    }

    /// Searches for a query; returns `None` if the index cannot be used.
    fn try_search(&self, query: &Query, options: &SearchOptions) -> Result<Option<Answer>> {
        let empty = Answer { mode: options.mode, ..Answer::default() };
        let Some(store) = &self.store else { return Ok(Some(empty)) };
        if store.generation()? == 0 {
            return Ok(Some(empty));
        }
        let Some(lexical) = self.open_lexical_index()? else { return Ok(None) };
        let is_meant = query.has_meaning(options.mode);
        let journal = store.identity()?;
        let semantic = is_meant.then(|| Semantic::serving(&self.config, journal)).flatten();
        let uncovered =
            semantic.as_ref().map_or(Ok(0), |semantic| count_unembedded(store, semantic))?;
        let semantic = semantic.and_then(|semantic| self.index.semantic(semantic));
        // Without vectors the search is lexical.
        let is_lost = self.config.meaning.off || is_meant && semantic.is_none();
        let mode = match options.mode {
            Mode::Hybrid if is_lost => Mode::Lexical,
            mode => mode,
        };
        let path = &self.config.index_dir;
        let (helper, stop, now) = (&*self.helper, &self.stop, self.now);
        let search = Search { store, lexical: &lexical, semantic, path, helper, stop, now };
        match search.run(query, options) {
            Err(Error::Index { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(mut answer) => {
                (answer.uncovered, answer.mode) = (uncovered, mode);
                Ok(Some(answer))
            }
        }
    }

    /// Rebuilds the lexical index. The caller holds the lock.
    fn mend_index(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        LexicalWriter::discard(&self.lexical_dir())?;
        // The caller waits for an answer, so the semantic index is not updated now.
        let options = SyncOptions { budget: Some(Duration::ZERO), ..SyncOptions::default() };
        let (config, store_path, progress) = (&self.config, &self.path, &mut { self.on_progress });
        let archive = None;
        SyncRun { config, store, store_path, options, progress, archive }.open_index()?.close()
    }

    /// Computes statistics of the sessions that match a query.
    pub fn stats(&self, query: &StatsQuery) -> Result<Stats> {
        self.check_agents(&query.filter)?;
        let prices = Prices::new(&self.config.prices);
        let mut stats = analyze::compute_stats(self.store.as_ref(), query, &prices)?;
        if let Some(mut redactor) = self.view_redactor() {
            self.redact_stats(&mut stats, &mut redactor)?;
        }
        Ok(stats)
    }

    /// Sums up tokens and cost since an instant.
    pub fn spending_since(&self, since: Timestamp) -> Result<Figures> {
        let prices = Prices::new(&self.config.prices);
        let spent = |store| analyze::sum_spending_since(store, since, &prices);
        self.store.as_ref().map_or_else(|| Ok(Figures::default()), spent)
    }

    /// Scores the sessions that match a query, by repository and by agent.
    pub fn score(&self, query: &StatsQuery) -> Result<ScoreReport> {
        self.check_agents(&query.filter)?;
        let known = ScoreContext {
            servers: &|projects| mcp_config::configured_servers(&self.machine, projects),
            agent_name: &|id| {
                let agent = Self::supported_agents().find(|agent| agent.id == id);
                agent.map_or(id, |agent| agent.name).to_owned()
            },
        };
        analyze::score_sessions(self.store.as_ref(), query, &known)
    }

    /// Computes the figures of sessions: of each alone, from the model calls it owns, and of each
    /// together with its sub-agents.
    pub fn figures_of_entries(&self, entries: &[Entry]) -> Result<Vec<SessionFigures>> {
        let nothing = || vec![SessionFigures::default(); entries.len()];
        let Some(store) = &self.store else { return Ok(nothing()) };
        let keys: Vec<u64> = entries.iter().map(|entry| entry.key).collect();
        analyze::figures_of_sessions(store, &keys, &Prices::new(&self.config.prices))
    }

    /// Returns the scanned directories and totals of each agent.
    pub fn agent_reports(&self) -> Result<Vec<AgentReport>> {
        let mut reports = Vec::new();
        for connector in all_connectors() {
            let agent = connector.agent();
            let roots = sync::roots(connector, &self.config, &self.machine);
            let totals = self.store.as_ref().map(|store| store.totals(agent.id)).transpose()?;
            reports.push(AgentReport {
                agent,
                id: agent.id,
                name: agent.name,
                roots: roots
                    .into_iter()
                    .map(|root| RootReport {
                        present: glob::pattern_base(&root.path).exists(),
                        path: root.path,
                        configured: root.configured,
                    })
                    .collect(),
                scans_below: connector.scans_below(),
                retention: connector.retention_period(&self.machine),
                totals: totals.unwrap_or_default(),
            });
        }
        Ok(reports)
    }

    /// Lists the agents in the journal that have no connector, because their sessions were imported.
    pub fn imported_agents(&self) -> Result<Vec<ImportedAgentReport>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let names = store.agent_names()?.into_iter();
        names
            .filter(|name| crate::connectors::find_connector(name).is_none())
            .map(|id| Ok(ImportedAgentReport { totals: store.totals(&id)?, id }))
            .collect()
    }

    /// Lists the agents that were used on the scanned homes and whose sessions cannot be read. An
    /// agent of which some sessions were read is left out.
    pub fn unread_agents(&self) -> Result<Vec<UnreadAgent>> {
        let read = self.store.as_ref().map(Store::agent_names).transpose()?.unwrap_or_default();
        let homes = self.config.homes.iter().map(|home| &home.machine);
        let mut unread: Vec<UnreadAgent> = Vec::new();
        for agent in std::iter::once(&self.machine).chain(homes).flat_map(find_unread_agents) {
            let is_known = unread.iter().any(|known| known.id == agent.id);
            if !is_known && !read.iter().any(|id| id == agent.id) {
                unread.push(agent);
            }
        }
        Ok(unread)
    }

    /// Lists the configured roots that do not exist.
    pub fn absent_places(&self) -> Vec<PathBuf> {
        let roots = all_connectors().flat_map(|one| sync::roots(one, &self.config, &self.machine));
        let named = roots.filter(|root| root.configured).map(|root| root.path);
        named.filter(|path| !glob::pattern_base(path).exists()).collect()
    }
}

/// Counts the sessions that search by meaning does not cover yet.
fn count_unembedded(store: &Store, semantic: &Semantic) -> Result<u64> {
    let generation = semantic.generation();
    if generation == store.generation()? {
        return Ok(0);
    }
    let (covered, sessions) = store.count_unchanged_sessions(generation)?;
    Ok(sessions - covered)
}

/// Removes sessions without messages if another session with the same id has messages, so that a
/// note about a session never hides the session.
fn leave_out_bare(entries: &mut Vec<Entry>) {
    let talks = |entry: &Entry| entry.transcript_length() > 0;
    let ids: HashSet<String> =
        entries.iter().filter(|entry| talks(entry)).map(|entry| entry.native_id.clone()).collect();
    entries.retain(|entry| talks(entry) || !ids.contains(&entry.native_id));
}
