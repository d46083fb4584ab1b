//! Reads JSON documents whose main part is a list: a list of records, or an object with a list of
//! messages. Programs rewrite such a document as a whole, so it may be read while half of it is
//! written: the elements before the break are kept.

use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fold;
use super::jsonl;
use super::large::{LARGE_BYTES, LargeTurn};
use super::source_file::{self, SourceFile};
use crate::connectors::Record;
use crate::error::{Error, Result};
use crate::model::{Extensions, Json};

/// A broken document up to this size is loaded whole and repaired.
const MAX_MENDED_BYTES: u64 = 256 << 20;

/// The content of a document.
#[derive(Default)]
pub struct ListDocument {
    /// The fields beside the list.
    pub fields: Extensions,
    /// The elements of the list, as written.
    pub items: Vec<Box<str>>,
    /// Size of the part that could be read, if the document breaks off.
    pub cut_at: Option<u64>,
    /// Held while a large document is in memory.
    turn: Option<LargeTurn>,
}

impl ListDocument {
    /// Returns a field that is a text and not empty.
    pub fn text_field(&self, key: &str) -> Option<String> {
        self.fields.get(key)?.parse_as::<String>().filter(|text| !text.is_empty())
    }

    /// Returns the record that reports a break, if the document breaks off.
    pub fn break_record(&self) -> Option<Record> {
        Some(Record::truncated_record(self.cut_at?, "the document is cut off"))
    }
}

/// Reads a document. Its list is the document itself, or the field named `list_key`.
pub fn read_list_document(path: &Path, list_key: &str) -> Result<ListDocument> {
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    let size = file.size().map_err(Error::read(path))?;
    let turn = (size > LARGE_BYTES as u64).then(LargeTurn::wait_for_turn);
    let mut document = ListDocument::default();
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(file));
    let visitor = DocumentVisitor { document: &mut document, list_key };
    let Err(error) = visitor.deserialize(&mut input) else {
        document.turn = turn;
        return Ok(document);
    };
    if error.is_io() {
        return Err(Error::read(path)(error.into()));
    }
    if !error.is_eof() && size <= MAX_MENDED_BYTES {
        document = ListDocument::default();
        let mended = jsonl::mend_line(&source_file::read_file(path)?);
        let mut input = serde_json::Deserializer::from_slice(&mended);
        let visitor = DocumentVisitor { document: &mut document, list_key };
        if visitor.deserialize(&mut input).is_ok() {
            document.turn = turn;
            return Ok(document);
        }
    }
    if document.items.is_empty() {
        let what = "neither a list of records nor the beginning of one".to_owned();
        return Err(Error::Format { path: path.to_owned(), what });
    }
    document.cut_at = Some(size);
    document.turn = turn;
    Ok(document)
}

/// Reads a document element by element, so that the elements before a break are kept.
struct DocumentVisitor<'d> {
    document: &'d mut ListDocument,
    list_key: &'d str,
}

impl<'de> DeserializeSeed<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list, or an object with a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        ItemsVisitor(self.document).visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == self.list_key {
                map.next_value_seed(ItemsVisitor(self.document))?;
            } else {
                let raw: Box<RawValue> = map.next_value()?;
                self.document.fields.insert(key, Json::from(&*raw));
            }
        }
        Ok(())
    }
}

/// Reads the elements of the list. Any other value is a list without elements.
struct ItemsVisitor<'d>(&'d mut ListDocument);

impl<'de> DeserializeSeed<'de> for ItemsVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<Box<RawValue>>()? {
            self.0.items.push(fold::fold_text(raw.get()).into());
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(content: &str) -> Result<ListDocument> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        read_list_document(file.path(), "messages")
    }

    #[test]
    fn the_list_is_the_document_or_a_field_of_it() {
        let check = |content: &str, items: &[&str], fields: &[&str]| {
            let document = read(content).unwrap();
            let found: Vec<&str> = document.items.iter().map(|item| &**item).collect();
            let keys: Vec<&str> = document.fields.keys().map(String::as_str).collect();
            assert_eq!((found, keys), (items.to_vec(), fields.to_vec()), "{content}");
            assert_eq!(document.cut_at, None, "{content}");
        };
        check("[{\"a\":1}, 2]", &["{\"a\":1}", "2"], &[]);
        check("{\"id\":\"x\",\n\"messages\": [1,\n2], \"end\": {}}", &["1", "2"], &["end", "id"]);
        check("{\"messages\": 7, \"id\":\"x\"}", &[], &["id"]);
        check("{\"messages\": {\"a\":[1]}, \"id\":\"x\"}", &[], &["id"]);
    }

    #[test]
    fn a_document_that_breaks_off_keeps_the_elements_before() {
        let document = read("{\"messages\":[{\"a\":1},{\"b\"").unwrap();
        assert_eq!((document.items.len(), document.cut_at), (1, Some(25)));
        assert!(read("").is_err());
        assert!(read("\"text\"").is_err());
        assert!(read("{\"messages\":[{\"b\"").is_err());
    }

    #[test]
    fn a_document_with_stray_bytes_is_mended() {
        let document = read("\u{feff}[1,\0 2]").unwrap();
        assert_eq!((document.items.len(), document.cut_at), (2, None));
    }
}
