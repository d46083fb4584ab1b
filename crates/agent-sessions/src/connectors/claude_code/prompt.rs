//! Separates text that a person typed from text that Claude Code put into a user record.

use crate::model::Origin;

/// Tags that Claude Code puts in front of a prompt.
const ENVELOPES: [&str; 4] =
    ["system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics"];

/// Prefixes that only Claude Code writes, with the origin they imply.
const MACHINE: &[(&str, Origin)] = &[
    ("<command-name>", Origin::Command),
    ("<command-message>", Origin::Command),
    ("<command-args>", Origin::Command),
    ("<bash-input>", Origin::Command),
    ("<local-command-stdout>", Origin::Injected),
    ("<local-command-stderr>", Origin::Injected),
    ("<local-command-caveat>", Origin::Injected),
    ("<bash-stdout>", Origin::Injected),
    ("<bash-stderr>", Origin::Injected),
    ("<task-notification>", Origin::Injected),
    ("<teammate-message", Origin::Injected),
    ("<user-memory-input>", Origin::Injected),
    ("<system-reminder>", Origin::Injected),
    ("<ide_opened_file>", Origin::Injected),
    ("<ide_selection>", Origin::Injected),
    ("[Request interrupted", Origin::System),
    ("Caveat: The messages below", Origin::Injected),
    ("This session is being continued", Origin::Summary),
    ("Stop hook feedback:", Origin::Injected),
    ("Base directory for this skill:", Origin::Injected),
];

/// Splits leading envelopes from a prompt; returns the envelopes and the prompt.
pub(super) fn split_envelopes(text: &str) -> (&str, &str) {
    let mut rest = text.trim_start();
    while let Some(after) = ENVELOPES.iter().find_map(|tag| after_tagged_envelope(rest, tag)) {
        rest = after.trim_start();
    }
    let envelope = &text[..text.len() - rest.len()];
    (envelope.trim(), rest.trim_end())
}

fn after_tagged_envelope<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let inside = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
    let close = inside.find(&format!("</{tag}>"))?;
    Some(&inside[close + tag.len() + 3..])
}

/// Returns the origin of a text in a user record.
pub(super) fn user_text_origin(text: &str) -> Origin {
    if is_placeholder(text) {
        return Origin::Injected;
    }
    let machine = MACHINE.iter().find(|(beginning, _)| text.starts_with(beginning));
    machine.map_or(Origin::Human, |(_, origin)| *origin)
}

/// Returns whether a text is Claude Code's placeholder for an empty message, or its answer to an
/// unknown command.
fn is_placeholder(text: &str) -> bool {
    let unknown = text.trim_end().strip_prefix("Unknown skill: ");
    text.trim() == "(no content)" || unknown.is_some_and(|name| !name.contains(char::is_whitespace))
}

/// Returns whether a queued text is a prompt or a command, such as `/model opus`.
pub(super) fn queued_origin(text: &str) -> Origin {
    let name = text.split_whitespace().next().and_then(|word| word.strip_prefix('/'));
    let is_command = name.is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_:.".contains(one))
    });
    if is_command { Origin::Command } else { Origin::Queued }
}

/// Returns whether Claude Code wrote a queued text itself.
pub(super) fn is_machine_text(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.starts_with("{\"task_id\"") || user_text_origin(text) != Origin::Human
}

/// Formats a command record as it was typed: `/name args`, `!command`.
pub(super) fn format_typed_command(text: &str) -> Option<String> {
    if let Some(input) = tag_content(text, "bash-input") {
        return Some(format!("!{}", input.trim()));
    }
    let name =
        tag_content(text, "command-name").or_else(|| tag_content(text, "command-message"))?.trim();
    let slash = if name.starts_with('/') { "" } else { "/" };
    let args = tag_content(text, "command-args").unwrap_or_default().trim();
    Some(format!("{slash}{name} {args}").trim_end().to_owned())
}

fn tag_content<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    Some(after.split_once(&format!("</{name}>")).map_or(after, |(inside, _)| inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_taken_off_the_front_only() {
        let check = |text: &str, envelope: &str, prompt: &str| {
            assert_eq!(split_envelopes(text), (envelope, prompt), "{text}");
        };
        check("fix it", "", "fix it");
        check(
            "<system-reminder>a</system-reminder>\n fix it ",
            "<system-reminder>a</system-reminder>",
            "fix it",
        );
        check("fix <ide_selection>x</ide_selection>", "", "fix <ide_selection>x</ide_selection>");
        check("<system-reminder>never closed", "", "<system-reminder>never closed");
    }

    #[test]
    fn machine_written_texts_are_no_prompts() {
        assert_eq!(user_text_origin("please fix it"), Origin::Human);
        assert_eq!(user_text_origin("<command-name>/model</command-name>"), Origin::Command);
        assert_eq!(user_text_origin("[Request interrupted by user for tool use]"), Origin::System);
        assert_eq!(user_text_origin("Unknown skill: polish"), Origin::Injected);
        assert_eq!(user_text_origin("Unknown skill: what does that mean?"), Origin::Human);
        assert_eq!(user_text_origin("(no content)"), Origin::Injected);
        assert!(is_machine_text(r#"{"task_id":"b1"}"#));
        assert!(!is_machine_text("also write tests"));
    }

    #[test]
    fn a_queued_command_is_no_prompt() {
        assert_eq!(queued_origin("/model opus"), Origin::Command);
        assert_eq!(queued_origin("/etc/hosts is wrong"), Origin::Queued);
        assert_eq!(queued_origin("also write tests"), Origin::Queued);
    }

    #[test]
    fn commands_read_as_they_were_typed() {
        let text = "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>src</command-args>";
        assert_eq!(format_typed_command(text).as_deref(), Some("/review src"));
        assert_eq!(
            format_typed_command("<bash-input>ls -l</bash-input>").as_deref(),
            Some("!ls -l")
        );
        assert_eq!(format_typed_command("no command"), None);
    }
}
