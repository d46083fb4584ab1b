//! `test`: every test. What tests need beyond cargo is fetched here before they run, so that
//! nobody has to install anything: a browser, and what drives it.

use anyhow::Result;

use crate::browser;
use crate::cargo::{cargo, run as call};
use crate::no_arguments;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    browser::ready();
    call(&mut cargo(&["test", "--workspace"]))
}
