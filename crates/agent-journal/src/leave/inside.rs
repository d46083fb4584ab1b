//! Where sub-agents stand in the session that started them: behind the call.

use crate::model::{Block, Message, Timestamp};
use crate::store::Entry;

/// Sub-agents that are still to be told, the earliest first.
#[derive(Default)]
pub(super) struct Inside {
    /// Each with what it was asked.
    pub(super) waiting: Vec<(Option<String>, Entry)>,
    /// Those whose call was met, with the number of its message.
    called: Vec<(u64, Entry)>,
}

impl Inside {
    /// Looks whether a message calls one: its task stands among the arguments.
    pub(super) fn meet(&mut self, index: u64, message: &Message) {
        for block in &message.blocks {
            let Block::ToolCall { input, .. } = block else { continue };
            if self.waiting.is_empty() {
                return;
            }
            input.strings(&mut |text| {
                let fits = |asked: &Option<String>| asked.as_deref() == Some(text.trim());
                if let Some(at) = self.waiting.iter().position(|(asked, _)| fits(asked)) {
                    self.called.push((index, self.waiting.remove(at).1));
                }
            });
        }
    }

    /// Takes those that a message called.
    pub(super) fn called_by(&mut self, index: u64) -> Vec<Entry> {
        self.called.extract_if(.., |(number, _)| *number == index).map(|(_, child)| child).collect()
    }

    /// Takes those that began before a moment, of whose task nothing is known.
    pub(super) fn begun_before(&mut self, at: Option<Timestamp>) -> Vec<Entry> {
        let is_due = |(asked, child): &mut (Option<String>, Entry)| {
            asked.is_none() && at.zip(child.started_at).is_some_and(|(at, began)| at > began)
        };
        self.waiting.extract_if(.., is_due).map(|(_, child)| child).collect()
    }

    /// Takes all others.
    pub(super) fn rest(self) -> impl Iterator<Item = Entry> {
        self.called
            .into_iter()
            .map(|(_, child)| child)
            .chain(self.waiting.into_iter().map(|(_, child)| child))
    }
}
