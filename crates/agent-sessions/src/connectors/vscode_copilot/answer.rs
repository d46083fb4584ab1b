//! Converts the response to a request, whose parts are recorded as displayed, into the model's
//! messages with the tool results between them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::value::RawValue;

use super::shape::{
    ResponsePart, elements_or_single, parse_non_empty_string, parse_raw, parse_reference_path,
    parse_text_value,
};
use super::tools::{EmittedToolCall, Rounds, is_same_tool};
use crate::model::{Block, Json, Message, Origin, Role};

/// Kinds of parts that describe the program's progress and have no content.
const NOISE: &[&str] = &[
    "prepareToolInvocation",
    "progressMessage",
    "progressTask",
    "progressTaskSerialized",
    "mcpServersStarting",
    "undoStop",
    "codeblockUri",
    "command",
    "hook",
    "autoModeResolution",
    "disabledClaudeHooks",
    "treeData",
];

/// Kinds of parts that are notices of the program to the user.
const NOTICES: &[&str] = &[
    "warning",
    "info",
    "confirmation",
    "elicitation",
    "elicitationSerialized",
    "systemNotification",
];

/// The tool calls emitted so far in a session.
#[derive(Default)]
pub(super) struct EmittedCalls {
    by_id: HashMap<String, EmittedCallState>,
    /// The last call of the previous request, if no part displayed it and it has no result.
    left_open: Option<OpenCall>,
}

/// A call that the next request may display.
struct OpenCall {
    id: String,
    name: String,
}

/// The state of an emitted call.
pub(super) struct EmittedCallState {
    is_shown: bool,
    is_answered: bool,
    /// Number of calls with this id so far.
    tries: usize,
}

/// Converts the parts of one response into messages.
pub(super) struct ResponseReader<'a> {
    rounds: Rounds<'a>,
    /// The directory of results that are too large for the record.
    resources: &'a Path,
    /// Paths of the edited files.
    pub(super) files: Vec<String>,
    messages: Vec<Message>,
    /// The message under construction, and the results that follow it.
    piece: Message,
    results: Vec<Block>,
    text: String,
    has_spoken: bool,
    has_called: bool,
    calls: &'a mut EmittedCalls,
    /// The round of the last call.
    round: Option<usize>,
    /// Index of the first call that is not emitted yet.
    next_call: usize,
    /// Index of the first round whose summary is not emitted yet.
    summed: usize,
    /// Whether the last edit was inside a code fence that is still open.
    fenced: bool,
}

impl<'a> ResponseReader<'a> {
    pub(super) fn new(
        rounds: Rounds<'a>,
        resources: &'a Path,
        calls: &'a mut EmittedCalls,
    ) -> Self {
        Self {
            rounds,
            resources,
            files: Vec::new(),
            messages: Vec::new(),
            piece: Message::default(),
            results: Vec::new(),
            text: String::new(),
            has_spoken: false,
            has_called: false,
            calls,
            round: None,
            next_call: 0,
            summed: 0,
            fenced: false,
        }
    }

    /// Converts the parts into messages.
    pub(super) fn read_response(&mut self, response: Option<&RawValue>) -> Vec<Message> {
        let left_open = self.calls.left_open.take();
        let mut raw = elements_or_single(response);
        raw.retain(|raw| raw.get() != "null");
        let parts: Vec<Option<ResponsePart<'_>>> =
            raw.iter().map(|raw| parse_raw(Some(raw))).collect();
        let tools: Vec<&ResponsePart<'_>> =
            parts.iter().flatten().filter(|part| part.is_tool_part()).collect();
        let mut pairs = self.rounds.pair_calls_with_parts(&tools).into_iter();
        let paired: HashSet<usize> = pairs.clone().flatten().collect();
        for (raw, part) in raw.into_iter().zip(parts) {
            match part {
                Some(part) if part.is_tool_part() => {
                    let call = pairs.next().flatten();
                    match left_open.as_ref().filter(|open| self.displays_open_call(&part, open)) {
                        Some(open) if !self.has_called => self.show_open(&part, open),
                        _ => self.read_tool_part(&part, call, &paired),
                    }
                }
                Some(part) => self.read_response_part(&part, raw),
                None => match parse_text_value(Some(raw)) {
                    Some(text) => self.add_visible_text(&text),
                    None => self.push_unknown_part(raw),
                },
            }
        }
        self.push_undisplayed_calls(self.rounds.calls.len(), &paired);
        self.push_unclaimed_results();
        // An edit in the editor displays no text, though the model wrote some.
        if !self.has_called && !self.has_spoken && self.text.trim().is_empty() {
            let words = std::mem::take(&mut self.rounds.words);
            self.add_visible_text(&words);
        }
        self.push_open_message();
        std::mem::take(&mut self.messages)
    }

    fn read_response_part(&mut self, part: &ResponsePart<'_>, raw: &RawValue) {
        let kind = parse_non_empty_string(part.kind).unwrap_or_default();
        match kind.as_str() {
            "" | "markdownContent" | "markdownVuln" => {
                let text = parse_text_value(part.value).or_else(|| parse_text_value(part.content));
                // A folded part of the list has its text as `text`.
                match text.or_else(|| parse_text_value(Some(raw)).filter(|_| kind.is_empty())) {
                    Some(text) => self.add_visible_text(&text),
                    // Empty text is common and dropped; other parts without a kind are kept.
                    None if part.value.is_some_and(|value| value.get() == "\"\"") => {}
                    None => self.push_unknown_part(raw),
                }
            }
            "inlineReference" => self.add_visible_text(&inline_reference_text(part)),
            "thinking" => {
                if let Some(thought) =
                    parse_text_value(part.value).filter(|text| !text.trim().is_empty())
                {
                    self.begin_model_message(false, None);
                    self.piece.blocks.push(Block::Thinking(thought));
                }
            }
            "textEditGroup" | "notebookEditGroup" => self.push_edit_part(part, raw),
            // Everything after the last call was retracted.
            "clearToPreviousToolInvocation" => self.clear_pending(),
            _ if NOTICES.contains(&kind.as_str()) => self.push_notice_part(part, raw),
            _ if NOISE.contains(&kind.as_str()) => {}
            _ => self.push_unknown_part(raw),
        }
    }

    fn add_visible_text(&mut self, text: &str) {
        if !text.trim().is_empty() && (self.piece.sidechain || !self.results.is_empty()) {
            self.push_open_message();
        }
        let text = if std::mem::take(&mut self.fenced) { after_fence(text) } else { text };
        self.text.push_str(text);
    }

    fn read_tool_part(
        &mut self,
        part: &ResponsePart<'_>,
        call: Option<usize>,
        paired: &HashSet<usize>,
    ) {
        let is_side = part.sub_agent_invocation_id.is_some_and(|raw| raw.get() != "null");
        if let Some(at) = call {
            self.push_undisplayed_calls(at, paired);
        }
        self.begin_model_message(is_side, call.map(|at| self.rounds.calls[at].round));
        if self.piece.cwd.is_none() {
            self.piece.cwd = part.terminal_directory();
        }
        let Some(at) = call else {
            let mut call = part.to_unpaired_call();
            if let Some(output) = self.rounds.take_result(call.call_id(), self.resources) {
                call.set_output(output);
            }
            return self.push_tool_call(call, true);
        };
        let call = self.rounds.calls[at].join_with_part(Some(part), self.resources);
        self.next_call = self.next_call.max(at + 1);
        self.push_tool_call(call, true);
    }

    /// Pushes results whose call is not recorded or was emitted with an earlier request.
    fn push_unclaimed_results(&mut self) {
        for (call_id, output) in self.rounds.take_results(self.resources) {
            let known = self.calls.by_id.get_mut(&call_id);
            if known.is_some_and(|known| std::mem::replace(&mut known.is_answered, true)) {
                continue;
            }
            self.results.push(Block::ToolResult { call_id, output, is_error: None });
        }
    }

    /// Returns whether a part displays the open call of the previous request. A request that a
    /// button continued has no rounds of its own. The ids are not compared: versions before 0.37
    /// gave the part another id.
    fn displays_open_call(&self, part: &ResponsePart<'_>, open: &OpenCall) -> bool {
        let shown = parse_non_empty_string(part.tool_id).unwrap_or_default();
        self.rounds.calls.is_empty() && is_same_tool(&shown, &open.name)
    }

    /// Pushes the outcome of a call that the previous request made.
    fn show_open(&mut self, part: &ResponsePart<'_>, open: &OpenCall) {
        self.begin_model_message(false, None);
        let mut call = part.to_unpaired_call();
        call.rename_call(&open.id);
        self.push_tool_call(call, true);
    }

    /// Pushes the calls before `end` that no part displays.
    fn push_undisplayed_calls(&mut self, end: usize, paired: &HashSet<usize>) {
        for at in self.next_call..end {
            if !paired.contains(&at) {
                self.begin_model_message(false, Some(self.rounds.calls[at].round));
                let call = self.rounds.calls[at].join_with_part(None, self.resources);
                let is_last = at + 1 == self.rounds.calls.len();
                if is_last && call.result.is_none() {
                    let (id, name) =
                        (call.call_id().to_owned(), self.rounds.calls[at].name.clone());
                    self.calls.left_open = Some(OpenCall { id, name });
                }
                self.push_tool_call(call, false);
            }
            self.next_call = at + 1;
        }
    }

    /// Pushes a tool call. A call that was made in one request and displayed in the next is pushed
    /// once. A call that is displayed twice was retried: each try is pushed.
    fn push_tool_call(&mut self, mut call: EmittedToolCall, is_shown: bool) {
        self.has_called = true;
        let id = call.call_id().to_owned();
        let mut tries = 1;
        if let Some(known) = self.calls.by_id.get_mut(&id) {
            if !known.is_shown || !is_shown {
                known.is_shown |= is_shown;
                if !std::mem::replace(&mut known.is_answered, true) {
                    self.results.extend(call.result);
                }
                return;
            }
            tries = known.tries;
        }
        while self.calls.by_id.contains_key(call.call_id()) {
            tries += 1;
            call.rename_call(&format!("{id}#{tries}"));
        }
        if let Some(first) = self.calls.by_id.get_mut(&id) {
            first.tries = tries;
        }
        let known = EmittedCallState { is_shown, is_answered: call.result.is_some(), tries: 1 };
        self.calls.by_id.insert(call.call_id().to_owned(), known);
        self.piece.blocks.push(call.call);
        self.results.extend(call.result);
    }

    fn push_edit_part(&mut self, part: &ResponsePart<'_>, raw: &RawValue) {
        if let Some(file) = parse_reference_path(part.uri)
            && !self.files.contains(&file)
        {
            self.files.push(file);
        }
        if let Some(before) = before_fence(&self.text) {
            self.text.truncate(before);
            self.fenced = true;
        }
        self.push_unknown_part(raw);
    }

    fn push_notice_part(&mut self, part: &ResponsePart<'_>, raw: &RawValue) {
        self.push_open_message();
        let words =
            [part.title, part.message, part.content].into_iter().filter_map(parse_text_value);
        let words: Vec<String> = words.collect();
        let block = if words.is_empty() {
            Block::Other(Json::from(raw))
        } else {
            Block::Text(words.join("\n\n"))
        };
        self.messages.push(Message { blocks: vec![block], ..Message::default() });
    }

    /// Pushes a part of an unknown kind as it is.
    fn push_unknown_part(&mut self, raw: &RawValue) {
        self.move_text_to_message();
        self.piece.blocks.push(Block::Other(Json::from(raw)));
    }

    fn clear_pending(&mut self) {
        self.text.clear();
        let is_call = |block: &Block| matches!(block, Block::ToolCall { .. });
        let kept = self.piece.blocks.iter().rposition(is_call).map_or(0, |at| at + 1);
        self.piece.blocks.truncate(kept);
    }

    /// Prepares the open message for reasoning or a call. Closes it first after results, unless the
    /// call is of the same round, and at the border between agent and sub-agent.
    fn begin_model_message(&mut self, is_side: bool, round: Option<usize>) {
        let is_same_breath = round.is_some() && round == self.round;
        if self.piece.sidechain != is_side || (!self.results.is_empty() && !is_same_breath) {
            self.push_open_message();
        }
        self.move_text_to_message();
        self.piece.sidechain = is_side;
        self.round = round;
        if let Some(round) = round.filter(|_| self.piece.at.is_none()) {
            self.piece.at = self.rounds.marks[round].0;
        }
    }

    /// Moves the open text into the open message.
    fn move_text_to_message(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.has_spoken = true;
            self.piece.blocks.push(Block::Text(text.trim().to_owned()));
        }
    }

    /// Pushes the open message and its results.
    fn push_open_message(&mut self) {
        self.move_text_to_message();
        let piece = std::mem::take(&mut self.piece);
        let results = std::mem::take(&mut self.results);
        let (sidechain, cwd) = (piece.sidechain, piece.cwd.clone());
        if !piece.blocks.is_empty() {
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            self.messages.push(Message { role, origin, ..piece });
        }
        if !results.is_empty() {
            let (role, origin) = (Role::Tool, Origin::Tool);
            let message = Message { role, origin, cwd, sidechain, ..Message::default() };
            self.messages.push(Message { blocks: results, ..message });
        }
        self.push_round_summaries();
    }

    /// Pushes the summaries of the rounds whose calls are all emitted.
    fn push_round_summaries(&mut self) {
        let done = match self.rounds.calls.get(self.next_call) {
            Some(next) => next.round,
            None => self.rounds.marks.len(),
        };
        for (at, summary) in &mut self.rounds.marks[self.summed.min(done)..done] {
            if let Some(summary) = summary.take() {
                self.messages.push(Message {
                    role: Role::User,
                    origin: Origin::Summary,
                    at: *at,
                    blocks: vec![Block::Text(summary)],
                    ..Message::default()
                });
            }
        }
        self.summed = done;
    }
}

impl ResponsePart<'_> {
    fn is_tool_part(&self) -> bool {
        parse_non_empty_string(self.kind).is_some_and(|kind| kind == "toolInvocationSerialized")
    }
}

/// Returns the text of an inline reference: the name of a symbol or file, in backticks.
fn inline_reference_text(part: &ResponsePart<'_>) -> String {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Symbol<'a> {
        name: Option<&'a RawValue>,
    }
    let symbol: Option<Symbol<'_>> = parse_raw(part.inline_reference);
    let name = parse_non_empty_string(part.name)
        .or_else(|| symbol.and_then(|symbol| parse_non_empty_string(symbol.name)));
    let file = || {
        let place = parse_reference_path(part.inline_reference)?;
        place.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().map(str::to_owned)
    };
    name.or_else(file).map_or(String::new(), |name| format!("`{name}`"))
}

/// Returns the position of a code fence at the end of a text, which was opened for an edit.
fn before_fence(text: &str) -> Option<usize> {
    let trimmed = text.trim_end();
    let bare = trimmed.trim_end_matches('`');
    let is_fence = trimmed.len() - bare.len() >= 3 && (bare.is_empty() || bare.ends_with('\n'));
    is_fence.then_some(bare.len())
}

/// Returns the text after the code fence that closes an edit.
fn after_fence(text: &str) -> &str {
    let start = text.trim_start();
    let bare = start.trim_start_matches('`');
    let is_fence =
        start.len() - bare.len() >= 3 && (bare.is_empty() || bare.starts_with(['\n', '\r']));
    if is_fence { bare } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &str, metadata: &str) -> Vec<String> {
        let metadata = serde_json::from_str(metadata).unwrap();
        let mut calls = EmittedCalls::default();
        let mut answer = ResponseReader::new(
            Rounds::from_request_metadata(&metadata),
            Path::new(""),
            &mut calls,
        );
        let messages = answer.read_response(Some(serde_json::from_str(parts).unwrap()));
        let name = |block: &Block| match block {
            Block::Text(text) => text.clone(),
            Block::Thinking(text) => format!("({text})"),
            Block::ToolCall { id, .. } => format!("{id}?"),
            Block::ToolResult { call_id, .. } => format!("{call_id}!"),
            _ => "other".into(),
        };
        messages
            .iter()
            .map(|message| {
                let blocks: Vec<String> = message.blocks.iter().map(name).collect();
                format!("{} {}", message.role.role_name(), blocks.join(" "))
            })
            .collect()
    }

    #[test]
    fn text_around_a_reference_stays_one_sentence() {
        let parts = r#"[{"value":"see "},
            {"kind":"inlineReference","inlineReference":{"path":"/a/b.rs","scheme":"file"}},
            {"value":", please"}]"#;
        assert_eq!(read(parts, "{}"), ["assistant see `b.rs`, please"]);
    }

    #[test]
    fn results_stand_between_the_messages_that_asked_and_went_on() {
        let parts = r#"[{"kind":"thinking","value":["hm","m"]},{"kind":"thinking","value":""},
            {"value":"first"},
            {"kind":"toolInvocationSerialized","toolId":"x","toolCallId":"1","isComplete":true},
            {"kind":"toolInvocationSerialized","toolId":"x","toolCallId":"2","isComplete":false},
            {"value":"then"},
            {"kind":"warning","content":{"value":"mind"}}]"#;
        let expected = ["assistant (hmm) first 1?", "tool 1!", "assistant 2? then", "system mind"];
        assert_eq!(read(parts, "{}"), expected);
    }

    #[test]
    fn a_call_displayed_very_often_gets_an_id_for_each_try() {
        let part = r#"{"kind":"toolInvocationSerialized","toolId":"x","toolCallId":"1"}"#;
        let parts = format!("[{}]", vec![part; 50_000].join(","));
        let messages = read(&parts, "{}");
        assert_eq!(messages.len(), 1);
        assert!(messages[0].starts_with("assistant 1? 1#2? 1#3? "), "{:.60}", messages[0]);
        assert!(messages[0].ends_with(" 1#50000?"));
    }

    #[test]
    fn fences_around_an_edit_are_left_away() {
        let parts = r#"[{"value":"I change it.\n````\n"},{"kind":"undoStop","id":"u"},
            {"kind":"codeblockUri","uri":{"path":"/a"},"isEdit":true},
            {"kind":"textEditGroup","uri":{"path":"/a"},"edits":[]},
            {"value":"\n````\nDone."}]"#;
        assert_eq!(read(parts, "{}"), ["assistant I change it. other Done."]);
    }

    #[test]
    fn calls_that_no_part_shows_stand_where_they_were_made() {
        let parts = r#"[{"value":"go"},
            {"kind":"toolInvocationSerialized","toolId":"copilot_createFile","toolCallId":"b"}]"#;
        let metadata = r#"{"toolCallRounds":[
            {"toolCalls":[{"id":"a","name":"read_file","arguments":"{}"}],"summary":"so far"},
            {"toolCalls":[{"id":"b","name":"create_file","arguments":"{}"},
                          {"id":"c","name":"read_file","arguments":"{}"}]}],
            "toolCallResults":{"a":{"content":[{"value":"no such file"}]}}}"#;
        let expected = ["assistant go a?", "tool a!", "user so far", "assistant b? c?"];
        assert_eq!(read(parts, metadata), expected);
    }
}
