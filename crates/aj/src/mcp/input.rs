//! What the tools take: their schemas, and the same in types. Nothing unknown is accepted.

use agent_journal::Journal;
use agent_journal::search::{Edge, Filter, Scope, agent_name, date, fields};
use anyhow::Result;
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::commands::files::FileSort;

/// Fewest, usual and most tokens of an answer.
pub(super) const TOKENS: (usize, usize, usize) = (200, 4_000, 16_000);

/// A longer query is none.
pub(super) const QUERY: usize = 1_000;

/// Most sessions of one answer.
pub(super) const LIMIT: usize = 50;

/// Which sessions, the same for every tool.
#[derive(Default, Deserialize)]
pub(super) struct Choice {
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

/// What a search takes.
#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) query: String,
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) include_current: bool,
}

/// What reading a session takes.
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

/// What a handoff takes.
#[derive(Deserialize)]
pub(super) struct HandoffInput {
    pub(super) id: String,
}

/// What a blame takes.
#[derive(Deserialize)]
pub(super) struct BlameInput {
    pub(super) place: String,
}

/// What a list of files takes.
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

/// What a list takes.
#[derive(Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) offset: usize,
    #[serde(default)]
    pub(super) include_sub_agents: bool,
    #[serde(default)]
    pub(super) include_current: bool,
}

/// What statistics take.
#[derive(Deserialize)]
pub(super) struct Stats {
    #[serde(default)]
    pub(super) by: Option<By>,
}

/// What figures may be sorted by.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    Day,
    Week,
    Month,
    Agent,
    Model,
    Project,
    Branch,
    Tool,
}

impl Choice {
    /// The filter it describes.
    pub(super) fn filter(&self, scope: Scope, now: &Zoned) -> Result<Filter> {
        let agents = self.agent.iter().map(|name| agent_name(name)).collect::<Result<_, _>>()?;
        Ok(Filter {
            agents,
            projects: self.project.iter().cloned().collect(),
            branches: self.branch.iter().cloned().collect(),
            since: self.since.as_deref().map(|text| date(text, now, Edge::Start)).transpose()?,
            until: self.until.as_deref().map(|text| date(text, now, Edge::End)).transpose()?,
            scope,
            ..Filter::default()
        })
    }
}

/// A tool as clients see it.
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    properties: fn() -> Value,
    required: &'static [&'static str],
    /// Whether it chooses sessions.
    chooses: bool,
}

/// Every tool.
pub(super) const TOOLS: &[Described] = &[
    Described {
        name: "search",
        about: "Find earlier sessions of any coding agent on this machine by what was said and \
            done in them: errors, decisions, file names, commands. Looks for words and for the \
            same meaning in other words; a result that has only some of the words says so.",
        properties: search,
        required: &["query"],
        chooses: true,
    },
    Described {
        name: "show",
        about: "Read a session found by search or list, from its beginning or around a message \
            (id#14).",
        properties: show,
        required: &["id"],
        chooses: false,
    },
    Described {
        name: "list",
        about: "List earlier sessions, the latest first.",
        properties: list,
        required: &[],
        chooses: true,
    },
    Described {
        name: "handoff",
        about: "Read what is needed to continue a session: its goal, decisions, changed files, \
            open todos, last failure and last state, each with its message.",
        properties: handoff,
        required: &["id"],
        chooses: false,
    },
    Described {
        name: "files",
        about: "Find the files that earlier sessions viewed, changed or created, with those \
            sessions: why is a file as it is, who worked on it before.",
        properties: files,
        required: &[],
        chooses: true,
    },
    Described {
        name: "blame",
        about: "Find the session and message that wrote the lines of a file as it is now.",
        properties: blame,
        required: &["place"],
        chooses: false,
    },
    Described {
        name: "stats",
        about: "Sum up sessions, prompts, tokens, cost and tools, in all or by group.",
        properties: stats,
        required: &[],
        chooses: true,
    },
];

impl Described {
    /// The schema of its input.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let mut properties = (self.properties)();
        let shared = if self.chooses { choice() } else { json!({}) };
        let (least, usual, most) = TOKENS;
        let tokens = json!({ "max_tokens": {
            "type": "integer", "minimum": least, "maximum": most, "default": usual,
            "description": "The answer has at most this many tokens; what is left out is said",
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

fn choice() -> Value {
    let agents: Vec<&str> = Journal::agents().map(|agent| agent.id).collect();
    let date = "2026-11-03, 7d, 12h, 2w, today or yesterday";
    json!({
        "agent": {
            "type": "array", "items": { "type": "string" },
            "description": format!("Only these agents: {} or another one in the journal", agents.join(", ")),
        },
        "project": text("Only projects whose name or path has this in it"),
        "branch": text("Only this git branch"),
        "since": text(&format!("Only since then: {date}")),
        "until": text(&format!("Only until then: {date}")),
    })
}

fn search() -> Value {
    json!({
        "query": {
            "type": "string", "minLength": 1, "maxLength": QUERY, "description": query_language(),
        },
        "limit": limit(10, "sessions"), "offset": offset("sessions"), "include_current": current(),
    })
}

/// Describes the query language, with every field and its values.
fn query_language() -> String {
    let mut text = "Words, \"a phrase\", begin*, -without, a OR b, /regex/, and fields such as \
        file:login.rs since:7d; fields alone list what they choose. Fields:"
        .to_owned();
    for field in fields() {
        // The names of agents stand in the schema already.
        let values = field.values.join("|");
        let values = if values.is_empty() { field.about } else { &values };
        text.push_str(&format!(" {}: ({values})", field.name));
    }
    text
}

fn show() -> Value {
    json!({
        "id": text("A session's id or its beginning; id#14 for message 14 and what is around it"),
        "from": { "type": "integer", "minimum": 1, "description": "The first message to read" },
        "skip": { "type": "integer", "minimum": 0, "description":
            "Leave out this many characters of the first message, to read on in a long one" },
        "tools": { "type": "boolean", "default": false, "description":
            "Inputs and outputs of tools in full" },
    })
}

fn list() -> Value {
    json!({
        "limit": limit(20, "sessions"), "offset": offset("sessions"), "include_current": current(),
        "include_sub_agents": { "type": "boolean", "default": false, "description":
            "Also the sessions that sub-agents ran" },
    })
}

fn handoff() -> Value {
    json!({ "id": text("A session's id or its beginning") })
}

fn files() -> Value {
    json!({
        "text": text("Only files whose path has this in it, such as src/login.rs"),
        "sort": {
            "type": "string", "enum": FileSort::NAMES, "description":
                "What comes first: what most sessions touched (default without text), what was \
                edited most often, or what was touched last (default with text)",
        },
        "limit": limit(10, "files"), "offset": offset("files"),
    })
}

fn blame() -> Value {
    json!({ "place": text("A file, with a line or lines after a colon: src/login.rs:40-60") })
}

fn stats() -> Value {
    let kinds = ["day", "week", "month", "agent", "model", "project", "branch", "tool"];
    json!({ "by": { "type": "string", "enum": kinds, "description": "Group by" } })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "maxLength": QUERY, "description": about })
}

fn limit(usual: usize, what: &str) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": LIMIT, "default": usual,
        "description": format!("At most this many {what}"),
    })
}

fn offset(what: &str) -> Value {
    json!({
        "type": "integer", "minimum": 0, "default": 0,
        "description": format!("Skip this many {what}"),
    })
}

fn current() -> Value {
    json!({ "type": "boolean", "default": false, "description":
        "Also the session that is asking" })
}
