//! Paths of the workspace, and functions that run its commands.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the directory of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Returns the build directory. This program is in a subdirectory of it.
pub(crate) fn target() -> Result<PathBuf> {
    let program = env::current_exe().context("could not find the build directory")?;
    let target = program.parent().and_then(Path::parent);
    Ok(target.context("could not find the build directory")?.to_owned())
}

/// Returns a cargo command that runs in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Builds `aj` and returns its path.
pub(crate) fn build(profile: &str) -> Result<PathBuf> {
    run(&mut cargo(&["build", "--quiet", "--workspace", "--bin", "aj", "--profile", profile]))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target()?.join(folder).join(format!("aj{}", env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "built, but not found: {}", program.display());
    Ok(program)
}

/// Returns an `aj` command that is independent of this machine, with its own home and journal.
pub(crate) fn aj(program: &Path, home: &Path, journal: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AJ_")) {
        command.env_remove(name);
    }
    command.env("AJ_HOME", journal).arg("--home").arg(home);
    command
}

/// Prints and runs a command. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words = words(command);
    eprintln!("$ {words}");
    let status = command.status().with_context(|| format!("could not run `{words}`"))?;
    ensure!(status.success(), "`{words}` failed");
    Ok(())
}

/// Formats a command as a command line.
pub(crate) fn words(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}
