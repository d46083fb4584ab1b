//! A conversation in the editor: what it says about itself, and the telling of its bubbles.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::AGENT;
use super::bubble::{Bubble, Side};
use super::value::{self, Moment};
use crate::connectors::formats::json::{Text, lossless};
use crate::connectors::formats::{jsonl, vscode};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Kind, Message, Session, Timestamp, TitleRank, Usage};

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

/// The place of a bubble in its conversation; the list's order is the only one there is.
#[derive(Deserialize)]
pub(super) struct Header<'a> {
    #[serde(borrow, rename = "bubbleId")]
    pub(super) id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelConfig<'a> {
    #[serde(borrow)]
    model_name: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Workspace<'a> {
    #[serde(borrow)]
    uri: Option<Uri<'a>>,
    #[serde(borrow)]
    config_path: Option<Uri<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Uri<'a> {
    #[serde(borrow)]
    fs_path: Option<Text<'a>>,
    #[serde(borrow)]
    external: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Repository<'a> {
    #[serde(borrow)]
    repo_path: Option<Text<'a>>,
    #[serde(borrow, default)]
    branches: Vec<Branch<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Branch<'a> {
    #[serde(borrow)]
    branch_name: Option<Text<'a>>,
    last_interaction_at: Option<Moment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subagent<'a> {
    #[serde(borrow)]
    parent_composer_id: Option<Text<'a>>,
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
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cost {
            #[serde(default)]
            cost_in_cents: f64,
        }
        let Some(usage) = self.usage else { return Vec::new() };
        let costs: BTreeMap<String, Cost> = serde_json::from_str(usage.get()).unwrap_or_default();
        let costs = costs.into_iter().filter(|(_, cost)| cost.cost_in_cents > 0.0);
        costs.map(|(model, cost)| (model, (cost.cost_in_cents * 10_000.0).round() as u64)).collect()
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
    let map: BTreeMap<String, serde::de::IgnoredAny> =
        serde_json::from_str(raw.get()).unwrap_or_default();
    map.into_keys().collect()
}

/// Tells one conversation, bubble by bubble.
pub(super) struct Telling<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    is_told: bool,
    /// Reasoning or tokens whose words come in the next bubble.
    pending: Option<Message>,
    /// The answer that calls of tools belong to.
    answer: Option<String>,
    /// The model of the turn, which some builds write only on the prompt.
    model: Option<String>,
    calls: HashSet<String>,
    has_usage: bool,
}

impl<'s> Telling<'s> {
    pub(super) fn new(session: Session, sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            session,
            is_told: false,
            pending: None,
            answer: None,
            model: None,
            calls: HashSet::new(),
            has_usage: false,
        }
    }

    /// Tells a bubble; `at` is where it stands in its conversation.
    pub(super) fn bubble(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let bytes = value::sound(bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&bytes) {
            return self.known(bubble, &bytes, at);
        }
        let mended = jsonl::mend(&bytes);
        if let Ok(bubble) = serde_json::from_slice::<Bubble<'_>>(&mended) {
            return self.known(bubble, &mended, at);
        }
        match serde_json::from_slice::<&RawValue>(&mended) {
            Ok(raw) if raw.get().starts_with('{') => self.other(raw),
            _ => self.sink.accept(Record::bad(at, "not a JSON object")),
        }
    }

    fn known(&mut self, bubble: Bubble<'_>, bytes: &[u8], at: u64) -> Result<()> {
        match bubble.side() {
            Side::User => {
                self.flush()?;
                self.answer = None;
                self.model = bubble.model();
                match bubble.prompt() {
                    Some(message) => self.emit(message),
                    None => self.sink.accept(Record::passed(at, "empty bubble")),
                }
            }
            Side::Assistant => {
                let (message, result) = bubble.answer();
                self.answer(message, result, at)
            }
            Side::Unknown => match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(raw) => self.other(raw),
                Err(_) => self.sink.accept(Record::bad(at, "not a JSON object")),
            },
        }
    }

    fn answer(&mut self, mut message: Message, result: Option<Message>, at: u64) -> Result<()> {
        let says = message.blocks.iter().any(|block| matches!(block, Block::Text(_)));
        let calls = message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if message.blocks.is_empty() && message.usage.is_none() && !message.failed {
            return self.sink.accept(Record::passed(at, "empty bubble"));
        }
        if message.model.is_none() {
            message.model = self.model.clone();
        }
        self.has_usage |= message.usage.is_some();
        message = self.fold(message)?;
        if !says && !calls && !message.failed {
            self.pending = Some(message);
            return Ok(());
        }
        if says || self.answer.is_none() {
            self.answer = message.uuid.clone();
        } else {
            message.api_id = self.answer.clone();
        }
        self.once(message, result)
    }

    /// Puts what was waiting for its words in front of them.
    fn fold(&mut self, mut message: Message) -> Result<Message> {
        let Some(mut first) = self.pending.take() else { return Ok(message) };
        if first.usage.is_some() && message.usage.is_some() {
            self.pending = Some(first);
            self.flush()?;
            return Ok(message);
        }
        first.part_uuids.extend(message.uuid.take());
        first.blocks.append(&mut message.blocks);
        first.extensions.append(&mut message.extensions);
        Ok(Message {
            uuid: first.uuid,
            part_uuids: first.part_uuids,
            at: first.at.or(message.at),
            usage: first.usage.or(message.usage),
            blocks: first.blocks,
            extensions: first.extensions,
            ..message
        })
    }

    /// Tells a call and its result under an id that no earlier call has.
    fn once(&mut self, mut message: Message, mut result: Option<Message>) -> Result<()> {
        let own = message.part_uuids.last().or(message.uuid.as_ref()).cloned().unwrap_or_default();
        for block in &mut message.blocks {
            let Block::ToolCall { id, .. } = block else { continue };
            if self.calls.insert(id.clone()) {
                continue;
            }
            id.clone_from(&own);
            self.calls.insert(own.clone());
            for block in result.iter_mut().flat_map(|result| &mut result.blocks) {
                if let Block::ToolResult { call_id, .. } = block {
                    call_id.clone_from(&own);
                }
            }
        }
        self.emit(message)?;
        result.map_or(Ok(()), |result| self.emit(result))
    }

    fn other(&mut self, raw: &RawValue) -> Result<()> {
        self.flush()?;
        let blocks = vec![Block::Other(Json::from(raw))];
        self.emit(Message { blocks, ..Message::default() })
    }

    fn flush(&mut self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |message| self.emit(message))
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        if !self.is_told {
            self.is_told = true;
            self.session.cwd = self.session.cwd.take().or_else(|| message.cwd.clone());
            self.sink.accept(Record::Session(Box::new(self.session.clone())))?;
        }
        self.sink.accept(Record::Message(Box::new(message)))
    }

    /// Ends the conversation with what it cost, where that is recorded and tokens are not.
    /// Returns whether there was a conversation at all.
    pub(super) fn finish(mut self, costs: Vec<(String, u64)>) -> Result<bool> {
        self.flush()?;
        if !self.is_told || self.has_usage {
            return Ok(self.is_told);
        }
        let at: Option<Timestamp> = self.session.ended_at;
        for (model, cost) in costs {
            let usage = Usage {
                identity: Some(format!("{} {model}", self.session.id.native)),
                cost_micros: Some(cost),
                ..Usage::default()
            };
            let said = BTreeMap::from([("costInCents", cost as f64 / 10_000.0)]);
            self.emit(Message {
                at,
                model: Some(model),
                usage: Some(usage),
                blocks: vec![Block::Other(Json::from_value(&said))],
                ..Message::default()
            })?;
        }
        Ok(true)
    }
}
