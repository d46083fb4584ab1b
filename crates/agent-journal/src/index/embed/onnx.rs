//! An embedder for the user's own model: `model.onnx` with its `tokenizer.json`, as sentence
//! encoders are published. It runs in Rust, on the CPU.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rten::{Model, NodeId, Value, ValueOrView};
use rten_text::Tokenizer;
use rten_text::tokenizer::EncodeOptions;
use xxhash_rust::xxh3::Xxh3;

use super::{Embedder, normalise};

/// The maximum number of tokens; the rest is cut off, because encoders have no positions beyond.
const MAX_TOKENS: usize = 512;

/// The number of bytes at each end of a file that its id is computed from.
const SAMPLE: u64 = 64 << 10;

/// The model that was loaded last: loading is slow, and the same one is requested again.
static LOADED: Mutex<Option<Arc<Onnx>>> = Mutex::new(None);

thread_local! {
    /// The tokenizer of a model, by the model's id: unlike the model it cannot be shared between
    /// threads.
    static TOKENIZER: RefCell<Option<(String, Tokenizer)>> = const { RefCell::new(None) };
}

/// A sentence encoder.
pub(crate) struct Onnx {
    id: String,
    dimensions: usize,
    model: Model,
    /// The content of `tokenizer.json`.
    tokenizer: String,
    inputs: Vec<(NodeId, Input)>,
    output: NodeId,
}

/// The kind of value that an input of the model expects for each token.
#[derive(Clone, Copy)]
enum Input {
    Ids,
    /// One: every token counts.
    Mask,
    /// Zero: there is one sentence.
    Types,
}

impl Onnx {
    /// Loads the model in a directory; the error describes the problem.
    pub(crate) fn load(directory: &Path) -> Result<Arc<Self>, String> {
        let (model, tokenizer) = (directory.join("model.onnx"), directory.join("tokenizer.json"));
        let id = identify(&[&model, &tokenizer]).map_err(|error| error.to_string())?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.as_ref().filter(|known| known.id == id) {
            return Ok(Arc::clone(known));
        }
        let tokenizer = fs::read_to_string(tokenizer).map_err(|error| error.to_string())?;
        let model = Model::load_file(model).map_err(|error| error.to_string())?;
        let onnx = Arc::new(Self::new(id, model, tokenizer)?);
        *loaded = Some(Arc::clone(&onnx));
        Ok(onnx)
    }

    fn new(id: String, model: Model, tokenizer: String) -> Result<Self, String> {
        let name = |node: &NodeId| {
            let info = model.node_info(*node);
            info.and_then(|info| info.name().map(str::to_owned)).unwrap_or_default()
        };
        let inputs = model.input_ids().iter().map(|node| {
            let input = match name(node).as_str() {
                "input_ids" => Input::Ids,
                "attention_mask" => Input::Mask,
                "token_type_ids" => Input::Types,
                other => return Err(format!("unsupported model input `{other}`")),
            };
            Ok((*node, input))
        });
        let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
        // Encoders that sum their tokens themselves have this output.
        let outputs = model.output_ids();
        let whole = outputs.iter().find(|node| name(node) == "sentence_embedding");
        let output = *whole.or(outputs.first()).ok_or("the model has no output")?;
        let mut onnx = Self { id, dimensions: 0, model, tokenizer, inputs, output };
        onnx.dimensions = onnx.encode("a text")?.len();
        Ok(onnx)
    }

    /// Returns the sum of the vectors of all tokens, or the sentence vector of the model.
    fn encode(&self, text: &str) -> Result<Vec<f32>, String> {
        let ids = self.tokens(text)?;
        let inputs = self.inputs.iter().map(|(node, input)| {
            let row = match input {
                Input::Ids => ids.iter().map(|id| *id as i32).collect(),
                Input::Mask => vec![1; ids.len()],
                Input::Types => vec![0; ids.len()],
            };
            let value = Value::from_shape(&[1, ids.len()], row).map_err(|e| e.to_string())?;
            Ok((*node, ValueOrView::from(value)))
        });
        let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
        let [output] = self.model.run_n(inputs, [self.output], None).map_err(|e| e.to_string())?;
        sum(output)
    }
}

impl Onnx {
    fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        TOKENIZER.with_borrow_mut(|known| {
            let tokenizer = match known {
                Some((id, tokenizer)) if *id == self.id => tokenizer,
                _ => {
                    let made = Tokenizer::from_json(&self.tokenizer).map_err(|e| e.to_string())?;
                    &mut known.insert((self.id.clone(), made)).1
                }
            };
            let options = EncodeOptions { max_chunk_len: Some(MAX_TOKENS), overlap: 0 };
            let tokens = tokenizer.encode(text, Some(options)).map_err(|e| e.to_string())?;
            Ok(tokens.into_token_ids())
        })
    }
}

impl Embedder for Arc<Onnx> {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, text: &str, into: &mut [f32]) -> bool {
        match self.encode(text) {
            Ok(vector) if vector.len() == into.len() => {
                into.copy_from_slice(&vector);
                normalise(into)
            }
            _ => false,
        }
    }
}

/// Sums the vectors of all tokens; a single one is unchanged.
fn sum(output: Value) -> Result<Vec<f32>, String> {
    let (dimensions, all) = match output.clone().into_shape_vec::<f32, 3>() {
        Ok(([_, _, dimensions], all)) => (dimensions, all),
        Err(_) => {
            let vector = output.into_shape_vec::<f32, 2>().map_err(|error| error.to_string())?;
            (vector.0[1], vector.1)
        }
    };
    let mut sum = vec![0.0; dimensions];
    for vector in all.chunks_exact(dimensions.max(1)) {
        for (sum, value) in sum.iter_mut().zip(vector) {
            *sum += value;
        }
    }
    Ok(sum)
}

/// Returns an id that changes with the files, without reading all of a large one.
fn identify(paths: &[&Path]) -> io::Result<String> {
    let mut hash = Xxh3::new();
    for path in paths {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        hash.update(&size.to_le_bytes());
        for from in [0, size.saturating_sub(SAMPLE)] {
            let mut sample = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            (&mut file).take(SAMPLE).read_to_end(&mut sample)?;
            hash.update(&sample);
        }
    }
    Ok(format!("onnx-{:016x}", hash.digest()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
    use super::*;

    /// Bytes of a protocol buffer.
    #[derive(Clone, Default)]
    struct Proto(Vec<u8>);

    impl Proto {
        fn varint(mut self, mut value: u64) -> Self {
            while value >= 0x80 {
                self.0.push(value as u8 | 0x80);
                value >>= 7;
            }
            self.0.push(value as u8);
            self
        }

        fn number(self, field: u64, value: u64) -> Self {
            self.varint(field << 3).varint(value)
        }

        fn bytes(self, field: u64, bytes: &[u8]) -> Self {
            let mut proto = self.varint(field << 3 | 2).varint(bytes.len() as u64);
            proto.0.extend_from_slice(bytes);
            proto
        }

        fn text(self, field: u64, text: &str) -> Self {
            self.bytes(field, text.as_bytes())
        }

        fn inner(self, field: u64, inner: &Self) -> Self {
            self.bytes(field, &inner.0)
        }
    }

    /// Returns one row for each of `[PAD] [UNK] [CLS] [SEP] red green blue`.
    const ROWS: [[f32; 3]; 7] =
        [[0.0; 3], [0.0; 3], [0.0; 3], [0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

    fn value(name: &str, kind: u64) -> Proto {
        let tensor = Proto::default().number(1, kind);
        Proto::default().text(1, name).inner(2, &Proto::default().inner(1, &tensor))
    }

    /// Returns a model that looks up the row of each token; `is_whole` adds their mean as an
    /// output.
    fn model(inputs: &[&str], is_whole: bool) -> Vec<u8> {
        let (float, int64) = (1, 7);
        let data: Vec<u8> = ROWS.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        let table = Proto::default().number(1, 7).number(1, 3).number(2, float);
        let table = table.text(8, "table").bytes(9, &data);
        let node = |inputs: [&str; 2], output: &str, kind: &str| {
            let inputs = inputs.iter().filter(|name| !name.is_empty());
            let node = inputs.fold(Proto::default(), |node, name| node.text(1, name));
            node.text(2, output).text(4, kind)
        };
        let mut graph =
            Proto::default().inner(1, &node(["table", "input_ids"], "tokens", "Gather"));
        graph = graph.text(2, "tiny").inner(5, &table);
        for name in inputs {
            graph = graph.inner(11, &value(name, int64));
        }
        graph = graph.inner(12, &value("tokens", float));
        if is_whole {
            let axes = Proto::default().text(1, "axes").number(8, 1).number(20, 7);
            let no_axis = Proto::default().text(1, "keepdims").number(3, 0).number(20, 2);
            let mean = node(["tokens", ""], "sentence_embedding", "ReduceMean");
            graph = graph.inner(1, &mean.inner(5, &axes).inner(5, &no_axis));
            graph = graph.inner(12, &value("sentence_embedding", float));
        }
        let version = Proto::default().text(1, "").number(2, 13);
        Proto::default().number(1, 8).inner(7, &graph).inner(8, &version).0
    }

    const TOKENIZER: &str = r#"{
        "normalizer": { "type": "BertNormalizer", "lowercase": true, "strip_accents": null },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "model": { "type": "WordPiece", "vocab": {
            "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5, "blue": 6 } }
    }"#;

    fn load(model: &[u8], tokenizer: &str) -> Result<Arc<Onnx>, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("model.onnx"), model).unwrap();
        fs::write(directory.path().join("tokenizer.json"), tokenizer).unwrap();
        Onnx::load(directory.path())
    }

    #[test]
    fn a_text_is_the_mean_of_its_tokens() {
        let inputs = ["input_ids", "attention_mask", "token_type_ids"];
        for (inputs, is_whole) in [(&inputs[..1], false), (&inputs, false), (&inputs, true)] {
            let onnx = load(&model(inputs, is_whole), TOKENIZER).unwrap();
            assert_eq!(onnx.dimensions(), 3);
            let mut vector = [0.0; 3];
            assert!(onnx.embed("Red, blue and blue", &mut vector));
            let expected = [0.447_213_6, 0.0, 0.894_427_2];
            for (found, expected) in vector.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{vector:?}");
            }
            assert!(!onnx.embed("nothing it knows", &mut vector));
        }
    }

    #[test]
    fn a_long_text_is_cut_where_the_model_ends() {
        let onnx = load(&model(&["input_ids"], false), TOKENIZER).unwrap();
        let mut vector = [0.0; 3];
        assert!(onnx.embed(&format!("{} green", "red ".repeat(600)), &mut vector));
        assert!(vector[0] > 0.999 && vector[1] < 0.001, "{vector:?}");
    }

    #[test]
    fn another_model_has_another_name() {
        let one = load(&model(&["input_ids"], false), TOKENIZER).unwrap();
        let same = load(&model(&["input_ids"], false), TOKENIZER).unwrap();
        let other = load(&model(&["input_ids"], true), TOKENIZER).unwrap();
        assert_eq!(one.id(), same.id());
        assert_ne!(one.id(), other.id());
    }

    #[test]
    fn a_damaged_model_is_used_or_refused_and_never_a_panic() {
        let inputs = ["input_ids", "attention_mask", "token_type_ids"];
        let originals = [model(&inputs, true), TOKENIZER.as_bytes().to_vec()];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |end: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % end
        };
        let mut refused = 0;
        for round in 0..400 {
            let mut files = originals.clone();
            let file = &mut files[round % 2];
            for _ in 0..=below(3) {
                let at = below(file.len());
                match below(3) {
                    0 => file[at] ^= 1 << below(8),
                    1 => file[at] = below(256) as u8,
                    _ => file.truncate(at.max(1)),
                }
            }
            let tokenizer = String::from_utf8_lossy(&files[1]);
            match load(&files[0], &tokenizer) {
                Ok(onnx) => drop(onnx.embed("red, blue", &mut vec![0.0; onnx.dimensions()])),
                Err(_) => refused += 1,
            }
        }
        assert!((1..400).contains(&refused), "{refused} refused");
    }

    #[test]
    fn what_is_wrong_with_a_model_is_said() {
        for (model, tokenizer, expected) in [
            (model(&["input_ids"], false), "{}", "model"),
            (model(&["input_ids", "pixels"], false), TOKENIZER, "`pixels`"),
            (b"no model".to_vec(), TOKENIZER, ""),
        ] {
            let error = load(&model, tokenizer).err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
