//! `ci`: runs everything that must pass before a change lands.

use anyhow::Result;

use crate::{check, test};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    check::run(arguments)?;
    test::run(arguments)
}
