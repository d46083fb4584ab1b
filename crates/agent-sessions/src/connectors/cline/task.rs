//! Reads a task: the list of everything that the panel shows, in one document.
//!
//! A request is an entry of its own, whose tokens are added when it ends; the entries after it are
//! the reply. The results of the tools are in the text of the next request.

use std::path::Path;

use super::task_about::{self, TaskAbout};
use super::task_entry::{TaskEntry, TaskRequest};
use super::task_results::{self, TaskResult};
use super::task_turn::TaskTurn;
use crate::connectors::formats::documents::{ListDocument, read_list_document};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{ATTACHMENTS, Block, Json, Message, Origin, Role, Session, Timestamp};

/// Entries that show the state of the program and say nothing about the conversation.
const STATE: &[&str] = &[
    "api_req_rate_limit_wait",
    "api_req_retried",
    "api_req_retry_delayed",
    "checkpoint_created",
    "checkpoint_restore",
    "checkpoint_saved",
    "conditional_rules_applied",
    "hook_output_stream",
    "hook_status",
    "mcp_server_request_started",
    "resume_completed_task",
    "resume_task",
    "shell_integration_warning",
    "shell_integration_warning_with_suggestion",
    "sliding_window_truncation",
];

/// Entries that report a failure of the agent or of the model.
const FAILURES: &[&str] = &["api_req_failed", "condense_context_error", "error", "invalid_model"];

/// Name under which the list of steps is stored among a session's documents.
const PROGRESS: &str = "task progress";

/// The reason reported for an entry that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

/// Reads a task and sends it to `sink`.
pub(super) fn read_task(agent: &str, panel: &Path, sink: &mut dyn Sink) -> Result<()> {
    let document = read_list_document(panel, "messages")?;
    let task = panel.parent().unwrap_or(Path::new(""));
    let native = task.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut session = Session::new(agent, native);
    let mut about = TaskAbout::read_companions(task, &mut session);
    let (entries, broken) = parse_entries(&document);
    let mut requests = collect_requests(&entries);
    if requests.iter().all(|request| request.text.is_none()) {
        about.read_requests(task);
    }
    complete_requests(&mut requests, &about);
    describe_session(task, &entries, &requests, &mut session);
    // A copy of a task in another folder has the same calls.
    let begins = entries.iter().find_map(|placed| placed.entry.millis);
    let task_key = begins.map_or(session.id.native.clone(), |millis| millis.to_string());
    sink.accept_record(Record::Session(Box::new(session)))?;
    for at in broken {
        sink.accept_record(Record::unreadable_record(at, NO_OBJECT))?;
    }
    let (results, answered_at) = results_sent_with(requests.first());
    let turn = TaskTurn::without_request(results, answered_at);
    let reader = TaskReader { sink, task_key, turn, has_prompt: false };
    reader.read_entries(entries, requests)?;
    document.break_record().map_or(Ok(()), |record| sink.accept_record(record))
}

/// An entry, and its position in the list.
struct PlacedEntry<'a> {
    at: u64,
    entry: TaskEntry<'a>,
    raw: &'a str,
}

/// A request, with the facts about it from its entry and other files.
struct PlacedRequest {
    /// Position of its entry in the list of entries.
    position: usize,
    millis: u64,
    text: Option<String>,
    model: Option<String>,
    provider: Option<String>,
}

/// Parses the entries of a panel. Returns also the positions of those that are no objects.
fn parse_entries(document: &ListDocument) -> (Vec<PlacedEntry<'_>>, Vec<u64>) {
    let (mut entries, mut broken) = (Vec::new(), Vec::new());
    for (at, raw) in (0..).zip(&document.items) {
        match json::parse_json::<TaskEntry<'_>>(raw) {
            Some(entry) => entries.push(PlacedEntry { at, entry, raw }),
            None => broken.push(at),
        }
    }
    (entries, broken)
}

fn collect_requests(entries: &[PlacedEntry<'_>]) -> Vec<PlacedRequest> {
    let mut requests = Vec::new();
    for (position, placed) in entries.iter().enumerate() {
        let entry = &placed.entry;
        if entry.subject() != ("say", "api_req_started") {
            continue;
        }
        let fields = json::parse_json::<TaskRequest<'_>>(entry.entry_text());
        let text = fields.and_then(|fields| fields.text).map(BorrowedText::into_owned);
        let named = |text: &Option<BorrowedText<'_>>| {
            text.as_ref().map(|text| text.as_borrowed_str().to_owned())
        };
        let model = entry.model.as_ref();
        requests.push(PlacedRequest {
            position,
            millis: entry.millis.unwrap_or(0),
            text,
            model: model.and_then(|model| named(&model.model)),
            provider: model.and_then(|model| named(&model.provider)),
        });
    }
    requests
}

/// Adds the texts and the models that other files record.
fn complete_requests(requests: &mut [PlacedRequest], about: &TaskAbout) {
    let ends: Vec<u64> =
        requests.iter().skip(1).map(|next| next.millis).chain([u64::MAX]).collect();
    for (request, end) in requests.iter_mut().zip(ends) {
        if request.text.is_none() {
            request.text = about.request_between(request.millis, end).map(str::to_owned);
        }
        let used = about.model_at(request.millis);
        let details = request.text.as_deref().and_then(task_results::model_of_details);
        let known = used.and_then(|used| used.model.clone()).or(details.map(str::to_owned));
        request.model = request.model.take().or(known);
        let provider = used.and_then(|used| used.provider.clone());
        request.provider = request.provider.take().or(provider);
    }
}

/// Returns the results of tools in the text of a request, and the time of the request.
fn results_sent_with(request: Option<&PlacedRequest>) -> (Vec<TaskResult>, Option<Timestamp>) {
    let text = request.and_then(|request| request.text.as_deref());
    let sent_at = request.and_then(|request| i64::try_from(request.millis).ok());
    let results = text.map(task_results::parse_results).unwrap_or_default();
    (results, sent_at.and_then(Timestamp::from_millis))
}

/// Completes the metadata of the session from its entries.
fn describe_session(
    task: &Path,
    entries: &[PlacedEntry<'_>],
    requests: &[PlacedRequest],
    session: &mut Session,
) {
    for placed in entries {
        session.extend_time_span(placed.entry.entry_time());
        let text = placed.entry.entry_text();
        if placed.entry.subject() == ("say", "task_progress") && !text.is_empty() {
            session.documents = vec![(PROGRESS.to_owned(), text.to_owned())];
        }
    }
    let mut texts = requests.iter().filter_map(|request| request.text.as_deref());
    let named = || texts.find_map(task_results::working_directory).map(str::to_owned);
    session.cwd = session.cwd.take().or_else(named);
    if session.cwd.is_none() {
        task_about::complete_from_task_list(task, session);
    }
}

/// Emits the messages of a task.
struct TaskReader<'s> {
    sink: &'s mut dyn Sink,
    /// Id of the session.
    /// The time of the first entry, which is part of the identity of each call.
    task_key: String,
    turn: TaskTurn,
    has_prompt: bool,
}

impl TaskReader<'_> {
    fn read_entries(
        mut self,
        entries: Vec<PlacedEntry<'_>>,
        requests: Vec<PlacedRequest>,
    ) -> Result<()> {
        let mut requests = requests.into_iter().peekable();
        for (position, placed) in entries.into_iter().enumerate() {
            if let Some(request) = requests.next_if(|request| request.position == position) {
                self.begin_turn(&placed.entry, request, requests.peek())?;
            } else {
                self.read_entry(placed)?;
            }
        }
        self.finish_turn(None)
    }

    /// Begins the turn of a request.
    fn begin_turn(
        &mut self,
        entry: &TaskEntry<'_>,
        request: PlacedRequest,
        next: Option<&PlacedRequest>,
    ) -> Result<()> {
        self.finish_turn(entry.entry_time())?;
        self.has_prompt = true;
        let fields = json::parse_json::<TaskRequest<'_>>(entry.entry_text()).unwrap_or_default();
        let identity = format!("{} {}", request.millis, self.task_key);
        let mut reply = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            at: entry.entry_time(),
            usage: fields.usage(identity, request.provider.as_deref()),
            model: request.model,
            ..Message::default()
        };
        if let Some(reason) = fields.cancel_reason {
            let reason = reason.into_owned();
            reply.failed = reason != "user_cancelled";
            reply.extensions.insert("cancelReason".to_owned(), Json::from_value(&reason));
        }
        if let Some(failure) = fields.failure {
            let failure = failure.into_owned();
            reply.extensions.insert("failure".to_owned(), Json::from_value(&failure));
        }
        json::keep_non_empty_fields(fields.rest, &mut reply.extensions);
        let (results, answered_at) = results_sent_with(next);
        self.turn = TaskTurn::of_request(reply, results, answered_at);
        Ok(())
    }

    /// Emits the reply of the current turn, the results of its tools, and the notices in between.
    fn finish_turn(&mut self, before: Option<Timestamp>) -> Result<()> {
        for mut message in self.turn.take_messages(before) {
            let failure = message.extensions.get("failure").and_then(Json::parse_as::<String>);
            if message.blocks.is_empty() {
                message.blocks.extend(failure.map(Block::Text));
            }
            self.emit(message)?;
        }
        Ok(())
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    fn read_entry(&mut self, placed: PlacedEntry<'_>) -> Result<()> {
        let mut entry = placed.entry;
        let (kind, subject) = entry.subject();
        let is_first_text = (kind, subject) == ("say", "text") && !self.has_prompt;
        let subject = subject.to_owned();
        match &*subject {
            "task" | "user_feedback" => self.read_prompt(entry, Origin::Human),
            _ if is_first_text => self.read_prompt(entry, Origin::Human),
            "user_feedback_diff" | "user_edit_todos" | "subtask_result" => {
                self.read_prompt(entry, Origin::Injected)
            }
            "condense_context" | "condense" | "summarize_task" => self.read_summary(entry),
            "tool" if entry.entry_text().contains("\"summarizeTask\"") => self.read_summary(entry),
            "api_req_finished" => self.read_request_end(&entry, placed.at),
            "deleted_api_reqs" | "api_req_deleted" | "subagent_usage" => {
                self.read_usage_sum(&entry, placed.at)
            }
            "completion_result" | "command_output" if entry.entry_text().is_empty() => {
                self.pass_over(placed.at, subject)
            }
            _ if entry.is_partial == Some(true) && entry.entry_text().is_empty() => {
                self.pass_over(placed.at, "unfinished entry".to_owned())
            }
            "task_progress" => self.pass_over(placed.at, subject),
            state if STATE.contains(&state) => self.pass_over(placed.at, subject),
            _ if self.turn.add_entry(&mut entry) => Ok(()),
            _ if subject.is_empty() && entry.entry_text().is_empty() => {
                self.keep_unknown_entry(entry.entry_time(), placed.raw);
                Ok(())
            }
            _ => {
                self.read_notice(entry, &subject);
                Ok(())
            }
        }
    }

    fn read_prompt(&mut self, mut entry: TaskEntry<'_>, origin: Origin) -> Result<()> {
        self.finish_turn(entry.entry_time())?;
        self.has_prompt = true;
        let mut prompt =
            Message { role: Role::User, origin, at: entry.entry_time(), ..Message::default() };
        let text = entry.entry_text();
        if !text.is_empty() {
            prompt.blocks.push(Block::Text(text.to_owned()));
        }
        prompt.blocks.extend(entry.take_images().into_iter().map(Block::Image));
        let files: Vec<_> = entry
            .files
            .take()
            .unwrap_or_default()
            .into_iter()
            .map(|file| serde_json::json!({ "path": file.as_borrowed_str() }))
            .collect();
        if !files.is_empty() {
            prompt.extensions.insert(ATTACHMENTS.to_owned(), Json::from_value(&files));
        }
        entry.keep_unmodeled_fields(&mut prompt.extensions);
        if prompt.blocks.is_empty() && prompt.extensions.is_empty() {
            return Ok(());
        }
        self.emit(prompt)
    }

    /// Reads a summary that replaced the conversation so far.
    fn read_summary(&mut self, mut entry: TaskEntry<'_>) -> Result<()> {
        self.finish_turn(entry.entry_time())?;
        let mut summary = Message {
            role: Role::User,
            origin: Origin::Summary,
            at: entry.entry_time(),
            ..Message::default()
        };
        let condensed = entry.condensed.take();
        if let Some(mut condensed) = condensed {
            let text = condensed.summary.take().map(BorrowedText::into_owned);
            summary.blocks.extend(text.filter(|text| !text.is_empty()).map(Block::Text));
            json::keep_non_empty_fields(condensed.rest, &mut summary.extensions);
        }
        let text = text_of_summary(entry.entry_text());
        if summary.blocks.is_empty() && !text.is_empty() {
            summary.blocks.push(Block::Text(text));
        }
        entry.keep_unmodeled_fields(&mut summary.extensions);
        if summary.blocks.is_empty() && summary.extensions.is_empty() {
            return Ok(());
        }
        self.emit(summary)
    }

    /// Reads the tokens of a request, which the first versions recorded in an entry of their own.
    fn read_request_end(&mut self, entry: &TaskEntry<'_>, at: u64) -> Result<()> {
        let fields = json::parse_json::<TaskRequest<'_>>(entry.entry_text()).unwrap_or_default();
        if fields.has_tokens() && self.turn.reply.usage.is_none() {
            let identity = format!("{} {}", entry.millis.unwrap_or(0), self.task_key);
            self.turn.reply.usage = fields.usage(identity, None);
        }
        self.pass_over(at, "api_req_finished".to_owned())
    }

    /// Reads a sum over requests that the panel no longer shows: those that a person took back, or
    /// those of sub-agents.
    fn read_usage_sum(&mut self, entry: &TaskEntry<'_>, at: u64) -> Result<()> {
        let fields = json::parse_json::<TaskRequest<'_>>(entry.entry_text()).unwrap_or_default();
        let (_, subject) = entry.subject();
        let identity = format!("{subject} {} {}", entry.millis.unwrap_or(0), self.task_key);
        let usage = fields.usage(identity, None);
        if usage.is_none() {
            return self.pass_over(at, format!("{subject} without tokens"));
        }
        let mut message = Message { at: entry.entry_time(), usage, ..Message::default() };
        message.extensions.insert("type".to_owned(), Json::from_value(&subject));
        self.turn.notices.push(message);
        Ok(())
    }

    fn read_notice(&mut self, mut entry: TaskEntry<'_>, subject: &str) {
        let mut notice = Message { at: entry.entry_time(), ..Message::default() };
        notice.failed = FAILURES.contains(&subject);
        notice.extensions.insert("type".to_owned(), Json::from_value(&subject));
        let text = entry.entry_text();
        if !text.is_empty() {
            notice.blocks.push(Block::Text(text.to_owned()));
        }
        notice.blocks.extend(entry.take_images().into_iter().map(Block::Image));
        entry.keep_unmodeled_fields(&mut notice.extensions);
        self.turn.notices.push(notice);
    }

    fn keep_unknown_entry(&mut self, at: Option<Timestamp>, raw: &str) {
        let mut message = Message { at, ..Message::default() };
        message.blocks.extend(serde_json::from_str(raw).ok().map(Block::Other));
        self.turn.notices.push(message);
    }

    fn pass_over(&mut self, at: u64, reason: String) -> Result<()> {
        self.sink.accept_record(Record::passed_over_record(at, reason))
    }
}

/// Returns the text of a summary, which may be the JSON of a tool call.
fn text_of_summary(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct SummaryToolUse {
        content: String,
    }
    serde_json::from_str::<SummaryToolUse>(text)
        .map_or_else(|_| text.to_owned(), |tool| tool.content)
}
