//! Companion files in the directory of a session: workspace, editor metadata, checkpoints, plan.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{AGENT, yaml};
use crate::connectors::formats::copilot_store::{SECTIONS, checkpoint_text};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{BorrowedText, lenient, parse_json};
use crate::connectors::{Source, Stamp};
use crate::model::{Extensions, Json, Session, Timestamp, TitleRank};

/// Size limit of companion files. Larger files are not companions and are not read.
const MAX_COMPANION: u64 = 1 << 20;

/// Size limit of documents. Longer ones are truncated, with a marker.
const MAX_DOCUMENT: u64 = 4 << 20;

const WORKSPACE: &str = "workspace.yaml";
const EDITOR: &str = "vscode.metadata.json";
const CHECKPOINTS: &str = "checkpoints";

/// Copies of the user's files from before each change. Only checked for existence, never opened.
const SNAPSHOTS: &str = "rewind-snapshots";

/// Documents beside the log, with their names in the journal. The first summarizes the session.
const DOCUMENTS: &[(&str, &str)] = &[("index.md", "index"), ("plan.md", "plan")];

/// Directories of files that the agent wrote for the session: designs, notes, findings.
const ARTIFACTS: &[&str] = &["files", "research"];

/// Maximum number of artifacts read per session.
const MAX_ARTIFACTS: usize = 64;

/// The contents of a session's directory, without its log.
pub(super) struct SessionDirectory {
    /// The session metadata and documents found in the directory.
    pub(super) session: Session,
    /// One reason for each file that could not be parsed.
    pub(super) broken: Vec<&'static str>,
}

/// Extends the stamp of a log with the stamps of its companion files.
pub(super) fn stamp_with_companions(stamp: Stamp, directory: &Path) -> Stamp {
    let names = [WORKSPACE, EDITOR, CHECKPOINTS, "checkpoints/index.md", SNAPSHOTS];
    let documents = DOCUMENTS.iter().map(|(file, _)| *file);
    let companions = names.into_iter().chain(documents).chain(ARTIFACTS.iter().copied());
    let stamp = companions.fold(stamp, |stamp, name| stamp.with_companion(&directory.join(name)));
    list_artifacts(directory).iter().fold(stamp, |stamp, source| stamp.combine_stamps(source.stamp))
}

/// Reads the companion files in the directory of a session.
pub(super) fn read_session_directory(directory: &Path) -> SessionDirectory {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, name);
    let mut broken = Vec::new();
    if let Some(text) = files::small_text(&directory.join(WORKSPACE), MAX_COMPANION)
        && !add_workspace(&text, &mut session)
    {
        broken.push("workspace.yaml is not a mapping");
    }
    if let Some(text) = files::small_text(&directory.join(EDITOR), MAX_COMPANION)
        && !add_editor(&text, &mut session)
    {
        broken.push("vscode.metadata.json is not a JSON object");
    }
    let (summary, others) = DOCUMENTS.split_at(1);
    for (file, name) in summary {
        add_document(&directory.join(file), name, &mut session);
    }
    add_checkpoints(&directory.join(CHECKPOINTS), &mut session, &mut broken);
    for (file, name) in others {
        add_document(&directory.join(file), name, &mut session);
    }
    add_artifacts(directory, &mut session);
    if files::is_dir(&directory.join(SNAPSHOTS)) {
        session.extensions.insert("rewind_snapshots".into(), Json::from_value(&true));
    }
    SessionDirectory { session, broken }
}

/// Lists the files that the agent wrote for the session, sorted by path.
fn list_artifacts(directory: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ARTIFACTS {
        let folder = directory.join(folder);
        if files::is_dir(&folder) {
            found.extend(files::walk_files(&folder, &|_| true).unwrap_or_default());
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.truncate(MAX_ARTIFACTS);
    found
}

/// Adds the text files among the artifacts, each named by its path in the directory.
fn add_artifacts(directory: &Path, session: &mut Session) {
    for Source { path, .. } in list_artifacts(directory) {
        let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy();
        let text = files::small_text(&path, MAX_COMPANION).filter(|text| !text.contains('\0'));
        let text = text.filter(|text| !text.trim().is_empty());
        session.documents.extend(text.map(|text| (name.replace('\\', "/"), text)));
    }
}

/// Adds the session times from the workspace file, for sessions without a log.
pub(super) fn add_times(session: &mut Session) {
    #[derive(Deserialize)]
    struct Times {
        created_at: Option<String>,
        updated_at: Option<String>,
    }
    let times = session.extensions.get("workspace").and_then(Json::parse_as::<Times>);
    let Some(times) = times else { return };
    session.extend_time_span(times.created_at.and_then(|text| Timestamp::parse_iso_time(&text)));
    session.extend_time_span(times.updated_at.and_then(|text| Timestamp::parse_iso_time(&text)));
}

/// Adds the entries of `workspace.yaml`. Returns `false` when the text is not a mapping.
fn add_workspace(text: &str, session: &mut Session) -> bool {
    let mut rest = BTreeMap::new();
    let mut is_renamed = false;
    let mut git_root = None;
    let mut title = String::new();
    let entries = yaml::parse_flat_mapping(text);
    let is_read = !entries.is_empty() || text.trim().is_empty();
    for (key, value) in entries.into_iter().filter(|(_, value)| !value.is_empty()) {
        match key.as_str() {
            "id" if value == session.id.native => {}
            "cwd" => session.cwd = Some(value),
            "repository" => session.repository = Some(value),
            "branch" => session.branch = Some(value),
            "name" => title = value,
            "summary" => session.add_title(TitleRank::Summary, value),
            _ => {
                is_renamed |= key == "user_named" && value == "true";
                if key == "git_root" {
                    git_root = Some(value.clone());
                }
                rest.insert(key, value);
            }
        }
    }
    session.root = session.root.take().or(git_root.clone());
    session.repository = session.repository.take().or(git_root);
    session.add_title(if is_renamed { TitleRank::Named } else { TitleRank::Generated }, title);
    session.extensions.insert("workspace".into(), Json::from_value(&rest));
    is_read
}

/// Adds the metadata VS Code writes for a session it drives. Returns `false` when the text is not
/// a JSON object. A title from here takes precedence over all others.
fn add_editor(text: &str, session: &mut Session) -> bool {
    lenient! {
        struct Editor<'a> {
            "customTitle" custom_title: Option<BorrowedText<'a>>,
            "workspaceFolder" workspace_folder: Option<FolderEntry<'a>>,
            "repositoryProperties" repository_properties: Option<CopilotRepository<'a>>,
        }
    }
    lenient! {
        struct FolderEntry<'a> {
            "folderPath" folder_path: Option<BorrowedText<'a>>,
        }
    }
    lenient! {
        struct CopilotRepository<'a> {
            "repositoryPath" repository_path: Option<BorrowedText<'a>>,
            "branchName" branch_name: Option<BorrowedText<'a>>,
        }
    }
    let Ok(all) = serde_json::from_str::<Extensions>(text) else { return false };
    if !all.is_empty() {
        session.extensions.insert("vscode".into(), Json::from_value(&all));
    }
    let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
    let editor: Editor<'_> = parse_json(text).unwrap_or_default();
    session.add_title(TitleRank::Named, owned(editor.custom_title).unwrap_or_default());
    let folder = editor.workspace_folder.and_then(|folder| owned(folder.folder_path));
    session.cwd = session.cwd.take().or(folder);
    if let Some(repository) = editor.repository_properties {
        let path = owned(repository.repository_path);
        session.repository = session.repository.take().or(path);
        session.branch = session.branch.take().or(owned(repository.branch_name));
    }
    true
}

fn add_document(path: &Path, name: &str, session: &mut Session) {
    let text = files::text_up_to(path, MAX_DOCUMENT).filter(|text| !text.trim().is_empty());
    session.documents.extend(text.map(|text| (name.to_owned(), text)));
}

fn add_checkpoints(directory: &Path, session: &mut Session, broken: &mut Vec<&'static str>) {
    let Ok(entries) = files::directory_entries(directory) else { return };
    let names: Vec<String> = entries
        .iter()
        .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let index = files::small_text(&directory.join("index.md"), MAX_COMPANION).unwrap_or_default();
    for name in &names {
        let path = directory.join(name);
        let document = match name.rsplit_once('.') {
            Some((stem, "md")) if name != "index.md" => {
                parse_markdown_checkpoint(&path, stem, &index)
            }
            Some((stem, "json")) => {
                let document = parse_json_checkpoint(&path, stem);
                if document.is_none() {
                    broken.push("a checkpoint is not a JSON object");
                }
                document
            }
            _ => None,
        };
        session.documents.extend(document);
    }
    // The index is usually a table of the checkpoints; one in prose is a summary of the session.
    if !index.lines().any(|line| line.starts_with('|')) {
        add_document(&directory.join("index.md"), "index", session);
    }
}

fn parse_markdown_checkpoint(path: &Path, stem: &str, index: &str) -> Option<(String, String)> {
    let text = files::text_up_to(path, MAX_DOCUMENT)?;
    let number = stem.split('-').next().and_then(|number| number.parse::<u64>().ok());
    let name = number.map_or_else(|| stem.to_owned(), |number| number.to_string());
    let title = title_in(index, &format!("{stem}.md"));
    Some((
        format!("checkpoint {name}"),
        checkpoint_text(title.as_deref(), &split_checkpoint_sections(&text)),
    ))
}

/// Reads a checkpoint in its documented JSON form.
fn parse_json_checkpoint(path: &Path, stem: &str) -> Option<(String, String)> {
    let text = files::text_up_to(path, MAX_DOCUMENT)?;
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).ok()?;
    let field = |key: &str| match fields.get(key) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Array(items)) => {
            let lines = items.iter().map(|item| match item.as_str() {
                Some(text) => format!("- {text}"),
                None => format!("- {item}"),
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Some(other) if !other.is_null() => other.to_string(),
        _ => String::new(),
    };
    let parts: Vec<(&str, String)> =
        SECTIONS.iter().map(|(key, heading)| (*heading, field(key))).collect();
    let title = Some(field("title")).filter(|title| !title.is_empty());
    Some((format!("checkpoint {stem}"), checkpoint_text(title.as_deref(), &parts)))
}

/// Finds a checkpoint's title in the table of checkpoints: `| 1 | Title | file.md |`.
fn title_in(index: &str, file: &str) -> Option<String> {
    index.lines().find_map(|line| {
        let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        let (row, name) = row.rsplit_once('|')?;
        let (_, title) = row.split_once('|')?;
        (name.trim() == file).then(|| title.trim().to_owned())
    })
}

/// Splits a checkpoint into its tagged sections. Text outside of them has no heading.
fn split_checkpoint_sections(text: &str) -> Vec<(&'static str, String)> {
    let mut parts: Vec<(&'static str, String)> = vec![("", String::new())];
    for line in text.lines() {
        let tag = line.trim().strip_prefix('<').and_then(|line| line.strip_suffix('>'));
        let tag = tag.map(|tag| (tag.trim_start_matches('/'), tag.starts_with('/')));
        let known = tag.and_then(|(tag, closes)| {
            let section = SECTIONS.iter().find(|(key, _)| *key == tag)?;
            Some(if closes { "" } else { section.1 })
        });
        match (known, parts.last_mut()) {
            (Some(heading), _) => parts.push((heading, String::new())),
            (None, Some((_, part))) => {
                part.push_str(line);
                part.push('\n');
            }
            (None, None) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_parts_become_headings_and_other_text_stays() {
        let text =
            "<overview>\nAll <b>well</b>.\n</overview>\n\n<next_steps>\n1. Go\n</next_steps>\nend";
        assert_eq!(
            checkpoint_text(None, &split_checkpoint_sections(text)),
            "## Overview\n\nAll <b>well</b>.\n\n## Next steps\n\n1. Go\n\nend\n"
        );
    }

    #[test]
    fn titles_are_found_by_file_and_may_hold_bars() {
        let index = "| # | Title | File |\n|---|---|---|\n| 1 | a | b | 001-a.md |\n";
        assert_eq!(title_in(index, "001-a.md").as_deref(), Some("a | b"));
        assert_eq!(title_in(index, "002-a.md"), None);
    }

    #[test]
    fn a_title_of_the_editor_goes_before_one_of_the_workspace() {
        let mut session = Session::new("x", "1");
        add_workspace("name: mine\nuser_named: true\nsummary: what for\n", &mut session);
        add_editor(r#"{"customTitle":"theirs"}"#, &mut session);
        let titles: Vec<_> =
            session.titles.iter().map(|title| (title.rank, &*title.text)).collect();
        assert_eq!(titles, [(TitleRank::Named, "theirs"), (TitleRank::Summary, "what for")]);
    }
}
