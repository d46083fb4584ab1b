//! The second screen: a session being read from beginning to end, or from one landmark to the
//! next.

use super::action::{Fold, Landmark, Way};
use super::input::Input;
use super::layout;
use super::reader::Reader;
use super::state::{Notice, State};
use super::worker::{Goal, Question, Window};

impl State {
    /// Opens the chosen session where it was found.
    pub(super) fn open(&mut self) {
        let Some((entry, place)) = self.results.place() else { return };
        let area = layout::reading(self.size).text;
        let mut reader = Reader::new(entry, place, area.width.into(), area.height.into());
        reader.words = self.results.words();
        self.reader = Some(reader);
    }

    /// Asks for what the readers will show next.
    pub(super) fn read_on(&mut self) {
        if let Some(window) = self.reader.as_mut().and_then(Reader::wanted) {
            self.ask(Question::Window(window));
        }
        if let Some(window) = self.preview.as_mut().and_then(Reader::wanted) {
            self.ask(Question::Preview(window));
        }
    }

    pub(super) fn fold(&mut self, fold: Fold) {
        if let Some(reader) = &mut self.reader {
            reader.fold(fold);
        }
    }

    /// Goes to the next or previous landmark.
    pub(super) fn jump(&mut self, landmark: Landmark, way: Way) {
        self.seek(Goal::Landmark(landmark), way);
    }

    /// Goes to the next or previous place where the text stands.
    pub(super) fn find_again(&mut self, way: Way) {
        let Some(reader) = &mut self.reader else { return };
        if let Some(find) = self.find.take() {
            reader.needle = find.text;
            // What stands on the first line is found too.
            if way == Way::Next && reader.needle_at_top() {
                return;
            }
        }
        if reader.needle.is_empty() {
            self.find = Some(Input::default());
            return;
        }
        if reader.needle_here(way) {
            return;
        }
        let goal = Goal::Text(reader.needle.clone());
        self.seek(goal, way);
    }

    fn seek(&mut self, goal: Goal, way: Way) {
        let Some(reader) = &self.reader else { return };
        let at = reader.at.message;
        let range = match way {
            Way::Next => at + 1..reader.total(),
            Way::Previous => 0..at,
        };
        let window = Window { entry: reader.entry.clone(), range, view: reader.view };
        self.sought = Some(goal.clone());
        self.ask(Question::Seek { window, goal, way });
    }

    /// Goes where the landmark is.
    pub(super) fn landed(&mut self, place: Result<Option<u64>, String>) {
        let sought = self.sought.take();
        let Some(reader) = &mut self.reader else { return };
        match (place, sought) {
            (Ok(Some(message)), Some(Goal::Text(_))) => reader.go_to_needle(message),
            (Ok(Some(message)), _) => reader.go(message),
            (Ok(None), goal) => {
                let what = match goal {
                    Some(Goal::Text(text)) => format!("`{text}`"),
                    Some(Goal::Landmark(Landmark::Prompt)) => "prompt".to_owned(),
                    Some(Goal::Landmark(Landmark::Tool)) => "tool".to_owned(),
                    _ => "failure".to_owned(),
                };
                self.notice = Some(Notice::Done(format!("no further {what}")));
            }
            (Err(error), _) => self.notice = Some(Notice::Failed(error)),
        }
    }
}
