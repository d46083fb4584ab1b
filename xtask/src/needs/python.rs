//! A Python with the SDK of the Model Context Protocol, in a directory of its own. The test that
//! needs it includes this file, so that it runs without the chore too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What is installed; a change makes the directory anew.
const PACKAGE: &str = "mcp==2.3.0";

/// Makes it in the build directory unless it is there, and returns the interpreter.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let place = target.join("needs/python");
    let python = place.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let mark = place.join("package");
    if fs::read_to_string(&mark).is_ok_and(|package| package == PACKAGE) {
        return Ok(python);
    }
    let system = if cfg!(windows) { "python" } else { "python3" };
    run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&place))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    fs::write(&mark, PACKAGE).context("could not note what is installed")?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let words = format!("{command:?}");
    let output = command.output().with_context(|| format!("could not run {words}"))?;
    ensure!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
