//! The agents that can be recorded. `xtask/farm/agents` has a script for each.

/// An agent that a package registry has.
pub(crate) struct FarmAgent {
    /// The name of its script and of its recordings.
    pub(crate) name: &'static str,
    /// The id of the connector that reads it.
    pub(crate) id: &'static str,
    pub(crate) package: &'static str,
    pub(crate) registry: Registry,
    /// The recording whose rules of comparison apply (`RECORDINGS` in `crates/aj/tests/farm.rs`).
    pub(crate) rules: &'static str,
}

/// A program that installs packages by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registry {
    Npm,
    PyPi,
}

/// The Node that some agents need: a newer one than many systems have.
pub(crate) const NODE: FarmAgent = npm("node24", "", "node@24");

pub(crate) const AGENTS: &[FarmAgent] = &[
    npm("claude", "claude-code", "@anthropic-ai/claude-code"),
    npm("codex", "codex", "@openai/codex"),
    npm("copilot", "copilot-cli", "@github/copilot"),
    npm("gemini", "gemini", "@google/gemini-cli"),
    npm("qwen", "qwen", "@qwen-code/qwen-code"),
    // The recording `pi` is one of the older package.
    FarmAgent { rules: "pi87", ..npm("pi", "pi", "@earendil-works/pi-coding-agent") },
    npm("opencode", "opencode", "opencode-ai"),
    npm("kilo", "kilo", "@kilocode/cli-linux-x64"),
    npm("cline", "cline", "cline"),
    npm("continue", "continue", "@continuedev/cli"),
    npm("kimi", "kimi", "@moonshot-ai/kimi-code"),
    npm("grok", "grok", "@xai-official/grok"),
    npm("droid", "droid", "droid"),
    npm("openclaw", "openclaw", "openclaw"),
    FarmAgent { registry: Registry::PyPi, ..npm("hermes", "hermes", "hermes-agent") },
    npm("goose", "goose", "@aaif/goose"),
];

const fn npm(name: &'static str, id: &'static str, package: &'static str) -> FarmAgent {
    FarmAgent { name, id, package, registry: Registry::Npm, rules: name }
}

#[cfg(test)]
mod tests {
    use super::AGENTS;

    #[test]
    fn every_agent_has_a_script_and_every_script_an_agent() {
        let scripts = crate::cargo::root().join("xtask/farm/agents");
        let mut scripts: Vec<String> = std::fs::read_dir(scripts)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        scripts.sort();
        names.sort_unstable();
        assert_eq!(scripts, names);
    }
}
