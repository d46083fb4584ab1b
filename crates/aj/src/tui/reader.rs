//! The state of a session that is read. Only the messages around the current position are loaded,
//! so that a session of any size opens at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agent_journal::Entry;
use ratatui::text::Line;

use super::action::{Fold, LandmarkKind, Way};
use super::answer::line_contains;
use super::worker::{Goal, Landing, Pages, RenderedRow, RequestedWindow, RowMark, ViewOptions};
use crate::output::transcript::ShownParts;

/// Messages requested before and after the current position.
const AROUND: u64 = 60;

/// Minimum number of loaded messages around the position; with fewer, more are requested.
const MARGIN: u64 = 20;

/// A session that is read, with its loaded messages and the position in it.
pub(super) struct TranscriptReader {
    pub(super) entry: Box<Entry>,
    pub(super) view: ViewOptions,
    pub(super) height: usize,
    /// The header lines of the session.
    pub(super) facts: Vec<Line<'static>>,
    /// The first row on the screen.
    pub(super) top: RowPosition,
    /// The current row. Near the end of the session it is not the first one on the screen.
    pub(super) at: RowPosition,
    /// The text searched in the session, to be highlighted.
    pub(super) needle: String,
    /// The words that matched the query, highlighted until another text is searched.
    pub(super) words: Vec<String>,
    messages: BTreeMap<u64, Vec<RenderedRow>>,
    /// The range of loaded messages.
    loaded: Range<u64>,
    /// The range of requested messages that have not arrived.
    asked: Range<u64>,
    /// The goal to go to in the message once it is loaded, the direction, and the line to start
    /// from.
    seeking: Option<(Goal, Way, Option<String>)>,
    /// The message whose matched words are to be scrolled into view, and whether they may be in
    /// folded text.
    arriving: Option<(u64, bool)>,
}

/// The session to read, the first message, and whether the hit is in text that is folded by
/// default: tool text or a document.
pub(super) struct OpenTarget {
    pub(super) entry: Box<Entry>,
    pub(super) message: u64,
    pub(super) is_folded: bool,
}

/// The position of a row: message and row within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPosition {
    pub(super) message: u64,
    pub(super) row: usize,
}

impl TranscriptReader {
    pub(super) fn new(target: OpenTarget, width: usize, height: usize) -> Self {
        let OpenTarget { entry, message, is_folded } = target;
        let place = RowPosition { message, row: 0 };
        Self {
            entry,
            view: ViewOptions {
                detail: ShownParts::default(),
                width,
                flipped: Arc::default(),
                opened: None,
            },
            height,
            facts: Vec::new(),
            top: place,
            at: place,
            needle: String::new(),
            words: Vec::new(),
            messages: BTreeMap::new(),
            loaded: 0..0,
            asked: 0..0,
            seeking: None,
            arriving: Some((message, is_folded)),
        }
    }

    /// Returns the number of messages, at least 1: a session of documents alone is shown as one
    /// message.
    pub(super) fn message_total(&self) -> u64 {
        self.entry.transcript_length().max(1)
    }

    /// Returns the part that must be requested, if any.
    pub(super) fn missing_window(&mut self) -> Option<RequestedWindow> {
        let at = self.top.message;
        let near = at.saturating_sub(MARGIN)..(at + MARGIN).min(self.message_total());
        let has = |part: &Range<u64>| part.start <= near.start && near.end <= part.end;
        if has(&self.loaded) || has(&self.asked) {
            return None;
        }
        let range = at.saturating_sub(AROUND)..(at + AROUND).min(self.message_total());
        self.asked = range.clone();
        Some(RequestedWindow { entry: self.entry.clone(), range, view: self.view.clone() })
    }

    /// Takes over requested messages, unless they are outdated.
    pub(super) fn accept_pages(&mut self, pages: Pages) {
        if pages.id != self.entry.id || pages.view != self.view {
            return;
        }
        self.facts = pages.facts;
        self.messages = pages.messages.into_iter().collect();
        self.loaded = self.asked.clone();
        if let Some((goal, way, line)) = self.seeking.take() {
            self.move_to_goal(&goal, way, line.as_deref());
        } else if let Some((message, is_folded)) = self.arriving.take() {
            self.scroll_to_match(message, is_folded);
        }
        self.fill_screen();
    }

    /// Changes width, detail or height and keeps the position.
    pub(super) fn set_view(&mut self, view: ViewOptions, height: usize) {
        self.height = height;
        if self.view != view {
            self.view = view;
            self.top = RowPosition { row: 0, ..self.at };
            self.at = self.top;
            self.forget_pages();
        }
        self.fill_screen();
    }

    /// Folds or unfolds all parts of a kind.
    pub(super) fn toggle_fold(&mut self, fold: Fold) {
        let mut view = self.view.clone();
        let detail = &mut view.detail;
        match fold {
            Fold::Tools => {
                detail.tools = !detail.tools;
                (view.flipped, view.opened) = (Arc::default(), None);
            }
            Fold::Thinking => detail.thinking = !detail.thinking,
            Fold::Everything => detail.everything = !detail.everything,
        }
        self.set_view(view, self.height);
    }

    /// Folds or unfolds the tool on a line of the screen, or else the next one below the current
    /// row, or the last one above it. Returns false if there is none.
    pub(super) fn toggle_tool(&mut self, line: Option<usize>) -> bool {
        let lines = self.rows_on_screen().enumerate();
        let tools = lines.filter_map(|(at, (place, row))| Some((at, place, row.call.clone()?)));
        let tools: Vec<_> = tools.collect();
        let is_meant = |at, place| line.map_or(place >= self.at, |line| line == at);
        let found = tools.iter().find(|(at, place, _)| is_meant(*at, *place));
        let found = found.or(tools.last().filter(|_| line.is_none()));
        let Some((_, place, call)) = found.cloned() else { return false };
        if self.view.opened == Some(place.message) {
            self.view.opened = None;
        } else {
            let flipped = Arc::make_mut(&mut self.view.flipped);
            if !flipped.remove(&*call) {
                flipped.insert(call.to_string());
            }
        }
        // If the tool is folded, the position moves to its first row.
        let head = self.call_head_position(&call).filter(|head| *head < place);
        self.at = head.unwrap_or(place);
        self.top = self.top.min(self.at);
        // The old rows stay visible until the new ones arrive.
        (self.loaded, self.asked) = (0..0, 0..0);
        true
    }

    /// Returns the position of the first row of a tool call.
    fn call_head_position(&self, call: &str) -> Option<RowPosition> {
        self.messages.iter().find_map(|(message, rows)| {
            let is_head =
                |row: &RenderedRow| row.mark == RowMark::Call && row.call.as_deref() == Some(call);
            rows.iter().position(is_head).map(|row| RowPosition { message: *message, row })
        })
    }

    fn forget_pages(&mut self) {
        self.messages.clear();
        (self.loaded, self.asked) = (0..0, 0..0);
    }

    /// Goes to a message.
    pub(super) fn go_to_message(&mut self, message: u64) {
        self.top =
            RowPosition { message: message.min(self.message_total().saturating_sub(1)), row: 0 };
        self.at = self.top;
        if !self.loaded.contains(&self.top.message) {
            self.forget_pages();
        }
        self.fill_screen();
    }

    /// Goes to a message that contains the goal, and to the matching row.
    pub(super) fn go_to_landing(&mut self, landing: &Landing, goal: Goal, way: Way) {
        let message = landing.message;
        // In the current message, the search continues from the current row after unfolding.
        let line =
            self.current_line_text().filter(|_| landing.is_folded && message == self.at.message);
        if landing.is_folded {
            self.unfold_message(message);
        } else {
            self.go_to_message(message);
        }
        if self.loaded.contains(&message) {
            self.move_to_goal(&goal, way, None);
        } else {
            self.seeking = Some((goal, way, line));
        }
    }

    /// Goes to a hit of the query.
    pub(super) fn arrive_at(&mut self, message: u64, is_folded: bool) {
        if self.view.opened.take().is_some() {
            self.forget_pages();
        }
        self.go_to_message(message);
        if self.loaded.contains(&message) {
            self.scroll_to_match(message, is_folded);
        } else {
            self.arriving = Some((message, is_folded));
        }
    }

    /// Scrolls to the first matched word if it is far down in its message, or unfolds the message.
    fn scroll_to_match(&mut self, message: u64, is_folded: bool) {
        let rows = self.messages.get(&message).map_or(&[][..], Vec::as_slice);
        let has = |row: &RenderedRow| self.words.iter().any(|word| line_contains(&row.line, word));
        let found = rows.iter().position(has);
        if let Some(row) = found.filter(|row| *row + 1 >= self.height) {
            let row = row.saturating_sub(self.height / 3);
            self.top = RowPosition { message, row };
            self.at = self.top;
            self.fill_screen();
        } else if found.is_none()
            && is_folded
            && !self.words.is_empty()
            && self.view.opened.is_none()
        {
            self.unfold_message(message);
            self.arriving = Some((message, is_folded));
        }
    }

    /// Goes to a message and shows it in full.
    fn unfold_message(&mut self, message: u64) {
        self.view.opened = Some(message);
        self.top = RowPosition { message, row: 0 };
        self.at = self.top;
        self.forget_pages();
    }

    /// Goes to a matching row of the message: to the next one after a line if that line still
    /// exists, otherwise to the first one.
    fn move_to_goal(&mut self, goal: &Goal, way: Way, line: Option<&str>) {
        let rows = self.messages.get(&self.at.message).map_or(&[][..], Vec::as_slice);
        let start = line.and_then(|line| rows.iter().position(|row| unfolded_text(row) == line));
        let mut places = (0..rows.len()).filter(|at| row_matches_goal(&rows[*at], goal));
        let found = match (way, start) {
            (Way::Next, None) => places.next(),
            (Way::Previous, None) => places.next_back(),
            (Way::Next, Some(start)) => places.find(|at| *at > start).or(Some(start)),
            (Way::Previous, Some(start)) => places.rfind(|at| *at < start).or(Some(start)),
        };
        self.move_to_row(found);
    }

    /// Returns the text of the current row as in an unfolded message.
    fn current_line_text(&self) -> Option<String> {
        self.messages.get(&self.at.message)?.get(self.at.row).map(unfolded_text)
    }

    /// Moves to a row of the current message, if one is given.
    fn move_to_row(&mut self, row: Option<usize>) -> bool {
        if let Some(row) = row {
            self.at.row = row;
            self.top = self.at;
            self.fill_screen();
        }
        row.is_some()
    }

    /// Returns whether the current row contains the needle.
    pub(super) fn needle_at_top(&self) -> bool {
        let rows = self.messages.get(&self.at.message);
        let row = rows.and_then(|rows| rows.get(self.at.row));
        !self.needle.is_empty() && row.is_some_and(|row| line_contains(&row.line, &self.needle))
    }

    /// Goes to the next or previous matching row of this message. Returns false if there is none.
    pub(super) fn reach_here(&mut self, goal: &Goal, way: Way) -> bool {
        let Some(rows) = self.messages.get(&self.at.message) else { return false };
        let is_fit = |at: &usize| rows.get(*at).is_some_and(|row| row_matches_goal(row, goal));
        let found = match way {
            Way::Next => (self.at.row + 1..rows.len()).find(is_fit),
            Way::Previous => (0..self.at.row).rev().find(is_fit),
        };
        self.move_to_row(found)
    }

    /// Scrolls by a number of lines, at most to the ends of the loaded messages.
    pub(super) fn scroll_by(&mut self, by: isize) {
        for _ in 0..by.unsigned_abs() {
            let next =
                if by > 0 { self.position_after(self.top) } else { self.position_before(self.top) };
            let Some(next) = next else { break };
            self.top = next;
        }
        self.fill_screen();
        self.at = self.top;
    }

    fn position_after(&self, place: RowPosition) -> Option<RowPosition> {
        let rows = self.messages.get(&place.message).map_or(0, Vec::len);
        if place.row + 1 < rows {
            return Some(RowPosition { row: place.row + 1, ..place });
        }
        let mut later = self.messages.range(place.message + 1..);
        let (message, _) = later.find(|(_, rows)| !rows.is_empty())?;
        Some(RowPosition { message: *message, row: 0 })
    }

    fn position_before(&self, place: RowPosition) -> Option<RowPosition> {
        if place.row > 0 {
            return Some(RowPosition { row: place.row - 1, ..place });
        }
        let mut earlier = self.messages.range(..place.message);
        let (message, rows) = earlier.rfind(|(_, rows)| !rows.is_empty())?;
        Some(RowPosition { message: *message, row: rows.len() - 1 })
    }

    /// Keeps the screen full at the end of the session, and skips messages without rows.
    fn fill_screen(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let rows = self.messages.get(&self.top.message).map_or(0, Vec::len);
        if self.top.row >= rows
            && let Some(next) =
                self.position_after(self.top).or_else(|| self.position_before(self.top))
        {
            self.top = next;
            self.at = next;
        }
        if self.loaded.end < self.message_total() {
            return;
        }
        let mut missing = self.height.saturating_sub(self.visible_rows(self.height).count());
        while missing > 0
            && let Some(before) = self.position_before(self.top)
        {
            self.top = before;
            missing -= 1;
        }
    }

    /// Returns up to `height` rows from the top, each with its position.
    fn visible_rows(&self, height: usize) -> impl Iterator<Item = (RowPosition, &RenderedRow)> {
        self.messages
            .range(self.top.message..)
            .flat_map(|(message, rows)| numbered_rows(*message, rows))
            .skip(self.top.row)
            .take(height)
    }

    /// Returns the rows on the screen, without blank rows at the top.
    pub(super) fn rows_on_screen(&self) -> impl Iterator<Item = (RowPosition, &RenderedRow)> {
        let rows = self.visible_rows(self.height + 1).skip_while(|(_, row)| row.is_blank_row());
        rows.take(self.height)
    }

    /// Returns the words to highlight.
    pub(super) fn highlighted_words(&self) -> &[String] {
        if self.needle.is_empty() { &self.words } else { std::slice::from_ref(&self.needle) }
    }

    /// Returns whether any messages are loaded.
    pub(super) fn is_loaded(&self) -> bool {
        !self.messages.is_empty()
    }
}

fn numbered_rows(
    message: u64,
    rows: &[RenderedRow],
) -> impl Iterator<Item = (RowPosition, &RenderedRow)> {
    rows.iter().enumerate().map(move |(row, line)| (RowPosition { message, row }, line))
}

impl RenderedRow {
    pub(super) fn is_blank_row(&self) -> bool {
        self.line.spans.iter().all(|span| span.content.trim().is_empty())
    }
}

/// Returns the text of a row as in an unfolded message.
fn unfolded_text(row: &RenderedRow) -> String {
    row.line.to_string().replacen('▸', "▾", 1)
}

/// Returns whether a row matches the goal. A prompt is a whole message, not a row.
fn row_matches_goal(row: &RenderedRow, goal: &Goal) -> bool {
    match goal {
        Goal::Landmark(LandmarkKind::Prompt) => false,
        Goal::Landmark(LandmarkKind::Tool) => row.mark == RowMark::Call,
        Goal::Landmark(LandmarkKind::Error) => row.mark == RowMark::Failure,
        Goal::Text(text) => line_contains(&row.line, text),
    }
}
