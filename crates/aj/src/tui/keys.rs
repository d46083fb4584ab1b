//! The key bindings: one table, from which the help and the footer are generated too.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::action::{Fold, LandmarkKind, Menu, MoveStep, OpenScreen, UserAction, Way};
use super::input::LineEdit;

/// The mode that determines the meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputMode {
    /// The query is typed.
    Search,
    /// The list of sessions has the focus.
    List,
    /// A session is read.
    Reading,
    /// A text to find in the session is typed.
    Find,
    Stats,
    Help,
    Filters,
    Menu,
}

/// A row of the table of keys.
pub(super) struct Binding {
    pub(super) modes: &'static [InputMode],
    keys: &'static [KeyPress],
    action: UserAction,
    /// The description for the help; empty for alternative keys.
    pub(super) about: &'static str,
    /// The word in the footer; empty if the key is not shown there.
    pub(super) hint: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct KeyPress(KeyCode, KeyModifiers);

const fn key(code: KeyCode) -> KeyPress {
    KeyPress(code, KeyModifiers::NONE)
}

const fn char(one: char) -> KeyPress {
    KeyPress(KeyCode::Char(one), KeyModifiers::NONE)
}

const fn ctrl(one: char) -> KeyPress {
    KeyPress(KeyCode::Char(one), KeyModifiers::CONTROL)
}

const fn bind(
    modes: &'static [InputMode],
    keys: &'static [KeyPress],
    action: UserAction,
    about: &'static str,
    hint: &'static str,
) -> Binding {
    Binding { modes, keys, action, about, hint }
}

use InputMode::{Filters, Find, Help, List, Reading, Search, Stats};
use KeyCode::{BackTab, Tab, Up};
use KeyCode::{Backspace, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right};
use Way::{Next, Previous};

const TYPING: &[InputMode] = &[Search, Find];
const MOVING: &[InputMode] = &[List, Reading, Stats, Help, Filters];

/// All key bindings. The first match counts.
pub(super) const KEYS: &[Binding] = &[
    bind(&[Search, List], &[key(Enter)], UserAction::Open, "open the session at the match", "open"),
    bind(
        &[Search],
        &[key(Tab)],
        UserAction::Complete(Next),
        "complete a field or value",
        "complete",
    ),
    bind(&[Search], &[key(BackTab)], UserAction::Complete(Previous), "", ""),
    bind(&[Search], &[key(Esc)], UserAction::Back, "go to the list", "list"),
    bind(
        &[Search, List],
        &[key(Up), ctrl('p'), ctrl('k')],
        UserAction::Move(MoveStep::Line(Previous)),
        "",
        "",
    ),
    bind(
        &[Search, List],
        &[key(Down), ctrl('n'), ctrl('j')],
        UserAction::Move(MoveStep::Line(Next)),
        "",
        "",
    ),
    bind(&[Search, List], &[key(PageDown)], UserAction::Move(MoveStep::Page(Next)), "", ""),
    bind(&[Search, List], &[key(PageUp)], UserAction::Move(MoveStep::Page(Previous)), "", ""),
    bind(
        &[List],
        &[char('/'), char('i'), key(Tab)],
        UserAction::FocusSearch,
        "type a query",
        "search",
    ),
    bind(&[Reading], &[char('/'), ctrl('f')], UserAction::Find, "find in the session", "find"),
    bind(&[Reading], &[char('n')], UserAction::FindAgain(Next), "next and previous match", ""),
    bind(&[Reading], &[char('N')], UserAction::FindAgain(Previous), "", ""),
    bind(
        &[Reading],
        &[char('}'), char(']'), key(Tab)],
        UserAction::Jump(LandmarkKind::Prompt, Next),
        "next prompt",
        "prompt",
    ),
    bind(
        &[Reading],
        &[char('{'), char('['), key(BackTab)],
        UserAction::Jump(LandmarkKind::Prompt, Previous),
        "previous prompt",
        "",
    ),
    bind(&[Reading], &[char('t')], UserAction::Jump(LandmarkKind::Tool, Next), "next tool", "tool"),
    bind(
        &[Reading],
        &[char('T')],
        UserAction::Jump(LandmarkKind::Tool, Previous),
        "previous tool",
        "",
    ),
    bind(
        &[Reading],
        &[char('x')],
        UserAction::Jump(LandmarkKind::Error, Next),
        "next failure",
        "failure",
    ),
    bind(
        &[Reading],
        &[char('X')],
        UserAction::Jump(LandmarkKind::Error, Previous),
        "previous failure",
        "",
    ),
    bind(
        &[Reading],
        &[char(' '), key(Enter)],
        UserAction::Turn,
        "expand or collapse a tool (or click)",
        "expand",
    ),
    bind(
        &[Reading],
        &[char('z')],
        UserAction::Fold(Fold::Tools),
        "expand or collapse all tools",
        "all",
    ),
    bind(
        &[Reading],
        &[char('h')],
        UserAction::Fold(Fold::Thinking),
        "show the model's reasoning",
        "",
    ),
    bind(
        &[Reading],
        &[char('a')],
        UserAction::Fold(Fold::Everything),
        "show injected text and notices",
        "",
    ),
    bind(
        MOVING,
        &[char('j'), key(Down), ctrl('n')],
        UserAction::Move(MoveStep::Line(Next)),
        "down",
        "",
    ),
    bind(
        MOVING,
        &[char('k'), key(Up), ctrl('p')],
        UserAction::Move(MoveStep::Line(Previous)),
        "up",
        "",
    ),
    bind(
        MOVING,
        &[key(PageDown), ctrl('d')],
        UserAction::Move(MoveStep::Page(Next)),
        "page down",
        "",
    ),
    bind(
        MOVING,
        &[key(PageUp), ctrl('u')],
        UserAction::Move(MoveStep::Page(Previous)),
        "page up",
        "",
    ),
    bind(
        MOVING,
        &[char('g'), key(Home)],
        UserAction::Move(MoveStep::First),
        "go to the beginning",
        "",
    ),
    bind(MOVING, &[char('G'), key(End)], UserAction::Move(MoveStep::Last), "go to the end", ""),
    bind(&[List], &[key(Right), char('l')], UserAction::Hit(Next), "next match in the session", ""),
    bind(
        &[List],
        &[key(Left), char('h')],
        UserAction::Hit(Previous),
        "previous match in the session",
        "",
    ),
    bind(
        &[Filters],
        &[key(Right), char('l'), key(Tab)],
        UserAction::Column(Next),
        "next column",
        "column",
    ),
    bind(&[Filters], &[key(Left), char('h'), key(BackTab)], UserAction::Column(Previous), "", ""),
    bind(&[Filters], &[char(' '), key(Enter)], UserAction::Toggle, "select", "select"),
    bind(
        &[List, Reading],
        &[char('y')],
        UserAction::Menu(Menu::Copy),
        "copy id, path or resume command",
        "copy",
    ),
    bind(
        &[List, Reading],
        &[char('o')],
        UserAction::Menu(Menu::Open),
        "open in the browser or editor",
        "open in",
    ),
    bind(
        &[List, Reading],
        &[char('e')],
        UserAction::Menu(Menu::Export),
        "export to this directory",
        "export",
    ),
    bind(&[List, Reading], &[char('r')], UserAction::Resume, "resume in its agent", "resume"),
    bind(&[List], &[char('f')], UserAction::Show(OpenScreen::Filters), "", ""),
    bind(&[List], &[char('s')], UserAction::Show(OpenScreen::Stats), "", ""),
    bind(
        &[Search, List],
        &[ctrl('f')],
        UserAction::Show(OpenScreen::Filters),
        "filters",
        "filters",
    ),
    bind(
        &[Search, List],
        &[ctrl('s')],
        UserAction::Show(OpenScreen::Stats),
        "statistics of the matching sessions",
        "stats",
    ),
    bind(
        &[Search, List, Reading, Stats],
        &[key(F(5)), ctrl('r')],
        UserAction::Refresh,
        "read new sessions",
        "",
    ),
    bind(
        &[List, Reading, Stats, Filters],
        &[char('?')],
        UserAction::Show(OpenScreen::Help),
        "",
        "",
    ),
    bind(
        &[Search, List, Reading, Find, Stats, Filters],
        &[key(F(1))],
        UserAction::Show(OpenScreen::Help),
        "this help (? outside text fields)",
        "help",
    ),
    bind(&[Find], &[key(Enter), key(Down)], UserAction::FindAgain(Next), "find", "find"),
    bind(&[Find], &[key(Up)], UserAction::FindAgain(Previous), "", ""),
    bind(
        &[Reading, Find, Stats, Help, Filters, InputMode::Menu],
        &[key(Esc)],
        UserAction::Back,
        "back",
        "back",
    ),
    bind(&[Reading, Stats, Help, Filters], &[char('q'), key(Backspace)], UserAction::Back, "", ""),
    bind(&[List], &[char('q'), key(Esc)], UserAction::Quit, "quit", "quit"),
    bind(
        &[Search, List, Reading, Find, Stats, Help, Filters, InputMode::Menu],
        &[ctrl('c'), ctrl('q')],
        UserAction::Quit,
        "quit",
        "",
    ),
    bind(TYPING, &[key(Backspace), ctrl('h')], UserAction::Edit(LineEdit::Erase), "", ""),
    bind(TYPING, &[key(Delete), ctrl('d')], UserAction::Edit(LineEdit::EraseNext), "", ""),
    bind(
        TYPING,
        &[ctrl('w'), KeyPress(Backspace, KeyModifiers::ALT)],
        UserAction::Edit(LineEdit::EraseWord),
        "delete a word",
        "",
    ),
    bind(TYPING, &[ctrl('u')], UserAction::Edit(LineEdit::EraseAll), "delete the line", ""),
    bind(TYPING, &[key(Left), ctrl('b')], UserAction::Edit(LineEdit::Left), "", ""),
    bind(TYPING, &[key(Right)], UserAction::Edit(LineEdit::Right), "", ""),
    bind(TYPING, &[key(Home), ctrl('a')], UserAction::Edit(LineEdit::Home), "", ""),
    bind(TYPING, &[key(End), ctrl('e')], UserAction::Edit(LineEdit::End), "", ""),
];

/// Returns the action of a terminal event.
pub(super) fn action_of_event(event: &Event, mode: InputMode) -> Option<UserAction> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => action_of_key(*key, mode),
        Event::Mouse(mouse) => action_of_mouse(*mouse),
        Event::Paste(text) => Some(UserAction::Edit(LineEdit::Paste(text.clone()))),
        _ => None,
    }
}

fn action_of_key(event: KeyEvent, mode: InputMode) -> Option<UserAction> {
    // The character already includes shift; only some terminals also report the modifier.
    let held = event.modifiers - KeyModifiers::SHIFT;
    let wanted = KeyPress(event.code, held);
    let found = KEYS.iter().find(|one| one.modes.contains(&mode) && one.keys.contains(&wanted));
    if let Some(binding) = found {
        return Some(binding.action.clone());
    }
    match (event.code, mode) {
        (KeyCode::Char(one), InputMode::Menu) if held.is_empty() => Some(UserAction::Pick(one)),
        (KeyCode::Char(one), Search | Find) if held.is_empty() => {
            Some(UserAction::Edit(LineEdit::Type(one)))
        }
        _ => None,
    }
}

fn action_of_mouse(event: MouseEvent) -> Option<UserAction> {
    let at = Position::new(event.column, event.row);
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(UserAction::Click(at)),
        MouseEventKind::ScrollDown => Some(UserAction::Wheel(at, Next)),
        MouseEventKind::ScrollUp => Some(UserAction::Wheel(at, Previous)),
        _ => None,
    }
}

impl Binding {
    /// Returns the names of the keys for the help.
    pub(super) fn key_names(&self) -> String {
        self.keys.iter().map(|key| key.key_name()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the first key.
    pub(super) fn first_key_name(&self) -> String {
        self.keys.first().map_or(String::new(), |key| key.key_name())
    }
}

impl KeyPress {
    fn key_name(self) -> String {
        let name = match self.0 {
            KeyCode::Char(' ') => "space".to_owned(),
            KeyCode::Char(one) => one.to_string(),
            Enter => "↵".to_owned(),
            Up => "↑".to_owned(),
            Down => "↓".to_owned(),
            Left => "←".to_owned(),
            Right => "→".to_owned(),
            PageUp => "pgup".to_owned(),
            PageDown => "pgdn".to_owned(),
            BackTab => "⇧tab".to_owned(),
            other => other.to_string().to_lowercase(),
        };
        match self.1 {
            KeyModifiers::CONTROL => format!("^{name}"),
            KeyModifiers::ALT => format!("alt-{name}"),
            _ => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings_in_one_place() {
        for (at, one) in KEYS.iter().enumerate() {
            for other in &KEYS[at + 1..] {
                let shared = one.modes.iter().any(|mode| other.modes.contains(mode));
                let same = one.keys.iter().find(|key| other.keys.contains(key));
                if let (true, Some(same)) = (shared, same) {
                    assert_eq!(one.action, other.action, "{}", same.key_name());
                }
            }
        }
    }

    #[test]
    fn what_is_typed_is_text_where_text_is_typed() {
        let press =
            |one, mode| action_of_key(KeyEvent::new(KeyCode::Char(one), KeyModifiers::NONE), mode);
        assert_eq!(press('q', Search), Some(UserAction::Edit(LineEdit::Type('q'))));
        assert_eq!(press('q', List), Some(UserAction::Quit));
        assert_eq!(press('?', Search), Some(UserAction::Edit(LineEdit::Type('?'))));
        assert_eq!(press('i', InputMode::Menu), Some(UserAction::Pick('i')));
        let shifted = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(action_of_key(shifted, List), Some(UserAction::Move(MoveStep::Last)));
    }
}
