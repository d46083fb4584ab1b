//! Installs agents by the names of their packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::agents::{FarmAgent, Registry};

/// The number of releases that are tried if the newest one cannot be installed.
const MOST_RELEASES: usize = 8;

/// An installed agent.
pub(crate) struct Installed {
    pub(crate) version: String,
    /// The newest release in the registry, if it could not be installed.
    pub(crate) refused: Option<String>,
}

/// Installs the newest release of an agent that can be installed.
pub(crate) fn install_agent(agent: &FarmAgent, directory: &Path) -> Result<Installed> {
    fs::create_dir_all(directory).context("could not create the directory of the agents")?;
    let Err(error) = install_release(agent, "", directory) else {
        return Ok(Installed { version: installed_version(agent, directory)?, refused: None });
    };
    let releases = list_releases(agent)?;
    let newest = releases.last().cloned();
    for release in releases.iter().rev().take(MOST_RELEASES) {
        if install_release(agent, release, directory).is_ok() {
            let version = installed_version(agent, directory)?;
            return Ok(Installed { refused: newest.filter(|newest| *newest != version), version });
        }
    }
    Err(error)
}

/// Installs a release; an empty one is the newest.
fn install_release(agent: &FarmAgent, release: &str, directory: &Path) -> Result<()> {
    let package = agent.package;
    let mut command = match agent.registry {
        Registry::Npm => {
            let release = if release.is_empty() { "latest" } else { release };
            // A package that names its release, such as `node@24`, keeps it.
            let named = package.trim_start_matches('@').contains('@');
            let package = if named { package.to_owned() } else { format!("{package}@{release}") };
            let mut npm = npm(directory);
            npm.args(["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]);
            npm.arg(directory).arg(package);
            npm
        }
        Registry::PyPi => {
            let package = if release.is_empty() {
                package.to_owned()
            } else {
                format!("{package}=={release}")
            };
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]);
            pip.arg(directory.join("site-packages")).arg(package);
            pip
        }
    };
    eprintln!("installing {package} {release}");
    let output = command.output().with_context(|| format!("could not run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "could not install {package} {release}: {}", errors.trim());
    Ok(())
}

/// Lists the releases of a package, the newest one last.
fn list_releases(agent: &FarmAgent) -> Result<Vec<String>> {
    if agent.registry == Registry::PyPi {
        return Ok(Vec::new());
    }
    let mut command = npm(Path::new("."));
    command.args(["view", agent.package, "versions", "--json"]);
    let output = command.output().context("could not run npm")?;
    let releases: Vec<String> =
        serde_json::from_slice(&output.stdout).context("npm listed no releases")?;
    // Releases for testing have a suffix.
    Ok(releases.into_iter().filter(|release| !release.contains('-')).collect())
}

/// Returns an `npm` command that finds the Node installed beside the agent first: some packages
/// check its version when they are installed.
fn npm(directory: &Path) -> Command {
    let mut command = Command::new("npm");
    let node = directory.with_file_name("node24").join("node_modules/node/bin");
    if node.is_dir() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(node).chain(std::env::split_paths(&path));
        if let Ok(paths) = std::env::join_paths(paths) {
            command.env("PATH", paths);
        }
    }
    command
}

/// Reads the version of an installed package from its description.
fn installed_version(agent: &FarmAgent, directory: &Path) -> Result<String> {
    match agent.registry {
        Registry::Npm => {
            let name = match agent.package.rfind('@') {
                Some(at) if at > 0 => &agent.package[..at],
                _ => agent.package,
            };
            let file = directory.join("node_modules").join(name).join("package.json");
            let text = read(&file)?;
            let package: serde_json::Value = serde_json::from_str(&text)?;
            let version = package["version"].as_str();
            Ok(version.context("an installed package has no version")?.to_owned())
        }
        Registry::PyPi => {
            let prefix = format!("{}-", agent.package.replace('-', "_"));
            let packages = directory.join("site-packages");
            for entry in fs::read_dir(&packages).context("nothing is installed")?.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let version = name.strip_prefix(&prefix);
                if let Some(version) = version.and_then(|rest| rest.strip_suffix(".dist-info")) {
                    return Ok(version.to_owned());
                }
            }
            bail!("{} is not installed", agent.package)
        }
    }
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}
