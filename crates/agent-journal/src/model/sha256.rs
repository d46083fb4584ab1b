//! SHA-256, as far as directories named after the hash of a path ask for it. Nothing is kept safe
//! with it.

use std::sync::LazyLock;

/// What a hash is made with, and what it begins with.
static CONSTANTS: LazyLock<([u32; 64], [u32; 8])> =
    LazyLock::new(|| (fractions(f64::cbrt), fractions(f64::sqrt)));

/// Hashes a text and writes the hash in hexadecimal digits.
pub fn hex(text: &str) -> String {
    let mut message = text.as_bytes().to_vec();
    let bits = message.len() as u64 * 8;
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&bits.to_be_bytes());
    let (constants, mut state) = *CONSTANTS;
    for block in message.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    let digit = |word: u32, at: u32| char::from_digit(word >> (28 - 4 * at) & 15, 16);
    state.iter().flat_map(|word| (0..8).filter_map(move |at| digit(*word, at))).collect()
}

/// The first 32 bits behind the point of the roots of the first primes: the standard's constants.
fn fractions<const N: usize>(root: fn(f64) -> f64) -> [u32; N] {
    let is_prime = |number: &u32| (2..*number).all(|factor| !number.is_multiple_of(factor));
    let mut primes = (2..).filter(is_prime);
    std::array::from_fn(|_| {
        let prime = primes.next().map_or(0.0, f64::from);
        (root(prime).fract() * 4_294_967_296.0) as u32
    })
}

#[expect(clippy::many_single_char_names, reason = "the standard's own names")]
fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        words[at] = words[at - 16]
            .wrapping_add(early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3))
            .wrapping_add(words[at - 7])
            .wrapping_add(late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10));
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(constants) {
        let choice = (e & f) ^ (!e & g);
        let first = h
            .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
            .wrapping_add(choice)
            .wrapping_add(*constant)
            .wrapping_add(*word);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second =
            (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standard_give_the_hashes_it_names() {
        let check = |text: &str, expected: &str| assert_eq!(hex(text), expected, "{text}");
        check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        );
        check(
            &"a".repeat(1000),
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
        );
    }
}
