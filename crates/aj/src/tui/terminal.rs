//! The terminal: taken over, and given back whatever happens.

use std::io::{self, Stdout, Write};
use std::sync::Once;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    Event,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// The terminal while it is ours.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> Result<Self> {
        restore_on_panic();
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        Ok(Self { terminal: terminal.context("could not use the terminal")? })
    }

    /// Gives the terminal to another program for a while.
    pub(super) fn lend<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        restore();
        let done = work();
        take()?;
        // Clearing the old one would ask the terminal where its cursor is, and wait.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(done)
    }

    /// Has the terminal copy a text; it reaches the user's own clipboard over SSH too.
    pub(super) fn copy(text: &str) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = io::stdout();
        write!(out, "\x1b]52;c;{text}\x07")?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> Result<()> {
    enable_raw_mode().context("could not use the terminal")?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        Clear(ClearType::All),
        EnableMouseCapture,
        EnableBracketedPaste
    )
    .context("could not use the terminal")
}

/// Gives the terminal back as it was. Nothing more can be done when that fails.
fn restore() {
    use ratatui::crossterm::cursor::Show;
    let mut out = io::stdout();
    let _ = execute!(out, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// A panic of any thread ends the program, with the message on a terminal that can show it.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if agent_journal::is_guarded() {
                return;
            }
            restore();
            before(panic);
            std::process::exit(101);
        }));
    });
}

/// The keyboard and the mouse. Events are read only when asked for, so that a program to which
/// the terminal is lent has them for itself.
pub(super) struct Keyboard {
    ask: Sender<()>,
}

impl Keyboard {
    pub(super) fn start(tell: impl Fn(io::Result<Vec<Event>>) + Send + 'static) -> Result<Self> {
        let (ask, asked) = channel();
        let keyboard = std::thread::Builder::new().name("keyboard".to_owned());
        keyboard.spawn(move || listen(&asked, tell))?;
        Ok(Self { ask })
    }

    /// Asks for the next events.
    pub(super) fn ask(&self) {
        // Without its thread there is nobody to answer; the error was told before.
        let _ = self.ask.send(());
    }
}

fn listen(asked: &Receiver<()>, tell: impl Fn(io::Result<Vec<Event>>)) {
    while asked.recv().is_ok() {
        tell(pending());
    }
}

/// Waits for an event, and takes those that came with it.
fn pending() -> io::Result<Vec<Event>> {
    let mut events = vec![event::read()?];
    while event::poll(std::time::Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(events)
}

/// Tells the first signal that asks the program to end.
#[cfg(unix)]
pub(super) fn watch_signals(tell: impl Fn(u8) + Send + 'static) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
    // Before anything is shown: a signal that comes first would end the program as it is.
    let heard = {
        let _inside = runtime.enter();
        kinds.map(signal)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let [Ok(mut end), Ok(mut hangup), Ok(mut interrupt)] = heard else { return };
            let kind = tokio::select! {
                _ = end.recv() => kinds[0],
                _ = hangup.recv() => kinds[1],
                _ = interrupt.recv() => kinds[2],
            };
            tell(kind.as_raw_value() as u8);
        });
    })?;
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn watch_signals(_: impl Fn(u8) + Send + 'static) -> Result<()> {
    Ok(())
}
