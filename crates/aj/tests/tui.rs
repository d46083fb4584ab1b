//! The terminal UI in a real pseudo-terminal, seen as a terminal would show it.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::support::{Test, Transcript, two_agents};

/// A program that has not written anything for so long waits for something that never comes. A
/// test that passes never waits for this.
const STUCK: Duration = Duration::from_mins(2);

/// The program in a terminal of its own.
struct Terminal {
    parser: vt100::Parser,
    /// What the program writes, as it comes; the end of it is its end.
    output: Receiver<Vec<u8>>,
    writer: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    /// Everything the program wrote.
    written: Vec<u8>,
}

impl Terminal {
    fn open(test: &Test, (columns, rows): (u16, u16), args: &[&str]) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let command = test.command(args);
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env_clear();
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            builder.env(name, value.unwrap());
        }
        builder.cwd(test.beside(""));
        let child = pair.slave.spawn_command(builder).unwrap();
        let output = listen(pair.master.try_clone_reader().unwrap());
        let writer = pair.master.take_writer().unwrap();
        let parser = vt100::Parser::new(count(rows), count(columns), 0);
        Self { parser, output, writer, master: pair.master, child, written: Vec::new() }
    }

    /// Takes in what the program wrote next; false at its end.
    #[track_caller]
    fn hear(&mut self, what: &str) -> bool {
        match self.output.recv_timeout(STUCK) {
            Ok(bytes) => {
                self.written.extend(&bytes);
                self.parser.process(&bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                panic!("still waiting for {what}:\n{}", self.text())
            }
        }
    }

    /// Reads until the screen is as expected; the end of output before that is a failure.
    #[track_caller]
    fn until(&mut self, what: &str, is_there: impl Fn(&vt100::Screen) -> bool) -> &mut Self {
        while !is_there(self.parser.screen()) {
            let goes_on = self.hear(what);
            assert!(goes_on, "the program ended before {what}:\n{}", self.text());
        }
        self
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    fn shows(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| screen.contents().contains(text))
    }

    /// Waits until a text is not on the screen any more.
    #[track_caller]
    fn hides(&mut self, text: &str) -> &mut Self {
        self.until(&format!("the end of {text}"), |screen| !screen.contents().contains(text))
    }

    /// Goes to the list, where there is no cursor. Whoever wrote more right after an escape
    /// would have pressed Alt and a key.
    #[track_caller]
    fn leave_query(&mut self) -> &mut Self {
        self.until("the line to type in", |screen| !screen.hide_cursor());
        self.keys(ESC).until("the list", vt100::Screen::hide_cursor)
    }

    fn text(&self) -> String {
        self.parser.screen().contents()
    }

    fn keys(&mut self, keys: &str) -> &mut Self {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
        self
    }

    fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.parser.screen_mut().set_size(count(rows), count(columns));
        self.master.resize(size(columns, rows)).unwrap();
        self
    }

    fn signal(&mut self, name: &str) -> &mut Self {
        let id = self.child.process_id().unwrap().to_string();
        let status = std::process::Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.unwrap().success());
        self
    }

    /// Waits for the end; the terminal must be as it was.
    #[track_caller]
    fn ends(&mut self, code: u32) {
        while self.hear("the end") {}
        assert_eq!(self.child.wait().unwrap().exit_code(), code, "{}", self.text());
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    }
}

/// Whatever happens, nothing goes on without a test.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads on a thread of its own: a read cannot be given up.
fn listen(mut reader: Box<dyn Read + Send>) -> Receiver<Vec<u8>> {
    let (tell, output) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            if tell.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    output
}

fn count(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

const ESC: &str = "\x1b";

/// Types a query, opens what is found, jumps, goes back and quits.
fn tour(columns: u16, rows: u16) {
    let test = two_agents();
    let mut terminal = Terminal::open(&test, (columns, rows), &[]);
    terminal.shows("up to date").shows("3 sessions").shows("Port the token");
    terminal.keys("flaky").hides("Port the token").shows("Fix flaky");
    terminal.keys("\r").shows("1 of 8").shows("find");
    terminal.keys("}").shows("7 of 8").keys("{").shows("1 of 8").shows("▸ Bash");
    terminal.keys(" ").shows("▾ Bash").keys(" ").hides("▾ Bash");
    terminal.keys("q").shows("❯ flaky").shows("1 session");
    terminal.keys("\x15").shows("3 sessions");
    terminal.leave_query().keys("q").ends(0);
}

#[test]
fn a_tour_at_80_by_24() {
    tour(80, 24);
}

#[test]
fn a_tour_at_160_by_45() {
    tour(160, 45);
}

#[test]
fn a_tour_at_40_by_12() {
    tour(40, 12);
}

#[test]
fn a_query_may_be_given() {
    let test = two_agents();
    let mut terminal = Terminal::open(&test, (80, 24), &["tui", "agent:codex"]);
    terminal.shows("1 session").shows("Port the tokenizer").keys("\x03").ends(0);
}

#[test]
fn a_query_in_other_words_is_found_by_meaning() {
    let test = Test::new();
    for session in [
        Transcript::new(1)
            .you("the upload should try again with exponential backoff when the server is busy")
            .agent("The client now sleeps between attempts and doubles the pause each time."),
        Transcript::new(2)
            .you("make the legend of the chart blue")
            .agent("The stylesheet has the new colours."),
    ] {
        test.write(session.path(), &session.lines);
    }
    test.aj("index").found();
    let mut terminal = Terminal::open(&test, (120, 30), &["tui"]);
    terminal.shows("2 sessions").keys("retry failed requests with increasing delay");
    terminal.shows("by meaning").shows("1 session").hides("legend").keys("\x03").ends(0);
}

#[test]
fn another_size_is_another_picture() {
    let test = two_agents();
    let mut terminal = Terminal::open(&test, (80, 24), &[]);
    terminal.shows("3 sessions").hides("│").resize(160, 45).shows("│").keys("\x03").ends(0);
}

#[test]
fn signals_end_the_program_and_the_terminal_is_as_it_was() {
    let test = two_agents();
    for (name, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        Terminal::open(&test, (80, 24), &[]).shows("3 sessions").signal(name).ends(code);
    }
}

#[test]
fn the_id_is_copied_by_the_terminal() {
    let test = two_agents();
    let mut terminal = Terminal::open(&test, (80, 24), &["tui", "agent:codex"]);
    terminal.shows("1 session").leave_query().keys("y").shows("resume command");
    terminal.keys("i").shows("copied codex:0199aaaa").keys("q").ends(0);
    let written = String::from_utf8_lossy(&terminal.written);
    assert!(written.contains("\x1b]52;c;Y29kZXg6MDE5OWFhYWE"), "{written}");
}

#[test]
fn the_editor_has_the_terminal_for_itself_and_gives_it_back() {
    let editor = "#!/bin/sh\nread word\necho \"edited $word\" > \"$EDITED\"\ngrep -c winnow \"$1\" >> \"$EDITED\"\nrm \"$1\"\n";
    let test = two_agents();
    let (script, edited) = (test.beside("editor"), test.beside("edited"));
    test.write(&script, editor);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let test = test.env("VISUAL", &script).env("EDITED", &edited).env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::open(&test, (80, 24), &["tui", "agent:codex"]);
    terminal.shows("1 session").leave_query().keys("o").shows("editor").keys("e");
    terminal.until("the editor", |screen| !screen.alternate_screen());
    terminal.keys("q\n").until("the return", vt100::Screen::alternate_screen).shows("1 session");
    terminal.keys("q").ends(0);
    let edited = std::fs::read_to_string(edited).unwrap();
    assert!(edited.starts_with("edited q\n"), "{edited}");
}

#[test]
fn resume_becomes_the_agent_in_the_directory_of_the_session() {
    let test = Test::new();
    let directory = test.path("web").to_string_lossy().into_owned();
    std::fs::create_dir_all(&directory).unwrap();
    let session = Transcript::new(7).you("go on with this").agent("gladly");
    test.write(session.path(), session.lines.replace("/home/mara/web", &directory));
    let agent = test.beside("bin/claude");
    test.write(&agent, "#!/bin/sh\necho \"resumed $* in $(pwd)\"\nexit 7\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", test.beside("bin").display());
    let test = test.env("PATH", path);
    let mut terminal = Terminal::open(&test, (160, 45), &[]);
    terminal.shows("up to date").shows("1 session").leave_query().keys("r").ends(7);
    let shown = terminal.text().replace('\n', "");
    assert!(shown.contains(&format!("resumed --resume {} in {directory}", session.id)), "{shown}");
}

#[test]
fn without_colour_there_is_none() {
    let test = two_agents().env("NO_COLOR", "1");
    let mut terminal = Terminal::open(&test, (80, 24), &[]);
    terminal.shows("3 sessions").shows("Port the token");
    terminal.keys("flaky").hides("Port the token").shows("Fix flaky").keys("\x03").ends(0);
    let written = String::from_utf8_lossy(&terminal.written);
    let colours = ["\x1b[3", "\x1b[38;", "\x1b[48;", "\x1b[9"];
    let has = |sequence: &&&str| {
        written.match_indices(**sequence).any(|(at, _)| {
            let codes = &written[at + 2..];
            let codes = &codes[..codes.find(|one: char| one.is_alphabetic()).unwrap_or(0)];
            written[at + 2 + codes.len()..].starts_with('m')
                && !codes.split(';').all(|code| ["39", "49", "0"].contains(&code))
                && codes != "3"
        })
    };
    assert_eq!(colours.iter().find(has), None);
}

#[test]
fn markdown_is_rendered_on_a_terminal_and_left_as_it_is_in_a_pipe() {
    let test = Test::new();
    let session = Transcript::new(9).you("plan it").agent("The **plan**:\n\n- one `thing`\n");
    test.write(session.path(), &session.lines);
    let pager = test.beside("pager");
    test.write(&pager, "#!/bin/sh\nexec cat\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&pager, mode).unwrap();
    let test = test.env("AJ_PAGER", &pager).env("PATH", "/usr/bin:/bin");
    let show = |test: &Test| {
        let mut terminal = Terminal::open(test, (80, 24), &["show", &session.id]);
        terminal.shows("     The plan:").shows("     • one `thing`").ends(0);
        String::from_utf8(terminal.written.clone()).unwrap()
    };
    assert!(show(&test).contains("\x1b[1mplan\x1b[0m"));
    test.args(["show", &session.id]).found().shows(["The **plan**:", "- one `thing`"]);
    assert!(!show(&test.env("NO_COLOR", "1")).contains('\x1b'));
}

#[test]
fn an_export_cannot_steer_a_terminal_and_is_exact_elsewhere() {
    let test = Test::new();
    let evil = "\x1b]0;owned\x07\x1b[2Jgone";
    let session = Transcript::new(9).you("plan it").agent(evil);
    test.write(session.path(), &session.lines);
    let args = ["export", &session.id, "-o", "-", "--format", "markdown"];
    let mut terminal = Terminal::open(&test, (80, 24), &args);
    terminal.shows("gone").ends(0);
    let written = String::from_utf8(terminal.written.clone()).unwrap();
    assert!(!written.contains("owned") && !written.contains("\x1b[2J"), "{written:?}");
    test.args(args).code(0).shows([evil]);
}

#[test]
fn alone_without_a_terminal_it_prints_the_help() {
    let run = Test::new().args::<&str>([]);
    run.code(2).stdout("").says(["Usage: aj", "Commands:", "search"]);
    let run = Test::new().aj("tui");
    run.fails(["needs a terminal"]);
}

#[test]
fn an_answer_that_has_to_wait_for_a_new_index_says_so() {
    let test = two_agents();
    test.aj("index").found();
    let shown = || {
        let mut terminal = Terminal::open(&test, (100, 30), &["search", "copper"]);
        while terminal.hear("the end of the answer") {}
        terminal.parser.screen().contents()
    };
    assert!(!shown().contains("rebuilding the search index"), "{}", shown());
    std::fs::remove_dir_all(test.journal("index")).unwrap();
    let first = shown();
    assert!(first.contains("rebuilding the search index") && first.contains("flaky"), "{first}");
    assert!(!shown().contains("rebuilding the search index"), "{}", shown());
}

#[test]
fn a_copied_line_is_searched_as_it_stands_and_a_distant_question_has_no_results() {
    let test = Test::new();
    let line = r#"error: expected `)`, found "quill" (see log[3]) => exit=101"#;
    let session = Transcript::new(1).you("what is that?").agent(&format!("It says: {line}"));
    test.write(session.path(), &session.lines);
    let mut terminal = Terminal::open(&test, (120, 30), &["tui", line]);
    terminal.shows("read as words").shows("1 session").shows("what is that?");
    let question = "sweetest apricots marmalade harbour tram airport quill";
    let mut terminal = Terminal::open(&test, (120, 30), &["tui", question]);
    terminal.shows("nothing close; 1 session shares some words");
}
