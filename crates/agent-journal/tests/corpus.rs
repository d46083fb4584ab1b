//! Compares what connectors tell with facts counted independently, on sample histories that are
//! not published (`AJ_CORPUS`). Where they are absent the test says so and passes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::analyze::StatsQuery;
use agent_journal::connectors::{ALL, Connector, Machine, Source};
use agent_journal::model::{Message, MessageFacts, Origin, Role, SessionCounts, Timestamp, Tokens};
use serde::Deserialize;

use crate::support::shelf::{Shelf, of_all};
use crate::support::{RecordedSessions, Told, corpus, directories, fold, read, sources};

#[derive(Debug, Deserialize)]
struct Expected {
    file: String,
    kind: String,
    session_id: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    user_prompts: Option<u64>,
    assistant_messages: Option<u64>,
    tool_calls: Option<u64>,
    tool_results: Option<u64>,
    tool_errors: Option<u64>,
    models: Option<BTreeSet<String>>,
    tokens: Option<ExpectedTokens>,
    parent_session_id: Option<String>,
    is_agent_session: Option<bool>,
    #[serde(default)]
    extra: Extra,
}

/// What some scripts tell beside the common facts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extra {
    tools: BTreeMap<String, u64>,
    with_wal: Option<Store>,
}

/// What a database holds as a whole, its write-ahead log included.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Store {
    sessions: Option<u64>,
    turns: Option<u64>,
    usage_events: Option<u64>,
    usage_input: Option<u64>,
    usage_output: Option<u64>,
}

/// Tools that only tell the screen what comes next: recorded as calls, and none.
const SILENT_TOOLS: &[&str] = &["report_intent"];

#[derive(Debug, Deserialize)]
struct ExpectedTokens {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    reasoning: Option<u64>,
}

impl Expected {
    /// What names the row in messages: its id, or when it began where a format has none.
    fn name(&self) -> String {
        self.session_id.clone().or(self.started_at.clone()).unwrap_or_default()
    }

    /// Directories inside the sample are given relative to it.
    fn locate(&mut self, home: &Path) {
        if let Some(cwd) = self.cwd.as_mut().filter(|cwd| Path::new(cwd).is_relative())
            && home.join(&*cwd).is_dir()
        {
            *cwd = home.join(&*cwd).to_string_lossy().into_owned();
        }
    }
}

/// Reads a time; one without a zone is taken as it stands.
fn instant(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text)
        .or_else(|| Timestamp::parse_iso_time(&format!("{}Z", text.replace(' ', "T"))))
}

/// Which folder of the samples belongs to which connector.
const FOLDERS: &[(&str, &str)] = &[
    ("claude", "claude-code"),
    ("codex", "codex"),
    ("copilot-cli", "copilot-cli"),
    ("vscode-copilot-chat", "vscode-copilot"),
    ("gemini", "gemini"),
    ("qwen", "qwen"),
    ("cursor", "cursor"),
    ("aider", "aider"),
    ("pi", "pi"),
    ("hermes", "hermes"),
    ("kimi", "kimi"),
    ("opencode", "opencode"),
    ("opencode-go", "opencode-go"),
    ("crush", "crush"),
    ("cline", "cline"),
    ("continue", "continue"),
    ("goose", "goose"),
];

/// Facts on which we disagree with the counting scripts, as `case session fact`; each is argued
/// in `docs/formats/<agent>.md`.
const ARGUED: &str = include_str!("corpus-argued.txt");

#[test]
fn sample_histories_give_the_expected_facts() {
    let Some(corpus) = corpus() else { return };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (folder, agent) in FOLDERS {
        let Some(connector) = ALL.iter().find(|connector| connector.agent().id == *agent) else {
            continue;
        };
        for case in directories(&corpus.join("scrubbed").join(folder)) {
            let text = fs::read_to_string(case.join("expected.json")).unwrap();
            let mut expected: Vec<Expected> = serde_json::from_str(&text).unwrap();
            let name = format!("{folder}/{}", case.file_name().unwrap().to_string_lossy());
            let home = case.join("home");
            for row in &mut expected {
                row.locate(&home);
            }
            compared += compare_case(*connector, &home, &name, &expected, &mut wrong);
        }
    }
    println!("{compared} sessions compared");
    assert!(compared > 0, "the samples are there but nothing was compared");
    let argued: BTreeSet<&str> =
        ARGUED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let is_argued = |line: &String| argued.iter().any(|known| line.starts_with(known));
    wrong.retain(|line| !is_argued(line));
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// One source's account of its sessions.
type Read = (Source, RecordedSessions);

fn compare_case(
    connector: &dyn Connector,
    home: &Path,
    name: &str,
    expected: &[Expected],
    wrong: &mut Vec<String>,
) -> usize {
    let cwds = expected.iter().filter_map(|row| row.cwd.as_ref().map(PathBuf::from));
    let mut projects: Vec<PathBuf> = cwds.filter(|cwd| cwd.starts_with(home)).collect();
    projects.push(home.join("project"));
    let machine = Machine { home: home.to_owned(), projects, ..Machine::default() };
    let mut found = sources(connector, &machine);
    // What was exported is read where someone says that it lies there.
    if home.join("exports").is_dir() {
        found.extend(connector.discover_sources(&home.join("exports")).unwrap());
    }
    let reads: Vec<Read> = found
        .into_iter()
        .map(|source| {
            let records = read(connector, &source).0;
            let told = fold(
                RecordedSessions::new(),
                &agent_journal::connectors::Checkpoint::default(),
                records,
            );
            (source, told)
        })
        .collect();
    let mut compared = 0;
    for row in expected.iter().filter(|row| row.kind == "store") {
        let place = home.join(&row.file);
        if let Some((_, told)) = reads.iter().find(|(source, _)| source.path == place) {
            let different = store_differences(told, row);
            wrong.extend(different.map(|difference| format!("{name} {} {difference}", row.file)));
        }
    }
    for row in expected.iter().filter(|row| row.kind == "session") {
        let id = row.name();
        let Some(told) = find(home, &reads, row) else {
            wrong.push(format!("{name} {id} missing ({})", row.file));
            continue;
        };
        compared += 1;
        for difference in differences(connector.agent().id, &told, row) {
            wrong.push(format!("{name} {id} {difference}"));
        }
    }
    compared
}

/// Finds the session an expected row speaks of: in the row's own file, with what other sources
/// say about it as a whole.
fn find(home: &Path, reads: &[Read], row: &Expected) -> Option<Told> {
    let file = row.file.split('#').next().unwrap_or(&row.file);
    let place = home.join(file);
    let fits = |told: &Told| match (&row.session_id, row.started_at.as_deref().and_then(instant)) {
        (Some(native), _) => told.session.id.native == *native,
        // Where a format has no ids, a session is found by when it began, or by its file.
        (None, Some(start)) => told.session.started_at == Some(start),
        (None, None) => true,
    };
    let in_place = reads.iter().filter(|(source, _)| source.path.starts_with(&place));
    let mut tellings: Vec<&Told> =
        in_place.flat_map(|(_, told)| told.values()).filter(|told| fits(told)).collect();
    // A session that was opened and closed has no message to tell.
    tellings.sort_by_key(|told| told.messages.is_empty());
    let mut found = (*tellings.first()?).clone();
    let id = found.session.id.clone();
    for other in reads.iter().filter_map(|(_, told)| told.get(&id)) {
        found.session.complete_from(other.session.clone());
    }
    Some(found)
}

fn differences(agent: &str, told: &Told, row: &Expected) -> Vec<String> {
    let mut facts = MessageFacts::default();
    told.messages.iter().for_each(|message| facts.add_message_facts(message));
    let SessionCounts { assistant_messages, tool_calls, tool_results, tool_errors, .. } =
        facts.count_items();
    let prompts = prompts(agent, told);
    let mut models: BTreeSet<String> = facts.models.keys().cloned().collect();
    models.extend(told.session.model.clone());
    let tokens = tokens(told);
    let wanted = wanted_tokens(agent, row);
    let mut all = Vec::new();
    let mut check = |fact: &str, ours: String, theirs: Option<String>| {
        if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
            all.push(format!("{fact}: {ours}, expected {theirs}"));
        }
    };
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let text = |text: &Option<String>| text.clone();
    let millis = |at: &Option<String>| at.as_deref().and_then(instant).map(|at| at.to_string());
    let ours = &told.session;
    check("user_prompts", prompts.to_string(), number(row.user_prompts));
    check("assistant_messages", assistant_messages.to_string(), number(row.assistant_messages));
    let silent: u64 = SILENT_TOOLS.iter().filter_map(|name| row.extra.tools.get(*name)).sum();
    let loud = |count: Option<u64>| number(count.map(|count| count - silent));
    check("tool_calls", tool_calls.to_string(), loud(row.tool_calls));
    check("tool_results", tool_results.to_string(), loud(row.tool_results));
    check("tool_errors", tool_errors.to_string(), number(row.tool_errors));
    check("models", format!("{models:?}"), row.models.as_ref().map(|models| format!("{models:?}")));
    check("cwd", ours.cwd.clone().unwrap_or_default(), text(&row.cwd));
    check("branch", ours.branch.clone().unwrap_or_default(), text(&row.branch));
    check("parent", ours.parent.clone().unwrap_or_default(), text(&row.parent_session_id));
    let is_agent = ours.kind != agent_journal::model::SessionKind::Root;
    check("is_agent_session", is_agent.to_string(), row.is_agent_session.map(|is| is.to_string()));
    let at = |at: Option<Timestamp>| at.map_or(String::new(), |at| at.to_string());
    // The scripts count the times of all records. Notices and the queue do not widen a session of
    // this agent, so its span lies within theirs.
    let is_within = agent == "claude-code";
    let start = millis(&row.started_at);
    let end = millis(&row.ended_at);
    let (began, ended) = (at(ours.started_at), at(ours.ended_at));
    let start = start.filter(|start| !is_within || began < *start);
    let end = end.filter(|end| !is_within || ended > *end);
    check("started_at", began, start);
    check("ended_at", ended, end);
    check("input", tokens.input.to_string(), number(wanted.input));
    check("output", tokens.output.to_string(), number(wanted.output));
    check("cache_read", tokens.cache_read.to_string(), number(wanted.cache_read));
    check("cache_creation", tokens.cache_creation.to_string(), number(wanted.cache_creation));
    check("reasoning", tokens.reasoning.unwrap_or(0).to_string(), number(wanted.reasoning));
    all
}

/// Compares a database as a whole.
fn store_differences(told: &RecordedSessions, row: &Expected) -> impl Iterator<Item = String> {
    let messages = || told.values().flat_map(|told| &told.messages);
    let calls = || messages().filter_map(|message| message.usage.as_ref());
    let input = |tokens: &Tokens| tokens.input + tokens.cache_read + tokens.cache_creation;
    let store = row.extra.with_wal.as_ref();
    let wanted = |fact: fn(&Store) -> Option<u64>| store.and_then(fact);
    let prompts = messages().filter(|message| message.origin == Origin::Human).count() as u64;
    let facts = [
        ("sessions", told.len() as u64, wanted(|store| store.sessions)),
        ("turns", prompts, wanted(|store| store.turns)),
        ("usage_events", calls().count() as u64, wanted(|store| store.usage_events)),
        ("usage_input", calls().map(|call| input(&call.tokens)).sum(), wanted(|s| s.usage_input)),
        ("usage_output", calls().map(|call| call.tokens.output).sum(), wanted(|s| s.usage_output)),
    ];
    facts.into_iter().filter_map(|(fact, ours, theirs)| {
        let theirs = theirs.filter(|theirs| *theirs != ours)?;
        Some(format!("{fact}: {ours}, expected {theirs}"))
    })
}

/// Counts prompts as the scripts do. Those that exist only in a queue are counted by us alone.
fn prompts(agent: &str, told: &Told) -> usize {
    let count = |fits: &dyn Fn(&Message) -> bool| {
        told.messages.iter().filter(|one| !one.sidechain && fits(one)).count()
    };
    match agent {
        // Every input, and a command that is repeated as a prompt as two.
        "aider" => {
            count(&|one| one.role == Role::User)
                + count(&|one| one.extensions.contains_key("command"))
        }
        _ => count(&|one| one.origin == Origin::Human),
    }
}

/// Sums the calls of one session, each counted once with its largest output.
fn tokens(told: &Told) -> Tokens {
    let mut calls: HashMap<String, Tokens> = HashMap::new();
    for (at, message) in told.messages.iter().enumerate() {
        let Some(usage) = &message.usage else { continue };
        let identity = usage.identity.clone().or(message.uuid.clone()).unwrap_or(at.to_string());
        let call = calls.entry(identity).or_default();
        if usage.tokens.output >= call.output {
            *call = usage.tokens;
        }
    }
    let mut sum = Tokens::default();
    for call in calls.into_values() {
        sum += call;
    }
    sum
}

/// The scripts count as each agent records; our classes are disjoint.
fn wanted_tokens(agent: &str, row: &Expected) -> ExpectedTokens {
    let none = ExpectedTokens {
        input: None,
        output: None,
        cache_read: None,
        cache_creation: None,
        reasoning: None,
    };
    // A session's row has the tokens of its last call only.
    let Some(tokens) = row.tokens.as_ref().filter(|_| !matches!(agent, "crush" | "opencode-go"))
    else {
        return none;
    };
    let cached = tokens.cache_read.unwrap_or(0);
    let written = tokens.cache_creation.unwrap_or(0);
    let (inside, outside) = match agent {
        "codex" | "gemini" | "qwen" => (cached, 0),
        "copilot-cli" => (cached + written, 0),
        _ => (0, 0),
    };
    let apart = if agent == "gemini" { tokens.reasoning.unwrap_or(0) } else { outside };
    ExpectedTokens {
        input: tokens.input.map(|input| input - inside),
        output: tokens.output.map(|output| output + apart),
        cache_read: tokens.cache_read,
        cache_creation: tokens.cache_creation,
        reasoning: tokens.reasoning,
    }
}

#[test]
fn the_journal_sums_up_to_the_expected_facts() {
    let Some(corpus) = corpus() else { return };
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (folder, agent) in FOLDERS {
        for case in directories(&corpus.join("scrubbed").join(folder)) {
            let text = fs::read_to_string(case.join("expected.json")).unwrap();
            let rows: Vec<Expected> = serde_json::from_str(&text).unwrap();
            let name = format!("{folder}/{}", case.file_name().unwrap().to_string_lossy());
            compared += compare_journal(agent, &case.join("home"), (&name, rows), &mut wrong);
        }
    }
    println!("{compared} sessions compared");
    assert!(compared > 0, "the samples are there but nothing was compared");
    let argued =
        |line: &String| ARGUED.lines().any(|known| !known.is_empty() && line.starts_with(known));
    wrong.retain(|line| !argued(line));
    assert!(wrong.is_empty(), "{} sums differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Compares the sums of each session, and the total with that of the sessions.
fn compare_journal(
    agent: &str,
    home: &Path,
    (name, mut rows): (&str, Vec<Expected>),
    wrong: &mut Vec<String>,
) -> usize {
    for row in &mut rows {
        row.locate(home);
    }
    let cwds = rows.iter().filter_map(|row| row.cwd.as_ref().map(PathBuf::from));
    let mut projects: Vec<PathBuf> = cwds.filter(|cwd| cwd.starts_with(home)).collect();
    projects.push(home.join("project"));
    let shelf = Shelf::new(Machine { home: home.to_owned(), projects, ..Machine::default() });
    let entries = shelf.entries();
    let mut compared = 0;
    let mut sum = Tokens::default();
    for row in rows.iter().filter(|row| row.kind == "session") {
        let start = row.started_at.as_deref().and_then(instant);
        let Some(entry) = entries.iter().find(|entry| match &row.session_id {
            Some(native) => entry.native_id == *native && entry.agent == agent,
            None => start.is_some() && entry.started_at == start,
        }) else {
            // A working copy is not listed, and what it spent counts.
            sum += known(&wanted_tokens(agent, row), Tokens::default());
            continue;
        };
        compared += 1;
        let (ours, wanted) = (entry.tokens, wanted_tokens(agent, row));
        sum += known(&wanted, ours);
        for (fact, ours, theirs) in [
            ("input", ours.input, wanted.input),
            ("output", ours.output, wanted.output),
            ("cache_read", ours.cache_read, wanted.cache_read),
            ("cache_creation", ours.cache_creation, wanted.cache_creation),
        ] {
            if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
                let id = row.name();
                wrong.push(format!("{name} {id} {fact}: {ours}, expected {theirs} (journal)"));
            }
        }
    }
    if compared > 0 && compared == entries.len() {
        let stats = shelf.journal.stats(&query()).unwrap();
        let not_counted = stats.explained.unwrap().not_counted;
        let within = ["in one file", "synthetic"];
        let repeated =
            not_counted.iter().any(|reason| !within.iter().any(|it| reason.name.contains(it)));
        let total = Tokens { reasoning: None, ..stats.totals.tokens };
        // What several sessions record counts once; else the whole is the sum of its parts.
        let fits = if repeated { total.total_tokens() <= sum.total_tokens() } else { total == sum };
        if !fits {
            wrong.push(format!("{name} total: {total:?}, of sessions {sum:?}"));
        }
    }
    compared
}

/// What is expected, and where nothing is what was found.
fn known(wanted: &ExpectedTokens, found: Tokens) -> Tokens {
    Tokens {
        input: wanted.input.unwrap_or(found.input),
        output: wanted.output.unwrap_or(found.output),
        cache_read: wanted.cache_read.unwrap_or(found.cache_read),
        cache_creation: wanted.cache_creation.unwrap_or(found.cache_creation),
        reasoning: None,
    }
}

fn query() -> StatsQuery {
    StatsQuery { explain: true, ..of_all() }
}

/// The originals that stand under other names and in other folders: each file read by itself.
fn compare_originals(
    folder: &str,
    agent: &str,
    expected: fn(&serde_json::Value) -> Expected,
) -> Vec<String> {
    let Some(root) = corpus().map(|corpus| corpus.join("real").join(folder)) else {
        return Vec::new();
    };
    let connector = *ALL.iter().find(|connector| connector.agent().id == agent).unwrap();
    let rows = fs::read_to_string(root.join("oracle.jsonl")).unwrap();
    let mut wrong = Vec::new();
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let path = row["path"].as_str().unwrap();
        let path = path.strip_prefix(&format!("{folder}/")).unwrap_or(path);
        let source =
            Source { path: root.join(path), stamp: agent_journal::connectors::Stamp::default() };
        let told = fold(
            RecordedSessions::new(),
            &agent_journal::connectors::Checkpoint::default(),
            read(connector, &source).0,
        );
        let told = told.into_values().next().unwrap();
        for difference in differences(agent, &told, &expected(&row)) {
            wrong.push(format!("{folder}/{path} {difference}"));
        }
    }
    wrong.retain(|line| ARGUED.lines().all(|known| known.is_empty() || !line.starts_with(known)));
    wrong
}

#[test]
fn original_claude_files_give_the_expected_facts() {
    let wrong = compare_originals("claude", "claude-code", from_oracle);
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn original_gemini_files_give_the_expected_facts() {
    let wrong = compare_originals("gemini", "gemini", |row| {
        let tokens = |key: &str| row["tokens"][key].as_u64();
        Expected {
            started_at: row["startTime"].as_str().map(str::to_owned),
            ended_at: row["lastUpdated"].as_str().map(str::to_owned),
            tool_results: row["tool_with_result"].as_u64(),
            tokens: Some(ExpectedTokens {
                input: tokens("input"),
                output: tokens("output"),
                cache_read: tokens("cached"),
                cache_creation: None,
                reasoning: tokens("thoughts"),
            }),
            ..from_oracle(row)
        }
    });
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn original_pi_files_give_the_expected_facts() {
    let wrong = compare_originals("pi", "pi", |row| {
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        let tokens = |key: &str| row["tokens"][key].as_u64();
        Expected {
            file: String::new(),
            kind: "session".into(),
            session_id: text("session_id"),
            cwd: text("cwd"),
            branch: None,
            started_at: text("first_timestamp"),
            ended_at: text("last_timestamp"),
            user_prompts: row["user_prompts"].as_u64(),
            assistant_messages: row["assistant_messages"].as_u64(),
            tool_calls: row["tool_calls"].as_u64(),
            tool_results: row["roles"]["toolResult"].as_u64(),
            tool_errors: None,
            models: serde_json::from_value(row["models"].clone()).unwrap(),
            tokens: Some(ExpectedTokens {
                input: tokens("input"),
                output: tokens("output"),
                cache_read: tokens("cacheRead"),
                cache_creation: tokens("cacheWrite"),
                reasoning: None,
            }),
            parent_session_id: None,
            is_agent_session: Some(false),
            extra: Extra::default(),
        }
    });
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn from_oracle(row: &serde_json::Value) -> Expected {
    let text = |key: &str| row[key].as_str().map(str::to_owned);
    let tokens = |key: &str| row["tokens"][key].as_u64();
    let models: BTreeMap<String, u64> = serde_json::from_value(row["models"].clone()).unwrap();
    Expected {
        file: String::new(),
        kind: "session".into(),
        session_id: text("session_id"),
        cwd: text("cwd_first"),
        branch: text("branch_last"),
        started_at: text("ts_min"),
        ended_at: text("ts_max"),
        user_prompts: row["user_prompts"].as_u64(),
        assistant_messages: row["assistant_messages"].as_u64(),
        tool_calls: row["tool_calls"].as_u64(),
        tool_results: row["tool_results"].as_u64(),
        tool_errors: row["tool_errors"].as_u64(),
        models: Some(models.into_keys().collect()),
        tokens: Some(ExpectedTokens {
            input: tokens("input_tokens"),
            output: tokens("output_tokens"),
            cache_read: tokens("cache_read_input_tokens"),
            cache_creation: tokens("cache_creation_input_tokens"),
            reasoning: None,
        }),
        parent_session_id: None,
        is_agent_session: row["is_agent_file"].as_bool(),
        extra: Extra::default(),
    }
}
