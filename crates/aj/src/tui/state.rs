//! The state of the terminal UI, and its changes by actions and responses. This code neither draws
//! nor waits; external work is queued as effects.

use std::path::PathBuf;

use agent_journal::{Entry, Resumption};
use jiff::Zoned;
use ratatui::layout::Size;
use ratatui::text::Line;

use super::action::{Menu, MoveStep, OpenScreen, UserAction, Way};
use super::complete::WordCompletion;
use super::filters::{Chooser, FieldFacets};
use super::input::{LineEdit, LineInput};
use super::keys::InputMode;
use super::layout;
use super::reader::TranscriptReader;
use super::results::ResultList;
use super::worker::{Goal, Intent, KINDS, Purpose, Question, WorkerAnswer};

/// The state of the terminal UI.
pub(super) struct TuiState {
    pub(super) now: Zoned,
    pub(super) size: Size,
    pub(super) focus: Focus,
    pub(super) overlay: Option<Overlay>,
    pub(super) input: LineInput,
    pub(super) completion: WordCompletion,
    pub(super) results: ResultList,
    pub(super) preview: Option<TranscriptReader>,
    pub(super) reader: Option<TranscriptReader>,
    /// The text to find in the session, while it is typed.
    pub(super) find: Option<LineInput>,
    /// The goal and direction of the running seek.
    pub(super) sought: Option<(Goal, Way)>,
    pub(super) stats: Option<Scrolled>,
    pub(super) help: usize,
    pub(super) facets: FieldFacets,
    pub(super) notice: Option<ActionNotice>,
    pub(super) sync: SyncProgress,
    pub(super) effects: Vec<Effect>,
    /// Whether an editor is about to use the terminal, so that no input may be read.
    pub(super) is_lending: bool,
    asked: [u64; KINDS],
}

/// The focus on the first screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Search,
    List,
}

/// An overlay over the current screen.
#[derive(Clone, Debug)]
pub(super) enum Overlay {
    Help,
    Filters(Chooser),
    Menu(Menu),
}

/// Lines that can be scrolled.
#[derive(Default)]
pub(super) struct Scrolled {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) top: usize,
    pub(super) is_here: bool,
}

/// A message about the last action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionNotice {
    Done(String),
    Failed(String),
}

/// The progress or result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum SyncProgress {
    /// No sync was started.
    #[default]
    Idle,
    Checking,
    Reading {
        bytes: u64,
        of: u64,
    },
    UpToDate,
    /// Another process is reading.
    Busy,
    Failed(String),
}

/// Work for the event loop.
pub(super) enum Effect {
    Ask(u64, Question),
    Copy(String),
    Browse(PathBuf),
    Edit(PathBuf),
    Resume(Resumption),
    Sync,
    Quit,
}

impl TuiState {
    pub(super) fn new(query: &str, now: Zoned, size: Size) -> Self {
        let mut state = Self {
            now,
            size,
            focus: Focus::Search,
            overlay: None,
            input: LineInput::new(query),
            completion: WordCompletion::default(),
            results: ResultList::default(),
            preview: None,
            reader: None,
            find: None,
            sought: None,
            stats: None,
            help: 0,
            facets: FieldFacets::default(),
            notice: None,
            sync: SyncProgress::default(),
            effects: Vec::new(),
            is_lending: false,
            asked: [0; KINDS],
        };
        state.request_search();
        state.ask_worker(Question::Facets);
        state
    }

    /// Returns the current input mode.
    pub(super) fn input_mode(&self) -> InputMode {
        match &self.overlay {
            Some(Overlay::Help) => InputMode::Help,
            Some(Overlay::Filters(_)) => InputMode::Filters,
            Some(Overlay::Menu(_)) => InputMode::Menu,
            None if self.stats.is_some() => InputMode::Stats,
            None if self.find.is_some() => InputMode::Find,
            None if self.reader.is_some() => InputMode::Reading,
            None if self.focus == Focus::List => InputMode::List,
            None => InputMode::Search,
        }
    }

    /// Returns the session that actions apply to: the one that is read, or the selected one.
    pub(super) fn current_entry(&self) -> Option<&Entry> {
        match &self.reader {
            Some(reader) => Some(&reader.entry),
            None => self.results.selected_item().map(|item| &item.entry),
        }
    }

    /// Queues a request for the worker.
    pub(super) fn ask_worker(&mut self, question: Question) {
        let number = &mut self.asked[question.question_slot()];
        *number += 1;
        self.effects.push(Effect::Ask(*number, question));
    }

    /// Applies an action of the user.
    pub(super) fn apply_action(&mut self, action: UserAction) {
        self.notice = None;
        match action {
            UserAction::Quit => self.effects.push(Effect::Quit),
            UserAction::Back => self.go_back(),
            UserAction::Open => self.open_selected(),
            UserAction::Move(step) => self.move_step(step),
            UserAction::Hit(way) => self.select_hit(way),
            UserAction::FocusSearch => self.focus = Focus::Search,
            UserAction::Edit(edit) => self.edit_query(&edit),
            UserAction::Complete(way) => self.complete_or_focus(way),
            UserAction::Toggle => self.toggle_filter(),
            UserAction::Column(way) => self.move_column(way),
            UserAction::Show(screen) => self.show_screen(screen),
            UserAction::Menu(menu) => self.overlay = Some(Overlay::Menu(menu)),
            UserAction::Pick(letter) => self.pick_menu_item(letter),
            UserAction::Resume => self.request_resume(Intent::Run),
            UserAction::Refresh => self.effects.push(Effect::Sync),
            UserAction::Jump(landmark, way) => self.jump_to_landmark(landmark, way),
            UserAction::Find => self.find = Some(LineInput::default()),
            UserAction::FindAgain(way) => self.find_again(way),
            UserAction::Fold(fold) => self.fold_parts(fold),
            UserAction::Turn => self.fold_tool(None),
            UserAction::Click(at) => self.handle_click(at),
            UserAction::Wheel(at, way) => self.handle_wheel(at, way),
        }
        self.read_on();
    }

    /// Applies a response of the worker. Responses to outdated requests are ignored.
    pub(super) fn handle_answer(&mut self, number: u64, answer: WorkerAnswer) {
        if self.asked[answer.answer_slot()] != number {
            return;
        }
        match answer {
            WorkerAnswer::Found(found) => self.handle_found(found),
            WorkerAnswer::Window(pages) => match (pages, &mut self.reader) {
                (Ok(pages), Some(reader)) => reader.accept_pages(pages),
                (Err(error), _) => self.notice = Some(ActionNotice::Failed(error)),
                _ => {}
            },
            WorkerAnswer::Preview(pages) => match (pages, &mut self.preview) {
                (Ok(pages), Some(preview)) => preview.accept_pages(pages),
                (Err(error), _) => self.notice = Some(ActionNotice::Failed(error)),
                _ => {}
            },
            WorkerAnswer::Landed(place) => self.handle_landing(place),
            WorkerAnswer::Exported(path, purpose) => self.handle_exported(path, purpose),
            WorkerAnswer::Resumption(resumption, intent) => {
                self.handle_resumption(resumption, intent);
            }
            WorkerAnswer::Facets(facets) => {
                self.facets = facets;
                self.update_completions();
            }
            WorkerAnswer::Stats(Ok(lines)) => {
                let top = self.stats.as_ref().map_or(0, |stats| stats.top);
                self.stats = self.stats.is_some().then_some(Scrolled { lines, top, is_here: true });
            }
            WorkerAnswer::Stats(Err(error)) => self.notice = Some(ActionNotice::Failed(error)),
        }
        self.read_on();
    }

    /// Adapts the state to a new screen size.
    pub(super) fn resize_screen(&mut self, size: Size) {
        self.size = size;
        self.results.reveal_selection(layout::browse_layout(size).results.height);
        if let Some(reader) = &mut self.reader {
            let area = layout::reading_layout(size).text;
            let view =
                super::worker::ViewOptions { width: area.width.into(), ..reader.view.clone() };
            reader.set_view(view, area.height.into());
        }
        self.preview = None;
        self.update_preview();
        if self.stats.is_some() {
            self.show_screen(OpenScreen::Stats);
        }
        self.read_on();
    }

    /// Updates the sync status, and refreshes the results when a sync has finished.
    pub(super) fn update_sync_status(&mut self, progress: SyncProgress) {
        let is_done = matches!(
            progress,
            SyncProgress::UpToDate | SyncProgress::Busy | SyncProgress::Failed(_)
        );
        let was_reading = matches!(self.sync, SyncProgress::Reading { .. });
        let is_first = self.results.found.is_none();
        self.sync = progress;
        if is_done && (was_reading || is_first) {
            self.refresh_results();
        }
    }

    /// Requests the results again.
    pub(super) fn refresh_results(&mut self) {
        self.request_search();
        self.ask_worker(Question::Facets);
    }

    fn go_back(&mut self) {
        if self.overlay.take().is_some() || self.find.take().is_some() {
            return;
        }
        if self.stats.take().is_some() {
            return;
        }
        if self.reader.take().is_some() {
            return self.update_preview();
        }
        self.focus = Focus::List;
    }

    fn edit_query(&mut self, edit: &LineEdit) {
        if let Some(find) = &mut self.find {
            find.apply_edit(edit);
            return;
        }
        if self.input_mode() != InputMode::Search {
            return;
        }
        // No query begins with a question mark, so it opens the help.
        if *edit == LineEdit::Type('?') && self.input.text.is_empty() {
            return self.show_screen(OpenScreen::Help);
        }
        if self.input.apply_edit(edit) {
            self.request_search();
        }
        self.update_completions();
    }

    fn show_screen(&mut self, screen: OpenScreen) {
        match screen {
            OpenScreen::Help => {
                self.help = 0;
                self.overlay = Some(Overlay::Help);
            }
            OpenScreen::Filters => self.overlay = Some(Overlay::Filters(Chooser::default())),
            OpenScreen::Stats => {
                self.stats = Some(Scrolled::default());
                let width = usize::from(layout::stats_layout(self.size).text.width);
                self.ask_worker(Question::Stats { text: self.input.text.clone(), width });
            }
        }
    }

    fn move_step(&mut self, step: MoveStep) {
        let page = usize::from(self.size.height.saturating_sub(4).max(1));
        match (&mut self.overlay, &mut self.stats, &mut self.reader) {
            (Some(Overlay::Help), _, _) => {
                let last = super::panes::help::scroll_length(self.size).saturating_sub(1);
                self.help = index_after_step(self.help, step, page, last);
            }
            (Some(Overlay::Filters(chooser)), _, _) => {
                let values = self.facets.columns.get(chooser.column).map(|it| it.values.len());
                let last = values.unwrap_or(0).saturating_sub(1);
                chooser.move_selection(index_after_step(
                    chooser.selected_row(chooser.column),
                    step,
                    page,
                    last,
                ));
            }
            (_, Some(stats), _) => {
                let shown = usize::from(layout::stats_layout(self.size).text.height);
                let last = stats.lines.len().saturating_sub(shown);
                stats.top = index_after_step(stats.top, step, page, last);
            }
            (_, _, Some(reader)) => read_step(reader, step),
            _ => self.move_choice(step),
        }
    }

    fn handle_exported(&mut self, path: Result<PathBuf, String>, purpose: Purpose) {
        self.is_lending = false;
        let path = match path {
            Ok(path) => path,
            Err(error) => return self.notice = Some(ActionNotice::Failed(error)),
        };
        match purpose {
            Purpose::Keep => {
                self.notice = Some(ActionNotice::Done(format!("written to {}", path.display())));
            }
            Purpose::Browse => self.effects.push(Effect::Browse(path)),
            Purpose::Edit => self.effects.push(Effect::Edit(path)),
        }
    }
}

fn read_step(reader: &mut TranscriptReader, step: MoveStep) {
    let page = reader.height.saturating_sub(2).max(1) as isize;
    match step {
        MoveStep::Line(Way::Next) => reader.scroll_by(1),
        MoveStep::Line(Way::Previous) => reader.scroll_by(-1),
        MoveStep::Page(Way::Next) => reader.scroll_by(page),
        MoveStep::Page(Way::Previous) => reader.scroll_by(-page),
        MoveStep::First => reader.go_to_message(0),
        MoveStep::Last => reader.go_to_message(u64::MAX),
    }
}

/// Returns the index after a movement in a list whose last index is `last`.
pub(super) fn index_after_step(at: usize, step: MoveStep, page: usize, last: usize) -> usize {
    match step {
        MoveStep::Line(Way::Next) => (at + 1).min(last),
        MoveStep::Line(Way::Previous) => at.saturating_sub(1),
        MoveStep::Page(Way::Next) => (at + page).min(last),
        MoveStep::Page(Way::Previous) => at.saturating_sub(page),
        MoveStep::First => 0,
        MoveStep::Last => last,
    }
}
