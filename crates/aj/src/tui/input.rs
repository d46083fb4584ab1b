//! A text input of one line.

/// A line of text with a cursor, given as a byte offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineInput {
    pub(super) text: String,
    pub(super) at: usize,
}

/// An edit of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineEdit {
    Type(char),
    Paste(String),
    Erase,
    EraseNext,
    EraseWord,
    EraseAll,
    Left,
    Right,
    Home,
    End,
}

impl LineInput {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), at: text.len() }
    }

    /// Applies an edit. Returns whether the text changed.
    pub(super) fn apply_edit(&mut self, edit: &LineEdit) -> bool {
        let before = self.text.len();
        match edit {
            LineEdit::Type(one) => self.insert_text(&one.to_string()),
            LineEdit::Paste(text) => self.insert_text(&text.replace(['\n', '\r', '\t'], " ")),
            LineEdit::Erase => self.erase_range(self.previous_boundary()..self.at),
            LineEdit::EraseNext => self.erase_range(self.at..self.next_boundary()),
            LineEdit::EraseWord => self.erase_range(self.previous_word_start()..self.at),
            LineEdit::EraseAll => self.erase_range(0..self.at),
            LineEdit::Left => self.at = self.previous_boundary(),
            LineEdit::Right => self.at = self.next_boundary(),
            LineEdit::Home => self.at = 0,
            LineEdit::End => self.at = self.text.len(),
        }
        self.text.len() != before
    }

    /// Replaces a part of the text and moves the cursor behind it.
    pub(super) fn replace_range(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.at = range.start + text.len();
        self.text.replace_range(range, text);
    }

    fn insert_text(&mut self, text: &str) {
        let text = crate::output::plain_text(text);
        self.text.insert_str(self.at, &text);
        self.at += text.len();
    }

    fn erase_range(&mut self, range: std::ops::Range<usize>) {
        self.at = range.start;
        self.text.replace_range(range, "");
    }

    fn previous_boundary(&self) -> usize {
        self.text[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn next_boundary(&self) -> usize {
        self.text[self.at..].chars().next().map_or(self.at, |one| self.at + one.len_utf8())
    }

    /// Returns the start of the word before the cursor.
    fn previous_word_start(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, edits: &[LineEdit], expected: &str) {
        let mut input = LineInput::new(text);
        for edit in edits {
            input.apply_edit(edit);
        }
        input.text.insert(input.at, '|');
        assert_eq!(input.text, expected);
    }

    #[test]
    fn the_line_is_edited_as_in_a_shell() {
        check("a b", &[LineEdit::Type('c')], "a bc|");
        check("größe", &[LineEdit::Left, LineEdit::Left, LineEdit::Erase], "gr|ße");
        check("one two  ", &[LineEdit::EraseWord], "one |");
        check("one", &[LineEdit::EraseWord], "|");
        check("one two", &[LineEdit::Home, LineEdit::EraseNext, LineEdit::Right], "n|e two");
        check("one", &[LineEdit::Left, LineEdit::EraseAll, LineEdit::EraseAll], "|e");
        check("", &[LineEdit::Erase, LineEdit::EraseNext, LineEdit::Left, LineEdit::Right], "|");
    }

    #[test]
    fn pasted_text_stays_one_line_and_cannot_steer_the_terminal() {
        check("", &[LineEdit::Paste("a\nb\x1b[2J".into())], "a b|");
    }
}
