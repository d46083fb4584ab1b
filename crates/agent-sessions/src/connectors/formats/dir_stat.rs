//! Reads the metadata of many files quickly. Names are resolved relative to an open directory:
//! resolving every component of every path takes three times as long.

use std::io;

use crate::connectors::Stamp;

/// The state of a file or directory.
pub(super) struct FileState {
    pub(super) is_folder: bool,
    pub(super) stamp: Stamp,
}

#[cfg(unix)]
pub(super) use unix::DirectoryStat;

/// Reads the metadata of paths, one by one.
#[cfg(not(unix))]
#[derive(Default)]
pub(super) struct DirectoryStat;

#[cfg(not(unix))]
impl DirectoryStat {
    /// Creates a reader for paths below a directory.
    pub(super) fn below_directory(_: &[u8]) -> Self {
        Self
    }

    /// Reads the metadata of a path, given as bytes.
    pub(super) fn stat_path(&mut self, path: &[u8]) -> io::Result<FileState> {
        let metadata = std::fs::metadata(&*String::from_utf8_lossy(path))?;
        Ok(FileState { is_folder: metadata.is_dir(), stamp: Stamp::from_metadata(&metadata) })
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, stat, statat};

    use super::{FileState, Stamp, io};

    /// A directory is opened after this many consecutive reads in it.
    const RUN: u32 = 4;

    /// Reads the metadata of paths, fastest for consecutive paths in one directory.
    #[derive(Default)]
    pub(in super::super) struct DirectoryStat {
        /// The directory above all paths, if it could be opened.
        base: Option<OpenDirectory>,
        /// The directory opened most recently.
        near: Option<OpenDirectory>,
        /// The parent of the last path, and the number of consecutive reads in it.
        last: (Vec<u8>, u32),
    }

    /// An open directory.
    struct OpenDirectory {
        open: OwnedFd,
        path: Vec<u8>,
    }

    impl OpenDirectory {
        /// Opens a directory. If that fails, reads only take longer.
        fn open_folder(path: &[u8]) -> Option<Self> {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
            let open = open(path, flags, Mode::empty()).ok()?;
            Some(Self { open, path: path.to_owned() })
        }

        /// Returns the part of a path below this directory. `None` when the path is not below it.
        fn relative_part<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
            match path.strip_prefix(self.path.as_slice())? {
                [b'/', rest @ ..] if !rest.is_empty() && rest[0] != b'/' => Some(rest),
                _ => None,
            }
        }

        fn stat_relative(&self, rest: &[u8]) -> io::Result<FileState> {
            Ok(glimpse_from_stat(&statat(&self.open, rest, AtFlags::empty())?))
        }
    }

    impl DirectoryStat {
        /// Creates a reader for paths below a directory.
        pub(in super::super) fn below_directory(folder: &[u8]) -> Self {
            Self { base: OpenDirectory::open_folder(folder), ..Self::default() }
        }

        /// Reads the metadata of a path, given as bytes.
        pub(in super::super) fn stat_path(&mut self, path: &[u8]) -> io::Result<FileState> {
            if let Some(seen) = self.stat_in_open_directory(path) {
                return seen;
            }
            let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let folder = &path[..end];
            if self.last.0 != folder {
                self.last.0.clear();
                self.last.0.extend_from_slice(folder);
                self.last.1 = 0;
            }
            self.last.1 += 1;
            if self.last.1 == RUN {
                self.near = OpenDirectory::open_folder(folder);
            }
            if let Some(seen) = self.stat_in_open_directory(path) {
                return seen;
            }
            let base = self.base.as_ref();
            match base
                .and_then(|base| base.relative_part(path).map(|rest| base.stat_relative(rest)))
            {
                Some(seen) => seen,
                None => Ok(glimpse_from_stat(&stat(path)?)),
            }
        }

        /// Reads the metadata of a path directly in the directory opened most recently.
        fn stat_in_open_directory(&self, path: &[u8]) -> Option<io::Result<FileState>> {
            let near = self.near.as_ref()?;
            let name = near.relative_part(path).filter(|rest| !rest.contains(&b'/'))?;
            Some(near.stat_relative(name))
        }
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "types differ by system"
    )]
    fn glimpse_from_stat(stat: &Stat) -> FileState {
        let seconds = (stat.st_mtime as i64).checked_mul(1_000_000_000);
        let modified = seconds.and_then(|nanos| nanos.checked_add(stat.st_mtime_nsec as i64));
        let stamp = Stamp {
            size: stat.st_size as u64,
            modified: modified.filter(|nanos| *nanos >= 0).unwrap_or(0),
            inode: stat.st_ino as u64,
        };
        let kind = FileType::from_raw_mode(stat.st_mode as _);
        FileState { is_folder: kind == FileType::Directory, stamp }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_glance_sees_what_a_look_sees() {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            for (name, text) in [("a/one", "1"), ("a/b/two", "22"), ("ab", "333")] {
                #[expect(clippy::disallowed_methods, reason = "a private directory")]
                std::fs::write(root.join(name), text).unwrap();
            }
            std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
            let names =
                ["a/one", "a/b", "a/b/two", "a/none", "ab", "a", "link", "link/two", "a/b/"];
            let paths: Vec<_> = names.iter().map(|name| root.join(name)).collect();
            for base in [root, &root.join("a"), &root.join("none")] {
                let mut glance =
                    DirectoryStat::below_directory(base.as_os_str().as_encoded_bytes());
                // A directory is opened only after several reads in it.
                for path in paths.iter().flat_map(|path| [path; 5]) {
                    let seen = glance.stat_path(path.as_os_str().as_encoded_bytes());
                    let seen = seen.ok().map(|seen| (seen.is_folder, seen.stamp));
                    let metadata = std::fs::metadata(path).ok();
                    let expected =
                        metadata.map(|seen| (seen.is_dir(), Stamp::from_metadata(&seen)));
                    assert_eq!(seen, expected, "{} from {}", path.display(), base.display());
                }
            }
        }
    }
}
