//! What a passage is beside its words, in one number of the index: enough to choose and weigh it
//! without reading its text.

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

/// What a passage is beside its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) kind: TextKind,
    /// Whether it is part of a side conversation.
    pub(crate) is_side: bool,
    /// How much of it is said only once, in sixteenths less one.
    worth: u8,
    /// The tool, by `tool_number`.
    pub(crate) tool: u16,
    /// The same for texts that differ in numbers and spaces only; 0 for short ones.
    pub(crate) print: u32,
}

impl Traits {
    pub(crate) fn of(passage: &Passage<'_>) -> Self {
        let Passage { kind, text, is_side, tool } = *passage;
        Self { kind, is_side, worth: worth(kind, text), tool, print: print(text) }
    }

    pub(crate) fn pack(self) -> u64 {
        self.kind as u64
            | u64::from(self.is_side) << 3
            | u64::from(self.worth) << 4
            | u64::from(self.tool) << 8
            | u64::from(self.print) << 24
    }

    pub(crate) fn unpack(number: u64) -> Self {
        let kind = (number & 7) as usize;
        Self {
            kind: TextKind::ALL[kind.min(TextKind::ALL.len() - 1)],
            is_side: number >> 3 & 1 == 1,
            worth: (number >> 4 & 15) as u8,
            tool: (number >> 8) as u16,
            print: (number >> 24) as u32,
        }
    }

    /// What a match in it counts, beside its kind.
    pub(crate) fn worth(self) -> f32 {
        f32::from(self.worth + 1) / 16.0
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
    let rows = text.as_bytes().split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    for line in rows.filter(|line| !line.is_empty()) {
        lines += 1;
        stamped += u32::from(is_stamped(line));
        // Numbers are what differs between the lines of a log.
        let mut length = 0;
        for byte in &line[..line.len().min(plain.len())] {
            plain[length] = *byte;
            length += usize::from(!byte.is_ascii_digit());
        }
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

/// Whether a line begins as those of logs do: with a time, or a bracket.
fn is_stamped(line: &[u8]) -> bool {
    let begin = &line[..line.len().min(20)];
    let digits = begin.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits >= 6 && begin.contains(&b':')
}

/// A number that texts share which differ in numbers, case and spaces only.
fn print(text: &str) -> u32 {
    let mut letters = [0; LARGEST_PRINT + 8];
    let mut count = 0;
    for byte in text.bytes() {
        if count == LARGEST_PRINT {
            break;
        }
        letters[count] = byte.to_ascii_lowercase();
        count += usize::from(byte.is_ascii_alphabetic() || !byte.is_ascii());
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
        let passage =
            Passage { is_side: true, tool: 0xbeef, ..Passage::whole(TextKind::Reply, text) };
        let traits = Traits::of(&passage);
        assert!(traits.print > 0);
        assert_eq!(Traits::unpack(traits.pack()), traits);
    }

    #[test]
    fn texts_that_differ_in_numbers_only_have_one_print() {
        let one = print("Tests passed in 12.4 s, 240 of 240 suites, exit code 0, all done");
        assert_eq!(one, print("Tests passed in 9.1 s,  31 of 31 suites, exit code 0, all done"));
        assert_ne!(one, print("Tests failed in 12.4 s, 240 of 240 suites, exit code 0, all done"));
        assert_eq!((print("yes"), print("12345")), (0, 0));
    }

    #[test]
    fn logs_are_worth_less_than_what_is_said_once() {
        let lines =
            |line: &dyn Fn(usize) -> String| (0..60).map(line).collect::<Vec<_>>().join("\n");
        let log =
            lines(&|at| format!("2026-03-02 09:01:{at:02} INFO worker {at} polled the queue"));
        let prose = lines(&|at| format!("Step {}: {} then", "x".repeat(at), "y".repeat(60 - at)));
        let worth = |text: &str| Traits::of(&Passage::whole(TextKind::ToolOutput, text)).worth();
        assert!(worth(&log) < 0.5, "{}", worth(&log));
        assert!(worth(&prose) > 0.9, "{}", worth(&prose));
        assert!((worth("short") - 1.0).abs() < f32::EPSILON);
    }
}
