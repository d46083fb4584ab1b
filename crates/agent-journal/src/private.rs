//! Creates directories that only their owner can access.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// Creates a directory that only its owner can access.
pub(crate) fn private_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(Error::write_error(path))
}
