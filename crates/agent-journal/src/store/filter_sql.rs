//! Translates filters into SQL conditions on sessions. Every value that a user typed is a
//! parameter. Conditions that only packed rows can answer are in `choose.rs`.

use rusqlite::types::Value;

use super::browse::running_condition;
use crate::filter::{
    ChosenSessions, Filter, HoursOfDay, NumberRange, Scope, SessionFeature, SessionNumber,
    SessionState, SessionText,
};
use crate::maps::Set;
use crate::model::Timestamp;

/// A condition that can be checked only on the packed rows of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackedCondition<'f> {
    /// The session touched a file with one of these in its path.
    Touched(&'f [String]),
    /// The session changed a file with one of these in its path; any file, if the list is empty.
    Edited(&'f [String]),
    /// The session used one of these tools.
    Tools(&'f [String]),
    /// The session has an image.
    Image,
    /// The session has a message at one of these hours.
    Hours(&'f HoursOfDay),
}

/// Returns an SQL condition on `sessions` and its values, without the conditions on packed rows.
pub(super) fn filter_condition(filter: &Filter) -> (String, Vec<Value>) {
    let mut conditions = Conditions::default();
    conditions.all.push("sessions.shown = 1".to_owned());
    if filter.scope == Scope::Roots && !filter.states.contains(&SessionState::SubAgent) {
        conditions.all.push("sessions.kind = 0".to_owned());
    }
    conditions.add_facts(filter);
    conditions.add_times(filter);
    if let Some(not) = &filter.not {
        conditions.exclude(not);
    }
    if let Some(chosen) = &filter.chosen {
        conditions.all.extend(chosen_conditions(chosen));
    }
    (conditions.all.join(" AND "), conditions.values)
}

/// Returns the SQL condition without times, scope and visibility: only facts such as agent, project
/// and branch.
pub(super) fn fact_condition(filter: &Filter) -> (String, Vec<Value>) {
    let mut conditions = Conditions::default();
    conditions.all.push("1".to_owned());
    conditions.add_facts(filter);
    if let Some(not) = &filter.not {
        conditions.exclude(not);
    }
    (conditions.all.join(" AND "), conditions.values)
}

/// Returns the conditions on packed rows.
pub(super) fn packed_conditions(filter: &Filter) -> Vec<PackedCondition<'_>> {
    let mut all = Vec::new();
    if !filter.files.is_empty() {
        all.push(PackedCondition::Touched(&filter.files));
    }
    if !filter.edited.is_empty() {
        all.push(PackedCondition::Edited(&filter.edited));
    }
    if !filter.tools.is_empty() {
        all.push(PackedCondition::Tools(&filter.tools));
    }
    for feature in &filter.features {
        match feature {
            SessionFeature::Image => all.push(PackedCondition::Image),
            SessionFeature::Edit => all.push(PackedCondition::Edited(&[])),
            SessionFeature::Error | SessionFeature::PullRequest => {}
        }
    }
    all.extend(filter.hours.iter().map(PackedCondition::Hours));
    all
}

/// Returns the SQL expression of a number of a session.
pub(super) fn number_column(of: SessionNumber) -> &'static str {
    match of {
        SessionNumber::Prompts => "sessions.prompts",
        SessionNumber::ActiveSeconds => "sessions.active_s",
        SessionNumber::ToolCalls => "sessions.tool_calls",
        SessionNumber::Tokens => {
            "sessions.input + sessions.output + sessions.cache_read + sessions.cache_creation"
        }
    }
}

/// SQL predicates that must all hold, with their values.
#[derive(Default)]
struct Conditions {
    all: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds the conditions on facts about a session.
    fn add_facts(&mut self, filter: &Filter) {
        for text in SessionText::ALL {
            self.add_text(text, filter.texts(text));
        }
        self.all.extend(filter.states.iter().filter_map(|state| state_condition(*state)));
        self.all.extend(filter.features.iter().filter_map(|it| feature_condition(*it)));
        self.all.extend(filter.ranges.iter().map(|range| range_condition(*range)));
    }

    fn add_text(&mut self, text: SessionText, wanted: &[String]) {
        match text {
            SessionText::Agent => self.any("sessions.agent = ?", wanted, str::to_owned),
            SessionText::Project => {
                let project = "sessions.project LIKE ? ESCAPE '\\' \
                    OR sessions.project_path LIKE ? ESCAPE '\\' OR sessions.cwd LIKE ? ESCAPE '\\' \
                    OR sessions.repository LIKE ? ESCAPE '\\'";
                self.any(project, wanted, |text| {
                    text.strip_prefix('=').map_or_else(|| containing(text), escape_wildcards)
                });
            }
            SessionText::Path => {
                let path = format!(
                    "sessions.project_path LIKE ? ESCAPE '\\' OR sessions.cwd LIKE ? ESCAPE '\\' \
                     OR {}",
                    one_of_several("directories")
                );
                self.any(&path, wanted, containing);
            }
            SessionText::Branch => {
                let branch =
                    format!("sessions.branch LIKE ? ESCAPE '\\' OR {}", one_of_several("branches"));
                self.any(&branch, wanted, escape_wildcards);
            }
            SessionText::Model => {
                self.any("sessions.models LIKE ? ESCAPE '\\'", wanted, |text| {
                    // The column holds names as JSON.
                    let whole =
                        text.strip_prefix('=').map(|name| serde_json::json!(name).to_string());
                    containing(whole.as_deref().unwrap_or(text))
                });
            }
            SessionText::Id => {
                let id = "sessions.native LIKE ? ESCAPE '\\' \
                    OR sessions.agent || ':' || sessions.native LIKE ? ESCAPE '\\' \
                    OR sessions.parent_native LIKE ? ESCAPE '\\'";
                self.any(id, wanted, |text| format!("{}%", escape_wildcards(text)));
            }
            // These are conditions on packed rows.
            SessionText::TouchedFile | SessionText::EditedFile | SessionText::Tool => {}
        }
    }

    fn add_times(&mut self, filter: &Filter) {
        self.time("sessions.ended_at >= ?", filter.since);
        self.time("sessions.started_at <= ?", filter.until);
    }

    /// Adds the condition that nothing in a filter fits.
    fn exclude(&mut self, filter: &Filter) {
        let mut excluded = Self { values: std::mem::take(&mut self.values), ..Self::default() };
        excluded.add_facts(filter);
        excluded.add_times(filter);
        self.values = excluded.values;
        let without = excluded.all.into_iter().map(|one| format!("NOT coalesce({one}, 0)"));
        self.all.extend(without);
    }

    /// Adds a predicate that holds for any of the wanted values; every `?` in the condition stands
    /// for the same value.
    fn any(&mut self, condition: &str, wanted: &[String], value: impl Fn(&str) -> String) {
        if wanted.is_empty() {
            return;
        }
        let mut alternatives = Vec::new();
        for one in wanted {
            self.values.push(Value::from(value(one)));
            alternatives.push(condition.replace('?', &format!("?{}", self.values.len())));
        }
        // SQLite limits the depth of an expression, and a chain of alternatives is as deep as it is
        // long: the alternatives of one value are grouped in parentheses.
        self.all.push(match alternatives.len() {
            1 => format!("({})", alternatives[0]),
            _ => format!("(({}))", alternatives.join(") OR (")),
        });
    }

    fn time(&mut self, condition: &str, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.values.push(Value::from(at.as_millis()));
            self.all.push(condition.replace('?', &format!("?{}", self.values.len())));
        }
    }
}

/// Returns the condition for a state; `None` for a state of messages.
fn state_condition(state: SessionState) -> Option<String> {
    Some(match state {
        SessionState::SideChain | SessionState::Failed => return None,
        SessionState::SubAgent => "sessions.kind = 1".to_owned(),
        SessionState::Error => "sessions.failed = 1".to_owned(),
        SessionState::Gone => source_condition("(NOT sources.present OR recordings.gone)"),
        SessionState::Running(now) => running_condition(now),
    })
}

/// Returns a condition on the source that a session was read from.
fn source_condition(condition: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM recordings JOIN sources ON sources.id = recordings.source \
         WHERE recordings.key = sessions.recording AND {condition})"
    )
}

/// Returns the condition for a feature; `None` for a feature that only packed rows show.
fn feature_condition(feature: SessionFeature) -> Option<String> {
    match feature {
        SessionFeature::Image | SessionFeature::Edit => None,
        SessionFeature::Error => {
            Some("(sessions.tool_errors > 0 OR sessions.failed = 1)".to_owned())
        }
        SessionFeature::PullRequest => Some("sessions.refs LIKE '%\"kind\":\"pr\"%'".to_owned()),
    }
}

fn range_condition(range: NumberRange) -> String {
    let column = number_column(range.of);
    // The values are parsed numbers: there is nothing to escape.
    match range.max {
        Some(max) => format!("({column} BETWEEN {} AND {max})", range.min),
        None => format!("{column} >= {}", range.min),
    }
}

fn chosen_conditions(chosen: &ChosenSessions) -> Vec<String> {
    // The keys are generated numbers: there is nothing to escape.
    let among = |keys: &Set<u64>| {
        let keys: Vec<String> = keys.iter().map(|key| (*key as i64).to_string()).collect();
        format!("sessions.recording IN ({})", keys.join(","))
    };
    let mut all: Vec<String> = chosen.with.iter().map(among).collect();
    all.extend((!chosen.without.is_empty()).then(|| format!("NOT {}", among(&chosen.without))));
    all
}

/// Returns a condition that one value of a JSON list fits. Most sessions have one branch and one
/// directory, and an empty list.
fn one_of_several(column: &str) -> String {
    format!(
        "(sessions.{column} != '[]' AND EXISTS (SELECT 1 FROM json_each(sessions.{column}) \
         WHERE value LIKE ? ESCAPE '\\'))"
    )
}

/// Returns the pattern of `LIKE` for a part of a text.
fn containing(text: &str) -> String {
    format!("%{}%", escape_wildcards(text))
}

/// Escapes the wildcards of `LIKE`.
fn escape_wildcards(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: &Filter, sql: &str, count: usize) {
        let (condition, values) = filter_condition(filter);
        assert_eq!(condition, sql);
        assert_eq!(values.len(), count);
    }

    #[test]
    fn an_empty_filter_asks_for_every_root_session() {
        check(&Filter::default(), "sessions.shown = 1 AND sessions.kind = 0", 0);
        let all = Filter { scope: Scope::All, ..Filter::default() };
        check(&all, "sessions.shown = 1", 0);
    }

    #[test]
    fn a_project_is_meant_by_a_part_of_its_name_or_by_all_of_it() {
        let check = |project: &str, expected: &str| {
            let filter = Filter { projects: vec![project.into()], ..Filter::default() };
            let values = filter_condition(&filter).1;
            assert_eq!(values, [Value::from(expected.to_owned())], "{project}");
        };
        check("my_web", "%my\\_web%");
        check("=my_web", "my\\_web");
    }

    #[test]
    fn every_value_is_a_parameter() {
        let filter = Filter {
            agents: vec!["a".into(), "b".into()],
            projects: vec!["100%".into()],
            since: Timestamp::from_millis(1),
            scope: Scope::All,
            ..Filter::default()
        };
        let sql = "sessions.shown = 1 AND ((sessions.agent = ?1) OR (sessions.agent = ?2)) \
            AND (sessions.project LIKE ?3 ESCAPE '\\' OR sessions.project_path LIKE ?3 ESCAPE '\\' \
            OR sessions.cwd LIKE ?3 ESCAPE '\\' OR sessions.repository LIKE ?3 ESCAPE '\\') \
            AND sessions.ended_at >= ?4";
        check(&filter, sql, 4);
    }

    #[test]
    fn what_is_left_out_may_be_unknown() {
        let not = Filter { branches: vec!["main".into()], ..Filter::default() };
        let filter = Filter { scope: Scope::All, not: Some(Box::new(not)), ..Filter::default() };
        let sql = "sessions.shown = 1 AND NOT coalesce((sessions.branch LIKE ?1 ESCAPE '\\' \
            OR (sessions.branches != '[]' AND EXISTS (SELECT 1 FROM json_each(sessions.branches) \
            WHERE value LIKE ?1 ESCAPE '\\'))), 0)";
        check(&filter, sql, 1);
    }
}
