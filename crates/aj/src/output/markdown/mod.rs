//! Markdown as a terminal shows it: headings, emphasis, lists, quotes, code and tables by
//! indentation and a quiet style, broken at the width. Nothing is told by colour alone.

mod table;

use agent_journal::without_escapes;
use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use self::table::Table;
use super::wrap::{Cell, broken, cells};
use super::{BOLD, DIM, plain};

const CODE: Style = AnsiColor::Cyan.on_default();

/// A piece of text in one style.
type Run = (String, Style);

/// Renders Markdown as coloured lines no wider than `width`. A line end in a paragraph stays one:
/// people mean it, and so do models, which do not break their lines for a width.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page {
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
        page.event(event);
    }
    page.flush();
    page.lines
}

struct Page {
    width: usize,
    lines: Vec<String>,
    /// What stands before every line: bars of quotes, the room of list items.
    margins: Vec<Margin>,
    /// The next number of each list; none has numbers of its own.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    /// Text that is not written yet.
    runs: Vec<Run>,
    /// Where the links being read lead, and where their text begins.
    links: Vec<(String, usize)>,
    table: Option<Table>,
    is_code: bool,
    /// Whether the next block needs no gap before it.
    is_fresh: bool,
}

struct Margin {
    /// What stands before the first line only.
    first: Option<String>,
    others: String,
    width: usize,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            // A tag is what somebody wrote, and is shown as such.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push(&text),
            Event::Code(text) => self.code(&text),
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => self.rule(),
            Event::TaskListMarker(is_done) => self.push(if is_done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.block(),
            Tag::HtmlBlock => self.part(),
            Tag::Heading { level, .. } => {
                self.part();
                let underlined = level == HeadingLevel::H1;
                self.style(if underlined { BOLD.underline() } else { BOLD });
            }
            Tag::BlockQuote(_) => {
                self.part();
                self.indent(None, &format!("{DIM}│{DIM:#} "), 2);
                self.is_fresh = true;
            }
            Tag::CodeBlock(_) => {
                self.part();
                self.indent(None, "  ", 2);
                self.style(CODE);
                self.is_code = true;
            }
            Tag::List(number) => {
                self.part();
                self.lists.push(number);
                self.is_fresh = true;
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.style(Style::new().italic()),
            Tag::Strong => self.style(BOLD),
            Tag::Strikethrough => self.style(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link(&dest_url),
            Tag::Table(columns) => self.begin_table(columns),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.is_code = false;
                self.styles.pop();
                self.margins.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => self.end_part(),
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let runs = std::mem::take(&mut self.runs);
                self.table.iter_mut().for_each(|table| table.cell(runs.clone()));
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                self.table.iter_mut().for_each(Table::end_row);
            }
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    /// Begins a block that stands apart from the one before it.
    fn block(&mut self) {
        self.flush();
        if !std::mem::take(&mut self.is_fresh) {
            let waits = |margin: &&Margin| margin.first.is_none();
            let before: String =
                self.margins.iter().filter(waits).map(|margin| margin.others.as_str()).collect();
            self.lines.push(before.trim_end().to_owned());
        }
    }

    /// Begins a block; in a list it stands close to what it belongs to.
    fn part(&mut self) {
        if self.lists.is_empty() {
            return self.block();
        }
        self.flush();
    }

    fn style(&mut self, style: Style) {
        let outer = self.now();
        let color = style.get_fg_color().or(outer.get_fg_color());
        let effects = style.get_effects() | outer.get_effects();
        self.styles.push(Style::new().fg_color(color).effects(effects));
    }

    fn now(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Moves what follows to the right, as long as that leaves room for it.
    fn indent(&mut self, first: Option<String>, others: &str, width: usize) {
        let room = self.margin() + width <= self.width / 2;
        let margin = Margin { first, others: others.to_owned(), width };
        self.margins.push(if room {
            margin
        } else {
            Margin { first: None, others: String::new(), width: 0 }
        });
    }

    fn margin(&self) -> usize {
        self.margins.iter().map(|margin| margin.width).sum()
    }

    fn item(&mut self) {
        self.flush();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        let width = marker.chars().count();
        self.indent(Some(marker), &" ".repeat(width), width);
    }

    fn end_part(&mut self) {
        self.flush();
        // An item without text is an item nevertheless.
        if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
            let line: String = self.margins.iter_mut().map(Margin::take).collect();
            self.lines.push(line.trim_end().to_owned());
        }
        self.margins.pop();
        self.is_fresh = false;
    }

    /// Adds text; what a reference such as `&#27;` stands for must be harmless too.
    fn push(&mut self, text: &str) {
        let style = self.now();
        self.runs.push((plain(text), style));
    }

    fn code(&mut self, text: &CowStr<'_>) {
        self.style(CODE);
        let (outer, style) = (DIM, self.now());
        self.runs.push(("`".to_owned(), outer));
        self.runs.push((plain(text), style));
        self.runs.push(("`".to_owned(), outer));
        self.styles.pop();
    }

    fn link(&mut self, target: &str) {
        self.links.push((plain(target), self.runs.len()));
        self.style(Style::new().underline());
    }

    /// Tells where a link leads, unless its text does.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((target, start)) = self.links.pop() else { return };
        let runs = self.runs.get(start..).unwrap_or_default();
        let text: String = runs.iter().map(|(text, _)| text.as_str()).collect();
        let is_told = target.is_empty() || target.trim_start_matches("mailto:") == text;
        if !is_told {
            self.runs.push((format!(" ({target})"), DIM));
        }
    }

    fn rule(&mut self) {
        self.part();
        let width = self.width.saturating_sub(self.margin()).min(40);
        self.runs.push(("─".repeat(width), DIM));
        self.flush();
    }

    fn begin_table(&mut self, columns: Vec<Alignment>) {
        self.part();
        self.table = Some(Table::new(columns));
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table.lines(self.width.saturating_sub(self.margin())) {
            self.runs = line;
            self.flush();
        }
    }

    /// Writes the text that waits.
    fn flush(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        // A code block's last line end is its own.
        if let Some((text, _)) = runs.last_mut() {
            text.truncate(text.trim_end_matches('\n').len());
        }
        if runs.iter().all(|(text, _)| text.is_empty()) && !self.is_code {
            return;
        }
        let cells: Vec<Cell<'_, Style>> =
            runs.iter().flat_map(|(text, style)| cells(text, *style)).collect();
        let room = self.width.saturating_sub(self.margin());
        for line in broken(&cells, (room, room)) {
            let margin: String = self.margins.iter_mut().map(Margin::take).collect();
            self.lines.push(format!("{margin}{}", colored(line)).trim_end().to_owned());
        }
        self.is_fresh = false;
    }
}

impl Margin {
    fn take(&mut self) -> String {
        self.first.take().unwrap_or_else(|| self.others.clone())
    }
}

/// Characters with the sequences that give them their styles.
fn colored(cells: &[Cell<'_, Style>]) -> String {
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
