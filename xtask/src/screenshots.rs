//! `screenshots`: takes screenshots of the dashboard in both themes, for the documents.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;

use crate::bench::serve::Server;
use crate::browser::{self, Browser};
use crate::cargo::{aj, build, root, run as call};
use crate::history::History;
use crate::no_arguments;

/// Maximum total size of the screenshots, in bytes.
const LIMIT: u64 = 1_500_000;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    let Some(Browser { chromium, node }) = browser::ready() else {
        bail!("pictures need Chromium and Node: {}", browser::ADVICE);
    };
    let program = build("dev")?;
    // The name of the directory is visible in the screenshots.
    let place = tempfile::Builder::new().prefix("home").rand_bytes(0).tempdir();
    let place = place.context("could not make a directory")?;
    let (home, journal) = (place.path().join("sam"), place.path().join("journal"));
    let history = History { sessions: 220, days: 260, prompts: 14, end: Timestamp::now() };
    history.write(&home).context("could not write a history")?;
    call(aj(&program, &home, &journal).arg("index"))?;
    let server = Server::start(aj(&program, &home, &journal).args(["serve", "--port", "0"]))?;
    let images = root().join("docs/images");
    fs::create_dir_all(&images)?;
    let mut pictures = Command::new(node);
    pictures.arg(browser::directory().join("screenshots.mjs"));
    pictures.arg(&chromium).arg(&server.url).arg(&images).arg(place.path().join("browser"));
    call(&mut pictures)?;
    weigh(&images)
}

fn weigh(images: &std::path::Path) -> Result<()> {
    let mut total = 0;
    for entry in fs::read_dir(images)? {
        total += entry?.metadata()?.len();
    }
    eprintln!("{} kB in {}", total / 1000, images.display());
    ensure!(total <= LIMIT, "the pictures are larger than {} kB together", LIMIT / 1000);
    Ok(())
}
