//! Small choices, each with its letter, and what they do with the session.

use agent_journal::Resumption;
use agent_journal::export::{FORMATS, Format};

use super::action::Menu;
use super::state::{Effect, Notice, Overlay, State};
use super::worker::{Intent, Purpose, Question};
use crate::commands::resume::text;
use crate::output::shell::Shell;

/// The items of a menu: a letter and what it stands for.
pub(super) fn items(menu: Menu) -> Vec<(char, String)> {
    match menu {
        Menu::Copy => vec![
            ('i', "id".to_owned()),
            ('p', "path of its file".to_owned()),
            ('r', "resume command".to_owned()),
        ],
        Menu::Open => vec![('b', "browser".to_owned()), ('e', "editor".to_owned())],
        Menu::Export => lettered().map(|(letter, it)| (letter, it.name().to_owned())).collect(),
    }
}

/// Every format with a letter of its name that no other has.
fn lettered() -> impl Iterator<Item = (char, &'static dyn Format)> {
    let mut taken: Vec<char> = Vec::new();
    FORMATS.iter().filter_map(move |format| {
        let letter = format.name().chars().find(|letter| !taken.contains(letter))?;
        taken.push(letter);
        Some((letter, *format))
    })
}

impl State {
    /// Does what stands at a letter of the open menu.
    pub(super) fn pick(&mut self, letter: char) {
        let Some(Overlay::Menu(menu)) = self.overlay else { return };
        self.overlay = None;
        let Some(entry) = self.entry() else { return };
        match (menu, letter) {
            (Menu::Copy, 'i') => self.copy(entry.id.clone()),
            (Menu::Copy, 'p') => self.copy(entry.source.path.clone()),
            (Menu::Copy, 'r') => self.resume(Intent::Copy),
            (Menu::Open, 'b') => self.export("html", Purpose::Browse),
            (Menu::Open, 'e') => self.export("markdown", Purpose::Edit),
            (Menu::Export, _) => {
                let name = lettered().find(|(its, _)| *its == letter).map(|(_, it)| it.name());
                if let Some(name) = name {
                    self.export(name, Purpose::Keep);
                }
            }
            _ => {}
        }
    }

    fn copy(&mut self, text: String) {
        self.notice = Some(Notice::Done(format!("copied {text}")));
        self.effects.push(Effect::Copy(text));
    }

    /// Asks how to go on with the session.
    pub(super) fn resume(&mut self, intent: Intent) {
        if let Some(entry) = self.entry() {
            let entry = Box::new(entry.clone());
            self.ask(Question::Resume { entry, intent });
        }
    }

    /// Goes on with the session, or tells what stands in the way.
    pub(super) fn resumed(&mut self, resumption: Result<Resumption, String>, intent: Intent) {
        let resumption = match resumption {
            Ok(resumption) => resumption,
            Err(error) => return self.notice = Some(Notice::Failed(error)),
        };
        match (&resumption.command, intent, resumption.obstacles.first()) {
            (Some(command), Intent::Copy, _) => {
                self.copy(Shell::current().line(resumption.directory.as_deref(), command));
            }
            (Some(_), Intent::Run, None) => self.effects.push(Effect::Resume(resumption)),
            (_, _, obstacle) => {
                let why = obstacle.map(text).unwrap_or_default().replace("\n    ", "; ");
                self.notice = Some(Notice::Failed(format!("could not resume: {why}")));
            }
        }
    }

    fn export(&mut self, format: &str, purpose: Purpose) {
        let (Some(entry), Some(format)) = (self.entry(), agent_journal::export::format(format))
        else {
            return;
        };
        let entry = Box::new(entry.clone());
        self.is_lending = purpose == Purpose::Edit;
        self.ask(Question::Export { entry, format, purpose });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_letter_of_its_own() {
        let letters: Vec<char> = lettered().map(|(letter, _)| letter).collect();
        let distinct: std::collections::HashSet<&char> = letters.iter().collect();
        assert_eq!((letters.len(), distinct.len()), (FORMATS.len(), FORMATS.len()));
    }
}
