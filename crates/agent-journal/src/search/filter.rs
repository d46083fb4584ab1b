//! Which sessions and messages are meant. One filter serves lists, searches and everything that
//! is to come; it knows how to say itself to the store.

use rusqlite::types::Value;

use crate::model::Timestamp;

/// A choice of sessions and messages. Empty lists choose everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Agents, by id.
    pub agents: Vec<String>,
    /// Parts of project names or paths.
    pub projects: Vec<String>,
    /// Names of branches.
    pub branches: Vec<String>,
    /// Nothing that ended before.
    pub since: Option<Timestamp>,
    /// Nothing that began after.
    pub until: Option<Timestamp>,
    /// Kinds of text to search.
    pub roles: Vec<String>,
    /// Whose sessions.
    pub scope: Scope,
}

/// Whose sessions are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Those a person started.
    #[default]
    Roots,
    /// Those of sub-agents too.
    All,
}

impl Filter {
    /// Whether it chooses by anything that is a fact of whole sessions.
    pub(crate) fn limits_sessions(&self) -> bool {
        !(self.agents.is_empty() && self.projects.is_empty() && self.branches.is_empty())
    }

    /// Says the filter as an SQL condition on `sessions`, with its values.
    pub(crate) fn sql(&self) -> (String, Vec<Value>) {
        let mut sql = String::from("sessions.shown = 1");
        let mut values = Vec::new();
        if self.scope == Scope::Roots {
            sql.push_str(" AND sessions.kind = 0");
        }
        self.about(&mut sql, &mut values);
        for (condition, at) in
            [("sessions.ended_at >= ?", self.since), ("sessions.started_at <= ?", self.until)]
        {
            if let Some(at) = at {
                values.push(Value::from(at.as_millis()));
                sql.push_str(" AND ");
                sql.push_str(&condition.replace('?', &format!("?{}", values.len())));
            }
        }
        (sql, values)
    }

    /// Says what the filter asks of a session whatever its time: whether it is of the right
    /// agent, project and branch.
    pub(crate) fn about_sql(&self) -> (String, Vec<Value>) {
        let (mut sql, mut values) = (String::from("1"), Vec::new());
        self.about(&mut sql, &mut values);
        (sql, values)
    }

    fn about(&self, sql: &mut String, values: &mut Vec<Value>) {
        any(sql, values, "sessions.agent = ?", &self.agents, str::to_owned);
        let part = |text: &str| format!("%{}%", escape(text));
        let project = "sessions.project LIKE ? ESCAPE '\\' \
            OR sessions.project_path LIKE ? ESCAPE '\\' OR sessions.cwd LIKE ? ESCAPE '\\'";
        any(sql, values, project, &self.projects, part);
        any(sql, values, "sessions.branch LIKE ? ESCAPE '\\'", &self.branches, escape);
    }
}

/// Adds "one of these fits"; every `?` of a condition stands for the same value.
fn any(
    sql: &mut String,
    values: &mut Vec<Value>,
    condition: &str,
    wanted: &[String],
    value: impl Fn(&str) -> String,
) {
    if wanted.is_empty() {
        return;
    }
    let mut alternatives = Vec::new();
    for one in wanted {
        values.push(Value::from(value(one)));
        alternatives.push(condition.replace('?', &format!("?{}", values.len())));
    }
    sql.push_str(&format!(" AND ({})", alternatives.join(" OR ")));
}

/// Takes their meaning from the wildcards of `LIKE`.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: &Filter, sql: &str, count: usize) {
        let (condition, values) = filter.sql();
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
    fn every_value_is_a_parameter() {
        let filter = Filter {
            agents: vec!["a".into(), "b".into()],
            projects: vec!["100%".into()],
            since: Timestamp::from_millis(1),
            scope: Scope::All,
            ..Filter::default()
        };
        let sql = "sessions.shown = 1 AND (sessions.agent = ?1 OR sessions.agent = ?2) \
            AND (sessions.project LIKE ?3 ESCAPE '\\' OR sessions.project_path LIKE ?3 ESCAPE '\\' \
            OR sessions.cwd LIKE ?3 ESCAPE '\\') AND sessions.ended_at >= ?4";
        check(&filter, sql, 4);
    }
}
