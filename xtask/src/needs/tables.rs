//! A Python environment with `duckdb`, `pandas` and `pyarrow`. The test that needs it includes this
//! file, so that it also runs without the chore.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The installed packages. A change of them recreates the environment.
const PACKAGES: [&str; 3] = ["duckdb==2.0.0", "pandas==3.1.1", "pyarrow==26.0.1"];

/// Creates the environment in the build directory if necessary, and returns the interpreter.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let place = target.join("needs/tables");
    fs::create_dir_all(&place).context("could not create the directory of the environment")?;
    // Tests run in several processes.
    let lock = File::create(target.join("needs/tables.lock")).context("could not create a lock")?;
    lock.lock().context("could not wait for another process")?;
    let python = place.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let (mark, packages) = (place.join("packages"), PACKAGES.join(" "));
    if fs::read_to_string(&mark).is_ok_and(|known| known == packages) {
        return Ok(python);
    }
    let system = if cfg!(windows) { "python" } else { "python3" };
    run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&place))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    fs::write(&mark, packages).context("could not note what is installed")?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let words = format!("{command:?}");
    let output = command.output().with_context(|| format!("could not run {words}"))?;
    ensure!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
