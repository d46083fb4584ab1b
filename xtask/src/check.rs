//! `check`: what can be said about the code without running it.

use anyhow::Result;

use crate::cargo::{cargo, run as call};
use crate::{docs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    call(&mut cargo(&["fmt", "--all", "--check"]))?;
    call(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    call(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    docs::check()
}
