//! A session being read: the messages around the place where the reader is, and nothing more,
//! so that a session of any size opens at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agent_journal::Entry;
use ratatui::text::Line;

use super::action::{Fold, Landmark, Way};
use super::answer::contains;
use super::worker::{Goal, Landing, Mark, Pages, Row, View, Window};
use crate::output::transcript::Detail;

/// Messages asked for before and after the place where the reader is.
const AROUND: u64 = 60;

/// The reader is asked for more when fewer than these are left.
const MARGIN: u64 = 20;

/// A session being read.
pub(super) struct Reader {
    pub(super) entry: Box<Entry>,
    pub(super) view: View,
    pub(super) height: usize,
    /// The facts about the session.
    pub(super) facts: Vec<Line<'static>>,
    /// The first line on the screen.
    pub(super) top: Place,
    /// The line the reader went to; near the end it is not the first.
    pub(super) at: Place,
    /// What was found in the session, to be marked.
    pub(super) needle: String,
    /// What the query found, to be marked until something else is looked for.
    pub(super) words: Vec<String>,
    messages: BTreeMap<u64, Vec<Row>>,
    /// What of the session is here.
    loaded: Range<u64>,
    /// What was asked for and is not here yet.
    asked: Range<u64>,
    /// What to go to in the message once it is here, and the line from which on.
    seeking: Option<(Goal, Way, Option<String>)>,
    /// The message whose found words are to be brought onto the screen, and whether something
    /// folded has them.
    arriving: Option<(u64, bool)>,
}

/// What to read: a session, the message to begin with, and whether it was found in what is folded
/// at first, a tool's text or a document.
pub(super) struct Target {
    pub(super) entry: Box<Entry>,
    pub(super) message: u64,
    pub(super) is_folded: bool,
}

/// A line of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) message: u64,
    pub(super) row: usize,
}

impl Reader {
    pub(super) fn new(target: Target, width: usize, height: usize) -> Self {
        let Target { entry, message, is_folded } = target;
        let place = Place { message, row: 0 };
        Self {
            entry,
            view: View { detail: Detail::default(), width, flipped: Arc::default(), opened: None },
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

    /// How many messages there are; plans and checkpoints alone are read as one.
    pub(super) fn total(&self) -> u64 {
        self.entry.transcript_length().max(1)
    }

    /// The part that has to be asked for, if any.
    pub(super) fn wanted(&mut self) -> Option<Window> {
        let at = self.top.message;
        let near = at.saturating_sub(MARGIN)..(at + MARGIN).min(self.total());
        let has = |part: &Range<u64>| part.start <= near.start && near.end <= part.end;
        if has(&self.loaded) || has(&self.asked) {
            return None;
        }
        let range = at.saturating_sub(AROUND)..(at + AROUND).min(self.total());
        self.asked = range.clone();
        Some(Window { entry: self.entry.clone(), range, view: self.view.clone() })
    }

    /// Takes in what was asked for.
    pub(super) fn accept(&mut self, pages: Pages) {
        if pages.id != self.entry.id || pages.view != self.view {
            return;
        }
        self.facts = pages.facts;
        self.messages = pages.messages.into_iter().collect();
        self.loaded = self.asked.clone();
        if let Some((goal, way, line)) = self.seeking.take() {
            self.reach(&goal, way, line.as_deref());
        } else if let Some((message, is_folded)) = self.arriving.take() {
            self.arrive(message, is_folded);
        }
        self.settle();
    }

    /// Shows the session in another width or detail; the place stays.
    pub(super) fn show(&mut self, view: View, height: usize) {
        self.height = height;
        if self.view != view {
            self.view = view;
            self.top = Place { row: 0, ..self.at };
            self.at = self.top;
            self.forget();
        }
        self.settle();
    }

    /// Shows more or less of the messages.
    pub(super) fn fold(&mut self, fold: Fold) {
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
        self.show(view, self.height);
    }

    /// Folds or unfolds the tool on this line of the screen, or the next one below the place of
    /// the reader, or the last one above it; false when there is none.
    pub(super) fn turn(&mut self, line: Option<usize>) -> bool {
        let lines = self.shown().enumerate();
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
        // What is folded under the reader leaves its first line.
        let head = self.head(&call).filter(|head| *head < place);
        self.at = head.unwrap_or(place);
        self.top = self.top.min(self.at);
        // The lines stay until the new ones are here.
        (self.loaded, self.asked) = (0..0, 0..0);
        true
    }

    /// The line where a call begins.
    fn head(&self, call: &str) -> Option<Place> {
        self.messages.iter().find_map(|(message, rows)| {
            let is_head = |row: &Row| row.mark == Mark::Call && row.call.as_deref() == Some(call);
            rows.iter().position(is_head).map(|row| Place { message: *message, row })
        })
    }

    fn forget(&mut self) {
        self.messages.clear();
        (self.loaded, self.asked) = (0..0, 0..0);
    }

    /// Goes to a message.
    pub(super) fn go(&mut self, message: u64) {
        self.top = Place { message: message.min(self.total().saturating_sub(1)), row: 0 };
        self.at = self.top;
        if !self.loaded.contains(&self.top.message) {
            self.forget();
        }
        self.settle();
    }

    /// Goes to a message that has what is sought, and there to its line.
    pub(super) fn go_to(&mut self, landing: &Landing, goal: Goal, way: Way) {
        let message = landing.message;
        // What is unfolded around the reader is gone through from where the reader is.
        let line = self.line().filter(|_| landing.is_folded && message == self.at.message);
        if landing.is_folded {
            self.unfold(message);
        } else {
            self.go(message);
        }
        if self.loaded.contains(&message) {
            self.reach(&goal, way, None);
        } else {
            self.seeking = Some((goal, way, line));
        }
    }

    /// Goes to a place that was found.
    pub(super) fn arrive_at(&mut self, message: u64, is_folded: bool) {
        if self.view.opened.take().is_some() {
            self.forget();
        }
        self.go(message);
        if self.loaded.contains(&message) {
            self.arrive(message, is_folded);
        } else {
            self.arriving = Some((message, is_folded));
        }
    }

    /// Brings the first word that was found onto the screen, when it is far down in its message
    /// or in what is folded.
    fn arrive(&mut self, message: u64, is_folded: bool) {
        let rows = self.messages.get(&message).map_or(&[][..], Vec::as_slice);
        let has = |row: &Row| self.words.iter().any(|word| contains(&row.line, word));
        let found = rows.iter().position(has);
        if let Some(row) = found.filter(|row| *row + 1 >= self.height) {
            let row = row.saturating_sub(self.height / 3);
            self.top = Place { message, row };
            self.at = self.top;
            self.settle();
        } else if found.is_none()
            && is_folded
            && !self.words.is_empty()
            && self.view.opened.is_none()
        {
            self.unfold(message);
            self.arriving = Some((message, is_folded));
        }
    }

    /// Goes to a message and shows everything in it.
    fn unfold(&mut self, message: u64) {
        self.view.opened = Some(message);
        self.top = Place { message, row: 0 };
        self.at = self.top;
        self.forget();
    }

    /// Goes to the line of the message that has what is sought: to the next one from a line on, if
    /// that is still there, or else to the first.
    fn reach(&mut self, goal: &Goal, way: Way, line: Option<&str>) {
        let rows = self.messages.get(&self.at.message).map_or(&[][..], Vec::as_slice);
        let start = line.and_then(|line| rows.iter().position(|row| unfolded(row) == line));
        let mut places = (0..rows.len()).filter(|at| fits(&rows[*at], goal));
        let found = match (way, start) {
            (Way::Next, None) => places.next(),
            (Way::Previous, None) => places.next_back(),
            (Way::Next, Some(start)) => places.find(|at| *at > start).or(Some(start)),
            (Way::Previous, Some(start)) => places.rfind(|at| *at < start).or(Some(start)),
        };
        self.stand(found);
    }

    /// The line the reader is at, as it is when its message is unfolded.
    fn line(&self) -> Option<String> {
        self.messages.get(&self.at.message)?.get(self.at.row).map(unfolded)
    }

    /// Stands on a line of the message, if there is one to stand on.
    fn stand(&mut self, row: Option<usize>) -> bool {
        if let Some(row) = row {
            self.at.row = row;
            self.top = self.at;
            self.settle();
        }
        row.is_some()
    }

    /// Whether the line the reader is at has the needle.
    pub(super) fn needle_at_top(&self) -> bool {
        let rows = self.messages.get(&self.at.message);
        let row = rows.and_then(|rows| rows.get(self.at.row));
        !self.needle.is_empty() && row.is_some_and(|row| contains(&row.line, &self.needle))
    }

    /// Goes to the next or previous line of this message that fits; false when none does.
    pub(super) fn reach_here(&mut self, goal: &Goal, way: Way) -> bool {
        let Some(rows) = self.messages.get(&self.at.message) else { return false };
        let is_fit = |at: &usize| rows.get(*at).is_some_and(|row| fits(row, goal));
        let found = match way {
            Way::Next => (self.at.row + 1..rows.len()).find(is_fit),
            Way::Previous => (0..self.at.row).rev().find(is_fit),
        };
        self.stand(found)
    }

    /// Moves by lines, as far as there are any.
    pub(super) fn scroll(&mut self, by: isize) {
        for _ in 0..by.unsigned_abs() {
            let next = if by > 0 { self.after(self.top) } else { self.before(self.top) };
            let Some(next) = next else { break };
            self.top = next;
        }
        self.settle();
        self.at = self.top;
    }

    fn after(&self, place: Place) -> Option<Place> {
        let rows = self.messages.get(&place.message).map_or(0, Vec::len);
        if place.row + 1 < rows {
            return Some(Place { row: place.row + 1, ..place });
        }
        let mut later = self.messages.range(place.message + 1..);
        let (message, _) = later.find(|(_, rows)| !rows.is_empty())?;
        Some(Place { message: *message, row: 0 })
    }

    fn before(&self, place: Place) -> Option<Place> {
        if place.row > 0 {
            return Some(Place { row: place.row - 1, ..place });
        }
        let mut earlier = self.messages.range(..place.message);
        let (message, rows) = earlier.rfind(|(_, rows)| !rows.is_empty())?;
        Some(Place { message: *message, row: rows.len() - 1 })
    }

    /// Keeps the screen full at the end of the session, and off messages that show nothing.
    fn settle(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let rows = self.messages.get(&self.top.message).map_or(0, Vec::len);
        if self.top.row >= rows
            && let Some(next) = self.after(self.top).or_else(|| self.before(self.top))
        {
            self.top = next;
            self.at = next;
        }
        if self.loaded.end < self.total() {
            return;
        }
        let mut missing = self.height.saturating_sub(self.rows(self.height).count());
        while missing > 0
            && let Some(before) = self.before(self.top)
        {
            self.top = before;
            missing -= 1;
        }
    }

    /// Up to `height` lines from the top on, each with its place.
    fn rows(&self, height: usize) -> impl Iterator<Item = (Place, &Row)> {
        self.messages
            .range(self.top.message..)
            .flat_map(|(message, rows)| numbered(*message, rows))
            .skip(self.top.row)
            .take(height)
    }

    /// The lines on the screen: the gap before a message is no use at the top.
    pub(super) fn shown(&self) -> impl Iterator<Item = (Place, &Row)> {
        let rows = self.rows(self.height + 1).skip_while(|(_, row)| row.is_empty());
        rows.take(self.height)
    }

    /// What is to be marked.
    pub(super) fn marks(&self) -> &[String] {
        if self.needle.is_empty() { &self.words } else { std::slice::from_ref(&self.needle) }
    }

    /// Whether anything is here to be shown.
    pub(super) fn is_loaded(&self) -> bool {
        !self.messages.is_empty()
    }
}

fn numbered(message: u64, rows: &[Row]) -> impl Iterator<Item = (Place, &Row)> {
    rows.iter().enumerate().map(move |(row, line)| (Place { message, row }, line))
}

impl Row {
    pub(super) fn is_empty(&self) -> bool {
        self.line.spans.iter().all(|span| span.content.trim().is_empty())
    }
}

/// A line as it is when its message is unfolded.
fn unfolded(row: &Row) -> String {
    row.line.to_string().replacen('▸', "▾", 1)
}

/// Whether a line is what is sought; a prompt is a whole message.
fn fits(row: &Row, goal: &Goal) -> bool {
    match goal {
        Goal::Landmark(Landmark::Prompt) => false,
        Goal::Landmark(Landmark::Tool) => row.mark == Mark::Call,
        Goal::Landmark(Landmark::Error) => row.mark == Mark::Failure,
        Goal::Text(text) => contains(&row.line, text),
    }
}
