//! `aj skill`: what it prints can be read by any parser of YAML, and teaches every field.

use crate::support::Test;

#[test]
fn the_front_matter_is_read_alike_by_every_yaml_parser() {
    let printed = Test::new().aj("skill").found().stdout;
    let (head, _) = printed.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
    let mut names = Vec::new();
    for line in head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        // A string of JSON is one of YAML; a plain word has nothing that could mean more.
        let is_quoted = serde_json::from_str::<String>(value).is_ok_and(|text| text.len() <= 1024);
        let is_word = value.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
        assert!(is_quoted || is_word, "{line}");
        names.push(name);
    }
    assert_eq!(names, ["name", "description"]);
}

#[test]
fn the_skill_teaches_redaction_and_the_values_of_fields() {
    let run = Test::new().aj("skill").found();
    run.shows(["--redact", "not all words", "aj blame", "aj files", "aj stats"])
        .shows(["`file:`", "`is:`", "`gone`", "`edit`", "`active:`"])
        .hides(["FIELDS"]);
}
