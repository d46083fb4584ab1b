//! What can be worked out from a run of messages. Facts of two runs add up to the facts of both,
//! so a session that grows costs only what it grew by.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::tools::{changed_files, created_files, failure_kind, viewed_files};
use super::{Block, Json, Message, Origin, Role, tool_name};

/// A gap longer than this is a pause, in milliseconds.
const LONGEST_GAP: i64 = 5 * 60 * 1000;

/// Figures are kept by the quarter hour, in milliseconds: every zone's days and hours are made of
/// quarters.
pub const QUARTER: i64 = 15 * 60 * 1000;

/// As much of the first prompt as a title may need, in characters.
const TITLE_LENGTH: usize = 200;

/// Facts about a run of messages. Ids are kept as hashes, because one call, result or answer may
/// be recorded in several messages and counts once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// How many messages.
    pub messages: u64,
    /// Messages that hold nothing but a record that was not understood.
    #[serde(skip_serializing_if = "is_nothing")]
    pub raw: u64,
    /// How many prompts of a person.
    #[serde(skip_serializing_if = "is_nothing")]
    pub prompts: u64,
    /// How many characters those prompts have.
    #[serde(skip_serializing_if = "is_nothing")]
    pub prompt_chars: u64,
    /// The model's answers.
    pub answers: Vec<u64>,
    /// Answers without any id: each counts for itself.
    #[serde(skip_serializing_if = "is_nothing")]
    pub nameless_answers: u64,
    /// Calls of tools.
    #[serde(skip_serializing_if = "is_nothing")]
    pub calls: Vec<Call>,
    /// Results of tools.
    #[serde(skip_serializing_if = "is_nothing")]
    pub results: Vec<u64>,
    /// Results that report a failure.
    #[serde(skip_serializing_if = "is_nothing")]
    pub errors: Vec<Failure>,
    /// Names of tools, to which calls refer by place.
    #[serde(skip_serializing_if = "is_nothing")]
    pub tools: Vec<String>,
    /// Quarters in which the agent itself failed.
    #[serde(skip_serializing_if = "is_nothing")]
    pub agent_failures: Vec<i64>,
    /// Prompts and their characters by quarter.
    #[serde(skip_serializing_if = "is_nothing")]
    pub prompt_quarters: BTreeMap<i64, (u64, u64)>,
    /// Files that tools changed, with the number of calls.
    #[serde(skip_serializing_if = "is_nothing")]
    pub files: BTreeMap<String, u64>,
    /// Of those calls, the ones that wrote the file as a whole.
    #[serde(skip_serializing_if = "is_nothing")]
    pub created_files: BTreeMap<String, u64>,
    /// Files that tools only looked at, with the number of calls.
    #[serde(skip_serializing_if = "is_nothing")]
    pub viewed_files: BTreeMap<String, u64>,
    /// Every branch that was worked on, in the order they came.
    #[serde(skip_serializing_if = "is_nothing")]
    pub branches: Vec<String>,
    /// Every working directory, in the order they came.
    #[serde(skip_serializing_if = "is_nothing")]
    pub directories: Vec<String>,
    /// How many pictures.
    #[serde(skip_serializing_if = "is_nothing")]
    pub images: u64,
    /// Answers that the program wrote itself, in place of a model.
    #[serde(skip_serializing_if = "is_nothing")]
    pub synthetic: u64,
    /// Models, with the number of messages each wrote.
    #[serde(skip_serializing_if = "is_nothing")]
    pub models: BTreeMap<String, u64>,
    /// When the messages were recorded, in milliseconds since 1970.
    pub times: Vec<i64>,
    /// When the session's files record something that became no message. No run of messages knows
    /// it: it is added to the facts of a session.
    #[serde(skip)]
    pub activity: Vec<i64>,
    /// The beginning of the first prompt.
    #[serde(skip_serializing_if = "is_nothing")]
    pub first_prompt: Option<String>,
    /// When the first message was said or done, in milliseconds since 1970: notices are left out.
    #[serde(skip_serializing_if = "is_nothing")]
    pub first_said: Option<i64>,
    /// When the last message was said or done.
    #[serde(skip_serializing_if = "is_nothing")]
    pub last_said: Option<i64>,
    /// Whether the last message of either side says that the agent failed.
    #[serde(skip_serializing_if = "is_nothing")]
    pub ends_failed: Option<bool>,
}

/// A call of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Hash of its id.
    pub id: u64,
    /// Place of the tool's name.
    pub tool: u32,
    /// The quarter hour it was made in, since 1970; 0 when that is not known.
    pub quarter: i64,
}

/// A result that reports a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Hash of the call's id.
    pub id: u64,
    /// Its kind, which `failure_name` names.
    pub kind: u8,
}

/// What is counted of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Prompts of a person.
    pub user_prompts: u64,
    /// Answers of a model.
    pub assistant_messages: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Results of tools.
    pub tool_results: u64,
    /// Results that report a failure.
    pub tool_errors: u64,
    /// Messages of any kind.
    pub messages: u64,
}

impl Facts {
    /// Adds a message at the end of the run.
    pub fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.raw += u64::from(message.is_raw());
        self.times.extend(message.at.map(super::Timestamp::as_millis));
        // A message without a time belongs to the time of the one before.
        let quarter = self.times.last().map_or(0, |at| at.div_euclid(QUARTER));
        if message.origin.is_prompt() && !message.sidechain {
            self.add_prompt(&message.text(), quarter);
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
            // It worked for the session, though none of the messages is known to be its own.
            self.models.entry(model.clone()).or_default();
        }
        self.synthetic +=
            u64::from(message.role == Role::Assistant && message.origin == Origin::System);
        if matches!(message.role, Role::User | Role::Assistant) || message.failed {
            self.ends_failed = Some(message.failed);
        }
        add_new(&mut self.branches, message.branch.as_deref());
        add_new(&mut self.directories, message.cwd.as_deref());
        for block in &message.blocks {
            match block {
                Block::ToolCall { id, name, input } => {
                    let name = tool_name(name);
                    self.add_files(&name, input);
                    let tool = self.tool(&name);
                    self.calls.push(Call { id: hash(id), tool, quarter });
                }
                Block::ToolResult { call_id, is_error, output } => {
                    let id = hash(call_id);
                    self.results.push(id);
                    if *is_error == Some(true) {
                        self.errors.push(Failure { id, kind: failure_kind(output) });
                    }
                }
                Block::Image(_) => self.images += 1,
                _ => {}
            }
        }
    }

    /// Counts the files a call names.
    fn add_files(&mut self, tool: &str, input: &Json) {
        let changed = changed_files(tool, input);
        if !changed.is_empty() {
            count_all(&mut self.created_files, created_files(tool, input));
        }
        count_all(&mut self.files, changed);
        count_all(&mut self.viewed_files, viewed_files(tool, input));
    }

    /// Finds the place of a tool's name, or makes one.
    fn tool(&mut self, name: &str) -> u32 {
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
            self.first_prompt = Some(beginning(text));
        }
    }

    fn add_answer(&mut self, message: &Message) {
        match message.api_id.as_ref().or(message.uuid.as_ref()) {
            Some(id) => self.answers.push(hash(id)),
            None => self.nameless_answers += 1,
        }
        if let Some(model) = &message.model {
            match self.models.get_mut(model) {
                Some(count) => *count += 1,
                None => drop(self.models.insert(model.clone(), 1)),
            }
        }
    }

    /// Adds the facts of the messages that follow.
    pub fn append(&mut self, later: Facts) {
        self.messages += later.messages;
        self.raw += later.raw;
        self.prompts += later.prompts;
        self.prompt_chars += later.prompt_chars;
        self.answers.extend(later.answers);
        self.nameless_answers += later.nameless_answers;
        for call in later.calls {
            let name = later.tools.get(call.tool as usize).map_or("", String::as_str);
            let tool = self.tool(name);
            self.calls.push(Call { tool, ..call });
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
            add_new(&mut self.branches, Some(branch));
        }
        for directory in &later.directories {
            add_new(&mut self.directories, Some(directory));
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

    /// Counts what was recorded, each thing once.
    pub fn counts(&self) -> Counts {
        let distinct = |ids: &[u64]| ids.iter().collect::<HashSet<_>>().len() as u64;
        Counts {
            user_prompts: self.prompts,
            assistant_messages: distinct(&self.answers) + self.nameless_answers,
            tool_calls: self.calls.iter().map(|call| call.id).collect::<HashSet<_>>().len() as u64,
            tool_results: distinct(&self.results),
            tool_errors: self.errors.iter().map(|one| one.id).collect::<HashSet<_>>().len() as u64,
            messages: self.messages,
        }
    }

    /// Leaves out the times of messages outside a span: notices do not widen a conversation.
    pub fn clip_times(&mut self, first: Option<i64>, last: Option<i64>) {
        if let Some((first, last)) = first.zip(last) {
            self.times.retain(|at| (first..=last).contains(at));
            self.activity.retain(|at| (first..=last).contains(at));
        }
    }

    /// Returns when something was said or done, in order.
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

/// Adds a text to a list that has each once; most often it is the last one again.
fn add_new(known: &mut Vec<String>, text: Option<&str>) {
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

/// Whether there is nothing to be written down.
fn is_nothing<T: Default + PartialEq>(fact: &T) -> bool {
    *fact == T::default()
}

/// The hash under which facts know a call.
pub(crate) fn hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

fn beginning(text: &str) -> String {
    text.trim().chars().take(TITLE_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;

    #[test]
    fn pauses_count_for_five_minutes() {
        // R180: two minutes, eight hours, one minute.
        let mut facts = Facts::default();
        for minutes in [0, 2, 482, 483] {
            let at = Timestamp::from_millis(minutes * 60_000);
            facts.add(&Message { at, ..Message::default() });
        }
        assert_eq!(facts.active_seconds(), 8 * 60);
    }

    #[test]
    fn an_answer_told_in_two_messages_counts_once() {
        let part = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            api_id: Some("msg_1".into()),
            ..Message::default()
        };
        let mut first = Facts::default();
        first.add(&part);
        let mut second = Facts::default();
        second.add(&part);
        first.append(second);
        assert_eq!(first.counts().assistant_messages, 1);
        assert_eq!(first.counts().messages, 2);
    }
}
