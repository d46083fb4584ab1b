//! `bless`: rewrites the golden files of connectors. Reading them afterwards is the review.

use anyhow::{Result, bail, ensure};

use crate::cargo::{cargo, root, run as call};

const FIXTURES: &str = "crates/agent-journal/tests/fixtures";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let agent = match arguments {
        [] => "1",
        [agent] => agent,
        _ => bail!("`bless` takes one agent, or none for all"),
    };
    let known = agent == "1" || root().join(FIXTURES).join(agent).is_dir();
    ensure!(known, "there are no fixtures of `{agent}` in {FIXTURES}");
    let mut test = cargo(&["test", "--package", "agent-journal", "--test", "connectors"]);
    test.arg("records_equal_their_golden_files").env("BLESS", agent);
    call(&mut test)?;
    eprintln!("now read what changed: git diff {FIXTURES}");
    Ok(())
}
