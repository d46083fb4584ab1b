//! Sessions, messages and answers without secrets, for readers who need none.

use crate::analyze::{By, Stats};
use crate::config::ViewRedaction;
use crate::error::Result;
use crate::export::Redactor;
use crate::export::redact::{NamedText, each_string};
use crate::journal::Journal;
use crate::model::{Block, Message, Origin, Session};
use crate::search::{Answer, Hit};
use crate::store::{Entry, KnownSession};

/// Messages read at a time in search of the first prompt.
const STEP: u64 = 16;

/// The first prompt is among so many messages, unless the title says that there is one.
const FIRST_PROMPT: u64 = 64;

/// A title and its text have so many letters in common.
const SAME_LETTERS: usize = 24;

impl Journal {
    /// Returns what takes out of everything that views read what they must not have.
    pub(crate) fn view_redactor(&self) -> Option<Redactor> {
        match self.config.redaction {
            ViewRedaction::Off => None,
            ViewRedaction::Secrets => Some(Redactor::of_secrets()),
            ViewRedaction::Personal => Some(self.redactor()),
        }
    }

    /// Takes out of listed sessions what views must not have.
    pub(crate) fn redact_for_view(&self, entries: &mut [Entry]) -> Result<()> {
        let Some(mut redactor) = self.view_redactor() else { return Ok(()) };
        entries.iter_mut().try_for_each(|entry| self.redact_entry(entry, &mut redactor))
    }

    /// Takes out of paths what views must not have.
    pub(crate) fn redact_paths<'p>(&self, paths: impl Iterator<Item = &'p mut String>) {
        if let Some(mut redactor) = self.view_redactor() {
            paths.for_each(|path| redactor.own(path));
        }
    }

    /// Takes out of the titles of known sessions what views must not have.
    pub(crate) fn redact_known(&self, sessions: &mut [KnownSession]) -> Result<()> {
        let Some(mut redactor) = self.view_redactor() else { return Ok(()) };
        for session in sessions {
            session.title = match self.stored_session(&session.id) {
                Ok(entry) => self.redacted_title(&entry, &mut redactor)?,
                Err(_) => redactor.piece(&session.title, &[], &mut Vec::new()),
            };
        }
        Ok(())
    }

    /// Returns the ids and titles of sessions to choose from. They stand in an error, which may go
    /// anywhere: secrets are always taken out.
    pub(crate) fn named_candidates(&self, found: Vec<Entry>) -> Vec<(String, String)> {
        let mut redactor = Redactor::of_secrets();
        let mut name = |entry: Entry| {
            let title = self.redacted_title(&entry, &mut redactor).unwrap_or_default();
            (entry.id, title)
        };
        found.into_iter().map(&mut name).collect()
    }

    /// Takes secrets out of statistics: titles of sessions, names of projects and branches.
    pub fn redact_stats(&self, stats: &mut Stats, redactor: &mut Redactor) -> Result<()> {
        let is_by_session = stats.by == Some(By::Session);
        for group in &mut stats.groups {
            if is_by_session && let Ok(mut entry) = self.stored_session(&group.key) {
                self.redact_entry(&mut entry, redactor)?;
                group.label = group.label.take().map(|_| entry.title);
                continue;
            }
            redactor.own(&mut group.key);
            if let Some(label) = &mut group.label {
                redactor.own(label);
            }
        }
        Ok(())
    }

    /// Takes secrets out of what is listed of a session. A title is a piece of a longer text, in
    /// which its secrets are looked for.
    pub fn redact_entry(&self, entry: &mut Entry, redactor: &mut Redactor) -> Result<()> {
        for path in [&entry.cwd, &entry.project_path].into_iter().flatten() {
            redactor.add_home(path);
        }
        redactor.add_home(&entry.source.path);
        entry.title = self.redacted_title(entry, redactor)?;
        let paths =
            [&mut entry.cwd, &mut entry.project_path, &mut entry.project, &mut entry.branch];
        for text in paths.into_iter().flatten() {
            redactor.own(text);
        }
        redactor.own(&mut entry.source.path);
        for one in &mut entry.refs {
            redactor.own(&mut one.value);
        }
        for text in [&mut entry.repository, &mut entry.summary].into_iter().flatten() {
            redactor.own(text);
        }
        for text in entry.branches.iter_mut().chain(&mut entry.directories) {
            redactor.own(text);
        }
        Ok(())
    }

    /// Takes secrets out of an answer: sessions, messages, snippets.
    pub fn redact_answer(&self, answer: &mut Answer, redactor: &mut Redactor) -> Result<()> {
        for found in &mut answer.sessions {
            for hit in &mut found.hits {
                let place = hit.within.as_deref().unwrap_or(&found.entry);
                let texts = self.hit_texts(place, hit)?;
                let snippet = &mut hit.snippet;
                snippet.text = redactor.piece(&snippet.text, &texts, &mut snippet.highlights);
                if let Some(message) = &mut hit.message {
                    redactor.recorded(message);
                }
                for (_, message) in &mut hit.context {
                    redactor.recorded(message);
                }
                if let Some(within) = &mut hit.within {
                    self.redact_entry(within, redactor)?;
                }
            }
            self.redact_entry(&mut found.entry, redactor)?;
        }
        Ok(())
    }

    /// Reads the texts that a snippet may be cut out of: its message, or what is recorded about
    /// the session.
    pub fn hit_texts(&self, entry: &Entry, hit: &Hit) -> Result<Vec<NamedText>> {
        if let Some(message) = &hit.message {
            return Ok(message_texts(message));
        }
        let account = self.stored_account(entry)?.unwrap_or_default();
        let mut texts = self.title_texts(entry, &account)?;
        texts.extend(account.documents.into_iter().map(|(_, text)| NamedText::from(text)));
        Ok(texts)
    }

    /// Returns a session's title without secrets: the way to every title that leaves redacted. A
    /// title is cut out of a longer text, in which its secrets are looked for.
    pub fn redacted_title(&self, entry: &Entry, redactor: &mut Redactor) -> Result<String> {
        let account = self.stored_account(entry)?.unwrap_or_default();
        let texts = self.title_texts(entry, &account)?;
        Ok(redactor.piece(&entry.title, &texts, &mut Vec::new()))
    }

    /// Reads the texts that a session's titles may be cut out of: those on record, the first
    /// prompt and the first command.
    pub(super) fn title_texts(&self, entry: &Entry, account: &Session) -> Result<Vec<NamedText>> {
        let titles = account.titles.iter().map(|one| &one.text);
        let told = titles.chain(account.summaries.iter().map(|one| &one.text));
        let mut texts: Vec<NamedText> = told.cloned().map(NamedText::from).collect();
        let is_from_message = matches!(entry.title_source.as_str(), "prompt" | "command");
        let all = entry.transcript_length();
        let last = if is_from_message { all } else { all.min(FIRST_PROMPT) };
        let mut from = 0;
        while from < last {
            for (_, message) in self.stored_messages(entry, from..from + STEP)? {
                let is_said = message.origin.is_prompt() || message.origin == Origin::Command;
                let text = if is_said && !message.sidechain { message.text() } else { continue };
                // A fork is called after its own first prompt, which is not the first one in it.
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

/// Whether a title may be the beginning of a text: white space differs.
fn begins_alike(text: &str, title: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|one| !one.is_whitespace()).take(SAME_LETTERS).collect()
    };
    letters(text).starts_with(letters(title).trim_end_matches('…'))
}

/// Returns every text in a message, as it was recorded.
fn message_texts(message: &Message) -> Vec<NamedText> {
    let mut all: Vec<NamedText> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) | Block::Thinking(text) => all.push(text.clone().into()),
            Block::ToolResult { output, .. } => all.push(output.clone().into()),
            Block::ToolCall { input, .. } => each_string(input.as_str(), &mut |name, text| {
                all.push(NamedText { name: name.to_owned(), text: text.to_owned() });
            }),
            _ => {}
        }
    }
    all
}
