//! Separates the typed prompt from the text that the program or an editor adds around it.

/// First line of a sub-agent's first message: context, followed by the task.
const CONTEXT: &str = "# Initial Context";

/// First line of a message with hints that a person typed while the model worked.
const HINTS: &str = "User hints:";

/// Texts with which an editor's additions to a prompt begin.
const APPENDED: [&str; 3] =
    ["\nCurrent File Path:\n```", "\nUser Selected Files:\n- ", " PRIOR CHAT HISTORY: "];

/// Returns whether a text begins with the context of a sub-agent.
pub(super) fn is_context(text: &str) -> bool {
    text.trim_start().starts_with(CONTEXT)
}

/// Splits a text into the prompt and the text added around it. `None` when nothing was added.
pub(super) fn split_added_text(text: &str) -> Option<(String, String)> {
    if is_context(text) {
        return split_task_context(text)
            .map(|(task, rest)| (task.to_owned(), rest.trim().to_owned()));
    }
    if let Some(hints) = typed_hints(text) {
        return Some((hints, text.trim().to_owned()));
    }
    let end = APPENDED.iter().filter_map(|beginning| text.find(beginning)).min()?;
    let (typed, rest) = text.split_at(end);
    // Without typed text, the addition is the whole prompt.
    (!typed.trim().is_empty()).then(|| (typed.trim().to_owned(), rest.trim().to_owned()))
}

/// Returns the hints that a person typed while the model worked, without the dash before each line.
pub(super) fn typed_hints(text: &str) -> Option<String> {
    let rest = text.trim_start().strip_prefix(HINTS)?;
    let (_, rest) = rest.split_once("<user_input>")?;
    let (typed, _) = rest.rsplit_once("</user_input>")?;
    let lines = typed.trim().lines().map(|line| line.strip_prefix("- ").unwrap_or(line));
    let typed = lines.collect::<Vec<_>>().join("\n");
    (!typed.trim().is_empty()).then_some(typed)
}

/// Splits a sub-agent's task from the context before it. The task follows the last line such as
/// `---[end of server instructions]---`; without such a line it is the last paragraph.
fn split_task_context(text: &str) -> Option<(&str, &str)> {
    let mut behind = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim();
        let inside = line.strip_prefix("---").and_then(|rest| rest.strip_suffix("---"));
        if inside.is_some_and(|inside| inside.contains(char::is_alphanumeric)) {
            behind = Some(at);
        }
    }
    let is_said = |at: &usize| !text[*at..].trim().is_empty();
    let paragraph = || text.trim_end().rfind("\n\n");
    let at = behind.filter(is_said).or_else(paragraph)?;
    Some((text[at..].trim(), &text[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(split_added_text(text).map(|(prompt, _)| prompt).as_deref(), expected, "{text}");
    }

    #[test]
    fn a_sub_agents_task_stands_behind_its_context() {
        check(
            "# Initial Context\n\n--- Global ---\nBe kind.\n---[end of rules]---\nFind\n\nit.",
            Some("Find\n\nit."),
        );
        check("# Initial Context\n\nBe kind.\n\nFind it.\n", Some("Find it."));
        check("# Initial Context", None);
        check("# Initial thoughts\n\nFind it.", None);
    }

    #[test]
    fn hints_are_what_a_person_typed() {
        let text = "User hints:\n<user_input>\n- not there\n- here\n</user_input>\n\nInternal instruction: Re-evaluate.";
        check(text, Some("not there\nhere"));
        check("User hints: none so far", None);
    }

    #[test]
    fn what_an_editor_appends_is_no_prompt() {
        check("why?\nCurrent File Path:\n```rust\nsrc/a.rs\n```\n", Some("why?"));
        check("why?\n\n\nUser Selected Files:\n- a.rs\n\n PRIOR CHAT HISTORY: x", Some("why?"));
        check("why? PRIOR CHAT HISTORY: you said so", Some("why?"));
        check("why?", None);
        check("\nUser Selected Files:\n- a.rs", None);
    }
}
