//! Recorded text on its way to an agent: without secrets, without characters that hide or turn
//! text, and within a number of tokens.

use agent_journal::export::{NamedText, Redactor};
use agent_journal::model::Json;
use agent_journal::{Entry, Journal, without_escapes};
use anyhow::Result;

/// What a token is worth, so that letters can cost a part of one.
const TOKEN: usize = 6;

/// Makes recorded text fit to be read by an agent.
pub(crate) struct Quoter {
    redactor: Redactor,
}

impl Quoter {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor }
    }

    /// A text in full, on as many lines as it has.
    pub(crate) fn text(&mut self, text: &str) -> String {
        neutral(&self.redactor.text(text))
    }

    /// A text on one line, of at most so many tokens.
    pub(crate) fn line(&mut self, text: &str, most: usize) -> String {
        let text = self.text(text).split_whitespace().collect::<Vec<_>>().join(" ");
        cut(&text, most).to_owned()
    }

    /// A piece that was cut out of a text. A secret that the cut went through is no secret by
    /// its looks any more, so it is looked for in the whole.
    pub(crate) fn piece(&mut self, piece: &str, whole: &[NamedText], most: usize) -> String {
        let kept = self.redactor.piece(piece, whole, &mut Vec::new());
        self.line(&kept, most)
    }

    /// Returns the JSON of a tool without secrets. They are looked for in its strings, not in its
    /// text, where quotes are escaped and names stand elsewhere.
    pub(crate) fn json(&mut self, json: &Json) -> Json {
        let mut clean = json.clone();
        self.redactor.json(&mut clean);
        clean
    }

    /// Takes secrets out of what is listed of a session.
    pub(crate) fn entry(&mut self, entry: &mut Entry, journal: &Journal) -> Result<()> {
        Ok(journal.redact_entry(entry, &mut self.redactor)?)
    }
}

/// Leaves out what a reader cannot see: what steers a terminal, control characters, marks that turn text around,
/// characters without width, tags. Line ends and tabs stay.
pub(crate) fn neutral(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for one in without_escapes(text).chars() {
        match one {
            '\n' | '\t' => kept.push(one),
            '\u{85}' | '\u{2028}' | '\u{2029}' => kept.push('\n'),
            _ if is_hidden(one) => {}
            _ => kept.push(one),
        }
    }
    kept
}

/// Whether a character steers what is around it instead of being seen.
pub(crate) fn is_hidden(one: char) -> bool {
    one.is_control()
        || matches!(one,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Estimates tokens, rather too many than too few: three small letters make a token, three
/// capitals two; every digit, sign and line end is one; other scripts count by bytes, which no
/// tokenizer exceeds.
pub(crate) fn tokens(text: &str) -> usize {
    weigh(text, |_, _| true).div_ceil(TOKEN)
}

/// Cuts a text to at most so many tokens.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = 0;
    weigh(text, |at, weight| {
        let fits = weight <= most * TOKEN;
        if fits {
            end = at;
        }
        fits
    });
    &text[..end]
}

/// Weighs a text from its beginning, telling the weight up to the end of each character, for as
/// long as it is asked to go on.
fn weigh(text: &str, mut go_on: impl FnMut(usize, usize) -> bool) -> usize {
    let (mut weight, mut before) = (0, ' ');
    for (at, one) in text.char_indices() {
        weight += match one {
            'a'..='z' => 2,
            ' ' if before == ' ' => 1,
            'A'..='Z' | ' ' => 4,
            _ => TOKEN * one.len_utf8(),
        };
        before = one;
        if !go_on(at + one.len_utf8(), weight) {
            break;
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoter() -> Quoter {
        Quoter::new(Redactor::new(std::path::Path::new("/home/mara")))
    }

    #[test]
    fn tokens_are_estimated_rather_too_many_than_too_few() {
        assert!(tokens("The quick brown fox jumps over the lazy dog") >= 9);
        assert!(tokens("fn main() { println!(\"hi\"); }") >= 12);
        assert!(tokens("検索エンジンを作る") >= 13);
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens("12345"), 5);
    }

    #[test]
    fn a_cut_text_never_has_more_tokens_than_asked_for() {
        let text = "Änderung 42: größere Wörter,\n\tund 検索 in `src/lib.rs`  ".repeat(9);
        for most in 0..200 {
            let kept = cut(&text, most);
            assert!(tokens(kept) <= most && text.starts_with(kept));
        }
        assert_eq!(cut(&text, 10_000), text);
    }

    #[test]
    fn nothing_that_hides_or_turns_text_stays() {
        let text = "a\u{202e}b\u{200b}c\u{e0041}d\x1b[31m\r\ne\u{2028}f\u{2066}\tg";
        assert_eq!(neutral(text), "abcd\ne\nf\tg");
    }

    #[test]
    fn a_secret_that_a_cut_went_through_is_taken_out_too() {
        let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
        let whole = format!("the key is {secret} and nothing else");
        let check = |piece: &str| {
            let kept = quoter().piece(piece, &[whole.clone().into()], 100);
            assert!(!kept.contains("16C7") && !kept.contains("178B4a"), "{kept}");
        };
        check(&whole);
        check(&whole[..30]);
        check(&format!("…{}", &whole[30..]));
    }
}
