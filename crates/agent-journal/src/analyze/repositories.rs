//! Which directories belong to one repository: clones and working directories of it, by the name
//! that the sessions in them record.

use std::collections::{BTreeMap, HashMap};

use crate::store::Doings;

/// The repository of each directory, where one is named.
pub(super) struct Repositories(HashMap<String, String>);

impl Repositories {
    /// Learns from what sessions name. Where they differ, most of them are right.
    pub(super) fn of(doings: &[Doings], names: &HashMap<u64, String>) -> Self {
        let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for one in doings {
            let name = names.get(&one.key).and_then(|text| name(text));
            if let Some((path, name)) = one.project_path.as_deref().zip(name) {
                *counts.entry((path, name)).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| *count);
        let most = counts.into_iter().map(|((path, name), _)| (path.to_owned(), name));
        Self(most.collect())
    }

    /// The repository of a directory; one that none is named of stands for itself.
    pub(super) fn around<'p>(&'p self, path: &'p str) -> &'p str {
        self.0.get(path).map_or(path, String::as_str)
    }
}

/// The name of a repository as `owner/name`, from a name or an address; a directory has none.
fn name(text: &str) -> Option<String> {
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
            assert_eq!(name(text).as_deref(), Some("acme/web"), "{text}");
        }
        for text in ["/home/mara/web", r"C:\src\web", "", "web", "./web"] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
