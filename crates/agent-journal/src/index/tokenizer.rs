//! Splits text into words the way code is written.
//!
//! A word is a run of letters and digits; `snake_case`, `kebab-case`, paths and dotted names are
//! split by their separators. `camelCase` is indexed by its parts and as a whole. Scripts without
//! spaces are split into pairs of characters. Case and accents are ignored. Terminal escape
//! sequences, such as colours, separate words.

use std::collections::HashSet;

use tantivy::tokenizer::{Token, TokenStream};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use crate::escape;

/// The maximum length of a word: longer runs are hashes or encoded data. They are cut off here and
/// have no parts.
const MAX_WORD: usize = 64;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word in lower case, without accents.
    pub(crate) text: String,
    /// The byte range of the word in the text.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The position of the word among the words of the text.
    pub(crate) position: usize,
}

/// Splits a text into words as a query needs them: `camelCase` into its parts only.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut all = Vec::new();
    each_word(text, &mut |word| {
        all.push(word.clone());
        true
    });
    all
}

/// Calls `found` with every word of a text, `camelCase` in its parts only, until it returns
/// `false`.
pub(crate) fn each_word(text: &str, found: &mut dyn FnMut(&Word) -> bool) {
    each_token(text, &mut |word, is_whole| is_whole || found(word));
}

/// Calls `found` with every word of a text until it returns `false`. The second argument is whether
/// the word is a complete `camelCase` word, which precedes its parts.
pub(crate) fn each_token(text: &str, found: &mut dyn FnMut(&Word, bool) -> bool) {
    let mut cutter = WordCutter::new(text);
    let mut word = Word { text: String::new(), from: 0, to: 0, position: 0 };
    while cutter.step() {
        word.text.clone_from(&cutter.token.text);
        (word.from, word.to) = (cutter.token.offset_from, cutter.token.offset_to);
        word.position = cutter.token.position;
        if !found(&word, cutter.is_whole) {
            return;
        }
    }
}

/// Returns the complete `camelCase` words of a text, which the index holds in addition to their
/// parts.
pub(crate) fn whole_words(text: &str) -> HashSet<String> {
    let mut cutter = WordCutter::new(text);
    let mut all = HashSet::new();
    while cutter.step() {
        if cutter.is_whole {
            all.insert(cutter.token.text.clone());
        }
    }
    all
}

/// The class of a byte in a run; zero for bytes that end it.
const SMALL: u8 = 1;
const CAPITAL: u8 = 2;

/// The class of every byte: one lookup gives both the end of a run and its content.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_uppercase() {
            classes[byte] = CAPITAL;
        } else if (byte as u8).is_ascii_alphanumeric() {
            classes[byte] = SMALL;
        }
        byte += 1;
    }
    classes
};

/// The way in which a run is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunShape {
    /// One word as it is: lower-case ASCII letters and digits.
    Small,
    /// One ASCII word that begins with a capital.
    Plain,
    /// A word with parts, or with letters beyond ASCII.
    Mixed,
    /// Pairs of characters: a script without spaces.
    Pairs,
}

/// A token stream over a text.
pub(crate) struct WordCutter<'a> {
    text: &'a str,
    /// The offset at which the next run is searched.
    at: usize,
    /// The current run, and the offset of its next part.
    run: std::ops::Range<usize>,
    part: usize,
    shape: RunShape,
    position: usize,
    token: Token,
    /// Whether the token is a complete `camelCase` word, which precedes its parts.
    is_whole: bool,
}

impl<'a> WordCutter<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let token = Token::default();
        let (run, shape) = (0..0, RunShape::Small);
        Self { text, at: 0, run, part: 0, shape, position: 0, token, is_whole: false }
    }

    /// Moves to the next token; returns `false` at the end.
    fn step(&mut self) -> bool {
        self.is_whole = false;
        if self.part < self.run.end {
            return self.next_part();
        }
        if !self.next_run() {
            return false;
        }
        if self.shape == RunShape::Mixed && self.part_end() < self.run.end {
            self.is_whole = true;
            self.set(self.run.clone(), self.position);
            return true;
        }
        self.next_part()
    }

    /// Finds the next run of letters and digits.
    fn next_run(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let mut start = self.at;
        while start < bytes.len() {
            if CLASSES[usize::from(bytes[start])] != 0 {
                break;
            }
            if !bytes[start].is_ascii() {
                let character = self.text[start..].chars().next().unwrap_or(' ');
                if character.is_alphanumeric() {
                    break;
                }
                start += character.len_utf8();
                continue;
            }
            start += escape::escape_sequence_length(&bytes[start..]).max(1);
        }
        if start >= bytes.len() {
            return false;
        }
        let (end, shape) = self.run_end(start);
        (self.run, self.part, self.shape, self.at) = (start..end, start, shape, end);
        true
    }

    fn run_end(&self, start: usize) -> (usize, RunShape) {
        let bytes = &self.text.as_bytes()[start..];
        let first = CLASSES[usize::from(bytes[0])];
        let mut inside = 0;
        let mut end = usize::from(first != 0);
        while let Some(byte) = bytes.get(end) {
            let class = CLASSES[usize::from(*byte)];
            if class == 0 {
                if !byte.is_ascii() {
                    return self.wide_run_end(start, start + end);
                }
                break;
            }
            inside |= class;
            end += 1;
        }
        let shape = match (first, inside & CAPITAL) {
            (SMALL, 0) => RunShape::Small,
            (_, 0) => RunShape::Plain,
            _ => RunShape::Mixed,
        };
        (start + end, shape)
    }

    /// Returns the end and shape of a run with characters beyond ASCII.
    fn wide_run_end(&self, start: usize, from: usize) -> (usize, RunShape) {
        let first = self.text[start..].chars().next().unwrap_or(' ');
        let pairs = is_unspaced(first);
        let skip = if from == start { first.len_utf8() } else { from - start };
        let mut end = start + skip;
        for character in self.text[end..].chars() {
            let belongs = (character.is_alphanumeric() || is_combining_mark(character))
                && is_unspaced(character) == pairs;
            if !belongs {
                break;
            }
            end += character.len_utf8();
        }
        (end, if pairs { RunShape::Pairs } else { RunShape::Mixed })
    }

    fn next_part(&mut self) -> bool {
        let end = match self.shape {
            RunShape::Small | RunShape::Plain => self.run.end,
            RunShape::Mixed => self.part_end(),
            RunShape::Pairs => return self.next_pair(),
        };
        let part = self.part..end;
        self.set(part, self.position);
        self.part = end;
        self.position += 1;
        true
    }

    /// Moves to the next pair of adjacent characters; a single character if it is alone.
    fn next_pair(&mut self) -> bool {
        let rest = &self.text[self.part..self.run.end];
        let mut characters = rest.char_indices();
        characters.next();
        let Some((second, character)) = characters.next() else {
            self.set(self.part..self.run.end, self.position);
            self.part = self.run.end;
            self.position += 1;
            return true;
        };
        let end = self.part + second + character.len_utf8();
        self.set(self.part..end, self.position);
        self.position += 1;
        // The last character was the second of the last pair.
        self.part = if end >= self.run.end { self.run.end } else { self.part + second };
        true
    }

    /// Returns the end of the part at `self.part`: before a capital that begins a word.
    fn part_end(&self) -> usize {
        if self.run.len() > MAX_WORD {
            return self.run.end;
        }
        let bytes = &self.text.as_bytes()[self.run.clone()];
        let from = self.part - self.run.start;
        for at in from + 1..bytes.len() {
            let (before, here) = (bytes[at - 1], bytes[at]);
            let next_is_small = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            let begins =
                here.is_ascii_uppercase() && (!before.is_ascii_uppercase() || next_is_small);
            if begins {
                return self.run.start + at;
            }
        }
        self.run.end
    }

    fn set(&mut self, range: std::ops::Range<usize>, position: usize) {
        let word = &self.text[range.clone()];
        self.token.text.clear();
        if matches!(self.shape, RunShape::Small | RunShape::Plain) || word.is_ascii() {
            self.token.text.push_str(&word[..word.len().min(MAX_WORD)]);
            if self.shape != RunShape::Small {
                self.token.text.make_ascii_lowercase();
            }
        } else {
            let folded = word.nfd().filter(|character| !is_combining_mark(*character));
            self.token.text.extend(folded.flat_map(char::to_lowercase).nfc().take(MAX_WORD));
        }
        self.token.offset_from = range.start;
        self.token.offset_to = range.end;
        self.token.position = position;
    }
}

impl TokenStream for WordCutter<'_> {
    fn advance(&mut self) -> bool {
        self.step()
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// Returns whether a character belongs to a script without spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows complete words in brackets and parts without, each with its position.
    fn check(text: &str, expected: &str) {
        let mut cutter = WordCutter::new(text);
        let mut all = Vec::new();
        while cutter.step() {
            let (word, at) = (&cutter.token.text, cutter.token.position);
            all.push(if cutter.is_whole {
                format!("[{word}]@{at}")
            } else {
                format!("{word}@{at}")
            });
        }
        assert_eq!(all.join(" "), expected, "{text}");
    }

    #[test]
    fn identifiers_fall_into_their_parts() {
        check("parse_query", "parse@0 query@1");
        check("parseQuery(x)", "[parsequery]@0 parse@0 query@1 x@2");
        check("HTTPServer2 URL", "[httpserver2]@0 http@0 server2@1 url@2");
        check("src/index/tokenizer.rs:12", "src@0 index@1 tokenizer@2 rs@3 12@4");
        check("E0382 3f1c9ab", "e0382@0 3f1c9ab@1");
    }

    #[test]
    fn accents_and_case_do_not_matter() {
        check("Größe naïve CAFÉ cafe\u{301}", "große@0 naive@1 cafe@2 cafe@3");
        check("данные Ещё", "данные@0 еще@1");
    }

    #[test]
    fn a_colour_is_no_part_of_a_word() {
        check("\x1b[31mquokka\x1b[0m m31", "quokka@0 m31@1");
        check("\x1b]0;title\x07per\x1b[1mcent", "per@0 cent@1");
        assert_eq!(words("a \x1b[1;31mFAILED")[1].from, 9);
    }

    #[test]
    fn scripts_without_spaces_are_cut_into_pairs() {
        check("検索", "検索@0");
        check("全文検索x", "全文@0 文検@1 検索@2 x@3");
        check("字 a字", "字@0 a@1 字@2");
    }

    #[test]
    fn long_runs_have_no_parts_and_are_cut() {
        let run = "aB".repeat(100);
        let mut cutter = WordCutter::new(&run);
        assert!(cutter.step());
        assert_eq!(cutter.token.text.len(), MAX_WORD);
        assert!(!cutter.step());
    }

    #[test]
    fn a_query_sees_parts_only_and_knows_where_they_stand() {
        let all = words("see waitForSession");
        let texts: Vec<&str> = all.iter().map(|word| &*word.text).collect();
        assert_eq!(texts, ["see", "wait", "for", "session"]);
        assert_eq!((all[3].from, all[3].to), (11, 18));
    }
}
