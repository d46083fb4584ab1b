//! The pure parts: what was typed, what a tool was asked and what it answered.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::{Completion, Output, Part, error_text};
use crate::connectors::formats::json::{self, Text};
use crate::model::{Block, Extensions, Image, Json, Message};

/// A tool that only tells the screen what the agent is about to do.
pub(super) const INTENT: &str = "report_intent";

/// Tools that name the one file they touch.
const FILE_TOOLS: &[&str] = &["view", "edit", "create", "str_replace_editor"];

/// What the program appends to a prompt.
const TAILS: &[(&str, &str)] =
    &[("<current_datetime>", "</current_datetime>"), ("<reminder>", "</reminder>")];

/// What an editor writes around a prompt: the prompt, its reminders and attachments, and the
/// prompt once more.
const REQUEST: (&str, &str) = ("<userRequest>", "</userRequest>");

/// Takes off what the program put around a typed prompt.
pub fn typed(content: &str) -> &str {
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

/// Whether a text is a notice about a terminal that the program sends as if it were a prompt.
pub(super) fn is_terminal_notice(text: &str) -> bool {
    let notice = text.strip_prefix("[Terminal ").and_then(|rest| rest.split_once(' '));
    notice.is_some_and(|(_, rest)| rest.starts_with("notification:"))
}

/// Returns the folder that a notice says is trusted now.
pub(super) fn trusted_folder(notice: &str) -> Option<&str> {
    let folder = notice.strip_prefix("Folder ")?;
    let (folder, _) = folder.split_once(" has been added to trusted folders")?;
    Some(folder.trim()).filter(|folder| !folder.is_empty())
}

/// How much of the first prompt is remembered, in characters.
const MAX_BEGINNING: usize = 400;

/// The beginning of a prompt, by which a summary that only repeats it is known.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(MAX_BEGINNING).collect()
}

/// Whether a summary is the beginning of a prompt, or all of it. Spaces and the dots that stand
/// for what was cut off do not count; of a long prompt only the beginning may be known.
pub fn is_beginning(summary: &str, prompt: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (summary, known) = (plain(summary.trim().trim_end_matches(['…', '.'])), plain(prompt));
    let is_cut = prompt.chars().count() >= MAX_BEGINNING;
    known.starts_with(&summary) || (is_cut && summary.starts_with(&known))
}

/// Keeps the attachments of a prompt: pictures as pictures, references as they are.
pub(super) fn attach(
    attachments: Vec<&RawValue>,
    blocks: &mut Vec<Block>,
    extensions: &mut Extensions,
) {
    let mut references = Vec::new();
    for raw in attachments {
        match json::parse::<Part<'_>>(raw.get()) {
            Some(Part { data: Some(data), media_type, .. }) => {
                let media_type = media_type.map(Text::into_owned);
                blocks.push(Block::Image(Image::from_base64(media_type, data.as_str())));
            }
            _ => references.push(Json::from(raw)),
        }
    }
    if !references.is_empty() {
        extensions.insert("attachments".into(), Json::from_value(&references));
    }
}

/// The arguments of a call: an object, or an object written as a string, or any text.
pub(super) fn arguments(raw: Option<&RawValue>) -> Json {
    let Some(raw) = raw else { return Json::from_value(&()) };
    let inner = serde_json::from_str::<String>(raw.get()).ok();
    let inner = inner.as_deref().filter(|text| text.trim_start().starts_with(['{', '[']));
    match inner.and_then(|text| serde_json::from_str::<Json>(text).ok()) {
        Some(object) => object,
        None => Json::from(raw),
    }
}

/// The file a tool touches.
pub(super) fn path(name: &str, raw: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments {
        path: String,
    }
    if !FILE_TOOLS.contains(&name) {
        return None;
    }
    arguments(raw).parse::<Arguments>().map(|arguments| arguments.path)
}

/// Keeps what the agent said it would do; the call itself is not one.
pub(super) fn keep_intent(raw: Option<&RawValue>, extensions: &mut Extensions) {
    #[derive(Deserialize)]
    struct Arguments {
        intent: Json,
    }
    if let Some(arguments) = arguments(raw).parse::<Arguments>() {
        extensions.insert("intent".into(), arguments.intent);
    }
}

/// Adds a tool's answer to its message.
pub(super) fn answer(call_id: String, completion: Completion<'_>, message: &mut Message) {
    let failure = completion.error.map(error_text);
    let said = completion.success.map(|success| !success).or(failure.as_ref().map(|_| true));
    let mut images = Vec::new();
    let result = completion.result.map(|raw| output(raw, &mut images, &mut message.extensions));
    // The program calls a command successful that ran, whatever status it ended with.
    let is_failed = completion.shell.is_some_and(ends_badly)
        || completion.result.is_some_and(|raw| parts_of(raw).any(ends_badly));
    let is_error = if is_failed { Some(true) } else { said };
    if let Some(shell) = completion.shell {
        message.extensions.insert("shellExecution".into(), Json::from(shell));
    }
    let output = result.filter(|text| !text.is_empty()).or(failure).unwrap_or_default();
    message.blocks.push(Block::ToolResult { call_id, output, is_error });
    message.blocks.append(&mut images);
    json::keep(completion.rest, &mut message.extensions);
}

/// Whether what is recorded of a command says that it ended with another status than 0.
fn ends_badly(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Ended {
        exit_code: i64,
    }
    serde_json::from_str::<Ended>(raw.get()).is_ok_and(|ended| ended.exit_code != 0)
}

/// The parts of a result, as written.
fn parts_of(raw: &RawValue) -> impl Iterator<Item = &RawValue> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        contents: Vec<&'a RawValue>,
    }
    let parts = serde_json::from_str::<Parts<'_>>(raw.get());
    parts.map(|parts| parts.contents).unwrap_or_default().into_iter()
}

/// The text of a result; its pictures and facts go where they belong.
fn output(raw: &RawValue, images: &mut Vec<Block>, extensions: &mut Extensions) -> String {
    let Some(output) = json::parse::<Output<'_>>(raw.get()) else { return plain(raw) };
    let mut texts = Vec::new();
    let mut facts = Vec::new();
    let parts = output.contents.into_iter().chain(output.binaries).flatten();
    for part in parts {
        if let Some(data) = part.data {
            let media_type = part.media_type.map(Text::into_owned);
            images.push(Block::Image(Image::from_base64(media_type, data.as_str())));
            continue;
        }
        texts.extend(part.text.map(Text::into_owned));
        let mut kept = Extensions::new();
        json::keep(part.rest, &mut kept);
        if !kept.is_empty() {
            facts.push(kept);
        }
    }
    let text = match output.content {
        Some(content) => plain(content),
        None => texts.join("\n"),
    };
    if let Some(detailed) = output.detailed.filter(|detailed| detailed.as_str() != text) {
        extensions.insert("detailedContent".into(), Json::from_value(&detailed.as_str()));
    }
    if !facts.is_empty() {
        extensions.insert("contents".into(), Json::from_value(&facts));
    }
    json::keep(output.rest, extensions);
    text
}

/// A JSON string as text, anything else as it is written.
fn plain(raw: &RawValue) -> String {
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
        let check = |content: &str, expected: &str| assert_eq!(typed(content), expected);
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
        assert_eq!(typed(envelope), "Fix it");
        let plain = "what does <userRequest>x</userRequest>";
        assert_eq!(typed(plain), plain);
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
            assert_eq!(arguments(Some(&raw(written))).as_str(), expected);
        };
        check(r#"{"path": "a"}"#, r#"{"path": "a"}"#);
        check(r#""{\"path\":\"a\"}""#, r#"{"path":"a"}"#);
        check(r#""*** Begin Patch\n""#, r#""*** Begin Patch\n""#);
        check(r#""{not json""#, r#""{not json""#);
        assert_eq!(arguments(None).as_str(), "null");
    }

    #[test]
    fn only_file_tools_touch_files() {
        let check = |name: &str, expected: Option<&str>| {
            let found = path(name, Some(&raw(r#"{"path":"C:\\a\\b.rs"}"#)));
            assert_eq!(found.as_deref(), expected);
        };
        check("edit", Some(r"C:\a\b.rs"));
        check("grep", None);
    }

    #[test]
    fn results_are_text_object_or_parts_and_errors_speak_for_missing_ones() {
        let check = |data: &str, expected: &str, is_error: Option<bool>| {
            let completion: Completion<'_> = serde_json::from_str(data).unwrap();
            let mut message = Message::default();
            answer("c".into(), completion, &mut message);
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
