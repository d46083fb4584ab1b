//! The command line: what every command shares, and the list of commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::commands::{
    blame, completions, config, demo, doctor, export, files, handoff, import, index, list, man,
    mcp, resume, score, search, secrets, serve, show, skill, sources, stats, statusline, tui,
};

/// The history of all your coding agents: one local journal, searchable.
#[derive(Parser)]
#[command(name = "aj", version, max_term_width = 100)]
#[command(after_help = "Examples:
  aj                               look around, on a terminal
  aj search flaky login test       find it, in any agent's history
  aj list --agent claude           the latest sessions
  aj show 3f1c#14                  read one, around message 14
  aj stats --since 30d             tokens, cost, time and tools
  aj export 3f1c                   take it along as a page
  aj sources                       what was looked at, and what was found")]
pub(crate) struct Args {
    /// Read the agents' files of another home directory
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<PathBuf>,

    /// Write JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Answer from what the journal holds, without looking for news
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_sync: bool,

    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Commands that take words of the query language.
const ASKING: [&str; 4] = ["search", "list", "stats", "export"];

impl Args {
    /// The arguments this process was started with.
    pub(crate) fn of_process() -> Self {
        Self::parse_from(words_last(std::env::args_os().collect()))
    }
}

/// Puts words such as `-draft`, which are no flags, behind `--`, so that they need no quotes.
fn words_last(args: Vec<OsString>) -> Vec<OsString> {
    let asking = args.iter().position(|arg| ASKING.iter().any(|name| arg == name));
    let Some(from) = asking.filter(|_| !args.iter().any(|arg| arg == "--")) else { return args };
    // To list the flags of every command takes as long as all the rest of reading arguments.
    if !args.iter().any(|arg| word(&arg.to_string_lossy()).is_some()) {
        return args;
    }
    let root = Args::command();
    let Some(command) = args[from].to_str().and_then(|name| root.find_subcommand(name)) else {
        return args;
    };
    let is_word = |arg: &OsString| arg.to_str().is_some_and(|text| is_left_out(text, command));
    let (words, mut rest): (Vec<OsString>, Vec<OsString>) = args.into_iter().partition(is_word);
    if !words.is_empty() {
        rest.push("--".into());
        rest.extend(words);
    }
    rest
}

/// What stands behind a single dash: a word, or flags.
fn word(arg: &str) -> Option<&str> {
    arg.strip_prefix('-').filter(|word| !word.starts_with('-'))
}

/// Whether an argument is a word to leave out, and no flag of a command.
fn is_left_out(arg: &str, command: &clap::Command) -> bool {
    let Some(word) = word(arg) else { return false };
    let mut letters = word.chars();
    let Some(letter) = letters.next() else { return false };
    if letter == 'h' && letters.as_str().is_empty() {
        return false;
    }
    let flag = command.get_arguments().find(|flag| flag.get_short() == Some(letter));
    let Some(flag) = flag else { return letter.is_alphanumeric() || "\"(/".contains(letter) };
    // `-n5` is the flag with its number, `-notes` is a word.
    let takes_number =
        flag.get_value_names().is_some_and(|names| names.iter().any(|name| name == "N"));
    takes_number && letters.as_str().contains(|one: char| !one.is_ascii_digit())
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Find sessions by what was said and done in them
    Search(search::Args),
    /// List sessions, the latest first
    List(list::Args),
    /// Read a session
    Show(show::Args),
    /// Go on with a session in its own agent
    Resume(resume::Args),
    /// Sum a session up for whoever goes on with it
    Handoff(handoff::Args),
    /// Tell which session wrote the lines of a file
    Blame(blame::Args),
    /// List the files that sessions changed
    Files(files::Args),
    /// Sum up tokens, cost, time and tools
    Stats(stats::Args),
    /// Show how well the work with agents goes, and why
    Score(score::Args),
    /// Print one line for a prompt or an agent's status bar
    Statusline(statusline::Args),
    /// Write sessions down: a page, Markdown, JSON
    Export(export::Args),
    /// Take in sessions that were exported elsewhere
    Import(import::Args),
    /// Find keys, tokens and passwords in the history
    Secrets(secrets::Args),
    /// Browse, search, read and measure in the browser
    Serve(serve::Args),
    /// Show what was looked at, understood and skipped, agent by agent
    Sources(sources::Args),
    /// Read everything new into the journal
    Index(index::Args),
    /// Give agents the journal, as an MCP server
    Mcp(mcp::Args),
    /// Print a skill that teaches an agent to use the journal
    Skill(skill::Args),
    /// Show or make the configuration
    Config(config::Args),
    /// Look whether everything is in order, and what to do
    Doctor(doctor::Args),
    /// Print what a shell needs to complete commands
    Completions(completions::Args),
    /// Print manual pages
    Man(man::Args),
    /// Try it on a few made-up sessions
    Demo(demo::Args),
    /// Look around in the history, on the whole screen
    Tui(tui::Args),
}

impl Args {
    /// Tells what can be asked, as an answer to nothing, and ends.
    pub(crate) fn ask_for_command() -> ! {
        Self::command().arg_required_else_help(true).subcommand_required(true).get_matches();
        unreachable!("without a command the arguments are never complete")
    }
}

/// When to use colours.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_to_leave_out_need_no_quotes() {
        let check = |line: &str, expected: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            let shown: Vec<String> = words_last(args)
                .into_iter()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect();
            assert_eq!(shown.join(" "), expected);
        };
        check("aj search foo -bar", "aj search foo -- -bar");
        check("aj search foo -bar --json", "aj search foo --json -- -bar");
        check("aj search foo -notes -n 5 -n5 -h", "aj search foo -n 5 -n5 -h -- -notes");
        check("aj search -agent:x -\"y -/z/ foo", "aj search foo -- -agent:x -\"y -/z/");
        check("aj export foo -o - -ofile -x", "aj export foo -o - -ofile -- -x");
        check("aj search foo -- -bar", "aj search foo -- -bar");
        check("aj show foo -C 5 -x", "aj show foo -C 5 -x");
    }
}
