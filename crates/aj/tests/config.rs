//! What can be set, and where each setting is taken from.

use std::fs;

use crate::support::{FLAKY, PORT, RETRY, Test, text, two_agents};

#[test]
fn config_path_show_and_init_agree() {
    let test = Test::new();
    let file = test.journal("config.toml");
    let line = format!("{}\n", file.display());
    test.aj("config path").found().stdout(&line);
    test.aj("config show").found().shows([
        "search.max_results",
        "= 20  # default",
        &line[..line.len() - 1],
    ]);
    test.aj("config init").found().stdout(&format!("wrote {line}"));
    test.aj("config init")
        .fails(["already exists; aj does not change it", &line[..line.len() - 1]]);
    // As written it changes nothing; with the `#` gone every line is a valid setting.
    test.aj("config show").found().hides(["# file"]);
    let written = fs::read_to_string(&file).unwrap();
    let uncommented: String = written
        .lines()
        .filter(|line| !line.starts_with("# ") || line.contains(" = ") || line.starts_with("# ["))
        .flat_map(|line| [line.strip_prefix("# ").unwrap_or(line), "\n"])
        .collect();
    fs::write(&file, uncommented).unwrap();
    test.aj("config show").found().shows(["# file"]).hides(["# default"]);
}

#[test]
fn every_documented_key_is_accepted() {
    let config = r#"
        [storage]
        index_path = "~/elsewhere"
        [storage.sources]
        copilot_cli = "~/.copilot"
        claude_code = ["~/.claude", "~/backup/.claude"]
        cursor = "~/.cursor/conversations"
        [index]
        lucene_ram_buffer_mb = 64
        vector_precision = "f32"
        [index.vector]
        enabled = false
        model_path = "~/.chats/models"
        fallback = "none"
        [search]
        default_mode = "lexical"
        default_context = 1
        max_results = 5
        [export]
        default_format = "markdown"
        html_theme = "auto"
        include_tool_calls = false
    "#;
    let settings =
        Test::new().config(config).aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["index.writer_memory_mb"],
        serde_json::json!({ "value": 64, "from": "file" })
    );
    assert_eq!(settings["search.default_mode"]["value"], "lexical");
    assert_eq!(settings["storage.sources.claude_code"]["value"][1], "~/backup/.claude");
}

#[test]
fn the_older_name_of_a_key_and_the_new_one_mean_the_same() {
    let test = Test::new().config("[index]\nlucene_ram_buffer_mb = 32\n");
    let settings = test.aj("config show --json").found().json();
    assert_eq!(settings["settings"]["index.writer_memory_mb"]["value"], 32);
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_and_changes_nothing() {
    let test = two_agents().config(
        "[search]\nmax_result = 1\n[storage.sources]\nclaude_cod = \"/x\"\n[other]\nthing = 1\n",
    );
    let file = test.journal("config.toml").display().to_string();
    let run = test.aj("search --json login").code(0);
    assert_eq!(run.ids().len(), 3);
    run.says([&file, "unknown key `search.max_result` — did you mean `search.max_results`?"])
        .says(["unknown key `storage.sources.claude_cod` — did you mean `storage.sources.claude_code`?"])
        .says(["unknown key `other.thing`\n"]);
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let check = |config: &str, part: &str| {
        let test = two_agents().config(config);
        let file = test.journal("config.toml").display().to_string();
        test.aj("list").fails([&file, part]);
    };
    check("[search]\nmax_results = \"many\"\n", "`search.max_results` must be a whole number");
    check("[search]\nmax_results = -1\n", "`search.max_results` must be a whole number");
    check("[index.vector]\nenabled = 1\n", "`index.vector.enabled` must be true or false");
    check("[search]\ndefault_mode = \"fuzzy\"\n", "must be lexical or semantic or hybrid");
    check(
        "[storage.sources]\ncodex = 3\n",
        "`storage.sources.codex` must be a path or a list of paths",
    );
    check("[search\n", "line 1");
}

#[test]
fn the_environment_beats_the_file_and_flags_beat_both() {
    let test = two_agents().config("[storage.sources]\nclaude_code = \"/nowhere\"\n");
    test.aj("list --agent claude").code(1);
    test.aj("index").code(0).says(["/nowhere does not exist"]);
    let test = test.env("AJ_CLAUDE_PATH", "~/.claude");
    assert_eq!(test.aj("list --json --agent claude").found().ids(), [RETRY, FLAKY]);
    let settings = test.aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["storage.sources.claude_code"],
        serde_json::json!({ "value": "~/.claude", "from": "environment" })
    );
}

#[test]
fn every_agent_has_a_variable_that_replaces_its_roots() {
    let elsewhere = Test::new();
    for (agent, variable) in [
        ("claude-code", "AJ_CLAUDE_PATH"),
        ("copilot-cli", "AJ_COPILOT_PATH"),
        ("vscode-copilot", "AJ_VSCODE_PATH"),
        ("codex", "AJ_CODEX_PATH"),
        ("gemini", "AJ_GEMINI_PATH"),
        ("qwen", "AJ_QWEN_PATH"),
        ("cursor", "AJ_CURSOR_PATH"),
        ("aider", "AJ_AIDER_PATH"),
    ] {
        let root = elsewhere.path("");
        let test = Test::new().env(variable, &root);
        let agents = test.aj("sources --json").found().json()["agents"].clone();
        let found = agents.as_array().unwrap().iter().find(|one| one["id"] == agent).unwrap();
        assert_eq!(
            found["roots"],
            serde_json::json!([{ "path": root, "present": true, "configured": true }])
        );
    }
}

#[test]
fn a_pattern_that_begins_nowhere_is_about_projects_and_the_home() {
    let test = Test::new().config("[storage.sources]\naider = \"**/.aider.chat.history.md\"\n");
    let session = crate::support::Transcript::new(7).you("mine").agent("yours");
    let web = test.path("src/web");
    let lines = session.lines.replace("/home/mara/web", &web.to_string_lossy());
    test.write(session.path(), lines);
    let log = |place: &str| {
        let lines = format!(
            "\n# aider chat started at 2026-03-02 10:00:00\n\n#### look at {place}  \n\ndone\n"
        );
        test.write(format!("{place}.aider.chat.history.md"), lines);
    };
    ["", "src/web/", "src/web/docs/", "src/web/.git/", "src/elsewhere/"].into_iter().for_each(log);
    // Projects are known after the first look.
    test.aj("index").found();
    test.aj("index").found();
    let listed = test.aj("list --json --agent aider").found().json();
    let mut places: Vec<String> =
        listed["sessions"].as_array().unwrap().iter().map(|one| text(&one["cwd"])).collect();
    places.sort();
    let found = ["", "src/web", "src/web/docs"]
        .map(|place| test.path(place).to_string_lossy().trim_end_matches('/').to_owned());
    assert_eq!(places, found);
    // A project that is gone is nobody's mistake.
    fs::remove_dir_all(&web).unwrap();
    test.aj("list").found();
}

#[test]
fn the_journal_lives_where_it_is_told_to() {
    let test = two_agents().env("AJ_HOME", "~/kept");
    test.aj("list").found();
    assert!(test.path("kept/journal.db").exists() && test.path("kept/index").exists());
    test.aj("config path").stdout(&format!("{}\n", test.path("kept/config.toml").display()));
    let settings = test.aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["storage.index_path"]["value"],
        text(&serde_json::json!(test.path("kept/index")))
    );
    let test = test.without("AJ_HOME");
    test.aj("list").found();
    assert!(test.path(".agent-journal/journal.db").exists());
}

#[test]
fn the_index_lives_where_it_is_told_to() {
    let test = two_agents().env("AJ_INDEX_PATH", "~/fast-disk/index");
    test.aj("search copper").found();
    assert!(test.path("fast-disk/index").is_dir() && !test.journal("index").exists());
    let test = two_agents().config("[storage]\nindex_path = \"~/from-file\"\n");
    test.aj("search copper").found();
    assert!(test.path("from-file").is_dir() && !test.journal("index").exists());
}

#[test]
fn another_home_is_read_into_a_journal_of_its_own() {
    let backup = two_agents();
    let path = backup.path("").display().to_string();
    let test = Test::new().without("AJ_HOME");
    let config = "[storage.sources]\ncodex = \"~/gone\"\n";
    test.write(".agent-journal/config.toml", config);
    let session = crate::support::Transcript::new(7).you("mine").agent("yours");
    test.write(session.path(), &session.lines);
    assert_eq!(test.args(["--home", &path, "list", "--json"]).found().ids(), [PORT, RETRY, FLAKY]);
    let own = test.args(["list", "--json"]).found();
    test.args(["index"]).code(0).says(["gone does not exist"]);
    assert_eq!(own.ids(), [session.id.as_str()]);
    assert_eq!(test.args(["search", "copper", "--json", "--home", &path]).found().ids(), [FLAKY]);
    test.args(["search", "copper"]).code(1);
    test.args(["--home", "/no/such/home", "list"]).fails(["could not read the home /no/such/home"]);
}

#[test]
fn another_home_never_disturbs_this_ones_index() {
    let backup = two_agents();
    let path = backup.path("").display().to_string();
    let test = Test::new().without("AJ_HOME");
    test.write(".agent-journal/config.toml", "[storage]\nindex_path = \"~/index\"\n");
    let session = crate::support::Transcript::new(7).you("mine").agent("yours");
    test.write(session.path(), &session.lines);
    test.aj("index").found();
    let index = |test: &Test| fs::read(test.path("index/lexical/meta.json")).unwrap();
    let before = index(&test);
    test.args(["--home", &path, "search", "copper"]).found();
    assert!(index(&test) == before, "the index was made anew");
    assert_eq!(test.aj("search --no-sync --json mine").found().ids(), [session.id.as_str()]);
}

#[test]
fn a_tilde_means_the_home_everywhere() {
    let test = two_agents();
    crate::support::copy(&test.path(".codex"), &test.path("moved/.codex"));
    fs::remove_dir_all(test.path(".codex")).unwrap();
    assert_eq!(test.args(["--home=~/moved", "list", "--json"]).found().ids(), [PORT]);
    let test = test.env("AJ_CODEX_PATH", "~/moved/.codex");
    assert_eq!(test.aj("list --json --agent codex").found().ids(), [PORT]);
}

#[test]
fn the_longest_line_that_is_read_can_be_chosen() {
    let session = crate::support::Transcript::new(1).you("short words").agent("an answer");
    let long = format!("{}zanzibar {}", "x ".repeat(800_000), "y ".repeat(10));
    let session = session.you(&long);
    let test = Test::new().config("[index]\nmax_line_mb = 1\n");
    test.write(session.path(), &session.lines);
    test.aj("search short").found();
    test.aj("search --mode lexical zanzibar").code(1);
    test.aj("show 00000001")
        .found()
        .shows(["short words", "1 line skipped: longer than 1 MiB (index.max_line_mb)"]);
    test.aj("sources").found().shows(["skipped 1 ×"]);
    let test = test.config("[index]\nmax_line_mb = 2\n");
    test.aj("index --full").found();
    test.aj("search --mode lexical zanzibar").found();
    test.aj("show 00000001").found().hides(["skipped"]);
}
