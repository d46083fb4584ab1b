//! The record of one conversation in the editor (a composer) and the session metadata in it.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::AGENT;
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::connectors::formats::vscode;
use crate::model::{Json, Session, SessionKind, TitleRank};

/// Keys not kept: state of the interface, unsent drafts, and copies of files and prompts.
const NOISE: &[&str] = &[
    "_v",
    "activeTabsShouldBeReactive",
    "browserChipManuallyDisabled",
    "capabilities",
    "codeBlockData",
    "context",
    "conversationCheckpointLastUpdatedAt",
    "conversationState",
    "forceMode",
    "generatingBubbleIds",
    "hasChangedContext",
    "hasLoaded",
    "hasNamedTab",
    "hasUnreadMessages",
    "isAgentic",
    "isQueueExpanded",
    "lastFocusedBubbleId",
    "latestChatGenerationUUID",
    "richText",
    "selectedBubbleId",
    "tabState",
    "tabs",
    "text",
    "type",
    "userResponsesToSuggestedCodeBlocks",
];

/// The key of a composer's list of bubbles.
const HEADERS: &str = "fullConversationHeadersOnly";

lossless! {
    /// A composer, its entry in a list of composers, or a chat tab.
    struct Composer<'a> {
        "composerId" id: Option<BorrowedText<'a>>,
        "tabId" tab_id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "chatTitle" chat_title: Option<BorrowedText<'a>>,
        "createdAt" created_at: Option<Moment>,
        "lastUpdatedAt" updated_at: Option<Moment>,
        "lastSendTime" sent_at: Option<Moment>,
        "modelConfig" model: Option<ModelConfig<'a>>,
        "workspaceIdentifier" workspace: Option<ComposerWorkspace<'a>>,
        "trackedGitRepos" repositories: Option<Vec<ComposerRepository<'a>>>,
        "subagentInfo" subagent: Option<ComposerSubagent<'a>>,
        "subComposerIds" sub_composers: Option<Vec<BorrowedText<'a>>>,
        "subagentComposerIds" subagents: Option<Vec<BorrowedText<'a>>>,
        "fullConversationHeadersOnly" headers: Option<Vec<Header<'a>>>,
        "conversation" conversation: Option<Vec<&'a RawValue>>,
        "bubbles" bubbles: Option<Vec<&'a RawValue>>,
        "conversationMap" map: Option<HashMap<BorrowedText<'a>, &'a RawValue>>,
        "originalFileStates" originals: Option<&'a RawValue>,
        "codeBlockData" code_blocks: Option<&'a RawValue>,
        "usageData" usage: Option<&'a RawValue>,
    }
}

lenient! {
    /// The id of a bubble in its conversation. Only the order of this list orders the bubbles.
    struct Header<'a> {
        "bubbleId" id: Option<&'a RawValue>,
    }
}

lenient! {
    struct ModelConfig<'a> {
        "modelName" model_name: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ComposerWorkspace<'a> {
        "uri" uri: Option<ComposerUri<'a>>,
        "configPath" config_path: Option<ComposerUri<'a>>,
    }
}

lenient! {
    struct ComposerUri<'a> {
        "fsPath" fs_path: Option<BorrowedText<'a>>,
        "external" external: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ComposerRepository<'a> {
        "repoPath" repo_path: Option<BorrowedText<'a>>,
        "branches" branches: Option<Vec<ComposerBranch<'a>>>,
    }
}

lenient! {
    struct ComposerBranch<'a> {
        "branchName" branch_name: Option<BorrowedText<'a>>,
        "lastInteractionAt" last_interaction_at: Option<Moment>,
    }
}

lenient! {
    struct ComposerSubagent<'a> {
        "parentComposerId" parent_composer_id: Option<BorrowedText<'a>>,
    }
}

impl<'a> Composer<'a> {
    /// Takes the ids of the bubbles, in order, with `None` for each that cannot be parsed.
    pub(super) fn bubble_ids(&mut self) -> Vec<Option<BorrowedText<'a>>> {
        let id = |header: Header<'a>| serde_json::from_str(header.id?.get()).ok();
        let mut ids: Vec<Option<BorrowedText<'a>>> =
            self.headers.take().unwrap_or_default().into_iter().map(id).collect();
        // A list of an unexpected type, or with such elements, is in `rest` as written.
        if self.rest.iter().any(|(key, _)| key == HEADERS) {
            ids.push(None);
        }
        ids
    }
}

impl Composer<'_> {
    /// Takes the session metadata out of the record.
    pub(super) fn take_session_metadata(&mut self, native: &str) -> Session {
        let mut session = Session::new(AGENT.id, native);
        let title = self.name.take().or(self.chat_title.take());
        session.add_title(
            TitleRank::Generated,
            title.map(BorrowedText::into_owned).unwrap_or_default(),
        );
        session.started_at = self.created_at.and_then(|at| at.0);
        session.ended_at = self.updated_at.or(self.sent_at).and_then(|at| at.0);
        session.model = self.model.take().and_then(|model| owned_non_empty(model.model_name));
        session.cwd = self.workspace.take().and_then(ComposerWorkspace::workspace_folder);
        if let Some(repository) = self.repositories.take().unwrap_or_default().into_iter().next() {
            let last = repository
                .branches
                .into_iter()
                .flatten()
                .max_by_key(|branch| branch.last_interaction_at.and_then(|at| at.0));
            session.branch = last.and_then(|branch| owned_non_empty(branch.branch_name));
            session.repository = owned_non_empty(repository.repo_path);
            session.cwd = session.cwd.take().or_else(|| session.repository.clone());
        }
        session.parent =
            self.subagent.take().and_then(|info| owned_non_empty(info.parent_composer_id));
        if session.parent.is_some() {
            session.kind = SessionKind::Agent;
        }
        let touched = [self.originals, self.code_blocks].into_iter().flatten();
        session.files =
            touched.flat_map(object_keys).map(|uri| vscode::path_from_uri(&uri)).collect();
        session.files.sort();
        session.files.dedup();
        if let Some(usage) = self.usage.filter(|usage| !value::is_hollow(usage.get())) {
            session.extensions.insert("usageData".into(), Json::from(usage));
        }
        value::keep_informative_values(
            std::mem::take(&mut self.rest),
            NOISE,
            &mut session.extensions,
        );
        session
    }

    /// Takes the ids of the sessions that this one started.
    pub(super) fn take_child_sessions(&mut self) -> Vec<String> {
        let lists = [self.sub_composers.take(), self.subagents.take()];
        lists.into_iter().flatten().flatten().map(BorrowedText::into_owned).collect()
    }

    /// Returns the recorded cost of each model, in millionths of a dollar.
    pub(super) fn costs_by_model(&self) -> Vec<(String, u64)> {
        lenient! {
            struct ComposerCost {
                "costInCents" cost_in_cents: Option<f64>,
            }
        }
        let Some(usage) = self.usage else { return Vec::new() };
        let costs: BTreeMap<String, ComposerCost> =
            json::parse_json(usage.get()).unwrap_or_default();
        let costs =
            costs.into_iter().map(|(model, cost)| (model, cost.cost_in_cents.unwrap_or(0.0)));
        let costs = costs.filter(|(_, cents)| *cents > 0.0);
        costs.map(|(model, cents)| (model, (cents * 10_000.0).round() as u64)).collect()
    }
}

impl ComposerWorkspace<'_> {
    fn workspace_folder(self) -> Option<String> {
        let uri = self.uri.or(self.config_path)?;
        owned_non_empty(uri.fs_path)
            .or_else(|| owned_non_empty(uri.external).map(|uri| vscode::path_from_uri(&uri)))
    }
}

fn owned_non_empty(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

fn object_keys(raw: &RawValue) -> Vec<String> {
    let map: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    map.into_keys().collect()
}
