//! Types of the events: the fields that are used, and all others as written.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{BorrowedText, Lenient, lenient, lossless};
use crate::model::{Extensions, Json, Tokens};

lossless! {
    /// One line of the log: the envelope around an event's data.
    struct CopilotEvent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "parentId" parent: Option<BorrowedText<'a>>,
        "agentId" agent: Option<BorrowedText<'a>>,
        "ephemeral" ephemeral: Option<bool>,
        "data" data: Option<&'a RawValue>,
    }
}

lossless! {
    /// `session.start` and `session.resume`.
    struct Begin<'a> {
        "sessionId" session_id: Option<BorrowedText<'a>>,
        "copilotVersion" version: Option<BorrowedText<'a>>,
        "startTime" start_time: Option<Lenient<BorrowedText<'a>>>,
        "selectedModel" model: Option<BorrowedText<'a>>,
        "context" context: Option<SessionContext<'a>>,
        "detachedFromSpawningParentSessionId" parent: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// Working directory and repository of the agent.
    struct SessionContext<'a> {
        "cwd" cwd: Option<BorrowedText<'a>>,
        "gitRoot" git_root: Option<BorrowedText<'a>>,
        "branch" branch: Option<BorrowedText<'a>>,
        "repository" repository: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// `session.model_change` and `session.auto_mode_resolved`.
    struct ModelChange<'a> {
        "newModel" new: Option<BorrowedText<'a>>,
        "chosenModel" chosen: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// `user.message`.
    struct UserMessageData<'a> {
        "content" content: Option<BorrowedText<'a>>,
        "transformedContent" transformed: Option<&'a RawValue>,
        "attachments" attachments: Option<Vec<&'a RawValue>>,
        "source" source: Option<BorrowedText<'a>>,
        "agentMode" mode: Option<BorrowedText<'a>>,
        "isAutopilotContinuation" is_continuation: Option<bool>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// `assistant.message`.
    struct AssistantMessageData<'a> {
        "content" content: Option<BorrowedText<'a>>,
        "toolRequests" requests: Option<Vec<ToolRequest<'a>>>,
        "model" model: Option<BorrowedText<'a>>,
        "outputTokens" output: Option<u64>,
        "apiCallId" api_id: Option<BorrowedText<'a>>,
        "requestId" request_id: Option<BorrowedText<'a>>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
        "reasoningText" reasoning: Option<&'a RawValue>,
        "reasoningOpaque" opaque: Option<&'a RawValue>,
        "encryptedContent" encrypted: Option<&'a RawValue>,
    }
}

lossless! {
    /// `assistant.turn_start` and `assistant.turn_end`.
    struct TurnBoundary<'a> {
        "turnId" id: Option<BorrowedText<'a>>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// A tool call requested by the model; also `tool.user_requested` and `tool.execution_start`.
    struct ToolRequest<'a> {
        "toolCallId" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "toolName" tool_name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "mcpServerName" server: Option<BorrowedText<'a>>,
        "mcpToolName" server_tool: Option<BorrowedText<'a>>,
        "type" kind: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// `tool.execution_complete`.
    struct ToolCompletion<'a> {
        "toolCallId" id: Option<BorrowedText<'a>>,
        "success" success: Option<bool>,
        "result" result: Option<&'a RawValue>,
        "error" error: Option<&'a RawValue>,
        "shellExecution" shell: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// The result of a tool.
    struct ToolResultData<'a> {
        "content" content: Option<&'a RawValue>,
        "detailedContent" detailed: Option<BorrowedText<'a>>,
        "contents" contents: Option<Vec<ResultPart<'a>>>,
        "binaryResultsForLlm" binaries: Option<Vec<ResultPart<'a>>>,
    }
}

lossless! {
    /// One part of a result, or an attachment of a prompt.
    struct ResultPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "mimeType" media_type: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// An event whose text is in one of several fields.
    struct NoticeData<'a> {
        "message" message: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "summary" summary: Option<BorrowedText<'a>>,
        "summaryContent" summary_content: Option<BorrowedText<'a>>,
        "error" error: Option<&'a RawValue>,
        "reason" reason: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// `session.binary_asset`.
    struct BinaryAsset<'a> {
        "mimeType" media_type: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
        "byteLength" bytes: Option<u64>,
    }
}

lossless! {
    /// `session.truncation`.
    struct Truncation<'a> {
        "messagesRemovedDuringTruncation" messages: Option<u64>,
        "tokensRemovedDuringTruncation" tokens: Option<u64>,
    }
}

lossless! {
    /// `session.shutdown`: the usage of one run of the program.
    struct Shutdown<'a> {
        "shutdownType" kind: Option<BorrowedText<'a>>,
        "errorReason" error: Option<BorrowedText<'a>>,
        "modelMetrics" models: Option<BTreeMap<String, Metrics<'a>>>,
        "usageAccountingWatermarks" watermarks: Option<&'a RawValue>,
        "accountingSnapshot" snapshot: Option<&'a RawValue>,
        "codeChanges" changes: Option<CodeChanges<'a>>,
        "totalNanoAiu" nano_aiu: Option<&'a RawValue>,
    }
}

lossless! {
    /// The files changed since the session began.
    struct CodeChanges<'a> {
        "filesModified" files: Option<Vec<BorrowedText<'a>>>,
    }
}

lossless! {
    /// The usage of one model in a run.
    struct Metrics<'a> {
        "usage" usage: Option<RunTokenCounts<'a>>,
    }
}

lossless! {
    /// Tokens of a run. `inputTokens` includes the tokens read from and written to a cache.
    struct RunTokenCounts<'a> {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "cacheReadTokens" cache_read: Option<u64>,
        "cacheWriteTokens" cache_write: Option<u64>,
        "reasoningTokens" reasoning: Option<u64>,
    }
}

impl RunTokenCounts<'_> {
    pub(super) fn run_tokens(&self) -> Tokens {
        let cache_read = self.cache_read.unwrap_or(0);
        let cache_creation = self.cache_write.unwrap_or(0);
        let input = self.input.unwrap_or(0).saturating_sub(cache_read);
        Tokens {
            input: input.saturating_sub(cache_creation),
            output: self.output.unwrap_or(0),
            cache_read,
            cache_creation,
            reasoning: self.reasoning,
        }
    }
}

lossless! {
    /// `session.usage_record`.
    struct UsageRecord<'a> {
        "usage" usage: Option<&'a RawValue>,
    }
}

lenient! {
    /// `model.model_call_success`: a call that the program makes for itself, such as a compaction.
    struct HiddenCall<'a> {
        "modelCall" call: Option<HiddenCallFacts<'a>>,
        "responseUsage" usage: Option<ResponseUsage>,
    }
}

lenient! {
    struct HiddenCallFacts<'a> {
        "model" model: Option<BorrowedText<'a>>,
        "api_id" api_id: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens of a call, as the API names them. The prompt includes the cached tokens.
    struct ResponseUsage {
        "prompt_tokens" prompt: Option<u64>,
        "completion_tokens" completion: Option<u64>,
        "prompt_tokens_details" prompt_details: Option<ResponsePromptDetails>,
        "completion_tokens_details" completion_details: Option<ResponseCompletionDetails>,
    }
}

lenient! {
    struct ResponsePromptDetails {
        "cached_tokens" cached: Option<u64>,
    }
}

lenient! {
    struct ResponseCompletionDetails {
        "reasoning_tokens" reasoning: Option<u64>,
    }
}

impl ResponseUsage {
    pub(super) fn call_tokens(&self) -> Tokens {
        let cached = self.prompt_details.as_ref().and_then(|details| details.cached);
        let cache_read = cached.unwrap_or(0);
        Tokens {
            input: self.prompt.unwrap_or(0).saturating_sub(cache_read),
            output: self.completion.unwrap_or(0),
            cache_read,
            cache_creation: 0,
            reasoning: self.completion_details.as_ref().and_then(|details| details.reasoning),
        }
    }
}

lossless! {
    /// Details of one model call. [`CopilotTokenCounts`] reads the tokens from the same object.
    struct CallFacts<'a> {
        "model" model: Option<BorrowedText<'a>>,
        "apiCallId" api_id: Option<BorrowedText<'a>>,
        "accounting" accounting: Option<Accounting<'a>>,
        "parentToolCallId" parent_call: Option<BorrowedText<'a>>,
        "finishReason" finish_reason: Option<BorrowedText<'a>>,
        "totalNanoAiu" nano_aiu: Option<f64>,
        "copilotUsage" billed: Option<Billed<'a>>,
        "inputTokens" input: Option<&'a RawValue>,
        "outputTokens" output: Option<&'a RawValue>,
        "cacheReadTokens" cache_read: Option<&'a RawValue>,
        "cacheWriteTokens" cache_write: Option<&'a RawValue>,
        "reasoningTokens" reasoning: Option<&'a RawValue>,
    }
}

lossless! {
    /// The id under which the program itself accounts for a call.
    struct Accounting<'a> {
        "usageId" usage_id: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// The amount that the service billed for a call.
    struct Billed<'a> {
        "totalNanoAiu" nano_aiu: Option<f64>,
    }
}

impl ToolRequest<'_> {
    /// Returns the tool's name, from either of its keys.
    pub(super) fn take_name(&mut self) -> String {
        let name = self.name.take().or(self.tool_name.take());
        name.map(BorrowedText::into_owned).unwrap_or_default()
    }

    /// Returns the name under which an MCP server's tool is counted, and the recorded fields about
    /// it.
    pub(super) fn take_server(&mut self, name: &str) -> Option<(String, Extensions)> {
        let server = self.server.take()?.into_owned();
        let bare = name.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let tool = self.server_tool.take().map(BorrowedText::into_owned);
        let tool = tool.unwrap_or_else(|| bare.unwrap_or(name).to_owned());
        let called = format!("mcp__{server}__{tool}");
        let said =
            [("mcpServerName", server), ("mcpToolName", tool), ("toolName", name.to_owned())];
        let said = said.map(|(key, text)| (key.to_owned(), Json::from_value(&text)));
        Some((called, said.into()))
    }
}

impl NoticeData<'_> {
    /// Returns the first non-empty text of the event.
    pub(super) fn take_text(&mut self) -> String {
        let error = self.error.take().map(error_text);
        let found = [self.summary_content.take(), self.message.take(), self.content.take()]
            .into_iter()
            .chain([self.summary.take()])
            .flatten()
            .map(BorrowedText::into_owned)
            .chain(error)
            .chain(self.reason.take().map(BorrowedText::into_owned))
            .find(|text| !text.is_empty());
        found.unwrap_or_default()
    }
}

/// Returns an error's message: `{ "message": … }` or the text itself.
pub(super) fn error_text(raw: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct ToolFailure {
        message: String,
    }
    let text = serde_json::from_str::<ToolFailure>(raw.get()).map(|failure| failure.message);
    text.or_else(|_| serde_json::from_str(raw.get())).unwrap_or_else(|_| raw.get().to_owned())
}
