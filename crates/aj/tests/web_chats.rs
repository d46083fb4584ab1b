//! `aj import` of web chats: exports of claude.ai and chatgpt.com, as lists and in archives.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Test;

const CLAUDE: &str = include_str!("chats/claude.json");
const CHATGPT: &str = include_str!("chats/chatgpt.json");

/// A test with a journal into which a file was imported.
fn imported(name: &str, contents: &[u8]) -> (Test, PathBuf) {
    let test = Test::new();
    let path = test.beside(name);
    fs::write(&path, contents).unwrap();
    test.args(["import", path.to_str().unwrap()]).found();
    (test, path)
}

/// Returns the messages of a session: role, parent and what they say.
fn messages(test: &Test, id: &str) -> Vec<(String, String)> {
    let shown = test.args(["show", id, "--json", "--all"]).found().json();
    let messages = shown["messages"].as_array().unwrap().iter();
    messages.map(|message| (text(&message["role"]), content(message))).collect()
}

fn content(message: &Value) -> String {
    let blocks = message["content"].as_array().unwrap().iter().map(|block| {
        let says = ["text", "thinking", "tool_name", "output", "location"];
        let said = says.iter().find_map(|field| block[*field].as_str());
        said.unwrap_or("?").to_owned()
    });
    blocks.collect::<Vec<_>>().join(" | ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Writes an archive. Its files are compressed, except the first.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (place, (name, contents)) in files.iter().enumerate() {
        let method = match place {
            0 => rawzip::CompressionMethod::STORE,
            _ => rawzip::CompressionMethod::DEFLATE,
        };
        let (mut entry, config) =
            archive.new_file(name).compression_method(method).start().unwrap();
        if place == 0 {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(contents.as_bytes()).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        } else {
            let encoder =
                flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
            let mut writer = config.wrap(encoder);
            writer.write_all(contents.as_bytes()).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
    }
    archive.finish().unwrap();
    bytes
}

#[test]
fn chats_of_claude_become_sessions_with_branches_and_attachments() {
    let (test, path) = imported("conversations.json", CLAUDE.as_bytes());
    let run = test.args(["import", path.to_str().unwrap()]).found();
    assert!(run.stdout.contains("2 sessions, 0 new, 1 conversation not understood"), "{run}");
    let listed = test.aj("list --json --all --agent claude-web").found().json();
    let titles: Vec<String> =
        listed["sessions"].as_array().unwrap().iter().map(|row| text(&row["title"])).collect();
    assert_eq!(titles, ["Sourdough schedule", "An older question about crust"]);
    assert!(listed["sessions"][0]["tokens"]["input"].is_null(), "{listed}");
    assert_eq!(listed["sessions"][0]["started_at"], "2026-02-03T08:00:00.000Z");

    let said = messages(&test, "b1a50001");
    let expected = [
        ("user", "recipe.txt\n\nrye flour and patience"),
        ("user", "When do I feed the starter?"),
        ("assistant", "The kitchen is cold. | web_search"),
        ("tool", "twice a day"),
        ("assistant", "Feed it at eight and at twenty."),
        ("user", "a long pasted timetable"),
        ("user", "And with wholemeal flour instead?"),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
    let shown = test.aj("show b1a50001 --all").found();
    shown.shows(["recipe.txt", "loaf.jpg"]);
    test.aj("search wholemeal").found().shows(["Sourdough schedule"]);
}

#[test]
fn chats_of_chatgpt_become_sessions_with_the_kept_branch_last() {
    let (test, _) = imported("conversations.json", CHATGPT.as_bytes());
    let listed = test.aj("list --json --all").found().json();
    let session = &listed["sessions"][0];
    assert_eq!((&session["agent"], &session["title"]), (&"chatgpt".into(), &"Prime sieve".into()));
    assert_eq!(session["counts"]["user_prompts"], 2);
    assert_eq!(session["counts"]["tool_errors"], 1);
    assert!(session["tokens"]["input"].is_null(), "{session}");
    let said = messages(&test, "c4a70001");
    let expected = [
        ("user", "? | Count the primes below a hundred"),
        ("assistant", "Sieving\n\nA sieve is enough."),
        ("assistant", "python"),
        ("tool", "NameError: sieve"),
        ("assistant", "There are twenty-five primes."),
        ("assistant", "Twenty-five, by the regenerated answer."),
        ("user", "Thank you, that is all"),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
    let shown = test.args(["show", "c4a70001", "--json", "--all"]).found().json();
    assert_eq!(shown["messages"][1]["model"], "gpt-5-thinking");
    assert_eq!(shown["messages"][5]["model"], "gpt-5");
    test.aj("show c4a70001 --all")
        .found()
        .shows(["grid.png", "Twenty-five, by the regenerated answer."]);
}

#[test]
fn archives_are_read_like_the_lists_in_them() {
    let (plain, _) = imported("conversations.json", CLAUDE.as_bytes());
    let zip = archive(&[
        ("export/users.json", "[]"),
        ("export/conversations.json", CLAUDE),
        ("export/projects.json", "[{\"uuid\":\"p\",\"docs\":[]}]"),
    ]);
    let (test, _) = imported("export.zip", &zip);
    assert_eq!(messages(&test, "b1a50001"), messages(&plain, "b1a50001"));

    // A large export of ChatGPT is split; the files may be stored without compression.
    let other = CHATGPT.replace("c4a70001-", "c4a70002-");
    let zip = archive(&[("conversations-000.json", CHATGPT), ("conversations-001.json", &other)]);
    let (test, path) = imported("data.zip", &zip);
    let run = test.args(["import", path.to_str().unwrap()]).found();
    assert!(run.stdout.contains("2 sessions, 0 new"), "{run}");
}

#[test]
fn chats_imported_twice_are_there_once() {
    let (test, _) = imported("conversations.json", CHATGPT.as_bytes());
    let (before, stats) = (messages(&test, "c4a70001"), test.aj("stats --json").json());
    // A later export of the same conversation, in another file.
    let zip = archive(&[("x", ""), ("conversations.json", CHATGPT)]);
    let path = test.beside("later.zip");
    fs::write(&path, zip).unwrap();
    let run = test.args(["import", path.to_str().unwrap()]).found();
    assert!(run.stdout.contains("1 session, 0 new"), "{run}");
    assert_eq!(messages(&test, "c4a70001"), before);
    assert_eq!(test.aj("stats --json").json()["totals"], stats["totals"]);
}

#[test]
fn files_that_are_no_export_are_refused_with_the_reason() {
    let test = Test::new();
    let damaged = {
        let mut zip = archive(&[("conversations.json", CHATGPT)]);
        let place = zip.windows(5).position(|bytes| bytes == b"Count").unwrap();
        zip[place] = b'D';
        zip
    };
    let cut = CHATGPT.as_bytes()[..2000].to_vec();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("other.zip", archive(&[("notes.txt", "hello")]), "no conversations.json in it"),
        ("list.json", b"[{\"a\":1}]".to_vec(), "not an export of claude.ai or ChatGPT"),
        ("empty.json", b" []".to_vec(), "the file contains no session"),
        ("damaged.zip", damaged, "conversations.json in it is damaged"),
        ("broken.zip", b"PK\x03\x04 and nothing else".to_vec(), "not a readable ZIP archive"),
        ("cut.json", cut, "conversation 1: "),
    ];
    for (name, contents, reason) in cases {
        let path = test.beside(name);
        fs::write(&path, contents).unwrap();
        test.args(["import", path.to_str().unwrap()]).fails([name, reason]);
    }
    test.aj("list --all").code(1);
}

#[test]
fn a_conversation_made_to_exhaust_memory_is_refused() {
    let test = Test::new();
    let path = test.beside("large.zip");
    let filler = "a".repeat(65 << 20);
    let list = format!("[{{\"uuid\":\"u\",\"chat_messages\":[{{\"text\":\"{filler}\"}}]}}]");
    fs::write(&path, archive(&[("x", ""), ("conversations.json", &list)])).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
    test.args(["import", path.to_str().unwrap()]).fails(["conversation 1", "too large"]);
}

#[test]
fn web_chats_are_listed_as_imported() {
    let (test, path) = imported("conversations.json", CHATGPT.as_bytes());
    let sources = test.aj("sources").found();
    sources.shows(["chatgpt"]);
    assert!(Path::new(&path).exists());
}
