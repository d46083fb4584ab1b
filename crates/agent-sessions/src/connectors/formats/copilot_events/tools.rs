//! Functions without state for the payload of events: typed prompts, tool arguments and tool
//! results.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::{ResultPart, ToolCompletion, ToolResultData, error_text};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::model::{Block, Extensions, Image, Json, Message};

/// A tool that only displays the agent's next step to the user.
pub(super) const INTENT: &str = "report_intent";

/// Tools whose argument `path` is the one file they read or write.
const FILE_TOOLS: &[&str] = &["view", "edit", "create", "str_replace_editor"];

/// Opening and closing tags that the program appends to a prompt.
const TAILS: &[(&str, &str)] =
    &[("<current_datetime>", "</current_datetime>"), ("<reminder>", "</reminder>")];

/// Tags of the prompt in an editor's envelope, which contains the prompt, reminders and
/// attachments, and the prompt once more.
const REQUEST: (&str, &str) = ("<userRequest>", "</userRequest>");

/// Returns the typed prompt, without the text that the program added around it.
pub fn typed_part_of_prompt(content: &str) -> &str {
    let mut text = request_in(content).unwrap_or(content);
    loop {
        let trimmed = text.trim_end();
        let tail = TAILS.iter().find(|(_, close)| trimmed.ends_with(close));
        match tail.and_then(|(open, _)| trimmed.rfind(open)) {
            Some(at) => text = trimmed[..at].trim_end(),
            None => return text,
        }
    }
}

/// Returns the prompt inside an editor's envelope.
fn request_in(content: &str) -> Option<&str> {
    let (open, close) = REQUEST;
    let inside = content.trim_end().strip_suffix(close)?;
    let (before, request) = inside.rsplit_once(open)?;
    let is_envelope = before.contains("<reminder>") || before.contains("<attachments>");
    is_envelope.then_some(request.trim())
}

/// Returns whether a text is a terminal notification that the program sends in the form of a
/// prompt.
pub(super) fn is_terminal_notice(text: &str) -> bool {
    let notice = text.strip_prefix("[Terminal ").and_then(|rest| rest.split_once(' '));
    notice.is_some_and(|(_, rest)| rest.starts_with("notification:"))
}

/// Returns the directory that a notice reports as trusted.
pub(super) fn trusted_folder(notice: &str) -> Option<&str> {
    let folder = notice.strip_prefix("Folder ")?;
    let (folder, _) = folder.split_once(" has been added to trusted folders")?;
    Some(folder.trim()).filter(|folder| !folder.is_empty())
}

/// Number of characters of the first prompt that are kept.
const MAX_BEGINNING: usize = 400;

/// Returns the beginning of a prompt, to detect a summary that only repeats it.
pub(super) fn prompt_beginning(text: &str) -> String {
    text.chars().take(MAX_BEGINNING).collect()
}

/// Returns whether a summary is the beginning of a prompt, or all of it. Whitespace and a trailing
/// ellipsis are ignored. Only the beginning of a long prompt may be known.
pub fn is_beginning(summary: &str, prompt: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (summary, known) = (plain(summary.trim().trim_end_matches(['…', '.'])), plain(prompt));
    let is_cut = prompt.chars().count() >= MAX_BEGINNING;
    known.starts_with(&summary) || (is_cut && summary.starts_with(&known))
}

/// Keeps the attachments of a prompt: images as image blocks, references as they are.
pub(super) fn attach_files(
    attachments: Vec<&RawValue>,
    blocks: &mut Vec<Block>,
    extensions: &mut Extensions,
) {
    let mut references = Vec::new();
    for raw in attachments {
        match json::parse_json::<ResultPart<'_>>(raw.get()) {
            Some(ResultPart { data: Some(data), media_type, .. }) => {
                let media_type = media_type.map(BorrowedText::into_owned);
                blocks.push(Block::Image(Image::from_base64(media_type, data.as_borrowed_str())));
            }
            _ => references.push(Json::from(raw)),
        }
    }
    if !references.is_empty() {
        extensions.insert("attachments".into(), Json::from_value(&references));
    }
}

/// Returns the arguments of a tool call: an object, an object encoded as a string, or any text.
pub(super) fn parse_tool_arguments(raw: Option<&RawValue>) -> Json {
    let Some(raw) = raw else { return Json::from_value(&()) };
    let inner = serde_json::from_str::<String>(raw.get()).ok();
    let inner = inner.as_deref().filter(|text| text.trim_start().starts_with(['{', '[']));
    match inner.and_then(|text| serde_json::from_str::<Json>(text).ok()) {
        Some(object) => object,
        None => Json::from(raw),
    }
}

/// Returns the file that a tool reads or writes.
pub(super) fn touched_path(name: &str, raw: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct ShellToolArguments {
        path: String,
    }
    if !FILE_TOOLS.contains(&name) {
        return None;
    }
    parse_tool_arguments(raw).parse_as::<ShellToolArguments>().map(|arguments| arguments.path)
}

/// Keeps the announced next step. The call itself is not recorded as a tool call.
pub(super) fn keep_intent(raw: Option<&RawValue>, extensions: &mut Extensions) {
    #[derive(Deserialize)]
    struct ShellToolArguments {
        intent: Json,
    }
    if let Some(arguments) = parse_tool_arguments(raw).parse_as::<ShellToolArguments>() {
        extensions.insert("intent".into(), arguments.intent);
    }
}

/// Adds a tool's result to its message.
pub(super) fn add_tool_answer(
    call_id: String,
    completion: ToolCompletion<'_>,
    message: &mut Message,
) {
    let failure = completion.error.map(error_text);
    let said = completion.success.map(|success| !success).or(failure.as_ref().map(|_| true));
    let mut images = Vec::new();
    let result =
        completion.result.map(|raw| tool_output_text(raw, &mut images, &mut message.extensions));
    // The program reports a command as successful if it ran, regardless of its exit status.
    let is_failed = completion.shell.is_some_and(ends_badly)
        || completion.result.is_some_and(|raw| result_parts(raw).any(ends_badly));
    let is_error = if is_failed { Some(true) } else { said };
    if let Some(shell) = completion.shell {
        message.extensions.insert("shellExecution".into(), Json::from(shell));
    }
    let output = result.filter(|text| !text.is_empty()).or(failure).unwrap_or_default();
    message.blocks.push(Block::ToolResult { call_id, output, is_error });
    message.blocks.append(&mut images);
    json::keep_non_empty_fields(completion.rest, &mut message.extensions);
}

/// Returns whether the record of a command has an exit status other than 0.
fn ends_badly(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct EndedCommand {
        exit_code: i64,
    }
    serde_json::from_str::<EndedCommand>(raw.get()).is_ok_and(|ended| ended.exit_code != 0)
}

/// Returns the parts of a result, as written.
fn result_parts(raw: &RawValue) -> impl Iterator<Item = &RawValue> {
    #[derive(Deserialize)]
    struct ResultParts<'a> {
        #[serde(borrow)]
        contents: Vec<&'a RawValue>,
    }
    let parts = serde_json::from_str::<ResultParts<'_>>(raw.get());
    parts.map(|parts| parts.contents).unwrap_or_default().into_iter()
}

/// Returns the text of a result. Images go to `images`, other fields to `extensions`.
fn tool_output_text(
    raw: &RawValue,
    images: &mut Vec<Block>,
    extensions: &mut Extensions,
) -> String {
    let Some(output) = json::parse_json::<ToolResultData<'_>>(raw.get()) else {
        return string_or_json_text(raw);
    };
    let mut texts = Vec::new();
    let mut facts = Vec::new();
    let parts = output.contents.into_iter().chain(output.binaries).flatten();
    for part in parts {
        if let Some(data) = part.data {
            let media_type = part.media_type.map(BorrowedText::into_owned);
            images.push(Block::Image(Image::from_base64(media_type, data.as_borrowed_str())));
            continue;
        }
        texts.extend(part.text.map(BorrowedText::into_owned));
        let mut kept = Extensions::new();
        json::keep_non_empty_fields(part.rest, &mut kept);
        if !kept.is_empty() {
            facts.push(kept);
        }
    }
    let text = match output.content {
        Some(content) => string_or_json_text(content),
        None => texts.join("\n"),
    };
    if let Some(detailed) = output.detailed.filter(|detailed| detailed.as_borrowed_str() != text) {
        extensions.insert("detailedContent".into(), Json::from_value(&detailed.as_borrowed_str()));
    }
    if !facts.is_empty() {
        extensions.insert("contents".into(), Json::from_value(&facts));
    }
    json::keep_non_empty_fields(output.rest, extensions);
    text
}

/// Returns a JSON string as text, and any other JSON as written.
fn string_or_json_text(raw: &RawValue) -> String {
    if raw.get() == "null" {
        return String::new();
    }
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn what_the_program_appended_to_a_prompt_is_taken_off() {
        let check =
            |content: &str, expected: &str| assert_eq!(typed_part_of_prompt(content), expected);
        check("ok\n\n<current_datetime>2025-12-02</current_datetime>", "ok");
        check("a <reminder> b\n\n<reminder>\nDo.\n</reminder>\n", "a <reminder> b");
        check("x\n<reminder>r</reminder>\n<current_datetime>t</current_datetime>", "x");
        check("<current_datetime> is a tag \n", "<current_datetime> is a tag \n");
        check("</reminder>", "</reminder>");
    }

    #[test]
    fn the_envelope_of_an_editor_is_taken_off() {
        let envelope = "Fix it\n <reminder>\nIMPORTANT: maybe.\n</reminder>\n<attachments>\n\
                        <attachment id=\"a\">x</attachment>\n\n</attachments>\n<userRequest>\n\
                        Fix it\n</userRequest>\n";
        assert_eq!(typed_part_of_prompt(envelope), "Fix it");
        let plain = "what does <userRequest>x</userRequest>";
        assert_eq!(typed_part_of_prompt(plain), plain);
        assert!(is_terminal_notice("[Terminal 0a1b-2c notification: command completed.]\nok"));
        assert!(!is_terminal_notice("[Terminal notification: is a word]"));
    }

    #[test]
    fn a_summary_that_repeats_the_prompt_is_known() {
        let check = |text: &str, whole: &str, expected: bool| {
            assert_eq!(is_beginning(text, whole), expected, "{text}");
        };
        check("Why do totals", "Why do  totals\nround down?", true);
        check("Why do tot…", "Why do totals round down?", true);
        check("Why do totals fall", "Why do totals round down?", false);
        check("Totals are rounded once", "Why do totals round down?", false);
        check("Why do totals round down? Much.", "Why do totals round down?", false);
    }

    #[test]
    fn a_trusted_folder_is_named_by_its_notice() {
        let notice = "Folder /srv/a b has been added to trusted folders.";
        assert_eq!(trusted_folder(notice), Some("/srv/a b"));
        assert_eq!(trusted_folder("Folder x"), None);
    }

    #[test]
    fn arguments_are_read_as_object_as_string_and_as_text() {
        let check = |written: &str, expected: &str| {
            assert_eq!(parse_tool_arguments(Some(&raw(written))).as_json_str(), expected);
        };
        check(r#"{"path": "a"}"#, r#"{"path": "a"}"#);
        check(r#""{\"path\":\"a\"}""#, r#"{"path":"a"}"#);
        check(r#""*** Begin Patch\n""#, r#""*** Begin Patch\n""#);
        check(r#""{not json""#, r#""{not json""#);
        assert_eq!(parse_tool_arguments(None).as_json_str(), "null");
    }

    #[test]
    fn only_file_tools_touch_files() {
        let check = |name: &str, expected: Option<&str>| {
            let found = touched_path(name, Some(&raw(r#"{"path":"C:\\a\\b.rs"}"#)));
            assert_eq!(found.as_deref(), expected);
        };
        check("edit", Some(r"C:\a\b.rs"));
        check("grep", None);
    }

    #[test]
    fn results_are_text_object_or_parts_and_errors_speak_for_missing_ones() {
        let check = |data: &str, expected: &str, is_error: Option<bool>| {
            let completion: ToolCompletion<'_> = serde_json::from_str(data).unwrap();
            let mut message = Message::default();
            add_tool_answer("c".into(), completion, &mut message);
            let output = expected.to_owned();
            let result = Block::ToolResult { call_id: "c".into(), output, is_error };
            assert_eq!(message.blocks[0], result, "{data}");
        };
        check(r#"{"success":true,"result":{"content":"a"}}"#, "a", Some(false));
        check(r#"{"result":"plain"}"#, "plain", None);
        check(r#"{"success":false,"error":{"message":"no","code":"failure"}}"#, "no", Some(true));
        check(r#"{"error":"no"}"#, "no", Some(true));
        let parts = r#"{"success":true,"result":{"contents":[{"type":"text","text":"x"},
            {"type":"terminal","text":"y","exitCode":1},{"type":"image","data":"AA=="}]}}"#;
        check(parts, "x\ny", Some(true));
        let ended = |status: &str| {
            format!(r#"{{"success":true,"result":"a","shellExecution":{{"exitCode":{status}}}}}"#)
        };
        check(&ended("2"), "a", Some(true));
        check(&ended("0"), "a", Some(false));
        check(&ended("null"), "a", Some(false));
    }
}
