//! Where everything is on a screen of a given size. Drawing and the mouse ask the same functions.

use ratatui::layout::{Constraint, Layout, Rect, Size};

/// From this width on the preview stands beside the list.
const WIDE: u16 = 120;

/// Below this height there is no room for a preview under the list.
const HIGH: u16 = 18;

/// The first screen.
pub(super) struct Browse {
    pub(super) input: Rect,
    /// What was understood: completions, an error, or how much was found.
    pub(super) summary: Rect,
    pub(super) results: Rect,
    pub(super) preview: Option<Preview>,
    pub(super) footer: Rect,
}

/// A look into the chosen session.
pub(super) struct Preview {
    /// What parts it from the list.
    pub(super) line: Rect,
    /// The facts about the session; under the list they stand on the line.
    pub(super) head: Rect,
    pub(super) text: Rect,
}

/// A screen that is one text.
pub(super) struct Page {
    pub(super) head: Rect,
    pub(super) text: Rect,
    pub(super) footer: Rect,
}

pub(super) fn browse(size: Size) -> Browse {
    let area = Rect::from((ratatui::layout::Position::ORIGIN, size));
    let rows =
        [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
    let [input, summary, middle, footer] = Layout::vertical(rows).areas(area);
    let (results, preview) = if size.width >= WIDE {
        let columns = [Constraint::Percentage(46), Constraint::Length(1), Constraint::Fill(1)];
        let [results, line, beside] = Layout::horizontal(columns).areas(middle);
        let rows = [Constraint::Length(1), Constraint::Fill(1)];
        let [head, text] = Layout::vertical(rows).areas(beside);
        (results, Some(Preview { line, head, text: inset(text) }))
    } else if size.height >= HIGH {
        let rows = [Constraint::Percentage(42), Constraint::Length(1), Constraint::Fill(1)];
        let [results, line, text] = Layout::vertical(rows).areas(middle);
        (results, Some(Preview { line, head: line, text: inset(text) }))
    } else {
        (middle, None)
    };
    Browse { input, summary, results, preview, footer }
}

/// A session being read: two lines of facts where there is room for them.
pub(super) fn reading(size: Size) -> Page {
    text(size, if size.height >= HIGH { 3 } else { 2 })
}

/// The statistics.
pub(super) fn stats(size: Size) -> Page {
    text(size, 2)
}

fn text(size: Size, head: u16) -> Page {
    let area = Rect::from((ratatui::layout::Position::ORIGIN, size));
    let rows = [Constraint::Length(head), Constraint::Fill(1), Constraint::Length(1)];
    let [head, text, footer] = Layout::vertical(rows).areas(area);
    Page { head, text: inset(text), footer }
}

/// Leaves a column free at either side: the left one is for marks.
fn inset(area: Rect) -> Rect {
    Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }
}

/// A box in the middle, over everything else.
pub(super) fn popup(size: Size, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(size.width), height.min(size.height));
    Rect::new((size.width - width) / 2, (size.height - height) / 2, width, height)
}
