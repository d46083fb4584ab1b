//! Tool calls. A call is recorded as displayed, in a part of the response, and as the model made
//! it, in the extension's rounds, with the result the model received. This file joins the two.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::value::RawValue;

use super::shape::{
    RequestMetadata, ResponsePart, elements_or_single, parse_epoch_millis, parse_non_empty_string,
    parse_raw, parse_reference_path, parse_text_value,
};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{BorrowedText, lenient, object_fields, parse_json};
use crate::model::{Block, Json, Timestamp};

/// Size limit of outputs stored in separate files. Larger ones are truncated, with a marker.
const MAX_OUTPUT: u64 = 32 << 20;

/// Pairs of a tool's name in the response and its name in the rounds, where no rule matches them.
const SAME: &[(&str, &str)] = &[
    ("findtextinfiles", "grepsearch"),
    ("findfiles", "filesearch"),
    ("searchcodebase", "semanticsearch"),
];

/// A call that the model made in a round.
pub(super) struct RoundToolCall<'a> {
    id: String,
    pub(super) name: String,
    arguments: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    pub(super) round: usize,
}

/// The extension's record of the rounds of one request.
#[derive(Default)]
pub(super) struct Rounds<'a> {
    pub(super) calls: Vec<RoundToolCall<'a>>,
    /// For each round, the time of recording and the conversation summary written there.
    pub(super) marks: Vec<(Option<Timestamp>, Option<String>)>,
    /// The text of the model in all rounds.
    pub(super) words: String,
    /// Results of calls that are in no round, by the id of the call.
    unclaimed: Vec<(String, &'a RawValue)>,
}

/// A call as it is emitted to the journal, with its result if there is one.
pub(super) struct EmittedToolCall {
    pub(super) call: Block,
    pub(super) result: Option<Block>,
}

impl EmittedToolCall {
    /// Changes the id of the call and its result.
    pub(super) fn rename_call(&mut self, new: &str) {
        for block in [Some(&mut self.call), self.result.as_mut()].into_iter().flatten() {
            match block {
                Block::ToolCall { id, .. } | Block::ToolResult { call_id: id, .. } => {
                    new.clone_into(id);
                }
                _ => {}
            }
        }
    }

    /// Sets the output that the model received. The error flag of the displayed result is kept.
    pub(super) fn set_output(&mut self, output: String) {
        let is_error = match &self.result {
            Some(Block::ToolResult { is_error, .. }) => *is_error,
            _ => None,
        };
        let call_id = self.call_id().to_owned();
        self.result = Some(Block::ToolResult { call_id, output, is_error });
    }

    /// Returns the id of the call.
    pub(super) fn call_id(&self) -> &str {
        match &self.call {
            Block::ToolCall { id, .. } => id,
            _ => "",
        }
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn from_request_metadata(metadata: &RequestMetadata<'a>) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Round<'a> {
            response: Option<&'a RawValue>,
            tool_calls: Option<&'a RawValue>,
            timestamp: Option<&'a RawValue>,
            summary: Option<&'a RawValue>,
        }
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct AskedQuestions<'a> {
            id: Option<&'a RawValue>,
            name: Option<&'a RawValue>,
            arguments: Option<&'a RawValue>,
        }
        let results = metadata.results.and_then(object_fields).unwrap_or_default();
        // Of a repeated key, the first occurrence counts.
        let by_id: HashMap<&str, &RawValue> =
            results.iter().rev().map(|(key, raw)| (&**key, *raw)).collect();
        let result_of = |id: &str| by_id.get(id).copied();
        let mut all = Self::default();
        for (at, round) in elements_or_single(metadata.rounds).into_iter().enumerate() {
            let Some(round) = parse_raw::<Round<'a>>(Some(round)) else {
                all.marks.push((None, None));
                continue;
            };
            all.marks
                .push((parse_epoch_millis(round.timestamp), parse_non_empty_string(round.summary)));
            all.words.extend(parse_non_empty_string(round.response));
            for asked in elements_or_single(round.tool_calls) {
                let Some(asked) = parse_raw::<AskedQuestions<'a>>(Some(asked)) else { continue };
                let id = parse_non_empty_string(asked.id).unwrap_or_default();
                all.calls.push(RoundToolCall {
                    result: result_of(&id),
                    id,
                    name: parse_non_empty_string(asked.name).unwrap_or_default(),
                    arguments: asked.arguments,
                    round: at,
                });
            }
        }
        let claimed: HashSet<&str> = all.calls.iter().map(|call| call.id.as_str()).collect();
        let unclaimed = results.iter().filter(|(key, _)| !claimed.contains(&**key));
        all.unclaimed =
            unclaimed.map(|(key, raw)| (strip_id_suffix(key).to_owned(), *raw)).collect();
        all
    }

    /// Takes the output of a call that is in no round.
    pub(super) fn take_result(&mut self, id: &str, resources: &Path) -> Option<String> {
        let at = self.unclaimed.iter().position(|(key, _)| key == id)?;
        Some(returned_text(self.unclaimed.remove(at).1, resources))
    }

    /// Takes the outputs that no call claimed, each with the id of its call.
    pub(super) fn take_results(&mut self, resources: &Path) -> Vec<(String, String)> {
        let unclaimed = std::mem::take(&mut self.unclaimed).into_iter();
        unclaimed.map(|(id, raw)| (id, returned_text(raw, resources))).collect()
    }

    /// Returns the index of the call that each part displays: matched by id where the ids agree,
    /// else by name and order. Versions before 0.37 gave the part another id.
    pub(super) fn pair_calls_with_parts(&self, parts: &[&ResponsePart<'_>]) -> Vec<Option<usize>> {
        let mut free: Vec<bool> = vec![true; self.calls.len()];
        let ids: HashMap<&str, usize> = self
            .calls
            .iter()
            .enumerate()
            .map(|(at, call)| (strip_id_suffix(&call.id), at))
            .collect();
        let mut pairs: Vec<Option<usize>> = parts
            .iter()
            .map(|part| {
                let id = parse_non_empty_string(part.tool_call_id)?;
                let at = *ids.get(strip_id_suffix(&id))?;
                std::mem::take(&mut free[at]).then_some(at)
            })
            .collect();
        let mut next = 0;
        for (part, pair) in parts.iter().zip(&mut pairs) {
            // Calls of a sub-agent are in no round of this request.
            if pair.is_some() || part.sub_agent_invocation_id.is_some() {
                continue;
            }
            let shown = parse_non_empty_string(part.tool_id).unwrap_or_default();
            let fits = |at: &usize| free[*at] && is_same_tool(&shown, &self.calls[*at].name);
            if let Some(at) = (next..self.calls.len()).find(fits) {
                free[at] = false;
                next = at + 1;
                *pair = Some(at);
            }
        }
        pairs
    }
}

impl RoundToolCall<'_> {
    /// Joins the call with the part that displays it. `resources` is the directory of results that
    /// are too large for the record.
    pub(super) fn join_with_part(
        &self,
        part: Option<&ResponsePart<'_>>,
        resources: &Path,
    ) -> EmittedToolCall {
        let id = strip_id_suffix(&self.id).to_owned();
        let input = match parse_non_empty_string(self.arguments) {
            Some(arguments) => json_or_string(&arguments),
            None => self.arguments.map_or_else(|| Json::from_value(&()), Json::from),
        };
        let output = self.result.map(|raw| returned_text(raw, resources));
        let shown = part.and_then(|part| part.result_block(&id));
        let result = match (output, shown) {
            (Some(output), shown) => {
                let is_error = match shown {
                    Some(Block::ToolResult { is_error, .. }) => is_error,
                    _ => None,
                };
                Some(Block::ToolResult { call_id: id.clone(), output, is_error })
            }
            (None, shown) => shown,
        };
        EmittedToolCall { call: Block::ToolCall { id, name: self.name.clone(), input }, result }
    }
}

/// Data about a tool's run that depends on the tool, such as the command of a terminal.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Specifics<'a> {
    raw_input: Option<&'a RawValue>,
    command_line: Option<&'a RawValue>,
    command: Option<&'a RawValue>,
    terminal_command_output: Option<&'a RawValue>,
    terminal_command_state: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    cwd: Option<&'a RawValue>,
}

impl Specifics<'_> {
    /// Returns the command of a terminal as it was run, with edits by the user or the tool.
    fn executed_command(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct CommandLineData<'a> {
            original: Option<&'a RawValue>,
            user_edited: Option<&'a RawValue>,
            tool_edited: Option<&'a RawValue>,
        }
        let line = parse_raw::<CommandLineData<'_>>(self.command_line).and_then(|line| {
            parse_non_empty_string(line.user_edited)
                .or_else(|| parse_non_empty_string(line.tool_edited))
                .or_else(|| parse_non_empty_string(line.original))
        });
        line.or_else(|| parse_non_empty_string(self.command))
    }
}

/// The input and output of a tool, where the response displays them.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct DisplayedDetails<'a> {
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    is_error: Option<&'a RawValue>,
}

impl ResponsePart<'_> {
    /// Converts the part into a call, for calls that are in no round.
    pub(super) fn to_unpaired_call(&self) -> EmittedToolCall {
        let id = parse_non_empty_string(self.tool_call_id).unwrap_or_else(|| "call".to_owned());
        let specifics: Specifics<'_> = parse_raw(self.tool_specific_data).unwrap_or_default();
        let details: DisplayedDetails<'_> = parse_raw(self.displayed_details()).unwrap_or_default();
        let input = if let Some(input) = parse_non_empty_string(details.input) {
            json_or_string(&input)
        } else if let Some(command) = specifics.executed_command() {
            Json::from_value(&serde_json::json!({ "command": command }))
        } else if let Some(raw) = specifics.raw_input.or(self.tool_specific_data) {
            Json::from(raw)
        } else {
            let message = parse_text_value(self.invocation_message).unwrap_or_default();
            Json::from_value(&serde_json::json!({ "message": message }))
        };
        let name = parse_non_empty_string(self.tool_id).unwrap_or_default();
        let result = self.result_block(&id);
        EmittedToolCall { call: Block::ToolCall { id, name, input }, result }
    }

    /// Returns the displayed details of a result if they are an object. A list only names files.
    fn displayed_details(&self) -> Option<&RawValue> {
        self.result_details.filter(|raw| raw.get().starts_with('{'))
    }

    /// Returns the working directory of a terminal.
    pub(super) fn terminal_directory(&self) -> Option<String> {
        parse_reference_path(parse_raw::<Specifics<'_>>(self.tool_specific_data)?.cwd)
    }

    fn result_block(&self, id: &str) -> Option<Block> {
        let is_open = |raw: &RawValue| matches!(raw.get(), "false" | "null");
        if self.is_complete.is_none_or(is_open) {
            return None;
        }
        let specifics: Specifics<'_> = parse_raw(self.tool_specific_data).unwrap_or_default();
        let details: DisplayedDetails<'_> = parse_raw(self.displayed_details()).unwrap_or_default();
        let output = parse_text_value(specifics.terminal_command_output)
            .or_else(|| shown_output(details.output))
            .or_else(|| parse_text_value(specifics.result))
            .or_else(|| parse_text_value(self.past_tense_message));
        Some(Block::ToolResult {
            call_id: id.to_owned(),
            output: output.unwrap_or_default(),
            is_error: self.has_failed(&specifics, &details),
        })
    }

    fn has_failed(
        &self,
        specifics: &Specifics<'_>,
        details: &DisplayedDetails<'_>,
    ) -> Option<bool> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct EndedTerminal {
            exit_code: Option<i64>,
        }
        #[derive(serde::Deserialize)]
        struct Confirmed {
            r#type: u64,
        }
        if parse_raw::<Confirmed>(self.is_confirmed).is_some_and(|confirmed| confirmed.r#type == 0)
        {
            return Some(true);
        }
        let code = parse_raw::<EndedTerminal>(specifics.terminal_command_state)
            .and_then(|ended| ended.exit_code);
        parse_raw::<bool>(details.is_error).or(code.map(|code| code != 0))
    }
}

/// Returns the model's id of a call, without the suffix that VS Code appends to make it unique.
fn strip_id_suffix(id: &str) -> &str {
    match id.rsplit_once("__vscode-") {
        Some((id, count)) if count.bytes().all(|one| one.is_ascii_digit()) => id,
        _ => id,
    }
}

/// Returns whether a displayed name and a called name are the same tool: `copilot_readFile` is
/// `read_file`.
pub(super) fn is_same_tool(shown: &str, called: &str) -> bool {
    let bare = |name: &str| -> String {
        let name = name.strip_prefix("copilot_").unwrap_or(name);
        name.chars().filter(|one| one.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (shown, called) = (bare(shown), bare(called));
    if shown.is_empty() || called.is_empty() {
        return false;
    }
    shown.starts_with(&called) || called.starts_with(&shown) || SAME.contains(&(&shown, &called))
}

/// Parses JSON that was written as a string. A text that is not JSON stays a string.
fn json_or_string(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json::from(raw),
        Err(_) => Json::from_value(&text),
    }
}

fn shown_output(raw: Option<&RawValue>) -> Option<String> {
    if let Some(text) = parse_non_empty_string(raw) {
        return Some(text);
    }
    let texts: Vec<String> = elements_or_single(raw)
        .into_iter()
        .filter_map(|item| parse_text_value(Some(item)))
        .collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}

/// Returns the text that a tool returned to the model.
fn returned_text(raw: &RawValue, resources: &Path) -> String {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Returned<'a> {
        content: Option<&'a RawValue>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct RenderedItem<'a> {
        value: Option<&'a RawValue>,
        mime_type: Option<&'a RawValue>,
    }
    let content = parse_raw::<Returned<'_>>(Some(raw)).and_then(|returned| returned.content);
    let mut all = String::new();
    for item in elements_or_single(content) {
        let Some(item) = parse_raw::<RenderedItem<'_>>(Some(item)) else { continue };
        let before = all.len();
        let rendered = || parse_json::<RenderedText<'_>>(item.value?.get())?.node;
        match (parse_non_empty_string(item.value), rendered()) {
            (Some(text), _) => all.push_str(&text),
            (None, Some(node)) => node.write_tree_text(&mut all),
            (None, None) => {
                all.extend(parse_non_empty_string(item.mime_type).map(|kind| format!("[{kind}]")));
            }
        }
        if before > 0 && all.len() > before && !all[..before].ends_with('\n') {
            all.insert(before, '\n');
        }
    }
    read_resource_output(&all, resources).unwrap_or(all)
}

lenient! {
    /// A text as a tree of nodes, the form that prompts are rendered from.
    struct RenderedText<'a> {
        "node" node: Option<RenderedTree<'a>>,
    }
}

lenient! {
    struct RenderedTree<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "lineBreakBefore" line_break_before: Option<bool>,
        "children" children: Option<Vec<RenderedTree<'a>>>,
    }
}

impl RenderedTree<'_> {
    fn write_tree_text(&self, into: &mut String) {
        if let Some(text) = &self.text {
            if self.line_break_before == Some(true) && !into.is_empty() {
                into.push('\n');
            }
            into.push_str(text.as_borrowed_str());
        }
        self.children.iter().flatten().for_each(|child| child.write_tree_text(into));
    }
}

/// Reads an output that was too large for the record from its file. Only the last components of the
/// recorded path are used: the others belong to the machine that wrote it.
fn read_resource_output(output: &str, resources: &Path) -> Option<String> {
    let (_, after) = output.split_once("chat-session-resources")?;
    let end = after.find("content.txt")?;
    let mut names = after[..end].split(['/', '\\']).filter(|name| !name.is_empty());
    let (session, call) = (names.next()?, names.next()?);
    if names.next().is_some() || session.starts_with('.') || call.starts_with('.') {
        return None;
    }
    files::text_up_to(&resources.join(session).join(call).join("content.txt"), MAX_OUTPUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_either_of_its_names() {
        let check = |shown: &str, called: &str, expected: bool| {
            assert_eq!(is_same_tool(shown, called), expected, "{shown} {called}");
        };
        check("copilot_readFile", "read_file", true);
        check("copilot_replaceString", "replace_string_in_file", true);
        check("copilot_listDirectory", "list_dir", true);
        check("copilot_findTextInFiles", "grep_search", true);
        check("copilot_fetchWebPage", "fetch_webpage", true);
        check("run_in_terminal", "run_in_terminal", true);
        check("copilot_readFile", "create_file", false);
        check("", "read_file", false);
    }

    #[test]
    fn ids_lose_what_made_them_unique_and_nothing_else() {
        let check = |id: &str, expected: &str| assert_eq!(strip_id_suffix(id), expected);
        check("call_1__vscode-1761226386986", "call_1");
        check("call__vscode-x", "call__vscode-x");
        check("call_1", "call_1");
    }

    #[test]
    fn parts_without_known_ids_are_paired_in_order_by_name() {
        let metadata = r#"{"toolCallRounds":[
            {"toolCalls":[{"id":"a","name":"read_file","arguments":"{}"},
                          {"id":"b","name":"list_dir","arguments":"{}"}]},
            {"toolCalls":[{"id":"c__vscode-1","name":"create_file","arguments":"{}"}]}]}"#;
        let metadata: RequestMetadata<'_> = serde_json::from_str(metadata).unwrap();
        let rounds = Rounds::from_request_metadata(&metadata);
        let parts = [
            r#"{"toolId":"copilot_listDirectory","toolCallId":"x"}"#,
            r#"{"toolId":"copilot_listDirectory","toolCallId":"y"}"#,
            r#"{"toolId":"copilot_createFile","toolCallId":"c"}"#,
        ];
        let parts: Vec<ResponsePart<'_>> =
            parts.iter().map(|part| serde_json::from_str(part).unwrap()).collect();
        let pairs = rounds.pair_calls_with_parts(&parts.iter().collect::<Vec<_>>());
        assert_eq!(pairs, [Some(1), None, Some(2)]);
    }

    #[test]
    fn a_rendered_result_is_read_leaf_by_leaf() {
        let raw = r#"{"$mid":20,"content":[{"$mid":23,"value":{"node":{"type":1,"children":[
            {"type":2,"text":"one"},
            {"type":1,"children":[{"type":2,"text":"two","lineBreakBefore":true}]}]}}},
            {"$mid":21,"value":"three"},{"$mid":24,"mimeType":"image/png","data":{}}]}"#;
        let raw: &RawValue = serde_json::from_str(raw).unwrap();
        assert_eq!(returned_text(raw, Path::new("")), "one\ntwo\nthree\n[image/png]");
    }
}
