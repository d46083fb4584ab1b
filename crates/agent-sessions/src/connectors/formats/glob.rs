//! Expands path patterns such as `~/src/**/name`: `*` matches a part of one name, `**` any
//! directories in between.
//!
//! `**` does not enter hidden directories, links or the directories where tools put third-party
//! files, and has a depth limit. A pattern must not cause a scan of the whole disk.

use std::path::{Component, Path, PathBuf};

use super::files;
use crate::connectors::{Machine, Source};
use crate::error::{Error, Result};

/// Maximum number of directories that `**` matches.
const MAX_DEPTH: usize = 8;

/// Directories that `**` does not enter, besides hidden ones.
const SKIPPED: [&str; 4] = ["node_modules", "target", "venv", "__pycache__"];

/// Returns whether a path is a pattern.
pub fn is_pattern(path: &Path) -> bool {
    path.components().any(|part| is_wild(&part))
}

/// Returns the directory from which a pattern is expanded, which must exist for the pattern to
/// match. The base of a path without wildcards is the path itself.
pub fn pattern_base(path: &Path) -> PathBuf {
    path.components().take_while(|part| !is_wild(part)).collect()
}

/// Resolves a relative pattern against every known project and the home directory. `None` for an
/// absolute path or a path without wildcards.
pub fn resolve_against_projects(path: &Path, machine: &Machine) -> Option<Vec<PathBuf>> {
    if path.has_root() || !is_pattern(path) {
        return None;
    }
    // A project may be the home directory or contain it. There `**` must not scan the whole tree.
    let shallow: PathBuf = path.components().filter(|part| part.as_os_str() != "**").collect();
    let place = |project: &PathBuf| {
        let is_home = machine.home.starts_with(project);
        project.join(if is_home { &shallow } else { path })
    };
    let mut places: Vec<PathBuf> = machine.projects.iter().map(place).collect();
    places.push(machine.home.join(&shallow));
    places.dedup();
    Some(places)
}

/// Lists the regular files that match a pattern, in a stable order.
pub fn files_matching_pattern(pattern: &Path) -> Result<Vec<Source>> {
    let base = pattern_base(pattern);
    let rest: Vec<String> = pattern
        .components()
        .skip_while(|part| !is_wild(part))
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    files::observed_listing(&base).map_err(Error::read(&base))?;
    let mut found = Vec::new();
    expand_pattern(&base, &rest, 0, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

fn expand_pattern(directory: &Path, pattern: &[String], depth: usize, found: &mut Vec<Source>) {
    let Some((part, rest)) = pattern.split_first() else { return };
    if part == "**" {
        expand_pattern(directory, rest, depth, found);
        if depth < MAX_DEPTH {
            for name in subdirectory_names(directory).iter().filter(|name| may_enter(name)) {
                expand_pattern(&directory.join(name), pattern, depth + 1, found);
            }
        }
    } else if !part.contains('*') {
        let place = directory.join(part);
        if rest.is_empty() {
            found.extend(files::source_from_file(place));
        } else if files::is_dir(&place) {
            expand_pattern(&place, rest, depth, found);
        }
    } else if rest.is_empty() {
        let names = entry_names(directory).into_iter().filter(|name| matches_component(part, name));
        found.extend(names.filter_map(|name| files::source_from_file(directory.join(name))));
    } else {
        for name in
            subdirectory_names(directory).iter().filter(|name| matches_component(part, name))
        {
            expand_pattern(&directory.join(name), rest, depth, found);
        }
    }
}

fn entry_names(directory: &Path) -> Vec<String> {
    let Ok(entries) = files::observed_listing(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Lists the names of directories. Links are left out, because only they can form loops.
fn subdirectory_names(directory: &Path) -> Vec<String> {
    let Ok(entries) = files::observed_listing(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn may_enter(name: &str) -> bool {
    !name.starts_with('.') && !SKIPPED.contains(&name)
}

fn is_wild(part: &Component<'_>) -> bool {
    matches!(part, Component::Normal(name) if name.as_encoded_bytes().contains(&b'*'))
}

/// Returns whether a name matches one component of a pattern. As in a shell, a hidden name matches
/// only a pattern that begins with a dot.
fn matches_component(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_star_stands_for_any_part_of_one_name() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches_component(pattern, name), expected, "{pattern} {name}");
        };
        check("*", "any", true);
        check("*", ".hidden", false);
        check(".a*.md", ".aider.md", true);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("*aa", "aaa", true);
        check("ab*ba", "aba", false);
        check("plain", "plain", true);
        check("plain", "plainer", false);
    }

    #[test]
    fn two_stars_reach_below_but_not_into_what_tools_put_there() {
        let home = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap();
        };
        for place in ["", "a/", "a/b/c/", "a/node_modules/x/", "a/.git/", "target/", "other/a/"] {
            make(&format!("src/{place}.log"));
        }
        make("src/1/2/3/4/5/6/7/8/9/.log");
        let check = |pattern: &str, expected: &[&str]| {
            let found = files_matching_pattern(&home.path().join(pattern)).unwrap();
            let found: Vec<_> =
                found.iter().map(|one| one.path.strip_prefix(home.path()).unwrap()).collect();
            assert_eq!(found, expected.iter().map(Path::new).collect::<Vec<_>>(), "{pattern}");
        };
        check("src/**/.log", &["src/.log", "src/a/.log", "src/a/b/c/.log", "src/other/a/.log"]);
        check("src/*/a/.log", &["src/other/a/.log"]);
        check("src/**/a/.l*", &["src/a/.log", "src/other/a/.log"]);
        check("src/*/none", &[]);
    }

    #[test]
    fn a_pattern_that_begins_nowhere_is_about_projects_and_the_home_itself() {
        let machine = Machine {
            home: "/home/mara".into(),
            projects: ["/home/mara/web", "/srv/api", "/home"].map(PathBuf::from).into(),
            ..Machine::default()
        };
        let places = |path: &str| resolve_against_projects(Path::new(path), &machine);
        let all = ["/home/mara/web/**/x", "/srv/api/**/x", "/home/x", "/home/mara/x"];
        assert_eq!(places("**/x"), Some(all.map(PathBuf::from).into()));
        assert_eq!(places("/src/**/x"), None);
        assert_eq!(places("src/x"), None);
    }

    #[test]
    fn a_pattern_starts_where_its_first_star_is() {
        assert_eq!(pattern_base(Path::new("/home/mara/src/**/x")), Path::new("/home/mara/src"));
        assert_eq!(pattern_base(Path::new("/home/mara/x")), Path::new("/home/mara/x"));
        assert!(files_matching_pattern(Path::new("/nowhere/at/all/**/x")).is_err());
    }
}
