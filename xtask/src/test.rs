//! `test`: every test. What tests need beyond cargo is fetched here before they run, so that
//! nobody has to install anything. What cannot be had costs the tests that need it, which say so.

use anyhow::Result;

use crate::cargo::{cargo, run as call, target};
use crate::{browser, needs, no_arguments};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    browser::ready();
    if let Err(error) = needs::python::prepare(&target()?) {
        eprintln!("no MCP client: {error:#}");
    }
    if let Err(error) = needs::tables::prepare(&target()?) {
        eprintln!("no readers of tables: {error:#}");
    }
    call(&mut cargo(&["test", "--workspace"]))
}
