//! The terminal UI. Keys become actions (`keys`), actions and answers change the state
//! (`state` and the files of its screens), panes draw the state, and a worker thread asks the
//! journal, so that nothing here ever waits but for the next event.

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
mod news;
mod panes;
mod reader;
mod reading;
mod results;
mod state;
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

use self::state::{Effect, News, Notice, State};
use self::terminal::{Keyboard, Screen};
use self::worker::{Answer, Door, Worker};
use crate::context::Context;
use crate::error::FOUND;

/// How often the screen is renewed while much is being read.
const RENEWAL: Duration = Duration::from_secs(2);

/// Something the loop waits for.
enum Event {
    Input(io::Result<Vec<Input>>),
    Answer(u64, Answer),
    News(News),
    Signal(u8),
}

/// Runs the terminal UI, beginning with a query.
pub(crate) fn run(context: &Context, query: &str) -> Result<ExitCode> {
    let door = Door {
        config: context.config(),
        machine: context.settings.machine(),
        now: context.now.clone(),
        options: crate::commands::export::usual(&context.settings),
    };
    let (tell, hear) = channel();
    let teller = tell.clone();
    let worker = Worker::start(door.clone(), move |number, answer| {
        let _ = teller.send(Event::Answer(number, answer));
    })?;
    let teller = tell.clone();
    terminal::watch_signals(move |signal| drop(teller.send(Event::Signal(signal))))?;
    let teller = tell.clone();
    let keyboard = Keyboard::start(move |input| drop(teller.send(Event::Input(input))))?;
    let screen = Screen::open()?;
    let size = screen.terminal.size()?;
    let state = State::new(query, context.now.clone(), size);
    let program = Program {
        screen,
        state,
        worker,
        keyboard,
        door,
        tell,
        is_colored: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        renewed: Instant::now(),
        is_looking: false,
        is_listening: false,
    };
    match program.run(&hear, context.no_sync)? {
        Outcome::Code(code) => Ok(code),
        Outcome::Resume(Resumption { command: Some(command), directory, .. }) => {
            crate::commands::resume::exec(&command, directory.as_deref())
        }
        Outcome::Resume(_) => Ok(FOUND),
    }
}

/// Everything that runs while the terminal is ours.
struct Program {
    screen: Screen,
    state: State,
    worker: Worker,
    keyboard: Keyboard,
    door: Door,
    tell: Sender<Event>,
    is_colored: bool,
    renewed: Instant,
    is_looking: bool,
    /// Whether the keyboard was asked and has not answered.
    is_listening: bool,
}

/// Whether the loop goes on.
enum Next {
    GoOn,
    End(Outcome),
}

/// What is left to do when the terminal is its own again.
enum Outcome {
    Code(ExitCode),
    /// The session's agent takes over.
    Resume(Resumption),
}

impl Program {
    fn run(mut self, hear: &Receiver<Event>, no_sync: bool) -> Result<Outcome> {
        if !no_sync {
            self.state.effects.push(Effect::Sync);
        }
        loop {
            if let Next::End(outcome) = self.carry_out()? {
                return Ok(outcome);
            }
            if !self.is_listening && !self.state.is_lending {
                self.keyboard.ask();
                self.is_listening = true;
            }
            self.door.set_clock();
            self.state.now.clone_from(&self.door.now);
            self.draw()?;
            let mut event = Some(hear.recv().context("nothing is left to wait for")?);
            // What came meanwhile is taken in before the next picture.
            while let Some(one) = event {
                if let Next::End(outcome) = self.take(one)? {
                    return Ok(outcome);
                }
                event = hear.try_recv().ok();
            }
        }
    }

    fn draw(&mut self) -> Result<()> {
        let (state, is_colored) = (&self.state, self.is_colored);
        self.screen.terminal.draw(|frame| {
            panes::draw(state, frame.buffer_mut());
            if !is_colored {
                panes::bleach(frame.buffer_mut());
            }
            if let Some(place) = panes::cursor(state) {
                frame.set_cursor_position(place);
            }
        })?;
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<Next> {
        match event {
            Event::Input(input) => {
                for event in input.context("could not read the keyboard")? {
                    self.input(&event);
                }
                self.is_listening = false;
            }
            Event::Answer(number, answer) => self.state.hear(number, answer),
            Event::News(news) => self.learn(news),
            Event::Signal(signal) => {
                return Ok(Next::End(Outcome::Code(ExitCode::from(128 + signal))));
            }
        }
        Ok(Next::GoOn)
    }

    fn input(&mut self, event: &Input) {
        if let Input::Resize(width, height) = event {
            self.state.resize(Size::new(*width, *height));
        } else if let Some(action) = keys::action(event, self.state.mode()) {
            self.state.apply(action);
        }
    }

    fn learn(&mut self, news: News) {
        let is_reading = matches!(news, News::Reading { .. });
        self.is_looking = is_reading || news == News::Looking;
        self.worker.refresh();
        self.state.learn(news);
        if is_reading && self.renewed.elapsed() > RENEWAL {
            self.renewed = Instant::now();
            self.state.renew();
        }
    }

    /// Does what the state left to be done.
    fn carry_out(&mut self) -> Result<Next> {
        for effect in std::mem::take(&mut self.state.effects) {
            match effect {
                Effect::Ask(number, question) => self.worker.ask(number, question),
                Effect::Copy(text) => Screen::copy(&text)?,
                Effect::Browse(path) => self.tell_failure(browse(&path)),
                Effect::Edit(path) => {
                    let done = self.screen.lend(|| edit(&path))?;
                    self.tell_failure(done);
                }
                Effect::Sync => self.look()?,
                Effect::Resume(resumption) => {
                    return Ok(Next::End(Outcome::Resume(resumption)));
                }
                Effect::Quit => return Ok(Next::End(Outcome::Code(FOUND))),
            }
        }
        Ok(Next::GoOn)
    }

    fn tell_failure(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.state.notice = Some(Notice::Failed(worker::said(error)));
        }
    }

    /// Looks for news, once at a time.
    fn look(&mut self) -> Result<()> {
        if self.is_looking {
            return Ok(());
        }
        self.is_looking = true;
        self.state.news = News::Looking;
        let teller = self.tell.clone();
        news::look(self.door.clone(), move |news| drop(teller.send(Event::News(news))))
    }
}

/// Shows a page in the browser of the user's choice.
fn browse(page: &Path) -> Result<()> {
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

/// Shows a file in the editor of the user's choice, and waits for it.
fn edit(file: &Path) -> Result<()> {
    let named = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let usual = if cfg!(windows) { "notepad" } else { "vi" };
    let command = named.ok().filter(|it| !it.trim().is_empty()).unwrap_or(usual.to_owned());
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { bail!("EDITOR names no program") };
    let attempt = || format!("could not run {program}; the text is {}", file.display());
    Command::new(program).args(words).arg(file).status().with_context(attempt)?;
    Ok(())
}
