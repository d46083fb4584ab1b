//! The Markdown format, for people and programs: front matter, a heading with a stable anchor for
//! every prompt, and fences that no content can break.

mod remote;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use self::text::{
    anchor_part, block_quote, escape_markdown, fenced_code, indent_for_list, inline_code,
    self_contained_reply,
};
use super::schema::{DocumentBlock, DocumentMessage, Head};
use super::{
    DetailLevel, ExportOptions, ExportOutput, Format, Listed, Pick, SessionFrame, SessionWriter,
    Theme, Together,
};
use crate::model::{Origin, Role, Timestamp};
use crate::present::{
    CallDescription, CallPart, ChangedLines, NamedValue, Speaker, describe_call, one_line,
};

/// Sessions as Markdown.
pub(super) struct Markdown;

impl Format for Markdown {
    fn format_name(&self) -> &'static str {
        "markdown"
    }

    fn file_suffix(&self) -> &'static str {
        "md"
    }

    fn description(&self) -> &'static str {
        "text to read, quote and keep with the code"
    }

    fn storage_of_several(&self) -> Together {
        Together::Directory
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn always_groups_results(&self) -> bool {
        true
    }

    fn create_writer<'o>(
        &self,
        out: &'o mut dyn ExportOutput,
        options: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o> {
        let keeps_remote = options.remote_images == Pick::With;
        Box::new(MarkdownPage { out, detail: options.detail, keeps_remote, sessions: Vec::new() })
    }

    fn render_index(&self, sessions: &[Listed], _: Theme) -> Option<String> {
        let mut text = String::from("# Sessions\n\n");
        for listed in sessions {
            let session = &listed.head.session;
            let title = escape_markdown(&one_line(&session.title_or_id()));
            let facts = [Some(listed.agent.name.clone()), session.started_at.map(clock_time)];
            let facts: Vec<String> = facts.into_iter().flatten().collect();
            let facts = escape_markdown(&facts.join(" · "));
            text.push_str(&format!("- [{title}]({}) · {facts}\n", listed.file));
        }
        Some(text)
    }
}

struct MarkdownPage<'o> {
    out: &'o mut dyn ExportOutput,
    detail: DetailLevel,
    /// Whether recorded text may make a viewer fetch content from another machine.
    keeps_remote: bool,
    /// The session being written, after the sessions that started it.
    sessions: Vec<MarkdownState>,
}

#[derive(Default)]
struct MarkdownState {
    title: String,
    agent: String,
    /// The prefix of anchors, which keeps those of sub-agents distinct.
    prefix: String,
    children: Vec<String>,
    left: HashSet<u64>,
    /// The speaker of the latest message.
    speaker: Option<Speaker>,
    /// The number and text of the latest reply, until it is known whether it is the final one.
    answer: Option<(u64, String)>,
}

impl SessionWriter for MarkdownPage<'_> {
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()> {
        let session = &frame.head.session;
        let notes = session.parse_notes();
        let title = one_line(&session.title_or_id());
        let is_inner = !self.sessions.is_empty();
        // A sub-agent that is written here need not be listed by its parent.
        self.sessions.iter_mut().for_each(|parent| parent.children.clear());
        self.sessions.push(MarkdownState {
            agent: frame.agent.name.clone(),
            prefix: if is_inner { format!("{}-", session.id) } else { String::new() },
            children: notes.children.clone(),
            left: frame.outline.abandoned_messages(),
            title: title.clone(),
            ..MarkdownState::default()
        });
        if is_inner {
            let title = title.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(self.out, "\n<details><summary>Sub-agent: {title}</summary>")?;
        } else {
            front_matter(self.out, frame.head)?;
            writeln!(self.out, "\n# {}", escape_markdown(&title))?;
        }
        // Checkpoints, a plan, an overview: they hold the outcome of the conversation.
        for (name, text) in &notes.all_documents() {
            let text = block_quote(&self.without_remote_content(text));
            writeln!(
                self.out,
                "
## {}

{text}",
                escape_markdown(&one_line(name))
            )?;
        }
        Ok(())
    }

    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let origin = message.recorded_origin();
        let notes = message.parse_message_notes();
        let is_prompt = (origin.is_human_prompt() || origin == Origin::Command) && !notes.sidechain;
        let is_aside = matches!(origin, Origin::Injected | Origin::Summary | Origin::System);
        let is_shown = self.detail == DetailLevel::Everything
            || !notes.sidechain
                && (!is_aside || notes.failed)
                && !self.markdown_state().left.contains(&message.index);
        if !is_shown || message.content.is_empty() && self.detail < DetailLevel::Everything {
            return Ok(());
        }
        if notes.recording.is_some() && self.detail > DetailLevel::Answers {
            writeln!(self.out, "\n*Imported, not recorded here:*")?;
        }
        if is_prompt {
            return self.write_prompt_heading(message);
        }
        if self.detail == DetailLevel::Answers {
            self.keep_answer(message, origin);
            return Ok(());
        }
        self.write_metadata(message)?;
        for block in &message.content {
            self.write_markdown_block(block, message, origin)?;
        }
        Ok(())
    }

    fn end_session(&mut self) -> io::Result<()> {
        self.final_answer()?;
        let Some(state) = self.sessions.pop() else { return Ok(()) };
        if !state.children.is_empty() && self.detail > DetailLevel::Answers {
            writeln!(self.out, "\n## Sub-agents\n")?;
            for child in state.children {
                writeln!(self.out, "- {}", inline_code(&child))?;
            }
        }
        if let Some(parent) = self.sessions.last_mut() {
            parent.speaker = None;
            writeln!(self.out, "\n</details>")?;
        }
        Ok(())
    }
}

impl MarkdownPage<'_> {
    fn markdown_state(&mut self) -> &mut MarkdownState {
        self.sessions.last_mut().expect("messages come between begin and end")
    }

    /// Returns recorded text without content that a viewer would fetch, unless that is wanted.
    fn without_remote_content<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.keeps_remote { text.into() } else { remote::without_remote(text) }
    }

    fn write_prompt_heading(&mut self, message: &DocumentMessage) -> io::Result<()> {
        self.final_answer()?;
        if self.sessions.len() == 1 && self.out.begin_turn()? {
            let title = escape_markdown(&self.markdown_state().title);
            writeln!(self.out, "# {title} (continued)")?;
        }
        self.write_speaker_heading(
            Speaker::of_origin(message.recorded_origin(), Role::User),
            message,
        )?;
        for block in &message.content {
            match block {
                DocumentBlock::Text { text } => {
                    let text = block_quote(&self.without_remote_content(text));
                    writeln!(self.out, "\n{text}")?;
                }
                other => self.write_markdown_block(other, message, Origin::Human)?,
            }
        }
        if self.detail == DetailLevel::Everything {
            for name in message.attachment_names() {
                writeln!(self.out, "\nAttached: {}", inline_code(&name))?;
            }
        }
        Ok(())
    }

    /// Writes a heading with the speaker, if the speaker changed.
    fn write_speaker_heading(
        &mut self,
        speaker: Speaker,
        message: &DocumentMessage,
    ) -> io::Result<()> {
        let is_inner = self.sessions.len() > 1;
        let is_side = message.parse_message_notes().sidechain;
        let speaker = if is_inner || is_side { speaker.in_sub_agent() } else { speaker };
        let is_left = self.markdown_state().left.contains(&message.index);
        let state = self.markdown_state();
        let is_new = state.speaker.replace(speaker) != Some(speaker);
        let prompters = [Speaker::User, Speaker::ParentAgent, Speaker::Command];
        let is_prompt = prompters.contains(&speaker) && !is_side;
        if !is_new && !is_prompt {
            return Ok(());
        }
        let anchor = format!("{}m{}", state.prefix, message.index);
        let branch = if is_left { " · other branch" } else { "" };
        let name = escape_markdown(&speaker.heading(&state.agent));
        let at = message.timestamp.map_or(String::new(), |at| format!(" · {}", clock_time(at)));
        let mark = if is_prompt { "##" } else { "###" };
        let index = message.index;
        writeln!(self.out, "\n<a id=\"{}\"></a>\n", anchor_part(&anchor))?;
        writeln!(self.out, "{mark} {index} · {name}{at}{branch}")
    }

    fn keep_answer(&mut self, message: &DocumentMessage, origin: Origin) {
        let text = joined_message_text(message);
        if origin == Origin::Assistant && !text.trim().is_empty() {
            self.markdown_state().answer = Some((message.index, text));
        }
    }

    fn final_answer(&mut self) -> io::Result<()> {
        let Some((index, text)) = self.markdown_state().answer.take() else { return Ok(()) };
        let state = self.markdown_state();
        let (agent, prefix) = (escape_markdown(&state.agent), anchor_part(&state.prefix));
        state.speaker = None;
        writeln!(self.out, "\n<a id=\"{prefix}m{index}\"></a>\n\n### {index} · {agent}")?;
        let text = self_contained_reply(&self.without_remote_content(&text));
        writeln!(self.out, "\n{text}")
    }

    /// Writes the metadata of a message, at the highest level of detail only.
    fn write_metadata(&mut self, message: &DocumentMessage) -> io::Result<()> {
        if self.detail < DetailLevel::Everything {
            return Ok(());
        }
        self.markdown_state().speaker = None;
        self.write_speaker_heading(
            Speaker::of_origin(message.recorded_origin(), Role::System),
            message,
        )?;
        if let Some(metadata) = &message.metadata {
            let text = serde_json::to_string(metadata)?;
            writeln!(self.out, "\n{}", inline_code(&text))?;
        }
        Ok(())
    }

    fn write_markdown_block(
        &mut self,
        block: &DocumentBlock,
        message: &DocumentMessage,
        origin: Origin,
    ) -> io::Result<()> {
        match block {
            DocumentBlock::Text { text } if text.trim().is_empty() => Ok(()),
            DocumentBlock::Text { .. }
                if origin == Origin::Tool && self.detail < DetailLevel::Tools =>
            {
                Ok(())
            }
            DocumentBlock::Text { text } => {
                let is_said = origin == Origin::Assistant;
                self.write_speaker_heading(Speaker::of_origin(origin, Role::System), message)?;
                let text = self.without_remote_content(text);
                let text = if is_said { self_contained_reply(&text) } else { block_quote(&text) };
                writeln!(self.out, "\n{text}")
            }
            DocumentBlock::Thinking { thinking } if self.detail >= DetailLevel::Tools => {
                self.write_speaker_heading(Speaker::Agent, message)?;
                write_details(self.out, "Thinking", &fenced_code(thinking, "text"))
            }
            DocumentBlock::ToolUse { tool_name, input, tool_id } => {
                self.write_speaker_heading(Speaker::Agent, message)?;
                let failed = message.content.iter().any(|one| {
                    matches!(one, DocumentBlock::ToolResult { tool_id: id, is_error: true, .. } if id == tool_id)
                });
                self.write_markdown_call(tool_name, &describe_call(input), failed)
            }
            DocumentBlock::ToolResult { output, tool_name, is_error, .. } => {
                self.write_markdown_result(tool_name, output, *is_error)
            }
            DocumentBlock::Image { media_type, bytes, .. } => {
                let kind = media_type.as_deref().unwrap_or("image");
                writeln!(self.out, "\n*[{}, {bytes} bytes]*", escape_markdown(kind))
            }
            DocumentBlock::Other { raw } if self.detail == DetailLevel::Everything => {
                writeln!(self.out, "\n{}", fenced_code(raw.as_json_str(), "json"))
            }
            DocumentBlock::Thinking { .. } | DocumentBlock::Other { .. } => Ok(()),
        }
    }

    fn write_markdown_call(
        &mut self,
        tool: &str,
        call: &CallDescription,
        failed: bool,
    ) -> io::Result<()> {
        let mut line = format!("\n- **{}**", escape_markdown(tool));
        if !call.subject.is_empty() {
            line.push_str(&format!(" {}", inline_code(&call.subject)));
        }
        if let Some(ChangedLines { added, removed }) = call.lines {
            line.push_str(&format!(" (+{added} −{removed})"));
        }
        line.push_str(if failed { " — failed" } else { "" });
        writeln!(self.out, "{line}")?;
        if self.detail < DetailLevel::Tools {
            return Ok(());
        }
        for part in &call.parts {
            let text = match part {
                CallPart::Command(text) => fenced_code(text, "sh"),
                CallPart::Diff(text) => fenced_code(text, "diff"),
                CallPart::File { language, text } => fenced_code(text, language),
                CallPart::Text(NamedValue { name, value }) => {
                    format!("{}:\n\n{}", escape_markdown(name), fenced_code(value, "text"))
                }
                CallPart::Raw(text) => fenced_code(text, "text"),
                CallPart::Fields(fields) => fenced_code(&format_pairs(fields), "yaml"),
            };
            writeln!(self.out, "\n{}", indent_for_list(&text))?;
        }
        Ok(())
    }

    fn write_markdown_result(
        &mut self,
        tool: &str,
        output: &str,
        is_error: bool,
    ) -> io::Result<()> {
        if self.detail < DetailLevel::Tools {
            return Ok(());
        }
        let what = if is_error { "failed" } else { "returned" };
        let tool = if tool.is_empty() { "tool" } else { tool };
        writeln!(self.out, "\n  {} {what}:\n", escape_markdown(tool))?;
        writeln!(self.out, "{}", indent_for_list(&fenced_code(output, "text")))
    }
}

fn front_matter(out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let session = &head.session;
    let notes = session.parse_notes();
    let json = |text: &str| serde_json::Value::from(text).to_string();
    writeln!(out, "---")?;
    writeln!(out, "title: {}", json(&one_line(&session.title_or_id())))?;
    writeln!(out, "agent: {}", json(&head.agent))?;
    writeln!(out, "session: {}", json(&session.id))?;
    for (name, value) in [("project", &notes.project), ("branch", &notes.branch)] {
        if let Some(value) = value {
            writeln!(out, "{name}: {}", json(value))?;
        }
    }
    if !session.workspace.is_empty() {
        writeln!(out, "workspace: {}", json(&session.workspace))?;
    }
    for (name, at) in [("started", session.started_at), ("ended", session.ended_at)] {
        if let Some(at) = at {
            writeln!(out, "{name}: {at}")?;
        }
    }
    writeln!(out, "models: {}", serde_json::to_string(&notes.models)?)?;
    writeln!(out, "prompts: {}", notes.counts.user_prompts)?;
    writeln!(out, "tool_calls: {}", notes.counts.tool_calls)?;
    writeln!(out, "tokens: {}", serde_json::to_string(&notes.tokens)?)?;
    writeln!(out, "---")
}

fn joined_message_text(message: &DocumentMessage) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        DocumentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn format_pairs(fields: &[NamedValue]) -> String {
    fields
        .iter()
        .map(|NamedValue { name, value }| format!("{name}: {value}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn write_details(out: &mut dyn Write, summary: &str, body: &str) -> io::Result<()> {
    writeln!(out, "\n<details><summary>{summary}</summary>\n\n{body}\n\n</details>")
}

fn clock_time(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}
