//! `ci`: what has to pass before a change lands, here and on every other machine.

use anyhow::Result;

use crate::{check, test};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    check::run(arguments)?;
    test::run(arguments)
}
