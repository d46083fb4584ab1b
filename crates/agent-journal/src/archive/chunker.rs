//! Finds the ends of chunks from the content, so that a file that was rewritten shares the chunks
//! that did not change (`FastCDC` with two masks).

/// Minimum, usual and maximum size of a chunk. Smaller chunks would share more, but each one has
/// about 100 bytes in the catalogue.
const MIN_BYTES: usize = 12 << 10;
const USUAL_BYTES: usize = 32 << 10;
pub(super) const MAX_BYTES: usize = 128 << 10;

/// Masks for the hash: before the usual size a chunk ends rarely, behind it often.
const RARE: u64 = 0x0003_5907_0353_0000;
const OFTEN: u64 = 0x0000_d900_0353_0000;

/// A random number for each byte.
const GEAR: [u64; 256] = random_numbers();

const fn random_numbers() -> [u64; 256] {
    let mut numbers = [0; 256];
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        numbers[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    numbers
}

/// Returns the length of the first chunk of `bytes`; `None` if the chunk ends behind them.
pub(super) fn chunk_length(bytes: &[u8]) -> Option<usize> {
    let mut hash: u64 = 0;
    let end = bytes.len().min(MAX_BYTES);
    for (mask, from, to) in [(RARE, MIN_BYTES, USUAL_BYTES), (OFTEN, USUAL_BYTES, MAX_BYTES)] {
        let part = bytes.get(from..to.min(end))?;
        for (at, byte) in part.iter().enumerate() {
            hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
            if hash & mask == 0 {
                return Some(from + at + 1);
            }
        }
    }
    (bytes.len() >= MAX_BYTES).then_some(MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn chunks(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let length = chunk_length(bytes).unwrap_or(bytes.len());
            all.push(&bytes[..length]);
            bytes = &bytes[length..];
        }
        all
    }

    #[test]
    fn content_that_moved_has_the_same_chunks() {
        let content = noise(3 << 20);
        let before = chunks(&content);
        let usual = content.len() / before.len();
        assert!((USUAL_BYTES / 2..2 * USUAL_BYTES).contains(&usual), "{usual}");
        let moved = [b"something new ".as_slice(), &content].concat();
        let shared = chunks(&moved).iter().filter(|chunk| before.contains(chunk)).count();
        assert!(shared + 3 >= before.len(), "{shared} of {}", before.len());
    }

    #[test]
    fn chunks_have_bounded_sizes_whatever_the_content() {
        for content in [vec![0; 1 << 20], noise(1 << 20), b"ab".repeat(1 << 19)] {
            let all = chunks(&content);
            assert_eq!(all.concat(), content);
            let (_, most) = all.split_last().unwrap();
            assert!(most.iter().all(|one| (MIN_BYTES..=MAX_BYTES).contains(&one.len())));
        }
    }

    #[test]
    fn the_end_of_a_chunk_does_not_depend_on_what_follows() {
        let content = noise(1 << 20);
        let length = chunk_length(&content).unwrap();
        assert_eq!(chunk_length(&content[..length]), Some(length));
        assert_eq!(chunk_length(&content[..length - 1]), None);
    }
}
