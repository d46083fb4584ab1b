//! Settings: combines the configuration file, the environment and the flags, in that order, into a
//! `Config`.
//!
//! The file is `~/.agent-journal/config.toml`; `SETTING_KEYS` below lists its keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_journal::connectors::Machine;
use agent_journal::export::{self, Theme};
use agent_journal::search::{Mode, agent_name, nearest};
use agent_journal::{
    AgentDeclaration, ArchiveSettings, Config, Fallback, Home, Journal, Meaning, Precision, Rate,
};
use anyhow::{Context, Result, anyhow, bail};
use jiff::tz::TimeZone;
use toml::{Table, Value};

use crate::error::print_warning;
use crate::{homes, zone};

/// A key of the configuration file.
pub(crate) struct SettingKey {
    /// The dotted name.
    pub(crate) name: &'static str,
    /// The default as it is written in the file.
    pub(crate) default: &'static str,
    /// A short description for the configuration template.
    pub(crate) about: &'static str,
    accepts: Accepts,
}

#[derive(Clone, Copy)]
enum Accepts {
    Path,
    Number,
    Flag,
    /// A list of agents.
    Names,
    Word(&'static [&'static str]),
}

use Accepts::{Flag, Names, Number, Path as PathText, Word};

/// Variables that determine sources and storage, in addition to one variable per agent.
const OWN: [&str; 4] = ["AJ_HOME", "AJ_INDEX_PATH", "TZ", "WSL_DISTRO_NAME"];

/// Maximum of `index.max_line_mb`. Longer lines would exceed the memory limit of reading.
const MAX_LINE_MB: usize = 1024;

/// Every key except those of `[storage.sources]`, which has one per agent.
pub(crate) const KEYS: &[SettingKey] = &[
    key(
        "storage.index_path",
        "\"~/.agent-journal/index\"",
        "directory of the indexes, which can be rebuilt at any time",
        PathText,
    ),
    key("index.writer_memory_mb", "64", "memory of the index writer, in MiB", Number),
    key(
        "index.max_line_mb",
        "64",
        "the longest line to read in a session file, in MiB; longer lines are skipped",
        Number,
    ),
    key("index.include_thinking", "false", "whether search finds the model's reasoning", Flag),
    key(
        "index.vector_precision",
        "\"f16\"",
        "f16 (compact) or f32 (precise)",
        Word(&["f16", "f32"]),
    ),
    key("index.vector.enabled", "true", "search by meaning", Flag),
    key(
        MODEL_PATH,
        "\"~/.agent-journal/models\"",
        "directory of a model.onnx and its tokenizer.json, used instead of the built-in model",
        PathText,
    ),
    key(
        "index.vector.fallback",
        "\"hash\"",
        "fallback if that model cannot be used: hash or none",
        Word(&["hash", "none"]),
    ),
    key("archive.enabled", "false", "whether the files of agents are archived", Flag),
    key(
        "archive.max_size_mb",
        "0",
        "size at which nothing more is archived, in MiB; 0 is no limit",
        Number,
    ),
    key("archive.agents_excluded", "[]", "agents whose files are not archived", Names),
    key(
        "search.default_mode",
        "\"hybrid\"",
        "search mode: lexical, semantic or hybrid",
        Word(&Mode::NAMES),
    ),
    key("search.default_context", "3", "messages of context around a match", Number),
    key("search.max_results", "20", "number of sessions that a search shows", Number),
    key(
        "export.default_format",
        "\"html\"",
        "format of exports: html, json or markdown",
        Word(&["html", "json", "markdown"]),
    ),
    key(
        "export.html_theme",
        "\"dark\"",
        "colours of HTML pages: dark, light or auto",
        Word(&["dark", "light", "auto"]),
    ),
    key("export.include_tool_calls", "true", "whether exports include tool calls", Flag),
];

const MODEL_PATH: &str = "index.vector.model_path";

/// Old names of keys, with their new names.
const ALIASES: &[(&str, &str)] = &[("index.lucene_ram_buffer_mb", "index.writer_memory_mb")];

/// Keys that no longer exist, with the reason.
const RETIRED: &[(&str, &str)] =
    &[("search.fusion", "matches by words and by meaning are always combined by score")];

const fn key(
    name: &'static str,
    default: &'static str,
    about: &'static str,
    accepts: Accepts,
) -> SettingKey {
    SettingKey { name, default, about, accepts }
}

/// The effective settings.
#[derive(Clone)]
pub(crate) struct UserSettings {
    /// The directory of the journal.
    pub(crate) journal_dir: PathBuf,
    /// The path of the configuration file, which may not exist.
    pub(crate) file: PathBuf,
    machine: Machine,
    /// Whether a home other than the user's own is read.
    pub(crate) is_other: bool,
    /// Further homes to read.
    pub(crate) homes: Vec<Home>,
    /// The user's time zone.
    pub(crate) zone: TimeZone,
    /// The settings of reading and indexing.
    pub(crate) index: IndexSettings,
    /// The settings of `aj search`.
    pub(crate) search: SearchSettings,
    /// The settings of `aj export`.
    pub(crate) export: ExportSettings,
    values: SettingValues,
}

/// The values of all keys, each with its origin.
type SettingValues = BTreeMap<String, (Value, SettingOrigin)>;

/// The origin of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    Default,
    File,
    Environment,
}

/// The keys of `[index]`.
#[derive(Clone)]
pub(crate) struct IndexSettings {
    writer_memory_mb: usize,
    max_line_mb: usize,
    include_thinking: bool,
    /// Whether texts are searched by meaning.
    pub(crate) searches_meaning: bool,
    precision: Precision,
    fallback: Fallback,
}

/// The keys of `[search]`.
#[derive(Clone)]
pub(crate) struct SearchSettings {
    pub(crate) mode: Mode,
    /// Messages before and after a match.
    pub(crate) context: u64,
    /// Whether the user set the number of messages around a match.
    pub(crate) is_context_set: bool,
    pub(crate) max_results: usize,
}

/// The keys of `[export]`.
#[derive(Clone)]
pub(crate) struct ExportSettings {
    /// The name of the format.
    pub(crate) format: String,
    theme: Theme,
    includes_tool_calls: bool,
}

impl IndexSettings {
    fn from_values(values: &SettingValues) -> Self {
        Self {
            writer_memory_mb: number(values, "index.writer_memory_mb"),
            max_line_mb: number(values, "index.max_line_mb").clamp(1, MAX_LINE_MB),
            include_thinking: flag(values, "index.include_thinking"),
            searches_meaning: flag(values, "index.vector.enabled"),
            precision: match word(values, "index.vector_precision") {
                "f32" => Precision::F32,
                _ => Precision::F16,
            },
            fallback: match word(values, "index.vector.fallback") {
                "none" => Fallback::None,
                _ => Fallback::Hash,
            },
        }
    }
}

impl SearchSettings {
    fn from_values(values: &SettingValues) -> Self {
        Self {
            mode: Mode::named(word(values, "search.default_mode")).unwrap_or(Mode::Hybrid),
            context: number(values, "search.default_context") as u64,
            is_context_set: values["search.default_context"].1 != SettingOrigin::Default,
            max_results: number(values, "search.max_results"),
        }
    }
}

impl ExportSettings {
    fn from_values(values: &SettingValues) -> Self {
        Self {
            format: word(values, "export.default_format").to_owned(),
            theme: match word(values, "export.html_theme") {
                "light" => Theme::Light,
                "auto" => Theme::Auto,
                _ => Theme::Dark,
            },
            includes_tool_calls: flag(values, "export.include_tool_calls"),
        }
    }
}

/// Returns the value of a string key.
fn word<'v>(values: &'v SettingValues, name: &str) -> &'v str {
    values[name].0.as_str().unwrap_or_default()
}

/// Returns the value of a boolean key.
fn flag(values: &SettingValues, name: &str) -> bool {
    values[name].0.as_bool().unwrap_or_default()
}

/// Returns the value of a numeric key.
fn number(values: &SettingValues, name: &str) -> usize {
    let number = values[name].0.as_integer();
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// The parts of the settings that are known before the values of the keys.
struct SettingsPlace {
    journal_dir: PathBuf,
    file: PathBuf,
    machine: Machine,
    is_other: bool,
    homes: Vec<Home>,
    zone: TimeZone,
}

impl SettingsPlace {
    /// Returns the settings with the given values. Places the index next to the journal unless a
    /// path is configured.
    fn with_values(self, mut values: SettingValues) -> UserSettings {
        let known = values.get("storage.index_path");
        if known.is_none_or(|(_, from)| *from == SettingOrigin::Default) {
            let beside = self.journal_dir.join("index").to_string_lossy().into_owned();
            let value = (Value::String(beside), SettingOrigin::Default);
            values.insert("storage.index_path".to_owned(), value);
        }
        UserSettings {
            journal_dir: self.journal_dir,
            file: self.file,
            machine: self.machine,
            is_other: self.is_other,
            homes: self.homes,
            zone: self.zone,
            index: IndexSettings::from_values(&values),
            search: SearchSettings::from_values(&values),
            export: ExportSettings::from_values(&values),
            values,
        }
    }
}

impl UserSettings {
    /// Reads file and environment. `home` is a foreign home to read, which gets its own journal.
    pub(crate) fn load_settings(home: Option<&Path>) -> Result<Self> {
        let own = Machine::current()?;
        let named = path_variable(&own, "AJ_HOME");
        let is_named = named.is_some();
        let base = named.unwrap_or_else(|| own.home.join(".agent-journal"));
        let file = base.join("config.toml");
        let mut values = default_settings();
        let mut homes = read_file(&file, &mut values)?;
        read_environment(&own, &mut values);
        if own.env_var("WSL_DISTRO_NAME").is_some() {
            homes.extend(homes::of_windows(Path::new("/mnt")));
        }
        let (machine, journal_dir) = match home {
            None => (own, base),
            Some(home) => {
                homes.clear();
                let home = home.to_str().map_or(home.to_owned(), |text| own.expand_home(text));
                let mut other = other_machine(&home)?;
                // Programs run on this machine, also if a foreign home is read.
                other
                    .env
                    .extend(own.env.get_key_value("PATH").map(|(a, b)| (a.clone(), b.clone())));
                // Paths in the file apply to the user's own home, not to a foreign one.
                values.retain(|name, (_, from)| {
                    !name.starts_with("storage.") || *from != SettingOrigin::File
                });
                let dir = if is_named { base } else { journal_of(&base, &other.home) };
                (other, dir)
            }
        };
        let (zone, is_other) = (zone::local_zone(), home.is_some());
        let place = SettingsPlace { journal_dir, file, machine, is_other, homes, zone };
        Ok(place.with_values(values))
    }

    /// Returns the defaults for the home of the demo, without reading the user's own settings.
    pub(crate) fn demo_settings(home: &Path) -> Result<Self> {
        let machine = other_machine(home)?;
        let journal_dir = machine.home.join(".agent-journal");
        let file = journal_dir.join("config.toml");
        let (homes, zone, values) = (Vec::new(), zone::local_zone(), default_settings());
        let is_other = true;
        let place = SettingsPlace { journal_dir, file, machine, is_other, homes, zone };
        Ok(place.with_values(values))
    }

    /// Iterates over all settings with their values and origins.
    pub(crate) fn all_settings(&self) -> impl Iterator<Item = (&str, &Value, SettingOrigin)> {
        self.values.iter().map(|(name, (value, from))| (name.as_str(), value, *from))
    }

    /// Returns the configuration of the library.
    pub(crate) fn library_config(&self) -> Config {
        let mut config = Config::new(self.journal_dir.clone());
        if let Some((Value::String(path), from)) = self.values.get("storage.index_path")
            && *from != SettingOrigin::Default
        {
            config.index_dir = expand_own_home(path);
        }
        config.writer_memory_mb = self.index.writer_memory_mb;
        config.max_line_bytes = self.index.max_line_mb << 20;
        config.include_thinking = self.index.include_thinking;
        config.meaning = self.embedding_choice();
        config.homes.clone_from(&self.homes);
        config.zone = self.zone.clone();
        config.archive = self.archive_settings();
        if let Some((prices, _)) = self.values.get("prices") {
            config.prices = prices.clone().try_into().unwrap_or_default();
        }
        for agent in Journal::supported_agents() {
            if let Some((value, _)) = self.values.get(&source_key(agent.key)) {
                let paths = string_values(value).iter().map(|text| expand_own_home(text)).collect();
                config.sources.insert(agent.id.to_owned(), paths);
            }
        }
        config
    }

    fn archive_settings(&self) -> ArchiveSettings {
        let max_mb = number(&self.values, "archive.max_size_mb") as u64;
        let excluded = string_values(&self.values["archive.agents_excluded"].0);
        let agent_id = |name: &str| agent_name(name).unwrap_or_else(|_| name.to_owned());
        ArchiveSettings {
            enabled: flag(&self.values, "archive.enabled"),
            max_bytes: (max_mb > 0).then_some(max_mb << 20),
            agents_excluded: excluded.into_iter().map(agent_id).collect(),
        }
    }

    fn embedding_choice(&self) -> Meaning {
        Meaning {
            off: !self.index.searches_meaning,
            precision: self.index.precision,
            model_path: Some(self.model_path()),
            fallback: self.index.fallback,
        }
    }

    /// Returns the options of an export, without those of a single command.
    pub(crate) fn export_options(&self) -> export::ExportOptions {
        let tools = self.export.includes_tool_calls;
        export::ExportOptions {
            detail: if tools { export::DetailLevel::Tools } else { export::DetailLevel::Answers },
            leaves_out_tools: !tools,
            theme: self.export.theme,
            pictures: export::Pick::With,
            ..export::ExportOptions::default()
        }
    }

    /// Returns the directory of the embedding model. Unless it is configured, a second directory is
    /// tried.
    fn model_path(&self) -> PathBuf {
        let (value, from) = &self.values[MODEL_PATH];
        let path = expand_own_home(value.as_str().unwrap_or_default());
        let other = expand_own_home("~/.chats/models");
        let is_meant = *from == SettingOrigin::Default && !has_model(&path) && has_model(&other);
        if is_meant { other } else { path }
    }

    /// Returns the machine whose home is read.
    pub(crate) fn scanned_machine(&self) -> Machine {
        self.machine.clone()
    }

    /// Returns the variables that determine sources and storage, with their values.
    pub(crate) fn relevant_variables(&self, own: &Machine) -> BTreeMap<String, String> {
        let of_agents = Journal::supported_agents().map(|agent| agent.variable);
        let set =
            OWN.into_iter().chain(of_agents).filter_map(|name| Some((name, own.env_var(name)?)));
        // Variables that the agents use themselves belong to the home that is read.
        let all = set.chain(self.machine.decisive_variables());
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// Returns whether a directory contains a model, which may be incomplete.
fn has_model(directory: &Path) -> bool {
    directory.join("model.onnx").is_file()
}

/// Reads a variable that contains a path. A value that is not UTF-8 is used without expansion.
fn path_variable(own: &Machine, name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_str().map_or_else(|| PathBuf::from(&value), |text| own.expand_home(text)))
}

/// Expands `~` to the user's own home, also if a foreign home is read.
fn expand_own_home(text: &str) -> PathBuf {
    let home = std::env::home_dir().unwrap_or_default();
    Machine { home, ..Machine::default() }.expand_home(text)
}

impl SettingOrigin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
        }
    }
}

/// Returns the machine of a foreign home, to which the environment of this process does not apply.
fn other_machine(home: &Path) -> Result<Machine> {
    let home =
        std::path::absolute(home).with_context(|| format!("could not use {}", home.display()))?;
    if !home.is_dir() {
        bail!("could not read the home {}: no such directory", home.display());
    }
    Ok(Machine::of_home(home))
}

/// Returns the journal directory of a foreign home. Its own journal keeps the histories apart.
fn journal_of(base: &Path, home: &Path) -> PathBuf {
    base.join("homes").join(home_directory_name(home))
}

/// Returns the directory name under which data about a foreign home is stored.
pub(crate) fn home_directory_name(home: &Path) -> String {
    let plain = |character: char| if character.is_alphanumeric() { character } else { '-' };
    let name: String = home.to_string_lossy().chars().map(plain).collect();
    name.trim_matches('-').to_owned()
}

fn default_settings() -> SettingValues {
    KEYS.iter().map(|key| (key.name.to_owned(), (default(key), SettingOrigin::Default))).collect()
}

/// Parses a default. Defaults have few forms, and a TOML parser would take longer.
fn default(key: &SettingKey) -> Value {
    match key.accepts {
        Number => Value::Integer(key.default.parse().expect("the default is a number")),
        Flag => Value::Boolean(key.default == "true"),
        Names => Value::Array(Vec::new()),
        PathText | Word(_) => Value::String(key.default.trim_matches('"').to_owned()),
    }
}

/// Reads the settings of the file into `values`, and returns its further homes.
fn read_file(path: &Path, values: &mut SettingValues) -> Result<Vec<Home>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("could not read {}", path.display()));
        }
    };
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
        anyhow!("{}: {}", path.display(), error.to_string().trim_end())
    })?;
    let homes = table.remove("homes").map(|value| homes::parse_homes(value, path)).transpose()?;
    if let Some(agents) = table.remove("agents") {
        declare_agents(agents, path)?;
    }
    let is_empty = |prices: &Value| prices.as_table().is_some_and(Table::is_empty);
    if let Some(prices) = table.remove("prices").filter(|prices| !is_empty(prices)) {
        let read: Result<BTreeMap<String, Rate>, _> = prices.clone().try_into();
        read.map_err(|error| anyhow!("{}: [prices]: {}", path.display(), error.message()))?;
        values.insert("prices".to_owned(), (prices, SettingOrigin::File));
    }
    let mut found = Vec::new();
    flatten_table("", &table, &mut found);
    for (name, value) in found {
        let name =
            ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).to_owned());
        match check_value_type(&name, &value) {
            Some(Ok(())) => drop(values.insert(name, (value, SettingOrigin::File))),
            Some(Err(wanted)) => bail!("{}: `{name}` must be {wanted}", path.display()),
            None => warn_unknown(path, &name),
        }
    }
    Ok(homes.unwrap_or_default())
}

/// Declares the agents of `[[agents]]`.
fn declare_agents(agents: Value, path: &Path) -> Result<()> {
    let Value::Array(agents) = agents else {
        bail!("{}: `agents` must be a list: write `[[agents]]`", path.display());
    };
    let parse = |agent: Value| {
        let id = agent.get("id").and_then(Value::as_str).unwrap_or("without `id`").to_owned();
        agent.try_into().map_err(|error: toml::de::Error| {
            anyhow!("{}: agent `{id}`: {}", path.display(), error.to_string().trim_end())
        })
    };
    let agents: Vec<AgentDeclaration> = agents.into_iter().map(parse).collect::<Result<_>>()?;
    Journal::declare_agents(agents).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn flatten_table(prefix: &str, table: &Table, found: &mut Vec<(String, Value)>) {
    for (name, value) in table {
        let full = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) => flatten_table(&full, inner, found),
            _ => found.push((full, value.clone())),
        }
    }
}

/// Checks the type of a value. Returns `None` for an unknown key, and the expected type as error.
fn check_value_type(name: &str, value: &Value) -> Option<Result<(), String>> {
    if Journal::supported_agents().any(|agent| source_key(agent.key) == name) {
        let fits =
            value.is_str() || value.as_array().is_some_and(|all| all.iter().all(Value::is_str));
        return Some(if fits { Ok(()) } else { Err("a path or a list of paths".to_owned()) });
    }
    let key = KEYS.iter().find(|key| key.name == name)?;
    let (fits, wanted) = match key.accepts {
        PathText => (value.is_str(), "a path".to_owned()),
        Number => {
            (value.as_integer().is_some_and(|number| number >= 0), "a whole number".to_owned())
        }
        Flag => (value.is_bool(), "true or false".to_owned()),
        Names => {
            let is_list = value.as_array().is_some_and(|all| all.iter().all(Value::is_str));
            (is_list, "a list of agents".to_owned())
        }
        Word(words) => {
            (value.as_str().is_some_and(|word| words.contains(&word)), words.join(" or "))
        }
    };
    Some(if fits { Ok(()) } else { Err(wanted) })
}

fn warn_unknown(path: &Path, name: &str) {
    if let Some((_, reason)) = RETIRED.iter().find(|(retired, _)| *retired == name) {
        return print_warning(&format!("{}: `{name}` has no effect: {reason}", path.display()));
    }
    let sources: Vec<String> =
        Journal::supported_agents().map(|agent| source_key(agent.key)).collect();
    let known: Vec<&str> =
        KEYS.iter().map(|key| key.name).chain(sources.iter().map(String::as_str)).collect();
    let hint =
        nearest(name, &known).map_or(String::new(), |near| format!(" — did you mean `{near}`?"));
    print_warning(&format!("{}: unknown key `{name}`{hint}", path.display()));
}

fn read_environment(machine: &Machine, values: &mut SettingValues) {
    let mut set = |name: String, variable: &str| {
        if let Some(text) = machine.env_var(variable) {
            values.insert(name, (Value::String(text.to_owned()), SettingOrigin::Environment));
        }
    };
    set("storage.index_path".to_owned(), "AJ_INDEX_PATH");
    for agent in Journal::supported_agents() {
        set(source_key(agent.key), agent.variable);
    }
}

/// Returns the dotted name of the key that sets an agent's directories.
pub(crate) fn source_key(key: &str) -> String {
    format!("storage.sources.{key}")
}

fn string_values(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => value.as_str().into_iter().collect(),
    }
}
