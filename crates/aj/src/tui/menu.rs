//! The menus in the footer and their actions on the session.

use agent_journal::Resumption;
use agent_journal::export::{FORMATS, Format};

use super::action::Menu;
use super::state::{ActionNotice, Effect, Overlay, TuiState};
use super::worker::{Intent, Purpose, Question};
use crate::output::shell::ShellKind;
use crate::resume::obstacle_text;

/// Returns the items of a menu, each with its letter.
pub(super) fn menu_items(menu: Menu) -> Vec<(char, String)> {
    match menu {
        Menu::Copy => vec![
            ('i', "id".to_owned()),
            ('p', "path of its file".to_owned()),
            ('r', "resume command".to_owned()),
        ],
        Menu::Open => vec![('b', "browser".to_owned()), ('e', "editor".to_owned())],
        Menu::Export => {
            lettered_formats().map(|(letter, it)| (letter, it.format_name().to_owned())).collect()
        }
    }
}

/// Returns every export format with a unique letter of its name.
fn lettered_formats() -> impl Iterator<Item = (char, &'static dyn Format)> {
    let mut taken: Vec<char> = Vec::new();
    FORMATS.iter().filter_map(move |format| {
        let letter = format.format_name().chars().find(|letter| !taken.contains(letter))?;
        taken.push(letter);
        Some((letter, *format))
    })
}

impl TuiState {
    /// Runs the item of the open menu with this letter.
    pub(super) fn pick_menu_item(&mut self, letter: char) {
        let Some(Overlay::Menu(menu)) = self.overlay else { return };
        self.overlay = None;
        let Some(entry) = self.current_entry() else { return };
        match (menu, letter) {
            (Menu::Copy, 'i') => self.copy_text(entry.id.clone()),
            (Menu::Copy, 'p') => self.copy_text(entry.source.path.clone()),
            (Menu::Copy, 'r') => self.request_resume(Intent::Copy),
            (Menu::Open, 'b') => self.request_export("html", Purpose::Browse),
            (Menu::Open, 'e') => self.request_export("markdown", Purpose::Edit),
            (Menu::Export, _) => {
                let name = lettered_formats()
                    .find(|(its, _)| *its == letter)
                    .map(|(_, it)| it.format_name());
                if let Some(name) = name {
                    self.request_export(name, Purpose::Keep);
                }
            }
            _ => {}
        }
    }

    fn copy_text(&mut self, text: String) {
        self.notice = Some(ActionNotice::Done(format!("copied {text}")));
        self.effects.push(Effect::Copy(text));
    }

    /// Requests the command that resumes the session.
    pub(super) fn request_resume(&mut self, intent: Intent) {
        if let Some(entry) = self.current_entry() {
            let entry = Box::new(entry.clone());
            self.ask_worker(Question::Resume { entry, intent });
        }
    }

    /// Runs or copies the resume command, or reports the obstacle.
    pub(super) fn handle_resumption(
        &mut self,
        resumption: Result<Resumption, String>,
        intent: Intent,
    ) {
        let resumption = match resumption {
            Ok(resumption) => resumption,
            Err(error) => return self.notice = Some(ActionNotice::Failed(error)),
        };
        match (&resumption.command, intent, resumption.obstacles.first()) {
            (Some(command), Intent::Copy, _) => {
                self.copy_text(
                    ShellKind::current_shell()
                        .command_line(resumption.directory.as_deref(), command),
                );
            }
            (Some(_), Intent::Run, None) => self.effects.push(Effect::Resume(resumption)),
            (_, _, obstacle) => {
                let why = obstacle.map(obstacle_text).unwrap_or_default().replace("\n    ", "; ");
                self.notice = Some(ActionNotice::Failed(format!("could not resume: {why}")));
            }
        }
    }

    fn request_export(&mut self, format: &str, purpose: Purpose) {
        let (Some(entry), Some(format)) =
            (self.current_entry(), agent_journal::export::find_format(format))
        else {
            return;
        };
        let entry = Box::new(entry.clone());
        self.is_lending = purpose == Purpose::Edit;
        self.ask_worker(Question::Export { entry, format, purpose });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_letter_of_its_own() {
        let letters: Vec<char> = lettered_formats().map(|(letter, _)| letter).collect();
        let distinct: std::collections::HashSet<&char> = letters.iter().collect();
        assert_eq!((letters.len(), distinct.len()), (FORMATS.len(), FORMATS.len()));
    }
}
