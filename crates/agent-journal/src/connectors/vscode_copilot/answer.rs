//! The answer of a request: parts as a person saw them become the model's messages, with the
//! results of tools between them.

use std::collections::HashMap;
use std::path::Path;

use serde_json::value::RawValue;

use super::shape::{Part, list, place, read, text, word};
use super::tools::{Rounds, Told, is_same};
use crate::model::{Block, Json, Message, Origin, Role};

/// Parts that say how the program was doing, not what was said.
const NOISE: &[&str] = &[
    "prepareToolInvocation",
    "progressMessage",
    "progressTask",
    "progressTaskSerialized",
    "mcpServersStarting",
    "undoStop",
    "codeblockUri",
    "command",
    "hook",
    "autoModeResolution",
    "disabledClaudeHooks",
    "treeData",
];

/// Parts that the program says to the person.
const NOTICES: &[&str] = &[
    "warning",
    "info",
    "confirmation",
    "elicitation",
    "elicitationSerialized",
    "systemNotification",
];

/// The calls that a session has told.
#[derive(Default)]
pub(super) struct Calls {
    by_id: HashMap<String, Known>,
    /// The last call of the request before, where no part showed it and nothing answered it.
    left_open: Option<OpenCall>,
}

/// A call that a later request may show.
struct OpenCall {
    id: String,
    name: String,
}

/// What is known of a call.
pub(super) struct Known {
    is_shown: bool,
    is_answered: bool,
}

/// Turns the parts of one answer into messages.
pub(super) struct Answer<'a> {
    rounds: Rounds<'a>,
    /// Where results too large for the record lie.
    resources: &'a Path,
    /// Files that were edited.
    pub(super) files: Vec<String>,
    messages: Vec<Message>,
    /// The message being put together, and the results that follow it.
    piece: Message,
    results: Vec<Block>,
    text: String,
    has_spoken: bool,
    has_called: bool,
    calls: &'a mut Calls,
    /// The round of the last call.
    round: Option<usize>,
    /// Calls are told up to here.
    told: usize,
    /// Rounds are told up to here.
    summed: usize,
    /// Whether the last edit stood inside a fence that is still to be closed.
    fenced: bool,
}

impl<'a> Answer<'a> {
    pub(super) fn new(rounds: Rounds<'a>, resources: &'a Path, calls: &'a mut Calls) -> Self {
        Self {
            rounds,
            resources,
            files: Vec::new(),
            messages: Vec::new(),
            piece: Message::default(),
            results: Vec::new(),
            text: String::new(),
            has_spoken: false,
            has_called: false,
            calls,
            round: None,
            told: 0,
            summed: 0,
            fenced: false,
        }
    }

    /// Reads the parts and returns the messages they make.
    pub(super) fn read(&mut self, response: Option<&RawValue>) -> Vec<Message> {
        let left_open = self.calls.left_open.take();
        let mut raw = list(response);
        raw.retain(|raw| raw.get() != "null");
        let parts: Vec<Option<Part<'_>>> = raw.iter().map(|raw| read(Some(raw))).collect();
        let tools: Vec<&Part<'_>> = parts.iter().flatten().filter(|part| part.is_tool()).collect();
        let mut pairs = self.rounds.pair(&tools).into_iter();
        let paired: Vec<Option<usize>> = pairs.clone().collect();
        for (raw, part) in raw.into_iter().zip(parts) {
            match part {
                Some(part) if part.is_tool() => {
                    let call = pairs.next().flatten();
                    match left_open.as_ref().filter(|open| self.shows(&part, open)) {
                        Some(open) if !self.has_called => self.show_open(&part, open),
                        _ => self.tool(&part, call, &paired),
                    }
                }
                Some(part) => self.part(&part, raw),
                None => match text(Some(raw)) {
                    Some(text) => self.say(&text),
                    None => self.other(raw),
                },
            }
        }
        self.unshown(self.rounds.calls.len(), &paired);
        self.tell_unclaimed_results();
        // An edit in the editor shows no words, though the model used some.
        if !self.has_called && !self.has_spoken && self.text.trim().is_empty() {
            let words = std::mem::take(&mut self.rounds.words);
            self.say(&words);
        }
        self.close();
        std::mem::take(&mut self.messages)
    }

    fn part(&mut self, part: &Part<'_>, raw: &RawValue) {
        let kind = word(part.kind).unwrap_or_default();
        match kind.as_str() {
            "" | "markdownContent" | "markdownVuln" => {
                match text(part.value).or_else(|| text(part.content)) {
                    Some(text) => self.say(&text),
                    // Empty text is common; anything else without a kind is kept.
                    None if part.value.is_some_and(|value| value.get() == "\"\"") => {}
                    None => self.other(raw),
                }
            }
            "inlineReference" => self.say(&reference(part)),
            "thinking" => {
                if let Some(thought) = text(part.value).filter(|text| !text.trim().is_empty()) {
                    self.begin(false, None);
                    self.piece.blocks.push(Block::Thinking(thought));
                }
            }
            "textEditGroup" | "notebookEditGroup" => self.edit(part, raw),
            // Everything back to the last call was taken back.
            "clearToPreviousToolInvocation" => self.clear(),
            _ if NOTICES.contains(&kind.as_str()) => self.notice(part, raw),
            _ if NOISE.contains(&kind.as_str()) => {}
            _ => self.other(raw),
        }
    }

    fn say(&mut self, text: &str) {
        if !text.trim().is_empty() && (self.piece.sidechain || !self.results.is_empty()) {
            self.close();
        }
        let text = if std::mem::take(&mut self.fenced) { after_fence(text) } else { text };
        self.text.push_str(text);
    }

    fn tool(&mut self, part: &Part<'_>, call: Option<usize>, paired: &[Option<usize>]) {
        let is_side = part.sub_agent_invocation_id.is_some_and(|raw| raw.get() != "null");
        if let Some(at) = call {
            self.unshown(at, paired);
        }
        self.begin(is_side, call.map(|at| self.rounds.calls[at].round));
        if self.piece.cwd.is_none() {
            self.piece.cwd = part.directory();
        }
        let Some(at) = call else {
            let mut told = part.told();
            if let Some(output) = self.rounds.take_result(told.id(), self.resources) {
                told.set_output(output);
            }
            return self.call(told, true);
        };
        let told = self.rounds.calls[at].told(Some(part), self.resources);
        self.told = self.told.max(at + 1);
        self.call(told, true);
    }

    /// Tells results whose call is not recorded, or was told by an earlier request.
    fn tell_unclaimed_results(&mut self) {
        for (call_id, output) in self.rounds.take_results(self.resources) {
            let known = self.calls.by_id.get_mut(&call_id);
            if known.is_some_and(|known| std::mem::replace(&mut known.is_answered, true)) {
                continue;
            }
            self.results.push(Block::ToolResult { call_id, output, is_error: None });
        }
    }

    /// Whether a part shows a call of the request before: where a button went on with it, the
    /// request has no rounds of its own. Versions before 0.37 gave the part an id of its own.
    fn shows(&self, part: &Part<'_>, open: &OpenCall) -> bool {
        let shown = word(part.tool_id).unwrap_or_default();
        self.rounds.calls.is_empty() && is_same(&shown, &open.name)
    }

    /// Tells what became of a call that the request before made.
    fn show_open(&mut self, part: &Part<'_>, open: &OpenCall) {
        self.begin(false, None);
        let mut told = part.told();
        told.rename(&open.id);
        self.call(told, true);
    }

    /// Tells the calls before `end` that no part shows.
    fn unshown(&mut self, end: usize, paired: &[Option<usize>]) {
        for at in self.told..end {
            if !paired.contains(&Some(at)) {
                self.begin(false, Some(self.rounds.calls[at].round));
                let told = self.rounds.calls[at].told(None, self.resources);
                let is_last = at + 1 == self.rounds.calls.len();
                if is_last && told.result.is_none() {
                    let (id, name) = (told.id().to_owned(), self.rounds.calls[at].name.clone());
                    self.calls.left_open = Some(OpenCall { id, name });
                }
                self.call(told, false);
            }
            self.told = at + 1;
        }
    }

    /// Tells a call. A call that was made in one request may be shown in the next: it is told
    /// once. One that is shown twice was tried again: each try counts.
    fn call(&mut self, mut told: Told, is_shown: bool) {
        self.has_called = true;
        let id = told.id().to_owned();
        let known = self.calls.by_id.get_mut(&id);
        if let Some(known) = known.filter(|known| !known.is_shown || !is_shown) {
            known.is_shown |= is_shown;
            if !std::mem::replace(&mut known.is_answered, true) {
                self.results.extend(told.result);
            }
            return;
        }
        let mut tries = 1;
        while self.calls.by_id.contains_key(told.id()) {
            tries += 1;
            told.rename(&format!("{id}#{tries}"));
        }
        let known = Known { is_shown, is_answered: told.result.is_some() };
        self.calls.by_id.insert(told.id().to_owned(), known);
        self.piece.blocks.push(told.call);
        self.results.extend(told.result);
    }

    fn edit(&mut self, part: &Part<'_>, raw: &RawValue) {
        if let Some(file) = place(part.uri)
            && !self.files.contains(&file)
        {
            self.files.push(file);
        }
        if let Some(before) = before_fence(&self.text) {
            self.text.truncate(before);
            self.fenced = true;
        }
        self.other(raw);
    }

    fn notice(&mut self, part: &Part<'_>, raw: &RawValue) {
        self.close();
        let words = [part.title, part.message, part.content].into_iter().filter_map(text);
        let words: Vec<String> = words.collect();
        let block = if words.is_empty() {
            Block::Other(Json::from(raw))
        } else {
            Block::Text(words.join("\n\n"))
        };
        self.messages.push(Message { blocks: vec![block], ..Message::default() });
    }

    /// Keeps a part there is no word for.
    fn other(&mut self, raw: &RawValue) {
        self.settle();
        self.piece.blocks.push(Block::Other(Json::from(raw)));
    }

    fn clear(&mut self) {
        self.text.clear();
        let is_call = |block: &Block| matches!(block, Block::ToolCall { .. });
        let kept = self.piece.blocks.iter().rposition(is_call).map_or(0, |at| at + 1);
        self.piece.blocks.truncate(kept);
    }

    /// Makes room for a thought or a call. What follows results begins a new message, unless it
    /// is a call the model made in the same breath; so does a sub-agent's part.
    fn begin(&mut self, is_side: bool, round: Option<usize>) {
        let is_same_breath = round.is_some() && round == self.round;
        if self.piece.sidechain != is_side || (!self.results.is_empty() && !is_same_breath) {
            self.close();
        }
        self.settle();
        self.piece.sidechain = is_side;
        self.round = round;
        if let Some(round) = round.filter(|_| self.piece.at.is_none()) {
            self.piece.at = self.rounds.marks[round].0;
        }
    }

    /// Ends the text that is being put together.
    fn settle(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.has_spoken = true;
            self.piece.blocks.push(Block::Text(text.trim().to_owned()));
        }
    }

    /// Ends the message that is being put together.
    fn close(&mut self) {
        self.settle();
        let piece = std::mem::take(&mut self.piece);
        let results = std::mem::take(&mut self.results);
        let (sidechain, cwd) = (piece.sidechain, piece.cwd.clone());
        if !piece.blocks.is_empty() {
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            self.messages.push(Message { role, origin, ..piece });
        }
        if !results.is_empty() {
            let (role, origin) = (Role::Tool, Origin::Tool);
            let message = Message { role, origin, cwd, sidechain, ..Message::default() };
            self.messages.push(Message { blocks: results, ..message });
        }
        self.summarise();
    }

    /// Tells the summaries of the rounds whose calls were all told.
    fn summarise(&mut self) {
        let done = match self.rounds.calls.get(self.told) {
            Some(next) => next.round,
            None => self.rounds.marks.len(),
        };
        for (at, summary) in &mut self.rounds.marks[self.summed.min(done)..done] {
            if let Some(summary) = summary.take() {
                self.messages.push(Message {
                    role: Role::User,
                    origin: Origin::Summary,
                    at: *at,
                    blocks: vec![Block::Text(summary)],
                    ..Message::default()
                });
            }
        }
        self.summed = done;
    }
}

impl Part<'_> {
    fn is_tool(&self) -> bool {
        word(self.kind).is_some_and(|kind| kind == "toolInvocationSerialized")
    }
}

/// What a reference inside a sentence reads as.
fn reference(part: &Part<'_>) -> String {
    #[derive(serde::Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Symbol<'a> {
        name: Option<&'a RawValue>,
    }
    let symbol: Option<Symbol<'_>> = read(part.inline_reference);
    let name = word(part.name).or_else(|| symbol.and_then(|symbol| word(symbol.name)));
    let file = || {
        let place = place(part.inline_reference)?;
        place.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().map(str::to_owned)
    };
    name.or_else(file).map_or(String::new(), |name| format!("`{name}`"))
}

/// Where the text ends when a fence that was opened for an edit is left away.
fn before_fence(text: &str) -> Option<usize> {
    let trimmed = text.trim_end();
    let bare = trimmed.trim_end_matches('`');
    let is_fence = trimmed.len() - bare.len() >= 3 && (bare.is_empty() || bare.ends_with('\n'));
    is_fence.then_some(bare.len())
}

/// The text after the fence that closes an edit.
fn after_fence(text: &str) -> &str {
    let start = text.trim_start();
    let bare = start.trim_start_matches('`');
    let is_fence =
        start.len() - bare.len() >= 3 && (bare.is_empty() || bare.starts_with(['\n', '\r']));
    if is_fence { bare } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(parts: &str, metadata: &str) -> Vec<String> {
        let metadata = serde_json::from_str(metadata).unwrap();
        let mut calls = Calls::default();
        let mut answer = Answer::new(Rounds::of(&metadata), Path::new(""), &mut calls);
        let messages = answer.read(Some(serde_json::from_str(parts).unwrap()));
        let name = |block: &Block| match block {
            Block::Text(text) => text.clone(),
            Block::Thinking(text) => format!("({text})"),
            Block::ToolCall { id, .. } => format!("{id}?"),
            Block::ToolResult { call_id, .. } => format!("{call_id}!"),
            _ => "other".into(),
        };
        messages
            .iter()
            .map(|message| {
                let blocks: Vec<String> = message.blocks.iter().map(name).collect();
                format!("{} {}", message.role.name(), blocks.join(" "))
            })
            .collect()
    }

    #[test]
    fn text_around_a_reference_stays_one_sentence() {
        let parts = r#"[{"value":"see "},
            {"kind":"inlineReference","inlineReference":{"path":"/a/b.rs","scheme":"file"}},
            {"value":", please"}]"#;
        assert_eq!(told(parts, "{}"), ["assistant see `b.rs`, please"]);
    }

    #[test]
    fn results_stand_between_the_messages_that_asked_and_went_on() {
        let parts = r#"[{"kind":"thinking","value":["hm","m"]},{"kind":"thinking","value":""},
            {"value":"first"},
            {"kind":"toolInvocationSerialized","toolId":"x","toolCallId":"1","isComplete":true},
            {"kind":"toolInvocationSerialized","toolId":"x","toolCallId":"2","isComplete":false},
            {"value":"then"},
            {"kind":"warning","content":{"value":"mind"}}]"#;
        let expected = ["assistant (hmm) first 1?", "tool 1!", "assistant 2? then", "system mind"];
        assert_eq!(told(parts, "{}"), expected);
    }

    #[test]
    fn fences_around_an_edit_are_left_away() {
        let parts = r#"[{"value":"I change it.\n````\n"},{"kind":"undoStop","id":"u"},
            {"kind":"codeblockUri","uri":{"path":"/a"},"isEdit":true},
            {"kind":"textEditGroup","uri":{"path":"/a"},"edits":[]},
            {"value":"\n````\nDone."}]"#;
        assert_eq!(told(parts, "{}"), ["assistant I change it. other Done."]);
    }

    #[test]
    fn calls_that_no_part_shows_stand_where_they_were_made() {
        let parts = r#"[{"value":"go"},
            {"kind":"toolInvocationSerialized","toolId":"copilot_createFile","toolCallId":"b"}]"#;
        let metadata = r#"{"toolCallRounds":[
            {"toolCalls":[{"id":"a","name":"read_file","arguments":"{}"}],"summary":"so far"},
            {"toolCalls":[{"id":"b","name":"create_file","arguments":"{}"},
                          {"id":"c","name":"read_file","arguments":"{}"}]}],
            "toolCallResults":{"a":{"content":[{"value":"no such file"}]}}}"#;
        let expected = ["assistant go a?", "tool a!", "user so far", "assistant b? c?"];
        assert_eq!(told(parts, metadata), expected);
    }
}
