//! The effectiveness score: five categories of 0 to 20, each with the measured value behind it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use jiff::civil::Date;
use serde::Serialize;

use super::activity::Calendar;
use super::repositories::Repositories;
use super::stats::{StatsQuery, chosen, quarter_range};
use crate::error::Result;
use crate::model::{ASK_USER, McpServer};
use crate::store::{Doings, Store};

/// With fewer sessions a score would be made of defaults.
const ENOUGH: u64 = 3;

/// Tools most work has a use for, named in a tip when they are not used.
const COMMON: &[&str] =
    &["edit_file", "read_file", "bash", "grep", "glob", "web_search", "todo", "write_file"];

/// Scores of repositories and agents.
#[derive(Clone, Debug, Serialize)]
pub struct ScoreReport {
    /// Repositories, those with most sessions first.
    pub repositories: Vec<Score>,
    /// Agents, over all repositories.
    pub agents: Vec<Score>,
}

/// One score.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The repository's name, or the agent's.
    pub name: String,
    /// The repository's directory, the first of several.
    pub path: Option<String>,
    /// Sessions of a person.
    pub sessions: u64,
    /// 0 to 100; `None` with too few sessions.
    pub total: Option<u64>,
    /// What it is made of; empty with too few sessions.
    pub categories: Vec<Category>,
    /// What to do about it, in a sentence each.
    pub tips: Vec<String>,
}

/// One category of a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Category {
    /// Its name.
    pub name: &'static str,
    /// 0 to 20.
    pub points: u64,
    /// What was measured, in words.
    pub measured: String,
}

/// What a score takes from outside the journal.
pub(crate) struct Known<'a> {
    /// Lists the servers configured for the machine and for some projects.
    pub(crate) servers: &'a dyn Fn(&[PathBuf]) -> BTreeSet<McpServer>,
    /// Tells the name of an agent.
    pub(crate) agent_name: &'a dyn Fn(&str) -> String,
}

/// Scores the chosen sessions, by repository and by agent.
pub(crate) fn score(
    store: Option<&Store>,
    query: &StatsQuery,
    known: &Known<'_>,
) -> Result<ScoreReport> {
    let Some(store) = store else {
        return Ok(ScoreReport { repositories: Vec::new(), agents: Vec::new() });
    };
    let doings = store.doings(&query.filter, None)?;
    let mut calendar = Calendar::new(query.now.time_zone().clone());
    let range = quarter_range(&query.filter);
    let known_as = Repositories::of(&doings, &store.repositories()?);
    let mut repositories: BTreeMap<&str, Measured> = BTreeMap::new();
    let mut agents: BTreeMap<&str, Measured> = BTreeMap::new();
    for (task, at) in chosen(&doings, query.extent) {
        let (task, one) = (&doings[task], &doings[at]);
        if let Some(path) = &task.project_path {
            let measured = repositories.entry(known_as.around(path)).or_default();
            measured.add(one, task, range, &mut calendar);
        }
        agents.entry(&task.agent).or_default().add(one, task, range, &mut calendar);
    }
    let projects = repositories.values().flat_map(|measured| measured.places.clone());
    let projects: Vec<PathBuf> = projects.collect();
    let configured = (known.servers)(&projects);
    let mut scores: Vec<Score> = repositories
        .into_iter()
        .filter(|(_, measured)| measured.sessions > 0)
        .map(|(repository, measured)| {
            let path = measured.places.first().map(|path| path.to_string_lossy().into_owned());
            let path = path.unwrap_or_else(|| repository.to_owned());
            let last = path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(&path);
            let name = if measured.places.len() > 1 { repository } else { last }.to_owned();
            measured.score(name, Some(path), &measured.servers(&configured))
        })
        .collect();
    scores.sort_by_key(|score| (std::cmp::Reverse(score.sessions), score.path.clone()));
    let agents = agents.into_iter().filter(|(_, measured)| measured.sessions > 0);
    let agents = agents.map(|(id, measured)| {
        let names = measured.servers(&configured);
        measured.score(format!("{} (all sessions)", (known.agent_name)(id)), None, &names)
    });
    Ok(ScoreReport { repositories: scores, agents: agents.collect() })
}

/// What is measured of a repository or an agent.
#[derive(Default)]
struct Measured {
    sessions: u64,
    prompts: u64,
    prompt_chars: u64,
    active_ms: u64,
    days: BTreeSet<Date>,
    /// Calls, answers and failures by tool.
    tools: HashMap<String, [u64; 3]>,
    places: BTreeSet<PathBuf>,
    agents: BTreeSet<String>,
}

impl Measured {
    /// The servers that are configured for its agents, everywhere or in its places.
    fn servers(&self, configured: &BTreeSet<McpServer>) -> BTreeSet<String> {
        let fits = |server: &&McpServer| {
            let is_here = server.project.as_ref().is_none_or(|it| self.places.contains(it));
            is_here && server.agent.is_none_or(|agent| self.agents.contains(agent))
        };
        configured.iter().filter(fits).map(|server| server.name.clone()).collect()
    }

    fn add(&mut self, one: &Doings, task: &Doings, range: (i64, i64), calendar: &mut Calendar) {
        let is_session = one.key == task.key && one.is_root && one.is_shown;
        let mut active = false;
        let inside = |number: i64| (range.0..=range.1).contains(&number);
        for quarter in one.done().quarters.iter().filter(|quarter| inside(quarter.number)) {
            active = true;
            for tool in &quarter.tools {
                let sums = self.tools.entry(tool.name.to_string()).or_default();
                for (sum, number) in sums.iter_mut().zip([tool.calls, tool.results, tool.errors]) {
                    *sum += number;
                }
            }
            if is_session {
                self.prompts += quarter.prompts;
                self.prompt_chars += quarter.prompt_chars;
                self.active_ms += quarter.active;
                self.days.extend(calendar.local(quarter.number).map(|local| local.date));
            }
        }
        self.sessions += u64::from(is_session && active);
        self.agents.insert(task.agent.clone());
        self.places.extend(task.project_path.as_ref().map(PathBuf::from));
    }

    fn score(&self, name: String, path: Option<String>, configured: &BTreeSet<String>) -> Score {
        let mut score = Score {
            name,
            path,
            sessions: self.sessions,
            total: None,
            categories: Vec::new(),
            tips: Vec::new(),
        };
        if self.sessions < ENOUGH {
            return score;
        }
        let unused = self.unused(configured);
        score.categories = vec![
            self.prompt_quality(),
            self.tool_utilisation(),
            self.efficiency(),
            mcp_utilisation(configured.len(), unused.len()),
            self.engagement(),
        ];
        score.total = Some(score.categories.iter().map(|category| category.points).sum());
        score.tips = self.tips(&score.categories, configured.len(), &unused);
        score
    }

    fn prompt_length(&self) -> f64 {
        ratio(self.prompt_chars, self.prompts).unwrap_or(0.0)
    }

    fn prompt_quality(&self) -> Category {
        let length = self.prompt_length();
        let base = match length {
            100.0.. => 20,
            50.0.. => 15,
            20.0.. => 10,
            _ => 5,
        };
        let asked = self.tools.get(ASK_USER).map_or(0, |sums| sums[0]);
        let ask_ratio = ratio(asked, self.prompts).unwrap_or(0.0);
        let points = u64::saturating_sub(base, (30.0 * ask_ratio).floor() as u64);
        let asked = match asked {
            0 => String::new(),
            1 => ", 1 question back".to_owned(),
            _ => format!(", {asked} questions back"),
        };
        let measured = format!("prompts of {length:.0} characters on average{asked}");
        Category { name: "Prompt quality", points, measured }
    }

    fn tool_utilisation(&self) -> Category {
        let count = self.tools.len();
        let points = match count {
            7.. => 20,
            5.. => 15,
            3.. => 10,
            _ => 5,
        };
        let plural = if count == 1 { "" } else { "s" };
        let measured = format!("{count} different tool{plural}");
        Category { name: "Tool utilisation", points, measured }
    }

    /// The share of answered calls that succeeded; all of them when there are none.
    fn success(&self) -> f64 {
        let (results, errors) = self
            .tools
            .values()
            .fold((0, 0), |(results, errors), sums| (results + sums[1], errors + sums[2]));
        ratio(results - errors.min(results), results).unwrap_or(1.0)
    }

    fn efficiency(&self) -> Category {
        let success = self.success();
        let base = match success {
            0.9.. => 15,
            0.8.. => 10,
            0.7.. => 7,
            _ => 4,
        };
        let turns = ratio(self.prompts, self.sessions).unwrap_or(0.0);
        let bonus = if turns > 0.0 && turns < 15.0 { 5 } else { 0 };
        let percent = percent(success);
        let measured = format!("{percent} of tool calls succeed, {turns:.1} prompts a session");
        Category { name: "Efficiency", points: (base + bonus).min(20), measured }
    }

    fn minutes(&self) -> f64 {
        ratio(self.active_ms, self.sessions).unwrap_or(0.0) / 60_000.0
    }

    fn engagement(&self) -> Category {
        let (minutes, days) = (self.minutes(), self.days.len());
        let base = match minutes {
            _ if minutes > 30.0 => 10,
            5.0.. => 15,
            _ if minutes > 0.0 => 7,
            _ => 3,
        };
        let bonus = match days {
            7.. => 5,
            3.. => 3,
            _ => 0,
        };
        let plural = if days == 1 { "" } else { "s" };
        let measured = format!("{minutes:.0} active minutes a session, on {days} day{plural}");
        Category { name: "Engagement", points: (base + bonus).min(20), measured }
    }

    /// The configured servers that nothing seen has to do with.
    fn unused(&self, configured: &BTreeSet<String>) -> Vec<String> {
        let seen: BTreeSet<String> = self
            .tools
            .keys()
            .flat_map(|tool| [tool.as_str(), tool.split('.').next().unwrap_or(tool)])
            .map(bare)
            .filter(|name| !name.is_empty())
            .collect();
        let is_used = |server: &&String| {
            let server = bare(server);
            seen.iter().any(|name| name.contains(&server) || server.contains(name.as_str()))
        };
        configured.iter().filter(|server| !is_used(server)).cloned().collect()
    }

    fn tips(&self, categories: &[Category], configured: usize, unused: &[String]) -> Vec<String> {
        let points: Vec<u64> = categories.iter().map(|category| category.points).collect();
        let mut tips = Vec::new();
        if points[0] < 15 {
            tips.push(format!(
                "Add context, expected behaviour and constraints to prompts: they have {:.0} characters on average.",
                self.prompt_length()
            ));
        }
        let missing: Vec<&str> =
            COMMON.iter().copied().filter(|tool| !self.tools.contains_key(*tool)).take(3).collect();
        if points[1] < 15 && !missing.is_empty() {
            tips.push(format!("Let the agent use more tools, such as {}.", missing.join(", ")));
        }
        if points[2] < 15 && self.success() < 0.85 {
            tips.push(self.failure_tip());
        }
        if configured == 0 {
            tips.push("Consider adding an MCP server: none is configured.".to_owned());
        } else if points[3] < 15 {
            tips.push(format!("Use or remove the MCP servers {}.", unused.join(", ")));
        }
        if points[4] < 15 && self.minutes() < 5.0 {
            tips.push(
                "Give the agent larger tasks: sessions are shorter than 5 minutes.".to_owned(),
            );
        }
        if points[4] < 15 && self.days.len() < 3 {
            tips.push("Use it more regularly: it was used on fewer than 3 days.".to_owned());
        }
        if tips.is_empty() {
            tips.push("Nothing to improve here: keep going.".to_owned());
        }
        tips
    }

    fn failure_tip(&self) -> String {
        let worst = self.tools.iter().filter(|(_, sums)| sums[2] > 0);
        let worst = worst.max_by_key(|(name, sums)| (sums[2], std::cmp::Reverse(*name)));
        let named = worst.map_or(String::new(), |(name, _)| format!(", most often {name}"));
        let failed = percent(1.0 - self.success());
        format!("Review commands that fail: {failed} of tool calls do{named}.")
    }
}

fn mcp_utilisation(configured: usize, unused: usize) -> Category {
    let used = configured - unused;
    let points = match ratio(used as u64, configured as u64) {
        None => 10,
        Some(0.8..) => 20,
        Some(0.5..) => 15,
        Some(share) if share > 0.0 => 10,
        Some(_) => 5,
    };
    let measured = if configured == 0 {
        "no server configured".to_owned()
    } else {
        let servers = if configured == 1 { "server" } else { "servers" };
        format!("{used} of {configured} {servers} used")
    };
    Category { name: "MCP utilisation", points, measured }
}

/// A name as servers are compared.
fn bare(name: &str) -> String {
    name.to_lowercase().replace(['-', '_', ' '], "")
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let tools = ["bash", "edit_file", "read_file", "grep", "glob", "todo", "web_search"];
        Measured {
            sessions: 10,
            prompts: 40,
            prompt_chars: 40 * 120,
            active_ms: 10 * 10 * 60_000,
            days: (1..=7).map(|day| Date::constant(2026, 11, day)).collect(),
            tools: tools.iter().map(|name| ((*name).to_owned(), [10, 10, 0])).collect(),
            ..Measured::default()
        }
    }

    fn points(measured: &Measured, configured: &[&str]) -> Vec<u64> {
        let configured = configured.iter().map(|name| (*name).to_owned()).collect();
        let score = measured.score("x".into(), None, &configured);
        score.categories.iter().map(|category| category.points).collect()
    }

    #[test]
    fn a_perfect_repository_has_nothing_to_improve_but_servers() {
        assert_eq!(points(&measured(), &[]), [20, 20, 20, 10, 20]);
        let score = measured().score("x".into(), None, &BTreeSet::new());
        assert_eq!(score.total, Some(90));
        assert_eq!(score.tips, ["Consider adding an MCP server: none is configured."]);
        let used = BTreeSet::from(["Bash".to_owned()]);
        let score = measured().score("x".into(), None, &used);
        assert_eq!(score.tips, ["Nothing to improve here: keep going."]);
    }

    #[test]
    fn prompt_quality_follows_length_and_questions_back() {
        let check = |length: u64, asked: u64, expected: u64| {
            let mut one = Measured { prompt_chars: 40 * length, ..measured() };
            one.tools.insert(ASK_USER.to_owned(), [asked, asked, 0]);
            assert_eq!(one.prompt_quality().points, expected, "{length} {asked}");
        };
        check(100, 0, 20);
        check(99, 0, 15);
        check(50, 0, 15);
        check(49, 0, 10);
        check(20, 0, 10);
        check(19, 0, 5);
        // 4 questions to 40 prompts: 30 × 0.1 = 3 off.
        check(100, 4, 17);
        check(100, 5, 17);
        check(19, 40, 0);
    }

    #[test]
    fn efficiency_follows_success_and_turns() {
        let check = |errors: u64, prompts: u64, expected: u64| {
            let tools = HashMap::from([("bash".to_owned(), [100, 100, errors])]);
            let one = Measured { prompts, tools, ..measured() };
            assert_eq!(one.efficiency().points, expected, "{errors} {prompts}");
        };
        check(10, 40, 20);
        check(20, 40, 15);
        check(30, 40, 12);
        check(31, 40, 9);
        check(10, 150, 15);
        check(10, 0, 15);
        let none = Measured { tools: HashMap::new(), ..measured() };
        assert_eq!(none.efficiency().points, 20);
    }

    #[test]
    fn one_is_not_many() {
        let mut one = Measured { days: [Date::constant(2026, 11, 1)].into(), ..measured() };
        one.tools.insert(ASK_USER.to_owned(), [1, 1, 0]);
        assert!(one.engagement().measured.ends_with("on 1 day"));
        assert!(one.prompt_quality().measured.ends_with(", 1 question back"));
    }

    #[test]
    fn engagement_follows_minutes_and_days() {
        let check = |seconds: u64, days: i8, expected: u64| {
            let days = (0..days).map(|day| Date::constant(2026, 11, day + 1)).collect();
            let one = Measured { active_ms: 10 * seconds * 1000, days, ..measured() };
            assert_eq!(one.engagement().points, expected, "{seconds} {}", one.days.len());
        };
        check(300, 2, 15);
        check(1800, 3, 18);
        check(1801, 7, 15);
        check(299, 7, 12);
        check(0, 1, 3);
    }

    #[test]
    fn servers_are_used_when_names_contain_each_other() {
        let mut one = measured();
        one.tools.insert("git-hub_server.create".to_owned(), [1, 1, 0]);
        assert_eq!(points(&one, &["GitHub"])[3], 20);
        assert_eq!(points(&one, &["GitHub", "sentry"])[3], 15);
        assert_eq!(points(&one, &["GitHub", "sentry", "linear"])[3], 10);
        assert_eq!(points(&one, &["sentry"])[3], 5);
    }

    #[test]
    fn tools_count_by_their_number() {
        for (count, expected) in [(7, 20), (6, 15), (5, 15), (4, 10), (3, 10), (2, 5), (0, 5)] {
            let tools = (0..count).map(|at| (format!("t{at}"), [1, 1, 0])).collect();
            assert_eq!(Measured { tools, ..measured() }.tool_utilisation().points, expected);
        }
    }

    #[test]
    fn few_sessions_get_no_number() {
        let score =
            Measured { sessions: 2, ..measured() }.score("x".into(), None, &BTreeSet::new());
        assert_eq!((score.total, score.categories.len(), score.tips.len()), (None, 0, 0));
    }
}
