//! The dashboard over a real socket: who may ask, what is answered, what can never happen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::Test;
use crate::support::server::{Server, within_a_moment};

#[test]
fn only_the_names_of_this_machine_are_answered() {
    let server = Server::of_two_agents();
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let ask = |host: &str| {
        server.send(&format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).status
    };
    assert_eq!(ask(&format!("localhost:{port}")), 200);
    assert_eq!(ask(&format!("127.0.0.1:{port}")), 200);
    // A name that an attacker lets lead to this machine.
    assert_eq!(ask(&format!("evil.example:{port}")), 421);
    assert_eq!(ask(&format!("localhost.evil.example:{port}")), 421);
    assert_eq!(ask("127.0.0.1:1"), 421);
    assert_eq!(ask("127.0.0.1"), 421);
    let nameless = server.send("GET / HTTP/1.0\r\nconnection: close\r\n\r\n");
    assert_eq!(nameless.status, 421);
}

#[test]
fn another_page_cannot_ask() {
    let server = Server::of_two_agents();
    let path = "/api/v1/sessions";
    let status = |lines: &str| server.ask(path, lines).status;
    assert_eq!(status("origin: https://evil.example\r\n"), 403);
    assert_eq!(status("origin: null\r\n"), 403);
    assert_eq!(status(&format!("origin: http://{}\r\n", server.address)), 200);
    assert_eq!(status("sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n"), 403);
    // Another server on this machine is another page as well.
    assert_eq!(status("sec-fetch-site: same-site\r\nsec-fetch-mode: cors\r\n"), 403);
    assert_eq!(status("sec-fetch-site: same-origin\r\nsec-fetch-mode: cors\r\n"), 200);
    let answer = server.ask(path, "origin: https://evil.example\r\n");
    assert!(!answer.head.contains("access-control-allow"), "{}", answer.head);
}

#[test]
fn another_page_can_lead_here_and_show_or_load_nothing_of_it() {
    let server = Server::of_two_agents();
    let session = format!("/session/{}", server.some_id());
    let paths = ["/", "/search?q=a", "/api/v1/sessions", "/assets/app.js", "/events", &session];
    for path in paths {
        let status = |site: &str, mode: &str, destination: &str| {
            let lines = format!(
                "sec-fetch-site: {site}\r\nsec-fetch-mode: {mode}\r\nsec-fetch-dest: {destination}\r\n"
            );
            server.ask(path, &lines).status
        };
        for site in ["cross-site", "same-site"] {
            for destination in ["iframe", "frame", "embed", "object", "empty", "script", "image"] {
                assert_eq!(status(site, "navigate", destination), 403, "{path} {destination}");
                assert_eq!(status(site, "no-cors", destination), 403, "{path} {destination}");
            }
            // A picture that claims to be a page, and headers that are left out.
            assert_eq!(status(site, "no-cors", "document"), 403, "{path}");
            let part = format!("sec-fetch-site: {site}\r\nsec-fetch-mode: navigate\r\n");
            assert_eq!(server.ask(path, &part).status, 403, "{path}");
        }
        // Not even a page of this server shows another inside.
        assert_eq!(status("same-origin", "navigate", "iframe"), 403, "{path}");
        if path == "/events" {
            continue;
        }
        // A link to here may be followed.
        assert_eq!(status("cross-site", "navigate", "document"), 200, "{path}");
        assert_eq!(status("none", "navigate", "document"), 200, "{path}");
        assert_eq!(status("same-origin", "cors", "empty"), 200, "{path}");
    }
}

#[test]
fn a_query_beyond_the_limits_harms_nothing() {
    let server = Server::of_two_agents();
    let deep = |open: &str| format!("{}a{}", open.repeat(1200), ")".repeat(1200));
    let many = |item: &str| vec![item; 400].join("%20OR%20");
    for query in [deep("("), deep("-("), deep("(b%20"), many("a*"), many("/a.b/"), many("word")] {
        for path in [
            "/analytics?q=",
            "/insights?q=",
            "/?where=",
            "/api/v1/sessions?where=",
            "/api/v1/stats?where=",
        ] {
            let answer = server.get(&format!("{path}{query}"));
            assert_eq!(answer.status, 400, "{path} {query}");
            let text = answer.text();
            let says = text.contains("more than 32") || text.contains("more than 256");
            assert!(says, "{path}: {text}");
        }
        let searches = ["/search?q=", "/api/search?q=", "/api/v1/search?q="];
        for path in searches.into_iter().chain(["/api/v1/complete?q=", "/search?rows=1&q="]) {
            assert_eq!(server.get(&format!("{path}{query}")).status, 200, "{path}");
        }
    }
    for name in ["project", "branch", "model", "agent"] {
        let address = vec![format!("{name}=x"); 8100 / (name.len() + 3)].join("&");
        for path in ["/", "/search", "/analytics", "/api/v1/sessions", "/api/v1/stats"] {
            let status = server.get(&format!("{path}?{address}")).status;
            assert!(matches!(status, 200 | 400), "{path} {name}: {status}");
        }
    }
    assert_eq!(server.get("/").status, 200);
}

/// Opens connections to a server, each of which sends the same bytes.
fn crowd(server: &Server, count: usize, bytes: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        // One that lost its place before it could say anything counts as well.
        let _ = stream.write_all(bytes.as_bytes());
        stream
    };
    (0..count).map(connect).collect()
}

/// A page is shown while 200 connections are silent, slow, refused or listen for news.
#[track_caller]
fn stands_a_crowd(server: &Server, own: &str) {
    let host = &server.address;
    let (head, page) = (format!("GET / HTTP/1.1\r\nhost: {host}\r\n"), "GET / HTTP/1.1\r\nhos");
    let listens = format!("GET /events HTTP/1.1\r\nhost: {host}\r\n{own}\r\n");
    let (refused, kept) = (format!("{head}origin: http://x\r\n\r\n"), format!("{head}{own}\r\n"));
    for bytes in ["", page, &refused, &kept, &listens] {
        let mut clients = crowd(server, 200, bytes);
        assert_eq!(server.ask("/", own).status, 200, "{bytes}");
        // Each sends one byte more.
        for stream in &mut clients {
            let _ = stream.write_all(b"t");
        }
        assert_eq!(server.ask("/search?q=login", own).status, 200, "{bytes}");
        assert_eq!(server.ask("/", own).status, 200, "{bytes}");
    }
}

#[test]
fn two_hundred_slow_connections_leave_the_page_working() {
    stands_a_crowd(&Server::of_two_agents(), "");
}

#[test]
fn two_hundred_slow_connections_leave_the_page_working_beyond_this_machine() {
    let test = Test::new().home("two-agents");
    test.aj("index");
    let mut server = Server::start(test, &["--bind", "0.0.0.0"]);
    let token = server.url.split("token=").nth(1).unwrap().to_owned();
    server.address = format!("127.0.0.1:{}", server.address.rsplit(':').next().unwrap());
    stands_a_crowd(&server, &format!("authorization: bearer {token}\r\n"));
    // Nobody listens without the secret.
    let refused = server.get("/events");
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("connection: close"), "{}", refused.head);
}

#[test]
#[cfg(target_os = "linux")]
fn the_secret_is_no_argument_of_the_browser() {
    use std::os::unix::fs::PermissionsExt;
    let test = Test::new().home("two-agents");
    let (programs, pipe) = (test.beside("bin"), test.beside("pipe"));
    let pipe_made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(pipe_made.success());
    let script = format!(
        "#!/bin/sh\n{{ printf '%s\\n' \"$*\"; cat \"$1\"; }} > '{}'\n",
        pipe.to_str().unwrap()
    );
    test.write(programs.join("xdg-open"), script);
    let executable = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(programs.join("xdg-open"), executable).unwrap();
    let path = std::env::join_paths([programs.as_path(), "/bin".as_ref(), "/usr/bin".as_ref()]);
    let test = test.env("PATH", path.unwrap());
    let server = Server::start(test, &["--bind", "0.0.0.0", "--open"]);
    let token = server.url.split("token=").nth(1).unwrap();
    let seen = std::fs::read_to_string(&pipe).unwrap();
    let (arguments, page) = seen.split_once('\n').unwrap();
    assert!(!arguments.contains(token) && !arguments.contains("token"), "{arguments}");
    assert!(page.contains(&format!("url={}", server.url)), "{page}");
    let rights = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let file = std::path::Path::new(arguments);
    assert_eq!((rights(file), rights(file.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn every_answer_forbids_what_a_page_need_not_do() {
    let server = Server::of_two_agents();
    for path in ["/", "/search?q=a", "/sources", "/nowhere", "/api/v1/sessions", "/assets/app.js"] {
        let head = server.get(path).head;
        for line in [
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "default-src 'none'; script-src 'self'; style-src 'self'",
        ] {
            assert!(head.contains(line), "{path} without {line}: {head}");
        }
        assert!(!head.contains("unsafe-inline"), "{path}");
    }
}

#[test]
fn no_page_needs_a_script_or_style_of_its_own() {
    let server = Server::of_two_agents();
    let session = format!("/session/{}", server.some_id());
    for path in ["/", "/search?q=login", "/sources", &session] {
        let page = server.page(path);
        assert!(!page.contains(" style="), "{path}");
        assert!(!page.contains("<style"), "{path}");
        assert!(!page.contains("javascript:"), "{path}");
        for script in page.split("<script").skip(1) {
            let tag = &script[..script.find("</script>").unwrap()];
            assert!(tag.contains("src=\"/assets/") && tag.ends_with('>'), "{path}: {tag}");
        }
    }
}

#[test]
fn nothing_can_be_sent_or_changed() {
    let server = Server::of_two_agents();
    let host = &server.address;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(server.send(&request).status, 405, "{method}");
    }
    let body = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc"
    );
    assert_eq!(server.send(&body).status, 413);
    assert_eq!(server.get(&format!("/search?q={}", "a".repeat(9000))).status, 414);
}

#[test]
fn no_path_leads_out_of_what_is_served() {
    let server = Server::of_two_agents();
    for path in [
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/../Cargo.toml",
        "/etc/passwd",
        "/session/..%2f..%2fetc%2fpasswd",
        "/session/%00",
        "/session/nobody:has-this",
        "/session/x/image/..%2fpasswd",
        "/api/v1/sessions/..%2f..",
        "/api/v1/nothing",
    ] {
        let answer = server.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.text().contains("root:"), "{path}");
    }
    let long = format!("/session/{}", "a".repeat(600));
    assert_eq!(server.get(&long).status, 400);
}

#[test]
fn beyond_this_machine_a_secret_is_needed() {
    let test = Test::new().home("two-agents");
    test.aj("index");
    let mut server = Server::start(test, &["--bind", "0.0.0.0"]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let token =
        server.url.split("token=").nth(1).expect("the address carries the secret").to_owned();
    assert_eq!(token.len(), 64);
    server.address = format!("127.0.0.1:{port}");
    assert_eq!(server.get("/").status, 401);
    assert_eq!(server.get("/assets/app.js").status, 401);
    assert_eq!(server.get("/?token=wrong").status, 401);
    assert_eq!(server.ask("/", "cookie: aj_token=wrong\r\n").status, 401);
    let welcome = server.get(&format!("/search?q=a&token={token}"));
    assert_eq!(welcome.status, 303);
    assert!(welcome.head.contains("location: /search?q=a\r\n"), "{}", welcome.head);
    assert!(welcome.head.contains("httponly; samesite=strict"), "{}", welcome.head);
    assert_eq!(server.ask("/", &format!("cookie: a=b; aj_token={token}\r\n")).status, 200);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let line = format!("authorization: {scheme} {token}\r\n");
        assert_eq!(server.ask("/", &line).status, 200, "{scheme}");
    }
    assert_eq!(server.ask("/", &format!("authorization: Basic {token}\r\n")).status, 401);
    // A browser takes either slash for one, and two of them for another server.
    for path in ["//evil.example/", "/\\evil.example/", "/\\/evil.example/", "/\\\\evil.example/"] {
        let welcome = server.get(&format!("{path}?token={token}"));
        assert!(welcome.head.contains("location: /evil.example/\r\n"), "{}", welcome.head);
    }
    // From another page or a file the cookie would not be sent along with a redirection.
    let from_file =
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n";
    let welcome = server.ask(&format!("/search?q=a&token={token}"), from_file);
    assert_eq!(welcome.status, 200);
    assert!(welcome.head.contains("set-cookie: aj_token="), "{}", welcome.head);
    assert!(welcome.text().contains("content=\"0; url=/search?q=a\""), "{}", welcome.text());
    // The secret does not let another page ask.
    let foreign = format!("cookie: aj_token={token}\r\norigin: http://evil.example\r\n");
    assert_eq!(server.ask("/", &foreign).status, 403);
}

#[test]
fn a_busy_port_says_so() {
    let server = Server::of_two_agents();
    let port = server.address.rsplit(':').next().unwrap();
    let run = Test::new().args(["serve", "--port", port]).code(2);
    assert!(run.stderr.contains(&format!("port {port} is in use")), "{run}");
    assert!(run.stderr.contains("--port 0"), "{run}");
}

#[test]
fn the_list_shows_every_session_and_filters_by_the_address() {
    let server = Server::of_two_agents();
    let all = server.json("/api/v1/sessions");
    let total = all["total"].as_u64().unwrap();
    assert!(total >= 2, "{all}");
    let page = server.page("/");
    for session in all["sessions"].as_array().unwrap() {
        assert!(page.contains(session["id"].as_str().unwrap()), "{session}");
    }
    let agent = all["facets"]["agents"][0][0].as_str().unwrap();
    let some = server.json(&format!("/api/v1/sessions?source={agent}"));
    assert_eq!(some["total"], all["facets"]["agents"][0][1]);
    assert!(some["total"].as_u64().unwrap() < total);
    assert_eq!(server.get("/?agent=nobody").status, 400);
    assert!(server.page("/?project=no-such-project").contains("No sessions match"));
}

#[test]
fn an_empty_journal_says_what_to_do() {
    let server = Server::start(Test::new(), &[]);
    assert!(server.page("/").contains("The journal is empty"));
    assert!(server.page("/sources").contains("No sessions found"));
    assert!(server.page("/search?q=anything").contains("Nothing found"));
}

#[test]
fn the_sources_warn_of_what_an_agent_will_delete() {
    let test = Test::new().home("two-agents");
    test.write(".claude/settings.json", "{\"cleanupPeriodDays\": 14}");
    test.aj("index");
    let server = Server::start(test, &[]);
    let page = server.page("/sources");
    assert!(page.contains("deletes sessions after 14 days"), "{page}");
    assert!(page.contains("cleanupPeriodDays"), "{page}");
}

#[test]
fn a_search_marks_what_it_found_and_leads_to_the_message() {
    let server = Server::of_two_agents();
    let id = server.some_id();
    let messages = server.json(&format!("/api/v1/sessions/{id}/messages"));
    let text = messages["messages"][0]["content"][0]["text"].as_str().unwrap();
    let word =
        text.split(|c: char| !c.is_ascii_alphabetic()).max_by_key(|word| word.len()).unwrap();
    let page = server.page(&format!("/search?q={word}"));
    assert!(page.contains("<mark>"), "{page}");
    assert!(page.contains(&format!("/session/{id}?from=1#m1")), "{page}");
    let wrong = server.get("/search?q=prjoect:web");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("did you mean"), "{}", wrong.text());
    let offers = server.json("/api/v1/complete?q=proj");
    assert_eq!(offers["completions"][0]["text"], "project:");
}

#[test]
fn what_is_found_in_a_sub_agent_leads_into_it() {
    let server = Server::of_two_agents();
    let page = server.page("/search?q=marmalade");
    let hits = page.split("<ol class=\"hits\">").nth(1).unwrap().split("<aside").next().unwrap();
    let links: Vec<&str> =
        hits.split("=\"/session/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    // The heading, the line, its context and what stands there until it is loaded.
    assert_eq!(
        links,
        [
            "claude-code:a7b8c9?from=1#m2",
            "claude-code:a7b8c9?from=1&amp;find=marmalade#m2",
            "claude-code:a7b8c9/part?from=1&amp;until=6",
            "claude-code:a7b8c9?from=1&amp;find=marmalade#m2",
        ]
    );
    assert!(
        hits.contains("Fix flaky login test") && hits.contains("in List every spec."),
        "{hits}"
    );
    assert!(server.page("/session/claude-code:a7b8c9?from=1").contains("marmalade"));
}

#[test]
fn a_plan_without_a_conversation_is_shown_at_once() {
    let test = Test::new();
    let id = "bbbbbbb2-0000-4000-8000-000000000002";
    let folder = format!(".copilot/session-state/{id}");
    test.write(format!("{folder}/workspace.yaml"), format!("id: {id}\ncwd: /home/mara/web\n"));
    test.write(format!("{folder}/plan.md"), "Find the leak.\n");
    test.aj("index");
    let server = Server::start(test, &[]);
    let page = server.page(&format!("/session/copilot-cli:{id}"));
    assert!(page.contains("Find the leak."), "{page}");
}

#[test]
fn a_long_session_is_read_in_windows_that_lose_nothing() {
    let test = Test::new();
    let id = "11111111-2222-4333-8444-555555555555";
    let mut lines = String::new();
    for at in 0..400 {
        let (role, kind) = if at % 2 == 0 { ("user", "user") } else { ("assistant", "assistant") };
        lines.push_str(&format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"u{at}\",\"sessionId\":\"{id}\",\"cwd\":\"/w\",\
             \"timestamp\":\"2026-11-01T10:{:02}:{:02}.000Z\",\"message\":{{\"role\":\"{role}\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"word{at}x\"}}]}}}}\n",
            at / 60,
            at % 60,
        ));
    }
    test.write(format!(".claude/projects/-w/{id}.jsonl"), lines);
    test.aj("index");
    let server = Server::start(test, &[]);
    let first = server.page(&format!("/session/{id}"));
    assert!(first.contains("word0x") && !first.contains("word399x"));
    let (mut seen, mut next) = (String::new(), Some(format!("/session/{id}/part")));
    while let Some(path) = next {
        let part = server.page(&path);
        next = part
            .split("data-part=\"")
            .nth(1)
            .map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&"));
        seen.push_str(&part);
    }
    for at in 0..400 {
        assert_eq!(seen.matches(&format!("word{at}x")).count(), 1, "word{at}x");
    }
    // Inside another session's page the next part is its own too, but the link leads to a page.
    let part = server.page(&format!("/session/{id}/part?of=1"));
    let base = format!("/session/claude-code:{id}");
    assert!(part.contains(&format!("href=\"{base}?from=61\"")));
    assert!(part.contains(&format!("data-part=\"{base}/part?of=1&amp;from=61\"")));
    let found = server.page(&format!("/session/{id}/find?rows=1&q=WORD321X"));
    assert!(found.contains("#322"), "{found}");
    let message = server.page(&format!("/session/{id}/message/322"));
    assert!(message.contains("&quot;uuid&quot;: &quot;u321&quot;"), "{message}");
}

#[test]
fn what_an_agent_writes_is_told_to_the_open_page() {
    let test = Test::new().home("two-agents");
    test.aj("index");
    let server = Server::start(test, &[]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let host = &server.address;
    write!(stream, "GET /events HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut news = || {
        let line = lines.find(|line| line.starts_with("data:")).unwrap();
        serde_json::from_str::<Value>(&line["data:".len()..]).unwrap()["change"].as_i64().unwrap()
    };
    let before = news();
    let id = "99999999-2222-4333-8444-555555555555";
    server.test.write(
        format!(".claude/projects/-w/{id}.jsonl"),
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"{id}\",\"cwd\":\"/w\",\
             \"timestamp\":\"2026-11-01T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\
             \"content\":\"quite new\"}}}}\n"
        ),
    );
    let mut after = news();
    while after == before || !server.page("/").contains(id) {
        after = news();
    }
    assert!(after > before);
}

#[test]
fn a_hostile_session_cannot_run() {
    let test = Test::new();
    let id = "66666666-2222-4333-8444-555555555555";
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> [x](javascript:alert(1)) \
                   <svg onload=alert(1)> <iframe src=//evil.example></iframe> </section></main>";
    let line = serde_json::json!({
        "type": "user", "uuid": "u1", "sessionId": id, "cwd": "/w/<b>", "gitBranch": "<img src=x>",
        "timestamp": "2026-11-01T10:00:00.000Z",
        "message": { "role": "user", "content": [
            { "type": "text", "text": hostile },
            { "type": "tool_result", "tool_use_id": "t", "content": hostile },
        ] },
    });
    test.write(format!(".claude/projects/-w/{id}.jsonl"), format!("{line}\n"));
    test.aj("index");
    let server = Server::start(test, &[]);
    let paths = [
        "/".to_owned(),
        format!("/session/{id}"),
        format!("/session/{id}/message/1"),
        format!("/session/{id}/find?q=alert"),
        "/search?q=alert".to_owned(),
        "/search?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
        "/?project=%22%3E%3Cscript%3Ealert(1)%3C/script%3E".to_owned(),
    ];
    for path in paths {
        let page = server.page(&path);
        let lower = page.to_lowercase();
        for bad in ["<script>", "<img src=x", "<svg onload", "<iframe", "href=\"javascript:"] {
            assert!(!lower.contains(bad), "{path} has {bad}");
        }
    }
}

#[test]
fn what_cannot_be_seen_is_shown_or_described() {
    let test = Test::new();
    let id = "77777777-2222-4333-8444-555555555555";
    let line = serde_json::json!({
        "type": "user", "uuid": "u1", "sessionId": id, "cwd": "/w",
        "timestamp": "2026-11-01T10:00:00.000Z",
        "message": { "role": "user", "content": [
            { "type": "text", "text": "a\u{202e}b\u{1b}[31mc" },
            { "type": "image", "source": {
                "type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+",
            } },
        ] },
    });
    test.write(format!(".claude/projects/-w/{id}.jsonl"), format!("{line}\n"));
    test.aj("index");
    let server = Server::start(test, &[]);
    let outline = server.page(&format!("/session/{id}/outline"));
    assert!(outline.contains("a⟦U+202E⟧bc"), "{outline}");
    let part = server.page(&format!("/session/{id}/part?of=2"));
    assert!(part.contains("[image/svg+xml, ") && !part.contains("<img"), "{part}");
    // Inside the page of the session that started it, its ids are its own.
    assert!(part.contains("id=\"s2-m1\"") && !part.contains("\"#m1\""), "{part}");
}

#[test]
fn a_mistake_in_a_filter_leaves_the_form_to_mend_it() {
    let server = Server::of_two_agents();
    let answer = server.get("/?where=colour:red&status=completed");
    assert_eq!(answer.status, 400);
    let page = answer.text();
    assert!(page.contains("role=\"alert\"") && page.contains("colour"), "{page}");
    assert!(page.contains("value=\"colour:red\"") && !page.contains("id=\"rows\""), "{page}");
    assert!(page.contains("<option value=\"completed\" selected"), "{page}");
}

#[test]
fn answers_are_compressed_and_assets_known_again() {
    let server = Server::of_two_agents();
    let packed = server.ask("/assets/style.css", "accept-encoding: br, gzip\r\n");
    assert!(packed.head.contains("content-encoding: gzip"), "{}", packed.head);
    assert_eq!(&packed.body[..2], &[0x1f, 0x8b]);
    let plain = server.get("/assets/style.css");
    assert!(packed.body.len() * 2 < plain.body.len());
    let tag = plain.head.split("etag: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let again = server.ask("/assets/style.css", &format!("if-none-match: {tag}\r\n"));
    assert_eq!(again.status, 304);
}

#[test]
fn a_page_is_the_same_packed_and_plain_and_the_second_time() {
    let server = Server::of_two_agents();
    for path in ["/", "/search?q=login", "/analytics?since=all"] {
        let packed = || {
            let packed = server.ask(path, "accept-encoding: gzip\r\n");
            assert!(packed.head.contains("content-encoding: gzip"), "{path}: {}", packed.head);
            let mut text = String::new();
            flate2::read::GzDecoder::new(&*packed.body).read_to_string(&mut text).unwrap();
            text
        };
        let pages = within_a_moment(|| [server.page(path), packed(), packed()]);
        assert!(pages[0].starts_with("<!DOCTYPE html>"), "{path}: {}", pages[0]);
        assert!(pages[1] == pages[0] && pages[2] == pages[0], "{path}: {pages:#?}");
    }
}
