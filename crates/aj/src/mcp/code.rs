//! The MCP tools about code: the handoff of a session, the sessions that touched a file, and the
//! sessions that wrote its lines.

use agent_journal::search::Scope;
use anyhow::{Result, ensure};

use super::ask::{ShownId, checked_limit, short_id};
use super::page::{AnswerPage, PageItem};
use super::read::unknown_session;
use super::{ToolCall, input};
use crate::blame::{BlamedPlace, confidence_label};
use crate::output::count;
use crate::output::files::{FileSort, touches_in_words};
use crate::output::handoff::Handoff;
use crate::output::quote::Quoter;

/// Most tokens of a path or of a title.
const LINE_TOKENS: usize = 60;

/// Sessions shown for each file.
const SESSIONS: usize = 3;

impl ToolCall {
    /// Answers the `handoff` tool: a brief of one session.
    pub(super) fn answer_handoff_tool(&self) -> Result<String> {
        let input: input::HandoffInput = self.parse_input()?;
        let id = input.id.split('#').next().unwrap_or_default();
        let answered = self.context.answer_fresh(|journal| {
            let entry = journal.find_session(id)?;
            let brief = journal.build_brief(&entry, &mut journal.owner_redactor())?;
            Ok((entry, brief))
        });
        let answered = answered.map_err(|error| unknown_session(&error, id))?;
        let (mut entry, brief) = answered.answer;
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        quoter.redact_entry(&mut entry, &answered.journal)?;
        let handoff = Handoff::new(&entry, &brief, &mut quoter);
        let id = ShownId::new(&entry.id);
        let mut page = AnswerPage::new(self.token_budget()?, &format!("{}, a brief", id.own));
        // Quote marks cost tokens too.
        let room = page.remaining_tokens();
        let briefs = (1..=10).rev().map(|tenths| handoff.render_within(room * tenths / 10));
        let mut items = briefs.map(|text| PageItem::default().quoted_text(&text));
        if let Some(item) = items.find(|item| item.estimated_tokens() <= room) {
            page.add_item(&item);
        }
        Ok(page.finish_page(&["To read on: show with \"id\": \"ID#MESSAGE\"".to_owned()]))
    }

    /// Answers the `files` tool: files with the sessions that viewed, changed or created them.
    pub(super) fn answer_files_tool(&self) -> Result<String> {
        let input: input::FilesInput = self.parse_input()?;
        let limit = checked_limit(input.limit, input.offset, 10)?;
        ensure!(input.text.len() <= input::QUERY, "the text is too long");
        let choice: input::SessionChoice = self.parse_input()?;
        let filter = choice.choice_filter(Scope::All, &self.context.now)?;
        let answered = self
            .context
            .answer_fresh(|journal| Ok(journal.list_touched_files(&filter, &input.text)?))?;
        let mut files = answered.answer;
        let sort = input.sort.unwrap_or_else(|| FileSort::default_order(&input.text));
        sort.sort_files(&mut files);
        let total = files.len();
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        let heading = match total {
            0 => "no session touched a matching file".to_owned(),
            _ => format!("{}, {}", count(total as u64, "file"), sort.order_name()),
        };
        let mut page =
            AnswerPage::new(self.token_budget()?, &heading).add_pending(answered.freshness);
        let mut shown = 0;
        for file in files.iter_mut().skip(input.offset).take(limit) {
            let sessions = count(file.sessions.len() as u64, "session");
            let own = format!("{sessions}, {}", touches_in_words(file.touches));
            let mut item =
                PageItem::new(&own).quoted_text(&quoter.clean_line(&file.path, LINE_TOKENS));
            for touch in file.sessions.iter_mut().take(SESSIONS) {
                quoter.redact_entry(&mut touch.entry, &answered.journal)?;
                let at = touch.ended_at.map_or(String::new(), |at| at.to_string()[..10].to_owned());
                let how = touches_in_words(touch.touches);
                let id = ShownId::new(&touch.id);
                item = item
                    .own_line(&format!("{} {at} {how}", id.own))
                    .quoted_text(&quoter.clean_line(&touch.entry.title, LINE_TOKENS))
                    .quoted_text(&id.quoted.unwrap_or_default());
            }
            if !page.add_item(&item) {
                break;
            }
            shown += 1;
        }
        Ok(page.finish_page(&rest_of_files(total, input.offset + shown)))
    }

    /// Answers the `blame` tool: the sessions that wrote the lines of a file.
    pub(super) fn answer_blame_tool(&self) -> Result<String> {
        let input: input::BlameInput = self.parse_input()?;
        ensure!(input.place.len() <= input::QUERY, "the path is too long");
        let place = BlamedPlace::read_argument(&input.place)?;
        let answered = self.context.answer_fresh(|journal| Ok(journal.blame_file(&place.file)?))?;
        let mut blame = answered.answer;
        let mut quoter = Quoter::new(answered.journal.owner_redactor());
        for entry in &mut blame.sessions {
            quoter.redact_entry(entry, &answered.journal)?;
        }
        let spans = place.group_spans(&blame);
        let changed = count(blame.candidates as u64, "session");
        let mut page =
            AnswerPage::new(self.token_budget()?, &format!("{changed} changed this file"))
                .add_pending(answered.freshness);
        let mut shown = 0;
        for span in &spans {
            let lines = format!("lines {}-{}", span.first, span.last);
            let item = match &span.author {
                None => PageItem::new(&format!("{lines} no recorded edit")),
                Some(author) => {
                    let entry = &blame.sessions[author.session];
                    let at = author.at.map_or(String::new(), |at| at.to_string()[..16].to_owned());
                    let message = format!("{}#{}", short_id(entry), author.position + 1);
                    let own =
                        format!("{lines} {message} {at} {}", confidence_label(author.confidence));
                    PageItem::new(&own).quoted_text(&quoter.clean_line(&entry.title, LINE_TOKENS))
                }
            };
            if !page.add_item(&item) {
                break;
            }
            shown += 1;
        }
        let left =
            spans.get(shown).map(|span| format!("Left out: all lines from {} on", span.first));
        let on = "To read on: show with \"id\": \"ID#MESSAGE\"".to_owned();
        Ok(page.finish_page(&left.into_iter().chain([on]).collect::<Vec<_>>()))
    }
}

/// Returns the lines that name the files left out and the calls that go on from here.
fn rest_of_files(total: usize, next: usize) -> Vec<String> {
    let left = count(total.saturating_sub(next) as u64, "file");
    let rest = format!("Left out: {left}; repeat the call with \"offset\": {next}");
    let on = "For the lines of a file: blame; for a session: show with \"id\": \"ID\"".to_owned();
    let rest = (next < total).then_some(rest);
    rest.into_iter().chain((total > 0).then_some(on)).collect()
}
