//! The status of a session: running, ended with an error, or completed.

use std::fmt;

use serde::Serialize;

/// A session whose source changed this recently counts as running, in milliseconds.
pub const RUNNING_WINDOW_MS: i64 = 10 * 60 * 1000;

/// The status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Its agent wrote to it a short time ago.
    Running,
    /// It ended with an error.
    Error,
    /// It ended in any other way.
    Completed,
}

impl SessionStatus {
    /// Every status, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::Running, Self::Completed, Self::Error];

    /// Returns the name of the status in all output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Error => "error",
            Self::Completed => "completed",
        }
    }

    /// Returns the status with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_name() {
        let names = SessionStatus::ALL.map(SessionStatus::name);
        assert_eq!(names, ["running", "completed", "error"]);
        for status in SessionStatus::ALL {
            assert_eq!(SessionStatus::named(status.name()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert_eq!(SessionStatus::named("ended"), None);
    }
}
