//! The last line: what can be done here, what just happened, how fresh the journal is.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{ACCENT, BOLD, DIM, WRONG, put, stamp};
use crate::output::{bytes, cut};
use crate::tui::action::Menu;
use crate::tui::input::Input;
use crate::tui::keys::{Binding, KEYS};
use crate::tui::menu;
use crate::tui::state::{News, Notice, Overlay, State};

const FIND: &str = " find ";

pub(in crate::tui) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let fresh = cut(&freshness(&state.news), usize::from(area.width / 2));
    let room = area.width.saturating_sub(fresh.width() as u16 + 2);
    let left = match (&state.overlay, &state.find, &state.notice) {
        (Some(Overlay::Menu(menu)), _, _) => choices(*menu),
        (None, Some(find), _) => {
            Line::from(vec![Span::styled(FIND, ACCENT), Span::raw(find.text.clone())])
        }
        (_, _, Some(Notice::Done(text))) => said(text, room, Style::new()),
        (_, _, Some(Notice::Failed(text))) => said(text, room, WRONG),
        _ => hints(state, room),
    };
    put(buffer, Rect { width: room, ..area }, 0, &left);
    let end = area.right().saturating_sub(fresh.width() as u16 + 1);
    stamp(buffer, (end, area.y), &fresh, DIM);
}

fn said(text: &str, room: u16, style: Style) -> Line<'static> {
    Line::styled(format!(" {}", cut(text, usize::from(room.saturating_sub(2)))), style)
}

/// Where the cursor is while something to be found is typed.
pub(super) fn cursor(find: &Input, area: Rect) -> Position {
    let before = FIND.len() + find.text[..find.at].width();
    Position::new((area.x + before as u16).min(area.right().saturating_sub(1)), area.y)
}

fn choices(menu: Menu) -> Line<'static> {
    let what = match menu {
        Menu::Copy => " copy  ",
        Menu::Open => " open in  ",
        Menu::Export => " export as  ",
    };
    let mut line = Line::from(vec![Span::styled(what, ACCENT)]);
    for (letter, name) in menu::items(menu) {
        line.spans.push(Span::styled(letter.to_string(), BOLD));
        line.spans.push(Span::styled(format!(" {name}   "), DIM));
    }
    line
}

/// As many of the keys of this place as have room, help always.
fn hints(state: &State, room: u16) -> Line<'static> {
    let mode = state.mode();
    let here = KEYS.iter().filter(|it| it.modes.contains(&mode) && !it.hint.is_empty());
    let (help, others): (Vec<&Binding>, Vec<&Binding>) = here.partition(|it| it.hint == "help");
    let width = |it: &Binding| it.name().width() + it.hint.width() + 3;
    let mut left =
        usize::from(room).saturating_sub(1 + help.iter().map(|it| width(it)).sum::<usize>());
    let fitting = others.into_iter().take_while(|it| {
        let fits = width(it) <= left;
        left = left.saturating_sub(width(it));
        fits
    });
    let mut line = Line::from(vec![Span::raw(" ")]);
    for binding in fitting.chain(help) {
        line.spans.push(Span::styled(binding.name(), BOLD));
        line.spans.push(Span::styled(format!(" {}  ", binding.hint), DIM));
    }
    line
}

fn freshness(news: &News) -> String {
    match news {
        News::Unasked => String::new(),
        News::Looking => "looking for news".to_owned(),
        News::Reading { bytes: done, of } => format!("reading {} of {}", bytes(*done), bytes(*of)),
        News::UpToDate => "up to date".to_owned(),
        News::Busy => "another aj is reading".to_owned(),
        News::Failed(error) => error.clone(),
    }
}
