//! Chores of the project: `cargo xtask <name>`. One file per chore.

mod bench;
mod bless;
mod bounds;
mod browser;
mod cargo;
mod check;
mod ci;
mod docs;
mod eval;
mod farm;
#[path = "../../crates/aj/tests/support/history.rs"]
#[allow(missing_docs, unreachable_pub, reason = "shared with the tests of aj")]
mod history;
mod names;
mod needs;
mod new_connector;
#[path = "../../crates/aj/tests/farm.rs"]
mod recording_rules;
mod screenshots;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A task that `cargo xtask` can run.
struct Chore {
    name: &'static str,
    /// The arguments, for the usage text.
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

/// All chores, in the order of the usage text.
const CHORES: &[Chore] = &[
    Chore { name: "check", arguments: "", about: "format, lints, documentation", run: check::run },
    Chore { name: "test", arguments: "", about: "every test", run: test::run },
    Chore { name: "ci", arguments: "", about: "check and test: what CI runs", run: ci::run },
    Chore {
        name: "bless",
        arguments: "[agent]",
        about: "rewrite golden files and snapshots",
        run: bless::run,
    },
    Chore {
        name: "names",
        arguments: "",
        about: "measure names and comments against their limits",
        run: names::run,
    },
    Chore {
        name: "docs",
        arguments: "",
        about: "write the generated parts of the documents",
        run: docs::run,
    },
    Chore {
        name: "new-connector",
        arguments: "<id>",
        about: "begin a connector from a template",
        run: new_connector::run,
    },
    Chore {
        name: "screenshots",
        arguments: "",
        about: "pictures of the dashboard for the documents",
        run: screenshots::run,
    },
    Chore {
        name: "bench",
        arguments: "[--serve] [--mb N]",
        about: "measure speed, memory and size against their limits",
        run: bench::run,
    },
    Chore {
        name: "strokes",
        arguments: "<aj> <home> <journal>",
        about: "the time from a key to its picture",
        run: bench::strokes::run,
    },
    Chore {
        name: "bounds",
        arguments: "[case…]",
        about: "read histories of unusual size within 512 MiB",
        run: bounds::run,
    },
    Chore {
        name: "farm",
        arguments: "[agent…]",
        about: "record the newest agents and compare what aj reads with what happened",
        run: farm::run,
    },
    Chore {
        name: "eval",
        arguments: "[--home DIR]",
        about: "measure how well search finds what is known to be there",
        run: eval::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let Some((name, arguments)) = words.split_first() else {
        print!("{}", usage());
        return Ok(());
    };
    // The benchmark measures commands in a child process of this program.
    if name == bench::process::MEASURED {
        return bench::process::run_measured(arguments);
    }
    match CHORES.iter().find(|chore| chore.name == name) {
        Some(chore) => (chore.run)(arguments),
        None => bail!("there is no chore `{name}`\n\n{}", usage()),
    }
}

fn usage() -> String {
    let mut text = String::from("cargo xtask <chore>\n\n");
    for chore in CHORES {
        let call = format!("{} {}", chore.name, chore.arguments);
        text.push_str(&format!("  {call:<20} {}\n", chore.about));
    }
    text
}

/// Fails if a chore without arguments was given some.
fn no_arguments(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        Some(word) => bail!("this chore takes no arguments, but `{word}` was given"),
        None => Ok(()),
    }
}
