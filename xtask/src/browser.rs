//! Prepares the requirements of the browser tests: Chromium, Node, and two development packages.
//! Missing ones are installed if possible; otherwise the tests report that they were skipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo::{root, run as call, words};

/// Advice if nothing can be installed.
pub(crate) const ADVICE: &str = "install `chromium` and `node` 18 or later with `npm`";

const CHROMIUMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser, and the program that drives it.
pub(crate) struct Browser {
    pub(crate) chromium: PathBuf,
    pub(crate) node: &'static str,
}

/// Returns the directory of the scripts that drive the browser.
pub(crate) fn directory() -> PathBuf {
    root().join("crates/aj/tests/browser")
}

/// Finds or installs a browser. Returns `None` if that is impossible.
pub(crate) fn ready() -> Option<Browser> {
    if find(&CHROMIUMS).is_none() || find(&["npm"]).is_none() {
        fetch();
    }
    let (Some(chromium), Some(_), Some(_)) = (find(&CHROMIUMS), find(&["node"]), find(&["npm"]))
    else {
        eprintln!("xtask: tests in a browser are skipped: {ADVICE}");
        return None;
    };
    if !directory().join("node_modules/.package-lock.json").is_file() {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(directory());
        if let Err(error) = call(&mut npm) {
            eprintln!("xtask: tests in a browser are skipped: {error:#}");
            return None;
        }
    }
    Some(Browser { chromium, node: "node" })
}

/// Installs missing packages with Debian's package manager, if there is one.
fn fetch() {
    if find(&["apt-get"]).is_none() {
        return;
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let mut missing = vec!["install", "-y", "--no-install-recommends"];
    if find(&CHROMIUMS).is_none() {
        missing.push("chromium");
    }
    if find(&["npm"]).is_none() {
        missing.extend(["nodejs", "npm"]);
    }
    for arguments in [&["update"][..], &missing] {
        let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root {
            // `-n` fails instead of asking for a password, because a test is not interactive.
            command.args(["-n", "apt-get"]);
        }
        command.args(arguments).stdin(Stdio::null());
        if let Err(error) = call(&mut command) {
            eprintln!("xtask: {error:#}: {}", words(&command));
            return;
        }
    }
}

/// Finds the first existing program of a list.
fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    found.into_iter().find(|file| file.is_file())
}
