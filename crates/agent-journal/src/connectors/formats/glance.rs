//! Looks at many files quickly. A name is looked up in a folder that is open already: walking
//! along every part of every path takes three times as long.

use std::io;
use std::path::Path;

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
pub(super) struct Glance<'p>(std::marker::PhantomData<&'p Path>);

#[cfg(not(unix))]
impl<'p> Glance<'p> {
    pub(super) fn at(&mut self, path: &'p Path) -> io::Result<Glimpse> {
        let metadata = std::fs::metadata(path)?;
        Ok(Glimpse { is_folder: metadata.is_dir(), stamp: Stamp::of(&metadata) })
    }
}

#[cfg(unix)]
mod unix {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, open, stat, statat};

    use super::{Glimpse, Path, Stamp, io};

    /// Looks at one thing after another, best at those of one folder.
    #[derive(Default)]
    pub(in super::super) struct Glance<'p> {
        /// The folder of the last thing that was not below the one before.
        folder: Option<(&'p [u8], OwnedFd)>,
    }

    impl<'p> Glance<'p> {
        pub(in super::super) fn at(&mut self, path: &'p Path) -> io::Result<Glimpse> {
            let bytes = path.as_os_str().as_encoded_bytes();
            if let Some((folder, open)) = &self.folder
                && let Some([b'/', name @ ..]) = bytes.strip_prefix(*folder)
                && !name.is_empty()
            {
                return Ok(glimpse(&statat(open, name, AtFlags::empty())?));
            }
            let seen = stat(path)?;
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
            // Without it the next look takes longer, and that is all.
            self.folder = path.parent().and_then(|folder| {
                let open = open(folder, flags, Mode::empty()).ok()?;
                Some((folder.as_os_str().as_encoded_bytes(), open))
            });
            Ok(glimpse(&seen))
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
            let mut glance = Glance::default();
            for path in &paths {
                let seen = glance.at(path).ok().map(|seen| (seen.is_folder, seen.stamp));
                let metadata = std::fs::metadata(path).ok();
                let expected = metadata.map(|seen| (seen.is_dir(), Stamp::of(&seen)));
                assert_eq!(seen, expected, "{}", path.display());
            }
        }
    }
}
