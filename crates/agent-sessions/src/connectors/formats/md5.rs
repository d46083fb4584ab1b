//! MD5 (RFC 1321), with which some agents name the directory of a project after its path. It is
//! not used to protect anything.

/// Shift amounts, one per step in each of the four rounds.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Length of a block in bytes.
const BLOCK_BYTES: usize = 64;

/// Returns the MD5 of a text as hexadecimal digits.
pub fn md5_hex(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let length_in_bits = (bytes.len() as u64).wrapping_mul(8);
    bytes.push(0x80);
    while bytes.len() % BLOCK_BYTES != BLOCK_BYTES - 8 {
        bytes.push(0);
    }
    bytes.extend(length_in_bits.to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in bytes.as_chunks::<BLOCK_BYTES>().0 {
        add_block(&mut state, block);
    }
    let words = state.map(u32::swap_bytes);
    words.map(|word| format!("{word:08x}")).concat()
}

fn add_block(state: &mut [u32; 4], block: &[u8; BLOCK_BYTES]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (mixed, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(step_constant(step))
            .wrapping_add(words[word % words.len()]);
        let rotated = sum.rotate_left(SHIFTS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(added);
    }
}

/// Returns the constant of a step: the integer part of 2^32 times the sine of its number.
fn step_constant(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let check = |text: &str, expected: &str| assert_eq!(md5_hex(text), expected, "{text}");
        check("", "d41d8cd98f00b204e9800998ecf8427e");
        check("abc", "900150983cd24fb0d6963f7d28e17f72");
        check("message digest", "f96b697d7cb7938d525a2f31aaf161d0");
        let digits = "1234567890".repeat(8);
        check(&digits, "57edf4a22be3c955ac49da2e2107b67a");
    }
}
