//! A smoke run of every fuzz target: inputs made from the fixtures, mutated the same way in every
//! run. `AJ_FUZZ=5000` tries more of them; `AJ_FUZZ_CORPUS=fuzz/corpus` writes the seeds there for
//! `cargo fuzz run`, and beside them a dictionary of the words that formats give a meaning.

#[path = "../../../fuzz/targets.rs"]
#[allow(clippy::pedantic, missing_docs, unreachable_pub, reason = "test support")]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many inputs each target gets, unless `AJ_FUZZ` says otherwise.
const INPUTS: usize = 150;

/// No input grows beyond this: a run is bounded in time by its number of inputs.
const LONGEST: usize = 64 << 10;

/// Pieces that formats and the query language give a meaning.
const PIECES: &[&[u8]] = &[
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[[[[",
    b"]",
    b":",
    b",",
    b"\n",
    b"\r\n",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"2026-02-30T25:61:61Z",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\0",
    b"```",
    b"</script>",
    b"<!--",
    b"|",
    b"(",
    b")",
    b"/(a*)*/",
    b"-",
    b"*",
    b"agent:",
    b"since:",
    b"OR ",
    b"\xf0\x9f\xa6\x80",
    b"\xe2\x80\xae",
];

/// Questions as people ask them, and worse.
const QUESTIONS: &[&str] = &[
    "flaky login test",
    "\"copper lattice\" -draft agent:x since:7d",
    "tool:bash error:true OR (fix* /a{1,3}b?/ -\"not this\")",
    "project:web branch:main before:2026-01-01 after:yesterday model:*",
    "/[[:alpha:]]+\\d{2,}/ file:src/*.rs cost:>1 tokens:<5k",
    "((((a OR b)))) --- \"unfinished",
    "-(-(-(-(a OR NOT b) /((((x))))/) c*) NOT (d OR -e)",
    "日本語 naïve ÀÉ 🦀 path/to/file.rs:12 camelCaseName",
];

/// Numbers that look random and are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    /// A few changes to a seed, after the bytes that pick what it is for.
    fn mutate(&mut self, seed: &[u8], fixed: usize) -> Vec<u8> {
        let mut bytes = seed[..seed.len().min(LONGEST)].to_vec();
        for _ in 0..=self.below(4) {
            let fixed = fixed.min(bytes.len());
            let at = fixed + self.below(bytes.len() - fixed);
            let end = (at + self.below(64)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                _ => {
                    let piece = PIECES[self.below(PIECES.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
        }
        bytes
    }
}

/// What a target begins with, and how many bytes of each pick what the rest is for.
fn seeds(target: &str) -> (Vec<Vec<u8>>, usize) {
    let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        "connectors" => (targets::HOMES.lock().unwrap().seeds(), 2),
        "query" => (texts(QUESTIONS), 0),
        "import" => (texts(&[include_str!("export/example.json"), "{}\n{}", ""]), 0),
        "writers" => {
            let page = include_str!("export/whole-session.md").replace("\n\n", "\0\x01");
            let call = "agent\0id\0/home\0\x03Edit\n{\"file_path\":\"a.rs\",\"old_string\":\"a\"}\0\x04Bash\nout";
            (texts(&[&page, call, "a\0b\0c\0\x01# x\n|a|b|\n|-|-|\n[x](y)\0\x02why"]), 0)
        }
        "files" => {
            let damages = |pick: u8| [&[pick][..], &[7; 5], &[1, 4, 0, 0, 255]].concat();
            ([0, 1, 0x80, 0x81].map(damages).to_vec(), 1)
        }
        _ => {
            let table = include_bytes!("../model/embed-v1.bin");
            (vec![tiny_table(), table[..4096].to_vec()], 0)
        }
    }
}

/// A table of two words and one bucket, two numbers each.
fn tiny_table() -> Vec<u8> {
    let mut bytes = b"AJEMBED\0".to_vec();
    for field in [1_u32, 2, 2, 1, 6, 0] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(b"aj\nto\n");
    for scale in [0.5_f32, 0.25, 0.125] {
        bytes.extend_from_slice(&scale.to_le_bytes());
    }
    bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6]);
    bytes
}

#[test]
fn no_target_panics_on_its_seeds_or_on_mutations_of_them() {
    let inputs = std::env::var("AJ_FUZZ").map_or(INPUTS, |count| count.parse().unwrap());
    for (name, target) in targets::TARGETS {
        let (seeds, fixed) = seeds(name);
        for seed in &seeds {
            target(seed);
        }
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for number in 0..inputs {
            let seed = &seeds[numbers.below(seeds.len())];
            let input = numbers.mutate(seed, fixed);
            let outcome = std::panic::catch_unwind(|| target(&input));
            assert!(outcome.is_ok(), "{name}: input {number} panics: {}", input.escape_ascii());
        }
        println!("{name}: {} seeds, {inputs} mutations", seeds.len());
        if let Ok(corpus) = std::env::var("AJ_FUZZ_CORPUS") {
            leave(&Path::new(&corpus).join(name), &seeds);
        }
    }
}

/// Pieces of queries.
const WORDS: &[&str] = &[
    "(",
    "-(",
    "NOT (",
    ")",
    ") ",
    "OR ",
    "AND ",
    "NOT ",
    "a* ",
    "wo* ",
    "/a+b?/ ",
    "/(((x)))/i ",
    "\"some words\" ",
    "word ",
    "-word ",
    "camelCase.path/x_y ",
    "project:web ",
    "-agent:codex ",
    "since:7d ",
    "is:failed ",
    "(login OR x) ",
    "* ",
    "\"",
    "/",
    "日本 ",
    "\u{202e}",
];

#[test]
fn queries_as_long_and_deep_as_they_may_be_never_panic() {
    let inputs = std::env::var("AJ_FUZZ").map_or(INPUTS, |count| count.parse().unwrap());
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut understood = 0;
    for number in 0..inputs {
        // From queries that are mostly understood to those that are beyond every limit.
        let (mut query, length) = (String::new(), 1 + numbers.below(1 << (number % 14)));
        let depth = numbers.below(40) * (number % 2);
        query.push_str(&["(", "-(", "(x OR "][number % 3].repeat(depth));
        while query.len() < length {
            query.push_str(WORDS[numbers.below(WORDS.len())]);
        }
        query.push('x');
        query.push_str(&")".repeat(depth));
        understood += usize::from(targets::parse(&query).is_some());
        let outcome = std::panic::catch_unwind(|| targets::query(query.as_bytes()));
        assert!(outcome.is_ok(), "input {number} panics: {query}");
    }
    assert!(understood > inputs / 10, "{understood} of {inputs} were understood");
}

/// Writes seeds to a directory, and the words in them to a file beside it.
fn leave(corpus: &Path, seeds: &[Vec<u8>]) {
    fs::create_dir_all(corpus).unwrap();
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number:04}")), seed).unwrap();
    }
    let words = PIECES.iter().copied().chain(seeds.iter().flat_map(|seed| quoted(seed)));
    let words: BTreeSet<&[u8]> = words.collect();
    let line = |word: &[u8]| {
        let bytes: Vec<String> = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{}\"\n", bytes.concat())
    };
    let lines: String = words.into_iter().map(line).collect();
    fs::write(corpus.with_extension("dict"), lines).unwrap();
}

/// The names in JSON, and the short values that tell kinds apart.
fn quoted(seed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-/.".contains(byte);
    seed.split(|byte| *byte == b'"')
        .filter(move |word| (2..=24).contains(&word.len()) && word.iter().all(is_name))
        .filter(|word| word.iter().any(u8::is_ascii_alphabetic))
}

#[test]
fn the_tiny_table_is_a_table() {
    let vector = agent_journal::embed_by(&tiny_table(), "aj").unwrap();
    assert_eq!(vector.len(), 2);
    assert!(vector[1] > vector[0] && vector[0] > 0.0, "{vector:?}");
}
