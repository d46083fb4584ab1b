//! A real browser, where there is one.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(missing_docs, unreachable_pub, reason = "test support")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds Chromium, or says that a test is skipped without it.
pub fn chromium() -> Option<PathBuf> {
    let found = find(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]);
    if found.is_none() {
        println!("skipped: no Chromium on this machine");
    }
    found
}

/// Chromium and the directory of the scripts that drive it, or says that a test is skipped.
pub fn driven() -> Option<(PathBuf, PathBuf)> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let chromium = chromium()?;
    if find(&["node"]).is_none() || !scripts.join("node_modules/playwright-core").is_dir() {
        println!("skipped: what drives the browser is not here (`cargo xtask test` fetches it)");
        return None;
    }
    Some((chromium, scripts))
}

/// Flags with which a browser keeps to itself.
pub fn quiet(browser: &Path) -> Command {
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]);
    command.args(["--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync"]);
    command
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    all.into_iter().find(|file| file.is_file())
}
