//! Limits the number of JSON values in a record. A parser needs some hundred bytes per value, so a
//! line of 48 MiB with nothing but tiny values would take gigabytes. Values beyond the limit are
//! folded into one text: the words remain searchable, and the text is read like any other.

use std::borrow::Cow;

use memchr::memchr2;

/// Number of values in a record from which it is folded. The largest record of a real history has
/// some ten thousand.
const MAX_VALUES: usize = 1 << 18;

/// Number of values in a record that contains a whole conversation, whose messages are folded one by
/// one.
const MAX_CONVERSATION_VALUES: usize = 1 << 22;

/// Number of values that may follow a folded part, such as the fields after a long list. Half as
/// many may follow the next folded part, and so on.
const MAX_FOLLOWING: usize = 1 << 14;

/// Prefix and suffix of a folded part of a list: a text block that most formats have.
const BLOCK: Wrapping = Wrapping { before: b"{\"type\":\"text\",\"text\":\"", after: b"\"}" };

/// Prefix and suffix of a folded part of an object.
const FIELD: Wrapping = Wrapping { before: b"\"folded\":\"", after: b"\"" };

/// The bytes around a folded part.
struct Wrapping {
    before: &'static [u8],
    after: &'static [u8],
}

/// The values that count towards the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    All,
    /// All but the members of objects, for readers that do not parse members they do not know. Some
    /// formats write an image as an object with one member per byte, which stays whole.
    Elements,
}

/// Folds the values of a record that exceed the limit.
pub fn fold_excess_values(record: &[u8]) -> Cow<'_, [u8]> {
    let folded = fold_beyond(record, MAX_VALUES, MAX_FOLLOWING, Counted::All);
    folded.map_or(Cow::Borrowed(record), Cow::Owned)
}

/// Folds the values of a record that contains a whole conversation.
pub fn fold_conversation(record: &[u8]) -> Cow<'_, [u8]> {
    let folded = fold_beyond(record, MAX_CONVERSATION_VALUES, MAX_FOLLOWING, Counted::All);
    folded.map_or(Cow::Borrowed(record), Cow::Owned)
}

/// Folds the values of a JSON text that exceed the limit.
pub fn fold_text(text: &str) -> Cow<'_, str> {
    folded_text(text, Counted::All)
}

/// Folds the elements of lists in a JSON text that exceed the limit. Members of objects stay.
pub fn fold_elements(text: &str) -> Cow<'_, str> {
    folded_text(text, Counted::Elements)
}

fn folded_text(text: &str, counted: Counted) -> Cow<'_, str> {
    let folded = fold_beyond(text.as_bytes(), MAX_VALUES, MAX_FOLLOWING, counted);
    // Folding replaces ASCII with ASCII.
    folded.and_then(|bytes| String::from_utf8(bytes).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// A list or object whose end has not been reached.
struct Container {
    is_list: bool,
    /// Number of complete elements.
    elements: usize,
}

/// Returns the folded record. `None` when its number of values is within the limit.
fn fold_beyond(
    record: &[u8],
    most: usize,
    mut following: usize,
    counted: Counted,
) -> Option<Vec<u8>> {
    // A value and its separator take at least two bytes.
    if record.len() / 2 <= most {
        return None;
    }
    let (mut left, mut at) = (most, 0);
    let mut open: Vec<Container> = Vec::new();
    // Depth of the list or object that will be folded at its next element.
    let mut longest = None;
    let mut folded = Vec::new();
    let mut copied = 0;
    while at < record.len() {
        let is_value = match record[at] {
            b'"' => {
                at = end_of_quoted_string(record, at);
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
                let inner = open.last_mut();
                let counts = |inner: &Container| counted == Counted::All || inner.is_list;
                inner.filter(|inner| counts(inner)).is_some_and(|inner| {
                    inner.elements += 1;
                    true
                })
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
            // The container with the most elements is folded, after its current element.
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
        fold_into(&mut folded, &record[at..end], if is_list { &BLOCK } else { &FIELD });
        (copied, at) = (end, end);
        (left, following, longest) = (following, following / 2, None);
    }
    if copied == 0 {
        return None;
    }
    folded.extend_from_slice(&record[copied..]);
    Some(folded)
}

/// Writes a part of a record as a JSON string. Quotation marks become apostrophes; escapes inside
/// its strings are already valid.
fn fold_into(folded: &mut Vec<u8>, part: &[u8], wrapping: &Wrapping) {
    folded.extend_from_slice(wrapping.before);
    let mut at = 0;
    while at < part.len() {
        match part[at] {
            // Escapes are copied unchanged.
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
    folded.extend_from_slice(wrapping.after);
}

/// Returns the end of the string that begins with the quotation mark at `start`.
fn end_of_quoted_string(record: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr2(b'"', b'\\', record.get(at..).unwrap_or_default()) {
        if record[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    record.len()
}

/// Returns the end of the list or object that contains `start`.
fn container_end(record: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < record.len() {
        match record[at] {
            b'"' => {
                at = end_of_quoted_string(record, at);
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

    /// Folds a record with the given limits and parses it as JSON.
    fn folded(record: &str, most: usize, following: usize) -> serde_json::Value {
        let folded =
            fold_beyond(record.as_bytes(), most, following, Counted::All).expect("it is folded");
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
        assert_eq!(fold_beyond(br#"{"a":[1,2,3],"b":"x,y,z,[[[[[[["}"#, 6, 4, Counted::All), None);
        let text = format!("{{\"a\":\"{}\"}}", "x, ".repeat(3 << 20));
        assert!(matches!(fold_text(&text), Cow::Borrowed(_)));
    }

    #[test]
    fn an_image_of_one_member_per_byte_stays_whole_among_folded_elements() {
        let bytes: Vec<String> = (0..200).map(|at| format!("\"{at}\":137")).collect();
        let image = format!("{{\"value\":{{{}}}}}", bytes.join(","));
        let record = format!("{{\"variables\":[{image}],\"response\":[{}]}}", ["1"; 99].join(","));
        let folded = fold_beyond(record.as_bytes(), 40, 4, Counted::Elements).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&folded).unwrap();
        assert_eq!(read["variables"][0]["value"].as_object().unwrap().len(), 200);
        let response = read["response"].as_array().unwrap();
        assert!(response.len() < 50 && response.last().unwrap()["text"].is_string(), "{read}");
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
        let folded = fold_beyond(record.as_bytes(), 10, 4, Counted::All).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&folded).is_err());
    }
}
