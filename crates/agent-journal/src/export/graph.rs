//! How the messages of a session follow each other: real forks, and the branch that was kept.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use xxhash_rust::xxh3::xxh3_64;

use super::schema::{self, Branch, Fork, Graph};
use crate::model::{Origin, Role};

/// What must be known of all messages before the first is written. It grows by some dozens of
/// bytes a message, whatever the messages hold.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    nodes: Vec<Node>,
    /// Ids of messages and of the records folded into them, as hashes.
    places: HashMap<u64, u32>,
    /// Whether there are blocks that version 1.0 of the schema does not know.
    has_later_blocks: bool,
}

#[derive(Clone, Debug)]
struct Node {
    index: u64,
    uuid: Option<Box<str>>,
    parent: Option<u64>,
    /// The model's id of the answer, as a hash.
    answer: Option<u64>,
    part: Part,
}

/// What a message is to the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// One side said something: two of these after one message are a fork.
    Said,
    /// It only carries results of tools.
    Result,
    /// The program put it there.
    Notice,
    /// A conversation beside this one.
    Side,
}

/// As much of a stored message as the outline needs.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Sketch {
    uuid: Option<String>,
    part_uuids: Vec<String>,
    parent: Option<String>,
    role: Role,
    origin: Origin,
    api_id: Option<String>,
    sidechain: bool,
    blocks: Vec<BlockKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlockKind {
    Text(IgnoredAny),
    Thinking(IgnoredAny),
    ToolCall(IgnoredAny),
    ToolResult(IgnoredAny),
    Image(IgnoredAny),
    Other(IgnoredAny),
}

impl Outline {
    /// Outlines the messages of a document.
    pub fn of(messages: &[schema::Message]) -> Self {
        let mut outline = Self::default();
        for message in messages {
            outline.add(message.index, sketch(message));
        }
        outline
    }

    /// The lowest version of the schema that has a word for every block.
    pub(crate) fn schema_version(&self) -> &'static str {
        if self.has_later_blocks { "1.1" } else { "1.0" }
    }

    /// Adds the next message.
    pub(crate) fn add(&mut self, index: u64, sketch: Sketch) {
        use BlockKind::{Image, Other, Thinking};
        self.has_later_blocks |=
            sketch.blocks.iter().any(|one| matches!(one, Thinking(_) | Image(_) | Other(_)));
        let part = sketch.part();
        let place = self.nodes.len() as u32;
        for uuid in sketch.uuid.iter().chain(&sketch.part_uuids) {
            self.places.entry(hash(uuid)).or_insert(place);
        }
        self.nodes.push(Node {
            index,
            uuid: sketch.uuid.map(String::into_boxed_str),
            parent: sketch.parent.as_deref().map(hash),
            answer: sketch.api_id.as_deref().map(hash),
            part,
        });
    }

    fn parent(&self, place: usize) -> Option<usize> {
        let found = *self.places.get(&self.nodes[place].parent?)? as usize;
        (found != place).then_some(found)
    }

    /// The graph of the messages so far.
    pub fn graph(&self) -> Graph {
        let forks = self.forks();
        let named = |place: usize| {
            let node = &self.nodes[place];
            node.uuid.as_deref().map(|uuid| (uuid.to_owned(), node.index))
        };
        let fork_points: Vec<Fork> = forks
            .iter()
            .filter_map(|(place, branches)| {
                let (uuid, index) = named(*place)?;
                let branches = branches.iter().filter_map(|one| named(*one));
                let branches = branches.map(|(uuid, index)| Branch { uuid, index }).collect();
                Some(Fork { uuid, index, branches })
            })
            .collect();
        let active_path = self.active().into_iter().filter_map(|place| named(place).map(|it| it.0));
        Graph { is_linear: fork_points.is_empty(), fork_points, active_path: active_path.collect() }
    }

    /// Numbers of the messages on branches that were left.
    pub(crate) fn left(&self) -> HashSet<u64> {
        let forks = self.forks();
        if forks.is_empty() {
            return HashSet::new();
        }
        let active: HashSet<usize> = self.active().into_iter().collect();
        let branches: HashSet<usize> = forks.iter().flat_map(|(_, all)| all).copied().collect();
        let mut left = vec![false; self.nodes.len()];
        for place in 0..self.nodes.len() {
            let begins = branches.contains(&place) && !active.contains(&place);
            left[place] = begins || self.parent(place).is_some_and(|parent| left[parent]);
        }
        let numbers = self.nodes.iter().zip(left).filter(|(_, left)| *left);
        numbers.map(|(node, _)| node.index).collect()
    }

    /// Messages after which more than one branch begins, in order.
    fn forks(&self) -> Vec<(usize, Vec<usize>)> {
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let Some(parent) = self.parent(place) else { continue };
            let part_of =
                |other: usize| node.answer.is_some() && node.answer == self.nodes[other].answer;
            if node.part != Part::Said || node.uuid.is_none() || part_of(parent) {
                continue;
            }
            let siblings = children.entry(parent).or_default();
            if !siblings.iter().any(|one| part_of(*one)) {
                siblings.push(place);
            }
        }
        let mut forks: Vec<_> = children.into_iter().filter(|(_, all)| all.len() > 1).collect();
        forks.sort_unstable();
        forks
    }

    /// The messages from the first to the active leaf: the last one said in this conversation.
    fn active(&self) -> Vec<usize> {
        let leaf = self.nodes.iter().rposition(|node| {
            node.uuid.is_some() && matches!(node.part, Part::Said | Part::Result)
        });
        let mut path = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut next = leaf;
        while let Some(place) = next {
            // Parents may lead in a circle.
            if std::mem::replace(&mut seen[place], true) {
                break;
            }
            path.push(place);
            // Without a parent on record (a format without one, a compaction) order tells.
            next = self.parent(place).or_else(|| self.before(place));
        }
        path.reverse();
        path
    }

    fn before(&self, place: usize) -> Option<usize> {
        self.nodes[..place].iter().rposition(|node| node.uuid.is_some() && node.part != Part::Side)
    }
}

impl Sketch {
    fn part(&self) -> Part {
        let is_result = |block: &BlockKind| matches!(block, BlockKind::ToolResult(_));
        match (self.role, self.origin) {
            _ if self.sidechain => Part::Side,
            (_, Origin::Injected | Origin::Summary | Origin::System) => Part::Notice,
            (Role::Tool, _) | (_, Origin::Tool) => Part::Result,
            _ if !self.blocks.is_empty() && self.blocks.iter().all(is_result) => Part::Result,
            _ => Part::Said,
        }
    }
}

fn sketch(message: &schema::Message) -> Sketch {
    use schema::Block;
    let notes = message.notes();
    let ignored = IgnoredAny;
    Sketch {
        uuid: message.uuid.clone(),
        part_uuids: notes.part_uuids.clone(),
        parent: message.parent_uuid.clone(),
        role: match message.role {
            schema::Role::User => Role::User,
            schema::Role::Assistant => Role::Assistant,
            schema::Role::System => Role::System,
        },
        origin: message.origin(),
        api_id: notes.api_id,
        sidechain: notes.sidechain,
        blocks: message
            .content
            .iter()
            .map(|block| match block {
                Block::Text { .. } => BlockKind::Text(ignored),
                Block::Thinking { .. } => BlockKind::Thinking(ignored),
                Block::ToolUse { .. } => BlockKind::ToolCall(ignored),
                Block::ToolResult { .. } => BlockKind::ToolResult(ignored),
                Block::Image { .. } => BlockKind::Image(ignored),
                Block::Other { .. } => BlockKind::Other(ignored),
            })
            .collect(),
    }
}

fn hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is a message: kind, id, parent, and the answer it is a part of.
    fn outline(text: &str) -> Outline {
        let mut outline = Outline::default();
        for (at, word) in text.split_whitespace().enumerate() {
            let mut parts = word.split('.');
            let kind = parts.next().unwrap();
            let mut next = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
            let (uuid, parent, api_id) = (next(), next(), next());
            let (role, origin) = match kind {
                "you" => (Role::User, Origin::Human),
                "ai" => (Role::Assistant, Origin::Assistant),
                "tool" => (Role::Tool, Origin::Tool),
                _ => (Role::System, Origin::System),
            };
            let sidechain = kind == "side";
            let sketch =
                Sketch { uuid, parent, role, origin, api_id, sidechain, ..Sketch::default() };
            outline.add(at as u64 + 1, sketch);
        }
        outline
    }

    fn check(text: &str, forks: &[&str], path: &str) {
        let graph = outline(text).graph();
        let shown: Vec<String> = graph
            .fork_points
            .iter()
            .map(|fork| {
                let branches: Vec<&str> = fork.branches.iter().map(|one| &*one.uuid).collect();
                format!("{}:{}", fork.uuid, branches.join(","))
            })
            .collect();
        assert_eq!(shown, forks, "{text}");
        assert_eq!(graph.active_path.join(" "), path, "{text}");
        assert_eq!(graph.is_linear, forks.is_empty(), "{text}");
    }

    #[test]
    fn a_straight_conversation_has_its_whole_path() {
        check("you.a ai.b.a tool.c.b ai.d.c", &[], "a b c d");
    }

    #[test]
    fn without_parents_the_order_is_the_path() {
        check("you.a ai.b you ai.c", &[], "a b c");
        check("you ai you", &[], "");
    }

    #[test]
    fn going_back_to_ask_again_is_a_fork() {
        check("you.a ai.b.a you.c.b ai.d.c you.e.b ai.f.e", &["b:c,e"], "a b e f");
    }

    #[test]
    fn parallel_results_and_parts_of_one_answer_are_no_forks() {
        check("you.a ai.b.a.m1 tool.c.b tool.d.b ai.e.d", &[], "a b d e");
        check("you.a ai.b.a.m1 ai.c.b.m1 ai.d.a.m1 tool.e.c ai.f.e", &[], "a b c e f");
    }

    #[test]
    fn notices_and_side_conversations_are_no_branches() {
        check("you.a ai.b.a notice.c.a side.d.a", &[], "a b");
    }

    #[test]
    fn the_path_goes_on_before_a_compaction_and_ends_in_a_circle() {
        check("you.a ai.b.a you.c ai.d.c", &[], "a b c d");
        check("you.a.b ai.b.a", &[], "a b");
        check("you.a.a", &[], "a");
    }

    #[test]
    fn only_what_follows_a_left_branch_is_left() {
        let left = outline("you.a ai.b.a you.c.b ai.d.c tool.e.d you.f.b ai.g.f").left();
        let mut left: Vec<u64> = left.into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5]);
    }
}
