//! The layout of each screen for a given size, used for drawing and for the mouse.

use ratatui::layout::{Constraint, Layout, Rect, Size};

/// Minimum width at which the preview is placed beside the list.
const WIDE: u16 = 120;

/// Minimum height at which the preview is placed below the list.
const HIGH: u16 = 18;

/// The layout of the first screen.
pub(super) struct BrowseLayout {
    pub(super) input: Rect,
    /// Completions, an error, or the number of results.
    pub(super) summary: Rect,
    pub(super) results: Rect,
    pub(super) preview: Option<Preview>,
    pub(super) footer: Rect,
}

/// The layout of the preview of the selected session.
pub(super) struct Preview {
    /// The line between list and preview.
    pub(super) line: Rect,
    /// The facts about the session. Below the list they are drawn on the separator.
    pub(super) head: Rect,
    pub(super) text: Rect,
}

/// The layout of a screen with one text.
pub(super) struct TextPageLayout {
    pub(super) head: Rect,
    pub(super) text: Rect,
    pub(super) footer: Rect,
}

pub(super) fn browse_layout(size: Size) -> BrowseLayout {
    let area = Rect::from((ratatui::layout::Position::ORIGIN, size));
    let rows =
        [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)];
    let [input, summary, middle, footer] = Layout::vertical(rows).areas(area);
    let (results, preview) = if size.width >= WIDE {
        let columns = [Constraint::Percentage(46), Constraint::Length(1), Constraint::Fill(1)];
        let [results, line, beside] = Layout::horizontal(columns).areas(middle);
        let rows = [Constraint::Length(1), Constraint::Fill(1)];
        let [head, text] = Layout::vertical(rows).areas(beside);
        (results, Some(Preview { line, head, text: inset_area(text) }))
    } else if size.height >= HIGH {
        let rows = [Constraint::Percentage(42), Constraint::Length(1), Constraint::Fill(1)];
        let [results, line, text] = Layout::vertical(rows).areas(middle);
        (results, Some(Preview { line, head: line, text: inset_area(text) }))
    } else {
        (middle, None)
    };
    BrowseLayout { input, summary, results, preview, footer }
}

/// Returns the layout of a session that is read, with two lines of facts if there is room.
pub(super) fn reading_layout(size: Size) -> TextPageLayout {
    text_page_layout(size, if size.height >= HIGH { 3 } else { 2 })
}

/// Returns the layout of the statistics.
pub(super) fn stats_layout(size: Size) -> TextPageLayout {
    text_page_layout(size, 2)
}

fn text_page_layout(size: Size, head: u16) -> TextPageLayout {
    let area = Rect::from((ratatui::layout::Position::ORIGIN, size));
    let rows = [Constraint::Length(head), Constraint::Fill(1), Constraint::Length(1)];
    let [head, text, footer] = Layout::vertical(rows).areas(area);
    TextPageLayout { head, text: inset_area(text), footer }
}

/// Leaves a column free on each side. The left one is used for marks.
fn inset_area(area: Rect) -> Rect {
    Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }
}

/// Returns the area of a box in the middle of the screen.
pub(super) fn popup_area(size: Size, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(size.width), height.min(size.height));
    Rect::new((size.width - width) / 2, (size.height - height) / 2, width, height)
}
