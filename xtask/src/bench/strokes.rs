//! `strokes`: measures the time from a key press to the updated screen. The real program runs in a
//! pseudo-terminal, and queries are typed letter by letter. The clock stops when the letter is on
//! the screen, and again when no more output comes: then the sessions and the preview are complete.

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};

use super::report::{Row, time};
use crate::cargo::aj;

/// The typed queries: common words, a rare one, a field.
const QUERIES: [&str; 5] =
    ["error handling", "tokenizer panic", "zyxquorble", "agent:claude login", "\"copper lattice\""];

/// Time without output after which the screen counts as complete.
const SILENCE: Duration = Duration::from_millis(400);

/// Time without output after which the program counts as hanging.
const STUCK: Duration = Duration::from_secs(30);

/// Columns before the typed text.
const PROMPT: u16 = 3;

const SIZE: (u16, u16) = (140, 45);

/// Times after each key press.
pub(crate) struct Strokes {
    /// Time until the letter is on the screen.
    pub(crate) echo: Vec<Duration>,
    /// Time until the screen is complete.
    pub(crate) whole: Vec<Duration>,
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [program, home, journal] = arguments else {
        bail!("`strokes` takes the program, a home and its journal");
    };
    let mut command = aj(program.as_ref(), home.as_ref(), journal.as_ref());
    command.arg("tui");
    let strokes = measure(&command)?;
    for (what, times) in [("letter", &strokes.echo), ("sessions", &strokes.whole)] {
        let [median, most] = [50, 95].map(|share| time(percentile(times, share)));
        let worst = time(percentile(times, 100));
        println!("{what}: median {median}, 95 % {most}, worst {worst} of {} keys", times.len());
    }
    Ok(())
}

/// Returns the rows for the benchmark report.
pub(super) fn rows(command: &Command) -> Result<Vec<Row>> {
    let strokes = measure(command)?;
    let frame = Duration::from_millis(16);
    let (echo, whole) = (percentile(&strokes.echo, 95), percentile(&strokes.whole, 50));
    Ok(vec![
        Row::new("TUI, a key until it is on the screen (95 %)", time(echo))
            .within(time(frame), echo < frame),
        Row::new("… until its sessions are (median)", time(whole)),
    ])
}

/// Types every query into the terminal UI.
fn measure(command: &Command) -> Result<Strokes> {
    let mut screen = Screen::open(command)?;
    let mut strokes = Strokes { echo: Vec::new(), whole: Vec::new() };
    for query in QUERIES {
        for (at, letter) in query.chars().enumerate() {
            let pressed = screen.press(&letter.to_string())?;
            let column = PROMPT + at as u16 + 1;
            let shown = screen.until(|it| it.cursor_position() == (0, column))?;
            strokes.echo.push(shown - pressed);
            strokes.whole.push(screen.silence()?.unwrap_or(shown) - pressed);
        }
        screen.press("\x15")?;
        screen.until(|it| it.cursor_position() == (0, PROMPT))?;
        screen.silence()?;
    }
    screen.child.kill().context("could not end the program")?;
    screen.child.wait()?;
    Ok(strokes)
}

/// The program in a pseudo-terminal, with an emulated screen.
struct Screen {
    parser: vt100::Parser,
    output: Receiver<(Instant, Vec<u8>)>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
}

impl Screen {
    /// Starts the program and waits until the first screen is complete.
    fn open(command: &Command) -> Result<Self> {
        let (cols, rows) = SIZE;
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size)?;
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => builder.env(name, value),
                None => builder.env_remove(name),
            }
        }
        builder.cwd(std::env::current_dir()?);
        let child = pair.slave.spawn_command(builder)?;
        let output = listen(pair.master.try_clone_reader()?);
        let writer = pair.master.take_writer()?;
        let [rows, cols] = [rows, cols].map(|it| NonZero::new(it).unwrap_or(NonZero::<u16>::MIN));
        let mut screen = Self { parser: vt100::Parser::new(rows, cols, 0), output, writer, child };
        screen.until(|it| it.contents().contains("up to date"))?;
        screen.silence()?;
        Ok(screen)
    }

    /// Presses a key and returns the time.
    fn press(&mut self, key: &str) -> Result<Instant> {
        let now = Instant::now();
        self.writer.write_all(key.as_bytes())?;
        self.writer.flush()?;
        Ok(now)
    }

    /// Reads output until the screen is as expected. Returns the time of the last output.
    fn until(&mut self, is_there: impl Fn(&vt100::Screen) -> bool) -> Result<Instant> {
        loop {
            let Ok((at, bytes)) = self.output.recv_timeout(STUCK) else {
                bail!("the program shows something else:\n{}", self.parser.screen().contents());
            };
            self.parser.process(&bytes);
            if is_there(self.parser.screen()) {
                return Ok(at);
            }
        }
    }

    /// Reads output until no more comes. Returns the time of the last output.
    fn silence(&mut self) -> Result<Option<Instant>> {
        let mut last = None;
        loop {
            match self.output.recv_timeout(SILENCE) {
                Ok((at, bytes)) => {
                    self.parser.process(&bytes);
                    last = Some(at);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(last),
                Err(RecvTimeoutError::Disconnected) => bail!("the program ended"),
            }
        }
    }
}

/// Reads output on a thread of its own, with the time of each part.
fn listen(mut reader: Box<dyn Read + Send>) -> Receiver<(Instant, Vec<u8>)> {
    let (tell, output) = channel();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            if tell.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    output
}

fn percentile(times: &[Duration], share: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * share / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}
