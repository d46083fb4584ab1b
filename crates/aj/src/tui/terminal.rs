//! Takes over the terminal, and restores it on exit and on panic.

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

/// The terminal while the UI uses it.
pub(super) struct TerminalScreen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl TerminalScreen {
    /// Takes over the terminal.
    pub(super) fn take_over_terminal() -> Result<Self> {
        restore_on_panic();
        enter_raw_mode()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        Ok(Self { terminal: terminal.context("could not use the terminal")? })
    }

    /// Restores the terminal while another program runs in it.
    pub(super) fn lend_terminal<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        restore_terminal();
        let done = work();
        enter_raw_mode()?;
        // Clearing the old terminal would query the cursor position and wait for the answer.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(done)
    }

    /// Copies a text with an escape sequence (OSC 52), which also reaches the user's clipboard over
    /// SSH.
    pub(super) fn copy_to_clipboard(text: &str) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        let mut out = io::stdout();
        write!(out, "\x1b]52;c;{text}\x07")?;
        out.flush()
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn enter_raw_mode() -> Result<()> {
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

/// Restores the terminal. Failures are ignored, because nothing more can be done.
fn restore_terminal() {
    use ratatui::crossterm::cursor::Show;
    let mut out = io::stdout();
    let _ = execute!(out, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Makes a panic of any thread end the program, with the message on the restored terminal.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if agent_journal::is_guarded() {
                return;
            }
            restore_terminal();
            before(panic);
            std::process::exit(101);
        }));
    });
}

/// A thread that reads keyboard and mouse events. It reads only on request, so that a program that
/// runs in the terminal gets its own input.
pub(super) struct Keyboard {
    ask: Sender<()>,
}

impl Keyboard {
    pub(super) fn start_reading(
        tell: impl Fn(io::Result<Vec<Event>>) + Send + 'static,
    ) -> Result<Self> {
        let (ask, asked) = channel();
        let keyboard = std::thread::Builder::new().name("keyboard".to_owned());
        keyboard.spawn(move || listen_for_events(&asked, tell))?;
        Ok(Self { ask })
    }

    /// Requests the next events.
    pub(super) fn request_events(&self) {
        // If the thread has ended, its error was reported before.
        let _ = self.ask.send(());
    }
}

fn listen_for_events(asked: &Receiver<()>, tell: impl Fn(io::Result<Vec<Event>>)) {
    while asked.recv().is_ok() {
        tell(pending_events());
    }
}

/// Waits for an event, and reads all others that are available.
fn pending_events() -> io::Result<Vec<Event>> {
    let mut events = vec![event::read()?];
    while event::poll(std::time::Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(events)
}

/// Reports the first signal that asks the program to end.
#[cfg(unix)]
pub(super) fn watch_signals(tell: impl Fn(u8) + Send + 'static) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
    // Installs the handlers before anything is drawn: an earlier signal would end the program
    // without them.
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
