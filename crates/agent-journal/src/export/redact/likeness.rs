//! Measures whether a value consists of words or is random. That distinguishes a token from the
//! name of a type.
//!
//! The cost of a value, in bits, is compared under two models. Words: pieces of camel case, numbers
//! and separators, with the probability of each letter depending on the letter before it. Chance:
//! all characters of the alphabet are equally probable. Under the first model words cost about 4
//! bits per letter, and random letters about 7.

/// The cost of a letter after another one, in tenths of a bit. Row and column 0 are the edge of a
/// word. Counted over the words of 2,500 source files and documents of published crates, each word
/// weighted by the square root of its frequency.
const LETTER_COSTS: [[u8; 27]; 27] = [
    [
        99, 40, 46, 36, 42, 42, 44, 56, 55, 42, 74, 68, 48, 43, 48, 51, 39, 71, 41, 33, 41, 50, 56,
        53, 65, 77, 74,
    ],
    [
        45, 75, 47, 38, 43, 78, 65, 51, 82, 49, 87, 64, 32, 48, 34, 87, 46, 88, 32, 39, 27, 59, 64,
        70, 67, 58, 81,
    ],
    [
        30, 33, 61, 51, 65, 34, 64, 73, 82, 32, 67, 81, 29, 67, 76, 37, 70, 90, 44, 44, 61, 33, 80,
        85, 84, 52, 86,
    ],
    [
        34, 33, 71, 54, 69, 35, 63, 76, 35, 48, 90, 39, 46, 65, 73, 25, 64, 79, 46, 54, 34, 52, 68,
        83, 81, 70, 90,
    ],
    [
        14, 45, 72, 71, 52, 24, 66, 67, 83, 33, 81, 84, 57, 72, 73, 45, 69, 82, 50, 49, 66, 54, 71,
        79, 77, 68, 90,
    ],
    [
        24, 47, 67, 44, 35, 57, 57, 62, 80, 70, 86, 78, 47, 51, 34, 73, 58, 65, 29, 35, 42, 75, 59,
        68, 49, 73, 87,
    ],
    [
        27, 39, 71, 61, 53, 38, 38, 60, 89, 27, 88, 83, 39, 62, 57, 32, 67, 89, 44, 43, 51, 46, 86,
        78, 85, 63, 90,
    ],
    [
        14, 50, 70, 66, 79, 26, 75, 57, 47, 41, 90, 86, 57, 62, 46, 55, 72, 82, 38, 45, 64, 50, 78,
        81, 83, 77, 85,
    ],
    [
        25, 27, 82, 75, 61, 22, 80, 83, 85, 34, 88, 82, 65, 60, 75, 32, 78, 84, 47, 57, 45, 50, 83,
        69, 87, 61, 80,
    ],
    [
        53, 50, 59, 41, 44, 49, 49, 46, 87, 82, 88, 74, 45, 44, 21, 35, 54, 85, 55, 41, 34, 84, 53,
        88, 63, 87, 52,
    ],
    [
        40, 37, 90, 61, 77, 20, 66, 68, 66, 42, 90, 61, 72, 54, 75, 29, 69, 90, 72, 30, 58, 29, 90,
        64, 90, 71, 90,
    ],
    [
        16, 48, 70, 66, 64, 18, 65, 72, 72, 33, 88, 84, 61, 75, 57, 65, 67, 79, 70, 40, 54, 61, 74,
        69, 82, 75, 90,
    ],
    [
        28, 35, 73, 70, 47, 25, 60, 75, 83, 28, 90, 73, 35, 74, 72, 34, 69, 87, 74, 51, 49, 51, 70,
        78, 89, 44, 86,
    ],
    [
        30, 26, 53, 65, 66, 24, 77, 75, 79, 35, 90, 77, 65, 51, 66, 39, 32, 81, 72, 45, 59, 43, 81,
        83, 87, 70, 88,
    ],
    [
        27, 43, 76, 43, 36, 36, 55, 32, 78, 46, 82, 61, 60, 77, 59, 43, 66, 86, 72, 37, 29, 58, 63,
        76, 84, 70, 85,
    ],
    [
        42, 64, 63, 41, 47, 73, 57, 60, 84, 61, 78, 58, 43, 41, 23, 51, 43, 90, 29, 46, 46, 41, 54,
        46, 72, 84, 88,
    ],
    [
        30, 30, 76, 65, 70, 30, 69, 72, 54, 44, 90, 75, 38, 73, 80, 36, 45, 86, 30, 51, 40, 45, 75,
        80, 84, 64, 90,
    ],
    [
        21, 82, 66, 64, 56, 58, 81, 70, 90, 67, 90, 84, 50, 64, 64, 64, 68, 90, 60, 59, 76, 9, 85,
        74, 90, 90, 90,
    ],
    [
        25, 33, 76, 57, 54, 23, 67, 58, 84, 35, 90, 64, 65, 50, 57, 37, 65, 83, 52, 44, 45, 53, 67,
        75, 81, 56, 88,
    ],
    [
        17, 55, 80, 49, 74, 29, 76, 67, 49, 37, 89, 66, 64, 69, 71, 49, 48, 77, 69, 45, 29, 46, 78,
        74, 85, 58, 83,
    ],
    [
        22, 39, 82, 57, 69, 27, 69, 83, 43, 29, 90, 83, 61, 67, 75, 43, 62, 88, 37, 45, 51, 55, 81,
        76, 71, 50, 84,
    ],
    [
        55, 50, 43, 46, 60, 42, 54, 55, 90, 45, 90, 87, 36, 41, 27, 67, 42, 90, 35, 33, 31, 79, 82,
        89, 65, 88, 82,
    ],
    [
        33, 26, 78, 64, 66, 13, 58, 73, 78, 31, 88, 86, 56, 58, 71, 51, 70, 86, 67, 60, 59, 81, 89,
        82, 66, 77, 86,
    ],
    [
        27, 29, 75, 59, 61, 34, 70, 75, 39, 29, 82, 84, 58, 68, 37, 37, 65, 83, 35, 46, 61, 76, 84,
        69, 75, 86, 90,
    ],
    [
        19, 42, 62, 37, 56, 36, 52, 81, 60, 44, 90, 88, 62, 61, 76, 62, 32, 70, 70, 60, 29, 65, 78,
        78, 49, 66, 85,
    ],
    [
        8, 67, 67, 65, 79, 55, 79, 76, 80, 57, 90, 90, 57, 54, 43, 55, 36, 89, 69, 41, 50, 85, 79,
        68, 86, 79, 69,
    ],
    [
        33, 38, 86, 67, 63, 9, 70, 83, 79, 40, 90, 90, 68, 70, 79, 43, 75, 90, 81, 58, 74, 74, 78,
        71, 82, 58, 52,
    ],
];

/// The cost of beginning a word, by its length, in tenths of a bit. Words of one or two letters are
/// rare.
const WORD_COSTS: [u32; 5] = [0, 50, 30, 20, 10];

/// The cost of a number in addition to its digits, in tenths of a bit.
const NUMBER_COST: u32 = 40;

/// The cost of a digit, in tenths of a bit.
const DIGIT_COST: u32 = 33;

/// The cost of a separator between words, in tenths of a bit.
const SEPARATOR_COST: u32 = 20;

/// The cost of any other character among words, in tenths of a bit.
const ODD_COST: u32 = 75;

/// Returns by how many bits chance explains a value better than words do. A value above zero looks
/// random, one below zero like words.
pub(super) fn randomness_bits(text: &str) -> f64 {
    let chance = bits_of_alphabet(text) * text.chars().count() as f64;
    f64::from(word_cost(text.as_bytes())) / 10.0 - chance
}

/// Returns the cost of a text as words, in tenths of a bit.
fn word_cost(bytes: &[u8]) -> u32 {
    let mut cost = 0;
    let mut at = 0;
    while at < bytes.len() {
        let length = piece_length(&bytes[at..]);
        let piece = &bytes[at..at + length];
        cost += match piece[0] {
            b'0'..=b'9' => NUMBER_COST + DIGIT_COST * length as u32,
            byte if byte.is_ascii_alphabetic() => WORD_COSTS[length.min(4)] + letters_cost(piece),
            b'_' | b'-' | b'.' | b'/' | b':' => SEPARATOR_COST,
            // Continuation bytes of a character cost nothing.
            0x80..=0xbf => 0,
            _ => ODD_COST,
        };
        at += length;
    }
    cost
}

/// Returns the length of the first piece of a text: a word of camel case, a number, or one other
/// character.
fn piece_length(bytes: &[u8]) -> usize {
    let run = |test: fn(&u8) -> bool, from: usize| {
        bytes[from..].iter().take_while(|byte| test(byte)).count()
    };
    match bytes[0] {
        b'0'..=b'9' => run(u8::is_ascii_digit, 0),
        b'a'..=b'z' => run(u8::is_ascii_lowercase, 0),
        b'A'..=b'Z' => {
            let capitals = run(u8::is_ascii_uppercase, 0);
            let small = run(u8::is_ascii_lowercase, capitals);
            match (capitals, small) {
                (1, small) => 1 + small,
                (capitals, 0) => capitals,
                // The last capital begins the next word.
                (capitals, _) => capitals - 1,
            }
        }
        _ => 1,
    }
}

fn letters_cost(letters: &[u8]) -> u32 {
    let mut before = 0;
    let mut cost = 0;
    for letter in letters {
        let this = usize::from(letter.to_ascii_lowercase() - b'a') + 1;
        cost += u32::from(LETTER_COSTS[before][this]);
        before = this;
    }
    cost + u32::from(LETTER_COSTS[before][0])
}

/// Returns the cost of one character, in bits, if all characters of the text's alphabet are equally
/// probable.
fn bits_of_alphabet(text: &str) -> f64 {
    let (mut lower, mut upper, mut digit, mut joint, mut odd) = (0, 0, 0, 0, 0);
    let mut is_hex = true;
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' => lower = 26,
            b'A'..=b'Z' => upper = 26,
            b'0'..=b'9' => digit = 10,
            b'+' | b'/' | b'-' | b'_' | b'=' | b'.' => joint = 2,
            _ => odd = 24,
        }
        is_hex &= byte.is_ascii_hexdigit() || byte == b'-';
    }
    if is_hex && digit > 0 {
        return f64::from(16 + joint).log2();
    }
    f64::from((lower + upper + digit + joint + odd).max(2)).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cost_less_as_words_and_random_letters_less_by_chance() {
        for words in
            ["Uint8Array", "access_token_v2", "ArrowDown", "my-app-secret", "ListBucketsV2"]
        {
            assert!(randomness_bits(words) < 0.0, "{words}: {}", randomness_bits(words));
        }
        for random in
            ["RuokXXPLNfjxsaqVBWuM0CqT", "kqzvwhtmbxrplj", "8c1f0a7be3d94265", "k9Lm2Qx8Vt5Zn"]
        {
            assert!(randomness_bits(random) > 8.0, "{random}: {}", randomness_bits(random));
        }
    }
}
