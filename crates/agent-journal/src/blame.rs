//! The origin of code: the files that sessions touched, and the sessions that wrote the lines of a
//! file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::analyze::{Confidence, Dated, FileLine, attribute_lines};
use crate::error::Result;
use crate::journal::Journal;
use crate::model::{Timestamp, call_hash, edits_of_message};
use crate::search::Filter;
use crate::store::{Entry, Store, Touches};

/// A file to find the authors of.
#[derive(Clone, Debug, Default)]
pub struct BlamedFile {
    /// The absolute paths of the file, under all its names.
    pub paths: Vec<PathBuf>,
    /// The root of the working tree that contains the file.
    pub repository: Option<PathBuf>,
    /// The current lines of the file.
    pub lines: Vec<FileLine>,
}

/// The authors of the lines of a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Blame {
    /// The author of each line, if a recorded edit wrote it.
    pub lines: Vec<Option<Author>>,
    /// The sessions that wrote lines.
    pub sessions: Vec<Entry>,
    /// The number of sessions that changed the file at all.
    pub candidates: usize,
}

/// The edit that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Author {
    /// The index of the session in `sessions`.
    pub session: usize,
    /// The position of the message that made the edit.
    pub position: u64,
    /// The time of the edit.
    pub at: Option<Timestamp>,
    /// The confidence of the attribution.
    pub confidence: Confidence,
}

/// A file that sessions touched.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TouchedFile {
    /// The path of the file.
    pub path: String,
    /// The number of calls that changed the file: edits and complete writes.
    pub edits: u64,
    /// The number of calls by kind.
    #[serde(flatten)]
    pub touches: Touches,
    /// The sessions that touched the file, the latest first, each with its calls.
    pub sessions: Vec<Touch>,
}

/// The calls of one session that touched a file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Touch {
    /// The id of the session.
    pub id: String,
    /// The title of the session.
    pub title: String,
    /// The agent of the session.
    pub agent: String,
    /// The end of the session.
    pub ended_at: Option<Timestamp>,
    /// The number of calls that changed the file.
    pub edits: u64,
    /// The number of calls by kind.
    #[serde(flatten)]
    pub touches: Touches,
    /// The session as the store lists it.
    #[serde(skip)]
    pub entry: Entry,
}

/// An edit that a session made to the file.
struct Made {
    session: usize,
    position: u64,
    dated: Dated,
}

impl Journal {
    /// Lists the files that the sessions of a filter touched and whose path contains a text, the
    /// latest first.
    pub fn list_touched_files(&self, filter: &Filter, text: &str) -> Result<Vec<TouchedFile>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let chosen: HashMap<u64, Entry> =
            self.list_entries(filter, None)?.into_iter().map(|entry| (entry.key, entry)).collect();
        let text = text.to_lowercase();
        let mut files: BTreeMap<String, Vec<Touch>> = BTreeMap::new();
        store.each_touched(&mut |session, path, touches| {
            if let Some(entry) = chosen.get(&session)
                && path.to_lowercase().contains(&text)
            {
                files.entry(path.to_owned()).or_default().push(Touch::new(entry, touches));
            }
        })?;
        let mut files: Vec<TouchedFile> = files
            .into_iter()
            .map(|(path, mut sessions)| {
                sessions.sort_by_key(|touch| std::cmp::Reverse(touch.ended_at));
                let sum = |sum: Touches, touch: &Touch| sum.plus(touch.touches);
                let touches = sessions.iter().fold(Touches::default(), sum);
                TouchedFile { path, edits: touches.changes(), touches, sessions }
            })
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.sessions[0].ended_at));
        self.redact_paths(files.iter_mut().map(|file| &mut file.path));
        Ok(files)
    }

    /// Finds the sessions that wrote the lines of a file, from their recorded edits alone.
    pub fn blame_file(&self, file: &BlamedFile) -> Result<Blame> {
        let nobody = Blame { lines: vec![None; file.lines.len()], ..Blame::default() };
        let Some(store) = &self.store else { return Ok(nobody) };
        let entries = self.sessions_touching(store, file)?;
        let candidates = entries.len();
        let mut made = Vec::new();
        for (session, entry) in entries.iter().enumerate() {
            made.extend(edits_made_by(store, file, session, entry)?);
        }
        made.sort_by_key(|one| (one.dated.at, one.session, one.position));
        let (places, dated): (Vec<(usize, u64)>, Vec<Dated>) =
            made.into_iter().map(|one| ((one.session, one.position), one.dated)).unzip();
        let found = attribute_lines(&file.lines, &dated);
        let mut blame = Blame { candidates, ..nobody };
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        for (line, found) in blame.lines.iter_mut().zip(found) {
            let Some((number, confidence)) = found else { continue };
            let (session, position) = places[number];
            let session = *numbers.entry(session).or_insert_with(|| {
                blame.sessions.push(entries[session].clone());
                blame.sessions.len() - 1
            });
            *line = Some(Author { session, position, at: dated[number].at, confidence });
        }
        self.redact_for_view(&mut blame.sessions)?;
        Ok(blame)
    }

    /// Returns the sessions that changed a file.
    fn sessions_touching(&self, store: &Store, file: &BlamedFile) -> Result<Vec<Entry>> {
        let mut keys = HashSet::new();
        store.each_file(&mut |session, path, _| {
            if file.may_be(path) {
                keys.insert(session);
            }
        })?;
        let keys: Vec<u64> = keys.into_iter().collect();
        let mut entries = store.sessions_by_key(&keys, self.now)?;
        entries.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        Ok(entries)
    }
}

/// Reads the edits that a session made to a file, without those that failed.
fn edits_made_by(
    store: &Store,
    file: &BlamedFile,
    session: usize,
    entry: &Entry,
) -> Result<Vec<Made>> {
    let mut failed = HashSet::new();
    let mut made: Vec<(u64, Made)> = Vec::new();
    let mut last = entry.started_at;
    let is_it = |path: &str| file.may_be(&in_full(path, entry.cwd.as_deref()));
    store.each_touching(entry.recording, &is_it, &mut failed, |position, content| {
        last = content.at.or(last);
        // The shared beginning belongs to the original session.
        if position < entry.shared_messages {
            return;
        }
        for (call, edit) in edits_of_message(&content) {
            if is_it(&edit.file) {
                let dated = Dated { at: last, edit };
                made.push((call_hash(call), Made { session, position, dated }));
            }
        }
    })?;
    made.retain(|(call, _)| !failed.contains(call));
    Ok(made.into_iter().map(|(_, one)| one).collect())
}

impl BlamedFile {
    /// Returns whether a recorded absolute path may be this file: the same path, or the same path
    /// in another working tree with the same directory name.
    fn may_be(&self, recorded: &str) -> bool {
        let recorded = normalize_path(recorded);
        let names = self.paths.iter().map(|path| normalize_path(&path.to_string_lossy()));
        names.into_iter().any(|path| path == recorded || self.is_twin(&path, &recorded))
    }

    fn is_twin(&self, path: &str, recorded: &str) -> bool {
        let Some(root) = &self.repository else { return false };
        let Some(name) = root.file_name().and_then(|name| name.to_str()) else { return false };
        let root = normalize_path(&root.to_string_lossy());
        let Some(inside) = path.strip_prefix(&root) else { return false };
        let tree = recorded.strip_suffix(inside);
        tree.is_some_and(|tree| Path::new(tree).file_name().is_some_and(|one| one == name))
    }
}

impl Touch {
    fn new(entry: &Entry, touches: Touches) -> Self {
        Self {
            id: entry.id.clone(),
            title: entry.title.clone(),
            agent: entry.agent.clone(),
            ended_at: entry.ended_at,
            edits: touches.changes(),
            touches,
            entry: entry.clone(),
        }
    }
}

/// Returns a path as the journal stores touched files: joined with the working directory if it is
/// relative.
fn in_full(path: &str, cwd: Option<&str>) -> String {
    let is_absolute = path.starts_with(['/', '\\', '~']) || path.get(1..2) == Some(":");
    match cwd {
        Some(cwd) if !is_absolute => format!("{}/{path}", cwd.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

/// Normalizes a path: one kind of slash, no `.` and no `..`.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "." => {}
            ".." if parts.len() > 1 => drop(parts.pop()),
            "" if !parts.is_empty() => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_place_and_in_other_trees_of_the_repository() {
        let file = BlamedFile {
            paths: vec!["/home/mara/web/src/x.rs".into()],
            repository: Some("/home/mara/web".into()),
            lines: Vec::new(),
        };
        let check = |recorded: &str, expected: bool| {
            assert_eq!(file.may_be(recorded), expected, "{recorded}");
        };
        check("/home/mara/web/src/x.rs", true);
        check("/home/mara/web/./lib/../src/x.rs", true);
        check("D:\\code\\web\\src\\x.rs", true);
        check("/tmp/trees/web/src/x.rs", true);
        check("/home/mara/other/src/x.rs", false);
        check("/home/mara/web/sub/src/x.rs", false);
        check("/home/mara/web/src/y.rs", false);
    }
}
