//! A session being read: the messages around the place where the reader is, and nothing more,
//! so that a session of any size opens at once.

use std::collections::BTreeMap;
use std::ops::Range;

use agent_journal::Entry;
use ratatui::text::Line;

use super::action::{Fold, Way};
use super::answer::contains;
use super::worker::{Pages, View, Window};
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
    messages: BTreeMap<u64, Vec<Line<'static>>>,
    /// What of the session is here.
    loaded: Range<u64>,
    /// What was asked for and is not here yet.
    asked: Range<u64>,
    /// Whether the place is to be moved to the needle once its message is here.
    is_seeking: bool,
}

/// A line of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) message: u64,
    pub(super) row: usize,
}

impl Reader {
    pub(super) fn new(entry: Box<Entry>, at: u64, width: usize, height: usize) -> Self {
        Self {
            entry,
            view: View { detail: Detail::default(), width },
            height,
            facts: Vec::new(),
            top: Place { message: at, row: 0 },
            at: Place { message: at, row: 0 },
            needle: String::new(),
            words: Vec::new(),
            messages: BTreeMap::new(),
            loaded: 0..0,
            asked: 0..0,
            is_seeking: false,
        }
    }

    /// How many messages there are.
    pub(super) fn total(&self) -> u64 {
        self.entry.counts.messages
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
        Some(Window { entry: self.entry.clone(), range, view: self.view })
    }

    /// Takes in what was asked for.
    pub(super) fn accept(&mut self, pages: Pages) {
        if pages.id != self.entry.id || pages.view != self.view {
            return;
        }
        self.facts = pages.facts;
        self.messages = pages.messages.into_iter().collect();
        self.loaded = self.asked.clone();
        if std::mem::take(&mut self.is_seeking) {
            self.reach_needle();
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
        let mut view = self.view;
        let detail = &mut view.detail;
        match fold {
            Fold::Tools => detail.tools = !detail.tools,
            Fold::Thinking => detail.thinking = !detail.thinking,
            Fold::Everything => detail.everything = !detail.everything,
        }
        self.show(view, self.height);
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

    /// Goes to a message in which the needle is, and there to the line that has it.
    pub(super) fn go_to_needle(&mut self, message: u64) {
        self.go(message);
        if self.loaded.contains(&message) {
            self.reach_needle();
        } else {
            self.is_seeking = true;
        }
    }

    fn reach_needle(&mut self) {
        let rows = self.messages.get(&self.at.message).map_or(&[][..], Vec::as_slice);
        if let Some(row) = rows.iter().position(|row| contains(row, &self.needle)) {
            self.at.row = row;
            self.top = self.at;
            self.settle();
        }
    }

    /// Whether the line the reader is at has the needle.
    pub(super) fn needle_at_top(&self) -> bool {
        let rows = self.messages.get(&self.at.message);
        let row = rows.and_then(|rows| rows.get(self.at.row));
        !self.needle.is_empty() && row.is_some_and(|row| contains(row, &self.needle))
    }

    /// Goes to the next or previous line here that has the needle; false when none is here.
    pub(super) fn needle_here(&mut self, way: Way) -> bool {
        let Some(rows) = self.messages.get(&self.at.message) else { return false };
        let has = |at: &usize| rows.get(*at).is_some_and(|row| contains(row, &self.needle));
        let found = match way {
            Way::Next => (self.at.row + 1..rows.len()).find(has),
            Way::Previous => (0..self.at.row).rev().find(has),
        };
        if let Some(row) = found {
            self.at.row = row;
            self.top = self.at;
            self.settle();
        }
        found.is_some()
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

    /// Up to `height` lines from the top on, each with its message.
    pub(super) fn rows(&self, height: usize) -> impl Iterator<Item = (u64, &Line<'static>)> {
        self.messages
            .range(self.top.message..)
            .flat_map(|(message, rows)| rows.iter().map(move |row| (*message, row)))
            .skip(self.top.row)
            .take(height)
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
