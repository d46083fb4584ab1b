//! Facts derived from consecutive messages. The facts of two runs of messages add up to the facts
//! of both, so a growing session costs only the work for its new messages.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::tools::{created_files, failure_kind, files_changed_by_call, is_creator, viewed_files};
use super::{Block, Json, Message, Origin, Role, tool_name};

/// Maximum gap between messages that counts as active time, in milliseconds. A longer gap is a
/// pause.
const LONGEST_GAP: i64 = 5 * 60 * 1000;

/// Length of a quarter hour in milliseconds. Figures are kept by quarter hour, because the days and
/// hours of every time zone consist of quarters.
pub const QUARTER: i64 = 15 * 60 * 1000;

/// Maximum length of the first prompt as a title, in characters.
const TITLE_LENGTH: usize = 200;

/// Facts about consecutive messages. Ids are kept as hashes, because one call, result or answer may
/// be recorded in several messages and counts once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageFacts {
    /// Number of messages.
    pub messages: u64,
    /// Number of messages that consist only of a record that was not understood.
    #[serde(skip_serializing_if = "is_default_value")]
    pub raw: u64,
    /// Number of prompts typed by a person.
    #[serde(skip_serializing_if = "is_default_value")]
    pub prompts: u64,
    /// Number of characters in those prompts.
    #[serde(skip_serializing_if = "is_default_value")]
    pub prompt_chars: u64,
    /// Hashes of the ids of the model's answers.
    pub answers: Vec<u64>,
    /// Number of answers without an id; each counts separately.
    #[serde(skip_serializing_if = "is_default_value")]
    pub nameless_answers: u64,
    /// Tool calls.
    #[serde(skip_serializing_if = "is_default_value")]
    pub calls: Vec<ToolCallFact>,
    /// Hashes of the call ids of tool results.
    #[serde(skip_serializing_if = "is_default_value")]
    pub results: Vec<u64>,
    /// Results that report a failure.
    #[serde(skip_serializing_if = "is_default_value")]
    pub errors: Vec<FailureFact>,
    /// Names of tools, to which calls refer by index.
    #[serde(skip_serializing_if = "is_default_value")]
    pub tools: Vec<String>,
    /// Quarter hours in which the agent itself failed.
    #[serde(skip_serializing_if = "is_default_value")]
    pub agent_failures: Vec<i64>,
    /// Number of prompts and of their characters, by quarter hour.
    #[serde(skip_serializing_if = "is_default_value")]
    pub prompt_quarters: BTreeMap<i64, (u64, u64)>,
    /// Files that tools changed, with the number of calls.
    #[serde(skip_serializing_if = "is_default_value")]
    pub files: BTreeMap<String, u64>,
    /// Files that tools wrote completely, with the number of calls. These calls are part of
    /// `files`.
    #[serde(skip_serializing_if = "is_default_value")]
    pub created_files: BTreeMap<String, u64>,
    /// Files that tools only viewed, with the number of calls.
    #[serde(skip_serializing_if = "is_default_value")]
    pub viewed_files: BTreeMap<String, u64>,
    /// All branches, in order of first occurrence.
    #[serde(skip_serializing_if = "is_default_value")]
    pub branches: Vec<String>,
    /// All working directories, in order of first occurrence.
    #[serde(skip_serializing_if = "is_default_value")]
    pub directories: Vec<String>,
    /// Number of images.
    #[serde(skip_serializing_if = "is_default_value")]
    pub images: u64,
    /// Number of answers that the agent program wrote itself, in place of a model.
    #[serde(skip_serializing_if = "is_default_value")]
    pub synthetic: u64,
    /// Models, with the number of messages each wrote.
    #[serde(skip_serializing_if = "is_default_value")]
    pub models: BTreeMap<String, u64>,
    /// Times of the messages, in milliseconds since 1970.
    pub times: Vec<i64>,
    /// Times of records that became no message, in milliseconds since 1970. They are not derived
    /// from messages, but added to the facts of a session.
    #[serde(skip)]
    pub activity: Vec<i64>,
    /// The beginning of the first prompt.
    #[serde(skip_serializing_if = "is_default_value")]
    pub first_prompt: Option<String>,
    /// Time of the first message that is not a notice, in milliseconds since 1970.
    #[serde(skip_serializing_if = "is_default_value")]
    pub first_said: Option<i64>,
    /// Time of the last message that is not a notice, in milliseconds since 1970.
    #[serde(skip_serializing_if = "is_default_value")]
    pub last_said: Option<i64>,
    /// Whether the last message of either side reports a failure of the agent.
    #[serde(skip_serializing_if = "is_default_value")]
    pub ends_failed: Option<bool>,
}

/// A tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallFact {
    /// Hash of the call's id.
    pub id: u64,
    /// Index of the tool's name.
    pub tool: u32,
    /// Quarter hour of the call, counted since 1970; 0 when unknown.
    pub quarter: i64,
}

/// A result that reports a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureFact {
    /// Hash of the call's id.
    pub id: u64,
    /// Kind of the failure, as a number that `failure_name` converts to a name.
    pub kind: u8,
}

/// The counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCounts {
    /// Prompts typed by a person.
    pub user_prompts: u64,
    /// Answers of a model.
    pub assistant_messages: u64,
    /// Tool calls, each counted once.
    pub tool_calls: u64,
    /// Tool results, each counted once.
    pub tool_results: u64,
    /// Results that report a failure.
    pub tool_errors: u64,
    /// Messages of any kind.
    pub messages: u64,
}

impl MessageFacts {
    /// Adds a message after the ones so far.
    pub fn add_message_facts(&mut self, message: &Message) {
        self.messages += 1;
        self.raw += u64::from(message.is_raw());
        self.times.extend(message.at.map(super::Timestamp::as_millis));
        // A message without a time gets the time of the message before.
        let quarter = self.times.last().map_or(0, |at| at.div_euclid(QUARTER));
        if message.origin.is_human_prompt() && !message.sidechain {
            // A large prompt is not copied.
            match &message.blocks[..] {
                [Block::Text(text)] => self.add_prompt(text, quarter),
                _ => self.add_prompt(&message.joined_text(), quarter),
            }
        }
        if message.failed {
            self.agent_failures.push(quarter);
        }
        let said = message.at.filter(|_| message.role != Role::System);
        if let Some(at) = said.map(super::Timestamp::as_millis) {
            self.first_said = Some(self.first_said.map_or(at, |first| first.min(at)));
            self.last_said = self.last_said.max(Some(at));
        }
        if message.role == Role::Assistant && message.origin == Origin::Assistant {
            self.add_answer(message);
        } else if let (Some(model), Some(_)) = (&message.model, &message.usage) {
            // The model worked for the session, although no message is known to be its own.
            self.models.entry(model.clone()).or_default();
        }
        self.synthetic +=
            u64::from(message.role == Role::Assistant && message.origin == Origin::System);
        if matches!(message.role, Role::User | Role::Assistant) || message.failed {
            self.ends_failed = Some(message.failed);
        }
        add_if_new(&mut self.branches, message.branch.as_deref());
        add_if_new(&mut self.directories, message.cwd.as_deref());
        for block in &message.blocks {
            match block {
                Block::ToolCall { id, name, input } => {
                    let name = tool_name(name);
                    self.add_files(&name, input);
                    let tool = self.tool_index(&name);
                    self.calls.push(ToolCallFact { id: fact_id_hash(id), tool, quarter });
                }
                Block::ToolResult { call_id, is_error, output } => {
                    let id = fact_id_hash(call_id);
                    self.results.push(id);
                    if *is_error == Some(true) {
                        self.errors.push(FailureFact { id, kind: failure_kind(output) });
                    }
                }
                Block::Image(_) => self.images += 1,
                _ => {}
            }
        }
    }

    /// Counts the files that a call names.
    fn add_files(&mut self, tool: &str, input: &Json) {
        let changed = files_changed_by_call(tool, input);
        if is_creator(tool) {
            // The same files: large inputs are not parsed twice.
            count_all(&mut self.created_files, changed.clone());
        } else if !changed.is_empty() {
            count_all(&mut self.created_files, created_files(tool, input));
        }
        count_all(&mut self.files, changed);
        count_all(&mut self.viewed_files, viewed_files(tool, input));
    }

    /// Returns the index of a tool's name, and adds the name if it is new.
    fn tool_index(&mut self, name: &str) -> u32 {
        let known = self.tools.iter().position(|tool| tool == name);
        known.unwrap_or_else(|| {
            self.tools.push(name.to_owned());
            self.tools.len() - 1
        }) as u32
    }

    fn add_prompt(&mut self, text: &str, quarter: i64) {
        let characters = text.chars().count() as u64;
        self.prompts += 1;
        self.prompt_chars += characters;
        let known = self.prompt_quarters.entry(quarter).or_default();
        *known = (known.0 + 1, known.1 + characters);
        if self.first_prompt.is_none() && !text.trim().is_empty() {
            self.first_prompt = Some(beginning_of_failure(text));
        }
    }

    fn add_answer(&mut self, message: &Message) {
        match message.api_id.as_ref().or(message.uuid.as_ref()) {
            Some(id) => self.answers.push(fact_id_hash(id)),
            None => self.nameless_answers += 1,
        }
        if let Some(model) = &message.model {
            match self.models.get_mut(model) {
                Some(count) => *count += 1,
                None => drop(self.models.insert(model.clone(), 1)),
            }
        }
    }

    /// Appends the facts of the messages that follow.
    pub fn append_facts(&mut self, later: MessageFacts) {
        self.messages += later.messages;
        self.raw += later.raw;
        self.prompts += later.prompts;
        self.prompt_chars += later.prompt_chars;
        self.answers.extend(later.answers);
        self.nameless_answers += later.nameless_answers;
        for call in later.calls {
            let name = later.tools.get(call.tool as usize).map_or("", String::as_str);
            let tool = self.tool_index(name);
            self.calls.push(ToolCallFact { tool, ..call });
        }
        self.agent_failures.extend(later.agent_failures);
        for (quarter, (prompts, characters)) in later.prompt_quarters {
            let known = self.prompt_quarters.entry(quarter).or_default();
            *known = (known.0 + prompts, known.1 + characters);
        }
        for (counts, later) in [
            (&mut self.files, later.files),
            (&mut self.created_files, later.created_files),
            (&mut self.viewed_files, later.viewed_files),
        ] {
            for (file, count) in later {
                *counts.entry(file).or_default() += count;
            }
        }
        for branch in &later.branches {
            add_if_new(&mut self.branches, Some(branch));
        }
        for directory in &later.directories {
            add_if_new(&mut self.directories, Some(directory));
        }
        self.images += later.images;
        self.synthetic += later.synthetic;
        self.results.extend(later.results);
        self.errors.extend(later.errors);
        self.times.extend(later.times);
        for (model, count) in later.models {
            *self.models.entry(model).or_default() += count;
        }
        self.first_prompt = self.first_prompt.take().or(later.first_prompt);
        self.first_said = [self.first_said, later.first_said].into_iter().flatten().min();
        self.last_said = self.last_said.max(later.last_said);
        self.ends_failed = later.ends_failed.or(self.ends_failed);
    }

    /// Counts the recorded items, each one once.
    pub fn count_items(&self) -> SessionCounts {
        let distinct = |ids: &[u64]| ids.iter().collect::<HashSet<_>>().len() as u64;
        SessionCounts {
            user_prompts: self.prompts,
            assistant_messages: distinct(&self.answers) + self.nameless_answers,
            tool_calls: self.calls.iter().map(|call| call.id).collect::<HashSet<_>>().len() as u64,
            tool_results: distinct(&self.results),
            tool_errors: self.errors.iter().map(|one| one.id).collect::<HashSet<_>>().len() as u64,
            messages: self.messages,
        }
    }

    /// Removes the times outside a span, because notices do not extend a conversation.
    pub fn clip_times(&mut self, first: Option<i64>, last: Option<i64>) {
        if let Some((first, last)) = first.zip(last) {
            self.times.retain(|at| (first..=last).contains(at));
            self.activity.retain(|at| (first..=last).contains(at));
        }
    }

    /// Returns the times of all messages and other records, in order.
    pub fn active_times(&self) -> Vec<i64> {
        let mut times = [&self.times[..], &self.activity].concat();
        times.sort_unstable();
        times
    }

    /// Sums the gaps between messages in seconds, each gap up to five minutes.
    pub fn active_seconds(&self) -> u64 {
        let times = self.active_times();
        let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).min(LONGEST_GAP));
        gaps.sum::<i64>() as u64 / 1000
    }
}

/// Adds a text to a list without duplicates; most often it equals the last one.
fn add_if_new(known: &mut Vec<String>, text: Option<&str>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return };
    if known.last().is_none_or(|last| last != text) && !known.iter().any(|one| one == text) {
        known.push(text.to_owned());
    }
}

fn count_all(counts: &mut BTreeMap<String, u64>, files: Vec<String>) {
    for file in files {
        *counts.entry(file).or_default() += 1;
    }
}

/// Returns whether a field has its default value and need not be serialised.
fn is_default_value<T: Default + PartialEq>(fact: &T) -> bool {
    *fact == T::default()
}

/// Hashes an id, as it is kept in the facts.
pub fn fact_id_hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

fn beginning_of_failure(text: &str) -> String {
    text.trim().chars().take(TITLE_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, Json, Timestamp, Usage};

    #[test]
    fn pauses_count_for_five_minutes() {
        // Gaps of two minutes, eight hours and one minute.
        let mut facts = MessageFacts::default();
        for minutes in [0, 2, 482, 483] {
            let at = Timestamp::from_millis(minutes * 60_000);
            facts.add_message_facts(&Message { at, ..Message::default() });
        }
        assert_eq!(facts.active_seconds(), 8 * 60);
    }

    #[test]
    fn a_record_of_which_the_cost_is_understood_is_not_raw() {
        let blocks = vec![Block::Other(Json::from_value(&1))];
        let usage = Some(Usage::default());
        let mut facts = MessageFacts::default();
        facts.add_message_facts(&Message { blocks: blocks.clone(), ..Message::default() });
        facts.add_message_facts(&Message { usage, blocks, ..Message::default() });
        assert_eq!((facts.messages, facts.raw), (2, 1));
    }

    #[test]
    fn an_answer_told_in_two_messages_counts_once() {
        let part = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            api_id: Some("msg_1".into()),
            ..Message::default()
        };
        let mut first = MessageFacts::default();
        first.add_message_facts(&part);
        let mut second = MessageFacts::default();
        second.add_message_facts(&part);
        first.append_facts(second);
        assert_eq!(first.count_items().assistant_messages, 1);
        assert_eq!(first.count_items().messages, 2);
    }
}
