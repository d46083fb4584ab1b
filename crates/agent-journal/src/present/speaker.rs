//! The words for the author of a message or of a text that was found.

use crate::filter::TextKind;
use crate::model::{Message, Origin, Role};
use crate::store::Entry;

/// The author of a message, or the kind of a text that no message contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaker {
    /// The person at the keyboard.
    User,
    /// The agent that started a sub-agent, whose prompts it writes.
    ParentAgent,
    /// A command of the agent's own, such as `/compact`.
    Command,
    /// The agent's model.
    Agent,
    /// The agent's model, in its reasoning.
    Thinking,
    /// A tool: its input or its output.
    Tool,
    /// A program that put text into the conversation.
    Injected,
    /// A summary of the conversation before.
    Summary,
    /// A notice of the agent's program.
    Notice,
    /// The title of a session.
    Title,
    /// A document of a session.
    Document,
}

impl Speaker {
    /// Returns the author of a message of a session.
    pub fn of_message(entry: &Entry, message: &Message) -> Self {
        let speaker = Self::of_origin(message.origin, message.role);
        if entry.is_agent_session || message.sidechain { speaker.in_sub_agent() } else { speaker }
    }

    /// Returns the author of a text of a session that a search found.
    pub fn of_text(entry: &Entry, kind: TextKind) -> Self {
        let speaker = match kind {
            TextKind::Prompt => Self::User,
            TextKind::Reply => Self::Agent,
            TextKind::ToolInput | TextKind::ToolOutput => Self::Tool,
            TextKind::Thinking => Self::Thinking,
            TextKind::Title => Self::Title,
            TextKind::Document => Self::Document,
        };
        if entry.is_agent_session { speaker.in_sub_agent() } else { speaker }
    }

    /// Returns the author of a message in a session of a person.
    pub(crate) fn of_origin(origin: Origin, role: Role) -> Self {
        match (origin, role) {
            (Origin::Human | Origin::Queued, _) => Self::User,
            (Origin::Command, _) => Self::Command,
            (Origin::Assistant, _) => Self::Agent,
            (Origin::Tool, _) | (_, Role::Tool) => Self::Tool,
            (Origin::Injected, _) => Self::Injected,
            (Origin::Summary, _) => Self::Summary,
            (Origin::System, _) => Self::Notice,
        }
    }

    /// Returns the author in a sub-agent: its prompts are written by its parent, not by a person.
    pub(crate) fn in_sub_agent(self) -> Self {
        if self == Self::User { Self::ParentAgent } else { self }
    }

    /// Returns the label of the author for a person; `agent` is the name of the session's agent.
    pub fn label(self, agent: &str) -> &str {
        match self {
            Self::User => "you",
            Self::Agent => agent,
            Self::ParentAgent => "parent",
            Self::Command => "command",
            Self::Thinking => "thinking",
            Self::Tool => "tool",
            Self::Injected => "injected",
            Self::Summary => "summary",
            Self::Notice => "notice",
            Self::Title => "title",
            Self::Document => "document",
        }
    }

    /// Returns the label at the beginning of a heading. The name of an agent stays as it is.
    pub(crate) fn heading(self, agent: &str) -> String {
        let label = self.label(agent);
        let mut letters = label.chars();
        match letters.next() {
            Some(first) if self != Self::Agent => {
                first.to_uppercase().chain(letters).collect::<String>()
            }
            _ => label.to_owned(),
        }
    }

    /// Returns the kind of the author's messages. A program that reads an answer is not the `you`
    /// of the label.
    pub fn message_kind(self) -> &'static str {
        match self {
            Self::User | Self::ParentAgent => "prompt",
            _ => self.label("reply"),
        }
    }
}

/// Returns the words for a kind of text.
pub fn text_kind_label(kind: TextKind) -> String {
    kind.name().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_has_one_label_one_heading_and_one_kind_of_messages() {
        let check = |origin, role, words: [&str; 3]| {
            let speaker = Speaker::of_origin(origin, role);
            let all = [speaker.label("codex"), &speaker.heading("codex"), speaker.message_kind()];
            assert_eq!(all, words, "{origin:?}");
        };
        check(Origin::Human, Role::User, ["you", "You", "prompt"]);
        check(Origin::Queued, Role::User, ["you", "You", "prompt"]);
        check(Origin::Command, Role::User, ["command", "Command", "command"]);
        check(Origin::Assistant, Role::Assistant, ["codex", "codex", "reply"]);
        check(Origin::Tool, Role::Tool, ["tool", "Tool", "tool"]);
        check(Origin::Injected, Role::User, ["injected", "Injected", "injected"]);
        check(Origin::Summary, Role::User, ["summary", "Summary", "summary"]);
        check(Origin::System, Role::System, ["notice", "Notice", "notice"]);
        let parent = Speaker::of_origin(Origin::Human, Role::User).in_sub_agent();
        assert_eq!([parent.label("x"), parent.message_kind()], ["parent", "prompt"]);
        for speaker in [Speaker::Title, Speaker::Document, Speaker::Thinking] {
            assert_eq!(speaker.label("x"), speaker.message_kind());
        }
    }
}
