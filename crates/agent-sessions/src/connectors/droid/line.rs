//! One line of a session: typed fields that are used, the others as written.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Extensions, Timestamp};

/// Fields that repeat others, or that only the provider can read.
const OMITTED: &[&str] = &[
    "apiProvider",
    "chatCompletionReasoningContent",
    "chatCompletionReasoningField",
    "hookOrder",
    "hookParentId",
    "openaiEncryptedContent",
    "openaiReasoningId",
    "openaiReasoningSummary",
];

lenient! {
    /// One line.
    struct DroidLine<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "parentId" parent_id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "message" message: Option<&'a RawValue>,
        "title" title: Option<BorrowedText<'a>>,
        "sessionTitle" session_title: Option<BorrowedText<'a>>,
        "isSessionTitleManuallySet" is_manual_title: Option<bool>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "parent" origin: Option<BorrowedText<'a>>,
        "forkedAtMessageId" forked_at: Option<BorrowedText<'a>>,
        "callingSessionId" caller: Option<BorrowedText<'a>>,
        "callingToolUseId" calling_tool_use: Option<BorrowedText<'a>>,
        "summaryText" summary: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// The message in a line.
    struct DroidMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "modelId" model: Option<BorrowedText<'a>>,
        "model" old_model: Option<BorrowedText<'a>>,
        "openaiMessageId" answer_id: Option<BorrowedText<'a>>,
        "visibility" visibility: Option<BorrowedText<'a>>,
        "userMessageSource" source: Option<BorrowedText<'a>>,
        "hookEventName" hook: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// One block of a message.
    struct DroidBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "tool_use_id" tool_use_id: Option<BorrowedText<'a>>,
        "is_error" is_error: Option<bool>,
        "content" content: Option<&'a RawValue>,
        "source" source: Option<DroidMedia<'a>>,
    }
}

lenient! {
    /// The data of an image or a document.
    struct DroidMedia<'a> {
        "data" data: Option<BorrowedText<'a>>,
        "media_type" media_type: Option<BorrowedText<'a>>,
        "parsed_data" parsed: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
    }
}

impl DroidLine<'_> {
    /// Returns the time at which the line was written.
    pub(super) fn line_time(&self) -> Option<Timestamp> {
        Timestamp::parse_iso_time(self.timestamp.as_ref()?.as_borrowed_str())
    }
}

/// Keeps the fields of a message that have no field in the model.
pub(super) fn keep_unmodeled_fields(
    mut rest: json::UnnamedFields<'_>,
    extensions: &mut Extensions,
) {
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    json::keep_non_empty_fields(rest, extensions);
}

/// Returns a text; an empty one counts as absent.
pub(super) fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}
