//! Looks at many files quickly. A name is looked up in a folder that is open already: walking
//! along every part of every path takes three times as long.

use std::io;

use crate::connectors::Stamp;

/// What a look saw.
pub(super) struct Glimpse {
    pub(super) is_folder: bool,
    pub(super) stamp: Stamp,
}

#[cfg(unix)]
pub(super) use unix::Glance;

/// Looks at one thing after another.
#[cfg(not(unix))]
#[derive(Default)]
pub(super) struct Glance;

#[cfg(not(unix))]
impl Glance {
    /// Looks at things below a folder.
    pub(super) fn below(_: &[u8]) -> Self {
        Self
    }

    /// Looks at what is at a path, which is given as its bytes.
    pub(super) fn at(&mut self, path: &[u8]) -> io::Result<Glimpse> {
        let metadata = std::fs::metadata(&*String::from_utf8_lossy(path))?;
        Ok(Glimpse { is_folder: metadata.is_dir(), stamp: Stamp::of(&metadata) })
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, stat, statat};

    use super::{Glimpse, Stamp, io};

    /// A folder is opened when this many things in it were looked at in a row.
    const RUN: u32 = 4;

    /// Looks at one thing after another, best at those of one folder.
    #[derive(Default)]
    pub(in super::super) struct Glance {
        /// The folder everything is below, as far as it is.
        base: Option<Folder>,
        /// The folder that was opened last.
        near: Option<Folder>,
        /// The folder of the last thing, and how many in a row were in it.
        last: (Vec<u8>, u32),
    }

    /// A folder that is open.
    struct Folder {
        open: OwnedFd,
        path: Vec<u8>,
    }

    impl Folder {
        /// Opens a folder; without it looks take longer, and that is all.
        fn open(path: &[u8]) -> Option<Self> {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
            let open = open(path, flags, Mode::empty()).ok()?;
            Some(Self { open, path: path.to_owned() })
        }

        /// The rest of a path that leads through it.
        fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
            match path.strip_prefix(self.path.as_slice())? {
                [b'/', rest @ ..] if !rest.is_empty() && rest[0] != b'/' => Some(rest),
                _ => None,
            }
        }

        fn look(&self, rest: &[u8]) -> io::Result<Glimpse> {
            Ok(glimpse(&statat(&self.open, rest, AtFlags::empty())?))
        }
    }

    impl Glance {
        /// Looks at things below a folder.
        pub(in super::super) fn below(folder: &[u8]) -> Self {
            Self { base: Folder::open(folder), ..Self::default() }
        }

        /// Looks at what is at a path, which is given as its bytes.
        pub(in super::super) fn at(&mut self, path: &[u8]) -> io::Result<Glimpse> {
            if let Some(seen) = self.beside(path) {
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
                self.near = Folder::open(folder);
            }
            if let Some(seen) = self.beside(path) {
                return seen;
            }
            let base = self.base.as_ref();
            match base.and_then(|base| base.rest(path).map(|rest| base.look(rest))) {
                Some(seen) => seen,
                None => Ok(glimpse(&stat(path)?)),
            }
        }

        /// Looks at what is in the folder that was opened last.
        fn beside(&self, path: &[u8]) -> Option<io::Result<Glimpse>> {
            let near = self.near.as_ref()?;
            let name = near.rest(path).filter(|rest| !rest.contains(&b'/'))?;
            Some(near.look(name))
        }
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "types differ by system"
    )]
    fn glimpse(stat: &Stat) -> Glimpse {
        let seconds = (stat.st_mtime as i64).checked_mul(1_000_000_000);
        let modified = seconds.and_then(|nanos| nanos.checked_add(stat.st_mtime_nsec as i64));
        let stamp = Stamp {
            size: stat.st_size as u64,
            modified: modified.filter(|nanos| *nanos >= 0).unwrap_or(0),
            inode: stat.st_ino as u64,
        };
        let kind = FileType::from_raw_mode(stat.st_mode as _);
        Glimpse { is_folder: kind == FileType::Directory, stamp }
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
                let mut glance = Glance::below(base.as_os_str().as_encoded_bytes());
                // A folder is opened after some looks into it.
                for path in paths.iter().flat_map(|path| [path; 5]) {
                    let seen = glance.at(path.as_os_str().as_encoded_bytes());
                    let seen = seen.ok().map(|seen| (seen.is_folder, seen.stamp));
                    let metadata = std::fs::metadata(path).ok();
                    let expected = metadata.map(|seen| (seen.is_dir(), Stamp::of(&seen)));
                    assert_eq!(seen, expected, "{} from {}", path.display(), base.display());
                }
            }
        }
    }
}
