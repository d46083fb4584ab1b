//! How is text found again? Messages are cut into passages, passages into words, and an inverted
//! index leads from words back to (telling, position). The index holds nothing that the store
//! cannot give again: it may be deleted at any time.

#[expect(unused_imports, reason = "for the semantic half of search, which has no caller yet")]
#[cfg_attr(not(test), expect(dead_code, reason = "the same"))]
mod embed;
mod lexical;
mod passages;
mod tokenizer;
#[expect(unused_imports, reason = "for the semantic half of search, which has no caller yet")]
#[cfg_attr(not(test), expect(dead_code, reason = "the same"))]
mod vectors;

pub(crate) use lexical::{Columns, Lexical, LexicalWriter, Stamped};
pub(crate) use passages::{Passage, of_message, text_of};
pub(crate) use tokenizer::{Word, whole_words, words};

pub use passages::TextKind;
