//! A real browser, where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Chromium and the directory of the scripts that drive it, or says that a test is skipped.
pub fn driven() -> Option<(PathBuf, PathBuf)> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let chromium = find(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]);
    let there = find(&["node"]).is_some() && scripts.join("node_modules/playwright-core").is_dir();
    if chromium.is_none() || !there {
        println!("skipped: no browser, or nothing that drives it (`cargo xtask test` fetches it)");
    }
    chromium.filter(|_| there).map(|chromium| (chromium, scripts))
}

/// Has a browser go through a scenario of a script, or says that this is skipped.
#[track_caller]
pub fn drive(script: &str, scenario: &str, mut options: Value) {
    let Some((chromium, scripts)) = driven() else { return };
    options["browser"] = json!(chromium);
    let script = scripts.join(script);
    let output =
        Command::new("node").arg(script).args([scenario, &options.to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("PASSED"), "{scenario}: {told}\n{failed}");
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    all.into_iter().find(|file| file.is_file())
}
