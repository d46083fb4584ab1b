//! The published schema is the types', and it holds for the document it was described with.

use serde_json::Value;

use super::schema::UnifiedDocument;

/// The example of the format's description.
const EXAMPLE: &str = include_str!("../../tests/export/example.json");

fn published() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/session.schema.json")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "rewrites the expectation on request")]
fn the_published_schema_is_made_of_the_types() {
    let mut schema = schemars::schema_for!(UnifiedDocument).to_value();
    schema["title"] = "A session of a coding agent".into();
    schema["$id"] = "urn:agent-journal:schema:session:1".into();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(published(), &text).unwrap();
    }
    let known = std::fs::read_to_string(published()).unwrap();
    assert_eq!(known, text, "run the test with BLESS=1");
}

#[test]
fn the_example_of_the_description_is_valid_and_can_be_read() {
    let schema = serde_json::from_str(&std::fs::read_to_string(published()).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let example: Value = serde_json::from_str(EXAMPLE).unwrap();
    let errors: Vec<String> = validator.iter_errors(&example).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let document: UnifiedDocument = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(document.messages.len(), 3);
    assert_eq!(super::Outline::from_document(&document).build_graph(), document.graph.unwrap());
}

#[test]
fn a_document_that_lacks_something_is_not_valid() {
    let schema = serde_json::from_str(&std::fs::read_to_string(published()).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let check = |change: &dyn Fn(&mut Value)| {
        let mut example: Value = serde_json::from_str(EXAMPLE).unwrap();
        change(&mut example);
        assert!(!validator.is_valid(&example), "{example}");
    };
    for name in ["schema_version", "export_timestamp", "agent", "session", "messages"] {
        check(&|document| drop(document.as_object_mut().unwrap().remove(name)));
    }
    for name in ["id", "workspace", "workspace_encoded", "started_at", "ended_at", "source"] {
        check(&|document| drop(document["session"].as_object_mut().unwrap().remove(name)));
    }
    check(&|document| document["session"]["source"]["type"] = "moon".into());
    check(&|document| document["messages"][0]["role"] = "tool".into());
    check(&|document| document["messages"][0]["index"] = 0.into());
    check(&|document| document["messages"][0]["content"] = "text".into());
    check(&|document| document["messages"][1]["content"][1]["type"] = "unheard-of".into());
}
