//! Detects tool calls that queried this journal: their output repeats other sessions, and would
//! hide the originals in search results.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Block, Json, Message, tool_name};

/// The names of this program, as a command and as an MCP server.
const NAMES: [&str; 4] = ["aj", "aj.exe", "agent-journal", "agent_journal"];

/// Words in the names of tools that run commands.
const SHELLS: [&str; 5] = ["bash", "shell", "exec", "terminal", "command"];

/// The tool calls of a session, by which results are assigned to their calls.
#[derive(Debug, Default)]
pub(crate) struct KnownCalls(HashMap<u64, KnownCall>);

/// The indexed facts about a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownCall {
    /// The tool, by `tool_number`.
    pub(crate) tool: u16,
    /// Whether the call queried this journal.
    pub(crate) is_own: bool,
}

impl KnownCalls {
    /// Records the tool calls of a message.
    pub(crate) fn note(&mut self, message: &Message) {
        for block in &message.blocks {
            if let Block::ToolCall { id, name, input } = block {
                let name = tool_name(name);
                let call = KnownCall { tool: tool_number(&name), is_own: is_own(&name, input) };
                self.0.insert(xxh3_64(id.as_bytes()), call);
            }
        }
    }

    /// Returns the call that a block makes or answers.
    pub(crate) fn of(&self, block: &Block) -> KnownCall {
        let id = match block {
            Block::ToolCall { id, .. } => id,
            Block::ToolResult { call_id, .. } => call_id,
            _ => return KnownCall::default(),
        };
        self.0.get(&xxh3_64(id.as_bytes())).copied().unwrap_or_default()
    }
}

/// Returns a small number for the normalized name of a tool; 0 means no tool.
pub(crate) fn tool_number(name: &str) -> u16 {
    (xxh3_64(name.to_lowercase().as_bytes()) as u16).max(1)
}

fn is_own(tool: &str, input: &Json) -> bool {
    let server = tool.split_once('.').or_else(|| tool.split_once("__"));
    if server.is_some_and(|(server, _)| NAMES.contains(&server.to_lowercase().as_str())) {
        return true;
    }
    let lower = tool.to_lowercase();
    if !SHELLS.iter().any(|shell| lower.contains(shell)) {
        return false;
    }
    let mut found = false;
    input.visit_strings(&mut |text| found = found || runs_own(text));
    found
}

/// Returns whether the first command of a line, after changing the directory, is this program.
fn runs_own(line: &str) -> bool {
    if line.len() > 4096 || !line.contains("aj") && !line.contains("agent-journal") {
        return false;
    }
    let steps = line.split(['\n', ';', '|']).flat_map(|step| step.split("&&"));
    let mut steps =
        steps.map(str::trim).filter(|step| !step.is_empty() && !step.starts_with("cd "));
    let Some(step) = steps.next() else { return false };
    // Variables may be set before the command.
    let mut words = step.split_whitespace().skip_while(|word| word.contains('='));
    let program = words.next().unwrap_or_default().trim_start_matches(['"', '\'']);
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    // The name alone is not a command: it may be a word of a text.
    NAMES.contains(&name) && words.next().is_some_and(str::is_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_runs_this_program_is_our_own() {
        for line in [
            "aj search flaky login",
            "cd ~/web && aj show 3f1c#4 --json | head",
            "AJ_HOME=/tmp/x ./target/debug/aj list",
            "/usr/local/bin/aj stats --by day; echo done",
        ] {
            assert!(runs_own(line), "{line}");
        }
        for line in
            ["cargo test aj", "echo aj search", "ajax search", "aj", "majority of aj", "git log"]
        {
            assert!(!runs_own(line), "{line}");
        }
    }

    #[test]
    fn a_result_is_known_by_its_call() {
        let call = |id: &str, name: &str, input: &str| Block::ToolCall {
            id: id.into(),
            name: name.into(),
            input: serde_json::from_str(input).unwrap(),
        };
        let answer = |id: &str| Block::ToolResult {
            call_id: id.into(),
            output: String::new(),
            is_error: None,
        };
        let mut calls = KnownCalls::default();
        let blocks = vec![
            call("1", "Bash", r#"{"command": "aj search login"}"#),
            call("2", "mcp__agent-journal__search", r#"{"query": "login"}"#),
            call("3", "Grep", r#"{"pattern": "aj search"}"#),
        ];
        calls.note(&Message { blocks, ..Message::default() });
        assert!(calls.of(&answer("1")).is_own && calls.of(&answer("2")).is_own);
        assert_eq!(calls.of(&answer("1")).tool, tool_number("bash"));
        assert_eq!(calls.of(&answer("3")), KnownCall { tool: tool_number("Grep"), is_own: false });
        assert_eq!(calls.of(&answer("4")), KnownCall::default());
    }
}
