//! The rules by which `aj` is compared with what really happened in recordings of real agents, whose
//! model server decided every answer and noted every token. `recorded_agents.rs` and the chore
//! `cargo xtask farm` share them.
#![allow(clippy::unwrap_used, reason = "a comparison that cannot go on has failed")]
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "shared with the chores of the project"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One line of a recording's truth.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// A prompt that a person typed.
    Prompt {
        text: String,
    },
    Call(Call),
    /// A title that a person chose.
    Title {
        text: String,
    },
    #[serde(other)]
    Other,
}

/// One answered request to the model.
#[derive(Clone, Deserialize)]
pub struct Call {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub tools: Vec<Tool>,
    pub purpose: String,
    /// Asked by the agent for itself: a title, a compaction.
    pub hidden: bool,
    /// Asked by a sub-agent.
    pub sub_agent: bool,
    /// The text of the answer, different for each call.
    pub text: String,
}

#[derive(Clone, Deserialize)]
pub struct Tool {
    pub fails: bool,
}

/// The figures that are compared, by name.
type Figures = BTreeMap<&'static str, u64>;

/// Recordings that must be read, each with the figures that its agent records nowhere.
pub const RECORDINGS: &[(&str, &[&str])] = &[
    ("claude", &[]),
    ("codex", &[]),
    ("copilot", &[]),
    ("gemini", &[]),
    ("qwen", &[]),
    ("pi", &["reasoning"]),
    ("pi87", &[]),
    ("openclaw", &[]),
    ("hermes", &["model_calls"]),
    ("kimi", &["reasoning"]),
    ("opencode", &[]),
    ("kilo", &[]),
    ("cline", &["reasoning"]),
    ("continue", &[]),
    ("grok", &["model_calls"]),
    ("droid", &["model_calls", "reasoning"]),
    ("goose", &["model_calls", "input", "cache_read", "reasoning"]),
];

/// A figure on which a view and the truth disagree.
pub struct Difference {
    pub view: &'static str,
    pub figure: &'static str,
    pub expected: u64,
    pub found: u64,
}

/// Runs `aj` and returns its JSON document, or `None` if it found nothing.
pub type AskProgram<'a> = dyn FnMut(&[&str]) -> Option<Value> + 'a;

/// Compares the views of an indexed recording with the truth. Returns `None` if no session was read.
pub fn compare_recording(
    recording: &str,
    facts: &[Fact],
    ask: &mut AskProgram<'_>,
) -> Option<Vec<Difference>> {
    let stats = ask(&["stats", "--json"])?;
    let list = ask(&["list", "--json", "--all", "--limit", "0"])?;
    let choices = expectations(facts, BILLED.contains(&rules_name(recording)));
    let unrecorded = unrecorded_figures(recording);
    let mut differences = Vec::new();
    for (view, found) in [
        ("stats", figures_of_stats(&stats)),
        ("list", figures_of_list(&list, facts)),
        ("show", figures_of_show(&list, facts, ask)),
    ] {
        // A list does not say how often a model was called: the figures that it has are compared.
        let differing = |choice: &Figures| -> Vec<Difference> {
            let recorded = found.iter().filter(|(name, _)| !unrecorded.contains(name));
            let wrong = recorded.filter(|(name, sum)| choice[*name] != **sum);
            wrong
                .map(|(figure, found)| {
                    let (expected, found) = (choice[figure], *found);
                    Difference { view, figure, expected, found }
                })
                .collect()
        };
        differences.extend(choices.iter().map(differing).min_by_key(Vec::len).unwrap_or_default());
    }
    Some(differences)
}

/// Returns the name in `RECORDINGS` whose rules apply: `claude` for the recording `claude-compact`.
fn rules_name(recording: &str) -> &str {
    recording.split('-').next().unwrap_or(recording)
}

/// Returns the figures that the agent of a recording records nowhere.
fn unrecorded_figures(recording: &str) -> &'static [&'static str] {
    let known = RECORDINGS.iter().find(|(name, _)| *name == rules_name(recording));
    known.map_or(&[], |(_, unrecorded)| *unrecorded)
}

pub fn read_truth(path: &Path) -> Vec<Fact> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Agents that keep a bill of their own: every token counts, also those of calls that they record
/// nowhere. How many such calls there were a bill does not say.
const BILLED: &[&str] = &["claude"];

/// Returns the figures that are right. Agents record some of the calls that they make for
/// themselves nowhere: all calls of a purpose may be missing, none of it in part.
fn expectations(facts: &[Fact], is_exact: bool) -> Vec<Figures> {
    let calls = || {
        facts.iter().filter_map(|fact| match fact {
            Fact::Call(call) => Some(call),
            _ => None,
        })
    };
    let count = |is_one: fn(&&Fact) -> bool| facts.iter().filter(is_one).count() as u64;
    let prompts = count(|fact| matches!(fact, Fact::Prompt { .. }));
    let titles = count(|fact| matches!(fact, Fact::Title { .. }));
    let purposes: BTreeSet<&str> =
        calls().filter(|call| call.hidden).map(|call| call.purpose.as_str()).collect();
    let purposes: Vec<&str> = purposes.into_iter().collect();
    let all = 1_usize << purposes.len();
    let choices = if is_exact { all - 1..all } else { 0..all };
    choices
        .map(|choice| {
            let is_recorded = |call: &&Call| {
                let at = purposes.iter().position(|purpose| *purpose == call.purpose);
                !call.hidden || at.is_some_and(|at| choice & (1 << at) != 0)
            };
            let counted: Vec<&Call> = calls().filter(is_recorded).collect();
            let sum = |of: fn(&Call) -> u64| counted.iter().map(|call| of(call)).sum::<u64>();
            let tools = || calls().filter(|call| !call.hidden).flat_map(|call| &call.tools);
            Figures::from([
                ("prompts", prompts),
                ("titles", titles),
                ("messages", said_texts(facts).count() as u64),
                ("tool_calls", tools().count() as u64),
                ("tool_errors", tools().filter(|tool| tool.fails).count() as u64),
                (
                    "model_calls",
                    counted.iter().filter(|call| !(is_exact && call.hidden)).count() as u64,
                ),
                ("input", sum(|call| call.input)),
                ("output", sum(|call| call.output)),
                ("cache_read", sum(|call| call.cache_read)),
                ("cache_creation", sum(|call| call.cache_write)),
                ("reasoning", sum(|call| call.reasoning)),
            ])
        })
        .collect()
}

fn figures_of_stats(stats: &Value) -> Figures {
    let totals = &stats["totals"];
    figures(
        &[
            ("prompts", &totals["prompts"]),
            ("tool_calls", &totals["tool_calls"]),
            ("tool_errors", &totals["tool_errors"]),
            ("model_calls", &totals["model_calls"]),
        ],
        &totals["tokens"],
    )
}

/// Adds up the rows of a list, and counts the chosen titles that it shows.
fn figures_of_list(list: &Value, facts: &[Fact]) -> Figures {
    let rows = list["sessions"].as_array().unwrap();
    let mut figures = add_up(rows);
    let chosen = facts.iter().filter_map(|fact| match fact {
        Fact::Title { text } => Some(text.as_str()),
        _ => None,
    });
    let is_shown = |title: &&str| rows.iter().any(|row| row["title"] == *title);
    figures.insert("titles", chosen.filter(is_shown).count() as u64);
    figures
}

/// Adds up the figures of the shown sessions, and counts the prompts and answers among their
/// messages.
fn figures_of_show(list: &Value, facts: &[Fact], ask: &mut AskProgram<'_>) -> Figures {
    let rows = list["sessions"].as_array().unwrap();
    let ids = rows.iter().map(|row| row["id"].as_str().unwrap());
    let shown: Vec<Value> = ids.map(|id| ask(&["show", id, "--json", "--all"]).unwrap()).collect();
    let sessions: Vec<Value> = shown.iter().map(|document| document["session"].clone()).collect();
    let mut texts = Vec::new();
    for document in &shown {
        collect_texts(&document["messages"], &mut texts);
    }
    let mut figures = add_up(&sessions);
    let is_shown = |said: &&str| texts.iter().any(|text| text.contains(said));
    figures.insert("messages", said_texts(facts).filter(is_shown).count() as u64);
    figures
}

/// Lists the texts of the conversation: prompts, and answers that the agent did not ask for itself.
fn said_texts(facts: &[Fact]) -> impl Iterator<Item = &str> {
    facts.iter().filter_map(|fact| match fact {
        Fact::Prompt { text } => Some(text.as_str()),
        Fact::Call(call) => (!call.hidden).then_some(call.text.as_str()),
        Fact::Title { .. } | Fact::Other => None,
    })
}

/// Collects all texts in a JSON value.
fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect_texts(field, texts)),
        _ => {}
    }
}

/// Adds up figures of sessions. A sub-agent's task is no prompt of a person.
fn add_up(sessions: &[Value]) -> Figures {
    let mut sums = Figures::new();
    for session in sessions {
        let is_person = session["is_agent_session"] != true;
        let prompts = if is_person { &session["counts"]["user_prompts"] } else { &Value::Null };
        let own = figures(
            &[
                ("prompts", prompts),
                ("tool_calls", &session["counts"]["tool_calls"]),
                ("tool_errors", &session["counts"]["tool_errors"]),
            ],
            &session["tokens"],
        );
        for (name, number) in own {
            *sums.entry(name).or_default() += number;
        }
    }
    sums
}

/// Reads counts and classes of tokens; what is unknown counts nothing.
fn figures(counts: &[(&'static str, &Value)], tokens: &Value) -> Figures {
    let classes = ["input", "output", "cache_read", "cache_creation", "reasoning"];
    let of_tokens = classes.into_iter().map(|name| (name, &tokens[name]));
    let all = counts.iter().copied().chain(of_tokens);
    all.map(|(name, value)| (name, value.as_u64().unwrap_or(0))).collect()
}
