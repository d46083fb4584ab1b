//! The thread that owns the journal, so that no keystroke waits for a query. Only the newest
//! request of each kind is answered.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_journal::connectors::Machine;
use agent_journal::export::{ExportOptions, Format};
use agent_journal::search::{Hit, Mode, SearchOptions, Snippet};
use agent_journal::{Config, Entry, Journal, Resumption};
use anyhow::Result;
use jiff::{Timestamp, Zoned};
use ratatui::text::Line;

use super::action::{LandmarkKind, Way};
use super::filters::FieldFacets;
use super::{answer, written};
use crate::output::transcript::ShownParts;

/// Everything that is needed to open the journal again after a sync.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) config: Config,
    pub(super) machine: Machine,
    pub(super) now: Zoned,
    /// The options of exports.
    pub(super) options: ExportOptions,
    /// The mode of searches.
    pub(super) mode: Mode,
}

impl Door {
    pub(super) fn open_journal(&self) -> Result<Journal> {
        Ok(Journal::open(self.config.clone(), self.machine.clone())?)
    }

    /// Sets the current time, because the UI may be open for hours.
    pub(super) fn set_clock(&mut self) {
        self.now = Timestamp::now().to_zoned(self.now.time_zone().clone());
    }
}

/// A request to the journal.
pub(super) enum Question {
    /// The sessions that match the typed query.
    Find { text: String, limit: usize },
    /// A part of the session that is read.
    Window(RequestedWindow),
    /// A part of the selected session.
    Preview(RequestedWindow),
    /// The next occurrence of a goal, starting at a message.
    Seek { window: RequestedWindow, goal: Goal, way: Way, here: u64 },
    /// The session in an export format.
    Export { entry: Box<Entry>, format: &'static dyn Format, purpose: Purpose },
    /// The command that resumes the session.
    Resume { entry: Box<Entry>, intent: Intent },
    /// The values to filter by.
    Facets,
    /// The statistics of the filtered sessions.
    Stats { text: String, width: usize },
}

/// Number of request kinds. The queue has one slot for each.
pub(super) const KINDS: usize = 8;

impl Question {
    /// Returns the slot of the request. Lower slots are answered first.
    pub(super) fn question_slot(&self) -> usize {
        match self {
            Self::Find { .. } => 0,
            Self::Window(_) => 1,
            Self::Preview(_) => 2,
            Self::Seek { .. } => 3,
            Self::Export { .. } => 4,
            Self::Resume { .. } => 5,
            Self::Facets => 6,
            Self::Stats { .. } => 7,
        }
    }
}

/// A part of a session with its view options.
#[derive(Clone)]
pub(super) struct RequestedWindow {
    pub(super) entry: Box<Entry>,
    pub(super) range: Range<u64>,
    pub(super) view: ViewOptions,
}

/// Options for rendering messages.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ViewOptions {
    pub(super) detail: ShownParts,
    pub(super) width: usize,
    /// Tool calls whose fold state is the opposite of the one in `detail`.
    pub(super) flipped: Arc<BTreeSet<String>>,
    /// The message that is unfolded because of a match in its tools or its reasoning.
    pub(super) opened: Option<u64>,
}

/// The target of a seek in a session.
#[derive(Clone)]
pub(super) enum Goal {
    Landmark(LandmarkKind),
    Text(String),
}

/// The result of a seek.
pub(super) struct Landing {
    pub(super) message: u64,
    /// Whether a part of the match is visible only after unfolding the message.
    pub(super) is_folded: bool,
}

/// The purpose of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Keep the file in the working directory.
    Keep,
    /// View it in a browser.
    Browse,
    /// View it in an editor.
    Edit,
}

/// The purpose of a resume command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Run,
    Copy,
}

/// A response of the journal.
pub(super) enum WorkerAnswer {
    Found(Result<FoundSessions, String>),
    Window(Result<Pages, String>),
    Preview(Result<Pages, String>),
    Landed(Result<Option<Landing>, String>),
    Exported(Result<PathBuf, String>, Purpose),
    Resumption(Result<Resumption, String>, Intent),
    Facets(FieldFacets),
    Stats(Result<Vec<Line<'static>>, String>),
}

impl WorkerAnswer {
    /// Returns the slot of the request.
    pub(super) fn answer_slot(&self) -> usize {
        match self {
            Self::Found(_) => 0,
            Self::Window(_) => 1,
            Self::Preview(_) => 2,
            Self::Landed(_) => 3,
            Self::Exported(..) => 4,
            Self::Resumption(..) => 5,
            Self::Facets(_) => 6,
            Self::Stats(_) => 7,
        }
    }
}

/// The sessions that match a query.
pub(super) struct FoundSessions {
    pub(super) items: Vec<SessionItem>,
    pub(super) total: u64,
    /// The kind of match, if it is not exact.
    pub(super) note: Option<String>,
    pub(super) took: Duration,
}

/// A session in the list, with its hits.
#[derive(Clone)]
pub(super) struct SessionItem {
    pub(super) entry: Entry,
    pub(super) hits: Vec<Hit>,
    /// The highlighted title, if it matched too.
    pub(super) title: Option<Snippet>,
}

/// Rendered messages of a session.
pub(super) struct Pages {
    pub(super) id: String,
    pub(super) view: ViewOptions,
    pub(super) facts: Vec<Line<'static>>,
    pub(super) messages: Vec<(u64, Vec<RenderedRow>)>,
}

/// A rendered line of a message.
pub(super) struct RenderedRow {
    pub(super) line: Line<'static>,
    /// The tool call that it belongs to.
    pub(super) call: Option<Arc<str>>,
    pub(super) mark: RowMark,
}

/// The part of a message that begins with this row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowMark {
    None,
    Call,
    Failure,
}

/// A handle to the worker thread.
pub(super) struct WorkerHandle {
    shared: Arc<SharedMailbox>,
}

#[derive(Default)]
struct SharedMailbox {
    mailbox: Mutex<Mailbox>,
    bell: Condvar,
}

#[derive(Default)]
struct Mailbox {
    questions: [Option<(u64, Question)>; KINDS],
    is_stale: bool,
}

impl WorkerHandle {
    /// Starts the thread. It calls `on_answer` with each response and the number of its request.
    pub(super) fn start_worker(
        door: Door,
        on_answer: impl Fn(u64, WorkerAnswer) + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(SharedMailbox::default());
        let journal = door.open_journal()?;
        let other = Arc::clone(&shared);
        std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
            serve_requests(&other, journal, door, on_answer);
        })?;
        Ok(Self { shared })
    }

    /// Submits a request. It replaces a waiting request of the same kind.
    pub(super) fn submit_request(&self, number: u64, question: Question) {
        let kind = question.question_slot();
        self.shared.lock_mailbox().questions[kind] = Some((number, question));
        self.shared.bell.notify_one();
    }

    /// Makes the worker open the journal again before the next response.
    pub(super) fn refresh_journal(&self) {
        self.shared.lock_mailbox().is_stale = true;
    }
}

impl SharedMailbox {
    fn lock_mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next request. Also returns whether the journal must be opened again.
    fn next_request(&self) -> (u64, Question, bool) {
        let mut mailbox = self.lock_mailbox();
        loop {
            if let Some((number, question)) = mailbox.questions.iter_mut().find_map(Option::take) {
                return (number, question, std::mem::take(&mut mailbox.is_stale));
            }
            mailbox = self.bell.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn serve_requests(
    shared: &SharedMailbox,
    mut journal: Journal,
    mut door: Door,
    on_answer: impl Fn(u64, WorkerAnswer),
) {
    loop {
        let (number, question, is_stale) = shared.next_request();
        if is_stale && let Ok(opened) = door.open_journal() {
            journal = opened;
        }
        door.set_clock();
        on_answer(number, answer_request(&journal, &door, question));
    }
}

/// Answers one request.
pub(super) fn answer_request(journal: &Journal, door: &Door, question: Question) -> WorkerAnswer {
    match question {
        Question::Find { text, limit } => {
            let started = Instant::now();
            let options = SearchOptions { limit, mode: door.mode, ..SearchOptions::default() };
            let found = answer::find_sessions_as_typed(journal, &text, &options, &door.now);
            let found = found.map(|found| FoundSessions { took: started.elapsed(), ..found });
            WorkerAnswer::Found(found.map_err(error_on_one_line))
        }
        Question::Window(window) => WorkerAnswer::Window(
            answer::render_pages(journal, &window, &door.now).map_err(error_on_one_line),
        ),
        Question::Preview(window) => WorkerAnswer::Preview(
            answer::render_pages(journal, &window, &door.now).map_err(error_on_one_line),
        ),
        Question::Seek { window, goal, way, here } => WorkerAnswer::Landed(
            answer::seek_landing(journal, &window, &goal, way, here).map_err(error_on_one_line),
        ),
        Question::Export { entry, format, purpose } => {
            let written = written::write_export(journal, &entry, format, door, purpose);
            WorkerAnswer::Exported(written.map_err(error_on_one_line), purpose)
        }
        Question::Resume { entry, intent } => {
            let resumption =
                journal.plan_resume(&entry, None).map_err(Into::into).map_err(error_on_one_line);
            WorkerAnswer::Resumption(resumption, intent)
        }
        Question::Facets => WorkerAnswer::Facets(FieldFacets::load_facets(journal)),
        Question::Stats { text, width } => WorkerAnswer::Stats(
            answer::render_stats(journal, &text, width, &door.now).map_err(error_on_one_line),
        ),
    }
}

/// Formats an error in one line.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn error_on_one_line(failure: anyhow::Error) -> String {
    let mut message = String::new();
    for cause in failure.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    crate::output::plain_text(&message).replace('\n', " ")
}
