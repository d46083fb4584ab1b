//! Cuts text into words the way code is written.
//!
//! A word is a run of letters and digits; `snake_case`, `kebab-case`, paths and dotted names fall
//! apart by themselves. `camelCase` is found by its parts and as a whole. Scripts without spaces
//! are cut into pairs of characters. Case and accents do not matter. Colours and whatever else
//! steers a terminal separate words.

use std::collections::HashSet;

use tantivy::tokenizer::{Token, TokenStream};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use crate::escape;

/// Longer runs are hashes or encoded data: they are cut here and have no parts.
const MAX_WORD: usize = 64;

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word, folded.
    pub(crate) text: String,
    /// Where it stands in the text, in bytes.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its place among the words.
    pub(crate) position: usize,
}

/// Cuts a text into words, `camelCase` into its parts only: what a query looks for.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut all = Vec::new();
    each_word(text, &mut |word| {
        all.push(word.clone());
        true
    });
    all
}

/// Calls `found` with every word of a text, `camelCase` in its parts only, until it says `false`.
pub(crate) fn each_word(text: &str, found: &mut dyn FnMut(&Word) -> bool) {
    each_token(text, &mut |word, is_whole| is_whole || found(word));
}

/// Calls `found` with every word of a text, and whether it is `camelCase` as a whole, which is
/// told beside its parts; until it says `false`.
pub(crate) fn each_token(text: &str, found: &mut dyn FnMut(&Word, bool) -> bool) {
    let mut cutter = Cutter::new(text);
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

/// The whole `camelCase` words of a text, which the index has beside their parts.
pub(crate) fn whole_words(text: &str) -> HashSet<String> {
    let mut cutter = Cutter::new(text);
    let mut all = HashSet::new();
    while cutter.step() {
        if cutter.is_whole {
            all.insert(cutter.token.text.clone());
        }
    }
    all
}

/// What bytes are to a run: nothing at zero.
const SMALL: u8 = 1;
const CAPITAL: u8 = 2;

/// What every byte is to a run: looked at once, it tells the end of a run and what is in it.
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

/// How a run is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One word as it stands: small letters and digits of ASCII.
    Small,
    /// One word of ASCII, with a capital at its beginning.
    Plain,
    /// A word with parts, or with letters beyond ASCII.
    Mixed,
    /// Pairs of characters: a script without spaces.
    Pairs,
}

/// Walks through a text.
pub(crate) struct Cutter<'a> {
    text: &'a str,
    /// Where to look for the next run.
    at: usize,
    /// The run being cut, and where its next part begins.
    run: std::ops::Range<usize>,
    part: usize,
    shape: Shape,
    position: usize,
    token: Token,
    /// Whether the token is a whole `camelCase` word, told before its parts.
    is_whole: bool,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let token = Token::default();
        let (run, shape) = (0..0, Shape::Small);
        Self { text, at: 0, run, part: 0, shape, position: 0, token, is_whole: false }
    }

    /// Moves to the next token; `false` at the end.
    fn step(&mut self) -> bool {
        self.is_whole = false;
        if self.part < self.run.end {
            return self.next_part();
        }
        if !self.next_run() {
            return false;
        }
        if self.shape == Shape::Mixed && self.part_end() < self.run.end {
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
            start += escape::length(&bytes[start..]).max(1);
        }
        if start >= bytes.len() {
            return false;
        }
        let (end, shape) = self.run_end(start);
        (self.run, self.part, self.shape, self.at) = (start..end, start, shape, end);
        true
    }

    fn run_end(&self, start: usize) -> (usize, Shape) {
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
            (SMALL, 0) => Shape::Small,
            (_, 0) => Shape::Plain,
            _ => Shape::Mixed,
        };
        (start + end, shape)
    }

    /// The end of a run with characters beyond ASCII in it.
    fn wide_run_end(&self, start: usize, from: usize) -> (usize, Shape) {
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
        (end, if pairs { Shape::Pairs } else { Shape::Mixed })
    }

    fn next_part(&mut self) -> bool {
        let end = match self.shape {
            Shape::Small | Shape::Plain => self.run.end,
            Shape::Mixed => self.part_end(),
            Shape::Pairs => return self.next_pair(),
        };
        let part = self.part..end;
        self.set(part, self.position);
        self.part = end;
        self.position += 1;
        true
    }

    /// Two neighbouring characters; a single one when it stands alone.
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

    /// Where the part that begins at `self.part` ends: before a capital that begins a word.
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
        if matches!(self.shape, Shape::Small | Shape::Plain) || word.is_ascii() {
            self.token.text.push_str(&word[..word.len().min(MAX_WORD)]);
            if self.shape != Shape::Small {
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

impl TokenStream for Cutter<'_> {
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

/// Scripts that put no spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole words in brackets, parts bare, each with its position.
    fn check(text: &str, expected: &str) {
        let mut cutter = Cutter::new(text);
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
        let mut cutter = Cutter::new(&run);
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
