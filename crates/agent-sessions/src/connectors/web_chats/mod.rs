//! Web chats: the conversations in the archives that claude.ai and chatgpt.com send to their users. An
//! archive is at no known place, so its conversations are imported instead of discovered.

mod chatgpt;
mod claude;

use serde_json::value::RawValue;

use super::formats::json::{self, BorrowedText, lenient};
use crate::model::{ATTACHMENTS, Block, Extensions, Json, Message, Origin, Role, Session};

/// The web chats whose exports can be read, for messages.
pub const WEB_CHATS: &str = "claude.ai or ChatGPT";

/// A conversation of a web chat.
#[derive(Clone, Debug, PartialEq)]
pub struct WebChat {
    /// The metadata of the conversation.
    pub session: Session,
    /// The messages; each one follows its parent. The branch that was kept comes last.
    pub messages: Vec<Message>,
}

lenient! {
    /// The fields that distinguish the formats.
    struct WebChatShape<'a> {
        "chat_messages" chat_messages: Option<&'a RawValue>,
        "mapping" mapping: Option<&'a RawValue>,
    }
}

/// Converts one conversation of an export. Returns `None` if it is not a conversation of claude.ai
/// or chatgpt.com.
pub fn read_web_chat(conversation: &str) -> Option<WebChat> {
    let shape = json::parse_json::<WebChatShape<'_>>(conversation)?;
    if shape.mapping.is_some() {
        chatgpt::read_conversation(conversation)
    } else if shape.chat_messages.is_some() {
        claude::read_conversation(conversation)
    } else {
        None
    }
}

/// Returns a text that is not empty.
fn non_empty(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.trim().is_empty())
}

/// Adds the attachments of a prompt to its extensions.
fn keep_attachments(attachments: &[Json], extensions: &mut Extensions) {
    if !attachments.is_empty() {
        extensions.insert(ATTACHMENTS.to_owned(), Json::from_value(&attachments));
    }
}

/// Keeps a record that was not understood.
fn raw_message(raw: &RawValue) -> Message {
    Message {
        role: Role::System,
        origin: Origin::System,
        blocks: vec![Block::Other(Json::from(raw))],
        ..Message::default()
    }
}

/// Orders the nodes of a tree so that each one follows its parent, and the branch that ends at the
/// leaf comes last. A node is given by its place in the list of parents.
fn order_branches(parents: &[Option<usize>], leaf: Option<usize>) -> Vec<usize> {
    let mut is_kept = vec![false; parents.len()];
    let mut next = leaf;
    while let Some(node) = next.filter(|node| !is_kept[*node]) {
        is_kept[node] = true;
        next = parents[node];
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    let mut roots = Vec::new();
    for (node, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(node),
            None => roots.push(node),
        }
    }
    // The stack is emptied from its end: the kept branch goes in first.
    let push_all = |stack: &mut Vec<usize>, nodes: &[usize]| {
        stack.extend(nodes.iter().rev().filter(|node| is_kept[**node]));
        stack.extend(nodes.iter().rev().filter(|node| !is_kept[**node]));
    };
    let mut stack = Vec::new();
    push_all(&mut stack, &roots);
    let mut ordered = Vec::with_capacity(parents.len());
    while let Some(node) = stack.pop() {
        ordered.push(node);
        push_all(&mut stack, &children[node]);
    }
    // Nodes that are their own ancestors follow from no root.
    let mut is_ordered = vec![false; parents.len()];
    for node in &ordered {
        is_ordered[*node] = true;
    }
    ordered.extend((0..parents.len()).filter(|node| !is_ordered[*node]));
    ordered
}

#[cfg(test)]
mod tests {
    use super::{order_branches, read_web_chat};

    #[test]
    fn kept_branch_comes_last_and_children_follow_their_parents() {
        // 0 ── 1 ── 3 (kept)
        //  └── 2 ── 4
        let parents = [None, Some(0), Some(0), Some(1), Some(2)];
        assert_eq!(order_branches(&parents, Some(3)), [0, 2, 4, 1, 3]);
        assert_eq!(order_branches(&parents, Some(4)), [0, 1, 3, 2, 4]);
        assert_eq!(order_branches(&parents, None), [0, 1, 3, 2, 4]);
    }

    #[test]
    fn circles_lose_nothing() {
        let parents = [Some(1), Some(0), None, Some(3)];
        assert_eq!(order_branches(&parents, Some(0)), [2, 0, 1, 3]);
    }

    #[test]
    fn other_json_is_not_a_conversation() {
        for other in ["", "1", "[]", "{}", r#"{"mapping":null}"#, r#"{"chat_messages":[]}"#, "{"] {
            assert_eq!(read_web_chat(other), None, "{other}");
        }
    }
}
