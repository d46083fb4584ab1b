//! Compares `aj` with what really happened in recordings of real agents, whose model server decided
//! every answer and noted every token. The recordings are not published (`AJ_FARM`); where they are
//! absent the test says so and passes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Test, copy};

/// One line of a recording's truth.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Fact {
    Prompt,
    Call(Call),
    #[serde(other)]
    Other,
}

/// One answered request to the model.
#[derive(Clone, Deserialize)]
struct Call {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    tools: Vec<Tool>,
    purpose: String,
    /// Asked by the agent for itself: a title, a compaction.
    hidden: bool,
}

#[derive(Clone, Deserialize)]
struct Tool {
    fails: bool,
}

/// The figures that are compared, by name.
type Figures = BTreeMap<&'static str, u64>;

/// Recordings that must be read, each with the figures that its agent records nowhere.
const RECORDINGS: &[(&str, &[&str])] = &[
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
];

#[test]
fn figures_of_recorded_agents_equal_what_happened() {
    let Some(recordings) = recordings() else { return };
    let mut compared = BTreeSet::new();
    let mut wrong = Vec::new();
    for recording in recordings {
        let name = recording.file_name().unwrap().to_string_lossy().into_owned();
        let test = Test::new();
        copy(&recording.join("home"), &test.path(""));
        test.aj("index").code(0);
        let stats = test.aj("stats --json");
        if stats.code != Some(0) {
            continue;
        }
        compared.insert(name.clone());
        let facts = read_truth(&recording.join("truth.jsonl"));
        let is_exact = BILLED.contains(&name.as_str());
        let choices = expectations(&facts, is_exact);
        let unrecorded = unrecorded_figures(&name);
        for (view, found) in [
            ("stats", figures_of_stats(&stats.json())),
            ("list", figures_of_list(&test)),
            ("show", figures_of_show(&test)),
        ] {
            // A list does not say how often a model was called: what it says is compared.
            let agrees = |choice: &Figures| {
                let mut recorded = found.iter().filter(|(name, _)| !unrecorded.contains(name));
                recorded.all(|(name, sum)| choice[name] == *sum)
            };
            if !choices.iter().any(agrees) {
                wrong.push(format!("{name}, {view}: {found:?}\n  expected {:?}", choices.last()));
            }
        }
    }
    for (name, _) in RECORDINGS {
        assert!(compared.contains(*name), "{name} was not read");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the figures that the agent of a recording records nowhere.
fn unrecorded_figures(recording: &str) -> &'static [&'static str] {
    let known = RECORDINGS.iter().find(|(name, _)| *name == recording);
    known.map_or(&[], |(_, unrecorded)| *unrecorded)
}

/// Lists the recordings in `AJ_FARM` or beside the project.
fn recordings() -> Option<Vec<PathBuf>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/farm/recordings");
    let directory = std::env::var_os("AJ_FARM").map_or_else(beside, PathBuf::from);
    let Ok(entries) = fs::read_dir(&directory) else {
        eprintln!("skipped: no recordings in AJ_FARM or ../shared/farm/recordings");
        return None;
    };
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.join("truth.jsonl").is_file());
    all.sort();
    Some(all)
}

fn read_truth(path: &Path) -> Vec<Fact> {
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
    let prompts = facts.iter().filter(|fact| matches!(fact, Fact::Prompt)).count() as u64;
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

/// Adds up the rows of a list. A sub-agent's task is no prompt of a person.
fn figures_of_list(test: &Test) -> Figures {
    let answer = test.aj("list --json --all --limit 0").code(0).json();
    add_up(answer["sessions"].as_array().unwrap())
}

fn figures_of_show(test: &Test) -> Figures {
    let answer = test.aj("list --json --all --limit 0").code(0).json();
    let ids = answer["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap());
    let shown: Vec<Value> =
        ids.map(|id| test.args(["show", id, "--json"]).code(0).json()["session"].clone()).collect();
    add_up(&shown)
}

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
