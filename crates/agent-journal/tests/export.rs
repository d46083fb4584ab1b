//! Sessions as they leave: every one of every fixture (and of the sample histories beside the
//! project, where they are) in every format.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use agent_journal::export::schema::{DocumentBlock, UnifiedDocument};
use agent_journal::export::{
    AgentLook, DetailLevel, ExportOptions, FORMATS, Pick, Placement, SingleFileOutput, find_format,
    replay_document,
};
use agent_journal::{Entry, Journal};
use jsonschema::Validator;

use crate::support::fixtures;
use crate::support::shelf::{Shelf, every_fixture, samples};

fn validator() -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/session.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn look() -> AgentLook {
    AgentLook { name: "An Agent".to_owned(), color: (1, 2, 3) }
}

/// Made of the exported document, Markdown is what it is when made of the journal.
fn check_round_trip(shelf: &Shelf, entry: &Entry, document: &UnifiedDocument) {
    for detail in
        [DetailLevel::Answers, DetailLevel::Actions, DetailLevel::Tools, DetailLevel::Everything]
    {
        for redactor in [None, Some(shelf.journal.owner_redactor())] {
            let options = ExportOptions { detail, redactor, ..ExportOptions::default() };
            let direct = shelf.written(entry, "markdown", options.clone());
            let mut bytes = Vec::new();
            let name =
                Journal::supported_agents().find(|agent| agent.id == entry.agent).unwrap().name;
            let agent = AgentLook { name: name.to_owned(), ..look() };
            let markdown = find_format("markdown").unwrap();
            replay_document(document, agent, markdown, &options, &mut SingleFileOutput(&mut bytes))
                .unwrap();
            assert_eq!(direct, String::from_utf8(bytes).unwrap(), "{} {detail:?}", entry.id);
        }
    }
}

fn check(shelf: &Shelf, entry: &Entry, validator: &Validator) {
    let json =
        shelf.written(entry, "json", ExportOptions { pictures: Pick::With, ..<_>::default() });
    let value = serde_json::from_str(&json).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|one| one.to_string()).collect();
    assert!(errors.is_empty(), "{}: {errors:#?}", entry.id);
    let document: UnifiedDocument = serde_json::from_str(&json).unwrap();
    check_round_trip(shelf, entry, &document);

    let lines =
        shelf.written(entry, "ndjson", ExportOptions { pictures: Pick::With, ..<_>::default() });
    assert_eq!(lines.lines().count(), 1, "{}", entry.id);
    assert_eq!(serde_json::from_str::<UnifiedDocument>(&lines).unwrap(), document);
    // What is passed on unread is what reading and writing would make of it.
    let mut bytes = Vec::new();
    let ndjson = find_format("ndjson").unwrap();
    replay_document(
        &document,
        look(),
        ndjson,
        &ExportOptions::default(),
        &mut SingleFileOutput(&mut bytes),
    )
    .unwrap();
    assert_eq!(lines, String::from_utf8(bytes).unwrap(), "{}", entry.id);

    let grouped = ExportOptions { placement: Placement::Grouped, ..ExportOptions::default() };
    let grouped: UnifiedDocument =
        serde_json::from_str(&shelf.written(entry, "json", grouped)).unwrap();
    let blocks = |document: &UnifiedDocument| -> usize {
        document.messages.iter().map(|message| message.content.len()).sum()
    };
    assert_eq!(blocks(&grouped), blocks(&document), "{}", entry.id);
    assert_eq!(grouped.graph, document.graph);

    let page =
        shelf.written(entry, "html", ExportOptions { sub_agents: Pick::With, ..<_>::default() });
    assert!(page.ends_with("</html>\n"), "{}", entry.id);
}

#[test]
fn every_fixture_leaves_in_every_format() {
    let validator = validator();
    let mut sessions = 0;
    for fixture in every_fixture() {
        let shelf = Shelf::of(&fixture);
        for entry in shelf.entries() {
            check(&shelf, &entry, &validator);
            sessions += 1;
        }
    }
    assert!(sessions > 20, "{sessions}");
}

#[test]
fn every_sample_history_leaves_in_every_format() {
    let validator = validator();
    let samples = samples();
    let mut left = BTreeMap::new();
    for (name, machine, _home) in &samples {
        let shelf = Shelf::new(machine.clone());
        for entry in shelf.entries() {
            check(&shelf, &entry, &validator);
            let kind = name.split('/').next().unwrap();
            *left.entry(kind.to_owned()).or_insert(0) += 1;
        }
    }
    println!("sessions that left: {left:?}");
    let kinds = if samples.is_empty() { 0 } else { 2 };
    assert_eq!(left.len(), kinds, "the samples are there but nothing left");
}

#[test]
fn results_carry_the_names_of_tools_and_messages_their_numbers() {
    let shelf = Shelf::of(&fixtures().join("claude-code/whole-session"));
    for entry in shelf.entries() {
        let json = shelf.written(&entry, "json", ExportOptions::default());
        let document: UnifiedDocument = serde_json::from_str(&json).unwrap();
        let numbers: Vec<u64> = document.messages.iter().map(|message| message.index).collect();
        assert_eq!(numbers, (1..=entry.counts.messages).collect::<Vec<_>>());
        for block in document.messages.iter().flat_map(|message| &message.content) {
            if let DocumentBlock::ToolResult { tool_name, .. } = block {
                assert!(!tool_name.is_empty(), "{block:?}");
            }
        }
    }
}

#[test]
fn the_folder_of_a_project_leaves_under_its_own_name_and_stands_in_for_a_directory() {
    let check = |case: &str, workspace: &str, encoded: &str| {
        let shelf = Shelf::of(&fixtures().join(case));
        let entry = shelf.entries().into_iter().find(|entry| !entry.is_agent_session).unwrap();
        let document: UnifiedDocument =
            serde_json::from_str(&shelf.written(&entry, "json", ExportOptions::default())).unwrap();
        let session = document.session;
        assert_eq!((&*session.workspace, &*session.workspace_encoded), (workspace, encoded));
    };
    check("claude-code/no-directory", "/home/mara/my/site", "-home-mara-my-site");
    check("claude-code/old-versions", "/home/mara/web", "-home-mara-c");
    let hash = "4c9562f00056631a50cfa882571a770e10188e44d84f6463180775b813fba2d4";
    check("gemini/documents", "/home/mara/depot", hash);
}

#[test]
fn formats_have_names_of_their_own() {
    let mut names: Vec<&str> = FORMATS.iter().map(|format| format.format_name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len());
    assert!(FORMATS.iter().all(
        |known| find_format(known.file_suffix()).unwrap().format_name() == known.format_name()
    ));
}

/// One session through Markdown, kept so that a change of its looks is seen; `BLESS=1` rewrites.
#[test]
fn markdown_looks_as_it_did() {
    let shelf = Shelf::of(&fixtures().join("claude-code/whole-session"));
    let entry = shelf.entries().into_iter().find(|entry| !entry.is_agent_session).unwrap();
    let redactor = Some(shelf.journal.owner_redactor());
    let text =
        shelf.written(&entry, "markdown", ExportOptions { redactor, ..ExportOptions::default() });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/whole-session.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "run the test with BLESS=1");
}
