//! Determines the project that a working directory belongs to.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::model::Session;

/// Finds projects, and examines each directory only once.
pub(super) struct Projects {
    known: HashMap<String, String>,
    /// Returns whether a Windows drive is reachable from this system, as it is from WSL.
    is_mounted: fn(char) -> bool,
}

impl Default for Projects {
    fn default() -> Self {
        let is_mounted = |drive: char| Path::new(&format!("/mnt/{drive}")).is_dir();
        Self { known: HashMap::new(), is_mounted }
    }
}

impl Projects {
    /// Finds the project of a directory: the repository that contains it, where linked worktrees
    /// belong to the main repository. A directory that does not exist on this machine is its own
    /// project.
    pub(super) fn of(&mut self, cwd: &str) -> &str {
        let is_mounted = self.is_mounted;
        self.known.entry(cwd.to_owned()).or_insert_with(|| {
            let cwd = before_worktree(cwd);
            let found = repository(Path::new(cwd)).unwrap_or_else(|| cwd.to_owned());
            // `/mnt/c` paths exist only under WSL.
            match on_drive(&found) {
                Some((drive, path)) if !is_mounted(drive) => path,
                _ => one_name(&found),
            }
        })
    }
}

/// Returns the directory that determines the project of a session: the recorded root of the
/// repository if it contains the working directory, else the working directory, else the recorded
/// root or repository.
pub(super) fn place(metadata: &Session) -> Option<&str> {
    let repository = metadata.repository.as_deref();
    let root = metadata.root.as_deref().or(repository.filter(|path| is_absolute(path)));
    let around = root.filter(|root| metadata.cwd.as_deref().is_some_and(|it| is_inside(it, root)));
    around.or(metadata.cwd.as_deref()).or(root).or(repository)
}

/// Returns whether a path of any system is absolute.
fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.as_bytes().get(1) == Some(&b':')
}

/// Returns whether `path` is `root` or lies below it.
fn is_inside(path: &str, root: &str) -> bool {
    let (path, root) = (one_name(path), one_name(root));
    let below = path.strip_prefix(root.as_str());
    root.len() > 1 && below.is_some_and(|below| below.is_empty() || below.starts_with(['/', '\\']))
}

/// Returns the last component of a path of any system.
pub(super) fn name(path: &str) -> &str {
    let path = path.trim_end_matches(['/', '\\']);
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns a distinct name for each project path: the last directory, with as many parent
/// directories as needed where several projects share a name.
pub(crate) fn distinct_names(paths: &[&str]) -> Vec<String> {
    let mut names: Vec<&str> = paths.iter().map(|path| name(path)).collect();
    for parts in [2, 3, usize::MAX] {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            *counts.entry(name).or_default() += 1;
        }
        for (name, path) in names.iter_mut().zip(paths) {
            if counts.get(name).is_some_and(|count| *count > 1) {
                *name = last_parts(path, parts);
            }
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the last `parts` components of a path, or all of it.
fn last_parts(path: &str, parts: usize) -> &str {
    let mut starts = path.rmatch_indices(['/', '\\']).map(|(at, _)| at + 1);
    starts.nth(parts - 1).map_or(path, |start| &path[start..])
}

/// Splits a Windows path into its lower-case drive letter and the path in Windows notation.
fn on_drive(path: &str) -> Option<(char, String)> {
    let path = path.strip_prefix(r"\\?\").unwrap_or(path);
    let (drive, rest) = path.split_once(':')?;
    let mut letters = drive.chars();
    let drive = letters.next().filter(char::is_ascii_alphabetic)?;
    if letters.next().is_some() {
        return None;
    }
    let rest = rest.replace('/', "\\");
    let rest = rest.trim_matches('\\');
    Some((drive.to_ascii_lowercase(), format!("{}:\\{rest}", drive.to_ascii_uppercase())))
}

/// Returns one name for a directory that has two under WSL: `C:\x` becomes `/mnt/c/x`, and
/// `\\wsl$\Distro\x` becomes `/x`.
fn one_name(path: &str) -> String {
    let slashed = path.replace('\\', "/");
    let slashed = slashed.trim_end_matches('/');
    // Canonical Windows paths begin with the prefix `\\?\`.
    let (marked, is_marked) = match slashed.strip_prefix("//?/") {
        Some(rest) => (rest, true),
        None => (slashed, false),
    };
    let shared = if is_marked { marked.strip_prefix("UNC/") } else { marked.strip_prefix("//") };
    if let Some((server, inside)) = shared.and_then(|shared| shared.split_once('/'))
        && ["wsl$", "wsl.localhost"].contains(&server.to_ascii_lowercase().as_str())
    {
        return format!("/{}", inside.split_once('/').map_or("", |(_, inside)| inside));
    }
    let bytes = marked.as_bytes();
    if bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
        let drive = bytes[0].to_ascii_lowercase() as char;
        return format!("/mnt/{drive}{}", &marked[2..]);
    }
    // On other systems a backslash may be part of a name.
    let end = path.trim_end_matches('/').len();
    path[..end.max(usize::from(!path.is_empty()))].to_owned()
}

/// Cuts the path at the directories in which agents keep worktrees inside a repository:
/// `.worktrees/`, and `worktrees/` in a hidden directory.
fn before_worktree(cwd: &str) -> &str {
    let is_separator = |character: char| matches!(character, '/' | '\\');
    let mut start = 0;
    let mut hidden = None;
    for part in cwd.split_inclusive(is_separator) {
        let (name, is_inside) = match part.strip_suffix(is_separator) {
            Some(name) => (name, true),
            None => (part, false),
        };
        if is_inside && (name == ".worktrees" || (name == "worktrees" && hidden.is_some())) {
            return cwd[..hidden.unwrap_or(start)].trim_end_matches(is_separator);
        }
        hidden = name.starts_with('.').then_some(start);
        start += part.len();
    }
    cwd
}

/// Finds the repository that contains a directory, without running git.
fn repository(cwd: &Path) -> Option<String> {
    if !cwd.is_absolute() {
        return None;
    }
    let root = cwd.ancestors().find(|one| one.join(".git").exists())?;
    let main = linked_worktree(root).unwrap_or_else(|| root.to_owned());
    main.to_str().map(str::to_owned)
}

/// Returns the main repository of a linked worktree, whose `.git` is a file that names a directory
/// inside that repository.
fn linked_worktree(root: &Path) -> Option<PathBuf> {
    let link = root.join(".git");
    fs::metadata(&link).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    File::open(&link).ok()?.take(4096).read_to_string(&mut text).ok()?;
    let inside = PathBuf::from(text.strip_prefix("gitdir:")?.trim());
    let git = inside.ancestors().find(|one| one.file_name().is_some_and(|name| name == ".git"))?;
    git.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktrees_belong_to_their_repository() {
        let home = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(home.path().join(path)).unwrap();
        make("web/.git/worktrees/fix");
        make("web/src/deep");
        make("fix");
        let mut link = std::fs::File::create(home.path().join("fix/.git")).unwrap();
        let inside = home.path().join("web/.git/worktrees/fix");
        std::io::Write::write_all(&mut link, format!("gitdir: {}\n", inside.display()).as_bytes())
            .unwrap();

        let web = home.path().join("web").to_str().unwrap().to_owned();
        let mut projects = in_wsl();
        assert_eq!(projects.of("C:\\web\\.tool\\worktrees\\fix\\src"), "/mnt/c/web");
        assert_eq!(projects.of("/nowhere/web/.worktrees/fix"), "/nowhere/web");
        assert_eq!(projects.of("/nowhere/worktrees/fix"), "/nowhere/worktrees/fix");
        assert_eq!(projects.of("/nowhere/.tool/worktrees"), "/nowhere/.tool/worktrees");
        for place in ["web/src/deep", "fix", "web/.tool/worktrees/fix"] {
            assert_eq!(projects.of(home.path().join(place).to_str().unwrap()), web, "{place}");
        }
        assert_eq!(projects.of("/nowhere/else"), "/nowhere/else");
    }

    fn in_wsl() -> Projects {
        Projects { is_mounted: |_| true, ..Projects::default() }
    }

    #[test]
    fn without_wsl_a_path_of_windows_stays_one() {
        let check = |path: &str, expected: &str| {
            let mut projects = Projects { is_mounted: |_| false, ..Projects::default() };
            assert_eq!(projects.of(path), expected, "{path}");
        };
        check(r"C:\src\web", r"C:\src\web");
        check(r"c:/src/web/", r"C:\src\web");
        check(r"\\?\C:\src\web", r"C:\src\web");
        check(r"D:\", r"D:\");
        check("/mnt/c/src/web", "/mnt/c/src/web");
        check("/home/c:/web", "/home/c:/web");
    }

    #[test]
    fn both_sides_of_wsl_name_one_project() {
        for path in [
            r"C:\src\web",
            r"c:\src\web\",
            "c:/src/web",
            r"C:/src\web",
            r"\\?\C:\src\web",
            "/mnt/c/src/web",
            "/mnt/c/src/web/",
            r"\\wsl$\Debian\mnt\c\src\web",
        ] {
            assert_eq!(one_name(path), "/mnt/c/src/web", "{path}");
            assert_eq!(in_wsl().of(path), "/mnt/c/src/web", "{path}");
        }
        for path in [
            r"\\wsl$\Debian\home\mara",
            r"\\wsl.localhost\Debian\home\mara\",
            r"\\WSL.LOCALHOST\Debian\home\mara",
            r"\\?\UNC\wsl$\Debian\home\mara",
            "//wsl$/Debian/home/mara",
            "/home/mara",
            "/home/mara/",
        ] {
            assert_eq!(one_name(path), "/home/mara", "{path}");
        }
        let roots = [(r"C:\", "/mnt/c"), (r"\\wsl$\Debian", "/"), ("/", "/"), ("", "")];
        for (path, expected) in roots {
            assert_eq!(one_name(path), expected, "{path}");
        }
        // Paths that only resemble these forms stay unchanged.
        for path in [r"\\server\share\web", "/home/c:/web", "/home/a\\b", "//wsl$x/Debian/y"] {
            assert_eq!(one_name(path), path, "{path}");
        }
    }

    #[test]
    fn the_root_around_a_directory_is_the_project() {
        let check = |cwd: &str, root: &str, repository: &str, expected: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let (cwd, root, repository) = (some(cwd), some(root), some(repository));
            let metadata = Session { cwd, repository, root, ..Session::default() };
            assert_eq!(place(&metadata).unwrap_or_default(), expected);
        };
        check("/work/web/api/src", "/work/web", "acme/web", "/work/web");
        check("/work/web", "/work/web", "", "/work/web");
        check("/work/website", "/work/web", "", "/work/website");
        check("/work/web/api", "", "/work/web", "/work/web");
        check("/work/web/api", "", "acme/web", "/work/web/api");
        check(r"C:\work\web\api", r"c:\work\web", "", r"c:\work\web");
        check("/work/web", "/", "", "/work/web");
        check("", "/work/web", "acme/web", "/work/web");
        check("", "", "acme/web", "acme/web");
        check("", "", "", "");
    }

    #[test]
    fn names_are_the_last_part_on_every_system() {
        assert_eq!(name("/home/mara/web/"), "web");
        assert_eq!(name("C:\\Users\\mara\\web"), "web");
    }
}
