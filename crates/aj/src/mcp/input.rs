//! The inputs of the MCP tools: their JSON schemas and the matching types. Unknown arguments are
//! refused.

use agent_journal::Journal;
use agent_journal::search::{DayEdge, Filter, Scope, agent_name, date, describe_query_language};
use anyhow::Result;
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::output::files::FileSort;

/// Smallest `max_tokens` of an answer.
pub(super) const MIN_ANSWER_TOKENS: usize = 200;

/// Default `max_tokens` of an answer.
pub(super) const DEFAULT_ANSWER_TOKENS: usize = 4_000;

/// Largest `max_tokens` of an answer.
pub(super) const MAX_ANSWER_TOKENS: usize = 16_000;

/// Longest query, path or other text argument, in bytes.
pub(super) const QUERY: usize = 1_000;

/// Largest `limit`: results of one answer.
pub(super) const LIMIT: usize = 50;

/// The arguments that select sessions, the same for every tool that takes them.
#[derive(Default, Deserialize)]
pub(super) struct SessionChoice {
    #[serde(default)]
    agent: Vec<String>,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    branch: Option<String>,
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
}

/// Input of the `search` tool.
#[derive(Deserialize)]
pub(super) struct SearchInput {
    pub(super) query: String,
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) include_current: bool,
}

/// Input of the `show` tool.
#[derive(Deserialize)]
pub(super) struct Show {
    pub(super) id: String,
    #[serde(default)]
    pub(super) from: Option<u64>,
    #[serde(default)]
    pub(super) skip: usize,
    #[serde(default)]
    pub(super) tools: bool,
}

/// Input of the `handoff` tool.
#[derive(Deserialize)]
pub(super) struct HandoffInput {
    pub(super) id: String,
}

/// Input of the `blame` tool.
#[derive(Deserialize)]
pub(super) struct BlameInput {
    pub(super) place: String,
}

/// Input of the `files` tool.
#[derive(Deserialize)]
pub(super) struct FilesInput {
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) sort: Option<FileSort>,
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) offset: usize,
}

/// Input of the `list` tool.
#[derive(Deserialize)]
pub(super) struct ListInput {
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) include_sub_agents: bool,
    #[serde(default)]
    pub(super) include_current: bool,
}

/// Input of the `stats` tool.
#[derive(Deserialize)]
pub(super) struct StatsInput {
    #[serde(default)]
    pub(super) by: Option<GroupByInput>,
}

/// The property that statistics are grouped by.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GroupByInput {
    Day,
    Week,
    Month,
    Agent,
    Model,
    Project,
    Branch,
    Tool,
}

impl SessionChoice {
    /// Converts the arguments to a filter with the given scope.
    pub(super) fn choice_filter(&self, scope: Scope, now: &Zoned) -> Result<Filter> {
        let agents = self.agent.iter().map(|name| agent_name(name)).collect::<Result<_, _>>()?;
        Ok(Filter {
            agents,
            projects: self.project.iter().cloned().collect(),
            branches: self.branch.iter().cloned().collect(),
            since: self.since.as_deref().map(|text| date(text, now, DayEdge::Start)).transpose()?,
            until: self.until.as_deref().map(|text| date(text, now, DayEdge::End)).transpose()?,
            scope,
            ..Filter::default()
        })
    }
}

/// A tool as `tools/list` describes it.
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    properties: fn() -> Value,
    required: &'static [&'static str],
    /// Whether the tool takes the arguments that select sessions.
    chooses: bool,
}

/// Every tool, in the order of `tools/list`.
pub(super) const TOOLS: &[Described] = &[
    Described {
        name: "search",
        about: "Find earlier sessions of any coding agent on this machine by what was said and \
            done in them: errors, decisions, file names, commands. Matches words and meaning; \
            results that contain only some of the words are marked.",
        properties: search_schema,
        required: &["query"],
        chooses: true,
    },
    Described {
        name: "show",
        about: "Read a session found by search or list, from the beginning or around a message \
            (id#14).",
        properties: show_schema,
        required: &["id"],
        chooses: false,
    },
    Described {
        name: "list",
        about: "List earlier sessions, latest first.",
        properties: list_schema,
        required: &[],
        chooses: true,
    },
    Described {
        name: "handoff",
        about: "Read what is needed to continue a session: its goal, decisions, changed files, \
            open todos, last failure and last state, each with its message.",
        properties: handoff_schema,
        required: &["id"],
        chooses: false,
    },
    Described {
        name: "files",
        about: "Find the files that earlier sessions viewed, changed or created, with those \
            sessions. Shows who worked on a file before, and why.",
        properties: files_schema,
        required: &[],
        chooses: true,
    },
    Described {
        name: "blame",
        about: "Find the session and message that wrote each line of a file.",
        properties: blame_schema,
        required: &["place"],
        chooses: false,
    },
    Described {
        name: "stats",
        about: "Count sessions, prompts, tokens, cost and tool calls, in total or by group.",
        properties: stats_schema,
        required: &[],
        chooses: true,
    },
];

impl Described {
    /// Builds the JSON schema of the tool's input.
    pub(super) fn input_schema(&self) -> Map<String, Value> {
        let mut properties = (self.properties)();
        let shared = if self.chooses { choice_schema() } else { json!({}) };
        let tokens = json!({ "max_tokens": {
            "type": "integer", "minimum": MIN_ANSWER_TOKENS, "maximum": MAX_ANSWER_TOKENS,
            "default": DEFAULT_ANSWER_TOKENS,
            "description": "Limit of the answer in tokens; the answer says what was left out",
        } });
        for further in [shared, tokens] {
            if let (Value::Object(all), Value::Object(further)) = (&mut properties, further) {
                all.extend(further);
            }
        }
        let schema = json!({
            "type": "object", "properties": properties, "required": self.required,
            "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn choice_schema() -> Value {
    let agents: Vec<&str> = Journal::supported_agents().map(|agent| agent.id).collect();
    let date = "2026-11-03, 7d, 12h, 2w, today or yesterday";
    json!({
        "agent": {
            "type": "array", "items": { "type": "string" },
            "description": format!("Only these agents: {}, or the name of an imported agent", agents.join(", ")),
        },
        "project": text_schema("Only projects whose name or path contains this text"),
        "branch": text_schema("Only this git branch"),
        "since": text_schema(&format!("Only since this time: {date}")),
        "until": text_schema(&format!("Only until this time: {date}")),
    })
}

fn search_schema() -> Value {
    json!({
        "query": {
            "type": "string", "minLength": 1, "maxLength": QUERY, "description": describe_query_language(),
        },
        "limit": limit_schema(10, "sessions"), "offset": offset_schema("sessions"), "include_current": current_schema(),
    })
}

fn show_schema() -> Value {
    json!({
        "id": text_schema("Session id or a unique prefix; id#14 for message 14 with its context"),
        "from": { "type": "integer", "minimum": 1, "description": "Number of the first message to read" },
        "skip": { "type": "integer", "minimum": 0, "description":
            "Skip this many characters of the first message, to read on in a long one" },
        "tools": { "type": "boolean", "default": false, "description":
            "Include tool inputs and outputs in full" },
    })
}

fn list_schema() -> Value {
    json!({
        "limit": limit_schema(20, "sessions"), "offset": offset_schema("sessions"), "include_current": current_schema(),
        "include_sub_agents": { "type": "boolean", "default": false, "description":
            "Include sub-agents" },
    })
}

fn handoff_schema() -> Value {
    json!({ "id": text_schema("Session id or a unique prefix") })
}

fn files_schema() -> Value {
    json!({
        "text": text_schema("Only files whose path contains this text, such as src/login.rs"),
        "sort": {
            "type": "string", "enum": FileSort::NAMES, "description":
                "Order: touched by most sessions first (default without text), edited most often \
                first, or touched last first (default with text)",
        },
        "limit": limit_schema(10, "files"), "offset": offset_schema("files"),
    })
}

fn blame_schema() -> Value {
    json!({ "place": text_schema("File, with an optional line or range of lines: src/login.rs:40-60") })
}

fn stats_schema() -> Value {
    let kinds = ["day", "week", "month", "agent", "model", "project", "branch", "tool"];
    json!({ "by": { "type": "string", "enum": kinds, "description": "Group by" } })
}

fn text_schema(about: &str) -> Value {
    json!({ "type": "string", "maxLength": QUERY, "description": about })
}

fn limit_schema(usual: usize, what: &str) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": LIMIT, "default": usual,
        "description": format!("Return at most this many {what}"),
    })
}

fn offset_schema(what: &str) -> Value {
    json!({
        "type": "integer", "minimum": 0, "default": 0,
        "description": format!("Skip this many {what}"),
    })
}

fn current_schema() -> Value {
    json!({ "type": "boolean", "default": false, "description":
        "Include the session that makes this call" })
}
