//! What tests need beyond cargo, fetched into the build directory.

pub(crate) mod tables;
