//! The first screen: a query being typed, the sessions that fit it, a look into the chosen one.

use agent_journal::TextKind;

use super::action::{Step, Way};
use super::complete::{Completion, complete};
use super::filters::{toggle, token};
use super::input::Input;
use super::layout;
use super::reader::{Reader, Target};
use super::state::{Focus, Overlay, State, stepped};
use super::worker::{Found, Item, Question};

/// Sessions asked for at first; more follow when the end of the list comes near.
const FIRST: usize = 40;

/// How near.
const NEAR: usize = 8;

/// The sessions that fit.
#[derive(Default)]
pub(super) struct Results {
    /// The last answer that was none but an answer.
    pub(super) found: Option<Found>,
    /// Why the query was not understood.
    pub(super) error: Option<String>,
    pub(super) chosen: usize,
    /// The place in the chosen session that was found.
    pub(super) hit: usize,
    /// The first session on the screen.
    pub(super) top: usize,
    limit: usize,
}

impl Results {
    pub(super) fn items(&self) -> &[Item] {
        self.found.as_ref().map_or(&[], |found| &found.items)
    }

    pub(super) fn chosen(&self) -> Option<&Item> {
        self.items().get(self.chosen)
    }

    /// The session to open and the message to begin with: what a sub-agent said stands in a
    /// session of its own.
    pub(super) fn target(&self) -> Option<Target> {
        let item = self.chosen()?;
        let hit = item.hits.get(self.hit).or(item.hits.first());
        let within = hit.and_then(|hit| hit.within.clone());
        let is_folded = hit.is_some_and(|hit| {
            let folded = [TextKind::ToolInput, TextKind::ToolOutput, TextKind::Document];
            folded.contains(&hit.kind)
        });
        Some(Target {
            entry: within.unwrap_or_else(|| Box::new(item.entry.clone())),
            message: hit.and_then(|hit| hit.position).unwrap_or(0),
            is_folded,
        })
    }

    /// The words that were found in the chosen session.
    pub(super) fn words(&self) -> Vec<String> {
        let snippets = self
            .chosen()
            .into_iter()
            .flat_map(|item| item.hits.iter().map(|hit| &hit.snippet).chain(&item.title));
        let mut words: Vec<String> = snippets
            .flat_map(|it| it.highlights.iter().filter_map(|range| it.text.get(range.clone())))
            .map(str::to_lowercase)
            .collect();
        words.sort();
        words.dedup();
        words
    }

    /// Scrolls as little as needed to have the chosen session on the screen.
    pub(super) fn reveal(&mut self, height: u16) {
        self.top = self.top.min(self.chosen);
        let lines = |items: &[Item]| items.iter().map(rows).sum::<u16>();
        while self.top < self.chosen
            && lines(self.items().get(self.top..=self.chosen).unwrap_or_default()) > height
        {
            self.top += 1;
        }
    }

    /// The session that is drawn on a line of the list.
    pub(super) fn at_line(&self, line: u16) -> Option<usize> {
        let mut end = 0;
        (self.top..self.items().len()).find(|at| {
            end += rows(&self.items()[*at]);
            line < end
        })
    }
}

/// Lines a session takes in the list.
pub(super) fn rows(item: &Item) -> u16 {
    if item.hits.is_empty() { 1 } else { 2 }
}

impl State {
    /// Asks for the sessions that fit what is typed now.
    pub(super) fn search(&mut self) {
        self.results.limit = FIRST;
        self.ask(Question::Find { text: self.input.text.clone(), limit: FIRST });
    }

    pub(super) fn found(&mut self, found: Result<Found, String>) {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.results.error = Some(error);
                return;
            }
        };
        self.results.error = None;
        let is_longer = self.results.limit > FIRST;
        if !is_longer {
            let before = self.results.chosen().map(|item| item.entry.id.clone());
            // News must not take the session away from under the reader's eyes.
            let same = found.items.iter().position(|item| Some(&item.entry.id) == before.as_ref());
            let is_typing = self.focus == Focus::Search && self.reader.is_none();
            self.results.chosen = if is_typing { 0 } else { same.unwrap_or(0) };
            self.results.hit = 0;
            self.results.top = 0;
        }
        self.results.found = Some(found);
        self.results.reveal(layout::browse(self.size).results.height);
        self.look();
    }

    /// Moves in the list.
    pub(super) fn choose(&mut self, step: Step) {
        let height = layout::browse(self.size).results.height;
        let page = usize::from(height / 2).max(1);
        let last = self.results.items().len().saturating_sub(1);
        self.select(stepped(self.results.chosen, step, (page, last)));
    }

    /// Chooses a session of the list.
    pub(super) fn select(&mut self, chosen: usize) {
        if chosen != self.results.chosen {
            self.results.chosen = chosen;
            self.results.hit = 0;
        }
        self.results.reveal(layout::browse(self.size).results.height);
        let here = self.results.items().len();
        let total = self.results.found.as_ref().map_or(0, |found| found.total) as usize;
        if chosen + NEAR > here && here < total && here >= self.results.limit {
            self.results.limit = here * 2;
            self.ask(Question::Find { text: self.input.text.clone(), limit: here * 2 });
        }
        self.look();
    }

    /// Shows another place that was found in the chosen session.
    pub(super) fn hit(&mut self, way: Way) {
        let count = self.results.chosen().map_or(0, |item| item.hits.len());
        let hit = self.results.hit;
        self.results.hit = match way {
            Way::Next => (hit + 1).min(count.saturating_sub(1)),
            Way::Previous => hit.saturating_sub(1),
        };
        self.look();
    }

    /// Looks into the chosen session, where there is room to.
    pub(super) fn look(&mut self) {
        let Some(layout::Preview { text: area, .. }) = layout::browse(self.size).preview else {
            self.preview = None;
            return;
        };
        let Some(target) = self.results.target() else {
            self.preview = None;
            return;
        };
        let words = self.results.words();
        let is_same = |preview: &&mut Reader| {
            let (shown, wanted) = (&preview.entry, &target.entry);
            shown.id == wanted.id && shown.transcript_length() == wanted.transcript_length()
        };
        if let Some(preview) = self.preview.as_mut().filter(is_same) {
            preview.words = words;
            preview.arrive_at(target.message, target.is_folded);
        } else {
            let mut preview = Reader::new(target, area.width.into(), area.height.into());
            preview.words = words;
            self.preview = Some(preview);
        }
        self.read_on();
    }

    /// Offers what the word being typed could become.
    pub(super) fn offer(&mut self) {
        self.completion = complete(&self.input, &self.facets);
    }

    /// Puts the next completion in, or moves on to the list where there is none.
    pub(super) fn complete(&mut self, way: Way) {
        let Completion { range, options, chosen } = &mut self.completion;
        if options.is_empty() {
            if way == Way::Next {
                self.focus = Focus::List;
            }
            return;
        }
        let next = match (way, *chosen) {
            (Way::Next, Some(at)) => (at + 1) % options.len(),
            (Way::Next, None) => 0,
            (Way::Previous, at) => at.unwrap_or(0).checked_sub(1).unwrap_or(options.len() - 1),
        };
        *chosen = Some(next);
        let text = options[next].clone();
        self.input.replace(range.clone(), &text);
        range.end = range.start + text.len();
        // A field alone is only half the way: its values come next.
        if text.ends_with(':') && options.len() == 1 {
            self.offer();
        }
        self.search();
    }

    /// Chooses a filter, or gives it up.
    pub(super) fn toggle(&mut self) {
        let Some(Overlay::Filters(chooser)) = &self.overlay else { return };
        let Some(column) = self.facets.columns.get(chooser.column) else { return };
        let Some((value, _)) = column.values.get(chooser.row(chooser.column)) else { return };
        self.input = Input::new(&toggle(&self.input.text, column.field, value));
        self.completion = Completion::default();
        self.search();
    }

    /// Whether a filter is chosen.
    pub(super) fn is_chosen(&self, field: &str, value: &str) -> bool {
        super::filters::has(&self.input.text, &token(field, value))
    }

    pub(super) fn column(&mut self, way: Way) {
        let count = self.facets.columns.len().max(1);
        if let Some(Overlay::Filters(chooser)) = &mut self.overlay {
            chooser.column = match way {
                Way::Next => (chooser.column + 1) % count,
                Way::Previous => chooser.column.checked_sub(1).unwrap_or(count - 1),
            };
        }
    }
}
