//! Draws the last line: key hints or a notice, and the sync status.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{ACCENT, BOLD, DIM, WRONG, put_line, stamp_text};
use crate::output::{bytes, cut_to_width};
use crate::tui::action::Menu;
use crate::tui::input::LineInput;
use crate::tui::keys::{Binding, KEYS};
use crate::tui::menu;
use crate::tui::state::{ActionNotice, Overlay, SyncProgress, TuiState};

const FIND: &str = " find ";

pub(in crate::tui) fn draw_footer(state: &TuiState, area: Rect, buffer: &mut Buffer) {
    let fresh = cut_to_width(&freshness_text(&state.sync), usize::from(area.width / 2));
    let room = area.width.saturating_sub(fresh.width() as u16 + 2);
    let left = match (&state.overlay, &state.find, &state.notice) {
        (Some(Overlay::Menu(menu)), _, _) => menu_line(*menu),
        (None, Some(find), _) => {
            Line::from(vec![Span::styled(FIND, ACCENT), Span::raw(find.text.clone())])
        }
        (_, _, Some(ActionNotice::Done(text))) => notice_line(text, room, Style::new()),
        (_, _, Some(ActionNotice::Failed(text))) => notice_line(text, room, WRONG),
        _ => hint_line(state, room),
    };
    put_line(buffer, Rect { width: room, ..area }, 0, &left);
    let end = area.right().saturating_sub(fresh.width() as u16 + 1);
    stamp_text(buffer, end, area.y, &fresh, DIM);
}

fn notice_line(text: &str, room: u16, style: Style) -> Line<'static> {
    Line::styled(format!(" {}", cut_to_width(text, usize::from(room.saturating_sub(2)))), style)
}

/// Returns the cursor position while a text to find is typed.
pub(super) fn find_cursor(find: &LineInput, area: Rect) -> Position {
    let before = FIND.len() + find.text[..find.at].width();
    Position::new((area.x + before as u16).min(area.right().saturating_sub(1)), area.y)
}

fn menu_line(menu: Menu) -> Line<'static> {
    let what = match menu {
        Menu::Copy => " copy  ",
        Menu::Open => " open in  ",
        Menu::Export => " export as  ",
    };
    let mut line = Line::from(vec![Span::styled(what, ACCENT)]);
    for (letter, name) in menu::menu_items(menu) {
        line.spans.push(Span::styled(letter.to_string(), BOLD));
        line.spans.push(Span::styled(format!(" {name}   "), DIM));
    }
    line
}

/// Returns the key hints that fit. The hint for help is always included.
fn hint_line(state: &TuiState, room: u16) -> Line<'static> {
    let mode = state.input_mode();
    let here = KEYS.iter().filter(|it| it.modes.contains(&mode) && !it.hint.is_empty());
    let (help, others): (Vec<&Binding>, Vec<&Binding>) = here.partition(|it| it.hint == "help");
    let width = |it: &Binding| it.first_key_name().width() + it.hint.width() + 3;
    let mut left =
        usize::from(room).saturating_sub(1 + help.iter().map(|it| width(it)).sum::<usize>());
    let fitting = others.into_iter().take_while(|it| {
        let fits = width(it) <= left;
        left = left.saturating_sub(width(it));
        fits
    });
    let mut line = Line::from(vec![Span::raw(" ")]);
    for binding in fitting.chain(help) {
        line.spans.push(Span::styled(binding.first_key_name(), BOLD));
        line.spans.push(Span::styled(format!(" {}  ", binding.hint), DIM));
    }
    line
}

fn freshness_text(progress: &SyncProgress) -> String {
    match progress {
        SyncProgress::Idle => String::new(),
        SyncProgress::Checking => "checking for new sessions".to_owned(),
        SyncProgress::Reading { bytes: done, of } => {
            format!("reading {} of {}", bytes(*done), bytes(*of))
        }
        SyncProgress::UpToDate => "up to date".to_owned(),
        SyncProgress::Busy => "another aj process is reading".to_owned(),
        SyncProgress::Failed(error) => error.clone(),
    }
}
