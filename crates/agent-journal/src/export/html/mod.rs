//! One self-contained page: turn by turn, tools and reasoning folded, in the reader's colours.
//! It needs no network, and nothing that a session holds can run in it: text is escaped,
//! Markdown is cleaned, and the page's own policy allows one script and one style by their hash.

mod chunks;
mod fragment;
mod highlight;
mod page;
mod text;
mod tool;

#[cfg(test)]
mod tests;

pub use fragment::Keep;

pub(crate) use fragment::Fragment;
pub(crate) use text::visible;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use self::chunks::Chunked;
use self::text::{Breaks, escape, markdown};
use super::describe::one_line;
use super::schema::{Block, Message};
use super::{Detail, Format, Frame, Listed, Options, Output, Pick, Theme, Together, Writer};
use crate::model::Origin;

/// A page for people.
pub(super) struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn suffix(&self) -> &'static str {
        "html"
    }

    fn about(&self) -> &'static str {
        "one page that opens everywhere"
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

    fn sub_agents(&self) -> Pick {
        Pick::With
    }

    fn writer<'o>(&self, out: &'o mut dyn Output, options: &Options) -> Box<dyn Writer + 'o> {
        Box::new(Chunked::new(out, options.detail, options.theme, options.at_once.0))
    }

    fn index(&self, sessions: &[Listed], theme: Theme) -> Option<String> {
        Some(page::index(sessions, theme))
    }
}

struct Page<'o> {
    out: &'o mut dyn Output,
    detail: Detail,
    theme: Theme,
    /// The session being written, inside those that started it.
    sessions: Vec<State>,
    /// Number and beginning of every prompt.
    contents: Vec<(u64, String)>,
    /// Where pictures are fetched, when they are not in the page.
    pictures: Option<&'o str>,
}

#[derive(Default)]
struct State {
    agent: String,
    /// Before ids, so that those of a sub-agent are its own.
    prefix: String,
    left: HashSet<u64>,
    /// Messages that went into the calls they answer, by call: their ids stand there.
    answers: HashMap<String, u64>,
    has_turn: bool,
    /// Whether a branch that was left is open.
    has_branch: bool,
    /// Whether the agent spoke last.
    is_agent: bool,
}

impl Writer for Page<'_> {
    fn begin(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let session = &frame.head.session;
        let is_inner = !self.sessions.is_empty();
        let prefix = if is_inner { format!("{}-", name(&session.id)) } else { String::new() };
        let id = format!("{prefix}session");
        self.sessions.push(State {
            agent: frame.agent.name.clone(),
            prefix,
            left: frame.outline.left(),
            ..State::default()
        });
        if is_inner {
            let (title, count) = (session.title(), session.notes().counts.messages);
            let messages = if count == 1 { "message" } else { "messages" };
            writeln!(
                self.out,
                "<details class=\"sub\" id=\"{id}\"><summary>Sub-agent <b>{}</b> · {count} {messages}</summary>",
                escape(&one_line(&title)),
            )?;
        } else {
            page::begin(self.out, frame, self.theme)?;
        }
        self.documents(&session.notes().all_documents())
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        let origin = message.origin();
        let notes = message.notes();
        let is_aside = matches!(origin, Origin::Injected | Origin::System) || notes.sidechain;
        let is_wanted = !is_aside || notes.failed || self.detail == Detail::Everything;
        if !is_wanted || message.content.is_empty() {
            return Ok(());
        }
        self.branch(message)?;
        if notes.recording.is_some() {
            writeln!(self.out, "<p class=\"imported\">Imported, not recorded here:</p>")?;
        }
        if (origin.is_prompt() || origin == Origin::Command) && !notes.sidechain {
            return self.prompt(message);
        }
        if is_aside || origin == Origin::Summary {
            return self.notice(message, origin);
        }
        self.said(message)
    }

    fn end(&mut self) -> io::Result<()> {
        self.close_turn()?;
        self.sessions.pop();
        if let Some(parent) = self.sessions.last_mut() {
            // Who speaks next is named again.
            parent.is_agent = false;
            return writeln!(self.out, "</details>");
        }
        page::end(self.out, &self.contents)
    }
}

impl Page<'_> {
    fn state(&mut self) -> &mut State {
        self.sessions.last_mut().expect("messages come between begin and end")
    }

    /// Writes the longer texts about a session: checkpoints, a plan, an overview.
    fn documents(&mut self, documents: &[(String, String)]) -> io::Result<()> {
        for (name, text) in documents {
            write!(self.out, "<div class=\"m\">")?;
            let head = ("notice", &*escape(&one_line(name)), &*one_line(text));
            fold(self.out, head, &markdown(text, Breaks::Soft))?;
            writeln!(self.out, "</div>")?;
        }
        Ok(())
    }

    /// Opens or closes the fold around a branch that was left.
    fn branch(&mut self, message: &Message) -> io::Result<()> {
        let state = self.state();
        let is_left = state.left.contains(&message.index);
        match (std::mem::replace(&mut state.has_branch, is_left), is_left) {
            (false, true) => {
                let summary = "Another branch, left by going back";
                writeln!(self.out, "<details class=\"branch\"><summary>{summary}</summary>")
            }
            (true, false) => writeln!(self.out, "</details>"),
            _ => Ok(()),
        }
    }

    fn prompt(&mut self, message: &Message) -> io::Result<()> {
        let (is_inner, state) = (self.sessions.len() > 1, self.state());
        let (id, has_branch) = (format!("{}m{}", state.prefix, message.index), state.has_branch);
        state.is_agent = false;
        if !has_branch {
            self.close_turn()?;
            self.state().has_turn = true;
            writeln!(self.out, "<section class=\"turn\" id=\"{id}\">")?;
            if !is_inner {
                self.contents.push((message.index, beginning(message)));
            }
        }
        write!(self.out, "<div class=\"m prompt\">")?;
        // A sub-agent is asked by the session that started it.
        self.who(if is_inner { "Task" } else { "You" }, message)?;
        for block in &message.content {
            match block {
                Block::Text { text } => write!(self.out, "{}", markdown(text, Breaks::Hard))?,
                other => self.block(other, message)?,
            }
        }
        if self.detail == Detail::Everything {
            for name in message.attachments() {
                write!(self.out, "<p>Attached: <code>{}</code></p>", escape(&name))?;
            }
        }
        writeln!(self.out, "</div>")
    }

    fn close_turn(&mut self) -> io::Result<()> {
        let state = self.state();
        let has_branch = std::mem::take(&mut state.has_branch);
        let has_turn = std::mem::take(&mut state.has_turn);
        if has_branch {
            writeln!(self.out, "</details>")?;
        }
        if has_turn { writeln!(self.out, "</section>") } else { Ok(()) }
    }

    fn who(&mut self, name: &str, message: &Message) -> io::Result<()> {
        let id = format!("{}m{}", self.state().prefix, message.index);
        let at = message.timestamp.map_or(String::new(), page::time);
        let (index, name) = (message.index, escape(name));
        write!(self.out, "<p class=\"who\"><b>{name}</b><a href=\"#{id}\">#{index}</a>{at}</p>")
    }

    fn said(&mut self, message: &Message) -> io::Result<()> {
        let shown = |block: &Block| match block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::Thinking { .. } | Block::ToolResult { .. } => self.detail >= Detail::Tools,
            Block::ToolUse { .. } => self.detail >= Detail::Actions,
            Block::Image { .. } => true,
            Block::Other { .. } => self.detail == Detail::Everything,
        };
        if !message.content.iter().any(shown) {
            return Ok(());
        }
        let state = self.state();
        let (prefix, id) = (state.prefix.clone(), format!("{}m{}", state.prefix, message.index));
        let is_new =
            message.origin() == Origin::Assistant && !std::mem::replace(&mut state.is_agent, true);
        self.out.begin_part(&prefix, message.index);
        write!(self.out, "<div class=\"m\" id=\"{id}\">")?;
        if is_new {
            let agent = self.state().agent.clone();
            self.who(&agent, message)?;
        }
        for block in &message.content {
            self.block(block, message)?;
        }
        writeln!(self.out, "</div>")?;
        self.out.end_part()
    }

    fn block(&mut self, block: &Block, message: &Message) -> io::Result<()> {
        match block {
            Block::Text { text } if message.notes().failed => {
                write!(self.out, "<p class=\"bad\">{}</p>", escape(text))
            }
            Block::Text { text } => write!(self.out, "{}", markdown(text, Breaks::Soft)),
            Block::Thinking { thinking } if self.detail >= Detail::Tools => {
                let gist = one_line(thinking).replace(['*', '`'], "");
                let body = markdown(thinking, Breaks::Soft);
                fold(self.out, ("thinking", "Thinking", &gist), &body)
            }
            Block::ToolUse { tool_name, input, tool_id } if self.detail >= Detail::Actions => {
                let result = message.content.iter().find_map(|one| match one {
                    Block::ToolResult { tool_id: id, output, is_error, .. } if id == tool_id => {
                        Some((output.as_str(), *is_error))
                    }
                    _ => None,
                });
                let id = self.answer_id(tool_id);
                tool::call(self.out, (&id, tool_name, input), result, self.detail)
            }
            Block::ToolResult { tool_id, tool_name, output, is_error } => {
                let is_told = message
                    .content
                    .iter()
                    .any(|one| matches!(one, Block::ToolUse { tool_id: id, .. } if id == tool_id));
                if is_told || self.detail < Detail::Tools {
                    return Ok(());
                }
                tool::result(self.out, tool_name, output, *is_error)
            }
            Block::Image { media_type, data, bytes, hash, .. } => {
                let is_drawn = media_type.as_deref().is_none_or(page::is_picture);
                match self.pictures.zip(hash.as_deref()) {
                    Some((place, hash)) if is_drawn => fragment::picture(self.out, place, hash),
                    _ => page::image(self.out, media_type.as_deref(), data.as_deref(), *bytes),
                }
            }
            Block::Other { raw } if self.detail == Detail::Everything => {
                let body = format!("<pre class=\"wrap\">{}</pre>", escape(raw.as_str()));
                fold(self.out, ("notice", "Record", &one_line(raw.as_str())), &body)
            }
            _ => Ok(()),
        }
    }

    /// The id of the message that went into a call, as an attribute.
    fn answer_id(&mut self, call: &str) -> String {
        let state = self.state();
        let index = state.answers.remove(call);
        index.map_or_else(String::new, |index| format!(" id=\"{}m{index}\"", state.prefix))
    }

    fn notice(&mut self, message: &Message, origin: Origin) -> io::Result<()> {
        let name = match origin {
            Origin::Summary => "Summary of the conversation so far",
            Origin::Injected => "Put in by the program",
            Origin::System => "Notice",
            _ => "Side conversation",
        };
        let prefix = self.state().prefix.clone();
        self.out.begin_part(&prefix, message.index);
        write!(self.out, "<div class=\"m\" id=\"{prefix}m{}\">", message.index)?;
        for block in &message.content {
            match block {
                Block::Text { text } => {
                    let body = format!("<pre class=\"wrap\">{}</pre>", escape(text));
                    fold(self.out, ("notice", name, &one_line(text)), &body)?;
                }
                other => self.block(other, message)?,
            }
        }
        writeln!(self.out, "</div>")?;
        self.out.end_part()
    }
}

/// Writes something folded: its class, its name and what it is about.
fn fold(out: &mut dyn Write, head: (&str, &str, &str), body: &str) -> io::Result<()> {
    let (class, name, gist) = head;
    writeln!(
        out,
        "<details class=\"{class}\"><summary><b>{name}</b><span class=\"gist\">{}</span></summary>\
         <div class=\"body\">{body}</div></details>",
        escape(gist),
    )
}

fn beginning(message: &Message) -> String {
    let text = message.content.iter().find_map(|block| match block {
        Block::Text { text } => Some(one_line(text)),
        _ => None,
    });
    let text = text.unwrap_or_default();
    match text.char_indices().nth(90) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// An id as a part of a page's ids.
fn name(id: &str) -> String {
    id.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect()
}
