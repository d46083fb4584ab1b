//! `check`: runs the static checks of the code.

use anyhow::Result;

use crate::cargo::{cargo, run as call};
use crate::{docs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    call(&mut cargo(&["fmt", "--all", "--check"]))?;
    call(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // Code outside a feature must compile without the feature. That compiles the product again, so
    // the workflow has a separate job for it.
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    call(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    docs::check()
}
