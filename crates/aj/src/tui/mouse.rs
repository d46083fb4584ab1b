//! Mouse actions: select, open and scroll.

use ratatui::layout::Position;

use super::action::{MoveStep, Way};
use super::keys::InputMode;
use super::layout;
use super::state::{Focus, Overlay, TuiState};

/// Lines per step of the mouse wheel.
const WHEEL: isize = 3;

impl TuiState {
    pub(super) fn handle_click(&mut self, at: Position) {
        match self.input_mode() {
            InputMode::Search | InputMode::List => self.click_list(at),
            InputMode::Filters => self.click_filters(at),
            InputMode::Help | InputMode::Menu => self.overlay = None,
            InputMode::Reading => {
                let area = layout::reading_layout(self.size).text;
                if area.contains(at) {
                    self.fold_tool(Some(usize::from(at.y - area.y)));
                }
            }
            _ => {}
        }
    }

    fn click_list(&mut self, at: Position) {
        let areas = layout::browse_layout(self.size);
        if areas.input.contains(at) {
            self.focus = Focus::Search;
        } else if areas.results.contains(at) {
            self.focus = Focus::List;
            let Some(chosen) = self.results.at_line(at.y - areas.results.y) else { return };
            // The second click on a session opens it.
            if chosen == self.results.chosen {
                self.open_selected();
            } else {
                self.select_session(chosen);
            }
        } else if areas.preview.is_some_and(|preview| preview.text.contains(at)) {
            self.open_selected();
        }
    }

    fn click_filters(&mut self, at: Position) {
        let Some((column, row)) = super::panes::filters::filter_at(self, at) else {
            self.overlay = None;
            return;
        };
        if let Some(Overlay::Filters(chooser)) = &mut self.overlay {
            chooser.column = column;
            chooser.move_selection(row);
        }
        self.toggle_filter();
    }

    pub(super) fn handle_wheel(&mut self, at: Position, way: Way) {
        let by = if way == Way::Next { WHEEL } else { -WHEEL };
        let areas = layout::browse_layout(self.size);
        let over_preview = areas.preview.is_some_and(|preview| preview.text.contains(at));
        match (self.input_mode(), &mut self.reader, &mut self.preview) {
            (InputMode::Reading | InputMode::Find, Some(reader), _) => reader.scroll_by(by),
            (InputMode::Search | InputMode::List, _, Some(preview)) if over_preview => {
                preview.scroll_by(by);
            }
            (InputMode::Menu, _, _) => {}
            _ => self.apply_action(super::action::UserAction::Move(MoveStep::Line(way))),
        }
    }
}
