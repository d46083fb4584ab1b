//! What is on the screen, and how actions and answers change it. Nothing here draws or waits:
//! what has to be done outside is left as effects.

use std::path::PathBuf;

use agent_journal::{Entry, Resumption};
use jiff::Zoned;
use ratatui::layout::Size;
use ratatui::text::Line;

use super::action::{Action, Menu, Screen, Step, Way};
use super::complete::Completion;
use super::filters::{Chooser, Facets};
use super::input::{Edit, Input};
use super::keys::Mode;
use super::layout;
use super::reader::Reader;
use super::results::Results;
use super::worker::{Answer, Goal, Intent, KINDS, Purpose, Question};

/// Everything the screen shows.
pub(super) struct State {
    pub(super) now: Zoned,
    pub(super) size: Size,
    pub(super) focus: Focus,
    pub(super) overlay: Option<Overlay>,
    pub(super) input: Input,
    pub(super) completion: Completion,
    pub(super) results: Results,
    pub(super) preview: Option<Reader>,
    pub(super) reader: Option<Reader>,
    /// What is being typed to be found in the session.
    pub(super) find: Option<Input>,
    /// What is being sought in the session.
    pub(super) sought: Option<(Goal, Way)>,
    pub(super) stats: Option<Scrolled>,
    pub(super) help: usize,
    pub(super) facets: Facets,
    pub(super) notice: Option<Notice>,
    pub(super) news: News,
    pub(super) effects: Vec<Effect>,
    /// Whether an editor is about to have the terminal: its keys are not for us.
    pub(super) is_lending: bool,
    asked: [u64; KINDS],
}

/// Where the keyboard goes on the first screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Search,
    List,
}

/// What lies over a screen.
#[derive(Clone, Debug)]
pub(super) enum Overlay {
    Help,
    Filters(Chooser),
    Menu(Menu),
}

/// Lines that may be more than the screen has.
#[derive(Default)]
pub(super) struct Scrolled {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) top: usize,
    pub(super) is_here: bool,
}

/// One line about what just happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Done(String),
    Failed(String),
}

/// How fresh the journal is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum News {
    /// Nobody looks.
    #[default]
    Unasked,
    Looking,
    Reading {
        bytes: u64,
        of: u64,
    },
    UpToDate,
    /// Another process is reading.
    Busy,
    Failed(String),
}

/// Something to be done outside.
pub(super) enum Effect {
    Ask(u64, Question),
    Copy(String),
    Browse(PathBuf),
    Edit(PathBuf),
    Resume(Resumption),
    Sync,
    Quit,
}

impl State {
    pub(super) fn new(query: &str, now: Zoned, size: Size) -> Self {
        let mut state = Self {
            now,
            size,
            focus: Focus::Search,
            overlay: None,
            input: Input::new(query),
            completion: Completion::default(),
            results: Results::default(),
            preview: None,
            reader: None,
            find: None,
            sought: None,
            stats: None,
            help: 0,
            facets: Facets::default(),
            notice: None,
            news: News::default(),
            effects: Vec::new(),
            is_lending: false,
            asked: [0; KINDS],
        };
        state.search();
        state.ask(Question::Facets);
        state
    }

    /// Where the keyboard goes.
    pub(super) fn mode(&self) -> Mode {
        match &self.overlay {
            Some(Overlay::Help) => Mode::Help,
            Some(Overlay::Filters(_)) => Mode::Filters,
            Some(Overlay::Menu(_)) => Mode::Menu,
            None if self.stats.is_some() => Mode::Stats,
            None if self.find.is_some() => Mode::Find,
            None if self.reader.is_some() => Mode::Reading,
            None if self.focus == Focus::List => Mode::List,
            None => Mode::Search,
        }
    }

    /// The session everything is about: the one being read, or the chosen one.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match &self.reader {
            Some(reader) => Some(&reader.entry),
            None => self.results.chosen().map(|item| &item.entry),
        }
    }

    /// Leaves a question for the worker.
    pub(super) fn ask(&mut self, question: Question) {
        let number = &mut self.asked[question.kind()];
        *number += 1;
        self.effects.push(Effect::Ask(*number, question));
    }

    /// Does what was asked for.
    pub(super) fn apply(&mut self, action: Action) {
        self.notice = None;
        match action {
            Action::Quit => self.effects.push(Effect::Quit),
            Action::Back => self.back(),
            Action::Open => self.open(),
            Action::Move(step) => self.step(step),
            Action::Hit(way) => self.hit(way),
            Action::FocusSearch => self.focus = Focus::Search,
            Action::Edit(edit) => self.edit(&edit),
            Action::Complete(way) => self.complete(way),
            Action::Toggle => self.toggle(),
            Action::Column(way) => self.column(way),
            Action::Show(screen) => self.show(screen),
            Action::Menu(menu) => self.overlay = Some(Overlay::Menu(menu)),
            Action::Pick(letter) => self.pick(letter),
            Action::Resume => self.resume(Intent::Run),
            Action::Refresh => self.effects.push(Effect::Sync),
            Action::Jump(landmark, way) => self.jump(landmark, way),
            Action::Find => self.find = Some(Input::default()),
            Action::FindAgain(way) => self.find_again(way),
            Action::Fold(fold) => self.fold(fold),
            Action::Turn => self.turn(None),
            Action::Click(at) => self.click(at),
            Action::Wheel(at, way) => self.wheel(at, way),
        }
        self.read_on();
    }

    /// Takes in what the worker says; what is no longer asked for is left alone.
    pub(super) fn hear(&mut self, number: u64, answer: Answer) {
        if self.asked[answer.kind()] != number {
            return;
        }
        match answer {
            Answer::Found(found) => self.found(found),
            Answer::Window(pages) => match (pages, &mut self.reader) {
                (Ok(pages), Some(reader)) => reader.accept(pages),
                (Err(error), _) => self.notice = Some(Notice::Failed(error)),
                _ => {}
            },
            Answer::Preview(pages) => match (pages, &mut self.preview) {
                (Ok(pages), Some(preview)) => preview.accept(pages),
                (Err(error), _) => self.notice = Some(Notice::Failed(error)),
                _ => {}
            },
            Answer::Landed(place) => self.landed(place),
            Answer::Exported(path, purpose) => self.exported(path, purpose),
            Answer::Resumption(resumption, intent) => self.resumed(resumption, intent),
            Answer::Facets(facets) => {
                self.facets = facets;
                self.offer();
            }
            Answer::Stats(Ok(lines)) => {
                let top = self.stats.as_ref().map_or(0, |stats| stats.top);
                self.stats = self.stats.is_some().then_some(Scrolled { lines, top, is_here: true });
            }
            Answer::Stats(Err(error)) => self.notice = Some(Notice::Failed(error)),
        }
        self.read_on();
    }

    /// The screen has another size.
    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
        self.results.reveal(layout::browse(size).results.height);
        if let Some(reader) = &mut self.reader {
            let area = layout::reading(size).text;
            let view = super::worker::View { width: area.width.into(), ..reader.view.clone() };
            reader.show(view, area.height.into());
        }
        self.preview = None;
        self.look();
        if self.stats.is_some() {
            self.show(Screen::Stats);
        }
        self.read_on();
    }

    /// There is news in the journal, or all of it is known.
    pub(super) fn learn(&mut self, news: News) {
        let is_done = matches!(news, News::UpToDate | News::Busy | News::Failed(_));
        let was_reading = matches!(self.news, News::Reading { .. });
        let is_first = self.results.found.is_none();
        self.news = news;
        if is_done && (was_reading || is_first) {
            self.renew();
        }
    }

    /// Asks again what the screen shows.
    pub(super) fn renew(&mut self) {
        self.search();
        self.ask(Question::Facets);
    }

    fn back(&mut self) {
        if self.overlay.take().is_some() || self.find.take().is_some() {
            return;
        }
        if self.stats.take().is_some() {
            return;
        }
        if self.reader.take().is_some() {
            return self.look();
        }
        self.focus = Focus::List;
    }

    fn edit(&mut self, edit: &Edit) {
        if let Some(find) = &mut self.find {
            find.edit(edit);
            return;
        }
        if self.mode() != Mode::Search {
            return;
        }
        // Nothing begins with a question mark: it asks for help.
        if *edit == Edit::Type('?') && self.input.text.is_empty() {
            return self.show(Screen::Help);
        }
        if self.input.edit(edit) {
            self.search();
        }
        self.offer();
    }

    fn show(&mut self, screen: Screen) {
        match screen {
            Screen::Help => {
                self.help = 0;
                self.overlay = Some(Overlay::Help);
            }
            Screen::Filters => self.overlay = Some(Overlay::Filters(Chooser::default())),
            Screen::Stats => {
                self.stats = Some(Scrolled::default());
                let width = usize::from(layout::stats(self.size).text.width);
                self.ask(Question::Stats { text: self.input.text.clone(), width });
            }
        }
    }

    fn step(&mut self, step: Step) {
        let page = usize::from(self.size.height.saturating_sub(4).max(1));
        match (&mut self.overlay, &mut self.stats, &mut self.reader) {
            (Some(Overlay::Help), _, _) => {
                let last = super::panes::help::length(self.size).saturating_sub(1);
                self.help = stepped(self.help, step, (page, last));
            }
            (Some(Overlay::Filters(chooser)), _, _) => {
                let values = self.facets.columns.get(chooser.column).map(|it| it.values.len());
                let last = values.unwrap_or(0).saturating_sub(1);
                chooser.move_to(stepped(chooser.row(chooser.column), step, (page, last)));
            }
            (_, Some(stats), _) => {
                let shown = usize::from(layout::stats(self.size).text.height);
                let last = stats.lines.len().saturating_sub(shown);
                stats.top = stepped(stats.top, step, (page, last));
            }
            (_, _, Some(reader)) => read_step(reader, step),
            _ => self.choose(step),
        }
    }

    fn exported(&mut self, path: Result<PathBuf, String>, purpose: Purpose) {
        self.is_lending = false;
        let path = match path {
            Ok(path) => path,
            Err(error) => return self.notice = Some(Notice::Failed(error)),
        };
        match purpose {
            Purpose::Keep => {
                self.notice = Some(Notice::Done(format!("written to {}", path.display())));
            }
            Purpose::Browse => self.effects.push(Effect::Browse(path)),
            Purpose::Edit => self.effects.push(Effect::Edit(path)),
        }
    }
}

fn read_step(reader: &mut Reader, step: Step) {
    let page = reader.height.saturating_sub(2).max(1) as isize;
    match step {
        Step::Line(Way::Next) => reader.scroll(1),
        Step::Line(Way::Previous) => reader.scroll(-1),
        Step::Page(Way::Next) => reader.scroll(page),
        Step::Page(Way::Previous) => reader.scroll(-page),
        Step::First => reader.go(0),
        Step::Last => reader.go(u64::MAX),
    }
}

/// Moves in a list of which `last` is the last place.
pub(super) fn stepped(at: usize, step: Step, (page, last): (usize, usize)) -> usize {
    match step {
        Step::Line(Way::Next) => (at + 1).min(last),
        Step::Line(Way::Previous) => at.saturating_sub(1),
        Step::Page(Way::Next) => (at + page).min(last),
        Step::Page(Way::Previous) => at.saturating_sub(page),
        Step::First => 0,
        Step::Last => last,
    }
}
