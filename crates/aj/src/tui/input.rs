//! A line of text being typed.

/// A line with a cursor, which stands before the byte `at`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) text: String,
    pub(super) at: usize,
}

/// What can be done to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
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

impl Input {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), at: text.len() }
    }

    /// Changes the line; tells whether its text is another now.
    pub(super) fn edit(&mut self, edit: &Edit) -> bool {
        let before = self.text.len();
        match edit {
            Edit::Type(one) => self.insert(&one.to_string()),
            Edit::Paste(text) => self.insert(&text.replace(['\n', '\r', '\t'], " ")),
            Edit::Erase => self.erase(self.previous()..self.at),
            Edit::EraseNext => self.erase(self.at..self.next()),
            Edit::EraseWord => self.erase(self.word()..self.at),
            Edit::EraseAll => self.erase(0..self.at),
            Edit::Left => self.at = self.previous(),
            Edit::Right => self.at = self.next(),
            Edit::Home => self.at = 0,
            Edit::End => self.at = self.text.len(),
        }
        self.text.len() != before
    }

    /// Puts another text in place of a part; the cursor follows it.
    pub(super) fn replace(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.at = range.start + text.len();
        self.text.replace_range(range, text);
    }

    fn insert(&mut self, text: &str) {
        let text = crate::output::plain(text);
        self.text.insert_str(self.at, &text);
        self.at += text.len();
    }

    fn erase(&mut self, range: std::ops::Range<usize>) {
        self.at = range.start;
        self.text.replace_range(range, "");
    }

    fn previous(&self) -> usize {
        self.text[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        self.text[self.at..].chars().next().map_or(self.at, |one| self.at + one.len_utf8())
    }

    /// Where the word before the cursor begins.
    fn word(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, edits: &[Edit], expected: &str) {
        let mut input = Input::new(text);
        for edit in edits {
            input.edit(edit);
        }
        input.text.insert(input.at, '|');
        assert_eq!(input.text, expected);
    }

    #[test]
    fn the_line_is_edited_as_in_a_shell() {
        check("a b", &[Edit::Type('c')], "a bc|");
        check("größe", &[Edit::Left, Edit::Left, Edit::Erase], "gr|ße");
        check("one two  ", &[Edit::EraseWord], "one |");
        check("one", &[Edit::EraseWord], "|");
        check("one two", &[Edit::Home, Edit::EraseNext, Edit::Right], "n|e two");
        check("one", &[Edit::Left, Edit::EraseAll, Edit::EraseAll], "|e");
        check("", &[Edit::Erase, Edit::EraseNext, Edit::Left, Edit::Right], "|");
    }

    #[test]
    fn pasted_text_stays_one_line_and_cannot_steer_the_terminal() {
        check("", &[Edit::Paste("a\nb\x1b[2J".into())], "a b|");
    }
}
