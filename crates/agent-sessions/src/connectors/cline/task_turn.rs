//! One turn of a task: a request to the model, its reply, and the results of the tools it used.

use serde_json::value::RawValue;

use super::task_entry::{
    BrowserOutcome, PlannedReply, ServerToolUse, TaskEntry, object_from_fields,
};
use super::task_results::TaskResult;
use crate::connectors::formats::images::image_from_url;
use crate::connectors::formats::json::{self, BorrowedText};
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp};

/// Appended to the text of a completion after which files were changed.
const CHANGES_FLAG: &str = "HAS_CHANGES";

/// Appended to a command that must be approved.
const APPROVAL_FLAG: &str = "REQ_APP";

/// Marks of an edit written as search and replace blocks, or as a patch.
const EDIT_MARKS: &[&str] = &["------- SEARCH", "<<<<<<< SEARCH", "*** Begin Patch"];

/// Tools whose recorded content is their result, not their input.
const SHOWING_TOOLS: &[&str] = &[
    "listCodeDefinitionNames",
    "listFilesRecursive",
    "listFilesTopLevel",
    "searchFiles",
    "webSearch",
];

/// A turn while its entries are read.
pub(super) struct TaskTurn {
    /// The reply, with the usage of the request.
    pub(super) reply: Message,
    /// Calls of the reply whose results have not been emitted.
    calls: Vec<PendingCall>,
    /// Results in the text of the next request, in the order of their calls.
    results: std::vec::IntoIter<TaskResult>,
    /// Time of the next request, with which the results were sent.
    answered_at: Option<Timestamp>,
    /// Messages of the program during the turn.
    pub(super) notices: Vec<Message>,
}

/// A call, with the output that the panel shows for it.
#[derive(Default)]
struct PendingCall {
    id: String,
    shown: String,
    is_error: Option<bool>,
    images: Vec<Image>,
}

impl TaskTurn {
    /// Creates the turn of entries before the first request.
    pub(super) fn without_request(
        results: Vec<TaskResult>,
        answered_at: Option<Timestamp>,
    ) -> Self {
        Self::of_request(empty_reply(None), results, answered_at)
    }

    /// Creates the turn of a request. `results` are those of its tools, which were sent at
    /// `answered_at`.
    pub(super) fn of_request(
        reply: Message,
        results: Vec<TaskResult>,
        answered_at: Option<Timestamp>,
    ) -> Self {
        let results = results.into_iter();
        Self { reply, calls: Vec::new(), results, answered_at, notices: Vec::new() }
    }

    /// Adds an entry that the model wrote, or that shows the output of a tool. Returns whether it
    /// was one.
    pub(super) fn add_entry(&mut self, entry: &mut TaskEntry<'_>) -> bool {
        let (kind, subject) = entry.subject();
        match (kind, subject) {
            ("say", "reasoning") => {
                let thought = entry.reasoning.take().or(entry.text.take());
                self.push_text(entry, thought.map(BorrowedText::into_owned), Block::Thinking);
            }
            ("say", "text") => {
                let text = entry.entry_text().to_owned();
                self.push_text(entry, Some(text), Block::Text);
            }
            (_, "completion_result") => {
                let text = entry.entry_text();
                let text = text.strip_suffix(CHANGES_FLAG).unwrap_or(text).to_owned();
                let is_repeated = self.reply.blocks.contains(&Block::Text(text.clone()));
                self.push_text(entry, Some(text).filter(|_| !is_repeated), Block::Text);
            }
            ("ask", "plan_mode_respond" | "act_mode_respond") => {
                let text = entry.entry_text();
                let response = json::parse_json::<PlannedReply<'_>>(text)
                    .and_then(|reply| reply.response)
                    .map_or_else(|| text.to_owned(), BorrowedText::into_owned);
                self.push_text(entry, Some(response), Block::Text);
            }
            (_, "tool") => self.add_tool(entry),
            (_, "command") => {
                let command = entry.entry_text();
                let command = command.strip_suffix(APPROVAL_FLAG).unwrap_or(command);
                let input = Json::from_value(&serde_json::json!({ "command": command }));
                self.push_call(entry, "execute_command".to_owned(), input);
            }
            (_, "use_mcp_server") => self.add_server_tool(entry),
            (_, "command_output")
            | ("say", "mcp_server_response" | "codebase_search_result" | "subagent") => {
                return self.add_output(entry.entry_text());
            }
            ("say", "browser_action_launch" | "browser_action")
            | ("ask", "browser_action_launch") => {
                let input = json_or_text(entry.entry_text());
                let name =
                    if subject == "browser_action" { subject } else { "browser_action_launch" };
                let name = name.to_owned();
                self.push_call(entry, name, input);
            }
            ("say", "browser_action_result") => {
                return self.add_browser_outcome(entry.entry_text());
            }
            (_, "followup") => {
                let input = json_or_text(entry.entry_text());
                self.push_call(entry, "ask_followup_question".to_owned(), input);
            }
            ("ask", "new_task") | (_, "use_subagents") | ("say", "load_mcp_documentation") => {
                let (name, input) = (subject.to_owned(), json_or_text(entry.entry_text()));
                self.push_call(entry, name, input);
            }
            _ => return false,
        }
        true
    }

    /// Takes the reply and the results of its tools, if there are any, before an entry of a time.
    /// The entries that follow in the same turn become another reply.
    pub(super) fn take_messages(
        &mut self,
        before: Option<Timestamp>,
    ) -> impl Iterator<Item = Message> + use<> {
        let answered_at = [self.answered_at, before].into_iter().flatten().min();
        let mut result = Message {
            role: Role::Tool,
            origin: Origin::Tool,
            at: answered_at.or(self.reply.at),
            ..Message::default()
        };
        for call in self.calls.drain(..) {
            let recorded = self.results.next().filter(|recorded| !recorded.output.is_empty());
            let (output, is_error) = match recorded {
                Some(recorded) => (recorded.output, recorded.is_error),
                None if call.shown.is_empty() && call.is_error.is_none() => {
                    result.blocks.extend(call.images.into_iter().map(Block::Image));
                    continue;
                }
                None => (call.shown, call.is_error),
            };
            result.blocks.push(Block::ToolResult { call_id: call.id, output, is_error });
            result.blocks.extend(call.images.into_iter().map(Block::Image));
        }
        let next = empty_reply(self.reply.model.clone());
        let reply = std::mem::replace(&mut self.reply, next);
        let has_reply = !reply.blocks.is_empty() || reply.usage.is_some() || reply.failed;
        let has_result = !result.blocks.is_empty();
        let messages = [has_reply.then_some(reply), has_result.then_some(result)];
        messages.into_iter().flatten().chain(std::mem::take(&mut self.notices))
    }

    fn push_text(
        &mut self,
        entry: &mut TaskEntry<'_>,
        text: Option<String>,
        block: fn(String) -> Block,
    ) {
        self.begin_reply(entry);
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            self.reply.blocks.push(block(text));
        }
        self.reply.blocks.extend(entry.take_images().into_iter().map(Block::Image));
    }

    /// Notes the time of the first entry of the reply, and its fields.
    fn begin_reply(&mut self, entry: &mut TaskEntry<'_>) {
        if self.reply.blocks.is_empty() {
            self.reply.at = entry.entry_time().or(self.reply.at);
        }
        entry.keep_unmodeled_fields(&mut self.reply.extensions);
    }

    fn push_call(&mut self, entry: &mut TaskEntry<'_>, name: String, input: Json) {
        let thought = entry.reasoning.take().map(BorrowedText::into_owned);
        self.begin_reply(entry);
        self.reply.blocks.extend(thought.filter(|text| !text.is_empty()).map(Block::Thinking));
        let stem = entry.millis.map_or_else(|| "call".to_owned(), |millis| millis.to_string());
        let id = if self.calls.iter().any(|call| call.id == stem) {
            format!("{stem}-{}", self.calls.len())
        } else {
            stem
        };
        self.reply.blocks.push(Block::ToolCall { id: id.clone(), name, input });
        self.calls.push(PendingCall { id, ..PendingCall::default() });
    }

    /// Adds a call of a tool that the panel shows as JSON.
    fn add_tool(&mut self, entry: &mut TaskEntry<'_>) {
        let text = entry.entry_text().to_owned();
        let raw = serde_json::from_str::<&RawValue>(&text).ok();
        let Some(mut fields) = raw.and_then(json::object_fields) else {
            let input = json_or_text(&text);
            return self.push_call(entry, "tool".to_owned(), input);
        };
        let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
        let name = json::take_field(&mut fields, "tool").and_then(string);
        let name = name.unwrap_or_else(|| "tool".to_owned());
        let mut shown = None;
        if SHOWING_TOOLS.contains(&&*name) {
            shown = json::take_field(&mut fields, "content").and_then(string);
        }
        for field in &mut fields {
            let is_edit =
                field.0 == "content" && EDIT_MARKS.iter().any(|mark| field.1.get().contains(mark));
            if is_edit {
                field.0 = "diff".into();
            }
        }
        self.push_call(entry, name, object_from_fields(&fields));
        if let Some(shown) = shown {
            self.add_output(&shown);
        }
    }

    /// Adds a call of a tool of an MCP server, under the name that all agents use for it.
    fn add_server_tool(&mut self, entry: &mut TaskEntry<'_>) {
        let text = entry.entry_text().to_owned();
        let used = json::parse_json::<ServerToolUse<'_>>(&text).unwrap_or_default();
        let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
        match (owned(used.server), owned(used.tool)) {
            (Some(server), Some(tool)) => {
                let input = used.arguments.map_or_else(|| Json::from_value(&()), quoted_json);
                self.push_call(entry, format!("mcp__{server}__{tool}"), input);
            }
            _ => {
                let name = owned(used.kind).unwrap_or_else(|| "use_mcp_server".to_owned());
                self.push_call(entry, name, json_or_text(&text));
            }
        }
    }

    /// Appends to the output that the panel shows for the last call. Returns whether there is one.
    fn add_output(&mut self, text: &str) -> bool {
        let Some(call) = self.calls.last_mut() else { return false };
        if !call.shown.is_empty() && !text.is_empty() && !call.shown.ends_with('\n') {
            call.shown.push('\n');
        }
        call.shown.push_str(text);
        true
    }

    fn add_browser_outcome(&mut self, text: &str) -> bool {
        let Some(outcome) = json::parse_json::<BrowserOutcome<'_>>(text) else { return false };
        let owned = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        if let Some(screenshot) = owned(outcome.screenshot)
            && let Some(call) = self.calls.last_mut()
        {
            call.images.push(image_from_url(&screenshot));
        }
        let shown: Vec<String> =
            [owned(outcome.url), owned(outcome.logs)].into_iter().flatten().collect();
        self.add_output(&shown.join("\n"))
    }
}

fn empty_reply(model: Option<String>) -> Message {
    Message { role: Role::Assistant, origin: Origin::Assistant, model, ..Message::default() }
}

/// Parses a text as JSON; any other text becomes a JSON string.
fn json_or_text(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json::from(raw),
        Err(_) => Json::from_value(&text),
    }
}

/// Returns JSON that may be wrapped in a JSON string.
fn quoted_json(raw: &RawValue) -> Json {
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => json_or_text(&text),
        Err(_) => Json::from(raw),
    }
}
