//! `farm`: records the newest releases of real agents and compares `aj` with what happened.
//!
//! Each agent plays the scenarios in `xtask/farm/scenarios.sh` against a model server on the same
//! machine. The server decides every answer and writes every prompt, call, token and tool call into
//! `truth.jsonl`. The agent sees only its own files and loopback: it runs in namespaces of its own,
//! which need Linux and root.

mod agents;
mod install;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::agents::AGENTS;
use self::agents::{FarmAgent, NODE};
use self::install::{Installed, install_agent};
use self::report::{Row, write_rows};
use crate::cargo::{aj, build, root, target};
use crate::recording_rules::{Difference, Fact, compare_recording, read_truth};

/// The exit status of `record.sh` if the agent does not have what a scenario needs.
const NOT_OFFERED: i32 = 3;

/// A scenario in `xtask/farm/scenarios.sh`.
struct Scenario {
    name: &'static str,
    /// Returns whether the recording contains what the scenario is about.
    is_played: fn(&[Fact]) -> bool,
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "tools", is_played: |facts| has_call(facts, |call| !call.tools.is_empty()) },
    Scenario { name: "sub-agent", is_played: |facts| has_call(facts, |call| call.sub_agent) },
    Scenario { name: "resume", is_played: |facts| has_call(facts, |_| true) },
    Scenario { name: "fork", is_played: |facts| has_call(facts, |_| true) },
    Scenario {
        name: "compact",
        is_played: |facts| has_call(facts, |call| call.purpose == "compact"),
    },
    Scenario { name: "rename", is_played: |facts| has_call(facts, |_| true) },
];

/// The result of a scenario.
enum Verdict {
    /// All figures are equal.
    Equal,
    Differs(Vec<Difference>),
    /// No connector reads the agent.
    NotRead,
    /// The agent did not do what the scenario is about.
    NotPlayed,
    /// The agent does not have what the scenario needs.
    NotOffered,
}

/// Records and compares the named agents, or all.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let chosen = choose_agents(arguments)?;
    ensure!(cfg!(target_os = "linux"), "recording needs the namespaces of Linux");
    ensure!(is_root()?, "recording needs root, for the namespaces");
    // Agents that find no `rg` download one, which fails offline: their searches would fail.
    let has_ripgrep = Command::new("rg").arg("--version").output().is_ok();
    ensure!(has_ripgrep, "recording needs ripgrep, for the agents' searches");
    let program = build("dev")?;
    let farm = Farm { program, installed: agents_directory()?, recordings: target()?.join("farm") };
    farm.install(&NODE).context("could not install Node")?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for agent in chosen {
        let new = farm.record_agent(agent, &mut failed);
        for row in &new {
            print!("{}", row.line());
        }
        rows.extend(new);
        // One agent at a time: an interrupted run keeps what it has found.
        write_rows(&rows)?;
    }
    ensure!(failed.is_empty(), "not equal: {}", failed.join(", "));
    Ok(())
}

fn choose_agents(names: &[String]) -> Result<Vec<&'static FarmAgent>> {
    if names.is_empty() {
        return Ok(AGENTS.iter().collect());
    }
    let find = |name: &String| {
        let agent = AGENTS.iter().find(|agent| agent.name == name || agent.id == name);
        agent.with_context(|| {
            let known: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
            format!("there is no script for `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("could not run id")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

/// Returns the directory of installed agents: `FARM_AGENTS`, or one in the cache of the user.
fn agents_directory() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("FARM_AGENTS") {
        return Ok(directory.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    Ok(cache.or_else(home).context("HOME is not set")?.join("farm-agents"))
}

/// The directories of a run.
struct Farm {
    program: PathBuf,
    installed: PathBuf,
    recordings: PathBuf,
}

impl Farm {
    fn install(&self, agent: &FarmAgent) -> Result<Installed> {
        install_agent(agent, &self.installed.join(agent.name))
    }

    /// Records all scenarios of an agent, and notes those that are not equal.
    fn record_agent(&self, agent: &FarmAgent, failed: &mut Vec<String>) -> Vec<Row> {
        let installed = match self.install(agent) {
            Ok(installed) => installed,
            Err(error) => {
                eprintln!("{}: {error:#}", agent.name);
                failed.push(agent.name.to_owned());
                return vec![Row::new(agent, None, "all", "cannot be installed".to_owned())];
            }
        };
        let mut rows = Vec::new();
        for scenario in SCENARIOS {
            let verdict = self.record_scenario(agent, scenario);
            let is_bad = matches!(verdict, Ok(Verdict::Differs(_) | Verdict::NotPlayed) | Err(_));
            if is_bad {
                failed.push(format!("{} {}", agent.name, scenario.name));
            }
            let verdict = match verdict {
                Ok(Verdict::NotOffered) => continue,
                Ok(verdict) => verdict.to_string(),
                Err(error) => format!("failed: {error:#}"),
            };
            rows.push(Row::new(agent, Some(&installed), scenario.name, verdict));
        }
        rows
    }

    fn record_scenario(&self, agent: &FarmAgent, scenario: &Scenario) -> Result<Verdict> {
        let recording = self.recordings.join(agent.name).join(scenario.name);
        if recording.exists() {
            fs::remove_dir_all(&recording).context("could not remove an earlier recording")?;
        }
        fs::create_dir_all(&recording).context("could not create a directory")?;
        eprintln!("recording {}, {}", agent.name, scenario.name);
        let mut command = Command::new(root().join("xtask/farm/record.sh"));
        command.args([agent.name, scenario.name]).arg(&recording);
        let output = command.env("FARM_AGENTS", &self.installed).output();
        let output = output.context("could not run record.sh")?;
        let log: Vec<u8> = [output.stdout, output.stderr].concat();
        fs::write(recording.join("log"), log).context("could not write the log")?;
        if output.status.code() == Some(NOT_OFFERED) {
            return Ok(Verdict::NotOffered);
        }
        let truth = recording.join("truth.jsonl");
        if !truth.is_file() {
            return Ok(Verdict::NotPlayed);
        }
        let facts = read_truth(&truth);
        if !(scenario.is_played)(&facts) || !is_every_prompt_answered(&facts) {
            return Ok(Verdict::NotPlayed);
        }
        self.compare(agent, &recording, &facts)
    }

    /// Indexes the home of a recording and compares the answers of `aj` with the truth.
    fn compare(&self, agent: &FarmAgent, recording: &Path, facts: &[Fact]) -> Result<Verdict> {
        let journal = tempfile::tempdir().context("could not create a directory")?;
        let home = recording.join("home");
        let run = |words: &[&str]| {
            let mut command = aj(&self.program, &home, journal.path());
            command.env("HOME", &home).env("TZ", "UTC").args(words).output()
        };
        let index = run(&["index"]).context("could not run aj")?;
        if !index.status.success() {
            bail!("aj index: {}", String::from_utf8_lossy(&index.stderr).trim());
        }
        let mut ask = |words: &[&str]| {
            let output = run(words).ok()?;
            let is_found = output.status.success();
            is_found.then(|| serde_json::from_slice(&output.stdout).ok()).flatten()
        };
        Ok(match compare_recording(agent.rules, facts, &mut ask) {
            None => Verdict::NotRead,
            Some(differences) if differences.is_empty() => Verdict::Equal,
            Some(differences) => Verdict::Differs(differences),
        })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Equal => formatter.write_str("equal"),
            Self::NotRead => formatter.write_str("not read yet"),
            Self::NotPlayed => formatter.write_str("not played"),
            Self::NotOffered => formatter.write_str("not offered"),
            Self::Differs(differences) => {
                // The views usually agree with each other.
                let mut figures: BTreeMap<(&str, u64, u64), Vec<&str>> = BTreeMap::new();
                for one in differences {
                    let key = (one.figure, one.expected, one.found);
                    figures.entry(key).or_default().push(one.view);
                }
                let figures = figures.into_iter().map(|((figure, expected, found), views)| {
                    format!("{figure} {found} instead of {expected} ({})", views.join(", "))
                });
                let figures: Vec<String> = figures.collect();
                write!(formatter, "**differs**: {}", figures.join("; "))
            }
        }
    }
}

fn has_call(facts: &[Fact], is_one: fn(&crate::recording_rules::Call) -> bool) -> bool {
    facts.iter().any(|fact| matches!(fact, Fact::Call(call) if is_one(call)))
}

/// Returns whether the agent asked the model after each prompt. An agent that was stopped before
/// it did so may have recorded nothing of the prompt.
fn is_every_prompt_answered(facts: &[Fact]) -> bool {
    let is_prompt = |fact: &Fact| matches!(fact, Fact::Prompt { .. });
    let Some(first) = facts.iter().position(is_prompt) else { return true };
    facts[first + 1..].split(is_prompt).all(|answer| has_call(answer, |call| !call.hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_agree_with_each_other_are_joined() {
        let difference = |view, found| Difference { view, figure: "input", expected: 7, found };
        let verdict = Verdict::Differs(vec![
            difference("list", 8),
            difference("show", 8),
            difference("stats", 9),
        ]);
        let expected =
            "**differs**: input 8 instead of 7 (list, show); input 9 instead of 7 (stats)";
        assert_eq!(verdict.to_string(), expected);
    }

    #[test]
    fn a_prompt_that_the_model_never_saw_was_not_played() {
        let prompt = r#"{"type":"prompt","text":"Sort the list."}"#;
        let call = |hidden: bool| {
            format!(
                r#"{{"type":"call","input":1,"output":1,"cache_read":0,"cache_write":0,"reasoning":0,
                "tools":[],"purpose":"turn","hidden":{hidden},"sub_agent":false,"text":"Sorted."}}"#
            )
        };
        let (turn, title) = (call(false), call(true));
        let check = |lines: &[&str]| {
            let facts = lines.iter().map(|line| serde_json::from_str(line).unwrap());
            is_every_prompt_answered(&facts.collect::<Vec<Fact>>())
        };
        assert!(check(&[]));
        assert!(check(&[prompt, &title, &turn, prompt, &turn]));
        assert!(!check(&[prompt, &turn, prompt]));
        assert!(!check(&[prompt, &title, prompt, &turn]));
    }

    #[test]
    fn agents_are_chosen_by_the_name_of_their_script_or_connector() {
        let names = |words: &[&str]| -> Result<Vec<&str>> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ok(choose_agents(&words)?.iter().map(|agent| agent.name).collect())
        };
        assert_eq!(names(&["codex", "claude-code"]).unwrap(), ["codex", "claude"]);
        assert_eq!(names(&[]).unwrap().len(), AGENTS.len());
        assert!(names(&["nobody"]).is_err());
    }
}
