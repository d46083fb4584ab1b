//! Facts about a task in the files beside its panel: its entry in the list of tasks, the models it
//! used, and the conversation as the model received it.

use std::path::Path;

use serde_json::value::RawValue;

use super::task_results::{HistoryMessage, text_of_content};
use super::{HISTORY, HISTORY_ITEM, METADATA};
use crate::connectors::formats::documents::read_list_document;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Extensions, Json, Session, SessionKind};

/// Size limit of a file with facts. A larger file of that name has another format.
const MAX_FACTS_BYTES: u64 = 16 << 20;

/// Size limit of the list of all tasks.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// The list of all tasks, in the storage that holds them.
const TASK_LIST: &str = "state/taskHistory.json";

lenient! {
    /// The entry of a task in the list of tasks.
    struct TaskListItem<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "parentTaskId" parent: Option<BorrowedText<'a>>,
        "workspace" workspace: Option<BorrowedText<'a>>,
        "cwdOnTaskInitialization" cwd: Option<BorrowedText<'a>>,
        "modelId" model: Option<BorrowedText<'a>>,
        "mode" mode: Option<BorrowedText<'a>>,
        "apiConfigName" profile: Option<BorrowedText<'a>>,
        "isFavorited" is_favorite: Option<bool>,
    }
}

lenient! {
    /// The models, programs and files that a task used.
    struct TaskMetadata<'a> {
        "model_usage" models: Option<Vec<UsedModel<'a>>>,
        "environment_history" environments: Option<Vec<UsedProgram<'a>>>,
        "files_in_context" files: Option<Vec<UsedFile<'a>>>,
    }
}

lenient! {
    /// The model in use from a time on.
    struct UsedModel<'a> {
        "ts" millis: Option<u64>,
        "model_id" model: Option<BorrowedText<'a>>,
        "model_provider_id" provider: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The program in use from a time on.
    struct UsedProgram<'a> {
        "cline_version" version: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A file that the model knows.
    struct UsedFile<'a> {
        "path" path: Option<BorrowedText<'a>>,
        "record_source" source: Option<BorrowedText<'a>>,
    }
}

/// Facts about a task that its panel does not have.
#[derive(Default)]
pub(super) struct TaskAbout {
    /// The models in use, each with its provider and the time from which it was in use.
    models: Vec<ModelPeriod>,
    /// The requests to the model: time and text.
    requests: Vec<(u64, String)>,
}

/// A model and its provider, from a time on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelPeriod {
    from_millis: u64,
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
}

impl TaskAbout {
    /// Reads the files beside a panel, and completes the session from them.
    pub(super) fn read_companions(task: &Path, session: &mut Session) -> Self {
        let mut about = Self::default();
        about.read_metadata(task, session);
        let item = files::small_text(&task.join(HISTORY_ITEM), MAX_FACTS_BYTES);
        if let Some(item) = item.as_deref().and_then(json::parse_json::<TaskListItem<'_>>) {
            take_list_item(item, session);
        }
        about
    }

    /// Reads the conversation as the model received it, for a panel without the requests' texts.
    pub(super) fn read_requests(&mut self, task: &Path) {
        let Ok(history) = read_list_document(&task.join(HISTORY), "messages") else { return };
        for item in &history.items {
            let Some(message) = json::parse_json::<HistoryMessage<'_>>(item) else { continue };
            let is_request = message.role.is_some_and(|role| role.as_borrowed_str() == "user");
            if let (true, Some(at), Some(content)) = (is_request, message.millis, message.content) {
                self.requests.push((at, text_of_content(content)));
            }
        }
    }

    /// Returns the text of the request that was sent in a period.
    pub(super) fn request_between(&self, from_millis: u64, to_millis: u64) -> Option<&str> {
        let sent = |(at, _): &&(u64, String)| (from_millis..to_millis).contains(at);
        self.requests.iter().find(sent).map(|(_, text)| text.as_str())
    }

    /// Returns the model in use at a time.
    pub(super) fn model_at(&self, millis: u64) -> Option<&ModelPeriod> {
        let before = self.models.iter().rev().find(|period| period.from_millis <= millis);
        before.or(self.models.first())
    }

    fn read_metadata(&mut self, task: &Path, session: &mut Session) {
        let Some(text) = files::small_text(&task.join(METADATA), MAX_FACTS_BYTES) else { return };
        let Some(metadata) = json::parse_json::<TaskMetadata<'_>>(&text) else { return };
        let owned = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        for used in metadata.models.unwrap_or_default() {
            self.models.push(ModelPeriod {
                from_millis: used.millis.unwrap_or(0),
                model: owned(used.model),
                provider: owned(used.provider),
            });
        }
        let programs = metadata.environments.unwrap_or_default().into_iter();
        session.agent_version = programs.filter_map(|used| owned(used.version)).next_back();
        for file in metadata.files.unwrap_or_default() {
            let is_edited =
                file.source.is_some_and(|source| source.as_borrowed_str().ends_with("_edited"));
            let path = owned(file.path).filter(|path| is_edited && !session.files.contains(path));
            session.files.extend(path);
        }
    }
}

/// Completes a session from the list of all tasks, which is read only where nothing else names the
/// working directory.
pub(super) fn complete_from_task_list(task: &Path, session: &mut Session) {
    let storage = task.parent().and_then(Path::parent);
    let Some(list) = storage.map(|storage| storage.join(TASK_LIST)) else { return };
    let Some(text) = files::small_text(&list, MAX_LIST_BYTES) else { return };
    let raw = serde_json::from_str::<&RawValue>(&text).ok();
    let items = raw.and_then(json::array_elements).unwrap_or_default().into_iter();
    let mut items = items.filter_map(|raw| json::parse_json::<TaskListItem<'_>>(raw.get()));
    let is_own = |item: &TaskListItem<'_>| {
        item.id.as_ref().is_some_and(|id| id.as_borrowed_str() == session.id.native)
    };
    if let Some(item) = items.find(is_own) {
        take_list_item(item, session);
    }
}

fn take_list_item(item: TaskListItem<'_>, session: &mut Session) {
    let owned = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
    };
    session.cwd = session.cwd.take().or(owned(item.workspace)).or(owned(item.cwd));
    session.model = session.model.take().or(owned(item.model));
    if let Some(parent) = owned(item.parent) {
        session.parent = Some(parent);
        session.kind = SessionKind::Agent;
    }
    let mut keep = |name: &str, text: Option<String>| {
        let value = text.map(|text| (name.to_owned(), Json::from_value(&text)));
        session.extensions.extend(value.into_iter().collect::<Extensions>());
    };
    keep("mode", owned(item.mode));
    keep("apiConfigName", owned(item.profile));
    if item.is_favorite == Some(true) {
        session.extensions.insert("isFavorited".to_owned(), Json::from_value(&true));
    }
}
