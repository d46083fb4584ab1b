//! Proposes the declaration of an agent from files of an unknown format.
//!
//! The files are grouped by format and name, the fields of their records are compared with the
//! names and values that agents usually write, and the proposal is measured with the reader that
//! would use it. The names are those of roles, times, tokens and so on; no agent is named here.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::convert::{self, ConvertedRecord};
use super::declaration::{AgentDeclaration, DeclaredFormat};
use super::infer::DeclarationDraft;
use crate::connectors::formats::jsonl::{self, LineReader};
use crate::connectors::formats::source_file::SourceFile;
use crate::connectors::formats::sqlite;
use crate::connectors::formats::{files, rows};
use crate::error::Result;
use crate::model::{Block, Message, Session};

/// Number of bytes by which the format of a file is recognised.
const HEAD_BYTES: u64 = 64 << 10;

/// Maximum number of bytes of records that are examined in one group of files.
const MAX_GROUP_BYTES: usize = 64 << 20;

/// Maximum size of a document that is examined.
const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// Maximum number of groups of files that are examined, the largest first.
const MAX_GROUPS: usize = 24;

/// Number of different file names with one extension above which the names mean nothing.
const MAX_NAMES: usize = 3;

/// A proposed declaration, and the part of a directory that it reads.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LearnedAgent {
    /// The declaration, as it is written in the configuration.
    pub declaration: String,
    /// Files that the declaration names, of all files.
    pub files: LearnedShare,
    /// Their bytes, of the bytes of all files.
    pub file_bytes: LearnedShare,
    /// Records that are understood, of the records in these files.
    pub records: LearnedShare,
    /// Bytes of the values that are understood, of the bytes of these records.
    pub record_bytes: LearnedShare,
}

/// A part of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LearnedShare {
    /// The part.
    pub part: u64,
    /// The whole.
    pub whole: u64,
}

impl LearnedShare {
    fn add(&mut self, part: usize, whole: usize) {
        self.part += part as u64;
        self.whole += whole as u64;
    }
}

/// A file with its format.
struct ExaminedFile {
    /// Path below the directory.
    name: PathBuf,
    path: PathBuf,
    size: u64,
}

/// The place of messages in files of one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordPlace {
    /// Every line.
    Lines,
    /// The values at a path of a document.
    Document { each: String },
    /// The rows of a table, and of the table of their sessions.
    Tables { messages: String, sessions: Option<String> },
}

/// The records of a group of files.
#[derive(Default)]
pub(super) struct RecordSample {
    /// Records that may be messages.
    pub(super) records: Vec<Value>,
    /// Records of sessions, if they are apart from the messages.
    pub(super) sessions: Vec<Value>,
}

/// Proposes a declaration for the files below a directory. `None` if no conversation was recognised.
/// `home` is abbreviated to `~` in the paths.
pub fn learn_agent(directory: &Path, home: &Path) -> Result<Option<LearnedAgent>> {
    let is_wanted = |name: &str| !name.ends_with("-wal") && !name.ends_with("-shm");
    let sources = files::walk_files(directory, &is_wanted)?;
    let all_files = sources.len() as u64;
    let all_bytes: u64 = sources.iter().map(|source| source.stamp.size).sum();
    let mut best: Option<LearnedAgent> = None;
    for (format, group) in group_files(directory, sources) {
        for place in record_places(format, &group) {
            let sample = read_sample(&place, &group);
            let Some(draft) = DeclarationDraft::infer(&sample, &place) else { continue };
            let pattern = file_pattern(directory, home, &group);
            let text = draft.to_toml(&agent_id(directory), &pattern, format);
            let Ok(learned) = toml::from_str::<DeclaredAgents>(&text) else { continue };
            let Some(declaration) = learned.agents.first() else { continue };
            let (records, record_bytes) = measure(declaration, &sample);
            let bytes: u64 = group.iter().map(|file| file.size).sum();
            let agent = LearnedAgent {
                files: LearnedShare { part: group.len() as u64, whole: all_files },
                file_bytes: LearnedShare { part: bytes, whole: all_bytes },
                declaration: text,
                records,
                record_bytes,
            };
            let understood = |agent: &LearnedAgent| agent.record_bytes.part;
            if best.as_ref().is_none_or(|best| understood(best) < understood(&agent)) {
                best = Some(agent);
            }
        }
    }
    Ok(best.filter(|best| best.records.part > 0))
}

/// The part of a configuration that declares agents.
#[derive(serde::Deserialize)]
struct DeclaredAgents {
    agents: Vec<AgentDeclaration>,
}

/// Groups files by format and name, the largest groups first.
fn group_files(
    directory: &Path,
    sources: Vec<crate::connectors::Source>,
) -> Vec<(DeclaredFormat, Vec<ExaminedFile>)> {
    type Extension = String;
    let mut groups: BTreeMap<(String, Extension), BTreeMap<String, Vec<ExaminedFile>>> =
        BTreeMap::new();
    let mut formats = BTreeMap::new();
    for source in sources {
        let Some(format) = recognise_format(&source.path) else { continue };
        let name = source.path.strip_prefix(directory).unwrap_or(&source.path).to_owned();
        let file_name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let extension =
            name.extension().map(|one| one.to_string_lossy().into_owned()).unwrap_or_default();
        let file = ExaminedFile { name, path: source.path, size: source.stamp.size };
        let key = (format!("{format:?}"), extension);
        formats.insert(key.clone(), format);
        groups.entry(key).or_default().entry(name_pattern(&file_name)).or_default().push(file);
    }
    let mut all = Vec::new();
    for (key, names) in groups {
        let format = formats[&key];
        if names.len() > MAX_NAMES {
            // Names that differ in every file are ids; names that recur are kinds of files.
            let (kinds, ids): (Vec<_>, Vec<_>) =
                names.into_values().partition(|files| files.len() > 1);
            all.extend(kinds.into_iter().map(|files| (format, files)));
            all.push((format, ids.into_iter().flatten().collect()));
        } else {
            all.extend(names.into_values().map(|files| (format, files)));
        }
    }
    all.retain(|(_, files)| !files.is_empty());
    all.sort_by_key(|(_, files)| {
        std::cmp::Reverse(files.iter().map(|file| file.size).sum::<u64>())
    });
    all.truncate(MAX_GROUPS);
    all
}

/// Returns the name of a file without its id: `*` stands for everything after the first part that
/// contains a digit.
fn name_pattern(name: &str) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut kept = String::new();
    for part in stem.split_inclusive(|one: char| !one.is_ascii_alphanumeric()) {
        if part.chars().any(|one| one.is_ascii_digit()) {
            return format!("{kept}*.{extension}");
        }
        kept.push_str(part);
    }
    name.to_owned()
}

/// Recognises the format of a file by its first bytes.
fn recognise_format(path: &Path) -> Option<DeclaredFormat> {
    let mut head = Vec::new();
    SourceFile::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    if head.starts_with(b"SQLite format 3\0") {
        return Some(DeclaredFormat::Sqlite);
    }
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let first = text.lines().next().unwrap_or_default();
    let is_line = serde_json::from_str::<Value>(first).is_ok_and(|value| value.is_object());
    let is_named_lines = path.extension().is_some_and(|one| one == "jsonl" || one == "ndjson");
    let has_more = text.trim_end().contains('\n');
    Some(if is_named_lines || (is_line && has_more) {
        DeclaredFormat::Jsonl
    } else {
        DeclaredFormat::Json
    })
}

/// Returns the pattern of the files of a group.
fn file_pattern(directory: &Path, home: &Path, group: &[ExaminedFile]) -> String {
    let parts = |file: &ExaminedFile| -> Vec<String> {
        file.name.iter().map(|part| part.to_string_lossy().into_owned()).collect()
    };
    let all: Vec<Vec<String>> = group.iter().map(parts).collect();
    let depth = all[0].len();
    let mut pattern: Vec<String> = Vec::new();
    if all.iter().all(|one| one.len() == depth) {
        pattern.extend((0..depth).map(|at| common_part(&names_at(&all, at))));
    } else {
        let first = common_part(&names_at(&all, 0));
        pattern.extend((!first.contains('*')).then_some(first));
        pattern.push("**".to_owned());
        let names: Vec<&str> =
            all.iter().filter_map(|one| one.last()).map(String::as_str).collect();
        pattern.push(common_part(&names));
    }
    let base = match directory.strip_prefix(home) {
        Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Ok(below) => format!("~/{}", below.display()),
        Err(_) => directory.display().to_string(),
    };
    format!("{base}/{}", pattern.join("/"))
}

/// Returns the components of all paths at one depth.
fn names_at(paths: &[Vec<String>], depth: usize) -> Vec<&str> {
    paths.iter().map(|parts| parts[depth].as_str()).collect()
}

/// Returns one component of a pattern that matches all names.
fn common_part(names: &[&str]) -> String {
    let first = names.first().copied().unwrap_or_default();
    if names.iter().all(|name| *name == first) && !is_generated(first) {
        return first.to_owned();
    }
    let extension = |name: &str| name.rsplit_once('.').map(|(_, one)| one.to_owned());
    let common = extension(first)
        .filter(|one| names.iter().all(|name| extension(name).as_ref() == Some(one)));
    let hidden = if names.iter().all(|name| name.starts_with('.')) { "." } else { "" };
    common.map_or_else(|| format!("{hidden}*"), |one| format!("{hidden}*.{one}"))
}

/// Returns whether a name looks like an id, a date or an encoded path, which differ between sessions.
fn is_generated(name: &str) -> bool {
    let has_digit = name.chars().any(|one| one.is_ascii_digit());
    let is_number = name.chars().all(|one| one.is_ascii_digit());
    is_number || name.starts_with('-') || name.contains('%') || (has_digit && name.len() >= 12)
}

/// Returns an id for the agent: the name of its directory.
fn agent_id(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let id: String = name
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() { one } else { '-' })
        .collect::<String>()
        .trim_matches('-')
        .chars()
        .take(24)
        .collect();
    let is_taken = super::super::find_connector(&id).is_some();
    if id.is_empty() || is_taken { "my-agent".to_owned() } else { id }
}

/// Lists the places in which a group of files may keep its messages.
fn record_places(format: DeclaredFormat, group: &[ExaminedFile]) -> Vec<RecordPlace> {
    match format {
        DeclaredFormat::Jsonl => vec![RecordPlace::Lines],
        DeclaredFormat::Json => {
            let mut paths = BTreeMap::new();
            for file in group.iter().take(8) {
                if let Some(document) = read_document(file) {
                    collect_lists(&document, "", &mut paths);
                }
            }
            let mut paths: Vec<(String, usize)> = paths.into_iter().collect();
            paths.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            paths.into_iter().take(12).map(|(each, _)| RecordPlace::Document { each }).collect()
        }
        DeclaredFormat::Sqlite => group.first().map(table_places).unwrap_or_default(),
    }
}

/// Collects the paths of lists of objects, with the number of objects.
fn collect_lists(value: &Value, path: &str, found: &mut BTreeMap<String, usize>) {
    let depth = path.matches('/').count();
    match value {
        Value::Array(all) => {
            let objects = all.iter().filter(|one| one.is_object()).count();
            if objects > 0 {
                *found.entry(format!("{path}/*")).or_default() += objects;
            }
        }
        Value::Object(fields) if depth < 4 => {
            for (name, field) in fields {
                collect_lists(field, &format!("{path}/{}", escaped_step(name)), found);
            }
        }
        _ => {}
    }
}

/// Returns a field name as a step of a JSON pointer.
pub(super) fn escaped_step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Lists the tables that may hold messages, each with every table that may hold its sessions.
fn table_places(file: &ExaminedFile) -> Vec<RecordPlace> {
    let tables = table_names(file).unwrap_or_default();
    let is_like = |name: &str, words: &[&str]| {
        let name = name.to_ascii_lowercase();
        words.iter().any(|word| name.contains(word))
    };
    let sessions = tables
        .iter()
        .find(|name| is_like(name, &["session", "conversation", "chat", "thread", "task"]));
    let mut places: Vec<RecordPlace> = tables
        .iter()
        .map(|table| RecordPlace::Tables {
            messages: table.clone(),
            sessions: sessions.filter(|one| *one != table).cloned(),
        })
        .collect();
    places.sort_by_key(|place| match place {
        RecordPlace::Tables { messages, .. } => {
            !is_like(messages, &["message", "part", "turn", "entr", "event"])
        }
        _ => true,
    });
    places.truncate(16);
    places
}

fn table_names(file: &ExaminedFile) -> Result<Vec<String>> {
    let database = sqlite::open_database(&file.path)?;
    let mut names = Vec::new();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name";
    database.for_each_row(sql, [], |row| {
        names.extend(rows::text_column(row, "name"));
        Ok(())
    })?;
    names.retain(|name| !name.starts_with("sqlite_"));
    Ok(names)
}

fn read_document(file: &ExaminedFile) -> Option<Value> {
    let text = files::small_text(&file.path, MAX_DOCUMENT_BYTES)?;
    serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
}

/// Reads the records of a group of files, up to a number of bytes. A file that cannot be read is
/// left out.
fn read_sample(place: &RecordPlace, group: &[ExaminedFile]) -> RecordSample {
    let mut sample = RecordSample::default();
    let mut left = MAX_GROUP_BYTES;
    for file in group {
        // A file that fails is one that a sync would report.
        drop(match place {
            RecordPlace::Lines => read_line_records(file, &mut left, &mut sample),
            RecordPlace::Document { each } => {
                read_document_records(file, each, &mut left, &mut sample);
                Ok(())
            }
            RecordPlace::Tables { messages, sessions } => {
                let sessions = sessions.as_deref();
                read_table_records(file, messages, &mut left, &mut sample.records).and_then(|()| {
                    sessions.map_or(Ok(()), |table| {
                        read_table_records(file, table, &mut left, &mut sample.sessions)
                    })
                })
            }
        });
        if left == 0 {
            break;
        }
    }
    sample
}

fn read_line_records(
    file: &ExaminedFile,
    left: &mut usize,
    sample: &mut RecordSample,
) -> Result<()> {
    let mut lines = LineReader::open_at(&file.path, 0)?;
    while let Some(line) = lines.next_line()? {
        if *left == 0 {
            break;
        }
        *left = left.saturating_sub(line.bytes.len());
        if !jsonl::is_blank_line(line.bytes) {
            sample.records.push(serde_json::from_slice(line.bytes).unwrap_or(Value::Null));
        }
    }
    Ok(())
}

fn read_document_records(
    file: &ExaminedFile,
    each: &str,
    left: &mut usize,
    sample: &mut RecordSample,
) {
    let Some(document) = read_document(file) else { return };
    *left = left.saturating_sub(file.size as usize);
    let Some(list) = document.pointer(each.trim_end_matches("/*")).and_then(Value::as_array) else {
        return;
    };
    sample.records.extend(list.iter().cloned());
    if let Value::Object(mut fields) = document
        && let Some(first) = each.split('/').nth(1)
    {
        fields.remove(first);
        sample.sessions.push(Value::Object(fields));
    }
}

fn read_table_records(
    file: &ExaminedFile,
    table: &str,
    left: &mut usize,
    records: &mut Vec<Value>,
) -> Result<()> {
    let database = sqlite::open_database(&file.path)?;
    let columns = database.table_columns(table)?;
    if columns.is_empty() {
        return Ok(());
    }
    let list = rows::bounded_select_list(&columns);
    database.for_each_row(
        &format!("SELECT {list} FROM {}", sqlite::quoted_column(table)),
        [],
        |row| {
            if *left > 0 {
                let row = super::database::row_value(row);
                *left = left.saturating_sub(row.to_string().len());
                records.push(row);
            }
            Ok(())
        },
    )
}

/// Measures the records, and the bytes of their values, that a declaration understands.
fn measure(declaration: &AgentDeclaration, sample: &RecordSample) -> (LearnedShare, LearnedShare) {
    let (mut records, mut bytes) = (LearnedShare::default(), LearnedShare::default());
    for record in &sample.records {
        let size = record.to_string().len();
        let mut session = Session::new(&declaration.id, "");
        let has_facts = convert::add_session_facts(declaration, record, &mut session);
        match convert::convert_record(declaration, record) {
            ConvertedRecord::Messages(messages) => {
                let rest: usize = messages.iter().map(unnamed_bytes).sum();
                let is_raw = messages.iter().all(Message::is_raw);
                records.add(usize::from(!is_raw), 1);
                bytes.add(size.saturating_sub(rest), size);
            }
            ConvertedRecord::Unknown(_) if has_facts => {
                convert::keep_unnamed_session_fields(declaration, record, &mut session);
                let rest: usize =
                    session.extensions.values().map(|one| one.as_json_str().len()).sum();
                records.add(1, 1);
                bytes.add(size.saturating_sub(rest), size);
            }
            ConvertedRecord::Empty | ConvertedRecord::Unknown(_) => {
                records.add(0, 1);
                bytes.add(0, size);
            }
        }
    }
    (records, bytes)
}

/// Returns the number of bytes of a message that the declaration does not name.
fn unnamed_bytes(message: &Message) -> usize {
    let fields = message.extensions.iter().map(|(name, one)| name.len() + one.as_json_str().len());
    let blocks = message.blocks.iter().map(|block| match block {
        Block::Other(raw) => raw.as_json_str().len(),
        _ => 0,
    });
    fields.chain(blocks).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a private home")]
    fn a_declaration_is_proposed_and_measured() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".scribe");
        let line = |role: &str, text: &str, second: u32| {
            format!(
                "{{\"id\":\"m{second}\",\"author\":\"{role}\",\"at\":\"2026-03-02T09:00:{second:02}Z\",\
                 \"cwd\":\"/home/mara/web\",\"body\":\"{text}\",\"model\":\"quill-2\"}}\n"
            )
        };
        for session in ["2026/03/s1.jsonl", "2026/04/s2.jsonl"] {
            let path = directory.join(session);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let lines = line("user", "sweep the floor", 1) + &line("assistant", "It is swept.", 2);
            fs::write(path, lines + "{\"beat\":1}\n").unwrap();
        }
        fs::write(directory.join("settings.json"), "{\"theme\":\"dark\"}").unwrap();
        let learned = learn_agent(&directory, home.path()).unwrap().unwrap();
        for expected in [
            "id = \"scribe\"",
            "files = \"~/.scribe/*/*/*.jsonl\"",
            "role = \"/author\"",
            "text = \"/body\"",
            "time = \"/at\"",
            "cwd = \"/cwd\"",
        ] {
            assert!(learned.declaration.contains(expected), "{expected}: {}", learned.declaration);
        }
        assert_eq!(learned.files, LearnedShare { part: 2, whole: 3 });
        assert_eq!(learned.records, LearnedShare { part: 4, whole: 6 });
        assert!(learn_agent(&directory.join("nothing"), home.path()).is_err());
    }
}
