//! `aj config`: the settings in force.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::{Home, Journal};
use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::FOUND;
use crate::output::{self, DIM, pad};
use crate::settings::{KEYS, source_key};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj config show     every setting, its value and where it comes from
  aj config init     write a file with all of them to change")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show every setting, its value and where it comes from
    Show,
    /// Print the path of the configuration file
    Path,
    /// Write a configuration file with every setting and its default
    Init,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    match args.action {
        Action::Show => show(context)?,
        Action::Path if context.json => {
            output::json::print(
                "config",
                json!({ "file": context.settings.file.display().to_string() }),
            )?;
        }
        Action::Path => writeln!(anstream::stdout(), "{}", context.settings.file.display())?,
        Action::Init => init(context)?,
    }
    Ok(FOUND)
}

fn show(context: &Context) -> Result<()> {
    let settings = &context.settings;
    if context.json {
        let mut values = Map::new();
        for (name, value, from) in settings.all() {
            values.insert(name.to_owned(), json!({ "value": value, "from": from.name() }));
        }
        let (file, journal) = (settings.file.display(), settings.journal_dir.display());
        let document = json!({
            "file": file.to_string(),
            "journal": journal.to_string(),
            "settings": values,
            "homes": settings.homes.iter().map(home).collect::<Vec<_>>(),
        });
        return output::json::print("config", document);
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    writeln!(
        out,
        "{DIM}# {} · journal {}{DIM:#}",
        settings.file.display(),
        settings.journal_dir.display()
    )?;
    for (name, value, from) in settings.all() {
        writeln!(out, "{} = {}  {DIM}# {}{DIM:#}", pad(name, 30), value, from.name())?;
    }
    for home in settings.homes.iter().map(home) {
        writeln!(out, "\n[[homes]]")?;
        for (name, value) in home.as_object().into_iter().flatten().filter(|(_, it)| !it.is_null())
        {
            writeln!(out, "{} = {value}", pad(name, 30))?;
        }
    }
    Ok(())
}

/// A further home as the configuration names it.
fn home(home: &Home) -> Value {
    json!({ "path": home.machine.home, "type": home.kind.name(), "host": home.host })
}

fn init(context: &Context) -> Result<()> {
    let file = &context.settings.file;
    if file.exists() {
        bail!("{} exists already; it is left as it is", file.display());
    }
    let attempt = || format!("could not write {}", file.display());
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).with_context(attempt)?;
    }
    std::fs::write(file, template()).with_context(attempt)?;
    if context.json {
        return output::json::print(
            "config",
            json!({ "file": file.display().to_string(), "written": true }),
        );
    }
    writeln!(anstream::stdout(), "wrote {}", file.display())?;
    Ok(())
}

/// A file with every key commented out at its default.
fn template() -> String {
    let mut text = String::from(
        "# Settings of aj. Every line shows the default; remove the `#` to change one.\n",
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
    text.push_str("\n[prices]\n# Your own prices in dollars for a million tokens, by a model's exact name.\n# \"my-model\" = { input = 1.0, output = 4.0, cache_read = 0.1 }\n");
    text.push_str("\n[storage.sources]\n# Where an agent's sessions are, when not where they usually are; a path or a list of paths.\n");
    for agent in Journal::agents() {
        let name = source_key(agent.key);
        let name = name.rsplit('.').next().unwrap_or(agent.key);
        text.push_str(&format!("# {name} = \"\"  # {} (or {})\n", agent.name, agent.variable));
    }
    text.push_str(
        "\n# Further homes to read: a mounted disk, the other side of WSL, a copy from a server.\n",
    );
    text.push_str("# [[homes]]\n# path = \"/mnt/backup/home/me\"\n# type = \"local\"  # or wsl, windows, remote\n# host = \"\"\n");
    text
}
