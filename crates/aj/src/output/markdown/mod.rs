//! Renders Markdown for a terminal: headings, emphasis, lists, quotes, code and tables by
//! indentation and restrained styles, wrapped at the width. Nothing is conveyed by colour alone.

mod table;

use agent_journal::without_escapes;
use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use self::table::MarkdownTable;
use super::wrap::{TextCell, break_cells, text_cells};
use super::{BOLD, DIM, plain_text};

const CODE: Style = AnsiColor::Cyan.on_default();

/// A piece of text in one style.
type StyledRun = (String, Style);

/// Renders Markdown as styled lines no wider than `width`. A line break in a paragraph is kept:
/// people mean it, and so do models, which do not wrap their lines at a width.
pub(crate) fn markdown_lines(text: &str, width: usize) -> Vec<String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = MarkdownRenderer {
        width: width.max(8),
        lines: Vec::new(),
        margins: Vec::new(),
        lists: Vec::new(),
        styles: vec![Style::new()],
        runs: Vec::new(),
        links: Vec::new(),
        table: None,
        is_code: false,
        is_fresh: true,
    };
    for event in Parser::new_ext(&without_escapes(text), options) {
        page.handle_markdown_event(event);
    }
    page.flush_text();
    page.lines
}

/// The state of rendering one Markdown text.
struct MarkdownRenderer {
    width: usize,
    lines: Vec<String>,
    /// Prefixes of every line: bars of quotes, indentation of list items.
    margins: Vec<Margin>,
    /// The next number of each open list; `None` for lists without numbers.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    /// Text that is not written yet.
    runs: Vec<StyledRun>,
    /// Targets of the open links, each with the index in `runs` at which its text begins.
    links: Vec<(String, usize)>,
    table: Option<MarkdownTable>,
    is_code: bool,
    /// Whether the next block needs no blank line before it.
    is_fresh: bool,
}

/// The prefix of the lines of a quote or list item.
struct Margin {
    /// Prefix of the first line, until it is written.
    first: Option<String>,
    others: String,
    width: usize,
}

impl MarkdownRenderer {
    fn handle_markdown_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            // HTML tags are shown as they were written.
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => {
                self.push_clean_text(&text);
            }
            Event::Code(text) => self.push_code(&text),
            Event::SoftBreak | Event::HardBreak => self.push_clean_text("\n"),
            Event::Rule => self.push_rule(),
            Event::TaskListMarker(is_done) => {
                self.push_clean_text(if is_done { "☑ " } else { "☐ " });
            }
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.start_block(),
            Tag::HtmlBlock => self.start_part(),
            Tag::Heading { level, .. } => {
                self.start_part();
                let underlined = level == HeadingLevel::H1;
                self.push_style(if underlined { BOLD.underline() } else { BOLD });
            }
            Tag::BlockQuote(_) => {
                self.start_part();
                self.indent_lines(None, &format!("{DIM}│{DIM:#} "), 2);
                self.is_fresh = true;
            }
            Tag::CodeBlock(_) => {
                self.start_part();
                self.indent_lines(None, "  ", 2);
                self.push_style(CODE);
                self.is_code = true;
            }
            Tag::List(number) => {
                self.start_part();
                self.lists.push(number);
                self.is_fresh = true;
            }
            Tag::Item => self.start_item(),
            Tag::Emphasis => self.push_style(Style::new().italic()),
            Tag::Strong => self.push_style(BOLD),
            Tag::Strikethrough => self.push_style(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.push_link(&dest_url),
            Tag::Table(columns) => self.begin_table(columns),
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush_text(),
            TagEnd::Heading(_) => {
                self.flush_text();
                self.styles.pop();
            }
            TagEnd::CodeBlock => {
                self.flush_text();
                self.is_code = false;
                self.styles.pop();
                self.margins.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => self.finish_part(),
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let runs = std::mem::take(&mut self.runs);
                self.table.iter_mut().for_each(|table| table.add_cell(runs.clone()));
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                self.table.iter_mut().for_each(MarkdownTable::finish_row);
            }
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    /// Starts a block, with a blank line before it.
    fn start_block(&mut self) {
        self.flush_text();
        if !std::mem::take(&mut self.is_fresh) {
            let waits = |margin: &&Margin| margin.first.is_none();
            let before: String =
                self.margins.iter().filter(waits).map(|margin| margin.others.as_str()).collect();
            self.lines.push(before.trim_end().to_owned());
        }
    }

    /// Starts a block; inside a list there is no blank line before it.
    fn start_part(&mut self) {
        if self.lists.is_empty() {
            return self.start_block();
        }
        self.flush_text();
    }

    fn push_style(&mut self, style: Style) {
        let outer = self.current_style();
        let color = style.get_fg_color().or(outer.get_fg_color());
        let effects = style.get_effects() | outer.get_effects();
        self.styles.push(Style::new().fg_color(color).effects(effects));
    }

    fn current_style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Indents the following lines, unless that would take more than half of the width.
    fn indent_lines(&mut self, first: Option<String>, others: &str, width: usize) {
        let room = self.margin_width() + width <= self.width / 2;
        let margin = Margin { first, others: others.to_owned(), width };
        self.margins.push(if room {
            margin
        } else {
            Margin { first: None, others: String::new(), width: 0 }
        });
    }

    fn margin_width(&self) -> usize {
        self.margins.iter().map(|margin| margin.width).sum()
    }

    fn start_item(&mut self) {
        self.flush_text();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        let width = marker.chars().count();
        self.indent_lines(Some(marker), &" ".repeat(width), width);
    }

    fn finish_part(&mut self) {
        self.flush_text();
        // An item without text still gets its marker.
        if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
            let line: String = self.margins.iter_mut().map(Margin::take_margin).collect();
            self.lines.push(line.trim_end().to_owned());
        }
        self.margins.pop();
        self.is_fresh = false;
    }

    /// Adds text. It is cleaned again here, because references such as `&#27;` stand for control
    /// characters.
    fn push_clean_text(&mut self, text: &str) {
        let style = self.current_style();
        self.runs.push((plain_text(text), style));
    }

    fn push_code(&mut self, text: &CowStr<'_>) {
        self.push_style(CODE);
        let (outer, style) = (DIM, self.current_style());
        self.runs.push(("`".to_owned(), outer));
        self.runs.push((plain_text(text), style));
        self.runs.push(("`".to_owned(), outer));
        self.styles.pop();
    }

    fn push_link(&mut self, target: &str) {
        self.links.push((plain_text(target), self.runs.len()));
        self.push_style(Style::new().underline());
    }

    /// Adds the target of a link, unless it equals the link's text.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((target, start)) = self.links.pop() else { return };
        let runs = self.runs.get(start..).unwrap_or_default();
        let text: String = runs.iter().map(|(text, _)| text.as_str()).collect();
        let repeats_text = target.is_empty() || target.trim_start_matches("mailto:") == text;
        if !repeats_text {
            self.runs.push((format!(" ({target})"), DIM));
        }
    }

    fn push_rule(&mut self) {
        self.start_part();
        let width = self.width.saturating_sub(self.margin_width()).min(40);
        self.runs.push(("─".repeat(width), DIM));
        self.flush_text();
    }

    fn begin_table(&mut self, columns: Vec<Alignment>) {
        self.start_part();
        self.table = Some(MarkdownTable::new(columns));
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table.table_lines(self.width.saturating_sub(self.margin_width())) {
            self.runs = line;
            self.flush_text();
        }
    }

    /// Writes the pending text.
    fn flush_text(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        // The last line end of a code block ends the block.
        if let Some((text, _)) = runs.last_mut() {
            text.truncate(text.trim_end_matches('\n').len());
        }
        if runs.iter().all(|(text, _)| text.is_empty()) && !self.is_code {
            return;
        }
        let cells: Vec<TextCell<'_, Style>> =
            runs.iter().flat_map(|(text, style)| text_cells(text, *style)).collect();
        let room = self.width.saturating_sub(self.margin_width());
        for line in break_cells(&cells, room, room) {
            let margin: String = self.margins.iter_mut().map(Margin::take_margin).collect();
            self.lines.push(format!("{margin}{}", colored_cells(line)).trim_end().to_owned());
        }
        self.is_fresh = false;
    }
}

impl Margin {
    fn take_margin(&mut self) -> String {
        self.first.take().unwrap_or_else(|| self.others.clone())
    }
}

/// Renders cells with the escape sequences of their styles.
fn colored_cells(cells: &[TextCell<'_, Style>]) -> String {
    let mut text = String::new();
    for run in cells.chunk_by(|one, other| one.style == other.style) {
        let style = run[0].style;
        text.push_str(&style.render().to_string());
        text.extend(run.iter().map(|cell| cell.text));
        text.push_str(&style.render_reset().to_string());
    }
    text
}

#[cfg(test)]
mod tests;
