//! What a passage is beside its words, in two numbers of the index: one that is enough to weigh
//! it, which is read of everything a query finds, and one that is read of the best.

use xxhash_rust::xxh3::xxh3_64;

use super::{Passage, TextKind};

/// A shorter text is what somebody wrote, not what a program printed, in bytes.
const SHORT: usize = 600;

/// A prompt longer than this was mostly pasted, in bytes.
const LONG_PROMPT: usize = 4096;

/// A text shorter than this is no copy of another that is the same, in letters.
const SMALLEST_PRINT: usize = 32;

/// As much of a text as tells it from others, in letters.
const LARGEST_PRINT: usize = 1024;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// What a passage is weighed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits(u64);

/// As many passages differ in kind, worth and side: see `Traits::sort`.
pub(crate) const SORTS: usize = 256;

impl Traits {
    pub(crate) fn of(passage: &Passage<'_>, position: u64, at: i64) -> Self {
        let Passage { kind, text, is_side, .. } = *passage;
        let sort = kind as u64 | u64::from(is_side) << 3 | u64::from(worth(kind, text)) << 4;
        // Days are above all the rest: only as many bits are kept as they differ in.
        Self(sort | (position & 0x1fff) << 8 | u64::from(day(at)) << 21)
    }

    pub(crate) fn pack(self) -> u64 {
        self.0
    }

    pub(crate) fn unpack(number: u64) -> Self {
        Self(number)
    }

    /// Everything that weighs beside the time, below `SORTS`.
    pub(crate) fn sort(self) -> usize {
        (self.0 & 0xff) as usize
    }

    pub(crate) fn kind(self) -> TextKind {
        kind_of(self.sort())
    }

    /// The same for passages of one text; of other texts, too, but seldom.
    pub(crate) fn mark(self) -> u16 {
        (self.0 >> 5) as u16 & !7 | self.0 as u16 & 7
    }

    /// The day it was recorded.
    pub(crate) fn day(self) -> u16 {
        (self.0 >> 21) as u16
    }
}

/// What all passages of a sort are.
pub(crate) struct Sort {
    pub(crate) kind: TextKind,
    /// Whether they are part of a side conversation.
    pub(crate) is_side: bool,
    /// What a match in them counts, beside their kind.
    pub(crate) worth: f32,
}

impl Sort {
    pub(crate) fn of(number: usize) -> Self {
        let worth = (number >> 4 & 15) as f32;
        Self { kind: kind_of(number), is_side: number >> 3 & 1 == 1, worth: (worth + 1.0) / 16.0 }
    }
}

fn kind_of(sort: usize) -> TextKind {
    TextKind::ALL[(sort & 7).min(TextKind::ALL.len() - 1)]
}

/// The day of a time in milliseconds.
pub(crate) fn day(at: i64) -> u16 {
    u16::try_from(at.max(0) / DAY).unwrap_or(u16::MAX)
}

/// What is known of a passage beside its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Likeness {
    /// The tool, by `tool_number`.
    pub(crate) tool: u16,
    /// The same for texts that differ in numbers and spaces only; 0 for short ones.
    pub(crate) print: u32,
    /// Whether it says that something failed.
    pub(crate) is_failed: bool,
}

impl Likeness {
    pub(crate) fn of(passage: &Passage<'_>) -> Self {
        Self { tool: passage.tool, print: print(passage.text), is_failed: passage.is_failed }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.tool) | u64::from(self.print) << 16 | u64::from(self.is_failed) << 48
    }

    pub(crate) fn unpack(number: u64) -> Self {
        Self { tool: number as u16, print: (number >> 16) as u32, is_failed: number >> 48 & 1 == 1 }
    }
}

/// Logs say the same on many lines: they count for less than what is said once.
fn worth(kind: TextKind, text: &str) -> u8 {
    if text.len() < SHORT {
        return 15;
    }
    let mut seen = [false; 512];
    let (mut lines, mut different, mut stamped) = (0_u32, 0_u32, 0_u32);
    let mut plain = [0; 96];
    let rows = text.split('\n').map(|line| line.as_bytes().trim_ascii());
    for line in rows.filter(|line| !line.is_empty()) {
        lines += 1;
        stamped += u32::from(is_stamped(line));
        let length = without_digits(&line[..line.len().min(plain.len())], &mut plain);
        let place = &mut seen[xxh3_64(&plain[..length]) as usize % 512];
        different += u32::from(!*place);
        *place = true;
    }
    if lines < 8 {
        return if kind == TextKind::Prompt && text.len() > LONG_PROMPT { 12 } else { 15 };
    }
    // More lines than places cannot all be different.
    let share = f64::from(different) / f64::from(lines.min(400));
    let mut worth = 0.35 + 0.65 * (share / 0.8).min(1.0);
    if stamped * 2 > lines {
        worth *= 0.7;
    }
    if kind == TextKind::Prompt && text.len() > LONG_PROMPT {
        worth *= 0.8;
    }
    ((worth * 16.0) as u8).clamp(1, 16) - 1
}

/// Copies all but the digits, which are what differs between the lines of a log; returns how much
/// that was. Most of a line has none: eight bytes are looked at at a time.
fn without_digits(line: &[u8], plain: &mut [u8; 96]) -> usize {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    let mut length = 0;
    let (words, rest) = line.as_chunks::<8>();
    for word in words {
        // A digit is less than ten above zero: adding what is missing to 128 leaves the top bit.
        let above = u64::from_le_bytes(*word) ^ (LOW * u64::from(b'0'));
        let others = (((above & !HIGH) + LOW * (128 - 10)) | above) & HIGH;
        if others == HIGH {
            plain[length..length + 8].copy_from_slice(word);
            length += 8;
        } else {
            length = without_digits_one_by_one(word, plain, length);
        }
    }
    without_digits_one_by_one(rest, plain, length)
}

fn without_digits_one_by_one(line: &[u8], plain: &mut [u8; 96], mut length: usize) -> usize {
    for byte in line {
        plain[length] = *byte;
        length += usize::from(!byte.is_ascii_digit());
    }
    length
}

/// Whether a line begins as those of logs do: with a time, or a bracket.
fn is_stamped(line: &[u8]) -> bool {
    let begin = &line[..line.len().min(20)];
    let digits = begin.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits >= 6 && begin.contains(&b':')
}

/// Every byte that is a letter, or part of one, in lower case; zero for the others.
static LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_alphabetic() || byte >= 128 {
            letters[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    letters
};

/// A number that texts share which differ in numbers, case and spaces only.
fn print(text: &str) -> u32 {
    let mut letters = [0; LARGEST_PRINT + 64];
    let mut count = 0;
    for piece in text.as_bytes().chunks(64) {
        for byte in piece {
            let letter = LETTERS[usize::from(*byte)];
            letters[count] = letter;
            count += usize::from(letter != 0);
        }
        if count >= LARGEST_PRINT {
            count = LARGEST_PRINT;
            break;
        }
    }
    if count < SMALLEST_PRINT {
        return 0;
    }
    // Of two texts with the same beginning the longer one says more.
    letters[count..count + 8].copy_from_slice(&(text.len() as u64 / 1024).to_le_bytes());
    (xxh3_64(&letters[..count + 8]) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_survive_packing() {
        let text = "a long enough text that is the same in two places";
        let passage = Passage {
            is_side: true,
            tool: 0xbeef,
            is_failed: true,
            ..Passage::whole(TextKind::Reply, text)
        };
        let likeness = Likeness::of(&passage);
        assert!(likeness.print > 0);
        assert_eq!(Likeness::unpack(likeness.pack()), likeness);
        let traits = Traits::unpack(Traits::of(&passage, 70_000, 20_000 * DAY + 1).pack());
        assert_eq!((traits.kind(), traits.day()), (TextKind::Reply, 20_000));
        let Sort { kind, is_side, worth } = Sort::of(traits.sort());
        assert_eq!((kind, is_side, worth.to_string().as_str()), (TextKind::Reply, true, "1"));
    }

    #[test]
    fn passages_of_one_text_have_one_mark() {
        let mark = |kind, position, text: &str| {
            Traits::of(&Passage::whole(kind, text), position, position as i64 * DAY).mark()
        };
        let one = mark(TextKind::Reply, 70_000, "the first");
        assert_eq!(one, mark(TextKind::Reply, 70_000, &"the second is long\n".repeat(99)));
        assert_ne!(one, mark(TextKind::Reply, 70_001, "the first"));
        assert_ne!(one, mark(TextKind::Prompt, 70_000, "the first"));
    }

    #[test]
    fn a_time_out_of_the_ordinary_has_a_day() {
        assert_eq!((day(-1), day(0), day(DAY), day(i64::MAX)), (0, 0, 1, u16::MAX));
    }

    #[test]
    fn texts_that_differ_in_numbers_only_have_one_print() {
        let one = print("Tests passed in 12.4 s, 240 of 240 suites, exit code 0, all done");
        assert_eq!(one, print("Tests passed in 9.1 s,  31 of 31 suites, exit code 0, all done"));
        assert_ne!(one, print("Tests failed in 12.4 s, 240 of 240 suites, exit code 0, all done"));
        assert_eq!((print("yes"), print("12345")), (0, 0));
    }

    #[test]
    fn digits_are_left_out_wherever_they_stand() {
        for line in ["", "1", "abcdefgh", "12345678", "at 09:01:17 é9/:", "0123456789abcdef0a"] {
            let mut plain = [0; 96];
            let length = without_digits(line.as_bytes(), &mut plain);
            let expected: Vec<u8> = line.bytes().filter(|byte| !byte.is_ascii_digit()).collect();
            assert_eq!(plain[..length], expected);
        }
        let every: Vec<u8> = (0..=255).collect();
        for piece in every.chunks(16) {
            let mut plain = [0; 96];
            let length = without_digits(piece, &mut plain);
            assert!(plain[..length].iter().all(|byte| !byte.is_ascii_digit()));
            let digits = piece.iter().filter(|byte| byte.is_ascii_digit()).count();
            assert_eq!(length, piece.len() - digits);
        }
    }

    #[test]
    fn logs_are_worth_less_than_what_is_said_once() {
        let lines =
            |line: &dyn Fn(usize) -> String| (0..60).map(line).collect::<Vec<_>>().join("\n");
        let log =
            lines(&|at| format!("2026-03-02 09:01:{at:02} INFO worker {at} polled the queue"));
        let prose = lines(&|at| format!("Step {}: {} then", "x".repeat(at), "y".repeat(60 - at)));
        let worth = |text: &str| {
            let passage = Passage::whole(TextKind::ToolOutput, text);
            Sort::of(Traits::of(&passage, 0, 0).sort()).worth
        };
        assert!(worth(&log) < 0.5, "{}", worth(&log));
        assert!(worth(&prose) > 0.9, "{}", worth(&prose));
        assert!((worth("short") - 1.0).abs() < f32::EPSILON);
    }
}
