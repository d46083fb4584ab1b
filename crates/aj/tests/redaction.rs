//! Secrets in what is shown and written: taken out of the whole text before anything is cut.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::fs;

use support::{Run, Test, Transcript};

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
    let said = "1 secret is in what was written; --redact takes it out\n";
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
