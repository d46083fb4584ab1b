//! Requirements of tests beyond cargo, installed into the build directory.

pub(crate) mod python;
pub(crate) mod tables;
