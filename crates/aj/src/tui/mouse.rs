//! What the mouse does: it chooses, opens and scrolls what is under it.

use ratatui::layout::Position;

use super::action::{Step, Way};
use super::keys::Mode;
use super::layout;
use super::state::{Focus, Overlay, State};

/// Lines the wheel scrolls by.
const WHEEL: isize = 3;

impl State {
    pub(super) fn click(&mut self, at: Position) {
        match self.mode() {
            Mode::Search | Mode::List => self.click_list(at),
            Mode::Filters => self.click_filters(at),
            Mode::Help | Mode::Menu => self.overlay = None,
            Mode::Reading => {
                let area = layout::reading(self.size).text;
                if area.contains(at) {
                    self.turn(Some(usize::from(at.y - area.y)));
                }
            }
            _ => {}
        }
    }

    fn click_list(&mut self, at: Position) {
        let areas = layout::browse(self.size);
        if areas.input.contains(at) {
            self.focus = Focus::Search;
        } else if areas.results.contains(at) {
            self.focus = Focus::List;
            let Some(chosen) = self.results.at_line(at.y - areas.results.y) else { return };
            // The second click on a session opens it.
            if chosen == self.results.chosen {
                self.open();
            } else {
                self.select(chosen);
            }
        } else if areas.preview.is_some_and(|preview| preview.text.contains(at)) {
            self.open();
        }
    }

    fn click_filters(&mut self, at: Position) {
        let Some((column, row)) = super::panes::filters::at(self, at) else {
            self.overlay = None;
            return;
        };
        if let Some(Overlay::Filters(chooser)) = &mut self.overlay {
            chooser.column = column;
            chooser.move_to(row);
        }
        self.toggle();
    }

    pub(super) fn wheel(&mut self, at: Position, way: Way) {
        let by = if way == Way::Next { WHEEL } else { -WHEEL };
        let areas = layout::browse(self.size);
        let over_preview = areas.preview.is_some_and(|preview| preview.text.contains(at));
        match (self.mode(), &mut self.reader, &mut self.preview) {
            (Mode::Reading | Mode::Find, Some(reader), _) => reader.scroll(by),
            (Mode::Search | Mode::List, _, Some(preview)) if over_preview => preview.scroll(by),
            (Mode::Menu, _, _) => {}
            _ => self.apply(super::action::Action::Move(Step::Line(way))),
        }
    }
}
