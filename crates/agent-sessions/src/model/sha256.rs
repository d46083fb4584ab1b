//! SHA-256, for directories that agents name after the hash of a path. It is not used for security.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 hash of a text in hexadecimal digits.
pub fn sha256_hex(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standard_give_the_hashes_it_names() {
        let check = |text: &str, expected: &str| assert_eq!(sha256_hex(text), expected, "{text}");
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
