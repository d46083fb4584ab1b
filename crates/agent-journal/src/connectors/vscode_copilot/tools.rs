//! Calls of tools. What a person saw of a call is a part of the answer; what the model asked and
//! was told is in the rounds the extension keeps. The two are joined here.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::value::RawValue;

use super::shape::{Metadata, Part, instant, list, place, read, text, word};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{Text, fields, lenient, parse};
use crate::model::{Block, Json, Timestamp};

/// Larger put-aside outputs are cut here, with a marker.
const MAX_OUTPUT: u64 = 32 << 20;

/// Names a tool has in the answer and in the rounds, where no rule joins them.
const SAME: &[(&str, &str)] = &[
    ("findtextinfiles", "grepsearch"),
    ("findfiles", "filesearch"),
    ("searchcodebase", "semanticsearch"),
];

/// A call the model made.
pub(super) struct Call<'a> {
    id: String,
    pub(super) name: String,
    arguments: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    pub(super) round: usize,
}

/// What the extension keeps of the rounds of one request.
#[derive(Default)]
pub(super) struct Rounds<'a> {
    pub(super) calls: Vec<Call<'a>>,
    /// When each round was recorded, and the summary of the conversation made there.
    pub(super) marks: Vec<(Option<Timestamp>, Option<String>)>,
    /// What the model said in all rounds.
    pub(super) words: String,
    /// Results that answer no call of the rounds, by the id of the call.
    unclaimed: Vec<(String, &'a RawValue)>,
}

/// A call as it goes into the journal, with its result if there is one.
pub(super) struct Told {
    pub(super) call: Block,
    pub(super) result: Option<Block>,
}

impl Told {
    /// Gives the call and its result another id.
    pub(super) fn rename(&mut self, new: &str) {
        for block in [Some(&mut self.call), self.result.as_mut()].into_iter().flatten() {
            match block {
                Block::ToolCall { id, .. } | Block::ToolResult { call_id: id, .. } => {
                    new.clone_into(id);
                }
                _ => {}
            }
        }
    }

    /// Sets what the tool returned to the model; what was shown of it says how it ended.
    pub(super) fn set_output(&mut self, output: String) {
        let is_error = match &self.result {
            Some(Block::ToolResult { is_error, .. }) => *is_error,
            _ => None,
        };
        let call_id = self.id().to_owned();
        self.result = Some(Block::ToolResult { call_id, output, is_error });
    }

    /// The id of the call.
    pub(super) fn id(&self) -> &str {
        match &self.call {
            Block::ToolCall { id, .. } => id,
            _ => "",
        }
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn of(metadata: &Metadata<'a>) -> Self {
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
        struct Asked<'a> {
            id: Option<&'a RawValue>,
            name: Option<&'a RawValue>,
            arguments: Option<&'a RawValue>,
        }
        let results = metadata.results.and_then(fields).unwrap_or_default();
        let result_of = |id: &str| results.iter().find(|(key, _)| key == id).map(|(_, raw)| *raw);
        let mut all = Self::default();
        for (at, round) in list(metadata.rounds).into_iter().enumerate() {
            let Some(round) = read::<Round<'a>>(Some(round)) else {
                all.marks.push((None, None));
                continue;
            };
            all.marks.push((instant(round.timestamp), word(round.summary)));
            all.words.extend(word(round.response));
            for asked in list(round.tool_calls) {
                let Some(asked) = read::<Asked<'a>>(Some(asked)) else { continue };
                let id = word(asked.id).unwrap_or_default();
                all.calls.push(Call {
                    result: result_of(&id),
                    id,
                    name: word(asked.name).unwrap_or_default(),
                    arguments: asked.arguments,
                    round: at,
                });
            }
        }
        let claimed: HashSet<&str> = all.calls.iter().map(|call| call.id.as_str()).collect();
        let unclaimed = results.iter().filter(|(key, _)| !claimed.contains(&**key));
        all.unclaimed = unclaimed.map(|(key, raw)| (plain(key).to_owned(), *raw)).collect();
        all
    }

    /// Takes the result of a call that is in no round.
    pub(super) fn take_result(&mut self, id: &str, resources: &Path) -> Option<String> {
        let at = self.unclaimed.iter().position(|(key, _)| key == id)?;
        Some(output(self.unclaimed.remove(at).1, resources))
    }

    /// Takes the results that no call claimed, each with the id of its call.
    pub(super) fn take_results(&mut self, resources: &Path) -> Vec<(String, String)> {
        let unclaimed = std::mem::take(&mut self.unclaimed).into_iter();
        unclaimed.map(|(id, raw)| (id, output(raw, resources))).collect()
    }

    /// Says which call each part shows: by id where the ids agree, else by name and order.
    /// Versions before 0.37 gave the part an id of its own.
    pub(super) fn pair(&self, parts: &[&Part<'_>]) -> Vec<Option<usize>> {
        let mut free: Vec<bool> = vec![true; self.calls.len()];
        let ids: HashMap<&str, usize> =
            self.calls.iter().enumerate().map(|(at, call)| (plain(&call.id), at)).collect();
        let mut pairs: Vec<Option<usize>> = parts
            .iter()
            .map(|part| {
                let id = word(part.tool_call_id)?;
                let at = *ids.get(plain(&id))?;
                std::mem::take(&mut free[at]).then_some(at)
            })
            .collect();
        let mut next = 0;
        for (part, pair) in parts.iter().zip(&mut pairs) {
            // What a sub-agent did is in no round of ours.
            if pair.is_some() || part.sub_agent_invocation_id.is_some() {
                continue;
            }
            let shown = word(part.tool_id).unwrap_or_default();
            let fits = |at: &usize| free[*at] && is_same(&shown, &self.calls[*at].name);
            if let Some(at) = (next..self.calls.len()).find(fits) {
                free[at] = false;
                next = at + 1;
                *pair = Some(at);
            }
        }
        pairs
    }
}

impl Call<'_> {
    /// The call and its result. `resources` is where results too large for the record lie.
    pub(super) fn told(&self, part: Option<&Part<'_>>, resources: &Path) -> Told {
        let id = plain(&self.id).to_owned();
        let input = match word(self.arguments) {
            Some(arguments) => json(&arguments),
            None => self.arguments.map_or_else(|| Json::from_value(&()), Json::from),
        };
        let output = self.result.map(|raw| output(raw, resources));
        let shown = part.and_then(|part| part.result(&id));
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
        Told { call: Block::ToolCall { id, name: self.name.clone(), input }, result }
    }
}

/// What is recorded about a tool's run beside the call.
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
    /// The command of a terminal, as it was run.
    fn command(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Line<'a> {
            original: Option<&'a RawValue>,
            user_edited: Option<&'a RawValue>,
            tool_edited: Option<&'a RawValue>,
        }
        let line = read::<Line<'_>>(self.command_line).and_then(|line| {
            word(line.user_edited)
                .or_else(|| word(line.tool_edited))
                .or_else(|| word(line.original))
        });
        line.or_else(|| word(self.command))
    }
}

/// What a tool was asked and answered, where the answer shows it.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Details<'a> {
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    is_error: Option<&'a RawValue>,
}

impl Part<'_> {
    /// The call as shown, for want of the call as made.
    pub(super) fn told(&self) -> Told {
        let id = word(self.tool_call_id).unwrap_or_else(|| "call".to_owned());
        let specifics: Specifics<'_> = read(self.tool_specific_data).unwrap_or_default();
        let details: Details<'_> = read(self.details()).unwrap_or_default();
        let input = if let Some(input) = word(details.input) {
            json(&input)
        } else if let Some(command) = specifics.command() {
            Json::from_value(&serde_json::json!({ "command": command }))
        } else if let Some(raw) = specifics.raw_input.or(self.tool_specific_data) {
            Json::from(raw)
        } else {
            let message = text(self.invocation_message).unwrap_or_default();
            Json::from_value(&serde_json::json!({ "message": message }))
        };
        let name = word(self.tool_id).unwrap_or_default();
        let result = self.result(&id);
        Told { call: Block::ToolCall { id, name, input }, result }
    }

    /// What is shown of a result, where it is an object: a list names files.
    fn details(&self) -> Option<&RawValue> {
        self.result_details.filter(|raw| raw.get().starts_with('{'))
    }

    /// Where a terminal ran.
    pub(super) fn directory(&self) -> Option<String> {
        place(read::<Specifics<'_>>(self.tool_specific_data)?.cwd)
    }

    fn result(&self, id: &str) -> Option<Block> {
        let is_open = |raw: &RawValue| matches!(raw.get(), "false" | "null");
        if self.is_complete.is_none_or(is_open) {
            return None;
        }
        let specifics: Specifics<'_> = read(self.tool_specific_data).unwrap_or_default();
        let details: Details<'_> = read(self.details()).unwrap_or_default();
        let output = text(specifics.terminal_command_output)
            .or_else(|| shown_output(details.output))
            .or_else(|| text(specifics.result))
            .or_else(|| text(self.past_tense_message));
        Some(Block::ToolResult {
            call_id: id.to_owned(),
            output: output.unwrap_or_default(),
            is_error: self.failed(&specifics, &details),
        })
    }

    fn failed(&self, specifics: &Specifics<'_>, details: &Details<'_>) -> Option<bool> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Ended {
            exit_code: Option<i64>,
        }
        #[derive(serde::Deserialize)]
        struct Confirmed {
            r#type: u64,
        }
        if read::<Confirmed>(self.is_confirmed).is_some_and(|confirmed| confirmed.r#type == 0) {
            return Some(true);
        }
        let code =
            read::<Ended>(specifics.terminal_command_state).and_then(|ended| ended.exit_code);
        read::<bool>(details.is_error).or(code.map(|code| code != 0))
    }
}

/// A model's id for a call, without what VS Code appends to make it unique.
fn plain(id: &str) -> &str {
    match id.rsplit_once("__vscode-") {
        Some((id, count)) if count.bytes().all(|one| one.is_ascii_digit()) => id,
        _ => id,
    }
}

/// Whether a part shows a call: `copilot_readFile` is `read_file`.
pub(super) fn is_same(shown: &str, called: &str) -> bool {
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

/// JSON that was written as a string; what is no JSON stays a string.
fn json(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json::from(raw),
        Err(_) => Json::from_value(&text),
    }
}

fn shown_output(raw: Option<&RawValue>) -> Option<String> {
    if let Some(text) = word(raw) {
        return Some(text);
    }
    let texts: Vec<String> = list(raw).into_iter().filter_map(|item| text(Some(item))).collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}

/// The text a tool returned to the model.
fn output(raw: &RawValue, resources: &Path) -> String {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Returned<'a> {
        content: Option<&'a RawValue>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Item<'a> {
        value: Option<&'a RawValue>,
        mime_type: Option<&'a RawValue>,
    }
    let content = read::<Returned<'_>>(Some(raw)).and_then(|returned| returned.content);
    let mut all = String::new();
    for item in list(content) {
        let Some(item) = read::<Item<'_>>(Some(item)) else { continue };
        let before = all.len();
        let rendered = || parse::<Rendered<'_>>(item.value?.get())?.node;
        match (word(item.value), rendered()) {
            (Some(text), _) => all.push_str(&text),
            (None, Some(node)) => node.write(&mut all),
            (None, None) => {
                all.extend(word(item.mime_type).map(|kind| format!("[{kind}]")));
            }
        }
        if before > 0 && all.len() > before && !all[..before].ends_with('\n') {
            all.insert(before, '\n');
        }
    }
    put_aside(&all, resources).unwrap_or(all)
}

lenient! {
    /// A text in the form prompts are rendered from.
    struct Rendered<'a> {
        "node" node: Option<Tree<'a>>,
    }
}

lenient! {
    struct Tree<'a> {
        "text" text: Option<Text<'a>>,
        "lineBreakBefore" line_break_before: Option<bool>,
        "children" children: Option<Vec<Tree<'a>>>,
    }
}

impl Tree<'_> {
    fn write(&self, into: &mut String) {
        if let Some(text) = &self.text {
            if self.line_break_before == Some(true) && !into.is_empty() {
                into.push('\n');
            }
            into.push_str(text.as_str());
        }
        self.children.iter().flatten().for_each(|child| child.write(into));
    }
}

/// Fetches an output that was too large for the record. Only the last names of the recorded path
/// are believed: the rest is of the machine that wrote it.
fn put_aside(output: &str, resources: &Path) -> Option<String> {
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
            assert_eq!(is_same(shown, called), expected, "{shown} {called}");
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
        let check = |id: &str, expected: &str| assert_eq!(plain(id), expected);
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
        let metadata: Metadata<'_> = serde_json::from_str(metadata).unwrap();
        let rounds = Rounds::of(&metadata);
        let parts = [
            r#"{"toolId":"copilot_listDirectory","toolCallId":"x"}"#,
            r#"{"toolId":"copilot_listDirectory","toolCallId":"y"}"#,
            r#"{"toolId":"copilot_createFile","toolCallId":"c"}"#,
        ];
        let parts: Vec<Part<'_>> =
            parts.iter().map(|part| serde_json::from_str(part).unwrap()).collect();
        let pairs = rounds.pair(&parts.iter().collect::<Vec<_>>());
        assert_eq!(pairs, [Some(1), None, Some(2)]);
    }

    #[test]
    fn a_rendered_result_is_read_leaf_by_leaf() {
        let raw = r#"{"$mid":20,"content":[{"$mid":23,"value":{"node":{"type":1,"children":[
            {"type":2,"text":"one"},
            {"type":1,"children":[{"type":2,"text":"two","lineBreakBefore":true}]}]}}},
            {"$mid":21,"value":"three"},{"$mid":24,"mimeType":"image/png","data":{}}]}"#;
        let raw: &RawValue = serde_json::from_str(raw).unwrap();
        assert_eq!(output(raw, Path::new("")), "one\ntwo\nthree\n[image/png]");
    }
}
