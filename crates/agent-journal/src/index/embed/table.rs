//! The built-in embedder: a table of token vectors, specified in `model/FORMAT.md`. The vector of a
//! text is the weighted sum of the rows of its tokens.

use std::cell::RefCell;
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use super::tokens::{Cutter, is_ideograph};
use super::{Embedder, normalise};

/// The table, and an id with the first bytes of its SHA-256: only vectors of the same table can be
/// compared.
static MODEL: &[u8] = include_bytes!("../../../model/embed-v1.bin");
const ID: &str = "embed-v1-25742955eccb4390";

const MAGIC: &[u8] = b"AJEMBED\0";
const VERSION: u32 = 1;
const HEADER: usize = 32;

/// The maximum length of a token with grams, in characters.
const MAX_GRAM_TOKEN: usize = 32;

static BUILTIN: LazyLock<Table<'static>> = LazyLock::new(|| {
    Table::parse(MODEL).expect("the table in the program has the format the program reads")
});

thread_local! {
    static COUNTS: RefCell<Counts> = RefCell::default();
    static ADDENDS: RefCell<Addends> = const { RefCell::new(Vec::new()) };
}

/// Rows to be added up, with their weights.
type Addends = Vec<(u32, f32)>;

/// A table of token vectors.
pub(crate) struct Table<'m> {
    dimensions: usize,
    buckets: u64,
    /// The words, each terminated by a line feed, and the offset of each.
    vocabulary: &'m [u8],
    begins: Vec<u32>,
    /// A hash table of the words, with open addressing.
    slots: Vec<Slot>,
    /// The scale of each row: words first, then buckets.
    scales: Vec<f32>,
    rows: &'m [u8],
}

/// A slot for a word: the upper bits of its hash, and its row below them. Words are not compared: a
/// collision of so many bits is too improbable to occur.
type Slot = u64;

/// The maximum number of words of a table; the last value marks a free slot.
const MAX_WORDS: usize = u16::MAX as usize;
const FREE: Slot = MAX_WORDS as u64;

/// The tokens of a text, collected and then counted.
#[derive(Default)]
pub(super) struct Counts {
    cutter: Cutter,
    /// Rows of the words in the vocabulary, as they occur.
    known: Vec<u32>,
    /// Hashes of the other tokens, and the ranges of their texts.
    unknown: Vec<(u64, u32, u32)>,
    texts: Vec<u8>,
}

/// A distinct token of a text.
pub(super) enum Counted<'a> {
    /// A word of the vocabulary, by its row.
    Known(u32),
    /// A token that is not in the vocabulary.
    Unknown(&'a [u8]),
}

impl Table<'static> {
    /// Returns the built-in table, which is parsed at the first use.
    pub(crate) fn builtin() -> &'static Self {
        &BUILTIN
    }
}

impl<'m> Table<'m> {
    /// Parses a table; returns `None` when it has another format.
    fn parse(model: &'m [u8]) -> Option<Self> {
        let field = |at: usize| {
            let bytes = model.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        if !model.starts_with(MAGIC) || field(8)? != VERSION {
            return None;
        }
        let dimensions = field(12)? as usize;
        let (words, buckets) = (field(16)? as usize, field(20)? as usize);
        let rows = words + buckets;
        let (vocabulary, rest) = model.get(HEADER..)?.split_at_checked(field(24)? as usize)?;
        let (scales, table) = rest.split_at_checked(rows * 4)?;
        if buckets == 0 || words > MAX_WORDS || table.len() != rows * dimensions {
            return None;
        }
        let line_ends = memchr::memchr_iter(b'\n', vocabulary).map(|at| at as u32 + 1);
        let begins: Vec<u32> = std::iter::once(0).chain(line_ends).take(words + 1).collect();
        if begins.len() != words + 1 {
            return None;
        }
        let mut table = Self {
            dimensions,
            buckets: buckets as u64,
            vocabulary,
            begins,
            slots: vec![FREE; (words * 2).next_power_of_two()],
            scales: scales.as_chunks().0.iter().map(|scale| f32::from_le_bytes(*scale)).collect(),
            rows: table,
        };
        table.fill(words as u32);
        Some(table)
    }

    fn fill(&mut self, words: u32) {
        for row in 0..words {
            let hash = xxh3_64(self.word(row));
            let mut at = self.first_slot(hash);
            while self.slots[at] != FREE {
                at = self.next_slot(at);
            }
            self.slots[at] = tag(hash) | u64::from(row);
        }
    }

    fn first_slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn next_slot(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Returns the number of words in the vocabulary.
    pub(super) fn words(&self) -> usize {
        self.begins.len() - 1
    }

    /// Returns a word of the vocabulary. The first are the most common.
    pub(super) fn word(&self, row: u32) -> &[u8] {
        let row = row as usize;
        &self.vocabulary[self.begins[row] as usize..self.begins[row + 1] as usize - 1]
    }

    /// Returns the row of the word with a hash.
    fn find(&self, hash: u64) -> Option<u32> {
        let mut at = self.first_slot(hash);
        loop {
            let slot = self.slots[at];
            if slot == FREE {
                return None;
            }
            if tag(slot) == tag(hash) {
                return Some(u32::from(slot as u16));
            }
            at = self.next_slot(at);
        }
    }

    /// Calls `found` with every distinct token of a text and its weight.
    pub(super) fn count(&self, text: &str, found: &mut impl FnMut(Counted<'_>, f32)) {
        COUNTS.with_borrow_mut(|counts| {
            counts.collect_tokens(self, text);
            counts.known.sort_unstable();
            for same in counts.known.chunk_by(|one, other| one == other) {
                found(Counted::Known(same[0]), weight(same.len()));
            }
            counts.unknown.sort_unstable();
            for same in counts.unknown.chunk_by(|one, other| one.0 == other.0) {
                let (_, from, to) = same[0];
                let token = &counts.texts[from as usize..to as usize];
                found(Counted::Unknown(token), weight(same.len()));
            }
        });
    }

    /// Adds up weighted rows, with the widest instructions of the processor.
    fn sum(&self, addends: &mut Addends, into: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "half of the time: bytes become numbers many at once")]
        // SAFETY: the processor has the instructions.
        unsafe {
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                return self.sum_widest(addends, into);
            }
            if is_x86_feature_detected!("avx2") {
                return self.sum_wide(addends, into);
            }
        }
        self.sum_in_fours(addends, into);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn sum_widest(&self, addends: &mut Addends, into: &mut [f32]) {
        self.sum_in_fours(addends, into);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sum_wide(&self, addends: &mut Addends, into: &mut [f32]) {
        self.sum_in_fours(addends, into);
    }

    /// Adds four rows at a time: the sums are read and written less often.
    #[expect(clippy::inline_always, reason = "compiled once for each set of instructions")]
    #[inline(always)]
    fn sum_in_fours(&self, addends: &mut Addends, into: &mut [f32]) {
        addends.resize(addends.len().next_multiple_of(4), (0, 0.0));
        for four in addends.as_chunks::<4>().0 {
            let weights = four.map(|(row, weight)| weight * self.scales[row as usize]);
            let [one, two, three, four] = four.map(|(row, _)| self.row(row));
            let rows = one.iter().zip(two).zip(three.iter().zip(four));
            for (sum, ((one, two), (three, four))) in into.iter_mut().zip(rows) {
                *sum += weights[0] * f32::from(*one as i8)
                    + weights[1] * f32::from(*two as i8)
                    + weights[2] * f32::from(*three as i8)
                    + weights[3] * f32::from(*four as i8);
            }
        }
    }

    fn row(&self, row: u32) -> &[u8] {
        &self.rows[row as usize * self.dimensions..][..self.dimensions]
    }

    /// Adds the rows of a token's grams, which together have the weight of one word.
    fn list_grams(&self, token: &[u8], weight: f32, addends: &mut Addends) {
        let before = addends.len();
        let buckets = self.words() as u32;
        grams(token, &mut |hash| addends.push((buckets + (hash % self.buckets) as u32, 0.0)));
        let grams = &mut addends[before..];
        let weight = weight / (grams.len() as f32).sqrt();
        for gram in grams {
            gram.1 = weight;
        }
    }
}

impl Embedder for Table<'_> {
    fn id(&self) -> &str {
        ID
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, text: &str, into: &mut [f32]) -> bool {
        into.fill(0.0);
        ADDENDS.with_borrow_mut(|addends| {
            addends.clear();
            self.count(text, &mut |token, weight| match token {
                Counted::Known(row) => addends.push((row, weight)),
                Counted::Unknown(token) => self.list_grams(token, weight, addends),
            });
            self.sum(addends, into);
        });
        normalise(into)
    }
}

/// Parses a table and embeds a text with it, for fuzz tests; returns `None` when the bytes are not
/// a table.
#[doc(hidden)]
pub fn embed_by(model: &[u8], text: &str) -> Option<Vec<f32>> {
    let table = Table::parse(model)?;
    let mut vector = vec![0.0; table.dimensions];
    table.embed(text, &mut vector);
    Some(vector)
}

impl Counts {
    fn collect_tokens(&mut self, table: &Table<'_>, text: &str) {
        let Self { cutter, known, unknown, texts } = self;
        known.clear();
        unknown.clear();
        texts.clear();
        cutter.cut(text, &mut |token| {
            let hash = xxh3_64(token.text);
            match table.find(hash) {
                Some(row) => known.push(row),
                None if token.joined => {}
                None => {
                    let from = texts.len() as u32;
                    texts.extend_from_slice(token.text);
                    unknown.push((hash, from, texts.len() as u32));
                }
            }
        });
    }
}

/// Returns the bits of a hash that a slot keeps.
fn tag(hash: u64) -> u64 {
    hash & !(MAX_WORDS as u64)
}

/// Returns the weight of a token that occurs `count` times.
fn weight(count: usize) -> f32 {
    if count == 1 { 1.0 } else { 1.0 + (count as f32).ln() }
}

/// Calls `found` with the hashes of a token's grams of three, four and five characters.
fn grams(token: &[u8], found: &mut impl FnMut(u64)) {
    let text = std::str::from_utf8(token).unwrap_or_default();
    if text.chars().next().is_none_or(is_ideograph) {
        return found(fnv1a(START, token));
    }
    let characters = if text.is_ascii() { text.len() } else { text.chars().count() };
    if !(2..=MAX_GRAM_TOKEN).contains(&characters) || token.iter().all(u8::is_ascii_digit) {
        return;
    }
    let mut fenced = [0; MAX_GRAM_TOKEN * 4 + 2];
    fenced[0] = b'<';
    fenced[1..=token.len()].copy_from_slice(token);
    fenced[token.len() + 1] = b'>';
    let fenced = &fenced[..token.len() + 2];
    for start in (0..fenced.len()).filter(|at| is_boundary(fenced, *at)) {
        let (mut hash, mut length) = (START, 0);
        for at in start..fenced.len() {
            hash = fnv1a(hash, &fenced[at..=at]);
            length += usize::from(is_boundary(fenced, at + 1));
            if length > 2 && is_boundary(fenced, at + 1) {
                found(hash);
            }
            if length == 5 {
                break;
            }
        }
    }
}

/// Returns whether a character begins, or the text ends, at an offset.
fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

pub(super) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues an FNV-1a hash.
pub(super) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        sha256: String,
        bytes: usize,
        tolerance: f32,
        fnv1a64: Vec<Hashed>,
        vectors: Vec<Embedded>,
        cosines: Vec<Pair>,
    }

    #[derive(Deserialize)]
    struct Hashed {
        text: String,
        hash: String,
    }

    #[derive(Deserialize)]
    struct Embedded {
        text: String,
        tokens: Vec<String>,
        first8: Vec<f32>,
    }

    #[derive(Deserialize)]
    struct Pair {
        a: String,
        b: String,
        cosine: f32,
    }

    fn golden() -> Golden {
        serde_json::from_str(include_str!("../../../model/golden.json")).unwrap()
    }

    fn embed(text: &str) -> Vec<f32> {
        let mut vector = vec![1.0; Table::builtin().dimensions()];
        let found = Table::builtin().embed(text, &mut vector);
        assert_eq!(found, vector.iter().any(|value| *value != 0.0), "{text}");
        vector
    }

    #[test]
    fn the_table_is_the_one_its_id_names() {
        let golden = golden();
        assert_eq!(MODEL.len(), golden.bytes);
        assert_eq!(ID, format!("embed-v1-{}", &golden.sha256[..16]));
        assert_eq!(xxh3_64(MODEL), 9_553_720_689_213_028_841);
    }

    #[test]
    fn golden_tokens_and_hashes_are_reproduced() {
        for case in golden().vectors {
            let mut tokens = Vec::new();
            Cutter::default().cut(&case.text, &mut |token| {
                let star = if token.joined { "*" } else { "" };
                tokens.push(format!("{star}{}", std::str::from_utf8(token.text).unwrap()));
            });
            assert_eq!(tokens, case.tokens, "{}", case.text);
        }
        for case in golden().fnv1a64 {
            assert_eq!(format!("{:016x}", fnv1a(START, case.text.as_bytes())), case.hash);
        }
    }

    #[test]
    fn golden_vectors_and_cosines_are_reproduced() {
        let golden = golden();
        for case in golden.vectors {
            for (found, expected) in embed(&case.text).iter().zip(&case.first8) {
                assert!((found - expected).abs() < golden.tolerance, "{}", case.text);
            }
        }
        for Pair { a, b, cosine } in golden.cosines {
            let found: f32 = embed(&a).iter().zip(embed(&b)).map(|(a, b)| a * b).sum();
            assert!((found - cosine).abs() < golden.tolerance, "{a} / {b}: {found}");
        }
    }

    #[test]
    fn a_file_of_another_format_is_refused() {
        assert!(Table::parse(&MODEL[..MODEL.len() - 1]).is_none());
        assert!(Table::parse(&MODEL[1..]).is_none());
        assert!(Table::parse(b"AJEMBED\0\x02\0\0\0").is_none());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the functions are called as the program does")]
    fn every_processor_comes_to_the_same_sum() {
        let table = Table::builtin();
        let sum = |add: &dyn Fn(&mut Addends, &mut [f32])| {
            let rows = (0..37).map(|at| at * 811 % table.words() as u32);
            let mut addends = rows.zip((1..).map(|n| n as f32 / 7.0)).collect();
            let mut into = vec![0.25; table.dimensions];
            add(&mut addends, &mut into);
            into
        };
        let plain = sum(&|addends, into| table.sum_in_fours(addends, into));
        assert!(plain.iter().any(|sum| *sum > 1.0));
        // SAFETY: only instructions that the processor has are used.
        unsafe {
            if is_x86_feature_detected!("avx2") {
                assert_eq!(sum(&|addends, into| table.sum_wide(addends, into)), plain);
            }
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                assert_eq!(sum(&|addends, into| table.sum_widest(addends, into)), plain);
            }
        }
    }
}
