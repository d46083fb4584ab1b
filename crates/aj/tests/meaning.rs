//! Search by meaning as people use it: the flag, the settings, what is said about it.

use serde_json::json;

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Test, Transcript};

/// Two sessions about different things.
fn two_topics() -> Test {
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
    test
}

const ASKED: &str = "retry failed requests with increasing delay";

#[test]
fn what_no_word_finds_is_found_by_meaning_and_labelled() {
    let test = two_topics();
    test.args(["search", ASKED]).found().shows(["try again with exponential", "by meaning"]);
    let answer = test.args(["search", "--json", ASKED]).found().json();
    assert_eq!((&answer["mode"], &answer["tier"]), (&"hybrid".into(), &"meaning".into()));
    assert_eq!(answer["hits"][0]["tier"], "meaning");
    assert_eq!(answer["pending"]["meanings"], 0);
    test.args(["search", "--mode", "lexical", ASKED]).code(1);
    test.args(["search", "--mode", "semantic", "recipe for lentil soup with paprika"]).code(1);
}

#[test]
fn a_client_of_the_mcp_server_finds_by_meaning() {
    let test = two_topics();
    let mut client = Client::start(&test, "test", "mcp");
    let said = client.ask("search", &json!({ "query": ASKED }));
    assert!(said.contains("try again with exponential"), "{said}");
    assert!(said.contains("by meaning") && !said.contains("legend"), "{said}");
    client.end();
}

#[test]
fn the_api_and_the_page_find_by_meaning() {
    let test = two_topics();
    test.aj("index").found();
    let server = Server::start(test, &[]);
    let asked = ASKED.replace(' ', "+");
    let answer = server.json(&format!("/api/v1/search?q={asked}"));
    assert_eq!((&answer["total"], &answer["tier"]), (&1.into(), &"meaning".into()), "{answer}");
    let page = server.page(&format!("/search?q={asked}"));
    assert!(page.contains("try again with exponential"), "{page}");
    assert!(page.contains(">by meaning<") && !page.contains("legend"), "{page}");
}

#[test]
fn settings_turn_it_off_or_choose_another_default() {
    let off = two_topics().config("[index.vector]\nenabled = false\n");
    off.args(["search", ASKED]).code(1);
    assert_eq!(off.aj("search --json chart").found().json()["mode"], "lexical");
    off.aj("search --mode semantic chart").fails(["`index.vector.enabled` is false"]);
    assert!(
        !off.journal("index")
            .read_dir()
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with("vectors-") })
    );
    let lexical = two_topics().config("[search]\ndefault_mode = \"lexical\"\n");
    lexical.args(["search", ASKED]).code(1);
}

#[test]
fn a_setting_of_an_earlier_version_is_ignored_with_its_reason() {
    let ranks = two_topics().config("[search]\nfusion = \"ranks\"\n");
    let run = ranks.args(["search", ASKED]).code(0).shows(["by meaning"]);
    run.says([
        "`search.fusion` has no effect: matches by words and by meaning are always combined",
    ]);
}

#[test]
fn sources_and_index_tell_how_much_is_found_by_meaning() {
    let test = two_topics();
    let index = test.aj("index --json").found().json();
    assert_eq!(
        (&index["meaning"]["covered"], &index["meaning"]["sessions"]),
        (&2.into(), &2.into())
    );
    test.aj("sources").found().shows(["search by meaning covers all sessions (6 texts)"]);
    let file = test.journal("index").read_dir().unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.file_name()?.to_string_lossy().starts_with("vectors-").then_some(path)
    });
    std::fs::remove_file(file.unwrap()).unwrap();
    test.aj("sources").found().shows(["search by meaning covers 0 of 2 sessions"]);
    let answer = test.args(["search", "chart legend", "--json"]).found().json();
    assert_eq!(answer["pending"]["meanings"], 2);
    test.aj("index").found();
    test.aj("sources").found().shows(["search by meaning covers all sessions"]);
}

#[test]
fn index_says_why_a_model_cannot_be_used() {
    let test = two_topics();
    let models = test.beside("models");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("model.onnx"), "no model").unwrap();
    std::fs::write(models.join("tokenizer.json"), "{}").unwrap();
    let place = models.display().to_string().replace('\\', "/");
    let test = test.config(&format!("[index.vector]\nmodel_path = \"{place}\"\n"));
    test.aj("index").code(0).says(["could not use the model in", "models"]);
    let index = test.aj("index --json").code(0).json();
    assert_eq!(index["meaning"]["embedder"], "hash-v1-1024");
}

#[test]
fn a_model_is_looked_for_in_two_places_unless_one_was_named() {
    let test = two_topics();
    let put = |place: &str| {
        test.write(format!("{place}/model.onnx"), "no model");
        test.write(format!("{place}/tokenizer.json"), "{}");
    };
    put(".chats/models");
    test.aj("index").code(0).says(["could not use the model in", ".chats/models"]);
    put(".agent-journal/models");
    test.aj("index").code(0).says(["could not use the model in", ".agent-journal/models"]);
    let test = test.config("[index.vector]\nmodel_path = \"~/nowhere\"\n");
    test.aj("index").found();
}
