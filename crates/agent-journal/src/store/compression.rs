//! Compresses chunks of messages. The first chunks of a journal train a dictionary, which makes the
//! later chunks smaller. Each chunk names the dictionary that it requires.

use std::cell::RefCell;
use std::io::Read;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use xxhash_rust::xxh3::xxh3_64;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{
    CCtx, CDict, DCtx, SafeResult, compress_bound, get_dict_id, get_dict_id_from_frame,
    get_frame_content_size,
};

/// The next higher level reduces the size by another 1 % and takes 25 % more time.
const LEVEL: i32 = 2;

/// With a dictionary, this level reduces the size by 5 % compared to the level below, for 20 % more
/// time.
const LEARNED_LEVEL: i32 = 3;

/// Maximum size of a dictionary. Twice the size gains another 3 %, but every read of a message also
/// reads the dictionary.
const MAX_DICTIONARY_BYTES: usize = 112 << 10;

/// Total size of the training data, and maximum part of each chunk.
const TRAINING_BYTES: usize = 3 << 20;
const MAX_SAMPLE_BYTES: usize = 64 << 10;

/// Size of the buffer behind the dictionary. A larger chunk is compressed without being copied.
const BUFFER_BYTES: usize = 256 << 10;

/// A chunk that declares a larger size is decompressed as a stream, because the declared size may
/// be wrong.
const MAX_BUFFERED_BYTES: u64 = 1 << 30;

/// A compression dictionary for chunks of messages.
pub(crate) struct Dictionary {
    pub(super) id: u32,
    /// Checksum of the bytes, to detect damage.
    pub(super) sum: i64,
    pub(super) bytes: Vec<u8>,
    unpacking: OnceLock<DecoderDictionary<'static>>,
}

impl Dictionary {
    /// Creates a dictionary from its bytes; returns `None` if they are not a dictionary.
    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        Some(Self::with(get_dict_id(&bytes)?.get(), bytes))
    }

    fn with(id: u32, bytes: Vec<u8>) -> Self {
        let sum = xxh3_64(&bytes).cast_signed();
        Self { id, sum, bytes, unpacking: OnceLock::new() }
    }

    fn learn(samples: &TrainingData) -> Option<Self> {
        let bytes =
            zstd::dict::from_continuous(&samples.bytes, &samples.sizes, MAX_DICTIONARY_BYTES)
                .ok()?;
        Self::new(bytes)
    }

    /// Compresses a chunk with an idle compressor of this dictionary, or with a new one.
    fn pack(&self, run: &[u8]) -> Vec<u8> {
        let compressors = || COMPRESSORS.lock().unwrap_or_else(PoisonError::into_inner);
        let free = compressors().extract_if(.., |compressor| compressor.sum == self.sum).next();
        let mut compressor = free.unwrap_or_else(|| Compressor::new(self));
        let packed = compressor.pack(run);
        compressors().push(compressor);
        packed
    }

    fn unpacking(&self) -> &DecoderDictionary<'static> {
        self.unpacking.get_or_init(|| DecoderDictionary::copy(&self.bytes))
    }
}

/// The dictionary for facts, which are short and similar to each other. It must never change,
/// because stored facts need it.
const FACTS: &[u8] = br#""first_command":"/clear","ends_failed":true,"synthetic":1,"images":1,
"nameless_answers":1,"agent_failures":[178],"todo","web_search","web_fetch","task","multi_edit",
"notebook_edit","edit_file","write_file","read_file","grep","glob","bash","/Users//src/index.ts":1,
"/lib.rs":1,"/main.py":1,"README.md":1},"models":{"-2025","first_prompt":"Please add the fix for
 the tests in ","ends_failed":false}{"messages":10,"prompts":1,"prompt_chars":100,"answers":[1,18],
"calls":[{"id":1,"tool":0,"quarter":198},{"id":2,"tool":1,"quarter":198}],"results":[1],"errors":[
{"id":1,"kind":9},{"id":2,"kind":1}],"tools":["bash","edit_file","read_file","grep"],
"prompt_quarters":{"198":[1,100]},"files":{"/home/dev/src/mod.rs":1},"models":{"-2025":1},"times":[
178,178],"first_prompt":""#;

static FACTS_PACKING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(FACTS, LEARNED_LEVEL));
static FACTS_UNPACKING: LazyLock<Dictionary> =
    LazyLock::new(|| Dictionary::with(0, FACTS.to_vec()));

/// Compresses the facts of a chunk.
pub(super) fn pack_facts(facts: &[u8]) -> Vec<u8> {
    let known = FACTS_PACKING.as_cdict();
    PACKER.with_borrow_mut(|packer| {
        packed(facts, |into| packer.compress_using_cdict(into, facts, known))
    })
}

/// Decompresses the facts of a chunk; returns `None` if they are damaged.
pub(super) fn unpack_facts(packed: &[u8]) -> Option<Vec<u8>> {
    unpack(packed, Some(&FACTS_UNPACKING))
}

/// Compresses chunks, on any number of threads.
pub(crate) struct ChunkCompressor {
    learnt: RwLock<Option<Arc<Dictionary>>>,
    /// Training data; `None` after the training.
    samples: Mutex<Option<TrainingData>>,
}

#[derive(Default)]
struct TrainingData {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl ChunkCompressor {
    /// Creates a compressor with a known dictionary, or one that will train a new dictionary.
    pub(super) fn new(known: Option<Arc<Dictionary>>) -> Self {
        let samples = known.is_none().then(TrainingData::default);
        Self { learnt: RwLock::new(known), samples: Mutex::new(samples) }
    }

    /// Compresses a chunk. Returns the result and the dictionary that it requires.
    pub(super) fn pack(&self, run: &[u8]) -> (Vec<u8>, Option<Arc<Dictionary>>) {
        let dictionary = self.learnt.read().unwrap_or_else(PoisonError::into_inner).clone();
        if dictionary.is_none() {
            self.learn(run);
        }
        let body = dictionary.as_ref().map_or_else(|| pack(run), |known| known.pack(run));
        (body, dictionary)
    }

    /// Adds a chunk to the training data and trains the dictionary once there is enough. Meanwhile
    /// other threads continue without a dictionary.
    fn learn(&self, run: &[u8]) {
        let enough = {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(all) = &mut *samples else { return };
            let sample = &run[..run.len().min(MAX_SAMPLE_BYTES)];
            all.bytes.extend_from_slice(sample);
            all.sizes.push(sample.len());
            if all.bytes.len() < TRAINING_BYTES {
                return;
            }
            samples.take()
        };
        // If training fails, chunks are compressed without a dictionary.
        let dictionary = enough.and_then(|samples| Dictionary::learn(&samples));
        *self.learnt.write().unwrap_or_else(PoisonError::into_inner) = dictionary.map(Arc::new);
    }
}

thread_local! {
    /// Creating a context takes a good part of the time of compressing a chunk, and allocates new
    /// memory.
    static PACKER: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    /// Creating a context costs more than decompressing a chunk.
    static UNPACKER: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Compresses without a dictionary.
fn pack(bytes: &[u8]) -> Vec<u8> {
    PACKER.with_borrow_mut(|packer| packed(bytes, |into| packer.compress(into, bytes, LEVEL)))
}

fn packed(bytes: &[u8], pack: impl FnOnce(&mut Vec<u8>) -> SafeResult) -> Vec<u8> {
    let mut packed = Vec::with_capacity(compress_bound(bytes.len()));
    pack(&mut packed).expect("compressing into memory cannot fail");
    if bytes.len() > BUFFER_BYTES {
        packed.shrink_to_fit();
    }
    packed
}

/// Compressors that are not in use. There are as many as threads ever compressed at the same time.
/// They are never freed: a process may open many journals, but few dictionaries.
static COMPRESSORS: Mutex<Vec<Compressor>> = Mutex::new(Vec::new());

/// Compresses chunks with a dictionary on one thread. The chunk is copied directly behind the
/// dictionary, so that both are contiguous, which reduces the time to 80 %.
struct Compressor {
    /// Checksum of the dictionary.
    sum: i64,
    packer: CCtx<'static>,
    /// Memory directly behind the dictionary.
    room: &'static mut [u8],
}

impl Compressor {
    fn new(Dictionary { sum, bytes, .. }: &Dictionary) -> Self {
        let buffer = Box::leak(vec![0; bytes.len() + BUFFER_BYTES].into_boxed_slice());
        let (known, room) = buffer.split_at_mut(bytes.len());
        known.copy_from_slice(bytes);
        let known = Box::leak(Box::new(CDict::create_by_reference(known, LEARNED_LEVEL)));
        let mut packer = CCtx::create();
        packer.ref_cdict(known).expect("nothing is being packed yet");
        Self { sum: *sum, packer, room }
    }

    fn pack(&mut self, run: &[u8]) -> Vec<u8> {
        let run = match self.room.get_mut(..run.len()) {
            Some(room) => {
                room.copy_from_slice(run);
                room
            }
            None => run,
        };
        packed(run, |into| self.packer.compress2(into, run))
    }
}

/// Returns the id of the dictionary that a compressed chunk requires.
pub(super) fn needs(packed: &[u8]) -> Option<u32> {
    get_dict_id_from_frame(packed).map(std::num::NonZero::get)
}

/// Decompresses a chunk with its dictionary; returns `None` if it is damaged.
pub(super) fn unpack(packed: &[u8], dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    let size = get_frame_content_size(packed).ok().flatten()?;
    if size > MAX_BUFFERED_BYTES {
        return unpack_slowly(packed, dictionary);
    }
    let mut bytes = Vec::with_capacity(size as usize);
    UNPACKER.with_borrow_mut(|unpacker| match dictionary {
        Some(dictionary) => {
            let known = dictionary.unpacking().as_ddict();
            unpacker.decompress_using_ddict(&mut bytes, packed, known).ok()
        }
        None => unpacker.decompress(&mut bytes, packed).ok(),
    })?;
    Some(bytes)
}

fn unpack_slowly(packed: &[u8], dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = match dictionary {
        Some(dictionary) => Decoder::with_prepared_dictionary(packed, dictionary.unpacking())
            .and_then(|mut decoder| decoder.read_to_end(&mut bytes)),
        None => Decoder::new(packed).and_then(|mut decoder| decoder.read_to_end(&mut bytes)),
    };
    read.ok().map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns chunks of shared words, each in a different order.
    fn runs(count: u64) -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut number = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let words: Vec<String> = (0..4000)
            .map(|_| (0..9).map(|_| char::from(b'a' + number(26) as u8)).collect())
            .collect();
        let mut run = || -> Vec<u8> {
            (0..3000).flat_map(|_| words[number(4000) as usize].bytes().chain([b' '])).collect()
        };
        (0..count).map(|_| run()).collect()
    }

    #[test]
    fn runs_are_smaller_once_their_words_are_known_and_come_back_as_they_were() {
        let packer = ChunkCompressor::new(None);
        let runs = runs(130);
        let bodies: Vec<_> = runs.iter().map(|run| packer.pack(run)).collect();
        for (run, (body, dictionary)) in runs.iter().zip(&bodies) {
            assert_eq!(needs(body), dictionary.as_ref().map(|known| known.id));
            assert_eq!(unpack(body, dictionary.as_deref()).as_ref(), Some(run));
            assert_eq!(unpack_slowly(body, dictionary.as_deref()).as_ref(), Some(run));
        }
        let [(first, None), .., (last, Some(learnt))] = bodies.as_slice() else {
            panic!("nothing was learnt")
        };
        assert!(last.len() * 10 < first.len() * 9, "{} after {}", last.len(), first.len());
        assert_eq!(unpack(last, None), None, "it cannot be read without what it needs");
        let again = Dictionary::new(learnt.bytes.clone()).unwrap();
        assert_eq!(unpack(last, Some(&again)).as_ref(), runs.last());
        for size in [0, 1, BUFFER_BYTES, BUFFER_BYTES + 1] {
            let run = &runs.concat()[..size];
            assert_eq!(unpack(&again.pack(run), Some(&again)).as_deref(), Some(run));
        }
    }

    #[test]
    fn facts_come_back_whether_they_were_packed_by_what_they_share_or_not() {
        let facts = br#"{"messages":3,"prompts":1,"answers":[7],"tools":["bash"],"times":[1,2,3]}"#;
        let (plain, packed) = (pack(facts), pack_facts(facts));
        assert!(packed.len() < plain.len(), "{} and {}", packed.len(), plain.len());
        for packed in [plain, packed] {
            assert_eq!(unpack_facts(&packed).as_deref(), Some(facts.as_slice()));
        }
    }

    #[test]
    fn what_has_nothing_in_common_is_packed_as_it_is() {
        let packer = ChunkCompressor::new(None);
        for _ in 0..2 {
            let (body, dictionary) = packer.pack(&vec![b'x'; TRAINING_BYTES + 1]);
            assert!(dictionary.is_none());
            assert_eq!(unpack(&body, None).map(|run| run.len()), Some(TRAINING_BYTES + 1));
        }
        assert!(Dictionary::new(b"no dictionary".to_vec()).is_none());
    }
}
