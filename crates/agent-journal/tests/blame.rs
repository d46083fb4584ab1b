//! Whose lines: every line that a recorded session wrote is found to be its own, and nobody else's
//! lines are. On sample histories that are not published (`AJ_CORPUS`); where they are absent
//! the test says so and passes.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use agent_journal::analyze::FileLine;
use agent_journal::connectors::Machine;
use agent_journal::model::{Block, Message, Timestamp};
use agent_journal::search::{Filter, Scope};
use agent_journal::{BlamedFile, Config, Entry, Journal, SyncOptions};
use serde_json::{Value, json};

use crate::support::{corpus, directories};

/// A file as one session left it, played back without the library's help.
#[derive(Default)]
struct Played {
    text: String,
    /// When it was last changed.
    at: Option<Timestamp>,
}

/// Plays back what a session did to files whose whole content it wrote first.
fn play(messages: &[(u64, Message)]) -> BTreeMap<String, Played> {
    let mut failed = HashSet::new();
    for block in messages.iter().flat_map(|(_, message)| &message.blocks) {
        if let Block::ToolResult { call_id, is_error: Some(true), .. } = block {
            failed.insert(call_id.clone());
        }
    }
    let mut files: BTreeMap<String, Played> = BTreeMap::new();
    for (_, message) in messages {
        for block in &message.blocks {
            let Block::ToolCall { id, name, input } = block else { continue };
            let Some(input) = input.parse_as::<Value>().filter(|_| !failed.contains(id)) else {
                continue;
            };
            // Cells of notebooks are no lines, and an agent's memory is no file of a project. The
            // content that comes with a call to read or search files is not written.
            if ["notebook", "memory", "read", "list", "search"]
                .iter()
                .any(|kind| name.contains(kind))
            {
                continue;
            }
            play_call(&input, message.at, &mut files);
        }
    }
    files
}

fn play_call(input: &Value, at: Option<Timestamp>, files: &mut BTreeMap<String, Played>) {
    let field = |value: &Value, names: &[&str]| -> Option<String> {
        names.iter().find_map(|name| value.get(name)?.as_str().map(str::to_owned))
    };
    let paths = ["file_path", "filePath", "path", "target_file"];
    let path = field(input, &paths);
    if let (Some(path), Some(text)) = (&path, field(input, &["content", "contents", "file_text"])) {
        files.insert(path.clone(), Played { text, at });
    }
    let inner = input.get("edits").or(input.get("replacements")).and_then(Value::as_array);
    for edit in std::iter::once(input).chain(inner.into_iter().flatten()) {
        let old = field(edit, &["old_string", "oldString", "old_str"]);
        let new = field(edit, &["new_string", "newString", "new_str"]);
        let (Some(old), Some(new), Some(path)) = (old, new, field(edit, &paths).or(path.clone()))
        else {
            continue;
        };
        let Some(file) = files.get_mut(&path) else { continue };
        let all = edit.get("replace_all").and_then(Value::as_bool) == Some(true);
        // Agents refuse what stands there twice, though not all of them record that they did.
        if !all && file.text.matches(&old).count() > 1 {
            continue;
        }
        if old.is_empty() || !file.text.contains(&old) {
            // Somebody else was at work in between: what the file holds is no longer known.
            files.remove(&path);
            continue;
        }
        file.text =
            if all { file.text.replace(&old, &new) } else { file.text.replacen(&old, &new, 1) };
        file.at = at.or(file.at);
    }
}

fn homes() -> Vec<PathBuf> {
    let agents = corpus().map(|corpus| directories(&corpus.join("scrubbed"))).unwrap_or_default();
    agents.iter().flat_map(|agent| directories(agent)).map(|case| case.join("home")).collect()
}

fn journal(home: &Path, directory: &Path) -> Journal {
    let machine = Machine { home: home.to_owned(), ..Machine::default() };
    let mut journal = Journal::open(Config::new(directory.to_owned()), machine).unwrap();
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    journal
}

fn blamed(path: &str, cwd: Option<&str>, played: &Played) -> BlamedFile {
    let is_absolute = path.starts_with(['/', '\\', '~']) || path.get(1..2) == Some(":");
    let path = match cwd {
        Some(cwd) if !is_absolute => format!("{cwd}/{path}"),
        _ => path.to_owned(),
    };
    // Committed as the session left it: what others did later is another matter.
    let committed_at = played.at;
    let lines = played.text.lines();
    let lines = lines.map(|line| FileLine { text: line.to_owned(), committed_at });
    BlamedFile { paths: vec![path.into()], repository: None, lines: lines.collect() }
}

#[test]
fn every_line_a_session_wrote_is_its_own_and_others_are_nobodys() {
    let (mut lines, mut strange) = (0, 0);
    for home in homes() {
        let directory = tempfile::tempdir().unwrap();
        let journal = journal(&home, directory.path());
        let all = Filter { scope: Scope::All, ..Filter::default() };
        for entry in journal.list_entries(&all, None).unwrap() {
            let messages = journal.read_messages(&entry, 0..u64::MAX).unwrap();
            for (path, played) in play(&messages) {
                let file = blamed(&path, entry.cwd.as_deref(), &played);
                lines += file.lines.len();
                check_own(&journal, &entry, &file);
                strange += check_control(&journal, file);
            }
        }
    }
    let is_there = homes().iter().any(|home| home.is_dir());
    assert!(!is_there || (lines > 20_000 && strange > 20_000), "{lines} {strange}");
}

/// Every line of a file as the session left it is the session's. Where no time was recorded, another
/// session that wrote the same line may be its author.
fn check_own(journal: &Journal, entry: &Entry, file: &BlamedFile) {
    let blame = journal.blame_file(file).unwrap();
    for (line, author) in file.lines.iter().zip(&blame.lines) {
        let place = format!("{}: {:?}", file.paths[0].display(), line.text);
        let author = author.unwrap_or_else(|| panic!("nobody wrote {place} of {}", entry.id));
        if line.committed_at.is_some() {
            assert_eq!(blame.sessions[author.session].id, entry.id, "{place}");
        }
    }
}

/// The same file with other words in it, as a person or a program would have written it, is
/// nobody's; and neither is the file itself where it was committed before the session.
fn check_control(journal: &Journal, mut file: BlamedFile) -> usize {
    let nobody = |file: &BlamedFile| {
        let blame = journal.blame_file(file).unwrap();
        let written = blame.lines.iter().position(Option::is_some);
        assert_eq!(written.map(|at| &file.lines[at].text), None, "{}", file.paths[0].display());
    };
    // Some agents record no times at all: then only the content speaks.
    if file.lines.iter().all(|line| line.committed_at.is_some()) {
        for line in &mut file.lines {
            line.committed_at = Timestamp::from_millis(0);
        }
        nobody(&file);
    }
    for line in &mut file.lines {
        line.committed_at = None;
        line.text =
            line.text.chars().map(|one| if one.is_alphanumeric() { 'x' } else { one }).collect();
    }
    nobody(&file);
    file.lines.len()
}

#[test]
fn failed_edits_do_not_count() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("home");
    let session = home.join(".claude/projects/-w/0b1a0001-0000-4000-8000-000000000001.jsonl");
    fs::create_dir_all(session.parent().unwrap()).unwrap();
    let line = |at: u64, kind: &str, content: Value| {
        json!({
            "type": kind, "uuid": format!("u{at}"), "cwd": "/w",
            "sessionId": "0b1a0001-0000-4000-8000-000000000001",
            "timestamp": format!("2026-03-02T10:00:{at:02}.000Z"),
            "message": { "role": kind, "id": format!("m{at}"), "content": [content] },
        })
    };
    let edit = |at: u64, new: &str| {
        let input = json!({ "file_path": "/w/a.rs", "old_string": "old();", "new_string": new });
        line(
            at,
            "assistant",
            json!({ "type": "tool_use", "id": format!("t{at}"), "name": "Edit", "input": input }),
        )
    };
    let result = |at: u64, is_error: bool| {
        let id = format!("t{}", at - 1);
        line(
            at,
            "user",
            json!({ "type": "tool_result", "tool_use_id": id, "content": "so", "is_error": is_error }),
        )
    };
    let lines = [
        edit(1, "refused_by_the_user();"),
        result(2, true),
        edit(3, "accepted_by_the_user();"),
        result(4, false),
    ];
    let text = lines.map(|line| line.to_string()).join("\n") + "\n";
    fs::write(session, text).unwrap();
    let journal = journal(&home, &place.path().join("journal"));
    let text = "refused_by_the_user();\naccepted_by_the_user();\n".to_owned();
    let blame = journal.blame_file(&blamed("/w/a.rs", None, &Played { text, at: None })).unwrap();
    let wrote: Vec<_> = blame.lines.iter().map(|line| line.map(|author| author.position)).collect();
    assert_eq!(wrote, [None, Some(2)]);
    assert_eq!(blame.candidates, 1);
}
