//! A working directory as one file name, as agents name the folders of its sessions.

/// Where a connector notes the name of the folder that a project's sessions lie in, among a
/// session's extensions.
pub const PROJECT_DIR: &str = "project_dir";

/// Where a connector notes the directory that such a folder stands for, when the disk tells.
pub const FOUND_DIR: &str = "found_dir";

/// A path as one file name: what is neither letter nor digit becomes a dash.
pub fn encoded(path: &str) -> String {
    path.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect()
}

/// The path that such a name most likely stands for. It is a guess: a dash of the path itself
/// reads like a separator. `None` for names of another kind.
pub fn decoded(name: &str) -> Option<String> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    let (root, rest) = match name.split_once('-')? {
        ("", rest) => ("/".to_owned(), rest),
        (drive, rest) if drive.len() == 1 => (format!("{drive}:/"), rest.strip_prefix('-')?),
        _ => return None,
    };
    // Two dashes are a separator and the dot of a hidden folder.
    let is_path = !rest.is_empty() && !rest.starts_with('-');
    is_path.then(|| root + &rest.replace("--", "/.").replace('-', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_one_name() {
        assert_eq!(encoded("/home/user/my_project.rs"), "-home-user-my-project-rs");
    }

    #[test]
    fn a_name_is_read_as_the_path_it_most_likely_is() {
        let check = |name: &str, path: Option<&str>| assert_eq!(decoded(name).as_deref(), path);
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
