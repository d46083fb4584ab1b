//! Prepares recorded text for an agent: removes secrets and characters that hide or reverse text,
//! and limits the number of tokens.

use agent_journal::export::{NamedText, Redactor};
use agent_journal::model::Json;
use agent_journal::{Entry, Journal, without_escapes};
use anyhow::Result;

/// Weight of one token, so that a letter can cost a fraction of a token.
const TOKEN: usize = 6;

/// Redacts recorded text and removes hidden characters from it.
pub(crate) struct Quoter {
    redactor: Redactor,
}

impl Quoter {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor }
    }

    /// Returns a cleaned text with all of its lines.
    pub(crate) fn clean_text(&mut self, text: &str) -> String {
        remove_invisible(&self.redactor.redact_text(text))
    }

    /// Returns a cleaned text on one line, of at most `most` tokens.
    pub(crate) fn clean_line(&mut self, text: &str, most: usize) -> String {
        let text = self.clean_text(text).split_whitespace().collect::<Vec<_>>().join(" ");
        cut_to_tokens(&text, most).to_owned()
    }

    /// Returns a cleaned excerpt of a text. A secret that was cut in two no longer looks like one,
    /// so secrets are searched for in the whole text.
    pub(crate) fn clean_excerpt(
        &mut self,
        piece: &str,
        whole: &[NamedText],
        most: usize,
    ) -> String {
        let kept = self.redactor.redact_excerpt(piece, whole, &mut Vec::new());
        self.clean_line(&kept, most)
    }

    /// Returns the JSON of a tool without secrets. They are searched for in its strings, not in its
    /// serialized text, where quotes are escaped and keys stand apart from values.
    pub(crate) fn redact_tool_json(&mut self, json: &Json) -> Json {
        let mut clean = json.clone();
        self.redactor.redact_json(&mut clean);
        clean
    }

    /// Removes secrets from the listing of a session.
    pub(crate) fn redact_entry(&mut self, entry: &mut Entry, journal: &Journal) -> Result<()> {
        Ok(journal.redact_entry(entry, &mut self.redactor)?)
    }
}

/// Removes characters that a reader cannot see: escape sequences, control characters, marks that
/// reverse text, characters without width, tags. Line ends and tabs stay.
pub(crate) fn remove_invisible(text: &str) -> String {
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

/// Returns whether a character affects the text around it instead of being visible.
pub(crate) fn is_hidden(one: char) -> bool {
    one.is_control()
        || matches!(one,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Estimates the tokens of a text, rather too many than too few: three small letters make a token,
/// three capitals two; every digit, punctuation mark and line end is one; other scripts count by
/// bytes, which no tokenizer exceeds.
pub(crate) fn estimate_tokens(text: &str) -> usize {
    sum_weights(text, |_, _| true).div_ceil(TOKEN)
}

/// Cuts a text to at most `most` tokens.
pub(crate) fn cut_to_tokens(text: &str, most: usize) -> &str {
    let mut end = 0;
    sum_weights(text, |at, weight| {
        let fits = weight <= most * TOKEN;
        if fits {
            end = at;
        }
        fits
    });
    &text[..end]
}

/// Sums the weights of a text's characters. Calls `go_on` after each one with the byte offset of
/// its end and the weight up to there, and stops when it returns false. Returns the weight.
fn sum_weights(text: &str, mut go_on: impl FnMut(usize, usize) -> bool) -> usize {
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
        assert!(estimate_tokens("The quick brown fox jumps over the lazy dog") >= 9);
        assert!(estimate_tokens("fn main() { println!(\"hi\"); }") >= 12);
        assert!(estimate_tokens("検索エンジンを作る") >= 13);
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("12345"), 5);
    }

    #[test]
    fn a_cut_text_never_has_more_tokens_than_asked_for() {
        let text = "Änderung 42: größere Wörter,\n\tund 検索 in `src/lib.rs`  ".repeat(9);
        for most in 0..200 {
            let kept = cut_to_tokens(&text, most);
            assert!(estimate_tokens(kept) <= most && text.starts_with(kept));
        }
        assert_eq!(cut_to_tokens(&text, 10_000), text);
    }

    #[test]
    fn nothing_that_hides_or_turns_text_stays() {
        let text = "a\u{202e}b\u{200b}c\u{e0041}d\x1b[31m\r\ne\u{2028}f\u{2066}\tg";
        assert_eq!(remove_invisible(text), "abcd\ne\nf\tg");
    }

    #[test]
    fn a_secret_that_a_cut_went_through_is_taken_out_too() {
        let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
        let whole = format!("the key is {secret} and nothing else");
        let check = |piece: &str| {
            let kept = quoter().clean_excerpt(piece, &[whole.clone().into()], 100);
            assert!(!kept.contains("16C7") && !kept.contains("178B4a"), "{kept}");
        };
        check(&whole);
        check(&whole[..30]);
        check(&format!("…{}", &whole[30..]));
    }
}
