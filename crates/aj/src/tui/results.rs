//! The first screen: the query, the matching sessions, and a preview of the selected one.

use agent_journal::TextKind;

use super::action::{MoveStep, Way};
use super::complete::{WordCompletion, complete_at_cursor};
use super::filters::{field_token, toggle_token};
use super::input::LineInput;
use super::layout;
use super::reader::{OpenTarget, TranscriptReader};
use super::state::{Focus, Overlay, TuiState, index_after_step};
use super::worker::{FoundSessions, Question, SessionItem};

/// Sessions requested at first. More are requested near the end of the list.
const FIRST: usize = 40;

/// Distance from the end of the list at which more sessions are requested.
const NEAR: usize = 8;

/// The matching sessions and the selection.
#[derive(Default)]
pub(super) struct ResultList {
    /// The last successful response.
    pub(super) found: Option<FoundSessions>,
    /// The error of the last query.
    pub(super) error: Option<String>,
    pub(super) chosen: usize,
    /// The selected hit of the selected session.
    pub(super) hit: usize,
    /// The first session on the screen.
    pub(super) top: usize,
    limit: usize,
}

impl ResultList {
    pub(super) fn result_items(&self) -> &[SessionItem] {
        self.found.as_ref().map_or(&[], |found| &found.items)
    }

    pub(super) fn selected_item(&self) -> Option<&SessionItem> {
        self.result_items().get(self.chosen)
    }

    /// Returns the session and the message to open. A hit in a sub-agent opens the sub-agent's
    /// session.
    pub(super) fn selected_target(&self) -> Option<OpenTarget> {
        let item = self.selected_item()?;
        let hit = item.hits.get(self.hit).or(item.hits.first());
        let within = hit.and_then(|hit| hit.within.clone());
        let is_folded = hit.is_some_and(|hit| {
            let folded = [TextKind::ToolInput, TextKind::ToolOutput, TextKind::Document];
            folded.contains(&hit.kind)
        });
        Some(OpenTarget {
            entry: within.unwrap_or_else(|| Box::new(item.entry.clone())),
            message: hit.and_then(|hit| hit.position).unwrap_or(0),
            is_folded,
        })
    }

    /// Returns the matched words of the selected session.
    pub(super) fn matched_words(&self) -> Vec<String> {
        let snippets = self
            .selected_item()
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

    /// Scrolls as little as necessary to show the selected session.
    pub(super) fn reveal_selection(&mut self, height: u16) {
        self.top = self.top.min(self.chosen);
        let lines = |items: &[SessionItem]| items.iter().map(item_height).sum::<u16>();
        while self.top < self.chosen
            && lines(self.result_items().get(self.top..=self.chosen).unwrap_or_default()) > height
        {
            self.top += 1;
        }
    }

    /// Returns the session that is drawn on a line of the list.
    pub(super) fn at_line(&self, line: u16) -> Option<usize> {
        let mut end = 0;
        (self.top..self.result_items().len()).find(|at| {
            end += item_height(&self.result_items()[*at]);
            line < end
        })
    }
}

/// Returns the number of lines of a session in the list.
pub(super) fn item_height(item: &SessionItem) -> u16 {
    if item.hits.is_empty() { 1 } else { 2 }
}

impl TuiState {
    /// Requests the sessions that match the typed query.
    pub(super) fn request_search(&mut self) {
        self.results.limit = FIRST;
        self.ask_worker(Question::Find { text: self.input.text.clone(), limit: FIRST });
    }

    pub(super) fn handle_found(&mut self, found: Result<FoundSessions, String>) {
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
            let before = self.results.selected_item().map(|item| item.entry.id.clone());
            // New data must not change the selected session.
            let same = found.items.iter().position(|item| Some(&item.entry.id) == before.as_ref());
            let is_typing = self.focus == Focus::Search && self.reader.is_none();
            self.results.chosen = if is_typing { 0 } else { same.unwrap_or(0) };
            self.results.hit = 0;
            self.results.top = 0;
        }
        self.results.found = Some(found);
        self.results.reveal_selection(layout::browse_layout(self.size).results.height);
        self.update_preview();
    }

    /// Moves the selection in the list.
    pub(super) fn move_choice(&mut self, step: MoveStep) {
        let height = layout::browse_layout(self.size).results.height;
        let page = usize::from(height / 2).max(1);
        let last = self.results.result_items().len().saturating_sub(1);
        self.select_session(index_after_step(self.results.chosen, step, page, last));
    }

    /// Selects a session of the list.
    pub(super) fn select_session(&mut self, chosen: usize) {
        if chosen != self.results.chosen {
            self.results.chosen = chosen;
            self.results.hit = 0;
        }
        self.results.reveal_selection(layout::browse_layout(self.size).results.height);
        let here = self.results.result_items().len();
        let total = self.results.found.as_ref().map_or(0, |found| found.total) as usize;
        if chosen + NEAR > here && here < total && here >= self.results.limit {
            self.results.limit = here * 2;
            self.ask_worker(Question::Find { text: self.input.text.clone(), limit: here * 2 });
        }
        self.update_preview();
    }

    /// Selects another hit of the selected session.
    pub(super) fn select_hit(&mut self, way: Way) {
        let count = self.results.selected_item().map_or(0, |item| item.hits.len());
        let hit = self.results.hit;
        self.results.hit = match way {
            Way::Next => (hit + 1).min(count.saturating_sub(1)),
            Way::Previous => hit.saturating_sub(1),
        };
        self.update_preview();
    }

    /// Shows the selected session in the preview, if the screen has room for one.
    pub(super) fn update_preview(&mut self) {
        let Some(layout::Preview { text: area, .. }) = layout::browse_layout(self.size).preview
        else {
            self.preview = None;
            return;
        };
        let Some(target) = self.results.selected_target() else {
            self.preview = None;
            return;
        };
        let words = self.results.matched_words();
        let is_same = |preview: &&mut TranscriptReader| {
            let (shown, wanted) = (&preview.entry, &target.entry);
            shown.id == wanted.id && shown.transcript_length() == wanted.transcript_length()
        };
        if let Some(preview) = self.preview.as_mut().filter(is_same) {
            preview.words = words;
            preview.arrive_at(target.message, target.is_folded);
        } else {
            let mut preview = TranscriptReader::new(target, area.width.into(), area.height.into());
            preview.words = words;
            self.preview = Some(preview);
        }
        self.read_on();
    }

    /// Updates the completions of the word at the cursor.
    pub(super) fn update_completions(&mut self) {
        self.completion = complete_at_cursor(&self.input, &self.facets);
    }

    /// Inserts the next completion, or moves the focus to the list if there is none.
    pub(super) fn complete_or_focus(&mut self, way: Way) {
        let WordCompletion { range, options, chosen } = &mut self.completion;
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
        self.input.replace_range(range.clone(), &text);
        range.end = range.start + text.len();
        // After the only matching field, its values are offered.
        if text.ends_with(':') && options.len() == 1 {
            self.update_completions();
        }
        self.request_search();
    }

    /// Adds or removes the selected filter.
    pub(super) fn toggle_filter(&mut self) {
        let Some(Overlay::Filters(chooser)) = &self.overlay else { return };
        let Some(column) = self.facets.columns.get(chooser.column) else { return };
        let Some((value, _)) = column.values.get(chooser.selected_row(chooser.column)) else {
            return;
        };
        self.input = LineInput::new(&toggle_token(&self.input.text, column.field, value));
        self.completion = WordCompletion::default();
        self.request_search();
    }

    /// Returns whether a filter is in the query.
    pub(super) fn is_filter_set(&self, field: &str, value: &str) -> bool {
        super::filters::has_token(&self.input.text, &field_token(field, value))
    }

    pub(super) fn move_column(&mut self, way: Way) {
        let count = self.facets.columns.len().max(1);
        if let Some(Overlay::Filters(chooser)) = &mut self.overlay {
            chooser.column = match way {
                Way::Next => (chooser.column + 1) % count,
                Way::Previous => chooser.column.checked_sub(1).unwrap_or(count - 1),
            };
        }
    }
}
