//! What a message changes in files: the edits, writes and patches of its calls, whatever their
//! tool is called, and the blocks of search and replace that some agents write as text.

use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

use super::tools::{changed_files, is_writer};
use super::{Block, Json, Message, tool_name};

/// One change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The file, as the call names it.
    pub file: String,
    /// The text that now stands there, line by line.
    pub lines: Vec<EditLine>,
    /// Lines that were taken away.
    pub removed: Vec<String>,
    /// Whether the text is the whole file.
    pub is_whole: bool,
    /// Whether the first and the last line may be a part of a longer one.
    pub is_fragment: bool,
}

/// A line that an edit leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditLine {
    /// The line, without its end.
    pub text: String,
    /// Whether the edit wrote it; the others stood there before.
    pub is_new: bool,
}

/// Lists the changes that a message makes, each with the id of its call. What is told in text
/// counts where a call says that the file was changed.
pub fn edits(message: &Message) -> Vec<(&str, Edit)> {
    let mut all = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolCall { id, name, input } => {
                let edits = of_call(&tool_name(name), input);
                all.extend(edits.into_iter().map(|edit| (id.as_str(), edit)));
            }
            Block::Text(text) if text.contains(SEARCH) => {
                let told = searched(text).into_iter();
                all.extend(told.filter_map(|edit| Some((applied(message, &edit.file)?, edit))));
            }
            _ => {}
        }
    }
    all
}

/// Finds the call of a message that changed a file.
fn applied<'m>(message: &'m Message, file: &str) -> Option<&'m str> {
    message.blocks.iter().find_map(|block| match block {
        Block::ToolCall { id, name, input } => {
            let files = changed_files(&tool_name(name), input);
            files.iter().any(|one| one == file).then_some(id.as_str())
        }
        _ => None,
    })
}

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";
const PATCH: &str = "*** Begin Patch";

/// Lists the changes of a call, by the normal name of its tool.
fn of_call(tool: &str, input: &Json) -> Vec<Edit> {
    // A patch may be the argument of any tool, a shell's too.
    if input.as_str().contains(PATCH) {
        let mut all = Vec::new();
        input.strings(&mut |text| all.extend(patched(text)));
        return all;
    }
    if !is_writer(tool) {
        return Vec::new();
    }
    let text = input.parse::<String>();
    let inner = text.as_deref().and_then(|text| serde_json::from_str::<Input>(text).ok());
    input.parse::<Input>().or(inner).map(Input::edits).unwrap_or_default()
}

/// Arguments of tools that change files, by all their names.
#[derive(Default, Deserialize)]
struct Input {
    #[serde(
        alias = "filePath",
        alias = "path",
        alias = "target_file",
        alias = "absolute_path",
        alias = "notebook_path"
    )]
    file_path: Option<String>,
    #[serde(alias = "contents", alias = "file_text")]
    content: Option<String>,
    /// New text between marks that stand for the old one.
    #[serde(alias = "code_edit")]
    code: Option<String>,
    #[serde(alias = "old_string", alias = "oldString", alias = "old_str", alias = "oldText")]
    old: Option<String>,
    #[serde(
        alias = "new_string",
        alias = "newString",
        alias = "new_str",
        alias = "newText",
        alias = "new_source",
        alias = "newCode"
    )]
    new: Option<String>,
    #[serde(alias = "replacements")]
    edits: Option<Vec<Input>>,
}

impl Input {
    fn edits(self) -> Vec<Edit> {
        let file = self.file_path.unwrap_or_default();
        let mut all = Vec::new();
        if let Some(content) = &self.content {
            all.push(Edit { is_whole: true, ..Edit::written(&file, content.lines()) });
        }
        if let Some(code) = &self.code {
            let lines: Vec<&str> = code.lines().collect();
            let parts = lines.split(|line| line.contains("existing code"));
            let parts = parts.filter(|part| !part.is_empty());
            all.extend(parts.map(|part| Edit::written(&file, part.iter().copied())));
        }
        if let Some(new) = &self.new {
            all.push(Edit::replaced(&file, self.old.as_deref().unwrap_or_default(), new));
        }
        for one in self.edits.into_iter().flatten() {
            let file_path = one.file_path.clone().or_else(|| Some(file.clone()));
            all.extend(Self { file_path, ..one }.edits());
        }
        all.retain(|edit| !edit.file.is_empty());
        all
    }
}

impl Edit {
    /// A text that was written as it is.
    fn written<'l>(file: &str, lines: impl Iterator<Item = &'l str>) -> Self {
        let lines = lines.map(|line| EditLine { text: line.to_owned(), is_new: true }).collect();
        Self { file: file.to_owned(), lines, ..Self::default() }
    }

    /// A text that took the place of another.
    fn replaced(file: &str, old: &str, new: &str) -> Self {
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

/// Lists the changes of a patch: files, each with hunks of lines that stay, go or come.
fn patched(text: &str) -> Vec<Edit> {
    let Some(start) = text.find(PATCH) else { return Vec::new() };
    let mut all: Vec<Edit> = Vec::new();
    let (mut file, mut is_whole) = (String::new(), false);
    for line in text[start..].lines().skip(1) {
        let named = |mark: &str| line.strip_prefix(mark).map(|path| path.trim().to_owned());
        if let Some(path) = named("*** Add File: ") {
            (file, is_whole) = (path, true);
            all.push(Edit { file: file.clone(), is_whole, ..Edit::default() });
        } else if let Some(path) = named("*** Update File: ").or_else(|| named("*** Delete File: "))
        {
            (file, is_whole) = (path, false);
            all.push(Edit { file: file.clone(), ..Edit::default() });
        } else if let Some(path) = named("*** Move to: ") {
            file.clone_from(&path);
            all.push(Edit { file: path, ..Edit::default() });
        } else if line.starts_with("*** End Patch") {
            break;
        } else if line.starts_with("@@") {
            all.push(Edit { file: file.clone(), is_whole, ..Edit::default() });
        } else if let Some(edit) = all.last_mut() {
            edit.hunk_line(line);
        }
    }
    all.retain(|edit| !edit.lines.is_empty() || !edit.removed.is_empty());
    all
}

impl Edit {
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

/// Lists the changes that are told as blocks of search and replace. The file is named in the line
/// before, or before the fence around the block.
fn searched(text: &str) -> Vec<Edit> {
    let mut all: Vec<Edit> = Vec::new();
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
                    let edit = Edit::replaced(&file, &old.join("\n"), &new.join("\n"));
                    all.push(Edit { is_fragment: false, ..edit });
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

    fn call(name: &str, input: &str) -> Vec<Edit> {
        of_call(&tool_name(name), &serde_json::from_str(input).unwrap())
    }

    /// The file, then every line with its sign.
    fn told(edit: &Edit) -> String {
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
            let edits: Vec<String> = edits(&message).iter().map(|(_, edit)| told(edit)).collect();
            assert_eq!(edits, expected);
        };
        check(&["src/a.rs", "src/b.rs"], &["src/a.rs: -y| x|+z", "src/b.rs: +new"]);
        check(&["src/b.rs"], &["src/b.rs: +new"]);
        check(&[], &[]);
    }
}
