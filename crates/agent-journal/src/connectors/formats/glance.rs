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
        open: Option<OwnedFd>,
        /// Where the open folder is.
        path: Vec<u8>,
        /// The folder of the last thing, and how many in a row were in it.
        last: (Vec<u8>, u32),
    }

    impl Glance {
        /// Looks at what is at a path, which is given as its bytes.
        pub(in super::super) fn at(&mut self, path: &[u8]) -> io::Result<Glimpse> {
            if let Some(name) = self.below(path)
                && !name.contains(&b'/')
            {
                return self.inside(name);
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
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
                // Without it looks take longer, and that is all.
                self.open = open(folder, flags, Mode::empty()).ok();
                self.path.clone_from(&self.last.0);
            }
            self.below(path).map_or_else(|| Ok(glimpse(&stat(path)?)), |name| self.inside(name))
        }

        /// The rest of a path that leads through the open folder.
        fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
            self.open.as_ref()?;
            match path.strip_prefix(self.path.as_slice())? {
                [b'/', name @ ..] if !name.is_empty() => Some(name),
                _ => None,
            }
        }

        fn inside(&self, name: &[u8]) -> io::Result<Glimpse> {
            let folder = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
            Ok(glimpse(&statat(folder, name, AtFlags::empty())?))
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
            // A folder is opened after some looks into it.
            for path in paths.iter().flat_map(|path| [path; 5]) {
                let seen = glance.at(path.as_os_str().as_encoded_bytes());
                let seen = seen.ok().map(|seen| (seen.is_folder, seen.stamp));
                let metadata = std::fs::metadata(path).ok();
                let expected = metadata.map(|seen| (seen.is_dir(), Stamp::of(&seen)));
                assert_eq!(seen, expected, "{}", path.display());
            }
        }
    }
}
