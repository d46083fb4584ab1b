//! Which key does what, where: one table, from which the help and the footer are made too.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::action::{Action, Fold, Landmark, Menu, Screen, Step, Way};
use super::input::Edit;

/// Where the keyboard goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Typing the query.
    Search,
    /// In the list of sessions.
    List,
    /// Reading a session.
    Reading,
    /// Typing what to find in it.
    Find,
    Stats,
    Help,
    Filters,
    Menu,
}

/// A key of the table.
pub(super) struct Binding {
    pub(super) modes: &'static [Mode],
    keys: &'static [Key],
    action: Action,
    /// What it does, for the help; empty for second ways.
    pub(super) about: &'static str,
    /// The word in the footer; empty for what has no room there.
    pub(super) hint: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(KeyCode, KeyModifiers);

const fn key(code: KeyCode) -> Key {
    Key(code, KeyModifiers::NONE)
}

const fn char(one: char) -> Key {
    Key(KeyCode::Char(one), KeyModifiers::NONE)
}

const fn ctrl(one: char) -> Key {
    Key(KeyCode::Char(one), KeyModifiers::CONTROL)
}

const fn bind(
    modes: &'static [Mode],
    keys: &'static [Key],
    action: Action,
    (about, hint): (&'static str, &'static str),
) -> Binding {
    Binding { modes, keys, action, about, hint }
}

use KeyCode::{BackTab, Tab, Up};
use KeyCode::{Backspace, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right};
use Mode::{Filters, Find, Help, List, Reading, Search, Stats};
use Way::{Next, Previous};

const TYPING: &[Mode] = &[Search, Find];
const MOVING: &[Mode] = &[List, Reading, Stats, Help, Filters];

/// Every key. The first that fits counts.
pub(super) const KEYS: &[Binding] = &[
    bind(
        &[Search, List],
        &[key(Enter)],
        Action::Open,
        ("read the session at what was found", "open"),
    ),
    bind(&[Search], &[key(Tab)], Action::Complete(Next), ("complete a field or value", "complete")),
    bind(&[Search], &[key(BackTab)], Action::Complete(Previous), ("", "")),
    bind(&[Search], &[key(Esc)], Action::Back, ("to the list", "list")),
    bind(
        &[Search, List],
        &[key(Up), ctrl('p'), ctrl('k')],
        Action::Move(Step::Line(Previous)),
        ("", ""),
    ),
    bind(
        &[Search, List],
        &[key(Down), ctrl('n'), ctrl('j')],
        Action::Move(Step::Line(Next)),
        ("", ""),
    ),
    bind(&[Search, List], &[key(PageDown)], Action::Move(Step::Page(Next)), ("", "")),
    bind(&[Search, List], &[key(PageUp)], Action::Move(Step::Page(Previous)), ("", "")),
    bind(
        &[List],
        &[char('/'), char('i'), key(Tab)],
        Action::FocusSearch,
        ("type a query", "search"),
    ),
    bind(&[Reading], &[char('/'), ctrl('f')], Action::Find, ("find in the session", "find")),
    bind(&[Reading], &[char('n')], Action::FindAgain(Next), ("next and previous place found", "")),
    bind(&[Reading], &[char('N')], Action::FindAgain(Previous), ("", "")),
    bind(
        &[Reading],
        &[char('}'), char(']'), key(Tab)],
        Action::Jump(Landmark::Prompt, Next),
        ("next prompt", "prompt"),
    ),
    bind(
        &[Reading],
        &[char('{'), char('['), key(BackTab)],
        Action::Jump(Landmark::Prompt, Previous),
        ("previous prompt", ""),
    ),
    bind(&[Reading], &[char('t')], Action::Jump(Landmark::Tool, Next), ("next tool", "tool")),
    bind(&[Reading], &[char('T')], Action::Jump(Landmark::Tool, Previous), ("previous tool", "")),
    bind(
        &[Reading],
        &[char('x')],
        Action::Jump(Landmark::Error, Next),
        ("next failure", "failure"),
    ),
    bind(
        &[Reading],
        &[char('X')],
        Action::Jump(Landmark::Error, Previous),
        ("previous failure", ""),
    ),
    bind(
        &[Reading],
        &[char(' '), key(Enter)],
        Action::Turn,
        ("unfold or fold one tool, as a click", "unfold"),
    ),
    bind(&[Reading], &[char('z')], Action::Fold(Fold::Tools), ("unfold or fold all tools", "all")),
    bind(&[Reading], &[char('h')], Action::Fold(Fold::Thinking), ("the model's reasoning", "")),
    bind(
        &[Reading],
        &[char('a')],
        Action::Fold(Fold::Everything),
        ("everything: injected text and notices", ""),
    ),
    bind(MOVING, &[char('j'), key(Down), ctrl('n')], Action::Move(Step::Line(Next)), ("down", "")),
    bind(MOVING, &[char('k'), key(Up), ctrl('p')], Action::Move(Step::Line(Previous)), ("up", "")),
    bind(MOVING, &[key(PageDown), ctrl('d')], Action::Move(Step::Page(Next)), ("a page down", "")),
    bind(MOVING, &[key(PageUp), ctrl('u')], Action::Move(Step::Page(Previous)), ("a page up", "")),
    bind(MOVING, &[char('g'), key(Home)], Action::Move(Step::First), ("to the beginning", "")),
    bind(MOVING, &[char('G'), key(End)], Action::Move(Step::Last), ("to the end", "")),
    bind(&[List], &[key(Right), char('l')], Action::Hit(Next), ("next place found in it", "")),
    bind(
        &[List],
        &[key(Left), char('h')],
        Action::Hit(Previous),
        ("previous place found in it", ""),
    ),
    bind(
        &[Filters],
        &[key(Right), char('l'), key(Tab)],
        Action::Column(Next),
        ("next column", "column"),
    ),
    bind(&[Filters], &[key(Left), char('h'), key(BackTab)], Action::Column(Previous), ("", "")),
    bind(&[Filters], &[char(' '), key(Enter)], Action::Toggle, ("choose", "choose")),
    bind(
        &[List, Reading],
        &[char('y')],
        Action::Menu(Menu::Copy),
        ("copy id, path or resume command", "copy"),
    ),
    bind(
        &[List, Reading],
        &[char('o')],
        Action::Menu(Menu::Open),
        ("open in the browser or editor", "open in"),
    ),
    bind(&[List, Reading], &[char('e')], Action::Menu(Menu::Export), ("export here", "export")),
    bind(&[List, Reading], &[char('r')], Action::Resume, ("go on with it in its agent", "resume")),
    bind(&[List], &[char('f')], Action::Show(Screen::Filters), ("", "")),
    bind(&[List], &[char('s')], Action::Show(Screen::Stats), ("", "")),
    bind(&[Search, List], &[ctrl('f')], Action::Show(Screen::Filters), ("filters", "filters")),
    bind(
        &[Search, List],
        &[ctrl('s')],
        Action::Show(Screen::Stats),
        ("statistics of what the query chooses", "stats"),
    ),
    bind(
        &[Search, List, Reading, Stats],
        &[key(F(5)), ctrl('r')],
        Action::Refresh,
        ("look for news", ""),
    ),
    bind(&[List, Reading, Stats, Filters], &[char('?')], Action::Show(Screen::Help), ("", "")),
    bind(
        &[Search, List, Reading, Find, Stats, Filters],
        &[key(F(1))],
        Action::Show(Screen::Help),
        ("this help; also ? where nothing is typed", "help"),
    ),
    bind(&[Find], &[key(Enter), key(Down)], Action::FindAgain(Next), ("find", "find")),
    bind(&[Find], &[key(Up)], Action::FindAgain(Previous), ("", "")),
    bind(
        &[Reading, Find, Stats, Help, Filters, Mode::Menu],
        &[key(Esc)],
        Action::Back,
        ("back", "back"),
    ),
    bind(&[Reading, Stats, Help, Filters], &[char('q'), key(Backspace)], Action::Back, ("", "")),
    bind(&[List], &[char('q'), key(Esc)], Action::Quit, ("quit", "quit")),
    bind(
        &[Search, List, Reading, Find, Stats, Help, Filters, Mode::Menu],
        &[ctrl('c'), ctrl('q')],
        Action::Quit,
        ("quit from anywhere", ""),
    ),
    bind(TYPING, &[key(Backspace), ctrl('h')], Action::Edit(Edit::Erase), ("", "")),
    bind(TYPING, &[key(Delete), ctrl('d')], Action::Edit(Edit::EraseNext), ("", "")),
    bind(
        TYPING,
        &[ctrl('w'), Key(Backspace, KeyModifiers::ALT)],
        Action::Edit(Edit::EraseWord),
        ("erase a word", ""),
    ),
    bind(TYPING, &[ctrl('u')], Action::Edit(Edit::EraseAll), ("erase the line", "")),
    bind(TYPING, &[key(Left), ctrl('b')], Action::Edit(Edit::Left), ("", "")),
    bind(TYPING, &[key(Right)], Action::Edit(Edit::Right), ("", "")),
    bind(TYPING, &[key(Home), ctrl('a')], Action::Edit(Edit::Home), ("", "")),
    bind(TYPING, &[key(End), ctrl('e')], Action::Edit(Edit::End), ("", "")),
];

/// What an event of the terminal asks for.
pub(super) fn action(event: &Event, mode: Mode) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => pressed(*key, mode),
        Event::Mouse(mouse) => pointed(*mouse),
        Event::Paste(text) => Some(Action::Edit(Edit::Paste(text.clone()))),
        _ => None,
    }
}

fn pressed(event: KeyEvent, mode: Mode) -> Option<Action> {
    // Shift is in the character already; terminals differ in whether they tell it too.
    let held = event.modifiers - KeyModifiers::SHIFT;
    let wanted = Key(event.code, held);
    let found = KEYS.iter().find(|one| one.modes.contains(&mode) && one.keys.contains(&wanted));
    if let Some(binding) = found {
        return Some(binding.action.clone());
    }
    match (event.code, mode) {
        (KeyCode::Char(one), Mode::Menu) if held.is_empty() => Some(Action::Pick(one)),
        (KeyCode::Char(one), Search | Find) if held.is_empty() => {
            Some(Action::Edit(Edit::Type(one)))
        }
        _ => None,
    }
}

fn pointed(event: MouseEvent) -> Option<Action> {
    let at = Position::new(event.column, event.row);
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Action::Click(at)),
        MouseEventKind::ScrollDown => Some(Action::Wheel(at, Next)),
        MouseEventKind::ScrollUp => Some(Action::Wheel(at, Previous)),
        _ => None,
    }
}

impl Binding {
    /// The keys as people write them.
    pub(super) fn names(&self) -> String {
        self.keys.iter().map(|key| key.name()).collect::<Vec<_>>().join(" ")
    }

    /// The first of them.
    pub(super) fn name(&self) -> String {
        self.keys.first().map_or(String::new(), |key| key.name())
    }
}

impl Key {
    fn name(self) -> String {
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
                    assert_eq!(one.action, other.action, "{}", same.name());
                }
            }
        }
    }

    #[test]
    fn what_is_typed_is_text_where_text_is_typed() {
        let press =
            |one, mode| pressed(KeyEvent::new(KeyCode::Char(one), KeyModifiers::NONE), mode);
        assert_eq!(press('q', Search), Some(Action::Edit(Edit::Type('q'))));
        assert_eq!(press('q', List), Some(Action::Quit));
        assert_eq!(press('?', Search), Some(Action::Edit(Edit::Type('?'))));
        assert_eq!(press('i', Mode::Menu), Some(Action::Pick('i')));
        let shifted = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(pressed(shifted, List), Some(Action::Move(Step::Last)));
    }
}
