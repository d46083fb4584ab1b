//! Stars, tags and notes of the session that is selected or read.

use agent_journal::{Entry, MarkChange};

use super::action::MarkField;
use super::input::LineInput;
use super::state::{ActionNotice, TuiState};
use super::worker::{Question, RequestedMarks};

/// A mark that is typed in the footer.
#[derive(Clone, Debug)]
pub(super) struct MarkInput {
    field: MarkField,
    /// The session when the input was opened.
    entry: Box<Entry>,
    pub(super) line: LineInput,
}

impl MarkInput {
    /// Returns the label before the text.
    pub(super) fn label(&self) -> &'static str {
        match self.field {
            MarkField::Tags => " tags ",
            MarkField::Note => " note ",
        }
    }

    /// Returns the changes that were typed.
    fn changes(&self) -> Vec<MarkChange> {
        let text = self.line.text.trim();
        match self.field {
            MarkField::Note => vec![MarkChange::SetNote(text.to_owned())],
            MarkField::Tags => {
                let typed: Vec<String> = text
                    .split([' ', ','])
                    .map(|tag| tag.trim_start_matches('#').to_lowercase())
                    .filter(|tag| !tag.is_empty())
                    .collect();
                let known = &self.entry.marks.tags;
                let removed = known.iter().filter(|tag| !typed.contains(tag)).cloned();
                let added = typed.iter().filter(|tag| !known.contains(tag)).cloned();
                removed.map(MarkChange::RemoveTag).chain(added.map(MarkChange::AddTag)).collect()
            }
        }
    }
}

impl TuiState {
    /// Stars the session, or removes its star.
    pub(super) fn toggle_star(&mut self) {
        let Some(entry) = self.current_entry() else { return };
        let change = if entry.marks.starred { MarkChange::Unstar } else { MarkChange::Star };
        let requested = RequestedMarks { entry: Box::new(entry.clone()), changes: vec![change] };
        self.ask_worker(Question::Mark(vec![requested]));
    }

    /// Starts to type a mark.
    pub(super) fn edit_mark(&mut self, field: MarkField) {
        let Some(entry) = self.current_entry() else { return };
        let text = match field {
            MarkField::Tags => entry.marks.tags.join(" "),
            MarkField::Note => entry.marks.note.clone().unwrap_or_default(),
        };
        if text.contains('\n') {
            let command =
                format!("the note has several lines; edit it with `aj note {}`", entry.short_id);
            self.notice = Some(ActionNotice::Failed(command));
            return;
        }
        let entry = Box::new(entry.clone());
        self.mark_input = Some(MarkInput { field, entry, line: LineInput::new(&text) });
    }

    /// Saves the mark that was typed.
    pub(super) fn save_mark(&mut self) {
        let Some(input) = self.mark_input.take() else { return };
        let changes = input.changes();
        if !changes.is_empty() {
            let requested = RequestedMarks { entry: input.entry, changes };
            self.ask_worker(Question::Mark(vec![requested]));
        }
    }

    /// Shows the new marks.
    pub(super) fn handle_marked(&mut self, marked: Result<Vec<Entry>, String>) {
        let marked = match marked {
            Ok(marked) => marked,
            Err(error) => return self.notice = Some(ActionNotice::Failed(error)),
        };
        for entry in marked {
            if let Some(reader) = self.reader.as_mut().filter(|it| it.entry.id == entry.id) {
                let marks = entry.marks.star_and_tags();
                let marks = if marks.is_empty() { "no star, no tags".to_owned() } else { marks };
                self.notice = Some(ActionNotice::Done(marks));
                *reader.entry = entry;
            }
        }
        self.refresh_results();
    }
}
