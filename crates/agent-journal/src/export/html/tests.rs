//! The page's policy is true.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::page::{HASHES, SCRIPT, STYLE};
use crate::connectors::formats::sha256;

/// The hash as the policy writes it.
fn policy_hash(text: &str) -> String {
    let hex = sha256::sha256_hex(text);
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    STANDARD.encode(bytes.collect::<Result<Vec<u8>, _>>().unwrap())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "rewrites the expectation on request")]
fn the_policy_names_the_style_and_the_script_that_are_there() {
    let mut expected = String::new();
    for text in [STYLE, SCRIPT] {
        writeln!(expected, "{}", policy_hash(text)).unwrap();
    }
    if std::env::var_os("BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/export/html/hashes.txt");
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(HASHES, expected, "run the test with BLESS=1");
}
