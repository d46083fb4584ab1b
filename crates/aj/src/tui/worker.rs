//! The thread that owns the journal, so that no keystroke waits for an answer. Of the questions
//! of one kind only the newest is answered.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_journal::connectors::Machine;
use agent_journal::export::{Format, Options};
use agent_journal::search::{Hit, Snippet};
use agent_journal::{Config, Entry, Journal, Resumption};
use anyhow::Result;
use jiff::{Timestamp, Zoned};
use ratatui::text::Line;

use super::action::{Landmark, Way};
use super::filters::Facets;
use super::{answer, written};
use crate::output::transcript::Detail;

/// What is needed to open the journal, as often as there is news in it.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) config: Config,
    pub(super) machine: Machine,
    pub(super) now: Zoned,
    /// How sessions are written down.
    pub(super) options: Options,
}

impl Door {
    pub(super) fn open(&self) -> Result<Journal> {
        Ok(Journal::open(self.config.clone(), self.machine.clone())?)
    }

    /// Sets its clock: a screen is open for hours.
    pub(super) fn set_clock(&mut self) {
        self.now = Timestamp::now().to_zoned(self.now.time_zone().clone());
    }
}

/// Something to ask the journal.
pub(super) enum Question {
    /// Sessions that fit what is typed.
    Find { text: String, limit: usize },
    /// A part of the session that is read.
    Window(Window),
    /// A part of the session that is chosen.
    Preview(Window),
    /// Where the next landmark is, seen from a message.
    Seek { window: Window, goal: Goal, way: Way, here: u64 },
    /// A session in another form.
    Export { entry: Box<Entry>, format: &'static dyn Format, purpose: Purpose },
    /// How to go on with a session.
    Resume { entry: Box<Entry>, intent: Intent },
    /// What there is to filter by.
    Facets,
    /// What the chosen sessions come to.
    Stats { text: String, width: usize },
}

/// Kinds of questions.
pub(super) const KINDS: usize = 8;

impl Question {
    /// Its kind; the lower ones are answered first.
    pub(super) fn kind(&self) -> usize {
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

/// A part of a session, and how it is to be shown.
#[derive(Clone)]
pub(super) struct Window {
    pub(super) entry: Box<Entry>,
    pub(super) range: Range<u64>,
    pub(super) view: View,
}

/// How messages are shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) detail: Detail,
    pub(super) width: usize,
    /// Calls that are folded or unfolded against what `detail` says.
    pub(super) flipped: Arc<BTreeSet<String>>,
    /// The message that is unfolded because something was found in its tools or its reasoning.
    pub(super) opened: Option<u64>,
}

/// What is sought in a session.
#[derive(Clone)]
pub(super) enum Goal {
    Landmark(Landmark),
    Text(String),
}

/// Where something was sought and found.
pub(super) struct Landing {
    pub(super) message: u64,
    /// Whether some of it is seen only when the message is unfolded.
    pub(super) is_folded: bool,
}

/// What an exported session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To stay, in the working directory.
    Keep,
    /// To be looked at in a browser.
    Browse,
    /// To be looked at in an editor.
    Edit,
}

/// What a resume command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Run,
    Copy,
}

/// What the journal says.
pub(super) enum Answer {
    Found(Result<Found, String>),
    Window(Result<Pages, String>),
    Preview(Result<Pages, String>),
    Landed(Result<Option<Landing>, String>),
    Exported(Result<PathBuf, String>, Purpose),
    Resumption(Result<Resumption, String>, Intent),
    Facets(Facets),
    Stats(Result<Vec<Line<'static>>, String>),
}

impl Answer {
    /// The kind of its question.
    pub(super) fn kind(&self) -> usize {
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

/// Sessions that fit.
pub(super) struct Found {
    pub(super) items: Vec<Item>,
    pub(super) total: u64,
    /// How closely they fit, when that is worth a word.
    pub(super) note: Option<&'static str>,
    pub(super) took: Duration,
}

/// A session in the list, with the places that were found in it.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) entry: Entry,
    pub(super) hits: Vec<Hit>,
    /// The title, when it was found too.
    pub(super) title: Option<Snippet>,
}

/// Messages as they are shown.
pub(super) struct Pages {
    pub(super) id: String,
    pub(super) view: View,
    pub(super) facts: Vec<Line<'static>>,
    pub(super) messages: Vec<(u64, Vec<Row>)>,
}

/// A line of a message.
pub(super) struct Row {
    pub(super) line: Line<'static>,
    /// The call it belongs to.
    pub(super) call: Option<Arc<str>>,
    pub(super) mark: Mark,
}

/// What a line is the first of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Call,
    Failure,
}

/// The worker, seen from the screen.
pub(super) struct Worker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    bell: Condvar,
}

#[derive(Default)]
struct Mailbox {
    questions: [Option<(u64, Question)>; KINDS],
    is_stale: bool,
}

impl Worker {
    /// Starts the thread; `tell` is called with each answer and the number of its question.
    pub(super) fn start(door: Door, tell: impl Fn(u64, Answer) + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let journal = door.open()?;
        let other = Arc::clone(&shared);
        std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
            serve(&other, journal, door, tell);
        })?;
        Ok(Self { shared })
    }

    /// Asks; an older question of the same kind that still waits is forgotten.
    pub(super) fn ask(&self, number: u64, question: Question) {
        let kind = question.kind();
        self.shared.lock().questions[kind] = Some((number, question));
        self.shared.bell.notify_one();
    }

    /// Tells that there is news: later answers are to have it.
    pub(super) fn refresh(&self) {
        self.shared.lock().is_stale = true;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next question, and tells whether there was news since the last.
    fn next(&self) -> (u64, Question, bool) {
        let mut mailbox = self.lock();
        loop {
            if let Some((number, question)) = mailbox.questions.iter_mut().find_map(Option::take) {
                return (number, question, std::mem::take(&mut mailbox.is_stale));
            }
            mailbox = self.bell.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn serve(shared: &Shared, mut journal: Journal, mut door: Door, tell: impl Fn(u64, Answer)) {
    loop {
        let (number, question, is_stale) = shared.next();
        if is_stale && let Ok(opened) = door.open() {
            journal = opened;
        }
        door.set_clock();
        tell(number, reply(&journal, &door, question));
    }
}

/// Answers one question.
pub(super) fn reply(journal: &Journal, door: &Door, question: Question) -> Answer {
    match question {
        Question::Find { text, limit } => {
            let started = Instant::now();
            let found = answer::find(journal, &text, limit, &door.now);
            let found = found.map(|found| Found { took: started.elapsed(), ..found });
            Answer::Found(found.map_err(said))
        }
        Question::Window(window) => {
            Answer::Window(answer::pages(journal, &window, &door.now).map_err(said))
        }
        Question::Preview(window) => {
            Answer::Preview(answer::pages(journal, &window, &door.now).map_err(said))
        }
        Question::Seek { window, goal, way, here } => {
            Answer::Landed(answer::seek(journal, &window, &goal, (way, here)).map_err(said))
        }
        Question::Export { entry, format, purpose } => {
            let written = written::write(journal, &entry, format, (door, purpose));
            Answer::Exported(written.map_err(said), purpose)
        }
        Question::Resume { entry, intent } => {
            let resumption = journal.resume(&entry, None).map_err(Into::into).map_err(said);
            Answer::Resumption(resumption, intent)
        }
        Question::Facets => Answer::Facets(Facets::of(journal)),
        Question::Stats { text, width } => {
            Answer::Stats(answer::stats(journal, &text, width, &door.now).map_err(said))
        }
    }
}

/// An error as one line.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn said(failure: anyhow::Error) -> String {
    let mut message = String::new();
    for cause in failure.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.ends_with(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    crate::output::plain(&message).replace('\n', " ")
}
