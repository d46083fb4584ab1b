//! The command line: global options and the list of commands.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;

use clap::error::Error;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{
    blame, completions, config, demo, doctor, export, files, handoff, import, index, list, man,
    mcp, restore, resume, score, search, secrets, serve, show, skill, sources, stats, statusline,
    tui, why,
};

/// The layout of help pages: the examples come before the options.
pub(crate) const HELP: &str =
    "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

/// Search, read and analyse the sessions of all your coding agents.
#[derive(Parser)]
#[command(name = "aj", version, max_term_width = 100, help_template = HELP)]
#[command(after_help = "Examples:
  aj                               browse all sessions in the terminal
  aj search flaky login test       search the sessions of all agents
  aj list --agent claude           list the latest sessions of one agent
  aj show 3f1c#14                  show message 14 of a session
  aj stats --since 30d             show tokens, cost, time and tools
  aj export 3f1c                   export a session as an HTML page
  aj sources                       list scanned directories and sessions found")]
pub(crate) struct GlobalArgs {
    /// Read agents' files from another home directory
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<PathBuf>,

    /// Print JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Do not read new sessions first
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
    pub(crate) command: Option<AjCommand>,
}

/// A function that adds the flags of a command to a clap command.
type List = fn(clap::Command) -> clap::Command;

/// Commands that take words of the query language, each with the function that adds its flags.
const ASKING: [(&str, List); 4] = [
    ("search", <search::SearchArgs as clap::Args>::augment_args),
    ("list", <list::ListArgs as clap::Args>::augment_args),
    ("stats", <stats::StatsArgs as clap::Args>::augment_args),
    ("export", <export::ExportArgs as clap::Args>::augment_args),
];

impl GlobalArgs {
    /// Parses the arguments of this process.
    pub(crate) fn of_process() -> Self {
        Self::parse_from(words_last(std::env::args_os().collect()))
    }
}

/// Returns the arguments of this process without a flag and its value.
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

/// Moves words such as `-draft`, which are not flags, behind `--`, so that they need no quotes.
fn words_last(args: Vec<OsString>) -> Vec<OsString> {
    let asking = args.iter().find_map(|arg| ASKING.iter().find(|(name, _)| arg == name));
    let Some((_, list_flags)) = asking.filter(|_| !args.iter().any(|arg| arg == "--")) else {
        return args;
    };
    if !args.iter().any(|arg| word_after_dash(&arg.to_string_lossy()).is_some()) {
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

/// Returns the text after a single dash: a word or short flags.
fn word_after_dash(arg: &str) -> Option<&str> {
    arg.strip_prefix('-').filter(|word| !word.starts_with('-'))
}

/// Returns whether an argument is a word to exclude from the search, not a flag of the command.
fn is_left_out(arg: &str, command: &clap::Command) -> bool {
    let Some(word) = word_after_dash(arg) else { return false };
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
pub(crate) enum AjCommand {
    /// Search sessions
    Search(Later<search::SearchArgs>),
    /// List sessions, latest first
    List(Later<list::ListArgs>),
    /// Show a session
    Show(Later<show::ShowArgs>),
    /// Resume a session in its own agent
    Resume(Later<resume::ResumeArgs>),
    /// Write the agent's own files of a session back
    Restore(Later<restore::RestoreArgs>),
    /// Write a brief for continuing a session elsewhere
    Handoff(Later<handoff::HandoffArgs>),
    /// Show which session wrote each line of a file
    Blame(Later<blame::Args>),
    /// List the files that sessions touched
    Files(Later<files::FilesArgs>),
    /// Show tokens, cost, time and tools
    Stats(Later<stats::StatsArgs>),
    /// Score how effectively you work with agents
    Score(Later<score::ScoreArgs>),
    /// Print one line for a shell prompt or a status bar
    Statusline(Later<statusline::StatuslineArgs>),
    /// Export sessions as HTML, Markdown, JSON or Parquet
    Export(Later<export::ExportArgs>),
    /// Import sessions exported on another machine
    Import(Later<import::ImportArgs>),
    /// Find keys, tokens and passwords in sessions
    Secrets(Later<secrets::SecretsArgs>),
    /// Serve a dashboard for your browser
    Serve(Later<serve::ServeArgs>),
    /// List scanned directories, sessions found and records skipped
    Sources(Later<sources::SourcesArgs>),
    /// Explain why a session or a file is listed or missing
    Why(Later<why::WhyArgs>),
    /// Read all new sessions into the journal
    Index(Later<index::IndexArgs>),
    /// Run an MCP server so that agents can search the journal
    Mcp(Later<mcp::McpArgs>),
    /// Print or install a skill that teaches agents to use aj
    Skill(Later<skill::SkillArgs>),
    /// Show or create the configuration
    // Not deferred: the help lists its subcommands together with all others.
    Config(config::ConfigArgs),
    /// Check the installation and suggest fixes
    Doctor(Later<doctor::DoctorArgs>),
    /// Print shell completions
    Completions(Later<completions::CompletionsArgs>),
    /// Print manual pages
    Man(Later<man::ManArgs>),
    /// Try aj on sample sessions
    Demo(Later<demo::DemoArgs>),
    /// Browse sessions in the terminal
    Tui(Later<tui::TuiArgs>),
}

/// The arguments of a command, registered only when that command is used. Registering the flags of
/// every command takes nearly as long as the rest of argument parsing.
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
            // Flattened argument structs would replace the description of the command by their own.
            let about = command.get_about().cloned().unwrap_or_default();
            T::augment_args(command).about(about).help_template(HELP)
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

impl GlobalArgs {
    /// Prints the usage and exits, because no command was given.
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
