//! The branch of sessions that record none, taken from git commands and their output.

use serde::{Deserialize, Serialize};

use super::reader::RolloutReader;
use crate::model::Json;

/// Maximum number of git calls whose results may still follow.
const MAX_PENDING: usize = 8;

/// State of the branch detection.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BranchState {
    /// Whether a record names the branch: then nothing is inferred.
    pub(super) is_recorded: bool,
    pending: Vec<PendingCommand>,
}

/// A git command whose result contains the branch.
#[derive(Clone, Serialize, Deserialize)]
struct PendingCommand {
    call_id: String,
    command: GitCommand,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum GitCommand {
    /// `git status`
    Status,
    /// `git branch`
    List,
    /// `git branch --show-current`
    Current,
    /// `git switch` and similar commands, with the new branch.
    Switch(String),
}

impl RolloutReader<'_> {
    /// Registers a call whose result may contain the branch.
    pub(super) fn note_git(&mut self, call_id: &str, input: &Json) {
        let state = &mut self.state.branch;
        if state.is_recorded
            || !self.state.threads.is_own_record()
            || !input.as_json_str().contains("git")
        {
            return;
        }
        for command in git_commands(input) {
            if state.pending.len() == MAX_PENDING {
                state.pending.remove(0);
            }
            state.pending.push(PendingCommand { call_id: call_id.to_owned(), command });
        }
    }

    /// Takes the branch from the result of a registered call.
    pub(super) fn note_git_result(&mut self, call_id: &str, output: &str, is_error: Option<bool>) {
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.branch.pending)
            .into_iter()
            .partition(|pending| pending.call_id == call_id);
        self.state.branch.pending = others;
        if is_error == Some(true) || self.state.branch.is_recorded {
            return;
        }
        let branch = mine
            .into_iter()
            .filter_map(|pending| pending.command.branch_from_output(output))
            .next_back();
        if branch.is_some() {
            self.session.branch = branch;
        }
    }
}

impl GitCommand {
    /// Returns the branch that a command's output contains.
    fn branch_from_output(self, output: &str) -> Option<String> {
        let output = output.split_once("\nOutput:\n").map_or(output, |(_, output)| output);
        let mut lines = output.lines().map(str::trim_end);
        let name = match self {
            Self::Switch(name) => return Some(name),
            Self::Status => lines.find_map(|line| {
                let short = || line.strip_prefix("## ").map(|line| line.split("...").next());
                line.strip_prefix("On branch ").or_else(|| short().flatten())
            }),
            Self::List => lines.find_map(|line| line.strip_prefix("* ")),
            Self::Current => lines.find(|line| !line.is_empty()),
        };
        name.map(str::trim).filter(|name| is_branch(name)).map(str::to_owned)
    }
}

fn is_branch(name: &str) -> bool {
    let odd =
        |character: char| character.is_whitespace() || "~^:?*[\\\"'`$()<>|;&".contains(character);
    !name.is_empty() && !name.starts_with('-') && !name.contains(odd)
}

/// Finds the git commands in the input of a tool that runs commands.
fn git_commands(input: &Json) -> Vec<GitCommand> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ShellCommand {
        Line(String),
        Words(Vec<String>),
    }
    #[derive(Deserialize)]
    struct ShellArguments {
        #[serde(alias = "cmd")]
        command: ShellCommand,
    }
    let Some(ShellArguments { command }) = input.parse_as() else { return Vec::new() };
    let script = match command {
        ShellCommand::Line(line) => line,
        // A shell gets the script as its last argument.
        ShellCommand::Words(words) if words.first().is_some_and(|word| word.ends_with("sh")) => {
            words.last().cloned().unwrap_or_default()
        }
        ShellCommand::Words(words) => words.join(" "),
    };
    script.split(['\n', ';', '&', '|']).filter_map(git_command).collect()
}

fn git_command(command: &str) -> Option<GitCommand> {
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    words.next().filter(|word| *word == "git")?;
    let mut next = words.next()?;
    while next == "-C" || next == "-c" {
        words.next()?;
        next = words.next()?;
    }
    let rest: Vec<&str> = words.collect();
    let named = |flags: &[&str]| {
        let place = rest.iter().position(|word| flags.contains(word))?;
        rest.get(place + 1).copied()
    };
    let switched = match next {
        "status" => return Some(GitCommand::Status),
        "branch" if rest.contains(&"--show-current") => return Some(GitCommand::Current),
        "branch" if rest.iter().all(|word| word.starts_with('-')) => return Some(GitCommand::List),
        "checkout" => named(&["-b", "-B"]),
        "switch" => named(&["-c", "-C", "--create"]).or_else(|| match &rest[..] {
            [name] => Some(*name),
            _ => None,
        }),
        _ => None,
    };
    switched.filter(|name| is_branch(name)).map(|name| GitCommand::Switch(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(input: &str) -> Vec<GitCommand> {
        git_commands(&Json::from(
            serde_json::from_str::<&serde_json::value::RawValue>(input).unwrap(),
        ))
    }

    #[test]
    fn commands_of_git_are_found_in_scripts() {
        let switch = |name: &str| GitCommand::Switch(name.to_owned());
        assert_eq!(commands(r#"{"command":["git","status"]}"#), [GitCommand::Status]);
        assert_eq!(
            commands(
                r#"{"cmd":"cd /w && git -C /w checkout -b fix/tide; git branch --show-current"}"#
            ),
            [switch("fix/tide"), GitCommand::Current]
        );
        assert_eq!(commands(r#"{"command":["bash","-lc","git switch main"]}"#), [switch("main")]);
        assert_eq!(commands(r#"{"command":["git","branch","-a"]}"#), [GitCommand::List]);
        assert_eq!(commands(r#"{"command":"git checkout src/a.rs"}"#), []);
        assert_eq!(commands(r#"{"command":"git branch -d old"}"#), []);
        assert_eq!(commands(r#"{"command":"echo git status"}"#), []);
        assert_eq!(commands(r#"{"path":"git"}"#), []);
    }

    #[test]
    fn the_output_tells_the_branch() {
        let check = |command: GitCommand, output: &str, expected: Option<&str>| {
            assert_eq!(command.branch_from_output(output).as_deref(), expected, "{output}");
        };
        check(GitCommand::Status, "On branch main\nnothing to commit", Some("main"));
        check(
            GitCommand::Status,
            "Exit code: 0\nOutput:\n## fix/a...origin/fix/a\n",
            Some("fix/a"),
        );
        check(GitCommand::Status, "HEAD detached at 1a2b3c4", None);
        check(GitCommand::List, "  main\n* fix/a\n", Some("fix/a"));
        check(GitCommand::List, "* (HEAD detached at 1a2b3c4)\n  main\n", None);
        check(GitCommand::Current, "\nmain\n", Some("main"));
    }
}
