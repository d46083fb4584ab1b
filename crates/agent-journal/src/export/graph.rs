//! The order of the messages of a session: real forks, and the branch that was kept.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use xxhash_rust::xxh3::xxh3_64;

use super::schema::{self, Fork, Graph, GraphBranch};
use crate::model::{Origin, Role};

/// The facts about all messages that are needed before the first one is written. It takes a few
/// dozen bytes per message, independent of the size of the messages.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    nodes: Vec<GraphNode>,
    /// Node indexes by the hash of a message id, or of the id of a record merged into the message.
    places: HashMap<u64, u32>,
    /// Whether there are blocks that version 1.0 of the schema does not define.
    has_later_blocks: bool,
    /// The node of the message that the agent names as the leaf.
    leaf: Option<usize>,
}

#[derive(Clone, Debug)]
struct GraphNode {
    index: u64,
    uuid: Option<Box<str>>,
    parent: Option<u64>,
    /// The hash of the provider's id of the reply.
    answer: Option<u64>,
    part: MessagePart,
    /// Whether a person typed the message in this conversation.
    is_prompt: bool,
    /// Whether the message summarizes the conversation so far.
    is_summary: bool,
}

/// The role of a message in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePart {
    /// A prompt or a reply. Two of these after one message are a fork.
    Said,
    /// A message that only contains tool results.
    Result,
    /// A message that the program inserted.
    Notice,
    /// A message of a side conversation.
    Side,
}

/// The fields of a stored message that the outline needs.
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
    /// Builds the outline of the messages of a document.
    pub fn from_document(document: &schema::UnifiedDocument) -> Self {
        let mut outline = Self::default();
        for message in &document.messages {
            outline.add_sketch(message.index, sketch_message(message));
        }
        for summary in document.session.parse_notes().summaries {
            outline.end_at(&summary.leaf);
        }
        outline
    }

    /// Returns the lowest version of the schema that defines every block of the session.
    pub(crate) fn schema_version(&self) -> &'static str {
        if self.has_later_blocks { "1.1" } else { "1.0" }
    }

    /// Adds the next message. `index` is its number, counted from 1.
    pub(crate) fn add_sketch(&mut self, index: u64, sketch: Sketch) {
        use BlockKind::{Image, Other, Thinking};
        self.has_later_blocks |=
            sketch.blocks.iter().any(|one| matches!(one, Thinking(_) | Image(_) | Other(_)));
        let part = sketch.message_part();
        let place = self.nodes.len() as u32;
        for uuid in sketch.uuid.iter().chain(&sketch.part_uuids) {
            self.places.entry(message_id_hash(uuid)).or_insert(place);
        }
        self.nodes.push(GraphNode {
            index,
            uuid: sketch.uuid.map(String::into_boxed_str),
            parent: sketch.parent.as_deref().map(message_id_hash),
            answer: sketch.api_id.as_deref().map(message_id_hash),
            part,
            is_prompt: part == MessagePart::Said && sketch.origin == Origin::Human,
            is_summary: sketch.origin == Origin::Summary,
        });
    }

    /// Makes the active path end on the branch of a message that the agent names as the leaf. An id
    /// that no message has changes nothing. All messages must have been added.
    pub(crate) fn end_at(&mut self, leaf: &str) {
        self.leaf =
            self.places.get(&message_id_hash(leaf)).map(|place| *place as usize).or(self.leaf);
    }

    /// Returns the id of the message that a recorded parent id refers to: the message with that id,
    /// or the message that the record was merged into. Returns `None` if no message has the id.
    pub(crate) fn message_for_parent(&self, parent: &str) -> Option<&str> {
        let place = *self.places.get(&message_id_hash(parent))? as usize;
        self.nodes[place].uuid.as_deref()
    }

    /// Builds the graph of the messages added so far.
    pub fn build_graph(&self) -> Graph {
        let tree = MessageTree::new(self);
        let named = |place: usize| {
            let node = &self.nodes[place];
            node.uuid.as_deref().map(|uuid| (uuid.to_owned(), node.index))
        };
        let fork_points: Vec<Fork> = tree
            .find_forks()
            .into_iter()
            .filter_map(|(place, branches)| {
                let (uuid, index) = named(place)?;
                let branches = branches.into_iter().filter_map(named);
                let branches = branches.map(|(uuid, index)| GraphBranch { uuid, index }).collect();
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

    /// Returns the numbers of the messages on abandoned branches.
    pub(crate) fn abandoned_messages(&self) -> HashSet<u64> {
        let tree = MessageTree::new(self);
        let forks = tree.find_forks();
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

/// The messages of a session, linked to their parents.
struct MessageTree<'o> {
    outline: &'o Outline,
    /// The parent of each message. Cycles are broken.
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// For each message the first message from there on that begins a turn: the message itself, or
    /// one below results, notices and parts of the same reply.
    leads: Vec<Option<usize>>,
    /// The first prompts of the session, if its first prompt was repeated.
    beginnings: Vec<usize>,
}

impl<'o> MessageTree<'o> {
    fn new(outline: &'o Outline) -> Self {
        let parents = resolve_parents(outline);
        let mut children = vec![Vec::new(); parents.len()];
        for (place, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(place);
            }
        }
        let mut tree =
            Self { outline, parents, children, leads: Vec::new(), beginnings: Vec::new() };
        tree.leads = tree.children_on_path();
        tree.beginnings = tree.find_restarts();
        tree
    }

    fn node_at_place(&self, place: usize) -> &'o GraphNode {
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

    fn children_on_path(&self) -> Vec<Option<usize>> {
        let order = self.parents_first();
        // The reply that a message is part of, or that it follows.
        let mut answers = vec![None; self.parents.len()];
        let mut leads = vec![None; self.parents.len()];
        for place in &order {
            let node = self.node_at_place(*place);
            let above = self.parents[*place].and_then(|parent| answers[parent]);
            let is_part = node.answer.is_some() && node.answer == above;
            let begins = node.part == MessagePart::Said && node.uuid.is_some() && !is_part;
            answers[*place] = if node.part == MessagePart::Said { node.answer } else { above };
            leads[*place] = begins.then_some(*place);
        }
        for place in
            order.iter().rev().filter(|place| self.node_at_place(**place).part != MessagePart::Side)
        {
            let Some(parent) = self.parents[*place] else { continue };
            let own = self.node_at_place(parent);
            if own.part == MessagePart::Side || leads[parent] == Some(parent) {
                continue;
            }
            leads[parent] = match (leads[parent], leads[*place]) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        leads
    }

    /// Returns the messages that more than one branch follows, in order, each with the first
    /// message of every branch.
    fn find_forks(&self) -> Vec<(usize, Vec<usize>)> {
        let mut forks = Vec::new();
        for (place, children) in self.children.iter().enumerate() {
            if children.len() < 2 || self.node_at_place(place).part == MessagePart::Side {
                continue;
            }
            let mut branches: Vec<usize> = Vec::new();
            let mut answers = HashSet::new();
            for child in children
                .iter()
                .filter(|child| self.node_at_place(**child).part != MessagePart::Side)
            {
                let Some(lead) = self.leads[*child] else { continue };
                // Parts of one reply are one branch.
                if self.node_at_place(lead).answer.is_none_or(|answer| answers.insert(answer)) {
                    branches.push(*child);
                }
            }
            if branches.len() > 1 {
                forks.push((place, branches));
            }
        }
        forks
    }

    /// Finds the prompts that restart the session: prompts without a parent, where something
    /// followed the previous prompt without a parent. A summary in between is a compaction.
    fn find_restarts(&self) -> Vec<usize> {
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
            // A prompt that nothing followed was not abandoned for a restart.
            group.pop_if(|last| self.children[*last].is_empty());
            group.push(place);
        }
        if group.len() > 1 { group } else { Vec::new() }
    }

    /// Returns the message that the active path ends at: the last prompt, reply or result of this
    /// conversation, on the branch that the agent names, if it names one.
    fn active_leaf(&self) -> Option<usize> {
        let is_end = |place: &usize| {
            let node = self.node_at_place(*place);
            node.uuid.is_some() && matches!(node.part, MessagePart::Said | MessagePart::Result)
        };
        let last = (0..self.parents.len()).rev().find(is_end)?;
        let Some(named) = self.outline.leaf else { return Some(last) };
        // If the parents lead to different roots, the chain is broken, and the order of the
        // messages decides.
        let beginning = |place: usize| {
            let root = self.self_and_ancestors(place).last().unwrap_or(place);
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

    /// Iterates over a message and its ancestors.
    fn self_and_ancestors(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |place| self.parents[*place])
    }

    /// Returns the messages from the first one to the active leaf, with every result of the calls
    /// between.
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
            // If no parent is recorded (the format has none, or a compaction), the order decides:
            // the path continues with the message before, unless it has already been in that
            // message's tree.
            end = end.min(place);
            let is_before = |place: &usize| {
                let node = self.node_at_place(*place);
                node.uuid.is_some() && node.part != MessagePart::Side && !on_path[roots[*place]]
            };
            next = (0..end).rev().find(is_before);
            end = next.unwrap_or(0);
        }
        path.reverse();
        self.with_results(&path, &on_path)
    }

    /// Adds to a path the results of its calls that nothing followed. Parallel calls have several.
    fn with_results(&self, path: &[usize], on_path: &[bool]) -> Vec<usize> {
        let mut whole = Vec::with_capacity(path.len());
        let mut already = None;
        for (at, place) in path.iter().enumerate() {
            if already != Some(*place) {
                whole.push(*place);
            }
            let mut results = Vec::new();
            self.collect_results(*place, on_path, &mut results);
            let next = path
                .get(at + 1)
                .filter(|next| self.node_at_place(**next).part == MessagePart::Result);
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
                let is_result = self.node_at_place(*child).part == MessagePart::Result;
                is_result && !on_path[*child] && self.leads[*child].is_none()
            };
            for child in self.children[place].iter().copied().filter(is_wanted) {
                results.extend(self.node_at_place(child).uuid.as_ref().map(|_| child));
                below.push(child);
            }
        }
    }
}

/// Returns the parent of each message. The first message of a cycle has none.
fn resolve_parents(outline: &Outline) -> Vec<Option<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitState {
        Unseen,
        /// Seen on the walk that began at this message.
        From(usize),
    }
    let mut parents: Vec<Option<usize>> = outline
        .nodes
        .iter()
        .map(|node| Some(*outline.places.get(&node.parent?)? as usize))
        .collect();
    let mut walks = vec![VisitState::Unseen; parents.len()];
    for start in 0..parents.len() {
        let mut place = start;
        while walks[place] == VisitState::Unseen {
            walks[place] = VisitState::From(start);
            let Some(parent) = parents[place] else { break };
            if walks[parent] == VisitState::From(start) {
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
    fn message_part(&self) -> MessagePart {
        let is_result = |block: &BlockKind| matches!(block, BlockKind::ToolResult(_));
        match (self.role, self.origin) {
            _ if self.sidechain => MessagePart::Side,
            (_, Origin::Injected | Origin::Summary | Origin::System) => MessagePart::Notice,
            (Role::Tool, _) | (_, Origin::Tool) => MessagePart::Result,
            _ if !self.blocks.is_empty() && self.blocks.iter().all(is_result) => {
                MessagePart::Result
            }
            _ => MessagePart::Said,
        }
    }
}

fn sketch_message(message: &schema::DocumentMessage) -> Sketch {
    use schema::DocumentBlock;
    let notes = message.parse_message_notes();
    let ignored = IgnoredAny;
    Sketch {
        uuid: message.uuid.clone(),
        part_uuids: notes.part_uuids.clone(),
        parent: message.parent_uuid.clone(),
        role: match message.role {
            schema::DocumentRole::User => Role::User,
            schema::DocumentRole::Assistant => Role::Assistant,
            schema::DocumentRole::System => Role::System,
        },
        origin: message.recorded_origin(),
        api_id: notes.api_id,
        sidechain: notes.sidechain,
        blocks: message
            .content
            .iter()
            .map(|block| match block {
                DocumentBlock::Text { .. } => BlockKind::Text(ignored),
                DocumentBlock::Thinking { .. } => BlockKind::Thinking(ignored),
                DocumentBlock::ToolUse { .. } => BlockKind::ToolCall(ignored),
                DocumentBlock::ToolResult { .. } => BlockKind::ToolResult(ignored),
                DocumentBlock::Image { .. } => BlockKind::Image(ignored),
                DocumentBlock::Other { .. } => BlockKind::Other(ignored),
            })
            .collect(),
    }
}

fn message_id_hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an outline from words, one per message: kind, id, parent, and the reply it is part
    /// of.
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
            outline.add_sketch(at as u64 + 1, sketch);
        }
        outline
    }

    fn check(text: &str, forks: &[&str], path: &str) {
        let graph = outline(text).build_graph();
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
        let mut left: Vec<u64> = outline(text).abandoned_messages().into_iter().collect();
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
            outline.build_graph().active_path.join(" ")
        };
        assert_eq!(path("d"), "a b c d");
        assert_eq!(path("c"), "a b c d");
        assert_eq!(path("b"), "a b e f");
        assert_eq!(path("nowhere"), "a b e f");
        let mut broken = outline("you.a ai.b.a summary.s you.c.s ai.d.c");
        broken.end_at("b");
        assert_eq!(broken.build_graph().active_path.join(" "), "a b s c d");
    }

    #[test]
    fn a_first_prompt_asked_again_is_not_linear() {
        let again = outline("notice.n you.a ai.b.a you.c ai.d.c");
        let graph = again.build_graph();
        assert!(!graph.is_linear && graph.fork_points.is_empty());
        assert_eq!(graph.active_path.join(" "), "c d");
        let mut left: Vec<u64> = again.abandoned_messages().into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3]);
        assert!(outline("you.a you.c ai.d.c").build_graph().is_linear);
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
        let left =
            outline("you.a ai.b.a you.c.b ai.d.c tool.e.d you.f.b ai.g.f").abandoned_messages();
        let mut left: Vec<u64> = left.into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5]);
    }

    /// Generates conversations: each message follows an earlier one, or none.
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
            let graph = outline.build_graph();
            let parents = resolve_parents(&outline);
            let place = |uuid: &str| uuid[1..].parse::<usize>().unwrap();
            let path: Vec<usize> = graph.active_path.iter().map(|uuid| place(uuid)).collect();
            // No message is on the path twice, and no side conversation that nothing else follows.
            let on_path: HashSet<usize> = path.iter().copied().collect();
            proptest::prop_assert_eq!(on_path.len(), path.len());
            // The ancestors of a message on the path are on the path.
            for place in &path {
                if let Some(parent) = parents[*place] {
                    proptest::prop_assert!(on_path.contains(&parent), "{} above {}", parent, place);
                }
            }
            // The path takes at most one branch of a fork, and each branch begins below the fork.
            for fork in &graph.fork_points {
                proptest::prop_assert!(fork.branches.len() > 1);
                let taken = fork.branches.iter().filter(|one| on_path.contains(&place(&one.uuid)));
                proptest::prop_assert!(taken.count() < 2);
                for branch in &fork.branches {
                    proptest::prop_assert_eq!(parents[place(&branch.uuid)], Some(place(&fork.uuid)));
                }
            }
            // Abandoned messages are not on the path, and a linear conversation has none.
            let left = outline.abandoned_messages();
            proptest::prop_assert!(path.iter().all(|place| !left.contains(&(*place as u64 + 1))));
            proptest::prop_assert!(!graph.is_linear || left.is_empty());
        }
    }
}
