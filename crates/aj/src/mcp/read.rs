//! The MCP tool `show`, which reads one session.

use std::ops::Range;

use agent_journal::model::{Block, Message};
use agent_journal::present::{Speaker, call_subject};
use agent_journal::{Entry, Error, Journal};
use anyhow::{Result, anyhow, ensure};

use super::ask::ShownId;
use super::page::{AnswerPage, PageItem, fit_to_tokens};
use super::{ToolCall, input};
use crate::output::count;
use crate::output::quote::{Quoter, cut_to_tokens, estimate_tokens};

/// Messages read from the journal at a time.
const STEP: u64 = 64;

/// Tokens of the line above a document.
const DOCUMENT: usize = 8;

/// Most tokens of a tool call or result that is not shown in full, and of a title or name.
const BRIEF: usize = 60;

impl ToolCall {
    /// Answers the `show` tool.
    pub(super) fn answer_show_tool(&self) -> Result<String> {
        let input: input::Show = self.parse_input()?;
        let (id, place) = match input.id.split_once('#') {
            Some((id, place)) => (id, Some(place)),
            None => (input.id.as_str(), None),
        };
        let answered = self.context.answer_fresh(|journal| Ok(journal.find_session(id)?));
        let answered = answered.map_err(|error| unknown_session(&error, id))?;
        let (journal, mut entry) = (answered.journal, answered.answer);
        let around = self.context.settings.search.context;
        let range = requested_range(&entry, place, input.from, around)?;
        let is_whole = place.is_none() && input.from.is_none();
        let documents = if is_whole { journal.session_documents(&entry)? } else { Vec::new() };
        let mut quoter = Quoter::new(journal.owner_redactor());
        quoter.redact_entry(&mut entry, &journal)?;
        let mut reading = SessionReading {
            quoter,
            entry: &entry,
            tools: input.tools,
            asked: input.from.or_else(|| place.and_then(|place| place.parse().ok())),
            skip: input.skip,
            has_shown: false,
        };
        let mut page = reading.begin_page(self.token_budget()?);
        reading.add_document_items(&mut page, &documents);
        reading.add_message_items(page, &journal, range)
    }
}

/// Describes a failed session lookup without quoting recorded text.
pub(super) fn unknown_session(error: &anyhow::Error, id: &str) -> anyhow::Error {
    let id = cut_to_tokens(id, 30);
    match error.downcast_ref() {
        Some(Error::AmbiguousSession { count, candidates, .. }) => {
            let ids: Vec<String> =
                candidates.iter().take(3).map(|(id, _)| ShownId::new(id).own).collect();
            anyhow!("`{id}` matches {count} sessions; use a longer id: {}", ids.join(", "))
        }
        Some(Error::UnknownSession { .. }) => anyhow!("no session `{id}`: list returns the ids"),
        _ => anyhow!("{error:#}"),
    }
}

/// Returns the requested messages, counted from 0: all, those from `from` on, or `around` messages
/// on each side of `place`.
fn requested_range(
    entry: &Entry,
    place: Option<&str>,
    from: Option<u64>,
    around: u64,
) -> Result<Range<u64>> {
    let total = entry.transcript_length();
    let inside = |number: u64| {
        ensure!((1..=total).contains(&number), "the session has messages 1 to {total}");
        Ok(number - 1)
    };
    match (place, from) {
        (_, Some(number)) => Ok(inside(number)?..total),
        (None, None) => Ok(0..total),
        (Some(place), None) => {
            let number = place.parse().map_err(|_| anyhow!("the part after # must be a number"))?;
            let at = inside(number)?;
            Ok(at.saturating_sub(around)..at.saturating_add(around + 1).min(total))
        }
    }
}

/// Writes one session into an answer.
struct SessionReading<'e> {
    quoter: Quoter,
    entry: &'e Entry,
    tools: bool,
    /// Number of the requested message, counted from 1.
    asked: Option<u64>,
    /// Characters of the first message to leave out.
    skip: usize,
    /// Whether a document or a message has been added to the answer.
    has_shown: bool,
}

/// A message that does not fit into an answer.
struct CutMessage<'m> {
    position: u64,
    /// The line above the message.
    heading: &'m str,
    text: &'m str,
    /// The characters that were left out before the text.
    skip: usize,
}

impl SessionReading<'_> {
    /// Starts the answer with the facts about the session.
    fn begin_page(&mut self, budget: usize) -> AnswerPage {
        let entry = self.entry;
        let date =
            entry.started_at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..10]));
        let id = ShownId::new(&entry.id);
        let own = format!(
            "{}{date} {}, {}",
            id.own,
            entry.status,
            count(entry.transcript_length(), "message")
        );
        let mut page = AnswerPage::new(budget, &own);
        let mut facts = vec![self.quoter.clean_line(&entry.title, BRIEF)];
        facts.extend(id.quoted);
        for (what, value) in [("directory", &entry.cwd), ("branch", &entry.branch)] {
            let value = value.as_ref().map(|value| self.quoter.clean_line(value, BRIEF));
            facts.extend(value.map(|value| format!("{what} {value}")));
        }
        page.add_item(&PageItem::default().quoted_text(&facts.join("\n")));
        page
    }

    /// Adds the documents of the session; half of the room is reserved for the messages.
    fn add_document_items(&mut self, page: &mut AnswerPage, documents: &[(String, String)]) {
        let half = page.remaining_tokens() / 2;
        for (at, (name, text)) in documents.iter().enumerate() {
            let room = page.remaining_tokens().saturating_sub(half);
            let text = format!(
                "{}\n{}",
                self.quoter.clean_line(name, BRIEF),
                self.quoter.clean_text(text)
            );
            let kept = fit_to_tokens(text.trim(), room.saturating_sub(DOCUMENT));
            let is_whole = kept.len() == text.trim().len();
            if !is_whole && room < BRIEF {
                let left = count((documents.len() - at) as u64, "more document");
                page.add_item(&PageItem::new(&format!(
                    "Left out: {left}; use a larger \"max_tokens\""
                )));
                return;
            }
            let own = if is_whole { "document" } else { "document (beginning)" };
            self.has_shown |= page.add_item(&PageItem::new(own).quoted_text(kept));
        }
    }

    /// Adds messages until the answer is full, the last one in part, and finishes it.
    fn add_message_items(
        &mut self,
        mut page: AnswerPage,
        journal: &Journal,
        range: Range<u64>,
    ) -> Result<String> {
        let mut at = range.start;
        while at < range.end {
            for (position, message) in
                journal.read_messages(self.entry, at..(at + STEP).min(range.end))?
            {
                let skip = std::mem::take(&mut self.skip);
                let Some((own, text)) = self.message_text(position, &message) else { continue };
                let text: String = text.chars().skip(skip).collect();
                let item = PageItem::new(&own).quoted_text(&text);
                if page.add_item(&item) {
                    self.has_shown = true;
                    continue;
                }
                let cut = CutMessage { position, heading: &own, text: &text, skip };
                return Ok(self.break_off(page, &cut));
            }
            at = (at + STEP).min(range.end);
        }
        let left = self.entry.transcript_length() - range.end;
        let next = (left > 0).then(|| {
            format!(
                "Left out: {}; read on with \"from\": {}",
                count(left, "message"),
                range.end + 1
            )
        });
        Ok(page.finish_page(&next.into_iter().collect::<Vec<_>>()))
    }

    /// Finishes the answer inside a message, with the arguments that read on from there.
    fn break_off(&self, mut page: AnswerPage, message: &CutMessage<'_>) -> String {
        let CutMessage { position, heading, text, skip } = *message;
        let room = page.remaining_tokens().saturating_sub(estimate_tokens(heading) + 1);
        let kept = fit_to_tokens(text, room);
        let number = position + 1;
        let is_empty = kept.trim().is_empty();
        if !is_empty {
            page.add_item(&PageItem::new(heading).quoted_text(kept));
        }
        let skip = if is_empty { skip } else { skip + kept.chars().count() };
        let mut from = format!("\"from\": {number}, \"skip\": {skip}");
        if is_empty && !self.has_shown {
            // Repeating the same call would return the same answer.
            from.push_str(", and a larger \"max_tokens\"");
        }
        let left = self.entry.transcript_length() - position;
        let brief = if self.tools {
            ""
        } else {
            "; tool text is shortened, \"tools\": true shows it in full"
        };
        page.finish_page(&[format!(
            "Left out: {}; read on with {from}{brief}",
            count(left, "message")
        )])
    }

    /// Returns the line above a message and its text; `None` for messages that are not shown.
    fn message_text(&mut self, position: u64, message: &Message) -> Option<(String, String)> {
        // A side conversation does not belong to the main line, unless it was asked for by number.
        if message.sidechain && self.asked != Some(position + 1) {
            return None;
        }
        let who = match Speaker::of_message(self.entry, message) {
            Speaker::Injected | Speaker::Notice if message.failed => "failure",
            Speaker::Injected | Speaker::Notice => return None,
            speaker => speaker.message_kind(),
        };
        let mut parts = Vec::new();
        for block in &message.blocks {
            parts.extend(self.block_text(block).filter(|text| !text.trim().is_empty()));
        }
        if parts.is_empty() {
            return None;
        }
        let at = message.at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..16]));
        let imported = if message.imported { " (imported)" } else { "" };
        Some((format!("#{} {who}{at}{imported}", position + 1), parts.join("\n")))
    }

    fn block_text(&mut self, block: &Block) -> Option<String> {
        match block {
            Block::Text(text) => Some(self.quoter.clean_text(text.trim())),
            Block::ToolCall { name, input, .. } => {
                let name = self.quoter.clean_line(name, BRIEF);
                let input = self.quoter.redact_tool_json(input);
                let input = if self.tools {
                    self.quoter.clean_text(input.as_json_str())
                } else {
                    self.quoter.clean_line(&call_subject(&input), BRIEF)
                };
                Some(format!("[{name}] {input}"))
            }
            Block::ToolResult { output, .. } if self.tools => Some(self.quoter.clean_text(output)),
            Block::ToolResult { output, is_error, .. } => {
                let failed = if *is_error == Some(true) { "failed: " } else { "" };
                Some(format!("{failed}{}", self.quoter.clean_line(output, BRIEF)))
            }
            _ => None,
        }
    }
}
