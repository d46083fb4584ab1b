//! The properties of a passage beside its words, packed into two columns of the index: one for
//! ranking, which is read for every match, and one that is read for the best matches only.

use xxhash_rust::xxh3::xxh3_64;

use super::Passage;
use crate::filter::TextKind;

/// The maximum length of a short text in bytes: it was written by a person or a model, not printed
/// by a program.
const SHORT: usize = 600;

/// The maximum length of a typed prompt in bytes: a longer one was mostly pasted.
const LONG_PROMPT: usize = 4096;

/// The minimum number of letters for a fingerprint: shorter texts are equal by chance.
const SMALLEST_PRINT: usize = 32;

/// The maximum number of letters that a fingerprint covers.
const LARGEST_PRINT: usize = 1024;

/// The milliseconds of a day.
const DAY: i64 = 86_400_000;

/// The properties by which a passage is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankKey(u64);

/// The number of combinations of kind, weight and side: see `RankKey::class_index`.
pub(crate) const PASSAGE_CLASSES: usize = 256;

impl RankKey {
    pub(crate) fn of(passage: &Passage<'_>, position: u64, at: i64) -> Self {
        let Passage { kind, text, is_side, .. } = *passage;
        let sort = kind as u64 | u64::from(is_side) << 3 | u64::from(worth(kind, text)) << 4;
        // Days are in the highest bits: the column stores only as many bits as they differ in.
        Self(sort | (position & 0x1fff) << 8 | u64::from(day(at)) << 21)
    }

    pub(crate) fn pack(self) -> u64 {
        self.0
    }

    pub(crate) fn unpack(number: u64) -> Self {
        Self(number)
    }

    /// Returns every property for ranking but the time, below `PASSAGE_CLASSES`.
    pub(crate) fn class_index(self) -> usize {
        (self.0 & 0xff) as usize
    }

    pub(crate) fn kind(self) -> TextKind {
        kind_of(self.class_index())
    }

    /// Returns a tag that passages of one text share; other texts rarely have the same.
    pub(crate) fn message_tag(self) -> u16 {
        (self.0 >> 5) as u16 & !7 | self.0 as u16 & 7
    }

    /// Returns the day of recording.
    pub(crate) fn day(self) -> u16 {
        (self.0 >> 21) as u16
    }
}

/// The common properties of all passages of a class.
pub(crate) struct PassageClass {
    pub(crate) kind: TextKind,
    /// Whether they are part of a side conversation.
    pub(crate) is_side: bool,
    /// The score factor in addition to that of the kind.
    pub(crate) worth: f32,
}

impl PassageClass {
    pub(crate) fn of(number: usize) -> Self {
        let worth = (number >> 4 & 15) as f32;
        Self { kind: kind_of(number), is_side: number >> 3 & 1 == 1, worth: (worth + 1.0) / 16.0 }
    }
}

fn kind_of(sort: usize) -> TextKind {
    TextKind::ALL[(sort & 7).min(TextKind::ALL.len() - 1)]
}

/// Returns the day of a time in milliseconds.
pub(crate) fn day(at: i64) -> u16 {
    u16::try_from(at.max(0) / DAY).unwrap_or(u16::MAX)
}

/// The properties of a passage that ranking does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassageFingerprint {
    /// The tool, by `tool_number`.
    pub(crate) tool: u16,
    /// A hash that texts share if they differ in numbers and spaces only; 0 for short ones.
    pub(crate) fingerprint: u32,
    /// Whether the passage reports a failure.
    pub(crate) is_failed: bool,
}

impl PassageFingerprint {
    pub(crate) fn of(passage: &Passage<'_>) -> Self {
        Self {
            tool: passage.tool,
            fingerprint: fingerprint(passage.text),
            is_failed: passage.is_failed,
        }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.tool) | u64::from(self.fingerprint) << 16 | u64::from(self.is_failed) << 48
    }

    pub(crate) fn unpack(number: u64) -> Self {
        Self {
            tool: number as u16,
            fingerprint: (number >> 16) as u32,
            is_failed: number >> 48 & 1 == 1,
        }
    }
}

/// Returns the weight of a text from 0 to 15. Logs repeat similar lines: they count for less than
/// other texts.
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
    // More lines than slots cannot all be different.
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

/// Copies all bytes but the digits, which are what differs between the lines of a log; returns the
/// number of copied bytes. Most of a line has no digits: eight bytes are checked at a time.
fn without_digits(line: &[u8], plain: &mut [u8; 96]) -> usize {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    let mut length = 0;
    let (words, rest) = line.as_chunks::<8>();
    for word in words {
        // A digit is less than ten above `0`: adding 128 - 10 leaves its top bit clear.
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

/// Returns whether a line begins like a line of a log: with a time.
fn is_stamped(line: &[u8]) -> bool {
    let begin = &line[..line.len().min(20)];
    let digits = begin.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits >= 6 && begin.contains(&b':')
}

/// The lower case of every byte that is a letter, or part of one; zero for the others.
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

/// Returns a hash that texts share if they differ in numbers, case and spaces only.
fn fingerprint(text: &str) -> u32 {
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
    // Of two texts with the same beginning, the longer one has more content.
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
        let likeness = PassageFingerprint::of(&passage);
        assert!(likeness.fingerprint > 0);
        assert_eq!(PassageFingerprint::unpack(likeness.pack()), likeness);
        let rank_key = RankKey::unpack(RankKey::of(&passage, 70_000, 20_000 * DAY + 1).pack());
        assert_eq!((rank_key.kind(), rank_key.day()), (TextKind::Reply, 20_000));
        let PassageClass { kind, is_side, worth } = PassageClass::of(rank_key.class_index());
        assert_eq!((kind, is_side, worth.to_string().as_str()), (TextKind::Reply, true, "1"));
    }

    #[test]
    fn passages_of_one_text_have_one_mark() {
        let mark = |kind, position, text: &str| {
            RankKey::of(&Passage::whole(kind, text), position, position as i64 * DAY).message_tag()
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
        let one = fingerprint("Tests passed in 12.4 s, 240 of 240 suites, exit code 0, all done");
        assert_eq!(
            one,
            fingerprint("Tests passed in 9.1 s,  31 of 31 suites, exit code 0, all done")
        );
        assert_ne!(
            one,
            fingerprint("Tests failed in 12.4 s, 240 of 240 suites, exit code 0, all done")
        );
        assert_eq!((fingerprint("yes"), fingerprint("12345")), (0, 0));
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
            PassageClass::of(RankKey::of(&passage, 0, 0).class_index()).worth
        };
        assert!(worth(&log) < 0.5, "{}", worth(&log));
        assert!(worth(&prose) > 0.9, "{}", worth(&prose));
        assert!((worth("short") - 1.0).abs() < f32::EPSILON);
    }
}
