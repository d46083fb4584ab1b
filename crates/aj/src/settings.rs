//! Settings: the file, the environment and the flags, in that order, become a `Config`.
//!
//! The file is `~/.agent-journal/config.toml`; `KEYS` below lists what may stand in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_journal::analyze::Rate;
use agent_journal::connectors::{Machine, Os};
use agent_journal::search::nearest;
use agent_journal::{Config, Fallback, Home, Journal, Meaning, Precision};
use anyhow::{Context, Result, anyhow, bail};
use jiff::tz::TimeZone;
use toml::{Table, Value};

use crate::error::warn;
use crate::{homes, zone};

/// A key of the configuration file.
pub(crate) struct Key {
    /// Its dotted name.
    pub(crate) name: &'static str,
    /// Its default, as it would be written.
    pub(crate) default: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    accepts: Accepts,
}

#[derive(Clone, Copy)]
enum Accepts {
    Path,
    Number,
    Flag,
    Word(&'static [&'static str]),
}

use Accepts::{Flag, Number, Path as PathText, Word};

/// Variables that say what is read and where it is kept, besides each agent's.
const OWN: [&str; 4] = ["AJ_HOME", "AJ_INDEX_PATH", "TZ", "WSL_DISTRO_NAME"];

/// A longer line would not fit into the memory that reading may take.
const MAX_LINE_MB: usize = 1024;

/// Every key but those of `[storage.sources]`, which has one per agent.
pub(crate) const KEYS: &[Key] = &[
    key(
        "storage.index_path",
        "\"~/.agent-journal/index\"",
        "where the indexes live; they can always be made anew",
        PathText,
    ),
    key("index.writer_memory_mb", "64", "memory of the index writer, in MiB", Number),
    key(
        "index.max_line_mb",
        "64",
        "the longest line of a session file that is read, in MiB; longer ones are left out",
        Number,
    ),
    key("index.include_thinking", "false", "whether the model's reasoning can be found", Flag),
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
        "directory of a model.onnx and its tokenizer.json, used instead of the built-in",
        PathText,
    ),
    key(
        "index.vector.fallback",
        "\"hash\"",
        "hash or none, when the model there cannot be used",
        Word(&["hash", "none"]),
    ),
    key(
        "search.default_mode",
        "\"hybrid\"",
        "lexical, semantic or hybrid",
        Word(&["lexical", "semantic", "hybrid"]),
    ),
    key(
        "search.fusion",
        "\"convex\"",
        "how words and meanings are weighed: convex (by score) or ranks",
        Word(&["convex", "ranks"]),
    ),
    key("search.default_context", "3", "messages shown before and after a match", Number),
    key("search.max_results", "20", "sessions a search shows", Number),
    key(
        "export.default_format",
        "\"html\"",
        "html, json or markdown",
        Word(&["html", "json", "markdown"]),
    ),
    key("export.html_theme", "\"dark\"", "dark, light or auto", Word(&["dark", "light", "auto"])),
    key("export.include_tool_calls", "true", "whether exports show tool calls", Flag),
];

const MODEL_PATH: &str = "index.vector.model_path";

/// Older names that mean the same.
const ALIASES: &[(&str, &str)] = &[("index.lucene_ram_buffer_mb", "index.writer_memory_mb")];

const fn key(
    name: &'static str,
    default: &'static str,
    about: &'static str,
    accepts: Accepts,
) -> Key {
    Key { name, default, about, accepts }
}

/// The settings in force.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The journal's own directory.
    pub(crate) journal_dir: PathBuf,
    /// The configuration file, whether it exists or not.
    pub(crate) file: PathBuf,
    machine: Machine,
    /// Whether that is another home than the user's own.
    pub(crate) is_other: bool,
    /// Further homes that are read.
    pub(crate) homes: Vec<Home>,
    /// The zone of the user's clock.
    pub(crate) zone: TimeZone,
    values: BTreeMap<String, (Value, Where)>,
}

/// Where a setting comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    Default,
    File,
    Environment,
}

impl Settings {
    /// Reads file and environment. `home` is another home tree to read, with a journal of its own.
    pub(crate) fn load(home: Option<&Path>) -> Result<Self> {
        let own = own_machine()?;
        let named = place(&own, "AJ_HOME");
        let is_named = named.is_some();
        let base = named.unwrap_or_else(|| own.home.join(".agent-journal"));
        let file = base.join("config.toml");
        let mut values = defaults();
        let mut homes = read_file(&file, &mut values)?;
        read_environment(&own, &mut values);
        if own.var("WSL_DISTRO_NAME").is_some() {
            homes.extend(homes::of_windows(Path::new("/mnt")));
        }
        let (machine, journal_dir) = match home {
            None => (own, base),
            Some(home) => {
                homes.clear();
                let home = home.to_str().map_or(home.to_owned(), |text| own.expand(text));
                let mut other = other_machine(&home)?;
                // Programs are looked for on this machine, whoever's home is read.
                other
                    .env
                    .extend(own.env.get_key_value("PATH").map(|(a, b)| (a.clone(), b.clone())));
                // Places in the file are about this home, not about the other one.
                values.retain(|name, (_, from)| {
                    !name.starts_with("storage.") || *from != Where::File
                });
                let dir = if is_named { base } else { journal_of(&base, &other.home) };
                (other, dir)
            }
        };
        let (zone, is_other) = (zone::local(), home.is_some());
        Ok(Self { journal_dir, file, machine, is_other, homes, zone, values }.completed())
    }

    /// The defaults, for a home that is made up: nothing of the user's own has a say.
    pub(crate) fn made_up(home: &Path) -> Result<Self> {
        let machine = other_machine(home)?;
        let journal_dir = machine.home.join(".agent-journal");
        let file = journal_dir.join("config.toml");
        let (homes, zone, values) = (Vec::new(), zone::local(), defaults());
        let is_other = true;
        Ok(Self { journal_dir, file, machine, is_other, homes, zone, values }.completed())
    }

    /// The index lies beside the journal unless somebody said otherwise.
    fn completed(mut self) -> Self {
        let known = self.values.get("storage.index_path");
        if known.is_none_or(|(_, from)| *from == Where::Default) {
            let beside = self.journal_dir.join("index").to_string_lossy().into_owned();
            let value = (Value::String(beside), Where::Default);
            self.values.insert("storage.index_path".to_owned(), value);
        }
        self
    }

    /// Every setting with its value and origin.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Value, Where)> {
        self.values.iter().map(|(name, (value, from))| (name.as_str(), value, *from))
    }

    /// The library's part of the settings.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(self.journal_dir.clone());
        if let Some((Value::String(path), from)) = self.values.get("storage.index_path")
            && *from != Where::Default
        {
            config.index_dir = expand(path);
        }
        config.writer_memory_mb = self.number("index.writer_memory_mb");
        config.max_line_bytes = self.number("index.max_line_mb").clamp(1, MAX_LINE_MB) << 20;
        config.include_thinking = self.value("index.include_thinking").as_bool().unwrap_or(false);
        config.meaning = self.meaning();
        config.homes.clone_from(&self.homes);
        config.zone = self.zone.clone();
        if let Some((prices, _)) = self.values.get("prices") {
            config.prices = prices.clone().try_into().unwrap_or_default();
        }
        for agent in Journal::agents() {
            if let Some((value, _)) = self.values.get(&source_key(agent.key)) {
                let paths = texts(value).iter().map(|text| expand(text)).collect();
                config.sources.insert(agent.id.to_owned(), paths);
            }
        }
        config
    }

    fn meaning(&self) -> Meaning {
        Meaning {
            off: !self.flag("index.vector.enabled"),
            precision: match self.word("index.vector_precision") {
                "f32" => Precision::F32,
                _ => Precision::F16,
            },
            model_path: Some(self.model_path()),
            fallback: match self.word("index.vector.fallback") {
                "none" => Fallback::None,
                _ => Fallback::Hash,
            },
        }
    }

    /// Where a model may lie. Where nobody said so, a second place is known.
    fn model_path(&self) -> PathBuf {
        let (value, from) = &self.values[MODEL_PATH];
        let path = expand(value.as_str().unwrap_or_default());
        let other = expand("~/.chats/models");
        let is_meant = *from == Where::Default && !has_model(&path) && has_model(&other);
        if is_meant { other } else { path }
    }

    /// The machine whose home is read.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// The variables that have a say in what is read and where it is kept, as they are set.
    pub(crate) fn variables(&self, own: &Machine) -> BTreeMap<String, String> {
        let of_agents = Journal::agents().map(|agent| agent.variable);
        let set = OWN.into_iter().chain(of_agents).filter_map(|name| Some((name, own.var(name)?)));
        // What agents go by themselves is about the home that is read.
        let all = set.chain(self.machine.decisive());
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// A word.
    pub(crate) fn word(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// A yes or no.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or_default()
    }

    /// Whether the user set a key, in the file or by a variable.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.values[name].1 != Where::Default
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> usize {
        self.value(name)
            .as_integer()
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or_default()
    }

    fn value(&self, name: &str) -> &Value {
        &self.values[name].0
    }
}

/// Whether a directory has a model in it, whole or not.
fn has_model(directory: &Path) -> bool {
    directory.join("model.onnx").is_file()
}

/// Reads a variable that holds a path; one that is not UTF-8 is taken as it is.
fn place(own: &Machine, name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_str().map_or_else(|| PathBuf::from(&value), |text| own.expand(text)))
}

/// Expands `~` to the user's own home, whatever home is read.
fn expand(text: &str) -> PathBuf {
    let home = std::env::home_dir().unwrap_or_default();
    Machine { home, ..Machine::default() }.expand(text)
}

impl Where {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
        }
    }
}

/// The machine of whoever runs the program.
pub(crate) fn own_machine() -> Result<Machine> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or_else(|| anyhow!("could not find your home directory; set HOME"))?;
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let os = if cfg!(windows) {
        Os::Windows
    } else if cfg!(target_os = "macos") {
        Os::MacOs
    } else {
        Os::Linux
    };
    Ok(Machine { home, os, env: env.collect(), ..Machine::default() })
}

/// Another home tree: this process's environment says nothing about it.
fn other_machine(home: &Path) -> Result<Machine> {
    let home =
        std::path::absolute(home).with_context(|| format!("could not use {}", home.display()))?;
    if !home.is_dir() {
        bail!("could not read the home {}: no such directory", home.display());
    }
    Ok(homes::machine(home))
}

/// Another home has a journal of its own, so that histories never mix.
fn journal_of(base: &Path, home: &Path) -> PathBuf {
    base.join("homes").join(name_of(home))
}

/// What is kept about another home is called like this.
pub(crate) fn name_of(home: &Path) -> String {
    let plain = |character: char| if character.is_alphanumeric() { character } else { '-' };
    let name: String = home.to_string_lossy().chars().map(plain).collect();
    name.trim_matches('-').to_owned()
}

fn defaults() -> BTreeMap<String, (Value, Where)> {
    KEYS.iter().map(|key| (key.name.to_owned(), (default(key), Where::Default))).collect()
}

/// Reads a default. It is one of few forms, which a whole parser would spend longer on.
fn default(key: &Key) -> Value {
    match key.accepts {
        Number => Value::Integer(key.default.parse().expect("the default is a number")),
        Flag => Value::Boolean(key.default == "true"),
        PathText | Word(_) => Value::String(key.default.trim_matches('"').to_owned()),
    }
}

/// Reads the settings in the file, and returns the further homes it names.
fn read_file(path: &Path, values: &mut BTreeMap<String, (Value, Where)>) -> Result<Vec<Home>> {
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
    let homes = table.remove("homes").map(|value| homes::read(value, path)).transpose()?;
    let is_empty = |prices: &Value| prices.as_table().is_some_and(Table::is_empty);
    if let Some(prices) = table.remove("prices").filter(|prices| !is_empty(prices)) {
        let read: Result<BTreeMap<String, Rate>, _> = prices.clone().try_into();
        read.map_err(|error| anyhow!("{}: [prices]: {}", path.display(), error.message()))?;
        values.insert("prices".to_owned(), (prices, Where::File));
    }
    let mut found = Vec::new();
    flatten("", &table, &mut found);
    for (name, value) in found {
        let name =
            ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).to_owned());
        match accepted(&name, &value) {
            Some(Ok(())) => drop(values.insert(name, (value, Where::File))),
            Some(Err(wanted)) => bail!("{}: `{name}` must be {wanted}", path.display()),
            None => warn_unknown(path, &name),
        }
    }
    Ok(homes.unwrap_or_default())
}

fn flatten(prefix: &str, table: &Table, found: &mut Vec<(String, Value)>) {
    for (name, value) in table {
        let full = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(inner) => flatten(&full, inner, found),
            _ => found.push((full, value.clone())),
        }
    }
}

/// Whether a key is known, and its value of the right kind.
fn accepted(name: &str, value: &Value) -> Option<Result<(), String>> {
    if Journal::agents().any(|agent| source_key(agent.key) == name) {
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
        Word(words) => {
            (value.as_str().is_some_and(|word| words.contains(&word)), words.join(" or "))
        }
    };
    Some(if fits { Ok(()) } else { Err(wanted) })
}

fn warn_unknown(path: &Path, name: &str) {
    let sources: Vec<String> = Journal::agents().map(|agent| source_key(agent.key)).collect();
    let known: Vec<&str> =
        KEYS.iter().map(|key| key.name).chain(sources.iter().map(String::as_str)).collect();
    let hint =
        nearest(name, &known).map_or(String::new(), |near| format!(" — did you mean `{near}`?"));
    warn(&format!("{}: unknown key `{name}`{hint}", path.display()));
}

fn read_environment(machine: &Machine, values: &mut BTreeMap<String, (Value, Where)>) {
    let mut set = |name: String, variable: &str| {
        if let Some(text) = machine.var(variable) {
            values.insert(name, (Value::String(text.to_owned()), Where::Environment));
        }
    };
    set("storage.index_path".to_owned(), "AJ_INDEX_PATH");
    for agent in Journal::agents() {
        set(source_key(agent.key), agent.variable);
    }
}

/// The dotted name of an agent's roots.
pub(crate) fn source_key(key: &str) -> String {
    format!("storage.sources.{key}")
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => value.as_str().into_iter().collect(),
    }
}
