//! Separates text that a person typed from text that Codex put into a user item or a tool's output.

use std::borrow::Cow;

use serde::Deserialize;

use crate::model::Origin;

/// Prefixes that only Codex writes, with the origin they imply.
const MACHINE: &[(&str, Origin)] = &[
    ("<environment_context>", Origin::Injected),
    ("<user_instructions>", Origin::Injected),
    ("<INSTRUCTIONS>", Origin::Injected),
    ("# AGENTS.md instructions", Origin::Injected),
    ("<skill>", Origin::Injected),
    ("<subagent_notification>", Origin::Injected),
    ("<recommended_plugins>", Origin::Injected),
    ("<codex_internal_context", Origin::Injected),
    ("<goal_context>", Origin::Injected),
    ("<external_", Origin::Injected),
    ("<hook_prompt", Origin::Injected),
    ("<current_time_reminder>", Origin::Injected),
    ("<rollout_budget>", Origin::Injected),
    ("<permissions instructions>", Origin::Injected),
    ("<collaboration_mode>", Origin::Injected),
    ("<model_switch>", Origin::Injected),
    ("<user_action>", Origin::Injected),
    ("Warning: apply_patch was requested via ", Origin::Injected),
    ("Warning: The maximum number of unified exec processes", Origin::Injected),
    ("<user_shell_command>", Origin::Command),
    ("<turn_aborted>", Origin::Injected),
    ("Another language model started to solve this problem", Origin::Summary),
];

/// The heading that ends the text an editor puts in front of a prompt.
const REQUEST: &str = "## My request for Codex:";

/// Returns the origin of a text in a user item.
pub(super) fn user_item_origin(text: &str) -> Origin {
    let text = text.trim_start();
    let machine = MACHINE.iter().find(|(beginning, _)| text.starts_with(beginning));
    machine.map_or(Origin::Human, |(_, origin)| *origin)
}

/// Tag before a person's answers to the agent's questions.
const REPLY: &str = "<send_user_message_question_reply>";

/// Splits the envelope that Codex put around a prompt from the prompt.
pub(super) fn split_prompt_envelope(text: &str) -> Option<(String, String)> {
    let (envelope, request) =
        split_editor_request(text).or_else(|| Some((text, parse_question_answers(text)?)))?;
    Some((envelope.trim().to_owned(), request.trim().to_owned()))
}

/// Splits an editor's request: a text that begins with a heading is an envelope up to the last
/// `REQUEST_HEADING`.
fn split_editor_request(text: &str) -> Option<(&str, String)> {
    let head = text.trim_start();
    if !head.starts_with("# ") && !head.starts_with("## ") {
        return None;
    }
    let begins_line = |at: &usize| text[..*at].ends_with('\n');
    let at = text.match_indices(REQUEST).map(|(at, _)| at).filter(begins_line).last()?;
    Some((&text[..at], text[at + REQUEST.len()..].to_owned()))
}

/// Parses the answers in a reply to questions, one per line.
fn parse_question_answers(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct QuestionAnswers {
        answer: String,
    }
    let list = text.trim().strip_prefix(REPLY)?;
    let list = list.split_once("</").map_or(list, |(list, _)| list);
    let replies: Vec<QuestionAnswers> = serde_json::from_str(list.trim()).ok()?;
    let answers: Vec<String> = replies.into_iter().map(|reply| reply.answer).collect();
    Some(answers.join("\n")).filter(|answers| !answers.trim().is_empty())
}

/// Removes image placeholders, such as `[Image #1]`, from a text: the item and the event of a
/// prompt have them at different positions.
pub(super) fn without_placeholders(text: &str) -> Cow<'_, str> {
    const MARK: &str = "[Image #";
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(MARK) {
        kept.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match after[digits..].strip_prefix(']').filter(|_| digits > 0) {
            Some(behind) => rest = behind,
            None => {
                kept.push_str(MARK);
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Finds the working directory in the context that Codex injects.
pub(super) fn find_injected_cwd(text: &str) -> Option<&str> {
    let tagged = text.split_once("<cwd>").and_then(|(_, rest)| rest.split_once("</cwd>"));
    let cwd = match tagged {
        Some((cwd, _)) => cwd,
        None => text.split_once("Current working directory: ")?.1.lines().next()?,
    };
    Some(cwd.trim()).filter(|cwd| !cwd.is_empty())
}

/// Parses a tag around an image: `<image>`, `<image name=… path="…">`, `</image>`. Returns the
/// path, which is empty where the tag has none.
pub(super) fn image_tag(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix('<')?.strip_suffix('>')?;
    if inside == "/image" {
        return Some("");
    }
    let attributes = inside.strip_prefix("image")?;
    if inside.contains(['<', '\n']) || !(attributes.is_empty() || attributes.starts_with(' ')) {
        return None;
    }
    let path = attributes.split_once("path=\"").and_then(|(_, rest)| rest.split_once('"'));
    Some(path.map_or("", |(path, _)| path))
}

/// Parses the exit code in the lines that Codex puts above a command's output.
pub(super) fn parse_exit_code_header(output: &str) -> Option<i64> {
    const HEADER: usize = 8;
    let header = output.lines().take(HEADER).take_while(|line| *line != "Output:");
    let mut codes = header.filter_map(|line| {
        let code = line
            .strip_prefix("Exit code: ")
            .or_else(|| line.strip_prefix("Process exited with code "))?;
        code.trim().parse().ok()
    });
    codes.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_injects_is_no_prompt() {
        let check =
            |text: &str, expected: Origin| assert_eq!(user_item_origin(text), expected, "{text}");
        check("fix the build", Origin::Human);
        check("what does <cwd> mean here?", Origin::Human);
        check("\n<environment_context>\n", Origin::Injected);
        check("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>", Origin::Injected);
        check("<user_instructions>\nbe brief", Origin::Injected);
        check("<user_shell_command>ls", Origin::Command);
        check("Another language model started to solve this problem and", Origin::Summary);
    }

    #[test]
    fn a_request_from_an_editor_is_its_last_part() {
        let text = "# Context from my IDE setup:\n\n## Active file: a.rs\n\n## My request for Codex:\nfix it\n";
        let context = "# Context from my IDE setup:\n\n## Active file: a.rs";
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let expected =
                expected.map(|(envelope, request)| (envelope.to_owned(), request.to_owned()));
            assert_eq!(split_prompt_envelope(text), expected, "{text}");
        };
        check(text, Some((context, "fix it")));
        check(
            "\n# Files mentioned by the user:\n\n## a.rs: /w/a.rs\n\n## My request for Codex:\nread it",
            Some(("# Files mentioned by the user:\n\n## a.rs: /w/a.rs", "read it")),
        );
        let prior = "## Prior conversation with Codex:\n{\"conversation\":[{\"content\":\"## My request for Codex: x\"}]}";
        check(&format!("\n{prior}\n## My request for Codex:\ngo on\n"), Some((prior, "go on")));
        check("quote: ## My request for Codex: x", None);
        check("quote:\n## My request for Codex:\nx", None);
        check("# A heading\n\nand a text", None);
    }

    #[test]
    fn a_reply_to_questions_is_what_was_answered() {
        let text = "<send_user_message_question_reply>\n[{\"answer\":\"the red one\",\"question\":\"Which?\"}]";
        assert_eq!(split_prompt_envelope(text), Some((text.to_owned(), "the red one".to_owned())));
        let closed = format!("{text}\n</send_user_message_question_reply>");
        assert_eq!(
            split_prompt_envelope(&closed).map(|(_, reply)| reply).as_deref(),
            Some("the red one")
        );
        assert_eq!(split_prompt_envelope("<send_user_message_question_reply>\n[]"), None);
    }

    #[test]
    fn marks_of_pictures_are_no_text() {
        let check = |text: &str, expected: &str| assert_eq!(without_placeholders(text), expected);
        check("[Image #1] what is it", " what is it");
        check("what is it\n\n[Image #12]", "what is it\n\n");
        check("[Image #] and [Image #x]", "[Image #] and [Image #x]");
        check("nothing", "nothing");
    }

    #[test]
    fn directories_are_found_in_both_forms_of_the_context() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(find_injected_cwd(text), expected, "{text}");
        };
        check("<environment_context>\n  <cwd>/w/a b</cwd>", Some("/w/a b"));
        check("Current working directory: /w\nApproval policy: never", Some("/w"));
        check("<cwd></cwd>", None);
        check("nothing", None);
    }

    #[test]
    fn tags_around_pictures_are_told_from_text() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(image_tag(text), expected, "{text}");
        };
        check("<image>", Some(""));
        check("</image>", Some(""));
        check("<image name=[Image #1] path=\"/tmp/a.png\">", Some("/tmp/a.png"));
        check("<imagery>", None);
        check("look at <image>", None);
    }

    #[test]
    fn exit_codes_stand_above_the_output() {
        let check = |output: &str, expected: Option<i64>| {
            assert_eq!(parse_exit_code_header(output), expected, "{output}");
        };
        check("Exit code: 124\nWall time: 10 seconds\nOutput:\nx", Some(124));
        check(
            "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n",
            Some(0),
        );
        check("Wall time: 1 seconds\nOutput:\nExit code: 1", None);
        check("Plan updated", None);
    }
}
