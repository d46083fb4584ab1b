//! The HTML format: one self-contained page, turn by turn, with tools and reasoning folded, in the
//! reader's colours. It needs no network, and nothing in a session can run in it: text is escaped,
//! Markdown is sanitized, and the page's policy allows one script and one style by their hash.

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
pub(crate) use text::make_visible;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use self::chunks::Chunked;
use self::text::{Breaks, escape_html, render_markdown};
use super::schema::{DocumentBlock, DocumentMessage};
use super::{
    DetailLevel, ExportOptions, ExportOutput, Format, Listed, Pick, SessionFrame, SessionWriter,
    Theme, Together,
};
use crate::model::{Origin, Role};
use crate::present::{Speaker, one_line};

/// Sessions as HTML pages.
pub(super) struct Html;

impl Format for Html {
    fn format_name(&self) -> &'static str {
        "html"
    }

    fn file_suffix(&self) -> &'static str {
        "html"
    }

    fn description(&self) -> &'static str {
        "one self-contained page"
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

    fn default_sub_agents(&self) -> Pick {
        Pick::With
    }

    fn create_writer<'o>(
        &self,
        out: &'o mut dyn ExportOutput,
        options: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o> {
        Box::new(Chunked::new(out, options.detail, options.theme, options.at_once.0))
    }

    fn render_index(&self, sessions: &[Listed], theme: Theme) -> Option<String> {
        Some(page::render_index_page(sessions, theme))
    }
}

struct HtmlPage<'o> {
    out: &'o mut dyn ExportOutput,
    detail: DetailLevel,
    theme: Theme,
    /// The session being written, after the sessions that started it.
    sessions: Vec<HtmlPageState>,
    /// The number and the beginning of every prompt.
    contents: Vec<(u64, String)>,
    /// The address before the hash of a picture, if pictures are not embedded in the page.
    pictures: Option<&'o str>,
}

#[derive(Default)]
struct HtmlPageState {
    agent: String,
    /// The prefix of ids, which keeps those of sub-agents distinct.
    prefix: String,
    left: HashSet<u64>,
    /// The numbers of the messages whose results were moved to their calls, by call id. The call
    /// gets the id of the message.
    answers: HashMap<String, u64>,
    has_turn: bool,
    /// Whether the fold of an abandoned branch is open.
    has_branch: bool,
    /// Whether the latest message was the agent's.
    is_agent: bool,
}

impl SessionWriter for HtmlPage<'_> {
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()> {
        let session = &frame.head.session;
        let is_inner = !self.sessions.is_empty();
        let prefix =
            if is_inner { format!("{}-", confidence_name(&session.id)) } else { String::new() };
        let id = format!("{prefix}session");
        self.sessions.push(HtmlPageState {
            agent: frame.agent.name.clone(),
            prefix,
            left: frame.outline.abandoned_messages(),
            ..HtmlPageState::default()
        });
        if is_inner {
            let (title, count) = (session.title_or_id(), session.parse_notes().counts.messages);
            let messages = if count == 1 { "message" } else { "messages" };
            writeln!(
                self.out,
                "<details class=\"sub\" id=\"{id}\"><summary>Sub-agent <b>{}</b> · {count} {messages}</summary>",
                escape_html(&one_line(&title)),
            )?;
        } else {
            page::write_page_head(self.out, frame, self.theme)?;
        }
        self.write_documents(&session.parse_notes().all_documents())
    }

    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let origin = message.recorded_origin();
        let notes = message.parse_message_notes();
        let is_aside = matches!(origin, Origin::Injected | Origin::System) || notes.sidechain;
        let is_wanted = !is_aside || notes.failed || self.detail == DetailLevel::Everything;
        if !is_wanted || message.content.is_empty() {
            return Ok(());
        }
        self.write_branch_fold(message)?;
        if notes.recording.is_some() {
            writeln!(self.out, "<p class=\"imported\">Imported, not recorded here:</p>")?;
        }
        if (origin.is_human_prompt() || origin == Origin::Command) && !notes.sidechain {
            return self.write_prompt(message);
        }
        if is_aside || origin == Origin::Summary {
            return self.write_notice(message, origin);
        }
        self.write_reply(message)
    }

    fn end_session(&mut self) -> io::Result<()> {
        self.close_turn()?;
        self.sessions.pop();
        if let Some(parent) = self.sessions.last_mut() {
            // The next speaker is named again.
            parent.is_agent = false;
            return writeln!(self.out, "</details>");
        }
        page::write_page_end(self.out, &self.contents)
    }
}

impl HtmlPage<'_> {
    fn page_state(&mut self) -> &mut HtmlPageState {
        self.sessions.last_mut().expect("messages come between begin and end")
    }

    /// Writes the documents of a session: checkpoints, a plan, an overview.
    fn write_documents(&mut self, documents: &[(String, String)]) -> io::Result<()> {
        for (name, text) in documents {
            write!(self.out, "<div class=\"m\">")?;
            let head = ("notice", &*escape_html(&one_line(name)), &*one_line(text));
            write_folded(self.out, head, &render_markdown(text, Breaks::Soft))?;
            writeln!(self.out, "</div>")?;
        }
        Ok(())
    }

    /// Opens or closes the fold around an abandoned branch.
    fn write_branch_fold(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let state = self.page_state();
        let is_left = state.left.contains(&message.index);
        match (std::mem::replace(&mut state.has_branch, is_left), is_left) {
            (false, true) => {
                let summary = "Another branch of the conversation";
                writeln!(self.out, "<details class=\"branch\"><summary>{summary}</summary>")
            }
            (true, false) => writeln!(self.out, "</details>"),
            _ => Ok(()),
        }
    }

    fn write_prompt(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let (is_inner, state) = (self.sessions.len() > 1, self.page_state());
        let (id, has_branch) = (format!("{}m{}", state.prefix, message.index), state.has_branch);
        state.is_agent = false;
        if !has_branch {
            self.close_turn()?;
            self.page_state().has_turn = true;
            writeln!(self.out, "<section class=\"turn\" id=\"{id}\">")?;
            if !is_inner {
                self.contents.push((message.index, first_line_of_message(message)));
            }
        }
        write!(self.out, "<div class=\"m prompt\">")?;
        let speaker = Speaker::of_origin(message.recorded_origin(), Role::User);
        let speaker = if is_inner { speaker.in_sub_agent() } else { speaker };
        self.write_speaker(&speaker.heading(""), message)?;
        for block in &message.content {
            match block {
                DocumentBlock::Text { text } => {
                    write!(self.out, "{}", render_markdown(text, Breaks::Hard))?;
                }
                other => self.write_block(other, message)?,
            }
        }
        if self.detail == DetailLevel::Everything {
            for name in message.attachment_names() {
                write!(self.out, "<p>Attached: <code>{}</code></p>", escape_html(&name))?;
            }
        }
        writeln!(self.out, "</div>")
    }

    fn close_turn(&mut self) -> io::Result<()> {
        let state = self.page_state();
        let has_branch = std::mem::take(&mut state.has_branch);
        let has_turn = std::mem::take(&mut state.has_turn);
        if has_branch {
            writeln!(self.out, "</details>")?;
        }
        if has_turn { writeln!(self.out, "</section>") } else { Ok(()) }
    }

    fn write_speaker(&mut self, name: &str, message: &DocumentMessage) -> io::Result<()> {
        let id = format!("{}m{}", self.page_state().prefix, message.index);
        let at = message.timestamp.map_or(String::new(), page::time_element);
        let (index, name) = (message.index, escape_html(name));
        write!(self.out, "<p class=\"who\"><b>{name}</b><a href=\"#{id}\">#{index}</a>{at}</p>")
    }

    fn write_reply(&mut self, message: &DocumentMessage) -> io::Result<()> {
        let shown = |block: &DocumentBlock| match block {
            DocumentBlock::Text { text } => !text.trim().is_empty(),
            DocumentBlock::Thinking { .. } | DocumentBlock::ToolResult { .. } => {
                self.detail >= DetailLevel::Tools
            }
            DocumentBlock::ToolUse { .. } => self.detail >= DetailLevel::Actions,
            DocumentBlock::Image { .. } => true,
            DocumentBlock::Other { .. } => self.detail == DetailLevel::Everything,
        };
        if !message.content.iter().any(shown) {
            return Ok(());
        }
        let state = self.page_state();
        let (prefix, id) = (state.prefix.clone(), format!("{}m{}", state.prefix, message.index));
        let is_new = message.recorded_origin() == Origin::Assistant
            && !std::mem::replace(&mut state.is_agent, true);
        self.out.begin_part(&prefix, message.index);
        write!(self.out, "<div class=\"m\" id=\"{id}\">")?;
        if is_new {
            let agent = self.page_state().agent.clone();
            self.write_speaker(&agent, message)?;
        }
        for block in &message.content {
            self.write_block(block, message)?;
        }
        writeln!(self.out, "</div>")?;
        self.out.end_lazy_part()
    }

    fn write_block(&mut self, block: &DocumentBlock, message: &DocumentMessage) -> io::Result<()> {
        match block {
            DocumentBlock::Text { text } if message.parse_message_notes().failed => {
                write!(self.out, "<p class=\"bad\">{}</p>", escape_html(text))
            }
            DocumentBlock::Text { text } => {
                write!(self.out, "{}", render_markdown(text, Breaks::Soft))
            }
            DocumentBlock::Thinking { thinking } if self.detail >= DetailLevel::Tools => {
                let gist = one_line(thinking).replace(['*', '`'], "");
                let body = render_markdown(thinking, Breaks::Soft);
                write_folded(self.out, ("thinking", "Thinking", &gist), &body)
            }
            DocumentBlock::ToolUse { tool_name, input, tool_id }
                if self.detail >= DetailLevel::Actions =>
            {
                let result = message.content.iter().find_map(|one| match one {
                    DocumentBlock::ToolResult { tool_id: id, output, is_error, .. }
                        if id == tool_id =>
                    {
                        Some(tool::ShownResult { output, is_error: *is_error })
                    }
                    _ => None,
                });
                let id = self.answer_id(tool_id);
                let call = tool::ShownCall { id: &id, name: tool_name, input, result };
                tool::write_call(self.out, &call, self.detail)
            }
            DocumentBlock::ToolResult { tool_id, tool_name, output, is_error } => {
                let has_call = message
                    .content
                    .iter()
                    .any(|one| matches!(one, DocumentBlock::ToolUse { tool_id: id, .. } if id == tool_id));
                if has_call || self.detail < DetailLevel::Tools {
                    return Ok(());
                }
                tool::write_lone_result(self.out, tool_name, output, *is_error)
            }
            DocumentBlock::Image { media_type, data, bytes, hash, .. } => {
                let is_drawn = media_type.as_deref().is_none_or(page::is_picture);
                match self.pictures.zip(hash.as_deref()) {
                    Some((place, hash)) if is_drawn => {
                        fragment::write_picture_reference(self.out, place, hash)
                    }
                    _ => {
                        page::write_image(self.out, media_type.as_deref(), data.as_deref(), *bytes)
                    }
                }
            }
            DocumentBlock::Other { raw } if self.detail == DetailLevel::Everything => {
                let body = format!("<pre class=\"wrap\">{}</pre>", escape_html(raw.as_json_str()));
                write_folded(self.out, ("notice", "Record", &one_line(raw.as_json_str())), &body)
            }
            _ => Ok(()),
        }
    }

    /// Returns the `id` attribute of the message whose result was moved to a call, or an empty
    /// string.
    fn answer_id(&mut self, call: &str) -> String {
        let state = self.page_state();
        let index = state.answers.remove(call);
        index.map_or_else(String::new, |index| format!(" id=\"{}m{index}\"", state.prefix))
    }

    fn write_notice(&mut self, message: &DocumentMessage, origin: Origin) -> io::Result<()> {
        let name = match origin {
            Origin::Summary | Origin::Injected | Origin::System => {
                Speaker::of_origin(origin, Role::System).heading("")
            }
            _ => "Side conversation".to_owned(),
        };
        let prefix = self.page_state().prefix.clone();
        self.out.begin_part(&prefix, message.index);
        write!(self.out, "<div class=\"m\" id=\"{prefix}m{}\">", message.index)?;
        for block in &message.content {
            match block {
                DocumentBlock::Text { text } => {
                    let body = format!("<pre class=\"wrap\">{}</pre>", escape_html(text));
                    write_folded(self.out, ("notice", &name, &one_line(text)), &body)?;
                }
                other => self.write_block(other, message)?,
            }
        }
        writeln!(self.out, "</div>")?;
        self.out.end_lazy_part()
    }
}

/// Writes a folded element. `head` is its class, its name and its gist.
fn write_folded(out: &mut dyn Write, head: (&str, &str, &str), body: &str) -> io::Result<()> {
    let (class, name, gist) = head;
    writeln!(
        out,
        "<details class=\"{class}\"><summary><b>{name}</b><span class=\"gist\">{}</span></summary>\
         <div class=\"body\">{body}</div></details>",
        escape_html(gist),
    )
}

fn first_line_of_message(message: &DocumentMessage) -> String {
    let text = message.content.iter().find_map(|block| match block {
        DocumentBlock::Text { text } => Some(one_line(text)),
        _ => None,
    });
    let text = text.unwrap_or_default();
    match text.char_indices().nth(90) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Converts a session id to a part of element ids.
fn confidence_name(id: &str) -> String {
    id.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect()
}
