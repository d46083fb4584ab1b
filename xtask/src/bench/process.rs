//! Runs a command and measures its resource usage.
//!
//! The system reports the peak memory of all children of a process together. So each run has a
//! parent process of its own: this program, started again with one child.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cargo::words;

/// The argument that makes this program run and measure a command.
pub(crate) const MEASURED: &str = "measured";

/// Resources that a run used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Peak memory in bytes.
    pub(crate) memory: u64,
    /// Bytes written to disk.
    pub(crate) written: u64,
    /// The exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
}

/// Runs a command once without its output, and expects an exit code.
pub(crate) fn measure(command: &Command, expected: i32) -> Result<Used> {
    let used = measure_any(command)?;
    let said = || format!("{} ended with {:?}, not {expected}", words(command), used.code);
    ensure!(used.code == Some(expected), said());
    Ok(used)
}

/// Runs a command once without its output, and accepts any exit code.
pub(crate) fn measure_any(command: &Command) -> Result<Used> {
    let program = std::env::current_exe().context("could not find this program")?;
    let mut around = Command::new(program);
    around.arg(MEASURED).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => around.env(name, value),
            None => around.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        around.current_dir(directory);
    }
    let output = around.output().context("could not measure")?;
    if !output.status.success() {
        bail!("could not measure: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the measure said nothing")
}

/// Runs a command as the only child of this process, and prints its resource usage as JSON.
#[cfg(unix)]
pub(crate) fn run_measured(words: &[String]) -> Result<()> {
    use std::process::Stdio;
    use std::time::Instant;

    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    let (program, arguments) = words.split_first().context("nothing to measure")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().with_context(|| format!("could not run {program}"))?;
    let wall = started.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("could not ask for the usage")?;
    let time = usage.user_time() + usage.system_time();
    // Linux reports kibibytes, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    let used = Used {
        wall,
        cpu: Duration::from_micros(time.num_microseconds().unsigned_abs()),
        memory: usage.max_rss().unsigned_abs() * unit,
        written: usage.block_writes().unsigned_abs() * 512,
        code: status.code(),
    };
    println!("{}", serde_json::to_string(&used)?);
    Ok(())
}

/// Fails, because the measurement of peak memory needs Unix.
#[cfg(not(unix))]
pub(crate) fn run_measured(_: &[String]) -> Result<()> {
    bail!("processes are measured on Linux and macOS only")
}
