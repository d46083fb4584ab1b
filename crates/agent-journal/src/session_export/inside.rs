//! The positions of sub-agents in the session that started them: each follows the call that started
//! it.

use crate::model::{Block, Message, Timestamp};
use crate::store::Entry;

/// Sub-agents that are not written yet, the earliest first.
#[derive(Default)]
pub(super) struct Inside {
    /// The sub-agents whose call was not found yet, each with the prompt it got.
    pub(super) waiting: Vec<(Option<String>, Entry)>,
    /// The sub-agents whose call was found, each with the number of the message that contains it.
    called: Vec<(u64, Entry)>,
}

impl Inside {
    /// Finds the sub-agents that a message calls: their prompt is among the arguments of a call.
    pub(super) fn claim_called_subagents(&mut self, index: u64, message: &Message) {
        for block in &message.blocks {
            let Block::ToolCall { input, .. } = block else { continue };
            if self.waiting.is_empty() {
                return;
            }
            input.visit_strings(&mut |text| {
                let fits = |asked: &Option<String>| asked.as_deref() == Some(text.trim());
                if let Some(at) = self.waiting.iter().position(|(asked, _)| fits(asked)) {
                    self.called.push((index, self.waiting.remove(at).1));
                }
            });
        }
    }

    /// Takes the sub-agents that a message called.
    pub(super) fn called_by(&mut self, index: u64) -> Vec<Entry> {
        self.called.extract_if(.., |(number, _)| *number == index).map(|(_, child)| child).collect()
    }

    /// Takes the sub-agents without a known prompt that began before an instant.
    pub(super) fn begun_before(&mut self, at: Option<Timestamp>) -> Vec<Entry> {
        let is_due = |(asked, child): &mut (Option<String>, Entry)| {
            asked.is_none() && at.zip(child.started_at).is_some_and(|(at, began)| at > began)
        };
        self.waiting.extract_if(.., is_due).map(|(_, child)| child).collect()
    }

    /// Takes all other sub-agents.
    pub(super) fn take_unclaimed(self) -> impl Iterator<Item = Entry> {
        self.called
            .into_iter()
            .map(|(_, child)| child)
            .chain(self.waiting.into_iter().map(|(_, child)| child))
    }
}
