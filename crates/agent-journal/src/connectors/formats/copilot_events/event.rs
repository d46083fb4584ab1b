//! The shape of one event, with the fields that are used and the rest as written.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{Lenient, Text, lossless};
use crate::model::{Extensions, Json, Tokens};

lossless! {
    /// One line: the envelope around an event's data.
    struct Event<'a> {
        "type" kind: Option<Text<'a>>,
        "id" id: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "parentId" parent: Option<Text<'a>>,
        "agentId" agent: Option<Text<'a>>,
        "ephemeral" ephemeral: Option<bool>,
        "data" data: Option<&'a RawValue>,
    }
}

lossless! {
    /// `session.start` and `session.resume`.
    struct Begin<'a> {
        "sessionId" session_id: Option<Text<'a>>,
        "copilotVersion" version: Option<Text<'a>>,
        "startTime" start_time: Option<Lenient<Text<'a>>>,
        "selectedModel" model: Option<Text<'a>>,
        "context" context: Option<Context<'a>>,
        "detachedFromSpawningParentSessionId" parent: Option<Text<'a>>,
    }
}

lossless! {
    /// Where the agent works.
    struct Context<'a> {
        "cwd" cwd: Option<Text<'a>>,
        "gitRoot" git_root: Option<Text<'a>>,
        "branch" branch: Option<Text<'a>>,
        "repository" repository: Option<Text<'a>>,
    }
}

lossless! {
    /// `session.model_change` and `session.auto_mode_resolved`.
    struct ModelChange<'a> {
        "newModel" new: Option<Text<'a>>,
        "chosenModel" chosen: Option<Text<'a>>,
    }
}

lossless! {
    /// `user.message`.
    struct Prompt<'a> {
        "content" content: Option<Text<'a>>,
        "transformedContent" transformed: Option<&'a RawValue>,
        "attachments" attachments: Option<Vec<&'a RawValue>>,
        "source" source: Option<Text<'a>>,
        "agentMode" mode: Option<Text<'a>>,
        "isAutopilotContinuation" is_continuation: Option<bool>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
    }
}

lossless! {
    /// `assistant.message`.
    struct Answer<'a> {
        "content" content: Option<Text<'a>>,
        "toolRequests" requests: Option<Vec<Request<'a>>>,
        "model" model: Option<Text<'a>>,
        "outputTokens" output: Option<u64>,
        "apiCallId" api_id: Option<Text<'a>>,
        "requestId" request_id: Option<Text<'a>>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
        "reasoningText" reasoning: Option<&'a RawValue>,
        "reasoningOpaque" opaque: Option<&'a RawValue>,
        "encryptedContent" encrypted: Option<&'a RawValue>,
    }
}

lossless! {
    /// `assistant.turn_start` and `assistant.turn_end`.
    struct Turn<'a> {
        "turnId" id: Option<Text<'a>>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
    }
}

lossless! {
    /// A tool the model asks for; also `tool.user_requested` and `tool.execution_start`.
    struct Request<'a> {
        "toolCallId" id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "toolName" tool_name: Option<Text<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "mcpServerName" server: Option<Text<'a>>,
        "mcpToolName" server_tool: Option<Text<'a>>,
        "type" kind: Option<&'a RawValue>,
        "model" model: Option<Text<'a>>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
    }
}

lossless! {
    /// `tool.execution_complete`.
    struct Completion<'a> {
        "toolCallId" id: Option<Text<'a>>,
        "success" success: Option<bool>,
        "result" result: Option<&'a RawValue>,
        "error" error: Option<&'a RawValue>,
        "shellExecution" shell: Option<&'a RawValue>,
        "model" model: Option<Text<'a>>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
    }
}

lossless! {
    /// What a tool returned.
    struct Output<'a> {
        "content" content: Option<&'a RawValue>,
        "detailedContent" detailed: Option<Text<'a>>,
        "contents" contents: Option<Vec<Part<'a>>>,
        "binaryResultsForLlm" binaries: Option<Vec<Part<'a>>>,
    }
}

lossless! {
    /// One part of a result, or an attachment of a prompt.
    struct Part<'a> {
        "type" kind: Option<Text<'a>>,
        "mimeType" media_type: Option<Text<'a>>,
        "data" data: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
    }
}

lossless! {
    /// An event whose words stand in one of a few fields.
    struct Notice<'a> {
        "message" message: Option<Text<'a>>,
        "content" content: Option<Text<'a>>,
        "summary" summary: Option<Text<'a>>,
        "summaryContent" summary_content: Option<Text<'a>>,
        "error" error: Option<&'a RawValue>,
        "reason" reason: Option<Text<'a>>,
    }
}

lossless! {
    /// `session.binary_asset`.
    struct Asset<'a> {
        "mimeType" media_type: Option<Text<'a>>,
        "data" data: Option<Text<'a>>,
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
    /// `session.shutdown`: what one run of the program used.
    struct Shutdown<'a> {
        "shutdownType" kind: Option<Text<'a>>,
        "errorReason" error: Option<Text<'a>>,
        "modelMetrics" models: Option<BTreeMap<String, Metrics<'a>>>,
        "usageAccountingWatermarks" watermarks: Option<&'a RawValue>,
        "accountingSnapshot" snapshot: Option<&'a RawValue>,
        "codeChanges" changes: Option<Changes<'a>>,
        "totalNanoAiu" nano_aiu: Option<&'a RawValue>,
    }
}

lossless! {
    /// The files a session changed, counted from its beginning.
    struct Changes<'a> {
        "filesModified" files: Option<Vec<Text<'a>>>,
    }
}

lossless! {
    /// One model's share of a run.
    struct Metrics<'a> {
        "usage" usage: Option<Counts<'a>>,
    }
}

lossless! {
    /// Tokens of a run: `inputTokens` includes what was read from and written to a cache.
    struct Counts<'a> {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "cacheReadTokens" cache_read: Option<u64>,
        "cacheWriteTokens" cache_write: Option<u64>,
        "reasoningTokens" reasoning: Option<u64>,
    }
}

impl Counts<'_> {
    pub(super) fn tokens(&self) -> Tokens {
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

lossless! {
    /// One call of a model, beside the tokens that [`Counts`] reads from the same object.
    struct CallFacts<'a> {
        "model" model: Option<Text<'a>>,
        "apiCallId" api_id: Option<Text<'a>>,
        "accounting" accounting: Option<Accounting<'a>>,
        "parentToolCallId" parent_call: Option<Text<'a>>,
        "finishReason" finish_reason: Option<Text<'a>>,
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
    /// Under which name the program itself accounts for a call.
    struct Accounting<'a> {
        "usageId" usage_id: Option<Text<'a>>,
    }
}

lossless! {
    /// What the service billed for a call.
    struct Billed<'a> {
        "totalNanoAiu" nano_aiu: Option<f64>,
    }
}

impl Request<'_> {
    /// The tool's name, under either of its keys.
    pub(super) fn take_name(&mut self) -> String {
        let name = self.name.take().or(self.tool_name.take());
        name.map(Text::into_owned).unwrap_or_default()
    }

    /// The name under which a tool of a server is counted, with what is recorded of it.
    pub(super) fn take_server(&mut self, name: &str) -> Option<(String, Extensions)> {
        let server = self.server.take()?.into_owned();
        let bare = name.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let tool = self.server_tool.take().map(Text::into_owned);
        let tool = tool.unwrap_or_else(|| bare.unwrap_or(name).to_owned());
        let called = format!("mcp__{server}__{tool}");
        let said =
            [("mcpServerName", server), ("mcpToolName", tool), ("toolName", name.to_owned())];
        let said = said.map(|(key, text)| (key.to_owned(), Json::from_value(&text)));
        Some((called, said.into()))
    }
}

impl Notice<'_> {
    /// The words of the event.
    pub(super) fn take_text(&mut self) -> String {
        let error = self.error.take().map(error_text);
        let found = [self.summary_content.take(), self.message.take(), self.content.take()]
            .into_iter()
            .chain([self.summary.take()])
            .flatten()
            .map(Text::into_owned)
            .chain(error)
            .chain(self.reason.take().map(Text::into_owned))
            .find(|text| !text.is_empty());
        found.unwrap_or_default()
    }
}

/// An error's message: `{ "message": … }` or the text itself.
pub(super) fn error_text(raw: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Failure {
        message: String,
    }
    let text = serde_json::from_str::<Failure>(raw.get()).map(|failure| failure.message);
    text.or_else(|_| serde_json::from_str(raw.get())).unwrap_or_else(|_| raw.get().to_owned())
}
