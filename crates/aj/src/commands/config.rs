//! `aj config`: shows the effective settings, or writes a configuration file.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::{Home, Journal};
use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output::{self, DIM, pad_to_width};
use crate::settings::{KEYS, source_key};

#[derive(clap::Args)]
#[command(help_template = crate::args::HELP, after_help = "Examples:
  aj config show     list every setting, its value and its origin
  aj config init     create a file with every setting, to edit")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Subcommand)]
enum ConfigAction {
    /// Show every setting, its value and its origin
    Show,
    /// Print the path of the configuration file
    Path,
    /// Create a configuration file with every setting and its default
    Init,
}

pub(crate) fn run_config(args: &ConfigArgs, context: &CommandContext) -> Result<ExitCode> {
    match args.action {
        ConfigAction::Show => show_config(context)?,
        ConfigAction::Path if context.json => {
            output::json::print_document(
                "config",
                json!({ "file": context.settings.file.display().to_string() }),
            )?;
        }
        ConfigAction::Path => writeln!(anstream::stdout(), "{}", context.settings.file.display())?,
        ConfigAction::Init => init_config(context)?,
    }
    Ok(FOUND)
}

fn show_config(context: &CommandContext) -> Result<()> {
    let settings = &context.settings;
    if context.json {
        let mut values = Map::new();
        for (name, value, from) in settings.all_settings() {
            values.insert(name.to_owned(), json!({ "value": value, "from": from.name() }));
        }
        let (file, journal) = (settings.file.display(), settings.journal_dir.display());
        let document = json!({
            "file": file.to_string(),
            "journal": journal.to_string(),
            "settings": values,
            "homes": settings.homes.iter().map(home_entry).collect::<Vec<_>>(),
        });
        return output::json::print_document("config", document);
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    writeln!(
        out,
        "{DIM}# {} · journal {}{DIM:#}",
        settings.file.display(),
        settings.journal_dir.display()
    )?;
    for (name, value, from) in settings.all_settings() {
        writeln!(out, "{} = {}  {DIM}# {}{DIM:#}", pad_to_width(name, 30), value, from.name())?;
    }
    for home in settings.homes.iter().map(home_entry) {
        writeln!(out, "\n[[homes]]")?;
        for (name, value) in home.as_object().into_iter().flatten().filter(|(_, it)| !it.is_null())
        {
            writeln!(out, "{} = {value}", pad_to_width(name, 30))?;
        }
    }
    Ok(())
}

/// Returns a further home in the form of a `[[homes]]` entry.
fn home_entry(home: &Home) -> Value {
    json!({ "path": home.machine.home, "type": home.kind.home_kind_name(), "host": home.host })
}

fn init_config(context: &CommandContext) -> Result<()> {
    let file = &context.settings.file;
    if file.exists() {
        bail!("{} already exists; aj does not change it", file.display());
    }
    let attempt = || format!("could not write {}", file.display());
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).with_context(attempt)?;
    }
    std::fs::write(file, config_template()).with_context(attempt)?;
    if context.json {
        return output::json::print_document(
            "config",
            json!({ "file": file.display().to_string(), "written": true }),
        );
    }
    writeln!(anstream::stdout(), "wrote {}", file.display())?;
    Ok(())
}

/// The template of a declared agent.
const DECLARED_AGENT: &str = r#"
# Agents of your own: the places of the facts in their files. docs/guide.md explains them.
# [[agents]]
# id = "scribe"
# name = "Scribe"
# files = "~/.scribe/sessions/*.jsonl"  # or a list; format = "jsonl", "json" or "sqlite"
# session = { id = "/session", title = "/title", cwd = "/cwd" }
# message = { role = "/role", text = "/text", time = "/time", id = "/id", model = "/model" }
# call = { each = "/calls/*", id = "/id", name = "/name", input = "/input" }
# result = { each = "/results/*", call = "/id", output = "/output", failed = "/failed" }
# tokens = { input = "/usage/input", output = "/usage/output", cache_read = "/usage/cached" }
"#;

/// Returns a configuration file with every key commented out at its default.
fn config_template() -> String {
    let mut text = String::from(
        "# Settings of aj. Every setting shows its default; remove the `#` to change it.\n",
    );
    let mut section = "";
    for key in KEYS {
        let (table, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if table != section {
            text.push_str(&format!("\n[{table}]\n"));
            section = table;
        }
        text.push_str(&format!("# {}\n# {name} = {}\n", key.about, key.default));
    }
    text.push_str("\n[prices]\n# Prices in dollars per million tokens, by exact model name.\n# \"my-model\" = { input = 1.0, output = 4.0, cache_read = 0.1 }\n");
    text.push_str("\n[storage.sources]\n# Where to find an agent's sessions, instead of the default; a path or a list of paths.\n");
    for agent in Journal::supported_agents() {
        let name = source_key(agent.key);
        let name = name.rsplit('.').next().unwrap_or(agent.key);
        text.push_str(&format!("# {name} = \"\"  # {} (or {})\n", agent.name, agent.variable));
    }
    text.push_str(
        "\n# More homes to read: a mounted disk, the Windows side of WSL, a copy from a server.\n",
    );
    text.push_str("# [[homes]]\n# path = \"/mnt/backup/home/me\"\n# type = \"local\"  # or wsl, windows, remote\n# host = \"\"\n");
    text.push_str(DECLARED_AGENT);
    text
}
