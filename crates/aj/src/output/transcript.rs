//! A session as a conversation: prompts with headings, replies as written, one line for each tool
//! call.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::Arc;

use agent_journal::analyze::SessionFigures;
use agent_journal::model::{Block, Json, Message, Origin};
use agent_journal::present::{Speaker, call_subject};
use agent_journal::{Entry, Touches};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use jiff::Zoned;

use super::files::touches_in_words;
use super::markdown;
use super::table::project_and_branch;
use super::wrap::join_to_lines;
use super::{
    BOLD, DIM, agent_of, agent_style, bytes, count, cut_to_width, duration, local_minute,
    message_author, money_of_share, not_in_transcript, plain_text, relative_time, session_badge,
    token_classes,
};

const PROMPT: Style = AnsiColor::Cyan.on_default().bold();
/// Most file names in the line about touched files.
const NAMED_FILES: usize = 12;

const FAILED: Style = AnsiColor::Red.on_default();

/// The parts of a session that are shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShownParts {
    /// Whether inputs and outputs of tools are shown in full.
    pub(crate) tools: bool,
    /// Whether the model's reasoning is shown.
    pub(crate) thinking: bool,
    /// Whether injected text and side conversations are shown.
    pub(crate) everything: bool,
}

impl ShownParts {
    /// Shows everything.
    pub(crate) const FULL: Self = Self { tools: true, thinking: true, everything: true };

    /// Returns whether nothing of a message is shown.
    pub(crate) fn hides_message(self, message: &Message) -> bool {
        let is_aside = message.sidechain
            || matches!(message.origin, Origin::Injected | Origin::Summary | Origin::System)
                && !message.failed;
        is_aside && !self.everything
    }
}

/// Writes a session piece by piece.
pub(crate) struct Transcript<'a, W: Write> {
    pub(crate) out: W,
    pub(crate) entry: &'a Entry,
    pub(crate) detail: ShownParts,
    pub(crate) width: usize,
    /// Whether Markdown is rendered instead of shown as written.
    pub(crate) is_rendered: bool,
    /// Ids of the calls that are shown the other way than `detail` selects: in full, or in one
    /// line.
    pub(crate) flipped: Arc<BTreeSet<String>>,
    /// Notices about parts of the session that the journal lacks.
    pub(crate) notices: Vec<String>,
    /// Names of the called tools, by call id.
    calls: HashMap<String, String>,
    /// The speaker of the last heading.
    speaker: Option<Speaker>,
}

impl<'a, W: Write> Transcript<'a, W> {
    pub(crate) fn new(out: W, entry: &'a Entry, detail: ShownParts, width: usize) -> Self {
        Self {
            out,
            entry,
            detail,
            width: width.min(120),
            is_rendered: false,
            flipped: Arc::default(),
            notices: Vec::new(),
            calls: HashMap::new(),
            speaker: None,
        }
    }

    /// Writes the facts about the session.
    pub(crate) fn write_header(&mut self, now: &Zoned, figures: &SessionFigures) -> Result<()> {
        let entry = self.entry;
        let out = &mut self.out;
        writeln!(
            out,
            "{} {BOLD}{}{BOLD:#}",
            session_badge(entry),
            cut_to_width(&entry.title, self.width.saturating_sub(8))
        )?;
        let when = format!(
            "{} ({})",
            local_minute(entry.started_at, now),
            relative_time(entry.ended_at, now)
        );
        let spent = match (entry.active_s, entry.wall_s) {
            (0, 0) => "active –".to_owned(),
            (active, wall) => format!("active {} of {}", duration(active), duration(wall)),
        };
        let mut facts = vec![project_and_branch(entry), when, spent, entry.status.to_string()];
        facts.extend(entry.models.iter().take(3).cloned());
        let version = entry.agent_version.as_deref().unwrap_or("–");
        let name = agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.name);
        facts.push(format!("{name} {version}"));
        let facts: Vec<String> = facts.iter().map(|fact| cut_to_width(fact, self.width)).collect();
        for line in join_to_lines(&facts, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        let counts = &entry.counts;
        let spent = [
            count(counts.user_prompts, "prompt"),
            call_count_text(counts.tool_calls, counts.tool_errors),
            token_classes(&entry.tokens),
            format!("cost {}", money_of_share(&figures.own.cost)),
        ];
        for line in join_to_lines(&spent, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        if let Some(line) = not_in_transcript(&figures.own) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        if figures.subagents > 0 {
            let whole = &figures.with_subagents;
            let spent = [
                format!("with {}", count(figures.subagents, "sub-agent")),
                call_count_text(whole.tool_calls, whole.tool_errors),
                token_classes(&whole.tokens),
                format!("cost {}", money_of_share(&whole.cost)),
            ];
            for line in join_to_lines(&spent, " · ", self.width) {
                writeln!(out, "{DIM}{line}{DIM:#}")?;
            }
        }
        for line in lineage_lines(entry) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        for notice in &self.notices {
            writeln!(out, "{DIM}notice {notice}{DIM:#}")?;
        }
        for (name, several) in [("branches", &entry.branches), ("directories", &entry.directories)]
        {
            if !several.is_empty() {
                writeln!(out, "{DIM}{name} {}{DIM:#}", plain_text(&several.join(", ")))?;
            }
        }
        if let Some(repository) = &entry.repository {
            writeln!(out, "{DIM}repository {}{DIM:#}", plain_text(repository))?;
        }
        if let Some(summary) = entry.summary.as_ref().filter(|text| **text != entry.title) {
            let line = summary.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = if self.detail.everything {
                plain_text(&line)
            } else {
                cut_to_width(&line, self.width.saturating_sub(8))
            };
            writeln!(out, "{DIM}summary {line}{DIM:#}")?;
        }
        for one in &entry.refs {
            writeln!(out, "{DIM}{} {}{DIM:#}", plain_text(&one.kind), plain_text(&one.value))?;
        }
        let gone = if entry.source.present { "" } else { " (deleted; kept in the journal)" };
        // A path is not cut, because the user may want to copy it.
        let source = [plain_text(&entry.id), format!("{}{gone}", plain_text(&entry.source.path))];
        for line in join_to_lines(&source, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        Ok(())
    }

    /// Writes the files that the session touched, changed ones first: on one line, or on a line
    /// each where everything is shown.
    pub(crate) fn write_files(&mut self, files: &[(String, Touches)]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut files: Vec<&(String, Touches)> = files.iter().collect();
        files.sort_by_key(|(_, touches)| std::cmp::Reverse(touches.changes()));
        if self.detail.everything {
            for (path, touches) in files {
                writeln!(
                    self.out,
                    "{DIM}file {}: {}{DIM:#}",
                    plain_text(path),
                    touches_in_words(*touches)
                )?;
            }
            return Ok(());
        }
        let changed = files.iter().filter(|(_, touches)| touches.changes() > 0).count() as u64;
        let names =
            files.iter().map(|(path, _)| plain_text(path.rsplit('/').next().unwrap_or(path)));
        let names = names.take(NAMED_FILES).collect::<Vec<_>>().join(", ");
        let all = count(files.len() as u64, "file");
        let line = format!("{all} touched, {changed} changed: {names}");
        writeln!(self.out, "{DIM}{}{DIM:#}", cut_to_width(&line, self.width))?;
        Ok(())
    }

    /// Writes the documents of the session: a line each, or in full where everything is shown or
    /// there are no messages.
    pub(crate) fn write_session_documents(&mut self, documents: &[(String, String)]) -> Result<()> {
        let is_open = self.detail.everything || self.entry.transcript_length() == 0;
        let sign = if is_open { '▾' } else { '▸' };
        for (at, (name, text)) in documents.iter().enumerate() {
            let first = text.lines().map(|line| line.trim_start_matches('#').trim());
            let first = first.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
            let line = cut_to_width(first, self.width.saturating_sub(8 + name.len()));
            let (gap, name) = (if at == 0 { "\n" } else { "" }, plain_text(name));
            writeln!(
                self.out,
                "{gap}     {DIM}{sign}{DIM:#} {BOLD}{name}{BOLD:#} {DIM}{line}{DIM:#}"
            )?;
            if is_open {
                self.write_text(text, Origin::Summary)?;
            }
        }
        Ok(())
    }

    /// Writes one message.
    pub(crate) fn write_transcript_message(
        &mut self,
        position: u64,
        message: &Message,
    ) -> Result<()> {
        if self.begin_message(position, message)? {
            for block in &message.blocks {
                self.write_message_block(block, message)?;
            }
            if self.detail.everything {
                for name in message.attached_files() {
                    writeln!(self.out, "     {DIM}[attached: {}]{DIM:#}", plain_text(&name))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the heading of a message. Returns whether its blocks are to be written.
    pub(crate) fn begin_message(&mut self, position: u64, message: &Message) -> Result<bool> {
        for block in &message.blocks {
            if let Block::ToolCall { id, name, .. } = block {
                self.calls.insert(id.clone(), name.clone());
            }
        }
        if self.detail.hides_message(message) {
            return Ok(false);
        }
        self.write_heading(position, message)?;
        Ok(true)
    }

    fn write_heading(&mut self, position: u64, message: &Message) -> Result<()> {
        let number = position + 1;
        let speaker = Speaker::of_message(self.entry, message);
        // Results follow their calls without a heading, unless there is none before them.
        if speaker == Speaker::Tool && (self.speaker.is_some() || !self.detail.tools) {
            return Ok(());
        }
        let style = match speaker {
            Speaker::User | Speaker::ParentAgent => PROMPT,
            Speaker::Agent => agent_of(self.entry).map_or(BOLD, agent_style),
            Speaker::Notice if message.failed => FAILED,
            _ => DIM,
        };
        let says = message.blocks.iter().any(|block| match block {
            Block::Text(_) | Block::Image(_) | Block::Other(_) => true,
            Block::Thinking(_) => self.detail.thinking,
            // Calls follow the text of their speaker without a heading of their own.
            Block::ToolCall { .. } => self.speaker.is_some_and(|last| last != speaker),
            Block::ToolResult { .. } => speaker == Speaker::Tool,
        });
        if says {
            self.speaker = Some(speaker);
            let name = message_author(self.entry, message);
            let side = if message.sidechain { " · side conversation" } else { "" };
            let imported = if message.imported { " · imported" } else { "" };
            let aside = format!("{side}{imported}");
            writeln!(
                self.out,
                "\n{DIM}{number:>4}{DIM:#} {style}{name}{style:#}{DIM}{aside}{DIM:#}"
            )?;
        }
        Ok(())
    }

    /// Writes one block of a message.
    pub(crate) fn write_message_block(&mut self, block: &Block, message: &Message) -> Result<()> {
        match block {
            Block::Text(_) if message.origin == Origin::Tool && !self.detail.tools => Ok(()),
            Block::Text(text) if message.failed => self.write_paragraphs(text, FAILED),
            Block::Text(text) => self.write_text(text, message.origin),
            Block::Thinking(text) if self.detail.thinking => {
                // Marked by a word as well, because a pipe has no italics.
                writeln!(self.out, "     {DIM}thinking:{DIM:#}")?;
                self.write_paragraphs(text, DIM.italic())
            }
            Block::ToolCall { id, name, input } => self.write_tool_call(id, name, input),
            Block::ToolResult { call_id, output, is_error } => {
                self.write_tool_result(call_id, output, *is_error == Some(true))
            }
            Block::Image(image) => {
                let kind = plain_text(image.media_type.as_deref().unwrap_or("image"));
                Ok(writeln!(self.out, "     {DIM}[{kind}, {}]{DIM:#}", bytes(image.bytes))?)
            }
            Block::Other(raw) if self.detail.everything => {
                self.write_paragraphs(raw.as_json_str(), DIM)
            }
            _ => Ok(()),
        }
    }

    /// Writes text. Text of people and models is Markdown; text that a program injected is not.
    fn write_text(&mut self, text: &str, origin: Origin) -> Result<()> {
        let is_said = origin.is_human_prompt()
            || matches!(origin, Origin::Assistant | Origin::Summary | Origin::Command);
        if !self.is_rendered || !is_said {
            return self.write_paragraphs(text, Style::new());
        }
        for line in markdown::markdown_lines(text.trim(), self.width.saturating_sub(5)) {
            let indent = if line.is_empty() { "" } else { "     " };
            writeln!(self.out, "{indent}{line}")?;
        }
        Ok(())
    }

    fn write_paragraphs(&mut self, text: &str, style: Style) -> Result<()> {
        for line in plain_text(text.trim()).lines() {
            for piece in wrap_line(line, self.width.saturating_sub(5)) {
                writeln!(self.out, "     {style}{piece}{style:#}")?;
            }
        }
        Ok(())
    }

    /// Returns whether a call and its result are shown in full.
    fn is_shown_in_full(&self, call: &str) -> bool {
        self.detail.tools != self.flipped.contains(call)
    }

    fn write_tool_call(&mut self, id: &str, name: &str, input: &Json) -> Result<()> {
        let is_open = self.is_shown_in_full(id);
        let sign = if is_open { '▾' } else { '▸' };
        let line = cut_to_width(&call_subject(input), self.width.saturating_sub(8 + name.len()));
        let name = plain_text(name);
        writeln!(self.out, "     {DIM}{sign}{DIM:#} {BOLD}{name}{BOLD:#} {DIM}{line}{DIM:#}")?;
        if is_open {
            let pretty = input.parse_as::<serde_json::Value>();
            let text = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
            self.write_paragraphs(&text.unwrap_or_default().replace("\\n", "\n"), DIM)?;
        }
        Ok(())
    }

    fn write_tool_result(&mut self, call: &str, output: &str, failed: bool) -> Result<()> {
        if self.is_shown_in_full(call) {
            let style = if failed { FAILED } else { DIM };
            return self.write_paragraphs(output, style);
        }
        if failed {
            let name = self.calls.get(call).map_or("tool", String::as_str);
            let first = output.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
            let line = cut_to_width(first.trim(), self.width.saturating_sub(12 + name.len()));
            writeln!(self.out, "       {FAILED}✗ {}: {line}{FAILED:#}", plain_text(name))?;
        }
        Ok(())
    }
}

/// Formats the number of tool calls, and of failed ones.
fn call_count_text(calls: u64, errors: u64) -> String {
    let failed = if errors > 0 { format!(" ({errors} failed)") } else { String::new() };
    format!("{}{failed}", count(calls, "tool call"))
}

/// Wraps a line at spaces. Indentation is kept, and words that are too long stay whole.
fn wrap_line(line: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let indent: String = line.chars().take_while(|one| one.is_whitespace()).collect();
    let mut lines = vec![indent.clone()];
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        let empty = last.len() == indent.len();
        if !empty && last.width() + 1 + word.width() > width {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        if !empty {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

/// Returns the lines that link a session with the one it continues and with those that continue it.
fn lineage_lines(entry: &Entry) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(origin) = &entry.continues {
        let shared = count(entry.shared_messages, "message");
        lines.push(format!("continues {} (the first {shared})", plain_text(origin)));
    }
    lines
        .extend(entry.continued_by.iter().map(|fork| format!("continued by {}", plain_text(fork))));
    lines
}
