//! Markdown for people and for programs that read it: front matter, a heading for every prompt
//! with an anchor that stays, and fences that no content can break.

mod remote;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use self::text::{attribute, closed, code, escape, fenced, indented, quote};
use super::describe::{self, Part, one_line};
use super::schema::{Block, Head, Message};
use super::{Detail, Format, Frame, Listed, Options, Output, Pick, Theme, Together, Writer};
use crate::model::{Origin, Timestamp};

/// Markdown.
pub(super) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn suffix(&self) -> &'static str {
        "md"
    }

    fn about(&self) -> &'static str {
        "to read, quote and keep with the code"
    }

    fn together(&self) -> Together {
        Together::Directory
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn groups(&self) -> bool {
        true
    }

    fn writer<'o>(&self, out: &'o mut dyn Output, options: &Options) -> Box<dyn Writer + 'o> {
        let keeps_remote = options.remote_images == Pick::With;
        Box::new(Page { out, detail: options.detail, keeps_remote, sessions: Vec::new() })
    }

    fn index(&self, sessions: &[Listed], _: Theme) -> Option<String> {
        let mut text = String::from("# Sessions\n\n");
        for listed in sessions {
            let session = &listed.head.session;
            let title = escape(&one_line(&session.title()));
            let facts = [Some(listed.agent.name.clone()), session.started_at.map(clock)];
            let facts: Vec<String> = facts.into_iter().flatten().collect();
            let facts = escape(&facts.join(" · "));
            text.push_str(&format!("- [{title}]({}) · {facts}\n", listed.file));
        }
        Some(text)
    }
}

struct Page<'o> {
    out: &'o mut dyn Output,
    detail: Detail,
    /// Whether a viewer may fetch what recorded text names.
    keeps_remote: bool,
    /// The session being written, inside those that started it.
    sessions: Vec<State>,
}

#[derive(Default)]
struct State {
    title: String,
    agent: String,
    /// Before anchors, so that those of a sub-agent are its own.
    prefix: String,
    children: Vec<String>,
    left: HashSet<u64>,
    /// Whose words came last.
    speaker: Option<Speaker>,
    /// The latest answer, while it may not be the final one.
    answer: Option<(u64, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    You,
    Agent,
    Program,
}

impl Writer for Page<'_> {
    fn begin(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let session = &frame.head.session;
        let notes = session.notes();
        let title = one_line(&session.title());
        let is_inner = !self.sessions.is_empty();
        // What is told here need not be named by its parent.
        self.sessions.iter_mut().for_each(|parent| parent.children.clear());
        self.sessions.push(State {
            agent: frame.agent.name.clone(),
            prefix: if is_inner { format!("{}-", session.id) } else { String::new() },
            children: notes.children.clone(),
            left: frame.outline.left(),
            title: title.clone(),
            ..State::default()
        });
        if is_inner {
            let title = title.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(self.out, "\n<details><summary>Sub-agent: {title}</summary>")?;
        } else {
            front_matter(self.out, frame.head)?;
            writeln!(self.out, "\n# {}", escape(&title))?;
        }
        // Checkpoints, a plan, an overview: they say what the conversation came to.
        for (name, text) in &notes.all_documents() {
            let text = quote(&self.local(text));
            writeln!(
                self.out,
                "
## {}

{text}",
                escape(&one_line(name))
            )?;
        }
        Ok(())
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        let origin = message.origin();
        let notes = message.notes();
        let is_prompt = (origin.is_prompt() || origin == Origin::Command) && !notes.sidechain;
        let is_aside = matches!(origin, Origin::Injected | Origin::Summary | Origin::System);
        let is_shown = self.detail == Detail::Everything
            || !notes.sidechain
                && (!is_aside || notes.failed)
                && !self.state().left.contains(&message.index);
        if !is_shown || message.content.is_empty() && self.detail < Detail::Everything {
            return Ok(());
        }
        if notes.recording.is_some() && self.detail > Detail::Answers {
            writeln!(self.out, "\n*Imported, not recorded here:*")?;
        }
        if is_prompt {
            return self.prompt(message);
        }
        if self.detail == Detail::Answers {
            self.keep_answer(message, origin);
            return Ok(());
        }
        self.circumstances(message)?;
        for block in &message.content {
            self.block(block, message, origin)?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.final_answer()?;
        let Some(state) = self.sessions.pop() else { return Ok(()) };
        if !state.children.is_empty() && self.detail > Detail::Answers {
            writeln!(self.out, "\n## Sub-agents\n")?;
            for child in state.children {
                writeln!(self.out, "- {}", code(&child))?;
            }
        }
        if let Some(parent) = self.sessions.last_mut() {
            parent.speaker = None;
            writeln!(self.out, "\n</details>")?;
        }
        Ok(())
    }
}

impl Page<'_> {
    fn state(&mut self) -> &mut State {
        self.sessions.last_mut().expect("messages come between begin and end")
    }

    /// Returns recorded text that makes a viewer fetch nothing, unless that is wanted.
    fn local<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.keeps_remote { text.into() } else { remote::without_remote(text) }
    }

    fn prompt(&mut self, message: &Message) -> io::Result<()> {
        self.final_answer()?;
        if self.sessions.len() == 1 && self.out.turn()? {
            let title = escape(&self.state().title);
            writeln!(self.out, "# {title} (continued)")?;
        }
        self.speaks(Speaker::You, message)?;
        for block in &message.content {
            match block {
                Block::Text { text } => {
                    let text = quote(&self.local(text));
                    writeln!(self.out, "\n{text}")?;
                }
                other => self.block(other, message, Origin::Human)?,
            }
        }
        if self.detail == Detail::Everything {
            for name in message.attachments() {
                writeln!(self.out, "\nAttached: {}", code(&name))?;
            }
        }
        Ok(())
    }

    /// Writes who speaks, when it is somebody else than before.
    fn speaks(&mut self, speaker: Speaker, message: &Message) -> io::Result<()> {
        let is_inner = self.sessions.len() > 1;
        let is_left = self.state().left.contains(&message.index);
        let state = self.state();
        let is_new = state.speaker.replace(speaker) != Some(speaker);
        if !is_new && speaker != Speaker::You {
            return Ok(());
        }
        let anchor = format!("{}m{}", state.prefix, message.index);
        let branch = if is_left { " · other branch" } else { "" };
        let name = match speaker {
            // A sub-agent is asked by the session that started it.
            Speaker::You if is_inner => "Task",
            Speaker::You => "You",
            Speaker::Agent => &*state.agent,
            Speaker::Program => "Program",
        };
        let name = escape(name);
        let at = message.timestamp.map_or(String::new(), |at| format!(" · {}", clock(at)));
        let mark = if speaker == Speaker::You { "##" } else { "###" };
        let index = message.index;
        writeln!(self.out, "\n<a id=\"{}\"></a>\n", attribute(&anchor))?;
        writeln!(self.out, "{mark} {index} · {name}{at}{branch}")
    }

    fn keep_answer(&mut self, message: &Message, origin: Origin) {
        let text = joined(message);
        if origin == Origin::Assistant && !text.trim().is_empty() {
            self.state().answer = Some((message.index, text));
        }
    }

    fn final_answer(&mut self) -> io::Result<()> {
        let Some((index, text)) = self.state().answer.take() else { return Ok(()) };
        let state = self.state();
        let (agent, prefix) = (escape(&state.agent), attribute(&state.prefix));
        state.speaker = None;
        writeln!(self.out, "\n<a id=\"{prefix}m{index}\"></a>\n\n### {index} · {agent}")?;
        let text = closed(&self.local(&text));
        writeln!(self.out, "\n{text}")
    }

    /// At the highest level every message tells its circumstances.
    fn circumstances(&mut self, message: &Message) -> io::Result<()> {
        if self.detail < Detail::Everything {
            return Ok(());
        }
        self.state().speaker = None;
        let speaker = match message.origin() {
            Origin::Assistant => Speaker::Agent,
            _ => Speaker::Program,
        };
        self.speaks(speaker, message)?;
        if let Some(metadata) = &message.metadata {
            let text = serde_json::to_string(metadata)?;
            writeln!(self.out, "\n{}", code(&text))?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, message: &Message, origin: Origin) -> io::Result<()> {
        match block {
            Block::Text { text } if text.trim().is_empty() => Ok(()),
            Block::Text { .. } if origin == Origin::Tool && self.detail < Detail::Tools => Ok(()),
            Block::Text { text } => {
                let is_said = origin == Origin::Assistant;
                self.speaks(if is_said { Speaker::Agent } else { Speaker::Program }, message)?;
                let text = self.local(text);
                let text = if is_said { closed(&text) } else { quote(&text) };
                writeln!(self.out, "\n{text}")
            }
            Block::Thinking { thinking } if self.detail >= Detail::Tools => {
                self.speaks(Speaker::Agent, message)?;
                folded(self.out, "Thinking", &fenced(thinking, "text"))
            }
            Block::ToolUse { tool_name, input, tool_id } => {
                self.speaks(Speaker::Agent, message)?;
                let failed = message.content.iter().any(|one| {
                    matches!(one, Block::ToolResult { tool_id: id, is_error: true, .. } if id == tool_id)
                });
                self.call(tool_name, &describe::call(input), failed)
            }
            Block::ToolResult { output, tool_name, is_error, .. } => {
                self.result(tool_name, output, *is_error)
            }
            Block::Image { media_type, bytes, .. } => {
                let kind = media_type.as_deref().unwrap_or("image");
                writeln!(self.out, "\n*[{}, {bytes} bytes]*", escape(kind))
            }
            Block::Other { raw } if self.detail == Detail::Everything => {
                writeln!(self.out, "\n{}", fenced(raw.as_str(), "json"))
            }
            Block::Thinking { .. } | Block::Other { .. } => Ok(()),
        }
    }

    fn call(&mut self, tool: &str, call: &describe::Call, failed: bool) -> io::Result<()> {
        let mut line = format!("\n- **{}**", escape(tool));
        if !call.gist.is_empty() {
            line.push_str(&format!(" {}", code(&call.gist)));
        }
        if let Some((added, removed)) = call.lines {
            line.push_str(&format!(" (+{added} −{removed})"));
        }
        line.push_str(if failed { " — failed" } else { "" });
        writeln!(self.out, "{line}")?;
        if self.detail < Detail::Tools {
            return Ok(());
        }
        for part in &call.parts {
            let text = match part {
                Part::Command(text) => fenced(text, "sh"),
                Part::Diff(text) => fenced(text, "diff"),
                Part::File(language, text) => fenced(text, language),
                Part::Text(name, text) => format!("{}:\n\n{}", escape(name), fenced(text, "text")),
                Part::Raw(text) => fenced(text, "text"),
                Part::Fields(fields) => fenced(&pairs(fields), "yaml"),
            };
            writeln!(self.out, "\n{}", indented(&text))?;
        }
        Ok(())
    }

    fn result(&mut self, tool: &str, output: &str, is_error: bool) -> io::Result<()> {
        if self.detail < Detail::Tools {
            return Ok(());
        }
        let what = if is_error { "failed" } else { "returned" };
        let tool = if tool.is_empty() { "tool" } else { tool };
        writeln!(self.out, "\n  {} {what}:\n", escape(tool))?;
        writeln!(self.out, "{}", indented(&fenced(output, "text")))
    }
}

fn front_matter(out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let session = &head.session;
    let notes = session.notes();
    let json = |text: &str| serde_json::Value::from(text).to_string();
    writeln!(out, "---")?;
    writeln!(out, "title: {}", json(&one_line(&session.title())))?;
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

fn joined(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn pairs(fields: &[(String, String)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")
}

fn folded(out: &mut dyn Write, summary: &str, body: &str) -> io::Result<()> {
    writeln!(out, "\n<details><summary>{summary}</summary>\n\n{body}\n\n</details>")
}

fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} {} UTC", &text[..10], &text[11..16])
}
