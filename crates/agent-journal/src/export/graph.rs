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
    /// The message that the agent names as the leaf.
    leaf: Option<usize>,
}

#[derive(Clone, Debug)]
struct Node {
    index: u64,
    uuid: Option<Box<str>>,
    parent: Option<u64>,
    /// The model's id of the answer, as a hash.
    answer: Option<u64>,
    part: Part,
    /// Whether a person asked it in this conversation.
    is_prompt: bool,
    /// Whether it sums up the conversation so far.
    is_summary: bool,
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
    pub fn of(document: &schema::Document) -> Self {
        let mut outline = Self::default();
        for message in &document.messages {
            outline.add(message.index, sketch(message));
        }
        for summary in document.session.notes().summaries {
            outline.end_at(&summary.leaf);
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
            is_prompt: part == Part::Said && sketch.origin == Origin::Human,
            is_summary: sketch.origin == Origin::Summary,
        });
    }

    /// Ends the active path on the branch of a message that the agent names as the leaf. An id
    /// that no message has changes nothing. All messages must have been added.
    pub(crate) fn end_at(&mut self, leaf: &str) {
        self.leaf = self.places.get(&hash(leaf)).map(|place| *place as usize).or(self.leaf);
    }

    /// Returns the id of the message that a recorded parent belongs to: its own, or that of the
    /// message it was folded into. `None` when no message has it.
    pub(crate) fn message_of(&self, parent: &str) -> Option<&str> {
        let place = *self.places.get(&hash(parent))? as usize;
        self.nodes[place].uuid.as_deref()
    }

    /// The graph of the messages so far.
    pub fn graph(&self) -> Graph {
        let tree = Tree::new(self);
        let named = |place: usize| {
            let node = &self.nodes[place];
            node.uuid.as_deref().map(|uuid| (uuid.to_owned(), node.index))
        };
        let fork_points: Vec<Fork> = tree
            .forks()
            .into_iter()
            .filter_map(|(place, branches)| {
                let (uuid, index) = named(place)?;
                let branches = branches.into_iter().filter_map(named);
                let branches = branches.map(|(uuid, index)| Branch { uuid, index }).collect();
                Some(Fork { uuid, index, branches })
            })
            .collect();
        let path = tree.active_path();
        let active_path = path.into_iter().filter_map(|place| named(place).map(|it| it.0));
        Graph {
            is_linear: fork_points.is_empty() && tree.beginnings.is_empty(),
            fork_points,
            active_path: active_path.collect(),
        }
    }

    /// Numbers of the messages on branches that were left.
    pub(crate) fn left(&self) -> HashSet<u64> {
        let tree = Tree::new(self);
        let forks = tree.forks();
        let mut branches: HashSet<usize> = forks.iter().flat_map(|(_, all)| all).copied().collect();
        branches.extend(&tree.beginnings);
        if branches.is_empty() {
            return HashSet::new();
        }
        let active: HashSet<usize> = tree.active_path().into_iter().collect();
        let mut left = vec![false; self.nodes.len()];
        for place in tree.parents_first() {
            let begins = branches.contains(&place) && !active.contains(&place);
            left[place] = begins || tree.parents[place].is_some_and(|parent| left[parent]);
        }
        let numbers = self.nodes.iter().zip(left).filter(|(_, left)| *left);
        numbers.map(|(node, _)| node.index).collect()
    }
}

/// The messages of a session by their parents.
struct Tree<'o> {
    outline: &'o Outline,
    /// The parent of each message; a circle is cut open.
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// For each message the first one from there on that begins something said: itself, or one
    /// that follows below results, notices and parts of the same answer.
    leads: Vec<Option<usize>>,
    /// The first prompts of the session, when its first prompt was asked again.
    beginnings: Vec<usize>,
}

impl<'o> Tree<'o> {
    fn new(outline: &'o Outline) -> Self {
        let parents = parents(outline);
        let mut children = vec![Vec::new(); parents.len()];
        for (place, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(place);
            }
        }
        let mut tree =
            Self { outline, parents, children, leads: Vec::new(), beginnings: Vec::new() };
        tree.leads = tree.leads();
        tree.beginnings = tree.beginnings();
        tree
    }

    fn node(&self, place: usize) -> &'o Node {
        &self.outline.nodes[place]
    }

    /// Returns all messages, each after its parent.
    fn parents_first(&self) -> Vec<usize> {
        let roots = (0..self.parents.len()).filter(|place| self.parents[*place].is_none());
        let mut order: Vec<usize> = roots.collect();
        let mut next = 0;
        while let Some(place) = order.get(next) {
            order.extend(&self.children[*place]);
            next += 1;
        }
        order
    }

    fn leads(&self) -> Vec<Option<usize>> {
        let order = self.parents_first();
        // The answer that a message belongs to, itself or as what followed it.
        let mut answers = vec![None; self.parents.len()];
        let mut leads = vec![None; self.parents.len()];
        for place in &order {
            let node = self.node(*place);
            let above = self.parents[*place].and_then(|parent| answers[parent]);
            let is_part = node.answer.is_some() && node.answer == above;
            let begins = node.part == Part::Said && node.uuid.is_some() && !is_part;
            answers[*place] = if node.part == Part::Said { node.answer } else { above };
            leads[*place] = begins.then_some(*place);
        }
        for place in order.iter().rev().filter(|place| self.node(**place).part != Part::Side) {
            let Some(parent) = self.parents[*place] else { continue };
            let own = self.node(parent);
            if own.part == Part::Side || leads[parent] == Some(parent) {
                continue;
            }
            leads[parent] = match (leads[parent], leads[*place]) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        leads
    }

    /// Messages after which more than one branch begins, in order, each with the first message of
    /// every branch.
    fn forks(&self) -> Vec<(usize, Vec<usize>)> {
        let mut forks = Vec::new();
        for (place, children) in self.children.iter().enumerate() {
            if children.len() < 2 || self.node(place).part == Part::Side {
                continue;
            }
            let mut branches: Vec<usize> = Vec::new();
            let mut answers = HashSet::new();
            for child in children.iter().filter(|child| self.node(**child).part != Part::Side) {
                let Some(lead) = self.leads[*child] else { continue };
                // Parts of one answer are one branch.
                if self.node(lead).answer.is_none_or(|answer| answers.insert(answer)) {
                    branches.push(*child);
                }
            }
            if branches.len() > 1 {
                forks.push((place, branches));
            }
        }
        forks
    }

    /// Finds prompts that begin the session anew: without a parent, where the prompt before them
    /// without one has been followed by something. A summary in between is a compaction.
    fn beginnings(&self) -> Vec<usize> {
        let mut group: Vec<usize> = Vec::new();
        for (place, node) in self.outline.nodes.iter().enumerate() {
            if node.is_summary {
                if group.len() > 1 {
                    break;
                }
                group.clear();
            }
            if !node.is_prompt || node.parent.is_some() || node.uuid.is_none() {
                continue;
            }
            // A prompt that nothing followed was not left for another beginning.
            group.pop_if(|last| self.children[*last].is_empty());
            group.push(place);
        }
        if group.len() > 1 { group } else { Vec::new() }
    }

    /// The message that the active path ends at: the last one said in this conversation, on the
    /// branch that the agent names, if it names one.
    fn active_leaf(&self) -> Option<usize> {
        let is_end = |place: &usize| {
            let node = self.node(*place);
            node.uuid.is_some() && matches!(node.part, Part::Said | Part::Result)
        };
        let last = (0..self.parents.len()).rev().find(is_end)?;
        let Some(named) = self.outline.leaf else { return Some(last) };
        // Where the parents lead to different beginnings the chain is broken, and order tells.
        let beginning = |place: usize| {
            let root = self.above(place).last().unwrap_or(place);
            self.beginnings.iter().find(|one| **one == root).map_or(root, |_| self.beginnings[0])
        };
        if beginning(named) != beginning(last) {
            return Some(last);
        }
        let mut below = vec![named];
        let mut found = None;
        while let Some(place) = below.pop() {
            below.extend(&self.children[place]);
            found = found.max(Some(place).filter(is_end));
        }
        found.or(Some(last))
    }

    /// A message and those above it.
    fn above(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |place| self.parents[*place])
    }

    /// The messages from the first to the active leaf, with every result of the calls on the way.
    fn active_path(&self) -> Vec<usize> {
        let mut roots = vec![0; self.parents.len()];
        for place in self.parents_first() {
            roots[place] = self.parents[place].map_or(place, |parent| roots[parent]);
        }
        let mut path = Vec::new();
        let mut on_path = vec![false; self.parents.len()];
        let mut next = self.active_leaf();
        let mut end = self.parents.len();
        while let Some(place) = next {
            on_path[place] = true;
            path.push(place);
            next = self.parents[place];
            if next.is_some() || self.beginnings.contains(&place) {
                continue;
            }
            // Without a parent on record (a format without one, a compaction) order tells: the
            // message before goes on, unless the path has been in its tree.
            end = end.min(place);
            let is_before = |place: &usize| {
                let node = self.node(*place);
                node.uuid.is_some() && node.part != Part::Side && !on_path[roots[*place]]
            };
            next = (0..end).rev().find(is_before);
            end = next.unwrap_or(0);
        }
        path.reverse();
        self.with_results(&path, &on_path)
    }

    /// Adds to a path the results of its calls that nothing followed: parallel calls have several.
    fn with_results(&self, path: &[usize], on_path: &[bool]) -> Vec<usize> {
        let mut whole = Vec::with_capacity(path.len());
        let mut already = None;
        for (at, place) in path.iter().enumerate() {
            if already != Some(*place) {
                whole.push(*place);
            }
            let mut results = Vec::new();
            self.collect_results(*place, on_path, &mut results);
            let next = path.get(at + 1).filter(|next| self.node(**next).part == Part::Result);
            if let (Some(next), false) = (next, results.is_empty()) {
                results.push(*next);
                already = Some(*next);
            }
            results.sort_unstable();
            whole.append(&mut results);
        }
        whole
    }

    /// Collects the results below a message that are not on the path and that nothing followed.
    fn collect_results(&self, place: usize, on_path: &[bool], results: &mut Vec<usize>) {
        let mut below = vec![place];
        while let Some(place) = below.pop() {
            let is_wanted = |child: &usize| {
                let is_result = self.node(*child).part == Part::Result;
                is_result && !on_path[*child] && self.leads[*child].is_none()
            };
            for child in self.children[place].iter().copied().filter(is_wanted) {
                results.extend(self.node(child).uuid.as_ref().map(|_| child));
                below.push(child);
            }
        }
    }
}

/// Returns the parent of each message. The first message of a circle has none.
fn parents(outline: &Outline) -> Vec<Option<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Walk {
        Unseen,
        /// Seen on the walk that began at this message.
        From(usize),
    }
    let mut parents: Vec<Option<usize>> = outline
        .nodes
        .iter()
        .map(|node| Some(*outline.places.get(&node.parent?)? as usize))
        .collect();
    let mut walks = vec![Walk::Unseen; parents.len()];
    for start in 0..parents.len() {
        let mut place = start;
        while walks[place] == Walk::Unseen {
            walks[place] = Walk::From(start);
            let Some(parent) = parents[place] else { break };
            if walks[parent] == Walk::From(start) {
                let round = std::iter::successors(Some(parent), |place| parents[*place]);
                let first = round.skip(1).take_while(|place| *place != parent).min();
                parents[first.map_or(parent, |first| first.min(parent))] = None;
                break;
            }
            place = parent;
        }
    }
    parents
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
                "summary" => (Role::User, Origin::Summary),
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
    fn parallel_results_and_parts_of_one_answer_are_no_forks_and_all_on_the_path() {
        check("you.a ai.b.a.m1 tool.c.b tool.d.b ai.e.d", &[], "a b c d e");
        check("you.a ai.b.a.m1 tool.c.b tool.d.b tool.e.b ai.f.c", &[], "a b c d e f");
        check("you.a ai.b.a.m1 tool.c.b tool.d.b", &[], "a b c d");
        check("you.a ai.b.a.m1 ai.c.b.m1 ai.d.a.m1 tool.e.c ai.f.e", &[], "a b c e f");
        check("you.a ai.b.a.m1 tool.c.b ai.d.c.m1 tool.e.d ai.f.e", &[], "a b c d e f");
    }

    #[test]
    fn going_back_to_an_answer_with_a_call_is_a_fork_if_its_result_was_followed() {
        let text = "you.a ai.b.a tool.c.b ai.d.c you.e.b ai.f.e";
        check(text, &["b:c,e"], "a b e f");
        check("you.a ai.b.a tool.c.b you.e.b ai.f.e", &[], "a b c e f");
        let mut left: Vec<u64> = outline(text).left().into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4]);
    }

    #[test]
    fn branches_below_a_notice_are_a_fork() {
        check("you.a ai.b.a notice.n.b you.c.n ai.d.c you.e.n", &["n:c,e"], "a b n e");
    }

    #[test]
    fn the_leaf_that_the_agent_names_ends_the_path_on_its_branch() {
        let text = "you.a ai.b.a you.c.b ai.d.c you.e.b ai.f.e";
        let path = |leaf: &str| {
            let mut outline = outline(text);
            outline.end_at(leaf);
            outline.graph().active_path.join(" ")
        };
        assert_eq!(path("d"), "a b c d");
        assert_eq!(path("c"), "a b c d");
        assert_eq!(path("b"), "a b e f");
        assert_eq!(path("nowhere"), "a b e f");
        let mut broken = outline("you.a ai.b.a summary.s you.c.s ai.d.c");
        broken.end_at("b");
        assert_eq!(broken.graph().active_path.join(" "), "a b s c d");
    }

    #[test]
    fn a_first_prompt_asked_again_is_not_linear() {
        let again = outline("notice.n you.a ai.b.a you.c ai.d.c");
        let graph = again.graph();
        assert!(!graph.is_linear && graph.fork_points.is_empty());
        assert_eq!(graph.active_path.join(" "), "c d");
        let mut left: Vec<u64> = again.left().into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3]);
        assert!(outline("you.a you.c ai.d.c").graph().is_linear);
    }

    #[test]
    fn notices_and_side_conversations_are_no_branches() {
        check("you.a ai.b.a notice.c.a side.d.a", &[], "a b");
    }

    #[test]
    fn the_path_goes_on_before_a_compaction_and_ends_in_a_circle() {
        check("you.a ai.b.a summary.s you.c ai.d.c", &[], "a b s c d");
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

    /// Made-up conversations: each message follows one of those before it, or nothing.
    fn any_conversation() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        let kind = prop::sample::select(vec!["you", "ai", "tool", "notice", "side", "summary"]);
        let message = (kind, any::<prop::sample::Index>(), 0..8_u8, 0..6_u8);
        prop::collection::vec(message, 1..40).prop_map(|messages| {
            let word = |(at, (kind, parent, gap, answer)): (
                usize,
                (&str, prop::sample::Index, u8, u8),
            )| {
                let parent = match gap {
                    0 => String::new(),
                    1 => format!("u{}", parent.index(48)),
                    2 => format!("u{}", parent.index(at + 1)),
                    _ => format!("u{}", at.saturating_sub(1)),
                };
                let answer = if kind == "ai" {
                    format!("m{}", at / 3 + usize::from(answer))
                } else {
                    String::new()
                };
                format!("{kind}.u{at}.{parent}.{answer}")
            };
            let words: Vec<String> = messages.into_iter().enumerate().map(word).collect();
            words.join(" ")
        })
    }

    proptest::proptest! {
        #[test]
        fn every_graph_is_sound(text in any_conversation(), leaf in 0..48_usize) {
            let mut outline = outline(&text);
            outline.end_at(&format!("u{leaf}"));
            let graph = outline.graph();
            let parents = parents(&outline);
            let place = |uuid: &str| uuid[1..].parse::<usize>().unwrap();
            let path: Vec<usize> = graph.active_path.iter().map(|uuid| place(uuid)).collect();
            // No message twice, none of a side conversation that nothing else follows.
            let on_path: HashSet<usize> = path.iter().copied().collect();
            proptest::prop_assert_eq!(on_path.len(), path.len());
            // What stands above a message of the path stands on it.
            for place in &path {
                if let Some(parent) = parents[*place] {
                    proptest::prop_assert!(on_path.contains(&parent), "{} above {}", parent, place);
                }
            }
            // Of a fork's branches the path takes one at most, and each begins below the fork.
            for fork in &graph.fork_points {
                proptest::prop_assert!(fork.branches.len() > 1);
                let taken = fork.branches.iter().filter(|one| on_path.contains(&place(&one.uuid)));
                proptest::prop_assert!(taken.count() < 2);
                for branch in &fork.branches {
                    proptest::prop_assert_eq!(parents[place(&branch.uuid)], Some(place(&fork.uuid)));
                }
            }
            // What is left is not on the path, and a linear conversation leaves nothing.
            let left = outline.left();
            proptest::prop_assert!(path.iter().all(|place| !left.contains(&(*place as u64 + 1))));
            proptest::prop_assert!(!graph.is_linear || left.is_empty());
        }
    }
}
