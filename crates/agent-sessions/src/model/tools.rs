//! Normalizes tool names, and classifies tool inputs and failures. Messages keep the recorded
//! names; counts and filters use the normalized ones.

use std::borrow::Cow;

use serde::Deserialize;

use super::Json;

/// The normalized name of each tool, with the names under which agents record it.
const NAMES: &[(&str, &[&str])] = &[
    (
        "ask_user",
        &["AskUserQuestion", "ask_followup_question", "request_user_input", "ask_user_question"],
    ),
    (
        "bash",
        &[
            "Bash",
            "Shell",
            "shell",
            "shell_command",
            "exec_command",
            "run_shell_command",
            "run_in_terminal",
            "run_terminal_cmd",
            "run_terminal_command",
            "run_command",
            "builtin_run_terminal_command",
            "execute_command",
            "run_commands",
            "execute_bash",
            "execute_pwsh",
            "Execute",
            "terminal",
            "developer__shell",
        ],
    ),
    (
        "edit_file",
        &[
            "Edit",
            "MultiEdit",
            "edit",
            "replace",
            "StrReplace",
            "StrReplaceFile",
            "replace_string_in_file",
            "multi_replace_string_in_file",
            "search_replace",
            "replace_file_content",
            "multi_replace_file_content",
            "appliedDiff",
            "editedExistingFile",
            "editor",
            "edit_existing_file",
            "builtin_edit_existing_file",
            "single_find_and_replace",
            "multi_edit",
            "str_replace",
        ],
    ),
    (
        "glob",
        &[
            "Glob",
            "file_search",
            "glob_file_search",
            "file_glob_search",
            "builtin_file_glob_search",
        ],
    ),
    (
        "grep",
        &[
            "Grep",
            "grep_search",
            "search_file_content",
            "searchFiles",
            "search_codebase",
            "builtin_grep_search",
            "search_files",
        ],
    ),
    (
        "list_directory",
        &["LS", "list_dir", "List", "listFilesRecursive", "listFilesTopLevel", "builtin_ls"],
    ),
    (
        "read_file",
        &["Read", "read", "ReadFile", "view", "view_file", "readFile", "builtin_read_file"],
    ),
    ("search", &["Search"]),
    ("str_replace_editor", &["developer__text_editor", "text_editor"]),
    (
        "todo",
        &[
            "TodoRead",
            "TodoWrite",
            "todo_write",
            "write_todos",
            "manage_todo_list",
            "SetTodoList",
            "update_plan",
            "TodoList",
        ],
    ),
    (
        "web_fetch",
        &[
            "WebFetch",
            "fetch_webpage",
            "webFetch",
            "fetch_web_content",
            "Fetch",
            "FetchURL",
            "FetchUrl",
        ],
    ),
    ("web_search", &["WebSearch", "google_web_search", "webSearch", "SearchWeb"]),
    (
        "write_file",
        &[
            "Write",
            "write",
            "WriteFile",
            "create",
            "create_file",
            "write_to_file",
            "newFileCreated",
            "builtin_create_new_file",
            "Create",
        ],
    ),
];

/// The tool with which the model asks the person a question.
pub const ASK_USER: &str = "ask_user";

/// Tools whose input names a file they change.
const WRITERS: &[&str] = &[
    "apply_patch",
    "create_new_file",
    "edit_file",
    "fs_write",
    "insert_edit_into_file",
    "NotebookEdit",
    "str_replace_editor",
    "write_file",
];

/// Tools whose input names files they show.
const VIEWERS: &[&str] = &["read_file", "read_many_files", "NotebookRead"];

/// Tools that write a complete file.
const CREATORS: &[&str] = &["write_file", "create_new_file"];

/// Kinds of failure, each with lower-case phrases that identify it at the beginning of a result.
/// The first matching kind applies.
const FAILURES: &[(&str, &[&str])] = &[
    (
        "rejected",
        &[
            "doesn't want to",
            "user rejected",
            "rejected by",
            "denied by",
            "user denied",
            "refused by",
            "was blocked",
        ],
    ),
    ("interrupted", &["interrupted", "aborted", "cancelled", "canceled"]),
    ("timeout", &["timed out", "timeout"]),
    (
        "no match",
        &[
            "string to replace not found",
            "string not found",
            "no match",
            "failed to find",
            "did not match",
            "not unique",
            "multiple matches",
        ],
    ),
    ("stale read", &["has not been read", "modified since", "has been changed since"]),
    ("permission", &["permission denied", "eacces", "operation not permitted"]),
    ("not found", &["no such file", "does not exist", "not found", "enoent", "cannot find"]),
    (
        "invalid input",
        &["inputvalidationerror", "invalid", "missing required", "unknown option", "unrecognized"],
    ),
    ("exit code", &["exit code", "exited with", "exit status", "\"exit_code\""]),
];

/// Number of the kind of failure that no phrase identifies.
const OTHER_FAILURE: u8 = FAILURES.len() as u8;

/// Number of the kind for failures of the agent itself: an API error, an abort.
pub const AGENT_FAILURE: u8 = OTHER_FAILURE + 1;

/// Returns the normalized name of a tool: `mcp__server__tool` becomes `server.tool`, known tools
/// have one name each, the others stay as they are.
pub fn tool_name(recorded: &str) -> Cow<'_, str> {
    if let Some((server, tool)) = recorded.strip_prefix("mcp__").and_then(|it| it.split_once("__"))
        && !server.is_empty()
        && !tool.is_empty()
    {
        return Cow::Owned(format!("{server}.{tool}"));
    }
    let known = NAMES.iter().find(|(_, recorded_as)| recorded_as.contains(&recorded));
    known.map_or(Cow::Borrowed(recorded), |(name, _)| Cow::Borrowed(name))
}

/// Returns the name of a kind of failure.
pub fn failure_name(kind: u8) -> &'static str {
    match FAILURES.get(usize::from(kind)) {
        Some((name, _)) => name,
        None if kind == AGENT_FAILURE => "agent failed",
        None => "other",
    }
}

/// Returns the kind of a failure, by the output of the tool.
pub(crate) fn failure_kind(output: &str) -> u8 {
    // Long enough for the message, too short for the listing that may follow it.
    let beginning: String = output.chars().take(240).collect::<String>().to_lowercase();
    let fits = |signs: &&[&str]| signs.iter().any(|sign| beginning.contains(sign));
    let found = FAILURES.iter().position(|(_, signs)| fits(signs));
    // A non-zero exit code takes precedence over the text that the command printed.
    if beginning.trim_start().starts_with("exit code") {
        return FAILURES.len() as u8 - 1;
    }
    found.map_or(OTHER_FAILURE, |place| place as u8)
}

/// Returns whether a tool's input names a file it changes, by the tool's normalized name.
pub(super) fn is_writer(tool: &str) -> bool {
    WRITERS.contains(&tool)
}

/// Lists the files that a call changes, as its input names them.
pub fn files_changed_by_call(tool: &str, input: &Json) -> Vec<String> {
    if !is_writer(tool) {
        return shell_patched(input);
    }
    let text = input.parse_as::<String>();
    let inner = text.as_deref().and_then(|text| serde_json::from_str::<NamedFiles>(text).ok());
    if let Some(found) = input.parse_as::<NamedFiles>().or(inner) {
        return found.into_files();
    }
    text.as_deref().map(files_of_patch).unwrap_or_default()
}

/// Lists the files that a call only views, as its input names them.
pub(crate) fn viewed_files(tool: &str, input: &Json) -> Vec<String> {
    let is_viewer = VIEWERS.contains(&tool);
    if !(is_viewer || is_writer(tool) && input.as_json_str().contains("\"view\"")) {
        return Vec::new();
    }
    let Some(named) = parse_named_files(input) else { return Vec::new() };
    if is_viewer || named.is_command("view") { named.into_paths() } else { Vec::new() }
}

/// Returns whether a tool writes complete files, by its normalized name: it creates the files that
/// it changes.
pub(super) fn is_creator(tool: &str) -> bool {
    CREATORS.contains(&tool)
}

/// Lists the files that a call writes completely, as its input names them.
pub(crate) fn created_files(tool: &str, input: &Json) -> Vec<String> {
    if is_creator(tool) {
        return files_changed_by_call(tool, input);
    }
    if tool == "str_replace_editor" {
        let is_created = parse_named_files(input).is_some_and(|named| named.is_command("create"));
        return if is_created { files_changed_by_call(tool, input) } else { Vec::new() };
    }
    let mut files = Vec::new();
    let mark = "*** Add File: ";
    if input.as_json_str().contains(mark) {
        input.visit_strings(&mut |text| {
            let added = text.lines().filter_map(|line| line.strip_prefix(mark));
            files.extend(added.map(str::to_owned));
        });
    }
    files
}

fn parse_named_files(input: &Json) -> Option<NamedFiles> {
    let text = || input.parse_as::<String>();
    input.parse_as::<NamedFiles>().or_else(|| serde_json::from_str(&text()?).ok())
}

/// The keys under which tools name files.
#[derive(Deserialize)]
struct NamedFiles {
    #[serde(default)]
    paths: Option<Vec<String>>,
    #[serde(
        alias = "filePath",
        alias = "filepath",
        alias = "path",
        alias = "target_file",
        alias = "absolute_path",
        alias = "notebook_path",
        alias = "AbsolutePath",
        alias = "TargetFile"
    )]
    file_path: Option<String>,
    command: Option<Json>,
    #[serde(alias = "edits")]
    replacements: Option<Vec<Inner>>,
    #[serde(alias = "patch", alias = "patchText")]
    input: Option<String>,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(alias = "filePath", alias = "path")]
    file_path: Option<String>,
}

impl NamedFiles {
    fn is_command(&self, name: &str) -> bool {
        let command = self.command.as_ref().and_then(Json::parse_as::<String>);
        command.is_some_and(|command| command == name)
    }

    fn into_paths(self) -> Vec<String> {
        self.file_path.into_iter().chain(self.paths.into_iter().flatten()).collect()
    }

    fn into_files(self) -> Vec<String> {
        if self.command.is_some_and(|command| command.as_json_str() == "\"view\"") {
            return Vec::new();
        }
        let inner = self.replacements.into_iter().flatten().filter_map(|one| one.file_path);
        let mut files: Vec<String> = self.file_path.into_iter().chain(inner).collect();
        files.extend(self.input.as_deref().map(files_of_patch).unwrap_or_default());
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// Lists the files of a patch that a shell command applies.
fn shell_patched(input: &Json) -> Vec<String> {
    let mut files = Vec::new();
    if input.as_json_str().contains("*** Begin Patch") {
        input.visit_strings(&mut |text| files.extend(files_of_patch(text)));
    }
    files
}

/// Lists the files of a patch.
fn files_of_patch(text: &str) -> Vec<String> {
    let marks = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    let file =
        |line: &str| marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    text.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_one_name_each() {
        let check = |recorded: &str, name: &str| assert_eq!(tool_name(recorded), name);
        check("Edit", "edit_file");
        check("Read", "read_file");
        check("Write", "write_file");
        check("Bash", "bash");
        check("Search", "search");
        check("Glob", "glob");
        check("Grep", "grep");
        check("WebSearch", "web_search");
        check("WebFetch", "web_fetch");
        check("TodoRead", "todo");
        check("TodoWrite", "todo");
        check("mcp__github__create_issue", "github.create_issue");
        check("mcp__a__b__c", "a.b__c");
        check("mcp__broken", "mcp__broken");
        check("SomethingNew", "SomethingNew");
    }

    #[test]
    fn no_recorded_name_means_two_tools() {
        let mut all: Vec<&str> =
            NAMES.iter().flat_map(|(_, recorded)| *recorded).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn calls_that_change_files_name_them() {
        let check = |tool: &str, input: &str, files: &[&str]| {
            let raw: Json = serde_json::from_str(input).unwrap();
            assert_eq!(files_changed_by_call(tool, &raw), files, "{input}");
        };
        check("edit_file", r#"{"file_path":"/a/b.rs","old_string":"x"}"#, &["/a/b.rs"]);
        check("write_file", r#"{"filePath":"c.ts","content":"…"}"#, &["c.ts"]);
        check("write_file", r#""{\"path\":\"d.py\"}""#, &["d.py"]);
        check("read_file", r#"{"file_path":"/a/b.rs"}"#, &[]);
        check("str_replace_editor", r#"{"command":"view","path":"e"}"#, &[]);
        let patch = r#""*** Begin Patch\n*** Update File: src/f.rs\n@@\n+x\n*** Add File: g\n""#;
        check("apply_patch", patch, &["src/f.rs", "g"]);
        let shell = r#"{"cmd":"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: i\n+x\nEOF"}"#;
        check("bash", shell, &["i"]);
        check("edit_file", r#"{"replacements":[{"filePath":"h"},{"filePath":"h"}]}"#, &["h"]);
        check("write_file", r#"{"TargetFile":"/j.go","CodeContent":"…"}"#, &["/j.go"]);
    }

    #[test]
    fn calls_that_view_or_create_files_name_them() {
        let check = |tool: &str, input: &str, viewed: &[&str], created: &[&str]| {
            let raw: Json = serde_json::from_str(input).unwrap();
            assert_eq!(viewed_files(tool, &raw), viewed, "{input}");
            assert_eq!(created_files(tool, &raw), created, "{input}");
        };
        check("read_file", r#"{"file_path":"/a/b.rs"}"#, &["/a/b.rs"], &[]);
        check("read_many_files", r#"{"paths":["a","b"]}"#, &["a", "b"], &[]);
        check("str_replace_editor", r#"{"command":"view","path":"e"}"#, &["e"], &[]);
        check("str_replace_editor", r#"{"command":"create","path":"e"}"#, &[], &["e"]);
        check("write_file", r#"{"filePath":"c.ts","content":"\"view\""}"#, &[], &["c.ts"]);
        check("edit_file", r#"{"file_path":"c.ts","old_string":"x"}"#, &[], &[]);
        let patch = r#""*** Begin Patch\n*** Update File: src/f.rs\n@@\n+x\n*** Add File: g\n""#;
        check("apply_patch", patch, &[], &["g"]);
    }

    #[test]
    fn failures_are_told_apart_by_their_first_words() {
        let check = |output: &str, kind: &str| assert_eq!(failure_name(failure_kind(output)), kind);
        check("Exit code 1\nls: no such file", "exit code");
        check("<tool_use_error>String to replace not found in file.", "no match");
        check("The user doesn't want to proceed with this tool use.", "rejected");
        check("ENOENT: no such file or directory", "not found");
        check("Command timed out after 2m", "timeout");
        check("boom", "other");
        assert_eq!(failure_name(AGENT_FAILURE), "agent failed");
    }
}
