//! Encodes a working directory as one file name, as agents name the directories of its sessions.

/// Extension of a session with the name of the directory that holds the project's sessions.
pub const PROJECT_DIR: &str = "project_dir";

/// Extension of a session with the working directory that such a name stands for, if it was found
/// on disk.
pub const FOUND_DIR: &str = "found_dir";

/// Encodes a path as one file name: every character that is neither letter nor digit becomes a
/// dash.
pub fn encode_path_as_name(path: &str) -> String {
    path.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect()
}

/// Returns the path that an encoded name most likely stands for. It is a guess, because a dash of
/// the path itself looks like a separator. `None` for other names.
pub fn decode_path_from_name(name: &str) -> Option<String> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    let (root, rest) = match name.split_once('-')? {
        ("", rest) => ("/".to_owned(), rest),
        (drive, rest) if drive.len() == 1 => (format!("{drive}:/"), rest.strip_prefix('-')?),
        _ => return None,
    };
    // Two dashes are a separator and the dot of a hidden directory.
    let is_path = !rest.is_empty() && !rest.starts_with('-');
    is_path.then(|| root + &rest.replace("--", "/.").replace('-', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_one_name() {
        assert_eq!(encode_path_as_name("/home/user/my_project.rs"), "-home-user-my-project-rs");
    }

    #[test]
    fn a_name_is_read_as_the_path_it_most_likely_is() {
        let check = |name: &str, path: Option<&str>| {
            assert_eq!(decode_path_from_name(name).as_deref(), path);
        };
        check("-home-user-project", Some("/home/user/project"));
        check("-home-user--config-nvim", Some("/home/user/.config/nvim"));
        check("C--Users-x", Some("C:/Users/x"));
        check("--wsl-localhost-Ubuntu-home", None);
        check("3f2a9c", None);
        check("web-shop", None);
        check("-", None);
        check("", None);
    }
}
