//! Splits long texts into windows: the best window of a message describes it better than one vector
//! for all its topics.

/// The size of a window in bytes: some 256 tokens.
const WINDOW: usize = 1200;

/// The maximum length of a text that is not split: a few last words alone would mean little.
const WHOLE: usize = WINDOW + WINDOW / 4;

/// Splits a text into windows at the ends of paragraphs, lines or words.
pub(crate) fn windows(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (window, after) = rest.split_at(end(rest));
        rest = after.trim_start();
        Some(window)
    })
}

/// Returns the end of the first window of a text.
fn end(text: &str) -> usize {
    if text.len() <= WHOLE {
        return text.len();
    }
    let (half, limit) = (text.floor_char_boundary(WINDOW / 2), text.floor_char_boundary(WINDOW));
    let late = &text[half..limit];
    let cut =
        late.rfind("\n\n").or_else(|| late.rfind('\n')).or_else(|| late.rfind(char::is_whitespace));
    cut.map_or(limit, |cut| half + cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_one_window() {
        let text = "word ".repeat(WHOLE / 5);
        assert_eq!(windows(&text).collect::<Vec<_>>(), [text.trim()]);
        assert_eq!(windows(" \n ").count(), 0);
    }

    #[test]
    fn windows_end_with_a_paragraph_before_a_line_before_a_word() {
        let filler = "word ".repeat(160);
        let text = format!("{filler}\n\n{filler}\n{filler}");
        let all: Vec<&str> = windows(&text).collect();
        assert_eq!(all[0], filler);
        assert!(all.iter().all(|window| window.split_whitespace().all(|word| word == "word")));
    }

    proptest! {
        #[test]
        fn windows_lose_nothing_but_white_space(text in "(\\PC| |\n|字|é){0,4000}") {
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            let all: Vec<&str> = windows(&text).collect();
            prop_assert_eq!(squeeze(&all.concat()), squeeze(&text));
            prop_assert!(all.iter().all(|window| window.len() <= WHOLE));
        }
    }
}
