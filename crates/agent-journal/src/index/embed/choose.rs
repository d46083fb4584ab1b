//! Chooses the embedder: the user's own model if there is one, otherwise the built-in table.

use std::path::Path;

use super::{Embedder, HashEmbedder, Table};
use crate::config::{Fallback, Meaning};

/// An embedder that any thread may use.
pub(crate) type AnyEmbedder = Box<dyn Embedder>;

/// The chosen embedder, and the reason why no better one is used.
pub(crate) struct Choice {
    /// The embedder; `None` when nothing is found by meaning.
    pub(crate) embedder: Option<AnyEmbedder>,
    /// The reason why the user's own model is not used.
    pub(crate) problem: Option<String>,
}

/// Chooses the embedder that the configuration asks for.
pub(crate) fn choose(meaning: &Meaning) -> Choice {
    if meaning.off {
        return Choice { embedder: None, problem: None };
    }
    let model = meaning.model_path.as_deref().filter(|path| is_model(path));
    match model.map(load) {
        None if meaning.fallback == Fallback::None => {
            let place = meaning.model_path.as_deref().unwrap_or(Path::new(""));
            let problem = format!("no model in {}", place.display());
            Choice { embedder: None, problem: Some(problem) }
        }
        None => Choice { embedder: Some(Box::new(Table::builtin())), problem: None },
        Some(Ok(embedder)) => Choice { embedder: Some(embedder), problem: None },
        Some(Err(problem)) => {
            let embedder: Option<AnyEmbedder> = match meaning.fallback {
                Fallback::Hash => Some(Box::new(HashEmbedder)),
                Fallback::None => None,
            };
            Choice { embedder, problem: Some(problem) }
        }
    }
}

/// Returns the embedders that are always available: their vectors can be searched while better ones
/// are computed.
pub(crate) fn always() -> [AnyEmbedder; 2] {
    [Box::new(Table::builtin()), Box::new(HashEmbedder)]
}

/// Returns whether a directory holds a model.
fn is_model(directory: &Path) -> bool {
    ["model.onnx", "tokenizer.json"].iter().all(|name| directory.join(name).is_file())
}

#[cfg(feature = "onnx")]
fn load(directory: &Path) -> Result<AnyEmbedder, String> {
    match super::onnx::Onnx::load(directory) {
        Ok(model) => Ok(Box::new(model)),
        Err(problem) => Err(unusable(directory, &problem)),
    }
}

#[cfg(not(feature = "onnx"))]
fn load(directory: &Path) -> Result<AnyEmbedder, String> {
    Err(unusable(directory, "this build does not include `onnx`"))
}

fn unusable(directory: &Path, problem: &str) -> String {
    format!("could not use the model in {}: {problem}", directory.display())
}
