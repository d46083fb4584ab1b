//! The screen with a real journal behind it, and keys to press.

use std::fs;
use std::path::Path;

use agent_journal::Journal;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use tempfile::TempDir;

use crate::settings::UserSettings;
use crate::tui::action::UserAction;
use crate::tui::state::{Effect, SyncProgress, TuiState};
use crate::tui::worker::{Door, FoundSessions, WorkerAnswer, answer_request};
use crate::tui::{keys, panes};

/// The screen with a journal behind it.
pub(super) struct Bench {
    pub(super) state: TuiState,
    pub(super) journal: Journal,
    pub(super) door: Door,
    /// What was to be done outside.
    pub(super) effects: Vec<Effect>,
    _home: TempDir,
}

impl Bench {
    /// The made-up sessions of `aj demo`.
    pub(super) fn demo(size: Size) -> Self {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/home");
        Self::of(size, |home| copy(&demo, home))
    }

    /// A home that `fill` makes.
    pub(super) fn of(size: Size, fill: impl Fn(&Path)) -> Self {
        let home = tempfile::tempdir().unwrap();
        fill(home.path());
        let settings = UserSettings::demo_settings(home.path()).unwrap();
        let now: jiff::Zoned = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let door = Door {
            config: settings.library_config(),
            machine: settings.scanned_machine(),
            now: now.clone(),
            options: settings.export_options(),
            mode: settings.search.mode,
        };
        let mut journal = door.open_journal().unwrap();
        journal.sync(agent_journal::SyncOptions::default(), &mut |_| {}).unwrap();
        let mut state = TuiState::new("", now, size);
        state.sync = SyncProgress::UpToDate;
        let mut bench = Self { state, journal, door, effects: Vec::new(), _home: home };
        bench.answer();
        bench
    }

    /// A home with one session.
    pub(super) fn session(size: Size, lines: &str) -> Self {
        Self::of(size, |home| {
            let directory = home.join(".claude/projects/-home-mara-web");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("3f1c0001-0000-4000-8000-000000000001.jsonl"), lines).unwrap();
        })
    }

    /// Answers every question.
    pub(super) fn answer(&mut self) {
        while !self.state.effects.is_empty() {
            for effect in std::mem::take(&mut self.state.effects) {
                match effect {
                    Effect::Ask(number, question) => {
                        let answer = answer_request(&self.journal, &self.door, question);
                        self.state.handle_answer(number, timeless(answer));
                    }
                    other => self.effects.push(other),
                }
            }
        }
    }

    /// Presses keys: characters, or names in angle brackets such as `<enter>` and `<^s>`.
    pub(super) fn keys(&mut self, text: &str) -> &mut Self {
        let mut rest = text;
        while let Some(one) = rest.chars().next() {
            let (name, after) = match rest.strip_prefix('<').and_then(|it| it.split_once('>')) {
                Some((name, after)) => (name, after),
                None => rest.split_at(one.len_utf8()),
            };
            rest = after;
            let event = Event::Key(key(name));
            if let Some(action) = keys::action_of_event(&event, self.state.input_mode()) {
                self.state.apply_action(action);
            }
            self.answer();
        }
        self
    }

    pub(super) fn act(&mut self, action: UserAction) -> &mut Self {
        self.state.apply_action(action);
        self.answer();
        self
    }

    pub(super) fn buffer(&self) -> Buffer {
        let size = self.state.size;
        let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
        terminal.draw(|frame| panes::draw_state(&self.state, frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    pub(super) fn text(&self) -> String {
        let buffer = self.buffer();
        let rows = buffer.content.chunks(usize::from(buffer.area.width));
        let text: Vec<String> = rows.map(|row| shown(row).trim_end().to_owned()).collect();
        text.join("\n")
    }

    #[track_caller]
    pub(super) fn shows(&mut self, part: &str) -> &mut Self {
        let text = self.text();
        assert!(text.contains(part), "no `{part}` in\n{text}");
        self
    }
}

/// A row as a terminal shows it: a wide character covers the cell after it.
fn shown(row: &[ratatui::buffer::Cell]) -> String {
    let mut text = String::new();
    let mut cells = row.iter();
    while let Some(cell) = cells.next() {
        text.push_str(cell.symbol());
        for _ in 1..unicode_width::UnicodeWidthStr::width(cell.symbol()) {
            cells.next();
        }
    }
    text
}

/// How long an answer took is not the same twice.
fn timeless(answer: WorkerAnswer) -> WorkerAnswer {
    match answer {
        WorkerAnswer::Found(Ok(found)) => {
            WorkerAnswer::Found(Ok(FoundSessions { took: std::time::Duration::ZERO, ..found }))
        }
        other => other,
    }
}

fn key(name: &str) -> KeyEvent {
    if let Some(letter) = name.strip_prefix('^').filter(|letter| !letter.is_empty()) {
        let letter = letter.chars().next().unwrap();
        return KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    }
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "down" => KeyCode::Down,
        "right" => KeyCode::Right,
        one => KeyCode::Char(one.chars().next().unwrap()),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
