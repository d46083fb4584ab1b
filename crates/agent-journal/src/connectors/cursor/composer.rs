//! A conversation in the editor: what it says about itself.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::AGENT;
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, Text, lenient, lossless};
use crate::connectors::formats::vscode;
use crate::model::{Json, Kind, Session, TitleRank};

/// What a composer records of the interface, of a draft that was never sent, or as a copy of
/// files and prompts.
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

/// The list of a composer's bubbles.
const HEADERS: &str = "fullConversationHeadersOnly";

lossless! {
    /// A composer, or its head in a list of composers, or a chat tab.
    struct Composer<'a> {
        "composerId" id: Option<Text<'a>>,
        "tabId" tab_id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "chatTitle" chat_title: Option<Text<'a>>,
        "createdAt" created_at: Option<Moment>,
        "lastUpdatedAt" updated_at: Option<Moment>,
        "lastSendTime" sent_at: Option<Moment>,
        "modelConfig" model: Option<ModelConfig<'a>>,
        "workspaceIdentifier" workspace: Option<Workspace<'a>>,
        "trackedGitRepos" repositories: Option<Vec<Repository<'a>>>,
        "subagentInfo" subagent: Option<Subagent<'a>>,
        "subComposerIds" sub_composers: Option<Vec<Text<'a>>>,
        "subagentComposerIds" subagents: Option<Vec<Text<'a>>>,
        "fullConversationHeadersOnly" headers: Option<Vec<Header<'a>>>,
        "conversation" conversation: Option<Vec<&'a RawValue>>,
        "bubbles" bubbles: Option<Vec<&'a RawValue>>,
        "conversationMap" map: Option<HashMap<Text<'a>, &'a RawValue>>,
        "originalFileStates" originals: Option<&'a RawValue>,
        "codeBlockData" code_blocks: Option<&'a RawValue>,
        "usageData" usage: Option<&'a RawValue>,
    }
}

lenient! {
    /// The place of a bubble in its conversation; the list's order is the only one there is.
    struct Header<'a> {
        "bubbleId" id: Option<&'a RawValue>,
    }
}

lenient! {
    struct ModelConfig<'a> {
        "modelName" model_name: Option<Text<'a>>,
    }
}

lenient! {
    struct Workspace<'a> {
        "uri" uri: Option<Uri<'a>>,
        "configPath" config_path: Option<Uri<'a>>,
    }
}

lenient! {
    struct Uri<'a> {
        "fsPath" fs_path: Option<Text<'a>>,
        "external" external: Option<Text<'a>>,
    }
}

lenient! {
    struct Repository<'a> {
        "repoPath" repo_path: Option<Text<'a>>,
        "branches" branches: Option<Vec<Branch<'a>>>,
    }
}

lenient! {
    struct Branch<'a> {
        "branchName" branch_name: Option<Text<'a>>,
        "lastInteractionAt" last_interaction_at: Option<Moment>,
    }
}

lenient! {
    struct Subagent<'a> {
        "parentComposerId" parent_composer_id: Option<Text<'a>>,
    }
}

impl<'a> Composer<'a> {
    /// Returns the ids of the bubbles in their order, `None` where one cannot be read.
    pub(super) fn bubble_ids(&mut self) -> Vec<Option<Text<'a>>> {
        let id = |header: Header<'a>| serde_json::from_str(header.id?.get()).ok();
        let mut ids: Vec<Option<Text<'a>>> =
            self.headers.take().unwrap_or_default().into_iter().map(id).collect();
        // A list of another shape, or with elements of another, is kept as it is written.
        if self.rest.iter().any(|(key, _)| key == HEADERS) {
            ids.push(None);
        }
        ids
    }
}

impl Composer<'_> {
    /// What the record says about the session as a whole.
    pub(super) fn session(&mut self, native: &str) -> Session {
        let mut session = Session::new(AGENT.id, native);
        let title = self.name.take().or(self.chat_title.take());
        session.title(TitleRank::Generated, title.map(Text::into_owned).unwrap_or_default());
        session.started_at = self.created_at.and_then(|at| at.0);
        session.ended_at = self.updated_at.or(self.sent_at).and_then(|at| at.0);
        session.model = self.model.take().and_then(|model| some(model.model_name));
        session.cwd = self.workspace.take().and_then(Workspace::folder);
        if let Some(repository) = self.repositories.take().unwrap_or_default().into_iter().next() {
            let last = repository
                .branches
                .into_iter()
                .flatten()
                .max_by_key(|branch| branch.last_interaction_at.and_then(|at| at.0));
            session.branch = last.and_then(|branch| some(branch.branch_name));
            session.repository = some(repository.repo_path);
            session.cwd = session.cwd.take().or_else(|| session.repository.clone());
        }
        session.parent = self.subagent.take().and_then(|info| some(info.parent_composer_id));
        if session.parent.is_some() {
            session.kind = Kind::Agent;
        }
        let touched = [self.originals, self.code_blocks].into_iter().flatten();
        session.files = touched.flat_map(keys).map(|uri| vscode::path(&uri)).collect();
        session.files.sort();
        session.files.dedup();
        if let Some(usage) = self.usage.filter(|usage| !value::is_hollow(usage.get())) {
            session.extensions.insert("usageData".into(), Json::from(usage));
        }
        value::keep(std::mem::take(&mut self.rest), NOISE, &mut session.extensions);
        session
    }

    /// The sessions this one started.
    pub(super) fn children(&mut self) -> Vec<String> {
        let lists = [self.sub_composers.take(), self.subagents.take()];
        lists.into_iter().flatten().flatten().map(Text::into_owned).collect()
    }

    /// Recorded cost by model, in millionths of a dollar.
    pub(super) fn costs(&self) -> Vec<(String, u64)> {
        lenient! {
            struct Cost {
                "costInCents" cost_in_cents: Option<f64>,
            }
        }
        let Some(usage) = self.usage else { return Vec::new() };
        let costs: BTreeMap<String, Cost> = json::parse(usage.get()).unwrap_or_default();
        let costs =
            costs.into_iter().map(|(model, cost)| (model, cost.cost_in_cents.unwrap_or(0.0)));
        let costs = costs.filter(|(_, cents)| *cents > 0.0);
        costs.map(|(model, cents)| (model, (cents * 10_000.0).round() as u64)).collect()
    }
}

impl Workspace<'_> {
    fn folder(self) -> Option<String> {
        let uri = self.uri.or(self.config_path)?;
        some(uri.fs_path).or_else(|| some(uri.external).map(|uri| vscode::path(&uri)))
    }
}

fn some(text: Option<Text<'_>>) -> Option<String> {
    text.map(Text::into_owned).filter(|text| !text.is_empty())
}

fn keys(raw: &RawValue) -> Vec<String> {
    let map: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    map.into_keys().collect()
}
