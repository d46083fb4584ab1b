//! The terminal UI. `keys` turns events into actions. Actions and responses change the state
//! (`state` and the files of its screens), and panes draw it. A worker thread queries the journal,
//! so that the event loop waits only for the next event.

mod action;
mod ansi;
mod answer;
mod complete;
mod filters;
mod input;
mod keys;
mod layout;
mod menu;
mod mouse;
mod panes;
mod reader;
mod reading;
mod results;
mod state;
mod sync;
mod terminal;
mod worker;
mod written;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use agent_journal::Resumption;
use anyhow::{Context as _, Result, bail};
use ratatui::crossterm::event::Event as Input;
use ratatui::layout::Size;

use self::state::{ActionNotice, Effect, SyncProgress, TuiState};
use self::terminal::{Keyboard, TerminalScreen};
use self::worker::{Door, WorkerAnswer, WorkerHandle};
use crate::context::CommandContext;
use crate::error::FOUND;

/// Interval at which the results are refreshed during a long sync.
const RENEWAL: Duration = Duration::from_secs(2);

/// An event of the event loop.
enum LoopEvent {
    Input(io::Result<Vec<Input>>),
    Answer(u64, WorkerAnswer),
    Sync(SyncProgress),
    Signal(u8),
}

/// Runs the terminal UI with an initial query.
pub(crate) fn run_tui(context: &CommandContext, query: &str) -> Result<ExitCode> {
    let door = Door {
        config: context.command_config(),
        machine: context.settings.scanned_machine(),
        now: context.now.clone(),
        options: context.settings.export_options(),
        mode: context.settings.search.mode,
    };
    let (sender, receiver) = channel();
    let events = sender.clone();
    let worker = WorkerHandle::start_worker(door.clone(), move |number, answer| {
        let _ = events.send(LoopEvent::Answer(number, answer));
    })?;
    let events = sender.clone();
    terminal::watch_signals(move |signal| drop(events.send(LoopEvent::Signal(signal))))?;
    let events = sender.clone();
    let keyboard =
        Keyboard::start_reading(move |input| drop(events.send(LoopEvent::Input(input))))?;
    let screen = TerminalScreen::take_over_terminal()?;
    let size = screen.terminal.size()?;
    let state = TuiState::new(query, context.now.clone(), size);
    let program = Program {
        screen,
        state,
        worker,
        keyboard,
        door,
        events: sender,
        is_colored: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        renewed: Instant::now(),
        is_syncing: false,
        is_listening: false,
    };
    match program.run_event_loop(&receiver, context.no_sync)? {
        TuiOutcome::Code(code) => Ok(code),
        TuiOutcome::Resume(Resumption { command: Some(command), directory, .. }) => {
            crate::resume::run_agent(&command, directory.as_deref())
        }
        TuiOutcome::Resume(_) => Ok(FOUND),
    }
}

/// Everything that exists while the terminal UI runs.
struct Program {
    screen: TerminalScreen,
    state: TuiState,
    worker: WorkerHandle,
    keyboard: Keyboard,
    door: Door,
    events: Sender<LoopEvent>,
    is_colored: bool,
    renewed: Instant,
    is_syncing: bool,
    /// Whether input was requested and has not arrived.
    is_listening: bool,
}

/// Whether the event loop continues.
enum Next {
    GoOn,
    End(TuiOutcome),
}

/// The result of the terminal UI, used after the terminal is restored.
enum TuiOutcome {
    Code(ExitCode),
    /// The agent of the session replaces this process.
    Resume(Resumption),
}

impl Program {
    fn run_event_loop(
        mut self,
        receiver: &Receiver<LoopEvent>,
        no_sync: bool,
    ) -> Result<TuiOutcome> {
        if !no_sync {
            self.state.effects.push(Effect::Sync);
        }
        loop {
            if let Next::End(outcome) = self.carry_out()? {
                return Ok(outcome);
            }
            if !self.is_listening && !self.state.is_lending {
                self.keyboard.request_events();
                self.is_listening = true;
            }
            self.door.set_clock();
            self.state.now.clone_from(&self.door.now);
            self.draw_screen()?;
            let mut event = Some(receiver.recv().context("the event queue is closed")?);
            // All queued events are applied before the next drawing.
            while let Some(one) = event {
                if let Next::End(outcome) = self.handle_event(one)? {
                    return Ok(outcome);
                }
                event = receiver.try_recv().ok();
            }
        }
    }

    fn draw_screen(&mut self) -> Result<()> {
        let (state, is_colored) = (&self.state, self.is_colored);
        self.screen.terminal.draw(|frame| {
            panes::draw_state(state, frame.buffer_mut());
            if !is_colored {
                panes::remove_colors(frame.buffer_mut());
            }
            if let Some(place) = panes::cursor_position(state) {
                frame.set_cursor_position(place);
            }
        })?;
        Ok(())
    }

    fn handle_event(&mut self, event: LoopEvent) -> Result<Next> {
        match event {
            LoopEvent::Input(input) => {
                for event in input.context("could not read the keyboard")? {
                    self.handle_input(&event);
                }
                self.is_listening = false;
            }
            LoopEvent::Answer(number, answer) => self.state.handle_answer(number, answer),
            LoopEvent::Sync(progress) => self.handle_sync_progress(progress),
            LoopEvent::Signal(signal) => {
                return Ok(Next::End(TuiOutcome::Code(ExitCode::from(128 + signal))));
            }
        }
        Ok(Next::GoOn)
    }

    fn handle_input(&mut self, event: &Input) {
        if let Input::Resize(width, height) = event {
            self.state.resize_screen(Size::new(*width, *height));
        } else if let Some(action) = keys::action_of_event(event, self.state.input_mode()) {
            self.state.apply_action(action);
        }
    }

    fn handle_sync_progress(&mut self, progress: SyncProgress) {
        let is_reading = matches!(progress, SyncProgress::Reading { .. });
        self.is_syncing = is_reading || progress == SyncProgress::Checking;
        self.worker.refresh_journal();
        self.state.update_sync_status(progress);
        if is_reading && self.renewed.elapsed() > RENEWAL {
            self.renewed = Instant::now();
            self.state.refresh_results();
        }
    }

    /// Runs the effects that the state has queued.
    fn carry_out(&mut self) -> Result<Next> {
        for effect in std::mem::take(&mut self.state.effects) {
            match effect {
                Effect::Ask(number, question) => self.worker.submit_request(number, question),
                Effect::Copy(text) => TerminalScreen::copy_to_clipboard(&text)?,
                Effect::Browse(path) => self.show_failure(open_in_browser(&path)),
                Effect::Edit(path) => {
                    let done = self.screen.lend_terminal(|| open_in_editor(&path))?;
                    self.show_failure(done);
                }
                Effect::Sync => self.start_sync()?,
                Effect::Resume(resumption) => {
                    return Ok(Next::End(TuiOutcome::Resume(resumption)));
                }
                Effect::Quit => return Ok(Next::End(TuiOutcome::Code(FOUND))),
            }
        }
        Ok(Next::GoOn)
    }

    fn show_failure(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.state.notice = Some(ActionNotice::Failed(worker::error_on_one_line(error)));
        }
    }

    /// Starts a sync unless one is running.
    fn start_sync(&mut self) -> Result<()> {
        if self.is_syncing {
            return Ok(());
        }
        self.is_syncing = true;
        self.state.sync = SyncProgress::Checking;
        let events = self.events.clone();
        sync::sync_and_report(self.door.clone(), move |progress| {
            drop(events.send(LoopEvent::Sync(progress)));
        })
    }
}

/// Opens a page in the user's browser.
fn open_in_browser(page: &Path) -> Result<()> {
    let own = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let usual = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let program = own.as_deref().unwrap_or(usual);
    Command::new(program)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("could not run {program}; the page is {}", page.display()))?;
    Ok(())
}

/// Opens a file in the user's editor and waits for it.
fn open_in_editor(file: &Path) -> Result<()> {
    let named = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let usual = if cfg!(windows) { "notepad" } else { "vi" };
    let command = named.ok().filter(|it| !it.trim().is_empty()).unwrap_or(usual.to_owned());
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { bail!("EDITOR does not name a program") };
    let attempt = || format!("could not run {program}; the text is {}", file.display());
    Command::new(program).args(words).arg(file).status().with_context(attempt)?;
    Ok(())
}
