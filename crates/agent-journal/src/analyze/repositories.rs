//! Maps directories to repositories: clones and worktrees of one repository are recognized by the
//! name that their sessions record.

use std::collections::{BTreeMap, HashMap};

use crate::store::SessionActivity;

/// The repository of each directory, if sessions name one.
pub(super) struct Repositories(HashMap<String, String>);

impl Repositories {
    /// Builds the map from the names that sessions record. If they differ, the most frequent name
    /// wins.
    pub(super) fn from_recorded_names(
        activity: &[SessionActivity],
        names: &HashMap<u64, String>,
    ) -> Self {
        let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for one in activity {
            let name = names.get(&one.key).and_then(|text| repository_name(text));
            if let Some((path, name)) = one.project_path.as_deref().zip(name) {
                *counts.entry((path, name)).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| *count);
        let most = counts.into_iter().map(|((path, name), _)| (path.to_owned(), name));
        Self(most.collect())
    }

    /// Returns the repository of a directory; a directory without one is its own repository.
    pub(super) fn repository_of<'p>(&'p self, path: &'p str) -> &'p str {
        self.0.get(path).map_or(path, String::as_str)
    }
}

/// Returns the name of a repository as `owner/name`, from a name or a URL; `None` for a directory.
fn repository_name(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let text = text.strip_suffix(".git").unwrap_or(text);
    if text.starts_with(['/', '\\', '.', '~']) || text.as_bytes().get(1) == Some(&b':') {
        return None;
    }
    let mut parts = text.rsplit(['/', ':']).filter(|part| !part.is_empty());
    let (name, owner) = (parts.next()?, parts.next()?);
    Some(format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_one_name_however_it_is_addressed() {
        for text in [
            "acme/web",
            "acme/web/",
            "https://github.com/acme/web.git",
            "https://example.com/group/acme/web",
            "git@github.com:acme/web.git",
        ] {
            assert_eq!(repository_name(text).as_deref(), Some("acme/web"), "{text}");
        }
        for text in ["/home/mara/web", r"C:\src\web", "", "web", "./web"] {
            assert_eq!(repository_name(text), None, "{text}");
        }
    }
}
