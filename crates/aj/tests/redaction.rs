//! Secrets in what is shown and written: taken out of the whole text before anything is cut.

#[path = "../../agent-journal/src/export/redact/tests/generated.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod generated;

use std::collections::{BTreeSet, HashMap};
use std::fs;

use generated::Dice;
use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Run, Test, Transcript};

/// A token, put together so that no scanner takes this file for a leak.
fn token() -> String {
    ["ghp_", "R7tq2LmX9vBz4KdW1nYc8HsJ5pFgA3eU6oTi"].concat()
}

/// A home with one session whose first prompt has a token after so many characters.
fn with_token_at(offset: usize) -> Test {
    let prose = "please look at the deployment and start over with what we said ".repeat(4);
    let prompt = format!("{} {} and more words behind it", &prose[..offset], token());
    let test = Test::new();
    let session = Transcript::new(1).you(&prompt).agent("done");
    test.write(session.path(), &session.lines);
    test
}

/// Whether a text has a part of the token that would help somebody.
fn leaks(text: &str) -> bool {
    (0..=token().len() - 8).any(|at| text.contains(&token()[at..at + 8]))
}

#[track_caller]
fn clean(run: &Run) {
    assert!(!leaks(&run.stdout) && !leaks(&run.stderr), "{run}");
}

#[test]
fn a_token_at_any_offset_around_the_cut_of_a_title_is_taken_out() {
    for offset in (76..116).step_by(5).chain([117, 118, 119, 120]) {
        let test = with_token_at(offset);
        for words in [
            "export 0000 -o - --format markdown",
            "export 0000 -o - --format html",
            "export 0000 --json --redact",
            "list --redact",
            "list --redact --json",
            "show 0000 --redact",
            "show 0000 --redact --json",
            "search deployment --redact",
            "search deployment --redact --json",
            "handoff 0000",
        ] {
            clean(&test.aj(words).code(0));
        }
        let name = test.aj("export 0000").code(0).stdout;
        assert!(!leaks(&name.replace('-', "_")), "{name}");
    }
}

#[test]
fn a_token_that_a_snippet_cuts_is_taken_out_and_the_words_found_stay_marked() {
    let test = Test::new();
    let long = format!("{}{}", token(), token()[4..].repeat(5));
    let prompt = format!("copper {} {long} lattice", "filler ".repeat(60));
    let session = Transcript::new(1).you("look at this").you(&prompt).tool("cat copper.env", true);
    test.write(session.path(), &session.lines);
    for words in ["lattice", "copper lattice", "filler", "copper"] {
        clean(&test.args(["search", words, "--redact"]).code(0));
        let run = test.args(["search", words, "--redact", "--json"]).code(0);
        clean(&run);
        for hit in run.json()["hits"].as_array().unwrap() {
            let said = hit["snippet"]["text"].as_str().unwrap();
            for mark in hit["snippet"]["highlights"].as_array().unwrap() {
                let at = |end: &str| mark[end].as_u64().unwrap() as usize;
                let marked = &said[at("start")..at("end")];
                assert!(words.contains(marked), "`{marked}` of {said}");
            }
        }
    }
}

#[test]
fn redaction_of_what_is_shown_is_a_choice() {
    let test = with_token_at(40);
    for words in ["show 0000", "list", "search deployment"] {
        let shown = test.aj(&format!("{words} --json")).found();
        assert!(shown.stdout.contains(&token()), "{shown}");
        assert!(shown.stdout.contains("/home/mara/web"));
        let redacted = test.aj(&format!("{words} --json --redact")).found();
        redacted.shows(["[redacted:github-token:", "~/web"]).hides([&token(), "/home/mara"]);
    }
}

#[test]
fn an_agent_reads_no_secrets_unless_it_says_so() {
    for variable in ["CLAUDECODE", "GEMINI_CLI", "CODEX_CI", "CURSOR_AGENT", "AI_AGENT"] {
        let test = with_token_at(40).env(variable, "1");
        for words in ["show 0000", "list --json", "search deployment"] {
            let said = format!("redacted because {variable} is set; see --no-redact\n");
            let run = test.aj(words).code(0).says([&said]).hides([&token()]);
            // An agent works with the paths it reads.
            assert!(words != "list --json" || run.stdout.contains("/home/mara/web"), "{run}");
            test.aj(&format!("{words} --no-redact")).found().shows([&token()[..20]]);
        }
    }
    let test = with_token_at(40).env("CLAUDECODE", "0");
    test.aj("show 0000").found().shows([&token()]);
}

#[test]
fn a_private_key_that_a_title_cuts_is_taken_out() {
    let lines = "MIIEpAIBAAKCAQEAk9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3Ua\n".repeat(20);
    let (begin, end) = ("-----BEGIN RSA PRIVATE ", "-----END RSA PRIVATE ");
    let prompt = format!("use this key\n{begin}KEY-----\n{lines}{end}KEY-----\nfor it");
    let test = Test::new();
    let session = Transcript::new(1).you(&prompt).agent("done");
    test.write(session.path(), &session.lines);
    for words in ["list --redact", "export 0000 -o - --format markdown", "search key --redact"] {
        test.aj(words).code(0).hides(["MIIE", "Vt5Zn1"]).shows(["use this key"]);
    }
}

#[test]
fn exports_that_keep_everything_say_how_many_secrets_they_have() {
    let test = with_token_at(40);
    let said = "the export contains 1 secret; use --redact to remove it\n";
    for format in ["json", "ndjson"] {
        let words = format!("export 0000 --format {format} -o out.{format}");
        test.aj(&words).code(0).says([said]);
        let written = fs::read_to_string(test.beside(&format!("out.{format}"))).unwrap();
        assert!(written.contains(&token()));
        test.aj(&format!("{words} --force --redact")).found();
        test.aj(&format!("export 0000 --format {format} -o -")).code(0).says([said]);
    }
    test.aj("export 0000 --format markdown -o out.md").found();
    test.aj("export 0000 --format markdown -o raw.md --no-redact").code(0).says([said]);
}

#[cfg(unix)]
#[test]
fn what_is_exported_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let test = with_token_at(40);
    for format in ["json", "ndjson.zst", "markdown", "html"] {
        test.aj(&format!("export 0000 --format {format} -o out.{format}")).code(0);
        let metadata = fs::metadata(test.beside(&format!("out.{format}"))).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{format}");
    }
}

/// A secret in a session of its own, with what must not be seen of it.
struct Planted {
    id: String,
    kind: String,
    parts: Vec<String>,
}

/// Where a secret is recorded in a session.
const SPOTS: [&str; 6] = ["prompt", "reply", "command", "output", "json in a string", "field"];

/// Puts generated secrets into sessions, each of another kind, place and spot.
fn planted(test: &Test) -> Vec<Planted> {
    let mut dice = Dice::new(2_026);
    let mut cases: Vec<(String, String, Vec<String>)> = Vec::new();
    for kind in generated::TOKENS {
        let token = generated::token(kind, &mut dice);
        let place = dice.pick(generated::TOKEN_PLACES);
        let part = token.rsplit('/').next().unwrap().to_owned();
        cases.push(((*kind).to_owned(), place.replace('@', &token), vec![part]));
    }
    for (kind, place) in generated::PLACES {
        let value = dice.alnum(24);
        cases.push(((*kind).to_owned(), place.replacen('@', &value, 1), vec![value]));
    }
    for kind in generated::SPECIAL {
        let (line, parts) = generated::special(kind, &mut dice);
        cases.push(((*kind).to_owned(), line, parts));
    }
    for (at, shape) in generated::KEY_SHAPES.iter().enumerate() {
        let kind = generated::KEYS[at % generated::KEYS.len()];
        let (line, parts) = generated::private_key(kind, shape, &mut dice);
        cases.push((format!("{kind}key, {shape}"), line, parts));
    }
    let plant = |(number, (kind, text, parts)): (usize, (String, String, Vec<String>))| {
        let spot = SPOTS[number % SPOTS.len()];
        let session = session_with(number as u64 + 1, spot, &text, &parts);
        test.write(session.path(), &session.lines);
        Planted { id: session.id, kind: format!("{kind} as {spot}"), parts }
    };
    cases.into_iter().enumerate().map(plant).collect()
}

/// A session that has a text in one spot, around it the word `copper`.
fn session_with(number: u64, spot: &str, text: &str, parts: &[String]) -> Transcript {
    let said = format!("copper\n{text}\ncopper lattice");
    let session = Transcript::new(number);
    match spot {
        "prompt" => session.you(&said).agent("done"),
        "reply" => session.you("look").agent(&format!("We decided copper.\n{text}\ncopper")),
        "command" => session.you("look").tool(&said, true),
        "output" => session.you("look").agent("copper").tool(&format!("cat x; {said}"), true),
        "json in a string" => {
            let inner = json!({ "text": said, "password": parts[0] }).to_string();
            with_input(
                session.you("look"),
                &json!({ "command": inner, "env": { "API_TOKEN": parts[0] } }),
            )
        }
        _ => with_input(session.you("look"), &json!({ "description": "copper", "input": said })),
    }
}

/// Adds a call of a tool with any input.
fn with_input(mut session: Transcript, input: &Value) -> Transcript {
    let line = json!({
        "type": "assistant", "uuid": format!("{}-call", session.id), "sessionId": session.id,
        "cwd": "/home/mara/web", "version": "2.1.40", "timestamp": "2026-03-02T05:00:00.000Z",
        "message": {
            "model": "claude-sonnet-4-5", "id": format!("msg_{}", session.id), "type": "message",
            "role": "assistant",
            "content": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": input }],
        },
    });
    session.lines.push_str(&format!("{line}\n"));
    session
}

/// Eight characters in a row of any secret, each with the kind of its secret.
struct Traces<'p> {
    windows: HashMap<&'p [u8], &'p str>,
    short: Vec<(&'p str, &'p str)>,
}

impl<'p> Traces<'p> {
    fn of(planted: &'p [Planted]) -> Self {
        let (mut windows, mut short) = (HashMap::new(), Vec::new());
        for one in planted {
            for part in &one.parts {
                windows
                    .extend(part.as_bytes().windows(8).map(|window| (window, one.kind.as_str())));
                short.extend((part.len() < 8).then_some((part.as_str(), one.kind.as_str())));
            }
        }
        Self { windows, short }
    }

    /// Returns the kinds of which a text has something.
    fn seen(&self, text: &str) -> BTreeSet<&'p str> {
        let windows = text.as_bytes().windows(8).filter_map(|window| self.windows.get(window));
        let short = self.short.iter().filter(|(part, _)| text.contains(part)).map(|(_, kind)| kind);
        windows.chain(short).copied().collect()
    }
}

#[test]
fn no_door_shows_what_another_removes() {
    let test = Test::new();
    let all = planted(&test);
    test.aj("index").found();
    let traces = Traces::of(&all);
    let mut leaks: BTreeSet<String> = BTreeSet::new();
    let mut look = |door: &str, text: &str| {
        leaks.extend(traces.seen(text).into_iter().map(|kind| format!("{door}: {kind}")));
    };
    for words in [
        "list --redact --limit 0 --json",
        "list --redact --limit 0",
        "search copper --redact --limit 0 --json -C 1",
        "search copper --redact --limit 0",
        "files --redact --limit 0 --json",
        "stats --by session --redact --json",
        "stats --by session --redact --limit 0",
        "show 0000 --redact",
        "resume 0000 --print",
        "export --all --redact --format ndjson -o -",
    ] {
        let run = test.aj(words);
        look(words, &format!("{}{}", run.stdout, run.stderr));
    }
    test.aj("export --all --format markdown -o md").code(0);
    test.aj("export --all --format html -o html").code(0);
    for directory in ["md", "html"] {
        for file in fs::read_dir(test.beside(directory)).unwrap().flatten() {
            let written = fs::read_to_string(file.path()).unwrap();
            look(directory, &format!("{}{written}", file.file_name().display()));
        }
    }
    let mut client = Client::start(&test, "test", "mcp --no-sync");
    let room = json!({ "max_tokens": 16_000 });
    for (number, one) in all.iter().enumerate() {
        let id = &one.id;
        // A process for each takes long; a step of seven meets every spot.
        for words in ["show ID --tools --all --redact", "handoff ID"] {
            if number % 7 == 0 {
                look(words, &test.aj(&words.replace("ID", id)).stdout);
            }
        }
        for tools in [true, false].into_iter().take(1 + usize::from(number % 5 == 0)) {
            let arguments = json!({ "id": id, "tools": tools, "max_tokens": 16_000 });
            look("mcp show", &client.ask("show", &arguments));
        }
        if number % 5 == 0 {
            look("mcp handoff", &client.ask("handoff", &json!({ "id": id })));
        }
    }
    for offset in [0, 50, 100] {
        let mut arguments = json!({ "limit": 50, "offset": offset, "max_tokens": 16_000 });
        look("mcp list", &client.ask("list", &arguments));
        arguments["query"] = json!("copper");
        look("mcp search", &client.ask("search", &arguments));
    }
    look("mcp files", &client.ask("files", &json!({ "text": "" })));
    look("mcp stats", &client.ask("stats", &room));
    client.end();
    assert!(leaks.is_empty(), "{} leaks: {leaks:#?}", leaks.len());
}

#[test]
fn pages_of_the_dashboard_and_statistics_are_redacted_when_an_agent_runs_them() {
    for offset in [40, 90, 100] {
        let test = with_token_at(offset);
        test.aj("stats --by session").code(0).shows(["please look"]);
        let test = test.env("CLAUDECODE", "1");
        for words in [
            "stats --by session",
            "stats --by session --json",
            "why 0000",
            "statusline",
            "statusline --json",
        ] {
            clean(&test.aj(words));
        }
    }
}

#[test]
fn titles_to_choose_from_tell_no_secrets() {
    let test = with_token_at(90);
    let prose = "please look at the deployment and start over with what we said ".repeat(4);
    let other = Transcript::new(2).you(&format!("{} {}", &prose[..95], token()));
    test.write(other.path(), &other.lines);
    for words in ["resume 0000", "show 0000", "handoff 0000", "export 0000 --json"] {
        let run = test.aj(words);
        clean(&run);
    }
    test.aj("resume 0000").fails(["please look"]);
}

#[test]
fn a_dashboard_that_redacts_shows_no_secret_on_any_page() {
    let test = with_token_at(90);
    let more = Transcript::new(2).you("look").agent(&format!("it is {}", token()));
    let more = more.tool(&format!("echo deployment {}", token()), true);
    test.write(more.path(), &more.lines);
    test.aj("index").found();
    let (one, two) = (Transcript::new(1).id, Transcript::new(2).id);
    let pages = [
        "/".to_owned(),
        "/search?q=deployment".to_owned(),
        "/api/v1/sessions".to_owned(),
        "/api/sessions".to_owned(),
        "/api/search?q=deployment".to_owned(),
        "/api/v1/search?q=deployment".to_owned(),
        format!("/session/claude-code:{one}"),
        format!("/session/claude-code:{one}/outline"),
        format!("/session/claude-code:{two}"),
        format!("/session/claude-code:{two}/find?q=deployment"),
        format!("/session/claude-code:{two}/message/2"),
        format!("/api/v1/sessions/claude-code:{one}"),
        format!("/api/v1/sessions/claude-code:{two}/messages"),
        format!("/api/sessions/claude-code:{two}"),
        format!("/api/sessions/claude-code:{two}/export?format=json"),
        "/analytics".to_owned(),
        "/session/0000".to_owned(),
    ];
    let open = Server::start(&test, &[]);
    let shown = pages.iter().filter(|page| leaks(&open.get(page).text())).count();
    assert!(shown >= 3, "{shown} pages show the token when nothing is redacted");
    drop(open);
    let server = Server::start(&test, &["--redact"]);
    for page in &pages {
        let answer = server.get(page);
        assert!(!leaks(&answer.text()), "{page}: {}", answer.text());
    }
}
