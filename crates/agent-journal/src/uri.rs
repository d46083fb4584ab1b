//! Builds `file:` URIs for SQLite.

use std::path::Path;

/// Returns the URI of a file with a parameter such as `mode=ro`.
pub(crate) fn file_uri(path: &Path, setting: &str) -> String {
    format!("file:{}?{setting}", escape_uri_path(path))
}

/// Escapes the special characters of a path in a `file:` URI.
fn escape_uri_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if cfg!(windows) { escape_windows(bytes) } else { escape_bytes(bytes) }
}

/// Escapes a Windows path. Four slashes precede the server of a network share.
fn escape_windows(path: &[u8]) -> String {
    let (root, rest) = if let Some(shared) = path.strip_prefix(br"\\?\UNC\") {
        ("////", shared)
    } else if let Some(local) = path.strip_prefix(br"\\?\") {
        ("/", local)
    } else if let Some(shared) = path.strip_prefix(br"\\").or(path.strip_prefix(b"//")) {
        ("////", shared)
    } else {
        ("/", path)
    };
    root.to_owned() + &escape_bytes(rest).replace('\\', "/")
}

fn escape_bytes(path: &[u8]) -> String {
    let mut uri = String::new();
    for byte in path {
        match byte {
            // A path need not be UTF-8.
            b'%' | b'?' | b'#' | 0x80.. => uri.push_str(&format!("%{byte:02x}")),
            _ => uri.push(char::from(*byte)),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_windows_is_told_as_sqlite_understands_it() {
        let check = |path: &str, uri: &str| assert_eq!(escape_windows(path.as_bytes()), uri);
        check(r"C:\Users\mara\50% #1.db", "/C:/Users/mara/50%25 %231.db");
        check(r"\\server\share\a.db", "////server/share/a.db");
        check("//server/share/a.db", "////server/share/a.db");
        check(r"\\wsl.localhost\Debian\home\é.db", "////wsl.localhost/Debian/home/%c3%a9.db");
        check(r"\\?\C:\a.db", "/C:/a.db");
        check(r"\\?\UNC\server\share\a.db", "////server/share/a.db");
    }
}
