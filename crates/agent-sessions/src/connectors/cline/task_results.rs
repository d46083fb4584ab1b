//! The results of tools, which a task records only as the text of its next request.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient};

/// Texts of a request after the results: the state of the editor, and instructions.
const BEHIND_RESULTS: &[&str] =
    &["<environment_details>", "# Todo List", "# TODO LIST", "# task_progress", "# Next Steps\n"];

/// Tools whose call is a statement of the model, and whose result only answers it.
const SPOKEN_TOOLS: &[&str] =
    &["attempt_completion", "plan_mode_respond", "act_mode_respond", "new_task", "condense"];

/// Header of the result of a native tool call.
const NATIVE: &str = "[Tool]";

/// Header of the result of a native tool call that failed.
const NATIVE_FAILURE: &str = "[Tool (Error)]";

/// The result of one tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskResult {
    pub(super) output: String,
    pub(super) is_error: Option<bool>,
}

lenient! {
    /// One message of the conversation as the model received it.
    struct HistoryMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "ts" millis: Option<u64>,
        "content" content: Option<&'a RawValue>,
    }
}

lenient! {
    /// A block of a message that the model received.
    struct HistoryBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "is_error" is_error: Option<bool>,
        "content" content: Option<&'a RawValue>,
    }
}

lenient! {
    /// The state of a result, where it is JSON.
    struct ResultState<'a> {
        "status" status: Option<BorrowedText<'a>>,
    }
}

/// Parses the results in a request's text, in the order of their calls.
pub(super) fn parse_results(request: &str) -> Vec<TaskResult> {
    let end = BEHIND_RESULTS.iter().filter_map(|mark| find_at_line_start(request, mark)).min();
    let request = &request[..end.unwrap_or(request.len())];
    let mut results: Vec<(Option<&str>, bool, String)> = Vec::new();
    // Whether only the header of a native result has been read.
    let mut is_bare = false;
    for line in request.split_inclusive('\n') {
        let bare = line.trim_end();
        let named = tool_of_header(bare);
        if named.is_some() && is_bare {
            if let Some(last) = results.last_mut() {
                last.0 = named;
            }
            is_bare = false;
        } else if named.is_some() {
            results.push((named, false, String::new()));
        } else if bare == NATIVE || bare == NATIVE_FAILURE {
            results.push((None, bare == NATIVE_FAILURE, String::new()));
            is_bare = true;
        } else if let Some(last) = results.last_mut() {
            is_bare &= bare.is_empty();
            last.2.push_str(line);
        }
    }
    let is_answer = |tool: Option<&str>| tool.is_some_and(|tool| SPOKEN_TOOLS.contains(&tool));
    results.retain(|result| !is_answer(result.0));
    results.into_iter().map(|(tool, failed, text)| judge_result(tool, failed, &text)).collect()
}

/// Returns the text of a message that the model received, in the form of a request's text.
pub(super) fn text_of_content(content: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    let blocks = json::array_elements(content).unwrap_or_default().into_iter();
    let texts = blocks.filter_map(|raw| {
        let block = json::parse_json::<HistoryBlock<'_>>(raw.get())?;
        match block.kind.as_ref().map(BorrowedText::as_borrowed_str) {
            Some("tool_result") => {
                let header = if block.is_error == Some(true) { NATIVE_FAILURE } else { NATIVE };
                let content = block.content.map(text_of_content).unwrap_or_default();
                Some(format!("{header}\n{content}"))
            }
            _ => block.text.map(BorrowedText::into_owned),
        }
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Returns the working directory named in the details that a request describes to the model.
pub(super) fn working_directory(request: &str) -> Option<&str> {
    let marks = ["# Current Workspace Directory (", "# Current Working Directory ("];
    let behind = marks.iter().find_map(|mark| Some(request.split_once(mark)?.1))?;
    let (directory, _) = behind.lines().next()?.rsplit_once(") Files")?;
    let is_path = !directory.is_empty() && !directory.starts_with("Primary: ");
    is_path.then_some(directory)
}

/// Returns the model named in the details that a request describes to the model.
pub(super) fn model_of_details(request: &str) -> Option<&str> {
    let (_, details) = request.rsplit_once("<environment_details>")?;
    let (_, mode) = details.split_once("# Current Mode")?;
    let (name, _) = mode.split_once("<model>")?.1.split_once("</model>")?;
    Some(name.trim()).filter(|name| !name.is_empty() && !name.contains('\n'))
}

/// Returns the tool in the header of a result: `[read_file for 'a.txt'] Result:`.
fn tool_of_header(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?.strip_suffix("] Result:")?;
    let name = inside.split([' ', ']']).next()?;
    let is_name = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn find_at_line_start(text: &str, mark: &str) -> Option<usize> {
    let mut found = text.match_indices(mark).map(|(at, _)| at);
    found.find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
}

/// Decides whether a result reports a failure. The agents have fixed texts for failures and
/// refusals; a command that ended without an exit code is undecided.
fn judge_result(tool: Option<&str>, failed: bool, text: &str) -> TaskResult {
    const FAILURES: &[&str] = &[
        "The tool execution failed",
        "The user denied this operation",
        "[ERROR]",
        "Command failed with exit code",
        "Command terminated by signal",
    ];
    let output = text.trim().to_owned();
    let state = json::parse_json::<ResultState<'_>>(&output).and_then(|state| state.status);
    let state = state.as_ref().map(BorrowedText::as_borrowed_str);
    let is_failure = failed
        || FAILURES.iter().any(|beginning| output.starts_with(beginning))
        || (tool == Some("use_mcp_tool") && output.starts_with("Error:"))
        || matches!(state, Some("error" | "denied"));
    let is_command = tool.is_none_or(|tool| tool == "execute_command");
    let is_error = match exit_code(&output) {
        _ if is_failure => Some(true),
        Some(code) if is_command => Some(code != 0),
        _ if tool == Some("execute_command") => None,
        _ => Some(false),
    };
    TaskResult { output, is_error }
}

/// Returns the exit code that a command's result names before its output.
fn exit_code(output: &str) -> Option<i64> {
    let line = output.lines().take(3).find_map(|line| {
        let (_, code) = line.split_once("Exit code: ").or_else(|| line.split_once("exit code "))?;
        Some(code)
    })?;
    let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(request: &str) -> Vec<(String, Option<bool>)> {
        let results = parse_results(request).into_iter();
        results.map(|result| (result.output, result.is_error)).collect()
    }

    #[test]
    fn results_stand_behind_their_headers_and_before_the_details() {
        let check = |request: &str, expected: &[(&str, Option<bool>)]| {
            let expected: Vec<_> =
                expected.iter().map(|(text, error)| ((*text).to_owned(), *error)).collect();
            assert_eq!(outcomes(request), expected, "{request}");
        };
        check("<task>\nhello\n</task>", &[]);
        check(
            "[read_file for 'a'] Result:\n\none\ntwo\n\n<environment_details>\nx",
            &[("one\ntwo", Some(false))],
        );
        check(
            "[Tool]\n[read_file for 'a'] Result:\none\n\n[Tool (Error)]\nno",
            &[("one", Some(false)), ("no", Some(true))],
        );
        check("[attempt_completion] Result:\n\n<feedback>more</feedback>", &[]);
        check(
            "[execute_command for 'x'] Result:\nCommand executed.\nOutput:\nok",
            &[("Command executed.\nOutput:\nok", None)],
        );
        check(
            "[execute_command for 'x'] Result:\nCommand failed with exit code 2.",
            &[("Command failed with exit code 2.", Some(true))],
        );
        check(
            "[execute_command for 'x'] Result:\nCommand executed in terminal  within working directory '/p'. Exit code: 0\nOutput:",
            &[(
                "Command executed in terminal  within working directory '/p'. Exit code: 0\nOutput:",
                Some(false),
            )],
        );
        check(
            "[write_to_file for 'a'] Result:\nThe user denied this operation.",
            &[("The user denied this operation.", Some(true))],
        );
        check(
            "[Tool]\n{\"status\":\"denied\",\"feedback\":\"no\"}",
            &[("{\"status\":\"denied\",\"feedback\":\"no\"}", Some(true))],
        );
    }

    #[test]
    fn details_name_the_directory_and_the_model() {
        let request = "<environment_details>\n# Current Mode\n<slug>code</slug>\n<model>m-1</model>\n\n# Current Workspace Directory (/home/a (b)) Files\nx";
        assert_eq!(working_directory(request), Some("/home/a (b)"));
        assert_eq!(model_of_details(request), Some("m-1"));
        assert_eq!(working_directory("# Current Working Directory (Primary: a) Files"), None);
        assert_eq!(model_of_details("# Current Mode <model>m</model>"), None);
    }
}
