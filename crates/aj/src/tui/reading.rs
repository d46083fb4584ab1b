//! Actions of the second screen, on which a session is read.

use super::action::{Fold, LandmarkKind, Way};
use super::input::LineInput;
use super::layout;
use super::reader::TranscriptReader;
use super::state::{ActionNotice, TuiState};
use super::worker::{Goal, Landing, Question, RequestedWindow};

impl TuiState {
    /// Opens the selected session at the selected hit.
    pub(super) fn open_selected(&mut self) {
        let Some(target) = self.results.selected_target() else { return };
        let area = layout::reading_layout(self.size).text;
        let mut reader = TranscriptReader::new(target, area.width.into(), area.height.into());
        reader.words = self.results.matched_words();
        self.reader = Some(reader);
    }

    /// Requests the messages that reader and preview need next.
    pub(super) fn read_on(&mut self) {
        if let Some(window) = self.reader.as_mut().and_then(TranscriptReader::missing_window) {
            self.ask_worker(Question::Window(window));
        }
        if let Some(window) = self.preview.as_mut().and_then(TranscriptReader::missing_window) {
            self.ask_worker(Question::Preview(window));
        }
    }

    pub(super) fn fold_parts(&mut self, fold: Fold) {
        if let Some(reader) = &mut self.reader {
            reader.toggle_fold(fold);
        }
    }

    /// Folds or unfolds one tool: on a line of the screen, or the nearest one.
    pub(super) fn fold_tool(&mut self, line: Option<usize>) {
        let Some(reader) = &mut self.reader else { return };
        if !reader.toggle_tool(line) && line.is_none() {
            self.notice =
                Some(ActionNotice::Done("no tool on the screen; z expands all".to_owned()));
        }
    }

    /// Goes to the next or previous landmark.
    pub(super) fn jump_to_landmark(&mut self, landmark: LandmarkKind, way: Way) {
        let goal = Goal::Landmark(landmark);
        let is_here = self.reader.as_mut().is_some_and(|reader| reader.reach_here(&goal, way));
        if !is_here {
            self.seek_goal(goal, way);
        }
    }

    /// Goes to the next or previous occurrence of the searched text.
    pub(super) fn find_again(&mut self, way: Way) {
        let Some(reader) = &mut self.reader else { return };
        if let Some(find) = self.find.take() {
            reader.needle = find.text;
            // A match on the first row counts too.
            if way == Way::Next && reader.needle_at_top() {
                return;
            }
        }
        if reader.needle.is_empty() {
            self.find = Some(LineInput::default());
            return;
        }
        let goal = Goal::Text(reader.needle.clone());
        if !reader.reach_here(&goal, way) {
            self.seek_goal(goal, way);
        }
    }

    fn seek_goal(&mut self, goal: Goal, way: Way) {
        let Some(reader) = &self.reader else { return };
        let here = reader.at.message;
        let range = match way {
            Way::Next => here..reader.message_total(),
            Way::Previous => 0..here + 1,
        };
        let window =
            RequestedWindow { entry: reader.entry.clone(), range, view: reader.view.clone() };
        self.sought = Some((goal.clone(), way));
        self.ask_worker(Question::Seek { window, goal, way, here });
    }

    /// Goes to the result of a seek, or reports that there is none.
    pub(super) fn handle_landing(&mut self, place: Result<Option<Landing>, String>) {
        let sought = self.sought.take();
        let Some(reader) = &mut self.reader else { return };
        match (place, sought) {
            (Ok(Some(landing)), Some((goal, way))) => reader.go_to_landing(&landing, goal, way),
            (Ok(Some(landing)), None) => reader.go_to_message(landing.message),
            (Ok(None), sought) => {
                let what = match sought.map(|(goal, _)| goal) {
                    Some(Goal::Text(text)) => format!("`{text}`"),
                    Some(Goal::Landmark(LandmarkKind::Prompt)) => "prompt".to_owned(),
                    Some(Goal::Landmark(LandmarkKind::Tool)) => "tool".to_owned(),
                    _ => "failure".to_owned(),
                };
                self.notice = Some(ActionNotice::Done(format!("no further {what}")));
            }
            (Err(error), _) => self.notice = Some(ActionNotice::Failed(error)),
        }
    }
}
