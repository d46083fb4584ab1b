//! Infers the places of the facts in records of an unknown format, from the names and values of
//! their fields.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::convert::parse_time;
use super::declaration::{DeclaredFormat, DeclaredRole};
use super::learn::{RecordPlace, RecordSample, escaped_step};

/// Maximum depth of a place.
const MAX_DEPTH: usize = 7;

/// Maximum number of different values that are kept of one field.
const MAX_VALUES: usize = 48;

/// Maximum number of elements of a list that are examined.
const MAX_ELEMENTS: usize = 64;

/// Maximum number of records that are examined.
const MAX_RECORDS: usize = 6000;

/// Words that name a prompt or a reply when they are a role, beyond those the reader knows.
const ROLE_WORDS: [(&str, &[&str]); 4] = [
    ("user", &["usermessage", "userprompt", "userinput", "question", "humanmessage", "you"]),
    (
        "assistant",
        &[
            "assistantmessage",
            "agentmessage",
            "aimessage",
            "modelmessage",
            "answer",
            "functioncall",
            "toolcall",
            "tooluse",
            "assistantresponse",
        ],
    ),
    ("tool", &["functioncalloutput", "toolresults", "tooloutput", "toolresponse", "toolmessage"]),
    ("system", &["systemmessage", "sessionmeta"]),
];

const ROLE_KEYS: &[&str] = &["role", "author", "sender", "speaker", "from", "type", "kind"];
const TEXT_KEYS: &[&str] = &["content", "text", "message", "prompt", "body", "parts", "output"];
const REASONING_KEYS: &[&str] =
    &["thinking", "reasoning", "reasoningcontent", "reasoningtext", "thought", "think"];
const TIME_KEYS: &[&str] = &[
    "timestamp",
    "time",
    "createdat",
    "created",
    "ts",
    "timecreated",
    "createdtimestamp",
    "date",
    "at",
];
const ID_KEYS: &[&str] = &["id", "uuid", "messageid", "msgid", "entryid"];
const PARENT_KEYS: &[&str] = &["parentid", "parentuuid", "parent", "parentmessageid", "previousid"];
const MODEL_KEYS: &[&str] = &["model", "modelid", "modelname"];
const SESSION_KEYS: &[&str] =
    &["sessionid", "session", "conversationid", "chatid", "threadid", "taskid"];
const CWD_KEYS: &[&str] = &[
    "cwd",
    "workingdirectory",
    "workingdir",
    "workdir",
    "directory",
    "workspacedirectory",
    "workspacepath",
    "workspace",
    "projectpath",
    "worktree",
];
const BRANCH_KEYS: &[&str] = &["branch", "gitbranch", "headbranch"];
const TITLE_KEYS: &[&str] =
    &["title", "customtitle", "sessiontitle", "aititle", "summary", "name", "description"];
const VERSION_KEYS: &[&str] = &["version", "cliversion", "agentversion", "appversion"];
const NAME_KEYS: &[&str] = &["toolname", "functionname", "tool", "name"];
const INPUT_KEYS: &[&str] = &["input", "arguments", "args", "parameters", "params", "rawinput"];
const CALL_ID_KEYS: &[&str] = &["id", "callid", "toolcallid", "tooluseid"];
const ANSWERED_KEYS: &[&str] = &["tooluseid", "toolcallid", "callid", "functioncallid"];
const OUTPUT_KEYS: &[&str] = &["output", "result", "content", "response", "results", "text"];
const FAILED_KEYS: &[&str] = &["iserror", "failed", "isfailure", "exitcode", "error"];
const INPUT_TOKENS: &[&str] = &[
    "inputtokens",
    "prompttokens",
    "tokensin",
    "inputother",
    "prompttokencount",
    "tokensinput",
    "input",
    "prompt",
];
const OUTPUT_TOKENS: &[&str] = &[
    "outputtokens",
    "completiontokens",
    "tokensout",
    "candidatestokencount",
    "tokensoutput",
    "output",
    "completion",
];
const CACHE_READ_TOKENS: &[&str] = &[
    "cachereadinputtokens",
    "cachedinputtokens",
    "cachereadtokens",
    "inputcacheread",
    "cachereads",
    "cachedcontenttokencount",
    "cachedtokens",
    "cacheread",
    "cached",
    "read",
];
const CACHE_WRITE_TOKENS: &[&str] = &[
    "cachecreationinputtokens",
    "cachewritetokens",
    "cachecreationtokens",
    "inputcachecreation",
    "cachewrites",
    "cachewrite",
    "write",
];
const REASONING_TOKENS: &[&str] = &[
    "reasoningoutputtokens",
    "reasoningtokens",
    "thinkingtokens",
    "thoughtstokencount",
    "reasoning",
    "thoughts",
];

/// The values that were seen at one path.
#[derive(Default)]
struct FieldStatistics {
    /// Number of records with a value.
    records: usize,
    last_record: usize,
    texts: usize,
    numbers: usize,
    flags: usize,
    lists: usize,
    objects: usize,
    /// Values that are times.
    times: usize,
    /// Values that are absolute paths.
    paths: usize,
    /// Lists with texts in them, and texts that are not empty.
    readable: usize,
    bytes: usize,
    /// Different short texts.
    values: HashSet<String>,
    /// Hashes of all texts.
    distinct: HashSet<u64>,
}

impl FieldStatistics {
    fn add_value(&mut self, value: &Value, record: usize) {
        if self.last_record != record {
            (self.last_record, self.records) = (record, self.records + 1);
        }
        self.times += usize::from(parse_time(value).is_some());
        match value {
            Value::String(text) => {
                self.texts += 1;
                self.bytes += text.len();
                self.readable += usize::from(!text.trim().is_empty());
                let is_path = text.starts_with(['/', '~'])
                    || text.starts_with("file://")
                    || text.get(1..3) == Some(":\\");
                self.paths += usize::from(is_path);
                self.distinct.insert(xxh3_64(text.as_bytes()));
                if text.len() <= 64 && self.values.len() < MAX_VALUES {
                    self.values.insert(text.clone());
                }
            }
            Value::Number(_) => self.numbers += 1,
            Value::Bool(_) => self.flags += 1,
            Value::Array(all) => {
                self.lists += 1;
                let has_text =
                    |one: &Value| one.is_string() || one.get("text").is_some_and(Value::is_string);
                self.readable += usize::from(all.iter().any(has_text));
            }
            Value::Object(_) => self.objects += 1,
            Value::Null => {}
        }
    }
}

/// The values at all paths of a set of records.
#[derive(Default)]
struct RecordStatistics {
    fields: BTreeMap<String, FieldStatistics>,
    records: usize,
}

impl RecordStatistics {
    fn of_records<'v>(records: impl Iterator<Item = &'v Value>) -> Self {
        let mut all = Self::default();
        for record in records.take(MAX_RECORDS) {
            all.records += 1;
            all.add_fields(record, "");
        }
        all
    }

    fn add_fields(&mut self, value: &Value, path: &str) {
        if value.is_null() || path.matches('/').count() > MAX_DEPTH {
            return;
        }
        self.fields.entry(path.to_owned()).or_default().add_value(value, self.records);
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.add_fields(field, &format!("{path}/{}", escaped_step(name)));
                }
            }
            Value::Array(all) => {
                for one in all.iter().take(MAX_ELEMENTS) {
                    self.add_fields(one, &format!("{path}/*"));
                }
            }
            _ => {}
        }
    }

    /// Returns the path whose last step is one of the keys and whose values fit: the one in most
    /// records, then by the order of the keys, then the shortest.
    fn best_path(
        &self,
        keys: &[&str],
        fits: impl Fn(&str, &FieldStatistics) -> bool,
    ) -> Option<String> {
        let rank = |path: &str| keys.iter().position(|key| *key == last_key(path));
        let candidates = self.fields.iter().filter(|(path, field)| fits(path, field));
        let ranked = candidates.filter_map(|(path, field)| Some((rank(path)?, path, field)));
        let best = ranked.min_by_key(|(rank, path, field)| {
            (std::cmp::Reverse(field.records), *rank, path.len())
        });
        best.map(|(_, path, _)| path.clone())
    }

    /// Returns the path below `base` whose last step is the first of the keys that occurs.
    fn path_below(
        &self,
        base: &str,
        keys: &[&str],
        fits: impl Fn(&FieldStatistics) -> bool,
    ) -> Option<String> {
        let below = |path: &str| {
            let rest = path.strip_prefix(base)?;
            (rest.starts_with('/') && !rest.contains('*') && rest.matches('/').count() <= 2)
                .then(|| rest.to_owned())
        };
        let rank = |path: &str| keys.iter().position(|key| *key == last_key(path));
        let found = self.fields.iter().filter(|(_, field)| fits(field));
        found
            .filter_map(|(path, _)| Some((rank(path)?, below(path)?)))
            .min_by_key(|(rank, rest)| (rest.matches('/').count(), *rank))
            .map(|(_, rest)| rest)
    }
}

/// Returns the last step of a path in lower case, without separators.
fn last_key(path: &str) -> String {
    let step = path.rsplit('/').next().unwrap_or_default();
    step.chars().filter(char::is_ascii_alphanumeric).map(|one| one.to_ascii_lowercase()).collect()
}

fn is_single(path: &str) -> bool {
    !path.contains('*')
}

/// Returns the meaning of a recorded role, as it is written in a declaration, and whether the reader
/// knows it.
fn guess_role(recorded: &str) -> Option<(&'static str, bool)> {
    let usual = match DeclaredRole::usual_meaning(recorded) {
        Some(DeclaredRole::User) => Some("user"),
        Some(DeclaredRole::Assistant) => Some("assistant"),
        Some(DeclaredRole::System) => Some("system"),
        Some(DeclaredRole::Tool) => Some("tool"),
        Some(DeclaredRole::Ignore) | None => None,
    };
    if let Some(role) = usual {
        return Some((role, true));
    }
    let word: String = recorded
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|one| one.to_ascii_lowercase())
        .collect();
    ROLE_WORDS
        .iter()
        .find(|(_, words)| words.contains(&word.as_str()))
        .map(|(role, _)| (*role, false))
}

/// A declaration in the making: paths, and the translation of roles.
#[derive(Default)]
pub(super) struct DeclarationDraft {
    session: Vec<(&'static str, String)>,
    message: Vec<(&'static str, String)>,
    roles: Vec<(String, &'static str)>,
    call: Vec<(&'static str, String)>,
    result: Vec<(&'static str, String)>,
    tokens: Vec<(&'static str, String)>,
    input_includes_cache: bool,
}

impl DeclarationDraft {
    /// Infers a declaration. `None` if the records are no conversation.
    pub(super) fn infer(sample: &RecordSample, place: &RecordPlace) -> Option<Self> {
        let all = RecordStatistics::of_records(sample.records.iter());
        let mut draft = Self::default();
        draft.infer_role(&all)?;
        let role = draft.message[0].1.clone();
        let is_message = |record: &&Value| {
            let value = record.pointer(&role).and_then(Value::as_str);
            value.is_some_and(|value| guess_role(value).is_some())
        };
        let messages = RecordStatistics::of_records(sample.records.iter().filter(is_message));
        draft.infer_message(&messages, &all);
        draft.infer_call(&messages);
        draft.infer_result(&messages);
        draft.infer_tokens(&messages, sample);
        let is_useful =
            draft.message.iter().any(|(name, _)| *name == "text") || !draft.call.is_empty();
        if !is_useful {
            return None;
        }
        draft.infer_session(sample, &all, place);
        match place {
            RecordPlace::Lines => {}
            RecordPlace::Document { each } => draft.message.insert(0, ("each", each.clone())),
            RecordPlace::Tables { messages: table, sessions } => {
                draft.message.insert(0, ("table", table.clone()));
                let order = messages.best_path(TIME_KEYS, |path, field| {
                    path.matches('/').count() == 1 && field.times * 2 > field.records
                });
                draft.message.extend(order.map(|path| ("order", path[1..].to_owned())));
                if let Some(sessions) = sessions {
                    draft.session.insert(0, ("table", sessions.clone()));
                }
            }
        }
        Some(draft)
    }

    fn infer_role(&mut self, all: &RecordStatistics) -> Option<()> {
        let has = |field: &FieldStatistics, wanted: &str| {
            field
                .values
                .iter()
                .any(|value| guess_role(value).is_some_and(|(role, _)| role == wanted))
        };
        // The name of the field matters more than the number of records: `type` is in every record.
        let candidates = ranked_paths(all, ROLE_KEYS, |path, field| {
            is_single(path) && has(field, "user") && has(field, "assistant")
        });
        let path = candidates.into_iter().next()?;
        let mut values: Vec<&String> = all.fields[&path].values.iter().collect();
        values.sort();
        for value in values {
            if let Some((role, false)) = guess_role(value) {
                self.roles.push((value.clone(), role));
            }
        }
        self.message.push(("role", path));
        Some(())
    }

    fn infer_message(&mut self, messages: &RecordStatistics, all: &RecordStatistics) {
        let role = self.message[0].1.clone();
        let is_readable = |path: &str, field: &FieldStatistics| {
            is_single(path) && path != role && field.readable > 0
        };
        let mut add = |name: &'static str, path: Option<String>| {
            self.message.extend(path.map(|path| (name, path)));
        };
        let mut text = messages.best_path(TEXT_KEYS, is_readable);
        // Parts of a message may be elsewhere than in a list that is directly in it.
        if text.is_none() {
            text = messages.best_path(TEXT_KEYS, |_, field| field.texts > 0 && field.readable > 0);
        }
        add("text", text);
        add("reasoning", messages.best_path(REASONING_KEYS, |_, field| field.texts > 0));
        add(
            "time",
            messages.best_path(TIME_KEYS, |path, field| {
                is_single(path) && field.times * 5 > field.records * 4
            }),
        );
        let is_id = |path: &str, field: &FieldStatistics| {
            is_single(path)
                && field.texts == field.records
                && field.distinct.len() * 10 >= field.records * 9
                && field.records * 2 > messages.records
        };
        let id = messages.best_path(ID_KEYS, is_id);
        if let Some(ids) = id.as_ref().and_then(|id| all.fields.get(id)) {
            let parent = messages.best_path(PARENT_KEYS, |path, field| {
                is_single(path)
                    && field.texts > 0
                    && field.distinct.intersection(&ids.distinct).next().is_some()
            });
            add("id", id);
            add("parent", parent);
        }
        add(
            "model",
            messages.best_path(MODEL_KEYS, |path, field| {
                is_single(path) && field.texts > 0 && field.distinct.len() <= MAX_VALUES
            }),
        );
    }

    fn infer_call(&mut self, messages: &RecordStatistics) {
        let containers = messages.fields.iter().filter(|(_, field)| field.objects > 0);
        let found = containers.filter_map(|(base, field)| {
            let name = messages.path_below(base, NAME_KEYS, |field| field.texts > 0)?;
            let input = messages.path_below(base, INPUT_KEYS, |field| field.numbers == 0)?;
            let named = &messages.fields[&format!("{base}{name}")];
            let depth = name.matches('/').count() + input.matches('/').count();
            Some(((named.texts, std::cmp::Reverse(depth), field.objects), base, name, input))
        });
        let Some((_, base, name, input)) = found.max_by_key(|(score, ..)| *score) else { return };
        self.call.extend((!base.is_empty()).then(|| ("each", base.clone())));
        let id = messages.path_below(base, CALL_ID_KEYS, |field| field.texts > 0);
        // A call's own id is not that of its part.
        let answered = messages.path_below(base, ANSWERED_KEYS, |field| field.texts > 0);
        self.call.extend(answered.or(id).map(|path| ("id", path)));
        self.call.extend([("name", name), ("input", input)]);
    }

    fn infer_result(&mut self, messages: &RecordStatistics) {
        let call_base =
            self.call.iter().find(|(name, _)| *name == "each").map_or("", |(_, path)| path);
        let containers = messages.fields.iter().filter(|(_, field)| field.objects > 0);
        let found = containers.filter_map(|(base, _)| {
            let mut call = messages.path_below(base, ANSWERED_KEYS, |field| field.texts > 0);
            if base == call_base && call.is_none() {
                call = messages.path_below(base, CALL_ID_KEYS, |field| field.texts > 0);
            }
            let call = call?;
            let output =
                messages.path_below(base, OUTPUT_KEYS, |field| field.numbers + field.flags == 0)?;
            let answered = &messages.fields[&format!("{base}{call}")];
            let depth = call.matches('/').count() + output.matches('/').count();
            Some(((answered.texts, std::cmp::Reverse(depth)), base, call, output))
        });
        let Some((_, base, call, output)) = found.max_by_key(|(score, ..)| *score) else { return };
        self.result.extend((!base.is_empty()).then(|| ("each", base.clone())));
        let failed = messages
            .path_below(base, FAILED_KEYS, |field| field.flags + field.numbers + field.texts > 0);
        self.result.extend([("call", call), ("output", output)]);
        self.result.extend(failed.map(|path| ("failed", path)));
    }

    fn infer_tokens(&mut self, messages: &RecordStatistics, sample: &RecordSample) {
        let is_sum = |path: &str| {
            let path = path.to_ascii_lowercase();
            ["total", "accumulated", "cumulative"].iter().any(|word| path.contains(word))
        };
        let is_count = |field: &FieldStatistics| field.numbers > 0;
        let holders = messages
            .fields
            .iter()
            .filter(|(path, field)| field.objects > 0 && is_single(path) && !is_sum(path));
        let found = holders.filter_map(|(base, field)| {
            let direct = |keys: &[&str]| {
                messages
                    .path_below(base, keys, is_count)
                    .filter(|path| path.matches('/').count() == 1)
            };
            Some((field.objects, base, direct(INPUT_TOKENS)?, direct(OUTPUT_TOKENS)?))
        });
        // The deepest holder is the most specific: a record is one of many things.
        let Some((_, base, input, output)) =
            found.max_by_key(|(count, base, ..)| (base.matches('/').count(), *count))
        else {
            return;
        };
        let path = |rest: &str| format!("{base}{rest}");
        self.tokens.extend([("input", path(&input)), ("output", path(&output))]);
        let below = |keys: &[&str]| messages.path_below(base, keys, is_count);
        let cache_read = below(CACHE_READ_TOKENS);
        if let Some(cached) = &cache_read {
            let (input, cached) = (path(&input), path(cached));
            let count = |record: &Value, path: &str| record.pointer(path).and_then(Value::as_u64);
            let mut both = sample.records.iter().filter_map(|record| {
                Some((count(record, &input)?, count(record, &cached).filter(|count| *count > 0)?))
            });
            let mut has_any = false;
            let is_part = both.all(|(input, cached)| {
                has_any = true;
                cached <= input
            });
            self.input_includes_cache = is_part && has_any;
            self.tokens.push(("cache_read", cached));
        }
        self.tokens.extend(below(CACHE_WRITE_TOKENS).map(|rest| ("cache_write", path(&rest))));
        self.tokens.extend(below(REASONING_TOKENS).map(|rest| ("reasoning", path(&rest))));
    }

    fn infer_session(
        &mut self,
        sample: &RecordSample,
        all: &RecordStatistics,
        place: &RecordPlace,
    ) {
        let own = RecordStatistics::of_records(sample.sessions.iter());
        let is_apart = !sample.sessions.is_empty();
        let facts = if is_apart { &own } else { all };
        let few = |path: &str, field: &FieldStatistics| {
            is_single(path) && field.texts > 0 && path.matches('/').count() <= 3
        };
        if is_apart {
            let is_id = |path: &str, field: &FieldStatistics| {
                path.matches('/').count() == 1
                    && field.texts == field.records
                    && field.distinct.len() == field.records
            };
            let keys = [SESSION_KEYS, ID_KEYS].concat();
            self.session.extend(own.best_path(&keys, is_id).map(|path| ("id", path)));
        }
        let session = all.best_path(SESSION_KEYS, |path, field| {
            few(path, field) && field.distinct.len() * 2 <= field.records.max(2)
        });
        match place {
            RecordPlace::Lines => self.session.extend(session.map(|path| ("id", path))),
            RecordPlace::Tables { .. } => {
                self.message.extend(session.map(|path| ("session", path)));
            }
            RecordPlace::Document { .. } => {}
        }
        let mut add = |name: &'static str, path: Option<String>| {
            self.session.extend(path.map(|path| (name, path)));
        };
        // In lines, a name or description is usually that of a tool.
        let titles = if is_apart { TITLE_KEYS } else { &TITLE_KEYS[..4] };
        add("title", facts.best_path(titles, few));
        add(
            "cwd",
            facts.best_path(CWD_KEYS, |path, field| {
                few(path, field) && field.paths * 2 > field.texts
            }),
        );
        add("branch", facts.best_path(BRANCH_KEYS, few));
        add("version", facts.best_path(VERSION_KEYS, few));
        if is_apart {
            add(
                "time",
                facts.best_path(TIME_KEYS, |path, field| {
                    is_single(path) && field.times * 2 > field.records
                }),
            );
            add("model", facts.best_path(MODEL_KEYS, few));
        }
    }

    /// Writes the declaration as part of a configuration.
    pub(super) fn to_toml(&self, id: &str, files: &str, format: DeclaredFormat) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let format = match format {
            DeclaredFormat::Jsonl => "jsonl",
            DeclaredFormat::Json => "json",
            DeclaredFormat::Sqlite => "sqlite",
        };
        let mut text = format!(
            "[[agents]]\nid = {}\nname = {}\nfiles = {}\nformat = \"{format}\"\n",
            quoted(id),
            quoted(id),
            quoted(files)
        );
        let tables = [
            ("session", &self.session),
            ("message", &self.message),
            ("call", &self.call),
            ("result", &self.result),
            ("tokens", &self.tokens),
        ];
        for (table, fields) in tables.into_iter().filter(|(_, fields)| !fields.is_empty()) {
            text.push_str(&format!("\n[agents.{table}]\n"));
            for (name, path) in fields {
                text.push_str(&format!("{name} = {}\n", quoted(path)));
            }
            if table == "message" && !self.roles.is_empty() {
                let roles = self
                    .roles
                    .iter()
                    .map(|(value, role)| format!("{} = \"{role}\"", quoted(value)));
                text.push_str(&format!("roles = {{ {} }}\n", roles.collect::<Vec<_>>().join(", ")));
            }
            if table == "tokens" && self.input_includes_cache {
                text.push_str("input_includes_cache = true\n");
            }
        }
        text
    }
}

/// Returns the paths that fit, by the order of the keys, then by the number of records.
fn ranked_paths(
    all: &RecordStatistics,
    keys: &[&str],
    fits: impl Fn(&str, &FieldStatistics) -> bool,
) -> Vec<String> {
    let rank = |path: &str| keys.iter().position(|key| *key == last_key(path));
    let mut found: Vec<_> = all
        .fields
        .iter()
        .filter(|(path, field)| fits(path, field))
        .filter_map(|(path, field)| Some((rank(path)?, std::cmp::Reverse(field.records), path)))
        .collect();
    found.sort();
    found.into_iter().map(|(_, _, path)| path.clone()).collect()
}
