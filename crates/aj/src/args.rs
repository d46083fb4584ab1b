//! The command line: what every command shares, and the list of commands.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;

use clap::error::Error;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{
    blame, completions, config, demo, doctor, export, files, handoff, import, index, list, man,
    mcp, resume, score, search, secrets, serve, show, skill, sources, stats, statusline, tui, why,
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

/// Lists the flags of a command.
type List = fn(clap::Command) -> clap::Command;

/// Commands that take words of the query language, and who lists their flags.
const ASKING: [(&str, List); 4] = [
    ("search", <search::Args as clap::Args>::augment_args),
    ("list", <list::Args as clap::Args>::augment_args),
    ("stats", <stats::Args as clap::Args>::augment_args),
    ("export", <export::Args as clap::Args>::augment_args),
];

impl Args {
    /// The arguments this process was started with.
    pub(crate) fn of_process() -> Self {
        Self::parse_from(words_last(std::env::args_os().collect()))
    }
}

/// The words this process was called with, but for a flag and its value.
pub(crate) fn words_without(flag: &str) -> Vec<String> {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        match word.strip_prefix(flag) {
            Some("") => drop(words.next()),
            Some(value) if value.starts_with('=') => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// Puts words such as `-draft`, which are no flags, behind `--`, so that they need no quotes.
fn words_last(args: Vec<OsString>) -> Vec<OsString> {
    let asking = args.iter().find_map(|arg| ASKING.iter().find(|(name, _)| arg == name));
    let Some((_, list_flags)) = asking.filter(|_| !args.iter().any(|arg| arg == "--")) else {
        return args;
    };
    if !args.iter().any(|arg| word(&arg.to_string_lossy()).is_some()) {
        return args;
    }
    let command = &list_flags(clap::Command::default());
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
    Search(Later<search::Args>),
    /// List sessions, the latest first
    List(Later<list::Args>),
    /// Read a session
    Show(Later<show::Args>),
    /// Go on with a session in its own agent
    Resume(Later<resume::Args>),
    /// Sum a session up for whoever goes on with it
    Handoff(Later<handoff::Args>),
    /// Tell which session wrote the lines of a file
    Blame(Later<blame::Args>),
    /// List the files that sessions touched
    Files(Later<files::Args>),
    /// Sum up tokens, cost, time and tools
    Stats(Later<stats::Args>),
    /// Show how well the work with agents goes, and why
    Score(Later<score::Args>),
    /// Print one line for a prompt or an agent's status bar
    Statusline(Later<statusline::Args>),
    /// Write sessions down: a page, Markdown, JSON
    Export(Later<export::Args>),
    /// Take in sessions that were exported elsewhere
    Import(Later<import::Args>),
    /// Find keys, tokens and passwords in the history
    Secrets(Later<secrets::Args>),
    /// Browse, search, read and measure in the browser
    Serve(Later<serve::Args>),
    /// Show what was looked at, understood and skipped, agent by agent
    Sources(Later<sources::Args>),
    /// Say why a session or a file is listed or missing
    Why(Later<why::Args>),
    /// Read everything new into the journal
    Index(Later<index::Args>),
    /// Give agents the journal, as an MCP server
    Mcp(Later<mcp::Args>),
    /// Print a skill that teaches an agent to use the journal
    Skill(Later<skill::Args>),
    /// Show or make the configuration
    // Help of its own commands is listed with all others.
    Config(config::Args),
    /// Look whether everything is in order, and what to do
    Doctor(Later<doctor::Args>),
    /// Print what a shell needs to complete commands
    Completions(Later<completions::Args>),
    /// Print manual pages
    Man(Later<man::Args>),
    /// Try it on a few made-up sessions
    Demo(Later<demo::Args>),
    /// Look around in the history, on the whole screen
    Tui(Later<tui::Args>),
}

/// What a command is told, listed when that command is asked for: to list the flags of every
/// command takes nearly as long as all the rest of reading arguments.
pub(crate) struct Later<T>(T);

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: clap::Args> clap::Args for Later<T> {
    fn group_id() -> Option<clap::Id> {
        T::group_id()
    }

    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| {
            // Flags that several commands share would put what they are about in its place.
            let about = command.get_about().cloned().unwrap_or_default();
            T::augment_args(command).about(about)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: clap::Args> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
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
