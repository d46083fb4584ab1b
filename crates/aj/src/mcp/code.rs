//! The tools about work on code: what a session came to, which sessions touched a file, and which
//! wrote its lines.

use agent_journal::search::Scope;
use anyhow::{Result, ensure};

use super::ask::{ShownId, checked, short};
use super::page::{Item, Page};
use super::read::unknown;
use super::{Call, input};
use crate::commands::blame::{BlamedPlace, name};
use crate::commands::files::{FileSort, touched};
use crate::output::count;
use crate::output::handoff::Handoff;
use crate::output::quote::Quoter;

/// Tokens of a path and of a title.
const LINE_TOKENS: usize = 60;

/// Sessions told of each file.
const SESSIONS: usize = 3;

impl Call {
    /// Writes the brief of a session.
    pub(super) fn handoff(&self) -> Result<String> {
        let input: input::HandoffInput = self.input()?;
        let id = input.id.split('#').next().unwrap_or_default();
        let answered = self.context.answer(|journal| {
            let entry = journal.session(id)?;
            let brief = journal.brief(&entry, &mut journal.redactor())?;
            Ok((entry, brief))
        });
        let answered = answered.map_err(|error| unknown(&error, id))?;
        let (mut entry, brief) = answered.answer;
        let mut quoter = Quoter::new(answered.journal.redactor());
        quoter.entry(&mut entry, &answered.journal)?;
        let handoff = Handoff::new(&entry, &brief, &mut quoter);
        let id = ShownId::new(&entry.id);
        let mut page = Page::new(self.budget()?, &format!("{}, a brief", id.own));
        // Marks of quotes cost tokens too.
        let room = page.room();
        let briefs = (1..=10).rev().map(|tenths| handoff.text(room * tenths / 10));
        let mut items = briefs.map(|text| Item::default().quote(&text));
        if let Some(item) = items.find(|item| item.tokens() <= room) {
            page.add(&item);
        }
        Ok(page.finish(&["Read on: show with \"id\": \"ID#MESSAGE\"".to_owned()]))
    }

    /// Lists files with the sessions that viewed, changed or created them.
    pub(super) fn files(&self) -> Result<String> {
        let input: input::FilesInput = self.input()?;
        let limit = checked(input.limit, input.offset, 10)?;
        ensure!(input.text.len() <= input::QUERY, "the text is too long");
        let choice: input::Choice = self.input()?;
        let filter = choice.filter(Scope::All, &self.context.now)?;
        let answered = self.context.answer(|journal| Ok(journal.files(&filter, &input.text)?))?;
        let mut files = answered.answer;
        let sort = input.sort.unwrap_or_else(|| FileSort::usual(&input.text));
        sort.apply(&mut files);
        let total = files.len();
        let mut quoter = Quoter::new(answered.journal.redactor());
        let heading = match total {
            0 => "no session touched such a file".to_owned(),
            _ => format!("{}, {}", count(total as u64, "file"), sort.order()),
        };
        let mut page = Page::new(self.budget()?, &heading);
        let mut shown = 0;
        for file in files.iter_mut().skip(input.offset).take(limit) {
            let sessions = count(file.sessions.len() as u64, "session");
            let own = format!("{sessions}, {}", touched(file.touches));
            let mut item = Item::new(&own).quote(&quoter.line(&file.path, LINE_TOKENS));
            for touch in file.sessions.iter_mut().take(SESSIONS) {
                quoter.entry(&mut touch.entry, &answered.journal)?;
                let at = touch.ended_at.map_or(String::new(), |at| at.to_string()[..10].to_owned());
                let how = touched(touch.touches);
                let id = ShownId::new(&touch.id);
                item = item
                    .own(&format!("{} {at} {how}", id.own))
                    .quote(&quoter.line(&touch.entry.title, LINE_TOKENS))
                    .quote(&id.quoted.unwrap_or_default());
            }
            if !page.add(&item) {
                break;
            }
            shown += 1;
        }
        Ok(page.finish(&rest_of_files(total, input.offset + shown)))
    }

    /// Tells which sessions wrote the lines of a file.
    pub(super) fn blame(&self) -> Result<String> {
        let input: input::BlameInput = self.input()?;
        ensure!(input.place.len() <= input::QUERY, "the path is too long");
        let place = BlamedPlace::read(&input.place)?;
        let answered = self.context.answer(|journal| Ok(journal.blame(&place.file)?))?;
        let mut blame = answered.answer;
        let mut quoter = Quoter::new(answered.journal.redactor());
        for entry in &mut blame.sessions {
            quoter.entry(entry, &answered.journal)?;
        }
        let spans = place.spans(&blame);
        let changed = count(blame.candidates as u64, "session");
        let mut page = Page::new(self.budget()?, &format!("{changed} changed this file"));
        let mut shown = 0;
        for span in &spans {
            let lines = format!("lines {}-{}", span.first, span.last);
            let item = match &span.author {
                None => Item::new(&format!("{lines} no recorded edit")),
                Some(author) => {
                    let entry = &blame.sessions[author.session];
                    let at = author.at.map_or(String::new(), |at| at.to_string()[..16].to_owned());
                    let message = format!("{}#{}", short(entry), author.position + 1);
                    let own = format!("{lines} {message} {at} {}", name(author.confidence));
                    Item::new(&own).quote(&quoter.line(&entry.title, LINE_TOKENS))
                }
            };
            if !page.add(&item) {
                break;
            }
            shown += 1;
        }
        let left = spans.get(shown).map(|span| format!("Left out: from line {} on", span.first));
        let on = "Read on: show with \"id\": \"ID#MESSAGE\"".to_owned();
        Ok(page.finish(&left.into_iter().chain([on]).collect::<Vec<_>>()))
    }
}

/// Says how to get the files that are left.
fn rest_of_files(total: usize, next: usize) -> Vec<String> {
    let left = count(total.saturating_sub(next) as u64, "file");
    let rest = format!("Left out: {left}; the same call with \"offset\": {next}");
    let on = "Lines of a file: blame; a session: show with \"id\": \"ID\"".to_owned();
    let rest = (next < total).then_some(rest);
    rest.into_iter().chain((total > 0).then_some(on)).collect()
}
