//! Splits text into the tokens of the embedding table, as specified in the second section of
//! `model/FORMAT.md`. It differs from the tokenizer of the word index on purpose: the table was
//! trained with exactly these tokens.

/// The maximum length of a run in characters: a longer one is encoded data and gives no token.
const MAX_RUN: usize = 128;

const SCORE: u8 = 1;
const DIGIT: u8 = 2;
const UPPER: u8 = 4;
const SMALL: u8 = 8;

/// The kinds of ASCII characters; zero for separators.
const ASCII: [u8; 128] = ascii();

/// A token, in lower case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    /// The text, valid UTF-8.
    pub(super) text: &'a [u8],
    /// Whether it is a run of several parts, which follows them.
    pub(super) joined: bool,
}

/// A tokenizer, with buffers that are reused for every text.
#[derive(Default)]
pub(super) struct Cutter {
    /// The run in lower case without underscores.
    lower: Vec<u8>,
    /// The characters of a run beyond ASCII.
    wide: Vec<char>,
}

impl Cutter {
    /// Calls `found` with the tokens of a text in order.
    pub(super) fn cut(&mut self, text: &str, found: &mut impl FnMut(Token<'_>)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        // The offset of the ideograph immediately before.
        let mut previous = None;
        while at < bytes.len() {
            let (width, class) = class(text, at);
            match class {
                Class::Other => {
                    at += width;
                    previous = None;
                }
                Class::Word => {
                    at = self.run(text, at, found);
                    previous = None;
                }
                Class::Ideograph => {
                    let end = at + width;
                    found(Token { text: &bytes[at..end], joined: false });
                    if let Some(previous) = previous {
                        found(Token { text: &bytes[previous..end], joined: false });
                    }
                    previous = Some(at);
                    at = end;
                }
            }
        }
    }

    /// Splits the run that begins at `start`, and returns its end.
    fn run(&mut self, text: &str, start: usize, found: &mut impl FnMut(Token<'_>)) -> usize {
        let bytes = text.as_bytes();
        let (mut end, mut kinds) = (start, 0);
        while let Some(&byte) = bytes.get(end) {
            if !byte.is_ascii() {
                return self.wide_run(text, start, found);
            }
            let kind = ASCII[usize::from(byte)];
            if kind == 0 {
                break;
            }
            kinds |= kind;
            end += 1;
        }
        let run = &bytes[start..end];
        if run.len() > MAX_RUN {
            return end;
        }
        // Most runs are plain words and numbers.
        if kinds == SMALL || kinds == DIGIT {
            found(Token { text: run, joined: false });
        } else {
            cut_run(run, &mut self.lower, found);
        }
        end
    }

    /// Splits a run with characters beyond ASCII.
    fn wide_run(&mut self, text: &str, start: usize, found: &mut impl FnMut(Token<'_>)) -> usize {
        self.wide.clear();
        let mut end = start;
        for character in text[start..].chars() {
            if class_of(character) != Class::Word {
                break;
            }
            // One more than the limit is enough to detect a long run.
            if self.wide.len() <= MAX_RUN {
                self.wide.push(character);
            }
            end += character.len_utf8();
        }
        if self.wide.len() <= MAX_RUN {
            cut_run(&self.wide, &mut self.lower, found);
        }
        end
    }
}

/// A character of a run.
trait Letter: Copy {
    /// Returns the kind of the character, by which runs are split.
    fn kind(self) -> u8;
    /// Appends its lower case.
    fn lower(self, into: &mut Vec<u8>);
}

impl Letter for u8 {
    fn kind(self) -> u8 {
        ASCII[usize::from(self & 127)]
    }

    fn lower(self, into: &mut Vec<u8>) {
        into.push(self.to_ascii_lowercase());
    }
}

impl Letter for char {
    fn kind(self) -> u8 {
        if self.is_ascii() {
            return (self as u8).kind();
        }
        let mut lower = self.to_lowercase();
        let same = lower.next() == Some(self) && lower.next().is_none();
        if same { SMALL } else { UPPER }
    }

    fn lower(self, into: &mut Vec<u8>) {
        for character in self.to_lowercase() {
            into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// Splits a run at underscores, digits and capitals, and then emits the joined run.
fn cut_run<L: Letter + Into<char>>(
    run: &[L],
    lower: &mut Vec<u8>,
    found: &mut impl FnMut(Token<'_>),
) {
    lower.clear();
    let (mut start, mut parts) = (0, 0);
    let mut end_part = |lower: &[u8], start: &mut usize| {
        if lower.len() > *start {
            found(Token { text: &lower[*start..], joined: false });
            parts += 1;
        }
        *start = lower.len();
    };
    for (at, letter) in run.iter().enumerate() {
        if letter.kind() == SCORE {
            end_part(lower, &mut start);
            continue;
        }
        if lower.len() > start && begins_part(run, at) {
            end_part(lower, &mut start);
        }
        letter.lower(lower);
    }
    end_part(lower, &mut start);
    if parts > 1 {
        found(Token { text: lower, joined: true });
    }
}

/// Returns whether a new part begins at a position that follows a letter of the previous part.
fn begins_part<L: Letter + Into<char>>(run: &[L], at: usize) -> bool {
    let kind = |at: usize| run.get(at).map_or(SCORE, |letter| letter.kind());
    let (before, this) = (kind(at - 1), kind(at));
    if (before == DIGIT) != (this == DIGIT) {
        return true;
    }
    if this != UPPER {
        return false;
    }
    if before != UPPER {
        return true;
    }
    // `HTTPServer` is two words, `URLs` is one.
    let plural =
        run.get(at + 1).is_some_and(|letter| (*letter).into() == 's') && kind(at + 2) != SMALL;
    kind(at + 1) == SMALL && !plural
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Ideograph,
    Word,
    Other,
}

/// Returns the width and the class of the character at an offset.
fn class(text: &str, at: usize) -> (usize, Class) {
    let byte = text.as_bytes()[at];
    if byte.is_ascii() {
        let word = ASCII[usize::from(byte)] != 0;
        return (1, if word { Class::Word } else { Class::Other });
    }
    let character = text[at..].chars().next().unwrap_or(' ');
    (character.len_utf8(), class_of(character))
}

fn class_of(character: char) -> Class {
    match u32::from(character) {
        0..0x80 if ASCII[character as usize] == 0 => Class::Other,
        0..0x80 | 0xaa | 0xb5 | 0xba => Class::Word,
        0x80..0xc0
        | 0xd7
        | 0xf7
        | 0x2000..=0x2bff
        | 0x2e00..=0x2e7f
        | 0x3000..=0x303f
        | 0xe000..=0xf8ff
        | 0xfe00..=0xfe6f
        | 0xff00..=0xff0f
        | 0xff1a..=0xff20
        | 0xff3b..=0xff40
        | 0xff5b..=0xff65
        | 0xfff0..=0xffff
        | 0x1f000..=0x1faff
        | 0xe0000..=0x0010_ffff => Class::Other,
        _ if is_ideograph(character) => Class::Ideograph,
        _ => Class::Word,
    }
}

/// Returns whether a character belongs to the scripts that are split by character.
pub(super) fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff
        | 0x20000..=0x323af)
}

const fn ascii() -> [u8; 128] {
    let mut kinds = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'_' => SCORE,
            b'0'..=b'9' => DIGIT,
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => SMALL,
            _ => 0,
        };
        byte += 1;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let mut all = Vec::new();
        Cutter::default().cut(text, &mut |token| {
            let text = std::str::from_utf8(token.text).unwrap();
            all.push(if token.joined { format!("{text}*") } else { text.to_owned() });
        });
        assert_eq!(all.join(" "), expected, "{text}");
    }

    #[test]
    fn identifiers_give_their_parts_and_the_whole() {
        check("HTTPServer parseJSON2", "http server httpserver* parse json 2 parsejson2*");
        check("don't __init__ a__b", "don t init a b ab*");
        check("sha256 v1.2.3", "sha 256 sha256* v 1 v1* 2 3");
        check("URLs APIsUsed ___", "urls apis used apisused*");
    }

    #[test]
    fn other_scripts_are_cut_by_the_same_rules() {
        check("修复登录 bug", "修 复 修复 登 复登 录 登录 bug");
        check("Straße ÉCOLE x²", "straße école x");
        check("İstanbul éÉ", "i\u{307}stanbul é é éé*");
        check("修a复", "修 a 复");
        check("--- 🙂", "");
    }

    #[test]
    fn long_runs_give_nothing() {
        check(&"x".repeat(128), &"x".repeat(128));
        check(&format!("{} y", "x".repeat(129)), "y");
        check(&format!("{}é y", "x".repeat(128)), "y");
    }
}
