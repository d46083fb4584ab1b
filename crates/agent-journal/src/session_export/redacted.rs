//! Redaction of sessions, messages and search answers for views.

use crate::analyze::{GroupBy, Stats};
use crate::config::ViewRedaction;
use crate::error::Result;
use crate::export::Redactor;
use crate::export::redact::{NamedText, each_string};
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Session};
use crate::search::{Answer, Hit};
use crate::store::{Entry, KnownSession};

/// The number of messages read at a time in search of the first prompt.
const STEP: u64 = 16;

/// The number of messages searched for the first prompt, if the title does not come from a prompt
/// or a command.
const FIRST_PROMPT: u64 = 64;

/// The number of characters by which a title is compared with its text.
const SAME_LETTERS: usize = 24;

impl Journal {
    /// Returns the redactor for everything that views read, as configured; `None` if nothing is
    /// redacted.
    pub(crate) fn view_redactor(&self) -> Option<Redactor> {
        match self.config.redaction {
            ViewRedaction::Off => None,
            ViewRedaction::Secrets => Some(Redactor::of_secrets()),
            ViewRedaction::Personal => Some(self.owner_redactor()),
        }
    }

    /// Redacts listed sessions for views, as configured.
    pub(crate) fn redact_for_view(&self, entries: &mut [Entry]) -> Result<()> {
        let Some(mut redactor) = self.view_redactor() else { return Ok(()) };
        entries.iter_mut().try_for_each(|entry| self.redact_entry(entry, &mut redactor))
    }

    /// Redacts paths for views, as configured.
    pub(crate) fn redact_paths<'p>(&self, paths: impl Iterator<Item = &'p mut String>) {
        if let Some(mut redactor) = self.view_redactor() {
            paths.for_each(|path| redactor.redact_in_place(path));
        }
    }

    /// Redacts the titles of known sessions for views, as configured.
    pub(crate) fn redact_known(&self, sessions: &mut [KnownSession]) -> Result<()> {
        let Some(mut redactor) = self.view_redactor() else { return Ok(()) };
        for session in sessions {
            session.title = match self.stored_session(&session.id) {
                Ok(entry) => self.redacted_title(&entry, &mut redactor)?,
                Err(_) => redactor.redact_excerpt(&session.title, &[], &mut Vec::new()),
            };
        }
        Ok(())
    }

    /// Returns the ids and titles of sessions to choose from. They become part of an error, which
    /// may be shown anywhere, so secrets are always redacted.
    pub(crate) fn named_candidates(&self, found: Vec<Entry>) -> Vec<(String, String)> {
        let mut redactor = Redactor::of_secrets();
        let mut name = |entry: Entry| {
            let title = self.redacted_title(&entry, &mut redactor).unwrap_or_default();
            (entry.id, title)
        };
        found.into_iter().map(&mut name).collect()
    }

    /// Redacts statistics: titles of sessions, names of projects and branches.
    pub fn redact_stats(&self, stats: &mut Stats, redactor: &mut Redactor) -> Result<()> {
        let is_by_session = stats.by == Some(GroupBy::Session);
        for group in &mut stats.groups {
            if is_by_session && let Ok(mut entry) = self.stored_session(&group.key) {
                self.redact_entry(&mut entry, redactor)?;
                group.label = group.label.take().map(|_| entry.title);
                continue;
            }
            redactor.redact_in_place(&mut group.key);
            if let Some(label) = &mut group.label {
                redactor.redact_in_place(label);
            }
        }
        Ok(())
    }

    /// Redacts a session as the store lists it. The secrets of the title are searched in the longer
    /// text that the title was cut from.
    pub fn redact_entry(&self, entry: &mut Entry, redactor: &mut Redactor) -> Result<()> {
        for path in [&entry.cwd, &entry.project_path].into_iter().flatten() {
            redactor.add_home_owner(path);
        }
        redactor.add_home_owner(&entry.source.path);
        entry.title = self.redacted_title(entry, redactor)?;
        let paths =
            [&mut entry.cwd, &mut entry.project_path, &mut entry.project, &mut entry.branch];
        for text in paths.into_iter().flatten() {
            redactor.redact_in_place(text);
        }
        redactor.redact_in_place(&mut entry.source.path);
        for one in &mut entry.refs {
            redactor.redact_in_place(&mut one.value);
        }
        for text in [&mut entry.repository, &mut entry.summary].into_iter().flatten() {
            redactor.redact_in_place(text);
        }
        for text in entry.branches.iter_mut().chain(&mut entry.directories) {
            redactor.redact_in_place(text);
        }
        Ok(())
    }

    /// Redacts the answer of a search: sessions, messages, snippets.
    pub fn redact_answer(&self, answer: &mut Answer, redactor: &mut Redactor) -> Result<()> {
        for found in &mut answer.sessions {
            for hit in &mut found.hits {
                let place = hit.within.as_deref().unwrap_or(&found.entry);
                let texts = self.hit_texts(place, hit)?;
                let snippet = &mut hit.snippet;
                snippet.text =
                    redactor.redact_excerpt(&snippet.text, &texts, &mut snippet.highlights);
                if let Some(message) = &mut hit.message {
                    redactor.redact_recorded_message(message);
                }
                for (_, message) in &mut hit.context {
                    redactor.redact_recorded_message(message);
                }
                if let Some(within) = &mut hit.within {
                    self.redact_entry(within, redactor)?;
                }
            }
            self.redact_entry(&mut found.entry, redactor)?;
        }
        Ok(())
    }

    /// Reads the texts that a snippet may come from: its message, or the metadata of the session.
    pub fn hit_texts(&self, entry: &Entry, hit: &Hit) -> Result<Vec<NamedText>> {
        if let Some(message) = &hit.message {
            return Ok(message_texts(message));
        }
        let account = self.stored_account(entry)?.unwrap_or_default();
        let mut texts = self.title_texts(entry, &account)?;
        texts.extend(account.documents.into_iter().map(|(_, text)| NamedText::from(text)));
        Ok(texts)
    }

    /// Returns the redacted title of a session. All redacted titles come from here. The secrets are
    /// searched in the longer text that the title was cut from.
    pub fn redacted_title(&self, entry: &Entry, redactor: &mut Redactor) -> Result<String> {
        let account = self.stored_account(entry)?.unwrap_or_default();
        let texts = self.title_texts(entry, &account)?;
        Ok(redactor.redact_excerpt(&entry.title, &texts, &mut Vec::new()))
    }

    /// Reads the texts that the titles of a session may come from: recorded titles, the first
    /// prompt and the first command.
    pub(super) fn title_texts(&self, entry: &Entry, account: &Session) -> Result<Vec<NamedText>> {
        let titles = account.titles.iter().map(|one| &one.text);
        let recorded = titles.chain(account.summaries.iter().map(|one| &one.text));
        let mut texts: Vec<NamedText> = recorded.cloned().map(NamedText::from).collect();
        let is_from_message = matches!(entry.title_source.as_str(), "prompt" | "command");
        let all = entry.transcript_length();
        let last = if is_from_message { all } else { all.min(FIRST_PROMPT) };
        let mut from = 0;
        while from < last {
            for (_, message) in self.stored_messages(entry, from..from + STEP)? {
                let is_said = message.origin.is_human_prompt() || message.origin == Origin::Command;
                let text =
                    if is_said && !message.sidechain { message.joined_text() } else { continue };
                // The title of a fork comes from its own first prompt, which is not the first one
                // in it.
                let is_meant = !is_from_message || begins_alike(&text, &entry.title);
                if is_meant && !text.trim().is_empty() {
                    texts.push(text.into());
                    return Ok(texts);
                }
            }
            from += STEP;
        }
        Ok(texts)
    }
}

/// Returns whether a text may begin with a title. White space is ignored.
fn begins_alike(text: &str, title: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|one| !one.is_whitespace()).take(SAME_LETTERS).collect()
    };
    letters(text).starts_with(letters(title).trim_end_matches('…'))
}

/// Returns all texts of a message, as recorded.
fn message_texts(message: &Message) -> Vec<NamedText> {
    let mut all: Vec<NamedText> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) | Block::Thinking(text) => all.push(text.clone().into()),
            Block::ToolResult { output, .. } => all.push(output.clone().into()),
            Block::ToolCall { input, .. } => each_string(input.as_json_str(), &mut |name, text| {
                all.push(NamedText { name: name.to_owned(), text: text.to_owned() });
            }),
            _ => {}
        }
    }
    all
}
