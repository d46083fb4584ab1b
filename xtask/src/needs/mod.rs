//! What tests need beyond cargo, fetched into the build directory.

pub(crate) mod python;
pub(crate) mod tables;
