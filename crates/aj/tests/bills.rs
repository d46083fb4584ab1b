//! Calls that no message records: an agent that keeps its own bill lists more than its
//! transcript. The difference counts, once, and nothing is invented.

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::client::Client;
use crate::support::server::Server;

const FIRST: &str = "bbbb0001-0000-4000-8000-000000000001";
const FORK: &str = "bbbb000f-0000-4000-8000-00000000000f";
const OTHER: &str = "bbbb0002-0000-4000-8000-000000000002";
const MODEL: &str = "claude-opus-4-5";
const SMALL: &str = "claude-haiku-4-5";

/// Tokens of a model: input, output, read from a cache, written to a cache.
type Four = [u64; 4];

/// A prompt at a minute, and one answer of the model with these tokens.
fn turn(minute: u32, model: &str, tokens: Four) -> Vec<Value> {
    let record = |kind: &str, second: u32, message: Value| {
        json!({
            "type": kind, "uuid": format!("u-{minute}-{second}"), "message": message,
            "requestId": format!("req-{minute}-{second}"), "cwd": "/home/mara/web",
            "version": "2.1.325", "timestamp": at(minute, second),
        })
    };
    let content = json!([{ "type": "text", "text": format!("answer {minute}") }]);
    let answer = json!({ "id": format!("msg-{minute}"), "role": "assistant", "model": model,
        "content": content, "usage": api_usage(tokens) });
    vec![
        record("user", 0, json!({ "role": "user", "content": format!("prompt {minute}") })),
        record("assistant", 10, answer),
    ]
}

fn at(minute: u32, second: u32) -> String {
    format!("2026-10-01T{:02}:{:02}:{second:02}.000Z", 9 + minute / 60, minute % 60)
}

fn api_usage([input, output, read, written]: Four) -> Value {
    json!({ "input_tokens": input, "output_tokens": output,
        "cache_read_input_tokens": read, "cache_creation_input_tokens": written })
}

/// A state of the bill: everything since it was begun, by model.
fn bill(models: &[(&str, Four)]) -> Value {
    let usage: serde_json::Map<String, Value> = models
        .iter()
        .map(|(name, [input, output, read, written])| {
            let billed = json!({ "inputTokens": input, "outputTokens": output,
                "thinkingTokens": 0, "cacheReadInputTokens": read,
                "cacheCreationInputTokens": written,
                "cacheCreationEphemeral5mInputTokens": written,
                "cacheCreationEphemeral1hInputTokens": 0, "webSearchRequests": 0,
                "costUSD": 0.5 });
            ((*name).to_owned(), billed)
        })
        .collect();
    json!({ "type": "cost-state", "totalCostUSD": 0.5, "totalAPIDuration": 900,
        "modelUsage": usage, "hasUnknownModelCost": false })
}

fn lines(id: &str, records: &[Vec<Value>]) -> String {
    let mut text = String::new();
    for mut record in records.iter().flatten().cloned() {
        record["sessionId"] = id.into();
        text.push_str(&format!("{record}\n"));
    }
    text
}

fn file(id: &str) -> String {
    format!(".claude/projects/-home-mara-web/{id}.jsonl")
}

fn classes(tokens: &Value) -> Four {
    ["input", "output", "cache_read", "cache_creation"]
        .map(|name| tokens[name].as_u64().unwrap_or(0))
}

/// What a session is listed with: all its tokens, and of those what no message records.
fn listed(test: &Test, id: &str) -> (Four, Four) {
    let listing = test.aj("list --all --json --limit 0").found().json();
    let all = listing["sessions"].as_array().unwrap();
    let one = all.iter().find(|one| one["native_id"] == id).unwrap();
    (classes(&one["tokens"]), classes(&one["not_in_transcript"]["tokens"]))
}

/// What everything together comes to: all tokens, and of those what no message records.
fn totals(test: &Test) -> (Four, Four) {
    let totals = test.aj("stats --json").found().json()["totals"].clone();
    (classes(&totals["tokens"]), classes(&totals["not_in_transcript"]["tokens"]))
}

/// How many states of bills are left aside.
fn left_aside(test: &Test) -> u64 {
    let stats = test.aj("stats --explain --json").found().json();
    let reasons = stats["explained"]["not_counted"].as_array().unwrap().clone();
    let is_bill = |one: &&Value| one["name"].as_str().unwrap().contains("bill");
    reasons.iter().find(is_bill).map_or(0, |one| one["count"].as_u64().unwrap())
}

/// Reads one session and checks its tokens in every view.
fn check(case: &str, records: &[Vec<Value>], all: Four, unrecorded: Four) -> Test {
    let test = Test::new();
    test.write(file(FIRST), lines(FIRST, records));
    test.aj("index").found();
    assert_eq!(listed(&test, FIRST), (all, unrecorded), "{case}, list");
    assert_eq!(totals(&test), (all, unrecorded), "{case}, stats");
    let shown = test.aj(&format!("show {FIRST} --json")).found().json()["session"].clone();
    assert_eq!(classes(&shown["tokens"]), all, "{case}, show");
    assert_eq!(classes(&shown["not_in_transcript"]["tokens"]), unrecorded, "{case}, show");
    test
}

#[test]
fn a_compaction_and_a_title_count_although_no_message_records_them() {
    let test = check(
        "two models",
        &[
            turn(0, MODEL, [1000, 100, 500, 50]),
            turn(5, MODEL, [1100, 110, 510, 60]),
            vec![bill(&[(MODEL, [3100, 710, 2010, 160]), (SMALL, [300, 9, 0, 0])])],
        ],
        [3400, 719, 2010, 160],
        [1300, 509, 1000, 50],
    );
    // The time of the bill is that of the record before it; how many calls there were is unknown.
    let stats = test.aj("stats --by model --json").found().json();
    assert_eq!(stats["totals"]["model_calls"], 2);
    let models = stats["groups"].as_array().unwrap();
    let small = models.iter().find(|one| one["key"] == SMALL).unwrap();
    // Nothing of this model is recorded: what the agent says it cost is what it cost.
    assert_eq!(small["cost"]["usd"], 0.5);
    assert_eq!(small["cost"]["basis"], "recorded");
    let days = test.aj("stats --by day --json").found().json();
    assert_eq!(days["groups"][0]["key"], "2026-10-01");
    assert_eq!(days["groups"][0]["tokens"]["output"], 719);
    test.aj(&format!("show {FIRST}")).found().shows(["not in the transcript: "]);
    test.aj("stats").found().shows(["not in the transcript"]);
}

#[test]
fn a_bill_that_lists_what_is_recorded_adds_nothing() {
    let call = [1000, 100, 500, 50];
    let test = check("equal", &[turn(0, MODEL, call), vec![bill(&[(MODEL, call)])]], call, [0; 4]);
    let shown = test.aj(&format!("show {FIRST}")).found().stdout;
    assert!(!shown.contains("not in the transcript"), "{shown}");
    assert_eq!(left_aside(&test), 0);
}

#[test]
fn a_bill_that_lists_less_than_the_messages_is_left_aside() {
    let call = [1000, 100, 500, 50];
    for (case, billed) in [
        ("less output", vec![(MODEL, [5000, 99, 5000, 5000])]),
        ("another model", vec![(SMALL, [5000, 5000, 5000, 5000])]),
    ] {
        let test = check(case, &[turn(0, MODEL, call), vec![bill(&billed)]], call, [0; 4]);
        assert_eq!(left_aside(&test), 1, "{case}");
    }
}

#[test]
fn states_add_up_over_processes_that_go_on_and_that_begin_anew() {
    let call = [1000, 100, 500, 50];
    // The second process goes on from the first one's sum.
    check(
        "cumulative",
        &[
            turn(0, MODEL, call),
            vec![bill(&[(MODEL, [1010, 101, 500, 50])])],
            turn(90, MODEL, call),
            vec![bill(&[(MODEL, [2030, 203, 1000, 100])])],
        ],
        [2030, 203, 1000, 100],
        [30, 3, 0, 0],
    );
    // The second process begins from nothing and is smaller.
    check(
        "from zero, smaller",
        &[
            turn(0, MODEL, call),
            turn(5, MODEL, call),
            vec![bill(&[(MODEL, [2010, 201, 1000, 100])])],
            turn(90, MODEL, call),
            vec![bill(&[(MODEL, [1020, 102, 500, 100])])],
        ],
        [3030, 303, 1500, 200],
        [30, 3, 0, 50],
    );
    // It begins from nothing and is larger: together with the first it is what was recorded.
    check(
        "from zero, larger",
        &[
            turn(0, MODEL, call),
            vec![bill(&[(MODEL, [1010, 101, 500, 50])])],
            turn(90, MODEL, call),
            turn(95, MODEL, call),
            vec![bill(&[(MODEL, [2020, 202, 1000, 100])])],
        ],
        [3030, 303, 1500, 150],
        [30, 3, 0, 0],
    );
}

#[test]
fn messages_after_the_last_state_are_not_taken_from_it() {
    let call = [1000, 100, 500, 50];
    check(
        "crash",
        &[
            turn(0, MODEL, call),
            vec![bill(&[(MODEL, [1500, 150, 500, 50])])],
            turn(90, MODEL, call),
        ],
        [2500, 250, 1000, 100],
        [500, 50, 0, 0],
    );
    // Nothing was written by the first process: the second one's bill begins with it.
    let mut state = bill(&[(MODEL, [1020, 102, 500, 50])]);
    let begun: jiff::Timestamp = at(89, 0).parse().unwrap();
    state["startTime"] = begun.as_millisecond().into();
    check(
        "crash before any state",
        &[turn(0, MODEL, call), turn(5, MODEL, call), turn(90, MODEL, call), vec![state]],
        [3020, 302, 1500, 150],
        [20, 2, 0, 0],
    );
}

#[test]
fn the_final_figure_of_a_streamed_answer_is_compared() {
    let mut streamed = turn(0, MODEL, [1000, 3, 500, 50]);
    let mut last = streamed[1].clone();
    last["uuid"] = "u-last".into();
    last["message"]["usage"] = api_usage([1000, 400, 500, 50]);
    streamed.push(last);
    check(
        "streamed",
        &[streamed, vec![bill(&[(MODEL, [1000, 400, 500, 50])])]],
        [1000, 400, 500, 50],
        [0; 4],
    );
}

#[test]
fn models_are_compared_without_what_only_decorates_their_names() {
    let call = [1000, 100, 500, 50];
    for name in [
        "claude-opus-4-5[1m]",
        "claude-opus-4-5-20251101",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
    ] {
        let test = check(
            name,
            &[turn(0, MODEL, call), vec![bill(&[(name, [1400, 140, 500, 50])])]],
            [1400, 140, 500, 50],
            [400, 40, 0, 0],
        );
        let stats = test.aj("stats --by model --json").found().json();
        assert_eq!(stats["groups"].as_array().unwrap().len(), 1, "{name}");
        assert_eq!(stats["groups"][0]["key"], MODEL, "{name}");
    }
    // A model that nobody knows has no price, and its tokens count all the same.
    let test = check(
        "unknown",
        &[
            turn(0, MODEL, call),
            vec![{
                let mut state = bill(&[(MODEL, call), ("pangolin-9", [70, 7, 0, 0])]);
                state["hasUnknownModelCost"] = true.into();
                state
            }],
        ],
        [1070, 107, 500, 50],
        [70, 7, 0, 0],
    );
    let stats = test.aj("stats --json").found().json();
    assert!(stats["totals"]["cost"]["priced_share"].as_f64().unwrap() < 1.0);
}

#[test]
fn a_field_of_another_type_costs_that_field_alone() {
    let call = [1000, 100, 500, 50];
    let odd = |change: fn(&mut Value)| {
        let mut state = bill(&[(MODEL, [1400, 140, 900, 90])]);
        change(&mut state);
        vec![turn(0, MODEL, call), vec![state]]
    };
    check(
        "odd input",
        &odd(|state| state["modelUsage"][MODEL]["inputTokens"] = "many".into()),
        [1000, 140, 900, 90],
        [0, 40, 400, 40],
    );
    check(
        "odd cost and time",
        &odd(|state| {
            state["modelUsage"][MODEL]["costUSD"] = json!([]);
            state["startTime"] = json!({ "then": 1 });
            state["hasUnknownModelCost"] = "no".into();
        }),
        [1400, 140, 900, 90],
        [400, 40, 400, 40],
    );
    check(
        "odd neighbour",
        &odd(|state| state["modelUsage"]["pangolin-9"] = 12.into()),
        [1400, 140, 900, 90],
        [400, 40, 400, 40],
    );
    check("no models", &odd(|state| state["modelUsage"] = 7.into()), call, [0; 4]);
}

/// A sub-agent's file, with one answer at a minute.
fn sub_agent(minute: u32, tokens: Four) -> String {
    let mut records = turn(minute, MODEL, tokens);
    for record in &mut records {
        record["isSidechain"] = true.into();
        record["agentId"] = "a1".into();
    }
    lines(FIRST, &[records])
}

#[test]
fn what_sub_agents_record_is_on_the_bill_of_their_session() {
    let call = [1000, 100, 500, 50];
    let main = lines(
        FIRST,
        &[
            turn(0, MODEL, call),
            turn(9, MODEL, call),
            vec![bill(&[(MODEL, [3300, 330, 1500, 150])])],
        ],
    );
    let sub = ".claude/projects/-home-mara-web/bbbb0001-0000-4000-8000-000000000001/subagents/agent-a1.jsonl";
    // In the background it may answer after the last record of its session.
    for minute in [3, 20] {
        for is_late in [false, true] {
            let test = Test::new();
            test.write(file(FIRST), &main);
            if !is_late {
                test.write(sub, sub_agent(minute, call));
            }
            test.aj("index").found();
            test.write(sub, sub_agent(minute, call));
            test.aj("index").found();
            assert_eq!(listed(&test, FIRST), ([2300, 230, 1000, 100], [300, 30, 0, 0]));
            assert_eq!(totals(&test), ([3300, 330, 1500, 150], [300, 30, 0, 0]));
            let shown = test.aj(&format!("show {FIRST} --json")).found().json()["session"].clone();
            let whole = &shown["with_subagents"];
            assert_eq!(classes(&whole["tokens"]), [3300, 330, 1500, 150]);
            assert_eq!(classes(&whole["not_in_transcript"]["tokens"]), [300, 30, 0, 0]);
        }
    }
}

#[test]
fn the_bill_of_a_fork_goes_on_from_that_of_its_origin() {
    let call = [1000, 100, 500, 50];
    let common = [turn(0, MODEL, call), turn(5, MODEL, call)];
    let origin = lines(
        FIRST,
        &[common[0].clone(), common[1].clone(), vec![bill(&[(MODEL, [2040, 204, 1000, 100])])]],
    );
    let fork = lines(
        FORK,
        &[
            common[0].clone(),
            common[1].clone(),
            turn(30, MODEL, call),
            vec![bill(&[(MODEL, [3050, 305, 1500, 150])])],
        ],
    );
    for order in [[0, 1], [1, 0]] {
        let test = Test::new();
        for at in order {
            let (id, lines) = [(FIRST, &origin), (FORK, &fork)][at];
            test.write(file(id), lines);
            test.aj("index").found();
        }
        assert_eq!(listed(&test, FIRST), ([2040, 204, 1000, 100], [40, 4, 0, 0]), "{order:?}");
        assert_eq!(listed(&test, FORK), ([1010, 101, 500, 50], [10, 1, 0, 0]), "{order:?}");
        assert_eq!(totals(&test), ([3050, 305, 1500, 150], [50, 5, 0, 0]), "{order:?}");
    }
    // The origin crashed and left no state: the fork's bill has its own calls alone.
    let test = Test::new();
    test.write(file(FIRST), lines(FIRST, &common));
    let own = [vec![bill(&[(MODEL, [1010, 101, 500, 50])])]].concat();
    test.write(
        file(FORK),
        lines(FORK, &[common[0].clone(), common[1].clone(), turn(30, MODEL, call), own]),
    );
    test.aj("index").found();
    assert_eq!(listed(&test, FORK), ([1010, 101, 500, 50], [10, 1, 0, 0]));
    assert_eq!(totals(&test), ([3010, 301, 1500, 150], [10, 1, 0, 0]));
}

#[test]
fn a_bill_that_other_sessions_of_the_process_stand_on_is_left_aside() {
    let call = [1000, 100, 500, 50];
    let test = Test::new();
    let mut state = bill(&[(MODEL, [2000, 200, 1000, 100])]);
    let begun: jiff::Timestamp = at(0, 0).parse().unwrap();
    state["startTime"] = (begun.as_millisecond() - 1000).into();
    test.write(file(FIRST), lines(FIRST, &[turn(0, MODEL, call)]));
    test.write(file(OTHER), lines(OTHER, &[turn(20, MODEL, call), vec![state]]));
    test.aj("index").found();
    assert_eq!(totals(&test), ([2000, 200, 1000, 100], [0; 4]));
    assert_eq!(left_aside(&test), 1);
}

/// A session whose bill lists more than its messages, with what both come to.
fn billed_session() -> (String, Four, Four) {
    let records = [
        turn(0, MODEL, [1000, 100, 500, 50]),
        vec![bill(&[(MODEL, [1400, 140, 500, 50]), (SMALL, [30, 3, 0, 0])])],
    ];
    (lines(FIRST, &records), [1430, 143, 500, 50], [430, 43, 0, 0])
}

#[test]
fn a_bill_counts_once_wherever_and_however_often_it_is_read() {
    let (transcript, all, unrecorded) = billed_session();
    let test = Test::new();
    test.write(file(FIRST), &transcript);
    test.aj("index").found();
    test.write(
        "mnt/.claude/projects/-home-mara-web/bbbb0001-0000-4000-8000-000000000001.jsonl",
        &transcript,
    );
    let test = test.config("[[homes]]\npath = \"~/mnt\"\n");
    test.aj("index").found();
    assert_eq!((listed(&test, FIRST), totals(&test)), ((all, unrecorded), (all, unrecorded)));
    test.aj("index --full").found();
    assert_eq!((listed(&test, FIRST), totals(&test)), ((all, unrecorded), (all, unrecorded)));
    // A further prompt, and the same state once more.
    let state = transcript.lines().last().unwrap().to_owned();
    test.append(
        file(FIRST),
        &format!("{}{state}\n", lines(FIRST, &[vec![turn(9, MODEL, [0; 4])[0].clone()]])),
    );
    test.aj("index").found();
    assert_eq!((listed(&test, FIRST), totals(&test)), ((all, unrecorded), (all, unrecorded)));
}

#[test]
fn a_bill_outlives_its_file_and_a_change_of_the_reader() {
    let (transcript, all, unrecorded) = billed_session();
    let test = Test::new();
    test.write(file(FIRST), &transcript);
    test.aj("index").found();
    let journal = rusqlite::Connection::open(test.journal("journal.db")).unwrap();
    journal.execute("UPDATE sources SET reader = 0", []).unwrap();
    drop(journal);
    std::fs::remove_file(test.path(&file(FIRST))).unwrap();
    test.aj("index").found();
    assert_eq!((listed(&test, FIRST), totals(&test)), ((all, unrecorded), (all, unrecorded)));
}

#[test]
fn a_bill_is_kept_by_export_and_import() {
    let (transcript, all, unrecorded) = billed_session();
    let test = Test::new();
    test.write(file(FIRST), &transcript);
    let exported = test.beside("one.json");
    test.args(["export", FIRST, "--format", "json", "-o", exported.to_str().unwrap()]).found();
    let other = Test::new();
    other.args(["import", exported.to_str().unwrap()]).found();
    assert_eq!((listed(&other, FIRST), totals(&other)), ((all, unrecorded), (all, unrecorded)));
    let costs = |test: &Test| test.aj("stats --json").found().json()["totals"]["cost"].clone();
    assert_eq!(costs(&other), costs(&test));
    // The session itself comes later: nothing counts twice.
    other.write(file(FIRST), &transcript);
    other.aj("index").found();
    assert_eq!((listed(&other, FIRST), totals(&other)), ((all, unrecorded), (all, unrecorded)));
    test.args(["import", exported.to_str().unwrap()]).found();
    assert_eq!((listed(&test, FIRST), totals(&test)), ((all, unrecorded), (all, unrecorded)));
}

#[test]
fn every_view_names_what_is_not_in_the_transcript() {
    let (transcript, _, unrecorded) = billed_session();
    let test = Test::new();
    test.write(file(FIRST), &transcript);
    test.aj("index").found();
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("stats", &json!({}));
    assert!(said.contains("(473 of them not in the transcript)"), "{said}");
    client.end();
    let server = Server::start(&test, &[]);
    let listed = server.json(&format!("/api/v1/sessions/claude-code:{FIRST}"));
    let part = &listed["session"]["not_in_transcript"];
    assert_eq!(classes(&part["tokens"]), unrecorded, "{listed}");
    let totals = server.json("/api/v1/stats")["totals"].clone();
    assert_eq!(classes(&totals["not_in_transcript"]["tokens"]), unrecorded, "{totals}");
    let page = server.page(&format!("/session/claude-code:{FIRST}"));
    assert!(page.contains("not in the transcript"), "{page}");
    let exported = test.beside("one.json");
    test.args(["export", FIRST, "--format", "json", "-o", exported.to_str().unwrap()]).found();
    let document: Value = serde_json::from_slice(&std::fs::read(exported).unwrap()).unwrap();
    let notes = &document["session"]["extensions"]["agent-journal"];
    assert_eq!(classes(&notes["not_in_transcript"]), unrecorded, "{notes}");
    assert_eq!(notes["calls"][0]["unrecorded"], true, "{notes}");
}

#[test]
fn a_bill_begun_anew_while_another_session_ran_is_left_aside() {
    let call = [1000, 100, 500, 50];
    let test = Test::new();
    // One process worked in the second session before it went on with the first.
    let mut state = bill(&[(MODEL, [2000, 200, 1000, 100])]);
    let begun: jiff::Timestamp = at(20, 0).parse().unwrap();
    state["startTime"] = (begun.as_millisecond() - 1000).into();
    let first = lines(
        FIRST,
        &[turn(0, MODEL, call), turn(5, MODEL, call), turn(30, MODEL, call), vec![state]],
    );
    let other = lines(OTHER, &[turn(20, MODEL, call)]);
    for order in [[0, 1], [1, 0]] {
        let test = test.again(&test.beside(&format!("journal-{}", order[0])));
        let _ = std::fs::remove_file(test.path(&file(FIRST)));
        let _ = std::fs::remove_file(test.path(&file(OTHER)));
        for at in order {
            let (id, lines) = [(FIRST, &first), (OTHER, &other)][at];
            test.write(file(id), lines);
            test.aj("index").found();
        }
        assert_eq!(totals(&test), ([4000, 400, 2000, 200], [0; 4]), "{order:?}");
        assert_eq!(left_aside(&test), 1, "{order:?}");
    }
}

/// The kind, the model and the input tokens of each row of the `usage` tables below a directory.
#[cfg(feature = "parquet")]
fn usage_rows(tables: &std::path::Path) -> Vec<(String, String, i64)> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let mut rows = Vec::new();
    for month in std::fs::read_dir(tables.join("usage")).unwrap() {
        for file in std::fs::read_dir(month.unwrap().path()).unwrap() {
            let file = std::fs::File::open(file.unwrap().path()).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            for row in reader.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                let field = |name: &str| {
                    row.get_column_iter().find(|(key, _)| *key == name).unwrap().1.clone()
                };
                let text = |name: &str| match field(name) {
                    Field::Str(text) => text,
                    other => panic!("{name} is {other:?}"),
                };
                let Field::Long(input) = field("input_tokens") else { panic!("no number") };
                rows.push((text("kind"), text("model"), input));
            }
        }
    }
    rows.sort();
    rows
}

#[cfg(feature = "parquet")]
#[test]
fn tables_tell_calls_from_what_is_not_in_the_transcript() {
    let (transcript, _, _) = billed_session();
    let test = Test::new();
    test.write(file(FIRST), transcript);
    test.aj("index").found();
    let tables = test.beside("tables");
    test.args(["export", "--all", "-f", "parquet", "-o", tables.to_str().unwrap()]).found();
    let row = |kind: &str, model: &str, input: i64| (kind.to_owned(), model.to_owned(), input);
    let expected = [
        row("call", MODEL, 1000),
        row("not_in_transcript", SMALL, 30),
        row("not_in_transcript", MODEL, 400),
    ];
    assert_eq!(usage_rows(&tables), expected);
}
