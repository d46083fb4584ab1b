//! The compared programs, and tables of their results.

use std::path::{Path, PathBuf};

use super::super::report::{Runs, machine, memory, time};
use super::{Came, QUESTIONS};

/// The installation method of a program.
pub(super) enum From {
    Python,
    Node,
    Cargo,
    /// Already installed on this machine.
    Path,
    /// The program of this project.
    Here,
}

/// A program to compare. In its commands `{}` stands for the query and `{home}` for the home.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) from: From,
    pub(super) program: &'static str,
    /// The commands that build the index from nothing, and that update an unchanged index.
    pub(super) index: &'static [&'static str],
    pub(super) again: &'static [&'static str],
    pub(super) search: &'static [&'static str],
    pub(super) list: &'static [&'static str],
    pub(super) usage: &'static [&'static str],
    /// JSON pointers to the totals of input, output, cache write and cache read tokens.
    pub(super) totals: [&'static str; 4],
    /// Directories that the program creates below the home.
    pub(super) keeps: &'static [&'static str],
    /// The command that stops its background process.
    pub(super) stop: &'static [&'static str],
}

const NOTHING: Peer = Peer {
    name: "",
    package: "",
    from: From::Path,
    program: "",
    index: &[],
    again: &[],
    search: &[],
    list: &[],
    usage: &[],
    totals: [""; 4],
    keeps: &[],
    stop: &[],
};

pub(super) const PEERS: [Peer; 8] = [
    Peer {
        name: "aj",
        from: From::Here,
        program: "aj",
        index: &["index"],
        again: &["index"],
        search: &["search", "{}"],
        list: &["list"],
        usage: &["stats", "--json"],
        totals: [
            "/totals/tokens/input",
            "/totals/tokens/output",
            "/totals/tokens/cache_creation",
            "/totals/tokens/cache_read",
        ],
        keeps: &[".agent-journal"],
        ..NOTHING
    },
    Peer {
        name: "ripgrep",
        program: "rg",
        search: &[
            "--no-config",
            "--no-ignore",
            "--hidden",
            "-i",
            "-l",
            "-F",
            "{}",
            "{home}/.claude",
        ],
        ..NOTHING
    },
    Peer {
        name: "fast-resume",
        package: "fast-resume==2.14.0",
        from: From::Python,
        program: "fr",
        index: &["--rebuild", "--list", "--limit", "1"],
        again: &["--list", "--limit", "1"],
        search: &["--list", "--limit", "20", "{}"],
        list: &["--list", "--limit", "20"],
        keeps: &[".cache", ".local"],
        ..NOTHING
    },
    Peer {
        name: "agentsview",
        package: "agentsview==0.46.1",
        from: From::Python,
        program: "agentsview",
        index: &["sync"],
        again: &["sync"],
        search: &["session", "search", "{}"],
        list: &["session", "list"],
        usage: &["usage", "daily", "--all", "--offline", "--json"],
        totals: [
            "/totals/inputTokens",
            "/totals/outputTokens",
            "/totals/cacheCreationTokens",
            "/totals/cacheReadTokens",
        ],
        keeps: &[".agentsview"],
        stop: &["daemon", "stop"],
    },
    Peer {
        name: "ccusage",
        package: "ccusage@20.0.24",
        from: From::Node,
        program: "ccusage",
        usage: &["claude", "daily", "--json", "--offline", "--timezone", "UTC"],
        totals: [
            "/totals/inputTokens",
            "/totals/outputTokens",
            "/totals/cacheCreationTokens",
            "/totals/cacheReadTokens",
        ],
        ..NOTHING
    },
    Peer {
        name: "ccsearch",
        package: "ccsearch@0.1.0",
        from: From::Cargo,
        program: "ccs",
        index: &["--reindex", "--print", "-n", "1", "zyxquorble"],
        again: &["--print", "-n", "1", "zyxquorble"],
        search: &["--print", "--no-auto", "-n", "20", "{}"],
        keeps: &[".cache", ".local", ".claude/ccsearch"],
        ..NOTHING
    },
    Peer {
        name: "search-sessions",
        package: "search-sessions@0.3.1",
        from: From::Cargo,
        program: "search-sessions",
        search: &["--deep", "{}"],
        ..NOTHING
    },
    Peer {
        name: "aichat-search",
        package: "aichat-search@0.3.1",
        from: From::Cargo,
        program: "aichat-search",
        index: &["build-index"],
        again: &["build-index"],
        search: &["--json", "--query", "{}", "-n", "20"],
        list: &["--json", "-n", "20"],
        keeps: &[".cctools"],
        ..NOTHING
    },
];

impl Peer {
    /// Returns the path of the installed program.
    pub(super) fn path(&self, place: &Path) -> PathBuf {
        match self.from {
            From::Python => place.join("python/bin").join(self.program),
            From::Node => place.join("node/node_modules/.bin").join(self.program),
            From::Cargo => place.join("cargo/bin").join(self.program),
            From::Here => place.join("here").join(self.program),
            From::Path => PathBuf::from(self.program),
        }
    }

    fn title(&self) -> String {
        let version = self.package.rsplit(['=', '@']).next().unwrap_or_default();
        format!("{} {version}", self.name).trim_end().to_owned()
    }
}

/// Renders the results of all programs as Markdown.
pub(super) fn markdown(megabytes: u64, source: u64, all: &[Came<'_>]) -> String {
    let date = jiff::Zoned::now().date();
    let mut text = format!("{megabytes} MB · {date} · {} · no network\n\n", machine());
    let questions: Vec<&str> = QUESTIONS.iter().map(|(name, _)| *name).collect();
    text.push_str("| | full index | CPU | memory | kept | nothing new | ");
    text.push_str(&questions.join(" | "));
    text.push_str(" | list | usage | sums |\n|---|");
    text.push_str(&"--:|".repeat(questions.len() + 8));
    text.push('\n');
    let dash = || "–".to_owned();
    for came in all {
        let index = came.index.as_ref();
        let mut cells = vec![
            came.peer.title(),
            index.map_or_else(dash, |used| time(used.wall)),
            index.map_or_else(dash, |used| time(used.cpu)),
            index.map_or_else(dash, |used| memory(used.memory)),
            index.map_or_else(dash, |_| format!("{:.2}", came.kept as f64 / source as f64)),
        ];
        let runs = |runs: &Option<Runs>| runs.as_ref().map_or_else(dash, |runs| time(runs.wall()));
        cells.push(runs(&came.unchanged));
        cells.extend(came.searches.iter().map(runs));
        cells.extend([runs(&came.list), runs(&came.usage)]);
        cells.push(
            came.is_right
                .map_or_else(dash, |is_right| if is_right { "exact" } else { "other" }.to_owned()),
        );
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push_str("\n| | finds a word in | does not |\n|---|---|---|\n");
    for came in all.iter().filter(|came| !came.peer.search.is_empty()) {
        let (finds, misses) = (came.finds.join(", "), came.misses.join(", "));
        text.push_str(&format!("| {} | {finds} | {misses} |\n", came.peer.title()));
    }
    text
}
