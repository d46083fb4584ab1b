//! Files common to VS Code and programs built from it: user directories, the folder of a workspace
//! storage, and the key-value tables of the state databases.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files;
use super::sqlite::{self, Database};
use crate::connectors::{Machine, Os};
use crate::error::Result;

/// File name of the state database of a workspace, or of the whole program in `globalStorage`.
pub const STATE: &str = "state.vscdb";

/// Settings directories of VS Code and of the programs built from it that run its extensions.
const EXTENSION_HOSTS: &[&str] = &[
    "Code",
    "Code - Insiders",
    "Code - OSS",
    "Code - Exploration",
    "VSCodium",
    "VSCodium - Insiders",
    "Cursor",
    "Cursor Nightly",
    "Windsurf",
    "Windsurf - Next",
    "Antigravity",
    "Kiro",
    "Positron",
    "Trae",
];

/// User directories of servers, which contain the same tree.
pub const SERVERS: &[&str] = &[
    ".vscode-server/data/User",
    ".vscode-server-insiders/data/User",
    ".vscode-server-oss/data/User",
    ".vscodium-server/data/User",
    ".vscode-remote/data/User",
    ".local/share/code-server/User",
];

/// User directories of servers of programs built from VS Code.
const OTHER_SERVERS: &[&str] = &[".cursor-server/data/User", ".windsurf-server/data/User"];

/// User directories inside the sandboxes of Linux.
pub const SANDBOXES: &[&str] = &[
    ".var/app/com.visualstudio.code/config/Code/User",
    ".var/app/com.visualstudio.code-oss/config/Code - OSS/User",
    ".var/app/com.vscodium.codium/config/VSCodium/User",
];

/// Size limit of `workspace.json`. A larger file has another format.
const MAX_WORKSPACE: u64 = 1 << 20;

/// Returns the directory in which desktop programs keep their settings on this machine.
pub fn settings_directory(machine: &Machine) -> PathBuf {
    match machine.os {
        Os::Linux => {
            machine.env_path("XDG_CONFIG_HOME").unwrap_or_else(|| machine.home.join(".config"))
        }
        Os::MacOs => machine.home.join("Library/Application Support"),
        Os::Windows => {
            machine.env_path("APPDATA").unwrap_or_else(|| machine.home.join("AppData/Roaming"))
        }
    }
}

/// Returns the user directory of each product, by the name of its settings directory (`Code`,
/// `VSCodium`).
pub fn product_user_directories(machine: &Machine, products: &[&str]) -> Vec<PathBuf> {
    let settings = settings_directory(machine);
    products.iter().map(|product| settings.join(product).join("User")).collect()
}

/// Returns the directories in which an extension keeps its files, in every program that can run it.
pub fn extension_directories(machine: &Machine, extension: &str) -> Vec<PathBuf> {
    let mut users = product_user_directories(machine, EXTENSION_HOSTS);
    let servers = SERVERS.iter().chain(OTHER_SERVERS);
    users.extend(servers.map(|server| machine.home.join(server)));
    if machine.os == Os::Linux {
        users.extend(SANDBOXES.iter().map(|sandbox| machine.home.join(sandbox)));
    }
    users.extend(machine.env_path("VSCODE_PORTABLE").map(|data| data.join("user-data/User")));
    users.into_iter().map(|user| user.join("globalStorage").join(extension)).collect()
}

/// Returns the user directory at, above or below a configured path: the user directory itself, a
/// storage directory in it, a `--user-data-dir`, or a server's home.
pub fn user_directory(root: &Path) -> PathBuf {
    let inside = ["User", "data/User", "user-data/User", "data/user-data/User"];
    let found = inside.iter().map(|place| root.join(place)).find(|place| files::is_dir(place));
    found.unwrap_or_else(|| match root.file_name() {
        Some(name) if name == "workspaceStorage" || name == "globalStorage" => {
            root.parent().unwrap_or(root).to_owned()
        }
        _ => root.to_owned(),
    })
}

/// Lists the workspace storages of a user directory, in a stable order.
pub fn workspace_storages(user: &Path) -> Vec<PathBuf> {
    let Ok(entries) = files::observed_listing(&user.join("workspaceStorage")) else {
        return Vec::new();
    };
    let mut all: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| files::is_dir(path)).collect();
    all.sort();
    all
}

/// Returns the path of the file that names the folder of a workspace storage. A second window on
/// the same folder writes to `<id>-1`, which has no such file of its own.
pub fn workspace_file(storage: &Path) -> PathBuf {
    let own = storage.join("workspace.json");
    if files::path_exists(&own) {
        return own;
    }
    let name = storage.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('-') {
        Some((id, count)) if !id.is_empty() && count.bytes().all(|one| one.is_ascii_digit()) => {
            storage.with_file_name(id).join("workspace.json")
        }
        _ => own,
    }
}

/// Returns the folder (or the `.code-workspace` file) of a workspace storage.
pub fn storage_folder(storage: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct WorkspaceFile<'a> {
        #[serde(borrow)]
        folder: Option<Cow<'a, str>>,
        #[serde(borrow, rename = "workspace")]
        file: Option<Cow<'a, str>>,
        #[serde(borrow, rename = "configuration")]
        old_file: Option<Cow<'a, str>>,
    }
    let text = files::small_text(&workspace_file(storage), MAX_WORKSPACE)?;
    let text = text.trim_start_matches('\u{feff}');
    let workspace: WorkspaceFile<'_> = serde_json::from_str(text).ok()?;
    let uri = workspace.folder.or(workspace.file).or(workspace.old_file)?;
    Some(path_from_uri(&uri)).filter(|path| !path.is_empty())
}

/// Converts a `file:` URI to a path. Any other URI refers to another machine and is returned
/// unchanged.
pub fn path_from_uri(uri: &str) -> String {
    let Some(rest) = uri.strip_prefix("file://") else { return uri.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let decoded = percent_decode(rest);
    match decoded.as_bytes() {
        [b'/', drive, b':', ..] if drive.is_ascii_alphabetic() => decoded[1..].to_owned(),
        [b'/', ..] => decoded,
        // A network share: the host precedes the path.
        _ => format!("//{decoded}"),
    }
}

/// Decodes percent-encoding such as `%20`.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// A value of a key-value table.
pub enum KeyValueItem {
    /// The table or key does not exist, or the value is not a text.
    Absent,
    /// The value exceeds the size limit.
    TooLong,
    /// The bytes of the value.
    Value(Vec<u8>),
}

/// Reads one value of a key-value table (`ItemTable`, or another with the same columns).
pub fn read_key_value_item(database: &Database, table: &str, key: &str) -> Result<KeyValueItem> {
    let columns = database.table_columns(table)?;
    if !["key", "value"].iter().all(|name| columns.iter().any(|column| column == name)) {
        return Ok(KeyValueItem::Absent);
    }
    let sql = format!(
        "SELECT {}, octet_length(value) FROM \"{}\" WHERE key = ?1",
        sqlite::size_bounded_column("value"),
        table.replace('"', "\"\"")
    );
    let mut item = KeyValueItem::Absent;
    database.for_each_row(&sql, [key], |row| {
        if let Some(bytes) = row.get_ref(0).ok().and_then(sqlite::format_bytes) {
            item = KeyValueItem::Value(bytes.to_vec());
        } else if row.get(1).is_ok_and(|length: i64| length > sqlite::MAX_VALUE_BYTES as i64) {
            item = KeyValueItem::TooLong;
        }
        Ok(())
    })?;
    Ok(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_files_become_paths_and_others_stay() {
        let check = |uri: &str, expected: &str| assert_eq!(path_from_uri(uri), expected);
        check("file:///home/a%20b/%28c%29", "/home/a b/(c)");
        check("file:///c%3A/Users/a/100%25", "c:/Users/a/100%");
        check("file:///C:/Users/a", "C:/Users/a");
        check("file://server/share/a", "//server/share/a");
        check("file:///home/%E4%BD%A0/50%", "/home/你/50%");
        check("file:///home/a%2", "/home/a%2");
        check("vscode-remote://ssh-remote%2Bhost/srv/a", "vscode-remote://ssh-remote%2Bhost/srv/a");
        check("untitled:x", "untitled:x");
    }

    #[test]
    fn settings_are_where_each_system_keeps_them() {
        let check = |os: Os, env: &[(&str, &str)], expected: &str| {
            let env = env.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let machine = Machine { home: "/h".into(), os, env, projects: Vec::new() };
            assert_eq!(product_user_directories(&machine, &["Code"]), [PathBuf::from(expected)]);
        };
        check(Os::Linux, &[], "/h/.config/Code/User");
        check(Os::Linux, &[("XDG_CONFIG_HOME", "~/x")], "/h/x/Code/User");
        check(Os::MacOs, &[], "/h/Library/Application Support/Code/User");
        check(Os::Windows, &[], "/h/AppData/Roaming/Code/User");
        check(Os::Windows, &[("APPDATA", "/r")], "/r/Code/User");
    }

    #[test]
    fn the_storage_of_a_second_window_borrows_the_folder_of_the_first() {
        let home = tempfile::tempdir().unwrap();
        let storage = home.path().join("-30d1");
        std::fs::create_dir(&storage).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a private home")]
        std::fs::write(storage.join("workspace.json"), r#"{"folder":"file:///a"}"#).unwrap();
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(storage_folder(&home.path().join(name)).as_deref(), expected, "{name}");
        };
        check("-30d1", Some("/a"));
        check("-30d1-1", Some("/a"));
        check("-30d1-x", None);
        check("1768213963880", None);
    }
}
