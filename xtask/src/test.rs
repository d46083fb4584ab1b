//! `test`: every test. What tests need beyond cargo is fetched here before they run, so that
//! nobody has to install anything; today they need nothing.

use anyhow::Result;

use crate::cargo::{cargo, run as call};
use crate::no_arguments;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    call(&mut cargo(&["test", "--workspace"]))
}
