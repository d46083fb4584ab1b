//! The tool that reads one session.

use std::ops::Range;

use agent_journal::model::{Block, Message, Origin, Role};
use agent_journal::{Entry, Error, Journal};
use anyhow::{Result, anyhow, ensure};

use super::ask::ShownId;
use super::page::{Item, Page, fit};
use super::{Call, input};
use crate::output::count;
use crate::output::quote::{Quoter, cut, tokens};
use crate::output::transcript::gist;

/// Messages read at a time.
const STEP: u64 = 64;

/// Tokens of what is said of a document.
const DOCUMENT: usize = 8;

/// Tokens of a tool's call or result when it is not wanted in full.
const BRIEF: usize = 60;

impl Call {
    /// Reads a session.
    pub(super) fn show(&self) -> Result<String> {
        let input: input::Show = self.input()?;
        let (id, place) = match input.id.split_once('#') {
            Some((id, place)) => (id, Some(place)),
            None => (input.id.as_str(), None),
        };
        let answered = self.context.answer(|journal| Ok(journal.session(id)?));
        let answered = answered.map_err(|error| unknown(&error, id))?;
        let (journal, mut entry) = (answered.journal, answered.answer);
        let around = self.context.settings.number("search.default_context") as u64;
        let range = range(&entry, place, input.from, around)?;
        let is_whole = place.is_none() && input.from.is_none();
        let documents = if is_whole { journal.documents(&entry)? } else { Vec::new() };
        let mut quoter = Quoter::new(journal.redactor());
        quoter.entry(&mut entry, &journal)?;
        let mut reading = Reading {
            quoter,
            entry: &entry,
            tools: input.tools,
            asked: input.from.or_else(|| place.and_then(|place| place.parse().ok())),
            skip: input.skip,
            has_shown: false,
        };
        let mut page = reading.begin(self.budget()?);
        reading.documents(&mut page, &documents);
        reading.messages(page, &journal, range)
    }
}

/// An error about an id says nothing that was recorded.
pub(super) fn unknown(error: &anyhow::Error, id: &str) -> anyhow::Error {
    let id = cut(id, 30);
    match error.downcast_ref() {
        Some(Error::AmbiguousSession { count, candidates, .. }) => {
            let ids: Vec<String> =
                candidates.iter().take(3).map(|(id, _)| ShownId::new(id).own).collect();
            anyhow!("`{id}` fits {count} sessions: {}", ids.join(", "))
        }
        Some(Error::UnknownSession { .. }) => anyhow!("there is no session `{id}`: list tells ids"),
        _ => anyhow!("{error:#}"),
    }
}

/// Which messages are meant, counted from 0; `around` one that is named.
fn range(entry: &Entry, place: Option<&str>, from: Option<u64>, around: u64) -> Result<Range<u64>> {
    let total = entry.transcript_length();
    let inside = |number: u64| {
        ensure!((1..=total).contains(&number), "it has messages 1 to {total}");
        Ok(number - 1)
    };
    match (place, from) {
        (_, Some(number)) => Ok(inside(number)?..total),
        (None, None) => Ok(0..total),
        (Some(place), None) => {
            let number = place.parse().map_err(|_| anyhow!("what follows # must be a number"))?;
            let at = inside(number)?;
            Ok(at.saturating_sub(around)..at.saturating_add(around + 1).min(total))
        }
    }
}

struct Reading<'e> {
    quoter: Quoter,
    entry: &'e Entry,
    tools: bool,
    /// The number of the message that was asked for.
    asked: Option<u64>,
    /// Characters of the first message to leave out.
    skip: usize,
    /// Whether a document or a message has been shown.
    has_shown: bool,
}

impl Reading<'_> {
    /// Begins the answer with the facts about the session.
    fn begin(&mut self, budget: usize) -> Page {
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
        let mut page = Page::new(budget, &own);
        let mut facts = vec![self.quoter.line(&entry.title, BRIEF)];
        facts.extend(id.quoted);
        for (what, value) in [("directory", &entry.cwd), ("branch", &entry.branch)] {
            let told = value.as_ref().map(|value| self.quoter.line(value, BRIEF));
            facts.extend(told.map(|told| format!("{what} {told}")));
        }
        page.add(&Item::default().quote(&facts.join("\n")));
        page
    }

    /// Writes the longer texts about the session; half of the room is left for what follows.
    fn documents(&mut self, page: &mut Page, documents: &[(String, String)]) {
        let half = page.room() / 2;
        for (at, (name, text)) in documents.iter().enumerate() {
            let room = page.room().saturating_sub(half);
            let text = format!("{}\n{}", self.quoter.line(name, BRIEF), self.quoter.text(text));
            let kept = fit(text.trim(), room.saturating_sub(DOCUMENT));
            let is_whole = kept.len() == text.trim().len();
            if !is_whole && room < BRIEF {
                let left = count((documents.len() - at) as u64, "more document");
                page.add(&Item::new(&format!("{left}: a larger \"max_tokens\" shows them")));
                return;
            }
            let own = if is_whole { "document" } else { "document, its beginning" };
            self.has_shown |= page.add(&Item::new(own).quote(kept));
        }
    }

    /// Writes messages until there is no more room, the last one in part.
    fn messages(&mut self, mut page: Page, journal: &Journal, range: Range<u64>) -> Result<String> {
        let mut at = range.start;
        while at < range.end {
            for (position, message) in
                journal.messages(self.entry, at..(at + STEP).min(range.end))?
            {
                let skip = std::mem::take(&mut self.skip);
                let Some((own, text)) = self.message(position, &message) else { continue };
                let text: String = text.chars().skip(skip).collect();
                let item = Item::new(&own).quote(&text);
                if page.add(&item) {
                    self.has_shown = true;
                    continue;
                }
                return Ok(self.break_off(page, (position, &own), (&text, skip)));
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
        Ok(page.finish(&next.into_iter().collect::<Vec<_>>()))
    }

    /// Ends inside a message, and says how to read on.
    fn break_off(
        &self,
        mut page: Page,
        (position, own): (u64, &str),
        (text, skip): (&str, usize),
    ) -> String {
        let room = page.room().saturating_sub(tokens(own) + 1);
        let kept = fit(text, room);
        let number = position + 1;
        let is_empty = kept.trim().is_empty();
        if !is_empty {
            page.add(&Item::new(own).quote(kept));
        }
        let skip = if is_empty { skip } else { skip + kept.chars().count() };
        let mut from = format!("\"from\": {number}, \"skip\": {skip}");
        if is_empty && !self.has_shown {
            // The same call again would say the same again.
            from.push_str(", and a larger \"max_tokens\"");
        }
        let left = self.entry.transcript_length() - position;
        let brief = if self.tools { "" } else { "; tools are shortened, \"tools\": true has all" };
        page.finish(&[format!("Left out: {}; read on with {from}{brief}", count(left, "message"))])
    }

    /// A message: our own line about it, and its text.
    fn message(&mut self, position: u64, message: &Message) -> Option<(String, String)> {
        // A side conversation is no part of this one.
        if message.sidechain && self.asked != Some(position + 1) {
            return None;
        }
        let who = match (message.origin, message.role) {
            (Origin::Human | Origin::Queued, _) => "prompt",
            (Origin::Command, _) => "command",
            (Origin::Assistant, _) => "reply",
            (Origin::Tool, _) | (_, Role::Tool) => "tool",
            (Origin::Summary, _) => "summary",
            (Origin::Injected | Origin::System, _) if message.failed => "failure",
            (Origin::Injected | Origin::System, _) => return None,
        };
        let mut parts = Vec::new();
        for block in &message.blocks {
            parts.extend(self.block(block).filter(|text| !text.trim().is_empty()));
        }
        if parts.is_empty() {
            return None;
        }
        let at = message.at.map_or(String::new(), |at| format!(" {}", &at.to_string()[..16]));
        let imported = if message.imported { " (imported)" } else { "" };
        Some((format!("#{} {who}{at}{imported}", position + 1), parts.join("\n")))
    }

    fn block(&mut self, block: &Block) -> Option<String> {
        match block {
            Block::Text(text) => Some(self.quoter.text(text.trim())),
            Block::ToolCall { name, input, .. } => {
                let name = self.quoter.line(name, BRIEF);
                let input = self.quoter.json(input);
                let input = if self.tools {
                    self.quoter.text(input.as_str())
                } else {
                    self.quoter.line(&gist(&input), BRIEF)
                };
                Some(format!("[{name}] {input}"))
            }
            Block::ToolResult { output, .. } if self.tools => Some(self.quoter.text(output)),
            Block::ToolResult { output, is_error, .. } => {
                let failed = if *is_error == Some(true) { "failed: " } else { "" };
                Some(format!("{failed}{}", self.quoter.line(output, BRIEF)))
            }
            _ => None,
        }
    }
}
