//! Descriptions of tool calls, derived from their arguments alone: a command, a file, an edit.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use similar::TextDiff;

use crate::model::Json;

/// The line count above which an edit is shown as all removed and all added lines, without
/// computing a diff.
const LONGEST_DIFF: usize = 4000;

/// Argument names that describe a call best, the most descriptive first.
const SUBJECT_ARGUMENTS: [&str; 17] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "target_file",
    "notebook_path",
    "absolute_path",
    "pattern",
    "query",
    "path",
    "url",
    "description",
    "prompt",
    "skill",
    "subject",
    "name",
    "input",
];

const PATHS: [&str; 7] =
    ["file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "filename"];

/// Maximum length of a line about a call, in characters.
const MAX_LINE_CHARS: usize = 160;

/// A tool call, prepared for display.
#[derive(Debug, PartialEq)]
pub(crate) struct CallDescription {
    /// The subject of the call, in one line.
    pub(crate) subject: String,
    /// The arguments, grouped by how they are displayed.
    pub(crate) parts: Vec<CallPart>,
    /// The number of lines that edits added and removed.
    pub(crate) lines: Option<ChangedLines>,
}

/// The number of lines that an edit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedLines {
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

/// An argument of a call with its value.
#[derive(Debug, PartialEq)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// One or more arguments of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum CallPart {
    /// A shell command.
    Command(String),
    /// A change, as a unified diff.
    Diff(String),
    /// The new content of a file.
    File {
        /// The language of the file, by its name.
        language: String,
        /// The content.
        text: String,
    },
    /// A named argument with several lines.
    Text(NamedValue),
    /// Short arguments.
    Fields(Vec<NamedValue>),
    /// Arguments that are not an object.
    Raw(String),
}

/// Returns the subject of a tool call in one line: its description, and its most descriptive
/// argument.
pub fn call_subject(input: &Json) -> String {
    match input.parse_as::<Pairs>() {
        Some(Pairs(pairs)) => subject(&pairs).line,
        None => short_line(&unnamed_text(input)),
    }
}

/// Describes a tool call by its arguments.
pub(crate) fn describe_call(input: &Json) -> CallDescription {
    let (subject, parts) = match input.parse_as::<Pairs>() {
        Some(Pairs(pairs)) => {
            let subject = subject(&pairs);
            let parts = parts(&pairs, &subject.shown);
            (subject.line, parts)
        }
        None => {
            let text = unnamed_text(input);
            let line = short_line(&text);
            let part = if is_patch(&text) { CallPart::Diff(text) } else { CallPart::Raw(text) };
            (line, vec![part])
        }
    };
    let diffs = parts.iter().filter_map(|part| match part {
        CallPart::Diff(diff) => Some(changed_lines(diff)),
        _ => None,
    });
    let lines = diffs.reduce(|one, other| ChangedLines {
        added: one.added + other.added,
        removed: one.removed + other.removed,
    });
    CallDescription { subject, parts, lines }
}

/// Returns the input of a call whose arguments have no names.
fn unnamed_text(input: &Json) -> String {
    input.parse_as::<String>().unwrap_or_else(|| input.as_json_str().to_owned())
}

fn parts(pairs: &[(String, Json)], shown: &[&str]) -> Vec<CallPart> {
    let path = PATHS.iter().find_map(|name| text(pairs, name)).unwrap_or_default();
    let mut parts = Vec::new();
    let mut fields: Vec<NamedValue> = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    if let Some(edit) = Edit::from_arguments(pairs) {
        parts.push(CallPart::Diff(edit.unified_diff(&path)));
        used.extend(Edit::NAMES.iter().flat_map(|(old, new)| [*old, *new]));
    }
    for (name, value) in pairs {
        if used.contains(&name.as_str()) {
            continue;
        }
        let named = |value: String| NamedValue { name: name.clone(), value };
        match (name.as_str(), value.parse_as::<String>()) {
            ("command" | "cmd", _) => parts.push(CallPart::Command(command(value))),
            ("edits", None) => parts.extend(edits(value, &path)),
            (_, Some(text)) if is_patch(&text) => parts.push(CallPart::Diff(text)),
            ("content" | "file_text" | "contents", Some(text)) if !path.is_empty() => {
                parts.push(CallPart::File { language: language(&path).to_owned(), text });
            }
            (_, Some(text)) if text.contains('\n') || text.len() > MAX_LINE_CHARS => {
                parts.push(CallPart::Text(named(text)));
            }
            (_, Some(text)) => fields.push(named(text)),
            (_, None) => fields.push(named(value.as_json_str().to_owned())),
        }
    }
    fields.retain(|field| !shown.contains(&field.name.as_str()));
    if !fields.is_empty() {
        parts.insert(0, CallPart::Fields(fields));
    }
    parts
}

/// A replacement of one text by another.
#[derive(Deserialize)]
struct Edit {
    #[serde(alias = "old_string", alias = "oldString", alias = "old_str", alias = "oldText")]
    old: String,
    #[serde(alias = "new_string", alias = "newString", alias = "new_str", alias = "newText")]
    new: String,
}

impl Edit {
    const NAMES: [(&str, &str); 4] = [
        ("old_string", "new_string"),
        ("oldString", "newString"),
        ("old_str", "new_str"),
        ("oldText", "newText"),
    ];

    fn from_arguments(pairs: &[(String, Json)]) -> Option<Self> {
        Self::NAMES
            .iter()
            .find_map(|(old, new)| Some(Self { old: text(pairs, old)?, new: text(pairs, new)? }))
    }

    fn unified_diff(&self, path: &str) -> String {
        diff(path, &self.old, &self.new)
    }
}

fn edits(value: &Json, path: &str) -> Vec<CallPart> {
    match value.parse_as::<Vec<Edit>>() {
        Some(edits) => edits.iter().map(|edit| CallPart::Diff(edit.unified_diff(path))).collect(),
        None => {
            let (name, value) = ("edits".to_owned(), value.as_json_str().to_owned());
            vec![CallPart::Text(NamedValue { name, value })]
        }
    }
}

/// Returns the change from one text to another as a unified diff.
fn diff(path: &str, old: &str, new: &str) -> String {
    let lines = old.lines().count() + new.lines().count();
    let mut text =
        if path.is_empty() { String::new() } else { format!("--- {path}\n+++ {path}\n") };
    if lines > LONGEST_DIFF {
        for (sign, side) in [('-', old), ('+', new)] {
            side.lines().for_each(|line| text.push_str(&format!("{sign}{line}\n")));
        }
        return text;
    }
    let changes = TextDiff::from_lines(old, new);
    let unified = changes.unified_diff().context_radius(3).missing_newline_hint(false).to_string();
    text.push_str(&unified);
    text
}

/// Counts the lines that a diff adds and removes.
fn changed_lines(diff: &str) -> ChangedLines {
    let count = |sign: &str, head: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
    };
    ChangedLines { added: count("+", "+++ "), removed: count("-", "--- ") }
}

fn is_patch(text: &str) -> bool {
    text.trim_start().starts_with("*** Begin Patch") || text.starts_with("diff --git ")
}

/// Returns a command as text. Some agents record it as a list of words.
fn command(value: &Json) -> String {
    if let Some(text) = value.parse_as::<String>() {
        return text;
    }
    let Some(words) = value.parse_as::<Vec<String>>() else {
        return value.as_json_str().to_owned();
    };
    match words.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') => script.clone(),
        _ => words.join(" "),
    }
}

/// The subject of a call.
struct Subject<'p> {
    line: String,
    /// The names of the arguments that the line has in full.
    shown: Vec<&'p str>,
}

fn subject(pairs: &[(String, Json)]) -> Subject<'_> {
    let find = |name: &str| pairs.iter().find(|(key, _)| key == name);
    let named = SUBJECT_ARGUMENTS.iter().find_map(|name| find(name));
    let Some((name, value)) = named.or_else(|| pairs.first()) else {
        return Subject { line: String::new(), shown: Vec::new() };
    };
    let text = match name.as_str() {
        "command" | "cmd" => command(value),
        _ => value.parse_as::<String>().unwrap_or_else(|| value.as_json_str().to_owned()),
    };
    let mut shown: Vec<&str> = named.map(|(name, _)| name.as_str()).into_iter().collect();
    let mut line = short_line(&text);
    let description = find("description").filter(|(description, _)| description != name);
    let description = description.and_then(|(_, value)| value.parse_as::<String>());
    if let Some(said) = description.filter(|said| !said.trim().is_empty()) {
        shown.push("description");
        if said.trim() != text.trim() {
            line = short_line(&format!("{said} · {line}"));
        }
    }
    // Arguments that were cut are shown in full elsewhere.
    if line.ends_with('…') {
        shown.clear();
    }
    Subject { line, shown }
}

/// Returns a text with all its lines in one, shortened to 160 characters.
fn short_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_LINE_CHARS * 4 {
            break;
        }
    }
    shortened(&line)
}

/// Returns the first line that is not blank, shortened to 160 characters.
pub fn one_line(text: &str) -> String {
    shortened(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn text(pairs: &[(String, Json)], name: &str) -> Option<String> {
    pairs.iter().find(|(key, _)| key == name)?.1.parse_as()
}

/// Returns the language of a file, derived from its name.
fn language(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    match name {
        "Dockerfile" | "Makefile" => name,
        _ => name.rsplit_once('.').map_or("", |(_, ending)| ending),
    }
}

/// The fields of a JSON object in the order they were written.
struct Pairs(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> CallDescription {
        describe_call(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn an_edit_is_a_diff_with_its_lines_counted() {
        let call =
            described(r#"{"file_path":"src/a.rs","old_string":"a\nb\n","new_string":"a\nc\nd\n"}"#);
        assert_eq!(call.subject, "src/a.rs");
        assert_eq!(call.lines, Some(ChangedLines { added: 2, removed: 1 }));
        let diff = "--- src/a.rs\n+++ src/a.rs\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n";
        assert!(call.parts.contains(&CallPart::Diff(diff.into())), "{:?}", call.parts);
    }

    #[test]
    fn a_call_has_one_subject_line_with_its_description_first() {
        let check = |input: &str, expected: &str| {
            let json: Json = serde_json::from_str(input).unwrap();
            assert_eq!(call_subject(&json), expected, "{input}");
            assert_eq!(described(input).subject, expected, "{input}");
        };
        check(r#"{"command":"ls -la"}"#, "ls -la");
        check(r#"{"command":["bash","-lc","ls -la"],"timeout":1}"#, "ls -la");
        check(r#"{"cmd":["ls","-la"]}"#, "ls -la");
        check(r#""ls -la""#, "ls -la");
        check(r#"{"command":"git diff\n--staged"}"#, "git diff --staged");
        check(
            r#"{"command":"git diff","description":"Show staged diff"}"#,
            "Show staged diff · git diff",
        );
        check(r#"{"description":"Look around","prompt":"Look at all of it"}"#, "Look around");
        check(r#"{"command":"git diff","description":" "}"#, "git diff");
        check(r#"{"command":"ls","description":"ls"}"#, "ls");
        check(r#"{"limit":5}"#, "5");
        check("{}", "");
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(200));
        check(&long, &format!("{}…", "x".repeat(160)));
    }

    #[test]
    fn arguments_keep_their_order_and_those_of_the_subject_are_not_repeated() {
        let field = |name: &str, value: &str| NamedValue { name: name.into(), value: value.into() };
        let call = described(r#"{"zeta":1,"alpha":"x"}"#);
        assert_eq!(call.parts, [CallPart::Fields(vec![field("zeta", "1"), field("alpha", "x")])]);
        let call = described(r#"{"pattern":"x","description":"Look","path":"src"}"#);
        assert_eq!(call.subject, "Look · x");
        assert_eq!(call.parts, [CallPart::Fields(vec![field("path", "src")])]);
    }
}
