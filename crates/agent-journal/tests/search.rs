//! A small labelled journal: questions, and the sessions that answer them.

use std::fmt::Write;
use std::fs;

use agent_journal::connectors::Machine;
use agent_journal::search::{Answer, Facet, Grouping, Mode, Query, SearchOptions, Sort, Tier};
use agent_journal::{Config, Journal, SyncOptions};
use serde_json::{Value, json};

/// A session on its way into a home.
struct Script {
    id: String,
    folder: String,
    lines: String,
    count: u64,
    /// The day of March it was recorded on.
    day: u64,
}

impl Script {
    fn new(name: &str) -> Self {
        let (id, folder) = (name.to_owned(), "-home-mara-web".to_owned());
        Self { id, folder, lines: String::new(), count: 0, day: 2 }
    }

    fn on(self, day: u64) -> Self {
        Self { day, ..self }
    }

    /// Makes it the session of a sub-agent.
    fn of(self, parent: &str) -> Self {
        Self { folder: format!("-home-mara-web/{parent}/subagents"), ..self }
    }

    fn you(self, text: &str) -> Self {
        self.line("user", &json!({ "role": "user", "content": text }))
    }

    fn agent(self, text: &str) -> Self {
        self.answer(&json!([{ "type": "text", "text": text }]))
    }

    /// A call of a tool, and its result.
    fn tool(self, name: &str, input: &Value, output: &str) -> Self {
        let id = format!("{}-t{}", self.id, self.count);
        let call = json!([{ "type": "tool_use", "id": id, "name": name, "input": input }]);
        let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": output }]);
        let message = json!({ "role": "user", "content": result });
        self.answer(&call).line("user", &message)
    }

    /// What a model said in a side conversation.
    fn aside(mut self, text: &str) -> Self {
        let from = self.lines.len();
        self = self.agent(text);
        let line = self.lines.split_off(from);
        self.lines.push_str(&line.replace("\"isSidechain\":false", "\"isSidechain\":true"));
        self
    }

    fn answer(self, content: &Value) -> Self {
        let id = format!("msg_{}_{}", self.id, self.count);
        let message = json!({ "role": "assistant", "id": id, "model": "claude-sonnet-4-5",
            "type": "message", "content": content });
        self.line("assistant", &message)
    }

    fn title(mut self, title: &str) -> Self {
        let line = json!({ "type": "ai-title", "aiTitle": title, "sessionId": self.id });
        writeln!(self.lines, "{line}").unwrap();
        self
    }

    fn line(mut self, kind: &str, message: &Value) -> Self {
        let parent = self.folder.split('/').nth(1).map(str::to_owned);
        let line = json!({
            "type": kind, "message": message, "uuid": format!("{}-{}", self.id, self.count),
            "sessionId": parent.as_ref().unwrap_or(&self.id), "isSidechain": parent.is_some(),
            "agentId": parent.as_ref().map(|_| &self.id), "cwd": "/home/mara/web",
            "gitBranch": "main", "version": "2.1.40",
            "timestamp": format!("2026-03-{:02}T09:{:02}:00.000Z", self.day, self.count % 60),
        });
        writeln!(self.lines, "{line}").unwrap();
        self.count += 1;
        self
    }
}

/// A journal of sessions.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn of(scripts: impl IntoIterator<Item = Script>) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        scripts.into_iter().for_each(|script| place.write(&script));
        place
    }

    fn write(&self, script: &Script) {
        let name = if script.folder.contains('/') { "agent-" } else { "" };
        let path = format!("home/.claude/projects/{}/{name}{}.jsonl", script.folder, script.id);
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &script.lines).unwrap();
    }

    fn journal(&self) -> Journal {
        let machine = Machine { home: self.directory.path().join("home"), ..Machine::default() };
        let config = Config::new(self.directory.path().join("journal"));
        let mut journal = Journal::open(config, machine).unwrap();
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        journal
    }
}

fn query(text: &str) -> Query {
    Query::parse(text, &"2026-11-15T12:00:00+00:00[UTC]".parse().unwrap()).unwrap()
}

/// The options of a search by words alone.
fn by_words() -> SearchOptions {
    SearchOptions { mode: Mode::Lexical, ..SearchOptions::default() }
}

fn find(journal: &Journal, text: &str) -> Answer {
    journal.search(&query(text), &by_words()).unwrap()
}

/// The ids of what was found, in order.
fn ids(answer: &Answer) -> Vec<&str> {
    answer.sessions.iter().map(|found| found.entry.native_id.as_str()).collect()
}

fn labelled() -> Place {
    let line =
        |at: u32| format!("2026-03-02 10:00:{:02} ERROR connection refused by {at}", at % 60);
    let log = (0..80).map(line).collect::<Vec<_>>().join("\n");
    Place::of([
        Script::new("flaky")
            .you("the login test is flaky again in CI, find out why")
            .agent("The race is in waitForSession: the cookie is set after the redirect.")
            .tool("Bash", &json!({ "command": "npx playwright test" }), "20 passed")
            .title("Fix flaky login test"),
        Script::new("parser")
            .you("port parse_query to winnow")
            .agent("parseQuery lives in src/index/tokenizer.rs and fails with E0382 at 3f9ac1d7be.")
            .title("Port the grammar"),
        Script::new("words")
            .you("全文検索の索引を作り直す")
            .agent("Die Größe des Cafés ist naïv berechnet."),
        Script::new("log").you("what is this").tool("Read", &json!({ "path": "x.log" }), &log),
        Script::new("refused").agent("The connection refused error came from the proxy."),
        Script::new("upload").you("add a retry with backoff to the upload worker"),
    ])
}

#[test]
fn questions_find_their_sessions() {
    let place = labelled();
    let journal = place.journal();
    let check = |text: &str, first: &str, tier: Tier| {
        let answer = find(&journal, text);
        assert_eq!(ids(&answer).first().copied(), Some(first), "{text}");
        assert_eq!(answer.sessions[0].tier, tier, "{text}");
    };
    check("flaky login test", "flaky", Tier::ExactPhrase);
    check("login flaky", "flaky", Tier::AllWords);
    check("how did we fix the flaky login test?", "flaky", Tier::AllWords);
    check("why was the login flaky and slow on mondays", "flaky", Tier::SomeWords);
    check("wait_for_session", "flaky", Tier::AllWords);
    check("waitforsession cookie", "flaky", Tier::AllWords);
    check("flaky lgoin", "flaky", Tier::Typo);
    check("parseQuery", "parser", Tier::AllWords);
    check("parse query", "parser", Tier::ExactPhrase);
    check("index/tokenizer", "parser", Tier::AllWords);
    check("E0382", "parser", Tier::AllWords);
    check("3f9ac1d7be", "parser", Tier::AllWords);
    check("検索", "words", Tier::AllWords);
    check("cafes naiv grosse OR größe", "words", Tier::AllWords);
    check("\"connection refused\"", "refused", Tier::ExactPhrase);
    check("retr* backoff", "upload", Tier::AllWords);
    check("logout OR backoff", "upload", Tier::AllWords);
    check(r"/E\d{4}/", "parser", Tier::ExactPhrase);
    check(r"/WAIT\w+session/i cookie", "flaky", Tier::AllWords);
}

#[test]
fn what_is_not_there_is_not_found() {
    let place = labelled();
    let journal = place.journal();
    for text in [
        "\"login flaky\"",
        "login -flaky -test",
        "zebra",
        "E0383",
        "3f9ac1d7bf",
        r"/wait\d+/",
        "(flaky backoff)",
        "login -(flaky OR grammar)",
        "login kind:output",
        "what is the",
        "flaky -/login/",
    ] {
        let answer = find(&journal, text);
        let found = ids(&answer);
        let is_nothing =
            found.is_empty() || answer.tier == Tier::SomeWords || text == "what is the";
        assert!(is_nothing, "{text}: {found:?} {:?}", answer.tier);
    }
    assert_eq!(ids(&find(&journal, "\"login flaky\"")), [""; 0]);
}

#[test]
fn a_match_counts_by_where_it_stands() {
    let place = Place::of([
        Script::new("output").you("x").tool("Read", &json!({ "path": "y" }), "the kestrel flies"),
        Script::new("input").you("x").tool("Read", &json!({ "path": "the kestrel flies" }), "y"),
        Script::new("reply").you("x").agent("the kestrel flies"),
        Script::new("prompt").you("the kestrel flies").title("Something"),
        Script::new("title").you("x").title("the kestrel flies"),
    ]);
    let journal = place.journal();
    let answer = find(&journal, "kestrel");
    assert_eq!(ids(&answer)[..3], ["prompt", "reply", "title"]);
}

#[test]
fn most_words_of_a_question_in_a_prompt_beat_all_of_them_in_a_log() {
    let log = "step 1: commit\nstep 2: fetch the latest\nstep 3: push the changes";
    let place = Place::of([
        Script::new("log").you("x").tool("Read", &json!({ "path": "y" }), log),
        Script::new("asked").you("how do I commit all the latest entries").title("Z"),
    ]);
    let journal = place.journal();
    let one = SearchOptions { limit: 1, ..by_words() };
    let answer = journal.search(&query("how do I commit the latest changes"), &one).unwrap();
    assert_eq!((ids(&answer), answer.total), (vec!["asked"], 2));
    assert_eq!(answer.sessions[0].tier, Tier::SomeWords);
    assert_eq!(ids(&find(&journal, "commit latest changes")), ["log"]);
}

#[test]
fn the_later_of_two_comes_first() {
    let place = Place::of([
        Script::new("old").on(1).you("the kestrel of spring flies low over the field").title("A"),
        Script::new("new").on(28).you("the kestrel of autumn flies low over the river").title("B"),
    ]);
    let journal = place.journal();
    assert_eq!(ids(&find(&journal, "kestrel")), ["new", "old"]);
    let by_time = SearchOptions { sort: Sort::Time, ..by_words() };
    let answer = journal.search(&query("kestrel"), &by_time).unwrap();
    assert_eq!(ids(&answer), ["new", "old"]);
}

#[test]
fn what_this_journal_answered_before_is_never_found() {
    let echo = "3 sessions: the kestrel flies";
    let own = json!({ "command": "cd web && aj search kestrel" });
    let script = Script::new("asked").you("look it up").tool("Bash", &own, echo);
    let tool = "mcp__agent-journal__search";
    let script = script.tool(tool, &json!({ "query": "kestrel" }), echo);
    let place = Place::of([script, Script::new("said").you("the kestrel flies")]);
    assert_eq!(ids(&find(&place.journal(), "kestrel")), ["said"]);
}

#[test]
fn a_result_read_later_than_its_call_is_still_our_own() {
    let own = json!({ "command": "aj show 3f1c" });
    let whole = Script::new("asked").you("look it up").tool("Bash", &own, "the kestrel flies");
    let place = Place::of([]);
    let lines: Vec<&str> = whole.lines.lines().collect();
    let begun = Script { lines: lines[..2].join("\n") + "\n", ..Script::new("asked") };
    place.write(&begun);
    place.journal();
    place.write(&whole);
    assert_eq!(ids(&find(&place.journal(), "kestrel")), [""; 0]);
}

#[test]
fn what_a_sub_agent_said_is_found_with_its_task() {
    let place = Place::of([
        Script::new("task").you("find the birds").agent("I ask somebody."),
        Script::new("helper").of("task").you("which birds").agent("a kestrel and a heron"),
    ]);
    let journal = place.journal();
    let answer = find(&journal, "kestrel");
    assert_eq!((ids(&answer), answer.total), (vec!["task"], 1));
    let hit = &answer.sessions[0].hits[0];
    assert_eq!(hit.within.as_ref().unwrap().native_id, "helper");
    assert_eq!(hit.position, Some(1));
    assert_eq!(ids(&find(&journal, "kestrel is:subagent")), ["task"]);
    assert_eq!(ids(&find(&journal, "kestrel -is:subagent")), [""; 0]);
    assert_eq!(ids(&find(&journal, "kestrel session:task")), ["task"]);
}

#[test]
fn messages_that_say_the_same_are_shown_once() {
    let said =
        |at: u32| format!("The kestrel suite passed in {at} seconds, nothing else to report");
    let place = Place::of([Script::new("again")
        .agent(&said(12))
        .agent(&said(13))
        .agent(&said(14))
        .agent("A kestrel was seen")]);
    let journal = place.journal();
    let positions: Vec<Option<u64>> =
        find(&journal, "kestrel").sessions[0].hits.iter().map(|hit| hit.position).collect();
    assert_eq!(positions.len(), 2);
    assert!(positions.contains(&Some(3)));
}

/// Checks which sessions a query finds, whatever their order.
fn finds(journal: &Journal, text: &str, expected: &[&str]) {
    let answer = find(journal, text);
    let mut found = ids(&answer);
    found.sort_unstable();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn fields_choose_sessions_and_messages() {
    let edit = json!({ "file_path": "/home/mara/web/src/login.rs", "old_string": "a",
        "new_string": "b" });
    let place = Place::of([
        Script::new("edited").you("kestrel").tool("Edit", &edit, "ok kestrel"),
        Script::new("talked").you("kestrel").agent("kestrel"),
    ]);
    let journal = place.journal();
    let check = |text: &str, expected: &[&str]| finds(&journal, text, expected);
    check("kestrel file:login.rs", &["edited"]);
    check("kestrel file:SRC/login", &["edited"]);
    check("kestrel -file:login.rs", &["talked"]);
    check("kestrel tool:edit_file", &["edited"]);
    check("kestrel tool:Edit", &["edited"]);
    check("kestrel tool:bash", &[]);
    check("kestrel has:edit", &["edited"]);
    check("kestrel has:image", &[]);
    check("kestrel has:error", &[]);
    check("kestrel kind:reply", &["talked"]);
    check("kestrel -kind:prompt -kind:title -role:tool", &["talked"]);
    check("kestrel path:mara/web model:sonnet", &["edited", "talked"]);
    check("kestrel model:opus", &[]);
    check("kestrel is:running", &[]);
    check("kestrel is:sidechain", &[]);
    check("kestrel session:talk OR session:edit", &["edited", "talked"]);
    check("kestrel since:2026-03 until:2026-03", &["edited", "talked"]);
    check("kestrel since:2026-04", &[]);
}

#[test]
fn side_conversations_are_found_when_they_are_asked_for() {
    let place = Place::of([
        Script::new("main")
            .you("where is the kestrel")
            .aside("kestrel: warming the osprey nest up"),
        Script::new("a1b2c3").of("main").you("look for the heron").agent("the heron is here"),
    ]);
    let journal = place.journal();
    let check = |text: &str, expected: &[&str]| finds(&journal, text, expected);
    check("osprey", &[]);
    check("osprey include:sidechains", &["main"]);
    check("osprey is:sidechain", &["main"]);
    check("osprey include:sidechains -is:sidechain", &[]);
    check("/ospr.y/", &[]);
    check("kestrel", &["main"]);
    check("kestrel is:sidechain", &["main"]);
    // A sub-agent's session is one of its own.
    check("heron", &["main"]);
    let hits = |text: &str| find(&journal, text).sessions[0].hits.len();
    assert_eq!((hits("kestrel"), hits("kestrel include:sidechains")), (2, 3));
    let options = SearchOptions { mode: Mode::Semantic, ..SearchOptions::default() };
    let answer = journal.search(&query("warm up the nest of the osprey"), &options).unwrap();
    let mut near = answer.sessions.iter().flat_map(|session| &session.hits);
    assert!(near.all(|hit| !hit.snippet.text.contains("nest")));
}

#[test]
fn sizes_and_hours_choose_sessions() {
    let long = (0..5).fold(Script::new("long"), |script, at| script.you(&format!("kestrel {at}")));
    let place = Place::of([long, Script::new("short").you("kestrel")]);
    let journal = place.journal();
    let check = |text: &str, expected: &[&str]| finds(&journal, text, expected);
    check("kestrel prompts:1", &["short"]);
    check("kestrel prompts:2..5", &["long"]);
    check("kestrel prompts:6..", &[]);
    check("kestrel prompts:..5", &["long", "short"]);
    // Five prompts, a minute apart.
    check("kestrel active:4m..5m", &["long"]);
    check("kestrel active:..4m", &["short"]);
    check("kestrel -active:..4m", &["long"]);
    // All of it was said at nine in the morning.
    check("kestrel hour:9", &["long", "short"]);
    check("kestrel hour:8 OR hour:9", &["long", "short"]);
    check("kestrel hour:10", &[]);
    check("kestrel -hour:9", &[]);
}

#[test]
fn sizes_and_hours_that_are_none_are_told() {
    let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
    for (text, hint) in [
        ("prompts:many", "prompts:2..7"),
        ("prompts:5..2", "prompts:2..7"),
        ("prompts:..", "prompts:2..7"),
        ("active:5m", "active:5m..1h"),
        ("active:1x..2x", "active:5m..1h"),
        ("active:..0m", "active:5m..1h"),
        ("hour:24", "0 to 23"),
        ("hour:noon", "0 to 23"),
    ] {
        let told = Query::parse(text, &now).unwrap_err().to_string();
        assert!(told.contains(text) && told.contains(hint), "{told}");
    }
}

#[test]
fn messages_context_and_facets_come_when_asked_for() {
    let place = labelled();
    let journal = place.journal();
    let options = SearchOptions {
        grouping: Grouping::Message,
        context: 1,
        facets: vec![Facet::Agent, Facet::Month],
        ..by_words()
    };
    let answer = journal.search(&query("flaky OR cookie"), &options).unwrap();
    assert_eq!((ids(&answer), answer.total), (vec!["flaky"; 3], 3));
    let reply = answer.sessions.iter().find(|found| found.hits[0].position == Some(1)).unwrap();
    let around: Vec<u64> = reply.hits[0].context.iter().map(|(at, _)| *at).collect();
    assert_eq!(around, [0, 2]);
    let counts = vec![("claude-code".to_owned(), 3)];
    assert_eq!(answer.facets[0], (Facet::Agent, counts));
    assert_eq!(answer.facets[1], (Facet::Month, vec![("2026-03".to_owned(), 3)]));
}

#[test]
fn every_step_is_accounted_for() {
    let place = labelled();
    let journal = place.journal();
    let steps = |text: &str| {
        let answer = find(&journal, text);
        let steps: Vec<String> =
            answer.stages.iter().map(|it| format!("{} {}", it.name, it.found)).collect();
        steps.join(", ")
    };
    assert_eq!(steps("flaky"), "all words 1");
    assert_eq!(steps("flaky lgoin"), "all words 0, typo 1, some words 0");
    assert_eq!(steps("flaky backoff"), "all words 0, some words 2");
    assert_eq!(steps(r"/wait\w+/"), "regular expression 1");
    let answer = find(&journal, "flaky lgoin");
    assert_eq!(answer.corrected, [("lgoin".to_owned(), "login".to_owned())]);
}

#[test]
fn an_answer_that_is_interrupted_ends_and_the_next_one_does_not() {
    let place = Place::of([Script::new("s1").you("marmalade and copper")]);
    let mut journal = place.journal();
    for text in ["marmalade", "marm*", "/marm.*e/", "marmalade OR nothing", "role:user"] {
        let interrupter = journal.interrupter();
        interrupter.interrupt();
        let answer = journal.search(&query(text), &by_words());
        assert!(matches!(answer, Err(agent_journal::Error::Stopped)), "{text}: {answer:?}");
        let _unused = journal.interrupter();
        // The one before is over: it interrupts nothing.
        interrupter.interrupt();
        assert_eq!(find(&journal, text).total, 1, "{text}");
    }
}

/// Returns lines like those of programs, logs and terminals, the same in every run.
fn copied_lines(count: usize) -> Vec<String> {
    const PIECES: [&str; 44] = [
        "fn",
        "error:",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "`",
        "=>",
        "->",
        "==",
        "&&",
        "||",
        "|",
        ";",
        "::",
        "/",
        "\\",
        "*",
        "$HOME",
        "#[test]",
        "is:it",
        "x: y",
        "OR",
        "AND",
        "NOT",
        "-la",
        "--flag=1",
        "src/main.rs:12:9",
        "return fmt.Errorf(\"failed: %w\", err)",
        "/usr/(lib",
        "https://example.com/a?b=c",
        "<div class=\"x\">",
        "name:",
        "level:info",
        "has:nothing",
        "not a git repository (or any of the parent directories): .git",
        "100%",
        "…",
        "  ",
        "it's",
    ];
    let mut state = 7_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as usize % limit
    };
    let mut line = || {
        let mut line = String::new();
        for _ in 0..=below(24) {
            line.push_str(PIECES[below(PIECES.len())]);
            line.push_str(["", " ", " "][below(3)]);
        }
        line
    };
    (0..count).map(|_| line()).collect()
}

#[test]
fn no_copied_line_is_refused() {
    let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
    let place = labelled();
    let journal = place.journal();
    for (number, line) in copied_lines(1000).iter().enumerate() {
        let query = Query::parse(line, &now).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        if number % 20 == 0 {
            journal.search(&query, &by_words()).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        }
    }
}

#[test]
fn a_copied_line_is_found_as_it_stands_before_its_words() {
    let line =
        "panicked at 'index out of bounds: the len is 3 but the index is 7', src/lib.rs:12:9";
    let place = Place::of([
        Script::new("words").you("the index panicked: bounds of src lib rs, len 3, index 7, 12 9"),
        Script::new("line").agent(&format!("It printed:\n{line}\nand ended.")),
    ]);
    let journal = place.journal();
    let answer = find(&journal, line);
    assert_eq!(ids(&answer)[0], "line");
    assert_eq!(answer.sessions[0].tier, Tier::ExactPhrase);
}

#[test]
fn a_word_that_occurs_nowhere_does_not_hide_the_others() {
    let place = labelled();
    let journal = place.journal();
    let answer = find(&journal, "who fixed the flaky login test after the relogging");
    assert_eq!(ids(&answer)[0], "flaky");
}
