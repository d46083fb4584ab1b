//! Wraps text: at spaces, between the characters of scripts that have no spaces, and anywhere else
//! only when there is no better break; never inside a grapheme cluster.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// One grapheme cluster: a letter with its accents, a flag, a family emoji.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextCell<'t, S> {
    pub(crate) text: &'t str,
    pub(crate) style: S,
}

impl<S> TextCell<'_, S> {
    pub(crate) fn cell_width(&self) -> usize {
        self.text.width()
    }

    fn is_space(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn is_line_end(&self) -> bool {
        self.text.ends_with('\n')
    }
}

/// Splits a text into cells of one style. Tabs become spaces, other control characters are removed.
pub(crate) fn text_cells<S: Copy>(text: &str, style: S) -> impl Iterator<Item = TextCell<'_, S>> {
    text.graphemes(true).filter_map(move |text| match text {
        "\t" => Some(TextCell { text: "    ", style }),
        "\n" | "\r\n" => Some(TextCell { text: "\n", style }),
        odd if odd.contains(char::is_control) => None,
        text => Some(TextCell { text, style }),
    })
}

/// Returns the width of some cells in columns.
pub(crate) fn cells_width<S>(cells: &[TextCell<'_, S>]) -> usize {
    cells.iter().map(TextCell::cell_width).sum()
}

/// Joins pieces into as few lines of a width as possible, without breaking a piece.
pub(crate) fn join_to_lines(pieces: &[String], between: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| anstream::adapter::strip_str(text).to_string().width();
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(between) + columns(piece) <= width => {
                line.push_str(between);
                line.push_str(piece);
            }
            _ => lines.push(piece.clone()),
        }
    }
    lines
}

/// Wraps a text at spaces, without breaking a word.
pub(crate) fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    join_to_lines(&words, " ", width)
}

/// Breaks cells into lines, the first of one width, the others of another.
pub(crate) fn break_cells<'c, 't, S>(
    cells: &'c [TextCell<'t, S>],
    first: usize,
    others: usize,
) -> Vec<&'c [TextCell<'t, S>]> {
    let mut lines = Vec::new();
    let (mut left, mut width) = (cells, first);
    while let Some((end, next)) = line_break(left, width) {
        lines.push(&left[..end]);
        left = &left[next..];
        width = others;
    }
    lines.push(left);
    lines
}

/// Returns the end of the first line and the start of the next, if there is a next.
fn line_break<S>(cells: &[TextCell<'_, S>], width: usize) -> Option<(usize, usize)> {
    let mut used = 0;
    for (at, cell) in cells.iter().enumerate() {
        if cell.is_line_end() {
            return Some((at, at + 1));
        }
        used += cell.cell_width();
        if used > width {
            return best_break(cells, at);
        }
    }
    None
}

/// Finds the best break of a line in which the cell at `at` is the first that does not fit.
fn best_break<S>(cells: &[TextCell<'_, S>], at: usize) -> Option<(usize, usize)> {
    let text = cells.iter().position(|cell| !cell.is_space())?;
    let is_break = |place: &usize| may_part(&cells[*place - 1], &cells[*place]);
    let place = (text + 1..=at).rev().find(is_break).unwrap_or(at.max(1));
    let spaces = cells[place..].iter().take_while(|one| one.is_space() && !one.is_line_end());
    let next = place + spaces.count();
    let before = cells[..place].iter().rposition(|cell| !cell.is_space());
    // Trailing spaces do not make a line of their own.
    (next < cells.len()).then_some((before.map_or(place, |last| last + 1), next))
}

/// Returns whether a line may break between two cells.
fn may_part<S>(before: &TextCell<'_, S>, after: &TextCell<'_, S>) -> bool {
    const OPENING: &str = "（［｛「『【〈《";
    const CLOSING: &str = "、。，．：；！？）］｝」』】〉》ー々…";
    if before.is_space() || after.is_space() {
        return true;
    }
    (before.cell_width() > 1 || after.cell_width() > 1)
        && !OPENING.contains(before.text)
        && !CLOSING.contains(after.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, expected: &[&str]) {
        let cells: Vec<TextCell<'_, ()>> = text_cells(text, ()).collect();
        let lines = break_cells(&cells, width, width);
        let texts: Vec<String> =
            lines.iter().map(|line| line.iter().map(|cell| cell.text).collect()).collect();
        assert_eq!(texts, expected);
        for line in lines {
            assert!(super::cells_width(line) <= width.max(2), "{text}");
        }
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        check("one two three", 8, &["one two", "three"]);
        check("one two three", 7, &["one two", "three"]);
        check("abcdefghij kl", 4, &["abcd", "efgh", "ij", "kl"]);
        check("    indented words", 12, &["    indented", "words"]);
    }

    #[test]
    fn pieces_share_a_line_while_they_fit() {
        let check = |width: usize, expected: &[&str]| {
            let pieces = ["one", "\x1b[1mtwo\x1b[0m", "three and more"].map(str::to_owned);
            assert_eq!(join_to_lines(&pieces, " · ", width), expected);
        };
        check(26, &["one · \x1b[1mtwo\x1b[0m · three and more"]);
        check(25, &["one · \x1b[1mtwo\x1b[0m", "three and more"]);
        check(5, &["one", "\x1b[1mtwo\x1b[0m", "three and more"]);
    }

    #[test]
    fn wide_characters_are_as_wide_as_they_are() {
        check("検索エンジン", 7, &["検索エ", "ンジン"]);
        check("see 検索エンジン", 8, &["see 検索", "エンジン"]);
        check("検索。索引", 5, &["検", "索。", "索引"]);
        check("検", 1, &["検"]);
    }

    #[test]
    fn accents_and_families_are_not_torn_apart() {
        check("e\u{301}e\u{301}e\u{301}", 2, &["e\u{301}e\u{301}", "e\u{301}"]);
        check("👨‍👩‍👧👨‍👩‍👧", 3, &["👨‍👩‍👧", "👨‍👩‍👧"]);
    }

    #[test]
    fn line_ends_are_kept_and_other_controls_are_not() {
        check("a\r\nb\n\nc\x1bd\te", 20, &["a", "b", "", "cd    e"]);
    }
}
