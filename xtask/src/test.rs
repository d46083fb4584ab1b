//! `test`: every test. What tests need beyond cargo is fetched here before they run, so that
//! nobody has to install anything: a browser and what drives it, clients in Python.

use anyhow::Result;

use crate::cargo::{cargo, run as call, target};
use crate::{browser, needs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    browser::ready();
    needs::python::prepare(&target()?)?;
    call(&mut cargo(&["test", "--workspace"]))
}
