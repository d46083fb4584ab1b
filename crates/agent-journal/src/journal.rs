//! The only door for views: open the journal, fold in what changed, ask.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::analyze::{
    self, Brief, BriefMaker, Figures, Known, Prices, ScoreReport, SessionFigures, Stats, StatsQuery,
};
use crate::config::Config;
use crate::connectors::formats::{glob, jsonl, sight, sqlite};
use crate::connectors::{ALL, Agent, Machine, Retention, mcp_config};
use crate::error::{Error, Result};
use crate::export::Redactor;
use crate::helper::Helper;
use crate::index::{Coverage, Lexical, LexicalWriter, Opened, Semantic, guarded};
use crate::interrupt::{Interrupter, StopFlag};
use crate::model::{Message, Session, SessionId, Timestamp};
use crate::search::{
    Answer, Filter, Mode, Options, Query, Search, Tier, list_sessions, unknown_agent,
};
use crate::store::{AgentTotals, Entry, Store};
use crate::sync::{self, Lock, Look, Memory, News, Plan, Progress, Sync, SyncOptions, SyncReport};

/// How often a search looks for an index that another process is making.
const PATIENCE: usize = 50;

/// How long it waits each time.
const PAUSE: Duration = Duration::from_millis(200);

/// How news are looked for again.
type Again<'a> = &'a dyn Fn(&Journal) -> Result<Plan>;

/// The journal of one machine.
pub struct Journal {
    pub(crate) config: Config,
    pub(crate) machine: Machine,
    pub(crate) path: PathBuf,
    pub(crate) store: Option<Store>,
    pub(crate) now: Timestamp,
    index: Opened,
    helper: Arc<Helper>,
    holds_little: bool,
    /// Set when nobody waits for the answer that is being made.
    stop: StopFlag,
    tell: fn(Progress),
}

/// What an agent's files came to.
#[derive(Clone, Debug, Serialize)]
pub struct AgentReport {
    /// The agent.
    #[serde(skip)]
    pub agent: &'static Agent,
    /// The agent's id.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Where its sessions were looked for.
    pub roots: Vec<RootReport>,
    /// Whether everything below those places is looked at, or only what lies in them directly.
    pub scans_below: bool,
    /// How long the agent keeps them itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// What was found.
    #[serde(flatten)]
    pub totals: AgentTotals,
}

/// A place where sessions were looked for.
#[derive(Clone, Debug, Serialize)]
pub struct RootReport {
    /// The place.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Whether it is there.
    pub present: bool,
    /// Whether the user named it.
    pub configured: bool,
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Writes a path; what is not UTF-8 in it is replaced.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Journal {
    /// Opens a journal; there may be nothing in it yet.
    pub fn open(config: Config, machine: Machine) -> Result<Self> {
        let path = config.journal_dir.join("journal.db");
        let store = Store::open(&path)?;
        let (index, helper) = (Opened::default(), Arc::default());
        let tell = |_: Progress| {};
        let (holds_little, now, stop) = (false, now(), StopFlag::default());
        Ok(Self { config, machine, path, store, now, index, helper, holds_little, stop, tell })
    }

    /// Opens the same journal once more, for another thread; what is mapped is shared.
    pub fn beside(&self) -> Result<Self> {
        let other = Self::open(self.config.clone(), self.machine.clone())?;
        Ok(Self { index: self.index.clone(), ..other })
    }

    /// Lets another thread take part in what takes long.
    #[must_use]
    pub fn helped_by(self, helper: Arc<Helper>) -> Self {
        Self { helper, ..self }
    }

    /// Tells somebody who waits for an answer why it takes long.
    #[must_use]
    pub fn telling(self, tell: fn(Progress)) -> Self {
        Self { tell, ..self }
    }

    /// Holds as little as it can between questions: for those who keep several open.
    #[must_use]
    pub fn holding_little(self) -> Self {
        if let Some(store) = &self.store {
            store.hold_little();
        }
        Self { holds_little: true, ..self }
    }

    /// Lets go of what is held for the next question only; that one takes a little longer.
    pub fn rest(&self) {
        self.index.close();
        if let Some(store) = &self.store {
            store.rest();
        }
    }

    /// Looks at the clock again, and for a journal that was made since, or in place of the one
    /// that is open: for those who keep one open.
    pub fn renew(&mut self) -> Result<()> {
        let is_current = |store: &Store| store.is_there() && !store.is_frozen();
        if !self.store.as_ref().is_some_and(is_current) {
            self.store = Store::open(&self.path)?;
            if let Some(store) = self.store.as_ref().filter(|_| self.holds_little) {
                store.hold_little();
            }
        }
        self.now = now();
        Ok(())
    }

    /// Begins an answer that another thread may interrupt. An interruption of an earlier answer
    /// does not affect this one.
    pub fn interruptible(&mut self) -> Interrupter {
        self.stop = StopFlag::default();
        let database = self.store.as_ref().map(Store::interrupt_handle);
        Interrupter { flag: self.stop.clone(), database }
    }

    /// A number that grows with every change of what the journal holds.
    pub fn generation(&self) -> Result<i64> {
        self.store.as_ref().map_or(Ok(0), Store::generation)
    }

    /// The agents that can be read.
    pub fn agents() -> impl Iterator<Item = &'static Agent> {
        ALL.iter().map(|connector| connector.agent())
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folds in what the agents wrote since the last time.
    pub fn sync(
        &mut self,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let mut news = if options.full {
            News { plan: self.plan(true)?, ..News::default() }
        } else {
            self.news()?
        };
        // Vectors of another model serve until somebody takes the time to make new ones.
        news.indexed &= options.budget.is_some() || self.is_embedded()?;
        self.fold(news, options, progress)
    }

    /// Folds in news.
    pub fn fold(
        &mut self,
        news: News,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        self.fold_in((news, &|journal| journal.plan(options.full)), options, progress)
    }

    /// Folds in news; they are looked for again if another process wrote meanwhile.
    pub(crate) fn fold_in(
        &mut self,
        (news, again): (News, Again<'_>),
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        if !options.full && news.indexed && news.plan.is_empty() {
            return Ok(SyncReport { failures: news.plan.failures, ..SyncReport::default() });
        }
        crate::store::private_directory(&self.config.journal_dir)?;
        let lock = Lock::take(&self.config.journal_dir.join("lock"), options.wait, progress)?;
        let Some(_lock) = lock else {
            let changed = &news.plan.changed;
            return Ok(SyncReport {
                busy: true,
                pending_sources: changed.len() as u64,
                pending_bytes: changed.iter().map(|found| found.source.stamp.size).sum(),
                failures: news.plan.failures,
                ..SyncReport::default()
            });
        };
        // Whoever was killed at work may have left copies of databases.
        sqlite::sweep();
        // One that is open is ready, unless somebody deleted or replaced it meanwhile.
        let is_replaced = self.store.as_ref().is_some_and(|store| !store.is_there());
        if is_replaced || self.store.as_ref().is_none_or(Store::is_frozen) {
            self.store = Some(Store::create(&self.path)?);
        }
        // Whoever held the lock may have done the work.
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let is_current = !is_replaced && store.generation()? == news.generation;
        let plan = if is_current { news.plan } else { again(self)? };
        match self.run(plan, options, progress) {
            // The index is damaged. The journal has all that it takes to rebuild it.
            Err(Error::Index { .. }) => {
                LexicalWriter::discard(&self.lexical_dir())?;
                self.run(again(self)?, options, progress)
            }
            report => report,
        }
    }

    /// Carries out a plan. The caller holds the lock.
    fn run(
        &self,
        plan: Plan,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let (config, store_path) = (&self.config, &*self.path);
        Sync { config, store, store_path, options, progress }.run(plan)
    }

    /// Returns whether anything is recorded.
    pub fn has_records(&self) -> bool {
        self.generation().is_ok_and(|generation| generation > 0)
    }

    /// Looks for what the agents wrote since the last time.
    pub fn news(&self) -> Result<News> {
        self.news_by(&Look::new(&self.config))
    }

    /// Looks for what the agents wrote since the last time, by a look that has begun.
    pub fn news_by(&self, look: &Look) -> Result<News> {
        let Some(store) = &self.store else {
            return Ok(News { plan: self.plan(false)?, indexed: true, ..News::default() });
        };
        let (identity, generation) = sync::state(store)?;
        let indexed = self.is_indexed()?;
        let memory = Memory::new(&self.config, &self.machine, (identity, generation));
        if indexed && memory.is_of(look) && look.holds() {
            return Ok(News { generation, indexed, ..News::default() });
        }
        let began = jiff::Timestamp::now().as_nanosecond() as i64;
        let (plan, sight) = sight::watch(|| self.plan(false));
        let news = News { plan: plan?, generation, indexed };
        if news.is_nothing() && sight.is_settled(began) {
            memory.keep(&sight);
        }
        Ok(news)
    }

    pub(crate) fn plan(&self, full: bool) -> Result<Plan> {
        Plan::make(&self.config, &self.machine_now()?, self.store.as_ref(), full)
    }

    /// The machine, with the projects the journal knows.
    pub(crate) fn machine_now(&self) -> Result<Machine> {
        let mut machine = self.machine.clone();
        if let Some(store) = &self.store {
            machine.projects.extend(store.projects()?);
        }
        Ok(machine)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn is_indexed(&self) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(true) };
        let indexed = Lexical::generation(&self.lexical_dir(), store.identity()?);
        Ok(indexed == Some(store.generation()?))
    }

    /// Whether everything can be found by meaning that should be.
    fn is_embedded(&self) -> Result<bool> {
        let Some(store) = &self.store else { return Ok(true) };
        let semantic = Semantic::chosen(&self.config, store.identity()?);
        let generation = store.generation()?;
        Ok(semantic.is_none_or(|semantic| semantic.generation() == generation))
    }

    /// Says why nothing can be found by meaning; `None` when something can, or nobody wants it.
    pub fn no_meaning(&self) -> Option<String> {
        Semantic::impediment(&self.config)
    }

    /// Tells how much can be found by meaning.
    pub fn coverage(&self) -> Result<Coverage> {
        let mut coverage =
            Coverage { problem: Semantic::problem(&self.config), ..Coverage::default() };
        let Some(store) = &self.store else { return Ok(coverage) };
        let semantic = Semantic::serving(&self.config, store.identity()?);
        let generation = semantic.as_ref().map_or(0, Semantic::generation);
        (coverage.covered, coverage.sessions) = store.settled_sessions(generation)?;
        coverage.embedder = semantic.as_ref().map(|semantic| semantic.id().to_owned());
        let reader = semantic.and_then(|semantic| self.index.semantic(semantic));
        coverage.vectors = reader.map_or(0, |reader| reader.live());
        Ok(coverage)
    }

    pub(crate) fn lexical(&self) -> Result<Option<Lexical>> {
        let Some(store) = &self.store else { return Ok(None) };
        Ok(self.index.lexical(&self.lexical_dir(), store.identity()?))
    }

    fn lexical_dir(&self) -> PathBuf {
        self.config.index_dir.join("lexical")
    }

    /// Lists the sessions a filter chooses, the latest first.
    pub fn sessions(&self, filter: &Filter, limit: Option<usize>) -> Result<Vec<Entry>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut entries = store.sessions(&*self.resolved(filter)?, limit, self.now)?;
        self.redact_for_view(&mut entries)?;
        Ok(entries)
    }

    /// Counts the sessions a filter chooses.
    pub fn count(&self, filter: &Filter) -> Result<u64> {
        let Some(store) = &self.store else { return Ok(0) };
        store.count(&*self.resolved(filter)?)
    }

    /// Refuses a filter that names an agent which is neither built in nor in the journal.
    pub(crate) fn check_agents(&self, filter: &Filter) -> Result<()> {
        let named = filter.agents.iter().chain(filter.not.iter().flat_map(|not| &not.agents));
        let mut others = named.filter(|name| crate::connectors::find(name).is_none()).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let held = self.store.as_ref().map_or(Ok(Vec::new()), Store::agent_names)?;
        let unknown = others.find(|name| !held.contains(name));
        unknown.map_or(Ok(()), |name| Err(unknown_agent(name, &held)))
    }

    /// Returns a filter that chooses sessions: where it asks something of messages, those that
    /// have such a message.
    pub(crate) fn resolved<'f>(&self, filter: &'f Filter) -> Result<Cow<'f, Filter>> {
        self.check_agents(filter)?;
        if filter.message_field().is_none() || filter.chosen.is_some() {
            return Ok(Cow::Borrowed(filter));
        }
        let chosen = self.with_index(&|search| search.choose_sessions(filter))?;
        Ok(Cow::Owned(Filter { chosen: Some(chosen.unwrap_or_default()), ..filter.clone() }))
    }

    /// Finds one session by its id, its agent's id for it, or a beginning of either.
    pub fn session(&self, id: &str) -> Result<Entry> {
        let mut entry = self.stored_session(id)?;
        self.redact_for_view(std::slice::from_mut(&mut entry))?;
        Ok(entry)
    }

    /// Finds one session, as it was recorded.
    pub(crate) fn stored_session(&self, id: &str) -> Result<Entry> {
        let unknown = || Error::UnknownSession { id: id.to_owned() };
        let store = self.store.as_ref().ok_or_else(unknown)?;
        let (agent, prefix) = match id.split_once(':') {
            Some((name, prefix)) => match crate::connectors::find(name) {
                Some(connector) => (Some(connector.agent().id), prefix),
                None => (None, id),
            },
            None => (None, id),
        };
        if prefix.is_empty() {
            return Err(unknown());
        }
        let mut begin = (agent, prefix);
        let mut found = store.sessions_by_prefix(begin, self.now)?;
        if let (true, None, Some((name, prefix))) = (found.is_empty(), agent, id.split_once(':')) {
            // An import may tell of an agent that this program cannot read.
            begin = (Some(name), prefix);
            found = store.sessions_by_prefix(begin, self.now)?;
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
                count: store.count_by_prefix(begin)?,
                candidates: self.named_candidates(found),
            }),
        }
    }

    /// Reads a run of a session's messages, each with its position.
    pub fn messages(&self, entry: &Entry, range: Range<u64>) -> Result<Vec<(u64, Message)>> {
        let mut messages = self.stored_messages(entry, range)?;
        if let Some(mut redactor) = self.view_redactor() {
            for (_, message) in &mut messages {
                redactor.recorded(message);
            }
        }
        Ok(messages)
    }

    /// Reads a run of a session's messages, as they were recorded.
    pub(crate) fn stored_messages(
        &self,
        entry: &Entry,
        range: Range<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        self.store.as_ref().map_or(Ok(Vec::new()), |store| store.messages(entry.telling, range))
    }

    /// Reads messages of a session in order, never many at a time.
    pub fn each_message(
        &self,
        entry: &Entry,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, Message) -> Result<()>,
    ) -> Result<()> {
        let read = |store: &Store| store.each_message_in(entry.telling, range, take);
        self.store.as_ref().map_or(Ok(()), read)
    }

    /// Says what of a session's files the journal does not have.
    pub fn notices(&self, entry: &Entry) -> Result<Vec<String>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let skipped = store.skipped_of_session(entry.key)?;
        let mut notices = Vec::new();
        if let Some(lines) = skipped.get(jsonl::LINE_TOO_LONG) {
            let lines =
                if *lines == 1 { "a line is".to_owned() } else { format!("{lines} lines are") };
            let limit = self.config.max_line_bytes >> 20;
            notices.push(format!("{lines} left out: longer than {limit} MiB (index.max_line_mb)"));
        }
        Ok(notices)
    }

    /// Reads what is recorded about a session as a whole, wherever it is told.
    pub fn account(&self, entry: &Entry) -> Result<Option<Session>> {
        let mut account = self.stored_account(entry)?;
        if let (Some(account), Some(mut redactor)) = (&mut account, self.view_redactor()) {
            redactor.account(account);
        }
        Ok(account)
    }

    /// Reads what is recorded about a session, as it was recorded.
    pub(crate) fn stored_account(&self, entry: &Entry) -> Result<Option<Session>> {
        self.store.as_ref().map_or(Ok(None), |store| store.whole_account(entry.key))
    }

    /// Reads the summaries about a session, the latest first.
    pub fn summaries(&self, entry: &Entry) -> Result<Vec<String>> {
        let id = SessionId { agent: entry.agent.clone(), native: entry.native_id.clone() };
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut summaries = store.summaries(&id, entry.telling)?;
        if let Some(mut redactor) = self.view_redactor() {
            for text in &mut summaries {
                redactor.own(text);
            }
        }
        Ok(summaries)
    }

    /// Reads the longer texts about a session, each with its name: plans, checkpoints, and the
    /// summaries that are not its title.
    pub fn documents(&self, entry: &Entry) -> Result<Vec<(String, String)>> {
        let mut documents = self.account(entry)?.unwrap_or_default().documents;
        let summaries = self.other_summaries(entry)?.into_iter();
        documents.extend(summaries.map(|text| ("summary".to_owned(), text)));
        Ok(documents)
    }

    /// Reads the summaries about a session that are not its title.
    pub(crate) fn other_summaries(&self, entry: &Entry) -> Result<Vec<String>> {
        let mut summaries = self.summaries(entry)?;
        summaries.retain(|text| text.trim() != entry.title);
        Ok(summaries)
    }

    /// Works out what somebody needs who takes a session over. Secrets are taken out of whole
    /// messages, before anything is cut out of them.
    pub fn brief(&self, entry: &Entry, redactor: &mut Redactor) -> Result<Brief> {
        let mut maker = BriefMaker::default();
        if let Some(store) = &self.store {
            for path in [&entry.cwd, &entry.project_path].into_iter().flatten() {
                redactor.add_home(path);
            }
            let mut account = self.stored_account(entry)?.unwrap_or_default();
            redactor.account(&mut account);
            maker.note(account.documents);
            store.each_message(entry.telling, |position, mut message: Message| {
                redactor.recorded(&mut message);
                maker.add(position, &message);
                Ok(())
            })?;
        }
        Ok(maker.finish())
    }

    /// Answers a query with at most `limit` sessions, after the first `offset`.
    pub fn search(&self, query: &Query, limit: usize, offset: usize) -> Result<Answer> {
        self.find(query, &Options { limit, offset, ..Options::default() })
    }

    /// Answers a query. One of fields alone lists what they choose, the latest first: messages,
    /// where a field is about messages, else sessions.
    pub fn find(&self, query: &Query, options: &Options) -> Result<Answer> {
        let mut answer = self.stored_answer(query, options)?;
        if let Some(mut redactor) = self.view_redactor() {
            self.redact_answer(&mut answer, &mut redactor)?;
        }
        Ok(answer)
    }

    fn stored_answer(&self, query: &Query, options: &Options) -> Result<Answer> {
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
        self.patiently(&|| self.answer(query, options))
    }

    /// Asks the index something that needs no meanings; `None` while the journal is empty.
    fn with_index<T: Send>(&self, ask: &dyn Fn(&Search<'_>) -> Result<T>) -> Result<Option<T>> {
        let Some(store) = &self.store else { return Ok(None) };
        if store.generation()? == 0 {
            return Ok(None);
        }
        let answer = || {
            let Some(lexical) = self.lexical()? else { return Ok(None) };
            let (path, helper, now) = (&*self.config.index_dir, &*self.helper, self.now);
            let stop = &self.stop;
            let search =
                Search { store, lexical: &lexical, semantic: None, path, helper, stop, now };
            match ask(&search) {
                Err(Error::Index { .. }) => Ok(None),
                asked => asked.map(Some),
            }
        };
        self.patiently(&answer).map(Some)
    }

    /// Asks the index until it answers: one that cannot be used is made anew, one that another
    /// process makes is waited for.
    fn patiently<T>(&self, answer: &dyn Fn() -> Result<Option<T>>) -> Result<T> {
        let mut is_mended = false;
        for _ in 0..PATIENCE {
            // What panics on an index that was made anew is no fault of the index.
            let answered =
                if is_mended { answer()? } else { guarded(answer).transpose()?.flatten() };
            if let Some(answer) = answered {
                return Ok(answer);
            }
            let lock = self.config.journal_dir.join("lock");
            // Whoever held the lock may have made it.
            if let Some(_lock) = Lock::take(&lock, Some(PAUSE), &mut |_| {})?
                && guarded(answer).transpose()?.flatten().is_none()
            {
                self.mend_index()?;
                is_mended = true;
            }
        }
        Err(Error::Busy { path: self.path.clone() })
    }

    /// Answers a query; `None` when the index cannot be used.
    fn answer(&self, query: &Query, options: &Options) -> Result<Option<Answer>> {
        let empty = Answer { mode: options.mode, ..Answer::default() };
        let Some(store) = &self.store else { return Ok(Some(empty)) };
        if store.generation()? == 0 {
            return Ok(Some(empty));
        }
        let Some(lexical) = self.lexical()? else { return Ok(None) };
        let is_meant = query.has_meaning(options.mode);
        let journal = store.identity()?;
        let semantic = is_meant.then(|| Semantic::serving(&self.config, journal)).flatten();
        let uncovered = semantic.as_ref().map_or(Ok(0), |semantic| uncovered(store, semantic))?;
        let semantic = semantic.and_then(|semantic| self.index.semantic(semantic));
        // By words alone where there are no vectors.
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

    /// Makes the index anew. The caller holds the lock.
    fn mend_index(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        LexicalWriter::discard(&self.lexical_dir())?;
        // Somebody waits for an answer: meanings have to wait.
        let options = SyncOptions { budget: Some(Duration::ZERO), ..SyncOptions::default() };
        let (config, store_path, progress) = (&self.config, &self.path, &mut { self.tell });
        Sync { config, store, store_path, options, progress }.open_index()?.close()
    }

    /// Sums up what the chosen sessions did and spent.
    pub fn stats(&self, query: &StatsQuery) -> Result<Stats> {
        self.check_agents(&query.filter)?;
        let prices = Prices::new(&self.config.prices);
        let mut stats = analyze::stats(self.store.as_ref(), query, &prices)?;
        if let Some(mut redactor) = self.view_redactor() {
            self.redact_stats(&mut stats, &mut redactor)?;
        }
        Ok(stats)
    }

    /// Sums up what was spent from an instant on.
    pub fn spent_since(&self, since: Timestamp) -> Result<Figures> {
        let prices = Prices::new(&self.config.prices);
        let spent = |store| analyze::spent_since(store, since, &prices);
        self.store.as_ref().map_or_else(|| Ok(Figures::default()), spent)
    }

    /// Scores the chosen sessions, by repository and by agent.
    pub fn score(&self, query: &StatsQuery) -> Result<ScoreReport> {
        self.check_agents(&query.filter)?;
        let known = Known {
            servers: &|projects| mcp_config::servers(&self.machine, projects),
            agent_name: &|id| {
                let agent = Self::agents().find(|agent| agent.id == id);
                agent.map_or(id, |agent| agent.name).to_owned()
            },
        };
        analyze::score(self.store.as_ref(), query, &known)
    }

    /// Works out what sessions did and spent, each by the calls it made first, by itself and
    /// together with its sub-agents.
    pub fn session_figures(&self, entries: &[Entry]) -> Result<Vec<SessionFigures>> {
        let nothing = || vec![SessionFigures::default(); entries.len()];
        let Some(store) = &self.store else { return Ok(nothing()) };
        let keys: Vec<u64> = entries.iter().map(|entry| entry.key).collect();
        analyze::session_figures(store, &keys, &Prices::new(&self.config.prices))
    }

    /// Tells what was looked at and found, agent by agent.
    pub fn sources(&self) -> Result<Vec<AgentReport>> {
        let mut reports = Vec::new();
        for connector in ALL {
            let agent = connector.agent();
            let roots = sync::roots(*connector, &self.config, &self.machine);
            let totals = self.store.as_ref().map(|store| store.totals(agent.id)).transpose()?;
            reports.push(AgentReport {
                agent,
                id: agent.id,
                name: agent.name,
                roots: roots
                    .into_iter()
                    .map(|root| RootReport {
                        present: glob::base(&root.path).exists(),
                        path: root.path,
                        configured: root.configured,
                    })
                    .collect(),
                scans_below: connector.scans_below(),
                retention: connector.retention(&self.machine),
                totals: totals.unwrap_or_default(),
            });
        }
        Ok(reports)
    }

    /// Lists the places that the user named and that are not there.
    pub fn absent_places(&self) -> Vec<PathBuf> {
        let roots = ALL.iter().flat_map(|one| sync::roots(*one, &self.config, &self.machine));
        let named = roots.filter(|root| root.configured).map(|root| root.path);
        named.filter(|path| !glob::base(path).exists()).collect()
    }
}

/// Counts the sessions that cannot be found by meaning yet.
fn uncovered(store: &Store, semantic: &Semantic) -> Result<u64> {
    let generation = semantic.generation();
    if generation == store.generation()? {
        return Ok(0);
    }
    let (covered, sessions) = store.settled_sessions(generation)?;
    Ok(sessions - covered)
}

/// Leaves the sessions out that have no message, where another of the same id has some: a note
/// about a session never stands in the way of the session.
fn leave_out_bare(entries: &mut Vec<Entry>) {
    let talks = |entry: &Entry| entry.transcript_length() > 0;
    let ids: HashSet<String> =
        entries.iter().filter(|entry| talks(entry)).map(|entry| entry.native_id.clone()).collect();
    entries.retain(|entry| talks(entry) || !ids.contains(&entry.native_id));
}
