//! A record has a bounded number of JSON values. A parser needs some hundred bytes for each, so a
//! line of 48 MiB that is nothing but tiny values would take gigabytes. What is beyond the bound
//! becomes one text: its words are kept and found, and it is read like any other text.

use std::borrow::Cow;

use memchr::memchr2;

/// A record has this many values at most before it is folded. The most that was seen in a record
/// of a real history is some ten thousand.
const MAX_VALUES: usize = 1 << 18;

/// As many values may follow what was folded: the facts behind a long list. Half as many follow
/// the next folded part, and so on.
const MAX_FOLLOWING: usize = 1 << 14;

/// Stands around what is folded in a list: most formats have such a block of text.
const BLOCK: (&[u8], &[u8]) = (b"{\"type\":\"text\",\"text\":\"", b"\"}");

/// Stands around what is folded in an object.
const FIELD: (&[u8], &[u8]) = (b"\"folded\":\"", b"\"");

/// Folds what a record has beyond the bound.
pub fn fold(record: &[u8]) -> Cow<'_, [u8]> {
    fold_beyond(record, MAX_VALUES, MAX_FOLLOWING).map_or(Cow::Borrowed(record), Cow::Owned)
}

/// Folds what a text has beyond the bound.
pub fn fold_text(text: &str) -> Cow<'_, str> {
    let folded = fold_beyond(text.as_bytes(), MAX_VALUES, MAX_FOLLOWING);
    // Folding replaces ASCII by ASCII.
    folded.and_then(|bytes| String::from_utf8(bytes).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A list or an object that is not at its end.
struct Container {
    is_list: bool,
    /// Its elements before the one that is being read.
    elements: usize,
}

/// Returns the folded record; `None` when it has no more values than it may.
fn fold_beyond(record: &[u8], most: usize, mut following: usize) -> Option<Vec<u8>> {
    // A value and what separates it from the next take two bytes at least.
    if record.len() / 2 <= most {
        return None;
    }
    let (mut left, mut at) = (most, 0);
    let mut open: Vec<Container> = Vec::new();
    // How deep the list or object is that is to be folded at its next element.
    let mut longest = None;
    let mut folded = Vec::new();
    let mut copied = 0;
    while at < record.len() {
        let is_value = match record[at] {
            b'"' => {
                at = string_end(record, at);
                continue;
            }
            bracket @ (b'[' | b'{') => {
                open.push(Container { is_list: bracket == b'[', elements: 0 });
                true
            }
            b']' | b'}' => {
                open.pop();
                false
            }
            b',' => {
                if let Some(inner) = open.last_mut() {
                    inner.elements += 1;
                }
                true
            }
            _ => false,
        };
        let is_element = record[at] == b',';
        at += 1;
        if !is_value {
            continue;
        }
        if left > 0 && !(is_element && longest == Some(open.len())) {
            left -= 1;
            continue;
        }
        if longest.is_none() {
            // The list with the most elements is folded, as soon as the element in it is over.
            let most = open.iter().enumerate().max_by_key(|(_, one)| one.elements);
            longest = most.map(|(depth, _)| depth + 1);
            left = following;
            continue;
        }
        let end = container_end(record, at);
        if copied == 0 {
            folded.reserve(record.len() + 1024);
        }
        folded.extend_from_slice(&record[copied..at]);
        let is_list = open.last().is_some_and(|inner| inner.is_list);
        fold_into(&mut folded, &record[at..end], if is_list { BLOCK } else { FIELD });
        (copied, at) = (end, end);
        (left, following, longest) = (following, following / 2, None);
    }
    if copied == 0 {
        return None;
    }
    folded.extend_from_slice(&record[copied..]);
    Some(folded)
}

/// Writes a part of a record as a string: quotation marks become apostrophes. What its strings
/// escape is escaped already.
fn fold_into(folded: &mut Vec<u8>, part: &[u8], (before, after): (&[u8], &[u8])) {
    folded.extend_from_slice(before);
    let mut at = 0;
    while at < part.len() {
        match part[at] {
            // An escape stays what it is.
            b'\\' => {
                folded.extend_from_slice(&part[at..part.len().min(at + 2)]);
                at += 1;
            }
            b'"' => folded.push(b'\''),
            0..0x20 => folded.push(b' '),
            byte => folded.push(byte),
        }
        at += 1;
    }
    folded.extend_from_slice(after);
}

/// Returns where a string ends that begins with the quotation mark at a place.
fn string_end(record: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr2(b'"', b'\\', record.get(at..).unwrap_or_default()) {
        if record[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    record.len()
}

/// Returns where the list or object ends that a place is in.
fn container_end(record: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < record.len() {
        match record[at] {
            b'"' => {
                at = string_end(record, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    record.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record with at most so many values, folded, and read as JSON.
    fn folded(record: &str, most: usize, following: usize) -> serde_json::Value {
        let folded = fold_beyond(record.as_bytes(), most, following).expect("it is folded");
        let text = String::from_utf8(folded).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn values(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Array(all) => 1 + all.iter().map(values).sum::<usize>(),
            serde_json::Value::Object(all) => 1 + all.values().map(values).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn a_record_within_the_bound_stays_as_it_is() {
        assert_eq!(fold_beyond(br#"{"a":[1,2,3],"b":"x,y,z,[[[[[[["}"#, 6, 4), None);
        let text = format!("{{\"a\":\"{}\"}}", "x, ".repeat(3 << 20));
        assert!(matches!(fold_text(&text), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_beyond_the_bound_is_one_text_and_what_follows_is_read() {
        let block = |word: &str| format!(r#"{{"type":"text","text":"{word}"}}"#);
        let words = ["one", "two", r#"th\"ree\n"#, "four", "five"].map(block).join(",");
        let record =
            format!(r#"{{"message":{{"content":[{words}],"usage":{{"in":1}}}},"id":"x"}}"#);
        let read = folded(&record, 6, 8);
        let content = read["message"]["content"].as_array().unwrap();
        assert_eq!(content.len(), 3, "{read}");
        assert_eq!(content[0]["text"], "one");
        let rest = content[2]["text"].as_str().unwrap();
        for word in ["th\"ree\n", "four", "five", "'type':'text'"] {
            assert!(rest.contains(word), "{rest}");
        }
        assert_eq!((&read["message"]["usage"]["in"], &read["id"]), (&1.into(), &"x".into()));
    }

    #[test]
    fn no_shape_of_a_record_has_more_values_than_it_may() {
        let shapes = [
            format!("[{}1]", "1,".repeat(5000)),
            format!("[{}[]]", "[],".repeat(5000)),
            format!("[{}[]]", "[1,2,3,4],".repeat(2000)),
            format!("{{{}\"z\":1}}", "\"a\":{\"b\":[{}]},".repeat(2000)),
            format!("{}{}", "[".repeat(90), "]".repeat(90)),
            format!("[{}1]", "{\"k\":[1,[2,[3,[4]]]]},".repeat(1000)),
        ];
        for shape in shapes {
            for most in [0, 1, 7, 40] {
                let read = folded(&shape, most, 16);
                assert!(values(&read) <= 3 * (most + 96) + 200, "{} of {shape:.60}", values(&read));
            }
        }
    }

    #[test]
    fn a_record_that_breaks_off_is_folded_all_the_same() {
        let record = format!("[{}{{\"a\":\"x", "1,".repeat(100));
        let folded = fold_beyond(record.as_bytes(), 10, 4).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&folded).is_err());
    }
}
