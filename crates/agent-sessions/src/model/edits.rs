//! The changes that a message makes to files: edits, writes and patches of its tool calls, for all
//! tool names, and the search/replace blocks that some agents write as text.

use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

use super::tools::{files_changed_by_call, is_writer};
use super::{Block, Json, Message, tool_name};

/// One change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEdit {
    /// Path of the file as the call names it.
    pub file: String,
    /// The text after the change, line by line.
    pub lines: Vec<EditLine>,
    /// Lines that were removed.
    pub removed: Vec<String>,
    /// Whether `lines` is the complete file.
    pub is_whole: bool,
    /// Whether the first and the last line may be parts of longer lines.
    pub is_fragment: bool,
}

/// A line that an edit leaves in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditLine {
    /// The line without its line break.
    pub text: String,
    /// Whether the edit wrote the line; otherwise it was there before.
    pub is_new: bool,
}

/// Lists the changes that a message makes, each with the id of its call. Search/replace blocks in
/// text count only where a call confirms that the file was changed.
pub fn edits_of_message(message: &Message) -> Vec<(&str, FileEdit)> {
    let mut all = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolCall { id, name, input } => {
                let edits = of_call(&tool_name(name), input);
                all.extend(edits.into_iter().map(|edit| (id.as_str(), edit)));
            }
            Block::Text(text) if text.contains(SEARCH) => {
                let found = parse_search_replace_blocks(text).into_iter();
                all.extend(
                    found.filter_map(|edit| Some((call_that_changed(message, &edit.file)?, edit))),
                );
            }
            _ => {}
        }
    }
    all
}

/// Finds the call of a message that changed a file.
fn call_that_changed<'m>(message: &'m Message, file: &str) -> Option<&'m str> {
    message.blocks.iter().find_map(|block| match block {
        Block::ToolCall { id, name, input } => {
            let files = files_changed_by_call(&tool_name(name), input);
            files.iter().any(|one| one == file).then_some(id.as_str())
        }
        _ => None,
    })
}

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";
const PATCH: &str = "*** Begin Patch";

/// Lists the changes of a call, by the normalized name of its tool.
fn of_call(tool: &str, input: &Json) -> Vec<FileEdit> {
    // A patch may be the argument of any tool, including a shell.
    if input.as_json_str().contains(PATCH) {
        let mut all = Vec::new();
        input.visit_strings(&mut |text| all.extend(parse_patch(text)));
        return all;
    }
    if !is_writer(tool) {
        return Vec::new();
    }
    let text = input.parse_as::<String>();
    let inner = text.as_deref().and_then(|text| serde_json::from_str::<EditToolInput>(text).ok());
    input.parse_as::<EditToolInput>().or(inner).map(EditToolInput::into_edits).unwrap_or_default()
}

/// Arguments of tools that change files, under all their names.
#[derive(Default, Deserialize)]
struct EditToolInput {
    #[serde(
        alias = "filePath",
        alias = "filepath",
        alias = "path",
        alias = "target_file",
        alias = "absolute_path",
        alias = "notebook_path",
        alias = "TargetFile"
    )]
    file_path: Option<String>,
    #[serde(alias = "contents", alias = "file_text", alias = "CodeContent")]
    content: Option<String>,
    /// New text between markers that stand for the existing code.
    #[serde(alias = "code_edit")]
    code: Option<String>,
    #[serde(
        alias = "old_string",
        alias = "oldString",
        alias = "old_str",
        alias = "oldText",
        alias = "old_text",
        alias = "oldStr",
        alias = "TargetContent"
    )]
    old: Option<String>,
    #[serde(
        alias = "new_string",
        alias = "newString",
        alias = "new_str",
        alias = "newText",
        alias = "new_text",
        alias = "newStr",
        alias = "new_source",
        alias = "newCode",
        alias = "ReplacementContent"
    )]
    new: Option<String>,
    #[serde(alias = "replacements", alias = "ReplacementChunks")]
    edits: Option<Vec<EditToolInput>>,
}

impl EditToolInput {
    fn into_edits(self) -> Vec<FileEdit> {
        let file = self.file_path.unwrap_or_default();
        let mut all = Vec::new();
        if let Some(content) = &self.content {
            all.push(FileEdit {
                is_whole: true,
                ..FileEdit::from_written_text(&file, content.lines())
            });
        }
        if let Some(code) = &self.code {
            let lines: Vec<&str> = code.lines().collect();
            let parts = lines.split(|line| line.contains("existing code"));
            let parts = parts.filter(|part| !part.is_empty());
            all.extend(parts.map(|part| FileEdit::from_written_text(&file, part.iter().copied())));
        }
        if let Some(new) = &self.new {
            all.push(FileEdit::from_replacement(
                &file,
                self.old.as_deref().unwrap_or_default(),
                new,
            ));
        }
        for one in self.edits.into_iter().flatten() {
            let file_path = one.file_path.clone().or_else(|| Some(file.clone()));
            all.extend(Self { file_path, ..one }.into_edits());
        }
        all.retain(|edit| !edit.file.is_empty());
        all
    }
}

impl FileEdit {
    /// Builds an edit from text that was written as it is.
    fn from_written_text<'l>(file: &str, lines: impl Iterator<Item = &'l str>) -> Self {
        let lines = lines.map(|line| EditLine { text: line.to_owned(), is_new: true }).collect();
        Self { file: file.to_owned(), lines, ..Self::default() }
    }

    /// Builds an edit from a text and its replacement.
    fn from_replacement(file: &str, old: &str, new: &str) -> Self {
        let mut edit = Self { file: file.to_owned(), is_fragment: true, ..Self::default() };
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        for change in TextDiff::from_slices(&old, &new).iter_all_changes() {
            let text = change.value().to_owned();
            match change.tag() {
                ChangeTag::Delete => edit.removed.push(text),
                tag => {
                    edit.lines.push(EditLine { text, is_new: tag == ChangeTag::Insert });
                }
            }
        }
        edit
    }
}

/// Parses a patch: files, each with hunks of kept, removed and added lines.
fn parse_patch(text: &str) -> Vec<FileEdit> {
    let Some(start) = text.find(PATCH) else { return Vec::new() };
    let mut all: Vec<FileEdit> = Vec::new();
    let (mut file, mut is_whole) = (String::new(), false);
    for line in text[start..].lines().skip(1) {
        let named = |mark: &str| line.strip_prefix(mark).map(|path| path.trim().to_owned());
        if let Some(path) = named("*** Add File: ") {
            (file, is_whole) = (path, true);
            all.push(FileEdit { file: file.clone(), is_whole, ..FileEdit::default() });
        } else if let Some(path) = named("*** Update File: ").or_else(|| named("*** Delete File: "))
        {
            (file, is_whole) = (path, false);
            all.push(FileEdit { file: file.clone(), ..FileEdit::default() });
        } else if let Some(path) = named("*** Move to: ") {
            file.clone_from(&path);
            all.push(FileEdit { file: path, ..FileEdit::default() });
        } else if line.starts_with("*** End Patch") {
            break;
        } else if line.starts_with("@@") {
            all.push(FileEdit { file: file.clone(), is_whole, ..FileEdit::default() });
        } else if let Some(edit) = all.last_mut() {
            edit.hunk_line(line);
        }
    }
    all.retain(|edit| !edit.lines.is_empty() || !edit.removed.is_empty());
    all
}

impl FileEdit {
    fn hunk_line(&mut self, line: &str) {
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        match sign {
            "-" => self.removed.push(text.to_owned()),
            "+" => self.lines.push(EditLine { text: text.to_owned(), is_new: true }),
            " " => self.lines.push(EditLine { text: text.to_owned(), is_new: false }),
            _ => {}
        }
    }
}

/// Parses search/replace blocks. The file is named in the line before, or before the fence around
/// the block.
fn parse_search_replace_blocks(text: &str) -> Vec<FileEdit> {
    let mut all: Vec<FileEdit> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut side = None;
    for line in text.lines() {
        match (line.trim_end(), &mut side) {
            (SEARCH, _) => {
                (old, new) = (Vec::new(), Vec::new());
                side = Some(false);
            }
            (DIVIDER, Some(replacing)) => *replacing = true,
            (REPLACE, Some(_)) => {
                let own = names.iter().rev().take(2).copied().find(|line| is_name(line));
                let last = all.last().map(|edit| edit.file.clone());
                let file = own.map(|name| name.trim().to_owned()).or(last);
                if let Some(file) = file {
                    let edit = FileEdit::from_replacement(&file, &old.join("\n"), &new.join("\n"));
                    all.push(FileEdit { is_fragment: false, ..edit });
                }
                names.clear();
                side = None;
            }
            (_, Some(false)) => old.push(line),
            (_, Some(true)) => new.push(line),
            (_, None) => names.push(line),
        }
    }
    all
}

fn is_name(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("```") && !line.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &str) -> Vec<FileEdit> {
        of_call(&tool_name(name), &serde_json::from_str(input).unwrap())
    }

    /// Formats the file, then every line with its sign.
    fn told(edit: &FileEdit) -> String {
        let lines = edit.lines.iter().map(|line| {
            let sign = if line.is_new { '+' } else { ' ' };
            format!("{sign}{}", line.text)
        });
        let removed = edit.removed.iter().map(|line| format!("-{line}"));
        format!("{}: {}", edit.file, removed.chain(lines).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn every_way_to_change_a_file_is_understood() {
        let check = |name: &str, input: &str, expected: &[&str]| {
            let edits = call(name, input);
            assert_eq!(edits.iter().map(told).collect::<Vec<_>>(), expected, "{name} {input}");
        };
        let edit =
            r#"{"file_path":"a.rs","old_string":"a\nb","new_string":"a\nc","replace_all":false}"#;
        check("Edit", edit, &["a.rs: -b| a|+c"]);
        check("edit", r#"{"path":"a","old_str":"b","new_str":"c"}"#, &["a: -b|+c"]);
        check("StrReplace", r#"{"path":"a","old_string":"b","new_string":"c"}"#, &["a: -b|+c"]);
        check(
            "replace_string_in_file",
            r#"{"filePath":"a","oldString":"b","newString":"c"}"#,
            &["a: -b|+c"],
        );
        check("Write", r#"{"file_path":"a","content":"b\nc\n"}"#, &["a: +b|+c"]);
        check("Write", r#"{"path":"a","contents":"b"}"#, &["a: +b"]);
        check("create", r#"{"path":"a","file_text":"b"}"#, &["a: +b"]);
        check(
            "str_replace_editor",
            r#"{"command":"create","path":"a","file_text":"b"}"#,
            &["a: +b"],
        );
        check("str_replace_editor", r#"{"command":"view","path":"a"}"#, &[]);
        check("Read", r#"{"file_path":"a"}"#, &[]);
        check(
            "MultiEdit",
            r#"{"file_path":"a","edits":[{"old_string":"b","new_string":"c"},{"old_string":"d","new_string":"e"}]}"#,
            &["a: -b|+c", "a: -d|+e"],
        );
        check(
            "multi_replace_string_in_file",
            r#"{"replacements":[{"filePath":"a","oldString":"b","newString":"c"}]}"#,
            &["a: -b|+c"],
        );
        check(
            "edit_file",
            r#"{"target_file":"a","code_edit":"// ... existing code ...\nb\n// ... existing code ...\nc"}"#,
            &["a: +b", "a: +c"],
        );
        check("create_file", r#""{\"filePath\":\"a\",\"content\":\"b\"}""#, &["a: +b"]);
        check("write_to_file", r#"{"TargetFile":"a","CodeContent":"b"}"#, &["a: +b"]);
        check(
            "multi_replace_file_content",
            r#"{"TargetFile":"a","ReplacementChunks":[{"TargetContent":"b","ReplacementContent":"c"}]}"#,
            &["a: -b|+c"],
        );
        check(
            "fs_write",
            r#"{"command":"str_replace","path":"a","old_str":"b","new_str":"c"}"#,
            &["a: -b|+c"],
        );
        check("str_replace", r#"{"path":"a","oldStr":"b","newStr":"c"}"#, &["a: -b|+c"]);
    }

    #[test]
    fn a_patch_is_understood_wherever_it_stands() {
        let patch = "*** Begin Patch\\n*** Update File: a.rs\\n@@ fn main\\n x\\n-y\\n+z\\n@@\\n+w\\n*** Add File: b\\n+q\\n*** End Patch";
        let expected = ["a.rs: -y| x|+z", "a.rs: +w", "b: +q"];
        for input in [
            format!("\"{patch}\""),
            format!("{{\"input\":\"{patch}\",\"explanation\":\"so\"}}"),
            format!("{{\"cmd\":\"apply_patch <<'EOF'\\n{patch}\\nEOF\"}}"),
            format!("{{\"command\":[\"bash\",\"-lc\",\"apply_patch <<'EOF'\\n{patch}\\nEOF\"]}}"),
        ] {
            let edits = call("shell", &input);
            assert_eq!(edits.iter().map(told).collect::<Vec<_>>(), expected, "{input}");
            assert_eq!(
                edits.iter().map(|edit| edit.is_whole).collect::<Vec<_>>(),
                [false, false, true]
            );
        }
    }

    #[test]
    fn blocks_of_search_and_replace_are_understood() {
        let text = "So:\n\n```rust\nsrc/a.rs\n<<<<<<< SEARCH\nx\ny\n=======\nx\nz\n>>>>>>> REPLACE\n```\n\nsrc/b.rs\n```rust\n<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE\n```\n";
        let call = |path: &str| Block::ToolCall {
            id: path.to_owned(),
            name: "edit_file".to_owned(),
            input: Json::from_value(&std::collections::BTreeMap::from([("path", path)])),
        };
        let check = |calls: &[&str], expected: &[&str]| {
            let mut message =
                Message { blocks: vec![Block::Text(text.into())], ..Message::default() };
            message.blocks.extend(calls.iter().map(|path| call(path)));
            let edits: Vec<String> =
                edits_of_message(&message).iter().map(|(_, edit)| told(edit)).collect();
            assert_eq!(edits, expected);
        };
        check(&["src/a.rs", "src/b.rs"], &["src/a.rs: -y| x|+z", "src/b.rs: +new"]);
        check(&["src/b.rs"], &["src/b.rs: +new"]);
        check(&[], &[]);
    }
}
