//! Makes text searchable. Messages are split into passages and passages into words; an inverted
//! index leads from words back to (recording, position). The index holds nothing that the store
//! cannot provide again: it may be deleted at any time.

mod backlog;
mod columns;
mod directory;
mod embed;
mod guard;
mod index_cache;
mod lexical;
mod passages;
mod self_output;
mod semantic;
mod tokenizer;
mod vectors;
mod writer;

pub(crate) use columns::{PASSAGE_CLASSES, PassageClass, PassageFingerprint, RankKey, day};
pub(crate) use embed::window_of;
pub(crate) use guard::guarded;
pub(crate) use index_cache::IndexCache;
pub(crate) use lexical::{Lexical, LexicalWriter, PassageColumns, StampedPassage};
pub(crate) use passages::{Passage, text_of};
pub(crate) use self_output::{KnownCalls, tool_number};
pub(crate) use semantic::{Semantic, SemanticReader, SemanticWriter};
pub(crate) use tokenizer::{Word, each_token, each_word, whole_words, words};
pub(crate) use vectors::NearVector;
pub(crate) use writer::{IndexTargets, IndexWriter};

#[doc(hidden)]
pub use embed::embed_by;
pub use guard::{fatal_damage, is_guarded};
pub use semantic::Coverage;
