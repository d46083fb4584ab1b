//! What a call of a tool is about, told from its arguments alone: a command, a file, an edit.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use similar::TextDiff;

use crate::model::Json;

/// Above this many lines an edit is shown as what went and what came, without looking for more.
const LONGEST_DIFF: usize = 4000;

/// Arguments a reader would name, the most telling first.
const TELLING: [&str; 17] = [
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

/// A call, described.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    /// What it is about, in one line.
    pub(super) gist: String,
    /// The arguments as a reader wants them.
    pub(super) parts: Vec<Part>,
    /// Lines added and removed by edits.
    pub(super) lines: Option<(usize, usize)>,
}

/// Some arguments of a call.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    /// A command of the shell.
    Command(String),
    /// Changes, as a unified diff.
    Diff(String),
    /// A file with its new content: language and text.
    File(String, String),
    /// A named argument over several lines.
    Text(String, String),
    /// Short arguments.
    Fields(Vec<(String, String)>),
    /// Arguments that are no object.
    Raw(String),
}

/// Describes a call.
pub(super) fn call(input: &Json) -> Call {
    let Some(Pairs(pairs)) = input.parse::<Pairs>() else {
        let text = input.parse::<String>().unwrap_or_else(|| input.as_str().to_owned());
        let gist = one_line(&text);
        let part = if is_patch(&text) { Part::Diff(text) } else { Part::Raw(text) };
        return finish(gist, vec![part]);
    };
    let gist = gist(&pairs);
    let parts = parts(&pairs, &gist);
    finish(gist, parts)
}

fn finish(gist: String, parts: Vec<Part>) -> Call {
    let diffs = parts.iter().filter_map(|part| match part {
        Part::Diff(diff) => Some(changed(diff)),
        _ => None,
    });
    let lines = diffs.reduce(|one, other| (one.0 + other.0, one.1 + other.1));
    Call { gist, parts, lines }
}

fn parts(pairs: &[(String, Json)], gist: &str) -> Vec<Part> {
    let path = PATHS.iter().find_map(|name| text(pairs, name)).unwrap_or_default();
    let mut parts = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    if let Some(edit) = Edit::of(pairs) {
        parts.push(Part::Diff(edit.diff(&path)));
        used.extend(Edit::NAMES.iter().flat_map(|(old, new)| [*old, *new]));
    }
    for (name, value) in pairs {
        if used.contains(&name.as_str()) {
            continue;
        }
        match (name.as_str(), value.parse::<String>()) {
            ("command" | "cmd", _) => parts.push(Part::Command(command(value))),
            ("edits", None) => parts.extend(edits(value, &path)),
            (_, Some(text)) if is_patch(&text) => parts.push(Part::Diff(text)),
            ("content" | "file_text" | "contents", Some(text)) if !path.is_empty() => {
                parts.push(Part::File(language(&path).to_owned(), text));
            }
            (_, Some(text)) if text.contains('\n') || text.len() > 160 => {
                parts.push(Part::Text(name.clone(), text));
            }
            (_, Some(text)) => fields.push((name.clone(), text)),
            (_, None) => fields.push((name.clone(), value.as_str().to_owned())),
        }
    }
    // What the line above says already is not said again.
    fields.retain(|(name, value)| *value != gist || !TELLING.contains(&name.as_str()));
    if !fields.is_empty() {
        parts.insert(0, Part::Fields(fields));
    }
    parts
}

/// One replacement of a text by another.
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

    fn of(pairs: &[(String, Json)]) -> Option<Self> {
        Self::NAMES
            .iter()
            .find_map(|(old, new)| Some(Self { old: text(pairs, old)?, new: text(pairs, new)? }))
    }

    fn diff(&self, path: &str) -> String {
        diff(path, &self.old, &self.new)
    }
}

fn edits(value: &Json, path: &str) -> Vec<Part> {
    match value.parse::<Vec<Edit>>() {
        Some(edits) => edits.iter().map(|edit| Part::Diff(edit.diff(path))).collect(),
        None => vec![Part::Text("edits".to_owned(), value.as_str().to_owned())],
    }
}

/// The change from one text to another, as a unified diff.
pub(super) fn diff(path: &str, old: &str, new: &str) -> String {
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

/// Lines added and removed by a diff.
fn changed(diff: &str) -> (usize, usize) {
    let count = |sign: &str, head: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
    };
    (count("+", "+++ "), count("-", "--- "))
}

fn is_patch(text: &str) -> bool {
    text.trim_start().starts_with("*** Begin Patch") || text.starts_with("diff --git ")
}

/// A command; some agents record it as a list of words.
fn command(value: &Json) -> String {
    if let Some(text) = value.parse::<String>() {
        return text;
    }
    let Some(words) = value.parse::<Vec<String>>() else { return value.as_str().to_owned() };
    match words.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && flag.starts_with('-') => script.clone(),
        _ => words.join(" "),
    }
}

fn gist(pairs: &[(String, Json)]) -> String {
    let telling = TELLING.iter().find_map(|name| pairs.iter().find(|(key, _)| key == name));
    let Some((name, value)) = telling.or_else(|| pairs.first()) else { return String::new() };
    let text = match name.as_str() {
        "command" | "cmd" => command(value),
        _ => value.parse::<String>().unwrap_or_else(|| value.as_str().to_owned()),
    };
    one_line(&text)
}

/// The first line with something in it, and no more than a line should be.
pub(super) fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn text(pairs: &[(String, Json)], name: &str) -> Option<String> {
    pairs.iter().find(|(key, _)| key == name)?.1.parse()
}

/// The language of a file, by its name.
pub(super) fn language(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    match name {
        "Dockerfile" | "Makefile" => name,
        _ => name.rsplit_once('.').map_or("", |(_, ending)| ending),
    }
}

/// An object's fields in the order they were written.
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

    fn described(json: &str) -> Call {
        call(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn an_edit_is_a_diff_with_its_lines_counted() {
        let call =
            described(r#"{"file_path":"src/a.rs","old_string":"a\nb\n","new_string":"a\nc\nd\n"}"#);
        assert_eq!(call.gist, "src/a.rs");
        assert_eq!(call.lines, Some((2, 1)));
        let diff = "--- src/a.rs\n+++ src/a.rs\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n";
        assert!(call.parts.contains(&Part::Diff(diff.into())), "{:?}", call.parts);
    }

    #[test]
    fn a_command_is_told_whether_it_is_a_text_or_a_list() {
        let check = |json: &str| assert_eq!(described(json).gist, "ls -la", "{json}");
        check(r#"{"command":"ls -la","description":"List"}"#);
        check(r#"{"command":["bash","-lc","ls -la"],"timeout":1}"#);
        check(r#"{"cmd":["ls","-la"]}"#);
        check(r#""ls -la""#);
    }

    #[test]
    fn arguments_keep_their_order() {
        let call = described(r#"{"zeta":1,"alpha":"x"}"#);
        let fields = vec![("zeta".into(), "1".into()), ("alpha".into(), "x".into())];
        assert_eq!(call.parts, [Part::Fields(fields)]);
    }
}
