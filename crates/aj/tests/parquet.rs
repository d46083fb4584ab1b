//! `aj export --format parquet`, read by the programs people read tables with: `DuckDB`, pandas and
//! pyarrow find in them what `aj stats` tells.

#[path = "../../../xtask/src/needs/tables.rs"]
mod needs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::Test;

/// Sums up the tables twice, by `DuckDB` and by pandas (which reads them with pyarrow).
const READER: &str = r#"
import json, sys, duckdb, pandas
root = sys.argv[1]
def table(name):
    return f"read_parquet('{root}/{name}/*/*.parquet', hive_partitioning = true)"
def sums(name, columns):
    what = ", ".join(f"sum({column})::BIGINT" for column in columns)
    return duckdb.sql(f"select count(*), {what} from {table(name)}").fetchall()[0]
TOKENS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_micros"]
asked = {
    "sessions": sums("sessions", ["tool_calls", "messages"]),
    "messages": sums("messages", ["message"]),
    "usage": sums("usage", TOKENS),
    "tool_calls": sums("tool_calls", ["is_error::INT"]),
    "months": [row[0] for row in duckdb.sql(f"select distinct month from {table('usage')} order by 1").fetchall()],
}
frames = {name: pandas.read_parquet(f"{root}/{name}") for name in ["sessions", "messages", "usage", "tool_calls"]}
framed = {
    "sessions": (len(frames["sessions"]), int(frames["sessions"].tool_calls.sum()), int(frames["sessions"].messages.sum())),
    "messages": (len(frames["messages"]), int(frames["messages"].message.sum())),
    "usage": (len(frames["usage"]), *(int(frames["usage"][column].sum()) for column in TOKENS)),
    "tool_calls": (len(frames["tool_calls"]), int(frames["tool_calls"].is_error.fillna(False).astype(int).sum())),
}
for name, numbers in framed.items():
    assert tuple(numbers) == tuple(asked[name]), (name, numbers, asked[name])
session = frames["sessions"].sort_values("session_id").iloc[0]
texts = frames["messages"][frames["messages"].session_id == session.session_id].sort_values("message").text.dropna()
asked["title"], asked["text"] = session.title, texts.iloc[0]
asked["first"] = frames["sessions"].started_at.min().isoformat()
print(json.dumps(asked))
"#;

/// Python with the readers; `None`, said aloud, where it cannot be had.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_aj")).ancestors().nth(2).unwrap();
    match needs::prepare(target) {
        Ok(python) => Some(python),
        Err(error) => {
            println!("skipped: no Python with DuckDB, pandas and pyarrow: {error:#}");
            None
        }
    }
}

fn read(python: &Path, tables: &Path) -> Value {
    let output = Command::new(python).args(["-c", READER]).arg(tables).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn demo() -> Test {
    let test = Test::new();
    crate::support::copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/home"), &test.path(""));
    test
}

#[test]
fn duckdb_and_pandas_find_what_the_statistics_tell() {
    let Some(python) = python() else { return };
    let test = demo();
    test.aj("index").code(0);
    let tables = test.beside("tables");
    let run = test.args(["export", "--all", "-f", "parquet", "-o", tables.to_str().unwrap()]);
    run.found().stdout(&format!("{}\n", tables.display()));
    let told = read(&python, &tables);
    let stats: Value = serde_json::from_str(&test.aj("stats --json").found().stdout).unwrap();
    let totals = &stats["totals"];
    let number = |name: &str| totals[name].as_i64().unwrap();
    let tokens = |name: &str| totals["tokens"][name].as_i64().unwrap();
    assert_eq!(told["sessions"][1], number("tool_calls"), "{told}");
    assert_eq!(told["sessions"][2], number("messages"), "{told}");
    assert_eq!(told["messages"][0], number("messages"), "{told}");
    assert_eq!(told["tool_calls"][0], number("tool_calls"), "{told}");
    assert_eq!(told["tool_calls"][1], number("tool_errors"), "{told}");
    assert_eq!(told["usage"][0], number("model_calls"), "{told}");
    for (at, name) in ["input", "output", "cache_read", "cache_creation"].iter().enumerate() {
        assert_eq!(told["usage"][at + 1], tokens(name), "{name}: {told}");
    }
    // Each call is rounded to a millionth of a dollar.
    let cost = told["usage"][5].as_i64().unwrap() - totals["cost"]["micros"].as_i64().unwrap();
    assert!(cost.abs() <= number("model_calls"), "{cost}");
    assert!(told["months"].as_array().unwrap().len() > 1, "{told}");
    assert!(told["first"].as_str().unwrap().starts_with("2026-10-12T09:00"), "{told}");
    assert!(!told["title"].as_str().unwrap().is_empty() && told["text"].is_string());
}

#[test]
fn tables_replace_only_tables_and_only_when_asked() {
    let test = demo();
    test.aj("index").code(0);
    let tables = test.beside("tables");
    let words = ["export", "--all", "-f", "parquet", "-o", tables.to_str().unwrap()];
    test.args(words).found();
    fs::write(tables.join("mine.txt"), "mine").unwrap();
    let refused = test.args(words).code(2).stderr;
    assert!(refused.contains("already exists; use `--force` to replace it"), "{refused}");
    test.args(words.iter().chain(&["--force"])).found();
    assert_eq!(fs::read_to_string(tables.join("mine.txt")).unwrap(), "mine");
    let mut names: Vec<String> = fs::read_dir(&tables)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["messages", "mine.txt", "sessions", "tool_calls", "usage"]);
}

#[test]
fn tables_need_a_directory_and_no_packing() {
    let test = demo();
    test.aj("index").code(0);
    let check = |words: &str, expected: &str| {
        let told = test.aj(words).code(2).stderr;
        assert_eq!(told, format!("aj: {expected}\n"));
    };
    let stdout = "tables cannot be written to standard output; use a directory with `-o`";
    check("export --all -f parquet -o -", stdout);
    check("export --all -f parquet.zst", "parquet is already compressed: remove .zst");
}

#[test]
fn secrets_are_taken_out_of_tables_when_asked() {
    let Some(python) = python() else { return };
    let test = demo();
    test.aj("index").code(0);
    for (words, is_there) in [("", true), (" --redact", false)] {
        let tables = test.beside(if is_there { "plain" } else { "clean" });
        test.aj(&format!("export --all -f parquet -o {}{words}", tables.display())).code(0);
        let reader =
            "import pandas, sys\nprint('/home/sam' in pandas.read_parquet(sys.argv[1]).to_csv())";
        let place = tables.join("sessions");
        let output = Command::new(&python).args(["-c", reader]).arg(place).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).trim() == "True";
        assert_eq!(told, is_there, "{words}");
    }
}
