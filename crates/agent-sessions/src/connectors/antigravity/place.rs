//! The files of a conversation, and the facts that stand beside its messages.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::connectors::Source;
use crate::connectors::formats::json::Lenient;
use crate::connectors::formats::{files, sqlite};
use crate::model::{Session, TitleRank};

/// The directory with the logs of a conversation, below its directory in `brain`.
const LOGS: &str = ".system_generated/logs";

/// Names of a transcript, best first. The shorter transcript cuts long texts.
const TRANSCRIPTS: [&str; 2] = ["transcript_full", "transcript"];

/// Documents that the model writes for the person.
const DOCUMENTS: [&str; 3] = ["task.md", "implementation_plan.md", "walkthrough.md"];

/// Size limit of a document, and of a file with metadata.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;
const MAX_METADATA_BYTES: u64 = 64 << 10;

/// Returns whether a source is a database.
pub(super) fn is_database(path: &Path) -> bool {
    has_extension(path, "db")
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

/// Lists the conversations of a program: its databases, and the transcripts of conversations
/// without a database.
pub(super) fn list_conversations(program: &Path) -> Vec<Source> {
    let databases = files::directory_entries(&program.join("conversations")).unwrap_or_default();
    let brains = files::directory_entries(&program.join("brain")).unwrap_or_default();
    let transcripts = brains.iter().filter_map(|brain| {
        let id = brain.file_name()?;
        let mut database = program.join("conversations").join(id).into_os_string();
        database.push(".db");
        (!has_content(Path::new(&database))).then(|| transcript_file(brain))?
    });
    let databases = databases.iter().filter(|path| is_database(path) && has_content(path)).cloned();
    databases.chain(transcripts).filter_map(conversation_source).collect()
}

/// Returns whether a file is not empty. A program creates a database before it writes to it.
fn has_content(path: &Path) -> bool {
    files::source_from_file(path.to_owned()).is_some_and(|source| source.stamp.size > 0)
}

/// Returns the transcript of a conversation: a file, or the first of several pieces.
fn transcript_file(brain: &Path) -> Option<PathBuf> {
    let logs = brain.join(LOGS);
    TRANSCRIPTS.iter().find_map(|name| {
        let whole = logs.join(name).with_extension("jsonl");
        if files::is_regular_file(&whole) {
            return Some(whole);
        }
        transcript_pieces(&logs.join("chunks").join(name)).into_iter().next()
    })
}

/// Lists the pieces of a transcript in a directory, in order.
fn transcript_pieces(directory: &Path) -> Vec<PathBuf> {
    if !files::is_dir(directory) {
        return Vec::new();
    }
    let mut pieces = files::directory_entries(directory).unwrap_or_default();
    pieces.retain(|path| has_extension(path, "jsonl"));
    pieces
}

/// Lists the files of the transcript that a source stands for.
pub(super) fn transcript_parts(source: &Path) -> Vec<PathBuf> {
    match source.parent().filter(|parent| is_in_chunks(parent)) {
        Some(directory) => transcript_pieces(directory),
        None => vec![source.to_owned()],
    }
}

fn is_in_chunks(directory: &Path) -> bool {
    directory.parent().and_then(Path::file_name).is_some_and(|name| name == "chunks")
}

/// Creates a source whose stamp includes the files beside it.
pub(super) fn conversation_source(path: PathBuf) -> Option<Source> {
    let mut source = if is_database(&path) {
        sqlite::database_source(path)?
    } else {
        files::source_from_file(path)?
    };
    let beside = ConversationFiles::of_source(&source.path);
    let pieces = transcript_parts(&source.path).into_iter().filter(|piece| *piece != source.path);
    for companion in beside.companions().chain(pieces) {
        source.stamp = source.stamp.with_companion(&companion);
    }
    Some(source)
}

/// The files beside a conversation.
pub(super) struct ConversationFiles {
    /// Id of the conversation.
    pub(super) native: String,
    /// Directory of the program.
    program: PathBuf,
}

impl ConversationFiles {
    pub(super) fn of_source(source: &Path) -> Self {
        let name = |path: Option<&Path>| {
            let name = path.and_then(Path::file_name).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let above = |count: usize| source.ancestors().nth(count).unwrap_or(Path::new(""));
        if is_database(source) {
            let native = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Self { native, program: above(2).to_owned() };
        }
        // Pieces are two directories deeper than a transcript in one file.
        let depth = if source.parent().is_some_and(is_in_chunks) { 5 } else { 3 };
        Self { native: name(Some(above(depth))), program: above(depth + 2).to_owned() }
    }

    fn brain(&self) -> PathBuf {
        self.program.join("brain").join(&self.native)
    }

    /// The file with the name that a person gave the conversation.
    fn annotations(&self) -> PathBuf {
        self.program.join("annotations").join(format!("{}.pbtxt", self.native))
    }

    /// The file in which the server for editors keeps the working directory.
    fn server_metadata(&self) -> PathBuf {
        self.program.join("conversations").join(format!("{}.meta", self.native))
    }

    fn companions(&self) -> impl Iterator<Item = PathBuf> {
        let documents = DOCUMENTS.map(|name| self.brain().join(name));
        documents.into_iter().chain([self.annotations(), self.server_metadata()])
    }

    /// Adds the title, the directory and the documents that the files contain.
    pub(super) fn add_facts(&self, session: &mut Session) {
        #[derive(Deserialize)]
        struct ServerMetadata {
            #[serde(default = "absent")]
            cwd: Lenient<String>,
        }
        fn absent() -> Lenient<String> {
            Lenient(None)
        }
        let annotations = files::small_text(&self.annotations(), MAX_METADATA_BYTES);
        let title = annotations.as_deref().and_then(title_of_annotations);
        session.add_title(TitleRank::Renamed, title.unwrap_or_default());
        if session.cwd.is_none()
            && let Some(text) = files::small_text(&self.server_metadata(), MAX_METADATA_BYTES)
            && let Ok(metadata) = serde_json::from_str::<ServerMetadata>(&text)
        {
            session.cwd = metadata.cwd.0.filter(|cwd| !cwd.is_empty());
        }
        for name in DOCUMENTS {
            if let Some(text) = files::text_up_to(&self.brain().join(name), MAX_DOCUMENT_BYTES) {
                session.documents.push((name.to_owned(), text));
            }
        }
    }
}

/// Returns the title in a text-format message such as `title:"…"`.
fn title_of_annotations(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix("title:"))?;
    let mut title = String::new();
    let mut characters = value.trim().strip_prefix('"')?.chars();
    while let Some(one) = characters.next() {
        match one {
            '"' => return Some(title),
            '\\' => title.extend(characters.next().map(|one| if one == 'n' { '\n' } else { one })),
            one => title.push(one),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_its_conversation() {
        let check = |source: &str| {
            let files = ConversationFiles::of_source(Path::new(source));
            assert_eq!(files.native, "c0", "{source}");
            assert_eq!(files.brain(), Path::new("/g/antigravity/brain/c0"), "{source}");
        };
        check("/g/antigravity/conversations/c0.db");
        check("/g/antigravity/brain/c0/.system_generated/logs/transcript.jsonl");
        check("/g/antigravity/brain/c0/.system_generated/logs/chunks/transcript/00000000.jsonl");
    }

    #[test]
    fn annotations_have_a_title() {
        let check = |text: &str, title: Option<&str>| {
            assert_eq!(title_of_annotations(text).as_deref(), title, "{text}");
        };
        check("title:\"Fix the \\\"kiln\\\"\"\n", Some("Fix the \"kiln\""));
        check("last_user_view_time:{seconds:1}\n  title: \"a\"\n", Some("a"));
        check("title:\"cut", None);
        check("last_user_view_time:{seconds:1}", None);
    }
}
