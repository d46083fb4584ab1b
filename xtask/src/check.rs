//! `check`: what can be said about the code without running it.

use anyhow::Result;

use crate::cargo::{cargo, run as call};
use crate::{docs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    call(&mut cargo(&["fmt", "--all", "--check"]))?;
    call(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // What is behind a feature must not be missed where the feature is left out. The features one
    // by one would have more compiled anew: they are a job of their own in the workflow.
    let fewer = ["clippy", "--package", "aj", "--no-default-features", "--", "-D", "warnings"];
    call(&mut cargo(&fewer))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    call(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    docs::check()
}
