//! How is text found again? Messages are cut into passages, passages into words, and an inverted
//! index leads from words back to (telling, position). The index holds nothing that the store
//! cannot give again: it may be deleted at any time.

mod backlog;
mod directory;
mod embed;
mod guard;
mod lexical;
mod opened;
mod own;
mod passages;
mod semantic;
mod tokenizer;
mod traits;
mod vectors;
mod writer;

pub(crate) use embed::window_of;
pub(crate) use guard::guarded;
pub(crate) use lexical::{Columns, Lexical, LexicalWriter, Stamped};
pub(crate) use opened::Opened;
pub(crate) use own::{Calls, tool_number};
pub(crate) use passages::{Passage, text_of};
pub(crate) use semantic::{Semantic, SemanticReader, SemanticWriter};
pub(crate) use tokenizer::{Word, each_token, each_word, whole_words, words};
pub(crate) use traits::{Likeness, SORTS, Sort, Traits, day};
pub(crate) use vectors::Near;
pub(crate) use writer::{IndexWriter, Targets};

#[doc(hidden)]
pub use embed::embed_by;
pub use guard::{fatal_damage, is_guarded};
pub use passages::TextKind;
pub use semantic::Coverage;
