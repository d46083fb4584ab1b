//! The effectiveness score: five categories of 0 to 20, each with its measured value.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use jiff::civil::Date;
use serde::Serialize;

use super::activity::UserCalendar;
use super::repositories::Repositories;
use super::stats::{StatsQuery, filter_from_fields, quarter_range};
use crate::error::Result;
use crate::model::{ASK_USER, McpServer};
use crate::store::{SessionActivity, Store};

/// The minimum number of sessions: with fewer, a score would consist of defaults.
const ENOUGH: u64 = 3;

/// Tools that are useful for most work; a tip names those that are not used.
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

/// The score of a repository or an agent.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The name of the repository or agent.
    pub name: String,
    /// The directory of the repository, the first of several.
    pub path: Option<String>,
    /// The number of sessions that a person started.
    pub sessions: u64,
    /// The total, 0 to 100; `None` with too few sessions.
    pub total: Option<u64>,
    /// The categories of the score; empty with too few sessions.
    pub categories: Vec<Category>,
    /// Suggestions for improvement, one sentence each.
    pub tips: Vec<String>,
}

/// One category of a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Category {
    /// The name of the category.
    pub name: &'static str,
    /// The points, 0 to 20.
    pub points: u64,
    /// The measured value, in words.
    pub measured: String,
}

/// Information from outside the journal that a score needs.
pub(crate) struct ScoreContext<'a> {
    /// Lists the MCP servers configured for the machine and for some projects.
    pub(crate) servers: &'a dyn Fn(&[PathBuf]) -> BTreeSet<McpServer>,
    /// Returns the name of an agent by its id.
    pub(crate) agent_name: &'a dyn Fn(&str) -> String,
}

/// Scores the selected sessions, by repository and by agent.
pub(crate) fn score_sessions(
    store: Option<&Store>,
    query: &StatsQuery,
    known: &ScoreContext<'_>,
) -> Result<ScoreReport> {
    let Some(store) = store else {
        return Ok(ScoreReport { repositories: Vec::new(), agents: Vec::new() });
    };
    let activity = store.activity(&query.filter, None)?;
    let mut calendar = UserCalendar::new(query.now.time_zone().clone());
    let range = quarter_range(&query.filter);
    let known_as = Repositories::from_recorded_names(&activity, &store.repositories()?);
    let mut repositories: BTreeMap<&str, Measured> = BTreeMap::new();
    let mut agents: BTreeMap<&str, Measured> = BTreeMap::new();
    for (task, at) in filter_from_fields(&activity, query.extent) {
        let (task, one) = (&activity[task], &activity[at]);
        if let Some(path) = &task.project_path {
            let measured = repositories.entry(known_as.repository_of(path)).or_default();
            measured.add_session(one, task, range, &mut calendar);
        }
        agents.entry(&task.agent).or_default().add_session(one, task, range, &mut calendar);
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
            measured.build_score(name, Some(path), &measured.relevant_servers(&configured))
        })
        .collect();
    scores.sort_by_key(|score| (std::cmp::Reverse(score.sessions), score.path.clone()));
    let agents = agents.into_iter().filter(|(_, measured)| measured.sessions > 0);
    let agents = agents.map(|(id, measured)| {
        let names = measured.relevant_servers(&configured);
        measured.build_score(format!("{} (all sessions)", (known.agent_name)(id)), None, &names)
    });
    Ok(ScoreReport { repositories: scores, agents: agents.collect() })
}

/// The measured values of a repository or an agent.
#[derive(Default)]
struct Measured {
    sessions: u64,
    prompts: u64,
    prompt_chars: u64,
    active_ms: u64,
    days: BTreeSet<Date>,
    /// Calls, results and failures by tool.
    tools: HashMap<String, [u64; 3]>,
    places: BTreeSet<PathBuf>,
    agents: BTreeSet<String>,
}

impl Measured {
    /// Returns the servers that are configured for its agents, globally or in its directories.
    fn relevant_servers(&self, configured: &BTreeSet<McpServer>) -> BTreeSet<String> {
        let fits = |server: &&McpServer| {
            let is_here = server.project.as_ref().is_none_or(|it| self.places.contains(it));
            is_here && server.agent.is_none_or(|agent| self.agents.contains(agent))
        };
        configured.iter().filter(fits).map(|server| server.name.clone()).collect()
    }

    fn add_session(
        &mut self,
        one: &SessionActivity,
        task: &SessionActivity,
        range: (i64, i64),
        calendar: &mut UserCalendar,
    ) {
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
                self.days
                    .extend(calendar.local_time_of_quarter(quarter.number).map(|local| local.date));
            }
        }
        self.sessions += u64::from(is_session && active);
        self.agents.insert(task.agent.clone());
        self.places.extend(task.project_path.as_ref().map(PathBuf::from));
    }

    fn build_score(
        &self,
        name: String,
        path: Option<String>,
        configured: &BTreeSet<String>,
    ) -> Score {
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
        let unused = self.unused_servers(configured);
        score.categories = vec![
            self.prompt_quality(),
            self.tool_utilisation(),
            self.efficiency_category(),
            mcp_utilisation(configured.len(), unused.len()),
            self.engagement_category(),
        ];
        score.total = Some(score.categories.iter().map(|category| category.points).sum());
        score.tips = self.build_tips(&score.categories, configured.len(), &unused);
        score
    }

    fn prompt_length(&self) -> f64 {
        checked_ratio(self.prompt_chars, self.prompts).unwrap_or(0.0)
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
        let ask_ratio = checked_ratio(asked, self.prompts).unwrap_or(0.0);
        let points = u64::saturating_sub(base, (30.0 * ask_ratio).floor() as u64);
        let asked = match asked {
            0 => String::new(),
            1 => ", 1 question from the agent".to_owned(),
            _ => format!(", {asked} questions from the agent"),
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

    /// Returns the share of completed calls that succeeded; 1 when there are none.
    fn success_rate(&self) -> f64 {
        let (results, errors) = self
            .tools
            .values()
            .fold((0, 0), |(results, errors), sums| (results + sums[1], errors + sums[2]));
        checked_ratio(results - errors.min(results), results).unwrap_or(1.0)
    }

    fn efficiency_category(&self) -> Category {
        let success = self.success_rate();
        let base = match success {
            0.9.. => 15,
            0.8.. => 10,
            0.7.. => 7,
            _ => 4,
        };
        let turns = checked_ratio(self.prompts, self.sessions).unwrap_or(0.0);
        let bonus = if turns > 0.0 && turns < 15.0 { 5 } else { 0 };
        let percent = format_percent(success);
        let measured = format!("{percent} of tool calls succeed, {turns:.1} prompts per session");
        Category { name: "Efficiency", points: (base + bonus).min(20), measured }
    }

    fn minutes_per_session(&self) -> f64 {
        checked_ratio(self.active_ms, self.sessions).unwrap_or(0.0) / 60_000.0
    }

    fn engagement_category(&self) -> Category {
        let (minutes, days) = (self.minutes_per_session(), self.days.len());
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
        let measured = format!("active for {minutes:.0} min per session on {days} day{plural}");
        Category { name: "Engagement", points: (base + bonus).min(20), measured }
    }

    /// Returns the configured servers that no used tool belongs to.
    fn unused_servers(&self, configured: &BTreeSet<String>) -> Vec<String> {
        let seen: BTreeSet<String> = self
            .tools
            .keys()
            .flat_map(|tool| [tool.as_str(), tool.split('.').next().unwrap_or(tool)])
            .map(normalized_server_name)
            .filter(|name| !name.is_empty())
            .collect();
        let is_used = |server: &&String| {
            let server = normalized_server_name(server);
            seen.iter().any(|name| name.contains(&server) || server.contains(name.as_str()))
        };
        configured.iter().filter(|server| !is_used(server)).cloned().collect()
    }

    fn build_tips(
        &self,
        categories: &[Category],
        configured: usize,
        unused: &[String],
    ) -> Vec<String> {
        let points: Vec<u64> = categories.iter().map(|category| category.points).collect();
        let mut tips = Vec::new();
        if points[0] < 15 {
            tips.push(format!(
                "Add context, expected behaviour and constraints to prompts: the average length is {:.0} characters.",
                self.prompt_length()
            ));
        }
        let missing: Vec<&str> =
            COMMON.iter().copied().filter(|tool| !self.tools.contains_key(*tool)).take(3).collect();
        if points[1] < 15 && !missing.is_empty() {
            tips.push(format!("Let the agent use more tools, such as {}.", missing.join(", ")));
        }
        if points[2] < 15 && self.success_rate() < 0.85 {
            tips.push(self.failure_tip());
        }
        if configured == 0 {
            tips.push("Consider adding an MCP server: none is configured.".to_owned());
        } else if points[3] < 15 {
            tips.push(format!("Use or remove the MCP servers {}.", unused.join(", ")));
        }
        if points[4] < 15 && self.minutes_per_session() < 5.0 {
            tips.push(
                "Give the agent larger tasks: sessions are shorter than 5 minutes.".to_owned(),
            );
        }
        if points[4] < 15 && self.days.len() < 3 {
            tips.push("Use it more regularly: there are sessions on fewer than 3 days.".to_owned());
        }
        if tips.is_empty() {
            tips.push("Nothing to improve.".to_owned());
        }
        tips
    }

    fn failure_tip(&self) -> String {
        let worst = self.tools.iter().filter(|(_, sums)| sums[2] > 0);
        let worst = worst.max_by_key(|(name, sums)| (sums[2], std::cmp::Reverse(*name)));
        let named = worst.map_or(String::new(), |(name, _)| format!(", most often {name}"));
        let failed = format_percent(1.0 - self.success_rate());
        format!("Review failing tool calls: {failed} of calls fail{named}.")
    }
}

fn mcp_utilisation(configured: usize, unused: usize) -> Category {
    let used = configured - unused;
    let points = match checked_ratio(used as u64, configured as u64) {
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

/// Normalizes a name for the comparison of servers.
fn normalized_server_name(name: &str) -> String {
    name.to_lowercase().replace(['-', '_', ' '], "")
}

fn checked_ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn format_percent(share: f64) -> String {
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
        let score = measured.build_score("x".into(), None, &configured);
        score.categories.iter().map(|category| category.points).collect()
    }

    #[test]
    fn a_perfect_repository_has_nothing_to_improve_but_servers() {
        assert_eq!(points(&measured(), &[]), [20, 20, 20, 10, 20]);
        let score = measured().build_score("x".into(), None, &BTreeSet::new());
        assert_eq!(score.total, Some(90));
        assert_eq!(score.tips, ["Consider adding an MCP server: none is configured."]);
        let used = BTreeSet::from(["Bash".to_owned()]);
        let score = measured().build_score("x".into(), None, &used);
        assert_eq!(score.tips, ["Nothing to improve."]);
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
            assert_eq!(one.efficiency_category().points, expected, "{errors} {prompts}");
        };
        check(10, 40, 20);
        check(20, 40, 15);
        check(30, 40, 12);
        check(31, 40, 9);
        check(10, 150, 15);
        check(10, 0, 15);
        let none = Measured { tools: HashMap::new(), ..measured() };
        assert_eq!(none.efficiency_category().points, 20);
    }

    #[test]
    fn one_is_not_many() {
        let mut one = Measured { days: [Date::constant(2026, 11, 1)].into(), ..measured() };
        one.tools.insert(ASK_USER.to_owned(), [1, 1, 0]);
        assert!(one.engagement_category().measured.ends_with("on 1 day"));
        assert!(one.prompt_quality().measured.ends_with(", 1 question from the agent"));
    }

    #[test]
    fn engagement_follows_minutes_and_days() {
        let check = |seconds: u64, days: i8, expected: u64| {
            let days = (0..days).map(|day| Date::constant(2026, 11, day + 1)).collect();
            let one = Measured { active_ms: 10 * seconds * 1000, days, ..measured() };
            assert_eq!(one.engagement_category().points, expected, "{seconds} {}", one.days.len());
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
            Measured { sessions: 2, ..measured() }.build_score("x".into(), None, &BTreeSet::new());
        assert_eq!((score.total, score.categories.len(), score.tips.len()), (None, 0, 0));
    }
}
