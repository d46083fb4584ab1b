//! Finds the directory that a project's folder name stands for. The name has a dash for every
//! character that is neither letter nor digit, so only the file system can resolve it.

use std::path::{Path, PathBuf};

use crate::connectors::formats::files;
use crate::model::encode_path_as_name;

/// Maximum number of directories listed in one search.
const MAX_LISTED: usize = 256;

/// Returns the directory whose encoded full path is the given folder name; `None` when there is
/// none on this machine.
pub(super) fn existing_directory(name: &str) -> Option<String> {
    let inside = name.strip_prefix('-')?;
    let mut listed = 0;
    let found = find_path_by_slug(Path::new("/"), inside, &mut listed)?;
    found.into_os_string().into_string().ok()
}

/// Searches for a path below a directory. Longer names are tried first: `my-app` before `my`.
fn find_path_by_slug(directory: &Path, rest: &str, listed: &mut usize) -> Option<PathBuf> {
    *listed += 1;
    if *listed > MAX_LISTED {
        return None;
    }
    let mut names: Vec<String> = files::observed_listing(directory)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let left = rest.strip_prefix(&*encode_path_as_name(name));
            left.is_some_and(|left| left.is_empty() || left.starts_with('-'))
        })
        .collect();
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), name.clone()));
    names.into_iter().find_map(|name| {
        let path = directory.join(&name);
        let left = &rest[encode_path_as_name(&name).len()..];
        if !files::is_dir(&path) {
            return None;
        }
        match left.strip_prefix('-') {
            None => Some(path),
            Some(left) => find_path_by_slug(&path, left, listed),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_directory_that_is_there() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let path = home.join("my-proj.v2/sub_dir");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::create_dir_all(home.join("my/other")).unwrap();
        let name = |path: &Path| encode_path_as_name(path.to_str().unwrap());
        assert_eq!(existing_directory(&name(&path)).as_deref(), path.to_str());
        assert_eq!(existing_directory(&name(&home.join("my/proj/v3"))), None);
        assert_eq!(existing_directory("C--Users-mara"), None);
    }
}
