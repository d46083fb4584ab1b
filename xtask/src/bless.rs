//! `bless`: rewrites the golden files of connectors and the snapshots of help pages. Review the
//! changes afterwards.

use anyhow::{Result, bail, ensure};

use crate::cargo::{cargo, root, run as call};

const FIXTURES: &str = "crates/agent-sessions/tests/fixtures";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => {
            bless("agent-sessions", "connectors::records_equal_their_golden_files", "1")?;
            bless("aj", "help::help_pages_are_as_they_were_read_last", "1")?;
        }
        [agent] => {
            let known = root().join(FIXTURES).join(agent).is_dir();
            ensure!(known, "there are no fixtures of `{agent}` in {FIXTURES}");
            bless("agent-sessions", "connectors::records_equal_their_golden_files", agent)?;
        }
        _ => bail!("`bless` takes one agent, or none for everything"),
    }
    eprintln!("now read what changed: git diff");
    Ok(())
}

/// Runs one test in the mode that rewrites its expected output.
fn bless(package: &str, test: &str, what: &str) -> Result<()> {
    let words = ["test", "--package", package, "--test", "runner", "--", "--exact", test];
    call(cargo(&words).env("BLESS", what))
}
