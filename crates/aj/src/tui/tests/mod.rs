//! The screen, drawn into a buffer from a real journal of made-up sessions; the worker's
//! questions are answered at once. `BLESS=1` rewrites the pictures.
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod bench;

use std::fs;
use std::path::{Path, PathBuf};

use ratatui::layout::{Position, Size};
use ratatui::style::Color;

use self::bench::Bench;
use super::action::{UserAction, Way};
use super::keys::InputMode;
use super::panes;
use super::state::{ActionNotice, Effect};
use super::worker::{FoundSessions, Question, WorkerAnswer};

const SIZES: [(u16, u16); 3] = [(80, 24), (160, 45), (40, 12)];

/// A line of a session.
fn line(number: usize, kind: &str, content: &serde_json::Value) -> String {
    let message = serde_json::json!({ "role": kind, "content": content });
    let line = serde_json::json!({
        "type": kind, "message": message, "uuid": format!("u{number}"),
        "sessionId": "3f1c0001-0000-4000-8000-000000000001", "cwd": "/home/mara/web",
        "timestamp": format!("2026-03-02T{:02}:{:02}:{:02}.000Z", number / 3600, number / 60 % 60, number % 60),
    });
    format!("{line}\n")
}

/// Compares a place of the program at every size with its picture.
#[track_caller]
fn check(name: &str, keys: &str) {
    let mut pictures = String::new();
    for (width, height) in SIZES {
        let mut bench = Bench::demo(Size::new(width, height));
        bench.keys(keys);
        let frame = "=".repeat(usize::from(width));
        pictures.push_str(&format!("{width}x{height}\n{frame}\n{}\n{frame}\n\n", bench.text()));
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/tui-{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &pictures).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(pictures, expected, "{} differs; BLESS=1 rewrites it", path.display());
}

#[test]
fn the_list_has_the_latest_sessions_and_a_look_into_the_first() {
    check("list", "");
}

#[test]
fn sessions_are_found_while_a_word_is_typed() {
    check("search", "retry back");
}

#[test]
fn a_call_an_author_and_a_kind_of_match_read_as_in_other_views() {
    let call = serde_json::json!([{ "type": "tool_use", "id": "t1", "name": "Bash",
        "input": { "command": "git diff\n  --staged", "description": "Show staged diff" } }]);
    let lines = line(0, "user", &"review the marmalade".into()) + &line(1, "assistant", &call);
    let mut bench = Bench::session(Size::new(100, 24), &lines);
    bench.keys("marmalade zeppelin harbour quarrel ").shows("not all words").shows("you");
    bench.keys("<enter>").shows("▸ Bash Show staged diff · git diff --staged").shows("1 you");
}

#[test]
fn fields_alone_list_what_fits_and_show_the_messages_they_choose() {
    let call = serde_json::json!([{ "type": "tool_use", "id": "t1", "name": "Bash",
        "input": { "command": "ls nowhere" } }]);
    let result = serde_json::json!([{ "type": "tool_result", "tool_use_id": "t1",
        "is_error": true, "content": "no such directory" }]);
    let lines = line(0, "user", &"look around".into())
        + &line(1, "assistant", &call)
        + &line(2, "user", &result);
    let screen = |keys: &str| {
        let mut bench = Bench::session(Size::new(100, 24), &lines);
        bench.keys(keys);
        bench.text()
    };
    for fields in ["agent:claude", "project:web", "is:failed", "role:user", "tool:bash"] {
        assert!(screen(fields).contains("look around"), "{fields}: {}", screen(fields));
    }
    for fields in ["agent:codex", "is:subagent", "tool:edit"] {
        assert!(!screen(fields).contains("look around"), "{fields}: {}", screen(fields));
    }
    // The message that failed is the place that is opened.
    let read = screen("is:failed<enter>");
    assert!(read.contains("no such directory"), "{read}");
}

#[test]
fn fields_and_values_are_offered() {
    check("complete", "login agent:");
}

#[test]
fn what_is_not_understood_is_told_and_the_list_stays() {
    check("mistake", "prjoect:web");
}

#[test]
fn nothing_found_says_what_to_try() {
    check("nothing", "zzyzx");
}

#[test]
fn filters_are_chosen_from_what_there_is() {
    check("filters", "<^f><tab><down> ");
}

#[test]
fn a_session_is_read_where_it_was_found() {
    check("reading", "waitforsession<enter>");
}

#[test]
fn tools_are_unfolded() {
    check("unfolded", "waitforsession<enter>z");
}

#[test]
fn replies_are_rendered() {
    let text = "# Plan\n\nThe **cookie** is *late*:\n\n- set it in `login.ts`\n- wait\n\n> as you said\n\n\
                ```ts\nawait cookie();\n```\n\n| run | ms |\n|---|--:|\n| 検索 | 12 |\n";
    let lines = line(0, "user", &"keep\nmy lines".into()) + &line(1, "assistant", &text.into());
    let mut bench = Bench::session(Size::new(80, 24), &lines);
    bench.keys("<enter>");
    let screen = bench.text();
    let body: Vec<&str> = screen.lines().skip(3).map(|line| line.trim_start_matches('▌')).collect();
    let expected = [
        "   1 you",
        "      keep",
        "      my lines",
        "",
        "    2 claude",
        "      Plan",
        "",
        "      The cookie is late:",
        "",
        "      • set it in `login.ts`",
        "      • wait",
        "",
        "      │ as you said",
        "",
        "        await cookie();",
        "",
        "      run  │ ms",
        "      ─────┼───",
        "      検索 │ 12",
    ];
    assert_eq!(body[..expected.len()], expected, "{screen}");
    let buffer = bench.buffer();
    let cookie = screen.lines().position(|line| line.contains("cookie is late")).unwrap() as u16;
    assert!(buffer[(10, cookie)].modifier.contains(ratatui::style::Modifier::BOLD));
}

/// A session with two tools in one message, the second of which fails.
fn tools() -> String {
    let call = |id: &str, command: &str| serde_json::json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } });
    let result = |id: &str, text: &str, failed: bool| serde_json::json!([{ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed }]);
    let calls = serde_json::json!([
        { "type": "text", "text": "Two at once." }, call("c1", "first"), call("c2", "second"),
    ]);
    let last = serde_json::json!([call("c3", "third")]);
    [
        line(0, "user", &"begin".into()),
        line(1, "assistant", &calls),
        line(2, "user", &result("c1", "copper output", false)),
        line(3, "user", &result("c2", "silver output", true)),
        line(4, "assistant", &last),
        line(5, "user", &result("c3", "golden output", false)),
        line(6, "assistant", &"Done.".into()),
    ]
    .concat()
}

#[test]
fn one_tool_is_folded_and_unfolded() {
    let mut bench = Bench::session(Size::new(80, 40), &tools());
    bench.keys("<enter> ").shows("▾ Bash first").shows("copper output").shows("▸ Bash second");
    assert!(!bench.text().contains("golden output"));
    bench.keys(" ").shows("▸ Bash first").shows("✗ Bash: silver output");
    assert!(!bench.text().contains("copper output"));
    bench.keys("t<enter>").shows("▸ Bash first").shows("▾ Bash second").shows("▸ Bash third");
    bench.keys("z").shows("copper output").shows("golden output").shows("▾ Bash second");
    bench.keys("z").shows("▸ Bash second").keys("g");
    let third = bench.text().lines().position(|line| line.contains("▸ Bash third")).unwrap();
    bench.act(UserAction::Click(Position::new(9, third as u16))).shows("golden output");
    bench.act(UserAction::Click(Position::new(9, third as u16))).shows("▸ Bash third");
    // The last one above, when there is none below.
    bench.keys("G ").shows("▾ Bash third").shows("golden output");
    let long = tools() + &line(7, "assistant", &"one line\n\n".repeat(40).into());
    Bench::session(Size::new(80, 24), &long).keys("<enter>G ").shows("no tool on the screen");
}

#[test]
fn text_in_a_folded_tool_is_found_and_unfolded() {
    let mut bench = Bench::session(Size::new(80, 40), &tools());
    bench.keys("<enter>/copper<enter>").shows("copper output");
    assert!(!bench.text().contains("golden output"));
    bench.keys("n").shows("no further `copper`").keys("/golden<enter>").shows("golden output");
    assert!(!bench.text().contains("copper output"));
    bench.keys("/copper<enter>").shows("no further").keys("N").shows("copper output");
    bench.keys("/nowhere<enter>").shows("no further `nowhere`");
}

#[test]
fn what_is_found_again_is_further_on_in_the_way_one_goes() {
    let said = |parts: serde_json::Value| {
        line(0, "user", &"begin".into())
            + &line(1, "assistant", &parts)
            + &line(2, "user", &"the last foo".into())
    };
    let before = serde_json::json!([
        { "type": "thinking", "thinking": "hidden foo" }, { "type": "text", "text": "plain foo" },
    ]);
    let after = serde_json::json!([
        { "type": "text", "text": "plain foo" },
        { "type": "tool_use", "id": "c1", "name": "Bash", "input": { "command": "x", "y": "foo" } },
    ]);
    let at = |bench: &Bench| {
        let reader = bench.state.reader.as_ref().unwrap();
        let row = reader.rows_on_screen().find(|(place, _)| *place == reader.at).unwrap().1;
        row.line.to_string().trim().to_owned()
    };
    // Standing on what is plain: what is folded above it is not further down.
    let mut bench = Bench::session(Size::new(80, 8), &said(before));
    bench.keys("<enter>/plain<enter>/foo<enter>n");
    assert_eq!(at(&bench), "plain foo");
    bench.keys("n");
    assert_eq!(at(&bench), "the last foo");
    bench.keys("NN");
    assert_eq!(at(&bench), "hidden foo");
    // What is folded below it is.
    let mut bench = Bench::session(Size::new(80, 8), &said(after));
    bench.keys("<enter>/plain<enter>/foo<enter>");
    assert_eq!(at(&bench), "plain foo");
    bench.keys("n");
    assert_eq!(at(&bench), "\"y\": \"foo\"");
}

#[test]
fn a_plan_is_read_where_it_was_found() {
    let plan = "# Plan\n\nFirst.\n\nLook at the quartz.\n";
    let bench = || {
        Bench::of(Size::new(80, 24), |home| {
            let id = "aaaaaaa1-0000-4000-8000-000000000001";
            let folder = home.join(".copilot/session-state").join(id);
            fs::create_dir_all(&folder).unwrap();
            let event = |kind: &str, data: serde_json::Value| {
                serde_json::json!({ "type": kind, "data": data, "id": kind }).to_string() + "\n"
            };
            let start = serde_json::json!({ "sessionId": id, "version": 1 });
            let asked = serde_json::json!({ "content": "why is it slow" });
            let lines = event("session.start", start) + &event("user.message", asked);
            fs::write(folder.join("events.jsonl"), lines).unwrap();
            fs::write(folder.join("plan.md"), plan).unwrap();
        })
    };
    bench().keys("quartz<enter>").shows("▾ plan").shows("Look at the quartz.");
    bench().keys("<enter>").shows("▸ plan").keys("/quartz<enter>").shows("Look at the quartz.");
}

#[test]
fn every_tool_and_failure_of_a_message_is_a_landmark() {
    let mut bench = Bench::session(Size::new(80, 8), &tools());
    bench.keys("<enter>");
    let mut at = Vec::new();
    for keys in ["t", "t", "t", "T", "T", "x", "X", "}"] {
        bench.keys(keys);
        let reader = bench.state.reader.as_ref().unwrap();
        let row = reader.rows_on_screen().find(|(place, _)| *place == reader.at).unwrap().1;
        at.push(row.line.to_string().trim().to_owned());
    }
    let expected = [
        "▸ Bash first",
        "▸ Bash second",
        "▸ Bash third",
        "▸ Bash second",
        "▸ Bash first",
        "✗ Bash: silver output",
        "✗ Bash: silver output",
        "✗ Bash: silver output",
    ];
    assert_eq!(at, expected);
}

#[test]
fn what_was_found_in_a_tool_is_shown() {
    let mut bench = Bench::session(Size::new(80, 24), &tools());
    bench.keys("golden").shows("golden output").keys("<enter>").shows("golden output");
    let long = "one line\n\n".repeat(200);
    let lines = line(0, "user", &"begin".into())
        + &line(1, "assistant", &format!("{long}at last the quartz\n").into());
    let mut bench = Bench::session(Size::new(80, 24), &lines);
    bench
        .keys("quartz")
        .shows("at last the quartz")
        .keys("<enter>")
        .shows("      at last the quartz");
}

#[test]
fn statistics_are_of_what_the_query_chooses() {
    check("stats", "project:web<^s>");
}

#[test]
fn help_has_every_key() {
    check("help", "?");
}

#[test]
fn menus_are_one_line() {
    check("menu", "<esc>y");
}

#[test]
fn an_empty_journal_says_where_to_look() {
    let mut bench = Bench::of(Size::new(80, 24), |_| {});
    bench.shows("No sessions yet.").keys("<enter><down><tab>gGlh").shows("No sessions yet.");
}

#[test]
fn the_clock_goes_on_in_its_zone() {
    let mut bench = Bench::of(Size::new(80, 24), |_| {});
    let opened = jiff::Timestamp::now();
    bench.door.now = bench.door.now.with_time_zone(jiff::tz::TimeZone::fixed(jiff::tz::offset(5)));
    bench.door.set_clock();
    assert!(bench.door.now.timestamp() >= opened);
    assert_eq!(bench.door.now.offset(), jiff::tz::offset(5));
}

#[test]
fn an_answer_to_an_older_question_changes_nothing() {
    let mut bench = Bench::demo(Size::new(80, 24));
    bench.state.apply_action(UserAction::Edit(super::input::LineEdit::Type('z')));
    let Some(Effect::Ask(older, Question::Find { .. })) = bench.state.effects.pop() else {
        panic!("nothing was asked")
    };
    bench.keys("x");
    let before = bench.text();
    let found =
        FoundSessions { items: Vec::new(), total: 77, note: None, took: std::time::Duration::ZERO };
    bench.state.handle_answer(older, WorkerAnswer::Found(Ok(found)));
    assert_eq!(bench.text(), before);
}

#[test]
fn reading_jumps_from_landmark_to_landmark() {
    let mut bench = Bench::demo(Size::new(80, 24));
    bench.keys("flaky login<enter>");
    let mut at = Vec::new();
    for keys in ["g", "}", "}", "{", "t", "t", "T", "x", "G"] {
        bench.keys(keys);
        at.push(bench.state.reader.as_ref().unwrap().at.message + 1);
    }
    assert_eq!(at, [1, 9, 9, 1, 2, 2, 2, 8, 12]);
    bench.keys("x").shows("no further failure").keys("q").shows("❯ flaky login");
}

#[test]
fn text_is_found_place_by_place() {
    let mut bench = Bench::demo(Size::new(80, 24));
    bench.keys("flaky login<enter>g/cookie<enter>");
    let place = |bench: &Bench| bench.state.reader.as_ref().unwrap().at;
    let mut places = vec![place(&bench)];
    while bench.state.notice.is_none() {
        bench.keys("n");
        places.push(place(&bench));
        assert!(places.len() < 50, "{places:?}");
    }
    places.pop();
    assert!(places.len() > 1 && places.is_sorted(), "{places:?}");
    assert_eq!(bench.state.notice, Some(ActionNotice::Done("no further `cookie`".to_owned())));
    bench.keys("N");
    assert_eq!(place(&bench), places[places.len() - 2]);
    bench.keys("/<enter>").shows("find");
}

#[test]
fn a_long_session_is_read_by_windows() {
    let lines: String = (0..6000)
        .map(|n| {
            line(n, if n % 2 == 0 { "user" } else { "assistant" }, &format!("say {n}.").into())
        })
        .collect();
    let mut bench = Bench::session(Size::new(80, 24), &lines);
    bench.state.apply_action(UserAction::Open);
    for effect in &bench.state.effects {
        if let Effect::Ask(_, Question::Window(window) | Question::Preview(window)) = effect {
            assert!(window.range.end - window.range.start <= 120, "{:?}", window.range);
        }
    }
    bench.answer();
    bench.shows("say 0.").keys("G").shows("say 5999.").keys("<^u><^u>").shows("say 5985.");
    bench.keys("/SAY 77.<enter>").shows("no further").keys("gn").shows("▌     say 77.");
    for _ in 0..400 {
        bench.keys("<^d>");
    }
    bench.shows("2,478 of 6,000").shows("say 2480.");
}

#[test]
fn a_transcript_cannot_steer_the_terminal() {
    let evil = "a\x1b[2Jb\x1b]52;c;eA==\x07c\u{202e}d\u{2066}e\u{200f}f\tg\r\u{9b}31mh";
    let lines = line(0, "user", &evil.into()) + &line(1, "assistant", &evil.into());
    for (width, height) in SIZES {
        let mut bench = Bench::session(Size::new(width, height), &lines);
        for keys in ["", "52", "<esc><enter>", " "] {
            bench.keys(keys);
            for cell in &bench.buffer().content {
                let is_odd = |one: char| {
                    one.is_control()
                        || matches!(one, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                };
                assert!(!cell.symbol().contains(is_odd), "{:?}", cell.symbol());
            }
        }
    }
}

#[test]
fn only_the_colours_of_the_terminal_are_used_and_none_without_colour() {
    for keys in ["", "retry", "agent:", "prjoect:x", "<^f>", "flaky<enter> ", "<^s>", "?", "<esc>y"]
    {
        let mut buffer = Bench::demo(Size::new(160, 45)).keys(keys).buffer();
        for cell in &buffer.content {
            let is_fit = matches!(
                cell.fg,
                Color::Reset
                    | Color::Red
                    | Color::Green
                    | Color::Yellow
                    | Color::Blue
                    | Color::Magenta
                    | Color::Cyan
                    | Color::Indexed(1..=6)
            );
            assert!(is_fit && cell.bg == Color::Reset, "{cell:?}");
        }
        panes::remove_colors(&mut buffer);
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset));
    }
}

#[test]
fn the_mouse_chooses_opens_and_scrolls() {
    let mut bench = Bench::demo(Size::new(80, 24));
    let second = Position::new(20, 3);
    bench.act(UserAction::Click(second));
    assert_eq!((bench.state.results.chosen, bench.state.input_mode()), (1, InputMode::List));
    bench.act(UserAction::Wheel(Position::new(20, 18), Way::Next));
    assert_eq!(bench.state.results.chosen, 1);
    bench.act(UserAction::Click(second));
    assert_eq!(bench.state.input_mode(), InputMode::Reading);
    let top = bench.state.reader.as_ref().unwrap().top;
    bench.act(UserAction::Wheel(second, Way::Next));
    assert!(bench.state.reader.as_ref().unwrap().top >= top);
    bench.keys("q").act(UserAction::Click(Position::new(5, 0)));
    assert_eq!(bench.state.input_mode(), InputMode::Search);
}

#[test]
fn another_size_keeps_the_place() {
    let mut bench = Bench::demo(Size::new(80, 24));
    bench.keys("flaky login<enter>g}");
    let place = bench.state.reader.as_ref().unwrap().at.message;
    for (width, height) in [(160, 45), (40, 12), (3, 2), (1, 1), (80, 24)] {
        bench.state.resize_screen(Size::new(width, height));
        bench.answer();
        bench.text();
        assert_eq!(bench.state.reader.as_ref().unwrap().at.message, place, "{width}x{height}");
    }
}

#[test]
fn no_screen_is_too_small() {
    for (width, height) in [(1, 1), (2, 3), (9, 4), (20, 5), (300, 3), (4, 80)] {
        for keys in
            ["", "retry", "agent:", "<^f>", "flaky<enter> ", "<^s>", "?", "<esc>y", "x<enter>/a"]
        {
            Bench::demo(Size::new(width, height)).keys(keys).text();
        }
    }
}

#[test]
fn copying_opening_and_exporting_act_on_the_chosen_session() {
    let mut bench = Bench::demo(Size::new(80, 24));
    bench.keys("flaky login<esc>yi").shows("copied claude-code:5e1fb0a2");
    let Some(Effect::Copy(id)) = bench.effects.pop() else { panic!("nothing was copied") };
    assert_eq!(id, "claude-code:5e1fb0a2-7c31-4f8e-9d20-3a6b1c0e4f11");
    bench.keys("yr");
    let Some(Effect::Copy(command)) = bench.effects.pop() else { panic!("nothing was copied") };
    assert!(command.contains("claude --resume 5e1fb0a2"), "{command}");
    bench.keys("ob");
    let Some(Effect::Browse(page)) = bench.effects.pop() else { panic!("nothing to browse") };
    check_file(&page, "<!doctype html>");
    bench.keys("<enter>oe");
    let Some(Effect::Edit(text)) = bench.effects.pop() else { panic!("nothing to edit") };
    check_file(&text, "Fix flaky login");
    bench.keys("r").shows("could not resume");
}

fn check_file(path: &PathBuf, part: &str) {
    let text = fs::read_to_string(path).unwrap();
    fs::remove_file(path).unwrap();
    assert!(text.contains(part), "{text}");
}
