//! Totals are what the raw files say: an independent, naive count that shares no code with the
//! connectors, and laws that no way of laying out the same files may break.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::analyze::{Extent, Figures, GroupBy, Stats, StatsQuery};
use agent_journal::connectors::Machine;
use agent_journal::search::{DayEdge, Filter, Scope, date};
use agent_journal::{Config, Journal, SyncOptions};
use jiff::Zoned;
use proptest::prelude::*;
use serde_json::{Value, json};

/// One model call of a made-up session.
#[derive(Clone, Debug)]
struct Call {
    id: u32,
    /// Output as the first and the last line of the call tell it.
    output: (u64, u64),
    cache_read: u64,
    model: &'static str,
    minute: i64,
}

/// Files of a home, by their place in it.
type Files = BTreeMap<String, Vec<Value>>;

const DAY: &str = "2026-11-01T22:00:00Z";

fn at(minute: i64) -> String {
    let start: jiff::Timestamp = DAY.parse().unwrap();
    (start + jiff::SignedDuration::from_mins(minute)).to_string()
}

/// A file in the manner of Claude Code: a prompt, then each call in two lines with one identity.
fn claude(session: &str, calls: &[Call]) -> Vec<Value> {
    let base = |kind: &str, uuid: String, minute: i64| {
        json!({ "type": kind, "sessionId": session, "uuid": uuid, "timestamp": at(minute),
                "cwd": "/src/web", "version": "2.1.0", "isSidechain": false })
    };
    let mut prompt = base("user", format!("{session}-prompt"), 0);
    prompt["message"] = json!({ "role": "user", "content": "please go on" });
    let mut lines = vec![prompt];
    for call in calls {
        for (part, output) in [call.output.0, call.output.1].into_iter().enumerate() {
            let mut line = base("assistant", format!("u{}-{part}", call.id), call.minute);
            line["requestId"] = json!(format!("req{}", call.id));
            line["message"] = json!({
                "id": format!("msg{}", call.id), "role": "assistant", "model": call.model,
                "content": [{ "type": "text", "text": format!("part {part}") }],
                "usage": { "input_tokens": 3, "output_tokens": output,
                           "cache_read_input_tokens": call.cache_read,
                           "cache_creation_input_tokens": 7 },
            });
            lines.push(line);
        }
    }
    lines
}

/// A file in the manner of Codex: running totals, each told twice.
fn codex(session: &str, outputs: &[u64]) -> Vec<Value> {
    let line = |kind: &str, payload: Value, minute: i64| json!({ "timestamp": at(minute), "type": kind, "payload": payload });
    let meta =
        json!({ "id": session, "timestamp": at(0), "cwd": "/src/api", "cli_version": "0.98.0" });
    let mut lines = vec![line("session_meta", meta, 0)];
    lines.push(line("turn_context", json!({ "cwd": "/src/api", "model": "gpt-5-codex" }), 0));
    lines.push(line("event_msg", json!({ "type": "user_message", "message": "go" }), 0));
    let mut sum = 0;
    for (turn, output) in outputs.iter().enumerate() {
        sum += output;
        let turns = turn as u64 + 1;
        let usage = |n: u64, output: u64| {
            json!({ "input_tokens": 100 * n, "cached_input_tokens": 90 * n,
                    "output_tokens": output, "reasoning_output_tokens": 0,
                    "total_tokens": 100 * n + output })
        };
        let info = json!({ "total_token_usage": usage(turns, sum),
                           "last_token_usage": usage(1, *output) });
        let count = json!({ "type": "token_count", "info": info });
        for _ in 0..2 {
            lines.push(line("event_msg", count.clone(), turn as i64 + 1));
        }
    }
    lines
}

fn claude_path(project: &str, name: &str) -> String {
    format!(".claude/projects/{project}/{name}.jsonl")
}

fn codex_path(session: &str) -> String {
    format!(".codex/sessions/2026/11/01/rollout-2026-11-01T22-00-00-{session}.jsonl")
}

/// Input, output, cache read and cache creation by model, counted on the raw files.
type Naive = BTreeMap<String, [u64; 4]>;

fn naive(files: &Files) -> Naive {
    let mut calls: BTreeMap<(String, String), (String, [u64; 4])> = BTreeMap::new();
    let mut sums = Naive::new();
    let mut add = |model: &str, numbers: [u64; 4]| {
        let sum = sums.entry(model.to_owned()).or_default();
        for (sum, number) in sum.iter_mut().zip(numbers) {
            *sum += number;
        }
    };
    let mut rollouts: BTreeMap<&str, &Vec<Value>> = BTreeMap::new();
    for (path, lines) in files {
        if path.starts_with(".codex") {
            rollouts.insert(lines[0]["payload"]["id"].as_str().unwrap(), lines);
            continue;
        }
        for line in lines.iter().filter(|line| line["message"]["usage"].is_object()) {
            let (message, usage) = (&line["message"], &line["message"]["usage"]);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let number = |name: &str| usage[name].as_u64().unwrap();
            let numbers = [
                number("input_tokens"),
                number("output_tokens"),
                number("cache_read_input_tokens"),
                number("cache_creation_input_tokens"),
            ];
            let known = calls.entry((text(&message["id"]), text(&line["requestId"])));
            let call = known.or_insert((text(&message["model"]), numbers));
            call.1[1] = call.1[1].max(numbers[1]);
        }
    }
    for (model, numbers) in calls.values() {
        add(model, *numbers);
    }
    for lines in rollouts.values() {
        let last = lines.iter().rev().find(|line| line["payload"]["type"] == "token_count");
        let Some(last) = last else { continue };
        let total = &last["payload"]["info"]["total_token_usage"];
        let number = |name: &str| total[name].as_u64().unwrap();
        let (input, cached) = (number("input_tokens"), number("cached_input_tokens"));
        add("gpt-5-codex", [input - cached, number("output_tokens"), cached, 0]);
    }
    sums
}

struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn write(&self, path: &str, lines: &[Value]) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    fn journal(&self) -> Journal {
        let config = Config::new(self.directory.path().join("journal"));
        let home: &Path = self.directory.path();
        let machine = Machine { home: home.to_owned(), ..Machine::default() };
        let mut journal = Journal::open(config, machine).unwrap();
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        journal
    }
}

fn now() -> Zoned {
    "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()
}

fn query(by: Option<GroupBy>) -> StatsQuery {
    let filter = Filter { scope: Scope::All, ..Filter::default() };
    StatsQuery { filter, by, extent: Extent::Tasks, now: now(), explain: true }
}

fn stats(journal: &Journal, by: Option<GroupBy>) -> Stats {
    journal.stats(&query(by)).unwrap()
}

fn four(figures: &Figures) -> [u64; 4] {
    let tokens = figures.tokens;
    [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation]
}

fn by_model(stats: &Stats) -> Naive {
    stats.models.iter().map(|group| (group.key.clone(), four(&group.figures))).collect()
}

fn laid_out(files: &Files) -> Naive {
    let home = Home::new();
    for (path, lines) in files {
        home.write(path, lines);
    }
    by_model(&stats(&home.journal(), None))
}

fn call(id: u32) -> Call {
    let model = if id.is_multiple_of(3) { "glm-5" } else { "claude-opus-4-5" };
    let output = (u64::from(id) % 5 + 1, u64::from(id) * 10 + 6);
    Call { id, output, cache_read: u64::from(id) * 100, model, minute: i64::from(id) }
}

fn calls(ids: std::ops::Range<u32>) -> Vec<Call> {
    ids.map(call).collect()
}

/// Two sessions of one agent, one of another.
fn small() -> Files {
    Files::from([
        (claude_path("-src-web", "a"), claude("a", &calls(1..6))),
        (claude_path("-src-web", "b"), claude("b", &calls(6..9))),
        (
            codex_path("0199c512-0000-7000-8000-000000000001"),
            codex("0199c512-0000-7000-8000-000000000001", &[10, 20, 30]),
        ),
    ])
}

#[test]
fn totals_equal_a_naive_count_of_the_raw_files() {
    let files = small();
    let expected = naive(&files);
    assert_eq!(laid_out(&files), expected);
    assert_eq!(expected["gpt-5-codex"], [30, 60, 270, 0]);
    assert_eq!(
        expected["claude-opus-4-5"][1],
        [1, 2, 4, 5, 7, 8].map(|id| id * 10 + 6).iter().sum::<u64>()
    );
}

#[test]
fn every_way_of_sorting_adds_up_to_the_same() {
    let home = Home::new();
    for (path, lines) in &small() {
        home.write(path, lines);
    }
    let journal = home.journal();
    let whole = stats(&journal, None).totals;
    for by in [
        GroupBy::Day,
        GroupBy::Week,
        GroupBy::Month,
        GroupBy::Hour,
        GroupBy::Agent,
        GroupBy::Model,
        GroupBy::Project,
        GroupBy::Branch,
        GroupBy::Session,
    ] {
        let mut sum = [0; 4];
        for group in stats(&journal, Some(by)).groups {
            sum = std::array::from_fn(|at| sum[at] + four(&group.figures)[at]);
        }
        assert_eq!(sum, four(&whole), "{by:?}");
    }
}

#[test]
fn a_resumed_session_repeats_calls_that_count_once() {
    let mut files = small();
    let expected = naive(&files);
    // The new file begins with the old history, told under the new id.
    let mut resumed = claude("c", &calls(1..6));
    resumed.extend(claude("c", &calls(20..22)).into_iter().skip(1));
    files.insert(claude_path("-src-web", "c"), resumed);
    let found = laid_out(&files);
    assert_eq!(found, naive(&files));
    let of = |sums: &Naive| sums.values().map(|four| four[1]).sum::<u64>();
    assert_eq!(of(&found) - of(&expected), 206 + 216);
}

#[test]
fn sub_agents_count_for_their_task_and_can_be_left_out() {
    let home = Home::new();
    home.write(&claude_path("-src-web", "a"), &claude("a", &calls(1..3)));
    let mut inner = claude("a", &calls(3..5));
    for line in &mut inner {
        line["isSidechain"] = json!(true);
        line["agentId"] = json!("f00");
    }
    home.write(".claude/projects/-src-web/a/subagents/agent-f00.jsonl", &inner);
    let journal = home.journal();
    let whole = stats(&journal, Some(GroupBy::Session));
    assert_eq!(whole.groups.len(), 1, "one task");
    assert_eq!((whole.totals.sessions, whole.totals.prompts, whole.totals.model_calls), (1, 1, 4));
    let own = StatsQuery { extent: Extent::OwnOnly, ..query(None) };
    assert_eq!(journal.stats(&own).unwrap().totals.model_calls, 2);
}

#[test]
fn a_session_across_midnight_counts_on_both_days_of_the_zone() {
    let home = Home::new();
    // 22:00 to 03:20 UTC: two days in London, one in New York.
    let late: Vec<Call> =
        (1..9).map(|id| Call { minute: i64::from(id) * 40, ..call(id) }).collect();
    home.write(&claude_path("-src-web", "a"), &claude("a", &late));
    let journal = home.journal();
    let days = |zone: &str| {
        let now = now().in_tz(zone).unwrap();
        let found = journal.stats(&StatsQuery { now, ..query(Some(GroupBy::Day)) }).unwrap();
        assert_eq!(found.totals.sessions, 1);
        found.groups.iter().map(|day| (day.key.clone(), day.figures.sessions)).collect::<Vec<_>>()
    };
    assert_eq!(days("Europe/London"), [("2026-11-01".into(), 1), ("2026-11-02".into(), 1)]);
    assert_eq!(days("America/New_York"), [("2026-11-01".into(), 1)]);
}

#[test]
fn a_period_is_compared_with_the_one_before() {
    let home = Home::new();
    let old: Vec<Call> = calls(1..3);
    home.write(&claude_path("-src-web", "a"), &claude("a", &old));
    let journal = home.journal();
    let since = date("2026-11-08", &now(), DayEdge::Start).unwrap();
    let filter = Filter { since: Some(since), scope: Scope::All, ..Filter::default() };
    let found = journal.stats(&StatsQuery { filter, ..query(None) }).unwrap();
    assert_eq!(found.totals.model_calls, 0);
    assert_eq!(found.previous.map(|it| (it.sessions, it.model_calls)), Some((1, 2)));
}

#[test]
fn what_is_not_counted_is_explained() {
    let home = Home::new();
    let lines = claude("a", &calls(1..4));
    home.write(&claude_path("-src-web", "a"), &lines);
    home.write(&claude_path("-copy", "a"), &lines);
    let explained = stats(&home.journal(), None).explained.unwrap();
    let copies: u64 = explained
        .not_counted
        .iter()
        .filter(|reason| reason.name.contains("another file"))
        .map(|reason| reason.count)
        .sum();
    assert_eq!(copies, 3);
    let unpriced: Vec<&str> =
        explained.unpriced_models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(unpriced, ["glm-5"]);
}

#[test]
fn a_fast_call_counts_for_its_model_and_has_no_price_of_the_usual_speed() {
    let home = Home::new();
    let mut lines = claude("a", &calls(1..3));
    for line in lines.iter_mut().skip(3) {
        line["message"]["usage"]["speed"] = json!("fast");
    }
    home.write(&claude_path("-src-web", "a"), &lines);
    let stats = stats(&home.journal(), None);
    assert_eq!(stats.models.len(), 1);
    assert_eq!(stats.models[0].key, call(1).model);
    let share = stats.models[0].figures.cost.priced_share().unwrap();
    assert!(share > 0.0 && share < 1.0, "{share}");
    let unpriced = &stats.explained.unwrap().unpriced_models;
    assert_eq!(unpriced[0].name, format!("{} +fast", call(1).model));
}

#[test]
fn every_kind_of_what_is_not_counted_has_its_number() {
    let home = Home::new();
    let mut lines = claude("a", &calls(1..4));
    let mut notice = claude("a", &calls(9..10)).remove(1);
    notice["message"]["model"] = json!("<synthetic>");
    notice["isApiErrorMessage"] = json!(true);
    lines.push(notice);
    home.write(&claude_path("-src-web", "a"), &lines);
    home.write(&claude_path("-copy", "a"), &lines);
    // Replayed under another id.
    home.write(&claude_path("-src-web", "b"), &claude("b", &calls(1..3)));
    let found = stats(&home.journal(), None);
    let explained = found.explained.unwrap();
    let count = |words: &str| {
        let fits = explained.not_counted.iter().filter(|it| it.name.contains(words));
        fits.map(|it| it.count).sum::<u64>()
    };
    assert_eq!(count("another file"), 3);
    assert_eq!(count("replayed"), 2);
    // The notice is the same in both files of the session, and one of them is shown.
    assert_eq!(count("synthetic"), 1);
    assert_eq!(found.totals.model_calls, 3);
    let unpriced: Vec<_> =
        explained.unpriced_models.iter().map(|it| (&*it.name, it.count)).collect();
    assert_eq!(unpriced, [("glm-5", 3 + 36 + 300 + 7)]);
}

/// How a history is laid out in files.
#[derive(Clone, Debug)]
struct Layout {
    /// Lengths of sessions, in calls.
    sessions: Vec<u32>,
    /// Which files are copied elsewhere.
    copies: Vec<bool>,
    /// Where each session is split into two files.
    splits: Vec<Option<prop::sample::Index>>,
    /// In which of three steps each file appears.
    steps: Vec<u8>,
    /// In which order files are named.
    names: Vec<u16>,
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop::collection::vec(1u32..6, 1..4).prop_flat_map(|sessions| {
        let count = sessions.len();
        (
            Just(sessions),
            prop::collection::vec(any::<bool>(), count),
            prop::collection::vec(any::<Option<prop::sample::Index>>(), count),
            prop::collection::vec(0u8..3, count * 3),
            prop::collection::vec(any::<u16>(), count * 3),
        )
            .prop_map(|(sessions, copies, splits, steps, names)| Layout {
                sessions,
                copies,
                splits,
                steps,
                names,
            })
    })
}

impl Layout {
    /// The history, one file a session.
    fn plain(&self) -> Files {
        let mut first = 1;
        let mut files = Files::new();
        for (at, length) in self.sessions.iter().enumerate() {
            let lines = claude(&format!("s{at}"), &calls(first..first + length));
            files.insert(claude_path("-src-web", &format!("s{at}")), lines);
            first += length;
        }
        files
    }

    /// The same history, copied and split.
    fn laid_out(&self) -> Vec<(String, Vec<Value>)> {
        let mut files = Vec::new();
        for (at, lines) in self.plain().into_values().enumerate() {
            let name = |part: usize| {
                let project = format!("-{:05}", self.names[at * 3 + part]);
                let stem = if part == 1 { format!("s{at}-more") } else { format!("s{at}") };
                claude_path(&format!("{project}-{part}"), &stem)
            };
            if self.copies[at] {
                files.push((name(2), lines.clone()));
            }
            match self.splits[at] {
                // A split between two lines of one call is the hardest one.
                Some(index) if lines.len() > 2 => {
                    let (head, tail) = lines.split_at(1 + index.index(lines.len() - 1));
                    files.push((name(0), head.to_vec()));
                    files.push((name(1), tail.to_vec()));
                }
                _ => files.push((name(0), lines)),
            }
        }
        files
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copying_splitting_and_shuffling_files_changes_no_total(layout in layouts()) {
        let expected = naive(&layout.plain());
        let home = Home::new();
        let files = layout.laid_out();
        for step in 0..3 {
            for (at, (path, lines)) in files.iter().enumerate() {
                if layout.steps[at % layout.steps.len()] == step {
                    home.write(path, lines);
                }
            }
            // What was read in earlier steps is settled again with what is new.
            home.journal();
        }
        let found = by_model(&stats(&home.journal(), None));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_grown_file_adds_what_it_grew_by() {
    let home = Home::new();
    let path: PathBuf = claude_path("-src-web", "a").into();
    let lines = claude("a", &calls(1..6));
    let mut seen = Vec::new();
    for end in [3, 6, 8, lines.len()] {
        home.write(path.to_str().unwrap(), &lines[..end]);
        let found = by_model(&stats(&home.journal(), None));
        let files = Files::from([(path.to_str().unwrap().to_owned(), lines[..end].to_vec())]);
        assert_eq!(found, naive(&files), "after {end} lines");
        seen.push(found);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4);
}
