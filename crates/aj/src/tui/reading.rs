//! The second screen: a session being read from beginning to end, or from one landmark to the
//! next.

use super::action::{Fold, Landmark, Way};
use super::input::Input;
use super::layout;
use super::reader::Reader;
use super::state::{Notice, State};
use super::worker::{Goal, Landing, Question, Window};

impl State {
    /// Opens the chosen session where it was found.
    pub(super) fn open(&mut self) {
        let Some(target) = self.results.target() else { return };
        let area = layout::reading(self.size).text;
        let mut reader = Reader::new(target, area.width.into(), area.height.into());
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

    /// Folds or unfolds one tool: on a line of the screen, or the nearest one.
    pub(super) fn turn(&mut self, line: Option<usize>) {
        let Some(reader) = &mut self.reader else { return };
        if !reader.turn(line) && line.is_none() {
            self.notice = Some(Notice::Done("no tool on the screen; z unfolds all".to_owned()));
        }
    }

    /// Goes to the next or previous landmark.
    pub(super) fn jump(&mut self, landmark: Landmark, way: Way) {
        let goal = Goal::Landmark(landmark);
        let is_here = self.reader.as_mut().is_some_and(|reader| reader.reach_here(&goal, way));
        if !is_here {
            self.seek(goal, way);
        }
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
        let goal = Goal::Text(reader.needle.clone());
        if !reader.reach_here(&goal, way) {
            self.seek(goal, way);
        }
    }

    fn seek(&mut self, goal: Goal, way: Way) {
        let Some(reader) = &self.reader else { return };
        let here = reader.at.message;
        let range = match way {
            Way::Next => here..reader.total(),
            Way::Previous => 0..here + 1,
        };
        let window = Window { entry: reader.entry.clone(), range, view: reader.view.clone() };
        self.sought = Some((goal.clone(), way));
        self.ask(Question::Seek { window, goal, way, here });
    }

    /// Goes where the landmark is.
    pub(super) fn landed(&mut self, place: Result<Option<Landing>, String>) {
        let sought = self.sought.take();
        let Some(reader) = &mut self.reader else { return };
        match (place, sought) {
            (Ok(Some(landing)), Some((goal, way))) => reader.go_to(&landing, goal, way),
            (Ok(Some(landing)), None) => reader.go(landing.message),
            (Ok(None), sought) => {
                let what = match sought.map(|(goal, _)| goal) {
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
