//! Converts the program's coloured output into lines of the terminal UI, so that a transcript or a
//! table is rendered by the same code as in the commands. Colours become the sixteen colours of the
//! terminal, which fit light and dark backgrounds.

use anstyle::{AnsiColor, RgbColor};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::output::palette;
use crate::output::wrap::{self, TextCell};

/// Maximum indentation of continuation lines, in columns.
const HANG: usize = 12;

/// Wraps coloured text into lines no wider than `width`.
pub(super) fn wrap_ansi_text(text: &str, width: usize) -> Vec<Line<'static>> {
    let mut style = Style::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let cells = parse_ansi_line(line, &mut style);
        wrap_cells(&cells, width.max(8), &mut lines);
    }
    lines
}

/// Parses one line. A style can continue in the next line.
fn parse_ansi_line<'t>(line: &'t str, style: &mut Style) -> Vec<TextCell<'t, Style>> {
    let mut cells = Vec::with_capacity(line.len());
    let mut pieces = line.split("\x1b[");
    cells.extend(wrap::text_cells(pieces.next().unwrap_or_default(), *style));
    for piece in pieces {
        let codes = piece.split_once('m').filter(|(codes, _)| is_style(codes));
        if codes.is_none() {
            cells.extend(wrap::text_cells("[", *style));
        }
        let text = codes.map_or(piece, |(_, text)| text);
        *style = codes.map_or(*style, |(codes, _)| apply_sgr_codes(*style, codes));
        cells.extend(wrap::text_cells(text, *style));
    }
    cells
}

fn is_style(codes: &str) -> bool {
    codes.chars().all(|one| one.is_ascii_digit() || one == ';')
}

fn apply_sgr_codes(style: Style, codes: &str) -> Style {
    let numbers: Vec<u8> = codes.split(';').map(|code| code.parse().unwrap_or(0)).collect();
    match numbers[..] {
        [0] => Style::new(),
        [1] => style.add_modifier(Modifier::BOLD),
        [2] => style.add_modifier(Modifier::DIM),
        [3] => style.add_modifier(Modifier::ITALIC),
        [4] => style.add_modifier(Modifier::UNDERLINED),
        [9] => style.add_modifier(Modifier::CROSSED_OUT),
        [code @ 30..=37] => style.fg(Color::Indexed(code - 30)),
        [code @ 90..=97] => style.fg(Color::Indexed(code - 82)),
        [38, 2, red, green, blue] => style.fg(nearest_terminal_color(RgbColor(red, green, blue))),
        _ => style,
    }
}

/// Returns the terminal colour that is nearest in hue. Grey becomes the default text colour.
pub(super) fn nearest_terminal_color(color: RgbColor) -> Color {
    match palette::nearest_ansi_color(color) {
        Some(AnsiColor::Yellow) => Color::Yellow,
        Some(AnsiColor::Green) => Color::Green,
        Some(AnsiColor::Cyan) => Color::Cyan,
        Some(AnsiColor::Blue) => Color::Blue,
        Some(AnsiColor::Magenta) => Color::Magenta,
        Some(_) => Color::Red,
        None => Color::Reset,
    }
}

/// Wraps one line and keeps its indentation in the continuation lines.
fn wrap_cells(cells: &[TextCell<'_, Style>], width: usize, lines: &mut Vec<Line<'static>>) {
    let indent = cells.iter().take_while(|cell| cell.text == " ").count();
    let hang = if indent < cells.len() { indent.min(HANG).min(width / 2) } else { 0 };
    for (at, part) in wrap::break_cells(cells, width, width - hang).into_iter().enumerate() {
        lines.push(styled_line(if at == 0 { 0 } else { hang }, part));
    }
}

fn styled_line(indent: usize, cells: &[TextCell<'_, Style>]) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    if indent > 0 {
        spans.push(Span::raw(" ".repeat(indent)));
    }
    for run in cells.chunk_by(|one, other| one.style == other.style) {
        let text: String = run.iter().map(|cell| cell.text).collect();
        spans.push(Span::styled(text, run[0].style));
    }
    Line::from(spans)
}

/// Highlights every occurrence of a text, ignoring case.
pub(super) fn highlight_needle(line: &Line<'static>, needle: &str, style: Style) -> Line<'static> {
    let fold = |text: &str| text.to_lowercase();
    let wanted: Vec<String> = wrap::text_cells(needle, ()).map(|cell| fold(cell.text)).collect();
    let mut cells: Vec<TextCell<'_, Style>> =
        line.spans.iter().flat_map(|span| wrap::text_cells(&span.content, span.style)).collect();
    if wanted.is_empty() || cells.len() < wanted.len() {
        return line.clone();
    }
    let lower: Vec<String> = cells.iter().map(|cell| fold(cell.text)).collect();
    for start in 0..=lower.len() - wanted.len() {
        if lower[start..].starts_with(&wanted) {
            for cell in &mut cells[start..start + wanted.len()] {
                cell.style = cell.style.patch(style);
            }
        }
    }
    self::styled_line(0, &cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, width: usize) -> Vec<String> {
        wrap_ansi_text(text, width).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_lines_are_broken_at_spaces_and_keep_their_indentation() {
        assert_eq!(texts("  one two three", 10), ["  one two", "  three"]);
        assert_eq!(texts("abcdefghijklmnop", 10), ["abcdefghij", "klmnop"]);
        assert_eq!(texts("検索エンジン検索", 10), ["検索エンジ", "ン検索"]);
        assert_eq!(texts("", 10), Vec::<String>::new());
        assert_eq!(texts("a\n\nb", 10), ["a", "", "b"]);
    }

    #[test]
    fn colours_become_those_of_the_terminal() {
        let dim = anstyle::Style::new().dimmed();
        let orange = anstyle::RgbColor(217, 119, 87).on_default();
        let line = &wrap_ansi_text(&format!("{dim}a{dim:#}{orange}b{orange:#}c"), 10)[0];
        assert_eq!(line.spans[0].style.add_modifier, Modifier::DIM);
        assert_eq!(line.spans[1].style.fg, Some(Color::Yellow));
        assert_eq!(line.spans[2].style, Style::new());
    }

    #[test]
    fn escape_sequences_that_are_not_colours_do_nothing() {
        assert_eq!(texts("a\x1b]52;c;eA==\x07b\x1b[2Jc", 40), ["a]52;c;eA==b[2Jc"]);
    }

    #[test]
    fn found_text_is_marked_whatever_its_case() {
        let found = Style::new().add_modifier(Modifier::UNDERLINED);
        let line = highlight_needle(&Line::from("Login and login"), "LOGIN", found);
        let marked: Vec<&str> = line
            .spans
            .iter()
            .filter(|span| span.style == found)
            .map(|span| span.content.as_ref())
            .collect();
        assert_eq!(marked, ["Login", "login"]);
    }
}
