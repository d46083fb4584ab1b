//! `test`: every test. What tests need beyond cargo is fetched here before they run, so that
//! nobody has to install anything.

use anyhow::Result;

use crate::cargo::{cargo, run as call, target};
use crate::{needs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    needs::python::prepare(&target()?)?;
    call(&mut cargo(&["test", "--workspace"]))
}
