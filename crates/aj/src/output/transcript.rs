//! A session as a conversation: prompts as landmarks, replies as written, one line a tool call.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::Arc;

use agent_journal::analyze::SessionFigures;
use agent_journal::model::{Block, Json, Message, Origin, Role};
use agent_journal::{Entry, Touches};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use jiff::Zoned;

use super::markdown;
use super::table::place;
use super::wrap::gathered;
use super::{
    BOLD, DIM, agent_of, ago, badge, bytes, clock, color, count, cut, duration, money_of_share,
    not_in_transcript, plain, token_classes,
};
use crate::commands::files::touched;

const PROMPT: Style = AnsiColor::Cyan.on_default().bold();
/// Names of files in the line about them.
const NAMED_FILES: usize = 12;

const FAILED: Style = AnsiColor::Red.on_default();

/// What of a session is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Inputs and outputs of tools in full.
    pub(crate) tools: bool,
    /// The model's reasoning.
    pub(crate) thinking: bool,
    /// What the program put into the conversation, and side conversations.
    pub(crate) everything: bool,
}

impl Detail {
    /// All there is.
    pub(crate) const FULL: Self = Self { tools: true, thinking: true, everything: true };

    /// Whether nothing of a message is shown.
    pub(crate) fn hides(self, message: &Message) -> bool {
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
    pub(crate) detail: Detail,
    pub(crate) width: usize,
    /// Whether Markdown is shown as what it means, not as it was written.
    pub(crate) is_rendered: bool,
    /// Calls that are shown otherwise than `detail` says: in full, or in one line.
    pub(crate) flipped: Arc<BTreeSet<String>>,
    /// What the journal does not have of the session.
    pub(crate) notices: Vec<String>,
    /// Names of the tools that were called, by call.
    calls: HashMap<String, String>,
    /// Whose heading was written last.
    speaker: Option<&'static str>,
}

impl<'a, W: Write> Transcript<'a, W> {
    pub(crate) fn new(out: W, entry: &'a Entry, detail: Detail, width: usize) -> Self {
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
    pub(crate) fn header(&mut self, now: &Zoned, figures: &SessionFigures) -> Result<()> {
        let entry = self.entry;
        let out = &mut self.out;
        writeln!(
            out,
            "{} {BOLD}{}{BOLD:#}",
            badge(entry),
            cut(&entry.title, self.width.saturating_sub(8))
        )?;
        let when = format!("{} ({})", clock(entry.started_at, now), ago(entry.ended_at, now));
        let spent = match (entry.active_s, entry.wall_s) {
            (0, 0) => "active –".to_owned(),
            (active, wall) => format!("active {} of {}", duration(active), duration(wall)),
        };
        let mut facts = vec![place(entry), when, spent, entry.status.to_owned()];
        facts.extend(entry.models.iter().take(3).cloned());
        let version = entry.agent_version.as_deref().unwrap_or("–");
        let name = agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.name);
        facts.push(format!("{name} {version}"));
        let facts: Vec<String> = facts.iter().map(|fact| cut(fact, self.width)).collect();
        for line in gathered(&facts, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        let counts = &entry.counts;
        let spent = [
            count(counts.user_prompts, "prompt"),
            calls(counts.tool_calls, counts.tool_errors),
            token_classes(&entry.tokens),
            format!("cost {}", money_of_share(&figures.own.cost)),
        ];
        for line in gathered(&spent, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        if let Some(line) = not_in_transcript(&figures.own) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        if figures.subagents > 0 {
            let whole = &figures.with_subagents;
            let spent = [
                format!("with {}", count(figures.subagents, "sub-agent")),
                calls(whole.tool_calls, whole.tool_errors),
                token_classes(&whole.tokens),
                format!("cost {}", money_of_share(&whole.cost)),
            ];
            for line in gathered(&spent, " · ", self.width) {
                writeln!(out, "{DIM}{line}{DIM:#}")?;
            }
        }
        for line in lineage(entry) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        for notice in &self.notices {
            writeln!(out, "{DIM}notice {notice}{DIM:#}")?;
        }
        for (name, several) in [("branches", &entry.branches), ("directories", &entry.directories)]
        {
            if !several.is_empty() {
                writeln!(out, "{DIM}{name} {}{DIM:#}", plain(&several.join(", ")))?;
            }
        }
        if let Some(repository) = &entry.repository {
            writeln!(out, "{DIM}repository {}{DIM:#}", plain(repository))?;
        }
        if let Some(summary) = entry.summary.as_ref().filter(|text| **text != entry.title) {
            let line = summary.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = if self.detail.everything {
                plain(&line)
            } else {
                cut(&line, self.width.saturating_sub(8))
            };
            writeln!(out, "{DIM}summary {line}{DIM:#}")?;
        }
        for one in &entry.refs {
            writeln!(out, "{DIM}{} {}{DIM:#}", plain(&one.kind), plain(&one.value))?;
        }
        let gone = if entry.source.present { "" } else { " (gone; kept in the journal)" };
        // A path is not cut: somebody may want to copy it.
        let source = [plain(&entry.id), format!("{}{gone}", plain(&entry.source.path))];
        for line in gathered(&source, " · ", self.width) {
            writeln!(out, "{DIM}{line}{DIM:#}")?;
        }
        Ok(())
    }

    /// Writes the files that the session touched: those it changed first, each in a line where
    /// everything is wanted.
    pub(crate) fn files(&mut self, files: &[(String, Touches)]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut files: Vec<&(String, Touches)> = files.iter().collect();
        files.sort_by_key(|(_, touches)| std::cmp::Reverse(touches.changes()));
        if self.detail.everything {
            for (path, touches) in files {
                writeln!(self.out, "{DIM}file {}: {}{DIM:#}", plain(path), touched(*touches))?;
            }
            return Ok(());
        }
        let changed = files.iter().filter(|(_, touches)| touches.changes() > 0).count() as u64;
        let names = files.iter().map(|(path, _)| plain(path.rsplit('/').next().unwrap_or(path)));
        let names = names.take(NAMED_FILES).collect::<Vec<_>>().join(", ");
        let all = count(files.len() as u64, "file");
        let line = format!("{all} touched, {changed} changed: {names}");
        writeln!(self.out, "{DIM}{}{DIM:#}", cut(&line, self.width))?;
        Ok(())
    }

    /// Writes the longer texts about the session: a line each, unless everything is wanted or
    /// there is nothing else.
    pub(crate) fn documents(&mut self, documents: &[(String, String)]) -> Result<()> {
        let is_open = self.detail.everything || self.entry.transcript_length() == 0;
        let sign = if is_open { '▾' } else { '▸' };
        for (at, (name, text)) in documents.iter().enumerate() {
            let first = text.lines().map(|line| line.trim_start_matches('#').trim());
            let first = first.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
            let line = cut(first, self.width.saturating_sub(8 + name.len()));
            let (gap, name) = (if at == 0 { "\n" } else { "" }, plain(name));
            writeln!(
                self.out,
                "{gap}     {DIM}{sign}{DIM:#} {BOLD}{name}{BOLD:#} {DIM}{line}{DIM:#}"
            )?;
            if is_open {
                self.text(text, Origin::Summary)?;
            }
        }
        Ok(())
    }

    /// Writes one message.
    pub(crate) fn message(&mut self, position: u64, message: &Message) -> Result<()> {
        if self.begin(position, message)? {
            for block in &message.blocks {
                self.block(block, message)?;
            }
            if self.detail.everything {
                for name in message.attachments() {
                    writeln!(self.out, "     {DIM}[attached: {}]{DIM:#}", plain(&name))?;
                }
            }
        }
        Ok(())
    }

    /// Begins a message and tells whether its blocks are to be written.
    pub(crate) fn begin(&mut self, position: u64, message: &Message) -> Result<bool> {
        for block in &message.blocks {
            if let Block::ToolCall { id, name, .. } = block {
                self.calls.insert(id.clone(), name.clone());
            }
        }
        if self.detail.hides(message) {
            return Ok(false);
        }
        self.heading(position, message)?;
        Ok(true)
    }

    fn heading(&mut self, position: u64, message: &Message) -> Result<()> {
        let number = position + 1;
        let agent = agent_of(self.entry);
        let is_task = self.entry.is_agent_session || message.sidechain;
        let (name, style) = match (message.origin, message.role) {
            // Nobody typed what an agent was told by another one.
            (Origin::Human | Origin::Queued, _) if is_task => ("parent agent", PROMPT),
            (Origin::Human | Origin::Queued, _) => ("you", PROMPT),
            (Origin::Command, _) => ("command", DIM),
            (Origin::Assistant, _) => {
                (agent.map_or("agent", |agent| agent.badge), agent.map_or(BOLD, color))
            }
            // Results follow their calls, unless nothing was said before.
            (Origin::Tool, _) | (_, Role::Tool) if self.speaker.is_some() || !self.detail.tools => {
                return Ok(());
            }
            (Origin::Tool, _) | (_, Role::Tool) => ("tool", DIM),
            (Origin::Injected, _) => ("injected", DIM),
            (Origin::Summary, _) => ("summary", DIM),
            (Origin::System, _) => ("system", if message.failed { FAILED } else { DIM }),
        };
        let says = message.blocks.iter().any(|block| match block {
            Block::Text(_) | Block::Image(_) | Block::Other(_) => true,
            Block::Thinking(_) => self.detail.thinking,
            // Calls follow what their speaker said, without a heading of their own.
            Block::ToolCall { .. } => self.speaker.is_some_and(|last| last != name),
            Block::ToolResult { .. } => name == "tool",
            _ => false,
        });
        if says {
            self.speaker = Some(name);
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

    /// Writes a part of a message.
    pub(crate) fn block(&mut self, block: &Block, message: &Message) -> Result<()> {
        match block {
            Block::Text(_) if message.origin == Origin::Tool && !self.detail.tools => Ok(()),
            Block::Text(text) if message.failed => self.paragraphs(text, FAILED),
            Block::Text(text) => self.text(text, message.origin),
            Block::Thinking(text) if self.detail.thinking => {
                // Told by a word as well: a pipe has no italics.
                writeln!(self.out, "     {DIM}thinking:{DIM:#}")?;
                self.paragraphs(text, DIM.italic())
            }
            Block::ToolCall { id, name, input } => self.call(id, name, input),
            Block::ToolResult { call_id, output, is_error } => {
                self.result(call_id, output, *is_error == Some(true))
            }
            Block::Image(image) => {
                let kind = plain(image.media_type.as_deref().unwrap_or("image"));
                Ok(writeln!(self.out, "     {DIM}[{kind}, {}]{DIM:#}", bytes(image.bytes))?)
            }
            Block::Other(raw) if self.detail.everything => self.paragraphs(raw.as_str(), DIM),
            _ => Ok(()),
        }
    }

    /// Writes what somebody said; what a program put in is no Markdown.
    fn text(&mut self, text: &str, origin: Origin) -> Result<()> {
        let is_said = origin.is_prompt()
            || matches!(origin, Origin::Assistant | Origin::Summary | Origin::Command);
        if !self.is_rendered || !is_said {
            return self.paragraphs(text, Style::new());
        }
        for line in markdown::lines(text.trim(), self.width.saturating_sub(5)) {
            let indent = if line.is_empty() { "" } else { "     " };
            writeln!(self.out, "{indent}{line}")?;
        }
        Ok(())
    }

    fn paragraphs(&mut self, text: &str, style: Style) -> Result<()> {
        for line in plain(text.trim()).lines() {
            for piece in wrap(line, self.width.saturating_sub(5)) {
                writeln!(self.out, "     {style}{piece}{style:#}")?;
            }
        }
        Ok(())
    }

    /// Whether a call and its result are shown in full.
    fn is_open(&self, call: &str) -> bool {
        self.detail.tools != self.flipped.contains(call)
    }

    fn call(&mut self, id: &str, name: &str, input: &Json) -> Result<()> {
        let is_open = self.is_open(id);
        let sign = if is_open { '▾' } else { '▸' };
        let line = cut(&gist(input), self.width.saturating_sub(8 + name.len()));
        let name = plain(name);
        writeln!(self.out, "     {DIM}{sign}{DIM:#} {BOLD}{name}{BOLD:#} {DIM}{line}{DIM:#}")?;
        if is_open {
            let pretty = input.parse::<serde_json::Value>();
            let text = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
            self.paragraphs(&text.unwrap_or_default().replace("\\n", "\n"), DIM)?;
        }
        Ok(())
    }

    fn result(&mut self, call: &str, output: &str, failed: bool) -> Result<()> {
        if self.is_open(call) {
            let style = if failed { FAILED } else { DIM };
            return self.paragraphs(output, style);
        }
        if failed {
            let name = self.calls.get(call).map_or("tool", String::as_str);
            let first = output.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
            let line = cut(first.trim(), self.width.saturating_sub(12 + name.len()));
            writeln!(self.out, "       {FAILED}✗ {}: {line}{FAILED:#}", plain(name))?;
        }
        Ok(())
    }
}

/// Calls of tools, and how many of them failed.
fn calls(calls: u64, errors: u64) -> String {
    let failed = if errors > 0 { format!(" ({errors} failed)") } else { String::new() };
    format!("{}{failed}", count(calls, "tool call"))
}

/// What a call is about, in one line: what it says of itself, and the argument a reader would
/// name.
pub(crate) fn gist(input: &Json) -> String {
    const TELLING: [&str; 15] = [
        "command",
        "cmd",
        "file_path",
        "filePath",
        "target_file",
        "notebook_path",
        "absolute_path",
        "pattern",
        "query",
        "path",
        "url",
        "description",
        "prompt",
        "skill",
        "input",
    ];
    let Some(fields) = input.parse::<serde_json::Map<String, serde_json::Value>>() else {
        return input.as_str().replace('\n', " ");
    };
    let named =
        TELLING.iter().find_map(|name| fields.get(*name)).or_else(|| fields.values().next());
    let named = match named {
        Some(serde_json::Value::String(text)) => text.replace('\n', " "),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let description = fields.get("description").and_then(serde_json::Value::as_str);
    let description = description.unwrap_or_default().replace('\n', " ");
    match description.trim() {
        "" => named,
        said if said == named.trim() => named,
        said => format!("{said} · {named}"),
    }
}

/// Breaks a line at spaces; indentation is kept, what has no spaces is left whole.
fn wrap(line: &str, width: usize) -> Vec<String> {
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
fn lineage(entry: &Entry) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(origin) = &entry.continues {
        let shared = count(entry.shared_messages, "message");
        lines.push(format!("continues {} (the first {shared})", plain(origin)));
    }
    lines.extend(entry.continued_by.iter().map(|fork| format!("continued by {}", plain(fork))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_its_description_before_its_command() {
        let check = |input: &str, expected: &str| {
            assert_eq!(gist(&serde_json::from_str(input).unwrap()), expected, "{input}");
        };
        check(r#"{"command":"git diff\n--staged"}"#, "git diff --staged");
        check(
            r#"{"command":"git diff","description":"Show staged diff"}"#,
            "Show staged diff · git diff",
        );
        check(r#"{"description":"Look around","prompt":"Look at all of it"}"#, "Look around");
        check(r#"{"command":"git diff","description":" "}"#, "git diff");
        check(r#"{"limit":5}"#, "5");
        check("{}", "");
    }
}
